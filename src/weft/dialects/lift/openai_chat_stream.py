"""Streamed answers of Chat Completions: chunks put together to the body they are pieces of.

Servers that speak the format differ in how they send a call: some repeat its id or its name in
every chunk, some leave the index out or give every call the same, some send it whole.
"""

from typing import NotRequired, TypedDict, cast

from weft.dialects.lift.failure import cut_off, failure, tells_error
from weft.dialects.lift.shapes import object_in, objects_in, shown, shown_thought, text_in
from weft.ir import ModelResponse
from weft.values import Json, JsonObject, compact

_NAME = "openai-chat"
_CHUNK_ONLY = frozenset(("choices", "usage", "obfuscation", "object"))
_THOUGHTS = ("reasoning_content", "reasoning")
_TEXTS = ("content", "refusal", *_THOUGHTS)


class _Plain(TypedDict):
    """A choice as most chunks have it; what comes may be anything."""

    index: int
    delta: dict[str, str]
    finish_reason: str | None
    logprobs: NotRequired[JsonObject | None]


class _Chunk(TypedDict):
    """A chunk as most are; what comes may be anything."""

    choices: list[_Plain]


class AnswerStream:
    """One streamed answer; its first choice is shown as it comes."""

    __slots__ = ("_choices", "_content", "_first", "_head", "_usage")

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._usage: Json = None
        self._first = _Choice()
        self._content = self._first.texts["content"]
        self._choices: dict[int, _Choice] = {0: self._first}

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one chunk; what its first choice says, where it says something."""
        if self._head and data.get("usage") is None:
            try:
                (choice,) = cast("_Chunk", data)["choices"]
                delta = choice["delta"]
                text = delta.get("content")
                if (
                    text.__class__ is str
                    and text
                    and len(delta) == 1
                    and len(choice) < 5
                    and choice["finish_reason"] is None
                    and choice.get("logprobs") is None
                    and not choice["index"]
                ):  # nearly every chunk
                    self._content.append(text)
                    return shown(text)
                field, text = _only_text(choice, delta)
                if text.__class__ is str and text:
                    self._first.texts[field].append(text)
                    return shown_thought(text) if field in _THOUGHTS else shown(text)
            except (KeyError, TypeError, ValueError, AttributeError):
                pass  # a chunk of another shape: read below with care
        return self._take(data)

    def _take(self, data: JsonObject) -> ModelResponse | None:
        if tells_error(data):
            raise failure(_NAME, None, data)
        for key, value in data.items():
            if value is not None and key not in _CHUNK_ONLY:
                self._head[key] = value
        if data.get("usage"):
            self._usage = data["usage"]
        piece: ModelResponse | None = None
        for position, choice in enumerate(objects_in(data.get("choices"))):
            if tells_error(choice):
                raise failure(_NAME, None, choice)
            index = choice.get("index")
            at = index if isinstance(index, int) else position
            delta = object_in(choice.get("delta")) or object_in(choice.get("message"))
            self._choices.setdefault(at, _Choice()).take(choice, delta)
            if at == 0:
                piece = _shown(delta)
        return piece

    def ended(self) -> None:
        """Some servers end without a reason: their word for the end does as well."""
        self._first.ended = True

    def body(self) -> JsonObject:
        """The answer as it would have come whole."""
        if not self._first.ended:
            raise cut_off(_NAME)
        choices: list[Json] = [held.whole(at) for at, held in sorted(self._choices.items())]
        body: JsonObject = {**self._head, "object": "chat.completion", "choices": choices}
        return {**body, "usage": self._usage} if self._usage else body


def _only_text(choice: "_Plain", delta: dict[str, str]) -> tuple[str, str]:
    """The field whose text is all that the chunk says; "" where it says something else."""
    for key, value in choice.items():
        if value and key != "delta":
            return "", ""
    text = only = ""
    for key, value in delta.items():
        if not value or (key == "role" and value == "assistant"):
            continue
        if only or key not in _TEXTS:
            return "", ""
        text, only = value, key
    return only, text


def _shown(delta: JsonObject) -> ModelResponse | None:
    for name in _THOUGHTS:
        if text := text_in(delta.get(name)):
            return shown_thought(text)
    text = text_in(delta.get("content")) or text_in(delta.get("refusal"))
    return shown(text) if text else None


class _Choice:
    """One choice as far as it has come."""

    __slots__ = ("calls", "ended", "held", "keys", "last", "message", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self.message: JsonObject = {}
        self.held: JsonObject = {}
        self.calls: list[_Call] = []
        self.keys: dict[int, _Call] = {}
        self.last: _Call | None = None
        self.ended = False

    def take(self, choice: JsonObject, delta: JsonObject) -> None:
        """Take a chunk's share of this choice."""
        for key, value in choice.items():
            if value is None or key in ("delta", "message", "index"):
                continue
            self.held[key] = _joined(self.held[key], value) if key == "logprobs" and (
                key in self.held
            ) else value  # fmt: skip
        self.ended = self.ended or bool(choice.get("finish_reason"))
        message = self.message
        for key, value in delta.items():
            if value is None:
                continue
            if key in _TEXTS and isinstance(value, str):
                self.texts[key].append(value)
            elif key == "tool_calls":
                for call in objects_in(value):
                    self._call(call)
            elif key == "role":
                message[key] = value or message.get(key)
            elif key == "reasoning_details":
                message[key] = _detailed(message.get(key), objects_in(value))
            else:
                message[key] = _joined(message.get(key), value)

    def _call(self, piece: JsonObject) -> None:
        """Take a piece of a call: of the one it says, or else of the last one."""
        index, told = piece.get("index"), text_in(piece.get("id"))
        call = self.keys.get(index) if isinstance(index, int) else None
        if call is None and not isinstance(index, int):
            call = next((one for one in self.calls if told and one.id == told), None)
            if call is None and not told:
                call = self.last
        if call is None or call.is_over(piece, told):
            call = _Call()
            self.calls.append(call)
        if isinstance(index, int):
            self.keys[index] = call
        self.last = call
        call.take(piece)

    def whole(self, index: int) -> JsonObject:
        """The choice as a whole answer has it."""
        message: JsonObject = {"role": "assistant", "content": None, **self.message}
        for name, pieces in self.texts.items():
            listed = message.get(name)
            if pieces:
                text = "".join(pieces)
                more: list[Json] = [{"type": "text", "text": text}] if text else []
                message[name] = listed + more if isinstance(listed, list) else text
        if self.calls:
            message["tool_calls"] = [call.whole() for call in self.calls]
        return {"index": index, "message": message, **self.held}


class _Call:
    """One call as far as it has come: of a function, or of a tool that takes text."""

    __slots__ = ("held", "id", "inner", "kind", "name", "text")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.text: list[str] = []
        self.kind = "function"
        self.held: JsonObject = {}
        self.inner: JsonObject = {}

    def is_over(self, piece: JsonObject, told: str) -> bool:
        """Whether the piece begins another call, whatever index it says."""
        if told and self.id:
            return told != self.id
        name = text_in(
            (object_in(piece.get("function")) or object_in(piece.get("custom"))).get("name")
        )
        return bool(name and self.name and self.text and name != self.name)

    def take(self, piece: JsonObject) -> None:
        """Take one piece."""
        for key, value in piece.items():
            if key == "id":
                self.id = text_in(value) or self.id
            elif key in ("function", "custom") and isinstance(value, dict):
                self.kind = key
                self._inside(value)
            elif key not in ("index", "type") and value is not None:
                self.held[key] = _joined(self.held.get(key), value)

    def _inside(self, inner: JsonObject) -> None:
        for key, value in inner.items():
            if key == "name":
                name = text_in(value)
                if name != self.name:
                    self.name += name
            elif key in ("arguments", "input"):
                if value is not None:
                    self.text.append(value if isinstance(value, str) else compact(value))
            elif value is not None:
                self.inner[key] = _joined(self.inner.get(key), value)

    def whole(self) -> JsonObject:
        """The call as a whole answer has it."""
        field = "input" if self.kind == "custom" else "arguments"
        inner: JsonObject = {"name": self.name, field: "".join(self.text), **self.inner}
        call: JsonObject = {"type": self.kind, self.kind: inner, **self.held}
        return {"id": self.id, **call} if self.id else call


def _joined(before: Json, piece: Json) -> Json:
    """A value with the piece that follows it: texts and lists grow, objects get more fields."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if isinstance(before, list) and isinstance(piece, list):
        return [*before, *piece]
    if isinstance(before, dict) and isinstance(piece, dict):
        merged = dict(before)
        for key, value in piece.items():
            if value is not None:
                same = key in ("id", "type") and key in merged
                merged[key] = value if same else _joined(merged.get(key), value)
        return merged
    return piece


def _detailed(before: Json, pieces: list[JsonObject]) -> list[Json]:
    """Details of a thought: pieces of one detail have its type and index, and grow its text."""
    details: list[Json] = [*before] if isinstance(before, list) else []
    for piece in pieces:
        kind, index = piece.get("type"), piece.get("index")
        at = len(details)
        for position, held in enumerate(details):
            if not isinstance(held, dict) or held.get("type") != kind:
                continue
            whole = index is None and (position < len(details) - 1 or "data" in piece)
            if held.get("index") == index and not whole:
                at = position
        if at == len(details):
            details.append(dict(piece))
        else:
            details[at] = _grown(object_in(details[at]), piece)
    return details


def _grown(detail: JsonObject, piece: JsonObject) -> JsonObject:
    merged = dict(detail)
    for key, value in piece.items():
        if value is None:
            continue
        grows = key in ("text", "summary", "data") and isinstance(value, str)
        merged[key] = text_in(merged.get(key)) + text_in(value) if grows else value
    return merged
