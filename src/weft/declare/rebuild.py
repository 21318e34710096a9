"""A flow made again with other agents in it."""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from weft.declare.agent import Agent
from weft.declare.expect import Expect
from weft.declare.flow import Fallback, Loop, Node, Parallel, Sequence
from weft.declare.gate import Gate
from weft.declare.map import Map
from weft.declare.race import Race
from weft.declare.route import Route
from weft.declare.step import Step
from weft.declare.tap import Tap
from weft.declare.timeout import Timeout


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
