"""The session that a request of OpenAI's clients belongs to, and the run that answers it.

The client's messages are a whole history, ours is a log. A request goes on after a response, in a
conversation, in the session that a header names, or with a question that is open; otherwise its
history becomes a session of its own.

Top to bottom: the request, how it is started, how it is read, a history as events.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

import msgspec

from weft.content import Content, Part
from weft.declare import RunConfig
from weft.declare.tool import Tool
from weft.runtime import Runner
from weft.runtime.background import RunEnd
from weft.server.endpoints import Call
from weft.server.openai_questions import asking_session, replies
from weft.server.openai_requests import ClientMessage, client_tools, generation
from weft.server.openai_stored import (
    RequestNote,
    ends_in_note,
    find_conversation,
    find_response,
    find_session,
    is_minted,
    posts_for,
    speaker_of,
    write_note,
)
from weft.server.problems import Problem
from weft.server.served import ServedRun
from weft.session import Event, SessionKey
from weft.session.event import new_id
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
    raw_tools: list[Json]
    session: str | None
    previous: str | None
    conversation: str | None
    instructions: str | None
    keeps: bool
    is_response: bool
    metadata: JsonObject = field(default_factory=dict[str, Json])
    goes_on: bool = False
    """Whether it answers what a run waits for; said once it has started."""

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
            raise Problem(422, "invalid", "there is no message of the user behind the last answer")
        await call.served.require_room(self.runner.app_name, user)  # before a session is made
        at = self.session
        if self.previous is not None:
            at = await self._continued(call, user)
        key = SessionKey(self.runner.app_name, user, at or asking_session(self.messages) or "")
        session = await find_session(self.runner, user, key.id) if key.id else None
        answers = replies(session, parts) if session is not None and session.waiting else None
        posts: list[Event] = []
        if session is None and self.conversation:  # it may be that of another app
            posts = posts_for(self.runner, await find_conversation(call, self.conversation))
        self.goes_on = answers is not None
        is_new = at is None and answers is None
        note = self._note(begins, parts if answers is not None else None, is_new=is_new)
        # behind a note whose response never began an empty one is written: it hides that note
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
        """What is to be known of the response later, and has no place in the log."""
        if not self.is_response or not self.keeps:
            return None
        lengths = [len(one.parts) for one in self.messages[begins:]]
        return RequestNote(
            previous=self.previous,
            conversation=None if is_minted(self.conversation or "") else self.conversation,
            instructions=self.instructions,
            metadata=self.metadata,
            tools=self.raw_tools,
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

    async def _continued(self, call: Call, user: str) -> str:
        """The session of the previous response; a copy, if it has gone on since."""
        assert self.previous is not None
        response = await find_response(call, self.previous, [self.runner])
        if response.is_last:
            return response.key.id
        forked = await self.runner.fork(user_id=user, session_id=response.key.id, upto=response.end)
        return forked.id


def read_request(
    call: Call, body: dict[str, Json], source: Literal["messages", "input"],
    history: Callable[[Json], list[ClientMessage]],
) -> ClientRequest:  # fmt: skip
    """The request, or a problem that names the field."""
    model = body.get("model")
    if not isinstance(model, str):
        raise Problem(422, "invalid", "`model` names no app", where="model")
    runner = call.served.runner(model)
    if source not in body:
        raise Problem(422, "invalid", f"`{source}` is missing", where=source)
    messages = history(body[source])
    instructions = body.get("instructions")
    if instructions is not None:
        if not isinstance(instructions, str):
            raise Problem(422, "invalid", "`instructions` is not text", where="instructions")
        messages = [ClientMessage.text("user", instructions), *messages]
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    previous = body.get("previous_response_id")
    for name, value in (("conversation", conversation), ("previous_response_id", previous)):
        if value is not None and (not isinstance(value, str) or not value):
            raise Problem(422, "invalid", f"`{name}` is not an id", where=name)
    header = call.header(SESSION_HEADER.encode())
    session = conversation or header
    if previous is not None and session is not None:
        raise Problem(
            422, "invalid", "two sessions are named", where="previous_response_id",
            hint="previous_response_id, conversation, or the header, not two of them",
        )  # fmt: skip
    raw_tools = body.get("tools") or []
    if not isinstance(raw_tools, list):
        raise Problem(422, "invalid", "`tools` is not a list", where="tools")
    stream, keeps = body.get("stream") or False, body.get("store")
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Problem(422, "invalid", "`metadata` is not an object", where="metadata")
    options = {**runner.config.generate_config, **generation(body)}
    return ClientRequest(
        runner=runner,
        model=model,
        messages=messages,
        stream=bool(stream),
        config=msgspec.structs.replace(runner.config, generate_config=options),
        tools=client_tools(raw_tools),
        raw_tools=raw_tools,
        session=cast("str | None", session),
        previous=cast("str | None", previous),
        conversation=cast("str | None", conversation),
        instructions=instructions,
        keeps=keeps is not False,
        is_response=source == "input",
        metadata=metadata,
    )


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
