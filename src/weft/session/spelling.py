"""Other spellings of ADK's JSON: its databases write snake_case, and null for what is not there.

Only the names of our own values are looked at; what a tool, a model or a user put inside them
(arguments, results, state) stays as it is.
"""

import functools
import re
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
