"""A node that stands below an agent without being in its tree, with the agent's model."""

from dataclasses import replace
from typing import assert_never

from weft.declare.agent import Agent
from weft.declare.flow import Fallback, Loop, Node, Parallel, Sequence
from weft.declare.route import Route
from weft.declare.step import Step


def inherit(node: Node, model: object) -> Node:
    """The node with `model` for every agent in it that names none; the same if all name one."""
    match node:
        case Agent():
            return node if node.model is not None else replace(node, model=model)
        case Step():
            return node
        case Loop():
            body = inherit(node.body, model)
            return node if body is node.body else replace(node, body=body)
        case Route():
            cases = tuple(replace(case, node=inherit(case.node, model)) for case in node.cases)
            default = None if node.default is None else inherit(node.default, model)
            return replace(node, cases=cases, default=default)
        case Sequence() | Parallel() | Fallback():
            children = tuple(inherit(child, model) for child in node.children)
            return node if _same(children, node.children) else _made(node, children)
        case _:
            assert_never(node)


def _same(some: tuple[Node, ...], others: tuple[Node, ...]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _made(
    node: Sequence | Parallel | Fallback, children: tuple[Node, ...]
) -> Sequence | Parallel | Fallback:
    name, description = node.name, node.description
    match node:
        case Sequence():
            return Sequence(*children, name=name, description=description)
        case Parallel():
            options = {"name": name, "description": description}
            return Parallel(*children, on_error=node.on_error, **options)
        case Fallback():
            return Fallback(*children, name=name, description=description)
