"""A recording: a session in a file of any program, and what was set aside.

Readers of formats fill a `Transcript`, turn by turn. What they cannot turn into events is set aside
with its place and the reason, so that nothing is dropped in silence.
"""

import json
import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple, cast

import msgspec

from weft.content import Content, Part, PartProvenance
from weft.declare import Tool
from weft.declare.provider_tools import ProviderTool
from weft.declare.tool import NAME, RESERVED, to_tools
from weft.dialects import DIALECTS, facts_for
from weft.dialects.wire import (
    ReadTool,
    is_encodable,
    object_in,
    objects_in,
    scrub_surrogates,
    text_at,
)
from weft.digest.acts import are_remarks
from weft.errors import DeclarationError, SessionError
from weft.ir.block import RECALL
from weft.media import base64_bytes
from weft.recordings.exchanges import ExchangeRecord
from weft.session import Actions, Compaction, Event, Session, Usage
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, encode, scrub

AGENT = "agent"
"""Who speaks for the model in a recording that names nobody."""

COMMAND = "run"
"""The tool whose results are what a coding agent's commands printed."""

IMPORTED = "imported"
"""Where the first event of an imported session says, in its metadata, where it came from."""

MOST_PLACES = 3
"""How many places are listed for one thing that was set aside."""

HALF_CHARACTER = ("half a character", "no provider takes a lone surrogate; it is read as U+FFFD")
"""What is put aside, and why, where a text has a surrogate without its pair."""

_SPOKEN = {"claude-code": "anthropic", "codex": "openai-responses", "bedrock": "anthropic"}
"""The dialects of programs that speak only one."""


@dataclass(frozen=True)
class Aside:
    """Something in a file that is not in the session: what it is, why, and where it stood."""

    what: str
    why: str
    count: int
    places: tuple[str, ...]
    """The first few."""

    def __str__(self) -> str:
        return f"{self.count:,} x {self.what}: {self.why} (first: {self.places[0]})"

    def as_json(self) -> JsonObject:
        """For machines."""
        return {"what": self.what, "why": self.why, "count": self.count, "places": [*self.places]}


class RecordedCall(NamedTuple):
    """The id of a call's answer, and of the answer that its request goes on from; often empty.

    `time` is when it was made, 0 if unknown. `failed` says that its answer is an error. `record` is
    a hash of all that was recorded of it.
    """

    id: str = ""
    follows: str = ""
    time: float = 0.0
    failed: bool = False
    record: int = 0


class Recording(NamedTuple):
    """A session to compile again, the system text that each of its agents had, and their tools."""

    id: str
    session: Session
    instructions: Mapping[str, str]
    tools: tuple[Tool, ...] = ()
    declared: tuple[Tool, ...] = ()
    """The tools as they were declared, also those that the provider ran: for compiling it back."""
    format: str = "weft"
    """The format it was read from, one of `weft.recordings.FORMATS`."""
    model: str = ""
    """The model that answered last, where the recording names it."""
    config: JsonObject = {}
    """The options of a recorded request."""
    output: JsonObject | None = None
    """The schema of its answer."""
    asks: str = ""
    """The agent whose answer is missing: the recording ends with a request."""
    call: RecordedCall | None = None
    """Set if it is one request to a provider, with or without its answer."""
    answers: frozenset[str] | None = None
    """In a log of calls: the events whose requests were recorded. None: those of all answers."""
    aside: tuple[Aside, ...] = ()
    excused: frozenset[str] = frozenset()
    """Places of the file that were left out on purpose, such as a branch that was given up."""
    source: str = ""
    """The file, and the line or number in it."""
    exchanges: tuple[ExchangeRecord, ...] = ()
    """The calls as they were recorded, where the file holds requests; `exchanges_of` has all."""
    parent: str = ""
    """The id of the recording that this one is a fork or a sub-agent of."""
    relation: Literal["", "fork", "sub-agent"] = ""
    forked: int = 0
    """The last call of the parent that both share, or the one that started the sub-agent."""
    warnings: tuple[str, ...] = ()
    """What a reader has to know before relying on the numbers."""
    agent_tools: Mapping[str, tuple[str, ...]] = {}
    """The names of each agent's tools, where the recording has several agents; else empty."""

    @property
    def asked_model(self) -> str:
        """The recorded model, to be asked in the dialect it was asked in; empty if unknown."""
        return self.name_asked(self.model)

    def name_asked(self, model: str) -> str:
        """A model of the recording, to be asked in the dialect it was asked in."""
        dialect = _SPOKEN.get(self.format, self.format)
        if model and "/" not in model and dialect in DIALECTS:
            return f"{dialect}/{model}"
        # somebody had a client for it, also where nobody here knows its name
        facts = facts_for(model) if model else None
        return model if facts is None or facts.known else f"{facts.dialect}/{model}"

    def tools_of(self, agents: Collection[str]) -> tuple[Tool, ...]:
        """The tools that some of the agents had."""
        if not self.agent_tools:
            return self.tools
        names = {name for agent in agents for name in self.agent_tools.get(agent, ())}
        return tuple(tool for tool in self.tools if tool.name in names)

    def is_recorded(self, event: Event) -> bool:
        """Whether the request that an event answers is counted: all are, but in a log of calls.

        A lone call repeats answers that others were.
        """
        if self.answers is not None:
            return event.id in self.answers
        return not self.exchanges or any(one.event == event.id for one in self.exchanges)

    def agents_in(self, lane: str) -> Collection[str]:
        """The agents of a conversation: all, where the recording holds no other."""
        events = self.session.events
        if all((event.isolation_scope or "") == lane for event in events):
            return self.instructions.keys()
        return {event.author for event in events if (event.isolation_scope or "") == lane}

    def instructions_in(self, lane: str) -> list[str]:
        """The system texts of the agents of a conversation."""
        agents = self.agents_in(lane)
        return [text for agent, text in self.instructions.items() if text and agent in agents]

    def started_by(self, whole: "Recording", call_id: str) -> "Recording":
        """The recording as that of a sub-agent, which a call of another conversation started."""
        answers = [one for one in whole.session.events if one.content is not None
                   and one.content.role == "model"]  # fmt: skip
        asked = (
            number for number, event in enumerate(answers, 1)
            if any(call.id == call_id for call in event.calls)
        )  # fmt: skip
        return self._replace(parent=whole.id, relation="sub-agent", forked=next(asked, 0))

    def spoken_by(self, agent: str) -> "Recording":
        """The recording with a name for an agent that has none.

        An agent of that name reads the answers as its own, and those of others as somebody else's.
        """
        # these two formats name their agents
        if agent == AGENT or self.format in ("weft", "adk"):
            return self
        session = self.session
        events = [
            msgspec.structs.replace(event, author=agent) if event.author == AGENT else event
            for event in session.events
        ]
        return self._replace(
            session=Session(session.id, state=session.initial, events=events),
            instructions={
                agent if name == AGENT else name: text for name, text in self.instructions.items()
            },
            asks=agent if self.asks else "",
        )

    def for_store(self) -> Session:
        """The session with a note on its first event: format, model, system texts, what is aside.

        Agents declare their own instructions, so a session has no place for recorded ones. The
        note is plain metadata: nothing of it is sent.
        """
        events = list(self.session.events)
        if not events:
            return self.session
        note: JsonObject = {"format": self.format, "source": self.source}
        if self.model:
            note["model"] = self.model
        if any(self.instructions.values()):
            note["system"] = dict(self.instructions)
        if self.tools:
            note["tools"] = [
                {"name": one.name, "description": one.description, "parameters": one.parameters}
                for one in self.tools
            ]
        if self.agent_tools:
            note["agent_tools"] = {agent: [*names] for agent, names in self.agent_tools.items()}
        answers = [event.id for event in events if self.is_recorded(event)]
        # of a lone request without its answer, what it repeats is all there is
        if answers and (self.answers is not None or self.exchanges):
            note["answers"] = list[Json](sorted(answers))
        if self.aside:
            note["aside"] = [one.as_json() for one in self.aside]
        metadata = {**(events[0].custom_metadata or {}), IMPORTED: note}
        events[0] = msgspec.structs.replace(events[0], custom_metadata=metadata)
        return with_events(self.session, events)


def with_events(session: Session, events: Iterable[Event]) -> Session:
    """The session with other events."""
    return Session(
        session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        state=session.initial,
        events=events,
        last_update_time=session.last_update_time,
    )


def recording_of(session: Session) -> Recording:
    """A session of ours; the log has no system texts and no tools, unless it was imported.

    Then it has the format that it was read from: its requests are what was said before each answer.
    """
    events = session.events
    models = [event.provenance.model or event.model_version for event in events]
    model = next((name for name in reversed(models) if name), "")
    note = (events[0].custom_metadata or {}).get(IMPORTED) if len(events) else None
    system = note.get("system") if isinstance(note, dict) else None
    instructions = {
        name: text
        for name, text in (system if isinstance(system, dict) else {}).items()
        if isinstance(text, str)
    }
    answers = note.get("answers") if isinstance(note, dict) else None
    listed = objects_in(note.get("tools")) if isinstance(note, dict) else []
    format = note.get("format") if isinstance(note, dict) else None
    agent_tools = object_in(note.get("agent_tools")) if isinstance(note, dict) else {}
    return Recording(
        session.id,
        session,
        instructions,
        tools=tuple(
            Tool(
                name=text_at(one, "name"),
                description=text_at(one, "description"),
                parameters=object_in(one.get("parameters")),
            )
            for one in listed
            if NAME.fullmatch(text_at(one, "name"))
        ),
        format=format if isinstance(format, str) else "weft",
        model=model,
        answers=frozenset(map(str, answers)) if isinstance(answers, list) else None,
        agent_tools={
            agent: tuple(map(str, names))
            for agent, names in agent_tools.items()
            if isinstance(names, list)
        },
    )


class Transcript:
    """Events as they are read from one file, in order."""

    def __init__(self, where: str, *, format: str, provider: str = "") -> None:
        self.where = where
        self.format = format
        self.provider = provider
        """The dialect that signatures and opaque parts belong to."""
        self.events: list[Event] = []
        self.system: list[str] = []
        self.tools: tuple[Tool, ...] = ()
        self.declared: tuple[Tool, ...] = ()
        self.model = ""
        self.config: JsonObject = {}
        self.output: JsonObject | None = None
        self.place = where
        """Where the message stands that is being read."""
        self.excused: set[str] = set()
        self.failed = False
        """Whether an error stood in the place of the answer."""
        self.reply: str | None = None
        """The id of the answer to a request; empty where it has none."""
        self._turn = 0
        self._aside = Asides()
        self._names: dict[str, str] = {}

    def user(self, parts: Iterable[Part], *, time: float | None = None) -> None:
        """The user says something, which begins a turn; but what a program says beside results."""
        offered = list(parts)
        parts = self._readable(offered)
        if offered and not parts:  # it was nothing but media that cannot be read
            return
        last = self.events[-1] if self.events else None
        if last is None or not last.results or not are_remarks(parts):
            self._turn += 1
        self._add(Event(author="user", content=_content(parts, "user")), time)

    def answer(
        self,
        parts: Iterable[Part],
        *,
        time: float | None = None,
        model: str = "",
        usage: Usage | None = None,
        counts: Mapping[str, Json] | None = None,
        cache_write: int | None = None,
        cache_lifetime: str | None = None,
        cost: float | None = None,
        finish_reason: str | None = None,
        error: str | None = None,
        place: str = "",
    ) -> None:
        """The model answers. `counts` are its tokens under any names, where `usage` is not read."""
        self.place = place or self.place
        if counts:
            usage, cache_write = read_counts(counts), read_written(counts)
        parts = self._readable(parts)
        for part in parts:
            if part.function_call is not None and part.function_call.id:
                if part.function_call.id in self._names:
                    why = "an earlier call has it too; the later one is sent under another"
                    self.put_aside("id of a call", why, self.place)
                self._names[part.function_call.id] = part.function_call.name or ""
        self.model = model or self.model
        maker = Provenance(
            provider=self.provider or None,
            model=model or None,
            cache_write=cache_write,
            cache_lifetime=cache_lifetime,
            stated_cost=cost,
        )
        event = Event(
            author=AGENT,
            content=_content(parts, "model"),
            usage=usage,
            finish_reason=finish_reason,
            error_code=error,
            custom_metadata=maker.onto(None) if maker != Provenance() else None,
            model_version=model or None,
        )
        self._add(event, time)

    def results(self, parts: Iterable[Part], *, time: float | None = None) -> None:
        """Tools return; results of calls that the model made together are one event."""
        parts = [self._with_name(part) for part in self._readable(parts)]
        last = self.events[-1] if self.events else None
        if last is not None and last.author == AGENT and last.results and last.content is not None:
            content = _content((*(last.content.parts or ()), *parts), "user")
            self.events[-1] = msgspec.structs.replace(last, content=content)
            return
        self._add(Event(author=AGENT, content=_content(parts, "user")), time)

    def summary(self, parts: Iterable[Part], *, time: float | None = None) -> None:
        """A summary takes the place of all that was said before it."""
        # there is nothing before it that it could stand for
        if not self.events:
            self.user(parts, time=time)
            return
        content = _content(self._readable(parts), "user")
        first, last = self.events[0].timestamp, self.events[-1].timestamp
        compaction = Compaction(
            start_timestamp=first, end_timestamp=last, compacted_content=content
        )
        self._turn += 1
        self._add(Event(author="user", actions=Actions(compaction=compaction)), time)

    def put_aside(self, what: str, why: str, place: str) -> None:
        """Note something that is not in the session."""
        self._aside.add(what, why, place)

    def leave_out(self, what: str, why: str, place: str) -> None:
        """Note a whole message or line that rightly is not part of the conversation."""
        self.excused.add(place)
        self.put_aside(what, why, place)

    def put_fields_aside(
        self, fields: JsonObject, known: Container[str], of: str, place: str
    ) -> None:
        """Note the fields of something that its reader does not know; empty ones say nothing."""
        for name, value in fields.items():
            if name not in known and value not in (None, False, "", [], {}):
                self.put_aside(f"`{name}` of a {of}", "no event has such a field", place)

    def name_of(self, call_id: str | None) -> str:
        """The name of the tool that was called under this id."""
        return self._names.get(call_id or "", "")

    def has_call(self, call_id: str) -> bool:
        """Whether a call was made under this id."""
        return call_id in self._names

    @property
    def is_waiting(self) -> bool:
        """Whether the user side spoke last."""
        last = self.events[-1].content if self.events else None
        return last is not None and last.role == "user"

    def recording(self, id: str, *, answered: bool = True) -> Recording:
        """All of it; if not `answered`, it ends with a request whose answer is missing."""
        if not self.events and not self.system:
            raise SessionError(
                "there is no message in it",
                where=self.where,
                hint="; ".join(map(str, self.aside)) or "is the file complete?",
            )
        return Recording(
            id=id,
            session=Session(id, events=self.events),
            instructions={AGENT: "\n\n".join(self.system)},
            tools=self.tools,
            declared=self.declared,
            format=self.format,
            model=self.model,
            config=self.config,
            output=self.output,
            asks="" if answered else AGENT,
            aside=self.aside,
            excused=frozenset(self.excused),
            source=self.where,
        )

    @property
    def aside(self) -> tuple[Aside, ...]:
        """What was set aside so far."""
        return self._aside.collect()

    def _readable(self, parts: Iterable[Part]) -> list[Part]:
        """The parts without media whose data is not base64; those are set aside."""
        return [
            one for part in parts if (one := readable_media(part, self._unreadable)) is not None
        ]

    def _unreadable(self, what: str, why: str) -> None:
        self.put_aside(what, why, self.place)

    def _with_name(self, part: Part) -> Part:
        """A result with the name of its call, where it has none itself."""
        result = part.function_response
        if result is None or result.name:
            return part
        named = msgspec.structs.replace(result, name=self.name_of(result.id) or COMMAND)
        return msgspec.structs.replace(part, function_response=named)

    def _add(self, event: Event, time: float | None) -> None:
        before = self.events[-1].timestamp if self.events else 0.0
        self.events.append(
            msgspec.structs.replace(
                event,
                invocation_id=f"i{max(1, self._turn)}",
                id=f"e{len(self.events) + 1}",
                # each is later than the one before: a summary covers events by their times
                timestamp=max(before + 1e-6, time) if time is not None else before + 1.0,
            )
        )


def _content(parts: Iterable[Part], role: str) -> Content:
    return Content(parts=tuple(parts), role=role)


Report = Callable[[str, str, str], None]
"""Takes what is set aside, why, and its place."""

FORMS = 'a recording is a session with "events", or {"messages": [...]} with roles, or a request'


def read_json(data: bytes | str, where: str, report: Report) -> Json:
    """Parse a JSON text; an error says why it is not JSON.

    Writers in Python and JavaScript leave halves of characters and numbers such as NaN, which JSON
    does not have. They are mended, and reported.
    """
    try:
        return cast("Json", msgspec.json.decode(data))
    except UnicodeDecodeError as error:
        raise SessionError(
            f"this is not UTF-8: {error.reason} at byte {error.start}",
            where=where,
            hint="save the file as UTF-8",
        ) from None
    except (ValueError, RecursionError) as error:
        problem = error
    odd: list[str] = []
    try:
        value = cast("Json", json.loads(data, parse_constant=odd.append))
    except (ValueError, RecursionError):
        raise SessionError(_why_not_json(data, problem), where=where, hint=FORMS) from None
    for number in odd:
        report(f"number {number}", "JSON has no such number; it is read as null", where)
    return replace_surrogates(value, where, report)


def _why_not_json(data: bytes | str, problem: Exception) -> str:
    """What is wrong with a text that is not JSON; one that does not look like it is quoted."""
    if isinstance(problem, RecursionError):
        return "it nests too deep"
    text = data if isinstance(data, str) else data[:200].decode("utf-8", "replace")
    begins = text.strip()[:30]
    if not begins or begins[0] in '{["0123456789-':
        return f"this is not JSON: {problem}"
    if "\ufffd" in begins or not begins.replace("\n", "").isprintable():
        return "this is not text"
    return f"this is not JSON: it begins with {begins!r}"


def parse_json(data: bytes | str) -> object:
    """Parse JSON; None where it is not JSON. Half a character is kept."""
    try:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        return cast("object", msgspec.json.decode(raw))
    except (ValueError, RecursionError):
        pass
    try:
        return cast("object", json.loads(data))  # half an emoji, which only the slow reader takes
    except (ValueError, RecursionError):
        return None


def replace_surrogates(value: Json, where: str, report: Report) -> Json:
    """Replace the lone surrogates in a value."""
    if is_encodable(value):
        return value
    report(*HALF_CHARACTER, f"{where}{_unencodable_place(value)}")
    return scrub_surrogates(_remove_checksums(value, where) if isinstance(value, dict) else value)


def _remove_checksums(value: JsonObject, where: str) -> JsonObject:
    """Remove the checksums of a session of ours: they are of the text before it is mended."""
    events = value.get("events")
    if not isinstance(events, list) or not any("checksum" in one for one in _objects(events)):
        return value
    # check for damage while the checksums are still there
    Session.from_json(encode(value, where=where), name=where)
    return {
        **value,
        "events": [
            {name: field for name, field in event.items() if name not in _CHECKSUMS}
            for event in _objects(events)
        ],
    }


_CHECKSUMS = ("checksum", "sessionChecksum")


def _objects(values: list[Json]) -> list[JsonObject]:
    return [one for one in values if isinstance(one, dict)]


def _unencodable_place(value: Json) -> str:
    """The way to the first text in a value that cannot be encoded."""
    if isinstance(value, list):
        below = next((at for at, one in enumerate(value) if not is_encodable(one)), None)
        return "" if below is None else f"[{below}]{_unencodable_place(value[below])}"
    if isinstance(value, dict):
        key = next((key for key, one in value.items() if not is_encodable(one)), None)
        return "" if key is None else f".{scrub(key)}{_unencodable_place(value[key])}"
    return ""


class Asides:
    """Collects what is set aside, by kind, with the places of each."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}

    @classmethod
    def of(cls, *several: "Asides") -> "Asides":
        """All of them in one."""
        whole = cls()
        for one in several:
            for key, places in one._places.items():
                whole._places.setdefault(key, []).extend(places)
        return whole

    def add(self, what: str, why: str, place: str) -> None:
        """Note one thing."""
        self._places.setdefault((what, why), []).append(place)

    def collect(self) -> tuple[Aside, ...]:
        """Return all of it so far."""
        return tuple(
            Aside(what, why, len(places), tuple(places[:MOST_PLACES]))
            for (what, why), places in self._places.items()
        )


def merge_asides(several: Iterable[Aside]) -> tuple[Aside, ...]:
    """What was set aside in several recordings, by kind; the most frequent first."""
    merged: dict[tuple[str, str], Aside] = {}
    for one in several:
        before = merged.get((one.what, one.why))
        merged[one.what, one.why] = (
            one if before is None else replace(before, count=before.count + one.count)
        )
    return tuple(sorted(merged.values(), key=lambda one: -one.count))


def raise_first(errors: Sequence[SessionError]) -> None:
    """Raise the first of the errors that were met while the rest was read, if there is one."""
    if not errors:
        return
    first, more = errors[0], len(errors) - 1
    also = f"; {more} more could not be read, the next is {errors[1].where}" if more else ""
    raise type(first)(f"{first.message}{also}", where=first.where, hint=first.hint)


def tools_of(declared: Iterable[ReadTool]) -> tuple[Tool, ...]:
    """Declarations as tools that can be declared again; names of Weft's own are left out."""
    by_name: dict[str, Tool] = {}
    for one in declared:
        name = one.name
        if not one.own and NAME.fullmatch(name) and name not in (*RESERVED, RECALL):
            by_name.setdefault(name, _tool_of(one))
    return tuple(by_name.values())


def has_sound_schema(tool: ReadTool) -> bool:
    """Whether the parameters of a tool are a JSON Schema; a provider refuses others."""
    try:
        _declare(tool, tool.parameters or _NO_PARAMETERS)
    except DeclarationError:
        return False
    return True


_Extra = dict[str, JsonObject]
"""The fields of a tool that only one dialect has."""


def _tool_of(tool: ReadTool, extra: _Extra | None = None) -> Tool:
    """A declaration as a tool; parameters that are not a JSON Schema are left open."""
    try:
        return _declare(tool, tool.parameters or _NO_PARAMETERS, extra)
    except DeclarationError:
        return _declare(tool, _NO_PARAMETERS, extra)


def _declare(tool: ReadTool, parameters: JsonObject, extra: _Extra | None = None) -> Tool:
    about = tool.description
    return Tool(name=tool.name, description=about, parameters=parameters, extra=extra or {})


_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}


def declared_tools(
    declared: Iterable[tuple[ReadTool, JsonObject | None]], dialect: str
) -> tuple[Tool, ...]:
    """Declarations as they stood in a request, each with the fields that only its dialect has."""
    by_name: dict[str, Tool] = {}
    for one, extra in declared:
        if not NAME.fullmatch(one.name):
            continue
        if one.own:
            (tool,) = to_tools([ProviderTool(one.name, {dialect: one.wire})], where="recording")
        elif one.name in (*RESERVED, RECALL):
            continue
        else:
            tool = _tool_of(one, {dialect: extra or {}})
        by_name.setdefault(one.name, tool)
    return tuple(by_name.values())


def with_fields(part: Part, provider: str, fields: JsonObject) -> Part:
    """The part with what its provider said next to it."""
    if not fields:
        return part
    notes = PartProvenance(provider=provider, fields={**(part.provenance.fields or {}), **fields})
    return msgspec.structs.replace(part, part_metadata=notes.onto(part.part_metadata))


def readable_media(part: Part, report: Callable[[str, str], None]) -> Part | None:
    """The part, a result without its unreadable media, or None for media that are unreadable.

    Providers refuse a whole request for one file whose base64 is broken.
    """
    blob, result = part.inline_data, part.function_response
    if blob is not None and (why := _broken_base64(blob.data)):
        report(f"media ({blob.mime_type or 'unknown type'})", why)
        return None
    if result is None or not result.parts:
        return part
    readable: list[JsonObject] = []
    for one in result.parts:
        inline = one.get("inlineData") or one.get("inline_data")
        fields = inline if isinstance(inline, dict) else {}
        if fields and (why := _broken_base64(fields.get("data"))):
            kind = fields.get("mimeType") or fields.get("mime_type") or "unknown type"
            report(f"media ({kind}) of a result", why)
        else:
            readable.append(one)
    if len(readable) == len(result.parts):
        return part
    whole = msgspec.structs.replace(result, parts=readable or None)
    return msgspec.structs.replace(part, function_response=whole)


def show_media(part: Part, parts: Iterable[Part]) -> Part:
    """A result with the media among some parts."""
    media = [cast("JsonObject", msgspec.to_builtins(one)) for one in parts if one.kind == "media"]
    if not media or part.function_response is None:
        return part
    result = msgspec.structs.replace(part.function_response, parts=media)
    return msgspec.structs.replace(part, function_response=result)


def is_base64(data: str) -> bool:
    """Whether a text is data that can be decoded."""
    return not _broken_base64(data)


def _broken_base64(data: Json) -> str:
    """Why these data cannot be decoded; empty where they can."""
    if not isinstance(data, str) or not data:
        return "it has no data"
    try:
        base64_bytes(data)
    except ValueError as error:
        return f"its data is not base64: {str(error).lower()}"
    return ""


_LATEST = 1e20
"""From this number of nanoseconds on it is not a time."""

_DIGITS = 20
"""How many digits a number may have: nanoseconds have nineteen."""

_MOST_TOKENS = 2**53
"""A number from which on it counts no tokens."""


def is_count(value: str) -> bool:
    """Whether a text is a whole number, as databases export them."""
    return value.isdecimal() and value.isascii() and len(value) <= _DIGITS


def seconds(moment: Json) -> float | None:
    """An ISO time, or a number, as seconds; None where it is neither."""
    if isinstance(moment, bool) or not isinstance(moment, (str, int, float)):
        return None
    if not isinstance(moment, str):
        return float(moment) if abs(moment) < _LATEST else None
    try:
        return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def read_usage(prompt: Json, output: Json, cached: Json = None) -> Usage | None:
    """Read the tokens of an answer, None where it has none; `prompt` counts cached ones too."""
    prompt, output, cached = map(_whole_number, (prompt, output, cached))
    if prompt is None or output is None:
        return None
    return Usage(
        prompt_token_count=prompt,
        candidates_token_count=output,
        total_token_count=prompt + output,
        cached_content_token_count=cached,
    )


_COUNTS: Mapping[str, tuple[str, ...]] = {
    "input": ("prompt_tokens", "input_tokens", "promptTokens", "inputTokens", "prompt", "input",
              "input_token_count", "promptTokenCount", "prompt_token_count"),
    "output": (
        "completion_tokens", "output_tokens", "completionTokens", "outputTokens", "completion",
        "output", "output_token_count", "candidatesTokenCount", "candidates_token_count",
    ),
    "cached": (
        "cache_read_input_tokens", "cached_tokens", "cache_read_tokens", "cached_input_tokens",
        "cacheReadInputTokens", "cachedInputTokens", "input_tokens_cache_read", "cached",
        "input_cached_tokens", "input_cache_read", "cache_read", "cacheRead",
        "cacheReadTokens", "cachedContentTokenCount", "cached_content_token_count",
    ),
    "written": (
        "cache_creation_input_tokens", "cache_write_tokens", "cacheWriteInputTokens",
        "input_tokens_cache_write", "cacheWrite",
    ),
    "thoughts": ("thoughtsTokenCount", "thoughts_token_count", "thoughts", "reasoning_tokens",
                 "reasoningTokens"),
    "tool": ("toolUsePromptTokenCount", "tool_use_prompt_token_count", "tool"),
    "total": ("total_tokens", "totalTokens", "totalTokenCount", "total_token_count", "total"),
}  # fmt: skip
"""What programs call the tokens of an answer."""

_APART = (
    "cache_read_input_tokens", "cacheReadInputTokens", "input_tokens_cache_read",
    "input_cached_tokens", "input_cache_read", "cacheRead",
)  # fmt: skip
"""Names of cached tokens that are not part of the input tokens next to them."""


def read_counts(counts: Mapping[str, Json]) -> Usage | None:
    """Read the tokens of an answer under any of their names; None where there are none."""
    tokens, named = _find_counts(counts)
    if "input" not in tokens and "output" not in tokens:
        return None
    prompt, output = tokens.get("input"), tokens.get("output")
    if prompt is not None:
        total = _whole_number(counts.get("total_tokens"))
        # OpenAI's name for the input covers what was cached, and so does a total that adds up
        is_whole = named["input"].startswith("prompt") or total == prompt + (output or 0)
        is_apart = any(name in counts for name in _APART) and not is_whole
        if is_apart or tokens.get("cached", 0) > prompt:
            prompt += tokens.get("cached", 0) + tokens.get("written", 0)
    thoughts = _thoughts_apart(tokens, prompt or 0, output or 0, name=named.get("thoughts", ""))
    return Usage(
        prompt_token_count=prompt,
        candidates_token_count=output,
        total_token_count=(prompt or 0) + (output or 0) + (thoughts or 0),
        cached_content_token_count=tokens.get("cached"),
        thoughts_token_count=thoughts,
        tool_use_prompt_token_count=tokens.get("tool") or None,
    )


def read_written(counts: Mapping[str, Json]) -> int | None:
    """Read how many of the tokens were written to the cache, which costs more; None if none."""
    return _find_counts(counts)[0].get("written") or None


_COSTS = (
    "costUSD", "cost_usd", "response_cost", "calculatedTotalCost", "totalCost", "total_cost",
    "cost",
)  # fmt: skip
"""What recorders call the US dollars that a call cost, its request and its answer together."""


def read_cost(row: Mapping[str, Json]) -> float | None:
    """The US dollars that a file says a call cost; None where it says nothing, or 0.

    A program that does not know the price writes 0, and so does one with a flat rate.
    """
    usage, details = object_in(row.get("usage")), object_in(row.get("costDetails"))
    listed = [*(row.get(key) for key in _COSTS), details.get("total"), usage.get("cost")]
    for cost in listed:
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < math.inf:
            return float(cost)
    return None


def with_counts(event: Event, counts: Mapping[str, Json]) -> Event:
    """The answer with what was counted, where that says more."""
    written = read_written(counts)
    note = Provenance(cache_write=written).onto(event.custom_metadata) if written else None
    return msgspec.structs.replace(
        event,
        usage=read_counts(counts) or event.usage,
        custom_metadata=note or event.custom_metadata,
    )


def with_cost(event: Event, cost: float | None) -> Event:
    """The answer with what the file says it cost."""
    if cost is None:
        return event
    notes = msgspec.structs.replace(event.provenance, stated_cost=cost)
    return msgspec.structs.replace(event, custom_metadata=notes.onto(event.custom_metadata))


def _find_counts(counts: Mapping[str, Json]) -> tuple[dict[str, int], dict[str, str]]:
    """The tokens by kind, and the names under which they stand."""
    details = [counts]
    details += [one for key, one in counts.items() if "details" in key and isinstance(one, dict)]
    tokens: dict[str, int] = {}
    named: dict[str, str] = {}
    for kind, names in _COUNTS.items():
        for name in names:
            numbers = (_whole_number(one.get(name)) for one in details)
            value = next((number for number in numbers if number is not None), None)
            if value is not None:
                tokens[kind], named[kind] = value, name
                break
    return tokens, named


def _thoughts_apart(
    tokens: Mapping[str, int], prompt: int, output: int, *, name: str
) -> int | None:
    """The tokens of thoughts, where the output next to them does not contain them.

    Google counts them apart, others within the output; a total says which it is.
    """
    thoughts, total = tokens.get("thoughts"), tokens.get("total")
    if not thoughts or total == prompt + output:
        return None
    adds_up = total == prompt + output + thoughts + tokens.get("tool", 0)
    return thoughts if adds_up or name.startswith("thoughts") else None


def _whole_number(value: Json) -> int | None:
    """A count; databases export numbers as texts."""
    if isinstance(value, str):
        value = int(value) if is_count(value) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < _MOST_TOKENS else None


def find_other_fields(
    raw: JsonObject, known: Container[str], what: str, where: str
) -> Iterator[Aside]:
    """Name the fields next to a conversation that are not part of it."""
    for name, value in raw.items():
        if name not in known and value not in (None, "", [], {}):
            why = "it is not part of the conversation"
            yield Aside(f"`{name}` next to the {what}", why, 1, (where,))


_BY_PROXY = "start the agent with `weft proxy --policy '{policy}' -- COMMAND`; it stays as it is"
_WAYS = {
    "weft": "agent.sees({policy}) for each agent that was recorded; nothing else changes",
    "adk": (
        "from weft.interop.adk import WeftPlugin, then"
        " Runner(..., plugins=[WeftPlugin(context={policy})])"
    ),
    "langchain": (
        "from weft.interop.langchain import WeftMiddleware, then"
        " create_agent(..., middleware=[WeftMiddleware({policy})])"
    ),
    "openai-agents": (
        "from weft.interop.openai_agents import WeftFilter, then"
        " RunConfig(call_model_input_filter=WeftFilter({policy}))"
    ),
    "pydantic-ai": (
        "from weft.interop.pydantic_ai import WeftCapability, then"
        " Agent(..., capabilities=[WeftCapability({policy})])"
    ),
}


def way_to_apply(policy: str, format: str) -> str:
    """What to write so that the program that wrote a format of recordings gets a policy."""
    return _WAYS.get(format, _BY_PROXY).format(policy=policy)
