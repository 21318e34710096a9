"""Events of a google-adk session as Weft's, as one agent sees them there."""

from collections import OrderedDict
from typing import NamedTuple, cast

import msgspec

from weft.content import Content
from weft.errors import WeftError, describe_kind
from weft.interop.adk.objects import field, listed, text
from weft.session import Event, Session
from weft.values import JsonObject, require_json

MOST = 64
"""How many views of sessions, and trees, are kept, so that a request costs what is new."""


class EventReader(NamedTuple):
    """A reader of a session: its place in the tree, and how it sees other agents' words."""

    branch: str = ""
    path: str = ""
    """Its node in a workflow."""
    inner: frozenset[str] = frozenset()
    """The agents whose words are data for those behind them."""
    aloud: str = ""
    """The agent itself, where a planner lets it read what it thought."""


class SeenEvents(NamedTuple):
    """An agent's view of a session, as google-adk's events and as a Weft session."""

    events: tuple[object, ...]
    session: Session


class _EventView(NamedTuple):
    read: int
    last: str
    events: tuple[object, ...]
    session: Session
    calls: frozenset[str] = frozenset()


class EventViews:
    """Sessions as agents see them, each event read once."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[str, str, str, EventReader], _EventView] = OrderedDict()

    def whole(self, session: object, reader: EventReader) -> SeenEvents:
        """All that a reader sees; what it sees stands on no branch any more."""
        key = (text(session, "app_name"), text(session, "user_id"), text(session, "id"), reader)
        events = listed(session, "events")
        # taken out and put in again: the view that was used longest ago goes first
        view = self._views.pop(key, None)
        # a session that was rewound, or replaced under its id, is read from the start
        if view is None or len(events) < view.read or _id(events, view.read) != view.last:
            view = _EventView(0, "", (), Session(text(session, "id")))
        calls = view.calls.union(*map(_calls, events[view.read :]))
        fresh = [one for one in events[view.read :] if _belongs(one, reader, calls)]
        view = _EventView(
            len(events),
            _id(events, len(events)),
            (*view.events, *fresh),
            view.session.append(*_read(fresh, reader)) if fresh else view.session,
            calls,
        )
        self._views[key] = view
        while len(self._views) > MOST:
            self._views.popitem(last=False)
        return SeenEvents(view.events, view.session)


def turn(
    seen: SeenEvents, agent: str, invocation: str, reader: EventReader
) -> tuple[SeenEvents, SeenEvents]:
    """The view under include_contents="none", alone and with the user's message before it."""
    start = 0
    for index in range(len(seen.events) - 1, -1, -1):
        if _opens_turn(seen.events[index], agent):
            start = index
            break
    visible = seen.events[start:]
    asked = [
        one
        for one in seen.events[:start]
        if text(one, "author") == "user" and text(one, "invocation_id") == invocation
    ]
    session = seen.session.id
    return (
        SeenEvents(visible, Session(session)),
        SeenEvents((*asked, *visible), Session(session, events=_read([*asked, *visible], reader))),
    )


def state_of(context: object, session: object) -> JsonObject:
    """The state as the callback sees it, without what is no JSON."""
    state = field(context, "state")
    to_dict = field(state, "to_dict")
    values = to_dict() if callable(to_dict) else field(session, "state")
    plain: JsonObject = {}
    for key, value in cast("dict[str, object]", values or {}).items():
        try:
            plain[key] = require_json(value, where=f"state.{key}")
        except WeftError:  # what is no JSON is in no event either
            continue
    return plain


def parts_of(content: object) -> list[object]:
    """The parts of a content, none where there is no content."""
    return listed(content, "parts")


def _belongs(event: object, reader: EventReader, calls: frozenset[str]) -> bool:
    """Whether google-adk shows the event to a reader; `calls` are the ids of all calls."""
    own, branch = text(event, "branch"), reader.branch
    if field(event, "isolation_scope") is not None:
        return False
    path = text(field(event, "node_info"), "path")
    if text(event, "author") == "user" and path not in ("", reader.path):
        return any(field(part, "function_response") for part in _parts(event))
    if not branch and any(step.rpartition("@")[2] in calls for step in own.split(".") if step):
        return False  # what an agent said while it was called as a tool: the call has the result
    return not branch or not own or branch == own or branch.startswith(f"{own}.")


def _calls(event: object) -> set[str]:
    """The ids of the calls in an event."""
    return {text(field(part, "function_call"), "id") for part in _parts(event)} - {""}


def _parts(event: object) -> list[object]:
    return parts_of(field(event, "content"))


def _opens_turn(event: object, agent: str) -> bool:
    author = text(event, "author")
    if author == agent or not _parts(event):
        return False
    calls = [field(part, "function_call") for part in _parts(event)]
    answers = [field(part, "function_response") for part in _parts(event)]
    handed_over = [one for one in (*calls, *answers) if text(one, "name") == "transfer_to_agent"]
    submitted = author == "user" and any(one is not None for one in answers)
    return not handed_over and not submitted


def _read(events: list[object], reader: EventReader) -> list[Event]:
    """The events, by way of their JSON, which both sides write and read."""
    written = [_json(event) for event in events]
    read = Session.from_json(b'{"id":"","events":[' + b",".join(written) + b"]}")
    return [
        msgspec.structs.replace(
            event,
            branch=None,
            audience="internal" if event.author in reader.inner else None,
            content=_aloud(event.content) if event.author == reader.aloud else event.content,
        )
        for event in read.events
    ]


def _aloud(content: Content | None) -> Content | None:
    """The content with its thoughts as text; what is thoughts alone is shown to nobody."""
    if content is None or content.parts is None:
        return content
    hidden = ("thought", "empty")
    if all(part.kind in hidden and not part.thought_signature for part in content.parts):
        return content
    parts = tuple(
        msgspec.structs.replace(part, thought=None) if part.text else part for part in content.parts
    )
    return msgspec.structs.replace(content, parts=parts)


def _json(event: object) -> bytes:
    dump = field(event, "model_dump_json")
    if not callable(dump):
        raise TypeError(f"{describe_kind(event)} is no event of google-adk")
    return cast("str", dump(by_alias=True, exclude_none=True)).encode()


def _id(events: list[object], count: int) -> str:
    return text(events[count - 1], "id") if count else ""
