"""The session that a request of OpenAI's clients belongs to, its run, and what that waits for.

The client's messages are a whole history, ours is a log. A request goes on after a response, in a
conversation, in the session that a header names, or with a question that is open; otherwise its
history becomes a session of its own.

A question that is open is asked in words (`asking`). The reply is read from the client's next
message: in a session that it names, or in the one that the question names.

Top to bottom: the request, how it is started, how it is read, a history as events, the session that
a history goes on with.
"""

import asyncio
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import msgspec

from weft.compiler.plan import plan_for
from weft.content import Content, Part
from weft.declare import Agent, RunConfig
from weft.declare.tool import Tool
from weft.errors import UsageError
from weft.runtime import Runner
from weft.runtime.background import RunEnd
from weft.runtime.runner import RunExtension
from weft.server.asking import find_session, replies
from weft.server.endpoints import Call
from weft.server.openai_options import (
    AnswerForm,
    Endpoint,
    model_options,
    read_form,
    read_tools,
    require_fields,
)
from weft.server.openai_requests import ClientMessage, chat_history, input_items
from weft.server.openai_stored import (
    RequestNote,
    ends_in_note,
    find_conversation,
    find_response,
    is_minted,
    posts_for,
    request_note,
    speaker_of,
    write_note,
)
from weft.server.problems import Problem, invalid
from weft.server.served import ServedRun
from weft.session import Event, Session, SessionKey
from weft.session.event import new_id
from weft.session.flow import TRUSTED, note_of
from weft.stores import create_filled
from weft.values import Json, JsonObject

SESSION_HEADER = "x-weft-session"


@dataclass
class ClientRequest:
    """A request, whichever of the two it came as."""

    runner: Runner
    model: str
    messages: list[ClientMessage]
    stream: bool
    config: RunConfig
    tools: list[Tool]
    form: AnswerForm | None
    """The form that its answer is to have; None for plain text."""
    session: str | None
    note: RequestNote
    """What the log has no place for, as the client wrote it."""
    keeps: bool
    is_response: bool
    goes_on: bool = False
    """Whether it answers what a run waits for; said once it has started."""

    @property
    def output_schema(self) -> JsonObject | None:
        """The schema of its answer, if it asks for one."""
        return self.form.schema if self.form is not None else None

    @property
    def is_answered_at_once(self) -> bool:
        """Whether the first text of a form is the answer: one agent, whose model has the schema.

        Elsewhere a later agent may speak, or what the model says may not fit the form.
        """
        root = self.runner.extended(self.tools, self.output_schema)
        if self.form is None or not isinstance(root, Agent) or root.sub_agents:
            return False
        plan = plan_for(root, None, self.config)
        is_native = plan.output is not None and plan.output.how == "native"
        return is_native and not plan.policy.protections

    @property
    def tool_names(self) -> frozenset[str]:
        """The names of the client's tools."""
        return frozenset(tool.name for tool in self.tools)

    async def start(self, call: Call) -> ServedRun:
        """Start the run: in the session that is named, or in one made of the history."""
        user = call.user()
        begins = _find_new_messages(self.messages)
        parts = tuple(part for one in self.messages[begins:] for part in one.parts)
        if not parts:
            where = "input" if self.is_response else "messages"
            raise invalid("there is no message of the user after the last answer", where=where)
        await call.served.require_room(self.runner.app_name, user)  # before a session is made
        at = self.session
        if self.note.previous is not None:
            at = await self._continue_session(call, user, self.note.previous)
        key = SessionKey(self.runner.app_name, user, at or asking_session(self.messages) or "")
        session = await find_session(self.runner, user, key.id) if key.id else None
        answers = replies(session, parts) if session is not None and session.waiting else None
        posts: list[Event] = []
        conversation = self.note.conversation
        if session is None and conversation:  # it may be that of another app
            with _name_field("conversation"):
                posts = posts_for(self.runner, await find_conversation(call, conversation))
        self.goes_on = answers is not None
        is_new = at is None and answers is None
        note = self._note(begins, parts if answers is not None else None, is_new=is_new)
        # after a note whose response never began an empty one is written: it hides that note
        if note == RequestNote() and (session is None or not ends_in_note(session)):
            note = None  # there is nothing to note
        if is_new:
            key = await self._make_session(user, begins, note)
        else:
            if posts:
                await create_filled(self.runner.store, key, posts)
            if note is not None:
                is_new = await write_note(self.runner, key, note)
            is_new = is_new or bool(posts)
        try:
            run = await call.served.start(
                self.runner,
                Content(role="user", parts=parts) if answers is None else None,
                user=user,
                session=key.id,
                answers=answers,
                tools=self.tools,
                output_schema=self.output_schema,
                config=self.config,
                stream=self.stream,
                follow=True,
            )
        except Exception:
            # the run did not begin: a session that was made for it alone is taken back
            if is_new:
                await self.runner.store.delete(key)
            raise
        # a session that the client named is the client's to delete
        if at is None and answers is None and not self.keeps:
            run.when_done(_make_forgetter(self.runner, key))
        return run

    def _note(
        self, begins: int, reply: tuple[Part, ...] | None, *, is_new: bool
    ) -> RequestNote | None:
        """What later requests need to know of the response, and the log has no place for."""
        if not self.is_response or not self.keeps:
            return None
        lengths = [len(one.parts) for one in self.messages[begins:]]
        conversation = self.note.conversation
        return msgspec.structs.replace(
            self.note,
            conversation=None if is_minted(conversation or "") else conversation,
            history=begins if is_new else 0,
            lengths=lengths if len(lengths) > 1 else [],
            reply=[*reply] if reply is not None else None,
        )

    async def _make_session(self, user: str, begins: int, note: RequestNote | None) -> SessionKey:
        """A session of its own for a history without one."""
        store, key = self.runner.store, SessionKey(self.runner.app_name, user, f"chat-{new_id()}")
        history = as_events(self.messages[:begins], self.runner)
        history += [note.event()] if note is not None else []
        await create_filled(store, key, history)
        return key

    async def _continue_session(self, call: Call, user: str, previous: str) -> str:
        """The session of the previous response; a copy, if it has gone on since."""
        with _name_field("previous_response_id"):
            response = await find_response(call, previous, [self.runner])
        if response.is_last:
            return response.key.id
        forked = await self.runner.fork(user_id=user, session_id=response.key.id, upto=response.end)
        return forked.id


def read_request(call: Call, body: dict[str, Json], endpoint: Endpoint) -> ClientRequest:
    """The request, or a problem that names the field."""
    model = body.get("model")
    if not isinstance(model, str):
        raise invalid("`model` names no app", where="model")
    with _name_field("model"):
        runner = call.served.runner(model)
    require_fields(body, endpoint)
    source = "messages" if endpoint == "chat" else "input"
    if source not in body:
        raise invalid(f"`{source}` is missing", where=source)
    messages = (chat_history if endpoint == "chat" else input_items)(body[source])
    instructions = body.get("instructions")
    if instructions is not None:
        if not isinstance(instructions, str):
            raise invalid("`instructions` is not text", where="instructions")
        messages = [ClientMessage.text("user", instructions), *messages]
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    previous = body.get("previous_response_id")
    for name, value in (("conversation", conversation), ("previous_response_id", previous)):
        if value is not None and (not isinstance(value, str) or not value):
            raise invalid(f"`{name}` is not an id", where=name)
    header = call.header(SESSION_HEADER.encode())
    session = conversation or header
    if previous is not None and session is not None:
        raise invalid(
            "two sessions are named",
            where="previous_response_id",
            hint="previous_response_id, conversation, or the header, not two of them",
        )
    raw_tools = body.get("tools") or []
    if not isinstance(raw_tools, list):
        raise invalid("`tools` is not a list", where="tools")
    stream, keeps = body.get("stream") or False, body.get("store")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise invalid("`metadata` is not an object", where="metadata")
    options = {**runner.config.generate_config, **model_options(body)}
    form, tools = read_form(body), read_tools(raw_tools)
    if tools or form is not None:
        try:
            runner.extended(tools, form.schema if form is not None else None)
        except UsageError as error:  # before a session is made for it
            raise invalid(error.message, hint=error.hint, where=error.where) from None
    return ClientRequest(
        runner=runner,
        model=model,
        messages=messages,
        stream=bool(stream),
        config=msgspec.structs.replace(runner.config, generate_config=options),
        tools=tools,
        form=form,
        session=cast("str | None", session),
        note=RequestNote(
            previous=cast("str | None", previous),
            conversation=cast("str | None", conversation),
            instructions=instructions,
            metadata=metadata,
            tools=raw_tools,
            format=form.written if form is not None else {},
        ),
        keeps=keeps is not False,
        is_response=endpoint == "responses",
    )


def recall_extension(session: Session) -> RunExtension:
    """What the request of the last run brought along, if it noted that: tools, and a form."""
    last = session.events[-1].invocation_id if len(session.events) else ""
    begin = next((at for at, one in enumerate(session.events) if one.invocation_id == last), 0)
    note = request_note(session, begin) or RequestNote()
    form = read_form({"text": {"format": note.format or None}})
    return read_tools(note.tools), form.schema if form is not None else None


@contextmanager
def _name_field(field: str) -> Generator[None]:
    """Have a problem say which field of the request it is about."""
    try:
        yield
    except Problem as problem:
        problem.where = field
        raise


def _make_forgetter(runner: Runner, key: SessionKey) -> Callable[[object], None]:
    """Delete the session of a request with `store: false`, once it is answered."""

    def forget(outcome: object) -> None:
        if isinstance(outcome, RunEnd) and outcome.is_waiting:
            return  # it is not answered: somebody is asked something first
        task = asyncio.get_running_loop().create_task(runner.store.delete(key))
        _forgotten.add(task)
        task.add_done_callback(_forgotten.discard)

    return forget


_forgotten: set[object] = set()
"""Tasks that delete sessions: a task that nobody holds may vanish."""


def _find_new_messages(messages: list[ClientMessage]) -> int:
    """Where the last message of the user begins, with what belongs to it."""
    last = max((i for i, one in enumerate(messages) if one.role == "assistant"), default=-1)
    return last + 1


def as_events(messages: list[ClientMessage], runner: Runner) -> list[Event]:
    """A history as events of a log: what a client brings is not ours, and carries no trust.

    An answer in it was made from all that stands before it: results, and files.
    """
    author = speaker_of(runner)
    events: list[Event] = []
    invocation, read = new_id(), TRUSTED
    for one in messages:
        if one.role == "user" and (not events or events[-1].author != "user"):
            invocation = new_id()
        calls = [part.function_call for part in one.parts if part.function_call is not None]
        whose, role = (author, "model") if one.role == "assistant" else ("user", "user")
        event = Event(
            author=whose,
            content=Content(role=role, parts=one.parts),
            invocation_id=invocation,
            # the client runs these calls: their results come with one of its messages
            long_running_tool_ids=tuple(one.id or "" for one in calls) or None,
            custom_metadata=note_of(read).onto(None) if role == "model" else None,
        )
        read |= event.label
        events.append(event)
    return events


# --- questions in words, and replies to them


_SESSION = re.compile(r"\[weft session ([^\s\]]+)\]\s*$")


def asking_session(messages: Sequence[ClientMessage]) -> str | None:
    """The session whose question is the last answer of a history."""
    last = next((one for one in reversed(messages) if one.role == "assistant"), None)
    text = "".join(part.text or "" for part in last.parts) if last is not None else ""
    match = _SESSION.search(text)
    return match[1] if match is not None else None
