"""Visit the nodes of a flow: one method a kind, and what follows from it for every flow.

Whoever asks something of every kind of node implements `Visitor`; a type checker then names the
method that is missing when a kind is added. Where most kinds have the same answer, `DefaultVisitor`
gives it. `show` is a flow as text: the operators that make it, with all parentheses.
"""

# ruff: noqa: D102  a method's name says the kind, and `Visitor` says what it is

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Generic, TypeVar, assert_never, cast

import msgspec

from weft.declare.agent import Agent, agents_of, children, nodes_below, walk_tree
from weft.declare.changes import OWN_CODE
from weft.declare.compose import Composable
from weft.declare.custom import CustomAgent
from weft.declare.flow import Fallback, Flow, Loop, Node, Parallel, Sequence, until, while_
from weft.declare.functions import name_of
from weft.declare.nodes import Expect, Map, Race, Step, Tap, Timeout
from weft.declare.route import Case, Gate, Route, quote_value, spell_options
from weft.declare.template import parse

T = TypeVar("T")


class Visitor(ABC, Generic[T]):
    """One method for each kind of node; `visit` calls the one that fits."""

    __slots__ = ()

    def visit(self, node: Node) -> T:
        """What the method for this kind of node returns."""
        match node:
            case Agent():
                return self.visit_agent(node)
            case Sequence():
                return self.visit_sequence(node)
            case Step():
                return self.visit_step(node)
            case Parallel():
                return self.visit_parallel(node)
            case Route():
                return self.visit_route(node)
            case Loop():
                return self.visit_loop(node)
            case Map():
                return self.visit_map(node)
            case Fallback():
                return self.visit_fallback(node)
            case Race():
                return self.visit_race(node)
            case Timeout():
                return self.visit_timeout(node)
            case Gate():
                return self.visit_gate(node)
            case Tap():
                return self.visit_tap(node)
            case Expect():
                return self.visit_expect(node)
            case CustomAgent():
                return self.visit_custom_agent(node)
            case _ as unreachable:
                assert_never(unreachable)

    @abstractmethod
    def visit_agent(self, node: Agent) -> T:
        """An agent: a leaf of the flow. Its sub-agents are reached by transfer."""

    @abstractmethod
    def visit_sequence(self, node: Sequence) -> T:
        """One node after the other."""

    @abstractmethod
    def visit_step(self, node: Step) -> T:
        """A function that changes the state."""

    @abstractmethod
    def visit_parallel(self, node: Parallel) -> T:
        """All branches at once."""

    @abstractmethod
    def visit_route(self, node: Route) -> T:
        """One node, chosen by the state."""

    @abstractmethod
    def visit_loop(self, node: Loop) -> T:
        """The body again and again."""

    @abstractmethod
    def visit_map(self, node: Map) -> T:
        """The body for each element of a list."""

    @abstractmethod
    def visit_fallback(self, node: Fallback) -> T:
        """The first choice that does not fail."""

    @abstractmethod
    def visit_race(self, node: Race) -> T:
        """The first branch that completes."""

    @abstractmethod
    def visit_timeout(self, node: Timeout) -> T:
        """The body, for a limited time."""

    @abstractmethod
    def visit_gate(self, node: Gate) -> T:
        """A question to a person."""

    @abstractmethod
    def visit_tap(self, node: Tap) -> T:
        """A function that only looks."""

    @abstractmethod
    def visit_expect(self, node: Expect) -> T:
        """A predicate that must hold."""

    @abstractmethod
    def visit_custom_agent(self, node: CustomAgent) -> T:
        """Code that decides which of its children run."""


class DefaultVisitor(Visitor[T]):
    """A visitor with one answer for all kinds of node that it has no method for."""

    __slots__ = ()

    @abstractmethod
    def visit_other(self, node: Node) -> T:
        """The answer for the kinds without a method of their own."""

    def visit_agent(self, node: Agent) -> T:
        return self.visit_other(node)

    def visit_sequence(self, node: Sequence) -> T:
        return self.visit_other(node)

    def visit_step(self, node: Step) -> T:
        return self.visit_other(node)

    def visit_parallel(self, node: Parallel) -> T:
        return self.visit_other(node)

    def visit_route(self, node: Route) -> T:
        return self.visit_other(node)

    def visit_loop(self, node: Loop) -> T:
        return self.visit_other(node)

    def visit_map(self, node: Map) -> T:
        return self.visit_other(node)

    def visit_fallback(self, node: Fallback) -> T:
        return self.visit_other(node)

    def visit_race(self, node: Race) -> T:
        return self.visit_other(node)

    def visit_timeout(self, node: Timeout) -> T:
        return self.visit_other(node)

    def visit_gate(self, node: Gate) -> T:
        return self.visit_other(node)

    def visit_tap(self, node: Tap) -> T:
        return self.visit_other(node)

    def visit_expect(self, node: Expect) -> T:
        return self.visit_other(node)

    def visit_custom_agent(self, node: CustomAgent) -> T:
        return self.visit_other(node)


def rebuild(node: Node, change: Callable[[Agent], Agent]) -> Node:
    """The node with every agent of its flow changed; the very same node where none is.

    What an agent hands over to, or calls as a tool, stays as it is: `rebuild_program` changes
    that too.
    """
    return _rebuild(node, change, _nothing_inside)


def rebuild_program(root: Node, change: Callable[[Agent], Agent]) -> Node:
    """The program with every agent changed: in flows, below agents, and in tools.

    An agent that stands in several places is changed once, and is the same agent in all of them.
    """
    return _rebuild(root, change, _inside_agent)


def _nothing_inside(agent: Agent) -> tuple[Node, ...]:
    return ()


def _inside_agent(agent: Agent) -> tuple[Node, ...]:
    """The nodes that an agent hands over to, and those that it calls as tools."""
    called = (tool.agent for tool in agent.tools if tool.agent is not None)
    return (*agent.sub_agents, *called)


def _rebuild(
    root: Node, change: Callable[[Agent], Agent], inside: Callable[[Agent], tuple[Node, ...]]
) -> Node:
    """Rebuild from the leaves up, without recursion: a program may be nested to any depth."""
    rebuilt: dict[int, Node] = {}
    waiting: list[Node] = [root]
    while waiting:
        node = waiting[-1]
        below = inside(node) if isinstance(node, Agent) else node.children
        missing = [child for child in below if id(child) not in rebuilt]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if id(node) not in rebuilt:
            heirs = tuple(rebuilt[id(child)] for child in below)
            # the same object where nothing changes: plans are kept by identity
            is_same = all(new is old for new, old in zip(heirs, below, strict=True))
            if isinstance(node, Agent):
                changed = change(node)
                rebuilt[id(node)] = changed if is_same else _with_inside(changed, rebuilt)
            else:
                rebuilt[id(node)] = node if is_same else with_children(node, heirs)
    return rebuilt[id(root)]


def _with_inside(agent: Agent, rebuilt: Mapping[int, Node]) -> Agent:
    """The agent with rebuilt sub-agents and tools; it was checked when it was declared."""
    copied = copy(agent)
    children = tuple(rebuilt.get(id(child), child) for child in agent.sub_agents)
    tools = tuple(
        tool
        if tool.agent is None
        else msgspec.structs.replace(tool, agent=rebuilt.get(id(tool.agent), tool.agent))
        for tool in agent.tools
    )
    object.__setattr__(copied, "sub_agents", children)
    object.__setattr__(copied, "tools", tools)
    return copied


def with_children(node: Flow, new_children: Iterable[Node]) -> Node:
    """The flow with these nodes in the place of its children, in their order."""
    if isinstance(node, CustomAgent):
        return node.adopting([*new_children])
    fresh = iter(new_children)
    # field by field: `__init__` takes other arguments, and would check everything again
    rebuilt = copy(node)
    for name, value in vars(node).items():
        object.__setattr__(rebuilt, name, _with_children(value, fresh))
    return rebuilt


def _with_children(value: object, fresh: Iterator[Node]) -> object:
    """The value of a field with the next of these nodes in the place of each node in it."""
    if isinstance(value, Composable):
        return next(fresh)
    if isinstance(value, Case):
        return replace(value, node=next(fresh))
    if isinstance(value, tuple):
        return tuple(_with_children(one, fresh) for one in cast("tuple[object, ...]", value))
    return value


def inherit(node: Node, model: object) -> Node:
    """The node with `model` for every agent in it that names none; the same if all name one."""
    return rebuild(
        node, lambda agent: agent if agent.model is not None else replace(agent, model=model)
    )


def every_node(root: Node) -> list[Node]:
    """Every node once: of flows, of agents' trees, and of what is called as a tool."""
    nodes: dict[int, Node] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            waiting += nodes_below(node)
            if isinstance(node, Agent):
                waiting += [tool.agent for tool in node.tools if tool.agent is not None]
    return [*nodes.values()]


def inner_agents(root: Node) -> frozenset[str]:
    """The agents whose text is data for the agents after them, and not for the user.

    Such an agent writes a state key and has a successor. Or a map collects what it says, and a
    later node reads the map's list.
    """
    return frozenset(_InnerAgents(()).visit(root))


_OPAQUE = ""
"""Stands among the keys that are read for those that unknown code may read."""


class _InnerAgents(DefaultVisitor[set[str]]):
    """The inner agents of a node, by the keys that are read after it.

    `later` has one set of keys for each sequence around the node that goes on after it. It is
    empty where nothing follows.
    """

    __slots__ = ("_later",)

    def __init__(self, later: tuple[set[str], ...]) -> None:
        self._later = later

    def visit_other(self, node: Node) -> set[str]:
        """Those of all that it runs."""
        return {name for child in children(node) for name in self.visit(child)}

    def visit_agent(self, node: Agent) -> set[str]:
        """Every agent of its tree that stores its answer, if something follows."""
        if not self._later:
            return set()
        members = (member for member, _ in walk_tree(node))
        return {
            member.name
            for member in members
            if isinstance(member, Agent) and member.output_key is not None
        }

    def visit_sequence(self, node: Sequence) -> set[str]:
        """Each step, from the last to the first, with the keys that the steps after it read."""
        names = self.visit(node.steps[-1])
        read = _keys_read(node.steps[-1])
        before_last = _InnerAgents((*self._later, read))
        for step in reversed(node.steps[:-1]):
            names |= before_last.visit(step)
            read |= _keys_read(step)  # the visitor above sees it too
        return names

    def visit_map(self, node: Map) -> set[str]:
        """All agents of the body, if a later node reads the list they make."""
        if any(_OPAQUE in keys or node.into in keys for keys in self._later):
            return {agent.name for agent in agents_of(node.body)}
        return self.visit(node.body)

    def visit_custom_agent(self, node: CustomAgent) -> set[str]:
        """Its children, which are followed by its code where that reads what they write."""
        own = {
            agent.name
            for child in node.children
            for agent in agents_of(child)
            if agent.output_key is not None and agent.output_key in node.reads
        }
        return own | self.visit_other(node)


class _KeysTaken(DefaultVisitor[set[str]]):
    """The keys that a node itself takes from the state, to hand their values on.

    A node that only looks at the state, or decides by it, hands nothing on.
    """

    __slots__ = ()

    def visit_other(self, node: Node) -> set[str]:
        return set()

    def visit_agent(self, node: Agent) -> set[str]:
        keys = {*node.policy.facts.state_keys}
        for text in (node.instruction, node.global_instruction):
            if isinstance(text, str):
                keys |= {variable.key for variable in parse(text).variables}
            elif text is not None:
                keys.add(_OPAQUE)
        return keys

    def visit_step(self, node: Step) -> set[str]:
        keys = {*node.reads, *(old for old, _ in node.change.renames)}
        # a plain function that declares nothing may read anything
        own_code = node.change is OWN_CODE
        if node.change.asks or (own_code and not (node.reads or node.writes)):
            keys.add(_OPAQUE)
        return keys

    def visit_custom_agent(self, node: CustomAgent) -> set[str]:
        return {*node.reads} if node.declares_reads else {_OPAQUE}

    def visit_map(self, node: Map) -> set[str]:
        return {node.items.split(".")[0].split("[")[0]}


_keys_taken = _KeysTaken()


def _keys_read(node: Node) -> set[str]:
    """The keys that a node and all nodes below it take from the state."""
    return _keys_taken.visit(node).union(*map(_keys_read, nodes_below(node)))


# --- a flow as text


def show(node: Node) -> str:
    """The node as its author could write it: `(triage >> (web | papers) >> writer)`.

    Agents and steps stand by their names. What no operator can say takes the named form.
    """
    return _flow_text.visit(node)


class _FlowText(Visitor[str]):
    """Each kind of node as code."""

    __slots__ = ()

    def visit_agent(self, node: Agent) -> str:
        return node.name

    def visit_custom_agent(self, node: CustomAgent) -> str:
        return node.name

    def visit_step(self, node: Step) -> str:
        return node.name if node.change is OWN_CODE else str(node.change)

    def visit_sequence(self, node: Sequence) -> str:
        return self._join_children(node, " >> ")

    def visit_parallel(self, node: Parallel) -> str:
        if node.on_error == "cancel":
            return self._join_children(node, " | ")
        return self._join_children(node, " | ", f"on_error={quote_value(node.on_error)}")

    def visit_fallback(self, node: Fallback) -> str:
        return self._join_children(node, " // ")

    def _join_children(
        self, node: Sequence | Parallel | Fallback, operator: str, *more: str
    ) -> str:
        """The children with the operator between; the named form where there are options."""
        children = [self.visit(child) for child in node.children]
        options = [*spell_options(node), *more]
        if options or len(children) == 1:
            return f"{type(node).__name__}({', '.join([*children, *options])})"
        return f"({operator.join(children)})"

    def visit_loop(self, node: Loop) -> str:
        body = self.visit(node.body)
        options = spell_options(node)
        if not options:
            times: object = node.max
            if node.until is not None:
                times = until(node.until, max=node.max)
            elif node.while_ is not None:
                times = while_(node.while_, max=node.max)
            return f"({body} * {times})"
        if node.until is not None:
            options.insert(0, f"until={name_of(node.until)}")
        if node.while_ is not None:
            options.insert(0, f"while_={name_of(node.while_)}")
        return _call("Loop", body, f"max={node.max}", *options)

    def visit_route(self, node: Route) -> str:
        pieces = [node.head]
        for case in node.cases:
            what = quote_value(case.value) if case.predicate is None else name_of(case.predicate)
            pieces.append(_call(case.op, what, self.visit(case.node)))
        if node.default is not None:
            pieces.append(_call("otherwise", self.visit(node.default)))
        return ".".join(pieces)

    def visit_map(self, node: Map) -> str:
        arguments = [
            quote_value(node.items),
            self.visit(node.body),
            f"into={quote_value(node.into)}",
        ]
        if node.item != "item":
            arguments.append(f"item={quote_value(node.item)}")
        if node.concurrency != 4:
            arguments.append(f"concurrency={node.concurrency}")
        if node.on_error != "cancel":
            arguments.append(f"on_error={quote_value(node.on_error)}")
        return _call("Map", *arguments, *spell_options(node))

    def visit_gate(self, node: Gate) -> str:
        arguments = [quote_value(node.name)]
        if node.question:
            arguments.append(f"question={quote_value(node.question)}")
        if node.key != node.name:
            arguments.append(f"key={quote_value(node.key)}")
        if node.choices:
            arguments.append(
                f"choices=[{', '.join(quote_value(choice) for choice in node.choices)}]"
            )
        if node.description:
            arguments.append(f"description={quote_value(node.description)}")
        return _call("Gate", *arguments)

    def visit_race(self, node: Race) -> str:
        return _call("race", *map(self.visit, node.branches), *spell_options(node))

    def visit_timeout(self, node: Timeout) -> str:
        return _call("timeout", self.visit(node.body), f"{node.seconds:g}", *spell_options(node))

    def visit_tap(self, node: Tap) -> str:
        function = name_of(node.function)
        arguments = [function]
        if node.name not in (function, "tap"):
            arguments.append(f"name={quote_value(node.name)}")
        if node.description:
            arguments.append(f"description={quote_value(node.description)}")
        return _call("tap", *arguments)

    def visit_expect(self, node: Expect) -> str:
        return _call(
            "expect", name_of(node.predicate), quote_value(node.message), *spell_options(node)
        )


_flow_text = _FlowText()


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"
