"""How a route compares a value of the state with the one its case names."""

import operator
from collections.abc import Mapping
from typing import Literal, TypeGuard, assert_never

from weft.declare import template
from weft.errors import DeclarationError, SessionError
from weft.jsonschema import shorten
from weft.values import Json, compact, require_json

Comparison = Literal["eq", "ne", "contains", "gt", "gte", "lt", "lte"]

_ORDERS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


class Incomparable(Exception):
    """Two values that have no answer; the text says which."""


def check_value(op: Comparison, value: object, *, where: str) -> Json:
    """The value a case names, copied, or an error that says why nothing could match it."""
    if value is None:
        raise DeclarationError(
            "None is no value: a key that holds it counts as missing",
            where=where,
            hint="use .otherwise(agent) for a missing key",
        )
    try:
        checked = require_json(value, where=where)
    except SessionError as error:
        raise DeclarationError(error.message, where=error.where, hint=error.hint) from None
    if op in _ORDERS and not (isinstance(checked, str) or _is_number(checked)):
        raise DeclarationError(
            f"{quoted(checked)} has no order", where=where, hint="pass a number or text"
        )
    return checked


def holds(op: Comparison, current: Json, value: Json) -> bool:
    """Whether the value that was found compares so with the one the case names."""
    match op:
        case "eq":
            return same(current, value)
        case "ne":
            return not same(current, value)
        case "contains":
            return _contains(current, value)
        case "gt" | "gte" | "lt" | "lte":
            return _ordered(op, current, value)
        case _ as unreachable:
            assert_never(unreachable)


def same(one: Json, other: Json) -> bool:
    """Whether two values say the same; of texts, blanks around them and letter case say nothing."""
    if isinstance(one, str) and isinstance(other, str):
        return _label(one) == _label(other)
    # in Python True == 1, in JSON it is not
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def quoted(value: Json) -> str:
    """A value as it is written in Python, text in double quotes."""
    return compact(value) if isinstance(value, str) else repr(value)


def _label(text: str) -> str:
    return text.strip().casefold()


def _contains(current: Json, value: Json) -> bool:
    if isinstance(current, str) and isinstance(value, str):
        return value.casefold() in current.casefold()
    if isinstance(current, (list, tuple, set, frozenset)):
        return any(same(item, value) for item in current)
    if isinstance(current, Mapping) and isinstance(value, str):
        return any(same(key, value) for key in current)
    raise Incomparable(f"{_kind(current)} cannot contain {_kind(value)}")


def _ordered(op: str, current: Json, value: Json) -> bool:
    if isinstance(current, str) and isinstance(value, str):
        return bool(_ORDERS[op](_label(current), _label(value)))
    if _is_number(current) and _is_number(value):
        return bool(_ORDERS[op](current, value))
    raise Incomparable(f"{_kind(current)} has no order with {_kind(value)}")


def _is_number(value: Json) -> TypeGuard[float]:
    """Whether it is a number; True and False are none in JSON."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: Json) -> str:
    """The value with its kind: what a model returned often only looks like a number."""
    spelling = shorten(quoted(value), 60)
    if isinstance(value, str):
        return f"the text {spelling}"
    return (
        f"the number {spelling}" if _is_number(value) else f"the {type(value).__name__} {spelling}"
    )


def look_up(key: str, state: Mapping[str, Json]) -> Json:
    """The value of the key, read as `{key}` in a template is; None if it is missing."""
    value = state.get(key)
    # the key itself comes first: one with a dot in its name is found as it is
    if value is None:
        for variable in template.parse(f"{{{key}}}").variables:
            return template.lookup(variable, state, {})
    return value
