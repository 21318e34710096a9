"""JSON values: the type, canonical text and content hashes.

Everything that is stored, hashed or sent is a JSON value. One encoder makes the text
that templates insert and hashes are taken over, so equal values give equal bytes in
every process.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from weft.errors import SessionError, WeftError, describe_kind

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
    JsonObject: TypeAlias = "dict[str, Json]"
else:  # msgspec reads annotations at run time and takes no recursive alias
    Json = Any
    JsonObject = dict[str, Any]

MAX_DEPTH = 200
"""How deep a value may nest: deeper than any real payload, shallower than the stack."""

MAX_BITS = 14_284
"""How long an integer may be, some 4,300 digits: Python writes and reads no longer one."""


_unescaped = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_sorted = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True)


def compact(value: object) -> str:
    """A JSON value as compact text, keys in their own order, nothing escaped that need not be."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, TypeError):  # lone surrogates, very large integers
        return _unescaped.encode(value)


def unwrap_result(response: JsonObject) -> Json:
    """What a tool returned: the value alone, where it was wrapped to be an object."""
    return response["result"] if [*response] == ["result"] else response


def text_or_json(value: object) -> str:
    """A text as it is, any other JSON value as compact text."""
    return value if isinstance(value, str) else compact(value)


def canonical(value: object) -> bytes:
    """The value as canonical JSON: sorted keys, compact, ASCII, so also lone surrogates encode."""
    return _sorted.encode(value).encode("ascii")


def encode(value: object, *, where: str) -> bytes:
    """A value of the log as JSON; lone surrogates are escaped, as only JSON text can hold them."""
    try:
        try:
            return msgspec.json.encode(value)
        except UnicodeEncodeError:
            text = json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
            try:
                # two halves side by side are read as one character, and so they are written
                return msgspec.json.encode(json.loads(text))
            except UnicodeEncodeError:
                return text.encode("ascii")
    except RecursionError:
        raise SessionError("it nests too deep to be written", where=where) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise SessionError(f"it cannot be written: {error}", where=where) from None


def digest(data: bytes) -> str:
    """A short content hash, stable across processes."""
    import hashlib

    return hashlib.blake2b(data, digest_size=16).hexdigest()


def handle_of(value: Json) -> str:
    """The name of a value: a hash of what it is, the same in every process."""
    return digest(canonical(value))[:12]


def require_json(value: object, *, where: str, refuse: type[WeftError] = SessionError) -> Json:
    """The value as plain JSON, its dicts and lists copied, or an error that says where it is not.

    The copy is what keeps a session apart from what its maker does with the value later.
    """
    try:
        return _copy_json(value, 0)
    except _NotJson as refused:
        path = "".join(reversed(refused.path))
        clipped = path if len(path) <= 80 else f"{path[:40]}…{path[-20:]}"
        raise refuse(refused.message, where=where + clipped, hint=refused.hint) from None


def require_object(
    value: object, *, where: str, refuse: type[WeftError] = SessionError
) -> JsonObject:
    """The mapping as plain JSON, copied, or an error that says what is wrong with it."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise refuse(
            f"{describe_kind(value)} is not a mapping", where=where, hint='pass {"key": value}'
        )
    copied: JsonObject = require_json(value, where=where, refuse=refuse)  # type: ignore[assignment]
    return copied


_CONSTANTS = frozenset((str, bool, type(None)))


def is_json(value: object, depth: int = 0) -> bool:
    """Whether a value is JSON in Python's own types, as nearly every value is; nothing is copied.

    It is asked at every event, so it makes one call for an object or a list, not one for a value.
    What it does not recognise may be sound too: `require_json` tells, and says what is wrong.
    """
    kind = type(value)
    if kind is dict:
        members: Mapping[object, object] = value  # type: ignore[assignment]
        for key in members:
            if type(key) is not str:
                return False
        inner: Iterable[object] = members.values()
    elif kind is list:
        inner = value  # type: ignore[assignment]
    else:
        inner = (value,)
    for each in inner:
        kind = type(each)
        if kind in _CONSTANTS:
            continue
        if kind is int:
            if each.bit_length() > MAX_BITS:  # type: ignore[attr-defined]
                return False
        elif kind is float:
            if not math.isfinite(each):  # type: ignore[arg-type]
                return False
        elif (
            (kind is not dict and kind is not list)
            or depth >= MAX_DEPTH
            or not is_json(each, depth + 1)
        ):
            return False
    return True


class _NotJson(Exception):
    """Something that is not JSON; the path to it is gathered on the way out."""

    def __init__(self, message: str, hint: str) -> None:
        self.message = message
        self.hint = hint
        self.path: list[str] = []


def _copy_json(value: object, depth: int) -> Json:
    if isinstance(value, str):
        # as JSON reads it back
        return join_halves(value) if has_lone_surrogate(value) else value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() <= MAX_BITS:
            return value
        digits = round(value.bit_length() * math.log10(2))
        raise _NotJson(
            f"an integer of some {digits:,} digits is too long for JSON", "pass it as text: hex(n)"
        )
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise _NotJson(f"{value} is not a JSON number", "use None or a string instead")
    if depth > MAX_DEPTH:
        raise _NotJson(
            f"the value nests deeper than {MAX_DEPTH} levels", "store it as text or as an artifact"
        )
    kind = type(value)
    if kind is dict or isinstance(value, Mapping):
        members: Mapping[object, object] = value  # type: ignore[assignment]
        copied: JsonObject = {}
        for key, item in members.items():
            if not isinstance(key, str):
                raise _NotJson(f"the key {key!r} is not a string", "JSON keys are strings")
            # most values are plain text: they need no call
            if type(item) is str and item.isascii():
                copied[key] = item
                continue
            try:
                copied[key] = _copy_json(item, depth + 1)
            except _NotJson as refused:
                refused.path.append(f".{key}")
                raise
        return copied
    if isinstance(value, (list, tuple)):
        listed: list[Json] = []
        for index, item in enumerate(cast("Sequence[object]", value)):
            try:
                listed.append(_copy_json(item, depth + 1))
            except _NotJson as refused:
                refused.path.append(f"[{index}]")
                raise
        return listed
    raise _NotJson(
        f"{describe_kind(value)} is not a JSON value",
        "convert it first: str, number, bool, None, list or dict",
    )


def spells(text: str, value: Json) -> bool:
    """Whether a text says just this value: as it is, or as JSON."""
    if isinstance(value, str):
        return value.strip() == text.strip()
    if value is None:
        return False
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def scrub(text: str) -> str:
    """The text with lone surrogates, which no UTF-8 body can carry, replaced by U+FFFD."""
    # through UTF-16: two halves that stand side by side become the character they are
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def join_halves(text: str) -> str:
    """The text with two halves of a character that stand side by side as that character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def has_lone_surrogate(text: str) -> bool:
    """Whether the text cannot be encoded as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def has_half_character(text: str) -> bool:
    """Whether a lone surrogate is left once halves that stand side by side are one character."""
    return has_lone_surrogate(text) and has_lone_surrogate(join_halves(text))


def leaf_fields(value: JsonObject, step: str, above: str = "") -> JsonObject:
    """The fields of an object and of the objects in it, each by its whole name."""
    fields: JsonObject = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            fields.update(leaf_fields(inner, step, f"{above}{name}{step}"))
        else:
            fields[f"{above}{name}"] = inner
    return fields


def only_text(value: Json) -> str | None:
    """A text, or the one text of an object that has nothing else; None for any other value."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, str) else None
