"""`S`: what is done to the state between agents, by name.

researcher >> S.pick("findings") >> S.rename(findings="input") >> author

Each is a node of a flow that leaves one event with the delta; none, where nothing changes. Keys
may be scoped: `S.set("user:name", "Ada")`. What is read, written and taken away is known to the
checker.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from weft.declare import changes
from weft.declare.checks import check_key, check_predicate
from weft.declare.expect import Expect
from weft.declare.functions import StateFunction, is_async, is_generator, misfit, name_of
from weft.declare.operand import spell
from weft.declare.policy.written import hinted_change, no_such_word
from weft.declare.step import Step
from weft.declare.tap import Tap
from weft.errors import DeclarationError, SessionError
from weft.values import Json, JsonObject, require_json

Held = TypeVar("Held")


class Changes:
    """The changes to the state by name."""

    __slots__ = ()

    @hinted_change
    def capture(self, key: str) -> Step:
        """Copy what the user said into state; agents see it anyway, templates do not."""
        check_key("S.capture", "key", key)
        return _step("capture", _nothing, (key,), writes=(key,), captures=(key,))

    @hinted_change
    def pick(self, *keys: str) -> Step:
        """Keep only these keys of the session; `app:`, `user:` and `temp:` keys stay."""
        return _step("pick", changes.picked(_keys("pick", keys)), keys, keeps=keys)

    @hinted_change
    def drop(self, *keys: str) -> Step:
        """Delete these keys."""
        return _step("drop", changes.dropped(_keys("drop", keys)), keys, drops=keys)

    @hinted_change
    def rename(self, names: Mapping[str, str] | None = None, /, **more: str) -> Step:
        """Move values to other names: S.rename(old="new"), or {"user:old": "new"}."""
        pairs = tuple({**_mapping("rename", names), **more}.items())
        _keys("rename", [key for pair in pairs for key in pair])
        targets = [new for _, new in pairs]
        if len(set(targets)) < len(targets):
            raise _wrong("rename", "two keys get one name", "give each a name of its own")
        kept = tuple((old, new) for old, new in pairs if old != new)
        made = _step("rename", changes.renamed(kept), dict(pairs), renames=kept)
        return replace(made, reads=tuple(old for old, _ in kept))

    @hinted_change
    def default(self, values: Mapping[str, Json] | None = None, /, **more: Json) -> Step:
        """Write values where there is none."""
        kept = _values("default", {**_mapping("default", values), **more})
        return _step("default", changes.filled(kept), kept, writes=tuple(kept), fills=True)

    @hinted_change
    def set(self, *pair: object, **values: Json) -> Step:
        """Write values: S.set(city="Oslo"), S.set("user:name", "Ada"), or {"user:name": "Ada"}."""
        if len(pair) > 2 or (len(pair) == 1 and not isinstance(pair[0], Mapping)):
            raise _wrong("set", "it takes a key and a value", 'write S.set("user:name", "Ada")')
        given = {cast("str", pair[0]): pair[1]} if len(pair) == 2 else {}
        if len(pair) == 1:
            given = dict(cast("Mapping[str, object]", pair[0]))
        kept = _values("set", {**given, **values})
        return _step("set", changes.written(kept), kept, writes=tuple(kept))

    @hinted_change
    def merge(self, *keys: str, into: str, how: Callable[..., object] | None = None) -> Step:
        """Put several values together under one key."""
        check_key("S.merge", "into", into)
        _at_once("merge", how)
        change = changes.merged(_keys("merge", keys), into, how)
        return _step("merge", change, keys, into=into, reads=keys, writes=(into,))

    @hinted_change
    def transform(self, key: str, function: Callable[[Json], object]) -> Step:
        """Replace a value by what a function makes of it."""
        _function("transform", function)
        change = changes.transformed(_keys("transform", [key])[0], function)
        return _step("transform", change, (key, function), reads=(key,), writes=(key,))

    @hinted_change
    def compute(
        self, named: Mapping[str, StateFunction] | None = None, /, **more: StateFunction
    ) -> Step:
        """Write what functions make of the whole state; {"user:n": f} for a scoped key."""
        functions = {**_mapping("compute", named), **more}
        _keys("compute", functions)
        for function in functions.values():
            _function("compute", function)
        change = changes.computed(cast("Mapping[str, Callable[..., object]]", functions))
        made = _step("compute", change, functions, writes=tuple(functions))
        return replace(made, asks=tuple(functions.values()))

    @hinted_change
    def accumulate(self, key: str, *, into: str) -> Step:
        """Put a value at the end of a list."""
        _keys("accumulate", [key, into])
        change = changes.accumulated(key, into)
        return _step("accumulate", change, (key,), into=into, reads=(key,), writes=(into,))

    @hinted_change
    def counter(self, key: str, *, by: float = 1) -> Step:
        """Count on from what is there, or from 0."""
        _keys("counter", [key])
        if isinstance(cast("object", by), bool) or not isinstance(cast("object", by), int | float):
            raise _wrong("counter", f"by={by!r} is no number", "pass a number")
        return _step("counter", changes.counted(key, by), (key,), writes=(key,))

    @hinted_change
    def flatten(self, key: str, *, into: str | None = None) -> Step:
        """A list of lists as one list, a dict of dicts as one with dotted names."""
        target = into or _keys("flatten", [key])[0]
        change = changes.flattened(key, target)
        return _step("flatten", change, (key,), into=into, reads=(key,), writes=(target,))

    @hinted_change
    def zip(self, *keys: str, into: str) -> Step:
        """Lists of one length as a list of dicts, the keys their fields."""
        check_key("S.zip", "into", into)
        change = changes.zipped(_keys("zip", keys), into)
        return _step("zip", change, keys, into=into, reads=keys, writes=(into,))

    @hinted_change
    def group_by(self, key: str, field: str, *, into: str) -> Step:
        """A list of dicts as a dict of lists, by one field."""
        _keys("group_by", [key, field, into])
        change = changes.grouped(key, field, into)
        return _step("group_by", change, (key, field), into=into, reads=(key,), writes=(into,))

    @hinted_change
    def guard(self, predicate: StateFunction, message: str = "the guard does not hold") -> Expect:
        """Fail the run with the message, unless the predicate holds of the state."""
        return Expect(predicate, message, name="guard")

    @hinted_change
    def require(self, *keys: str) -> Expect:
        """Fail the run, unless all these keys have a value."""
        kept = _keys("require", keys)
        words = " and ".join(f"`{key}`" for key in kept)
        return Expect(
            lambda state: all(state.get(key) is not None for key in kept),
            f"the state needs {words}",
            name="require",
            reads=kept,
        )

    @hinted_change
    def log(self, *keys: str) -> Tap:
        """Write values of the state to the log named `weft`; all of them, if none is named."""
        return Tap(cast("StateFunction", changes.logged(_keys("log", keys, least=0))), name="log")

    @hinted_change
    def when(self, predicate: StateFunction, change: Step) -> Step:
        """Make a change where a predicate of the state holds."""
        check_predicate(predicate, where="S.when")
        if not isinstance(cast("object", change), Step) or change.captures or change.tags:
            raise _wrong(
                "when",
                f"{spell(change)} is no change of the state",
                'write S.when(test, S.set(x="y")), or Route().when(test, flow).otherwise(...)',
            )
        made = changes.conditional(
            cast("Callable[..., object]", predicate), cast("Callable[..., object]", change.function)
        )
        written = f"S.when({name_of(predicate)}, {change.written or change.name})"
        return replace(
            change, function=cast("StateFunction", made), maybe=True, written=written,
            name=f"when_{change.name}", asks=(predicate, *change.asks),
        )  # fmt: skip

    @hinted_change
    def tag(self, *tags: str) -> Step:
        """Tag the newest thing an agent said, for C.select(tag=...)."""
        return _step("tag", _nothing, tags, tags=_keys("tag", tags))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        words = [word for word in dir(type(self)) if not word.startswith("_")]
        raise no_such_word("S", name, words)

    def __repr__(self) -> str:
        return "S"


def _step(
    verb: str,
    function: Callable[..., object],
    shown: object,
    *,
    into: str | None = None,
    reads: tuple[str, ...] = (),
    writes: tuple[str, ...] = (),
    captures: tuple[str, ...] = (),
    drops: tuple[str, ...] = (),
    keeps: tuple[str, ...] | None = None,
    renames: tuple[tuple[str, str], ...] = (),
    fills: bool = False,
    tags: tuple[str, ...] = (),
) -> Step:
    """A step under a name that says what it does."""
    if isinstance(shown, Mapping):
        options = cast("Mapping[str, object]", shown)
        about = "_".join(options)
        words = [f"{key}={_spelled(value)}" for key, value in options.items()]
        if not all(key.isidentifier() for key in options):
            words = [f"{{{', '.join(f'{k!r}: {_spelled(v)}' for k, v in options.items())}}}"]
    else:
        given = cast("tuple[object, ...]", shown)
        about = "_".join(one if isinstance(one, str) else name_of(one) for one in given)
        words = [_spelled(one) for one in given]
    if into is not None:
        words.append(f"into={into!r}")
    name = re.sub(r"\W+", "_", f"{verb}_{about}").strip("_")
    return Step(
        cast("StateFunction", function), name=name, reads=reads, writes=writes, captures=captures,
        drops=drops, keeps=keeps, renames=renames, fills=fills, tags=tags,
        written=f"S.{verb}({', '.join(words)})",
    )  # fmt: skip


def _spelled(value: object) -> str:
    return name_of(value) if callable(value) else repr(value)


def _nothing(state: object) -> None:
    """No change beside what the step itself says."""


def _keys(verb: str, keys: object, *, least: int = 1) -> tuple[str, ...]:
    found = tuple(cast("tuple[object, ...]", keys))
    if len(found) < least:
        raise _wrong(verb, "it names no keys", f'write S.{verb}("key")')
    if len(found) == 1 and isinstance(found[0], list):
        listed = cast("list[object]", found[0])
        words = ", ".join(f'"{one}"' for one in listed)
        raise _wrong(verb, f"{listed!r} is a list", f"write S.{verb}({words})")
    for key in found:
        if not isinstance(key, str) or not key:
            raise _wrong(verb, f"{spell(key)} is no key", "a key is a text that is not empty")
    return cast("tuple[str, ...]", found)


def _mapping(verb: str, given: Mapping[str, Held] | None) -> dict[str, Held]:
    if given is None or isinstance(cast("object", given), Mapping):
        return dict(given or {})
    raise _wrong(verb, f"{spell(given)} is no mapping", f'write S.{verb}({{"user:key": ...}})')


def _values(verb: str, values: Mapping[str, object]) -> JsonObject:
    _keys(verb, values)
    for key, held in values.items():
        if held is None:
            raise _wrong(
                verb,
                f"`{key}` gets None, which is no value",
                f'to delete it, write S.drop("{key}")',
            )
    try:
        return {key: require_json(held, where=f"S.{verb}.{key}") for key, held in values.items()}
    except SessionError as error:
        raise DeclarationError(error.message, where=error.where, hint=error.hint) from None


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
