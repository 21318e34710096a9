"""Which keys anything in a part of a flow may write, in whatever order it runs."""

from collections.abc import Iterator
from typing import cast

from weft.checker.agents import blurs, writes_of
from weft.checker.code import used_by
from weft.checker.functions import keys_of
from weft.checker.keys import Keys
from weft.checker.world import Writer, WriterKind
from weft.declare import Agent, Gate, Map, Node, Step
from weft.declare.compose import Composable
from weft.declare.policy.selectors import When
from weft.declare.policy.transforms import Label
from weft.declare.walk import agents_of
from weft.diagnostics import Origin
from weft.session.state import scope_of

Written = dict[str, tuple[Writer, ...]]


class Writes:
    """The keys of each node of a flow, worked out once; with or without what only fills gaps."""

    def __init__(self, *, fills: bool = True) -> None:
        self._fills = fills
        self._known: dict[int, Written] = {}

    def of(self, node: Node) -> Written:
        """The keys that the node or anything below it writes, and who does."""
        known = self._known.get(id(node))
        if known is not None:
            return known
        found: dict[str, dict[Writer, None]] = {}
        for key, writer in self._pairs(node):
            found.setdefault(key, {})[writer] = None
        known = self._known[id(node)] = {key: tuple(writers) for key, writers in found.items()}
        return known

    def _pairs(self, node: Node) -> Iterator[tuple[str, Writer]]:
        match node:
            case Agent():
                for key, writer, _ in writes_of(node):
                    yield key, writer
                called = [t.agent for t in node.tools if isinstance(t.agent, Composable)]
                for below in (*node.sub_agents, *cast("list[Node]", called)):
                    yield from self._flat(below)
            case Step():
                writer = step_writer(node)
                found = Keys() if node.written else keys_of(node.function)
                keys = node.writes or (() if node.written else (*found.writes, *found.maybe))
                if self._fills or not node.fills:
                    yield from ((key, writer) for key in keys)
                yield from ((new, writer) for _, new in node.renames)
                yield from ((key, writer) for key in node.captures if key not in keys)
            case Gate():
                yield node.key, Writer(node.name, Origin("field", "key", node.name), "gate")
            case Map():
                yield node.into, Writer(node.name, Origin("field", "into", node.name), "map")
                for key, writer in self._flat(node.body):
                    if scope_of(key) in ("app", "user"):
                        yield key, writer
            case _:
                for child in node.children:
                    yield from self._flat(child)

    def _flat(self, node: Node) -> Iterator[tuple[str, Writer]]:
        for key, writers in self.of(node).items():
            yield from ((key, writer) for writer in writers)


def step_writer(node: Step) -> Writer:
    """A step as the one who writes."""
    kind: WriterKind = "transform" if node.written else "step"
    return Writer(node.name, Origin("field", "function", node.name), kind, node.written)


def may_write_anything(node: Node) -> bool:
    """Whether code runs in it that does not say what it writes."""
    if isinstance(node, Agent):
        called = [tool.agent for agent in agents_of(node) for tool in agent.tools]
        flows = cast("list[Node]", [flow for flow in called if isinstance(flow, Composable)])
        return any(map(blurs, agents_of(node))) or any(map(may_write_anything, flows))
    if isinstance(node, Step):
        return not node.writes and not node.written and not keys_of(node.function).writes_all
    return any(may_write_anything(child) for child in node.children)


def labels_in(node: Node) -> dict[str, frozenset[str]]:
    """By key: the labels that any policy or tool of the flow puts on it."""
    found: dict[str, set[str]] = {}
    for agent in agents_of(node):
        policies = [agent.policy] if agent.context is not None else []
        while policies:
            policy = policies.pop()
            for one in policy.protections:
                if isinstance(one, Label):
                    for key in one.keys:
                        found.setdefault(key, set()).add(one.name)
            policies += [s.selector.policy for s in policy.stages if isinstance(s.selector, When)]
        for tool in agent.tools:
            for key in used_by(tool).writes:
                if tool.labels:
                    found.setdefault(key, set()).update(tool.labels)
    return {key: frozenset(names) for key, names in found.items()}
