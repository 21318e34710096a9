"""OpenAI Chat Completions: what only it asks for."""

import pytest

from tests.dialects.prompts import (
    Scene,
    body,
    bot_with,
    compiled,
    log,
    said,
    without_system,
    words_first,
)
from weft.dialects import dialect_named

NAME = "openai-chat"


def test_the_system_text_is_the_first_turn() -> None:
    wire = body("plain text", NAME)
    assert wire == {
        "model": "gpt-4.1",
        "messages": [
            {"role": "system", "content": "You are bot.\n\nBe brief."},
            {"role": "user", "content": "Hi"},
        ],
    }
    held = compiled("plain text", NAME)
    assert str(held.origin("/messages/0/content", 16)) == "bot.instruction:0"
    assert str(held.origin("/messages/1/content")) == "event message#0"


def test_without_system_text_the_user_comes_first() -> None:
    assert without_system(NAME)["messages"] == [{"role": "user", "content": "Hi"}]


def test_results_come_before_the_users_words() -> None:
    assert [turn["role"] for turn in words_first(NAME)[-2:]] == ["tool", "user"]


def test_parallel_calls_are_answered_by_a_turn_each() -> None:
    assert body("parallel calls", NAME)["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "lookup", "arguments": '{"key":"a"}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "ping", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "pong"},
    ]


def test_a_call_without_words_has_null_content() -> None:
    assert body("tool loop", NAME)["messages"][2]["content"] is None


def test_a_failure_says_that_it_is_one() -> None:
    assert body("failed call", NAME)["messages"][-1]["content"] == '{"error":"no such key"}'


def test_texts_of_one_turn_are_one_string_that_knows_its_pieces() -> None:
    held = compiled("texts in several parts", NAME)
    assert body("texts in several parts", NAME)["messages"][-1] == {
        "role": "user",
        "content": "One.\n\nTwo.\n\nThree.",
    }
    places = [str(held.origin("/messages/1/content", at)) for at in (0, 4, 6, 12)]
    assert places == [
        "event message#0",
        "dialect blank line",
        "event message#1",
        "event message#2",
    ]


def test_user_media_by_kind() -> None:
    assert body("image", NAME)["messages"][1]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgowMDAw"}},
    ]
    sounds = body("audio", NAME, model="openai-chat/gpt-audio")["messages"][1]["content"][1:]
    assert [part["input_audio"]["format"] for part in sounds] == ["wav", "mp3"]
    assert body("pdf", NAME)["messages"][1]["content"][1] == {
        "type": "file",
        "file": {
            "filename": "document.pdf",
            "file_data": "data:application/pdf;base64,JVBERi0xLjcgMDAwMA==",
        },
    }
    assert body("text document", NAME)["messages"][1]["content"] == (
        "Read.\n\n# Größe\n\nSehr groß.\n\n{}"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("video", "Describe.\n\n[video/mp4: not carried]"),
        ("pdf at an address", "?\n\n[application/pdf https://example.com/a.pdf: not carried]"),
        ("file in a bucket", "?\n\n[image/png gs://bucket/a.png: not carried]"),
    ],
)
def test_what_cannot_be_carried_is_named(name: str, text: str) -> None:
    assert body(name, NAME)["messages"][1]["content"] == text
    assert [line.split()[0] for line in said(compiled(name, NAME), NAME)] == ["warning[WEFT703]"]


def test_media_of_results_follows_all_of_them() -> None:
    held = compiled("image in one of two results", NAME)
    turns = body("image in one of two results", NAME)["messages"][3:]
    assert [turn["role"] for turn in turns] == ["tool", "tool", "user"]
    assert [part["type"] for part in turns[2]["content"]] == ["text", "image_url"]
    assert turns[2]["content"][0]["text"] == "[shown by lookup]:"
    assert said(held, NAME) == [
        "info[WEFT703] the media of lookup follows its result in a user message"
    ]


def test_the_models_own_image_is_named_in_its_turn() -> None:
    turn = body("image the model made", NAME)["messages"][2]
    assert turn == {"role": "assistant", "content": "Here.\n\n[image/png: not carried]"}


def test_a_field_only_this_format_has_goes_back_beside_the_content() -> None:
    turn = body("opaque part of openai-chat", NAME)["messages"][2]
    assert turn["refusal"] == "I would rather not."
    assert turn["tool_calls"][0]["id"] == "c1"


def test_thoughts_stay_behind() -> None:
    held = compiled("thought signed by anthropic", NAME)
    assert "Let me look." not in str(held.lower(NAME))
    assert said(held, NAME) == 2 * [
        "info[WEFT704] a signature of anthropic cannot go to openai-chat"
    ]


def test_an_answer_schema_is_strict_where_it_can_be() -> None:
    held = body("answer as a record", NAME)["response_format"]
    assert held == {
        "type": "json_schema",
        "json_schema": {
            "name": "Person",
            "schema": {
                "type": "object",
                "description": "Who.",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }
    loose = body("answer with a name no provider takes", NAME)["response_format"]["json_schema"]
    assert loose["strict"] is False
    assert loose["schema"]["additionalProperties"] == {"type": "integer"}


def test_an_optional_field_of_the_answer_is_said_otherwise_not_lost() -> None:
    lines = said(compiled("answer as a dataclass", NAME), NAME)
    changed = [line for line in lines if "null meaning left out" in line]
    assert changed
    assert all(line.startswith("info[WEFT701]") for line in changed)


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("openai-chat/gpt-4.1", "max_completion_tokens"),
        ("azure/o3", "max_completion_tokens"),
        ("groq/llama-4", "max_tokens"),
        ("vllm/gpt-oss-120b", "max_tokens"),
        ("local", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_the_server_knows(model: str, key: str) -> None:
    wire = body("option max_output_tokens = 100", NAME, model=model)
    assert wire[key] == 100
    assert {"max_tokens", "max_completion_tokens"} & wire.keys() == {key}


def test_options() -> None:
    agent = bot_with(
        temperature=0.5,
        stop_sequences=["END"],
        seed=7,
        logprobs=3,
        tool_choice={"name": "lookup"},
        parallel_tool_calls=False,
        user="u1",
    )
    wire = Scene("options", agent, message="Hi").compile(NAME).lower(NAME)
    head = {key: value for key, value in wire.items() if key not in ("tools", "messages")}
    assert head == {
        "model": "gpt-4.1",
        "temperature": 0.5,
        "stop": ["END"],
        "seed": 7,
        "logprobs": True,
        "top_logprobs": 3,
        "tool_choice": {"type": "function", "function": {"name": "lookup"}},
        "parallel_tool_calls": False,
        "user": "u1",
    }


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("option top_k = 40", "top_k"),
    ],
)
def test_an_option_it_has_not_is_reported(name: str, option: str) -> None:
    held = compiled(name, NAME, model="groq/llama-4")
    assert said(held, NAME) == [f"warning[WEFT702] openai-chat has no option `{option}`"]


def test_an_effort_goes_to_those_who_think() -> None:
    agent = bot_with(thinking={"effort": "low"})
    wire = Scene("x", agent, message="Hi", models={NAME: "openai-chat/o3"}).compile(NAME)
    assert wire.lower(NAME)["reasoning_effort"] == "low"
    assert "reasoning_effort" not in Scene("x", agent, message="Hi").compile(NAME).lower(NAME)


def test_turns_are_not_merged() -> None:
    assert not dialect_named(NAME).traits.merges_turns
    held = Scene("x", bot_with(), log(("user", "A"), ("user", "B"))).compile(NAME)
    assert len(held.lower(NAME)["messages"]) == 3  # type: ignore[arg-type]
