"""What a step and other functions of the state read, and the world after a step has run."""

import ast
from collections.abc import Iterable, Mapping
from typing import cast

from weft.checker.agents import TEXT, function_reads, step_writer, touched
from weft.checker.functions import keys_of
from weft.checker.scope import Keys, definition, kind_of, texts_of
from weft.checker.world import Fact, Read, World, Writer
from weft.declare import Step
from weft.diagnostics import Origin
from weft.session.event import scope_of
from weft.values import Json, JsonObject

_LISTS = ("S.accumulate(", "S.zip(")


def reads_of_step(node: Step) -> tuple[list[Read], bool]:
    """What a step reads, and whether that is all."""
    place = Origin("field", "reads" if not node.written else "function", node.name)
    reads = [Read(key, place, how="step", guarded=node.maybe) for key in node.reads]
    origin = Origin("field", "function", node.name)
    for index, function in enumerate(node.asks):
        asked = function_reads(function, origin, "step")
        unsure = node.maybe and index > 0  # the first decides whether the others are asked
        reads += [read._replace(guarded=True) for read in asked] if unsure else asked
    complete = all(keys_of(function).reads_all for function in node.asks)
    reads += [Read(key, origin, path, optional=True, how="step") for key, path in _fields(node)]
    if not node.reads and not node.written:
        reads += function_reads(node.function, origin, "step")
        complete = keys_of(node.function).reads_all
    return reads, complete


def _fields(node: Step) -> list[tuple[str, tuple[str | int, ...]]]:
    """The fields that the elements of a list must have: `S.group_by` names one."""
    if not node.written.startswith("S.group_by("):
        return []
    match ast.parse(node.written, mode="eval").body:
        case ast.Call(args=[ast.Constant(value=str() as key), ast.Constant(value=str() as field)]):
            return [(key, (0, field))]
        case _:
            return []


def after_step(node: Step, world: World, labels: Mapping[str, frozenset[str]]) -> World:
    """The world once the step has run."""
    writer = step_writer(node)
    code = Keys() if node.written else keys_of(node.function)
    done = _changed(node, world, writer, labels)
    if not node.written:
        done = _handled(code, done, writer)
    tainted = _labels_of(node.reads, world, labels) if node.written else frozenset[str]()
    shapes = _shapes(node)
    for key in node.writes or (() if node.written else sorted(code.writes)):
        shape = shapes.get(key) or _shape(code.kinds.get(key, ""), code.texts.get(key))
        fact = world.facts.get(key)
        if (node.fills or key in code.fills) and fact is not None:
            # it is there already, so nothing is filled in
            if fact.must:
                continue
            filled = Fact(True, (writer,), shape, labels=tainted, is_carried=True)
            both = filled.joined(fact)._replace(must=True, soft=False)
            done = done.holding({key: both})
            continue
        fills = node.fills or key in code.fills
        done = done.wrote(key, writer, shape, labels=tainted, is_carried=fills)
    for key in node.captures:
        done = done.wrote(key, writer, TEXT, is_message=True)
    if not node.writes and not node.written:
        for key in sorted(code.maybe):
            done = done.wrote(key, writer, must=False)
        if not code.writes_all:
            done = done.blurred(f"{node.name} writes what cannot be seen")
    # its condition may not hold
    return world.joined(done) if node.maybe else done


def _handled(code: Keys, world: World, writer: Writer) -> World:
    """The world after a function took keys away, or changed values in place."""
    world = world.lost(code.drops, writer)
    if not code.may_drop.isdisjoint(world.facts):
        world = world.joined(world.lost(code.may_drop, writer))
    return touched(world, (code,))


def _changed(
    node: Step, world: World, writer: Writer, labels: Mapping[str, frozenset[str]]
) -> World:
    """The world after keys were taken away or renamed; a renamed value keeps what is known."""
    if node.keeps is not None:
        keeps = node.keeps
        lost = [key for key in world.facts if scope_of(key) == "session" and key not in keeps]
        world = world.lost(lost, writer)
    renamed = {new: (old, world.facts[old]) for old, new in node.renames if old in world.facts}
    world = world.lost(node.drops, writer)
    world = world.lost([old for old, _ in node.renames], writer, dict(node.renames))
    for new, (old, fact) in renamed.items():
        tainted = fact.labels | labels.get(old, frozenset())
        world = world.wrote(
            new,
            writer,
            fact.schema,
            must=fact.must,
            soft=fact.soft,
            labels=tainted,
            is_message=fact.is_message,
        )
    for old, new in node.renames:
        if new not in renamed and old not in world.facts:
            world = world.wrote(
                new, writer
            )  # whether the old one is there is said where it is read
    return world


def _labels_of(
    keys: Iterable[str], world: World, labels: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    names: set[str] = set()
    for key in keys:
        fact = world.facts.get(key)
        names |= labels.get(key, frozenset()) | (fact.labels if fact is not None else frozenset())
    return frozenset(names)


def _shapes(node: Step) -> dict[str, JsonObject]:
    """What `S` writes, where its name says so; its constants are our own, so they may be asked."""
    if node.written.startswith(("S.set(", "S.default(")):
        # code of our own, of constants: this runs nothing of the author's
        values = cast("JsonObject", node.function({}))
        return {key: shape_ for key in values if (shape_ := _type_of(values[key])) is not None}
    if node.written.startswith("S.compute("):
        pairs = zip(node.writes, map(definition, node.asks), strict=True)
        return {
            key: shape
            for key, shape_ in pairs
            if isinstance(shape_, ast.Lambda)
            and (shape := _shape(kind_of(shape_.body), texts_of(shape_.body)))
        }
    if node.written.startswith("S.counter("):
        return {key: {"type": "number"} for key in node.writes}
    if node.written.startswith("S.group_by("):
        return {key: {"type": "object"} for key in node.writes}
    if node.written.startswith(_LISTS):
        return {key: {"type": "array"} for key in node.writes}
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
