"""Tools of MCP servers: `Agent("bot", tools=[MCP("mcp-server-git --repository .")])`.

A server is asked for its tools once in each run. What it answered is in the log: requests can be
rebuilt without it, and a run that is resumed goes on with the tools that it began with. Nobody
vouches for what a server says, so its results stand between fences in every request.
"""

import base64
import binascii
import importlib.util
import inspect
import json
import logging
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec

from weft.content import Part
from weft.declare.context import ToolContext
from weft.declare.functions import Foreign, check_choice
from weft.declare.tool import (
    NAME,
    Condition,
    Effect,
    Function,
    Tool,
    ToolListing,
    ToolSource,
    check_names,
)
from weft.diagnostics import Origin, report
from weft.errors import DeclarationError, describe_kind
from weft.misuse import explain_mistakes, suggest_names
from weft.tools.remote import (
    CONTEXT_PARAMETER,
    LARGEST_MEDIA,
    LARGEST_RESULT,
    LARGEST_TOOL,
    Guards,
    check_guards,
    defer_large,
    drop_repeated,
    guard_tool,
    make_name,
    named_tools,
    tools_known_from,
)
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

    from weft.compiler import ReadonlyContext
    from weft.tools.mcp_connection import Connection, McpAddress

_log = logging.getLogger("weft")

_WORDS = {
    "command": "server", "url": "server", "tool_filter": "only", "allowed_tools": "only",
    "tool_name_prefix": "prefix", "include": "only", "timeout": "seconds",
    "connection_params": 'pass the command or the address itself: MCP("mcp-server-git")',
}  # fmt: skip


@explain_mistakes(
    'MCP("mcp-server-git", cwd="repo"), or MCP("https://host/mcp", headers={...})', words=_WORDS
)
@dataclass(frozen=True)
class MCP:
    """The tools of an MCP server: a command that is started, or an address.

    `only` names the tools that are offered, `prefix` goes before their names. `defer` leaves them
    out of requests, to be found with `find_tools`; None does so from 10,000 tokens on. `resources`
    and `prompts` become artifacts of the session, for `{artifact.name}` in instructions and
    `C.artifact("name")`: the address of each resource, and the arguments of each prompt, by the
    name of the artifact. `lifetime` is for how many seconds a listing is fresh where the server
    does not say. `trusted=True` leaves out the fences. `guards` says by the server's name of a tool
    what `requires`, `consequential` and `trust` say for `@tool`. `required=True` ends a run whose
    server is down.
    """

    server: str
    args: Sequence[str] = ()
    _: KW_ONLY
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | Path | None = None
    headers: Mapping[str, str] | Function = field(default_factory=dict[str, str])
    auth: object = None
    only: Sequence[str] | None = None
    prefix: str = ""
    defer: bool | None = None
    resources: Mapping[str, str] | bool = False
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    effect: Effect | None = None
    confirm: bool | Condition = False
    seconds: float = 60.0
    start_seconds: float = 30.0
    lifetime: float = 300.0
    trusted: bool = False
    guards: Guards = field(default_factory=dict[str, Mapping[str, object]])
    required: bool = False
    revision: str = "auto"
    on_progress: Function | None = None

    def __post_init__(self) -> None:
        where = "MCP"
        if not isinstance(cast("object", self.server), str) or not self.server.strip():
            raise DeclarationError(
                f"{describe_kind(self.server)} is not a server",
                where=where,
                hint='write a command, MCP("mcp-server-git"), or an address, MCP("https://host/mcp")',
            )
        if importlib.util.find_spec("mcp") is None:
            raise DeclarationError(
                "the MCP SDK is not installed", where=where, hint="pip install 'weft[mcp]'"
            )
        where = f"MCP {self.label}"
        check_names("args", self.args or (), where=where)
        if self.only is not None:
            check_names("only", self.only, where=where)
        if self.effect is not None:
            check_choice(where, "effect", self.effect, Effect)
        if self.effect in ("transactional", "probe"):
            raise DeclarationError(
                f'effect="{self.effect}" needs a function of your own',
                where=where,
                hint='write effect="pure", "idempotent" or "unsafe"',
            )
        check_guards(self.guards, self.effect, where)
        for name in ("seconds", "start_seconds", "lifetime"):
            value = cast("object", getattr(self, name))
            right = isinstance(value, int | float) and not isinstance(value, bool)
            if not right or not 0 < cast("float", value) < 10**7:
                raise DeclarationError(
                    f"{name}={value!r}", where=where, hint="pass seconds above 0"
                )
        is_address = self._is_address
        if not is_address and (self.headers or self.auth is not None):
            raise DeclarationError(
                "headers and auth are for a server with an address",
                where=where,
                hint='write MCP("https://host/mcp", headers={...}), or env={...} for a command',
            )
        if is_address and (self.args or self.env or self.cwd is not None):
            raise DeclarationError(
                "args, env and cwd are for a server that is started",
                where=where,
                hint="write headers={...} for an address",
            )
        if self.prefix and not NAME.fullmatch(self.prefix):
            raise DeclarationError(
                f"prefix={self.prefix!r} cannot begin a tool's name",
                where=where,
                hint='write letters, digits and _: prefix="git_"',
            )
        if self.revision in ("auto", "legacy"):
            return
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # it loads much

        if self.revision not in MODERN_PROTOCOL_VERSIONS:
            raise DeclarationError(
                f"revision={self.revision!r}",
                where=where,
                hint='write "auto", "legacy" for those before 2026-07-28, or '
                + " or ".join(f'"{one}"' for one in MODERN_PROTOCOL_VERSIONS),
            )

    @staticmethod
    def from_config(path: str | Path, *names: str) -> "list[MCP]":
        """The servers of a file: `[mcp.NAME]` in a weft.toml, or `mcpServers` of other programs.

        `names` are those that are wanted; without any, all are.
        """
        return read_servers(Path(path), names)

    @property
    def label(self) -> str:
        """The name of the server: as it was given, or as its command or address says."""
        return self.name or _name_of(self.server, self.args)

    @property
    def _is_address(self) -> bool:
        return self.server.startswith(("http://", "https://"))

    def as_source(self) -> ToolSource:
        """The server as a toolset that is asked in each run."""
        return ToolSource(self.label, self._ask, restore=self._restore)

    async def get_tools(self) -> list[Tool]:
        """The tools that the server lists now, for a look at them outside of a run."""
        return [*(await self._ask(None)).tools]

    async def close(self) -> None:
        """Close the connection of this event loop; the next use opens it again."""
        await self._connection(self._address(None)).close()

    # --- the listing

    def _address(self, context: "ReadonlyContext[object] | None") -> "McpAddress":
        from weft.tools.mcp_connection import McpAddress

        headers: Mapping[str, str] = {}
        if callable(self.headers):
            if context is not None:
                headers = cast("Mapping[str, str]", self.headers(context))
        else:
            headers = self.headers
        command = () if self._is_address else (*shlex.split(self.server), *self.args)
        return McpAddress(
            name=self.label,
            command=command,
            env=tuple(sorted(self.env.items())),
            cwd=str(self.cwd) if self.cwd is not None else None,
            url=self.server if self._is_address else "",
            headers=tuple(sorted(headers.items())),
            auth=self.auth,
            revision=self.revision,
            start_seconds=self.start_seconds,
            seconds=self.seconds,
        )

    def _connection(self, address: "McpAddress") -> "Connection":
        from weft.tools.mcp_connection import connect

        return connect(address)

    async def _ask(self, context: "ReadonlyContext[object] | None") -> ToolListing:
        """What the server lists, as tools; those that the session knows, if it cannot be asked."""
        from weft.tools.mcp_connection import ServerError

        address, agent = self._address(context), context.agent_name if context is not None else ""
        connection = self._connection(address)
        problems: list[tuple[str, str]] = []
        artifacts: dict[str, str] = {}
        try:
            listed = await connection.list_tools(self.lifetime)
            tools = [one for one in (self._declare(tool) for tool in listed) if one is not None]
            problems += self._problems(listed, tools, connection.dropped)
            artifacts = await self._artifacts(connection)
            if self.resources is True:
                tools.append(_resource_tool(self))
        except ServerError as error:
            if self.required:
                raise
            tools = tools_known_from(self.label, context)
            rest = f"with the {len(tools)} tools that it listed before" if tools else "without it"
            problems.append((f"{error}; the run goes on {rest}", "start it"))
        bound: list[Tool] = []
        for one in drop_repeated(tools):
            try:
                bound.append(self._bind(one, address))
            except DeclarationError as error:  # without its guard it is not offered
                left_out = f"`{self.label}`: {one.source[1]!r} is left out: {error.message}"
                problems.append((left_out, error.hint))
        origin = Origin("field", f"tools.{self.label}", agent)
        warnings = tuple(report("WEFT307", origin, words, hint) for words, hint in problems)
        return ToolListing(tuple(defer_large(bound, self.defer)), warnings, artifacts)

    def _declare(self, listed: "types.Tool") -> Tool | None:
        """A tool of the listing, with a name that every provider takes; None if not wanted."""
        if self.only is not None and listed.name not in self.only:
            return None
        parameters = cast("JsonObject", dict(listed.input_schema))
        parameters.setdefault("type", "object")
        description = listed.description or listed.title or ""
        if len(description) + len(compact(parameters)) > LARGEST_TOOL:
            return None
        try:
            # without a function, which has the schema checked
            return Tool(
                name=make_name(self.prefix + listed.name),
                description=description,
                parameters=parameters,
                documented=bool(description),
                source=(self.label, listed.name),
                untrusted=not self.trusted,
                effect=self.effect or _effect_of(listed.annotations),
            )
        except DeclarationError as error:
            _log.info("%s: the tool %r: %s", self.label, listed.name, error.message)
            return None

    def _problems(
        self, listed: "Sequence[types.Tool]", tools: Sequence[Tool], dropped: Sequence[str]
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with a listing: the words, and the hint."""
        offered, names = {one.source[1] for one in tools}, [one.name for one in listed]
        wanted = [one for one in names if self.only is None or one in self.only]
        invalid = [one for one in dict.fromkeys((*wanted, *dropped)) if one not in offered]
        if invalid:
            yield (
                f"`{self.label}` lists tools whose schema or texts cannot be sent: "
                + ", ".join(map(repr, invalid[:5])),
                "they are left out; mend the server",
            )
        taken = [one.name for one in tools]
        twice = sorted({one for one in taken if taken.count(one) > 1})
        if twice:
            yield (
                f"`{self.label}` lists {', '.join(twice[:5])} twice; the first of each is offered",
                "mend the server",
            )
        asked = named_tools(self.only, self.guards)
        for option, missing in dict.fromkeys(one for one in asked if one[1] not in names):
            yield (
                f"`{self.label}` has no tool {missing!r}, which {option}= names",
                suggest_names(missing, names, most=1, quote="'")
                or f"it has: {', '.join(names[:20])}",
            )

    def _restore(self, tool: Tool, context: "ReadonlyContext[object]") -> Tool:
        """A tool that the log tells of, so that it can be called."""
        effect = self.effect or tool.effect
        return self._bind(msgspec.structs.replace(tool, effect=effect), self._address(context))

    def _bind(self, tool: Tool, address: "McpAddress") -> Tool:
        """The tool with what calls it at the server."""
        name = tool.source[1] if len(tool.source) > 1 else tool.name

        async def call(**kwargs: object) -> object:
            from weft.tools.mcp_connection import ToolRequest

            ctx = cast("ToolContext", kwargs.pop(CONTEXT_PARAMETER))
            args = cast("JsonObject", kwargs)
            connection = self._connection(address)
            if name == READ_RESOURCE and tool.name == _resource_tool(self).name:
                return await _read(connection, str(args.get("uri", "")))
            again = tool.effect in ("pure", "idempotent")
            request = ToolRequest(name, args, again=again, on_progress=self._progress(ctx))
            result = await connection.call_tool(request, ctx)
            return _read_result(result, self.label)

        tool = guard_tool(tool, self.guards)
        return msgspec.structs.replace(
            tool,
            function=Foreign(tool.name, f"a tool of the MCP server {self.label}", call=call),
            context_parameter=CONTEXT_PARAMETER,
            confirm=self.confirm,
        )

    def _progress(self, ctx: ToolContext) -> "ProgressFnT | None":
        if self.on_progress is None:
            return None
        callback = self.on_progress

        async def tell(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            answer = callback(ctx, progress, total, message)
            if inspect.isawaitable(answer):
                await answer

        return tell

    async def _artifacts(self, connection: "Connection") -> dict[str, str]:
        """The texts of the resources and prompts that the declaration names."""
        texts: dict[str, str] = {}
        named: Mapping[str, str] = {}
        if isinstance(self.resources, Mapping):
            named = self.resources
        for artifact, uri in named.items():
            parts = await _read(connection, uri)
            texts[artifact] = "\n".join(part.text for part in parts if part.text)
        for artifact, arguments in self.prompts.items():
            prompt = await connection.ask(
                partial(_get_prompt, artifact, arguments), again=True, seconds=self.seconds
            )
            texts[artifact] = "\n\n".join(
                message.content.text
                for message in prompt.messages
                if message.content.type == "text"
            )
        return texts


READ_RESOURCE = "resources/read"


def _resource_tool(server: MCP) -> Tool:
    """The tool with which a model reads resources of a server."""
    return Tool(
        name=make_name(f"{server.prefix or f'{server.label}_'}read_resource"),
        description=f"Read a resource of {server.label} by its address.",
        parameters={
            "type": "object",
            "properties": {"uri": {"type": "string"}},
            "required": ["uri"],
        },
        source=(server.label, READ_RESOURCE),
        untrusted=not server.trusted,
        effect="pure",
    )


def _effect_of(annotations: "types.ToolAnnotations | None") -> Effect:
    """What a call may do when it is made twice, as far as the server says."""
    if annotations is not None and annotations.read_only_hint:
        return "pure"
    if annotations is not None and annotations.idempotent_hint:
        return "idempotent"
    return "unsafe"


_RUNNERS = frozenset(("uvx", "npx", "uv", "node", "python", "python3", "bunx", "deno", "docker"))


def _name_of(server: str, args: Sequence[str]) -> str:
    """A name for a server from its command or address."""
    if server.startswith(("http://", "https://")):
        text = urlsplit(server).hostname or "server"
    else:
        words = [*shlex.split(server), *args]
        first = Path(words[0]).name
        # a runner names the program that it runs
        rest = [
            word for word in words[1:] if not word.startswith("-") and word not in ("run", "tool")
        ]
        text = rest[0] if (first in _RUNNERS or first.startswith("python3")) and rest else first
        text = re.sub(r"@[\w.-]+$", "", text.rpartition("/")[2]) or text
        text = re.sub(r"^(mcp-)?server-|-mcp(-server)?$|\.(py|js|ts)$", "", text)
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_") or "server"


# --- results


def _read_result(result: "types.CallToolResult", server: str) -> object:
    """What a tool returned, as Weft has it: JSON, and media as parts."""
    texts: list[str] = []
    media: list[Part] = []
    for block in result.content:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image" | "audio":
                media.append(_media(block.data, block.mime_type, texts))
            case "resource":
                _take_resource(block.resource, texts, media)
            case "resource_link":
                about = f": {block.description}" if block.description else ""
                texts.append(f"resource {block.uri} ({block.name}){about}")
    structured = cast("Json", result.structured_content)
    size = sum(map(len, texts)) + (len(compact(structured)) if structured is not None else 0)
    if (large := _describe_size(size, media)) is not None:
        return {"error": f"{server} sent {large}", "begins": "".join(texts)[:2000]}
    text = "\n".join(texts)
    if result.is_error:
        return {"error": text or "the tool failed and did not say why"}
    media = [part for part in media if not part.text]
    response: dict[str, object] = {"result": text} if text or not media else {}
    if structured is not None:
        response = dict(structured) if isinstance(structured, dict) else {"result": structured}
        if text and not _says_same(text, structured):
            response.setdefault("text", text)
    return {**response, **{f"media {at}": part for at, part in enumerate(media, 1)}}


def _describe_size(size: int, media: Sequence[Part]) -> str | None:
    """What is too large of what a server sent; None where it is taken."""
    if size > LARGEST_RESULT:
        return f"{size:,} characters, and {LARGEST_RESULT:,} are taken at most"
    seen = sum(len(part.inline_data.data or "") for part in media if part.inline_data is not None)
    if seen > LARGEST_MEDIA:
        return f"media of {seen:,} characters, and {LARGEST_MEDIA:,} are taken at most"
    return None


def _says_same(text: str, structured: Json) -> bool:
    """Whether a text is the structured result once more, as servers send it for older clients."""
    try:
        value = cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        value = text
    inner = structured.get("result") if isinstance(structured, dict) else structured
    return value in (structured, inner) or text == inner


def _media(data: str, mime_type: str, texts: list[str]) -> Part:
    try:
        return Part.from_bytes(base64.b64decode(data, validate=True), mime_type)
    except (binascii.Error, ValueError):
        texts.append(f"[{mime_type}: what came is not base64]")
        return Part(text=" ")


def _take_resource(
    resource: "types.TextResourceContents | types.BlobResourceContents",
    texts: list[str],
    media: list[Part],
) -> None:
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        texts.append(text)
        return
    blob = cast("types.BlobResourceContents", resource)
    media.append(_media(blob.blob, blob.mime_type or "application/octet-stream", texts))


async def _get_prompt(
    name: str, arguments: Mapping[str, str], client: "Client"
) -> "types.GetPromptResult":
    return await client.get_prompt(name, dict(arguments))


async def _read(connection: "Connection", uri: str) -> list[Part]:
    """A resource of a server, as parts."""
    seconds = connection.address.seconds
    result = await connection.ask(
        lambda client: client.read_resource(uri), again=True, seconds=seconds
    )
    texts: list[str] = []
    media: list[Part] = []
    for one in result.contents:
        _take_resource(one, texts, media)
    if (large := _describe_size(sum(map(len, texts)), media)) is not None:
        return [Part(text=f"[{uri[:200]}: the server sent {large}]")]
    return [*(Part(text=text) for text in texts), *(part for part in media if not part.text)]


# --- servers in files


def read_servers(path: Path, names: Sequence[str] = ()) -> list[MCP]:
    """The servers that a weft.toml or another program's `mcpServers` declares."""
    where = str(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"it cannot be read: {error}", where=where) from None
    try:
        data: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeclarationError(f"it cannot be read: {error}", where=where) from None
    tables = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    declared_servers = tables.get("mcp" if path.suffix == ".toml" else "mcpServers")
    if declared_servers is None and path.suffix != ".toml":
        declared_servers = tables.get("servers")  # as one editor writes it
    if not isinstance(declared_servers, dict):
        raise DeclarationError(
            "it declares no servers",
            where=where,
            hint='write [mcp.git] with command = "mcp-server-git"'
            if path.suffix == ".toml"
            else 'write {"mcpServers": {"git": {"command": "mcp-server-git"}}}',
        )
    servers = cast("dict[str, object]", declared_servers)
    for name in names:
        if name not in servers:
            near = suggest_names(name, servers, most=1, quote="'")
            raise DeclarationError(
                f"it has no server {name!r}",
                where=where,
                hint=near or f"it has: {', '.join(servers)}",
            )
    wanted = names or [*servers]
    declared_ones = (_read_server(name, servers[name], f"{where}: {name}") for name in wanted)
    return [one for one in declared_ones if one is not None]


_KINDS = frozenset(("stdio", "http", "streamable-http", "streamableHttp"))


def _read_server(name: str, value: object, where: str) -> MCP | None:
    if not isinstance(value, dict):
        raise DeclarationError(f"{describe_kind(value)} is not a server", where=where)
    options = {
        str(key): _expand(one, where) for key, one in cast("dict[object, object]", value).items()
    }
    kind = options.pop("type", options.pop("transport", None))
    if kind is not None and kind not in _KINDS:
        raise DeclarationError(
            f"it is of the type {kind!r}",
            where=where,
            hint='write "type": "stdio" with a command, or "http" with a url; sse is not spoken',
        )
    if options.pop("disabled", False) is True:
        return None
    server = options.pop("command", None)
    server = options.pop("url", None) if server is None else shlex.quote(str(server))
    if not isinstance(server, str):
        raise DeclarationError(
            "it has neither a command nor a url", where=where, hint='write "command": "..."'
        )
    known = {one.name for one in fields(MCP)} - {"server", "name", "auth", "on_progress"}
    for key in [key for key in options if key not in known]:
        _log.warning("%s: `%s` means nothing here, and is left out", where, key)
        del options[key]
    return MCP(server, name=re.sub(r"[^A-Za-z0-9_-]+", "_", name), **options)  # type: ignore[arg-type]


_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")


def _expand(value: object, where: str) -> object:
    """A value with the environment's variables in it: `${NAME}` and `${NAME:-otherwise}`."""
    if isinstance(value, list):
        return [_expand(one, where) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _expand(one, where) for key, one in cast("dict[str, object]", value).items()}
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        value = os.environ.get(match[1], cast("str | None", match[2]))
        if value is None:
            raise DeclarationError(
                f"the variable {match[1]} is not set", where=where, hint=f"export {match[1]}=..."
            )
        return value

    return _VARIABLE.sub(lookup, value)
