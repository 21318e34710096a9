"""LangChain, over chats and over responses."""

import json
import sys

import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


class Trip(pydantic.BaseModel):
    """Where to, and how long."""

    city: str
    days: int


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def tell(check, result):
    print(json.dumps([check, result]))


def text_of(message):
    return message.content if isinstance(message.content, str) else message.text


def main(url, token):
    for name, is_response in (("chat", False), ("response", True)):

        def model(model="bot", is_response=is_response, **options):
            return ChatOpenAI(
                model=model,
                base_url=url,
                api_key=token,
                max_retries=0,
                use_responses_api=is_response,
                **options,
            )

        plain = model().invoke("Hello?")
        tell(f"{name} plain", text_of(plain))
        used = plain.usage_metadata
        tell(f"{name} usage", [used["input_tokens"] > 0, used["output_tokens"] > 0])
        chunks = list(model(stream_usage=True).stream("Hello?"))
        tell(f"{name} streamed", [text_of(chunk) for chunk in chunks if text_of(chunk)])
        bound = model().bind_tools([add])
        messages = [HumanMessage("2 and 3?")]
        called = bound.invoke(messages)
        (made,) = called.tool_calls
        messages += [called, ToolMessage(str(add.invoke(made["args"])), tool_call_id=made["id"])]
        tell(f"{name} tools", text_of(bound.invoke(messages)))
        for method in ("json_schema", "function_calling", "json_mode"):
            structured = model().with_structured_output(Trip, method=method)
            tell(f"{name} structured {method}", structured.invoke("JSON?").model_dump())
        *_, last = model().with_structured_output(Trip, method="json_schema").stream("Hello?")
        tell(f"{name} structured streamed", last.model_dump())
        try:
            model(model="nobody").invoke("Hello?")
        except openai.NotFoundError as error:
            tell(f"{name} errors", error.param)


main(*sys.argv[1:])
