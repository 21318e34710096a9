"""Inputs: the state keys that an agent or a flow needs when it starts, with their types.

They are declared in the program: `Agent(..., inputs={"topic": str})`, or `flow.takes(topic=str)`.
The check counts on them, a compilation reports those that lack, a run does not start without them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, cast

import msgspec

from weft import schema
from weft.declare import template
from weft.declare.checks import check_schema, wrong
from weft.jsonschema import expected, validator
from weft.values import Json, JsonObject

Inputs: TypeAlias = Mapping[str, object] | Iterable[str]
"""The keys, with their types where somebody says them: `{"topic": str}`, or `["topic"]`."""

ANYTHING: tuple[object, ...] = (None, object)
"""What stands for "of any type" where a type may stand."""


class Lack(msgspec.Struct, frozen=True):
    """An input that is not as it was declared: its key, what is wrong, and what to give."""

    key: str
    problem: str
    wanted: str

    @property
    def hint(self) -> str:
        """What to type, in code and in a shell."""
        return (
            f'pass state={{"{self.key}": ...}} ({self.wanted}); in a shell: --state {self.key}=...'
        )


def check_inputs(owner: str, declared: object) -> dict[str, object]:
    """The inputs as a dict of their own; names alone are inputs of any type."""
    example = 'write inputs={"topic": str}'
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise wrong(owner, "inputs", f"{declared!r} names no state keys", example)
    inputs: dict[str, object] = {}
    for key in cast("Iterable[object]", declared):
        if not isinstance(key, str) or not _is_key(key):
            raise wrong(owner, "inputs", f"{key!r} is no state key", example)
        if isinstance(declared, Mapping):
            inputs[key] = cast("Mapping[str, object]", declared)[key]
        else:
            inputs[key] = object
        if inputs[key] not in ANYTHING:
            inputs[key] = check_schema(owner, f"inputs.{key}", inputs[key])
    return inputs


def check_input_keys(agent: str, field: str, declared: object) -> dict[str, object]:
    """The inputs of an agent."""
    del field
    return check_inputs(agent, declared)


def _is_key(text: str) -> bool:
    """Whether a template could read it: a name, in a scope or not, without a path."""
    variables = template.parse(f"{{{text}}}").variables
    return len(variables) == 1 and variables[0].key == text


def shape_of(declared: object, *, where: str) -> JsonObject | None:
    """The schema of an input; None where it may be anything."""
    return None if declared in ANYTHING else schema.of_type(declared, where=where)


def may_be_absent(declared: object, *, where: str) -> bool:
    """Whether an input need not be given: its type allows null, as `str | None` does."""
    shape = shape_of(declared, where=where)
    several = (shape.get("anyOf") or shape.get("oneOf")) if shape is not None else None
    choices = several if isinstance(several, list) else []
    kind = shape.get("type") if shape is not None else None
    nullable = isinstance(kind, list) and "null" in kind
    return nullable or any(isinstance(c, dict) and c.get("type") == "null" for c in choices)


def lacking(inputs: Mapping[str, object], state: Mapping[str, Json]) -> Iterator[Lack]:
    """The inputs that this state does not hold, or holds in another type."""
    for key, declared in inputs.items():
        value, where = state.get(key), f"inputs.{key}"
        shape = shape_of(declared, where=where)
        wanted = expected(shape) if shape is not None else "of any type"
        if value is None:
            if not may_be_absent(declared, where=where):
                yield Lack(key, f"the input `{key}` is missing", wanted)
            continue
        if shape is None:
            continue
        problem = next((error.message for error in validator(shape).iter_errors(value)), "")
        if problem:
            yield Lack(key, f"the input `{key}` has another type: {problem}", wanted)


def spell_inputs(inputs: Mapping[str, object]) -> str:
    """Inputs as their author could write them: `{"topic": str}`."""
    pairs: list[str] = []
    for key, kind in inputs.items():
        name = kind.__name__ if isinstance(kind, type) else repr(kind)
        pairs.append(f'"{key}": {name}')
    return f"{{{', '.join(pairs)}}}"
