"""Values that come out of an interpreter, read within bounds: they are a stranger's.

A list that holds the same list ten times, ten levels deep, is small where it was made and endless
when it is spelled.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from pathlib import PurePosixPath
from typing import cast

from pydantic_monty import MontyClassProxy

from weft.values import Json

_MOST_VALUES = 100_000
"""How many values the arguments of all calls of code may hold together: the log has them."""

_LONGEST = 1_000_000
"""How many letters their texts may have together."""


class PlainValues:
    """Arguments as JSON, with a bound on all of them together."""

    def __init__(self, values: int = _MOST_VALUES, letters: int = _LONGEST) -> None:
        self._values = values
        self._letters = letters

    @property
    def room(self) -> tuple[int, int]:
        """How many values and letters there may be yet."""
        return self._values, self._letters

    def value(self, value: object, depth: int = 0) -> Json:
        """A value of the interpreter's as JSON; TypeError where it is not."""
        self._values -= 1
        if self._values < 0 or depth > _DEEPEST:
            raise ValueError("the arguments of all calls are too large, or nested too deep")
        match value:
            case None | bool():
                return value
            case int() if -(2**63) <= value < 2**64:
                return value
            case float() if isfinite(value):
                return value
            case str():
                return self._text(value)
            case date() | datetime():
                return value.isoformat()
            case Decimal() | PurePosixPath():
                return self._text(str(value))
            case list() | tuple():
                listed = cast("Sequence[object]", value)
                return [self.value(one, depth + 1) for one in listed]
            case dict():
                fields = cast("dict[object, object]", value)
                return {self._key(k): self.value(one, depth + 1) for k, one in fields.items()}
            case MontyClassProxy():
                fields = cast("dict[object, object]", value.attributes)
                return {self._key(k): self.value(one, depth + 1) for k, one in fields.items()}
            case _:
                kind = type(value).__name__
                raise TypeError(f"an argument is {kind}; pass text, numbers, lists and dicts")

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise TypeError(f"a key of an argument is {type(key).__name__}, not text")
        return self._text(key)

    def _text(self, text: str) -> str:
        self._letters -= len(text)
        if self._letters < 0:
            raise ValueError(f"the arguments of all calls have more than {_LONGEST:,} letters")
        return text


_DEEPEST = 60
"""How deep values may stand in each other."""


def spell_value(value: object, most: int) -> str:
    """A value as Python spells it, cut after `most` letters."""
    pieces: list[str] = []
    room = most
    for piece in _pieces(value, most, 0):
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            return f"{''.join(pieces)}..."
    return "".join(pieces)


def _pieces(value: object, most: int, depth: int) -> Iterator[str]:
    """The spelling piece by piece, so that a reader can stop."""
    if depth > _DEEPEST:
        yield "..."
        return
    match value:
        case str() | bytes():
            yield repr(value[: most + 1])
        case int() if value.bit_length() > 10_000:
            yield f"<an integer of {value.bit_length():,} bits>"
        case list():
            yield from _write_values("[", cast("list[object]", value), "]", most, depth)
        case tuple():
            members = cast("tuple[object, ...]", value)
            yield from _write_values("(", members, ",)" if len(members) == 1 else ")", most, depth)
        case set() | frozenset():
            name = "set" if isinstance(value, set) else "frozenset"
            yield from _write_values(f"{name}([", cast("set[object]", value), "])", most, depth)
        case dict():
            yield from _fields("{", cast("dict[object, object]", value), most, depth)
        case MontyClassProxy():
            fields = cast("dict[object, object]", value.attributes)
            yield from _fields(f"{value.name} {{", fields, most, depth)
        case _:
            yield repr(value)


def _write_values(
    start: str, values: Iterable[object], end: str, most: int, depth: int
) -> Iterator[str]:
    yield start
    for at, one in enumerate(values):
        yield ", " if at else ""
        yield from _pieces(one, most, depth + 1)
    yield end


def _fields(start: str, fields: dict[object, object], most: int, depth: int) -> Iterator[str]:
    yield start
    for at, (key, one) in enumerate(fields.items()):
        yield ", " if at else ""
        yield from _pieces(key, most, depth + 1)
        yield ": "
        yield from _pieces(one, most, depth + 1)
    yield "}"
