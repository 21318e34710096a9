"""`S`: what is done to the state between agents, by name.

researcher >> S.pick("findings") >> S.rename(findings="input") >> author

Each is a node of a flow that leaves one event with the delta; none, where nothing changes. Keys
may be scoped: `S.set("user:name", "Ada")`. What is read, written and taken away is known to the
checker.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, assert_never, cast

import msgspec

from weft.declare.checks import check_key, check_predicate
from weft.declare.functions import (
    StateFunction,
    ask,
    is_async,
    is_generator,
    misfit,
    name_of,
    require_state_key,
)
from weft.declare.hints import OneLetter, hinted_change
from weft.declare.nodes import Expect, Step, Tap, spell
from weft.declare.policy_parts import Strategy
from weft.errors import DeclarationError, RunError, describe_kind
from weft.late import late_pattern
from weft.session.event import scope_of
from weft.values import Json, JsonObject, leaf_fields, require_json

Look = Mapping[str, Json]

Change = Callable[[Look], JsonObject]


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
        # deletions first: a new name may be an old one
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
        items = state.get(into)
        if items is not None and not isinstance(items, list):
            listed(state, into, "accumulate")
        return {into: [*cast("list[Json]", items or []), needed(state, key, "accumulate")]}

    return change


def counted(key: str, by: float) -> Change:
    """Count on from what is there, or from 0."""

    def change(state: Look) -> JsonObject:
        number = state.get(key)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise RunError(
                f"`{key}` is {describe_kind(number)}, not a number",
                where="S.counter",
                hint="count under a key of its own",
            )
        return {key: (number or 0) + by}

    return change


def flattened(key: str, into: str) -> Change:
    """A list of lists as one list, a dict of dicts as one dict with dotted names."""

    def change(state: Look) -> JsonObject:
        value = needed(state, key, "flatten")
        if isinstance(value, dict):
            return {into: leaf_fields(value, ".")}
        items = listed(state, key, "flatten")
        flat: list[Json] = []
        for one in items:
            flat += one if isinstance(one, list) else [one]
        return {into: flat}

    return change


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
        values = {key: state.get(key) for key in keys} if keys else dict(state)
        _log.info("state: %s", values)

    return look


def conditional(predicate: Callable[[Look], object], change: Callable[[Look], object]) -> Change:
    """A change that is made where a predicate holds."""
    return lambda state: cast("JsonObject", change(state) or {}) if ask(predicate, state) else {}


Value = TypeVar("Value")


class Changes(OneLetter):
    """The changes to the state by name."""

    __slots__ = ()

    _letter = "S"

    @hinted_change
    def capture(self, key: str) -> Step:
        """Copy what the user said into state; agents see it anyway, templates do not."""
        check_key("S.capture", "key", key)
        return _step("capture", _nothing, (key,), writes=(key,), captures=(key,))

    @hinted_change
    def pick(self, *keys: str) -> Step:
        """Keep only these keys of the session; `app:`, `user:` and `temp:` keys stay."""
        return _step("pick", picked(_keys("pick", keys)), keys, keeps=keys)

    @hinted_change
    def drop(self, *keys: str) -> Step:
        """Delete these keys."""
        return _step("drop", dropped(_keys("drop", keys)), keys, drops=keys)

    @hinted_change
    def rename(self, names: Mapping[str, str] | None = None, /, **more: str) -> Step:
        """Move values to other names: S.rename(old="new"), or {"user:old": "new"}."""
        pairs = tuple({**_mapping("rename", names), **more}.items())
        _keys("rename", [key for pair in pairs for key in pair])
        targets = [new for _, new in pairs]
        for new in targets:
            require_state_key(new, where="S.rename", example='write S.rename(old="new")')
        if len(set(targets)) < len(targets):
            raise _wrong("rename", "two keys get one name", "give each a name of its own")
        renames = tuple((old, new) for old, new in pairs if old != new)
        step = _step("rename", renamed(renames), dict(pairs), renames=renames)
        return replace(step, reads=tuple(old for old, _ in renames))

    @hinted_change
    def default(self, values: Mapping[str, Json] | None = None, /, **more: Json) -> Step:
        """Write values where there is none."""
        defaults = _values("default", {**_mapping("default", values), **more})
        return _step("default", filled(defaults), defaults, writes=tuple(defaults), fills=True)

    @hinted_change
    def set(self, *pair: object, **values: Json) -> Step:
        """Write values: S.set(city="Oslo"), S.set("user:name", "Ada"), or {"user:name": "Ada"}."""
        if len(pair) > 2 or (len(pair) == 1 and not isinstance(pair[0], Mapping)):
            raise _wrong("set", "it takes a key and a value", 'write S.set("user:name", "Ada")')
        changes = {cast("str", pair[0]): pair[1]} if len(pair) == 2 else {}
        if len(pair) == 1:
            changes = dict(cast("Mapping[str, object]", pair[0]))
        checked = _values("set", {**changes, **values})
        return _step("set", written(checked), checked, writes=tuple(checked))

    @hinted_change
    def merge(self, *keys: str, into: str, how: Callable[..., object] | None = None) -> Step:
        """Put several values together under one key."""
        check_key("S.merge", "into", into)
        _at_once("merge", how)
        change = merged(_keys("merge", keys), into, how)
        return _step("merge", change, keys, into=into, reads=keys, writes=(into,))

    @hinted_change
    def transform(self, key: str, function: Callable[[Json], object]) -> Step:
        """Replace a value by what a function makes of it."""
        _function("transform", function)
        change = transformed(_keys("transform", [key])[0], function)
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
        change = computed(cast("Mapping[str, Callable[..., object]]", functions))
        step = _step("compute", change, functions, writes=tuple(functions))
        return replace(step, asks=tuple(functions.values()))

    @hinted_change
    def accumulate(self, key: str, *, into: str) -> Step:
        """Put a value at the end of a list."""
        _keys("accumulate", [key, into])
        change = accumulated(key, into)
        return _step("accumulate", change, (key,), into=into, reads=(key,), writes=(into,))

    @hinted_change
    def counter(self, key: str, *, by: float = 1) -> Step:
        """Count on from what is there, or from 0."""
        _keys("counter", [key])
        if isinstance(cast("object", by), bool) or not isinstance(cast("object", by), int | float):
            raise _wrong("counter", f"by={by!r} is no number", "pass a number")
        return _step("counter", counted(key, by), (key,), writes=(key,))

    @hinted_change
    def flatten(self, key: str, *, into: str | None = None) -> Step:
        """A list of lists as one list, a dict of dicts as one with dotted names."""
        target = into or _keys("flatten", [key])[0]
        change = flattened(key, target)
        return _step("flatten", change, (key,), into=into, reads=(key,), writes=(target,))

    @hinted_change
    def zip(self, *keys: str, into: str) -> Step:
        """Lists of one length as a list of dicts, the keys their fields."""
        check_key("S.zip", "into", into)
        change = zipped(_keys("zip", keys), into)
        return _step("zip", change, keys, into=into, reads=keys, writes=(into,))

    @hinted_change
    def group_by(self, key: str, field: str, *, into: str) -> Step:
        """A list of dicts as a dict of lists, by one field."""
        _keys("group_by", [key, field, into])
        change = grouped(key, field, into)
        return _step("group_by", change, (key, field), into=into, reads=(key,), writes=(into,))

    @hinted_change
    def guard(self, predicate: StateFunction, message: str = "the guard does not hold") -> Expect:
        """Fail the run with the message, unless the predicate holds of the state."""
        return Expect(predicate, message, name="guard")

    @hinted_change
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

    @hinted_change
    def log(self, *keys: str) -> Tap:
        """Write values of the state to the log named `weft`; all of them, if none is named."""
        return Tap(cast("StateFunction", logged(_keys("log", keys, least=0))), name="log")

    @hinted_change
    def when(self, predicate: StateFunction, change: Step) -> Step:
        """Make a change where a predicate of the state holds."""
        check_predicate(predicate, where="S.when")
        # capturing and tagging is done by the runtime, not by the function that is asked here
        if not isinstance(cast("object", change), Step) or change.captures or change.tags:
            raise _wrong(
                "when",
                f"{spell(change)} is no change of the state",
                'write S.when(test, S.set(x="y")), or Route().when(test, flow).otherwise(...)',
            )
        function = conditional(
            cast("Callable[..., object]", predicate), cast("Callable[..., object]", change.function)
        )
        written = f"S.when({name_of(predicate)}, {change.written or change.name})"
        return replace(
            change, function=cast("StateFunction", function), maybe=True, written=written,
            name=f"when_{change.name}", asks=(predicate, *change.asks),
        )  # fmt: skip

    @hinted_change
    def tag(self, *tags: str) -> Step:
        """Tag the newest thing an agent said, for C.select(tag=...)."""
        return _step("tag", _nothing, tags, tags=_keys("tag", tags))


def _step(
    verb: str,
    function: Callable[..., object],
    inputs: object,
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
    """A step under a name that says what it does; `inputs` are the arguments of the verb."""
    if isinstance(inputs, Mapping):
        options = cast("Mapping[str, object]", inputs)
        about = "_".join(options)
        words = [f"{key}={_spelled(value)}" for key, value in options.items()]
        if not all(key.isidentifier() for key in options):
            words = [f"{{{', '.join(f'{k!r}: {_spelled(v)}' for k, v in options.items())}}}"]
    else:
        arguments = cast("tuple[object, ...]", inputs)
        about = "_".join(one if isinstance(one, str) else name_of(one) for one in arguments)
        words = [_spelled(one) for one in arguments]
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
    raise _wrong(verb, f"{spell(values)} is no mapping", f'write S.{verb}({{"user:key": ...}})')


def _values(verb: str, values: Mapping[str, object]) -> JsonObject:
    for key, value in zip(_keys(verb, values), values.values(), strict=True):
        require_state_key(key, where=f"S.{verb}", example=f"write S.{verb}(key=...)")
        if value is None:
            raise _wrong(
                verb,
                f"`{key}` gets None, which is no value",
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

_log = logging.getLogger("weft")


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
            f"`{key}` is {describe_kind(value)}, not a list",
            where=f"S.{verb}",
            hint="write a list under it",
        )
    return value


_BOX = late_pattern(r"^\s*(?:[-*+]|\d+[.)])\s*\[([ xX])\]\s*(\S.*?)\s*$")


def noted(current: Json, note: Json, strategy: Strategy) -> Json:
    """The value of the key after the note; None where there is nothing to note."""
    match strategy:
        case "append":
            listed = _listed(current)
            # the same note twice in a row is one, as when a turn is resumed
            return listed if listed and listed[-1] == note else [*listed, note]
        case "replace":
            return note
        case "merge":
            return _merged(current, _parsed(note))
        case "checklist":
            return _checked(current, note)
        case _:
            assert_never(strategy)


def _listed(current: Json) -> list[Json]:
    if current is None:
        return []
    return [*current] if isinstance(current, list) else [current]


def _parsed(note: Json) -> Json:
    """A note that is JSON in a text as what it says; any other as it is."""
    if not isinstance(note, str):
        return note
    text = note.strip()
    # models like to put fences around JSON
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") + 1 : -3].strip()
    if not text.startswith(("{", "[")):
        return note
    try:
        return cast("Json", msgspec.json.decode(text))
    except msgspec.DecodeError:
        return note


def _merged(current: Json, note: Json) -> Json:
    if current is None:
        return note
    if isinstance(current, dict) and isinstance(note, dict):
        merged: JsonObject = {**current}
        for key, value in note.items():
            old = merged.get(key)
            both = isinstance(old, dict | list) and isinstance(value, dict | list)
            merged[key] = _merged(old, value) if both else value
        return merged
    united = _listed(current)
    united += [one for one in _listed(note) if one not in united]
    return united


def _checked(current: Json, note: Json) -> Json:
    """The list with the boxes of the note added, or ticked where they are there already."""
    boxes = _boxes(note)
    items: list[Json] = [_item(one) for one in _listed(current)]
    for box in boxes:
        at = next((i for i, one in enumerate(items) if _same(one, box)), None)
        if at is None:
            items.append(box)
        else:
            items[at] = {**cast("JsonObject", items[at]), "done": box["done"]}
    return items if boxes else None


def _boxes(note: Json) -> list[JsonObject]:
    if isinstance(note, str):
        matches = (_BOX.match(line) for line in note.splitlines())
        return [{"text": box[2], "done": box[1] in "xX"} for box in matches if box is not None]
    boxes = [_item(one) for one in _listed(note)]
    return [box for box in boxes if box["text"]]


def _item(one: Json) -> JsonObject:
    """A box as it is kept, from a text or an object with a text."""
    if isinstance(one, dict):
        text = one.get("text")
        return {
            **one,
            "text": text if isinstance(text, str) else "",
            "done": one.get("done") is True,
        }
    return {"text": "" if one is None else str(one), "done": False}


def _same(one: Json, box: JsonObject) -> bool:
    return isinstance(one, dict) and _plain(one.get("text")) == _plain(box["text"])


def _plain(text: Json) -> str:
    return " ".join(str(text).casefold().rstrip(".!").split())
