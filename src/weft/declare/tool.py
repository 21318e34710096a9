"""Tools: a function, its schema, and what the runtime must know about it.

The schema comes from the signature, the texts from the docstring. Anything people have
at hand becomes a Tool: a function, a method, an object with `run`, a toolset of them.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast, overload, runtime_checkable

import msgspec

from weft import schema
from weft.declare.context import ToolContext
from weft.errors import DeclarationError
from weft.values import JsonObject

Function = Callable[..., object]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names every provider takes: the intersection of their rules."""

RESERVED = ("transfer_to_agent", "set_model_response")


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: what the model is told of it, and how it is to be run."""

    name: str
    description: str
    parameters: JsonObject
    function: Function | None = None
    context_parameter: str | None = None
    documented: bool = True
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int = 0
    sequential: bool = False
    long_running: bool = False
    confirm: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise DeclarationError(
                f"`{self.name}` cannot be a tool name",
                where=f"tool {self.name}",
                hint="letters, digits, _ and -, at most 64, not starting with a digit",
            )

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function as if it had not been decorated."""
        if self.function is None:
            raise DeclarationError(
                "this tool has no function to call", where=f"tool {self.name}"
            )
        return self.function(*args, **kwargs)


@runtime_checkable
class ToolsetLike(Protocol):
    """Anything that hands out tools."""

    def get_tools(self) -> Iterable[object]:
        """The tools, in their order."""
        ...


class Toolset(msgspec.Struct, frozen=True):
    """A named group of tools; `prefix` goes before each tool's name."""

    name: str
    tools: tuple[object, ...]
    prefix: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "tools", tuple(self.tools))

    def get_tools(self) -> list[Tool]:
        """The group's tools under their prefixed names."""
        tools = to_tools(self.tools, where=f"toolset {self.name}")
        return [msgspec.structs.replace(t, name=self.prefix + t.name) for t in tools]


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    labels: Sequence[str] = (),
    timeout: float | None = None,
    retries: int = 0,
    sequential: bool = False,
    long_running: bool = False,
    confirm: bool = False,
) -> Callable[[Function], Tool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    reads: Sequence[str] = (),
    writes: Sequence[str] = (),
    labels: Sequence[str] = (),
    timeout: float | None = None,
    retries: int = 0,
    sequential: bool = False,
    long_running: bool = False,
    confirm: bool = False,
) -> Tool | Callable[[Function], Tool]:
    """Make a function a tool; bare, or with options."""
    for option, keys in (("reads", reads), ("writes", writes), ("labels", labels)):
        if isinstance(keys, str):
            raise DeclarationError(
                f'{option}="{keys}" is one string, not a list of names',
                where="@tool",
                hint=f'write {option}=["{keys}"]',
            )
    if timeout is not None and timeout <= 0:
        raise DeclarationError(
            f"timeout={timeout} is not a time", where="@tool", hint="pass seconds above 0"
        )
    if retries < 0:
        raise DeclarationError(f"retries={retries} is below 0", where="@tool", hint="pass 0 or more")

    def declare(target: Function) -> Tool:
        made = _from_function(target, name=name, description=description)
        return msgspec.structs.replace(
            made,
            reads=tuple(reads),
            writes=tuple(writes),
            labels=tuple(labels),
            timeout=timeout,
            retries=retries,
            sequential=sequential,
            long_running=long_running,
            confirm=confirm,
        )

    return declare if function is None else declare(function)


def to_tools(values: Iterable[object], *, where: str) -> tuple[Tool, ...]:
    """Every value as a tool, toolsets opened, in the order given."""
    if isinstance(values, (str, bytes)) or not isinstance(cast("object", values), Iterable):
        raise DeclarationError(
            f"tools is a {type(values).__name__}, not a list", where=where, hint="write tools=[f]"
        )
    tools: list[Tool] = []
    for value in values:
        if isinstance(value, Tool):
            tools.append(value)
        elif isinstance(value, ToolsetLike) and not isinstance(value, type):
            tools.extend(_opened(value, where=where))
        else:
            tools.append(_from_value(value, where=where))
    return tuple(tools)


def _opened(toolset: ToolsetLike, *, where: str) -> tuple[Tool, ...]:
    found = toolset.get_tools()
    if inspect.iscoroutine(found):
        found.close()
        raise DeclarationError(
            f"the toolset {type(toolset).__name__} hands out its tools asynchronously",
            where=where,
            hint="await its get_tools() first and pass the tools",
        )
    return to_tools(found, where=f"{where}.{type(toolset).__name__}")


def _from_value(value: object, *, where: str) -> Tool:
    if isinstance(value, type):
        value = _instance(value, where=where)
    run = cast("object", getattr(value, "run", None))
    if callable(run) and not inspect.isroutine(value):
        return _from_object(value, cast("Function", run))
    if callable(value):
        return _from_function(cast("Function", value), name=None, description=None)
    raise DeclarationError(
        f"{value!r} is not a tool",
        where=where,
        hint="pass a function, a Tool, a toolset, or an object with a `run` method",
    )


def _instance(kind: type, *, where: str) -> object:
    try:
        return kind()
    except TypeError as error:
        raise DeclarationError(
            f"the tool class {kind.__name__} cannot be made without arguments: {error}",
            where=where,
            hint=f"pass an instance: {kind.__name__}(...)",
        ) from None


def _from_object(value: object, run: Function) -> Tool:
    """A tool from an object with `run`: the object names and describes it, `run` is its schema."""
    name = cast("object", getattr(value, "name", None))
    description = cast("object", getattr(value, "description", None))
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(value).__name__).lower()
    made = _from_function(
        run,
        name=name if isinstance(name, str) else snake,
        description=description if isinstance(description, str) else None,
    )
    if made.description or not type(value).__doc__:
        return made
    text = inspect.cleandoc(type(value).__doc__ or "")
    return msgspec.structs.replace(made, description=text, documented=True)


def _from_function(target: Function, *, name: str | None, description: str | None) -> Tool:
    signature = schema.of_function(target, context_type=ToolContext, name=name)
    return Tool(
        name=signature.name,
        description=signature.description if description is None else description,
        parameters=signature.parameters,
        function=target,
        context_parameter=signature.context_parameter,
        documented=signature.has_docstring or description is not None,
    )
