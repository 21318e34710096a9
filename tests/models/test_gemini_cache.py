"""Heads that the provider keeps by name, against the stand-in that keeps and forgets them."""

import asyncio
import logging
import time

import httpx2
import pytest

import weft
from tests.models.server import Server, says
from tests.standins.gemini import GeminiRequest, GeminiServer
from weft import Agent, RunConfig, Runner
from weft.errors import DeclarationError, ModelError
from weft.models import Gemini
from weft.models.gemini import Heads
from weft.session import Event
from weft.testing import call

MODEL = "gemini-2.5-flash"
RULES = " ".join(f"Rule {number}: be brief and kind." for number in range(400))
TOLD = {"candidates": [{"content": {"parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]}


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.models.gemini.HEADS", Heads())


def look(city: str) -> dict[str, str]:
    """The weather of a city."""
    return {"sky": f"sun over {city}"}


def gemini(server: GeminiServer, ttl: str | None = "1h", key: str = "any") -> Gemini:
    return Gemini(MODEL, api_key=key, base_url=server.url, explicit_cache=ttl)


def bot(model: Gemini, rules: str = RULES) -> Agent:
    return Agent("bot", model=model, instruction=rules).uses(look)


def made(server: GeminiServer) -> list[GeminiRequest]:
    return [one for one in server.requests if one.path.endswith("/cachedContents")]


def bodies(server: GeminiServer) -> list[dict[str, object]]:
    asked = [one for one in server.requests if "enerateContent" in one.path]
    return [one.body or {} for one in asked]


def name_in(event: Event) -> object:
    held = (event.custom_metadata or {}).get("weft")
    return held.get("cachedContent") if isinstance(held, dict) else None


@pytest.mark.parametrize("stream", [False, True])
async def test_the_head_is_sent_once_and_then_named(stream: bool) -> None:
    with GeminiServer([call("look", city="Oslo"), "Sun.", "Yes."]) as server:
        runner = Runner(bot(gemini(server)), config=RunConfig(stream=stream))
        first = await runner.run(session_id="s", message="Oslo?")
        second = await runner.run(session_id="s", message="Sure?")
        assert server.refusals == []
    assert second.text == "Yes."
    (creation,) = made(server)
    assert creation.body is not None
    assert creation.body.keys() == {"model", "systemInstruction", "tools", "ttl"}
    assert creation.body["model"] == f"models/{MODEL}"
    assert creation.body["ttl"] == "3600s"
    sent = bodies(server)
    assert len(sent) == 3
    names = {str(body["cachedContent"]) for body in sent}
    assert len(names) == 1
    assert all(body.keys() == {"cachedContent", "contents"} for body in sent)
    answers = [one for one in (*first.events, *second.events) if one.usage is not None]
    assert {str(name_in(event)) for event in answers} == names
    kept = [event.usage.cached_content_token_count or 0 for event in answers if event.usage]
    assert all(tokens > 2_048 for tokens in kept)


async def test_without_the_option_everything_is_sent_in_full() -> None:
    with GeminiServer(["Yes."]) as server:
        await weft.run(bot(gemini(server, ttl=None)), "Hi")
    assert made(server) == []
    assert "systemInstruction" in bodies(server)[0]


async def test_a_head_below_the_minimum_is_sent_in_full() -> None:
    with GeminiServer(["Yes.", "Yes."]) as server:
        agent = bot(gemini(server), "Be brief.")
        await weft.run(agent, "Hi")
        await weft.run(agent, "Hi")
    assert made(server) == []
    assert all("systemInstruction" in body for body in bodies(server))


async def test_sessions_at_once_have_the_head_kept_once() -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        agent = bot(gemini(server))
        await asyncio.gather(*(weft.run(agent, f"Question {number}") for number in range(8)))
    assert len(made(server)) == 1
    assert all("cachedContent" in body for body in bodies(server))


async def test_a_head_that_may_change_is_kept_only_once_it_came_twice() -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        agent = bot(gemini(server), RULES + " Today is {day}.")
        for day in ("Monday", "Tuesday", "Tuesday", "Tuesday"):
            await weft.run(agent, "Hi", state={"day": day})
    assert len(made(server)) == 1
    assert ["cachedContent" in body for body in bodies(server)] == [False, False, True, True]


async def test_a_static_head_is_another_one_if_its_tools_are() -> None:
    def find(city: str) -> str:
        """A city."""
        return city

    with GeminiServer(lambda request: "Yes.") as server:
        model = gemini(server)
        agents = [bot(model), bot(model).uses(find), bot(model).uses(find)]
        for agent in agents:
            await weft.run(agent, "Hi")
    assert len(made(server)) == 2
    assert ["cachedContent" in body for body in bodies(server)] == [True, False, True]


async def test_a_name_that_is_gone_costs_one_full_request_and_is_made_anew() -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        agent = bot(gemini(server))
        await weft.run(agent, "Hi")
        name = bodies(server)[0]["cachedContent"]
        headers = {"x-goog-api-key": "any"}
        async with httpx2.AsyncClient() as client:
            gone = await client.delete(f"{server.url}/v1beta/{name}", headers=headers)
        assert gone.status_code == 200
        second = await weft.run(agent, "Still there?")
        third = await weft.run(agent, "And now?")
    assert second.text == third.text == "Yes."
    assert name_in(second.events[-1]) is None
    assert len(made(server)) == 2
    named = [body.get("cachedContent") for body in bodies(server)]
    assert named[:3] == [name, name, None]
    assert named[3] not in (None, name)
    assert len(server.refusals) == 1


async def test_a_head_is_kept_anew_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        agent = bot(gemini(server))
        await weft.run(agent, "Hi")
        real = time.monotonic
        for later in (3_500, 3_570):
            monkeypatch.setattr("weft.models.gemini.now", lambda later=later: real() + later)
            await weft.run(agent, "Still there?")
        assert server.refusals == []
    assert len(made(server)) == 2
    first, second, third = (body["cachedContent"] for body in bodies(server))
    assert first == second != third


async def test_a_head_that_is_refused_is_sent_in_full_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replies = Server(says({"error": {"code": 400, "message": "no"}}, status=400), says(TOLD))
    with replies as server, caplog.at_level(logging.WARNING, logger="weft"):
        model = Gemini(MODEL, api_key="k", base_url=server.url, explicit_cache="1h")
        for _ in range(3):
            assert (await weft.run(bot(model), "Hi")).text == "Yes."
    paths = [one.path for one in server.received]
    assert ["cachedContents" in path for path in paths] == [True, False, False, False]
    told = [one for one in caplog.records if "not kept" in one.getMessage()]
    assert len(told) == 1


async def test_a_name_that_is_refused_at_once_is_not_made_again_right_away() -> None:
    lost = {"error": {"code": 403, "message": "CachedContent not found (or permission denied)"}}
    script = [says({"name": "cachedContents/a"}), says(lost, status=403), says(TOLD)]
    with Server(*script) as server:
        model = Gemini(MODEL, api_key="k", base_url=server.url, explicit_cache="1h")
        for _ in range(2):
            assert (await weft.run(bot(model), "Hi")).text == "Yes."
    assert len([one for one in server.received if "cachedContents" in one.path]) == 1


async def test_an_error_that_is_not_about_the_name_is_told() -> None:
    with GeminiServer([ModelError("Not today.", code="bad_request", status=400)]) as server:
        result = await weft.run(bot(gemini(server)), "Hi")
    assert result.events[-1].error_code == "bad_request"
    assert "Not today." in (result.events[-1].error_message or "")
    assert len(bodies(server)) == 1


async def test_another_key_has_another_name() -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        await weft.run(bot(gemini(server, key="one")), "Hi")
        await weft.run(bot(gemini(server, key="two")), "Hi")
    assert len(made(server)) == 2


async def test_the_providers_own_client_keeps_heads_too() -> None:
    with GeminiServer(lambda request: "Yes.") as server:
        from google import genai
        from google.genai import types

        client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=server.url))
        agent = bot(Gemini(MODEL, client=client, explicit_cache="1h"))
        await weft.run(agent, "Hi")
        await weft.run(agent, "Hi")
        assert server.refusals == []
        await client.aio.aclose()
        client.close()
    assert len(made(server)) == 1
    assert all("cachedContent" in body for body in bodies(server))


async def test_vertex_keeps_heads_beside_its_models() -> None:
    place = "projects/p/locations/global"
    with Server(says({"name": f"{place}/cachedContents/1"}), says(TOLD)) as server:
        url = f"{server.url}/v1/{place}/publishers/google"
        model = Gemini(
            MODEL, project="p", token=lambda: "t", base_url=url, explicit_cache="30m"
        )  # fmt: skip
        assert (await weft.run(bot(model), "Hi")).text == "Yes."
    creation, asked = server.received
    assert creation.path == f"/v1/{place}/cachedContents"
    assert creation.json["model"] == f"{place}/publishers/google/models/{MODEL}"
    assert creation.json["ttl"] == "1800s"
    assert asked.json["cachedContent"] == f"{place}/cachedContents/1"


async def test_what_the_author_keeps_himself_stays() -> None:
    with GeminiServer(["Yes."]) as server:
        own = {"extra": {"gemini": {"cachedContent": "cachedContents/mine"}}}
        agent = Agent("bot", model=gemini(server), instruction=RULES, generate_config=own)
        result = await weft.run(agent, "Hi")
    assert "cachedContents/mine" in (result.events[-1].error_message or "")
    assert made(server) == []
    assert len(bodies(server)) == 1


async def test_what_is_said_after_the_head_is_not_missed_in_the_cache() -> None:
    def used(prompt: int) -> dict[str, object]:
        counts = {"promptTokenCount": prompt, "cachedContentTokenCount": 3_000}
        return {**TOLD, "usageMetadata": {**counts, "totalTokenCount": prompt}}

    script = [says({"name": "cachedContents/a"}), says(used(9_000)), says(used(9_500))]
    with Server(*script) as server:
        model = Gemini(MODEL, api_key="k", base_url=server.url, explicit_cache="1h")
        runner = Runner(bot(model))
        await runner.run(session_id="s", message="word " * 6_000)
        second = await runner.run(session_id="s", message="Sure?")
    held = (second.events[-1].custom_metadata or {})["weft"]
    assert held == {"cachedContent": "cachedContents/a"}


@pytest.mark.parametrize("ttl", ["", "1 hour", "0s", "-1h", "1.5h", "forever", 3600, True])
def test_a_time_that_is_none_is_refused_where_it_is_written(ttl: str) -> None:
    with pytest.raises(DeclarationError, match="explicit_cache"):
        Gemini(MODEL, explicit_cache=ttl)
