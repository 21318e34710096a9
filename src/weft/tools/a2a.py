"""Agents of others: `Agent("boss", tools=[A2A("https://other.host")])`, or as an agent of its own.

A call is a task of the remote agent. The ids of its context and message come from the call, so
after a crash the task is found again instead of being begun twice. What the remote agent asks is a
question to the user: the run waits in the store. A card that lies and a server that hangs or dies
are error results.
"""

import asyncio
import contextlib
import hashlib
import importlib.util
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec

from weft.content import Content, FunctionCall, Part
from weft.declare import Agent
from weft.declare.context import CallbackContext, ToolContext, UserQuestion
from weft.declare.functions import Foreign
from weft.declare.tool import Condition, Function, Tool, ToolListing, ToolSource
from weft.diagnostics import Origin, report
from weft.errors import DeclarationError, describe_kind
from weft.ir import ModelResponse, Prompt, ResultBlock, TextBlock
from weft.misuse import explain_mistakes
from weft.session import Event
from weft.session.strand import Strand
from weft.tools.remote import (
    CONTEXT_PARAMETER,
    LARGEST_RESULT,
    LARGEST_TOOL,
    make_name,
    tools_known_from,
)
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    import httpx
    from a2a.client import Client
    from a2a.types import AgentCard, Message, SendMessageRequest, Task, TaskStatus
    from a2a.types import Part as RemotePart

    from weft.compiler import ReadonlyContext

_WORDS = {"card": "url", "agent_card": "url", "endpoint": "url", "timeout": "seconds"}

_task_ids: dict[str, str] = {}
"""Tasks that were found again after a crash, by the id of their message, until one is followed."""


class RemoteAgentError(Exception):
    """The remote agent cannot be asked, or did not answer."""


@explain_mistakes(
    'A2A("https://other.host", headers={"authorization": "Bearer ..."})', words=_WORDS
)
@dataclass(frozen=True)
class A2A:
    """A remote agent that speaks A2A (1.0 or 0.3), by the address of its server or of its card.

    In `tools` it is a tool that takes a message; `as_agent()` makes it an agent. `seconds` is how
    long it may be silent. `hosts` are other hosts to which its card may point. `trusted=True`
    leaves out the fences.
    """

    url: str
    _: KW_ONLY
    name: str = ""
    headers: Mapping[str, str] | Function = field(default_factory=dict[str, str])
    hosts: Sequence[str] = ()
    confirm: bool | Condition = False
    seconds: float = 60.0
    trusted: bool = False

    def __post_init__(self) -> None:
        where = "A2A"
        address = cast("object", self.url)
        if not isinstance(address, str) or not address.startswith(("http://", "https://")):
            raise DeclarationError(
                f"{describe_kind(self.url)} is not the address of an agent",
                where=where,
                hint='write A2A("https://other.host")',
            )
        if importlib.util.find_spec("a2a") is None:
            raise DeclarationError(
                "the A2A SDK is not installed", where=where, hint="pip install 'weft[a2a]'"
            )
        if not 0 < self.seconds < 10**7:
            raise DeclarationError(
                f"seconds={self.seconds!r}", where=where, hint="pass seconds above 0"
            )

    @property
    def label(self) -> str:
        """The name of the agent: as it was given, or as its address says."""
        return self.name or re.sub(r"[^A-Za-z0-9_-]+", "_", urlsplit(self.url).hostname or "agent")

    def as_source(self) -> ToolSource:
        """The agent as a toolset of one tool, whose card is read in each run."""
        return ToolSource(self.label, self._ask, restore=self._bind)

    def as_agent(self, name: str = "", description: str = "") -> Agent:
        """The remote agent as an agent here: in flows, and for others to hand over to.

        It is told what was said since it spoke last, and its answer is the agent's.
        """
        chosen = make_name(name or self.label)
        return Agent(
            chosen,
            description=description or f"The agent {self.label}, on another server.",
            tools=[self],
            before_model=self._forward,
        )

    async def _forward(self, ctx: CallbackContext, prompt: Prompt) -> ModelResponse:
        """What stands in for a model: the call of the tool, then its result as the answer."""
        last = prompt.items[-1].blocks[-1] if prompt.items else None
        if isinstance(last, ResultBlock):
            # from the log: the request has it between fences
            results = (one for event in ctx.session.events for one in event.results)
            response = next(
                (one.response or {} for one in results if one.id == last.call_id), last.response
            )
            if "error" in response:
                words = str(response["error"])
                return ModelResponse(error_code="remote_agent_failed", error_message=words)
            return _say(Part(text=str(response.get("result", ""))))
        message = "\n\n".join(_new_texts(prompt, ctx.agent_name)) or (
            ctx.user_content.text if ctx.user_content is not None else ""
        )
        tools = [tool.name for tool in prompt.tools if tool.name != "transfer_to_agent"]
        if not tools:
            words = f"the card of {self.label} could not be read"
            return ModelResponse(error_code="remote_agent_failed", error_message=words)
        return _say(Part(function_call=FunctionCall(name=tools[0], args={"message": message})))

    # --- the card

    async def _ask(self, context: "ReadonlyContext[object] | None") -> ToolListing:
        agent = context.agent_name if context is not None else ""
        warnings: list[tuple[str, str]] = []
        tools: list[Tool] = []
        try:
            async with self._http(self._headers(context)) as http:
                tools = [self._declare(await self._card(http))]
        except RemoteAgentError as error:
            tools = tools_known_from(self.label, context)
            rest = "with what its card said before" if tools else "without it"
            warnings.append((f"{error}; the run goes on {rest}", "start it, or mend its card"))
        origin = Origin("field", f"tools.{self.label}", agent)
        return ToolListing(
            tuple(self._bind(one, context) for one in tools),
            tuple(report("WEFT307", origin, words, hint) for words, hint in warnings),
        )

    def _headers(self, context: "ReadonlyContext[object] | None") -> dict[str, str]:
        if not callable(self.headers):
            return dict(self.headers)
        return {} if context is None else dict(cast("Mapping[str, str]", self.headers(context)))

    @contextlib.asynccontextmanager
    async def _http(self, headers: Mapping[str, str]) -> "AsyncGenerator[httpx.AsyncClient]":
        import httpx  # it is the SDK's, and loads much

        from weft.tools.a2a_transport import BoundedTransport

        transport = BoundedTransport(httpx.AsyncHTTPTransport(), LARGEST_RESULT)
        async with httpx.AsyncClient(
            headers=dict(headers), timeout=self.seconds, transport=transport
        ) as client:
            yield client

    async def _card(self, http: "httpx.AsyncClient") -> "AgentCard":
        """The card, which must not point to somebody else's host."""
        from a2a.client.card_resolver import A2ACardResolver
        from a2a.utils.errors import A2AError

        base, _, path = self.url.partition("/.well-known/")
        resolver = A2ACardResolver(http, base)
        try:
            async with asyncio.timeout(self.seconds):
                card = await resolver.get_agent_card(f".well-known/{path}" if path else None)
        except TimeoutError:
            raise self.error(f"did not show its card within {self.seconds:g} s") from None
        except (A2AError, ValueError, RecursionError) as error:
            raise self.error(f"has no card that can be read: {_describe(error)}") from None
        allowed = {urlsplit(self.url).netloc, *self.hosts}
        for one in card.supported_interfaces:
            if urlsplit(one.url).netloc not in allowed:
                raise self.error(
                    f"has a card that points to {one.url[:200]!r}; hosts=[...] allows other hosts"
                )
        if not any(one.protocol_binding == "JSONRPC" for one in card.supported_interfaces):
            raise self.error("has a card without an address for JSON-RPC")
        return card

    def error(self, words: str) -> RemoteAgentError:
        """What is wrong with the agent."""
        return RemoteAgentError(f"the agent `{self.label}` {words}")

    def _declare(self, card: "AgentCard") -> Tool:
        skills = "".join(f"\n- {one.name}: {one.description}" for one in card.skills)
        about = f"{card.description or card.name}{skills if len(card.skills) > 1 else ''}"
        if len(about) > LARGEST_TOOL:
            raise self.error(f"describes itself with {len(about):,} characters")
        parameters: JsonObject = {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What it is to do."}},
            "required": ["message"],
        }
        return Tool(
            name=make_name(self.name or card.name or self.label),
            description=about,
            parameters=parameters,
            documented=bool(about),
            source=(self.label, card.name),
            untrusted=not self.trusted,
        )

    # --- calls

    def _bind(self, tool: Tool, context: "ReadonlyContext[object] | None") -> Tool:
        """The tool with what asks the remote agent."""
        headers = self._headers(context)

        async def call(**kwargs: object) -> object:
            ctx = cast("ToolContext", kwargs.pop(CONTEXT_PARAMETER))
            async with self._connect(headers) as client:
                task = _RemoteTask(
                    self, client, _mark(ctx.session.events, ctx.invocation_id, ctx.call_id)
                )
                return await task.run(str(kwargs["message"]), ctx)

        async def probe(call_id: str, args: JsonObject) -> object:
            if context is None:
                return None
            mark = _mark(context.events, context.invocation_id, call_id)
            try:
                async with self._connect(headers) as client:
                    return await _RemoteTask(self, client, mark).look_up()
            except RemoteAgentError as error:
                return {"error": f"{error}; whether the task was done is not known"}

        return msgspec.structs.replace(
            tool,
            function=Foreign(tool.name, f"the agent {self.label}", call=call),
            context_parameter=CONTEXT_PARAMETER,
            confirm=self.confirm,
            effect="probe",
            probe=probe,
        )

    @contextlib.asynccontextmanager
    async def _connect(self, headers: Mapping[str, str]) -> "AsyncGenerator[Client]":
        from a2a.client import ClientConfig, create_client
        from a2a.utils.errors import A2AError

        async with self._http(headers) as http:
            card = await self._card(http)
            try:
                client = await create_client(card, ClientConfig(httpx_client=http))
                yield client
            except TimeoutError:
                raise self.error(f"was silent for more than {self.seconds:g} s") from None
            except A2AError as error:
                raise self.error(f"cannot be asked: {_describe(error)}") from None


def _mark(log: Strand[Event], invocation: str, call_id: str) -> str:
    """An id for a call that is the same when the call is made again, and nobody else's."""
    name = f"{log[0].id}/{invocation}/{call_id}"
    return f"weft-{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"


class _RemoteTask:
    """One call: the task at the remote agent, from its message to its end."""

    def __init__(self, agent: A2A, client: "Client", mark: str) -> None:
        self._agent = agent
        self._client = client
        self._mark = mark
        self._id = ""

    async def run(self, text: str, ctx: ToolContext) -> object:
        """What came of it. A question of the remote agent is the user's to answer."""
        past = [one.notes["task"] for one in ctx.questions.past() if "task" in one.notes]
        self._id = _task_ids.pop(self._mark, "") or (str(past[-1]) if past else "")
        try:
            if self._id:
                task: Task | Message = await self._wait()
            else:
                task = await self._send([{"text": text}])
            while (status := _asking_status(task)) is not None:
                answer = await ctx.questions.ask(self._question(status))
                if answer.action != "accept":
                    await self._cancel()
                    return {"error": f"the user did not answer {self._agent.label}"}
                task = await self._send([_answer_part(answer.content)])
        except (asyncio.CancelledError, TimeoutError):
            # the run was stopped, or nobody speaks any more: the task must not go on for nobody
            with contextlib.suppress(Exception):
                async with asyncio.timeout(min(5.0, self._agent.seconds)):
                    await asyncio.shield(self._cancel())
            raise
        return _read_result(task, self._agent.label)

    async def look_up(self) -> object:
        """After a crash: what came of the task, if it is over; None where the call goes on."""
        task = await self._find()
        if task is None:
            return None
        if _is_open(task.status) or _is_question(task.status):
            _task_ids[self._mark] = task.id
            return None
        return _read_result(task, self._agent.label)

    async def _find(self) -> "Task | None":
        """The task as the remote agent lists it, if the message arrived."""
        from a2a.types import ListTasksRequest

        request = ListTasksRequest(context_id=self._mark, include_artifacts=True)
        async with asyncio.timeout(self._agent.seconds):
            listed = await self._client.list_tasks(request)
        return next((one for one in listed.tasks if one.context_id == self._mark), None)

    def _question(self, status: "TaskStatus") -> UserQuestion:
        words = "\n".join(part.text for part in status.message.parts if part.text)
        key = status.message.message_id or hashlib.blake2b(words.encode()).hexdigest()[:16]
        message = f"{self._agent.label} asks: {words[:4000]}"
        notes: JsonObject = {"task": self._id}
        return UserQuestion(message=message, key=key, notes=notes)

    async def _send(self, parts: "list[dict[str, object]]") -> "Task | Message":
        from a2a.types import Message, Role, SendMessageRequest
        from google.protobuf.json_format import ParseDict

        message = Message(role=Role.ROLE_USER, context_id=self._mark, message_id=self._mark)
        if self._id:
            message.task_id = self._id
            answered = hashlib.blake2b(compact(cast("Json", parts)).encode(), digest_size=4)
            message.message_id = f"{self._mark}-{answered.hexdigest()}"
        for part in parts:
            ParseDict(part, message.parts.add())
        request = SendMessageRequest(message=message)
        try:
            answer = await self._read(request)
        except (TimeoutError, asyncio.CancelledError):
            raise
        except Exception:
            if not self._id:  # it was not begun, or nobody knows of it
                raise
            answer = None  # the connection broke: the task may go on all the same
        return answer if answer is not None else await self._wait()

    async def _read(self, request: "SendMessageRequest") -> "Message | None":
        """Read what the agent sends, until it ends; the message, if it answers with one."""
        updates = self._client.send_message(request)
        size = 0
        while True:
            try:
                async with asyncio.timeout(self._agent.seconds):
                    update = await anext(updates)
            except StopAsyncIteration:
                return None
            size += update.ByteSize()
            if size > LARGEST_RESULT:
                raise self._agent.error(f"sent more than {LARGEST_RESULT:,} bytes")
            match update.WhichOneof("payload"):
                case "message":
                    return update.message
                case "task":
                    self._id = update.task.id
                case "status_update":
                    self._id = update.status_update.task_id
                case "artifact_update":
                    self._id = update.artifact_update.task_id
                case _:
                    raise self._agent.error("answered what the protocol does not have")

    async def _wait(self) -> "Task":
        """The task once it is over or asks; a silent one is given up."""
        from a2a.types import GetTaskRequest

        pause, deadline = 0.05, asyncio.get_running_loop().time() + self._agent.seconds
        before = b""
        while True:
            async with asyncio.timeout(self._agent.seconds):
                task = await self._client.get_task(GetTaskRequest(id=self._id))
            if not _is_open(task.status):
                return task
            now, seen = asyncio.get_running_loop().time(), task.SerializeToString()
            if seen != before:
                before, deadline = seen, now + self._agent.seconds
            if now > deadline:
                raise TimeoutError
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def _cancel(self) -> None:
        from a2a.types import CancelTaskRequest

        task = await self._find() if not self._id else None
        if id := self._id or (task.id if task is not None else ""):
            await self._client.cancel_task(CancelTaskRequest(id=id))


# --- what the remote agent says


def _is_message(value: "Task | Message") -> bool:
    return value.DESCRIPTOR.full_name.endswith(".Message")


def _asking_status(value: "Task | Message") -> "TaskStatus | None":
    """The status of a task that asks something."""
    status = None if _is_message(value) else cast("Task", value).status
    return status if status is not None and _is_question(status) else None


def _state(status: "TaskStatus") -> str:
    from a2a.types import TaskState

    return TaskState.Name(status.state).removeprefix("TASK_STATE_").lower()


def _is_open(status: "TaskStatus") -> bool:
    return _state(status) in ("submitted", "working", "unspecified")


def _is_question(status: "TaskStatus") -> bool:
    return _state(status) in ("input_required", "auth_required")


def _answer_part(content: Json) -> "dict[str, object]":
    """An answer of the user: words as text, anything else as data."""
    if isinstance(content, dict) and [*content] == ["answer"]:
        content = content["answer"]
    return {"text": content} if isinstance(content, str) else {"data": content}


def _read_result(task: "Task | Message", label: str) -> dict[str, object]:
    """What came of a task: texts and data, and media as parts."""
    if _is_message(task):
        return _read_parts(cast("Message", task).parts)
    done = cast("Task", task)
    state = _state(done.status)
    parts = [part for artifact in done.artifacts for part in artifact.parts]
    if state == "completed":
        return _read_parts(parts or done.status.message.parts)
    words = " ".join(part.text for part in done.status.message.parts if part.text)
    return {"error": f"the task of {label} ended as {state}{f': {words}' if words else ''}"[:4000]}


def _read_parts(parts: "Sequence[RemotePart]") -> dict[str, object]:
    from google.protobuf.json_format import MessageToDict

    texts: list[str] = []
    media: list[Part] = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                texts.append(compact(cast("Json", MessageToDict(part.data))))
            case "raw":
                media.append(Part.from_bytes(part.raw, part.media_type or None))
            case "url":
                texts.append(f"file {part.url} ({part.media_type or part.filename})")
            case _:
                pass
    response: dict[str, object] = {"result": "\n\n".join(filter(None, texts))}
    return {**response, **{f"media {at}": part for at, part in enumerate(media, 1)}}


def _describe(error: BaseException) -> str:
    return f"{error}"[:300] or type(error).__name__


def _say(part: Part) -> ModelResponse:
    return ModelResponse(content=Content(role="model", parts=(part,)))


def _new_texts(prompt: Prompt, agent: str) -> list[str]:
    """What was said since the agent spoke last; others than the user by their name."""
    texts: list[str] = []
    for item in reversed(prompt.items):
        if item.author == agent:
            break
        words = "\n".join(block.text for block in item.blocks if isinstance(block, TextBlock))
        if words:
            texts.append(words if item.author == "user" else f"{item.author}: {words}")
    return texts[::-1]
