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
from weft.declare.template import parse


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
