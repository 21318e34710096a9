"""google-adk: a Runner with its session services, and a BaseLlm that answers from the script."""

import logging
import warnings
from collections.abc import AsyncGenerator
from typing import Any

from script import ANSWER, DELTA, INSTRUCTION, QUESTION, TEMPLATE, Script, Subject, work

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.agents.run_config import RunConfig, StreamingMode  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_request import LlmRequest  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions.in_memory_session_service import InMemorySessionService  # noqa: E402
from google.genai import types  # noqa: E402

PACKAGE = "google-adk"
NAME = "google-adk"

UNLIMITED = RunConfig(max_llm_calls=0)


class Scripted(BaseLlm):
    """Answers from the script; the root of the router hands over."""

    model: str = "scripted"
    script: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        calls = self.script.next(len(llm_request.contents))
        parts = [
            types.Part(function_call=types.FunctionCall(id=id, name="work", args=args))
            for id, args in calls
        ]
        yield _said(*parts or [types.Part(text=ANSWER)])


class Routing(Scripted):
    """Hands over to the child."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.script.next(len(llm_request.contents))
        call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "child"})
        yield _said(types.Part(function_call=call))


class Speaking(BaseLlm):
    """Says its answer in as many deltas."""

    model: str = "scripted"
    deltas: int

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        for _ in range(self.deltas):
            content = types.Content(role="model", parts=[types.Part(text=DELTA)])
            yield LlmResponse(content=content, partial=True)
        yield _said(types.Part(text=DELTA * self.deltas))


def _said(*parts: types.Part) -> LlmResponse:
    return LlmResponse(
        content=types.Content(role="model", parts=list(parts)),
        finish_reason=types.FinishReason.STOP,
    )


async def agent(script: Script, store: str | None = None) -> Subject:
    service: Any = InMemorySessionService()
    if store is not None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        service = SqliteSessionService(store)
    model = Scripted(script=script)
    bot = LlmAgent(name="bot", model=model, instruction=INSTRUCTION, tools=[work])
    return _subject(Runner(app_name="bench", agent=bot, session_service=service), script)


async def speaker(deltas: int) -> Subject:
    bot = LlmAgent(name="bot", model=Speaking(deltas=deltas), instruction=INSTRUCTION)
    service = InMemorySessionService()
    runner = Runner(app_name="bench", agent=bot, session_service=service, auto_create_session=True)
    config = RunConfig(streaming_mode=StreamingMode.SSE)

    async def turn(session: str) -> str:
        pieces: list[str] = []
        async for event in runner.run_async(
            user_id="u", session_id=session, new_message=_question(), run_config=config
        ):
            if event.partial:
                pieces += [part.text or "" for part in event.content.parts]
        return "".join(pieces)

    return Subject(turn)


async def router() -> Subject:
    script = Script()
    child = LlmAgent(
        name="child", model=Scripted(script=script), instruction=INSTRUCTION,
        description="Knows orders.",
    )  # fmt: skip
    root = LlmAgent(
        name="root", model=Routing(script=script), instruction=INSTRUCTION, sub_agents=[child]
    )
    service = InMemorySessionService()
    return _subject(Runner(app_name="bench", agent=root, session_service=service), script)


async def sequence(length: int) -> Subject:
    from google.adk.agents import SequentialAgent

    return _flow(SequentialAgent, length)


async def templates(length: int) -> Subject:
    from google.adk.agents import SequentialAgent

    script = Script()
    bots = _agents(length, script)
    for i, bot in enumerate(bots):
        bot.output_key = f"answer_{i}"
        bot.instruction = TEMPLATE % f"answer_{i - 1}" if i else INSTRUCTION
    root = SequentialAgent(name="all", sub_agents=bots)
    service = InMemorySessionService()
    return _subject(Runner(app_name="bench", agent=root, session_service=service), script)


async def parallel(width: int) -> Subject:
    from google.adk.agents import ParallelAgent

    return _flow(ParallelAgent, width)


def _flow(kind: Any, count: int) -> Subject:
    """A workflow agent: older than google-adk's Workflow graphs, and faster."""
    script = Script()
    root = kind(name="all", sub_agents=_agents(count, script))
    service = InMemorySessionService()
    return _subject(Runner(app_name="bench", agent=root, session_service=service), script)


def _agents(count: int, script: Script) -> list[LlmAgent]:
    model = Scripted(script=script)
    return [LlmAgent(name=f"bot_{i}", model=model, instruction=INSTRUCTION) for i in range(count)]


def _subject(runner: Runner, script: Script) -> Subject:
    runner.auto_create_session = True

    async def turn(session: str) -> str:
        said = ""
        async for event in runner.run_async(
            user_id="u", session_id=session, new_message=_question(), run_config=UNLIMITED
        ):
            if event.content is not None:
                said = "".join(part.text or "" for part in event.content.parts or ()) or said
        return said

    return Subject(turn, script, runner.close)


def _question() -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=QUESTION)])
