"""Answers of Anthropic Messages: read without loss, whole or streamed, and sent back."""

from typing import cast

import pytest

import weft
from tests.dialects.answers import (
    sent_back,
    weft_of,
)
from weft import Agent
from weft.dialects import lift
from weft.errors import ModelError
from weft.ir import ModelResponse
from weft.testing import ScriptedModel
from weft.values import Json, JsonObject

NAME = "anthropic"
MODEL = "claude-sonnet-4-6"

THINKING: JsonObject = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
SEALED: JsonObject = {"type": "redacted_thinking", "data": "c2VhbGVk"}
CALL: JsonObject = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "lookup",
    "input": {"key": "a", "deep": [1, {"b": None}]},
    "caller": {"type": "direct"},
}
SEARCH: JsonObject = {
    "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"},
}  # fmt: skip
PAGE: JsonObject = {
    "type": "web_search_result",
    "title": "X",
    "url": "https://x.test",
    "encrypted_content": "ZW5j",
    "page_age": None,
}
FOUND: JsonObject = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [PAGE],
}
LOCATION: JsonObject = {
    "type": "web_search_result_location",
    "cited_text": "so",
    "encrypted_index": "aW5k",
    "title": None,
    "url": "https://x.test",
}
CITED: JsonObject = {"type": "text", "text": "It is so.", "citations": [LOCATION]}
COMPACTED: JsonObject = {"type": "compaction", "content": "So far …", "encrypted_content": "a2V5"}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def body(*content: Json, stop: str | None = "end_turn", **more: Json) -> JsonObject:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6-20260101",
        "content": [*content],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }


def parts(response: ModelResponse) -> list[object]:
    assert response.content is not None
    return [(part.kind, part.text) for part in response.content.parts or ()]


# --- whole answers


def test_text_thoughts_and_calls_become_parts() -> None:
    response = lift(NAME, body(THINKING, text("I look."), CALL, stop="tool_use"))
    assert parts(response) == [("thought", "Let me see."), ("text", "I look."), ("call", None)]
    assert response.content is not None
    thought, _, call = response.content.parts or ()
    assert thought.thought_signature == "c2lnbmVk"
    assert call.function_call is not None
    assert call.function_call.id == "toolu_1"
    assert call.function_call.args == {"key": "a", "deep": [1, {"b": None}]}
    assert call.provenance.fields == {"caller": {"type": "direct"}}
    assert response.finish_reason == "STOP"
    assert response.error_code is None
    assert response.model_version == "claude-sonnet-4-6-20260101"


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "STOP"),
        ("stop_sequence", "STOP"),
        ("tool_use", "STOP"),
        ("max_tokens", "MAX_TOKENS"),
        ("model_context_window_exceeded", "MAX_TOKENS"),
        ("pause_turn", "CONTINUATION"),
        ("compaction", "CONTINUATION"),
        ("something_new", "OTHER"),
        (None, None),
    ],
)
def test_how_it_ended_has_one_name_for_all_providers(stop: str | None, finish: str | None) -> None:
    response = lift(NAME, body(text("Well"), stop=stop))
    assert response.finish_reason == finish
    assert response.error_code is None
    rest = cast("JsonObject", weft_of(response)["rest"])
    assert rest.get("stop_reason") == stop


def test_a_refusal_says_why_and_keeps_what_was_said() -> None:
    details: JsonObject = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    response = lift(NAME, body(text("I"), stop="refusal", stop_details=details))
    assert (response.error_code, response.error_message) == ("refusal", "Not this.")
    assert response.finish_reason == "SAFETY"
    assert response.text == "I"
    assert lift(NAME, body(stop="refusal")).error_message == "the model refused to answer"


def test_an_answer_that_ran_out_of_tokens_is_an_error_only_if_it_is_empty() -> None:
    assert lift(NAME, body(text("Once"), stop="max_tokens")).error_code is None
    assert lift(NAME, body(stop="max_tokens")).error_code == "max_tokens"
    assert lift(NAME, body(text(""), stop="max_tokens")).error_code == "max_tokens"


def test_an_empty_answer_is_an_answer() -> None:
    response = lift(NAME, body())
    assert response.content is None
    assert response.error_code is None
    assert response.finish_reason == "STOP"


def test_counts_have_cached_tokens_among_the_prompts() -> None:
    usage: JsonObject = {
        "input_tokens": 10,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 200,
        "cache_creation": {"ephemeral_5m_input_tokens": 200},
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 30, "other": 1},
        "service_tier": "standard",
        "inference_geo": None,
    }
    response = lift(NAME, body(text("x"), usage=usage))
    assert response.usage is not None
    assert response.usage.prompt_token_count == 1210
    assert response.usage.cached_content_token_count == 1000
    assert response.usage.candidates_token_count == 20
    assert response.usage.thoughts_token_count == 30
    assert response.usage.total_token_count == 1260
    held = weft_of(response)
    assert held["cacheWrite"] == 200
    assert held["rest"] == {
        "id": "msg_1",
        "stop_reason": "end_turn",
        "usage": {
            "cache_creation": {"ephemeral_5m_input_tokens": 200},
            "service_tier": "standard",
            "output_tokens_details": {"other": 1},
        },
    }


def test_what_else_an_answer_says_is_kept() -> None:
    response = lift(NAME, body(text("x"), container={"id": "c1"}, context_management={"edits": []}))
    rest = cast("JsonObject", weft_of(response)["rest"])
    assert rest["container"] == {"id": "c1"}
    assert rest["context_management"] == {"edits": []}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "no list of content blocks"),
        ({"content": "hello"}, "no list of content blocks"),
        ({"input_tokens": 3}, "no list of content blocks"),
        ({**body(text("x")), "role": "user"}, "the role 'user'"),
        (body("x"), "not an object"),
        (body(None), "not an object"),
    ],
)
def test_what_is_no_answer_is_refused(answer: JsonObject, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        lift(NAME, answer)
    assert caught.value.code == "bad_response"


@pytest.mark.parametrize("answer", [None, [], "hello", 7])
def test_what_is_no_object_is_no_answer(answer: Json) -> None:
    with pytest.raises(ModelError, match="not an object") as caught:
        lift(NAME, cast("JsonObject", answer))
    assert caught.value.code == "bad_response"


def test_an_error_with_status_200_is_an_error() -> None:
    told: JsonObject = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
    with pytest.raises(ModelError, match="Busy") as caught:
        lift(NAME, told)
    assert caught.value.code == "overloaded"


@pytest.mark.parametrize(
    ("arguments", "words"), [("{oops", "{oops"), (7, "7"), ([1], "[1]"), (None, "null")]
)
def test_arguments_that_are_no_object_are_kept_as_they_came(arguments: Json, words: str) -> None:
    response = lift(NAME, body({**CALL, "input": arguments}, stop="tool_use"))
    assert response.content is not None
    part = (response.content.parts or ())[0]
    assert part.function_call is not None
    assert part.function_call.args is None
    assert cast("JsonObject", (part.part_metadata or {})["weft"])["malformed"] == words


def test_calls_without_an_id_or_with_one_twice_are_read_as_they_are() -> None:
    nameless = {key: value for key, value in CALL.items() if key != "id"}
    response = lift(NAME, body(nameless, CALL, CALL, stop="tool_use"))
    assert response.content is not None
    ids = [part.function_call.id for part in response.content.parts or () if part.function_call]
    assert ids == [None, "toolu_1", "toolu_1"]


# --- the way back

ANSWERS: dict[str, list[JsonObject]] = {
    "thinking before a call": [THINKING, text("I look."), CALL],
    "sealed thinking": [SEALED, THINKING, SEALED, text("So.")],
    "thinking that is not shown": [{**THINKING, "thinking": ""}, text("So.")],
    "thinking with a field nobody knows": [{**THINKING, "new": [1]}, text("So.")],
    "citations": [text("Look: "), CITED, text(".")],
    "citations that are null": [{**text("So."), "citations": None}],
    "a blank before words": [text("\n\n"), THINKING, text("So.")],
    "the provider's own tools": [text("I search."), SEARCH, FOUND, CITED],
    "own tools around a call": [THINKING, SEARCH, FOUND, text("And"), CALL],
    "a compaction": [COMPACTED, text("Go on.")],
    "a block nobody knows": [{"type": "hologram", "light": {"x": 1}}, text("See?")],
    "a text nobody knows": [{**text("Hi"), "tone": "warm"}],
    "calls in parallel": [CALL, {**CALL, "id": "toolu_2", "input": {}}],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_goes_back_as_it_came(name: str) -> None:
    content = ANSWERS[name]
    called = any(block["type"] == "tool_use" for block in content)
    sent = sent_back(NAME, MODEL, body(*content, stop="tool_use" if called else "end_turn"))
    assert sent.parts(NAME)[: len(content)] == content
    assert not [said for said in sent.diagnostics if "WEFT704" in said]


def test_a_blank_that_stands_alone_with_a_call_stays_behind() -> None:
    sent = sent_back(NAME, MODEL, body(text("\n\n"), CALL, stop="tool_use"))
    assert sent.parts(NAME)[0] == CALL


def test_thinking_of_a_server_that_signs_nothing_goes_back_to_it() -> None:
    content = [{**THINKING, "signature": ""}, text("So.")]
    for name, sent in (
        ("glm-5", content),
        (MODEL, content[1:]),
    ):  # Claude signs, and takes no other
        model = ScriptedModel([lift(NAME, body(*content))], name=name, dialect=NAME)
        agent = Agent("bot", model=model)
        log = weft.run_sync(agent, "Hello").session
        compiled = weft.compile(agent, session=log, message="Go on")
        assert cast("list[JsonObject]", compiled.wire["messages"])[1]["content"] == sent


def test_a_dated_name_is_the_same_model() -> None:
    there = (NAME, f"{MODEL}-20260101")
    sent = sent_back(NAME, MODEL, body(THINKING, SEALED, text("So.")), to=there)
    assert sent.parts(NAME) == [THINKING, SEALED, text("So.")]


def test_another_model_does_not_get_what_it_cannot_read() -> None:
    answer = body(THINKING, SEALED, SEARCH, FOUND, CITED)
    sent = sent_back(NAME, MODEL, answer, to=(NAME, "claude-opus-5"))
    assert sent.parts(NAME) == [SEARCH, FOUND, CITED]
    dropped = [said for said in sent.diagnostics if "WEFT704" in said]
    assert len(dropped) == 2
    assert f"a signature of {MODEL} cannot go to claude-opus-5" in dropped[0]
    assert f"a part of {MODEL} cannot go to claude-opus-5" in dropped[1]


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("gemini", "gemini-3-flash"),
        ("openai-chat", "openai-chat/gpt-4.1"),
        ("openai-responses", "gpt-5.4"),
    ],
)
def test_another_provider_gets_a_legal_request_and_a_word_about_it(
    dialect: str, model: str
) -> None:
    answer = body(THINKING, SEALED, SEARCH, FOUND, CITED, CALL, stop="tool_use")
    sent = sent_back(NAME, MODEL, answer, to=(dialect, model))
    wire = str(sent.wire)
    assert "It is so." in wire
    assert "lookup" in wire
    for secret in ("c2lnbmVk", "c2VhbGVk", "ZW5j", "srvtoolu_1"):
        assert secret not in wire
    dropped = [said for said in sent.diagnostics if "WEFT704" in said]
    assert len(dropped) == 5
    beside = f"`citations` of {NAME} cannot go to {dialect}"
    assert sum(beside in said for said in dropped) == 1


@pytest.mark.parametrize(
    ("dialect", "model"), [("gemini", "gemini-3-flash"), ("openai-responses", "gpt-5.4")]
)
def test_a_plain_answer_goes_to_another_provider_without_a_word(dialect: str, model: str) -> None:
    plain = {**CALL, "caller": {"type": "direct"}}
    sent = sent_back(NAME, MODEL, body(text("So."), plain, stop="tool_use"), to=(dialect, model))
    assert sent.diagnostics == ()


def test_what_was_said_beside_the_words_is_told_once_a_turn() -> None:
    sent = sent_back(NAME, MODEL, body(CITED, CITED, CITED), to=("gemini", "gemini-3-flash"))
    assert len(sent.diagnostics) == 1
    assert "info[WEFT704] `citations` of anthropic cannot go to gemini" in sent.diagnostics[0]
