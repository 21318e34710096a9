"""Other spellings of ADK's JSON: its databases write snake_case, and null for what is not there.

Only the names of our own values are looked at; what a tool, a model or a user put inside them
(arguments, results, state) stays as it is.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import cast, get_args

import msgspec

from weft.content import FunctionResponse, Part, Value

_HUMP = re.compile(r"(?=[A-Z])")


def respelled(value: object, kind: type[Value]) -> object:
    """The JSON of a `kind`, in camelCase and without nulls, as far as its fields are known."""
    if not isinstance(value, dict):
        return value
    names, inner = _spelling(kind)
    found: dict[str, object] = {}
    for key, held in cast("dict[str, object]", value).items():
        name = names.get(key, key)
        if held is None and name in names.values():
            continue
        within = inner.get(name)
        if within is not None and isinstance(held, list):
            held = [respelled(each, within) for each in cast("list[object]", held)]
        elif within is not None:
            held = respelled(held, within)
        found[name] = held
    return found


@functools.cache
def _spelling(kind: type[Value]) -> tuple[dict[str, str], dict[str, type[Value]]]:
    """The JSON name of each field by its snake_case name, and the values that fields hold."""
    fields = msgspec.structs.fields(kind)
    names = {_HUMP.sub("_", field.encode_name).lower(): field.encode_name for field in fields}
    inner = {field.encode_name: held for field in fields if (held := _held(field.type))}
    if kind is FunctionResponse:
        inner["parts"] = Part
    return names, inner


def _held(tp: object) -> type[Value] | None:
    if isinstance(tp, type) and issubclass(tp, Value):
        return tp
    return next((held for arg in get_args(tp) if (held := _held(arg))), None)


def without_unknown(value: object, kind: type[Value]) -> tuple[object, dict[str, object]]:
    """The JSON of a `kind` with the fields that are known; and the others, by where they stood."""
    unknown: dict[str, object] = {}
    return _known(value, kind, "", unknown), unknown


def _known(value: object, kind: type[Value], where: str, unknown: dict[str, object]) -> object:
    if not isinstance(value, dict):
        return value
    names, inner = _spelling(kind)
    fields = {*names.values()}
    known: dict[str, object] = {}
    for name, held in cast("dict[str, object]", value).items():
        place = f"{where}/{name.replace('~', '~0').replace('/', '~1')}"
        within = inner.get(name)
        if name not in fields:
            unknown[place] = held
        elif within is not None and isinstance(held, list):
            listed = cast("list[object]", held)
            known[name] = [
                _known(one, within, f"{place}/{n}", unknown) for n, one in enumerate(listed)
            ]
        else:
            known[name] = _known(held, within, place, unknown) if within is not None else held
    return known


def with_unknown(value: object, unknown: Mapping[str, object]) -> object:
    """The JSON with the fields that were unknown when it was read, each where it stood."""
    for place, held in unknown.items():
        *steps, name = [s.replace("~1", "/").replace("~0", "~") for s in place.split("/")[1:]]
        inside = value
        for step in steps:
            if isinstance(inside, list | tuple):
                listed = cast("Sequence[object]", inside)
                inside = listed[int(step)] if int(step) < len(listed) else None
            elif isinstance(inside, dict):
                inside = cast("dict[str, object]", inside).setdefault(step, {})
        if isinstance(inside, dict):
            cast("dict[str, object]", inside)[name] = held
    return value
