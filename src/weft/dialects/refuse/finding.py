"""What a rule finds: a place of a request that its provider would refuse, and what to do."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from weft.dialects.facts import facts_for
from weft.values import Json, JsonObject

OPTION, MEDIA, SCHEMA, REQUEST = "WEFT702", "WEFT703", "WEFT701", "WEFT707"
MODEL = "WEFT706"
"""Under which code a finding is told: by what it is about."""


class Finding(NamedTuple):
    """A place as a JSON pointer, what is wrong there in a sentence, and what to type instead."""

    code: str
    pointer: str
    message: str
    hint: str = ""


Findings: TypeAlias = Iterator[Finding]


class Turns(Protocol):
    """What is wrong with the turns of a request, read one after the other.

    A session only grows, so the turns that stay are read once: the next request begins with a
    fork of what is known after them, and reads what is new.
    """

    def read(self, turn: JsonObject, at: str) -> Findings:
        """What one more turn, at that place, brings with it."""
        ...

    def end(self, wire: JsonObject) -> Findings:
        """What is wrong if the request ends here; `wire` is the whole of it."""
        ...

    def fork(self) -> "Turns":
        """A copy to read on with, which leaves this one as it is."""
        ...


class SeenIds:
    """Ids that occurred, in layers: a fork looks them up below and adds to its own layer."""

    def __init__(self, below: "SeenIds | None" = None) -> None:
        self._below = below
        self._own: set[str] = set()

    def __contains__(self, value: str) -> bool:
        return value in self._own or (self._below is not None and value in self._below)

    def add(self, value: str) -> None:
        """Note one more."""
        self._own.add(value)

    def fork(self) -> "SeenIds":
        """A layer on top; what is below must not grow while it is in use."""
        return SeenIds(self)


def objects(value: Json, pointer: str) -> list[tuple[str, JsonObject]]:
    """The objects of a list, each with its place; a single one counts as a list of one."""
    if isinstance(value, dict):
        return [(pointer, value)]
    listed = value if isinstance(value, list) else []
    return [(f"{pointer}/{at}", one) for at, one in enumerate(listed) if isinstance(one, dict)]


def is_plain(content: Json) -> bool:
    """Whether a turn is one text with something in it, as nearly every turn is."""
    if isinstance(content, list):
        block = content[0] if len(content) == 1 else None
        if not isinstance(block, dict) or block.keys() - _TEXT:
            return False
        content = block.get("text")
    return isinstance(content, str) and bool(content) and not content.isspace()


_TEXT = frozenset(("type", "text"))


def inner(wire: Json, *path: str) -> JsonObject:
    """The object at a path, or an empty one."""
    for key in path:
        wire = wire.get(key) if isinstance(wire, dict) else None
    return wire if isinstance(wire, dict) else {}


def number(value: Json) -> float | None:
    """The number, or None where it is none."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def out_of_range(held: JsonObject, above: str, ranges: dict[str, tuple[float, float]]) -> Findings:
    """Numbers that are outside of what the provider takes."""
    for name, (least, most) in ranges.items():
        value = number(held.get(name))
        if value is not None and not least <= value <= most:
            yield Finding(
                OPTION,
                f"{above}/{name}",
                f"`{name}` is {value}, outside of {least:g} to {most:g}",
                f"give a number from {least:g} to {most:g}",
            )


def unsupported(held: JsonObject, above: str, names: Mapping[str, Json], who: str) -> Findings:
    """Options that are set and that this model takes only one value of, if any."""
    for name, only in names.items():
        value = held.get(name)
        if value is not None and value != only and not (value == [] or value is False):
            yield Finding(
                OPTION, f"{above}/{name}", f"{who} does not take `{name}`", f"leave out `{name}`"
            )


def no_effort(effort: Json, pointer: str, model: str) -> Findings:
    """An effort that the model does not have; some write it in capitals."""
    known = facts_for(model).efforts
    if not isinstance(effort, str) or known is None or effort.lower() in known:
        return
    hint = f"use one of {', '.join(known)}" if known else "leave it out"
    yield Finding(OPTION, pointer, f"{model} has no effort `{effort}`", hint)
