"""A route: the first case that holds decides which node runs. Choosing is a pure function.

Cases are data wherever they can be, so that a check can read them: `eq`, `ne`, `contains`,
`gt`, `gte`, `lt`, `lte` compare the value of the key; `when` asks a function of the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, cast

from weft.declare.agent import CallbackChain
from weft.declare.checks import check_predicate
from weft.declare.compare import (
    Comparison,
    Incomparable,
    check_value,
    holds,
    look_up,
    quoted,
    same,
)
from weft.declare.compose import Composable, flow_node
from weft.declare.functions import StateFunction, ask, name_of
from weft.declare.inputs import Inputs, spell_inputs
from weft.declare.nodes import check_agents, describe_again, spell_callbacks, to_node
from weft.errors import DeclarationError, RunError
from weft.jsonschema import shorten
from weft.misuse import ByFields, explained
from weft.values import Json

if TYPE_CHECKING:
    from weft.declare.agent import AroundAgent, Callbacks
    from weft.declare.flow import Node

OTHERWISE = "otherwise"


@dataclass(frozen=True, eq=False)
class Case(ByFields):
    """One case: how the value is compared and with what, or a predicate; and where it leads."""

    op: Comparison | Literal["when"]
    node: "Node"
    label: str
    value: Json = field(default=None, hash=False)
    predicate: StateFunction | None = None


@flow_node('Route("key").eq("value", agent)')
@dataclass(frozen=True, repr=False, eq=False)
class Route(ByFields, Composable):
    """Choose by the value of a state key, or by what a function makes of the state.

    Texts are compared without surrounding blanks and letter case: models are careless there.
    A key may walk into a value, as in a template: `Route("invoice.total")`. A key that nobody
    wrote is an error, unless there is an `otherwise`. Without a key there is only `when` to ask.
    """

    key: str | StateFunction = ""
    name: str = field(default="route", kw_only=True)
    description: str = field(default="", kw_only=True)
    cases: tuple[Case, ...] = field(default=(), kw_only=True)
    default: "Node | None" = field(default=None, kw_only=True)
    inputs: Mapping[str, object] = field(
        default_factory=dict[str, object], kw_only=True, hash=False
    )
    before_agent: CallbackChain = field(default=None, kw_only=True)
    after_agent: CallbackChain = field(default=None, kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            key: str | StateFunction = "",
            *,
            name: str = "route",
            description: str = "",
            inputs: Inputs = (),
            before_agent: "Callbacks[AroundAgent]" = None,
            after_agent: "Callbacks[AroundAgent]" = None,
        ) -> None:
            """Cases are added by the methods below."""

    def __post_init__(self) -> None:
        """Refuse what is neither a state key nor a function of the state."""
        describe_again(self)
        if not isinstance(self.key, str):
            check_predicate(self.key, where=f"{self.name}.key")
        check_agents(self, where=self.head)

    @property
    def head(self) -> str:
        """The route as it is written, without its cases."""
        key = quoted(self.key) if isinstance(self.key, str) else name_of(self.key)
        options = [key] if self.key else []
        if self.name != "route":
            options.append(f"name={quoted(self.name)}")
        if self.description:
            options.append(f"description={quoted(self.description)}")
        if self.inputs:
            options.append(f"inputs={spell_inputs(self.inputs)}")
        options += spell_callbacks(self)
        return f"Route({', '.join(options)})"

    @property
    def children(self) -> "tuple[Node, ...]":
        """Where it may lead, in the order of its cases."""
        nodes = tuple(case.node for case in self.cases)
        return nodes if self.default is None else (*nodes, self.default)

    @explained('Route("key").eq("value", agent)')
    def eq(self, value: Json, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is this one."""
        return self._with("eq", value, node)

    @explained('Route("key").ne("value", agent)')
    def ne(self, value: Json, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is another one."""
        return self._with("ne", value, node)

    def contains(self, value: Json, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the text, list or dict has this in it."""
        return self._with("contains", value, node)

    def gt(self, value: float | str, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is greater."""
        return self._with("gt", value, node)

    def gte(self, value: float | str, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is greater or the same."""
        return self._with("gte", value, node)

    def lt(self, value: float | str, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is less."""
        return self._with("lt", value, node)

    def lte(self, value: float | str, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is less or the same."""
        return self._with("lte", value, node)

    @explained('Route().when(lambda state: state["score"] > 3, agent)')
    def when(self, predicate: StateFunction, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the predicate says so of the state."""
        where = f"{self.head}.when"
        check_predicate(predicate, where=where)
        if any(case.predicate is predicate for case in self.cases):
            raise DeclarationError(
                f"`{name_of(predicate)}` is asked already", where=where, hint="keep one of the two"
            )
        label = f"when({name_of(predicate)})"
        # labels go into the log, so two lambdas must not share one
        again = sum(case.label.split(" #")[0] == label for case in self.cases)
        label = f"{label} #{again + 1}" if again else label
        case = Case("when", to_node(node, where=where), label, predicate=predicate)
        return replace(self, cases=(*self.cases, case))

    @explained('Route("key").eq("value", agent).otherwise(other)')
    def otherwise(self, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if no case holds."""
        where = f"{self.head}.otherwise"
        if self.default is not None:
            raise DeclarationError("it is given twice", where=where, hint="keep one of the two")
        return replace(self, default=to_node(node, where=where))

    def _with(self, op: Comparison, value: object, node: object) -> Self:
        where = f"{self.head}.{op}"
        if not self.key:
            raise DeclarationError(
                "it compares the value of a key, and the route has none",
                where=where,
                hint=f'write Route("intent").{op}(...), or .when(lambda state: ..., agent)',
            )
        checked = check_value(op, value, where=where)
        for case in self.cases:
            if case.op == op and same(case.value, checked):
                raise DeclarationError(
                    f"the case {case.label} is there already",
                    where=where,
                    hint="texts are compared without letter case: keep one of the two",
                )
        new_case = Case(op, to_node(node, where=where), f"{op}({quoted(checked)})", value=checked)
        return replace(self, cases=(*self.cases, new_case))

    def pick(self, state: Mapping[str, Json]) -> "tuple[str, Node] | None":
        """The first case that holds, as its label and node; else `otherwise`, else None."""
        current: Json = None
        looked = False
        for case in self.cases:
            if case.predicate is not None:
                if self._asked(case.predicate, case.label, state):
                    return case.label, case.node
                continue
            # once, and only if a case compares it: a missing key is an error
            if not looked:
                current, looked = self._value(state), True
            if current is not None and self._compared(case, current):
                return case.label, case.node
        return None if self.default is None else (OTHERWISE, self.default)

    def _value(self, state: Mapping[str, Json]) -> Json:
        """What the cases are compared with; None if it is missing, as a deleted key is."""
        if isinstance(self.key, str):
            current = look_up(self.key, state)
            missing = f"there is no `{self.key}` in the state"
        else:
            current = cast("Json", self._called(self.key, name_of(self.key), state))
            missing = f"`{name_of(self.key)}` found nothing in the state"
        if current is None and self.default is None:
            known = ", ".join(sorted(state)) or "nothing"
            raise RunError(
                f"{missing} to route on",
                where=self.head,
                hint=f"write it upstream, or add .otherwise(agent); the state has: {known}",
            )
        return current

    def _compared(self, case: Case, current: Json) -> bool:
        try:
            return holds(cast("Comparison", case.op), current, case.value)
        except Incomparable as error:
            raise RunError(
                f"{case.label} cannot be decided: {error}",
                where=self.head,
                hint="make the agent that writes it return the right type: agent @ Schema",
            ) from None

    def _asked(self, predicate: StateFunction, label: str, state: Mapping[str, Json]) -> bool:
        return bool(self._called(predicate, label, state))

    def _called(self, function: StateFunction, label: str, state: Mapping[str, Json]) -> object:
        try:
            answer = ask(function, state)
        except Exception as error:
            current = look_up(self.key, state) if isinstance(self.key, str) else None
            about = (
                f"`{self.key}` = {shorten(quoted(current), 80)}" if current is not None else "state"
            )
            raise RunError(
                f"{label} failed on {about}: {type(error).__name__}: {error}",
                where=self.head,
                hint=f"mend `{name_of(function)}`, or read keys with state.get()",
            ) from error
        return answer
