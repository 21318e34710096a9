"""The session that a request of OpenAI's clients belongs to, its run, and what that waits for.

The client's messages are a whole history, ours is a log. A request goes on after a response, in a
conversation, in the session that a header names, or with a question that is open; otherwise its
history becomes a session of its own.

OpenAI's clients know no questions, only text. A run that stops for an approval, an input or a
result therefore says so in its answer, with what to reply. The reply is read from the client's
next message: in a session that it names, or in the one that the question names.

Top to bottom: the request, how it is started, how it is read, a history as events; the question in
words, the session that a history goes on with, the reply.
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
from weft.runtime.approvals import Approve, Deny, Pending, pending_in
from weft.runtime.background import RunEnd
from weft.runtime.runner import RunExtension
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
    find_session,
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
from weft.stores import create_filled
from weft.values import Json, JsonObject, compact

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
        begins = _trailing(self.messages)
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
            with _naming("conversation"):
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
            run.when_done(_forgetting(self.runner, key))
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
        with _naming("previous_response_id"):
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
    with _naming("model"):
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
def _naming(field: str) -> Generator[None]:
    """Have a problem say which field of the request it is about."""
    try:
        yield
    except Problem as problem:
        problem.where = field
        raise


def _forgetting(runner: Runner, key: SessionKey) -> Callable[[object], None]:
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


def _trailing(messages: list[ClientMessage]) -> int:
    """Where the last message of the user begins, with what belongs to it."""
    last = max((i for i, one in enumerate(messages) if one.role == "assistant"), default=-1)
    return last + 1


def as_events(messages: list[ClientMessage], runner: Runner) -> list[Event]:
    """A history as events of a log: what a client brings is not ours, and carries no trust."""
    author = speaker_of(runner)
    events: list[Event] = []
    invocation = new_id()
    for one in messages:
        if one.role == "user" and (not events or events[-1].author != "user"):
            invocation = new_id()
        calls = [part.function_call for part in one.parts if part.function_call is not None]
        whose, role = (author, "model") if one.role == "assistant" else ("user", "user")
        events.append(
            Event(
                author=whose,
                content=Content(role=role, parts=one.parts),
                invocation_id=invocation,
                # the client runs these calls: their results come with one of its messages
                long_running_tool_ids=tuple(one.id or "" for one in calls) or None,
            )
        )
    return events


# --- questions in words, and replies to them

_LONGEST = 1_000
"""Characters of a call's arguments that a question shows."""

_SESSION = re.compile(r"\[weft session ([^\s\]]+)\]\s*$")

_YES = frozenset(("approve", "approved", "yes", "y", "ok"))
_NO = frozenset(("deny", "denied", "no", "n", "reject"))


def open_questions(session: Session, run: str, tools: frozenset[str]) -> list[Pending]:
    """What a run of the session waits for, other than calls of the client's own tools."""
    if not session.waiting:
        return []
    calls = {
        call.id for event in session.events if event.invocation_id == run for call in event.calls
    }
    return [one for one in pending_in(session) if one.call_id in calls and one.name not in tools]


def in_words(questions: Sequence[Pending]) -> str:
    """The questions, and what to reply."""
    lines = [_question(one, is_only=len(questions) == 1) for one in questions]
    return "\n".join([*lines, f"[weft session {questions[0].session_id}]"])


def _question(one: Pending, *, is_only: bool) -> str:
    suffix = "" if is_only else f" {one.call_id}"
    call = f"`{one.name}` with {_shorten_text(compact(one.args))}"
    match one.kind:
        case "confirm":
            words = "" if one.question == f"May {one.name} be called?" else f" {one.question}"
            reply = f'Reply "approve{suffix}", or "deny{suffix}: why not".'
            return f"Waiting for approval: {call}.{words} {reply}"
        case "input":
            choices = _choices(one)
            listed = f" ({', '.join(map(_choice_text, choices))})" if choices else ""
            how = f'"answer{suffix}: ..."' if not is_only else "with the answer"
            return f"Waiting for an answer: {one.question}{listed} Reply {how}."
        case "result":
            return (
                f"Waiting for the result of {call}. It comes from elsewhere; whoever has it"
                f" sends it as the result of the call {one.call_id}."
            )
        case _:
            return (
                f"The process died while {call} ran, and nobody knows whether it did."
                f" Whoever finds out sends the result of the call {one.call_id}."
            )


def _shorten_text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _choices(one: Pending) -> list[Json]:
    payload = one.args.get("payload")
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices if isinstance(choices, list) else []


def _choice_text(choice: Json) -> str:
    return choice if isinstance(choice, str) else compact(choice)


def asking_session(messages: Sequence[ClientMessage]) -> str | None:
    """The session whose question is the last answer of a history."""
    last = next((one for one in reversed(messages) if one.role == "assistant"), None)
    text = "".join(part.text or "" for part in last.parts) if last is not None else ""
    match = _SESSION.search(text)
    return match[1] if match is not None else None


def replies(session: Session, parts: Sequence[Part]) -> dict[str, object] | None:
    """Answers to open questions in what the client says; None where it says something else."""
    questions = {one.call_id: one for one in pending_in(session)}
    results = [part.function_response for part in parts if part.function_response is not None]
    if results:
        if not all(result.id in questions for result in results):
            return None  # the runtime says which call is not open
        return {
            cast("str", result.id): _value(questions[cast("str", result.id)], result.response or {})
            for result in results
        }
    asking = [one for one in questions.values() if one.kind in ("confirm", "input")]
    text = "".join(part.text or "" for part in parts).strip()
    if not asking or not text or any(part.text is None for part in parts):
        return None
    if len(asking) == 1:
        answer = _reply(asking[0], text)
        return {asking[0].call_id: answer} if answer is not None else None
    return _named_replies(asking, text)


def _value(question: Pending, response: JsonObject) -> object:
    """The answer that a tool's result is: a decision in words, or the value itself."""
    inner = response["result"] if [*response] == ["result"] else response
    if isinstance(inner, str) and question.kind in ("confirm", "input"):
        answer = _reply(question, inner)
        if answer is None:
            raise _unreadable(question)
        return answer
    return inner


def _reply(question: Pending, text: str) -> object:
    """What a text answers to a question; None where it does not."""
    if question.kind == "input":
        fitting = [one for one in _choices(question) if _choice_text(one).lower() == text.lower()]
        return fitting[0] if fitting else text
    word, _, rest = re.sub(r"[\s:,.!]+", " ", text, count=1).partition(" ")
    if word.lower() in _NO:
        return Deny(text[len(word) :].lstrip(" :,.!\n"))
    # a yes with more after it may mean anything: nothing runs on a guess
    return Approve() if word.lower() in _YES and not rest.strip() else None


def _named_replies(asking: list[Pending], text: str) -> dict[str, object] | None:
    """Answers to several questions: a line for each, with the id of its call."""
    answers: dict[str, object] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        named, _, more = rest.partition(":")
        question = next((one for one in asking if one.call_id == named.strip()), None)
        if question is None:
            return None
        reply = more.strip() if question.kind == "input" else f"{word}: {more}".rstrip(": ")
        answer = _reply(question, reply)
        if answer is None:
            return None
        answers[question.call_id] = answer
    return answers


def _unreadable(question: Pending) -> Problem:
    return invalid(
        f"this is not an answer to the call {question.call_id[:100]}",
        hint='reply "approve", or "deny: why not"',
    )
