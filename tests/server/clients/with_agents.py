"""openai-agents, with both of its models."""

import asyncio
import json
import sys

import openai
import pydantic
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

set_tracing_disabled(True)


class Trip(pydantic.BaseModel):
    city: str
    days: int


@function_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def tell(check, result):
    print(json.dumps([check, result]))


async def main(url, token):
    client = openai.AsyncOpenAI(base_url=url, api_key=token, max_retries=0)
    for name, kind in (("chat", OpenAIChatCompletionsModel), ("response", OpenAIResponsesModel)):

        def agent(model="bot", kind=kind, **options):
            model = kind(model=model, openai_client=client)
            return Agent(name="sums", instructions="Be brief.", model=model, **options)

        plain = await Runner.run(agent(), "Hello?")
        tell(f"{name} plain", plain.final_output)
        used = plain.context_wrapper.usage
        tell(f"{name} usage", [used.input_tokens > 0, used.output_tokens > 0])
        streamed = Runner.run_streamed(agent(), "Hello?")
        deltas = []
        async for event in streamed.stream_events():
            raw = event.data if event.type == "raw_response_event" else None
            if raw is not None and raw.type == "response.output_text.delta":
                deltas.append(raw.delta)
        tell(f"{name} streamed", deltas)
        tell(f"{name} tools", (await Runner.run(agent(tools=[add]), "2 and 3?")).final_output)
        streamed = Runner.run_streamed(agent(tools=[add]), "2 and 3?")
        async for _ in streamed.stream_events():
            pass
        tell(f"{name} tools streamed", streamed.final_output)
        trip = (await Runner.run(agent(output_type=Trip), "Hello?")).final_output
        tell(f"{name} structured", trip.model_dump())
        streamed = Runner.run_streamed(agent(output_type=Trip), "Hello?")
        async for _ in streamed.stream_events():
            pass
        tell(f"{name} structured streamed", streamed.final_output.model_dump())
        try:
            await Runner.run(agent(model="nobody"), "Hello?")
        except openai.NotFoundError as error:
            tell(f"{name} errors", error.param)


asyncio.run(main(*sys.argv[1:]))
