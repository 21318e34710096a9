"""The words of `S` as data: each knows what it changes, what the checker must know, its spelling.

A step of `S` has one of these as its function. Checker, graph and command line match on it.
"""

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, cast

import msgspec

from weft.declare.functions import StateFunction, ask, name_of
from weft.declare.policy_parts import spell_options, spell_value
from weft.errors import RunError, describe_kind
from weft.session.event import scope_of
from weft.values import Json, JsonObject, leaf_fields

State = Mapping[str, Json]


class StateChange(msgspec.Struct, frozen=True):
    """One word of `S` with its arguments; the first `positional` are written without a name.

    It is called with the state and returns the changes. `reads_from` and `writes_to` are the fields
    with the keys that it reads and writes. `maybe` it does nothing; it `may_fail` where a value is
    missing or of the wrong kind.
    """

    word: ClassVar[str] = ""
    positional: ClassVar[int] = 1
    reads_from: ClassVar[str] = ""
    writes_to: ClassVar[str] = ""
    maybe: ClassVar[bool] = False
    may_fail: ClassVar[bool] = True

    def __call__(self, state: State) -> JsonObject:
        """The changes to this state."""
        return self._delta(state)

    def _delta(self, state: State) -> JsonObject:
        return {}

    @property
    def reads(self) -> tuple[str, ...]:
        """Keys that must have a value."""
        return self._keys(self.reads_from)

    @property
    def writes(self) -> tuple[str, ...]:
        """Keys that get a value."""
        return self._keys(self.writes_to)

    @property
    def fills(self) -> bool:
        """Whether it writes only what is missing."""
        return False

    @property
    def drops(self) -> tuple[str, ...]:
        """Keys that it deletes."""
        return ()

    @property
    def keeps(self) -> tuple[str, ...] | None:
        """The only keys of the session that it leaves; None where it leaves all."""
        return None

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """Old and new names."""
        return ()

    @property
    def asks(self) -> tuple[StateFunction, ...]:
        """Functions of the state that it calls."""
        return ()

    def _keys(self, field: str) -> tuple[str, ...]:
        """The keys that a field names."""
        keys = cast("str | tuple[str, ...] | JsonObject", getattr(self, field) if field else ())
        return (keys,) if isinstance(keys, str) else tuple(keys)

    @property
    def name(self) -> str:
        """The name of a step that makes this change: the word, and what it is about."""
        parts: list[str] = []
        for field in self.__struct_fields__[: self.positional]:
            value: object = getattr(self, field)
            items = (
                [*cast("tuple[object, ...]", value)] if isinstance(value, tuple | dict) else [value]
            )
            parts += [one if isinstance(one, str) else name_of(one) for one in items]
        return re.sub(r"\W+", "_", "_".join((self.word, *parts))).strip("_")

    def __str__(self) -> str:
        for field in self.__struct_fields__[:1]:
            value: object = getattr(self, field)
            if isinstance(value, dict):
                return f"S.{self.word}({_spell_named(cast('dict[str, object]', value))})"
        return f"S.{self.word}({', '.join(spell_options(self, self.positional))})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash((self.word, self.reads, self.writes))  # values may be lists, without a hash


OWN_CODE = StateChange()
"""What is known of a step whose function is its author's: nothing beyond what the step declares."""


class StateCapture(StateChange, frozen=True):
    """Copy what the user said into the state: the runtime does it."""

    word: ClassVar[str] = "capture"
    may_fail: ClassVar[bool] = False
    writes_to: ClassVar[str] = "key"
    key: str


class Pick(StateChange, frozen=True):
    """Delete every key of the session but these; other scopes stay."""

    word: ClassVar[str] = "pick"
    may_fail: ClassVar[bool] = False
    keys: tuple[str, ...]

    def _delta(self, state: State) -> JsonObject:
        lost = (key for key in state if scope_of(key) == "session" and key not in self.keys)
        return dict.fromkeys(lost)

    @property
    def keeps(self) -> tuple[str, ...]:
        """The only keys of the session that it leaves; None where it leaves all."""
        return self.keys


class Drop(StateChange, frozen=True):
    """Delete these keys."""

    word: ClassVar[str] = "drop"
    may_fail: ClassVar[bool] = False
    keys: tuple[str, ...]

    def _delta(self, state: State) -> JsonObject:
        return {key: None for key in self.keys if state.get(key) is not None}

    @property
    def drops(self) -> tuple[str, ...]:
        """Keys that it deletes."""
        return self.keys


class Rename(StateChange, frozen=True):
    """Move values to other names, all at once, so that two can change places."""

    word: ClassVar[str] = "rename"
    names: dict[str, str]

    def _delta(self, state: State) -> JsonObject:
        # deletions first: a new name may be an old one
        delta: JsonObject = {old: None for old, _ in self.renames}
        delta.update({new: require_value(state, old, "rename") for old, new in self.renames})
        return delta

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """Old and new names."""
        return tuple((old, new) for old, new in self.names.items() if old != new)

    @property
    def reads(self) -> tuple[str, ...]:
        """Keys that must have a value."""
        return tuple(old for old, _ in self.renames)


class Default(StateChange, frozen=True):
    """Write what is missing."""

    word: ClassVar[str] = "default"
    may_fail: ClassVar[bool] = False
    writes_to: ClassVar[str] = "values"
    values: JsonObject

    def _delta(self, state: State) -> JsonObject:
        return {key: one for key, one in self.values.items() if state.get(key) is None}

    @property
    def fills(self) -> bool:
        """Whether it writes only what is missing."""
        return True


class SetValues(StateChange, frozen=True):
    """Write these values."""

    word: ClassVar[str] = "set"
    may_fail: ClassVar[bool] = False
    writes_to: ClassVar[str] = "values"
    values: JsonObject

    def _delta(self, state: State) -> JsonObject:
        return dict(self.values)


class Merge(StateChange, frozen=True):
    """Put several values together: texts by lines, lists and dicts by their items."""

    word: ClassVar[str] = "merge"
    reads_from: ClassVar[str] = "keys"
    writes_to: ClassVar[str] = "into"
    keys: tuple[str, ...]
    into: str
    how: Callable[..., object] | None = None

    def _delta(self, state: State) -> JsonObject:
        values = [require_value(state, key, "merge") for key in self.keys]
        if self.how is not None:
            return {self.into: cast("Json", self.how(*values))}
        if all(isinstance(value, str) for value in values):
            return {self.into: "\n".join(cast("list[str]", values))}
        if all(isinstance(value, dict) for value in values):
            dicts = cast("list[JsonObject]", values)
            return {self.into: {key: one for value in dicts for key, one in value.items()}}
        if all(isinstance(value, list) for value in values):
            return {self.into: [one for value in cast("list[list[Json]]", values) for one in value]}
        return {self.into: values}


class Transform(StateChange, frozen=True):
    """Replace a value by what a function makes of it."""

    word: ClassVar[str] = "transform"
    positional: ClassVar[int] = 2
    reads_from: ClassVar[str] = "key"
    writes_to: ClassVar[str] = "key"
    key: str
    function: Callable[[Json], object]

    def _delta(self, state: State) -> JsonObject:
        return {self.key: cast("Json", self.function(require_value(state, self.key, "transform")))}


class Compute(StateChange, frozen=True):
    """Write what functions make of the whole state."""

    word: ClassVar[str] = "compute"
    writes_to: ClassVar[str] = "functions"
    functions: dict[str, StateFunction]

    def _delta(self, state: State) -> JsonObject:
        return {key: cast("Json", function(state)) for key, function in self.functions.items()}

    @property
    def asks(self) -> tuple[StateFunction, ...]:
        """Functions of the state that it calls."""
        return tuple(self.functions.values())


class Accumulate(StateChange, frozen=True):
    """Append a value to a list."""

    word: ClassVar[str] = "accumulate"
    reads_from: ClassVar[str] = "key"
    writes_to: ClassVar[str] = "into"
    key: str
    into: str

    def _delta(self, state: State) -> JsonObject:
        items: list[Json] = []
        if state.get(self.into) is not None:
            items = require_list(state, self.into, "accumulate")
        return {self.into: [*items, require_value(state, self.key, "accumulate")]}


class StateCounter(StateChange, frozen=True):
    """Add to the number that is there, or to 0."""

    word: ClassVar[str] = "counter"
    writes_to: ClassVar[str] = "key"
    key: str
    by: float = 1

    def _delta(self, state: State) -> JsonObject:
        number = state.get(self.key)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise RunError(
                f"`{self.key}` is {describe_kind(number)}, not a number",
                where="S.counter",
                hint="count under a key of its own",
            )
        return {self.key: (number or 0) + self.by}


class Flatten(StateChange, frozen=True):
    """A list of lists as one list, a dict of dicts as one dict with dotted names."""

    word: ClassVar[str] = "flatten"
    reads_from: ClassVar[str] = "key"
    key: str
    into: str | None = None

    def _delta(self, state: State) -> JsonObject:
        target = self.into or self.key
        value = require_value(state, self.key, "flatten")
        if isinstance(value, dict):
            return {target: leaf_fields(value, ".")}
        flat: list[Json] = []
        for one in require_list(state, self.key, "flatten"):
            flat += one if isinstance(one, list) else [one]
        return {target: flat}

    @property
    def writes(self) -> tuple[str, ...]:
        """Keys that get a value."""
        return (self.into or self.key,)


class Zip(StateChange, frozen=True):
    """Lists of one length as a list of dicts, the keys their fields."""

    word: ClassVar[str] = "zip"
    reads_from: ClassVar[str] = "keys"
    writes_to: ClassVar[str] = "into"
    keys: tuple[str, ...]
    into: str

    def _delta(self, state: State) -> JsonObject:
        columns = [require_list(state, key, "zip") for key in self.keys]
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            sizes = ", ".join(f"`{k}` {len(c)}" for k, c in zip(self.keys, columns, strict=True))
            raise RunError(
                f"the lists differ in length: {sizes}",
                where="S.zip",
                hint="zip lists that belong together, item by item",
            )
        rows = [dict(zip(self.keys, row, strict=True)) for row in zip(*columns, strict=True)]
        return {self.into: cast("Json", rows)}


class GroupBy(StateChange, frozen=True):
    """A list of dicts as a dict of lists, by the text of one field."""

    word: ClassVar[str] = "group_by"
    positional: ClassVar[int] = 2
    reads_from: ClassVar[str] = "key"
    writes_to: ClassVar[str] = "into"
    key: str
    field: str
    into: str

    def _delta(self, state: State) -> JsonObject:
        groups: dict[str, list[Json]] = {}
        for row in require_list(state, self.key, "group_by"):
            if not isinstance(row, dict) or row.get(self.field) is None:
                raise RunError(
                    f"an item of `{self.key}` has no field `{self.field}`",
                    where="S.group_by",
                    hint="group by a field that every item has",
                )
            groups.setdefault(str(row[self.field]), []).append(row)
        return {self.into: cast("Json", groups)}


class StateWhen(StateChange, frozen=True):
    """A change that is made where a predicate holds: that of a step, with the step's name."""

    word: ClassVar[str] = "when"
    maybe: ClassVar[bool] = True
    predicate: StateFunction
    function: StateFunction
    step: str

    def _delta(self, state: State) -> JsonObject:
        if not ask(self.predicate, state):
            return {}
        return cast("JsonObject", self.function(state) or {})

    @property
    def inner(self) -> StateChange:
        """What is known of the change."""
        return change_of(self.function)

    @property
    def fills(self) -> bool:
        """Whether it writes only what is missing."""
        return self.inner.fills

    @property
    def drops(self) -> tuple[str, ...]:
        """Keys that it deletes."""
        return self.inner.drops

    @property
    def keeps(self) -> tuple[str, ...] | None:
        """The only keys of the session that it leaves; None where it leaves all."""
        return self.inner.keeps

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """Old and new names."""
        return self.inner.renames

    @property
    def asks(self) -> tuple[StateFunction, ...]:
        """Functions of the state that it calls."""
        return (self.predicate, *self.inner.asks)

    @property
    def name(self) -> str:
        """The name of the step that makes it."""
        return f"when_{self.step}"

    def __str__(self) -> str:
        change = self.step if self.inner is OWN_CODE else str(self.inner)
        return f"S.when({name_of(self.predicate)}, {change})"


class Tag(StateChange, frozen=True):
    """Tag the newest thing an agent said: the runtime does it."""

    word: ClassVar[str] = "tag"
    may_fail: ClassVar[bool] = False
    names: tuple[str, ...]


def change_of(function: object) -> StateChange:
    """The word of `S` that a step's function is; `OWN_CODE` for any other function."""
    return function if isinstance(function, StateChange) else OWN_CODE


def _spell_named(values: Mapping[str, object]) -> str:
    """`a=1`, or `{'user:a': 1}` where a key cannot be the name of an argument."""
    spelled = {key: spell_value(value) for key, value in values.items()}
    if all(key.isidentifier() for key in values):
        return ", ".join(f"{key}={value}" for key, value in spelled.items())
    return f"{{{', '.join(f'{key!r}: {value}' for key, value in spelled.items())}}}"


def require_value(state: State, key: str, verb: str) -> Json:
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


def require_list(state: State, key: str, verb: str) -> list[Json]:
    """The value of a key that must be a list."""
    value = require_value(state, key, verb)
    if not isinstance(value, list):
        raise RunError(
            f"`{key}` is {describe_kind(value)}, not a list",
            where=f"S.{verb}",
            hint="write a list under it",
        )
    return value
