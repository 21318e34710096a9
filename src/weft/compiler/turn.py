"""The current turn: where in the log it begins, and what the user said to begin it."""

from weft.content import Content
from weft.session import Event
from weft.values import Strand


def start_of(events: Strand[Event], invocation: str) -> int:
    """The log index the current turn begins at.

    A turn begins where its invocation does, with what the user asked. A result that comes in a
    later invocation continues the turn of its call.
    """
    for follow in (True, False):  # a result that answers no call at all leads nowhere
        begins = _begins(events, invocation, follow)
        if begins is not None:
            return begins
    index = len(events)
    while index > 0 and events[index - 1].invocation_id == invocation:
        index -= 1
    return index


def _begins(events: Strand[Event], invocation: str, follow: bool) -> int | None:
    """Where the turn begins, going back to the calls of late results if `follow`."""
    asked = False
    sought: set[str | None] = set()
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if asked and not sought and not (invocation and event.invocation_id == invocation):
            return index + 1
        results = event.results
        if follow:
            sought -= {call.id for call in event.calls}
            sought |= {result.id for result in results if result.id}
        if event.author == "user" and event.content is not None and not results and not sought:
            asked = True
    return 0 if asked and not sought else None


def user_content(events: Strand[Event], invocation: str) -> Content | None:
    """What the user said to start the invocation."""
    found: Content | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.invocation_id != invocation:
            break
        if event.author == "user" and not event.results:
            found = event.content
            if not invocation:
                break
    return found
