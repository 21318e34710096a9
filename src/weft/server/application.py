"""The application: what `weft serve` runs, and what mounts in any other ASGI application.

    from weft.server import app

    application = app(agent, store="sqlite:///weft.db")      # application.token opens it

By default it is for one person on one machine: it answers only under the names of the loopback
interface, and only to those who show the token of this start. Whoever serves others passes `auth`
and `hosts`.
"""

import importlib.util
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from weft import __version__
from weft.declare import MemorySearch, Node, RunConfig
from weft.errors import UsageError, describe_kind
from weft.inspector.sources import SessionSource
from weft.misuse import explain_calls
from weft.runtime import Runner
from weft.server import (
    adk,
    ag_ui,
    ai_stream,
    openai,
    openai_conversations,
    sessions,
    watching,
)
from weft.server.access import (
    LOOPBACK,
    Authenticate,
    Gatekeeper,
    Limits,
    StartToken,
    Tokens,
    headers_of,
    inner_path,
)
from weft.server.adk_page import page_routes
from weft.server.endpoints import ROUTES, Answer, ApiRoute, Call, Endpoint, describe, respond
from weft.server.inspect import ServedSources, SeveralStores, inspector_routes, token_page
from weft.server.openai_answers import shape_problem
from weft.server.openai_sessions import recall_extension
from weft.server.problems import Problem
from weft.server.quotas import Quotas
from weft.server.served import ServedApps
from weft.session import ArtifactStore, Store
from weft.turns import Turns

if TYPE_CHECKING:
    from weft.server.mcp import McpEndpoint

DAY = 86_400.0

_WORDS = {
    "token": "auth",
    "tokens": "auth",
    "authenticate": "auth",
    "cors": "origins",
    "allowed_hosts": "hosts",
    "allow_origins": "origins",
    "session_service": "store",
}


class Application:
    """An ASGI application over the runners of some apps."""

    page = "/"
    """Where the inspector's page is."""

    def __init__(
        self,
        runners: Sequence[Runner],
        *,
        auth: Authenticate | Tokens | None = None,
        hosts: Sequence[str] = LOOPBACK,
        origins: Sequence[str] = (),
        limits: Limits | None = None,
        recover: float = DAY,
        grace: float = 10.0,
        turns: Turns | None = None,
        quotas: Quotas | None = None,
        source: Callable[[Request], SessionSource | SeveralStores] | None = None,
        mcp: bool = False,
        a2a: bool = False,
    ) -> None:
        limits = limits if limits is not None else Limits()
        self.served = ServedApps(
            runners,
            limits=limits,
            recover=recover,
            turns=turns,
            quotas=quotas,
            extend=recall_extension,
        )
        self.token: str | None = None
        """The token of this start, where no other authentication is configured."""
        authenticate: Authenticate | Tokens | StartToken
        if auth is None:
            self.token = secrets.token_urlsafe(24)
            authenticate = StartToken(self.token)
        else:
            authenticate = auth
        self._grace = grace
        self._source = source if source is not None else ServedSources(self.served)
        self._mcp = _open_mcp(self.served) if mcp else None
        tracing = (runner.tracing for runner in runners)
        self._tracing = next((one for one in tracing if one is not None), None)
        self._a2a = _open_a2a(self.served) if a2a else []
        self._while_serving = AsyncExitStack()
        self._inner = _Routes(self._routes(), default=_not_found)
        self._gate = Gatekeeper(
            self._inner,
            authenticate=authenticate,
            hosts=hosts,
            origins=origins,
            limits=limits,
            answered=self._count,
            shape=_shape_refusal,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            if self._tracing is not None:
                carried = Headers(scope=scope).get("traceparent", "")
                if carried:
                    self._tracing.continue_trace(carried)
            await self._gate(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """From the first request to the last, for an application that mounts this one."""
        await self._begin()
        try:
            yield
        finally:
            await self.close()

    async def _begin(self) -> None:
        self.served.start_up()
        if self._mcp is not None:
            await self._while_serving.enter_async_context(self._mcp.running())

    async def close(self) -> None:
        """End streams, let runs end for a while, leave the rest to the next start; close stores."""
        await self._while_serving.aclose()
        await self.served.shut_down(self._grace)

    def stop_streams(self) -> None:
        """End all streams and refuse new runs: the server is about to stop."""
        self.served.stop_streams()

    def add(self, *routes: Route | Mount) -> None:
        """Add routes, which pass the same checks, before those that are there."""
        self._inner.put_first(routes)

    @property
    def openapi(self) -> dict[str, object]:
        """The OpenAPI description."""
        return describe(ENDPOINTS, __version__)  # type: ignore[return-value]

    def _routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = []
        for row in ENDPOINTS:
            shape = shape_problem if row.path.startswith("/v1/") else Problem.response
            endpoint = row.bind(self.served, shape)
            route = ApiRoute(row.path, _AsgiEndpoint(endpoint), methods=[row.method], name=row.path)
            routes.append(route)
        if self._mcp is not None:
            endpoint = _AsgiEndpoint(self._mcp)
            routes.append(Route("/mcp", endpoint, methods=["GET", "POST", "DELETE"]))
        return [*routes, *self._a2a, *page_routes(), *inspector_routes(self.served, self._source)]

    def _count(self, scope: Scope, status: int) -> None:
        route = scope.get("route")
        # a path or method that a client made up would be a new label for ever
        path = route.path if isinstance(route, Route) else "other"
        method = scope["method"] if route is not None else "other"
        self.served.metrics.count_request(method, path, status)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._begin()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})


@explain_calls('app(agent, store="sqlite:///weft.db")', words=_WORDS)
def app(
    *served: Node | Runner,
    store: str | Store = "memory://",
    artifacts: str | Path | ArtifactStore | None = None,
    memory: MemorySearch | None = None,
    plugins: Sequence[object] = (),
    config: RunConfig | None = None,
    auth: Authenticate | Tokens | None = None,
    hosts: Sequence[str] = LOOPBACK,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    quotas: Quotas | None = None,
    recover: float = DAY,
    grace: float = 10.0,
    turns: Turns | None = None,
    mcp: bool = False,
    a2a: bool = False,
) -> Application:
    """An ASGI application that serves agents, flows and runners.

    `auth` is a `Tokens`, or a function from a request to the user's id (None: refused); without
    it a token is made, `application.token`. `hosts` are the names it answers to, `"*"` for any;
    `origins` are pages of others that may ask. `recover` is how many seconds back unfinished runs
    are looked for at the start; 0 for none. `grace` is how long runs may go on when it stops.
    `quotas` say how much each user and each app may have of it; `limits` what it takes at all.
    With `turns`, a queue, it runs nothing itself: it puts turns there, and workers run them.
    With `mcp`, MCP clients are answered at `/mcp`; with `a2a`, other agents at `/a2a/APP`.
    """
    if not served:
        raise UsageError("there is nothing to serve", where="app", hint="pass an agent: app(agent)")
    if auth is not None and not callable(auth):
        raise UsageError(
            f"auth is {describe_kind(auth)}",
            where="app",
            hint='pass Tokens({"ann": "secret"}), or a function from a request to the user\'s id',
        )
    if quotas is not None and not isinstance(cast("object", quotas), Quotas):
        raise UsageError(
            f"quotas is {describe_kind(quotas)}",
            where="app",
            hint="pass Quotas(user=Quota(turns_per_minute=20))",
        )
    runners = [
        one
        if isinstance(one, Runner)
        else Runner(
            one, store=store, artifacts=artifacts, memory=memory, plugins=plugins, config=config
        )
        for one in served
    ]
    return Application(
        runners,
        auth=auth,
        hosts=hosts,
        origins=origins,
        limits=limits,
        recover=recover,
        grace=grace,
        turns=turns,
        quotas=quotas,
        mcp=mcp,
        a2a=a2a,
    )


def _open_mcp(served: ServedApps) -> "McpEndpoint":
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(
            "the MCP SDK is not installed", where="mcp", hint="pip install 'weft[mcp]'"
        )
    from weft.server.mcp import McpEndpoint, McpService  # it loads the SDK

    return McpEndpoint(McpService(served))


def _open_a2a(served: ServedApps) -> list[Route]:
    if importlib.util.find_spec("a2a") is None:
        raise UsageError(
            "the A2A SDK is not installed", where="a2a", hint="pip install 'weft[a2a]'"
        )
    from weft.server.a2a import a2a_routes  # it loads the SDK

    return a2a_routes(served)


_DEEPEST = 12
"""Paths with more slashes than any route count as one."""


class _Routes:
    """The routes, found by the method, the first part of the path and how many parts it has.

    There are a hundred of them, and a turn should not be matched against each.
    """

    def __init__(self, routes: Sequence[Route | Mount], default: ASGIApp) -> None:
        self._default = default
        self.put_first(routes)

    _routes: tuple[Route | Mount, ...] = ()

    def put_first(self, routes: Sequence[Route | Mount]) -> None:
        """Have more routes, before those that are there."""
        self._routes = (*routes, *self._routes)
        self._all = Router(routes=self._routes, default=self._default)
        # what was remembered holds for the routes before
        self._by_method: dict[tuple[str, str, int], list[Route]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the route that fits."""
        path = inner_path(scope)
        key = (scope["method"], path[1:].partition("/")[0], min(path.count("/"), _DEEPEST))
        few = self._by_method.get(key)
        if few is None:
            few = self._narrow_routes(*key)
            if few:  # what nobody serves is not worth remembering
                self._by_method[key] = few
        for route in few:
            if isinstance(route, ApiRoute):
                params = route.params_in(path)
                if params is not None:
                    scope["route"], scope["endpoint"] = route, route.endpoint
                    scope["path_params"] = {**scope.get("path_params", {}), **params}
                    await route.app(scope, receive, send)
                    return
                continue
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                scope["route"] = route
                scope.update(child_scope)
                await route.handle(scope, receive, send)
                return
        # a mount, a method that a path has not, a slash too many, or nothing at all
        scope[ROUTES] = self._routes
        await self._all(scope, receive, send)

    def _narrow_routes(self, method: str, first: str, depth: int) -> list[Route]:
        """The plain routes that such a request may be for, as far as the next mount."""
        few: list[Route] = []
        for route in self._routes:
            begins = route.path[1:].partition("/")[0]
            if isinstance(route, Mount):
                # the mount may answer, and comes first: the rest is for the full router
                if begins in ("", first):
                    break
            elif method in (route.methods or ()) and (begins == first or "{" in begins):
                # a part of a path has no slash in it, unless it says that it is a path
                own = route.path.count("/")
                if own == depth or depth == _DEEPEST or ":path}" in route.path:
                    few.append(route)
        return few


class _AsgiEndpoint:
    """An ASGI application as an endpoint of a route: a class is called with the scope itself."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._inner(scope, receive, send)


def _shape_refusal(scope: Scope, problem: Problem) -> Response:
    """What the gate refuses, as the clients of that path read it."""
    path = inner_path(scope)
    is_browser = b"text/html" in headers_of(scope).get(b"accept", b"")
    if problem.status == 401 and path in ("", "/") and is_browser:
        return token_page()
    return shape_problem(problem) if path.startswith("/v1/") else problem.response()


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    path = Request(scope).url.path
    raise Problem(404, "unknown-path", f"there is nothing at {path[:200]}")


async def _get_openapi(call: Call) -> Answer:
    """The OpenAPI description."""
    mounted: str = call.request.scope.get("root_path", "")
    return respond(describe(ENDPOINTS, __version__, mounted))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/openapi.json", _get_openapi, "This description.", tag="server"),
    *watching.ENDPOINTS,
    *sessions.ENDPOINTS,
    *adk.ENDPOINTS,
    *openai.ENDPOINTS,
    *openai_conversations.ENDPOINTS,
    *ag_ui.ENDPOINTS,
    *ai_stream.ENDPOINTS,
)
