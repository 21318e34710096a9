"""agent-framework: an Agent over a chat client that answers from the script, and its workflows."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)
from script import ANSWER, DELTA, INSTRUCTION, QUESTION, Missing, Script, Subject, work

logging.disable(logging.WARNING)

PACKAGE = "agent-framework-core"
NAME = "agent-framework"

BUILT = 12
"""Workflows made before the clock runs: one remembers what it ran, so each invocation needs one."""


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Answers from the script; a client with the layer that calls functions, and no other."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> Any:
        return self._response(messages)

    async def _response(self, messages: Sequence[Message]) -> ChatResponse:
        calls = self.script.next(len(messages))
        contents = [Content.from_function_call(id, "work", arguments=args) for id, args in calls]
        return _said(*contents or [Content.from_text(ANSWER)])


class Routing(Scripted):
    """Hands over to the child."""

    async def _response(self, messages: Sequence[Message]) -> ChatResponse:
        self.script.next(len(messages))
        return _said(Content.from_function_call("handover", "handoff_to_child", arguments={}))


class Speaking(Scripted):
    """Says its answer in as many deltas."""

    def __init__(self, deltas: int) -> None:
        super().__init__(Script())
        self.deltas = deltas

    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> Any:
        return self._build_response_stream(self._updates())

    async def _updates(self) -> AsyncIterator[ChatResponseUpdate]:
        for _ in range(self.deltas):
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(DELTA)])


def _said(*contents: Content) -> ChatResponse:
    return ChatResponse(messages=[Message("assistant", list(contents))], finish_reason="stop")


async def agent(script: Script, store: str | None = None) -> Subject:
    if store is not None:
        raise Missing("has no SQLite store, only files, Redis and others")
    bot = Agent(Scripted(script), INSTRUCTION, name="bot", tools=[work])
    sessions: dict[str, AgentSession] = {}

    async def turn(session: str) -> str:
        if session not in sessions:
            sessions[session] = bot.create_session(session_id=session)
        return (await bot.run(QUESTION, session=sessions[session])).text

    return Subject(turn, script)


async def speaker(deltas: int) -> Subject:
    bot = Agent(Speaking(deltas), INSTRUCTION, name="bot")

    async def turn(session: str) -> str:
        return "".join([update.text async for update in bot.run(QUESTION, stream=True)])

    return Subject(turn)


async def router() -> Subject:
    from agent_framework.orchestrations import HandoffBuilder

    script = Script()

    def build() -> Any:
        root = Agent(Routing(script), INSTRUCTION, name="root", **_PER_SERVICE_CALL)
        child = Agent(
            Scripted(script), INSTRUCTION, name="child", description="Knows orders.",
            **_PER_SERVICE_CALL,
        )  # fmt: skip
        made = HandoffBuilder(participants=[root, child], termination_condition=_answered)
        return made.with_start_agent(root).add_handoff(root, [child]).build()

    return _subject(build, script)


_PER_SERVICE_CALL = {"require_per_service_call_history_persistence": True}


def _answered(messages: list[Message]) -> bool:
    return messages[-1].text == ANSWER


async def sequence(length: int) -> Subject:
    from agent_framework.orchestrations import SequentialBuilder

    script = Script()
    return _subject(lambda: SequentialBuilder(participants=_agents(length, script)).build(), script)


async def parallel(width: int) -> Subject:
    from agent_framework.orchestrations import ConcurrentBuilder

    script = Script()
    return _subject(lambda: ConcurrentBuilder(participants=_agents(width, script)).build(), script)


def _agents(count: int, script: Script) -> list[Agent]:
    client = Scripted(script)
    return [Agent(client, INSTRUCTION, name=f"bot_{i}") for i in range(count)]


def _subject(build: Callable[[], Any], script: Script) -> Subject:
    built = [build() for _ in range(BUILT)]

    async def turn(session: str) -> str:
        outputs = (await built.pop().run(QUESTION)).get_outputs()
        return outputs[-1].messages[-1].text

    return Subject(turn, script)
