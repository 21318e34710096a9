"""The A2A server: each app is an agent with a card, each run of it a task.

A task is stored nowhere but in the log of its session, from which it is read whenever somebody
asks. So a task outlives its server: the next one goes on with it. The id of a client's message is
the id of its run, so a message that comes twice is answered once.
"""

import hashlib
import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Never, cast

import a2a.types as types
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event as A2aEvent
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.task import apply_history_length, validate_page_size
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message as ProtocolMessage
from google.protobuf.struct_pb2 import Value as JsonValue
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from weft import __version__
from weft.content import Content, FileData, Part
from weft.errors import WeftError
from weft.media import base64_bytes
from weft.runtime import Runner
from weft.runtime.approvals import Pending
from weft.runtime.earlier import is_unfinished, require_request_id
from weft.server.access import Identity
from weft.server.asking import (
    find_session,
    in_words,
    open_questions,
    read_place,
    replies,
    write_place,
)
from weft.server.endpoints import Call
from weft.server.problems import Problem, problem_of
from weft.server.run_pieces import (
    ArtifactPiece,
    EndPiece,
    RunPiece,
    TextEnd,
    TextPiece,
    describe_act,
    end_of_run,
    is_shown,
    pieces_of_run,
    refuse_question,
)
from weft.server.served import ServedApps, ServedRun
from weft.session import Event, Session, SessionKey
from weft.session.lookback import find_invocation
from weft.session.store import key_of
from weft.values import Json, compact

VERSIONS = ("1.0", "0.3")
"""The versions of the protocol that are spoken, at one address."""

LISTED_SESSIONS = 200
"""How many sessions, the newest, are looked through for a list of tasks."""

_State = types.TaskState
_OUTCOMES = {
    "done": _State.TASK_STATE_COMPLETED,
    "waiting": _State.TASK_STATE_INPUT_REQUIRED,
    "failed": _State.TASK_STATE_FAILED,
    "cancelled": _State.TASK_STATE_CANCELED,
}
_OPEN = (_State.TASK_STATE_WORKING, _State.TASK_STATE_SUBMITTED)


class AgentTasks(RequestHandler):
    """The tasks of one app, for clients of A2A."""

    def __init__(self, served: ServedApps, runner: Runner) -> None:
        self._served = served
        self._runner = runner

    # --- messages

    async def on_message_send(
        self, params: types.SendMessageRequest, context: ServerCallContext
    ) -> types.Task:
        """Run the agent, and return the task when it is over or waits."""
        with _as_protocol_errors(params):
            run = await self._start(params.message, _user_of(context))
            if params.configuration.return_immediately:
                run.unfollow()
            else:
                async with aclosing(run.events()) as events:
                    async for _ in events:
                        pass
            task = await self._read_task(run.key, run.id, message=params.message)
            return apply_history_length(task, params.configuration)

    async def on_message_send_stream(
        self, params: types.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2aEvent, None]:
        """Run the agent: the task, then what it does, then how it ended."""
        with _as_protocol_errors(params):
            run = await self._start(params.message, _user_of(context))
            task = await self._read_task(run.key, run.id, message=params.message)
            # a task that was answered before its message came again says so at the end only
            task.status.state = _State.TASK_STATE_WORKING
            del task.artifacts[:]
            yield task
            pieces = pieces_of_run(run.events(), run.final_session, run.id)
            async with aclosing(self._updates(pieces, run.key, run.id)) as updates:
                async for update in updates:
                    yield update

    async def _start(self, message: types.Message, user: str) -> ServedRun:
        if message.task_id:
            return await self._answer(message, user)
        if not message.parts:
            raise InvalidParamsError(message="the message has no parts")
        id = require_request_id(message.message_id, where="messageId") or ""
        # without a context the same message must find the same session again
        mark = hashlib.blake2b(f"{user}\n{id}".encode(), digest_size=12).hexdigest()
        content = Content(role="user", parts=tuple(map(_read_part, message.parts)))
        return await self._served.start(
            self._runner,
            content,
            user=user,
            session=message.context_id or f"a2a-{mark}",
            request_id=id,
            follow=True,
        )

    async def _answer(self, message: types.Message, user: str) -> ServedRun:
        """Go on with a task that waits for what the message says."""
        session, run = await self._find(message.task_id, user)
        if message.context_id and message.context_id != session.id:
            raise InvalidParamsError(
                message=f"the task belongs to the context {session.id!r}, not to this one"
            )
        questions = open_questions(session, run, frozenset())
        if not questions:
            raise UnsupportedOperationError(
                message="the task waits for nothing; send the message without a taskId, and with"
                f" the contextId {session.id!r}"
            )
        answers = _read_answers(session, questions, message.parts)
        if answers is None:
            raise InvalidParamsError(message=f"this is not an answer. {in_words(questions)}")
        return await self._served.start(
            self._runner, None, user=user, session=session.id, answers=answers, follow=True
        )

    async def _updates(
        self, pieces: AsyncGenerator[RunPiece, None], key: SessionKey, run: str
    ) -> AsyncGenerator[A2aEvent, None]:
        """The pieces of a run as updates of its task."""
        id = write_place("task_", key.id, run)
        begun: set[str] = set()
        async with aclosing(pieces):
            async for piece in pieces:
                match piece:
                    case TextPiece(is_thought=False) | TextEnd(is_thought=False):
                        yield types.TaskArtifactUpdateEvent(
                            task_id=id,
                            context_id=key.id,
                            artifact=_text_artifact(piece),
                            append=piece.message in begun,
                            last_chunk=isinstance(piece, TextEnd),
                        )
                        begun.add(piece.message)
                    case ArtifactPiece():
                        yield types.TaskArtifactUpdateEvent(
                            task_id=id,
                            context_id=key.id,
                            artifact=await self._artifact(key, piece),
                            last_chunk=True,
                        )
                    case EndPiece():
                        status = _status_of(piece)
                        yield types.TaskStatusUpdateEvent(
                            task_id=id, context_id=key.id, status=status
                        )
                    case _ if words := describe_act(piece):
                        yield types.TaskStatusUpdateEvent(
                            task_id=id,
                            context_id=key.id,
                            status=_status(_State.TASK_STATE_WORKING, words),
                        )
                    case _:
                        pass

    # --- tasks

    async def on_get_task(
        self, params: types.GetTaskRequest, context: ServerCallContext
    ) -> types.Task:
        """A task as the log has it now."""
        with _as_protocol_errors(params):
            session, run = await self._find(params.id, _user_of(context))
            return apply_history_length(await self._read_task(key_of(session), run), params)

    async def on_list_tasks(
        self, params: types.ListTasksRequest, context: ServerCallContext
    ) -> types.ListTasksResponse:
        """The tasks of the user, the newest first."""
        with _as_protocol_errors(params):
            size = params.page_size or 50
            validate_page_size(size)
            first = params.page_token or "0"
            if not re.fullmatch(r"[0-9]{1,6}", first):
                raise InvalidParamsError(message="the pageToken is not one of this server")
            tasks = [task async for task in self._tasks(params, _user_of(context))]
            page = tasks[int(first) : int(first) + size]
            for task in page:
                apply_history_length(task, params)
                if not params.include_artifacts:
                    del task.artifacts[:]
            end = int(first) + len(page)
            return types.ListTasksResponse(
                tasks=page,
                page_size=len(page),
                total_size=len(tasks),
                next_page_token=str(end) if end < len(tasks) else "",
            )

    async def _tasks(
        self, params: types.ListTasksRequest, user: str
    ) -> AsyncGenerator[types.Task, None]:
        runner = self._runner
        if params.context_id:
            keys = [SessionKey(runner.app_name, user, params.context_id)]
        else:
            infos = await runner.store.sessions(runner.app_name, user)
            keys = [info.key for info in infos[:LISTED_SESSIONS]]
        since = params.status_timestamp_after.ToDatetime(UTC)
        for key in keys:
            session = await find_session(runner, key.user_id, key.id)
            if session is None:
                continue
            runs = dict.fromkeys(one.invocation_id for one in session.events)
            for run in reversed(runs):
                task = await self._read_task(key, run)
                wanted = not params.status or task.status.state == params.status
                if wanted and task.status.timestamp.ToDatetime(UTC) >= since:
                    yield task

    async def on_subscribe_to_task(
        self, params: types.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2aEvent, None]:
        """A task that is under way, from its beginning, and what follows."""
        with _as_protocol_errors(params):
            runner = self._runner
            session, run = await self._find(params.id, _user_of(context))
            key = key_of(session)
            task = await self._read_task(key, run)
            if task.status.state not in _OPEN:
                raise UnsupportedOperationError(message="the task is not under way")
            del task.artifacts[:]
            yield task
            begin = find_invocation(session.events, run) or 0
            events = runner.events(user_id=key.user_id, session_id=key.id, after=begin)

            async def own() -> AsyncGenerator[Event, None]:
                async with aclosing(events):
                    async for event in events:
                        if event.invocation_id == run:
                            yield event

            async def final() -> Session:
                return await self._served.session(runner, key.user_id, key.id)

            pieces = pieces_of_run(own(), final, run)
            async with aclosing(self._updates(pieces, key, run)) as updates:
                async for update in updates:
                    yield update

    async def on_cancel_task(
        self, params: types.CancelTaskRequest, context: ServerCallContext
    ) -> types.Task:
        """Stop a task; one that waits is told that nobody will answer, and stopped then."""
        with _as_protocol_errors(params):
            user = _user_of(context)
            session, run = await self._find(params.id, user)
            key = key_of(session)
            if questions := open_questions(session, run, frozenset()):
                answers = {one.call_id: refuse_question(one) for one in questions}
                await self._served.start(
                    self._runner, None, user=user, session=key.id, answers=answers
                )
            if not await self._served.cancel(self._runner, key) and not questions:
                raise TaskNotCancelableError
            return await self._read_task(key, run)

    async def _find(self, id: str, user: str) -> tuple[Session, str]:
        """The session and the run of a task of the user's."""
        place = read_place("task_", id)
        session = await find_session(self._runner, user, place[0]) if place is not None else None
        if place is None or session is None or find_invocation(session.events, place[1]) is None:
            raise TaskNotFoundError
        return session, place[1]

    async def _read_task(
        self, key: SessionKey, run: str, *, message: types.Message | None = None
    ) -> types.Task:
        """A task as the log has it."""
        # before the log is read: a run that ends in between must not look cut off
        running = await self._served.is_running(self._runner, key)
        session = await find_session(self._runner, key.user_id, key.id)
        events = [one for one in session.events if one.invocation_id == run] if session else []
        task = types.Task(id=write_place("task_", key.id, run), context_id=key.id)
        if session is None or not events:  # it waits in a queue
            task.status.CopyFrom(_status(_State.TASK_STATE_SUBMITTED))
            task.history.extend([message] if message is not None else [])
            return task
        for event in events:
            if event.author == "user" and event.text:
                is_first = event is events[0]
                task.history.add(
                    message_id=run if is_first else event.id,
                    role=types.Role.ROLE_USER,
                    task_id=task.id,
                    context_id=key.id,
                    parts=[types.Part(text=event.text)],
                )
            elif event.author != "user" and is_shown(event) and event.text and not event.void:
                task.artifacts.add(
                    artifact_id=event.id, name=event.author, parts=[types.Part(text=event.text)]
                )
            for name, version in event.actions.artifact_delta.items():
                task.artifacts.append(await self._artifact(key, ArtifactPiece(name, version)))
        end = end_of_run(events, open_questions(session, run, frozenset()))
        is_last = session.events[-1].invocation_id == run
        if (
            end.outcome == "done"
            and is_last
            and (running or is_unfinished(self._runner.root, session))
        ):
            task.status.CopyFrom(_status(_State.TASK_STATE_WORKING))
        else:
            task.status.CopyFrom(_status_of(end))
        task.status.timestamp.FromDatetime(datetime.fromtimestamp(events[-1].timestamp, UTC))
        return task

    async def _artifact(self, key: SessionKey, saved: ArtifactPiece) -> types.Artifact:
        part = await self._runner.artifacts.load(*key, saved.name, saved.version)
        id = f"{saved.name}.{saved.version}"
        parts = [_write_part(part)] if part is not None else []
        return types.Artifact(artifact_id=id, name=saved.name, parts=parts)

    # --- what is not offered: clients are told by the card

    async def _refuse_push(self, params: object, context: ServerCallContext) -> Never:
        """Refuse: this server calls nobody."""
        raise PushNotificationNotSupportedError

    on_create_task_push_notification_config = _refuse_push
    on_get_task_push_notification_config = _refuse_push
    on_list_task_push_notification_configs = _refuse_push
    on_delete_task_push_notification_config = _refuse_push

    async def on_get_extended_agent_card(
        self, params: types.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> types.AgentCard:
        """Refuse: there is one card."""
        raise UnsupportedOperationError


# --- routes


def a2a_routes(served: ServedApps) -> list[Route]:
    """The routes of A2A: a card and an address for each app; the first is the server's own."""
    routes: list[Route] = []
    for number, runner in enumerate(served.runners.values()):
        card = _CardEndpoint(runner)
        path = f"/a2a/{runner.app_name}"
        if number == 0:
            routes.append(Route("/.well-known/agent-card.json", card))
        routes.append(Route(f"{path}/.well-known/agent-card.json", card))
        tasks = _TaskEndpoint(served, AgentTasks(served, runner))
        routes.append(Route(path, tasks, methods=["POST"]))
    return routes


class _CardEndpoint:
    """The card of an app, with the address under which it was asked for."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        base = str(Request(scope).base_url).rstrip("/")
        card = describe_agent(self._runner, f"{base}/a2a/{self._runner.app_name}")
        await JSONResponse(agent_card_to_dict(card))(scope, receive, send)


class _TaskEndpoint:
    """The calls of clients, with the server's limits on their size."""

    def __init__(self, served: ServedApps, tasks: AgentTasks) -> None:
        self._served = served
        self._dispatcher = JsonRpcDispatcher(
            tasks, context_builder=_Contexts(), enable_v0_3_compat=True
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Call(self._served, scope, receive).raw_body()

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        response = await self._dispatcher.handle_requests(Request(scope, again))
        await response(scope, receive, send)


class _Contexts(DefaultServerCallContextBuilder):
    """The context of a call knows the user, as the server knows them."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        identity = cast("Identity", request.scope["weft.identity"])
        context.state["weft.user"] = identity.user or "user"
        return context


def _user_of(context: ServerCallContext) -> str:
    return cast("str", context.state["weft.user"])


def describe_agent(runner: Runner, url: str) -> types.AgentCard:
    """The card of an app."""
    about = runner.root.description or f"The agent {runner.app_name}."
    return types.AgentCard(
        name=runner.app_name,
        description=about,
        version=__version__,
        supported_interfaces=[
            types.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version)
            for version in VERSIONS
        ],
        capabilities=types.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json", "image/*", "audio/*"],
        default_output_modes=["text/plain"],
        skills=[
            types.AgentSkill(
                id=runner.app_name, name=runner.app_name, description=about, tags=["agent"]
            )
        ],
        security_schemes={
            "token": types.SecurityScheme(
                http_auth_security_scheme=types.HTTPAuthSecurityScheme(scheme="Bearer")
            )
        },
        security_requirements=[types.SecurityRequirement(schemes={"token": types.StringList()})],
    )


# --- how things are written in A2A


@contextmanager
def _as_protocol_errors(params: ProtocolMessage) -> Generator[None]:
    """Errors of ours as those of the protocol; what nobody foresaw says nothing of itself."""
    validate_proto_required_fields(params)
    try:
        yield
    except A2AError:
        raise
    except (Problem, WeftError) as error:
        problem = problem_of(error)
        kind = InvalidParamsError if problem.status < 500 else InternalError
        words = f"{problem.detail}; {problem.hint}" if problem.hint else problem.detail
        raise kind(message=words) from None


def _status(
    state: "types.TaskState", words: str = "", data: Json = None, id: str = ""
) -> types.TaskStatus:
    status = types.TaskStatus(state=state)
    status.timestamp.GetCurrentTime()
    if words:
        status.message.message_id = id or f"status-{status.timestamp.ToNanoseconds()}"
        status.message.role = types.Role.ROLE_AGENT
        status.message.parts.add(text=words)
    if data is not None:
        status.message.parts.append(_write_data(data))
    return status


def _status_of(end: EndPiece) -> types.TaskStatus:
    """How a run ended, or what it waits for: in words, and as data for programs."""
    state = _OUTCOMES[end.outcome]
    if end.outcome != "waiting":
        return _status(state, end.words)
    questions: list[Json] = [
        {"id": one.call_id, "name": one.name, "kind": one.kind, "question": one.question,
         "args": one.args}
        for one in end.questions
    ]  # fmt: skip
    # the same question has the same id whenever it is told: clients know it again by that
    id = f"ask-{end.questions[0].call_id}"
    return _status(state, in_words(end.questions), {"questions": questions}, id)


def _text_artifact(piece: TextPiece | TextEnd) -> types.Artifact:
    if isinstance(piece, TextEnd):
        return types.Artifact(artifact_id=piece.message)
    parts = [types.Part(text=piece.delta)]
    return types.Artifact(artifact_id=piece.message, name=piece.author, parts=parts)


def _read_part(part: types.Part) -> Part:
    match part.WhichOneof("content"):
        case "text":
            return Part(text=part.text)
        case "raw":
            return Part.from_bytes(part.raw, part.media_type or None, name=part.filename or None)
        case "url":
            media = part.media_type or None
            return Part(file_data=FileData(file_uri=part.url, mime_type=media))
        case "data":
            return Part(text=compact(_read_data(part.data)))
        case _:
            raise ContentTypeNotSupportedError(message="a part of the message is empty")


def _write_part(part: Part) -> types.Part:
    if part.inline_data is not None:
        media = part.inline_data
        return types.Part(
            raw=base64_bytes(media.data or ""),
            media_type=media.mime_type or "",
            filename=media.display_name or "",
        )
    return types.Part(text=part.text or "")


def _read_data(value: JsonValue) -> Json:
    return _whole_numbers(cast("Json", MessageToDict(value)))


def _whole_numbers(value: Json) -> Json:
    """JSON as its writer meant it: the protocol's values know only floating point."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole_numbers(one) for one in value]
        case dict():
            return {key: _whole_numbers(one) for key, one in value.items()}
        case _:
            return value


def _write_data(value: Json) -> types.Part:
    part = types.Part()
    ParseDict(cast("dict[str, object]", value), part.data)
    return part


def _read_answers(
    session: Session, questions: Sequence[Pending], parts: Sequence[types.Part]
) -> dict[str, object] | None:
    """The answers in a message: data by the id of its call, or for the only one; else words."""
    data = [_read_data(part.data) for part in parts if part.HasField("data")]
    if not data:
        return replies(session, [_read_part(part) for part in parts])
    (value, *_) = data
    known = {one.call_id for one in questions}
    if isinstance(value, dict) and value and value.keys() <= known:
        return dict(value)
    return {questions[0].call_id: value} if len(questions) == 1 else None
