"""OpenAI's own client: chats and responses."""

import json
import sys

import openai
import pydantic


class Trip(pydantic.BaseModel):
    city: str
    days: int


FUNCTION = {
    "name": "add",
    "description": "Add.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    },
}
HELLO = [{"role": "user", "content": "Hello?"}]


def tell(check, result):
    print(json.dumps([check, result]))


def chats(client):
    ask = client.chat.completions
    plain = ask.create(model="bot", messages=HELLO)
    tell("chat plain", plain.choices[0].message.content)
    tell("chat usage", [plain.usage.prompt_tokens > 0, plain.usage.completion_tokens > 0])
    stream = ask.create(
        model="bot", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    got = list(stream)
    tell(
        "chat streamed",
        [c.choices[0].delta.content for c in got if c.choices and c.choices[0].delta.content],
    )
    tell("chat streamed usage", got[-1].usage.total_tokens == plain.usage.total_tokens)
    messages = [{"role": "user", "content": "2 and 3?"}]
    tools = [{"type": "function", "function": FUNCTION}]
    called = ask.create(model="bot", messages=messages, tools=tools).choices[0].message
    (made,) = called.tool_calls
    total = sum(json.loads(made.function.arguments).values())
    messages += [called, {"role": "tool", "tool_call_id": made.id, "content": str(total)}]
    tell(
        "chat tools",
        ask.create(model="bot", messages=messages, tools=tools).choices[0].message.content,
    )
    trip = ask.parse(model="bot", messages=HELLO, response_format=Trip).choices[0].message.parsed
    tell("chat structured", trip.model_dump())
    with ask.stream(model="bot", messages=HELLO, response_format=Trip) as stream:
        stream.until_done()
        tell(
            "chat structured streamed",
            stream.get_final_completion().choices[0].message.parsed.model_dump(),
        )
    tell("chat errors", errors(lambda **more: ask.create(messages=HELLO, **more)))


def responses(client):
    ask = client.responses
    plain = ask.create(model="bot", input="Hello?")
    tell("response plain", plain.output_text)
    tell("response usage", [plain.usage.input_tokens > 0, plain.usage.output_tokens > 0])
    with ask.stream(model="bot", input="Hello?") as stream:
        tell(
            "response streamed", [e.delta for e in stream if e.type == "response.output_text.delta"]
        )
        tell("response streamed usage", stream.get_final_response().usage == plain.usage)
    tools = [{"type": "function", **FUNCTION}]
    called = ask.create(model="bot", input="2 and 3?", tools=tools)
    (made,) = called.output
    total = sum(json.loads(made.arguments).values())
    result = {"type": "function_call_output", "call_id": made.call_id, "output": str(total)}
    then = ask.create(model="bot", input=[result], previous_response_id=called.id, tools=tools)
    tell("response tools", then.output_text)
    tell(
        "response structured",
        ask.parse(model="bot", input="Hello?", text_format=Trip).output_parsed.model_dump(),
    )
    with ask.stream(model="bot", input="Hello?", text_format=Trip) as stream:
        stream.until_done()
        tell("response structured streamed", stream.get_final_response().output_parsed.model_dump())
    tell("response errors", errors(lambda **more: ask.create(input="Hello?", **more)))


def errors(ask):
    told = []
    for more in (
        {"model": "nobody"},
        {"model": "bot", "temperature": 99},
        {"model": "bot", "extra_body": {"x": 1}},
    ):
        try:
            ask(**more)
        except openai.APIStatusError as error:
            told.append([type(error).__name__, error.param])
    return told


def main(url, token):
    with openai.OpenAI(base_url=url, api_key=token, max_retries=0) as client:
        chats(client)
        responses(client)


main(*sys.argv[1:])
