"""A streamed answer of Gemini's: chunks that each look like an answer, put together to one.

Parts of plain text are joined. A part with a signature stays the part it came as: what is
signed goes back alone. Arguments that come in pieces become the arguments of one call.
"""

from weft.content import Content, Part
from weft.dialects.lift.failure import cut_off, failure, tells_error
from weft.dialects.lift.partial_args import Arguments
from weft.dialects.lift.shapes import object_in, objects_in, text_in, without
from weft.ir import ModelResponse
from weft.values import Json, JsonObject

NAME = "gemini"

_GROWING = frozenset(("citationMetadata", "logprobsResult"))
"""What each chunk says about its own part of the answer only."""


class _Candidate:
    """One candidate that is still coming in."""

    __slots__ = ("_arguments", "_texts", "fields", "parts", "role")

    def __init__(self) -> None:
        self.fields: JsonObject = {}
        self.parts: list[JsonObject] = []
        self.role: Json = None
        self._texts: list[str] = []
        self._arguments: Arguments | None = None

    def add(self, chunk: JsonObject) -> None:
        """More of this candidate."""
        for key, value in chunk.items():
            if key == "content" and isinstance(value, dict):
                self.role = value.get("role") or self.role
                parts = value.get("parts")
                for part in parts if isinstance(parts, list) else ():
                    if isinstance(part, dict):
                        self._add_part(part)
            elif value is not None:
                held = self.fields.get(key)
                if isinstance(held, dict) and isinstance(value, dict):
                    value = _grown(held, value) if key in _GROWING else {**held, **value}
                self.fields[key] = value

    def whole(self) -> JsonObject:
        """The candidate as it would have come whole."""
        self._join()
        parts: list[Json] = [*self.parts]
        content: JsonObject = {"parts": parts} if parts else {}
        if self.role is not None:
            content["role"] = self.role
        return {"content": content, **self.fields} if content else self.fields

    def _add_part(self, part: JsonObject) -> None:
        text = part.get("text")
        if isinstance(text, str) and len(part) == 1 + ("thought" in part):
            self._arguments = None
            if self._texts and part.get("thought") == self.parts[-1].get("thought"):
                self._texts.append(text)
            else:
                self._join()
                if text:
                    self.parts.append(part)
                    self._texts = [text]
            return
        self._join()
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._add_call(part, call)
        else:
            self._arguments = None
            self.parts.append(part)

    def _join(self) -> None:
        """Close the text that was growing."""
        if len(self._texts) > 1:
            self.parts[-1] = {**self.parts[-1], "text": "".join(self._texts)}
        self._texts = []

    def _add_call(self, part: JsonObject, call: JsonObject) -> None:
        """A call, or more of the one before, whose arguments are still coming in."""
        pieces = call.get("partialArgs")
        goes_on = call.get("willContinue") is True
        if self._arguments is None or text_in(call.get("name")):
            self.parts.append(part)
            if not goes_on and pieces is None:
                self._arguments = None
                return
            self._arguments = Arguments(dict(object_in(call.get("args"))))
            self.parts[-1] = {**part, "functionCall": without(call, "partialArgs", "willContinue")}
        for piece in objects_in(pieces):
            self._arguments.add(piece)
        held = self.parts[-1]
        more = without(call, "partialArgs", "willContinue", "args")
        whole = {**object_in(held["functionCall"]), **more}
        whole["args"] = self._arguments.values
        held = {**held, **without(part, "functionCall")}
        held["functionCall"] = whole
        self.parts[-1] = held
        if not goes_on:
            self._arguments = None


def _grown(held: JsonObject, more: JsonObject) -> JsonObject:
    """Both: lists one after the other, all else as it was said last."""
    grown = {**held, **more}
    for key, value in more.items():
        before = held.get(key)
        if isinstance(before, list) and isinstance(value, list):
            grown[key] = before + value
    return grown


class AnswerStream:
    """One streamed answer."""

    __slots__ = ("_candidates", "_fields", "_over")

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._candidates: dict[int, _Candidate] = {}
        self._over = False

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one chunk; what its first candidate says is to be shown."""
        candidates = data.get("candidates")
        if candidates is None and (name == "error" or tells_error(data)):
            raise failure(NAME, None, data)
        self._fields.update(data)
        shown: tuple[Part, ...] = ()
        for chunk in candidates if isinstance(candidates, list) else ():
            if isinstance(chunk, dict):
                index = chunk.get("index", 0)
                candidate = self._candidate(index)
                candidate.add(chunk)
                if index == 0:
                    shown += _shown(chunk.get("content"))
        return ModelResponse(content=Content(shown, "model"), partial=True) if shown else None

    def ended(self) -> None:
        """The word of a server that imitates the provider, for the reason it should have given."""
        self._over = True

    def body(self) -> JsonObject:
        """The answer as it would have come whole."""
        candidates = [self._candidates[index].whole() for index in sorted(self._candidates)]
        ended = any(self._over or "finishReason" in candidate for candidate in candidates)
        if not ended and not object_in(self._fields.get("promptFeedback")).get("blockReason"):
            raise cut_off(NAME)
        whole: list[Json] = [*candidates]
        fields = without(self._fields, "candidates")
        return {"candidates": whole, **fields} if whole else fields

    def _candidate(self, index: Json) -> _Candidate:
        at = index if isinstance(index, int) else 0
        candidate = self._candidates.get(at)
        if candidate is None:
            candidate = self._candidates[at] = _Candidate()
        return candidate


def _shown(content: Json) -> tuple[Part, ...]:
    """What a chunk has to show; several parts of one kind are one."""
    shown: list[Part] = []
    parts = content.get("parts") if isinstance(content, dict) else None
    for part in parts if isinstance(parts, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(text, str) and text:
            shown.append(Part(text, thought=True if part.get("thought") else None))
    if len(shown) > 1 and all(part.thought == shown[0].thought for part in shown):
        return (Part("".join(part.text or "" for part in shown), thought=shown[0].thought),)
    return tuple(shown)
