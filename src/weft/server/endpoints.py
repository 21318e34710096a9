"""An endpoint: its method and path, what it is asked with, and the function that answers.

Each chapter of the server lists its endpoints. The router and the OpenAPI description are made
from the same list, so that neither can say what the other does not.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from weft.misuse import suggest_names
from weft.runtime import Runner
from weft.server.access import Identity, headers_of, inner_path, too_large
from weft.server.problems import Problem, invalid, problem_of, require_user
from weft.server.served import ServedApps
from weft.server.stream import ChunkStream
from weft.session import SessionKey
from weft.session.event import scope_of
from weft.session.memory import require_shared_key
from weft.values import JsonObject

T = TypeVar("T")

Answer = ASGIApp
"""What a handler returns: a response, or a stream."""


class Body(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The JSON of a request; a field that is not known is refused by its name."""


class Call:
    """One request: who asks, for what, and the server that is asked."""

    def __init__(self, served: ServedApps, scope: Scope, receive: Receive) -> None:
        self.served = served
        self.scope = scope
        self.identity: Identity = scope["weft.identity"]
        self._receive = receive

    @property
    def request(self) -> Request:
        """The request, for what this class does not say of it."""
        return Request(self.scope, self._receive)

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.scope["path_params"][name])

    def header(self, name: bytes) -> str | None:
        """A header, by its name in small letters."""
        value = headers_of(self.scope).get(name)
        return value.decode("latin-1") if value is not None else None

    def query(self, name: str, default: str = "") -> str:
        """A value of the query."""
        if not self.scope.get("query_string"):
            return default
        return self.request.query_params.get(name, default)

    def number(self, name: str, default: int, *, most: int = 2**31) -> int:
        """A whole number of the query."""
        text = self.query(name)
        if not text:
            return default
        number = whole_number(text)
        if number is None or number > most:
            raise invalid(f"{name}={text[:40]!r} is not a number from 0 to {most}")
        return number

    def runner(self) -> Runner:
        """The app that the path names."""
        return self.served.runner(self.path("app"))

    def user(self, wanted: str | None = None) -> str:
        """The user whose sessions are meant. A known user can only mean their own."""
        wanted = wanted or self.query("user") or None
        own = self.identity.user
        if own is None:
            return require_user(wanted) if wanted else "user"
        if wanted not in (None, own):
            raise Problem(403, "another-user", "these are the sessions of another user")
        return own

    def user_or_all(self) -> str | None:
        """The user whose sessions are meant; None, for all users, is only for the operator."""
        is_one = self.identity.user is not None or self.query("user")
        return self.user() if is_one else None

    async def find_session(self, user: str | None = None) -> tuple[Runner, SessionKey]:
        """The runner and the key of the session that the path names, which must be there."""
        runner, user, id = self.runner(), self.user(user), self.path("session")
        await self.served.require_session(runner, user, id)
        return runner, SessionKey(runner.app_name, user, id)

    def allowed_state(self, state: JsonObject | None) -> JsonObject:
        """The state that a request writes. What all users share is the operator's to write."""
        shared = [key for key in state or () if scope_of(key) == "app"]
        if shared and self.identity.user is not None:
            raise Problem(
                403,
                "shared-state",
                f"`{shared[0][:100]}` belongs to all users of the app",
                hint="write it without `app:`, or with `user:` for all your sessions",
            )
        if state and "" in state:
            raise invalid("a key of the state is empty", hint="give it a name")
        # here, and not where it is stored: with a queue that is in another process, and later
        for key in state or ():
            if scope_of(key) in ("app", "user"):
                require_shared_key(key)
        return state or {}

    def wants_stream(self) -> bool:
        """Whether the client asks for server-sent events."""
        return "text/event-stream" in (self.header(b"accept") or "")

    def stream(self, chunks: ChunkStream) -> Answer:
        """An answer that streams."""
        return self.served.event_stream(self.identity, chunks)

    async def body(self, kind: type[T], *, empty: T | None = None) -> T:
        """The JSON of the request as a value, or a problem that names the field."""
        return decode_json(await self.raw_body(needed=empty is None), kind, empty)

    async def raw_body(self, *, needed: bool = True) -> bytes:
        """The bytes of the request, which must be JSON and not too many."""
        content_type = (self.header(b"content-type") or "").split(";")[0].strip().lower()
        data = await self._bytes()
        # a form of a foreign page could be sent without asking, JSON cannot
        if (data or needed) and content_type != "application/json":
            raise Problem(
                415,
                "media-type",
                f"the body is {content_type or 'of no type'}",
                hint="send Content-Type: application/json",
            )
        return data

    async def _bytes(self) -> bytes:
        served, receive = self.served, self._receive
        limits = served.limits
        chunks: list[bytes] = []
        length, more = 0, True
        arrival = _Arrival(limits.stalled)
        served.watch.add(arrival)
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "disconnected", "the client left")
                chunk: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                length += len(chunk)
                if length > limits.body:
                    raise too_large(limits)
                chunks.append(chunk)
        except asyncio.CancelledError:
            # the watch cancels the task to end `receive`, which has no timeout of its own
            raise arrival.refusal() from None
        finally:
            served.watch.discard(arrival)
        return b"".join(chunks)


class _Arrival:
    """The body of a request while it arrives; one that takes too long is refused."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begun = 0.0
        self._task = asyncio.current_task()
        self._problem: Problem | None = None

    def look(self, now: float) -> None:
        """Refuse it once its time is over."""
        self._begun = self._begun or now
        if now - self._begun >= self._seconds:
            self._end(Problem(408, "timeout", "the body did not arrive in time"))

    def stop(self) -> None:
        """Refuse it: the server stops."""
        self._end(Problem(503, "stopping", "the server is stopping", headers={"retry-after": "5"}))

    def refusal(self) -> BaseException:
        """Why the task was cancelled: by this, or by somebody else."""
        if self._problem is None:
            return asyncio.CancelledError()
        if self._task is not None:
            # the problem is answered: the task goes on, and must not count as cancelled
            self._task.uncancel()
        return self._problem

    def _end(self, problem: Problem) -> None:
        if self._problem is None and self._task is not None:
            self._problem = problem
            self._task.cancel()


def decode_json(data: bytes, kind: type[T], empty: T | None = None) -> T:
    """The value that a JSON text holds, or a problem."""
    if not data.strip() and empty is not None:
        return empty
    try:
        value = msgspec.json.decode(data, type=kind)
        if data.count(b":") > 1:  # with one there is one key
            _require_once(data)
        return value
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$") or "the body"
        hint = _known_fields(message, kind) if where == "the body" else ""
        raise invalid(message, where=where, hint=hint) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed", f"the body is not JSON: {error}") from None


def _require_once(data: bytes) -> None:
    """Refuse an object that has a key twice: each reader takes another of the two values."""

    def read(pairs: list[tuple[str, object]]) -> None:
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise Problem(400, "malformed", f"there are two keys `{name[:100]}`")
            names.add(name)

    try:
        json.loads(
            data, object_pairs_hook=read, parse_int=_unread, parse_float=_unread, strict=False
        )
    except ValueError as error:
        raise Problem(400, "malformed", f"the body is not JSON: {error}") from None


def _unread(number: str) -> None:
    """Nothing: only keys are looked at."""


def _known_fields(message: str, kind: type[object]) -> str:
    """A hint with the field that was meant, or with all that there are."""
    if not isinstance(kind, msgspec.StructMeta) or "field `" not in message:
        return ""
    names = [one.encode_name for one in msgspec.structs.fields(cast("type[msgspec.Struct]", kind))]
    all_of_them = f"the fields are: {', '.join(names)}"
    if "unknown field" not in message:
        return all_of_them
    unknown = message.rpartition("field `")[2].rstrip("`")
    return suggest_names(unknown, names) or all_of_them


def whole_number(text: str) -> int | None:
    """A number of a request, from 0 on; None for anything else, however long."""
    return int(text) if len(text) < 20 and text.isascii() and text.isdigit() else None


Handler = Callable[[Call], Awaitable[Answer]]

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Endpoint:
    """One row of the API."""

    method: Method
    path: str
    handler: Handler
    about: str
    body: type[object] | None = None
    answers: str = "application/json"
    """The media type of what it answers."""
    status: int = 200
    tag: str = "sessions"
    queries: tuple[str, ...] = ()

    def bind(self, served: ServedApps, shape: Callable[[Problem], Response]) -> ASGIApp:
        """The endpoint as an application; `shape` writes what is wrong."""

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            # a mounted application gets no lifespan events: its first request starts it up
            served.start_up()
            try:
                answer = await self.handler(Call(served, scope, receive))
            except Exception as error:
                answer = shape(problem_of(error))
            await answer(scope, receive, send)

        return run


ROUTES = "weft.routes"
"""Where the scope of a request has the routes of this application, mounted or not."""


class ApiRoute(Route):
    """A route that says in a problem document which methods it has not."""

    def params_in(self, path: str) -> dict[str, str] | None:
        """The named parts of a path, or None where it is not a path of this route.

        It is what `matches` finds for a path whose method is right, and a third of its work:
        all named parts are texts.
        """
        match = self.path_regex.match(path)
        return match.groupdict() if match is not None else None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse its method."""
        if not self.methods or scope["method"] in self.methods:
            await self.app(scope, receive, send)
            return
        allowed = ", ".join(sorted(_methods_at(scope) | self.methods))
        problem = Problem(
            405,
            "method",
            f"{str(scope['path'])[:200]} does not take {str(scope['method'])[:20]}",
            hint=f"it takes {allowed}; GET /openapi.json lists everything",
            headers={"allow": allowed},
        )
        raise problem  # the gate says it, as the clients of that path read it


def _methods_at(scope: Scope) -> set[str]:
    """The methods of all routes for a path: a path may have one route for each."""
    path = inner_path(scope)
    routes: Sequence[BaseRoute] = scope.get(ROUTES, ())
    fitting = (
        one for one in routes if isinstance(one, ApiRoute) and one.params_in(path) is not None
    )
    return {method for one in fitting for method in one.methods or ()}


def respond(value: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(
        msgspec.json.encode(value), status_code=status, media_type="application/json",
        headers={"cache-control": "no-store"},
    )  # fmt: skip


def respond_raw(data: bytes) -> Response:
    """An answer in JSON that is encoded already."""
    return Response(data, media_type="application/json", headers={"cache-control": "no-store"})


# --- the OpenAPI description

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")

_PROBLEM: JsonObject = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "where": {"type": "string"},
    },
}


def describe(endpoints: Sequence[Endpoint], version: str, mounted: str = "") -> JsonObject:
    """The whole description; `mounted` is the path below which another application has it."""
    kinds = list({row.body: None for row in endpoints if row.body is not None})
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    bodies = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, JsonObject] = {}
    for row in endpoints:
        path = _PARAMETER.sub(r"{\1}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = _operation(
            row, bodies[row.body] if row.body is not None else None
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Weft", "version": version},
        **({"servers": [{"url": mounted}]} if mounted else {}),
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(row: Endpoint, body: object) -> JsonObject:
    names = _PARAMETER.findall(row.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ] + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in row.queries]
    problem: JsonObject = {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    }
    answer: JsonObject = {"description": row.about}
    if row.status != 204:
        answer["content"] = {row.answers: {}}
    operation: JsonObject = {
        "operationId": row.handler.__name__,
        "summary": row.about,
        "tags": [row.tag],
        "parameters": parameters,  # type: ignore[dict-item]
        "responses": {
            str(row.status): answer,
            "default": {"description": "What is wrong.", "content": problem},
        },
    }
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}  # type: ignore[dict-item]
    return operation
