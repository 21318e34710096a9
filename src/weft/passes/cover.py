"""Cover: texts, JSON and blocks with a mark in place of every labelled value in them."""

from typing import TypeVar, assert_never, cast

import msgspec

from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    MediaBlock,
    OpaqueBlock,
    ResultBlock,
    Span,
    TextBlock,
    ThoughtBlock,
)
from weft.passes.copies import Copies, Hit, mark_of
from weft.values import Json, JsonObject

_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml", "application/csv")
Value = TypeVar("Value", bound=Json)


def covered_text(text: str, copies: Copies) -> str:
    """The text with marks in place of values; the same text if there are none."""
    hits = copies.hits(text)
    return _rebuilt(text, hits) if hits else text


def covered_spans(block: TextBlock, hits: tuple[Hit, ...]) -> TextBlock:
    """A block with marks in place of these stretches, its spans where they are now."""
    spans: list[Span] = []
    for span in block.spans:
        end = _moved(span.end, hits)
        if not spans or end > spans[-1].end:
            spans.append(Span(end, span.origin))
    return msgspec.structs.replace(
        block,
        text=_rebuilt(block.text, hits),
        spans=tuple(spans),
        labels=_labels(block.labels, hits),
        signature=None,
        kept=None,
    )


def covered_json(value: Value, copies: Copies) -> Value:
    """JSON with marks in place of values, also in keys; the same object if there are none."""
    held: Json = value
    match held:
        case str():
            return cast("Value", covered_text(held, copies))
        case dict():
            fields = {covered_text(k, copies): covered_json(v, copies) for k, v in held.items()}
            return value if _same(fields, held) else cast("Value", fields)
        case list():
            items = [covered_json(item, copies) for item in held]
            same = all(one is other for one, other in zip(items, held, strict=True))
            return value if same else cast("Value", items)
        case bool() | None:
            return value
        case _:
            labels = copies.in_number(held)
            return cast("Value", mark_of(labels)) if labels else value


def covered_schema(schema: JsonObject, copies: Copies) -> JsonObject:
    """A schema with marks in place of values in its texts; the names of properties stay."""
    fields: JsonObject = {}
    for key, held in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(held, dict):
            fields[key] = {
                name: covered_schema(one, copies) if isinstance(one, dict) else one
                for name, one in held.items()
            }
        elif key in ("required", "type", "$ref"):
            fields[key] = held
        elif isinstance(held, dict):
            fields[key] = covered_schema(held, copies)
        elif isinstance(held, list):
            fields[key] = [
                covered_schema(one, copies) if isinstance(one, dict) else covered_json(one, copies)
                for one in held
            ]
        else:
            fields[key] = covered_json(held, copies)
    return schema if fields == schema else fields


def covered_texts(blocks: tuple[TextBlock, ...], copies: Copies) -> tuple[TextBlock, ...]:
    """Texts that follow each other, read as one: a value may begin in one and end in the next."""
    if len(blocks) == 1:
        hits = copies.hits(blocks[0].text)
        return (covered_spans(blocks[0], hits),) if hits else blocks
    whole = "".join(block.text for block in blocks)
    hits = copies.hits(whole)
    if not hits:
        return blocks
    covered: list[TextBlock] = []
    text, begun, start = _rebuilt(whole, hits), 0, 0
    for block in blocks:
        end = start + len(block.text)
        moved = _moved(end, hits)
        touched = any(hit.start < end and start < hit.end for hit in hits)
        if not touched:
            covered.append(block)
        elif moved > begun:
            covered.append(
                msgspec.structs.replace(
                    block,
                    text=text[begun:moved],
                    spans=(),
                    labels=_labels(block.labels, hits),
                    signature=None,
                    kept=None,
                )
            )
        begun, start = moved, end
    return tuple(covered)


def covered_block(block: Block, copies: Copies) -> Block | None:
    """Any block but a text with marks in place of values; None for a thought that held one.

    What only its provider can read cannot be rewritten, so a mark stands for all of it.
    """
    match block:
        case TextBlock():
            return covered_texts((block,), copies)[0]
        case ThoughtBlock():
            return None if copies.hits(block.text) else block
        case CallBlock():
            args = covered_json(block.args, copies)
            return _changed(block, copies, changed=args is not block.args, args=args)
        case ResultBlock():
            response = covered_json(block.response, copies)
            media = tuple(covered_media(one, copies) for one in block.media)
            kept = tuple(one for one in media if isinstance(one, MediaBlock))
            changed = response is not block.response or kept != block.media
            return _changed(block, copies, changed=changed, response=response, media=kept)
        case MediaBlock():
            return covered_media(block, copies)
        case CodeBlock():
            code = covered_text(block.code, copies)
            return _changed(block, copies, changed=code != block.code, code=code)
        case CodeResultBlock():
            output = covered_text(block.output, copies)
            return _changed(block, copies, changed=output != block.output, output=output)
        case OpaqueBlock():
            if covered_json(block.payload, copies) is block.payload:
                return block
            return _in_place(block, tuple(sorted(_names(copies))))
        case _:
            assert_never(block)


def covered_media(block: MediaBlock, copies: Copies) -> "MediaBlock | TextBlock":
    """Media under another name, or a mark where its address or its text holds a value."""
    hits = copies.hits(block.uri) if block.uri is not None else ()
    if not hits and block.data is not None and block.mime_type.startswith(_TEXTUAL):
        hits = copies.hits(block.data)
    if hits:
        return _in_place(block, _labels((), hits))
    name = covered_text(block.name, copies)
    return block if name == block.name else msgspec.structs.replace(block, name=name)


def _in_place(block: Block, labels: tuple[str, ...]) -> TextBlock:
    return TextBlock(role=block.role, origin=block.origin, text=mark_of(labels), labels=labels)


Kind = TypeVar("Kind", CallBlock, ResultBlock, CodeBlock, CodeResultBlock)


def _changed(block: Kind, copies: Copies, *, changed: bool, **fields: object) -> Kind:
    """The block with these fields, and without what its provider kept of the old ones."""
    loose = block.kept is not None and covered_json(block.kept, copies) is not block.kept
    if not changed and not loose:
        return block
    return msgspec.structs.replace(block, **fields, kept=None)


def _rebuilt(text: str, hits: tuple[Hit, ...]) -> str:
    pieces: list[str] = []
    at = 0
    for hit in hits:
        pieces += [text[at : hit.start], mark_of(hit.labels)]
        at = hit.end
    return "".join((*pieces, text[at:]))


def _moved(place: int, hits: tuple[Hit, ...]) -> int:
    """Where a place is once marks stand in the text; one inside a value is behind its mark."""
    moved = place
    for hit in hits:
        if hit.start >= place:
            break
        moved += len(mark_of(hit.labels)) - (min(hit.end, place) - hit.start)
    return moved


def _labels(held: tuple[str, ...], hits: tuple[Hit, ...]) -> tuple[str, ...]:
    return tuple(sorted({*held, *(name for hit in hits for name in hit.labels)}))


def _names(copies: Copies) -> set[str]:
    return {name for labels in copies.values.values() for name in labels}


def _same(fields: dict[str, Json], held: dict[str, Json]) -> bool:
    return len(fields) == len(held) and all(
        key in held and held[key] is value for key, value in fields.items()
    )
