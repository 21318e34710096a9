"""State keys and their types as they are written on a command line: `topic=str`."""

import difflib
import re
from collections.abc import Iterable

from weft.errors import UsageError

TYPES: dict[str, object] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list,
    "dict": dict,
    "object": object,
    "list[str]": list[str],
    "list[int]": list[int],
    "list[float]": list[float],
    "list[bool]": list[bool],
    "list[dict]": list[dict[str, object]],
}
"""The types that can be named; a key without one holds anything."""


def typed_keys(written: Iterable[str]) -> dict[str, object]:
    """The keys, each with its type; `object` where none is given."""
    found: dict[str, object] = {}
    for one in written:
        key, equals, name = one.partition("=")
        key, name = key.strip(), re.sub(r"\s", "", name)
        if not key or (equals and not name):
            raise UsageError(
                f"`{one}` does not name a key and its type",
                where="--input",
                hint="write --input topic=str",
            )
        if key in found:
            raise UsageError(f"`{key}` is given twice", where="--input", hint="give it once")
        if equals and name not in TYPES:
            near = difflib.get_close_matches(name, TYPES, n=1, cutoff=0.5)
            raise UsageError(
                f"`{name}` is no type that can be named here",
                where=f"--input {key}",
                hint=f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(TYPES)}",
            )
        found[key] = TYPES[name] if equals else object
    return found
