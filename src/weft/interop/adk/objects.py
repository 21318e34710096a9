"""Objects of google-adk, read by the names of their classes and fields: its events, its templates.

Nothing is imported for it: who has such an object has imported google-adk already.

Events become Weft's, as one agent sees them there. In a template, every run of braces around a name
is a variable: `{{name}}` is not an escape, `{name}}` loses both closing braces, and what comes
after `$` or a backslash is text. Paths into a value, `{order.total}`, are text too.

Top to bottom: fields, events, templates.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

import msgspec

from weft.content import Content
from weft.declare import template
from weft.errors import WeftError, describe_kind
from weft.session import Event, Session
from weft.values import JsonObject, require_json

HOME = "google.adk."
"""Where the classes live; one of the user's that is derived from them has them above it."""

AGENTS = frozenset(("BaseAgent", "BaseNode"))


def kinds(value: object) -> tuple[str, ...]:
    """The names of the google-adk classes that the object's own class is made of."""
    return tuple(
        kind.__name__ for kind in type(value).__mro__ if f"{kind.__module__}.".startswith(HOME)
    )


def is_a(value: object, name: str) -> bool:
    """Whether the object is of a google-adk class of that name, or of one derived from it."""
    return name in kinds(value)


def is_adk(value: object) -> bool:
    """Whether this is an agent, a workflow or an app of google-adk."""
    return not isinstance(value, type) and not {*kinds(value)}.isdisjoint((*AGENTS, "App"))


def field(value: object, name: str) -> object:
    """A field of the object, None where it has none."""
    return cast("object", getattr(value, name, None))


def text(value: object, name: str) -> str:
    """A field that holds text; "" where it does not."""
    string = field(value, name)
    return string if isinstance(string, str) else ""


def flag(value: object, name: str) -> bool:
    """A field that is True or not."""
    return field(value, name) is True


def as_list(value: object, name: str) -> list[object]:
    """A field that holds several things; one thing is a list of it, None an empty one."""
    values = field(value, name)
    if values is None:
        return []
    if not isinstance(values, (list, tuple, set, frozenset)):
        return [values]
    return list(cast("Iterable[object]", values))


def overrides(value: object, method: str) -> bool:
    """Whether a class of the user's says itself what google-adk's would do."""
    for kind in type(value).__mro__:
        if f"{kind.__module__}.".startswith(HOME):
            return False
        if method in vars(kind):
            return True
    return False


def is_own(value: object) -> bool:
    """Whether the object's class is one of google-adk's, and not derived from it."""
    return f"{type(value).__module__}.".startswith(HOME)


def fields_of(value: object) -> tuple[str, ...]:
    """The names of the fields that an object of a model class has."""
    return tuple(cast("Mapping[str, object]", getattr(type(value), "model_fields", {})))


def object_name(value: object) -> str:
    """The object's own name, or the name of its class."""
    return text(value, "name") or type(value).__name__


# --- events

MOST_VIEWS = 64
"""How many views of sessions, and trees, are kept, so that a request costs what is new."""


class EventReader(NamedTuple):
    """A reader of a session: its place in the tree, and how it sees other agents' words."""

    branch: str = ""
    path: str = ""
    """Its node in a workflow."""
    inner: frozenset[str] = frozenset()
    """The agents whose words are data for those after them."""
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
        events = as_list(session, "events")
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
            view.session.append(*_read_events(fresh, reader)) if fresh else view.session,
            calls,
        )
        self._views[key] = view
        while len(self._views) > MOST_VIEWS:
            self._views.popitem(last=False)
        return SeenEvents(view.events, view.session)


def turn_of(
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
        SeenEvents(
            (*asked, *visible), Session(session, events=_read_events([*asked, *visible], reader))
        ),
    )


def state_of(context: object, session: object) -> JsonObject:
    """The state as the callback sees it, without what is not JSON."""
    state = field(context, "state")
    to_dict = field(state, "to_dict")
    values = to_dict() if callable(to_dict) else field(session, "state")
    plain: JsonObject = {}
    for key, value in cast("dict[str, object]", values or {}).items():
        try:
            plain[key] = require_json(value, where=f"state.{key}")
        except WeftError:  # what is not JSON is in no event either
            continue
    return plain


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
    return as_list(field(event, "content"), "parts")


def _opens_turn(event: object, agent: str) -> bool:
    author = text(event, "author")
    if author == agent or not _parts(event):
        return False
    calls = [field(part, "function_call") for part in _parts(event)]
    answers = [field(part, "function_response") for part in _parts(event)]
    handed_over = [one for one in (*calls, *answers) if text(one, "name") == "transfer_to_agent"]
    submitted = author == "user" and any(one is not None for one in answers)
    return not handed_over and not submitted


def _read_events(events: list[object], reader: EventReader) -> list[Event]:
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
        raise TypeError(f"{describe_kind(event)} is not an event of google-adk")
    return cast("str", dump(by_alias=True, exclude_none=True)).encode()


def _id(events: list[object], count: int) -> str:
    return text(events[count - 1], "id") if count else ""


# --- templates

_BRACES = re.compile(r"(?<![\$\{\\]){+[^{}]*}+")
_SCOPES = ("app", "user", "temp")


class Move(NamedTuple):
    """A stretch that stands elsewhere in the spelling: where, and where it was."""

    start: int
    end: int
    was: int
    was_end: int


class SpelledTemplate(NamedTuple):
    """The text as Weft is to read it, what moved in it, and what the two read differently."""

    text: str
    moves: tuple[Move, ...] = ()
    doubled: tuple[Move, ...] = ()
    """Variables that google-adk fills in though their braces are doubled."""
    paths: tuple[Move, ...] = ()
    """Paths into a value, which google-adk leaves as text."""
    source: str = ""
    """The text as its author wrote it."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The position of a rewritten stretch in the author's text."""
        shift = 0
        for move in self.moves:
            if start < move.start:
                break
            if start < move.end:
                return move.was, move.was_end
            shift = move.was_end - move.end
        return start + shift, end + shift


def spell_template(source: str) -> SpelledTemplate:
    """The template, so that Weft's reading of it is google-adk's."""
    if "{" not in source:
        return SpelledTemplate(source)
    pieces: list[str] = []
    length = at = 0
    moves: list[Move] = []
    doubled: list[Move] = []
    paths: list[Move] = []
    for match in _BRACES.finditer(source):
        quiet = literal_text(source[at : match.start()])
        pieces.append(quiet)
        length += len(quiet)
        if len(quiet) > match.start() - at:
            moves.append(Move(length, length, match.start(), match.start()))
        written = match.group()
        inner = written.lstrip("{").rstrip("}").strip()
        text = f"{{{inner}}}" if _is_variable(inner) else literal_text(written)
        move = Move(length, length + len(text), match.start(), match.end())
        if text != written:
            moves.append(move)
        if _is_variable(inner) and written.startswith("{{"):
            doubled.append(move)
        if not _is_variable(inner) and _is_path(inner):
            paths.append(move)
        pieces.append(text)
        length += len(text)
        at = match.end()
    pieces.append(literal_text(source[at:]))
    return SpelledTemplate("".join(pieces), tuple(moves), tuple(doubled), tuple(paths), source)


def fill_template(source: str, state: Mapping[str, object]) -> str | None:
    """The text as google-adk fills it in; None where it needs an artifact or a key that lacks."""
    pieces: list[str] = []
    at = 0
    for match in _BRACES.finditer(source):
        pieces.append(source[at : match.start()])
        at = match.end()
        inner = match.group().lstrip("{").rstrip("}").strip()
        name = inner.removesuffix("?")
        if name.startswith("artifact."):
            return None
        if not _is_variable(inner):
            pieces.append(match.group())
        elif name in state:
            pieces.append("" if state[name] is None else str(state[name]))
        elif name == inner:
            return None
    return "".join((*pieces, source[at:]))


def literal_text(text: str) -> str:
    """The text with every variable's braces doubled, so that Weft leaves it as it is."""
    parsed = template.parse(text)
    pieces: list[str] = []
    for piece in parsed.pieces:
        source = parsed.source[piece.start : piece.end]
        if isinstance(piece, template.Variable):
            pieces.append("{" + _tight(source) + "}")
        elif source != piece.text:  # doubled already: one more pair, so that one is taken away
            pieces.append(source[:1] + "{" + piece.text + "}" + source[-1:])
        else:
            pieces.append(source)
    return "".join(pieces)


def _tight(source: str) -> str:
    return "{" + source[1:-1].strip(" \t") + "}"


def _is_variable(inner: str) -> bool:
    """Whether google-adk fills it in: a name, a scoped name, or an artifact."""
    name = inner.removesuffix("?")
    if name.startswith("artifact."):
        return len(template.parse(f"{{{inner}}}").variables) == 1
    scope, colon, rest = name.partition(":")
    if not colon:
        return name.isidentifier()
    return scope in _SCOPES and rest.isidentifier()


def _is_path(inner: str) -> bool:
    variables = template.parse(f"{{{inner}}}").variables
    return len(variables) == 1 and bool(variables[0].path)
