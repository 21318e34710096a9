"""Flows: how agents are put together. Frozen data; what runs them is the runtime.

Every operator of `weft.declare.compose` makes one of these. Sequences, parallels and fallbacks
nested in their own kind are one of it, so `(a >> b) >> c` and `a >> (b >> c)` are equal; one
that was given a name or a description is a thing of its own and stays whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

from weft.declare.agent import Agent, CallbackChain, check_agents
from weft.declare.checks import check_predicate, field_error
from weft.declare.compose import Composable, flow_node
from weft.declare.config import Inputs
from weft.declare.custom import CustomAgent
from weft.declare.functions import StateFunction, check_choice, name_of
from weft.declare.hints import FLOW_WORDS
from weft.declare.nodes import (
    Expect,
    Map,
    Race,
    Step,
    Tap,
    Timeout,
    describe,
    describe_again,
    operands,
    spell,
    to_node,
    to_nodes,
)
from weft.declare.route import Gate, Route
from weft.errors import DeclarationError
from weft.misuse import ByFields, explain_calls, late_dataclass

if TYPE_CHECKING:
    from weft.declare.agent import AroundAgent, Callbacks

OnError = Literal["cancel", "collect"]


@flow_node("Sequence(first, second)")
@late_dataclass(frozen=True, init=False, repr=False, eq=False)
class Sequence(ByFields, Composable):
    """One node after the other; written `a >> b`."""

    steps: "tuple[Node, ...]"
    name: str
    description: str
    inputs: Mapping[str, object] = field(hash=False)
    before_agent: CallbackChain
    after_agent: CallbackChain

    sub_agents: ClassVar[tuple[()]] = ()

    def __init__(
        self,
        *steps: "Node | StateFunction",
        name: str = "sequence",
        description: str = "",
        inputs: Inputs = (),
        before_agent: "Callbacks[AroundAgent]" = None,
        after_agent: "Callbacks[AroundAgent]" = None,
    ) -> None:
        describe(self, name, description, inputs, before_agent, after_agent)
        nodes = to_nodes(steps, where=f"{name}.steps", hint="write Sequence(first, second)")
        _set(self, "steps", _flat(self, nodes))
        check_agents(self, where=f"{name}.steps")

    @property
    def children(self) -> "tuple[Node, ...]":
        """The steps."""
        return self.steps


@flow_node("Parallel(left, right)")
@late_dataclass(frozen=True, init=False, repr=False, eq=False)
class Parallel(ByFields, Composable):
    """All branches at once, none seeing another; written `a | b`.

    When a branch fails the others are cancelled, or, under `on_error="collect"`, left to end.
    """

    branches: "tuple[Node, ...]"
    name: str
    description: str
    on_error: OnError
    inputs: Mapping[str, object] = field(hash=False)
    before_agent: CallbackChain
    after_agent: CallbackChain

    sub_agents: ClassVar[tuple[()]] = ()

    def __init__(
        self,
        *branches: "Node | StateFunction",
        name: str = "parallel",
        description: str = "",
        on_error: OnError = "cancel",
        inputs: Inputs = (),
        before_agent: "Callbacks[AroundAgent]" = None,
        after_agent: "Callbacks[AroundAgent]" = None,
    ) -> None:
        describe(self, name, description, inputs, before_agent, after_agent)
        check_choice(name, "on_error", on_error, OnError)
        _set(self, "on_error", on_error)
        nodes = to_nodes(branches, where=f"{name}.branches", hint="write Parallel(left, right)")
        _set(self, "branches", _flat(self, nodes))
        check_agents(self, where=f"{name}.branches")

    @property
    def children(self) -> "tuple[Node, ...]":
        """The branches."""
        return self.branches


@flow_node("Fallback(primary, backup)")
@late_dataclass(frozen=True, init=False, repr=False, eq=False)
class Fallback(ByFields, Composable):
    """The first choice that does not fail; written `a // b`."""

    choices: "tuple[Node, ...]"
    name: str
    description: str
    inputs: Mapping[str, object] = field(hash=False)
    before_agent: CallbackChain
    after_agent: CallbackChain

    sub_agents: ClassVar[tuple[()]] = ()

    def __init__(
        self,
        *choices: "Node | StateFunction",
        name: str = "fallback",
        description: str = "",
        inputs: Inputs = (),
        before_agent: "Callbacks[AroundAgent]" = None,
        after_agent: "Callbacks[AroundAgent]" = None,
    ) -> None:
        describe(self, name, description, inputs, before_agent, after_agent)
        nodes = to_nodes(choices, where=f"{name}.choices", hint="write Fallback(primary, backup)")
        _set(self, "choices", _flat(self, nodes))
        check_agents(self, where=f"{name}.choices")

    @property
    def children(self) -> "tuple[Node, ...]":
        """The choices."""
        return self.choices


@dataclass(frozen=True, repr=False, eq=False)
class _Condition(ByFields):
    """What a loop asks, and how many rounds it takes at most."""

    predicate: StateFunction
    max: int = 10

    word: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse a predicate that cannot be asked."""
        check_predicate(self.predicate, where=self.word, at_once=False)
        _check_rounds(self.max, where=f"{self.word}.max")

    def __repr__(self) -> str:
        return f"{self.word}({name_of(self.predicate)}, max={self.max})"


@dataclass(frozen=True, repr=False, eq=False)
class Until(_Condition):
    """When a loop ends, for `flow * until(...)`."""

    word = "until"


@dataclass(frozen=True, repr=False, eq=False)
class While(_Condition):
    """As long as what a loop goes on, for `flow * while_(...)`."""

    word = "while_"


@explain_calls('until(lambda state: state["score"] > 0.8, max=3)', words=FLOW_WORDS)
def until(predicate: StateFunction, *, max: int = 10) -> Until:
    """End a loop when the predicate, sync or async, says so, or after `max` rounds."""
    return Until(predicate, max)


@explain_calls('while_(lambda state: state["left"] > 0, max=3)', words=FLOW_WORDS)
def while_(predicate: StateFunction, *, max: int = 10) -> While:
    """Begin a round only while the predicate, sync or async, holds, and `max` rounds at most."""
    return While(predicate, max)


@flow_node("Loop(agent, max=3)")
@late_dataclass(frozen=True, repr=False, eq=False)
class Loop(ByFields, Composable):
    """The body again and again, at most `max` times; written `a * 3` or `a * until(done)`.

    `until` is asked after each round and ends the loop when it says so of the state. `while_` is
    asked before each round, so the body may not run at all, and ends it when it no longer holds.
    """

    body: "Node"
    max: int = field(default=10, kw_only=True)
    until: StateFunction | None = field(default=None, kw_only=True)
    while_: StateFunction | None = field(default=None, kw_only=True)
    name: str = field(default="loop", kw_only=True)
    description: str = field(default="", kw_only=True)
    inputs: Mapping[str, object] = field(
        default_factory=dict[str, object], kw_only=True, hash=False
    )
    before_agent: CallbackChain = field(default=None, kw_only=True)
    after_agent: CallbackChain = field(default=None, kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            body: "Node | StateFunction",
            *,
            max: int = 10,
            until: StateFunction | None = None,
            while_: StateFunction | None = None,
            name: str = "loop",
            description: str = "",
            inputs: Inputs = (),
            before_agent: "Callbacks[AroundAgent]" = None,
            after_agent: "Callbacks[AroundAgent]" = None,
        ) -> None:
            """A function may stand for the body."""

    def __post_init__(self) -> None:
        """Refuse a loop that never runs or cannot end."""
        describe_again(self)
        _set(self, "body", to_node(self.body, where=f"{self.name}.body"))
        _check_rounds(self.max, where=f"{self.name}.max")
        if self.until is not None:
            check_predicate(self.until, where=f"{self.name}.until", at_once=False)
        if self.while_ is not None:
            check_predicate(self.while_, where=f"{self.name}.while_", at_once=False)
        if self.until is not None and self.while_ is not None:
            raise field_error(
                self.name,
                "while_",
                "the loop has both `until` and `while_`",
                "keep one of the two",
            )

    @property
    def children(self) -> "tuple[Node, ...]":
        """The body."""
        return (self.body,)


Flow: TypeAlias = (
    Sequence
    | Parallel
    | Loop
    | Fallback
    | Route
    | Step
    | Map
    | Gate
    | Race
    | Timeout
    | Tap
    | Expect
    | CustomAgent
)

Node: TypeAlias = Agent | Flow


Operator = Literal[">>", "|", "//"]

_MADE_BY: dict[Operator, type[Sequence | Parallel | Fallback]] = {
    ">>": Sequence,
    "|": Parallel,
    "//": Fallback,
}


def join_nodes(
    left_side: object, operator: Operator, right_side: object
) -> Sequence | Parallel | Fallback:
    """The flow that an operator between two nodes means."""
    return _MADE_BY[operator](*operands(left_side, operator, right_side))


def make_loop(body: object, times: object) -> Loop:
    """The loop that `body * times` means."""
    where = f"{spell(body)} * {spell(times)}"
    node = to_node(body, where=where)
    if isinstance(times, Until):
        return Loop(node, max=times.max, until=times.predicate)
    if isinstance(times, While):
        return Loop(node, max=times.max, while_=times.predicate)
    _check_rounds(times, where=where)
    return Loop(node, max=cast("int", times))


def _flat(flow: Sequence | Parallel | Fallback, nodes: "tuple[Node, ...]") -> "tuple[Node, ...]":
    """The nodes, with unnamed flows of the same kind opened: those are only a way of writing.

    What an opened flow takes, the whole takes. A later step of a sequence stays whole if it takes
    something: a step before it may write that, so it need not be there when the sequence starts.
    """
    opened: list[Node] = []
    for index, node in enumerate(nodes):
        late = index > 0 and isinstance(flow, Sequence) and bool(node.inputs)
        if isinstance(node, Agent) or late or not _alike(flow, node):
            opened.append(node)
            continue
        opened += node.children
        if node.inputs:
            _set(flow, "inputs", {**node.inputs, **flow.inputs})
    return tuple(opened)


def _alike(outer: Flow, inner: Flow) -> bool:
    if type(inner) is not type(outer) or inner.description:
        return False
    # its callbacks run around it, so it must stay a node
    if inner.before_agent is not None or inner.after_agent is not None:
        return False
    if isinstance(inner, Parallel) and isinstance(outer, Parallel):
        return inner.name == "parallel" and inner.on_error == outer.on_error
    return inner.name == type(inner).__name__.lower()


def _check_rounds(value: object, *, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DeclarationError(
            f"{value!r} is not a number of rounds",
            where=where,
            hint="pass a whole number of at least 1, or write flow * until(predicate, max=3)",
        )


def _set(flow: object, name: str, value: object) -> None:
    object.__setattr__(flow, name, value)
