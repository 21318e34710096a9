"""A whole agent against the stand-in: run loop, dialect, transport and a real socket."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

import weft
from tests.standins.gemini import GeminiModel, GeminiServer
from weft import Agent, RunConfig, Runner
from weft.errors import ModelError
from weft.models import Gemini, Retry
from weft.testing import call, cut, thought
from weft.values import JsonObject

MODEL = "gemini-3-flash-preview"
SCRIPT = [
    ["Let me look.", call("look", city="Oslo"), call("look", city="Rome")],
    call("look", city="Paris"),
    "Sun everywhere.",
    "You asked for three cities.",
]


def look(city: str) -> dict[str, str]:
    """The weather of a city."""
    return {"sky": f"sun over {city}"}


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer(SCRIPT) as running:
        yield running


@asynccontextmanager
async def gemini(server: GeminiServer, *, official: bool) -> AsyncIterator[Gemini]:
    """Weft's own transport, or the provider's client as the carrier."""
    if not official:
        yield Gemini(MODEL, api_key="any", base_url=server.url)
        return
    from google import genai
    from google.genai import types

    address = types.HttpOptions(base_url=server.url)
    client = genai.Client(api_key="any", http_options=address)
    yield Gemini(MODEL, client=client)
    await client.aio.aclose()
    client.close()


def contents(server: GeminiServer, index: int) -> list[JsonObject]:
    body = server.requests[index].body
    assert body is not None
    return body["contents"]


def signatures(turns: list[JsonObject]) -> list[str]:
    return [part["thoughtSignature"] for turn in turns for part in turn["parts"]
            if "thoughtSignature" in part]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("official", [False, True])
async def test_an_agent_calls_tools_and_goes_on_with_its_signatures(
    server: GeminiServer, official: bool, stream: bool
) -> None:
    config = RunConfig(stream=stream)
    async with gemini(server, official=official) as model:
        bot = Agent("bot", model=model, instruction="Help.").uses(look)
        first = await weft.run(bot, "How are Oslo, Rome and Paris?", config=config)
        assert first.text == "Sun everywhere."
        second = await weft.run(bot, "What did I ask?", session=first.session, config=config)
    assert second.text == "You asked for three cities."
    assert server.refusals == []
    assert server.remaining == 0
    kind = "streamGenerateContent?alt=sse" if stream else "generateContent"
    assert all(request.path.endswith(kind) for request in server.requests)
    sent = [signatures(contents(server, index)) for index in range(4)]
    assert [len(each) for each in sent] == [0, 1, 2, 3]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent))
    turns = contents(server, 3)
    assert [turn["role"] for turn in turns] == ["user", "model"] * 3 + ["user"]
    calls = [part for turn in turns for part in turn["parts"] if "functionCall" in part]
    assert ["thoughtSignature" in part for part in calls] == [True, False, True]
    assert [part["functionCall"]["args"]["city"] for part in calls] == ["Oslo", "Rome", "Paris"]


async def test_each_request_begins_with_the_bytes_of_the_one_before(server: GeminiServer) -> None:
    async with gemini(server, official=False) as model:
        bot = Agent("bot", model=model, instruction="Help.").uses(look)
        first = await weft.run(bot, "How are Oslo, Rome and Paris?")
        await weft.run(bot, "What did I ask?", session=first.session)
    for earlier, later in pairwise(server.requests):
        shared = earlier.raw.rpartition(b"]")[0]
        assert later.raw.startswith(shared)


async def test_the_event_says_what_the_service_said(server: GeminiServer) -> None:
    async with gemini(server, official=False) as model:
        events = [event async for event in weft.stream(Agent("bot", model=model).uses(look), "Hi")]
    whole = [event for event in events if event.author == "bot" and not event.partial]
    answers = [event for event in whole if not event.results]
    assert [event.finish_reason for event in answers] == ["STOP"] * 3
    assert {event.model_version for event in answers} == {MODEL}
    assert "".join(event.text for event in events if event.partial) == (
        "Let me look.Sun everywhere."
    )
    for event in answers:
        usage = event.usage
        assert usage is not None
        assert usage.total_token_count == (usage.prompt_token_count or 0) + (
            usage.candidates_token_count or 0
        )


async def test_a_long_instruction_is_read_from_the_cache_from_the_second_call_on() -> None:
    rules = " ".join(f"Rule {number}: be brief and kind." for number in range(600))
    with GeminiServer([call("look", city="Oslo"), "Sun.", "Yes."]) as server:
        bot = Agent("bot", model=Gemini(MODEL, api_key="any", base_url=server.url))
        runner = Runner(bot.instruct(rules).uses(look))
        first = await runner.run(session_id="s", message="Oslo?")
        second = await runner.run(session_id="s", message="Sure?")
    events = [*first.events, *second.events]
    used = [event.usage for event in events if event.usage is not None]
    prompts = [usage.prompt_token_count for usage in used]
    assert [usage.cached_content_token_count for usage in used] == [None, *prompts[:-1]]


async def test_thoughts_that_were_shown_go_back_as_they_came() -> None:
    script = [[thought("Oslo is in Norway."), "Cold."], "Very."]
    with GeminiServer(script) as server:
        model = Gemini(MODEL, api_key="any", base_url=server.url)
        bot = Agent("bot", model=model, generate_config={"thinking": {"include": True}})
        first = await weft.run(bot, "Oslo?")
        await weft.run(bot, "How cold?", session=first.session)
        assert server.refusals == []
        sent = contents(server, 1)[1]["parts"]
    assert first.events[-1].content is not None
    assert [part.thought for part in first.events[-1].content.parts or ()] == [True, None]
    assert sent[0] == {"text": "Oslo is in Norway.", "thought": True}
    assert sent[1]["text"] == "Cold."
    assert set(sent[1]) == {"text", "thoughtSignature"}


async def test_a_request_the_service_refuses_is_an_error_with_its_words() -> None:
    with GeminiServer(["never"], key="right") as server:
        wrong = Gemini(MODEL, api_key="wrong", base_url=server.url)
        with pytest.raises(ModelError) as auth:
            await _asked(wrong)
        missing = Gemini("gemini-0", api_key="right", base_url=server.url)
        with pytest.raises(ModelError) as unknown:
            await _asked(missing)
        assert len(server.requests) == 2
    assert auth.value.code == "auth"
    assert unknown.value.code == "not_found"
    assert "gemini-0" in str(unknown.value)


async def test_a_request_that_is_too_long_is_an_overflow() -> None:
    tiny = GeminiModel(MODEL, input_limit=30)
    with GeminiServer(["never"], models=[tiny]) as server:
        model = Gemini(MODEL, api_key="any", base_url=server.url)
        with pytest.raises(ModelError) as overflow:
            await _asked(model, "word " * 100)
    assert overflow.value.code == "context_overflow"


async def test_a_busy_service_is_asked_again_after_as_long_as_it_says() -> None:
    busy = ModelError("Resource has been exhausted.", code="rate_limited", retry_after=7.0)
    with GeminiServer([busy, cut("It ra"), "It rains."]) as server:
        waited: list[float] = []

        async def wait(seconds: float) -> None:
            waited.append(seconds)

        retry = Retry(attempts=4, first=0.01, sleep=wait)
        model = Gemini(MODEL, api_key="any", base_url=server.url, retries=retry)
        result = await weft.run(Agent("bot", model=model), "Oslo?")
    assert result.text == "It rains."
    assert len({request.raw for request in server.requests}) == 1
    assert len(server.requests) == 3
    assert 7.0 <= waited[0] < 7.1
    assert waited[1] <= 0.1


async def _asked(model: Gemini, message: str = "Hi") -> None:
    compiled = weft.compile(Agent("bot", model=model), message=message)
    async for _ in model.generate(compiled.prompt, compiled.wire, stream=False):
        pass
