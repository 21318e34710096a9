"""A route: the first case that holds decides which node runs. A gate asks somebody instead.

Cases are data wherever they can be, so that a check can read them: `eq`, `ne`, `contains`,
`gt`, `gte`, `lt`, `lte` compare the value of the key; `when` asks a function of the state.
Choosing is a pure function: how values compare stands at the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, cast

from weft.declare.agent import CallbackChain, check_agents
from weft.declare.checks import check_key, check_name, check_predicate, check_text, field_error
from weft.declare.compose import Composable, flow_node
from weft.declare.config import Inputs, spell_inputs
from weft.declare.functions import StateFunction, ask, name_of
from weft.declare.nodes import describe_again, spell_callbacks, to_node
from weft.declare.tool import check_names
from weft.errors import DeclarationError, RunError
from weft.jsonschema import shorten
from weft.misuse import ByFields, explain_calls, late_dataclass
from weft.values import Json

if TYPE_CHECKING:
    from weft.declare.agent import AroundAgent, Callbacks
    from weft.declare.flow import Flow, Node
import operator
from typing import TypeGuard, assert_never

from weft.declare import template
from weft.values import compact, require_json

OTHERWISE = "otherwise"

Comparison = Literal["eq", "ne", "contains", "gt", "gte", "lt", "lte"]


@late_dataclass(frozen=True, repr=False, eq=False)
class Case(ByFields):
    """One case: how the value is compared and with what, or a predicate; and where it leads."""

    op: Comparison | Literal["when"]
    node: "Node"
    label: str
    value: Json = field(default=None, hash=False)
    predicate: StateFunction | None = None

    def __repr__(self) -> str:
        asked = self.value if self.predicate is None else self.predicate
        return f"Case({self.op!r}, {asked!r}, {self.label!r})"


@flow_node('Route("key").eq("value", agent)')
@late_dataclass(frozen=True, repr=False, eq=False)
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
        key = quote_value(self.key) if isinstance(self.key, str) else name_of(self.key)
        options = [*([key] if self.key else ()), *spell_options(self)]
        return f"Route({', '.join(options)})"

    @property
    def children(self) -> "tuple[Node, ...]":
        """Where it may lead, in the order of its cases."""
        nodes = tuple(case.node for case in self.cases)
        return nodes if self.default is None else (*nodes, self.default)

    @explain_calls('Route("key").eq("value", agent)')
    def eq(self, value: Json, node: "Node | StateFunction") -> Self:
        """Return a copy that leads to `node` if the value is this one."""
        return self._with("eq", value, node)

    @explain_calls('Route("key").ne("value", agent)')
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

    @explain_calls('Route().when(lambda state: state["score"] > 3, agent)')
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

    @explain_calls('Route("key").eq("value", agent).otherwise(other)')
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
        new_case = Case(
            op, to_node(node, where=where), f"{op}({quote_value(checked)})", value=checked
        )
        return replace(self, cases=(*self.cases, new_case))

    def pick(self, state: Mapping[str, Json]) -> "tuple[str, Node] | None":
        """The first case that holds, as its label and node; else `otherwise`, else None."""
        current: Json = None
        looked = False
        for case in self.cases:
            if case.predicate is not None:
                if self._predicate_holds(case.predicate, case.label, state):
                    return case.label, case.node
                continue
            # once, and only if a case compares it: a missing key is an error
            if not looked:
                current, looked = self._value(state), True
            if current is not None and self._case_holds(case, current):
                return case.label, case.node
        return None if self.default is None else (OTHERWISE, self.default)

    def _value(self, state: Mapping[str, Json]) -> Json:
        """What the cases are compared with; None if it is missing, as a deleted key is."""
        if isinstance(self.key, str):
            current = look_up(self.key, state)
            missing = f"there is no `{self.key}` in the state"
        else:
            current = cast("Json", self._call_function(self.key, name_of(self.key), state))
            missing = f"`{name_of(self.key)}` found nothing in the state"
        if current is None and self.default is None:
            known = ", ".join(sorted(state)) or "nothing"
            raise RunError(
                f"{missing} to route on",
                where=self.head,
                hint=f"write it upstream, or add .otherwise(agent); the state has: {known}",
            )
        return current

    def _case_holds(self, case: Case, current: Json) -> bool:
        try:
            return holds(cast("Comparison", case.op), current, case.value)
        except Incomparable as error:
            raise RunError(
                f"{case.label} cannot be decided: {error}",
                where=self.head,
                hint="make the agent that writes it return the right type: agent @ Schema",
            ) from None

    def _predicate_holds(
        self, predicate: StateFunction, label: str, state: Mapping[str, Json]
    ) -> bool:
        return bool(self._call_function(predicate, label, state))

    def _call_function(
        self, function: StateFunction, label: str, state: Mapping[str, Json]
    ) -> object:
        try:
            answer = ask(function, state)
        except Exception as error:
            current = look_up(self.key, state) if isinstance(self.key, str) else None
            about = (
                f"`{self.key}` = {shorten(quote_value(current), 80)}"
                if current is not None
                else "state"
            )
            raise RunError(
                f"{label} failed on {about}: {type(error).__name__}: {error}",
                where=self.head,
                hint=f"mend `{name_of(function)}`, or read keys with state.get()",
            ) from error
        return answer


# --- the gate

Choice: TypeAlias = str | int | float | bool


@flow_node('Gate("approve", question="May it go out?")')
@late_dataclass(frozen=True, repr=False, eq=False)
class Gate(ByFields, Composable):
    """Asks somebody, and waits: the answer is kept under `key`, by default the gate's own name.

    The question is a template, so it may show what is decided on: `question="Send {draft}?"`.
    With `choices` any other answer is refused; texts are compared without surrounding blanks and
    letter case, and kept as they stand here. Any answer but a no vouches for the values under
    `endorses`: show them in the question.
    """

    name: str
    question: str = field(default="", kw_only=True)
    key: str = field(default="", kw_only=True)
    choices: tuple[Choice, ...] = field(default=(), kw_only=True)
    description: str = field(default="", kw_only=True)
    endorses: tuple[str, ...] = field(default=(), kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            *,
            question: str = "",
            key: str | None = None,
            choices: Iterable[Choice] = (),
            description: str = "",
            endorses: Iterable[str] = (),
        ) -> None:
            """What people may pass is wider than what the fields hold."""

    def __post_init__(self) -> None:
        """Take the name for the key, and refuse choices that nobody could make or tell apart."""
        check_name(self.name, kind="Gate")
        check_text(self.name, "question", self.question)
        check_text(self.name, "description", self.description)
        if cast("object", self.key) in (None, ""):
            object.__setattr__(self, "key", self.name)
        check_key(self.name, "key", self.key)
        object.__setattr__(self, "choices", _choices(self.name, self.choices))
        check_names("endorses", self.endorses, where=f"Gate {self.name}")
        object.__setattr__(self, "endorses", tuple(self.endorses))

    def decided(self, answer: Json) -> Json:
        """The answer as it is kept: as the choice is spelled; None if it is not one of them."""
        if not self.choices:
            return answer
        return next((choice for choice in self.choices if same(choice, answer)), None)


def _choices(gate: str, values: object) -> tuple[Choice, ...]:
    """The choices of a gate as values, or an error that names a bad one."""
    hint = 'write choices=["yes", "no"]'
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise field_error(gate, "choices", f"{values!r} is not a list of choices", hint)
    choices: list[Choice] = []
    for choice in cast("Iterable[object]", values):
        if not isinstance(choice, (str, int, float)) or choice == "":
            raise field_error(
                gate,
                "choices",
                f"{choice!r} is not a choice: it is not a text, number or truth",
                hint,
            )
        if any(same(choice, other) for other in choices):
            raise DeclarationError(
                f"the choice {quote_value(choice)} is there already",
                where=f"{gate}.choices",
                hint="texts are compared without letter case: keep one of the two",
            )
        choices.append(choice)
    return tuple(choices)


# --- how values compare

_ORDERS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


class Incomparable(Exception):
    """Two values that have no answer; the text says which."""


def check_value(op: Comparison, value: object, *, where: str) -> Json:
    """The value a case names, copied, or an error that says why nothing could match it."""
    if value is None:
        raise DeclarationError(
            "None is not a value: a key that holds it counts as missing",
            where=where,
            hint="use .otherwise(agent) for a missing key",
        )
    checked = require_json(value, where=where, refuse=DeclarationError)
    if op in _ORDERS and not (isinstance(checked, str) or _is_number(checked)):
        raise DeclarationError(
            f"{quote_value(checked)} has no order", where=where, hint="pass a number or text"
        )
    return checked


def holds(op: Comparison, current: Json, value: Json) -> bool:
    """Whether the comparison holds between the value found and the value of the case."""
    match op:
        case "eq":
            return same(current, value)
        case "ne":
            return not same(current, value)
        case "contains":
            return _contains(current, value)
        case "gt" | "gte" | "lt" | "lte":
            return _order_holds(op, current, value)
        case _ as unreachable:
            assert_never(unreachable)


def same(one: Json, other: Json) -> bool:
    """Whether two values are equal; for texts, outer blanks and letter case do not count."""
    if isinstance(one, str) and isinstance(other, str):
        return _label(one) == _label(other)
    # in Python True == 1, in JSON it is not
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def quote_value(value: Json) -> str:
    """A value as it is written in Python, text in double quotes."""
    return compact(value) if isinstance(value, str) else repr(value)


def spell_options(flow: "Flow") -> list[str]:
    """The options of a flow, without its nodes."""
    options = [] if flow.name == type(flow).__name__.lower() else [f"name={quote_value(flow.name)}"]
    if flow.description:
        options.append(f"description={quote_value(flow.description)}")
    if flow.inputs:
        options.append(f"inputs={spell_inputs(flow.inputs)}")
    return options + spell_callbacks(flow)


def _label(text: str) -> str:
    return text.strip().casefold()


def _contains(current: Json, value: Json) -> bool:
    if isinstance(current, str) and isinstance(value, str):
        return value.casefold() in current.casefold()
    if isinstance(current, (list, tuple, set, frozenset)):
        return any(same(item, value) for item in current)
    if isinstance(current, Mapping) and isinstance(value, str):
        return any(same(key, value) for key in current)
    raise Incomparable(f"{_kind(current)} cannot contain {_kind(value)}")


def _order_holds(op: str, current: Json, value: Json) -> bool:
    if isinstance(current, str) and isinstance(value, str):
        return bool(_ORDERS[op](_label(current), _label(value)))
    if _is_number(current) and _is_number(value):
        return bool(_ORDERS[op](current, value))
    raise Incomparable(f"{_kind(current)} has no order with {_kind(value)}")


def _is_number(value: Json) -> TypeGuard[float]:
    """Whether it is a number; in JSON, True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: Json) -> str:
    """The value with its kind: what a model returned often only looks like a number."""
    spelling = shorten(quote_value(value), 60)
    if isinstance(value, str):
        return f"the text {spelling}"
    return (
        f"the number {spelling}" if _is_number(value) else f"the {type(value).__name__} {spelling}"
    )


def look_up(key: str, state: Mapping[str, Json]) -> Json:
    """The value of the key, read as `{key}` in a template is; None if it is missing."""
    value = state.get(key)
    # the key itself comes first: one with a dot in its name is found as it is
    if value is None:
        for variable in template.parse(f"{{{key}}}").variables:
            return template.lookup(variable, state, {})
    return value
