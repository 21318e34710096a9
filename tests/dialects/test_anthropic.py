"""Anthropic Messages: what only it asks for."""

import pytest

from tests.dialects.prompts import (
    SIGNATURE,
    Scene,
    body,
    bot_with,
    compiled,
    said,
    scene,
    without_system,
    words_first,
)
from weft import RunConfig, compile
from weft.errors import LoweringError

NAME = "anthropic"


def test_the_head_comes_before_the_turns_in_the_order_it_is_hashed() -> None:
    wire = body("tool loop", NAME)
    assert list(wire) == ["model", "max_tokens", "tools", "system", "messages"]
    assert wire["model"] == "claude-sonnet-4-6"
    assert wire["max_tokens"] == 8192
    assert wire["system"] == "You are bot.\n\nBe brief."
    assert wire["tools"][1] == {
        "name": "ping",
        "description": "Answer.",
        "input_schema": {"type": "object", "properties": {}},
    }


def test_parallel_calls_are_answered_in_one_turn() -> None:
    assert body("parallel calls", NAME)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Look up a."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"key": "a"}},
                {"type": "tool_use", "id": "c2", "name": "ping", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "pong"},
            ],
        },
    ]


def test_results_come_first_in_the_turn_that_follows() -> None:
    last = body("words before the result", NAME)["messages"][-1]["content"]
    assert last == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
        {"type": "text", "text": "There."},
    ]
    assert [part["type"] for part in words_first(NAME)[-1]["content"]] == ["tool_result", "text"]


def test_without_system_text_there_is_no_field() -> None:
    assert "system" not in without_system(NAME)


def test_the_models_own_turn_has_no_images() -> None:
    assert body("image the model made", NAME)["messages"][1]["content"] == [
        {"type": "text", "text": "Here."},
        {"type": "text", "text": "[image/png: not carried]"},
    ]


def test_a_failed_call_is_marked() -> None:
    last = body("failed call", NAME)["messages"][-1]["content"]
    assert last == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "no such key", "is_error": True}
    ]


def test_a_thought_goes_back_before_its_call_with_its_signature() -> None:
    turn = body("thought signed by anthropic", NAME)["messages"][1]["content"]
    assert turn[0] == {"type": "thinking", "thinking": "Let me look.", "signature": SIGNATURE}
    assert turn[1]["type"] == "tool_use"
    assert said(compiled("thought signed by anthropic", NAME), NAME) == []


@pytest.mark.parametrize("name", ["gemini", "openai-chat", "openai-responses"])
def test_a_thought_of_another_provider_stays_behind(name: str) -> None:
    held = compiled(f"thought signed by {name}", NAME)
    assert [
        p["type"] for p in body(f"thought signed by {name}", NAME)["messages"][1]["content"]
    ] == ["tool_use"]
    assert said(held, NAME) == 2 * [f"info[WEFT704] a signature of {name} cannot go to anthropic"]


def test_a_signature_that_nobody_claims_is_not_sent() -> None:
    held = compiled("signature of nobody", NAME)
    assert "signature" not in str(held.lower(NAME)["messages"])
    assert said(held, NAME) == [
        "info[WEFT704] a signature of an unknown provider cannot go to anthropic"
    ]


def test_sealed_thinking_goes_back_as_it_came() -> None:
    turn = body("opaque part of anthropic", NAME)["messages"][1]["content"]
    assert turn[0] == {"type": "redacted_thinking", "data": "c2VhbGVk"}
    foreign = body("opaque part of openai-responses", NAME)["messages"][1]["content"]
    assert [part["type"] for part in foreign] == ["tool_use"]


def test_call_ids_become_legal_and_stay_apart() -> None:
    messages = body("call with an id of another alphabet", NAME)["messages"]
    asked = [part["id"] for part in messages[1]["content"]]
    answered = [part["tool_use_id"] for part in messages[2]["content"]]
    assert asked == answered == ["adk_1___2_24172061", "adk_1___2_70b715ac"]


def test_blank_text_is_not_sent() -> None:
    messages = body("blank text", NAME)["messages"]
    assert [part["type"] for part in messages[1]["content"]] == ["tool_use"]
    assert [m["role"] for m in messages] == ["user", "assistant", "user"]


def test_a_user_who_says_nothing_still_has_a_turn() -> None:
    held = compiled("the user says nothing", NAME)
    messages = body("the user says nothing", NAME)["messages"]
    assert [m["content"][0]["text"] for m in messages] == ["[blank]", "Yes?", "[blank]"]
    assert said(held, NAME) == 2 * ["warning[WEFT204] a blank turn reads `[blank]`"]


def test_documents_keep_their_kind() -> None:
    parts = body("text document", NAME)["messages"][0]["content"]
    assert parts[1] == {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "# Größe\n\nSehr groß."},
    }
    assert body("pdf", NAME)["messages"][0]["content"][1]["source"]["type"] == "base64"
    assert body("pdf at an address", NAME)["messages"][0]["content"][1] == {
        "type": "document",
        "source": {"type": "url", "url": "https://example.com/a.pdf"},
    }
    assert body("image at an address", NAME)["messages"][0]["content"][1] == {
        "type": "image",
        "source": {"type": "url", "url": "https://example.com/a.png"},
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("video", "[video/mp4: not carried]"),
        ("image of a rare type", "[image/heic: not carried]"),
        ("file in a bucket", "[image/png gs://bucket/a.png: not carried]"),
        ("bytes that only claim to be text", "[text/plain: not carried]"),
    ],
)
def test_what_cannot_be_carried_is_named(name: str, text: str) -> None:
    assert body(name, NAME)["messages"][0]["content"][1] == {"type": "text", "text": text}
    assert [line.split()[0] for line in said(compiled(name, NAME), NAME)] == ["warning[WEFT703]"]


def test_media_in_a_result_stays_in_it() -> None:
    result = body("image in a result", NAME)["messages"][-1]["content"][0]
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    silent = body("image in a result without words", NAME)["messages"][-1]["content"][0]
    assert [part["type"] for part in silent["content"]] == ["image"]


def test_types_are_read_without_their_trimmings() -> None:
    source = body("image under an old name", NAME)["messages"][0]["content"][0]["source"]
    assert source["media_type"] == "image/jpeg"
    empty = body("empty document", NAME)["messages"][0]["content"][0]
    assert empty == {"type": "text", "text": "[text/plain: not carried]"}


def test_an_answer_schema_is_a_format_of_the_output() -> None:
    wire = body("answer as a record", NAME)
    assert wire["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "description": "Who.",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        },
    }


def test_a_schema_that_recurs_is_asked_for_with_a_tool() -> None:
    wire = body("answer that recurs", NAME)
    assert "output_config" not in wire
    assert [tool["name"] for tool in wire["tools"]] == ["set_model_response"]


def test_a_schema_that_recurs_is_asked_for_in_words_when_compiled_for_another() -> None:
    held = compiled("answer that recurs", "gemini")
    wire = held.lower(NAME)
    assert "output_config" not in wire
    system = str(wire["system"])
    start = system.index("Reply with valid JSON matching this schema: {")
    assert str(held.origin("/system", start, dialect=NAME)) == "bot.output_schema"


def test_an_answer_by_a_tool_does_not_force_the_choice() -> None:
    wire = body("answer by a tool", NAME)
    assert [tool["name"] for tool in wire["tools"]] == ["lookup", "ping", "set_model_response"]
    assert "tool_choice" not in wire


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("option tool_choice = auto", {"type": "auto"}),
        ("option tool_choice = any", {"type": "any"}),
        ("option tool_choice = none", {"type": "none"}),
        ("option tool_choice = {'name': 'lookup'}", {"type": "tool", "name": "lookup"}),
        (
            "option parallel_tool_calls = False",
            {"disable_parallel_tool_use": True, "type": "auto"},
        ),
        ("choice and parallel together", {"disable_parallel_tool_use": True, "type": "any"}),
        ("no choice, nothing parallel", {"type": "none"}),
    ],
)
def test_tool_choice(name: str, choice: dict[str, object]) -> None:
    assert body(name, NAME)["tool_choice"] == choice


def test_a_choice_without_tools_is_left_out() -> None:
    held = compiled("choice without tools", NAME)
    assert "tool_choice" not in held.lower(NAME)
    assert said(held, NAME) == ["info[WEFT702] `tool_choice` is left out: the request has no tools"]


def test_thinking_and_the_room_it_needs() -> None:
    wire = body("option thinking = {'budget': 20000}", NAME)
    assert wire["thinking"] == {"type": "enabled", "budget_tokens": 20000}
    assert wire["max_tokens"] == 28192
    wire = body("option thinking = {'effort': 'low', 'include': True}", NAME)
    assert wire["output_config"] == {"effort": "low"}
    assert wire["thinking"] == {"type": "adaptive", "display": "summarized"}
    off = {"type": "disabled"}
    assert body("option thinking = {'budget': 0}", NAME)["thinking"] == off
    assert body("option thinking = {'budget': 0, 'include': True}", NAME)["thinking"] == off


def test_an_effort_nobody_knows_is_reported() -> None:
    held = Scene("effort", bot_with(thinking={"effort": "minimal"}), message="Hi").compile(NAME)
    assert said(held, NAME) == [
        "warning[WEFT702] claude-sonnet-4-6 has no effort `minimal`: `low` is asked for"
    ]


def test_effort_and_format_share_their_place() -> None:
    agent = bot_with(thinking={"effort": "low"}).returns(
        scene("answer as a record").agent.output_schema
    )
    held = Scene("both", agent, message="Hi").compile(NAME)
    assert sorted(held.lower(NAME)["output_config"]) == ["effort", "format"]  # type: ignore[arg-type]
    assert str(held.origin("/output_config/effort")) == "bot.generate_config"
    assert str(held.origin("/output_config/format")) == "bot.output_schema"


def test_the_newest_models_take_neither_sampling_nor_budgets() -> None:
    older = body("option temperature = 0.5", NAME)
    assert older["temperature"] == 0.5
    held = compiled("sampling for the newest models", NAME)
    assert "temperature" not in held.lower(NAME)
    assert said(held, NAME) == ["warning[WEFT702] anthropic has no option `temperature`"]
    wire = body("thinking for the newest models", NAME)
    assert wire["thinking"] == {"type": "adaptive"}
    assert wire["max_tokens"] == 8192


@pytest.mark.parametrize("option", ["seed", "presence_penalty", "frequency_penalty", "logprobs"])
def test_an_option_it_has_not_is_reported_and_refused_under_strict(option: str) -> None:
    agent = bot_with(**{option: 1})
    held = Scene("x", agent, message="Hi").compile(NAME)
    assert said(held, NAME) == [f"warning[WEFT702] anthropic has no option `{option}`"]
    strict = RunConfig(model="claude-opus-5", strict=True)
    with pytest.raises(LoweringError, match=option):
        compile(agent, message="Hi", config=strict).lower(NAME)


def test_every_place_knows_where_it_came_from() -> None:
    held = compiled("tool loop", NAME)
    assert str(held.origin("/system", 16)) == "bot.instruction:0"
    assert str(held.origin("/max_tokens")) == "dialect anthropic"
    assert str(held.origin("/tools/0/description")) == "bot.tools.lookup"
    assert str(held.origin("/messages/1/content/0/input/key")) == "event e1#0"
    assert str(held.origin("/messages/2/content/0/content")) == "event e2#0"
