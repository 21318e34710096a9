"""Tools of google-adk as Weft's: functions by their signature, agents as agents."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from weft import schema
from weft.checker.functions import uses_of
from weft.declare import Node, Tool
from weft.declare.functions import Foreign, name_of
from weft.declare.tool import NAME, RESERVED, to_tools
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.errors import DeclarationError
from weft.interop.adk.objects import HOME, as_list, field, flag, is_a, kinds, object_name, text
from weft.interop.adk.running import RawResult, tool_call

if TYPE_CHECKING:
    from weft.tools import MCP

BUILT_IN = frozenset(
    (
        "GoogleSearchTool", "VertexAiSearchTool", "EnterpriseWebSearchTool", "UrlContextTool",
        "GoogleMapsGroundingTool", "VertexAiRagRetrieval", "PreloadMemoryTool", "ExampleTool",
        "ComputerUseTool", "LoadArtifactsTool", "FinishTaskTool",
    )
)  # fmt: skip
"""What the provider or google-adk does itself: no function of the application's is called."""

NOT_PORTED = (
    "_auth_scheme", "_header_provider", "_progress_callback", "_sampling_callback",
    "_elicitation_callback", "_use_mcp_resources", "_propagate_grounding_metadata",
)  # fmt: skip
"""What an MCP toolset of google-adk may have set that a server of Weft's does not do."""

Convert = Callable[[object], Node | None]
"""An agent as a node; None for one that is being read already, which calls itself in the end."""


class AdkPlace(NamedTuple):
    """A field of an agent of google-adk."""

    agent: str
    field: str

    @property
    def origin(self) -> Origin:
        """The place, for a diagnostic."""
        return Origin("field", self.field, self.agent)


def opaque_function(place: AdkPlace, what: str, *, opaque: bool = True) -> Foreign:
    """Code that is looked at from outside: named, and never called; `opaque` may do anything."""
    return Foreign(str(place.origin), what, opaque=opaque)


class ConvertedTools(NamedTuple):
    """The tools of an agent, what is not looked into, and what each may do."""

    tools: tuple[Tool, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    escalates: bool = False
    """Whether one of them may end a loop."""
    closed: tuple[Foreign, ...] = ()
    """What a run of Weft's cannot do, of what is not a tool of Weft's."""
    servers: tuple["MCP", ...] = ()
    """MCP servers, which are asked for their tools in each run."""


def tools_of(
    agent: object, values: list[object], convert: Convert, results: dict[str, RawResult]
) -> ConvertedTools:
    """Every tool that the agent lists; what cannot be known is noted."""
    total = ConvertedTools()
    place = AdkPlace(text(agent, "name"), "tools")
    for value in values:
        own = _one(place, value, convert)
        total = ConvertedTools(
            total.tools + own.tools,
            total.notes + own.notes,
            total.escalates or own.escalates,
            total.closed + own.closed,
            total.servers + _rename_servers(own.servers, total.servers),
        )
    runs = tuple(_bind_tool(agent, tool, values, results) for tool in total.tools)
    return _last_of_each_name(total._replace(tools=runs), place)


def _bind_tool(
    agent: object, tool: Tool, values: list[object], results: dict[str, RawResult]
) -> Tool:
    """The tool, whose function gets google-adk's context where it takes one."""
    function = tool.function
    if function is None or tool.context_parameter is None or isinstance(function, Foreign):
        return tool
    if _is_ours(function):
        return tool
    owner = next((one for one in values if _function_of(one) is function), function)
    code = Foreign(
        tool.name,
        f"the tool `{tool.name}`",
        functions=(function,),
        context=tool.context_parameter,
        call=tool_call(agent, owner, tool.context_parameter, results),
    )
    return msgspec.structs.replace(tool, function=code)


def _function_of(value: object) -> object:
    return field(value, "func") if is_a(value, "FunctionTool") else value


def _is_ours(function: object) -> bool:
    return str(getattr(function, "__module__", "")).startswith("weft.")


def _last_of_each_name(tools: ConvertedTools, place: AdkPlace) -> ConvertedTools:
    """The last of several tools with one name: google-adk calls that one."""
    last = {tool.name: tool for tool in tools.tools}
    if len(last) == len(tools.tools):
        return tools
    hidden = [tool for tool in tools.tools if last[tool.name].function is not tool.function]
    notes = tuple(
        report(
            "WEFT490",
            place.origin,
            f"the tool `{tool.name}` is hidden by another of that name, and never called",
            "rename one of the two",
            severity=Severity.WARNING,
        )
        for tool in hidden
    )
    return tools._replace(tools=tuple(last.values()), notes=tools.notes + notes)


def _one(place: AdkPlace, value: object, convert: Convert) -> ConvertedTools:
    if is_a(value, "AgentTool"):
        return _agent(place, value, convert)
    server = _read_server(value) if is_a(value, "McpToolset") else None
    if server is not None:
        return ConvertedTools(servers=(server,))
    if is_a(value, "BaseToolset"):
        return _leave_out(place, f"the toolset {type(value).__name__}", escalates=True)
    if built_in := [kind for kind in kinds(value) if kind in BUILT_IN]:
        return _leave_out(place, f"the built-in tool {built_in[0]}", opaque=False)
    function = _function_of(value)
    if is_a(value, "BaseTool") and not is_a(value, "FunctionTool"):
        return _foreign(place, value)
    if not callable(function):
        return _leave_out(place, f"{value!r}, which is not a tool,")
    return _function(place, value, function)


def _leave_out(
    place: AdkPlace, what: str, *, opaque: bool = True, escalates: bool = False
) -> ConvertedTools:
    """No tool of Weft's, with a note; `opaque` where it may do anything."""
    note = note_opaque(place, what, silent=opaque)
    closed = opaque_function(place, what, opaque=opaque)
    return ConvertedTools(notes=(note,), escalates=escalates, closed=(closed,))


def _read_server(toolset: object) -> "MCP | None":
    """The MCP server of a toolset; None where the toolset does what Weft's does not."""
    parameters = field(toolset, "_connection_params")
    confirm, only = field(toolset, "_require_confirmation"), field(toolset, "tool_filter")
    own_class = not f"{type(toolset).__module__}.".startswith(HOME)
    written = as_list(parameters, "model_fields_set")
    if own_class or "httpx_client_factory" in written or is_a(parameters, "SseConnectionParams"):
        return None
    if callable(confirm) or callable(only) or any(field(toolset, one) for one in NOT_PORTED):
        return None
    from weft.tools import MCP

    prefix = text(toolset, "tool_name_prefix")
    options: dict[str, object] = {
        "only": None if only is None else as_list(toolset, "tool_filter"),
        "prefix": f"{prefix}_" if prefix else "",
        "confirm": confirm is True,
        "defer": False,
        "lifetime": field(toolset, "_tool_list_cache_ttl_seconds"),
        "start_seconds": field(parameters, "timeout") if "timeout" in written else None,
        "seconds": field(parameters, "sse_read_timeout") if "sse_read_timeout" in written else None,
        "headers": field(parameters, "headers"),
    }
    server = text(parameters, "url")
    if not server:
        command = field(parameters, "server_params") or parameters
        server = text(command, "command")
        options |= {name: field(command, name) for name in ("args", "env", "cwd")}
    return MCP(server, **{name: one for name, one in options.items() if one is not None})  # type: ignore[arg-type]


def _rename_servers(servers: tuple["MCP", ...], others: tuple["MCP", ...]) -> tuple["MCP", ...]:
    """Servers with names of their own: Weft tells servers apart by their names."""
    taken = [other.label for other in others]
    return tuple(
        replace(one, name=f"{one.label}_{len(taken) + 1}") if one.label in taken else one
        for one in servers
    )


def _agent(place: AdkPlace, value: object, convert: Convert) -> ConvertedTools:
    """An agent that is called; one that leads back to the agent it is called by is a closed one."""
    agent = field(value, "agent")
    node = convert(agent)
    if node is not None:
        return ConvertedTools(to_tools([node], where=f"{place.agent}.tools"))
    name = object_name(agent)
    note = note_opaque(place, f"`{name}`, which is called from within itself,", silent=True)
    return ConvertedTools((_opaque_tool(name, text(agent, "description")),), (note,))


def _function(place: AdkPlace, value: object, function: Callable[..., object]) -> ConvertedTools:
    """A function as the application wrote it, or wrapped in a FunctionTool."""
    if _is_exit(function):
        from weft.tools import exit_loop

        return ConvertedTools((exit_loop,), escalates=True)
    name = text(value, "name") or name_of(function)
    if name in RESERVED:
        return _leave_out(place, f"`{name}`, which Weft has itself,", opaque=False)
    if not NAME.fullmatch(name):
        return _unreadable(place, name, function, "its name is not one that models take")
    try:
        shape = schema.of_function(function, context_type=_context(function), name=name)
    except DeclarationError as error:
        return _unreadable(place, name, function, error.message)
    uses = uses_of(function, shape.context_parameter) if shape.context_parameter else None
    known = uses is None or uses.known
    tool = Tool(
        name=name,
        description=(text(value, "description") if value is not function else "")
        or shape.description,
        parameters=shape.parameters,
        function=function,
        context_parameter=shape.context_parameter,
        documented=shape.has_docstring or bool(text(value, "description")),
        reads=(*uses.reads, *uses.asks) if uses is not None and known else (),
        writes=uses.writes if uses is not None and known else (),
        long_running=flag(value, "is_long_running"),
        confirm=bool(field(value, "_require_confirmation")),
    )
    notes: tuple[Diagnostic, ...] = ()
    if not known:
        notes = (note_opaque(place, f"what `{name}` does with its context", silent=True),)
    cannot: tuple[Foreign, ...] = ()
    if callable(field(value, "_require_confirmation")):
        what = f"`require_confirmation` of `{name}`, which is a function"
        cannot = (opaque_function(place, what, opaque=False),)
    return ConvertedTools((tool,), notes, uses is not None and uses.escalates, cannot)


def _foreign(place: AdkPlace, value: object) -> ConvertedTools:
    """A tool of a class of its own: its name and description are known, not what it takes."""
    name = object_name(value)
    note = note_opaque(place, f"the tool `{name}` of the class {type(value).__name__}", silent=True)
    if not NAME.fullmatch(name) or name in RESERVED:
        what = f"the tool `{name}`"
        return ConvertedTools(notes=(note,), escalates=True, closed=(opaque_function(place, what),))
    return ConvertedTools((_opaque_tool(name, text(value, "description")),), (note,), True)


def _unreadable(place: AdkPlace, name: str, function: object, why: str) -> ConvertedTools:
    note = note_opaque(place, f"the signature of `{name}` ({why})", silent=True)
    if not NAME.fullmatch(name):
        return ConvertedTools(
            notes=(note,), escalates=True, closed=(opaque_function(place, f"`{name}`"),)
        )
    return ConvertedTools((_opaque_tool(name, inspect.getdoc(function) or ""),), (note,), True)


def _opaque_tool(name: str, description: str) -> Tool:
    return Tool(
        name=name,
        description=description,
        parameters={"type": "object", "properties": {}, "additionalProperties": True},
        function=Foreign(f"tool {name}", f"the tool `{name}`", opaque=True),
        context_parameter="tool_context",
        documented=bool(description),
    )


def _context(function: Callable[..., object]) -> type | None:
    """The class of the parameter that google-adk fills in itself, whatever its name."""
    for annotation in _annotations(function):
        if f"{annotation.__module__}.".startswith(HOME) and annotation.__name__.endswith("Context"):
            return annotation
    return None


def _annotations(function: Callable[..., object]) -> Iterator[type]:
    core = function.func if isinstance(function, functools.partial) else function
    core = core if inspect.isroutine(core) else getattr(core, "__call__", core)  # noqa: B004
    try:
        hints = typing.get_type_hints(core)
    except (NameError, TypeError, AttributeError):
        return
    for hint in hints.values():
        for one in (hint, *typing.get_args(hint)):
            if isinstance(one, type):
                yield one


def _is_exit(function: Callable[..., object]) -> bool:
    module = str(getattr(function, "__module__", ""))
    return name_of(function) == "exit_loop" and f"{module}.".startswith(HOME)


def note_opaque(place: AdkPlace, what: str, *, silent: bool) -> Diagnostic:
    """Say that something is not looked into; `silent` where later rules say nothing."""
    keys = ", so nothing is said about its keys" if silent else ""
    return report(
        "WEFT490",
        place.origin,
        f"{what} is not looked into{keys}",
        "nothing to do; what it writes can be declared: --input KEY=TYPE" if silent else "",
    )
