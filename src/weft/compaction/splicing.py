"""JSON as bytes, in which some values are replaced and all others stay byte for byte."""

import json
import operator
import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from weft.values import Json


def splice(raw: bytes, old: Json, new: Json) -> bytes:
    """The JSON `raw` of `old` as that of `new`, in which what is the same object stays as it is."""
    if new is old:
        return raw
    try:
        if isinstance(old, dict) and isinstance(new, dict):
            values = {
                key: splice(bytes(value), old[key], new[key])
                for key, value in split_object(raw).items()
                if key in new and new[key] is not old[key]
            }
            added = {key: encode(one) for key, one in new.items() if key not in old}
            return replace_fields(raw, {**values, **added}, old.keys() - new.keys())
        if isinstance(old, list) and isinstance(new, list):
            return _splice_list(raw, old, new)
    except (ValueError, Unlike):  # a key that stands there twice, or what only Python writes
        pass
    return encode(new)


class Unlike(Exception):
    """The bytes are not what their value says, so that nothing can be replaced in them."""


def split_object(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The fields of a JSON object, each as its bytes."""
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


def split_list(raw: bytes | msgspec.Raw) -> list[bytes]:
    """The elements of a JSON list, each as its bytes."""
    return [bytes(one) for one in msgspec.json.decode(raw, type=list[msgspec.Raw])]


def encode(value: Json) -> bytes:
    """A value as compact JSON; half a character is escaped, as Python does it."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def replace_fields(
    raw: bytes,
    values: Mapping[str, bytes],
    gone: Collection[str] = frozenset(),
    fields: Mapping[str, msgspec.Raw] | None = None,
) -> bytes:
    """A JSON object with other values; what is new in it comes last."""
    fields = split_object(raw) if fields is None else fields
    pieces: list[bytes] = []
    at = begun = raw.index(b"{") + 1
    done, stays = 0, False
    for key, value in fields.items():
        match = _FIELD.match(raw, at)
        if match is None or msgspec.json.decode(match[1]) != key:
            raise Unlike
        start = match.end()
        end = at = start + len(memoryview(value))
        comma = _COMMA.match(raw, at)
        at = comma.end() if comma is not None else at
        if key in gone:  # with the comma before it, or where none is before it, the one after it
            pieces.append(raw[done:begun])
            done = end if stays else at
        elif key in values:
            pieces += (raw[done:start], values[key])
            done = end
        stays = stays or key not in gone
        begun = end if stays else at
    added = [encode(key) + b":" + one for key, one in values.items() if key not in fields]
    if added:
        end = raw.rindex(b"}")
        pieces += (raw[done:end], b"," if stays else b"", b",".join(added))
        done = end
    return b"".join((*pieces, raw[done:]))


def join_elements(raw: bytes, known: Sequence[bytes], elements: Sequence[bytes | None]) -> bytes:
    """A JSON list with other elements, and what stood between them; None leaves one out."""
    remaining = [one for one in elements if one is not None]
    size = sum(map(len, known))
    for comma in (b",", b", "):
        if len(raw) == size + len(comma) * (len(known) - 1) + 2:  # as nearly everybody writes it
            return b"[" + comma.join(remaining) + b"]"
    at = raw.index(known[0])  # only blanks stand before it
    pieces = [raw[:at]]
    for element, new in zip(known, elements, strict=True):
        start = raw.index(element, at)  # only blanks and a comma stand before it
        if new is not None:
            pieces += (raw[at:start] if len(pieces) > 1 else b"", new)
        at = start + len(element)
    return b"".join((*pieces, raw[at:]))


def _splice_list(raw: bytes, old: list[Json], new: list[Json]) -> bytes:
    """Elements that are the same stay as they are."""
    known = split_list(raw)
    if len(known) != len(old):
        raise Unlike
    if len(new) == len(old):
        pairs = zip(known, old, new, strict=True)
        return join_elements(raw, known, [splice(one, *both) for one, *both in pairs])
    if old and len(new) > len(old) and all(map(operator.is_, old, new)):
        end = raw.rindex(known[-1]) + len(known[-1])
        added = b"".join(b"," + encode(one) for one in new[len(old) :])
        return raw[:end] + added + raw[end:]
    places = {id(one): index for index, one in enumerate(old)}
    elements = [known[places[id(one)]] if id(one) in places else encode(one) for one in new]
    return b"[" + b",".join(elements) + b"]"


_FIELD = re.compile(rb'\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*', re.DOTALL)
_COMMA = re.compile(rb"\s*,")
