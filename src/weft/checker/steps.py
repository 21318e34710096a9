"""What a step and other functions of the state read, and the world after a step has run."""

import ast
from collections.abc import Iterable, Mapping

from weft.checker.agents import TEXT, forget_shapes, function_reads, step_writer
from weft.checker.functions import keys_of
from weft.checker.keys import Keys
from weft.checker.scope import kind_of, texts_of
from weft.checker.sources import definition
from weft.checker.world import Fact, Read, World, Writer
from weft.declare import Step
from weft.declare.changes import (
    OWN_CODE,
    Accumulate,
    Compute,
    Default,
    GroupBy,
    SetValues,
    StateChange,
    StateCounter,
    Zip,
)
from weft.diagnostics import Origin
from weft.session.event import scope_of
from weft.values import Json, JsonObject


def reads_of_step(node: Step) -> tuple[list[Read], bool]:
    """What a step reads, and whether that is all."""
    change = node.change
    place = Origin("field", "reads" if change is OWN_CODE else "function", node.name)
    reads = [Read(key, place, how="step", guarded=change.maybe) for key in node.reads]
    origin = Origin("field", "function", node.name)
    for index, function in enumerate(change.asks):
        asked = function_reads(function, origin, "step")
        unsure = change.maybe and index > 0  # the first decides whether the others are asked
        reads += [read._replace(guarded=True) for read in asked] if unsure else asked
    complete = all(keys_of(function).reads_all for function in change.asks)
    if isinstance(change, GroupBy):  # every element must have the field
        reads.append(Read(change.key, origin, (0, change.field), optional=True, how="step"))
    if not node.reads and change is OWN_CODE:
        reads += function_reads(node.function, origin, "step")
        complete = keys_of(node.function).reads_all
    return reads, complete


def after_step(node: Step, world: World, labels: Mapping[str, frozenset[str]]) -> World:
    """The world once the step has run."""
    writer = step_writer(node)
    code, change = keys_of(node.function), node.change
    done = _apply_code(code, _apply_change(change, world, writer, labels), writer)
    own_code = change is OWN_CODE
    tainted = frozenset[str]() if own_code else _labels_of(node.reads, world, labels)
    shapes = _shapes(change)
    for key in node.writes or sorted(code.writes):
        shape = shapes.get(key) or _shape(code.kinds.get(key, ""), code.texts.get(key))
        fact = world.facts.get(key)
        fills = change.fills or key in code.fills
        if fills and fact is not None:
            # it is there already, so nothing is filled in
            if fact.must:
                continue
            filled = Fact(True, (writer,), shape, labels=tainted, is_carried=True)
            both = filled.join_with(fact)._replace(must=True, soft=False)
            done = done.with_facts({key: both})
            continue
        done = done.with_write(key, writer, shape, labels=tainted, is_carried=fills)
    for key in node.captures:
        done = done.with_write(key, writer, TEXT, is_message=True)
    if not node.writes:
        for key in sorted(code.maybe):
            done = done.with_write(key, writer, must=False)
        if not code.writes_all:
            done = done.with_unknown(f"{node.name} writes what cannot be seen")
    # its condition may not hold
    return world.join_with(done) if change.maybe else done


def _apply_code(code: Keys, world: World, writer: Writer) -> World:
    """The world after a function took keys away, or changed values in place."""
    world = world.without_keys(code.drops, writer)
    if not code.may_drop.isdisjoint(world.facts):
        world = world.join_with(world.without_keys(code.may_drop, writer))
    return forget_shapes(world, (code,))


def _apply_change(
    change: StateChange, world: World, writer: Writer, labels: Mapping[str, frozenset[str]]
) -> World:
    """The world after keys were taken away or renamed; a renamed value keeps what is known."""
    keeps = change.keeps
    if keeps is not None:
        lost = [key for key in world.facts if scope_of(key) == "session" and key not in keeps]
        world = world.without_keys(lost, writer)
    renamed = {new: (old, world.facts[old]) for old, new in change.renames if old in world.facts}
    world = world.without_keys(change.drops, writer)
    world = world.without_keys([old for old, _ in change.renames], writer, dict(change.renames))
    for new, (old, fact) in renamed.items():
        tainted = fact.labels | labels.get(old, frozenset())
        world = world.with_write(
            new,
            writer,
            fact.schema,
            must=fact.must,
            soft=fact.soft,
            labels=tainted,
            is_message=fact.is_message,
        )
    for old, new in change.renames:
        if new not in renamed and old not in world.facts:
            # whether the old one is there is said where it is read
            world = world.with_write(new, writer)
    return world


def _labels_of(
    keys: Iterable[str], world: World, labels: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    names: set[str] = set()
    for key in keys:
        fact = world.facts.get(key)
        names |= labels.get(key, frozenset()) | (fact.labels if fact is not None else frozenset())
    return frozenset(names)


def _shapes(change: StateChange) -> dict[str, JsonObject]:
    """What is known of the values that a word of `S` writes."""
    match change:
        case SetValues(values=values) | Default(values=values):
            types = {key: _type_of(value) for key, value in values.items()}
            return {key: shape for key, shape in types.items() if shape is not None}
        case Compute(functions=functions):
            bodies = {key: definition(function) for key, function in functions.items()}
            return {
                key: shape
                for key, function in bodies.items()
                if isinstance(function, ast.Lambda)
                and (shape := _shape(kind_of(function.body), texts_of(function.body)))
            }
        case StateCounter(key=key):
            return {key: {"type": "number"}}
        case GroupBy(into=key):
            return {key: {"type": "object"}}
        case Accumulate(into=key) | Zip(into=key):
            return {key: {"type": "array"}}
        case _:
            return {}


def _type_of(value: Json) -> JsonObject | None:
    if isinstance(value, bool):
        return _shape("boolean")
    if isinstance(value, int | float):
        return _shape("number")
    return _shape("string" if isinstance(value, str) else "array" * isinstance(value, list))


def _shape(kind: str, texts: frozenset[str] | None = None) -> JsonObject | None:
    if texts and len(texts) > 1:  # one alone is a mark, to be compared with what others write
        return {"enum": [*sorted(texts)]}
    return {"type": kind} if kind else None
