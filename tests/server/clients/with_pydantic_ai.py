"""pydantic-ai, with both of its models of OpenAI."""

import json
import sys

import pydantic
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Trip(pydantic.BaseModel):
    """Where to, and how long."""

    city: str
    days: int


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def tell(check, result):
    print(json.dumps([check, result]))


def main(url, token):
    provider = OpenAIProvider(base_url=url, api_key=token)
    for name, kind in (("chat", OpenAIChatModel), ("response", OpenAIResponsesModel)):
        model = kind("bot", provider=provider)
        plain = Agent(model).run_sync("Hello?")
        tell(f"{name} plain", plain.output)
        used = plain.usage
        used = used() if callable(used) else used
        tell(f"{name} usage", [used.input_tokens > 0, used.output_tokens > 0])
        tell(f"{name} tools", Agent(model, tools=[add]).run_sync("2 and 3?").output)
        for way in (NativeOutput, ToolOutput, PromptedOutput):
            trip = Agent(model, output_type=way(Trip)).run_sync("JSON?").output
            tell(f"{name} structured {way.__name__}", trip.model_dump())
        try:
            Agent(kind("nobody", provider=provider)).run_sync("Hello?")
        except ModelHTTPError as error:
            tell(f"{name} errors", error.status_code)


main(*sys.argv[1:])
