"""openai-agents: its Runner with tracing off, and a Model that answers from the script."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)
from script import ANSWER, DELTA, INSTRUCTION, QUESTION, Script, Subject, work

PACKAGE = "openai-agents"
NAME = "openai-agents"
BY_HAND = ("sequence", "parallel")

set_tracing_disabled(True)
CONFIG = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Answers from the script."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        calls = self.script.next(1 if isinstance(input, str) else len(input))
        return _said(*[_call("work", id, args) for id, args in calls] or [_message(ANSWER)])

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class Routing(Scripted):
    """Hands over to the child."""

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        self.script.next(1 if isinstance(input, str) else len(input))
        return _said(_call("transfer_to_child", "handover", {}))


class Speaking(Scripted):
    """Says its answer in as many deltas."""

    def __init__(self, deltas: int) -> None:
        super().__init__(Script())
        self.deltas = deltas

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for index in range(self.deltas):
            yield ResponseTextDeltaEvent(
                content_index=0, delta=DELTA, item_id="m", logprobs=[], output_index=0,
                sequence_number=index, type="response.output_text.delta",
            )  # fmt: skip
        response = Response(
            id="r", created_at=0, model="scripted", object="response", tools=[],
            output=[_message(DELTA * self.deltas)], tool_choice="auto", parallel_tool_calls=True,
        )  # fmt: skip
        yield ResponseCompletedEvent(
            response=response, sequence_number=self.deltas, type="response.completed"
        )


def _call(name: str, id: str, args: dict[str, int]) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        arguments=json.dumps(args), call_id=id, name=name, type="function_call"
    )


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(
        id="m", content=[content], role="assistant", status="completed", type="message"
    )


def _said(*output: Any) -> ModelResponse:
    return ModelResponse(output=list(output), usage=Usage(), response_id=None)


async def agent(script: Script, store: str | None = None) -> Subject:
    bot = Agent(
        "bot", instructions=INSTRUCTION, model=Scripted(script), tools=[function_tool(work)]
    )
    if store is not None:
        return _stored(bot, script, store)
    histories: dict[str, list[Any]] = {}

    async def turn(session: str) -> str:
        said = [*histories.get(session, ()), {"role": "user", "content": QUESTION}]
        result = await Runner.run(bot, said, run_config=CONFIG, max_turns=100)
        histories[session] = result.to_input_list()
        return result.final_output

    return Subject(turn, script)


def _stored(bot: Agent, script: Script, store: str) -> Subject:
    sessions: dict[str, SQLiteSession] = {}

    async def turn(session: str) -> str:
        if session not in sessions:
            sessions[session] = SQLiteSession(session, store)
        kept = sessions[session]
        result = await Runner.run(bot, QUESTION, session=kept, run_config=CONFIG, max_turns=100)
        return result.final_output

    async def close() -> None:
        for kept in sessions.values():
            kept.close()

    return Subject(turn, script, close)


async def speaker(deltas: int) -> Subject:
    bot = Agent("bot", instructions=INSTRUCTION, model=Speaking(deltas))

    async def turn(session: str) -> str:
        pieces: list[str] = []
        async for event in Runner.run_streamed(bot, QUESTION, run_config=CONFIG).stream_events():
            if event.type == "raw_response_event" and event.data.type.endswith("text.delta"):
                pieces.append(event.data.delta)
        return "".join(pieces)

    return Subject(turn)


async def router() -> Subject:
    script = Script()
    child = Agent("child", instructions=INSTRUCTION, model=Scripted(script))
    root = Agent("root", instructions=INSTRUCTION, model=Routing(script), handoffs=[child])

    async def turn(session: str) -> str:
        return (await Runner.run(root, QUESTION, run_config=CONFIG)).final_output

    return Subject(turn, script)


async def sequence(length: int) -> Subject:
    script = Script()
    bots = _agents(length, script)

    async def turn(session: str) -> str:
        said: Any = QUESTION
        for bot in bots:
            result = await Runner.run(bot, said, run_config=CONFIG)
            said = result.to_input_list()
        return result.final_output

    return Subject(turn, script)


async def parallel(width: int) -> Subject:
    script = Script()
    bots = _agents(width, script)

    async def turn(session: str) -> str:
        runs = [Runner.run(bot, QUESTION, run_config=CONFIG) for bot in bots]
        return (await asyncio.gather(*runs))[-1].final_output

    return Subject(turn, script)


def _agents(count: int, script: Script) -> list[Agent]:
    model = Scripted(script)
    return [Agent(f"bot_{i}", instructions=INSTRUCTION, model=model) for i in range(count)]
