"""The last look at a request: nothing in it may carry a label that its model is not cleared for."""

from collections.abc import Iterator

from weft.errors import ProtectionError
from weft.ir import CallBlock, Prompt
from weft.passes.labelled import Labelled
from weft.values import Json, JsonObject

_OWN = frozenset(
    (
        "role", "type", "model", "id", "call_id", "tool_call_id", "tool_use_id", "mimeType",
        "media_type", "mime_type", "effort", "detail", "status", "language", "outcome", "format",
    )
)  # fmt: skip
"""Fields in which a provider's own words stand, or ids: nobody's value."""

_SEALED = frozenset(
    (
        "data", "file_data", "thoughtSignature", "signature", "encrypted_content", "image_url",
        "redacted_thinking", "thought_signature",
    )
)  # fmt: skip
"""Fields that hold what is no text."""

_STRONG = 8
"""From how many characters on a value with a digit in it is one even as a name."""


def require_cleared(wire: JsonObject, prompt: Prompt, labelled: Labelled) -> None:
    """Refuse a request in which something stands that its model is not cleared for."""
    fresh: JsonObject = {}
    for key, held in wire.items():
        fresh[key] = held
        if isinstance(held, list):  # turns are shared with the requests before
            fresh[key] = [None if labelled.is_clean(turn) else turn for turn in held]
    _require(fresh, prompt, labelled)
    for held in fresh.values():
        for turn in held if isinstance(held, list) else ():
            if isinstance(turn, dict):
                labelled.found_clean(turn)


def _require(wire: JsonObject, prompt: Prompt, labelled: Labelled) -> None:
    names = {tool.name for tool in prompt.tools}
    for item in prompt.items:
        if item.kind == "exchange":
            names.update(block.name for block in item.blocks if isinstance(block, CallBlock))
    for pointer, text, named in _texts(wire, ""):
        labels = _labels(text, labelled, named=named or text in names)
        if labels:
            said = " and ".join(f"`{label}`" for label in labels)
            raise ProtectionError(
                f"the request holds at {pointer} what carries the label {said}",
                where=prompt.agent,
                hint=f'clear the agent: Agent("{prompt.agent}", cleared=["{labels[0]}"]),'
                " or take the value out of what a callback adds and out of names",
            )


def _labels(text: Json, labelled: Labelled, *, named: bool) -> tuple[str, ...]:
    """The labels of what stands in a text; in a name only a value that nobody writes by chance."""
    copies = labelled.copies
    if not isinstance(text, str):
        number = isinstance(text, int | float) and not isinstance(text, bool)
        return copies.in_number(text) if number else ()  # type: ignore[arg-type]
    found = {
        label
        for hit in copies.hits(text)
        if not named or _is_strong(text[hit.start : hit.end])
        for label in hit.labels
    }
    return tuple(sorted(found))


def _is_strong(text: str) -> bool:
    return len(text) >= _STRONG and any(map(str.isdigit, text))


def _texts(value: Json, pointer: str) -> Iterator[tuple[str, Json, bool]]:
    """Every text and number with its place, and whether it is a name: a key, or an own word."""
    if isinstance(value, dict):
        for key, held in value.items():
            place = f"{pointer}/{key}"
            if key in _SEALED and isinstance(held, str):
                continue
            yield place, key, True
            if key in _OWN and isinstance(held, str):
                yield place, held, True
            else:
                yield from _texts(held, place)
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from _texts(held, f"{pointer}/{index}")
    elif value is not None and not isinstance(value, bool):
        yield pointer, value, False
