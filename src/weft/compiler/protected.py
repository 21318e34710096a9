"""The last look before sending: nothing that the policy redacts may stand in the request.

Passes can have bugs, callbacks can change a prompt, and options can carry text of their own. So
the very JSON that would be sent is looked through once more. What is found there both in its
text and in a line or field of it alone is held to be real: what a text says only together with
another that happens to stand beside it is not.
"""

import json
from collections.abc import Iterator
from typing import assert_never, cast

from weft.declare import Policy
from weft.declare.policy.transforms import Redact
from weft.detect import PLACEHOLDER, wanted
from weft.detect.patterns import PatternTimeout
from weft.detect.redaction import Wanted, found_in
from weft.errors import ProtectionError
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    MediaBlock,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.passes.fences import opened
from weft.values import Json, JsonObject

_MOST_SEEN = 20_000


def require_protected(prompt: Prompt, wire: JsonObject, policy: Policy) -> None:
    """Refuse a request that still holds something the policy takes out.

    Raises:
        ProtectionError: says where it stands and of which kind it is, not what it is.
    """
    for step in policy.protections:
        if not isinstance(step, Redact):
            continue
        what = wanted(step.kinds, step.patterns, step.fields)
        for pointer, held in _unseen(prompt, wire, what):
            for place, text in _strings(held, pointer):
                kind = _left(text, what)
                if kind and not _is_exempt(text, prompt):
                    raise _refused(kind, place, prompt.agent)
        for block in prompt.blocks if what.fields else ():
            name = _field_left(block, what)
            if name:
                raise _refused(f"the field `{name}`", str(block.origin), prompt.agent)


def _unseen(prompt: Prompt, wire: JsonObject, what: Wanted) -> Iterator[tuple[str, Json]]:
    """The pieces of the request, without turns that were looked through in an earlier one.

    Requests of a session share their turns, so the next one costs what it adds.
    """
    held = prompt.items.memo.setdefault(("protected", what), {})
    seen = cast("dict[int, Json]", held)
    if len(seen) > _MOST_SEEN:
        seen.clear()
    for name, piece in wire.items():
        if not isinstance(piece, list):
            yield f"/{name}", piece
            continue
        for index, each in enumerate(piece):
            if isinstance(each, dict) and seen.get(id(each)) is each:
                continue
            yield f"/{name}/{index}", each
            if isinstance(each, dict):
                seen[id(each)] = each


def _refused(kind: str, where: str, agent: str) -> ProtectionError:
    return ProtectionError(
        f"the request still holds what the policy redacts ({kind})",
        where=f"{agent}: {where}",
        hint="look for a callback or an option that adds it; passes replace all that is in the log",
    )


def _strings(held: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Every text of the request with its place."""
    if isinstance(held, str):
        yield pointer, held
    elif isinstance(held, dict):
        for name, each in held.items():
            yield from _strings(each, f"{pointer}/{name}")
    elif isinstance(held, list):
        for index, each in enumerate(held):
            yield from _strings(each, f"{pointer}/{index}")


def _left(text: str, what: Wanted) -> str:
    """The kind of a value that is still in a text; empty where there is none."""
    try:
        found = found_in(text, what)
        if not found:
            return ""
        alone = {each.value for piece in _pieces(text) for each in found_in(piece, what)}
    except PatternTimeout:
        return "a pattern that did not finish"
    for each in found:
        if any(one in each.value or each.value in one for one in alone):
            return each.kind
    return ""


def _pieces(text: str) -> Iterator[str]:
    """The lines of a text, or the texts of the JSON that it is."""
    if text[:1] in {"{", "["}:
        try:
            held = cast("Json", json.loads(text))
        except (ValueError, RecursionError):
            pass
        else:
            yield from (each for _, each in _strings(held, ""))
            return
    yield from text.splitlines()


def _is_exempt(text: str, prompt: Prompt) -> bool:
    """Whether it is no text but data, a signature, an id or a name; or the address form of data."""
    exempt = _exempt(prompt)
    head, comma, data = text.partition(",")
    return text in exempt or (bool(comma) and head.startswith("data:") and data in exempt)


def _exempt(prompt: Prompt) -> frozenset[str]:
    """What is no text: media, signatures, ids, names, and what only its provider can read."""
    found: set[str] = {prompt.model, prompt.agent}
    found.update(tool.name for tool in prompt.tools)
    for tool in prompt.tools:
        found.update(each for _, each in _strings(tool.own or {}, ""))
    for block in prompt.blocks:
        found.update(_own(block))
        if block.kept is not None:
            found.update(each for _, each in _strings(block.kept, ""))
    return frozenset(found)


def _own(block: Block) -> Iterator[str]:
    match block:
        case TextBlock() | ThoughtBlock():
            yield block.signature or ""
        case CallBlock():
            yield from (block.id, block.name, block.signature or "")
        case ResultBlock():
            yield from (block.call_id, block.name)
            for media in block.media:
                yield from _own(media)
        case MediaBlock():
            yield from (block.data or "", block.uri or "", block.name, block.signature or "")
        case CodeBlock() | CodeResultBlock():
            yield from (block.signature or "", block.id or "")
        case OpaqueBlock():
            yield from (each for _, each in _strings(block.payload, ""))
        case _:
            assert_never(block)


def _field_left(block: Block, what: Wanted) -> str:
    """The name of a field whose value is still there."""
    held: JsonObject = {}
    if isinstance(block, CallBlock):
        held = block.args
    elif isinstance(block, ResultBlock):
        held = block.response
    return _named(held, (), what)


def _is_gone(text: str) -> bool:
    """Whether it is a placeholder, or stands in a fence, which is put around what was replaced."""
    return PLACEHOLDER.fullmatch(text) is not None or opened(text) is not None


def _named(held: Json, path: tuple[str, ...], what: Wanted) -> str:
    gone = isinstance(held, str) and _is_gone(held)
    is_field = bool(path) and any(path[-len(field) :] == field for field in what.fields)
    if is_field and held is not None and not gone:
        return ".".join(path)
    if isinstance(held, dict):
        names = (_named(each, (*path, name), what) for name, each in held.items())
        return next(filter(None, names), "")
    if isinstance(held, list):
        return next(filter(None, (_named(each, path, what) for each in held)), "")
    return ""
