"""The MCP server: agents as tools, sessions as resources, and the compiler itself as tools.

`weft serve --mcp` answers at `/mcp`, `weft mcp pkg.module:agent` on stdin and stdout. So another
assistant can ask an agent, read what was said, and find out why a request looks as it does.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from weft import __version__
from weft.checker.check import diagnose
from weft.compiler import Compilation, compile_request
from weft.declare import Agent, C, RunConfig
from weft.errors import WeftError
from weft.replay.steps import at_step, model_events
from weft.runtime import Runner
from weft.runtime.approvals import pending_in
from weft.schema import validate_declared
from weft.server.access import Identity, Limits
from weft.server.problems import Problem
from weft.server.served import ServedApps
from weft.session import Event, Session
from weft.values import Json, JsonObject, compact

LONGEST_RESOURCE = 2_000_000
"""How many characters of a session one read gives; older events are left out."""

FRESH_SECONDS = 300
"""For how long a client may keep the listing: it changes when the server is started again."""

RequestContext: TypeAlias = ServerRequestContext[dict[str, object], Request]


class McpTool(NamedTuple):
    """A tool of the server: what clients are told, and what runs."""

    declaration: types.Tool
    run: "Callable[[JsonObject, str, RequestContext], Awaitable[types.CallToolResult]]"


class McpService:
    """What MCP clients can do with the apps of a server."""

    def __init__(self, served: ServedApps) -> None:
        self._served = served
        self._tools = {tool.declaration.name: tool for tool in (*self._agents(), *self._own())}
        hint = CacheHint(ttl_ms=FRESH_SECONDS * 1000)
        self.server: Server[dict[str, object]] = Server(
            "weft",
            version=__version__,
            instructions="Agents to ask, their sessions to read, and the compiler that makes their"
            " requests: explain says where each token of a request comes from.",
            cache_hints={"tools/list": hint, "resources/templates/list": hint},
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def run_stdio(self) -> None:
        """Answer on stdin and stdout until the client closes them."""
        async with stdio_server() as (read, write):
            await self.server.run(read, write, self.server.create_initialization_options())

    # --- tools

    async def _list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.declaration for tool in self._tools.values()])

    async def _call_tool(
        self, ctx: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """What a tool returns; what is wrong with a call is an error for the client's model."""
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            raise MCPError(
                types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are: {known}"
            )
        try:
            schema = cast("JsonObject", tool.declaration.input_schema)
            arguments = cast("JsonObject", params.arguments or {})
            args = validate_declared(schema, arguments, where=params.name)
            return await tool.run(args, _user_of(ctx), ctx)
        except Problem as problem:
            return _report_failure(
                f"{problem.detail}; {problem.hint}" if problem.hint else problem.detail
            )
        except WeftError as error:
            return _report_failure(
                f"{error.message}; {error.hint}" if error.hint else error.message
            )

    def _agents(self) -> list[McpTool]:
        """A tool for each app, and one to answer what an app asks."""
        tools = [self._agent_tool(runner) for runner in self._served.runners.values()]
        return [*tools, self._answer_tool()]

    def _agent_tool(self, runner: Runner) -> McpTool:
        about = runner.root.description or f"The agent {runner.app_name}."

        async def run(args: JsonObject, user: str, ctx: RequestContext) -> types.CallToolResult:
            session = args.get("session_id")
            return await self._run(
                runner, user, ctx, str(session) if session else None, str(args["message"]), {}
            )

        return McpTool(
            types.Tool(
                name=re.sub(r"[^A-Za-z0-9_-]", "_", runner.app_name)[:64],
                description=f"{about} Give session_id to go on with a conversation.",
                input_schema=_schema({"message": _TEXT}, session_id=_TEXT),
            ),
            run,
        )

    def _answer_tool(self) -> McpTool:
        async def run(args: JsonObject, user: str, ctx: RequestContext) -> types.CallToolResult:
            runner = self._runner(args)
            answers: dict[str, object] = {str(args["call_id"]): args["answer"]}
            return await self._run(runner, user, ctx, str(args["session_id"]), None, answers)

        return McpTool(
            types.Tool(
                name="answer",
                description="Answer a question that an agent waits for: true or false where it asks"
                " whether a call may run.",
                input_schema=_schema(
                    {"session_id": _TEXT, "call_id": _TEXT, "answer": {}}, app=self._apps()
                ),
            ),
            run,
        )

    async def _run(
        self,
        runner: Runner,
        user: str,
        ctx: RequestContext,
        session: str | None,
        message: str | None,
        answers: Mapping[str, object],
    ) -> types.CallToolResult:
        """Run an agent, tell how far it is, and cancel it where the client does."""
        started = await self._served.start(
            runner,
            message,
            user=user,
            session=session,
            answers=answers or None,
            stream=False,
            follow=True,
        )
        final, error, count = "", "", 0
        try:
            async with aclosing(started.events()) as events:
                async for event in events:
                    if event.partial or event.author == "user":
                        continue
                    count += 1
                    await ctx.session.report_progress(count, None, _describe_event(event))
                    if event.error_code is not None:
                        error = f"{event.error_code}: {event.error_message}"
                    elif event.text and event.is_final_response() and not event.isolation_scope:
                        final = event.text
        except BaseException:
            await self._served.cancel(runner, started.key)
            raise
        session_now = await self._served.session(runner, user, started.key.id)
        questions: list[Json] = [
            {"call_id": one.call_id, "question": one.question, "kind": one.kind}
            for one in pending_in(session_now)
        ]
        about: JsonObject = {"session_id": started.key.id, "text": final}
        if questions:
            about |= {"waiting": questions}
            text = f"{final}\n{compact(questions)}\nAnswer with the tool `answer`."
        else:
            text = error or final
        return types.CallToolResult(
            content=[types.TextContent(text=text.strip())],
            structured_content=cast("dict[str, object]", about),
            is_error=bool(error) and not questions,
        )

    # --- the compiler

    def _own(self) -> list[McpTool]:
        """The tools with which somebody finds out what an agent's model is sent."""
        step: JsonObject = {
            "type": "integer",
            "description": "Which request: 1 is the first that was answered. Without it, the next.",
        }
        common = {"app": self._apps(), "step": step}

        async def compile_step(
            args: JsonObject, user: str, ctx: RequestContext
        ) -> types.CallToolResult:
            one = await self._compile(args, user, args.get("step"))
            problems = [str(diagnostic) for diagnostic in one.diagnostics]
            return _done(
                {"request": one.wire, "tokens": one.tokens, "diagnostics": cast("Json", problems)}
            )

        async def explain_step(
            args: JsonObject, user: str, ctx: RequestContext
        ) -> types.CallToolResult:
            one = await self._compile(args, user, args.get("step"))
            return types.CallToolResult(content=[types.TextContent(text=str(one.explain()))])

        async def diff_steps(
            args: JsonObject, user: str, ctx: RequestContext
        ) -> types.CallToolResult:
            before = await self._compile(args, user, args["before"])
            after = await self._compile(args, user, args["after"])
            return types.CallToolResult(content=[types.TextContent(text=str(before.diff(after)))])

        async def check_app(
            args: JsonObject, user: str, ctx: RequestContext
        ) -> types.CallToolResult:
            findings = diagnose(self._runner(args).root, None, infer=True)
            return _done({"findings": [str(one) for one in findings]})

        session: dict[str, JsonObject] = {"session_id": _TEXT}
        return [
            McpTool(_declare("compile", "The request to the model, as it is or was sent.",
                             _schema(session, **common)), compile_step),
            McpTool(_declare("explain", "Where each token of a request comes from, what is left out"
                             " and why, and what broke the provider's cache.",
                             _schema(session, **common)), explain_step),
            McpTool(_declare("diff", "What changed between two requests of a session.",
                             _schema({**session, "before": step, "after": step}, app=self._apps())),
                    diff_steps),
            McpTool(_declare("check", "What is wrong with an agent or flow, before it runs.",
                             _schema({}, app=self._apps())), check_app),
            McpTool(_declare("compact", "A conversation as the shortest request that keeps its"
                             " evidence: messages as providers take them.",
                             _schema({"messages": {"type": "array", "items": {}}}, model=_TEXT)),
                    _compact_messages),
        ]  # fmt: skip

    async def _compile(self, args: JsonObject, user: str, step: Json) -> Compilation:
        runner = self._runner(args)
        session = await self._served.session(runner, user, str(args["session_id"]))
        number = step if isinstance(step, int) else 0
        if number or not isinstance(runner.root, Agent):
            last = len(model_events(session))
            return at_step(
                runner.root, session, number or last, agent=None, dialect=None, config=runner.config
            )
        return compile_request(runner.root, session=session, config=runner.config)

    def _apps(self) -> JsonObject:
        return {"type": "string", "enum": [*self._served.runners]}

    def _runner(self, args: JsonObject) -> Runner:
        app = args.get("app")
        return self._served.runner(str(app) if app else next(iter(self._served.runners)))

    # --- sessions

    async def _list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        user = _user_of(ctx)
        resources = [
            types.Resource(
                uri=_address(runner.app_name, info.key.id),
                name=f"{runner.app_name}: {info.key.id}",
                description=f"a session of {info.events} events",
                mime_type="application/json",
            )
            for runner in self._served.runners.values()
            for info in (await runner.store.sessions(runner.app_name, user))[:200]
        ]
        return types.ListResourcesResult(resources=resources)

    async def _list_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template="weft://session/{app}/{id}",
            name="session",
            description="A session: all that was said and done in it.",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        match = re.fullmatch(r"weft://session/([^/]+)/([^/]+)", str(params.uri))
        try:
            if match is None:
                raise Problem(404, "unknown", "there is no such resource")
            runner = self._served.runner(unquote(match[1]))
            session = await self._served.session(runner, _user_of(ctx), unquote(match[2]))
        except Problem as problem:
            raise MCPError(types.INVALID_PARAMS, problem.detail, {"uri": str(params.uri)}) from None
        text = _session_text(session)
        contents = types.TextResourceContents(
            uri=params.uri, mime_type="application/json", text=text
        )
        return types.ReadResourceResult(contents=[contents])


class McpEndpoint:
    """The service as a part of an ASGI application, while `running` lasts."""

    def __init__(self, service: McpService) -> None:
        self._manager = StreamableHTTPSessionManager(service.server)

    def running(self) -> AbstractAsyncContextManager[None]:
        """From the first request to the last."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._manager.handle_request(scope, receive, send)


@asynccontextmanager
async def serve_runners(runners: Sequence[Runner]) -> AsyncGenerator[McpService]:
    """The service over runners, for one client on this machine."""
    served = ServedApps(runners, limits=Limits(), recover=0.0)
    try:
        yield McpService(served)
    finally:
        await served.shut_down(0.0)


_TEXT: JsonObject = {"type": "string"}


def _schema(required: Mapping[str, JsonObject], **optional: JsonObject) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": [*required],
        "additionalProperties": False,
    }


def _declare(name: str, about: str, schema: dict[str, object]) -> types.Tool:
    return types.Tool(
        name=name,
        description=about,
        input_schema=schema,
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


def _done(value: JsonObject) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=compact(value))],
        structured_content=cast("dict[str, object]", value),
    )


def _report_failure(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


def _user_of(ctx: RequestContext) -> str:
    """Whose sessions are meant: those of who asks, as the server knows them."""
    if ctx.request is None:
        return "user"
    identity = cast("Identity | None", ctx.request.scope.get("weft.identity"))
    return (identity.user if identity is not None else None) or "user"


def _describe_event(event: Event) -> str:
    """What an event is, in a few words."""
    if event.calls:
        return f"{event.author} calls {', '.join(call.name or '' for call in event.calls)}"
    if event.results:
        return f"{', '.join(one.name or '' for one in event.results)} returned"
    return f"{event.author} speaks" if event.text else f"{event.author} works"


def _address(app: str, session: str) -> str:
    return f"weft://session/{quote(app, safe='')}/{quote(session, safe='')}"


def _session_text(session: Session) -> str:
    """A session as JSON; the newest events, where all are too many."""
    text = session.to_json().decode()
    if len(text) <= LONGEST_RESOURCE:
        return text
    count = max(1, int(len(session.events) * LONGEST_RESOURCE / len(text) / 2))
    newest = session.events[-count:]
    note = f"the newest {len(newest)} of {len(session.events)} events"
    events = [event.to_json().decode() for event in newest]
    return (
        f'{{"id": {compact(session.id)}, "note": {compact(note)}, "events": [{", ".join(events)}]}}'
    )


async def _compact_messages(
    args: JsonObject, user: str, ctx: RequestContext
) -> types.CallToolResult:
    """A conversation of somebody else, compiled under the policy that costs least."""
    session = Session.from_messages(args["messages"], lenient=True)
    model = args.get("model")
    config = RunConfig(model=str(model)) if model else RunConfig()
    plain = compile_request(Agent("agent"), session=session, config=config)
    short = compile_request(Agent("agent", context=C.auto()), session=session, config=config)
    return _done({"request": short.wire, "tokens": short.tokens, "tokens_before": plain.tokens})
