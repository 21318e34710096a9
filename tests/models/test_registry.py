"""Models by name: who is asked, where, and with whose key."""

from collections.abc import Callable

import pytest

import weft
from tests.models.answers import whole
from tests.models.server import Server, says
from weft import Agent
from weft.dialects import facts_for
from weft.errors import UsageError
from weft.models import SERVICES, Anthropic, Gemini, OpenAI, model_for
from weft.models.remote import Remote


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in SERVICES.values():
        for name in (*service.keys, *service.tokens, *service.url_variables):
            monkeypatch.delenv(name, raising=False)


def found(name: str) -> Remote:
    model = model_for(name, where="bot.model")
    assert isinstance(model, Remote)
    return model


@pytest.mark.parametrize(
    ("name", "kind", "address"),
    [
        ("gemini-3-pro", "Gemini", "https://generativelanguage.googleapis.com"),
        ("google/gemini-3-pro", "Gemini", "https://generativelanguage.googleapis.com"),
        ("claude-sonnet-5", "Anthropic", "https://api.anthropic.com"),
        ("anthropic/claude-sonnet-5", "Anthropic", "https://api.anthropic.com"),
        ("gpt-5", "OpenAI", "https://api.openai.com/v1"),
        ("o3", "OpenAI", "https://api.openai.com/v1"),
        ("codex-mini", "OpenAI", "https://api.openai.com/v1"),
        ("openai/gpt-5", "OpenAI", "https://api.openai.com/v1"),
        ("openai-chat/gpt-5", "OpenAI", "https://api.openai.com/v1"),
        ("openrouter/anthropic/claude-sonnet-5", "OpenAI", "https://openrouter.ai/api/v1"),
        ("groq/openai/gpt-oss-20b", "OpenAI", "https://api.groq.com/openai/v1"),
        ("ollama/qwen3:8b", "OpenAI", "http://localhost:11434/v1"),
        ("vllm/Qwen/Qwen3-8B", "OpenAI", "http://localhost:8000/v1"),
        ("lmstudio/any", "OpenAI", "http://localhost:1234/v1"),
        ("http://host:1/v1#m", "OpenAI", "http://host:1/v1"),
    ],
)
def test_a_name_finds_its_class_and_its_address(name: str, kind: str, address: str) -> None:
    model = found(name)
    assert type(model).__name__ == kind
    assert model.address == address
    assert model.name == name
    assert model.dialect == facts_for(name).dialect


@pytest.mark.parametrize("service", sorted(set(SERVICES) - {"azure"}))
def test_every_service_can_be_named(service: str) -> None:
    model = found(f"{service}/some-model")
    assert model.service.name == service
    assert model.address.startswith("http")


def test_a_model_is_made_once() -> None:
    assert model_for("gpt-5", where="a") is model_for("gpt-5", where="b")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claud-sonnet-4-5", "did you mean `claude-sonnet-4-5`"),
        ("no-such-thing-at-all", "gemini-*, claude-*, gpt-*"),
        ("gorq/llama", "did you mean `groq/...`"),
        ("nobody/llama", "known: gemini, anthropic, openai"),
        ("groq/", "write groq/MODEL"),
        ("http://host/v1", "http://host/v1#MODEL"),
        ("vertex/gemini-3-pro", "vertexai=True"),
    ],
)
def test_a_name_nobody_knows_gets_the_forms_that_exist(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        model_for(name, where="bot.model")
    assert caught.value.where == "bot.model"
    assert words in caught.value.hint


@pytest.mark.parametrize(
    ("name", "variables", "path", "model", "key"),
    [
        ("openrouter/a/b", {"OPENROUTER_API_KEY": "k", "OPENROUTER_BASE_URL": "{url}/api/v1"},
         "/api/v1/chat/completions", "a/b", "Bearer k"),
        ("azure/mine", {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "{url}/"},
         "/openai/v1/chat/completions", "mine", None),
        ("ollama/q:1b", {"OLLAMA_HOST": "{host}"}, "/v1/chat/completions", "q:1b", None),
        ("{url}/v1#served", {"OPENAI_API_KEY": "not-for-you"},
         "/v1/chat/completions", "served", None),
        ("{url}/v1#a/b", {"WEFT_API_KEY": "k"}, "/v1/chat/completions", "a/b", "Bearer k"),
    ],
)  # fmt: skip
async def test_a_name_is_enough_to_run(
    name: str, variables: dict[str, str], path: str, model: str, key: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with Server(says(whole("openai-chat"))) as server:
        filled = {"url": server.url, "host": server.url.removeprefix("http://")}
        for variable, text in variables.items():
            monkeypatch.setenv(variable, text.format(**filled))
        agent = Agent("bot", model=name.format(**filled))
        assert (await weft.run(agent, "hi")).text == "Hello there"
        (sent,) = server.received
    assert sent.path == path
    assert sent.json["model"] == model
    assert sent.headers.get("authorization") == key
    if name.startswith("azure"):
        assert sent.headers["api-key"] == "k"


async def test_azure_without_an_endpoint_says_which_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    result = await weft.run(Agent("bot", model="azure/mine"), "hi")
    assert result.events[-1].error_code == "bad_request"
    assert "AZURE_OPENAI_ENDPOINT" in (result.events[-1].error_message or "")


async def test_mistral_is_not_asked_for_the_usage_of_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Server(says(whole("openai-chat"))) as server:
        monkeypatch.setenv("MISTRAL_API_KEY", "k")
        monkeypatch.setenv("MISTRAL_BASE_URL", server.url)
        agent = Agent("bot", model="mistral/small")
        await weft.run(agent, "hi", config=weft.RunConfig(stream=True))
        assert "stream_options" not in server.received[0].json
        assert server.received[0].json["stream"] is True


@pytest.mark.parametrize("kind", [OpenAI, Anthropic, Gemini])
def test_a_wrong_option_names_the_class_and_the_right_one(kind: Callable[..., Remote]) -> None:
    with pytest.raises(TypeError) as caught:
        kind("some-model", bse_url="http://localhost")
    assert f"`bse_url` is not an option of {kind.__name__}" in str(caught.value)
    assert "did you mean `base_url`?" in str(caught.value)
