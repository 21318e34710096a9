"""Who calls the stub: bare HTTP, each vendor's SDK, Weft's model alone, all of Weft.

Each is a function of the address and the dialect that gives a `Caller`: how it makes one call
that answers whole, and one that streams. All send the same conversation; bare HTTP and the SDKs
are given the request that Weft lowers it to, and Weft makes it anew at every call.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

from sessions import QUESTION, events, get_weather

import weft
from weft import Agent, RunConfig, Runner, Session
from weft.models import Model
from weft.session import SessionKey

MESSAGES = 40
"""Events of the session before the question: with it, 41 messages. A session that goes on begins
with a turn less and grows by two messages a call, so that it has as many on average."""

STATE = {"location": "NYC"}
MODELS = {
    "gemini": "gemini-flash-latest",
    "anthropic": "claude-sonnet-5",
    "openai-chat": "gpt-5",
    "openai-responses": "gpt-5",
}
PACKAGES = {
    "gemini": "google-genai",
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
}


async def nothing() -> None:
    """What most callers need before they are measured."""


@dataclass
class Caller:
    """Calls that each give the text that came; and what is done before some of them are timed."""

    whole: Callable[[], Awaitable[str]]
    stream: Callable[[], Awaitable[str]]
    ready: Callable[[], Awaitable[None]] = nothing


def conversation() -> Session:
    """The session that all of them go on with."""
    return Session("s", state=STATE, events=events(MESSAGES))


def request(dialect: str) -> dict:
    """The request that Weft makes of it."""
    bot = _bot(MODELS[dialect])
    compiled = weft.compile(bot, session=conversation(), message=QUESTION)
    return compiled.lower(dialect)


def _bot(model: "str | Model") -> Agent:
    return Agent(
        "bot",
        model=model,
        instruction="You help users with weather. The user is in {location}.",
        tools=[get_weather],
    )


def bare(url: str, dialect: str) -> Caller:
    """`json.dumps`, `post`, `json.loads`; and a loop over the lines of a stream."""
    import httpx2

    client = httpx2.AsyncClient()
    wire = request(dialect)
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    name = MODELS[dialect]
    path = PATHS.get(dialect) or f"/v1beta/models/{name}:generateContent"
    flowing = PATHS.get(dialect) or f"/v1beta/models/{name}:streamGenerateContent?alt=sse"
    asked = {} if dialect == "gemini" else {"stream": True}

    async def whole() -> str:
        body = json.dumps(wire).encode()
        response = await client.post(url + path, content=body, headers=headers)
        return _said(dialect, json.loads(response.content))

    async def stream() -> str:
        body = json.dumps(wire | asked).encode()
        pieces: list[str] = []
        async with client.stream("POST", url + flowing, content=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    pieces.append(_delta(dialect, json.loads(line[6:])))
        return "".join(pieces)

    return Caller(whole, stream)


def _said(dialect: str, body: dict) -> str:
    match dialect:
        case "gemini":
            return body["candidates"][0]["content"]["parts"][0]["text"]
        case "anthropic":
            return body["content"][0]["text"]
        case "openai-chat":
            return body["choices"][0]["message"]["content"]
        case _:
            return body["output"][0]["content"][0]["text"]


def _delta(dialect: str, event: dict) -> str:
    match dialect:
        case "gemini":
            return event["candidates"][0]["content"]["parts"][0]["text"]
        case "anthropic":
            return event["delta"]["text"] if event["type"] == "content_block_delta" else ""
        case "openai-chat":
            return (event["choices"][0]["delta"].get("content") or "") if event["choices"] else ""
        case _:
            return event["delta"] if event["type"] == "response.output_text.delta" else ""


def sdk(url: str, dialect: str) -> Caller:
    """The vendor's client, given the request as plain dicts."""
    wire = request(dialect)
    match dialect:
        case "gemini":
            return _google(url, wire)
        case "anthropic":
            return _anthropic(url, wire)
        case "openai-chat":
            return _openai_chat(url, wire)
        case _:
            return _openai_responses(url, wire)


def _google(url: str, wire: dict) -> Caller:
    from google import genai

    client = genai.Client(api_key="x", http_options={"base_url": url, "api_version": "v1beta"})
    config = {"system_instruction": wire["systemInstruction"], "tools": wire["tools"]}
    asked = {"model": MODELS["gemini"], "contents": wire["contents"], "config": config}

    async def whole() -> str:
        return (await client.aio.models.generate_content(**asked)).text

    async def stream() -> str:
        pieces = await client.aio.models.generate_content_stream(**asked)
        return "".join([piece.text or "" async for piece in pieces])

    return Caller(whole, stream)


def _anthropic(url: str, wire: dict) -> Caller:
    from anthropic import AsyncAnthropic

    client = AsyncAnthropic(api_key="x", base_url=url)

    async def whole() -> str:
        return (await client.messages.create(**wire)).content[0].text

    async def stream() -> str:
        pieces = await client.messages.create(**wire, stream=True)
        found = [event async for event in pieces]
        return "".join(e.delta.text for e in found if e.type == "content_block_delta")

    return Caller(whole, stream)


def _openai_chat(url: str, wire: dict) -> Caller:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="x", base_url=f"{url}/v1")

    async def whole() -> str:
        return (await client.chat.completions.create(**wire)).choices[0].message.content

    async def stream() -> str:
        pieces = await client.chat.completions.create(**wire, stream=True)
        found = [chunk async for chunk in pieces]
        return "".join(c.choices[0].delta.content or "" for c in found if c.choices)

    return Caller(whole, stream)


def _openai_responses(url: str, wire: dict) -> Caller:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="x", base_url=f"{url}/v1")

    async def whole() -> str:
        return (await client.responses.create(**wire)).output_text

    async def stream() -> str:
        pieces = await client.responses.create(**wire, stream=True)
        found = [event async for event in pieces]
        return "".join(e.delta for e in found if e.type == "response.output_text.delta")

    return Caller(whole, stream)


def _model(url: str, dialect: str) -> Model:
    from weft.models import Anthropic, Gemini, OpenAI

    match dialect:
        case "gemini":
            return Gemini(MODELS[dialect], api_key="x", base_url=url)
        case "anthropic":
            return Anthropic(MODELS[dialect], api_key="x", base_url=url)
        case "openai-chat":
            return OpenAI(MODELS[dialect], api="chat", api_key="x", base_url=f"{url}/v1")
        case _:
            return OpenAI(MODELS[dialect], api="responses", api_key="x", base_url=f"{url}/v1")


def model(url: str, dialect: str) -> Caller:
    """Weft's model alone: a compiled request is sent, the answer is lifted."""
    asked = _model(url, dialect)
    compiled = weft.compile(_bot(MODELS[dialect]), session=conversation(), message=QUESTION)
    wire = compiled.lower(dialect)

    async def whole() -> str:
        found = [r async for r in asked.generate(compiled.prompt, wire, stream=False)]
        return found[-1].text

    async def stream() -> str:
        answers = asked.generate(compiled.prompt, wire, stream=True)
        return "".join([answer.text async for answer in answers if answer.partial])

    return Caller(whole, stream)


def runner(url: str, dialect: str) -> Caller:
    """Weft as an application has it: a runner, and a session in its store that goes on."""
    running = Runner(_bot(_model(url, dialect)))
    numbers = count()
    name = ""

    async def ready() -> None:
        """A session whose last turn was compiled, as it is when a conversation goes on."""
        nonlocal name
        name = f"s{next(numbers)}"
        key = SessionKey(running.app_name, "user", name)
        await running.store.append(
            await running.store.create(key, state=STATE), *events(MESSAGES - 5)
        )
        await running.run(session_id=name, message=QUESTION)

    async def whole() -> str:
        return (await running.run(session_id=name, message=QUESTION)).text

    async def stream() -> str:
        told = running.run(session_id=name, message=QUESTION, config=RunConfig(stream=True))
        return "".join([event.text async for event in told if event.partial])

    return Caller(whole, stream, ready)


def run(url: str, dialect: str) -> Caller:
    """Weft in one call: `weft.run` over a session that nothing else has seen before."""
    bot = _bot(_model(url, dialect))
    session = conversation()

    async def whole() -> str:
        return (await weft.run(bot, QUESTION, session=session)).text

    async def stream() -> str:
        told = weft.stream(bot, QUESTION, session=session)
        return "".join([event.text async for event in told if event.partial])

    return Caller(whole, stream)


CALLERS: dict[str, Callable[[str, str], Caller]] = {
    each.__name__: each for each in (bare, sdk, model, runner, run)
}
