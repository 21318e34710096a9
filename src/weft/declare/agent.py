"""An agent: frozen data that says what it is, checked where it is written.

Fluent methods are verbs and return a copy, so sharing an agent is always safe.
"""

import keyword
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self, cast

import msgspec

from weft import schema
from weft.declare import tree
from weft.declare.config import OnMissing, OnProviderError, check_choice, check_generate_config
from weft.declare.policy import C, Policy, TokenBudget
from weft.declare.tool import RESERVED, Tool, to_tools
from weft.errors import DeclarationError
from weft.values import Json, JsonObject

Callback = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Raw:
    """Text a provider returns that is not to be templated."""

    text: str


Instruction = str | Callable[..., object] | tuple[object, ...]
"""Text, a callable of one argument, or (module_or_object, "name"[, [extra arguments]])."""


@dataclass(frozen=True, eq=False)
class Agent:
    """What an agent is: instruction, tools, sub-agents, schemas, and what it may see."""

    name: str
    model: str | object | None = field(default=None, kw_only=True)
    instruction: Instruction = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    tools: tuple[Tool, ...] = field(default=(), kw_only=True)
    sub_agents: "tuple[Agent, ...]" = field(default=(), kw_only=True)
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
    allow: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Normalise what people pass, and refuse what cannot be right."""
        self._check_name()
        name = self.name
        self._set("tools", to_tools(self.tools, where=f"{name}.tools"))
        self._check_tools()
        self._set("sub_agents", self._children(self.sub_agents))
        tree.check(self)
        self._set(
            "generate_config",
            check_generate_config(self.generate_config, where=f"{name}.generate_config"),
        )
        self._check_instruction("instruction", self.instruction)
        if self.global_instruction is not None:
            self._check_instruction("global_instruction", self.global_instruction)
        self._check_view()
        self._check_output()
        if not isinstance(cast("object", self.description), str):
            raise self._wrong("description", "description is not text", "pass a string")
        if not isinstance(cast("object", self.max_steps), int) or self.max_steps < 1:
            raise self._wrong("max_steps", f"max_steps={self.max_steps!r}", "pass 1 or more")
        check_choice("on_missing", self.on_missing, OnMissing, where=name)
        check_choice("on_provider_error", self.on_provider_error, OnProviderError, where=name)
        self._set("allow", (self.allow,) if isinstance(self.allow, str) else tuple(self.allow))
        for verb in _CALLBACKS:
            self._check_callback(verb)

    def instruct(self, instruction: Instruction) -> Self:
        """Return a copy with this instruction."""
        return replace(self, instruction=instruction)

    def describe(self, description: str) -> Self:
        """Return a copy with this description."""
        return replace(self, description=description)

    def uses(self, *tools: object) -> Self:
        """Return a copy with these tools added."""
        return replace(self, tools=(*self.tools, *cast("tuple[Tool, ...]", tools)))

    def writes(self, key: str) -> Self:
        """Return a copy whose answer is stored under `key`."""
        return replace(self, output_key=key)

    def returns(self, output_schema: object) -> Self:
        """Return a copy whose answer has this schema."""
        return replace(self, output_schema=output_schema)

    def sees(self, policy: Policy) -> Self:
        """Return a copy that sees what the policy lets through."""
        return replace(self, context=policy, include_contents=None)

    def delegates_to(self, *agents: "Agent") -> Self:
        """Return a copy with these sub-agents added."""
        return replace(self, sub_agents=(*self.sub_agents, *agents))

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.context if self.context is not None else C.default()

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

    def _wrong(self, name: str, message: str, hint: str) -> DeclarationError:
        return DeclarationError(message, where=f"{self.name}.{name}", hint=hint)

    def _check_name(self) -> None:
        name = cast("object", self.name)
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            fixed = "".join(c if c.isalnum() else "_" for c in str(name)).strip("_") or "my_agent"
            if fixed[0].isdigit() or keyword.iskeyword(fixed):
                fixed = f"agent_{fixed}"
            raise DeclarationError(
                f"{name!r} cannot be an agent name: it is not an identifier",
                where="Agent.name",
                hint=f'write Agent("{fixed}")',
            )
        if name == "user":
            raise DeclarationError(
                '"user" cannot be an agent name: events of the user carry it',
                where="Agent.name",
                hint='choose another name, such as "assistant"',
            )

    def _check_tools(self) -> None:
        seen: set[str] = set()
        for tool in self.tools:
            if tool.name in RESERVED:
                raise self._wrong(
                    "tools", f"the tool name `{tool.name}` is Weft's own", "rename the tool"
                )
            if tool.name in seen:
                raise self._wrong(
                    "tools",
                    f"two tools are named `{tool.name}`",
                    "rename one: @tool(name=...), or give its toolset a prefix",
                )
            seen.add(tool.name)

    def _children(self, values: "Iterable[Agent]") -> "tuple[Agent, ...]":
        if isinstance(values, Agent) or not isinstance(cast("object", values), Iterable):
            raise self._wrong("sub_agents", "sub_agents is not a list", "write sub_agents=[a, b]")
        children = tuple(values)
        for child in children:
            if not isinstance(cast("object", child), Agent):
                raise self._wrong(
                    "sub_agents", f"{child!r} is not an Agent", "pass weft.Agent values"
                )
        return children

    def _check_instruction(self, name: str, value: object) -> None:
        if isinstance(value, str) or callable(value):
            return
        if isinstance(value, tuple):
            pieces = cast("tuple[object, ...]", value)
            known = len(pieces) in (2, 3) and isinstance(pieces[1], str)
            if known and callable(getattr(pieces[0], cast("str", pieces[1]), None)):
                return
        raise self._wrong(
            name,
            f"{value!r} is no instruction",
            'pass text, a callable of one argument, or (module, "function"[, [extra]])',
        )

    def _check_view(self) -> None:
        if self.include_contents not in (None, "default", "none"):
            raise self._wrong(
                "include_contents",
                f"{self.include_contents!r} is not a view",
                'pass "default" or "none", or a policy: context=C.none()',
            )
        if self.include_contents == "none":
            if self.context is not None and self.context.view != "none":
                raise self._wrong(
                    "context",
                    f'include_contents="none" and context={self.context} say different things',
                    "keep `context` only",
                )
            self._set("context", C.none())
        if self.context is not None and not isinstance(cast("object", self.context), Policy):
            raise self._wrong("context", f"{self.context!r} is no policy", "write context=C.none()")
        budget = cast("object", self.context_compressor)
        if isinstance(budget, Mapping):
            try:
                made = msgspec.convert(dict(cast("Mapping[str, object]", budget)), TokenBudget)
            except msgspec.ValidationError as error:
                raise self._wrong(
                    "context_compressor",
                    f"these are no budget options: {error}",
                    "write TokenBudget(token_budget=4096, keep_recent=3)",
                ) from None
            self._set("context_compressor", made)
        elif budget is not None and not isinstance(budget, TokenBudget):
            raise self._wrong(
                "context_compressor",
                f"{budget!r} is no TokenBudget",
                "write TokenBudget(token_budget=4096, keep_recent=3)",
            )

    def _check_output(self) -> None:
        for name in ("output_schema", "input_schema"):
            declared = getattr(self, name)
            if declared is not None:
                schema.of_type(declared, where=f"{self.name}.{name}")
        key = cast("object", self.output_key)
        if key is not None and (not isinstance(key, str) or not key):
            raise self._wrong("output_key", f"{key!r} is no state key", "pass a non-empty string")

    def _check_callback(self, verb: str) -> None:
        value = getattr(self, verb)
        if value is None or (verb == "on_tool_error" and value in ("raise", "result")):
            return
        chain = cast("tuple[object, ...]", tuple(value) if isinstance(value, list) else value)
        for one in chain if isinstance(chain, tuple) else (chain,):
            if not callable(one):
                raise self._wrong(verb, f"{one!r} cannot be called", "pass a function or a list")
        self._set(verb, chain)


_CALLBACKS = (
    "before_agent",
    "after_agent",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "on_model_error",
    "on_tool_error",
)
