"""The nodes of a flow that no operator makes: steps, maps, races, timeouts, taps, expectations."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from weft.declare.agent import CallbackChain, check_agents
from weft.declare.changes import StateChange, change_of
from weft.declare.checks import (
    check_callback,
    check_count,
    check_key,
    check_name,
    check_predicate,
    check_text,
    field_error,
)
from weft.declare.compose import Composable, flow_node
from weft.declare.config import Inputs, check_inputs
from weft.declare.functions import (
    StateFunction,
    check_choice,
    is_generator,
    name_of,
    require_arguments,
)
from weft.declare.hints import FLOW_WORDS
from weft.declare.tool import Tool, check_names
from weft.errors import DeclarationError
from weft.jsonschema import shorten
from weft.misuse import ByFields, explain_calls, hint_at_call, late_dataclass

if TYPE_CHECKING:
    from weft.declare.agent import AroundAgent, Callbacks
    from weft.declare.flow import Node


@flow_node("Step(function)")
@late_dataclass(frozen=True, repr=False, eq=False)
class Step(ByFields, Composable):
    """A function of one argument, the state, that returns the changes to it, or None.

    It may be async. `reads` and `writes` name the keys it is known to use, for the checks;
    `captures` those that get what the user said, before the function is called, `endorses` those
    whose values it has checked: what stands under them then counts as the author's. The function
    of a step that `S` makes is a `StateChange`, which says more.
    """

    function: StateFunction
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    reads: tuple[str, ...] = field(default=(), kw_only=True)
    writes: tuple[str, ...] = field(default=(), kw_only=True)
    captures: tuple[str, ...] = field(default=(), kw_only=True)
    endorses: tuple[str, ...] = field(default=(), kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            function: StateFunction,
            *,
            name: str | None = None,
            description: str = "",
            reads: Iterable[str] = (),
            writes: Iterable[str] = (),
            captures: Iterable[str] = (),
            endorses: Iterable[str] = (),
        ) -> None:
            """What people may pass is wider than what the fields hold."""

    def __post_init__(self) -> None:
        """Take the function's name, and refuse what cannot be called with the state."""
        own = name_of(self.function)
        if cast("object", self.name) in (None, ""):
            object.__setattr__(self, "name", own if own.isidentifier() else "step")
        check_name(self.name, kind="Step")
        check_text(self.name, "description", self.description)
        check_function(self.function, f"Step {own}")
        options = {
            "reads": self.reads,
            "writes": self.writes,
            "captures": self.captures,
            "endorses": self.endorses,
        }
        for option, keys in options.items():
            check_names(option, keys, where=f"Step {own}")
            object.__setattr__(self, option, tuple(keys))

    @property
    def change(self) -> StateChange:
        """The word of `S` that makes the change; `OWN_CODE` for a function of the author's."""
        return change_of(self.function)


def check_function(function: object, where: str) -> None:
    """Refuse what cannot be called with the state and be done at once."""
    if isinstance(function, Tool):
        raise DeclarationError(
            f"`{function.name}` is a tool: it takes arguments, not the state",
            where=f"Step {function.name}",
            hint=f"give it to an agent: agent.uses({function.name})",
        )
    if isinstance(function, type):
        raise DeclarationError(
            f"{function.__name__} is a class, not a function",
            where=where,
            hint=f'pass an object of it: {function.__name__}("name", ...)'
            if issubclass(function, Composable)
            else f"for a structured answer write agent @ {function.__name__}",
        )
    if not callable(function):
        raise DeclarationError(
            f"{function!r} cannot be called", where=where, hint="pass a function of the state"
        )
    if is_generator(function):
        raise DeclarationError(
            "it yields", where=where, hint="return one mapping of the changes, or None"
        )
    require_arguments(
        function, "a step takes (state)", where=where, hint="write def step(state): return {...}"
    )


OnElementError = Literal["cancel", "collect"]


@flow_node('Map("items", agent, into="results")')
@late_dataclass(frozen=True, repr=False, eq=False)
class Map(ByFields, Composable):
    """The body once for each element of the list under `items`, some of them at once.

    Each run stands on a branch of its own and finds its element under the state key `item`. What
    it writes stays there too: only its output leaves, in order, in the list under `into`. That is
    what it said, parsed if its agent has a schema; or, if it said nothing, what it wrote. A key
    may walk into a value, as in a template: `Map("order.lines", ...)`.

    When a run fails the others are cancelled, or, under `on_error="collect"`, left to end: then
    None stands in the list for the one that failed.
    """

    items: str
    body: "Node"
    into: str = field(kw_only=True)
    item: str = field(default="item", kw_only=True)
    concurrency: int = field(default=4, kw_only=True)
    on_error: OnElementError = field(default="cancel", kw_only=True)
    name: str = field(default="map", kw_only=True)
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
            items: str,
            body: "Node | StateFunction",
            *,
            into: str,
            item: str = "item",
            concurrency: int = 4,
            on_error: OnElementError = "cancel",
            name: str = "map",
            description: str = "",
            inputs: Inputs = (),
            before_agent: "Callbacks[AroundAgent]" = None,
            after_agent: "Callbacks[AroundAgent]" = None,
        ) -> None:
            """A function may stand for the body."""

    def __post_init__(self) -> None:
        """Refuse keys that are none, and a number of runs that would run nothing."""
        describe_again(self)
        if not isinstance(cast("object", self.items), str) or not self.items.strip():
            raise field_error(
                self.name,
                "items",
                f"{shorten(repr(self.items), 60)} is not a state key",
                'write items="results"',
            )
        for option, key in (("into", self.into), ("item", self.item)):
            check_key(self.name, option, key)
        if self.item == self.into:
            raise field_error(
                self.name,
                "item",
                f"the element and the results are both kept under `{self.into}`",
                'give the element another key: item="element"',
            )
        check_count(self.name, "concurrency", self.concurrency)
        check_choice(self.name, "on_error", self.on_error, OnElementError)
        object.__setattr__(self, "body", to_node(self.body, where=f"{self.name}.body"))

    @property
    def children(self) -> "tuple[Node, ...]":
        """The body."""
        return (self.body,)


@flow_node("race(first, second)")
@late_dataclass(frozen=True, init=False, repr=False, eq=False)
class Race(ByFields, Composable):
    """The first branch that completes wins; written `race(a, b)`.

    The others are cancelled. What they said is in nobody's view, and what they wrote to the state
    does not count. A branch that fails is out of the race; if all fail, the race does.
    """

    branches: "tuple[Node, ...]"
    name: str
    description: str
    inputs: Mapping[str, object] = field(hash=False)
    before_agent: CallbackChain
    after_agent: CallbackChain

    sub_agents: ClassVar[tuple[()]] = ()

    def __init__(
        self,
        *branches: "Node | StateFunction",
        name: str = "race",
        description: str = "",
        inputs: Inputs = (),
        before_agent: "Callbacks[AroundAgent]" = None,
        after_agent: "Callbacks[AroundAgent]" = None,
    ) -> None:
        describe(self, name, description, inputs, before_agent, after_agent)
        nodes = to_nodes(branches, where=f"{name}.branches", hint="write race(quick, thorough)")
        object.__setattr__(self, "branches", nodes)
        check_agents(self, where=f"{name}.branches")

    @property
    def children(self) -> "tuple[Node, ...]":
        """The branches."""
        return self.branches


@explain_calls("race(quick, thorough)", words=FLOW_WORDS)
def race(
    *branches: "Node | StateFunction",
    name: str = "race",
    description: str = "",
    inputs: Inputs = (),
    before_agent: "Callbacks[AroundAgent]" = None,
    after_agent: "Callbacks[AroundAgent]" = None,
) -> Race:
    """Run all branches at once, and go on with the first that completes."""
    return Race(
        *branches,
        name=name,
        description=description,
        inputs=inputs,
        before_agent=before_agent,
        after_agent=after_agent,
    )


@flow_node("timeout(agent, 30)")
@late_dataclass(frozen=True, repr=False, eq=False)
class Timeout(ByFields, Composable):
    """The body, for at most `seconds`; written `timeout(a, 30)`.

    A body that takes longer is stopped and fails with the code `timeout`, so that a fallback can
    catch it: `timeout(a, 30) // b`. Only time at work counts: not that of whoever reads the
    events, and not the time a run waits for an answer or lies stopped.
    """

    body: "Node"
    seconds: float
    name: str = field(default="timeout", kw_only=True)
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
            seconds: float,
            *,
            name: str = "timeout",
            description: str = "",
            inputs: Inputs = (),
            before_agent: "Callbacks[AroundAgent]" = None,
            after_agent: "Callbacks[AroundAgent]" = None,
        ) -> None:
            """A function may stand for the body."""

    def __post_init__(self) -> None:
        """Refuse a time in which nothing could happen, or that never ends."""
        describe_again(self)
        seconds = cast("object", self.seconds)
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not math.isfinite(self.seconds) or self.seconds <= 0:
            raise field_error(
                self.name,
                "seconds",
                f"{shorten(repr(seconds), 60)} is not a number of seconds",
                "write timeout(agent, 30)",
            )
        object.__setattr__(self, "body", to_node(self.body, where=f"{self.name}.body"))

    @property
    def children(self) -> "tuple[Node, ...]":
        """The body."""
        return (self.body,)


@explain_calls("timeout(agent, 30)", words=FLOW_WORDS)
def timeout(
    body: "Node | StateFunction",
    seconds: float,
    *,
    name: str = "timeout",
    description: str = "",
    inputs: Inputs = (),
    before_agent: "Callbacks[AroundAgent]" = None,
    after_agent: "Callbacks[AroundAgent]" = None,
) -> Timeout:
    """Run the body, and let it fail with the code `timeout` if it takes longer."""
    return Timeout(
        body,
        seconds,
        name=name,
        description=description,
        inputs=inputs,
        before_agent=before_agent,
        after_agent=after_agent,
    )


@flow_node("tap(function)")
@late_dataclass(frozen=True, repr=False, eq=False)
class Tap(ByFields, Composable):
    """A function of the state, sync or async, that only looks; written `tap(look)`.

    What it returns is ignored, and the state it is given cannot be written. If it raises, that is
    logged and the run goes on: looking must not break what is looked at.
    """

    function: StateFunction
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self, function: StateFunction, *, name: str | None = None, description: str = ""
        ) -> None:
            """Without a name it takes the function's."""

    def __post_init__(self) -> None:
        """Take the function's name, and refuse what cannot be called with the state."""
        own = name_of(self.function)
        if cast("object", self.name) in (None, ""):
            object.__setattr__(self, "name", own if own.isidentifier() else "tap")
        check_name(self.name, kind="Tap")
        check_text(self.name, "description", self.description)
        check_function(self.function, f"tap({own})")


@explain_calls("tap(function)", words=FLOW_WORDS)
def tap(function: StateFunction, *, name: str | None = None, description: str = "") -> Tap:
    """Look at the state in passing: to log it, to count, to show."""
    return Tap(function, name=name, description=description)


@flow_node('expect(lambda state: "key" in state, "what is wrong")')
@late_dataclass(frozen=True, repr=False, eq=False)
class Expect(ByFields, Composable):
    """Fails the run, with `message`, unless the predicate holds; written `expect(done, "...")`.

    The error has the code `expectation_failed`, so that a fallback can catch it. A predicate, sync
    or async, that raises is an error too, not a no.
    """

    predicate: StateFunction
    message: str = "the expectation does not hold"
    name: str = field(default="expect", kw_only=True)
    description: str = field(default="", kw_only=True)
    reads: tuple[str, ...] = field(default=(), kw_only=True)
    """The keys that must be there for it to hold, where that is known."""

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    def __post_init__(self) -> None:
        """Refuse a predicate that cannot be asked, and a failure that would say nothing."""
        check_name(self.name, kind="Expect")
        check_text(self.name, "description", self.description)
        check_predicate(self.predicate, where=f"{self.name}.predicate", at_once=False)
        check_text(self.name, "message", self.message)
        if not self.message.strip():
            raise field_error(
                self.name,
                "message",
                "the message is empty",
                'say what is wrong if it does not hold: expect(paid, "the invoice is not paid")',
            )


@explain_calls('expect(lambda state: state["paid"], "the invoice is not paid")', words=FLOW_WORDS)
def expect(
    predicate: StateFunction,
    message: str = "the expectation does not hold",
    *,
    name: str = "expect",
    description: str = "",
) -> Expect:
    """Fail the run with the message, unless the predicate holds of the state."""
    return Expect(predicate, message, name=name, description=description)


def describe(
    flow: Composable,
    name: str,
    description: str,
    inputs: Inputs,
    before_agent: object,
    after_agent: object,
) -> None:
    """Check what all flows have, and keep it with the flow.

    That is its name, what it is for, what must be there when it starts, and its callbacks.
    """
    check_name(name, kind=type(flow).__name__)
    check_text(name, "description", description)
    object.__setattr__(flow, "name", name)
    object.__setattr__(flow, "description", description)
    object.__setattr__(flow, "inputs", check_inputs(name, "inputs", inputs))
    for moment, value in (("before_agent", before_agent), ("after_agent", after_agent)):
        object.__setattr__(flow, moment, check_callback(name, moment, value))


def describe_again(flow: "Node") -> None:
    """`describe` for a flow whose fields are set already, as a dataclass sets them."""
    describe(flow, flow.name, flow.description, flow.inputs, flow.before_agent, flow.after_agent)


def spell_callbacks(flow: Composable) -> list[str]:
    """The callbacks of a flow as they are written among its options."""
    spelled: list[str] = []
    for moment, value in (
        ("before_agent", flow.before_agent),
        ("after_agent", flow.after_agent),
    ):
        if isinstance(value, tuple):
            names = map(name_of, cast("tuple[object, ...]", value))
            spelled.append(f"{moment}=[{', '.join(names)}]")
        elif value is not None:
            spelled.append(f"{moment}={name_of(value)}")
    return spelled


def to_node(value: object, *, where: str) -> "Node":
    """The value as a node: itself, or a function as a Step."""
    from weft.declare.route import Route

    if isinstance(value, Route) and not value.children:
        raise DeclarationError(
            f"{value} leads nowhere",
            where=where,
            hint=f'give it a case: {value}.eq("label", agent), or .otherwise(agent)',
        )
    if isinstance(value, Composable):
        return cast("Node", value)
    if callable(value):
        return Step(value)
    spelling = shorten(repr(value), 60)
    hint = "an agent, a flow, or a function of one argument, the state, may stand there"
    hint = hint_at_call(value, "{}") or hint
    if isinstance(value, Mapping):
        hint = 'write Route("key").eq("label", agent).otherwise(other)'
    elif isinstance(value, list | tuple) and value:
        hint = "write them one by one: Sequence(a, b), or (a | b) for both at once"
    elif isinstance(value, str) and value.isidentifier():
        hint = f"pass the agent itself, not its name: {value}, without quotes"
    raise DeclarationError(
        f"{spelling} is neither an agent, a flow nor a function", where=where, hint=hint
    )


def to_nodes(values: Iterable[object], *, where: str, hint: str) -> "tuple[Node, ...]":
    """The values as nodes; at least one."""
    nodes = tuple(to_node(value, where=where) for value in values)
    if not nodes:
        raise DeclarationError("it is empty", where=where, hint=hint)
    return nodes


def operands(left_side: object, operator: str, right_side: object) -> "tuple[Node, Node]":
    """Both sides of an operator as nodes; an error shows the expression."""
    try:
        return to_node(left_side, where=""), to_node(right_side, where="")
    except DeclarationError as error:
        where = error.where or f"{spell(left_side)} {operator} {spell(right_side)}"
        raise DeclarationError(error.message, where=where, hint=error.hint) from None


def spell(value: object) -> str:
    """A side of an operator, as its author wrote it."""
    from weft.declare.visit import show

    if isinstance(value, Composable):
        return show(cast("Node", value))
    return name_of(value) if callable(value) else shorten(repr(value), 60)
