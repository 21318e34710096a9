"""Whose words are the answer: not those of an agent whose text is data for a later one."""

from typing import assert_never

from weft.declare import (
    Agent,
    Expect,
    Fallback,
    Gate,
    Loop,
    Map,
    Node,
    Parallel,
    Race,
    Route,
    Sequence,
    Step,
    Tap,
    Timeout,
    agents_of,
    tree,
)


def inner_agents(root: Node) -> frozenset[str]:
    """The agents that write a state key and have a successor: their text is not for the user."""
    return frozenset(_inner(root, followed=False))


def _inner(node: Node, *, followed: bool) -> set[str]:
    match node:
        case Agent():
            members = (member for member, _ in tree.walk(node) if followed)
            return {m.name for m in members if isinstance(m, Agent) and m.output_key is not None}
        case Sequence():
            last = len(node.steps) - 1
            found = [_inner(s, followed=followed or i < last) for i, s in enumerate(node.steps)]
        case Map() if followed:
            found = [{agent.name for agent in agents_of(node.body)}]
        case Parallel() | Race() | Loop() | Map() | Timeout() | Fallback() | Route():
            found = [_inner(child, followed=followed) for child in node.children]
        case Step() | Tap() | Expect() | Gate():
            found = []
        case _ as unreachable:
            assert_never(unreachable)
    return {name for names in found for name in names}
