"""Whom a message goes to: the agent that answered last, or the one whose call it answers."""

from collections.abc import Sequence as Seq

from weft.compiler.build import hidden_by_rewind
from weft.declare import Agent, tree
from weft.errors import SessionError
from weft.runtime.place import Place, path_of
from weft.session import Event, Session


def agent_for(root: Agent, session: Session) -> str:
    """The agent the next message goes to.

    It is the one that answered last, provided it and all above it may hand over to their
    parents: else the conversation could never leave it.
    """
    events = session.events
    hidden: dict[int, str] | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.actions.rewind_before_invocation_id and hidden is None:
            hidden = hidden_by_rewind(events)
        if event.author in ("user", "") or event.isolation_scope or path_of(event):
            continue
        if hidden is not None and index in hidden:
            continue
        path = tree.find(root, event.author)
        if not path:
            continue
        kept = all(
            isinstance(agent, Agent) and not agent.disallow_transfer_to_parent for agent in path[1:]
        )
        return event.author if kept else root.name
    return root.name


def call_for(session: Session, call_ids: Seq[str]) -> Event:
    """The event whose calls these ids answer, or an error that lists the open ones."""
    wanted = set(call_ids)
    answered: set[str] = set()
    waiting: dict[str, str] = {}
    for event in reversed(session.events):
        answered.update(result.id or "" for result in event.results if event.author == "user")
        for call in event.calls:
            if call.id in (event.long_running_tool_ids or ()) and call.id not in answered:
                waiting[call.id or ""] = call.name or ""
        ids = {call.id for call in event.calls}
        if wanted & ids:
            missing = wanted - ids
            if missing:
                raise SessionError(
                    "one message answers calls of different replies",
                    where="message",
                    hint="send the answers one reply at a time",
                )
            return event
    listed = ", ".join(f"{id} ({name})" for id, name in waiting.items()) or "none"
    raise SessionError(
        f"there is no call with the id {', '.join(sorted(wanted))}",
        where="message",
        hint=f"calls that wait for an answer: {listed}",
    )


def place_of(event: Event) -> Place:
    """The place an event was made at."""
    return Place(path_of(event), event.branch or "", event.isolation_scope or "")
