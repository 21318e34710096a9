"""From an entry of a script to the bodies that Gemini would send, whole or in chunks."""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from tests.standins.gemini.models import GeminiModel
from tests.standins.gemini.signatures import signature
from weft.content import Part
from weft.ir import ModelResponse
from weft.models.scripted import Answer
from weft.session import Usage
from weft.tokens import counter_for
from weft.values import Json, JsonObject, compact

_WORDS = re.compile(r"\s*\S+|\s+")
_CALLED = "Model generated function call(s)."


class Asked(NamedTuple):
    """What of a request an answer depends on."""

    number: int
    model: GeminiModel
    prompt: int
    cached: int
    most: int | None
    """How many tokens the answer may have at most."""
    thoughts: bool
    """Whether thoughts are shown, and not only counted."""


class Told(NamedTuple):
    """An answer as it is sent: the pieces it streams in, how it ends, and what it cost."""

    pieces: tuple[JsonObject, ...]
    ending: JsonObject
    rest: JsonObject
    shared: JsonObject
    usage: JsonObject
    candidate: bool

    def whole(self) -> JsonObject:
        """The body of an answer that is not streamed."""
        parts: list[Json] = list(_joined(self.pieces))
        return self._body(parts, ending=True, usage=self.usage)

    def chunks(self) -> Iterator[JsonObject]:
        """The bodies of a streamed answer; each repeats the usage so far."""
        last = len(self.pieces) - 1
        for index, piece in enumerate(self.pieces):
            ends = index == last
            yield self._body(
                [piece], ending=ends, usage=self.usage if ends else self._so_far(index)
            )
        if not self.pieces:
            yield self.whole()

    def begun(self) -> Iterator[JsonObject]:
        """The bodies of an answer that never ends."""
        for index, piece in enumerate(self.pieces):
            yield self._body([piece], ending=False, usage=self._so_far(index))

    def _so_far(self, index: int) -> JsonObject:
        """The usage after a piece: what was said is counted in proportion."""
        told = self.usage.get("candidatesTokenCount")
        if not isinstance(told, int):
            return self.usage
        said = max(1, told * (index + 1) // len(self.pieces))
        total = self.usage.get("totalTokenCount")
        whole = total - told + said if isinstance(total, int) else said
        return {**self.usage, "candidatesTokenCount": said, "totalTokenCount": whole}

    def _body(self, parts: list[Json], *, ending: bool, usage: JsonObject) -> JsonObject:
        content: JsonObject = {"parts": parts, "role": "model"} if parts else {"role": "model"}
        candidate: JsonObject = {"content": content, "index": 0}
        if ending:
            candidate |= self.ending
        body: JsonObject = {"candidates": [candidate]} if self.candidate else {}
        body["usageMetadata"] = usage
        return {**body, **self.shared, **(self.rest if ending else {})}


def told(answer: Answer, asked: Asked) -> Told:
    """The answer, with signatures, ids, usage and all that a service adds."""
    response = answer.response
    shown = _shown(_pieces(answer), asked)
    rest = _rest(response)
    malformed = next((text for part in _parts(response) if (text := _malformed(part))), None)
    ending: JsonObject = {"finishReason": response.finish_reason or "STOP"}
    if malformed is not None:
        shown = [part for part in shown if "functionCall" not in part]
        ending["finishReason"] = "MALFORMED_FUNCTION_CALL"
        ending["finishMessage"] = f"Malformed function call: {malformed}"
    elif any("functionCall" in part for part in shown):
        ending["finishMessage"] = _CALLED
    shown, cut = _limited(shown, asked)
    if cut:
        ending = {"finishReason": "MAX_TOKENS"}
    for name, value in (
        ("groundingMetadata", response.grounding_metadata),
        ("citationMetadata", response.citation_metadata),
        ("logprobsResult", response.logprobs_result),
        ("avgLogprobs", response.avg_logprobs),
    ):
        if value is not None:
            ending[name] = value
    return Told(
        pieces=tuple(_signed(shown, asked) if answer.completes else shown),
        ending=ending,
        rest=rest,
        shared={
            "modelVersion": response.model_version or asked.model.name,
            "responseId": _random(asked.number, "response", 16),
        },
        usage=_usage(response.usage, shown, _parts(response), asked),
        candidate="promptFeedback" not in rest or bool(shown),
    )


def _parts(response: ModelResponse) -> Sequence[Part]:
    return (response.content.parts or ()) if response.content is not None else ()


def _pieces(answer: Answer) -> Iterator[Part]:
    """The parts as they stream: texts and thoughts in their deltas, the others as they are."""
    parts = _parts(answer.response)
    if answer.deltas is not None:
        yield from answer.deltas
        yield from (part for part in parts if part.kind not in ("text", "thought"))
        return
    for part in parts:
        if part.kind in ("text", "thought") and part.thought_signature is None:
            for word in _WORDS.findall(part.text or ""):
                yield msgspec.structs.replace(part, text=word)
        else:
            yield part


def _shown(parts: Iterator[Part], asked: Asked) -> list[JsonObject]:
    shown: list[JsonObject] = []
    for part in parts:
        if part.thought and not asked.thoughts:
            continue
        if (opaque := part.opaque) is not None:
            shown.append(opaque[1])
            continue
        wire: JsonObject = msgspec.to_builtins(msgspec.structs.replace(part, part_metadata=None))
        call = wire.get("functionCall")
        if isinstance(call, dict):
            call.setdefault("args", {})
            if asked.model.signs:
                call.setdefault("id", _random(asked.number, f"call {len(shown)}", 6))
        if wire:
            shown.append(wire)
    return shown


def _malformed(part: Part) -> str | None:
    """What a call says instead of arguments, as the provider repeats it."""
    text = part.provenance.malformed
    if part.function_call is None or text is None:
        return None
    return f"{part.function_call.name}({text})"


def _limited(parts: list[JsonObject], asked: Asked) -> tuple[list[JsonObject], bool]:
    """The parts as far as they fit into the tokens the request allows, and whether any did not."""
    if asked.most is None:
        return parts, False
    spent = 0
    for index, part in enumerate(parts):
        spent += _tokens([part], asked.model)
        if spent > asked.most:
            return parts[:index], True
    return parts, False


def _signed(parts: list[JsonObject], asked: Asked) -> Iterator[JsonObject]:
    """The first call carries a signature; without calls, the last part does."""
    if not asked.model.signs or not parts or any("thoughtSignature" in part for part in parts):
        yield from parts
        return
    calls = [index for index, part in enumerate(parts) if "functionCall" in part]
    at = calls[0] if calls else len(parts) - 1
    for index, part in enumerate(parts):
        if index == at and not part.get("thought"):
            yield {**part, "thoughtSignature": signature(asked.number, part)}
        else:
            yield part


def _joined(parts: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Stretches of plain text, or of thoughts, made one; what ends a stretch may be signed."""
    held: JsonObject | None = None
    for part in parts:
        if held is not None and _continues(held, part):
            held = {**part, "text": f"{held['text']}{part['text']}"}
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held


def _continues(held: JsonObject, part: JsonObject) -> bool:
    plain = {"text", "thought"}
    return (
        "text" in part
        and "text" in held
        and held.keys() <= plain
        and part.keys() <= plain | {"thoughtSignature"}
        and held.get("thought") == part.get("thought")
    )


def _rest(response: ModelResponse) -> JsonObject:
    """What else stands at the top of the body: where a lifted answer keeps it."""
    return response.provenance.rest or {}


def _usage(
    given: Usage | None, shown: Sequence[JsonObject], parts: Sequence[Part], asked: Asked
) -> JsonObject:
    if given is not None:
        told: JsonObject = msgspec.to_builtins(given)
        return told
    said = _tokens([part for part in shown if not part.get("thought")], asked.model)
    thought = sum(_counted(part.text or "", asked.model) for part in parts if part.thought)
    usage: JsonObject = {"promptTokenCount": asked.prompt}
    if said:
        usage["candidatesTokenCount"] = said
    usage["totalTokenCount"] = asked.prompt + said + thought
    if asked.cached:
        usage["cachedContentTokenCount"] = asked.cached
    usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": asked.prompt}]
    if asked.cached:
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": asked.cached}]
    if thought:
        usage["thoughtsTokenCount"] = thought
    usage["serviceTier"] = "standard"
    return usage


def _tokens(parts: Sequence[JsonObject], model: GeminiModel) -> int:
    count = 0
    for part in _joined(parts):
        held = {
            key: value for key, value in part.items() if key not in ("thought", "thoughtSignature")
        }
        text = held.get("text")
        count += _counted(text if isinstance(text, str) else compact(held), model)
    return count


def _counted(text: str, model: GeminiModel) -> int:
    return counter_for(model.name).count(text) if text else 0


def _random(number: int, what: str, size: int) -> str:
    """Letters that look drawn by lot, and are the same in every run."""
    drawn = hashlib.blake2b(f"{what} {number}".encode(), digest_size=size).digest()
    return base64.urlsafe_b64encode(drawn).decode("ascii").rstrip("=")
