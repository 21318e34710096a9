"""pydantic-ai: an Agent with its FunctionModel, the message history kept by whoever calls it."""

import asyncio
from collections.abc import AsyncIterator

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage
from script import ANSWER, DELTA, INSTRUCTION, QUESTION, Missing, Script, Subject, work

PACKAGE = "pydantic-ai-slim"
NAME = "pydantic-ai"
BY_HAND = ("sequence", "parallel")


def scripted(script: Script) -> FunctionModel:
    async def generate(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls = script.next(len(messages))
        return _said(
            *[ToolCallPart("work", args, tool_call_id=id) for id, args in calls]
            or [TextPart(ANSWER)]
        )

    return FunctionModel(generate)


def _said(*parts: TextPart | ToolCallPart) -> ModelResponse:
    # Without a usage the model would count the tokens of the whole history each time.
    return ModelResponse(list(parts), usage=RequestUsage(input_tokens=1, output_tokens=1))


async def agent(script: Script, store: str | None = None) -> Subject:
    if store is not None:
        raise Missing("has no session store")
    bot = Agent(scripted(script), instructions=INSTRUCTION, tools=[work])
    histories: dict[str, list[ModelMessage]] = {}

    async def turn(session: str) -> str:
        result = await bot.run(QUESTION, message_history=histories.get(session))
        histories[session] = result.all_messages()
        return result.output

    return Subject(turn, script)


async def speaker(deltas: int) -> Subject:
    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for _ in range(deltas):
            yield DELTA

    bot = Agent(FunctionModel(stream_function=speak), instructions=INSTRUCTION)

    async def turn(session: str) -> str:
        async with bot.run_stream(QUESTION) as result:
            # Without a debounce every delta is given as it comes.
            stream = result.stream_text(delta=True, debounce_by=None)
            return "".join([piece async for piece in stream])

    return Subject(turn)


async def router() -> Subject:
    """The root's output is a function that hands over, as the documentation shows it."""
    script = Script()
    child = Agent(scripted(script), instructions=INSTRUCTION)

    async def hand_over(question: str) -> str:
        """Hand over to the agent who knows orders."""
        return (await child.run(question)).output

    async def generate(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        script.next(len(messages))
        return _said(ToolCallPart(info.output_tools[0].name, {"question": QUESTION}))

    root = Agent(FunctionModel(generate), instructions=INSTRUCTION, output_type=[hand_over])

    async def turn(session: str) -> str:
        return (await root.run(QUESTION)).output

    return Subject(turn, script)


async def sequence(length: int) -> Subject:
    script = Script()
    bots = [Agent(scripted(script), instructions=INSTRUCTION) for _ in range(length)]

    async def turn(session: str) -> str:
        said, history = QUESTION, None
        for bot in bots:
            result = await bot.run(said, message_history=history)
            said, history = result.output, result.all_messages()
        return said

    return Subject(turn, script)


async def parallel(width: int) -> Subject:
    script = Script()
    bots = [Agent(scripted(script), instructions=INSTRUCTION) for _ in range(width)]

    async def turn(session: str) -> str:
        results = await asyncio.gather(*[bot.run(QUESTION) for bot in bots])
        return results[-1].output

    return Subject(turn, script)
