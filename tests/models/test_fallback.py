"""Models that stand in for one another, over real sockets and across dialects."""

from dataclasses import dataclass

import pytest

import weft
from tests.models.answers import DIALECTS, events, whole
from tests.models.server import Server, Turn, page, says, streams
from tests.models.test_http import model_of
from weft import Agent, Event
from weft.errors import DeclarationError, UsageError
from weft.models import Anthropic, FallbackModel, Gemini, Model, OpenAI
from weft.testing import ScriptedModel, call, thought

DOWN = says({"error": {"message": "down"}}, 503)


def weft_of(event: Event) -> dict[str, object]:
    return (event.custom_metadata or {})["weft"]


@pytest.mark.parametrize("first", DIALECTS)
@pytest.mark.parametrize("second", DIALECTS)
async def test_the_next_model_answers_in_its_own_dialect(first: str, second: str) -> None:
    with Server(DOWN) as down, Server(says(whole(second))) as up:
        model = FallbackModel(model_of(first, down), model_of(second, up))
        assert (model.name, model.dialect) == ("x", first)
        agent = Agent("bot", model=model, instruction="Be kind.")
        result = await weft.run(agent, "hi")
        assert result.text == "Hello there"
        alone = weft.compile(Agent("bot", model=model_of(second, up), instruction="Be kind."),
                             message="hi")  # fmt: skip
        assert up.received[0].json == alone.wire
    told = weft_of(result.events[-1])
    assert told["provider"] == second
    assert told["model"] == "x"
    assert told["fallback"] == [{"model": "x", "code": "overloaded"}]


@pytest.mark.parametrize(
    ("turn", "falls"),
    [
        (says({}, 429), True),
        (says({}, 401), True),
        (says({}, 404), True),
        (page(), True),
        (Turn(reset=True), True),
        (says({"error": {"message": "bad option"}}, 400), False),
        (says({"error": {"code": "context_length_exceeded", "message": "m"}}, 400), False),
    ],
    ids=["429", "401", "404", "html", "reset", "400", "overflow"],
)
async def test_only_what_another_model_may_not_have_falls_through(turn: Turn, falls: bool) -> None:
    with Server(turn) as bad, Server(says(whole("anthropic"))) as good:
        model = FallbackModel(model_of("openai-chat", bad), model_of("anthropic", good))
        result = await weft.run(Agent("bot", model=model), "hi")
        assert len(good.received) == int(falls)
        assert bool(result.text) is falls


async def test_a_missing_key_falls_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = FallbackModel("gpt-5", ScriptedModel(["fine"]))
    result = await weft.run(Agent("bot", model=model), "hi")
    assert result.text == "fine"
    assert weft_of(result.events[-1])["fallback"] == [{"model": "gpt-5", "code": "auth"}]


async def test_nobody_else_is_asked_once_a_piece_was_shown() -> None:
    cut = streams(events("openai-chat")[:1], ends=False)
    other = ScriptedModel(["fine"])
    with Server(cut) as server:
        model = FallbackModel(model_of("openai-chat", server), other)
        shown = [event async for event in weft.stream(Agent("bot", model=model), "hi")]
    assert shown[-1].error_code == "cut_stream"
    assert other.calls == 0


async def test_the_first_models_answer_says_whose_it_is_too() -> None:
    result = await weft.run(Agent("bot", model=FallbackModel(ScriptedModel(["fine"]))), "hi")
    assert weft_of(result.events[-1]) == {"provider": "gemini", "model": "scripted"}


async def test_where_nobody_answers_all_of_them_are_named() -> None:
    with Server(DOWN) as server:
        model = FallbackModel(model_of("openai-chat", server), model_of("gemini", server))
        result = await weft.run(Agent("bot", model=model), "hi")
        message = result.events[-1].error_message or ""
        assert result.events[-1].error_code == "overloaded"
        assert "none of 2 models answered" in message
        assert message.count("down") == 2
        server.script = (says(whole("openai-chat")),)
        again = await weft.run(Agent("bot", model=model), "again", session=result.session)
        assert again.text == "Hello there"


async def test_what_is_sealed_for_one_model_does_not_go_to_another() -> None:
    seen = thought("hm", signature="c2ln", provider="anthropic")
    first = ScriptedModel([[seen, call("look")], RuntimeError("gone")], dialect="anthropic")
    with Server(says(whole("gemini"))) as server:
        model = FallbackModel(first, model_of("gemini", server))

        @weft.tool
        def look() -> str:
            """Look."""
            return "rain"

        result = await weft.run(Agent("bot", model=model, tools=[look]), "hi")
        assert result.text == "Hello there"
        assert b"c2ln" not in server.received[0].body
        assert "rain" in server.received[0].body.decode()
    lost = weft_of(result.events[-1])["lost"]
    assert isinstance(lost, list)
    assert "WEFT704" in str(lost)


@dataclass
class Trip:
    """Where to."""

    city: str


async def test_a_schema_is_put_in_words_for_a_model_that_takes_it_no_other_way() -> None:
    with Server(DOWN) as down, Server(says(whole("gemini", '{"city": "Oslo"}'))) as up:
        second = Gemini("gemma-3-4b", base_url=up.url, api_key="k")
        first = Gemini("gemini-3-pro", base_url=down.url, api_key="k", retries=0)
        agent = Agent("bot", model=FallbackModel(first, second), output_schema=Trip)
        result = await weft.run(agent, "hi")
        assert result.value == Trip("Oslo")
        sent = up.received[0].json
    assert "responseJsonSchema" not in sent.get("generationConfig", {})
    assert "matching this schema" in sent["systemInstruction"]["parts"][0]["text"]


async def test_fallbacks_can_be_nested_and_the_codes_chosen() -> None:
    with Server(says({}, 401)) as server:
        strict = FallbackModel(
            model_of("openai-chat", server), ScriptedModel(["no"]), on=["overloaded"]
        )
        model = FallbackModel(strict, ScriptedModel(["yes"]))
        result = await weft.run(Agent("bot", model=model), "hi")
    assert result.text == "yes"


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(DeclarationError, match="no models"):
        FallbackModel()
    with pytest.raises(DeclarationError, match="is not a model"):
        FallbackModel(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no client"):
        FallbackModel("no-such-model")


def test_every_class_is_a_model() -> None:
    models = (OpenAI("x"), Anthropic("x"), Gemini("x"), FallbackModel("gpt-5"))
    assert all(isinstance(model, Model) for model in models)
