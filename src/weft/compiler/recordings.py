"""Recordings: sessions that were kept as files, ours or those of other programs.

A file holds one recording or, a line each, many; it may be packed with gzip. Four forms are
read: a session as Weft and ADK write it; chat messages with tool calls; a request as a provider
took it, with the tools that it declares; and the runs of coding agents, which are plain texts
where everything the user side says after the task is what a command printed. Those become results
of a call, since that is what they are to a policy.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from weft.content import Content, Part, call_part, media_part, result_part, text_part
from weft.declare import Tool
from weft.declare.tool import NAME, RESERVED
from weft.dialects import DIALECTS
from weft.dialects.read import CHAT, GivenTool, Turn, dialect_of, read, spelled
from weft.errors import SessionError, UsageError
from weft.ir.handle import RECALL
from weft.session import Event, Session
from weft.values import Json, JsonObject

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
        held = cast("object", msgspec.json.decode(data))
    except (ValueError, RecursionError) as error:
        raise SessionError(f"this is not JSON: {error}", where=name, hint=_FORMS) from None
    raw = cast("JsonObject", held) if isinstance(held, dict) else {}
    if isinstance(raw.get("events"), list):
        return recording_of(Session.from_json(data, name=name))
    said = str(raw.get("id") or number)
    inner = raw.get("request")
    request = inner if isinstance(inner, dict) else raw
    named = raw.get("dialect")
    dialect = named if isinstance(named, str) and named in DIALECTS else dialect_of(request)
    if dialect and (dialect != CHAT or "model" in request):
        return _Request(name).read(said, dialect, request)
    messages = request.get("messages")
    if not isinstance(messages, list):
        raise SessionError("this is no recording", where=name, hint=_FORMS)
    chat = _Chat(name).recording(said, messages, is_request="tools" in request)
    return chat._replace(tools=_declared({"tools": request.get("tools")}, name))


def _declared(request: JsonObject, where: str) -> tuple[Tool, ...]:
    """The functions that a chat declares; what a provider runs itself is none of them."""
    try:
        given = read(CHAT, request).tools if request.get("tools") else ()
    except UsageError as error:
        raise SessionError(error.message, where=f"{where}: {error.where}", hint=_FORMS) from None
    return tools_of(given)


def tools_of(given: Iterable[GivenTool]) -> tuple[Tool, ...]:
    """Declarations as tools that can be declared again; names of Weft's own are left out."""
    found: dict[str, Tool] = {}
    for one in given:
        name = one.name
        if not one.own and NAME.fullmatch(name) and name not in (*RESERVED, RECALL):
            parameters = one.parameters or {"type": "object", "properties": {}}
            about = one.description
            found.setdefault(name, Tool(name=name, description=about, parameters=parameters))
    return tuple(found.values())


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
                held: JsonObject = {"result": "".join(part.text or "" for part in parts)}
                self._say(AGENT, "user", [result_part(COMMAND, held, id=f"call_{index - 1}")])
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


class _Request(_Chat):
    """Reads a request that a provider took."""

    def read(self, id: str, dialect: str, request: JsonObject) -> Recording:
        """What the request says as a session of one agent, and the tools that it declares."""
        try:
            reading = read(dialect, spelled(dialect, request))
        except UsageError as error:
            where = f"{self.name}: {error.where}"
            raise SessionError(error.message, where=where, hint=_FORMS) from None
        self.system += [one.part.text or "" for one in reading.system]
        for turn in reading.turns:
            self._turn(turn)
        return self._ended(id, is_request=True)._replace(tools=tools_of(reading.tools))

    def _turn(self, turn: Turn) -> None:
        parts = [one.part for one in turn.parts]
        if turn.role == "system":
            self.system += [part.text or "" for part in parts]
        elif turn.role == "model":
            self._say(AGENT, "model", parts)
        else:
            results = [part for part in parts if part.function_response is not None]
            said = [part for part in parts if part.function_response is None]
            if results:
                self._say(AGENT, "user", results)
            if said:
                self.turn += 1
                self._say("user", "user", said)


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


def _arguments(given: Json) -> JsonObject:
    if isinstance(given, dict):
        return given
    try:
        held = cast("object", msgspec.json.decode(given)) if isinstance(given, str) else None
    except (ValueError, RecursionError):
        held = None
    return cast("JsonObject", held) if isinstance(held, dict) else {"arguments": given}
