"""Worlds in branches and behind them: of several that ran at once, and of the runs of a map."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.checker.chart import Chart
from weft.checker.schemas import follow
from weft.checker.shapes import collected
from weft.checker.sites import Read
from weft.checker.world import Fact, Gone, World, Writer
from weft.declare import (
    Agent,
    Fallback,
    Gate,
    Loop,
    Map,
    Node,
    Race,
    Route,
    Sequence,
    Step,
    Tap,
    Timeout,
)
from weft.diagnostics import Origin
from weft.session.state import scope_of

_HARMLESS = ("S.set(", "S.default(", "S.drop(", "S.pick(", "S.log(", "S.tag(", "S.capture(")
"""Steps that look nothing up, so that nothing can lack."""


def may_fail(node: Node) -> bool:
    """Whether a node may end with an error: a model or a function of the author's always may."""
    match node:
        case Step():
            return not node.written.startswith(_HARMLESS) or " >> " in node.written
        case Fallback() | Race():
            return all(map(may_fail, node.children))
        case Gate() | Tap():
            return False
        case Sequence() | Loop():
            return any(map(may_fail, node.children))
        case _:
            return True


def behind_branches(world: World, ends: Iterable[tuple[Iterable[str], World]]) -> World:
    """The world behind branches, each with the keys it writes and the world it ends in."""
    facts: dict[str, Fact] = {}
    gone: dict[str, Gone] = {}
    opaque: dict[str, None] = {}
    said: dict[str, str | None] = {}
    for keys, one in ends:
        for key in keys:
            fact = one.facts.get(key)
            if fact is not None and world.facts.get(key) is not fact:
                facts[key] = fact
                gone.pop(key, None)
        for key, held in one.gone.since(world.gone):
            if key not in world.gone and key in world.facts:
                facts.pop(key, None)
                gone[key] = held
        opaque.update(dict.fromkeys(key for key, _ in one.opaque.since(world.opaque)))
        said.update(one.said.since(world.said))
    return World(
        world.facts.updated(facts).without(gone),
        world.gone.updated(gone).without(facts),
        world.opaque.updated(opaque),
        world.said.updated(said),  # branches join where they end
        world.cases,
    )


def in_map(
    node: Map, world: World, reads: Iterable[Read], labels: Mapping[str, frozenset[str]]
) -> World:
    """The world that a run of a map begins in: its element has what is known of the list."""
    writer = Writer(node.name, Origin("field", "item", node.name), "map")
    for read in reads:
        listed = world.facts.get(read.key)
        if listed is not None:
            shape, _ = follow(listed.schema, read.path)
            element = shape.get("items") if shape is not None else None
            held = element if isinstance(element, dict) else None
            secret = listed.labels | labels.get(read.key, frozenset())
            return world.wrote(node.item, writer, held, labels=secret)
    return world.wrote(node.item, writer)


def surely_speaks(body: Node) -> bool:
    """Whether every run of a map's body says something; branches in it are not heard there."""
    match body:
        case Agent():
            return True
        case Sequence():
            return any(map(surely_speaks, body.steps))
        case Loop() | Timeout():
            return surely_speaks(body.body)
        case Route():
            return body.default is not None and all(map(surely_speaks, body.children))
        case Fallback() | Race():
            return all(map(surely_speaks, body.children))
        case _:
            return False


def behind_map(node: Map, world: World, behind: World, inner: frozenset[str]) -> World:
    """The world behind a map: the list of outputs, keys of the user and the app, and what was said.

    What agents of `inner` said is data for those behind them: it is read in the list.
    """
    shared = {
        key: fact
        for key, fact in behind.facts.since(world.facts)
        if scope_of(key) in ("app", "user")
    }
    into = Writer(node.name, Origin("field", "into", node.name), "map")
    said = {
        name: node.into if name in inner and key is None else key
        for name, key in behind.said.since(world.said)
    }
    done = replace(
        world.holding(shared),
        opaque=behind.opaque,
        said=world.said.updated(said),
        cases=Chart(),
    )
    return done.wrote(node.into, into, collected(node.body))
