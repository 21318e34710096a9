"""Tools: a function, its schema, and what the runtime must know about it.

The schema comes from the signature, the texts from the docstring. Anything people have
at hand becomes a Tool: a function, a method, an object with `run`, a toolset of them.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    cast,
    get_origin,
    overload,
    runtime_checkable,
)

import msgspec

from weft import schema
from weft.declare.compose import Composable
from weft.declare.context import ToolContext
from weft.declare.functions import (
    check_choice,
    check_pass,
    is_async,
    is_generator,
    misfit,
    name_of,
    require_arguments,
)
from weft.declare.hints import TOOL_WORDS
from weft.declare.provider_tools import HOSTED, HostedTool, name_of_hosted
from weft.declare.return_fields import find_free_fields, find_unknown_fields, read_return_fields
from weft.diagnostics import Diagnostic
from weft.errors import DeclarationError, describe_kind
from weft.jsonschema import shorten
from weft.misuse import DeclaredStruct, explain_calls, explain_mistakes, hint_at_call, suggest_names
from weft.session.flow import Declared
from weft.values import JsonObject, compact, has_lone_surrogate

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    from weft.declare.flow import Node

    # Defaults are only for type checkers: Python below 3.13 knows none.
    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any, covariant=True)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)
    Node = object  # flows are made of agents, and agents of tools

Function = Callable[..., object]

Condition = Callable[[dict[str, Any], ToolContext], object]
"""Whether a call needs a yes, from its arguments and the context; sync or async."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names every provider takes: the intersection of their rules."""

Effect = Literal["pure", "idempotent", "transactional", "probe", "unsafe"]
"""What happens if a call is made again after a crash hid whether it had been made.

pure: it changes nothing. idempotent: the same call twice is the same as once. transactional: it
writes through the store's own connection, so its effect and its result are kept together or
not at all. probe: `probe` tells whether it happened. unsafe: it must never be made twice.
"""

RESERVED = ("transfer_to_agent", "set_model_response")


@explain_mistakes(
    'Tool(name="...", description="...", parameters={...}), or @tool above a function',
    words=TOOL_WORDS,
    change="write it where the tool is declared: @tool({field}=...)",
)
class Tool(DeclaredStruct, Generic[P, R], frozen=True, kw_only=True):
    """One tool: what the model is told of it, and how it is to be run.

    For type checkers it has the signature of its function: `add(1, 2)` is an int.
    """

    name: str
    description: str
    parameters: JsonObject
    function: Function | None = None
    context_parameter: str | None = None
    documented: bool = True
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()
    """The labels that its arguments may carry."""
    compact: bool | int | None = None
    """Whether, or from how many tokens on, its results become handles; None: by policy."""
    timeout: float | None = None
    retries: int = 0
    sequential: bool = False
    long_running: bool = False
    confirm: bool | Condition = False
    """Whether the user is asked before each call, or before those that a condition names."""
    confirm_expires: float | None = None
    """For how many seconds the question can be answered with a yes; None: for ever."""
    effect: Effect = "idempotent"
    probe: Function | None = None
    prepare: Function | None = None
    """A pass, `fn(prompt, env) -> Prompt`, that runs on each request which offers the tool."""
    hosted: HostedTool | None = None
    """What the provider runs, in place of a function."""
    agent: "Node | None" = None
    """The agent or flow that is run when the tool is called, in place of a function."""
    runs_code: bool = False
    """Whether a call brings code, which may call other tools of the agent."""
    functions: tuple[str, ...] | None = None
    """The tools that its code may call; None: all of the agent's."""
    source: tuple[str, ...] = ()
    """The server that it comes from, and its name there."""
    trust: Declared = "untrusted"
    """Whose text its results hold: of all of them, or by field."""
    consequential: bool = False
    """Whether a call that untrusted text had influence on needs a yes."""
    requires: Mapping[str, Sequence[str]] = {}
    """Arguments that need a voucher: the user's words, or a whole value of `tool.field`."""
    untrusted: bool = False
    """Whether nobody vouches for its results: every request has them between fences."""
    deferred: bool = False
    """Whether requests leave it out: the model finds it with `find_tools`."""
    dispatches: bool = False
    """Whether a call names another tool of the agent, with its arguments, to be called instead."""
    extra: dict[str, JsonObject] = {}
    """Fields of the declaration that only one dialect has, by its name.

    They are sent as they are, and so are the parameters then: whoever writes them knows the rules.
    """

    def __post_init__(self) -> None:
        name = cast("object", self.name)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise DeclarationError(
                f"`{name}` cannot be a tool name",
                where=f"tool {name}",
                hint="letters, digits, _ and -, at most 64, not starting with a digit",
            )
        if not isinstance(cast("object", self.description), str):
            raise DeclarationError(
                "its description is not text", where=f"tool {name}", hint="pass a string"
            )
        # the schema of a function is made by us and is sound
        if self.function is None:
            shape = schema.of_type(self.parameters, where=f"tool {name}.parameters")
            if shape.get("type", "object") != "object":
                raise DeclarationError(
                    f"its parameters are of type {shape['type']!r}: a model gives them by name",
                    where=f"tool {name}.parameters",
                    hint='write {"type": "object", "properties": {...}}',
                )
            msgspec.structs.force_setattr(self, "parameters", deepcopy(self.parameters))
        if has_lone_surrogate(self.description + compact(self.parameters)):
            raise DeclarationError(
                "its texts hold a lone surrogate", where=f"tool {name}", hint="mend its docstring"
            )
        check_choice(f"tool {name}", "effect", self.effect, Effect)
        if self.effect == "unsafe" and self.retries:
            raise DeclarationError(
                f'effect="unsafe" must never be run twice, and retries={self.retries} would',
                where=f"tool {name}.retries",
                hint="leave retries out, or declare the effect it has",
            )
        _check_probe(self.effect, self.probe, where=f"tool {name}.probe")
        _check_confirm(self.confirm, self.confirm_expires, where=f"tool {name}.confirm")
        _check_flow(self)
        if self.prepare is not None:
            check_pass(f"tool {name}", "prepare", self.prepare)
        if self.extra:
            _check_extra(self.extra, where=f"tool {name}.extra")

    @property
    def is_sink(self) -> bool:
        """Whether a call of it has consequences that untrusted text must not decide on."""
        return self.consequential or bool(self.requires)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as if it had not been decorated."""
        if self.function is None:
            raise DeclarationError(
                "the provider runs this tool"
                if self.hosted is not None
                else "this tool has no function to call",
                where=f"tool {self.name}",
            )
        return cast("R", self.function(*args, **kwargs))


SOURCE = re.compile(r"[A-Za-z_][\w-]*\.[^.\s]+")
"""A source that may vouch for an argument: the field of a tool's results."""


def _check_flow(tool: Tool) -> None:
    """Refuse sinks and sources that contradict themselves, where they are written."""
    where, hint = f"tool {tool.name}", 'write requires={"recipient": ["user", "ledger.iban"]}'
    if not isinstance(cast("object", tool.consequential), bool):
        raise DeclarationError(
            f"consequential={tool.consequential!r}", where=where, hint="pass True or False"
        )
    declared = cast("object", tool.requires)
    if isinstance(declared, str):
        declared = {declared: ("user",)}
    elif isinstance(declared, Iterable) and not isinstance(declared, Mapping):
        declared = dict.fromkeys(cast("Iterable[str]", declared), ("user",))
    if not isinstance(declared, Mapping):
        raise DeclarationError(f"requires is {describe_kind(declared)}", where=where, hint=hint)
    properties = tool.parameters.get("properties")
    known = [*properties] if isinstance(properties, dict) else []
    required: dict[str, tuple[str, ...]] = {}
    for argument, sources in cast("Mapping[str, Sequence[str]]", declared).items():
        if argument not in known:
            raise DeclarationError(
                f"requires names `{argument}`, and {tool.name} takes no such argument",
                where=f"{where}.requires",
                hint=suggest_names(str(argument), known, most=1) or f"it takes: {', '.join(known)}",
            )
        check_names(f"requires[{argument!r}]", sources, where=where)
        for source in sources:
            if source != "user" and not SOURCE.fullmatch(source):
                raise DeclarationError(
                    f"requires[{argument!r}] names {source!r}", where=where, hint=hint
                )
        required[argument] = tuple(sources)
    msgspec.structs.force_setattr(tool, "requires", required)
    if tool.is_sink and tool.effect == "pure":
        raise DeclarationError(
            'effect="pure" changes nothing, and consequential or requires says that it does',
            where=where,
            hint="leave one of them out",
        )
    _check_trust(tool.trust, where=f"{where}.trust")
    if tool.function is None or tool.trust in ("untrusted", "trusted"):
        return
    named: Iterable[str] = tool.trust if isinstance(tool.trust, Mapping) else ()
    for name in find_unknown_fields(tool.function, named):
        fields = sorted(read_return_fields(tool.function).names)
        raise DeclarationError(
            f"trust names `{name}`, and what {tool.name} returns has no such field",
            where=f"{where}.trust",
            hint=suggest_names(name, fields, most=1) or f"it has: {', '.join(fields)}",
        )
    free = find_free_fields(tool.function, tool.trust)
    if free:
        raise DeclarationError(
            f"trust says that `{free[0]}` is typed, and any text may stand there",
            where=f"{where}.trust",
            hint="annotate it as a number, a date, a Literal, or"
            ' Annotated[str, msgspec.Meta(pattern="[A-Z]+-[0-9]+")]; or leave it untrusted',
        )


def _check_trust(trust: object, *, where: str) -> None:
    hint = 'pass "untrusted", "typed" or "trusted", or one of them by field: {"body": "untrusted"}'
    by_field = isinstance(trust, Mapping)
    words = [*cast("Mapping[str, object]", trust).values()] if by_field else [trust]
    if any(word not in ("untrusted", "typed", "trusted") for word in words):
        raise DeclarationError(f"trust={trust!r}", where=where, hint=hint)


def _check_extra(extra: object, *, where: str) -> None:
    extra_text = shorten(repr(extra), 60)
    fields = cast("dict[object, object]", extra) if isinstance(extra, dict) else {None: None}
    for value in fields.values():
        if not isinstance(value, dict):
            raise DeclarationError(
                f"{extra_text} names no dialect with its fields",
                where=where,
                hint='write extra={"DIALECT": {"strict": True}}',
            )


@runtime_checkable
class SourceLike(Protocol):
    """A toolset that says itself how it is asked."""

    def as_source(self) -> "ToolSource":
        """The toolset as one that is asked in each run."""
        ...


@runtime_checkable
class ToolsetLike(Protocol):
    """Anything that hands out tools, at once, whoever asks."""

    def get_tools(self) -> Iterable[object]:
        """The tools, in their order."""
        ...


class ToolListing(msgspec.Struct, frozen=True):
    """What a toolset answers: its tools, and what there is to say of them."""

    tools: tuple[Tool, ...]
    warnings: tuple[Diagnostic, ...] = ()
    artifacts: dict[str, str] = {}
    """Texts that are kept as artifacts of the session, by their names there."""


class ToolSource(msgspec.Struct, frozen=True):
    """A toolset that is asked once in each run which tools there are.

    `ask` takes the read-only context of the agent, or nothing, and answers tools, sync or async.
    """

    name: str
    ask: Function
    prefix: str = ""
    restore: Callable[..., Tool] | None = None
    """Makes a tool that the log tells of callable again, given it and the context."""

    def tools_of(self, answer: object, *, where: str) -> tuple[Tool, ...]:
        """What it answered, as tools under their prefixed names."""
        if isinstance(answer, ToolListing):
            return answer.tools
        tools = to_tools(cast("Iterable[object]", answer), where=where)
        if not self.prefix:
            return tools
        return tuple(msgspec.structs.replace(t, name=self.prefix + t.name) for t in tools)


def to_source(value: object, *, where: str) -> ToolSource | None:
    """The value as a toolset that is asked in each run; None if it is something else.

    That is an object whose `get_tools` takes a context or is async, a function of one argument
    that is annotated as a ReadonlyContext, or a Toolset with a function in place of a list.
    """
    if isinstance(value, ToolSource):
        return value
    if isinstance(value, Tool | Composable | type):
        return None
    if isinstance(value, SourceLike):
        return value.as_source()
    if isinstance(value, Toolset):
        tools = cast("object", value.tools)
        return ToolSource(value.name, tools, value.prefix) if callable(tools) else None
    asked = cast("object", getattr(value, "get_tools", None))
    if callable(asked):
        taken = misfit(asked, 0)
        if taken is None and not is_async(asked):
            return None
        if taken is not None and misfit(asked, 1) is not None:
            raise DeclarationError(
                f"get_tools takes (context) or nothing; that of {type(value).__name__} takes"
                f" {taken}",
                where=where,
                hint="write def get_tools(self, context: ReadonlyContext)",
            )
        return ToolSource(type(value).__name__, asked)
    if inspect.isroutine(value) and misfit(value, 1) is None and _takes_context(value):
        return ToolSource(name_of(value), value)
    return None


def _takes_context(function: Function) -> bool:
    """Whether a function's first parameter is annotated as a ReadonlyContext."""
    parameters = [*inspect.signature(function).parameters.values()]
    annotation = cast("object", parameters[0].annotation) if parameters else None
    spelled = (
        annotation
        if isinstance(annotation, str)
        else getattr(get_origin(annotation) or annotation, "__name__", "")
    )
    return spelled.split("[")[0].strip(" '\"").split(".")[-1] == "ReadonlyContext"


@explain_mistakes('Toolset("name", [function])')
class Toolset(DeclaredStruct, frozen=True):
    """A named group of tools; `prefix` goes before each tool's name.

    In place of the list it may have a function that answers one, and is asked in each run.
    """

    name: str
    tools: tuple[object, ...] | Function
    prefix: str = ""

    def __post_init__(self) -> None:
        tools = cast("object", self.tools)
        if callable(tools):
            if misfit(tools, 1) is not None and misfit(tools, 0) is not None:
                raise DeclarationError(
                    f"`{name_of(tools)}` cannot be asked for tools",
                    where=f"toolset {self.name}",
                    hint="write def tools(context: ReadonlyContext) that returns a list",
                )
            return
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise DeclarationError(
                f"tools is {describe_kind(tools)}, not a list",
                where=f"toolset {self.name}",
                hint="write Toolset(name, [f])",
            )
        listed = tuple(cast("Iterable[object]", tools))
        msgspec.structs.force_setattr(self, "tools", listed)

    def get_tools(self) -> list[Tool]:
        """The group's tools under their prefixed names."""
        if callable(self.tools):
            raise DeclarationError(
                "its tools are known when a run asks for them",
                where=f"toolset {self.name}",
                hint=f"call its function with a context: {name_of(self.tools)}(context)",
            )
        tools = to_tools(self.tools, where=f"toolset {self.name}")
        return [msgspec.structs.replace(t, name=self.prefix + t.name) for t in tools]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    labels: Sequence[str] = (),
    cleared: Sequence[str] = (),
    compact: bool | int | None = None,
    timeout: float | None = None,
    retries: int = 0,
    sequential: bool = False,
    long_running: bool = False,
    confirm: bool | Condition = False,
    confirm_expires: float | None = None,
    effect: Effect = "idempotent",
    probe: Function | None = None,
    prepare: Function | None = None,
    trust: Declared = "untrusted",
    consequential: bool = False,
    requires: Mapping[str, Sequence[str]] | Sequence[str] = (),
) -> "Callable[[Callable[P, R]], Tool[P, R]]": ...
@explain_calls("@tool(timeout=10)", words=TOOL_WORDS)
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    labels: Sequence[str] = (),
    cleared: Sequence[str] = (),
    compact: bool | int | None = None,
    timeout: float | None = None,
    retries: int = 0,
    sequential: bool = False,
    long_running: bool = False,
    confirm: bool | Condition = False,
    confirm_expires: float | None = None,
    effect: Effect = "idempotent",
    probe: Function | None = None,
    prepare: Function | None = None,
    trust: Declared = "untrusted",
    consequential: bool = False,
    requires: Mapping[str, Sequence[str]] | Sequence[str] = (),
) -> Tool | Callable[[Function], Tool]:
    """Make a function a tool; bare, or with options."""
    for option, keys in (
        ("reads", reads), ("writes", writes), ("labels", labels), ("cleared", cleared),
    ):  # fmt: skip
        check_names(option, keys, where="@tool")
    if compact is not None and not isinstance(cast("object", compact), bool):
        _check_number("compact", compact, (int,), "True, False, or at least 64 tokens", above=63)
    if timeout is not None:
        _check_number("timeout", timeout, (int, float), "seconds above 0", above=0)
    _check_number("retries", retries, (int,), "0 or more", above=-1)
    for flag, value in (
        ("sequential", sequential), ("long_running", long_running),
    ):  # fmt: skip
        if not isinstance(cast("object", value), bool):
            raise DeclarationError(f"{flag}={value!r}", where="@tool", hint="pass True or False")
    if isinstance(cast("object", function), str):
        raise DeclarationError(
            f"{function!r} is not a function", where="@tool", hint=f'write @tool(name="{function}")'
        )
    if name == "":
        raise DeclarationError("the name is empty", where="@tool", hint='write name="my_tool"')

    def declare(target: Function) -> Tool:
        if isinstance(target, Tool):
            raise DeclarationError(
                "this is a tool already", where=f"tool {target.name}", hint="write one @tool(...)"
            )
        plain = _from_function(target, name=name, description=description, where="@tool")
        return msgspec.structs.replace(
            plain,
            reads=tuple(reads),
            writes=tuple(writes),
            labels=tuple(labels),
            cleared=tuple(cleared),
            compact=compact,
            timeout=timeout,
            retries=retries,
            sequential=sequential,
            long_running=long_running,
            confirm=confirm,
            confirm_expires=confirm_expires,
            effect=effect,
            probe=probe,
            prepare=prepare,
            trust=trust,
            consequential=consequential,
            requires=cast("Mapping[str, Sequence[str]]", requires or {}),
        )

    return declare if function is None else declare(function)


def _check_probe(effect: Effect, probe: object, *, where: str) -> None:
    """A probe says whether a call happened: it is there if, and only if, the effect needs it."""
    hint = 'write @tool(effect="probe", probe=find) with def find(call_id, args)'
    if probe is None:
        if effect == "probe":
            raise DeclarationError('effect="probe" without a probe to ask', where=where, hint=hint)
        return
    if effect != "probe":
        raise DeclarationError(
            f'a probe is given, but effect="{effect}" never asks it', where=where, hint=hint
        )
    if not callable(probe):
        raise DeclarationError(f"{probe!r} cannot be called", where=where, hint=hint)
    require_arguments(probe, "a probe takes (call_id, args)", where=where, hint=hint)


def _check_confirm(confirm: object, expires: object, *, where: str) -> None:
    """Whether to ask is a flag or a condition; only a question can expire."""
    hint = 'pass True, False, or a condition: lambda args, ctx: args["amount"] > 100'
    if not isinstance(confirm, bool):
        if not callable(confirm):
            raise DeclarationError(f"confirm={confirm!r}", where=where, hint=hint)
        taken = misfit(confirm, 2)
        if taken is not None or is_generator(confirm):
            words = taken if taken is not None else "values one by one"
            raise DeclarationError(
                f"a condition takes (args, ctx); `{name_of(confirm)}` takes {words}",
                where=where,
                hint=hint,
            )
    if expires is None:
        return
    _check_number("confirm_expires", expires, (int, float), "seconds above 0", above=0)
    if confirm is False:
        raise DeclarationError(
            f"confirm_expires={expires!r}, and nothing asks",
            where=where,
            hint="write confirm=True with it, or leave it out",
        )


def _check_number(
    name: str, value: object, types: tuple[type, ...], words: str, *, above: int
) -> None:
    right = isinstance(value, types) and not isinstance(value, bool)
    if not (right and above < cast("float", value) < float("inf")):
        raise DeclarationError(f"{name}={value!r}", where="@tool", hint=f"pass {words}")


def check_names(option: str, keys: object, *, where: str) -> None:
    """A list of names, not one string."""
    if isinstance(keys, str):
        raise DeclarationError(
            f'{option}="{keys}" is one string, not a list of names',
            where=where,
            hint=f'write {option}=["{keys}"]',
        )
    listed = isinstance(keys, Iterable) and all(
        isinstance(key, str) and key for key in cast("Iterable[object]", keys)
    )
    if not listed:
        raise DeclarationError(
            f"{option}={keys!r} is not a list of names",
            where=where,
            hint=f'write {option}=["name"]',
        )


def to_tools(values: Iterable[object], *, where: str) -> tuple[Tool, ...]:
    """Every value as a tool, toolsets opened, in the order given."""
    if isinstance(values, (str, bytes, Set)) or not isinstance(cast("object", values), Iterable):
        raise DeclarationError(
            f"tools is {describe_kind(values)}, not a list",
            where=where,
            hint=hint_at_call(values, "tools=[{}]") or _list_hint(values),
        )
    if isinstance(values, Mapping):
        raise DeclarationError(
            "tools is a dict, not a list", where=where, hint="write tools=[f]: a tool has its name"
        )
    tools: list[Tool] = []
    for value in values:
        if isinstance(value, Tool):
            tools.append(cast("Tool", value))
        elif isinstance(value, ToolsetLike) and not isinstance(value, type):
            tools.extend(_open_toolset(value, where=where))
        else:
            tools.append(_from_value(value, where=where))
    return tuple(tools)


def _open_toolset(toolset: ToolsetLike, *, where: str) -> tuple[Tool, ...]:
    tools = cast("object", toolset.get_tools())
    if inspect.iscoroutine(tools):
        tools.close()
        raise DeclarationError(
            f"the toolset {type(toolset).__name__} hands out its tools asynchronously",
            where=where,
            hint="await its get_tools() first and pass the tools",
        )
    return to_tools(cast("Iterable[object]", tools), where=f"{where}.{type(toolset).__name__}")


def _from_value(value: object, *, where: str) -> Tool:
    if isinstance(value, HOSTED):
        return _from_hosted(value)
    if isinstance(value, type) and issubclass(value, HOSTED):
        return _from_hosted(cast("HostedTool", _instance(value, where=where)))
    if isinstance(value, Composable):
        return _from_node(value, where=where)
    if isinstance(value, type):
        value = _instance(value, where=where)
    run = cast("object", getattr(value, "run", None))
    if callable(run) and not inspect.isroutine(value):
        return _from_object(value, run, where=where)
    if callable(value):
        return _from_function(value, name=None, description=None, where=where)
    raise DeclarationError(
        f"{shorten(repr(value), 60)} is not a tool", where=where, hint=_tool_hint(value)
    )


def _list_hint(value: object) -> str:
    """How a list of tools is written, where something else was passed."""
    if value is None:
        return "leave it out, or write tools=[f]"
    if isinstance(value, Set):
        return "write tools=[f, g]: the model reads them in their order, and a set has none"
    name = value if isinstance(value, str) and value.isidentifier() else name_of(value)
    known = name.isidentifier() and (isinstance(value, str) or inspect.isroutine(value))
    return f"write tools=[{name if known else 'f'}]"


def _tool_hint(value: object) -> str:
    """What to pass instead of something that is not a tool."""
    if isinstance(value, str) and value.isidentifier():
        return (
            f"pass the function itself, without quotes: {value}; or, if a call gave this, f and"
            " not f(...)"
        )
    if called := hint_at_call(value, "tools=[{}]"):
        return called
    if value is None or isinstance(value, str | int | float):
        return "pass the function itself: tools=[f], not what a call of it gave: f(...)"
    for name in ("func", "function", "fn", "callable"):
        if callable(getattr(value, name, None)):
            return f"pass its function: tools=[{type(value).__name__.lower()}.{name}]"
    if isinstance(value, list | tuple | set):
        return "pass the functions one by one: tools=[f, g], or .uses(f, g)"
    if isinstance(value, dict):
        return "pass a function; its schema is read from its signature and docstring"
    return "pass a function, a Tool, a toolset, or an object with a `run` method"


def _from_node(node: Composable, *, where: str) -> Tool:
    """A tool from an agent or a flow: calling it runs the node on what it was called with."""
    declared = cast("object", getattr(node, "input_schema", None))
    parameters: JsonObject = {
        "type": "object",
        "properties": {"request": {"type": "string", "description": "What is to be done."}},
        "required": ["request"],
    }
    if declared is not None:
        parameters = schema.of_type(declared, where=f"{where}.input_schema")
    name, description = (str(getattr(node, field)) for field in ("name", "description"))
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        documented=bool(description),
        agent=cast("Node", node),
    )


def _from_hosted(hosted: HostedTool) -> Tool:
    """A tool that the provider runs: it says itself what it is for."""
    name = name_of_hosted(hosted)
    return Tool(
        name=name,
        description=f"The provider's own {name.replace('_', ' ')}.",
        parameters={"type": "object", "properties": {}},
        hosted=hosted,
        effect="pure",
    )


def _instance(kind: type, *, where: str) -> object:
    called = hasattr(kind, "run") or any("__call__" in vars(one) for one in kind.__mro__)
    if not called and not any(one in HOSTED for one in kind.__mro__):
        raise DeclarationError(
            f"{kind.__name__} is a class without a `run` method, and not a tool",
            where=where,
            hint=f"pass an object of it: {kind.__name__}(...)"
            if hasattr(kind, "get_tools")
            else f"pass a function; for an answer in this shape: output_schema={kind.__name__}",
        )
    try:
        return kind()
    except Exception as error:
        raise DeclarationError(
            f"the tool class {kind.__name__} cannot be made without arguments: {error}",
            where=where,
            hint=f"pass an instance: {kind.__name__}(...)",
        ) from None


def _from_object(value: object, run: Function, *, where: str) -> Tool:
    """A tool from an object with `run`: the object names and describes it, `run` is its schema."""
    name = cast("object", getattr(value, "name", None))
    description = cast("object", getattr(value, "description", None))
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(value).__name__).lower()
    converted = _from_function(
        run,
        name=name if isinstance(name, str) else snake,
        description=description if isinstance(description, str) else None,
        where=where,
    )
    prepare = cast("object", getattr(value, "prepare", None))
    if callable(prepare):
        converted = msgspec.structs.replace(converted, prepare=prepare)
    if converted.description or not type(value).__doc__:
        return converted
    text = inspect.cleandoc(type(value).__doc__ or "")
    return msgspec.structs.replace(converted, description=text, documented=True)


def _from_function(
    target: Function, *, name: str | None, description: str | None, where: str
) -> Tool:
    label = name or str(getattr(target, "__name__", type(target).__name__))
    signature = schema.of_function(
        target, context_type=ToolContext, name=name, where=f"{where}.{label}"
    )
    return Tool(
        name=signature.name,
        description=signature.description if description is None else description,
        parameters=signature.parameters,
        function=target,
        context_parameter=signature.context_parameter,
        documented=signature.has_docstring or description is not None,
    )
