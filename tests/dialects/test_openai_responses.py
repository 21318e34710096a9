"""OpenAI Responses: what only it asks for."""

import pytest

import weft
from tests.dialects.prompts import (
    OPAQUE,
    Scene,
    body,
    bot_with,
    compiled,
    said,
    without_system,
    words_first,
)
from weft import Agent, Session

NAME = "openai-responses"


def test_nothing_is_stored_and_the_system_text_is_a_field() -> None:
    assert body("plain text", NAME) == {
        "model": "gpt-5.4",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "You are bot.\n\nBe brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    }
    held = compiled("plain text", NAME)
    assert str(held.origin("/instructions", 16)) == "bot.instruction:0"


def test_calls_and_results_are_items() -> None:
    assert body("parallel calls", NAME)["input"][1:] == [
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": '{"key":"a"}'},
        {"type": "function_call", "call_id": "c2", "name": "ping", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "pong"},
    ]
    held = compiled("parallel calls", NAME)
    assert str(held.origin("/input/2/arguments")) == "event e1#1"
    assert str(held.origin("/input/4/output")) == "event e2#0"


def test_results_come_before_the_users_words() -> None:
    result, words = words_first(NAME)[-2:]
    assert result["type"] == "function_call_output"
    assert words["role"] == "user"


def test_without_system_text_there_is_no_field() -> None:
    assert "instructions" not in without_system(NAME)


def test_a_tool_says_whether_it_is_strict() -> None:
    assert body("tool loop", NAME)["tools"][1] == {
        "type": "function",
        "name": "ping",
        "description": "Answer.",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }


def test_sealed_reasoning_goes_back_in_its_place() -> None:
    items = body("opaque part of openai-responses", NAME)["input"]
    assert items[1] == OPAQUE[NAME]
    assert items[2]["type"] == "function_call"


def test_sealed_reasoning_is_asked_for_where_the_model_reasons() -> None:
    def asked(name: str, model: str) -> list[str]:
        wire = body(name, NAME, model=model)
        return wire.get("include", [])  # type: ignore[no-any-return]

    sealed = ["reasoning.encrypted_content"]
    assert asked("plain text", "o3") == asked("plain text", "openai/gpt-6-sol") == sealed
    assert asked("plain text", "gpt-4.1") == asked("plain text", "gpt-5-chat-latest") == []
    assert asked("option logprobs = 3", "gpt-4.1") == ["message.output_text.logprobs"]
    assert asked("option logprobs = True", "o3") == [*sealed, "message.output_text.logprobs"]


def test_what_extra_includes_is_kept() -> None:
    agent = bot_with(extra={NAME: {"include": ["web_search_call.results"]}})
    wire = Scene("x", agent, message="Hi").compile(NAME).lower(NAME)
    assert wire["include"] == ["web_search_call.results", "reasoning.encrypted_content"]


def test_media_of_a_result_stays_in_it() -> None:
    result = body("image in a result", NAME)["input"][-1]
    assert result == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [
            {"type": "input_text", "text": "see"},
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,iVBORw0KGgowMDAw",
                "detail": "auto",
            },
        ],
    }


def test_files_by_address_and_by_data() -> None:
    assert body("pdf", NAME)["input"][0]["content"][1] == {
        "type": "input_file",
        "filename": "document.pdf",
        "file_data": "data:application/pdf;base64,JVBERi0xLjcgMDAwMA==",
    }
    assert body("pdf at an address", NAME)["input"][0]["content"][1] == {
        "type": "input_file",
        "file_url": "https://example.com/a.pdf",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("video", "[video/mp4: not carried]"),
        ("audio", "[audio/wav: not carried]"),
        ("file in a bucket", "[image/png gs://bucket/a.png: not carried]"),
    ],
)
def test_what_cannot_be_carried_is_named(name: str, text: str) -> None:
    assert body(name, NAME)["input"][0]["content"][1] == {"type": "input_text", "text": text}
    assert {line.split()[0] for line in said(compiled(name, NAME), NAME)} == {"warning[WEFT703]"}


def test_an_answer_schema_is_the_texts_format() -> None:
    held = body("answer as a record", NAME)["text"]["format"]
    assert list(held) == ["type", "name", "schema", "strict"]
    assert held["name"] == "Person"
    assert held["strict"] is True


def test_the_name_of_an_answer_is_made_legal() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    long = Agent("a" * 80, output_schema=schema)
    wire = Scene("x", long, message="Hi").compile(NAME).lower(NAME)
    name = wire["text"]["format"]["name"]  # type: ignore[index, call-overload]
    assert name == "a" * 64


def test_extra_and_format_share_their_place() -> None:
    agent = bot_with(extra={NAME: {"text": {"verbosity": "low"}}}).returns(
        {"type": "object", "properties": {"a": {"type": "string"}}}
    )
    wire = Scene("x", agent, message="Hi").compile(NAME).lower(NAME)
    assert list(wire["text"]) == ["verbosity", "format"]  # type: ignore[arg-type]
    assert agent.generate_config["extra"] == {NAME: {"text": {"verbosity": "low"}}}


def test_reasoning_options() -> None:
    wire = body("option thinking = {'effort': 'low', 'include': True}", NAME)
    assert wire["reasoning"] == {"effort": "low", "summary": "auto"}


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("option top_k = 40", "top_k"),
        ("option stop_sequences = ['END']", "stop_sequences"),
        ("option seed = 7", "seed"),
        ("option presence_penalty = 0.1", "presence_penalty"),
        ("option frequency_penalty = -0.1", "frequency_penalty"),
    ],
)
def test_an_option_it_has_not_is_reported(name: str, option: str) -> None:
    assert said(compiled(name, NAME), NAME) == [
        f"warning[WEFT702] openai-responses has no option `{option}`"
    ]


def test_tool_choice_by_name() -> None:
    wire = body("option tool_choice = {'name': 'lookup'}", NAME)
    assert wire["tool_choice"] == {"type": "function", "name": "lookup"}
    assert body("option tool_choice = any", NAME)["tool_choice"] == "required"


def test_an_item_whose_type_is_no_word_is_no_crash() -> None:
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": [], "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "user", "content": "Go on"},
    ]
    session = Session.from_messages({"model": "gpt-5", "input": items})
    compiled = weft.compile(Agent("agent", model="gpt-5.6"), session=session)
    assert "Go on" in str(compiled.wire["input"])
