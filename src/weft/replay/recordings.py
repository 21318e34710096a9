"""Recordings: sessions that were kept as files, ours or those of other programs.

A file holds one recording or, a line each, many; it may be packed with gzip. Four forms are
read: a session as Weft and ADK write it; chat messages with tool calls; a request as a provider
took it, with the tools that it declares; and the runs of coding agents, which are plain texts
where everything the user side says after the task is what a command printed. Those become results
of a call, since that is what they are to a policy.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple, cast

import msgspec

from weft.compiler.view import blocks_of
from weft.content import Content, Part, call_part, media_part, opaque_part, result_part, text_part
from weft.declare import Tool
from weft.declare.tool import NAME, RESERVED
from weft.diagnostics import Origin
from weft.dialects import CHAT, DIALECTS, Dialect, dialect_named, dialect_of
from weft.dialects.track import LoweringReport
from weft.dialects.wire import ReadOutput, ReadPart, ReadTool, ReadTurn, difference
from weft.errors import SessionError, UsageError
from weft.ir import Block, Feature, Item, Output, Prompt, Role, TextBlock, ToolDecl
from weft.ir.item import RECALL, ItemKind
from weft.session import Event, Session
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, Strand

AGENT = "agent"
"""Who speaks for the model in a recording that names nobody."""

COMMAND = "run"
"""The tool whose results are what a coding agent's commands printed."""

_TASK = 3
"""How many messages set a coding agent its task; later ones of the user side are results."""

_FORMS = 'a recording is a session with "events", or {"messages": [...]} with roles, or a request'


class Recording(NamedTuple):
    """A session to compile again, the system text that each of its agents had, and their tools."""

    id: str
    session: Session
    instructions: Mapping[str, str]
    tools: tuple[Tool, ...] = ()


def read_recordings(data: bytes, *, name: str) -> Iterator[Recording]:
    """The recordings in a file's bytes, one by one; an error names the line."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise SessionError(f"it cannot be unpacked: {error}", where=name) from None
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise SessionError("there is no recording in it", where=name, hint=_FORMS)
    if _is_whole(lines[0][1]):
        for number, line in lines:
            yield _recording(line, number, name=f"{name}:{number}")
        return
    for number, raw in enumerate(_listed(data, name), 1):
        yield _recording(bytes(raw), number, name=f"{name}: recording {number}")


def recording_of(session: Session) -> Recording:
    """A session of ours; what its agents were told is in no log."""
    return Recording(session.id, session, {})


def _is_whole(line: bytes) -> bool:
    """Whether the first line is a recording of its own."""
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (ValueError, RecursionError):
        return line.strip() not in (b"{", b"[") and not line.lstrip().startswith(b"[")


def _listed(data: bytes, name: str) -> list[msgspec.Raw]:
    """The recordings of a file that is one JSON value over several lines."""
    if not data.lstrip().startswith(b"["):
        return [msgspec.Raw(data)]
    try:
        return msgspec.json.decode(data, type=list[msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise SessionError(f"this is not JSON: {error}", where=name, hint=_FORMS) from None


def _recording(data: bytes, number: int, *, name: str) -> Recording:
    try:
        parsed = cast("object", msgspec.json.decode(data))
    except (ValueError, RecursionError) as error:
        raise SessionError(f"this is not JSON: {error}", where=name, hint=_FORMS) from None
    raw = cast("JsonObject", parsed) if isinstance(parsed, dict) else {}
    if isinstance(raw.get("events"), list):
        return recording_of(Session.from_json(data, name=name))
    label = str(raw.get("id") or number)
    inner = raw.get("request")
    request = inner if isinstance(inner, dict) else raw
    named = raw.get("dialect")
    dialect = named if isinstance(named, str) and named in DIALECTS else dialect_of(request)
    if dialect and (dialect != CHAT or "model" in request):
        return _RecordedRequest(name).read(label, dialect, request)
    messages = request.get("messages")
    if not isinstance(messages, list):
        raise SessionError("this is no recording", where=name, hint=_FORMS)
    chat = _Chat(name).recording(label, messages, is_request="tools" in request)
    return chat._replace(tools=_declared({"tools": request.get("tools")}, name))


def _declared(request: JsonObject, where: str) -> tuple[Tool, ...]:
    """The functions that a chat declares; what a provider runs itself is none of them."""
    try:
        declared = dialect_named(CHAT).read(request).tools if request.get("tools") else ()
    except UsageError as error:
        raise SessionError(error.message, where=f"{where}: {error.where}", hint=_FORMS) from None
    return tools_of(declared)


def tools_of(declared: Iterable[ReadTool]) -> tuple[Tool, ...]:
    """Declarations as tools that can be declared again; names of Weft's own are left out."""
    by_name: dict[str, Tool] = {}
    for one in declared:
        name = one.name
        if not one.own and NAME.fullmatch(name) and name not in (*RESERVED, RECALL):
            parameters = one.parameters or {"type": "object", "properties": {}}
            about = one.description
            by_name.setdefault(name, Tool(name=name, description=about, parameters=parameters))
    return tuple(by_name.values())


class _Chat:
    """Reads the messages of one chat, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[Event] = []
        self.system: list[str] = []
        self.turn = 0

    def recording(self, id: str, messages: list[Json], *, is_request: bool = False) -> Recording:
        """The whole chat as a session of one agent; what ends a request was answered."""
        plain = all(isinstance(one, dict) and "text" in one for one in messages)
        for index, message in enumerate(messages):
            where = f"{self.name}: messages[{index}]"
            if not isinstance(message, dict):
                raise SessionError("a message is an object", where=where, hint=_FORMS)
            follows = messages[index + 1] if index + 1 < len(messages) else None
            self._take(message, index, follows if plain else None, plain=plain, where=where)
        return self._ended(id, is_request=is_request)

    def _ended(self, id: str, *, is_request: bool) -> Recording:
        last = self.events[-1].content if self.events else None
        if is_request and last is not None and last.role == "user":
            self._say(AGENT, "model", [])
        session = Session(id, events=self.events)
        return Recording(id, session, {AGENT: "\n\n".join(self.system)})

    def _take(
        self, message: JsonObject, index: int, follows: Json, *, plain: bool, where: str
    ) -> None:
        role = message.get("role")
        if role in ("system", "developer"):
            self.system.append("".join(part.text or "" for part in _parts(message, where)))
        elif role == "assistant":
            parts = [*_parts(message, where), *_calls(message, where)]
            answered = isinstance(follows, dict) and follows.get("role") == "user"
            if plain and answered and index + 1 >= _TASK:
                parts.append(call_part(COMMAND, {}, id=f"call_{index}"))
            self._say(AGENT, "model", parts)
        elif role in ("tool", "function"):
            text = "".join(part.text or "" for part in _parts(message, where))
            called = str(message.get("tool_call_id") or "") or None
            name = message.get("name")
            named = name if isinstance(name, str) and name else self._named(called)
            self._say(AGENT, "user", [result_part(named, {"result": text}, id=called)])
        elif role == "user":
            parts = _parts(message, where)
            if plain and index >= _TASK and self._waits(f"call_{index - 1}"):
                response: JsonObject = {"result": "".join(part.text or "" for part in parts)}
                self._say(AGENT, "user", [result_part(COMMAND, response, id=f"call_{index - 1}")])
                return
            self.turn += 1
            self._say("user", "user", parts)
        else:
            raise SessionError(
                f"{role!r} is no role",
                where=where,
                hint="roles are system, developer, user, assistant, tool and function",
            )

    def _say(self, author: str, role: str, parts: list[Part]) -> None:
        number = len(self.events) + 1
        self.events.append(
            Event(
                author=author,
                content=Content(parts=tuple(parts), role=role),
                invocation_id=f"i{max(1, self.turn)}",
                id=f"e{number}",
                timestamp=float(number),
            )
        )

    def _waits(self, id: str) -> bool:
        return bool(self.events) and any(call.id == id for call in self.events[-1].calls)

    def _named(self, id: str | None) -> str:
        """The name of the tool that was called under this id."""
        for event in reversed(self.events):
            for call in event.calls:
                if call.name and (id is None or call.id == id):
                    return call.name
        return COMMAND


class _RecordedRequest(_Chat):
    """Reads a request that a provider took."""

    def read(self, id: str, dialect: str, request: JsonObject) -> Recording:
        """What the request says as a session of one agent, and the tools that it declares."""
        try:
            target = dialect_named(dialect)
            reading = target.read(target.spell(request))
        except UsageError as error:
            where = f"{self.name}: {error.where}"
            raise SessionError(error.message, where=where, hint=_FORMS) from None
        self.system += [one.part.text or "" for one in reading.system]
        for turn in reading.turns:
            self._turn(turn)
        return self._ended(id, is_request=True)._replace(tools=tools_of(reading.tools))

    def _turn(self, turn: ReadTurn) -> None:
        parts = [one.part for one in turn.parts]
        if turn.role == "system":
            self.system += [part.text or "" for part in parts]
        elif turn.role == "model":
            self._say(AGENT, "model", parts)
        else:
            results = [part for part in parts if part.function_response is not None]
            words = [part for part in parts if part.function_response is None]
            if results:
                self._say(AGENT, "user", results)
            if words:
                self.turn += 1
                self._say("user", "user", words)


def _parts(message: JsonObject, where: str) -> list[Part]:
    """The texts and pictures of a message; nothing where it only calls."""
    content = message.get("text") if "text" in message else message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [text_part(content)] if content else []
    if isinstance(content, list):
        return [_piece(one, where) for one in content]
    raise SessionError(
        f"a {type(content).__name__} is no content", where=where, hint="content is text, or a list"
    )


def _piece(piece: Json, where: str) -> Part:
    if isinstance(piece, str):
        return text_part(piece)
    if isinstance(piece, dict):
        text, image = piece.get("text"), piece.get("image_url")
        if isinstance(text, str):
            return text_part(text)
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
            kind, _, data = url.removeprefix("data:").partition(";base64,")
            return media_part(kind, data)
        if isinstance(url, str):
            return text_part(f"[image: {url}]")
    raise SessionError(
        "a piece of this content cannot be read",
        where=where,
        hint='pieces are {"type": "text", "text": ...} or {"type": "image_url", ...}',
    )


def _calls(message: JsonObject, where: str) -> Iterator[Part]:
    """The tool calls of a message; arguments that are no JSON object stay the text they were."""
    listed = message.get("tool_calls")
    for index, call in enumerate(listed if isinstance(listed, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or not name:
            raise SessionError(
                "a call has no function name",
                where=f"{where}.tool_calls[{index}]",
                hint='calls are {"id": ..., "function": {"name": ..., "arguments": "{}"}}',
            )
        id = call.get("id")
        yield call_part(
            str(name), _arguments(function.get("arguments")), id=str(id) if id else None
        )


def _arguments(raw: Json) -> JsonObject:
    if isinstance(raw, dict):
        return raw
    try:
        parsed = cast("object", msgspec.json.decode(raw)) if isinstance(raw, str) else None
    except (ValueError, RecursionError):
        parsed = None
    return cast("JsonObject", parsed) if isinstance(parsed, dict) else {"arguments": raw}


_AGENT = "request"

_ROUNDS = 3


def read_request(dialect: str, wire: JsonObject, model: str = "") -> Prompt:
    """The prompt that a request in this dialect is; `model` where the request does not name it."""
    target = dialect_named(dialect)
    spelled = target.spell(wire)
    named = spelled.get("model")
    name = named if isinstance(named, str) else model
    reader = _Reader(target, name)
    reading = target.read(spelled)
    turns = target.traits.turns
    items = [reader.item(turn, f"{turns}/{at}", at) for at, turn in enumerate(reading.turns)]
    system = [reader.block(one, "system", f"system/{at}") for at, one in enumerate(reading.system)]
    prompt = Prompt(
        model=name,
        agent=_AGENT,
        system=tuple(block for block in system if isinstance(block, TextBlock)),
        items=Strand(item for item in items if item.blocks),
        tools=tuple(map(reader.tool, reading.tools)),
        config={**reading.config},
        output=_output(reading.output, dialect),
        features=Feature.CALLS if any(item.kind == "calls" for item in items) else Feature.NONE,
    )
    return _with_extra(prompt, target, spelled, reading.places)


def _with_extra(
    prompt: Prompt, dialect: Dialect, wire: JsonObject, places: Sequence[str]
) -> Prompt:
    """The prompt with all the options the request has and Weft has no name for, and only those."""
    name = dialect.traits.name
    extra: JsonObject = {}
    for _ in range(_ROUNDS):  # an option may bring another with it: look again
        head, _placed = dialect.head(
            prompt, LoweringReport(dialect=name, strict=False, model=prompt.model)
        )
        missing = difference(_without(head, places), _without(wire, places))
        if not missing:
            break
        extra = _merged(extra, missing)
        config = {**prompt.config, "extra": {name: extra}}
        prompt = msgspec.structs.replace(prompt, config=config)
    return prompt


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    merged = {**one}
    for key, value in other.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _without(wire: JsonObject, places: Sequence[str]) -> JsonObject:
    rest = deepcopy({key: value for key, value in wire.items() if key not in places})
    for place in places:
        *above, last = place.split(".")
        inner = rest
        for key in above:
            below = inner.get(key)
            inner = below if isinstance(below, dict) else {}
        inner.pop(last, None)
    return rest


def _output(output: ReadOutput | None, dialect: str) -> Output | None:
    if output is None:
        return None
    return Output(
        schema=output.schema,
        how="native",
        name=output.name,
        origin=Origin("field", "output_schema"),
        provider=dialect,
        kept=output.beside or None,
    )


class _Reader:
    """One request on its way back: it knows whose words it reads, and for which model."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.dialect = dialect
        self.name = dialect.traits.name
        self.model = model
        self.sink = LoweringReport(dialect=self.name, strict=False, model=model, stores=True)

    def item(self, turn: ReadTurn, event: str, position: int) -> Item:
        """What one side said together, as an item."""
        blocks = [
            self.block(read_part, turn.role, event, part=at, position=position)
            for at, read_part in enumerate(turn.parts)
        ]
        return Item(
            kind=_kind(turn),
            blocks=tuple(blocks),
            author="user" if turn.role == "user" else turn.role,
            invocation="",
            position=position,
            last=position,
            event=event,
        )

    def block(
        self, read_part: ReadPart, role: Role, event: str, *, part: int = 0, position: int = 0
    ) -> Block:
        """A part as a block that lowers to what it was read from."""
        block = self._read(read_part, role, event, position)
        origin = Origin("event", event, role, part=part)
        wire = read_part.wire
        if wire is None:
            assert block is not None
            return msgspec.structs.replace(block, origin=origin)
        spelled = self.dialect.part(block, self.sink) if block is not None else None
        self.sink.take()
        if block is None or spelled is None:
            block = self._read(ReadPart(opaque_part(self.name, wire), wire), role, event, position)
            assert block is not None
            spelled = wire
        extra = difference(spelled, wire)
        if extra or read_part.apart:
            fields = _merged(block.kept or {}, extra)
            return msgspec.structs.replace(block, origin=origin, provider=self.name, kept=fields)
        return msgspec.structs.replace(block, origin=origin)

    def _read(self, read_part: ReadPart, role: Role, event: str, position: int) -> Block | None:
        """The block of a part, made as the parts of a session's events are."""
        maker = Provenance(provider=self.name, model=self.model)
        event_read = Event(
            author=_AGENT,
            id=event,
            content=Content(parts=(read_part.part,), role=role),
            custom_metadata=maker.onto(None) if role == "model" else None,
            timestamp=0.0,
        )
        blocks = blocks_of(event_read, position, role, [])
        return blocks[0] if blocks else None

    def tool(self, read_tool: ReadTool) -> ToolDecl:
        """A tool as it is declared, with what its provider said beside."""
        origin = Origin("tool", read_tool.name)
        if read_tool.own:
            return ToolDecl(read_tool.name, "", {}, origin, provider=self.name, own=read_tool.wire)
        tool = ToolDecl(
            read_tool.name,
            read_tool.description,
            read_tool.parameters or {},
            origin,
            provider=self.name,
        )
        spelled = self.dialect.declaration(tool, self.sink)
        self.sink.take()
        return msgspec.structs.replace(tool, kept=difference(spelled, read_tool.wire) or None)


def _kind(turn: ReadTurn) -> ItemKind:
    kinds = {read_part.part.kind for read_part in turn.parts}
    if "call" in kinds:
        return "calls"
    if "result" in kinds:
        return "results"
    return turn.role
