"""What `S` does to the state: pure functions of the state that give a delta.

A delta value of None deletes its key. What a function needs and does not find is an error that
names the key and what there is.
"""

import logging
from collections.abc import Callable, Mapping
from typing import cast

from weft.declare.functions import ask
from weft.errors import RunError
from weft.session.state import scope_of
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

Look = Mapping[str, Json]
Change = Callable[[Look], JsonObject]


def needed(state: Look, key: str, verb: str) -> Json:
    """The value of a key that must be there."""
    value = state.get(key)
    if value is None:
        known = ", ".join(sorted(state)) or "nothing"
        raise RunError(
            f"there is no `{key}` in the state",
            where=f"S.{verb}",
            hint=f"write it before, or S.default({key}=...); the state has: {known}",
        )
    return value


def listed(state: Look, key: str, verb: str) -> list[Json]:
    """The value of a key that must be a list."""
    value = needed(state, key, verb)
    if not isinstance(value, list):
        raise RunError(
            f"`{key}` is a {type(value).__name__}, not a list",
            where=f"S.{verb}",
            hint="write a list under it",
        )
    return value


def picked(keys: tuple[str, ...]) -> Change:
    """Delete every key of the session but these; other scopes stay."""
    return lambda state: {
        key: None for key in state if scope_of(key) == "session" and key not in keys
    }


def dropped(keys: tuple[str, ...]) -> Change:
    """Delete these keys."""
    return lambda state: {key: None for key in keys if state.get(key) is not None}


def renamed(names: tuple[tuple[str, str], ...]) -> Change:
    """Move values to other names, all at once, so that two can change places."""

    def change(state: Look) -> JsonObject:
        delta: JsonObject = {old: None for old, _ in names}
        delta.update({new: needed(state, old, "rename") for old, new in names})
        return delta

    return change


def written(values: JsonObject) -> Change:
    """Write these values."""
    return lambda state: dict(values)


def filled(values: JsonObject) -> Change:
    """Write what is missing."""
    return lambda state: {k: v for k, v in values.items() if state.get(k) is None}


def merged(keys: tuple[str, ...], into: str, how: Callable[..., object] | None) -> Change:
    """Put several values together: texts by lines, lists and dicts by their items."""

    def change(state: Look) -> JsonObject:
        values = [needed(state, key, "merge") for key in keys]
        if how is not None:
            return {into: cast("Json", how(*values))}
        if all(isinstance(value, str) for value in values):
            return {into: "\n".join(cast("list[str]", values))}
        if all(isinstance(value, dict) for value in values):
            return {into: {k: v for value in values for k, v in cast("JsonObject", value).items()}}
        if all(isinstance(value, list) for value in values):
            return {into: [one for value in values for one in cast("list[Json]", value)]}
        return {into: values}

    return change


def transformed(key: str, function: Callable[[Json], object]) -> Change:
    """Replace a value by what a function makes of it."""
    return lambda state: {key: cast("Json", function(needed(state, key, "transform")))}


def computed(functions: Mapping[str, Callable[[Look], object]]) -> Change:
    """Write what functions make of the whole state."""
    return lambda state: {key: cast("Json", make(state)) for key, make in functions.items()}


def accumulated(key: str, into: str) -> Change:
    """Put a value at the end of a list."""

    def change(state: Look) -> JsonObject:
        held = state.get(into)
        if held is not None and not isinstance(held, list):
            listed(state, into, "accumulate")
        return {into: [*cast("list[Json]", held or []), needed(state, key, "accumulate")]}

    return change


def counted(key: str, by: float) -> Change:
    """Count on from what is there, or from 0."""

    def change(state: Look) -> JsonObject:
        held = state.get(key)
        if held is not None and (isinstance(held, bool) or not isinstance(held, int | float)):
            raise RunError(
                f"`{key}` is a {type(held).__name__}, not a number",
                where="S.counter",
                hint="count under a key of its own",
            )
        return {key: (held or 0) + by}

    return change


def flattened(key: str, into: str) -> Change:
    """A list of lists as one list, a dict of dicts as one dict with dotted names."""

    def change(state: Look) -> JsonObject:
        value = needed(state, key, "flatten")
        if isinstance(value, dict):
            return {into: _dotted(value, "")}
        items = listed(state, key, "flatten")
        flat: list[Json] = []
        for one in items:
            flat += one if isinstance(one, list) else [one]
        return {into: flat}

    return change


def _dotted(value: JsonObject, prefix: str) -> JsonObject:
    flat: JsonObject = {}
    for key, held in value.items():
        if isinstance(held, dict) and held:
            flat.update(_dotted(held, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = held
    return flat


def zipped(keys: tuple[str, ...], into: str) -> Change:
    """Lists of one length as a list of dicts, the keys their fields."""

    def change(state: Look) -> JsonObject:
        columns = [listed(state, key, "zip") for key in keys]
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            sizes = ", ".join(f"`{k}` {len(c)}" for k, c in zip(keys, columns, strict=True))
            raise RunError(
                f"the lists differ in length: {sizes}",
                where="S.zip",
                hint="zip lists that belong together, item by item",
            )
        rows = [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
        return {into: cast("Json", rows)}

    return change


def grouped(key: str, field: str, into: str) -> Change:
    """A list of dicts as a dict of lists, by the text of one field."""

    def change(state: Look) -> JsonObject:
        groups: dict[str, list[Json]] = {}
        for row in listed(state, key, "group_by"):
            if not isinstance(row, dict) or row.get(field) is None:
                raise RunError(
                    f"an item of `{key}` has no field `{field}`",
                    where="S.group_by",
                    hint="group by a field that every item has",
                )
            groups.setdefault(str(row[field]), []).append(row)
        return {into: cast("Json", groups)}

    return change


def logged(keys: tuple[str, ...]) -> Callable[[Look], None]:
    """Write values to the log named `weft`."""

    def look(state: Look) -> None:
        shown = {key: state.get(key) for key in keys} if keys else dict(state)
        _log.info("state: %s", shown)

    return look


def conditional(predicate: Callable[[Look], object], change: Callable[[Look], object]) -> Change:
    """A change that is made where a predicate holds."""
    return lambda state: cast("JsonObject", change(state) or {}) if ask(predicate, state) else {}
