"""An agent: frozen data that says what it is, checked where it is written.

Fluent methods are verbs and return a copy, so sharing an agent is always safe.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, cast

from weft.declare import tree
from weft.declare.checks import (
    CALLBACKS,
    check_allow,
    check_budget,
    check_callback,
    check_cleared,
    check_flag,
    check_instruction,
    check_model,
    check_name,
    check_output_key,
    check_policy,
    check_schema,
    check_steps,
    check_text,
    check_tools,
    wrong,
)
from weft.declare.compose import Composable
from weft.declare.config import OnMissing, OnProviderError, OnTruncated, check_generate_config
from weft.declare.functions import check_choice
from weft.declare.hints import AGENT_VERBS, AGENT_WORDS
from weft.declare.inputs import Inputs, check_inputs
from weft.declare.policy import Policy, TokenBudget
from weft.declare.tool import Tool, to_tools
from weft.declare.words import C
from weft.jsonschema import shorten
from weft.misuse import declared, explained
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.declare.flow import Flow

_EVERYTHING = C.default(data=False)

Callback: TypeAlias = Callable[..., object]
Callbacks: TypeAlias = Callback | Sequence[Callback] | None


@dataclass(frozen=True, slots=True)
class Raw:
    """Text a provider returns that is not to be templated."""

    text: str


Instruction: TypeAlias = str | Callable[..., object] | tuple[object, ...]
"""Text, a callable of one argument, or (module_or_object, "name"[, [extra arguments]])."""


@declared(
    'Agent("name", instruction="...")',
    words=AGENT_WORDS,
    verbs=AGENT_VERBS,
    change="write agent = dataclasses.replace(agent, {field}=...), which returns a copy",
)
@dataclass(frozen=True, eq=False)
class Agent(Composable):
    """What an agent is: instruction, tools, sub-agents, schemas, and what it may see."""

    name: str
    model: str | object | None = field(default=None, kw_only=True)
    instruction: Instruction = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    tools: tuple[Tool, ...] = field(default=(), kw_only=True)
    sub_agents: "tuple[Agent | Flow, ...]" = field(default=(), kw_only=True)
    output_key: str | None = field(default=None, kw_only=True)
    output_schema: object | None = field(default=None, kw_only=True)
    input_schema: object | None = field(default=None, kw_only=True)
    context: Policy | None = field(default=None, kw_only=True)
    include_contents: str | None = field(default=None, kw_only=True)
    context_compressor: TokenBudget | None = field(default=None, kw_only=True)
    generate_config: JsonObject = field(default_factory=dict[str, Json], kw_only=True)
    global_instruction: Instruction | None = field(default=None, kw_only=True)
    disallow_transfer_to_parent: bool = field(default=False, kw_only=True)
    disallow_transfer_to_peers: bool = field(default=False, kw_only=True)
    before_agent: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    after_agent: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    before_model: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    after_model: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    before_tool: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    after_tool: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    on_model_error: Callback | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    on_tool_error: Callback | str | tuple[Callback, ...] | None = field(default=None, kw_only=True)
    max_steps: int = field(default=25, kw_only=True)
    on_missing: OnMissing = field(default="keep", kw_only=True)
    on_provider_error: OnProviderError = field(default="log", kw_only=True)
    on_truncated: OnTruncated = field(default="keep", kw_only=True)
    """What becomes of an answer that was cut off at the token limit."""
    allow: tuple[str, ...] = field(default=(), kw_only=True)
    cleared: tuple[str, ...] = field(default=(), kw_only=True)
    """The labels that its model may see."""
    inputs: Mapping[str, object] = field(default_factory=dict[str, object], kw_only=True)
    """The state keys that must be there when it starts, with their types."""

    children: ClassVar[tuple[()]] = ()
    """An agent is a leaf of a flow: its sub-agents are reached by transfer, not by the flow."""

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            *,
            model: object = None,
            instruction: Instruction = "",
            description: str = "",
            tools: Iterable[object] = (),
            sub_agents: "Iterable[Agent | Flow]" = (),
            output_key: str | None = None,
            output_schema: object = None,
            input_schema: object = None,
            context: Policy | None = None,
            include_contents: Literal["default", "none"] | None = None,
            context_compressor: TokenBudget | Mapping[str, object] | None = None,
            generate_config: Mapping[str, object] | None = None,
            global_instruction: Instruction | None = None,
            disallow_transfer_to_parent: bool = False,
            disallow_transfer_to_peers: bool = False,
            before_agent: Callbacks = None,
            after_agent: Callbacks = None,
            before_model: Callbacks = None,
            after_model: Callbacks = None,
            before_tool: Callbacks = None,
            after_tool: Callbacks = None,
            on_model_error: Callbacks = None,
            on_tool_error: Callbacks | Literal["raise", "result"] = None,
            max_steps: int = 25,
            on_missing: OnMissing = "keep",
            on_provider_error: OnProviderError = "log",
            on_truncated: OnTruncated = "keep",
            allow: str | Iterable[str] = (),
            cleared: str | Iterable[str] = (),
            inputs: Inputs = (),
        ) -> None:
            """What people may pass is wider than what the fields hold."""

    def __post_init__(self) -> None:
        """Normalise what people pass, and refuse what cannot be right."""
        check_name(self.name)
        name = self.name
        check_model(name, self.model)
        self._set("tools", to_tools(self.tools, where=f"{name}.tools"))
        check_tools(name, self.tools)
        self._set("sub_agents", self._children(self.sub_agents))
        tree.check(self)
        self._check_flows()
        where = f"{name}.generate_config"
        self._set("generate_config", check_generate_config(self.generate_config, where=where))
        check_instruction(name, "instruction", self.instruction)
        if self.global_instruction is not None:
            check_instruction(name, "global_instruction", self.global_instruction)
        self._set("context", check_policy(name, self.context, self.include_contents))
        budget = check_budget(name, self.context_compressor)
        self._set("context_compressor", budget)
        for kind in ("output_schema", "input_schema"):
            self._set(kind, check_schema(name, kind, getattr(self, kind)))
        check_output_key(name, self.output_key)
        check_text(name, "description", self.description)
        check_flag(name, "disallow_transfer_to_parent", self.disallow_transfer_to_parent)
        check_flag(name, "disallow_transfer_to_peers", self.disallow_transfer_to_peers)
        check_steps(name, self.max_steps)
        choices: tuple[tuple[str, object], ...] = (
            ("on_missing", OnMissing),
            ("on_provider_error", OnProviderError),
            ("on_truncated", OnTruncated),
        )
        for choice, kinds in choices:
            check_choice(name, choice, getattr(self, choice), kinds)
        self._set("allow", check_allow(name, self.allow))
        self._set("cleared", check_cleared(name, self.cleared))
        self._set("inputs", check_inputs(name, self.inputs))
        for verb in CALLBACKS:
            self._set(verb, check_callback(name, verb, getattr(self, verb)))

    @explained('agent.instruct("...")')
    def instruct(self, instruction: Instruction) -> Self:
        """Return a copy with this instruction."""
        return replace(self, instruction=instruction)

    @explained('agent.describe("...")')
    def describe(self, description: str) -> Self:
        """Return a copy with this description."""
        return replace(self, description=description)

    def uses(self, *tools: object) -> Self:
        """Return a copy with these tools added."""
        return replace(self, tools=(*self.tools, *cast("tuple[Tool, ...]", tools)))

    @explained('agent.writes("key")')
    def writes(self, key: str) -> Self:
        """Return a copy whose answer is stored under `key`."""
        return replace(self, output_key=key)

    @explained("agent.returns(Schema)")
    def returns(self, output_schema: object) -> Self:
        """Return a copy whose answer has this schema."""
        return replace(self, output_schema=output_schema)

    def __matmul__(self, schema: object) -> Self:
        """The same as `returns`: `agent @ Invoice`."""
        if schema is None:
            raise wrong(self.name, "output_schema", "None is no schema", "write agent @ Schema")
        return self.returns(schema)

    def reads(self, *keys: str) -> Self:
        """Return a copy that is shown these state keys too, beside what it sees so far."""
        shown, limit = C.state(*keys), self.policy.limit
        return self.sees(replace(replace(self.policy, limit=None) + shown, limit=limit))

    @explained("agent.sees(C.window(5))")
    def sees(self, policy: Policy) -> Self:
        """Return a copy that sees what the policy lets through."""
        return replace(self, context=policy, include_contents=None)

    def delegates_to(self, *agents: "Agent | Flow") -> Self:
        """Return a copy with these sub-agents added."""
        return replace(self, sub_agents=(*self.sub_agents, *agents))

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.context if self.context is not None else _EVERYTHING

    @cached_property
    def memo(self) -> dict[object, object]:
        """What was derived from this declaration, kept with it; no copy of the agent has it."""
        return {}

    def __getstate__(self) -> dict[str, object]:
        return {name: held for name, held in vars(self).items() if name != "memo"}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Agent):
            return NotImplemented
        return self is other or all(
            getattr(self, f) == getattr(other, f) for f in self.__dataclass_fields__
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _children(self, values: "Iterable[Agent | Flow]") -> "tuple[Agent | Flow, ...]":
        if isinstance(values, Composable) or not isinstance(cast("object", values), Iterable):
            raise wrong(
                self.name, "sub_agents", "sub_agents is not a list", "write sub_agents=[a, b]"
            )
        children = tuple(values)
        for child in children:
            if not isinstance(cast("object", child), Composable):
                raise wrong(
                    self.name,
                    "sub_agents",
                    f"{shorten(repr(child), 60)} is not an Agent or a flow",
                    "pass them one by one: weft.Agent values, or flows such as Sequence(a, b)",
                )
        return children

    def _check_flows(self) -> None:
        """Refuse a flow below that leads nowhere, or has another agent of a name in the tree."""
        flows = [node for node, _ in tree.walk(self) if not isinstance(node, Agent)]
        if not flows:
            return
        from weft.declare.nodes import check_agents, to_node

        for flow in flows:
            to_node(flow, where=f"{self.name}.sub_agents")
        check_agents(self, where=f"{self.name}.sub_agents")
