"""Walks over declared nodes: which agents are in a flow, and the same flow with other agents."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from weft.declare import tree
from weft.declare.agent import Agent
from weft.declare.flow import Fallback, Loop, Node, Parallel, Sequence
from weft.declare.nodes import Expect, Gate, Map, Race, Step, Tap, Timeout, agents_of
from weft.declare.route import Route
from weft.declare.template import parse


def rebuilt(node: Node, change: Callable[[Agent], Agent]) -> Node:
    """The node with every agent of its flow changed; the very same where none is."""
    match node:
        case Agent():
            return change(node)
        case Step() | Gate() | Tap() | Expect():
            return node
        case Loop() | Map() | Timeout():
            body = rebuilt(node.body, change)
            return node if body is node.body else replace(node, body=body)
        case Route():
            cases = tuple(replace(case, node=rebuilt(case.node, change)) for case in node.cases)
            default = None if node.default is None else rebuilt(node.default, change)
            same = default is node.default and all(
                one.node is other.node for one, other in zip(cases, node.cases, strict=True)
            )
            return node if same else replace(node, cases=cases, default=default)
        case Sequence() | Parallel() | Fallback() | Race():
            children = tuple(rebuilt(child, change) for child in node.children)
            return node if _same(children, node.children) else _made(node, children)
        case _:
            assert_never(node)


def _same(some: tuple[Node, ...], others: tuple[Node, ...]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _made(
    node: Sequence | Parallel | Fallback | Race, children: tuple[Node, ...]
) -> Sequence | Parallel | Fallback | Race:
    name, description, inputs = node.name, node.description, node.inputs
    match node:
        case Sequence():
            return Sequence(*children, name=name, description=description, inputs=inputs)
        case Parallel():
            return Parallel(
                *children,
                name=name,
                description=description,
                inputs=inputs,
                on_error=node.on_error,
            )
        case Fallback():
            return Fallback(*children, name=name, description=description, inputs=inputs)
        case Race():
            return Race(*children, name=name, description=description, inputs=inputs)


def inherit(node: Node, model: object) -> Node:
    """The node with `model` for every agent in it that names none; the same if all name one."""
    return rebuilt(
        node, lambda agent: agent if agent.model is not None else replace(agent, model=model)
    )


def inner_agents(root: Node) -> frozenset[str]:
    """The agents whose text is data for those behind them, and not for the user.

    They write a state key and have a successor; or a map gathers what they say, and somebody
    behind it reads its list.
    """
    return frozenset(_inner(root, ()))


_OPAQUE = ""
"""Stands among the keys that are read for those that unknown code may read."""


def _inner(node: Node, later: tuple[set[str], ...]) -> set[str]:
    """Those in a node; `later` are the keys that are read behind it, empty where nothing is."""
    match node:
        case Agent():
            members = (member for member, _ in tree.walk(node) if later)
            return {m.name for m in members if isinstance(m, Agent) and m.output_key is not None}
        case Sequence():
            found: list[set[str]] = []
            read: set[str] = set()
            for index in range(len(node.steps) - 1, -1, -1):
                step = node.steps[index]
                behind = (*later, read) if index < len(node.steps) - 1 else later
                found.append(_inner(step, behind))
                read |= _read_by(step)
        case Map() if any(_OPAQUE in keys or node.into in keys for keys in later):
            found = [{agent.name for agent in agents_of(node.body)}]
        case Parallel() | Race() | Loop() | Map() | Timeout() | Fallback() | Route():
            found = [_inner(child, later) for child in node.children]
        case Step() | Tap() | Expect() | Gate():
            found = []
        case _ as unreachable:
            assert_never(unreachable)
    return {name for names in found for name in names}


def _read_by(node: Node) -> set[str]:
    """The keys that a node and those below it take from the state, to hand them on.

    What only looks at the state, or decides by it, hands nothing on.
    """
    keys: set[str] = set()
    match node:
        case Agent():
            for text in (node.instruction, node.global_instruction):
                if isinstance(text, str):
                    keys |= {one.key for one in parse(text).variables}
                elif text is not None:
                    keys.add(_OPAQUE)
            keys |= {*node.policy.state_keys}
        case Step():
            keys |= {*node.reads, *(old for old, _ in node.renames)}
            if node.asks or not (node.written or node.reads or node.writes):
                keys.add(_OPAQUE)
        case Map():
            keys.add(node.items.split(".")[0].split("[")[0])
        case _:
            pass
    below = node.sub_agents if isinstance(node, Agent) else node.children
    return keys.union(*map(_read_by, below))
