"""What is read is understood, and not only kept: it stands where Weft's own would stand."""

import pytest

from tests.dialects.requests import REQUESTS
from weft.dialects import dialect_named
from weft.errors import UsageError
from weft.ir import (
    Block,
    CallBlock,
    MediaBlock,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.recordings.requests import read_request
from weft.values import JsonObject


def told(dialect: str, name: str) -> Prompt:
    return read_request(dialect, REQUESTS[dialect][name], "gemini-2.5-flash")


def blocks(prompt: Prompt) -> list[Block]:
    return [block for item in prompt.items for block in item.blocks]


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai-chat"])
def test_a_plain_text_keeps_nothing_of_its_request(dialect: str) -> None:
    (block,) = blocks(told(dialect, "a text"))
    assert isinstance(block, TextBlock)
    assert block.text == "What is new?"
    assert block.kept is None


def test_a_plain_request_has_no_options_of_the_providers_own() -> None:
    assert told("anthropic", "a text").config == {"max_output_tokens": 4096}
    assert told("gemini", "a text").config == {}
    assert told("openai-chat", "a text").config == {"extra": {"openai-chat": {"stream": False}}}


def test_options_have_their_canonical_names() -> None:
    config = told("anthropic", "sampling").config
    assert config == {
        "temperature": 0.2,
        "top_p": 0.9,
        "top_k": 40,
        "max_output_tokens": 4096,
        "stop_sequences": ["Stop"],
    }
    chat = told("openai-chat", "options").config
    assert chat["max_output_tokens"] == 50
    assert chat["logprobs"] == 3
    assert chat["user"] == "u1"
    gemini = told("gemini", "options").config
    assert gemini["thinking"] == {"budget": 0, "include": True}
    assert gemini["temperature"] == 0
    assert gemini["logprobs"] == 2


@pytest.mark.parametrize(
    ("dialect", "name", "choice"),
    [
        ("anthropic", "a forced tool", {"name": "weather"}),
        ("anthropic", "no tool by choice", "none"),
        ("gemini", "a forced tool", {"name": "weather"}),
        ("openai-chat", "tools of all kinds", "any"),
        ("openai-chat", "a forced tool", {"name": "weather"}),
        ("openai-responses", "a forced tool", {"name": "weather"}),
    ],
)
def test_a_tool_choice_is_read(dialect: str, name: str, choice: object) -> None:
    assert told(dialect, name).config["tool_choice"] == choice


def test_thinking_is_read_in_every_dialect() -> None:
    assert told("anthropic", "a thinking budget").config["thinking"] == {"budget": 1024}
    shown = told("anthropic", "thinking that is shown").config["thinking"]
    assert shown == {"budget": -1, "effort": "xhigh", "include": True}
    assert told("openai-chat", "an effort").config["thinking"] == {"effort": "high"}
    reasoned = told("openai-responses", "reasoning").config["thinking"]
    assert reasoned == {"effort": "low", "include": True}
    assert told("gemini", "a level of thinking").config["thinking"] == {"effort": "high"}


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai-chat", "openai-responses"])
def test_the_answers_schema_is_read(dialect: str) -> None:
    output = told(dialect, "a schema for the answer").output
    assert output is not None
    assert output.how == "native"
    assert output.schema["required"] == ["city"]


def test_a_schema_in_the_providers_own_form_is_read_as_json_schema() -> None:
    output = told("gemini", "a schema in the provider's form").output
    assert output is not None
    assert output.schema == {"type": "object", "properties": {"a": {"type": "string"}}}
    typed = next(t for t in told("gemini", "tools of all kinds").tools if t.name == "c")
    nullable = typed.parameters["properties"]
    assert nullable == {"my_city": {"anyOf": [{"type": "string"}, {"type": "null"}]}}


def test_tools_stay_in_their_order_with_those_of_the_providers_own() -> None:
    tools = told("openai-responses", "tools of all kinds").tools
    assert [tool.name for tool in tools] == [
        "web_search", "weather", "bare", "mcp", "loose", "code_interpreter", "grep", "n",
    ]  # fmt: skip
    assert [tool.own is None for tool in tools] == [
        False, True, True, False, True, False, False, False,
    ]  # fmt: skip


def test_a_tool_of_one_provider_is_left_out_for_another_and_said() -> None:
    prompt = told("anthropic", "tools of the provider's own between others")
    lowered = dialect_named("openai-chat").lower(prompt)
    tools = lowered.wire["tools"]
    assert isinstance(tools, list)
    assert len(tools) == 1
    said = [str(found) for found in lowered.diagnostics if "has no tool" in found.message]
    assert len(said) == 2


def test_calls_and_results_find_each_other() -> None:
    for dialect in ("gemini", "openai-chat"):
        found = blocks(told(dialect, "calls and results"))
        calls = [block for block in found if isinstance(block, CallBlock)]
        results = [block for block in found if isinstance(block, ResultBlock)]
        assert {block.name for block in calls} == {block.name for block in results}
        assert calls[0].args in ({"city": None}, {"my_city": None})


def test_results_are_read_as_text_media_and_failure() -> None:
    (result,) = (b for b in blocks(told("anthropic", "a result as text")) if _is_result(b))
    assert isinstance(result, ResultBlock)
    assert (result.name, result.response, result.kept) == ("weather", {"result": "Sunny."}, None)
    failed = next(b for b in blocks(told("anthropic", "a result that failed")) if _is_result(b))
    assert isinstance(failed, ResultBlock)
    assert failed.is_error
    shown = next(b for b in blocks(told("anthropic", "a result with an image")) if _is_result(b))
    assert isinstance(shown, ResultBlock)
    assert [media.mime_type for media in shown.media] == ["image/png"]


def _is_result(block: Block) -> bool:
    return isinstance(block, ResultBlock)


def test_media_is_read_for_what_it_is() -> None:
    for dialect, kinds in {
        "openai-chat": ["image/png", "image/png", "audio/wav", "application/pdf"],
        "openai-responses": [
            "image/png", "image/png", "application/pdf", "text/plain", "application/pdf",
        ],
        "gemini": [
            "image/png", "application/octet-stream", "audio/mpeg", "text/plain", "video/mp4",
        ],
    }.items():  # fmt: skip
        media = [b for b in blocks(told(dialect, "media of all kinds")) if type(b) is MediaBlock]
        assert [block.mime_type for block in media] == kinds


def test_what_only_the_provider_understands_is_opaque_and_its_own() -> None:
    found = blocks(told("openai-responses", "items of the provider's own"))
    opaque = [block for block in found if isinstance(block, OpaqueBlock)]
    assert len(opaque) >= 10
    assert {block.provider for block in opaque} == {"openai-responses"}


def test_reasoning_is_a_thought_with_its_seal() -> None:
    found = blocks(told("openai-responses", "reasoning, calls and results"))
    thoughts = [block for block in found if isinstance(block, ThoughtBlock)]
    assert [block.signature for block in thoughts] == 3 * ["c2VhbGVk"]
    claude = blocks(told("anthropic", "a result as text"))
    assert [b.text for b in claude if isinstance(b, ThoughtBlock)] == ["Let me see."]


def test_a_conversation_goes_on_with_another_provider() -> None:
    prompt = told("anthropic", "a result with an image")
    wire = dialect_named("openai-chat").lower(prompt).wire
    messages = wire["messages"]
    assert isinstance(messages, list)
    roles = [message["role"] for message in messages if isinstance(message, dict)]
    assert roles == ["user", "assistant", "tool", "user"]
    answer: JsonObject = messages[1] if isinstance(messages[1], dict) else {}
    assert answer["content"] == "I look."


def test_a_system_text_in_mid_conversation_reaches_a_provider_without_such_a_role() -> None:
    prompt = told("openai-chat", "system texts in mid-conversation")
    lowered = dialect_named("gemini").lower(prompt)
    assert "[system]: Be brief." in str(lowered.wire["contents"])
    assert [d.code for d in lowered.diagnostics if d.code == "WEFT708"] == 2 * ["WEFT708"]


def test_a_request_of_another_dialect_is_an_error_that_says_where() -> None:
    with pytest.raises(UsageError, match="'assistant' is not a role") as caught:
        read_request("gemini", {"contents": [{"role": "assistant", "parts": []}]})
    assert caught.value.where == "contents/0/role"
    with pytest.raises(UsageError, match="no object"):
        read_request("openai-chat", {"messages": ["hello"]})
