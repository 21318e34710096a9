"""What a file holds, held against what was read of it.

The count here knows no format and shares nothing with the readers. It walks the JSON of a file and
takes for a call what looks like one in any of them: a name and arguments under an id. A reader that
takes one format for another, or does not know a kind of part, is then found out by what it lost.
"""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from weft.content import Part
from weft.dialects.wire import object_in, text_at
from weft.errors import LostContent
from weft.recordings.recording import Aside, Recording, is_base64
from weft.values import Json, JsonObject

KINDS = ("call", "result", "medium", "text")
"""What is counted."""


class Found(NamedTuple):
    """One thing in a file: what tells it from others, how people call it, and where it stands.

    A call that is `full` has arguments, a result has something that was returned.
    """

    kind: str
    key: str
    label: str
    place: str
    full: bool = False


def require_accounted(
    values: Iterable[tuple[str, Json]],
    recordings: Iterable[Recording],
    *,
    where: str,
    lenient: bool,
) -> list[Recording]:
    """The recordings that were read from some values, each with its place, if nothing is lost.

    A loss is an error that names what was lost and where; if `lenient`, it is set aside, with the
    first recording.
    """
    read = [*recordings]
    lost = _require_none([*_find_lost(values, read)], read, where=where, lenient=lenient)
    return [read[0]._replace(aside=(*read[0].aside, *lost)), *read[1:]] if lost and read else read


def require_tools_called(
    tools: Sequence[tuple[str, str]],
    recordings: Sequence[Recording],
    *,
    where: str,
    lenient: bool,
) -> tuple[Aside, ...]:
    """Refuse recordings that have no call for a tool that ran, given with its name and its place.

    A trace has a row of its own for a tool, next to those of the models that called it. If
    `lenient`, what is missing is returned.
    """
    if not tools:
        return ()
    calls = sum(len(event.calls) for one in recordings for event in one.session.events)
    missing = [
        Found(kind, f"={name}", f"{kind} of `{name}`", place)
        for name, place in [*tools][calls:]
        for kind in ("call", "result")
    ]
    return _require_none(missing, recordings, where=where, lenient=lenient)


def count_parts(recording: Recording) -> dict[str, int]:
    """How much of each kind a recording holds, which is what its file holds, but for asides."""
    counts: dict[str, int] = dict.fromkeys(("messages", "calls", "results", "media"), 0)
    for event in recording.session.events:
        content = event.content
        counts["messages"] += content is not None
        counts["calls"] += len(event.calls)
        counts["results"] += len(event.results)
        for part in (content.parts or ()) if content is not None else ():
            displays = part.function_response.parts if part.function_response is not None else ()
            counts["media"] += (part.kind == "media") + len(displays or ())
    return counts


def find_names(recordings: Iterable[Recording], names: Collection[str]) -> set[str]:
    """The names among some that were called, or that an answer says: code may call a tool."""
    mentioned: set[str] = set()
    for one in recordings if names else ():
        for event in one.session.events:
            mentioned.update(call.name or "" for call in event.calls)
            text = event.text or "" if event.author != "user" else ""
            mentioned.update(name for name in names if name in text)
    return mentioned


def _require_none(
    missing: list[Found], read: Sequence[Recording], *, where: str, lenient: bool
) -> tuple[Aside, ...]:
    if not missing:
        return ()
    if not lenient:
        raise LostContent(
            f"{_sum_up(missing)} would be lost: the first is {missing[0].label} at"
            f" {missing[0].place}, read as {read[0].format if read else 'nothing'}",
            where=where,
            hint="name another --format, or read the rest with --lenient",
        )
    return tuple(
        Aside(f"lost {kind}", "no reader knows its form", len(some), _places(some))
        for kind in KINDS
        if (some := [one for one in missing if one.kind == kind])
    )


def _sum_up(missing: list[Found]) -> str:
    counts = Counter(one.kind for one in missing)
    plural = {"medium": "media"}
    words = [
        f"{counts[kind]:,} {kind if counts[kind] == 1 else plural.get(kind, f'{kind}s')}"
        for kind in KINDS
        if counts[kind]
    ]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _places(some: list[Found]) -> tuple[str, ...]:
    return tuple(one.place for one in some[:3])


def _find_lost(values: Iterable[tuple[str, Json]], recordings: list[Recording]) -> Iterator[Found]:
    """Find what is in the values and in no recording, but for what a reader left on purpose."""
    # readers write `file: messages[3]` where this count has a path
    excused = {_path(place) for one in recordings for place in one.excused}
    contents = _RecordedContents(recordings)
    seen: set[tuple[str, str]] = set()
    nameless: list[Found] = []
    for place, value in values:
        for one in find(value, place):
            has_id = one.kind in ("call", "result") and not one.key.startswith("=")
            if has_id:
                seen.add((one.kind, one.key))
            if contents.has(one) or any(_is_at(_path(one.place), each) for each in excused):
                continue
            if has_id or not one.key.startswith("="):
                yield one
            else:
                nameless.append(one)
    yield from (one for one in nameless if not contents.has_under_new_id(one, seen))


def _path(place: str) -> str:
    return place.replace(": ", ".")


def _is_at(place: str, other: str) -> bool:
    """Whether a place is another one, or inside of it."""
    return place.startswith(other) and place[len(other) : len(other) + 1] in ("", ".", "[")


class _RecordedContents:
    """What recordings hold."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._full: set[tuple[str, str]] = set()
        self._names: dict[tuple[str, str], str] = {}
        """The names of the calls and results that have ids."""
        texts: list[str] = []
        for recording in recordings:
            texts += recording.instructions.values()
            for event in recording.session.events:
                contents = [event.content]
                if event.actions.compaction is not None:
                    contents.append(event.actions.compaction.compacted_content)
                for content in contents:
                    for part in (content.parts or ()) if content is not None else ():
                        texts += self._take(part)
        self._texts = {_plain(text) for text in texts}
        self._blob = "\0".join(self._texts)

    def _take(self, part: Part) -> Iterator[str]:
        """Count a part; yield its texts."""
        call, result = part.function_call, part.function_response
        if call is not None:
            is_full = bool(call.args) or bool(part.provenance.malformed)
            self._add("call", call.id or f"={call.name}", is_full=is_full)
            self._names["call", call.id or ""] = call.name or ""
        if result is not None:
            is_full = _is_full(result.response) or bool(result.parts)
            self._add("result", result.id or f"={result.name}", is_full=is_full)
            self._names["result", result.id or ""] = result.name or ""
        if part.part_metadata is None and part.kind in ("text", "thought"):
            yield part.text or ""
            return
        # what a provider said next to a part is kept with it
        yield from _strings(cast("Json", msgspec.to_builtins(part)))
        if part.opaque is not None:
            # kept as it was: it is what it says, and what stands inside of it is not read
            foreign = object_in(part.opaque[1]).get("type") in _FOREIGN.get(part.opaque[0], ())
            for one in find(part.opaque[1], ""):
                if (one.place == "" and not foreign) or one.kind == "medium":
                    self._add(one.kind, one.key, is_full=True)
        elif part.kind in ("media", "result"):
            for one in find(cast("Json", msgspec.to_builtins(part)), ""):
                if one.kind == "medium":
                    self._add(one.kind, one.key, is_full=True)

    def _add(self, kind: str, key: str, *, is_full: bool) -> None:
        self._counts[kind][key] += 1
        if is_full:
            self._full.add((kind, key))

    def has(self, one: Found) -> bool:
        """Whether it is among them; what has no id is taken out, so that each is found once."""
        if one.kind == "text":
            return one.key in self._texts or one.key in self._blob
        counts = self._counts[one.kind]
        if counts[one.key] <= 0 or (one.full and (one.kind, one.key) not in self._full):
            return False
        if one.key.startswith("="):
            counts[one.key] -= 1
        return True

    def has_under_new_id(self, one: Found, seen: Container[tuple[str, str]]) -> bool:
        """Whether what has no id in the file is there under one that its reader made up."""
        for place, name in self._names.items():
            is_new = place[0] == one.kind and place[1] and place not in seen
            if is_new and f"={name}" == one.key and (not one.full or place in self._full):
                del self._names[place]
                return True
        return False


_FOREIGN = {"openai-responses": ("tool_use", "tool_result")}
"""What no provider of a dialect takes for a call or its result, though a reader keeps it."""


def _strings(value: Json) -> Iterator[str]:
    """The texts in a value; of one that is JSON, those in it too."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            for one in _json_in(value):
                yield from _strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _plain(text: str) -> str:
    """A text without the space around it, which readers may trim."""
    return text.strip()


# --- what a JSON value holds


def find(value: Json, place: str) -> Iterator[Found]:
    """The calls, results, media and texts in a value of a file."""
    yield from _below(value, place, "")


_SKIPPED = frozenset(
    ("tools", "functions", "toolConfig", "tool_config", "response_format", "input_schema",
     "parameters", "metadata", "toolUseResult", "resultDisplay", "partMetadata", "part_metadata")
)  # fmt: skip
"""Fields that declare something, or show it a second time: nothing in them was said."""

_ENVELOPES = ("request", "response", "body", "string", "stream", "input", "output")
"""Fields of recorders that may hold JSON, or a stream of it, as text."""

_CALLS = (
    "tool_call",
    "tool_calls",
    "toolCalls",
    "toolRequests",
    "invalid_tool_calls",
    "toolInvocations",
    "toolInvocation",
)
"""Fields whose objects are calls, whatever they look like."""

_BARE_CALLS = ("functionCall", "function_call", "toolUse")
_BARE_RESULTS = ("functionResponse", "function_response", "toolResult")
_IDS = (
    "call_id",
    "callId",
    "callID",
    "toolCallId",
    "tool_call_id",
    "toolUseId",
    "tool_use_id",
    "tool_id",
    "id",
)
_NAMES = ("name", "toolName", "tool_name", "tool")
_ROLES = ("user", "assistant", "system", "developer", "model", "tool", "function")
_LANGCHAIN = ("human", "ai", "system", "HumanMessage", "AIMessage", "SystemMessage")
_PROMPTS = ("user-prompt", "system-prompt", "text", "thinking")
_TEXTS = ("text", "input_text", "output_text", None)


def _below(value: Json, place: str, field: str, *, inside: bool = False) -> Iterator[Found]:
    """What is in a value that stands in a field; `inside` of a message."""
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from _below(one, f"{place}[{at}]", field, inside=inside)
    elif isinstance(value, dict):
        yield from _object(value, place, field, inside=inside)
    elif isinstance(value, str) and not inside and field in _ENVELOPES:
        for one in _json_in(value):
            yield from _below(one, place, "")


def _object(value: JsonObject, place: str, field: str, *, inside: bool) -> Iterator[Found]:
    if _is_display(value) or _declares_tool(value):
        return
    authored = _count_authored(value, place) if not inside else None
    if authored is not None:
        yield from authored
        return
    speaks = field != "info" and _speaks(value)
    is_call, is_result = _is_call(value, field), _is_result(value, field)
    if not inside and (speaks or is_call or is_result):
        yield from (
            Found("text", _plain(text), f"{_plain(text)[:40]!r}", place) for text in _words(value)
        )
    medium = _medium(value, field)
    if medium:
        yield Found("medium", _digest(medium), "media", place)
        return
    if is_call:
        name, id = _first(value, _NAMES) or _name_inside(value), _first(value, _IDS)
        yield Found("call", id or f"={name}", f"call `{name}`", place, _has_arguments(value))
        if _is_answered(value):
            yield Found("result", id or f"={name}", f"result of `{name}`", place)
        return
    if is_result:
        name, id = _first(value, _NAMES), _first(value, _IDS[:-1]) or _own_id(value, field)
        is_full = _carries(value, _RESULT_NOTES)
        yield Found("result", id or f"={name}", f"result `{id or name}`", place, is_full)
        # what a tool returned is its own affair, but for what it shows
        for key in ("content", "output", "parts", "response"):
            returned = _below(value.get(key), f"{place}.{key}", key, inside=True)
            yield from (one for one in returned if one.kind == "medium")
        return
    if speaks and not inside:
        yield from (
            Found("text", _plain(text), f"{text.strip()[:40]!r}", place)
            for text in _texts_of(value)
        )
    for key, one in value.items():
        if key not in _SKIPPED:
            yield from _below(one, f"{place}.{key}", key, inside=inside or speaks)


def _count_authored(value: JsonObject, place: str) -> Iterator[Found] | None:
    """What a message holds that says who speaks in `from` or `author`; None for any other."""
    if isinstance(value.get("from"), str) and isinstance(value.get("value"), str):
        return _find_in_words(text_at(value, "value"), text_at(value, "from"), place)
    words = text_at(value, "content")
    if value.get("role") == "assistant" and "timestamp" in value and _NOTED_CALL.search(words):
        return _find_noted_calls(words, place)
    content, author = object_in(value.get("content")), object_in(value.get("author"))
    if author.get("role") in _ROLES and "content_type" in content:
        return _find_in_content(value, content, place)
    return None


_NOTED_CALL = re.compile(r"^@([\w.]+)\(([\w\-:.]+)\):\s*(?=\{)", re.M)
"""How gptme notes a call of the provider's among the words of an answer."""


def _find_noted_calls(text: str, place: str) -> Iterator[Found]:
    """The texts of an answer, and the calls that are noted among them."""
    start = 0
    for match in _NOTED_CALL.finditer(text):
        try:
            arguments, length = json.JSONDecoder().raw_decode(text[match.end() :])
        except ValueError:
            continue
        if match.start() < start:
            continue
        if words := _plain(text[start : match.start()]):
            yield Found("text", words, f"{words[:40]!r}", place)
        yield Found("call", match[2], f"call `{match[1]}`", place, bool(arguments))
        start = match.end() + length
    if words := _plain(text[start:]):
        yield Found("text", words, f"{words[:40]!r}", place)


def _find_in_words(text: str, speaker: str, place: str) -> Iterator[Found]:
    """The texts of a turn, and the calls that stand among its words."""
    is_call = speaker.lower().replace("-", "_") in ("function_call", "tool_call")
    pieces = ["", text] if is_call else re.split(r"<tool_call>(.*?)</tool_call>", text, flags=re.S)
    for at, piece in enumerate(pieces):
        for call in _json_in(piece) if at % 2 else ():
            name = _first(object_in(call), _NAMES)
            if name:
                id, is_full = _first(object_in(call), _IDS), _has_arguments(object_in(call))
                yield Found("call", id or f"={name}", f"call `{name}`", place, is_full)
                break
        else:
            for words in re.split(r"</?tool_response>", piece):
                if words.strip():
                    yield Found("text", _plain(words), f"{_plain(words)[:40]!r}", place)


def _find_in_content(message: JsonObject, content: JsonObject, place: str) -> Iterator[Found]:
    """The texts of a message of ChatGPT's export, or the call that it is."""
    recipient, id = text_at(message, "recipient") or "all", text_at(message, "id")
    if object_in(message.get("author")).get("role") == "assistant" and recipient != "all" and id:
        yield Found("call", id, f"call `{recipient}`", place)
        return
    listed = content.get("parts")
    pieces: list[Json] = [*listed] if isinstance(listed, list) else []
    thoughts = content.get("thoughts")
    pieces += thoughts if isinstance(thoughts, list) else []
    for piece in (*pieces, content):
        fields = object_in(piece)
        texts = [piece] if isinstance(piece, str) else [fields.get(key) for key in _WRITTEN]
        for text in texts:
            if isinstance(text, str) and text.strip():
                yield Found("text", _plain(text), f"{_plain(text)[:40]!r}", place)


_WRITTEN = ("text", "content", "summary", "result")
"""The fields of a part of ChatGPT's that hold words."""


def _is_display(value: JsonObject) -> bool:
    """Whether an object is for people to see, and no model is sent it."""
    kind = text_at(value, "type")
    # what a sub-agent did meanwhile; data that a page draws; a notice about who speaks next
    return kind == "progress" or (kind.startswith("data-") and "data" in value)


def _declares_tool(value: JsonObject) -> bool:
    """Whether a message is a tool that was declared, as LangChain's handler writes them."""
    content = value.get("content")
    return isinstance(content, dict) and content.keys() == {"type", "function"}


def _has_arguments(call: JsonObject) -> bool:
    """Whether a call has arguments: where they have a field of their own, in that one."""
    fields = {**call, **object_in(call.get("function")), **object_in(call.get("custom"))}
    own = {key: fields[key] for key in _ARGUMENTS if key in fields}
    return _carries(own or fields, _CALL_NOTES)


_ARGUMENTS = ("args", "arguments", "input", "parameters")


def _carries(value: JsonObject, notes: Collection[str]) -> bool:
    """Whether a call or a result holds more than what is said of it."""
    return any(
        _is_full(one) and one != "{}"
        for key, one in value.items()
        if key not in notes and key not in _IDS and key not in _NAMES
    )


_CALL_NOTES = frozenset(
    ("type", "part_kind", "kind", "index", "status", "state", "title", "description", "time",
     "timestamp", "ts", "displayName", "thought_signature", "thoughtSignature", "signature",
     "extra_content", "providerMetadata", "callProviderMetadata", "providerExecuted", "caller",
     "provider_name", "provider_details", "cache_control", "output", "result", "errorText",
     "error", "resultDisplay", "renderOutputAsMarkdown", "function", "custom", "sessionID",
     "messageID", "dynamic", "outcome", "tool_kind", "namespace", "step", "metadata",
     "encrypted_content", "summary", "toolCall")
)  # fmt: skip
"""What is said of a call: not its arguments."""

_RESULT_NOTES = frozenset(
    ("type", "part_kind", "role", "status", "isError", "is_error", "cache_control", "timestamp",
     "ts", "outcome", "artifact", "additional_kwargs", "response_metadata", "providerMetadata",
     "providerExecuted", "id", "dynamic", "tool_kind", "metadata", "retry_message", "scheduling",
     "willContinue", "will_continue", "provider_name", "provider_details", "created_by")
)  # fmt: skip
"""What is said of a result: not what came back."""


def _is_full(value: Json) -> bool:
    """Whether there is a text anywhere in a value."""
    if isinstance(value, dict):
        medium = _medium(value, "")
        if medium is not None:
            return bool(medium)
        # the name of a file or a tool that the provider keeps is nothing that was returned
        named = ("type", "file_id", "tool_name", "media_type", "detail")
        return any(_is_full(one) for key, one in value.items() if key not in named)
    if isinstance(value, list):
        return any(map(_is_full, value))
    return isinstance(value, str) and bool(value.strip())


def _first(value: Mapping[str, Json], names: Iterable[str]) -> str:
    """The first of some fields that is a text."""
    for name in names:
        text = value.get(name)
        if isinstance(text, list) and name in _IDS:  # of a run and of the call in it
            text = next(reversed(text), "")
        if isinstance(text, str) and text:
            return text
    return ""


def _name_inside(value: JsonObject) -> str:
    """The name of a call whose function is an object of its own."""
    inner = next((value[key] for key in ("function", "custom", "toolCall") if key in value), None)
    inner = object_in(inner).get("value", inner)
    return _first(inner, _NAMES) if isinstance(inner, dict) else str(value.get("type") or "")


def _own_id(value: JsonObject, field: str) -> str:
    """The id of a result that stands in a field of its own: it is that of its call."""
    owns = field in _BARE_RESULTS or value.get("type") in ("tool_call_response", "toolResponse")
    return _first(value, ("id",)) if owns else ""


def _is_call(value: JsonObject, field: str) -> bool:
    named = bool(_first(value, _NAMES))
    if field in _CALLS:
        return named or bool(_name_inside(value) and ("function" in value or "custom" in value))
    if field in _BARE_CALLS:
        return named
    kind = value.get("type")
    if value.get("part_kind") in ("tool-call", "builtin-tool-call"):
        return True
    if kind is None and value.keys() >= {"id", "name", "arguments"}:
        return True
    if not isinstance(kind, str) or not _first(value, _IDS):
        return False
    if kind in ("toolRequest", "frontendToolRequest"):
        return "toolCall" in value
    if kind in (
        "tool_use",
        "toolCall",
        "server_tool_use",
        "mcp_tool_use",
        "tool-call",
        "tool.call",
        "dynamic-tool",
    ):
        return named
    if kind == "tool":
        return "callID" in value
    if kind.startswith("tool-"):
        return "toolCallId" in value and kind not in ("tool-result", "tool-error")
    return kind.endswith("_call")


def _is_answered(value: JsonObject) -> bool:
    """Whether a call holds what it returned, as some programs keep both in one object."""
    state = value.get("state")
    if isinstance(state, dict):
        return state.get("status") in ("completed", "error")
    if isinstance(state, str):
        return state.startswith("output-") or state == "result"
    return bool(value.get("result")) and "args" in value


def _is_result(value: JsonObject, field: str) -> bool:
    if field in _BARE_RESULTS:
        return bool(_first(value, (*_NAMES, *_IDS)))
    part_kind, kind = value.get("part_kind"), value.get("type")
    if part_kind is not None:
        asked = part_kind == "retry-prompt" and bool(value.get("tool_name"))
        return asked or part_kind in ("tool-return", "builtin-tool-return")
    if kind == "toolResponse" and "toolResult" in value:
        return True
    if isinstance(kind, str) and kind.endswith(
        ("tool_result", "_call_output", "_call_result", "call_response")
    ):
        return "message" not in value  # else it is the line around one
    if kind == "function_result":
        return "call_id" in value
    if kind in ("tool-result", "tool-error", "tool.result") or "success" in value:
        return "toolCallId" in value
    content = value.get("content")
    if isinstance(content, list) and any(
        isinstance(one, dict) and one.get("type") in ("tool-result", "tool_result")
        for one in content
    ):
        return False  # the results are inside
    if value.get("role") in ("function", "toolResult"):
        return "name" in value or "toolCallId" in value
    # some libraries write all fields of a message, null where it has none
    answers = bool(value.get("tool_call_id") or value.get("call_id"))
    bare = value.get("role") == "tool" and "tool_call_id" in value
    return (answers or bare) and "content" in value


def _speaks(value: JsonObject) -> bool:
    """Whether an object is a message."""
    if value.get("part_kind") in _PROMPTS:
        return True
    # some programs keep what is said about a message apart from its parts
    if "parts" in value and object_in(value.get("info")).get("role") in _ROLES:
        return True
    role = value.get("role")
    if (text_at(role, "value") if isinstance(role, dict) else role) in _ROLES:
        return True
    if _is_step(value):
        return True
    # a transcript's own notes have such types too, and ids of their own
    return value.get("type") in _LANGCHAIN and "uuid" not in value and "content" in _inner(value)


def _is_step(value: JsonObject) -> bool:
    """Whether an object is a step of a run, as agents' programs keep it without a role."""
    kind, source = value.get("type"), value.get("source")
    if "toolRequests" in value or "apiCallId" in value:
        return True
    if kind == "gemini" or (kind == "user" and "content" in value and "uuid" not in value):
        return True
    if isinstance(kind, str) and kind.endswith(("Message", "Event")) and isinstance(source, str):
        # AutoGen says which agent is next, and shows an answer as it comes
        return "content" in value and not kind.startswith(("Select", "ModelClientStreaming"))
    if "action" in value or isinstance(value.get("observation"), str):
        return False
    return source in ("user", "agent", "system") and "message" in value


def _texts_of(message: JsonObject) -> Iterator[str]:
    """The texts of a message, as they stand in its content or in its parts."""
    fields = _inner(message)
    for key in ("content", "parts", "text"):
        content = fields.get(key)
        for piece in content if isinstance(content, list) else [content]:
            if isinstance(piece, dict):
                piece = piece.get("text") if piece.get("type") in _TEXTS else None
            if isinstance(piece, str) and piece.strip():
                yield piece


def _words(value: Json, field: str = "") -> Iterator[str]:
    """The sentences anywhere in a message, a call or a result: texts with a space in them."""
    if isinstance(value, str):
        if value[:1] in ("{", "["):
            inner = [*_json_in(value)]
            if inner:
                yield from (text for one in inner for text in _words(one))
                return
        if len(value) > _WORDY and " " in value.strip():
            yield value
    elif isinstance(value, dict) and _medium(value, field) is None and not _is_display(value):
        # a call that is shown to people says there what it does
        notes = {*_NOTES, *_SHOWN} if _is_call(value, field) else _NOTES
        if "message_type" in value:  # what a step says, taken apart
            notes = {*notes, "action", "thought"}
        for key, one in value.items():
            if key not in _SKIPPED and key not in notes:
                yield from _words(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _words(one, field)


_SHOWN = ("displayName", "display", "description")
"""What a program shows people of a call."""

_WORDY = 5
"""Letters of a text that is hardly a name or a sign."""

_NOTES = frozenset(
    ("response_metadata", "additional_kwargs", "usage", "usage_metadata", "providerMetadata",
     "callProviderMetadata", "provider_details", "artifact", "title", "logprobs", "error",
     "retry_message", "info", "extra", "reasoning_details",
     "intentionSummary", "toolTitle", "toolTelemetry", "detailedContent", "details", "partialArgs",
     "partialJson", "intent", "errorMessage", "annotations")
)  # fmt: skip
"""Fields about a message that no model is sent."""


def _inner(message: JsonObject) -> JsonObject:
    """A message's fields, which some libraries put below `data`."""
    inner = message.get("data")
    return inner if isinstance(inner, dict) else message


def _medium(value: JsonObject, field: str) -> str | None:
    """The data or the address of a medium, empty if it cannot be read; None for anything else.

    An id names a file that is kept elsewhere.
    """
    if field in ("inlineData", "inline_data", "fileData"):
        return _payload(value)
    kind = value.get("type")
    if kind in ("image_url", "input_image", "input_audio", "input_file"):
        inner = value.get("image_url", value.get("input_audio", value))
        return _url(inner) if isinstance(inner, str) else _payload(inner)
    if kind in ("image", "document", "audio", "video", "file"):
        inner = next((value[key] for key in ("source", "file") if key in value), value)
        return _payload(inner)
    if field in ("image", "document", "video", "audio") and "format" in value:
        return _payload(value.get("source"))
    if value.get("kind") == "binary" or str(value.get("kind")).endswith("-url"):
        return _payload(value)
    return None


_DATA = ("data", "bytes", "base64", "image", "file_data", "url", "file_uri", "fileUri", "file_url")


def _payload(value: Json) -> str | None:
    text = _first(value, _DATA) if isinstance(value, dict) else ""
    if not isinstance(value, dict) or not text:
        return None
    if value.get("type") == "text":  # a document that is plain text
        return base64.b64encode(text.encode(errors="replace")).decode().rstrip("=")
    return _url(text)


def _url(text: str) -> str:
    """What tells a medium from others; empty for data that cannot be read."""
    if re.match(r"[a-z]+:(?!.*;base64,)", text[:200], re.S):
        return text
    data = text.partition(";base64,")[2] if text.startswith("data:") else text
    return "".join(data.split()).rstrip("=") if data and is_base64(data) else ""


def _digest(text: str) -> str:
    # providers and libraries write one of two alphabets
    plain = text.replace("-", "+").replace("_", "/")
    return hashlib.blake2b(plain.encode(errors="replace"), digest_size=12).hexdigest()


def _json_in(text: str) -> Iterator[Json]:
    """The JSON that a text is, or the objects of a stream."""
    lines = [text] if text.lstrip()[:1] in "{[" else re.findall(r"^data: *(\{.*)$", text, re.M)
    for line in lines:
        try:
            yield cast("Json", msgspec.json.decode(line))
        except (ValueError, RecursionError):
            continue
