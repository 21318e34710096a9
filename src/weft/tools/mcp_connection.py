"""Connections to MCP servers: pooled, started again when they die, and asked within limits.

A server is reached through one connection in each event loop, whoever asks. A task of its own
opens and closes it. What happens to a call when the server dies depends on its effect: what may be
made twice is made again, anything else is an error that says so.
"""

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import SessionMessage

from weft.declare.context import ToolContext, UserAnswer, UserQuestion
from weft.jsonschema import shorten
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_log = logging.getLogger("weft")

T = TypeVar("T")

IDLE_SECONDS = 600.0
"""How long a connection stays open that nobody uses."""

HELD_SECONDS = 3600.0
"""How long a call stays open at an older server that waits for the user's answer."""

MOST_ROUNDS = 10
"""How often a server may ask for more before it answers a call."""

MOST_PAGES = 100
"""How many pages a listing may have."""


class ServerError(Exception):
    """A server that cannot be reached, died, or answered what nobody can read."""


class ServerGone(ServerError):
    """A server whose connection is closed."""


@dataclass(frozen=True)
class McpAddress:
    """How a server is reached; what differs here has a connection of its own."""

    name: str
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    auth: object = None
    revision: str = "auto"
    start_seconds: float = 30.0
    seconds: float = 60.0


@dataclass(frozen=True)
class ToolRequest:
    """A call of a server's tool."""

    name: str
    args: JsonObject
    again: bool
    """Whether it may be made twice, where the server died."""
    on_progress: ProgressFnT | None = None

    async def send(self, client: Client) -> types.CallToolResult:
        """Make the call at a server that may ask while it is open."""
        return await client.session.call_tool(
            self.name, cast("dict[str, object]", self.args), progress_callback=self.on_progress
        )

    async def send_round(
        self, responses: types.InputResponses | None, state: str | None, client: Client
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Make the call, with what the server wanted to know the last time."""
        return await client.session.call_tool(
            self.name,
            cast("dict[str, object]", self.args),
            progress_callback=self.on_progress,
            input_responses=responses,
            request_state=state,
            allow_input_required=True,
        )


@dataclass
class _OpenCall:
    """A call at a server of an older revision, which may ask the user while it is open."""

    task: "asyncio.Task[types.CallToolResult]"
    replies: list[UserAnswer]
    """Answers that the log has from before: the server asks the same again."""
    asked: "asyncio.Queue[_OpenQuestion]" = field(default_factory=lambda: asyncio.Queue())
    current: "_OpenQuestion | None" = None
    number: int = 0


@dataclass
class _OpenQuestion:
    params: types.ElicitRequestParams
    answer: "asyncio.Future[types.ElicitResult]"


class Connection:
    """One server, as long as somebody uses it."""

    def __init__(self, address: McpAddress) -> None:
        self.address = address
        self.dropped: list[str] = []
        """The tools of the last listing that are not of the protocol."""
        self.listing: tuple[float, list[types.Tool]] | None = None
        """Until when it is fresh, and what the server listed."""
        self.open_calls: dict[str, _OpenCall] = {}
        """Calls that are open, by their ids."""
        self.lost: set[str] = set()
        """Calls that were open when their connection went."""
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._starting = asyncio.Lock()
        self._used = 0.0
        self._busy = 0
        self._errors: IO[str] | None = None

    async def client(self) -> Client:
        """The open client; the server is started where it is not running."""
        async with self._starting:
            self._used = asyncio.get_running_loop().time()
            if self._client is not None:
                return self._client
            self._closing = asyncio.Event()
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._own(ready), name=f"mcp {self.address.name}")
            try:
                async with asyncio.timeout(self.address.start_seconds):
                    return await asyncio.shield(ready)
            except TimeoutError:
                self._owner.cancel()
                seconds = self.address.start_seconds
                raise ServerError(self._words(f"did not start within {seconds:g} s")) from None

    async def close(self) -> None:
        """Close the connection; the next use opens it again."""
        self._drop()
        if self._owner is not None:
            await asyncio.wait([self._owner])

    def _drop(self) -> None:
        """Let go of a connection that is dead or not wanted: its task closes it."""
        self._client, self.listing = None, None
        self._closing.set()
        # the others notice for themselves: they end with an error, or are made again
        for id in [id for id, call in self.open_calls.items() if call.current is not None]:
            self._let_go(id)

    async def _own(self, ready: "asyncio.Future[Client]") -> None:
        """Open the connection, wait until nobody wants it any more, and close it."""
        closing = self._closing
        try:
            async with self._open() as client:
                self._client = client
                ready.set_result(client)
                await self._wait(closing)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if ready.done():
                _log.info(
                    "the connection to %s ended: %s", self.address.name, _describe_error(error)
                )
            else:
                ready.set_exception(
                    ServerError(self._words(f"did not start: {_describe_error(error)}"))
                )
        finally:
            if not ready.done():
                ready.cancel()
            if self._closing is closing:
                self._drop()

    async def _wait(self, closing: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while not closing.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await closing.wait()
            if not self._busy and not self.open_calls and loop.time() - self._used >= IDLE_SECONDS:
                return

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncGenerator[Client]:
        address = self.address
        async with contextlib.AsyncExitStack() as stack:
            transport: contextlib.AbstractAsyncContextManager[TransportStreams]
            if address.url:
                http = httpx2.AsyncClient(
                    headers=dict(address.headers),
                    auth=cast("httpx2.Auth | None", address.auth),
                    timeout=httpx2.Timeout(30.0, read=max(300.0, address.seconds)),
                )
                await stack.enter_async_context(http)
                transport = streamable_http_client(address.url, http_client=http)
            else:
                file = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
                self._errors = stack.enter_context(file)
                transport = self._start_process(self._errors)
            client = Client(
                self._watch(transport),
                mode=address.revision,
                elicitation_callback=self._elicit,
                message_handler=self._hear,
                client_info=types.Implementation(name="weft", version=version("weft")),
                cache=None,
            )
            await stack.enter_async_context(client)
            if address.command and address.revision not in ("auto", "legacy"):
                await client.list_tools()  # without a handshake, it says that it has started
            yield client

    def _start_process(
        self, errors: IO[str]
    ) -> "contextlib.AbstractAsyncContextManager[TransportStreams]":
        address = self.address
        parameters = StdioServerParameters(
            command=address.command[0],
            args=list(address.command[1:]),
            env=dict(address.env),
            cwd=address.cwd,
            encoding_error_handler="replace",
        )
        # the SDK wants a text file, and hands it to the process
        return stdio_client(parameters, errlog=errors)  # type: ignore[arg-type]

    @contextlib.asynccontextmanager
    async def _watch(
        self, transport: "contextlib.AbstractAsyncContextManager[TransportStreams]"
    ) -> "AsyncGenerator[TransportStreams]":
        """A transport that notices when a process ends, and reads listings tool by tool."""
        closing = self._closing
        async with transport as (read, write):
            send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

            async def forward() -> None:
                async with send:
                    async for message in read:
                        if isinstance(message, SessionMessage):
                            self.dropped += drop_invalid_tools(message.message)
                        await send.send(message)
                if self.address.command and self._closing is closing:
                    self._drop()

            async with anyio.create_task_group() as group:
                group.start_soon(forward)
                try:
                    yield receive, write
                finally:
                    group.cancel_scope.cancel()

    def _words(self, words: str) -> str:
        """What is wrong with the server, with the last lines that it printed."""
        printed = ""
        if self._errors is not None and not self._errors.closed:
            self._errors.seek(0)
            printed = self._errors.read()[-1000:].strip()
            for _, value in self.address.env:  # a server may print the key that it was given
                printed = printed.replace(value, "***") if len(value) > 5 else printed
        name = self.address.name
        return f"the server `{name}` {words}" + (f"; it printed: {printed}" if printed else "")

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.listing = None

    # --- what is asked of a server

    async def ask(
        self,
        request: Callable[[Client], Awaitable[T]],
        *,
        again: bool,
        seconds: float | None = None,
    ) -> T:
        """What the server answers. `again` says that it may be asked twice, where it died.

        A server that takes longer than `seconds` is let go, and started again.
        """
        for attempt in (0, 1):
            client = await self.client()
            self._busy += 1
            try:
                async with asyncio.timeout(seconds):
                    return await request(client)
            except TimeoutError as error:
                raise self._late(seconds or self.address.seconds, alone=self._busy == 1) from error
            except MCPError as error:
                # a server that was started again has forgotten the session, and did nothing
                forgotten = bool(self.address.url) and error.error.code == types.INVALID_REQUEST
                if error.error.code != types.CONNECTION_CLOSED and not forgotten:
                    raise ServerError(f"{self.address.name}: {error.error.message}") from error
                self._drop()
                if attempt or not (again or forgotten):
                    raise ServerGone(
                        self._words("died while it was asked; whether it did it is not known")
                    ) from error
            except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError) as error:
                self._drop()
                if attempt:
                    raise ServerGone(
                        self._words(f"cannot be reached: {_describe_error(error)}")
                    ) from error
            except httpx2.TransportError as error:
                self._drop()
                raise ServerGone(
                    self._words(f"cannot be reached: {_describe_error(error)}")
                ) from error
            except RuntimeError as error:  # what does not fit the tool's own output schema
                raise ServerError(f"{self.address.name}: {error}") from error
            except ValueError as error:  # pydantic's: the answer is not of the protocol
                words = f"answered what the protocol does not have: {shorten(str(error), 300)}"
                raise ServerError(self._words(words)) from error
            finally:
                self._busy -= 1
                self._used = asyncio.get_running_loop().time()
        raise ServerGone(self._words("cannot be reached"))

    def _late(self, seconds: float, *, alone: bool) -> ServerError:
        """The error for a server that takes too long. What hangs would keep others waiting."""
        if alone and not self.address.url:
            self._drop()
        return ServerError(self._words(f"took longer than {seconds:g} s"))

    async def list_tools(self, lifetime: float) -> list[types.Tool]:
        """The tools of the server, asked for again once the last answer has had its time."""
        now = asyncio.get_running_loop().time()
        if self.listing is not None and self.listing[0] > now:
            return self.listing[1]

        async def walk(client: Client) -> tuple[float, list[types.Tool]]:
            tools: list[types.Tool] = []
            self.dropped.clear()
            cursor, fresh = None, lifetime
            for _ in range(MOST_PAGES):
                page = await client.list_tools(cursor=cursor)
                tools += page.tools
                if page.ttl_ms:
                    fresh = min(fresh, page.ttl_ms / 1000) if cursor else page.ttl_ms / 1000
                cursor = page.next_cursor
                if not cursor:
                    return fresh, tools
            raise ServerError(self._words(f"lists its tools on more than {MOST_PAGES} pages"))

        fresh, tools = await self.ask(walk, again=True, seconds=self.address.start_seconds)
        self.listing = (now + fresh, tools)
        return tools

    async def call_tool(self, request: ToolRequest, ctx: ToolContext) -> types.CallToolResult:
        """What a tool of the server returns; what the server wants to know, the user is asked."""
        modern = (await self.client()).session.discover_result is not None
        run = self._call_in_rounds if modern else self._call_open
        return await run(request, ctx)

    async def _call_in_rounds(self, request: ToolRequest, ctx: ToolContext) -> types.CallToolResult:
        """A call that ends where the server needs something, and is made again with it."""
        number, result = 0, None
        for past in reversed(ctx.questions.past()):
            stored = past.notes.get("result")
            if isinstance(stored, dict):
                result = types.InputRequiredResult.model_validate(stored)
                number = int(cast("int", past.notes["round"]))
                break
        responses: types.InputResponses | None = None
        state: str | None = None
        pause = 0.05
        while number <= MOST_ROUNDS:
            if result is None:
                answer = await self.ask(
                    partial(request.send_round, responses, state),
                    again=request.again,
                    seconds=self.address.seconds,
                )
                if isinstance(answer, types.CallToolResult):
                    return answer
                result = answer
            responses = await self._responses(result, number, ctx)
            if not responses:
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)
            state, result, number = result.request_state, None, number + 1
        raise ServerError(self._words(f"asked for more than {MOST_ROUNDS} times"))

    async def _responses(
        self, result: types.InputRequiredResult, number: int, ctx: ToolContext
    ) -> types.InputResponses:
        """The answers of the user to all that the server wants to know."""
        notes: JsonObject = {
            "round": number,
            "result": cast("Json", result.model_dump(mode="json", by_alias=True)),
        }
        responses: types.InputResponses = {}
        for key, request in (result.input_requests or {}).items():
            if not isinstance(request, types.ElicitRequest):
                raise ServerError(
                    self._words(f"wants `{request.method}`, which Weft does not offer to servers")
                )
            question = self._question(request.params, f"{number}:{key}", notes)
            responses[key] = _answer_elicitation(await ctx.questions.ask(question))
        return responses

    def _question(
        self, params: types.ElicitRequestParams, key: str, notes: JsonObject, *, waits: bool = False
    ) -> UserQuestion:
        details: JsonObject = {"server": self.address.name}
        schema: JsonObject | None = None
        if isinstance(params, types.ElicitRequestURLParams):
            details["url"] = params.url
        else:
            schema = cast("JsonObject", params.requested_schema)
        message = f"{self.address.name} asks: {shorten(params.message, 4000)}"
        return UserQuestion(
            message=message, key=key, schema=schema, details=details, notes=notes, is_held=waits
        )

    # --- servers of older revisions ask while the call is open

    async def _call_open(self, request: ToolRequest, ctx: ToolContext) -> types.CallToolResult:
        id = ctx.call_id
        call = self.open_calls.get(id)
        if call is None:
            if id in self.lost and not request.again:
                self.lost.discard(id)
                raise ServerGone(
                    self._words("ended the call while the user was asked; whether it did it is not"
                                " known")
                )  # fmt: skip
            answers = [one.answer for one in ctx.questions.past() if one.answer is not None]
            # it may wait for the user: the time that the server takes is limited below
            asking = self.ask(request.send, again=request.again)
            call = _OpenCall(asyncio.create_task(asking), answers)
            self.open_calls[id] = call
        try:
            while True:
                question = call.current or await self._next_question(call)
                if question is None:
                    return call.task.result()
                call.current = question
                asked = self._question(question.params, f"open:{call.number}", {}, waits=True)
                loop = asyncio.get_running_loop()
                letting_go = loop.call_later(HELD_SECONDS, self._let_go, id)
                # where nobody has answered yet this ends the run here, and the call stays open
                answer = await ctx.questions.ask(asked)
                letting_go.cancel()
                if not question.answer.done():
                    question.answer.set_result(_answer_elicitation(answer))
                call.current, call.number = None, call.number + 1
        except asyncio.CancelledError:
            call.task.cancel()
            raise
        finally:
            if call.task.done() or call.task.cancelling():
                self.open_calls.pop(id, None)

    def _let_go(self, id: str) -> None:
        call = self.open_calls.pop(id, None)
        if call is not None:
            self.lost.add(id)
            call.task.cancel()

    async def _next_question(self, call: _OpenCall) -> _OpenQuestion | None:
        """What the server asks next; None once it has answered the call."""
        asked = asyncio.create_task(call.asked.get())
        try:
            done, _ = await asyncio.wait(
                {call.task, asked},
                timeout=self.address.seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                call.task.cancel()
                raise self._late(self.address.seconds, alone=self._busy == 1)
            return asked.result() if asked.done() else None
        finally:
            asked.cancel()

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Put a question of an older server to the user of the call that it belongs to."""
        calls = [*self.open_calls.values()]
        if len(calls) != 1:  # it does not say which call it belongs to
            words = "weft cannot tell which of several open calls this belongs to"
            return types.ErrorData(code=-32603, message=words)
        (call,) = calls
        if call.replies:
            call.number += 1
            return _answer_elicitation(call.replies.pop(0))
        question = _OpenQuestion(params, asyncio.get_running_loop().create_future())
        call.asked.put_nowait(question)
        return await question.answer


def drop_invalid_tools(message: types.JSONRPCMessage) -> list[str]:
    """Take tools that are not of the protocol out of a listing; their names.

    The SDK would refuse the whole listing for one of them.
    """
    result = message.result if isinstance(message, types.JSONRPCResponse) else {}
    tools = cast("object", result.get("tools"))
    if not isinstance(tools, list):
        return []
    listed = cast("list[object]", tools)
    valid = [one for one in listed if _is_tool(one)]
    names = [_tool_name(one) for one in listed if not _is_tool(one)]
    if names:
        result["tools"] = valid
    return names


def _is_tool(value: object) -> bool:
    try:
        tool = types.Tool.model_validate(value, by_name=False)
    except ValueError:
        return False
    return tool.input_schema.get("type") == "object"


def _tool_name(value: object) -> str:
    name = cast("dict[str, object]", value).get("name") if isinstance(value, dict) else None
    return shorten(str(name), 60) if name is not None else "a tool without a name"


_FormContent: TypeAlias = dict[str, str | int | float | bool | list[str] | None]


def _answer_elicitation(answer: UserAnswer) -> types.ElicitResult:
    content = answer.content if isinstance(answer.content, dict) else None
    if answer.action != "accept":
        return types.ElicitResult(action="decline" if answer.action == "decline" else "cancel")
    return types.ElicitResult(action="accept", content=cast("_FormContent", content))


def _describe_error(error: BaseException) -> str:
    """What an error says, the first of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


_pools: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[McpAddress, Connection]]" = (
    WeakKeyDictionary()
)


def connect(address: McpAddress) -> Connection:
    """The connection of this event loop to a server."""
    pool = _pools.setdefault(asyncio.get_running_loop(), {})
    connection = pool.get(address)
    if connection is None:
        connection = pool[address] = Connection(address)
    return connection
