"""What a workflow node leaves in the log: its decisions, its error, its end."""

from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.runtime.progress import is_failure
from weft.runtime.signals import NodeFailed
from weft.session import Actions, Event
from weft.values import JsonObject


class Record:
    """What a workflow node has left in the log: how it ended, and the last decision it made."""

    __slots__ = ("ended", "failed", "state")

    def __init__(self) -> None:
        self.ended = False
        self.failed: Event | None = None
        self.state: JsonObject = {}

    @staticmethod
    def read(invocation: Invocation, place: Place) -> "Record":
        """The record of the node at a place."""
        record = Record()
        if not invocation.resumed:
            return record
        for event in invocation.past.at(place):
            record.ended = record.ended or bool(event.actions.end_of_agent)
            record.failed = event if is_failure(event) else None
            record.state = {**record.state, **(event.actions.agent_state or {})}
        return record


async def decide(
    invocation: Invocation,
    place: Place,
    name: str,
    state: JsonObject,
    weft: JsonObject | None = None,
) -> None:
    """Keep a decision in the log before acting on it."""
    await invocation.commit(
        invocation.event(name, place, actions=Actions(agent_state=state), weft=weft)
    )


async def failed(
    invocation: Invocation,
    place: Place,
    author: str,
    code: str,
    words: str,
    cause: Exception | None = None,
) -> NodeFailed:
    """An error event that is in the log, as the exception that ends the node."""
    event = await invocation.commit(invocation.event(author, place, error=(code, words)))
    return NodeFailed(event, cause)
