"""`S`: what is done to the state between agents, by name.

researcher >> S.pick("findings") >> S.rename(findings="input") >> author

Each is a node of a flow that leaves one event with the delta; none, where nothing changes. Keys
may be scoped: `S.set("user:name", "Ada")`. What is read, written and taken away is known to the
checker.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from weft.declare.changes import (
    Accumulate,
    Compute,
    Default,
    Drop,
    Flatten,
    GroupBy,
    Merge,
    Pick,
    Rename,
    SetValues,
    State,
    StateCapture,
    StateChange,
    StateCounter,
    StateWhen,
    Tag,
    Transform,
    Zip,
)
from weft.declare.checks import check_key, check_predicate
from weft.declare.functions import (
    StateFunction,
    is_async,
    is_generator,
    misfit,
    name_of,
    require_state_key,
)
from weft.declare.hints import OneLetter, explain_change_calls
from weft.declare.nodes import Expect, Step, Tap, spell
from weft.errors import DeclarationError
from weft.values import Json, JsonObject, require_json

_log = logging.getLogger("weft")

Value = TypeVar("Value")


class Changes(OneLetter):
    """The changes to the state by name."""

    __slots__ = ()

    _letter = "S"

    @explain_change_calls
    def capture(self, key: str) -> Step:
        """Copy what the user said into state; agents see it anyway, templates do not."""
        check_key("S.capture", "key", key)
        return replace(_step(StateCapture(key)), captures=(key,))

    @explain_change_calls
    def pick(self, *keys: str) -> Step:
        """Keep only these keys of the session; `app:`, `user:` and `temp:` keys stay."""
        return _step(Pick(_keys("pick", keys)))

    @explain_change_calls
    def drop(self, *keys: str) -> Step:
        """Delete these keys."""
        return _step(Drop(_keys("drop", keys)))

    @explain_change_calls
    def rename(self, names: Mapping[str, str] | None = None, /, **more: str) -> Step:
        """Move values to other names: S.rename(old="new"), or {"user:old": "new"}."""
        pairs = {**_mapping("rename", names), **more}
        _keys("rename", [key for pair in pairs.items() for key in pair])
        targets = [*pairs.values()]
        for new in targets:
            require_state_key(new, where="S.rename", example='write S.rename(old="new")')
        if len(set(targets)) < len(targets):
            raise _wrong("rename", "two keys get one name", "give each a name of its own")
        return _step(Rename(pairs))

    @explain_change_calls
    def default(self, values: Mapping[str, Json] | None = None, /, **more: Json) -> Step:
        """Write values where there is none."""
        return _step(Default(_values("default", {**_mapping("default", values), **more})))

    @explain_change_calls
    def set(self, *pair: object, **values: Json) -> Step:
        """Write values: S.set(city="Oslo"), S.set("user:name", "Ada"), or {"user:name": "Ada"}."""
        if len(pair) > 2 or (len(pair) == 1 and not isinstance(pair[0], Mapping)):
            raise _wrong("set", "it takes a key and a value", 'write S.set("user:name", "Ada")')
        changes = {cast("str", pair[0]): pair[1]} if len(pair) == 2 else {}
        if len(pair) == 1:
            changes = dict(cast("Mapping[str, object]", pair[0]))
        return _step(SetValues(_values("set", {**changes, **values})))

    @explain_change_calls
    def merge(self, *keys: str, into: str, how: Callable[..., object] | None = None) -> Step:
        """Put several values together under one key."""
        check_key("S.merge", "into", into)
        _at_once("merge", how)
        return _step(Merge(_keys("merge", keys), into, how))

    @explain_change_calls
    def transform(self, key: str, function: Callable[[Json], object]) -> Step:
        """Replace a value by what a function makes of it."""
        _function("transform", function)
        return _step(Transform(_keys("transform", [key])[0], function))

    @explain_change_calls
    def compute(
        self, named: Mapping[str, StateFunction] | None = None, /, **more: StateFunction
    ) -> Step:
        """Write what functions make of the whole state; {"user:n": f} for a scoped key."""
        functions = {**_mapping("compute", named), **more}
        _keys("compute", functions)
        for function in functions.values():
            _function("compute", function)
        return _step(Compute(functions))

    @explain_change_calls
    def accumulate(self, key: str, *, into: str) -> Step:
        """Put a value at the end of a list."""
        _keys("accumulate", [key, into])
        return _step(Accumulate(key, into))

    @explain_change_calls
    def counter(self, key: str, *, by: float = 1) -> Step:
        """Count on from what is there, or from 0."""
        _keys("counter", [key])
        if isinstance(cast("object", by), bool) or not isinstance(cast("object", by), int | float):
            raise _wrong("counter", f"by={by!r} is not a number", "pass a number")
        return _step(StateCounter(key, by))

    @explain_change_calls
    def flatten(self, key: str, *, into: str | None = None) -> Step:
        """A list of lists as one list, a dict of dicts as one with dotted names."""
        _keys("flatten", [key])
        return _step(Flatten(key, into))

    @explain_change_calls
    def zip(self, *keys: str, into: str) -> Step:
        """Lists of one length as a list of dicts, the keys their fields."""
        check_key("S.zip", "into", into)
        return _step(Zip(_keys("zip", keys), into))

    @explain_change_calls
    def group_by(self, key: str, field: str, *, into: str) -> Step:
        """A list of dicts as a dict of lists, by one field."""
        _keys("group_by", [key, field, into])
        return _step(GroupBy(key, field, into))

    @explain_change_calls
    def guard(self, predicate: StateFunction, message: str = "the guard does not hold") -> Expect:
        """Fail the run with the message, unless the predicate holds of the state."""
        return Expect(predicate, message, name="guard")

    @explain_change_calls
    def require(self, *keys: str) -> Expect:
        """Fail the run, unless all these keys have a value."""
        names = _keys("require", keys)
        words = " and ".join(f"`{key}`" for key in names)
        return Expect(
            lambda state: all(state.get(key) is not None for key in names),
            f"the state needs {words}",
            name="require",
            reads=names,
        )

    @explain_change_calls
    def log(self, *keys: str) -> Tap:
        """Write values of the state to the log named `weft`; all of them, if none is named."""
        return Tap(_log_values(_keys("log", keys, least=0)), name="log")

    @explain_change_calls
    def when(self, predicate: StateFunction, change: Step) -> Step:
        """Make a change where a predicate of the state holds."""
        check_predicate(predicate, where="S.when")
        # capturing and tagging is done by the runtime, not by the function that is asked here
        if (
            not isinstance(cast("object", change), Step)
            or change.captures
            or isinstance(change.change, Tag)
        ):
            raise _wrong(
                "when",
                f"{spell(change)} is not a change of the state",
                'write S.when(test, S.set(x="y")), or Route().when(test, flow).otherwise(...)',
            )
        when = StateWhen(predicate, change.function, change.name)
        return replace(change, function=when, name=when.name)

    @explain_change_calls
    def tag(self, *tags: str) -> Step:
        """Tag the newest thing an agent said, for C.select(tag=...)."""
        return _step(Tag(_keys("tag", tags)))


def _step(change: StateChange) -> Step:
    """A step under a name that says what it does."""
    return Step(change, name=change.name, reads=change.reads, writes=change.writes)


def _log_values(keys: tuple[str, ...]) -> Callable[[State], None]:
    """Write values to the log named `weft`."""

    def look(state: State) -> None:
        values = {key: state.get(key) for key in keys} if keys else dict(state)
        _log.info("state: %s", values)

    return look


def _keys(verb: str, keys: object, *, least: int = 1) -> tuple[str, ...]:
    names = tuple(cast("tuple[object, ...]", keys))
    if len(names) < least:
        raise _wrong(verb, "it names no keys", f'write S.{verb}("key")')
    if len(names) == 1 and isinstance(names[0], list):
        listed = cast("list[object]", names[0])
        words = ", ".join(f'"{one}"' for one in listed)
        raise _wrong(verb, f"{listed!r} is a list", f"write S.{verb}({words})")
    for key in names:
        if not isinstance(key, str) or not key:
            raise _wrong(
                verb, f"{spell(key)} is not a state key", "a key is a text that is not empty"
            )
    return cast("tuple[str, ...]", names)


def _mapping(verb: str, values: Mapping[str, Value] | None) -> dict[str, Value]:
    if values is None or isinstance(cast("object", values), Mapping):
        return dict(values or {})
    raise _wrong(verb, f"{spell(values)} is not a mapping", f'write S.{verb}({{"user:key": ...}})')


def _values(verb: str, values: Mapping[str, object]) -> JsonObject:
    for key, value in zip(_keys(verb, values), values.values(), strict=True):
        require_state_key(key, where=f"S.{verb}", example=f"write S.{verb}(key=...)")
        if value is None:
            raise _wrong(
                verb,
                f"`{key}` gets None, which is not a value",
                f'to delete it, write S.drop("{key}")',
            )
    return {
        key: require_json(value, where=f"S.{verb}.{key}", refuse=DeclarationError)
        for key, value in values.items()
    }


def _function(verb: str, function: object) -> None:
    taken = misfit(function, 1) if callable(function) else "nothing: it cannot be called"
    if not callable(function) or taken is not None:
        raise _wrong(verb, f"`{name_of(function)}` takes {taken}", "pass a function of one value")
    _at_once(verb, function)


def _at_once(verb: str, function: object) -> None:
    if is_async(function) or is_generator(function):
        raise _wrong(
            verb,
            f"`{name_of(function)}` does not answer at once",
            "write a step that may wait: async def step(state): return {...}",
        )


def _wrong(verb: str, message: str, hint: str) -> DeclarationError:
    return DeclarationError(message, where=f"S.{verb}", hint=hint)


S = Changes()
"""The changes to the state by name."""
