"""Where options go in a request: a path, or a function that puts them there."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from weft.dialects.track import Wire
from weft.values import Json

Option: TypeAlias = "str | Callable[[Wire, Json], Sequence[str] | None]"
"""Where an option goes: a dotted path in the request, or a function that puts it there.

The function gets an empty request, and gives back the names of what it could not put.
"""


def put(wire: Wire, path: str, value: Json) -> None:
    """Set a value at a dotted path, making the objects on the way."""
    *above, last = path.split(".")
    for key in above:
        held = wire.setdefault(key, {})
        assert isinstance(held, dict)
        wire = held
    wire[last] = value


def one_of(path: str, *values: str) -> Option:
    """An option the provider takes only these values of."""

    def place(wire: Wire, value: Json) -> list[str]:
        if value not in values:
            return [f"{path.rpartition('.')[2]}={value}"]
        put(wire, path, value)
        return []

    return place


def deep_update(wire: Wire, extra: Mapping[str, Json]) -> None:
    """Merge the provider's own fields into the request; null takes away what stands there."""
    for key, value in extra.items():
        if value is None and key in wire:
            del wire[key]
            continue
        if isinstance(value, dict):
            held = wire.get(key)
            below: Wire = dict(held) if isinstance(held, dict) else {}
            deep_update(below, value)
            wire[key] = below
        else:
            wire[key] = value


def leaves(wire: Wire, above: str = "") -> list[str]:
    """Pointers to everything in the request that is not an object."""
    pointers: list[str] = []
    for key, value in wire.items():
        pointer = f"{above}/{escape(key)}"
        pointers += leaves(value, pointer) if isinstance(value, dict) else [pointer]
    return pointers


def escape(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
