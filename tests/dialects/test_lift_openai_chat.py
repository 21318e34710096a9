"""Answers of Chat Completions: nothing of them is lost, and they go back as they came."""

from typing import cast

import pytest

from tests.dialects.answers import sent_back, weft_of
from tests.dialects.test_conformance import misfits_of
from weft.content import Part
from weft.dialects import lift
from weft.errors import ModelError
from weft.ir import ModelResponse
from weft.values import Json, JsonObject

NAME = "openai-chat"
GPT = "gpt-4.1"
OPEN = "vllm/qwen-3"


def call(call_id: str = "c1", arguments: str = '{"key":"a"}', **more: Json) -> JsonObject:
    """A call of the tool that every run here has."""
    function: JsonObject = {"name": "lookup", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function, **more}


def body(finish: str = "stop", **message: Json) -> JsonObject:
    """A whole answer with this message."""
    said: JsonObject = {"role": "assistant", "content": None, **message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1763000000,
        "model": "gpt-4.1-2025-04-14",
        "choices": [{"index": 0, "message": said, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150},
    }


def parts_of(response: ModelResponse) -> tuple[Part, ...]:
    """The parts of an answer."""
    return (response.content.parts if response.content else ()) or ()


def spoken(answer: JsonObject, model: str = GPT, to: tuple[str, str] | None = None) -> JsonObject:
    """The first message of the assistant in the request after the answer, without nulls."""
    from openai.types.chat import ChatCompletion

    wire = sent_back(NAME, model, answer, to=to).wire
    if to is None:
        ChatCompletion.model_validate(answer)
    turns = cast("list[JsonObject]", wire["messages"])
    turn = next(turn for turn in turns if turn["role"] == "assistant")
    return {key: value for key, value in turn.items() if value is not None}


def test_text_and_what_the_answer_says_of_itself() -> None:
    response = lift(NAME, {**body(content="Hi."), "system_fingerprint": "fp", "service_tier": None})
    assert response.text == "Hi."
    assert response.finish_reason == "STOP"
    assert response.model_version == "gpt-4.1-2025-04-14"
    assert parts_of(response) == (Part(text="Hi."),)
    assert weft_of(response)["rest"] == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1763000000,
        "system_fingerprint": "fp",
        "choice": {"index": 0, "finish_reason": "stop"},
    }


def test_cached_and_thinking_tokens_are_counted_once() -> None:
    answer = body(content="Hi.")
    answer["usage"] = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20, "audio_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 30},
        "cost": 0.25,
    }
    response = lift(NAME, answer)
    assert response.usage is not None
    assert response.usage.prompt_token_count == 100
    assert response.usage.cached_content_token_count == 64
    assert response.usage.candidates_token_count == 20
    assert response.usage.thoughts_token_count == 30
    assert response.usage.total_token_count == 150
    assert weft_of(response)["cacheWrite"] == 20
    rest = cast("JsonObject", weft_of(response)["rest"])
    assert rest["usage"] == {"cost": 0.25, "prompt_tokens_details": {"audio_tokens": 1}}


def test_thinking_that_a_server_counts_apart_is_not_taken_off_the_answer() -> None:
    answer = body(content="Hi.")
    details: JsonObject = {"reasoning_tokens": 300}
    usage: JsonObject = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 315}
    answer["usage"] = {**usage, "completion_tokens_details": details, "prompt_cache_hit_tokens": 8}
    usage_read = lift(NAME, answer).usage
    assert usage_read is not None
    assert usage_read.candidates_token_count == 5
    assert usage_read.thoughts_token_count == 300
    assert usage_read.cached_content_token_count == 8


def test_parallel_calls_go_back_as_they_came() -> None:
    calls: list[Json] = [call("c1"), call("c2", '{"key": "b"}')]
    answer = body("tool_calls", content="Looking.", tool_calls=calls)
    response = lift(NAME, answer)
    found = [part.function_call for part in parts_of(response) if part.function_call]
    assert [(one.id, one.args) for one in found] == [("c1", {"key": "a"}), ("c2", {"key": "b"})]
    assert response.finish_reason == "STOP"
    said: JsonObject = {"role": "assistant", "content": "Looking.", "tool_calls": calls}
    assert spoken(answer) == said


def test_what_a_server_adds_to_a_call_goes_back_to_its_model_alone() -> None:
    sealed: JsonObject = {"google": {"thought_signature": "c2VhbGVk"}}
    answer = body("tool_calls", tool_calls=[call(extra_content=sealed)])
    assert spoken(answer, OPEN)["tool_calls"] == [call(extra_content=sealed)]
    other = sent_back(NAME, OPEN, answer, to=(NAME, "vllm/llama-4"))
    assert "c2VhbGVk" not in str(other.wire)
    assert any("WEFT704" in said for said in other.diagnostics)


@pytest.mark.parametrize("text", ['{"key": "a', "[1]", "NaN", '"a"', "{} {}", "[" * 400])
def test_arguments_that_are_no_object_make_a_malformed_call(text: str) -> None:
    answer = body("tool_calls", tool_calls=[call(arguments=text)])
    part = parts_of(lift(NAME, answer))[0]
    assert part.function_call is not None
    assert part.function_call.args is None
    assert cast("JsonObject", (part.part_metadata or {})["weft"])["malformed"] == text
    assert spoken(answer)["tool_calls"] == [call(arguments="{}")]


@pytest.mark.parametrize("text", ["", "  ", "null"])
def test_blank_arguments_are_none(text: str) -> None:
    part = parts_of(lift(NAME, body(tool_calls=[call(arguments=text)])))[0]
    assert part.function_call is not None
    assert part.function_call.args == {}


def test_a_custom_call_has_its_text_as_input_and_goes_back_as_one() -> None:
    custom: JsonObject = {"name": "lookup", "input": "key a"}
    held: JsonObject = {"id": "c1", "type": "custom", "custom": custom}
    answer = body("tool_calls", tool_calls=[held])
    part = parts_of(lift(NAME, answer))[0]
    assert part.function_call is not None
    assert part.function_call.args == {"input": "key a"}
    assert spoken(answer)["tool_calls"] == [held]


def test_an_old_function_call_becomes_a_call_of_today() -> None:
    old: JsonObject = {"name": "lookup", "arguments": '{"key":"a"}'}
    turn = spoken(body("function_call", function_call=old))
    calls = cast("list[JsonObject]", turn["tool_calls"])
    assert calls[0]["function"] == old
    assert calls[0]["id"]


def test_a_refusal_is_an_error_with_its_words_and_goes_back_in_its_field() -> None:
    answer = body(refusal="I would rather not.")
    response = lift(NAME, answer)
    assert response.error_code == "refusal"
    assert response.error_message == "I would rather not."
    assert response.text == "I would rather not."
    assert spoken(answer) == {"role": "assistant", "refusal": "I would rather not."}


@pytest.mark.parametrize(
    ("finish", "content", "reason", "code"),
    [
        ("length", "Hal", "MAX_TOKENS", None),
        ("length", None, "MAX_TOKENS", "max_tokens"),
        ("content_filter", "Hal", "SAFETY", "safety"),
        ("content_filter", None, "SAFETY", "safety"),
        ("insufficient_system_resource", "Hal", "OTHER", None),
    ],
)
def test_how_an_answer_ended(
    finish: str, content: str | None, reason: str, code: str | None
) -> None:
    response = lift(NAME, body(finish, content=content))
    assert response.finish_reason == reason
    assert response.error_code == code
    assert response.text == (content or "")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_thought_goes_back_in_its_own_field(field: str) -> None:
    answer = body("tool_calls", tool_calls=[call()], **{field: "Let me look."})
    thought = parts_of(lift(NAME, answer))[0]
    assert thought.thought
    assert thought.text == "Let me look."
    turn = spoken(answer, OPEN)
    assert turn == {"role": "assistant", field: "Let me look.", "tool_calls": [call()]}


def test_a_thought_said_in_two_fields_is_one_thought() -> None:
    answer = body(content="Hi.", reasoning="Hm.", reasoning_content="Hm.")
    assert [part.text for part in parts_of(lift(NAME, answer))] == ["Hm.", "Hi."]
    turn = spoken(answer, OPEN)
    assert turn["reasoning"] == "Hm."
    assert turn["reasoning_content"] == "Hm."


def test_details_of_a_thought_go_back_unchanged_and_to_nobody_else() -> None:
    details: list[Json] = [
        {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0},
        {"type": "reasoning.encrypted", "data": "c2VhbGVk", "index": 1},
    ]
    answer = body(content="Hi.", reasoning="Hm.", reasoning_details=details)
    turn = spoken(answer, OPEN)
    assert turn["reasoning_details"] == details
    assert turn["reasoning"] == "Hm."
    for to in ((NAME, "vllm/llama-4"), ("anthropic", "claude-sonnet-4-6")):
        assert "c2VhbGVk" not in str(sent_back(NAME, OPEN, answer, to=to).wire)
    other = sent_back(NAME, OPEN, answer, to=(NAME, "vllm/llama-4"))
    assert any("WEFT704" in said for said in other.diagnostics)


def test_thoughts_alone_are_no_turn() -> None:
    answer = body("length", reasoning_content="Hm.")
    response = lift(NAME, answer)
    assert response.error_code == "max_tokens"
    turns = cast("list[JsonObject]", sent_back(NAME, OPEN, answer).wire["messages"])
    assert "Hm." not in str(turns)


def test_content_in_parts_goes_back_in_parts() -> None:
    thinking: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    content: list[Json] = [
        thinking,
        {"type": "text", "text": "A."},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "B."},
    ]
    answer = body(content=content)
    response = lift(NAME, answer)
    assert response.text == "A.B."
    wire = sent_back(NAME, OPEN, answer).wire
    turns = cast("list[JsonObject]", wire["messages"])
    assert next(turn for turn in turns if turn["role"] == "assistant")["content"] == content


def test_a_field_nobody_knows_goes_back() -> None:
    blocks: list[Json] = [{"type": "thinking", "signature": "c2ln"}]
    answer = body(content="Hi.", thinking_blocks=blocks, empty=[], nothing=None)
    turn = spoken(answer, OPEN)
    assert turn == {"role": "assistant", "content": "Hi.", "thinking_blocks": blocks}
    rest = cast("JsonObject", weft_of(lift(NAME, answer))["rest"])
    assert rest["message"] == {"empty": []}


def test_citations_stay_in_the_log_since_the_provider_takes_none_back() -> None:
    cited: JsonObject = {"start_index": 0, "end_index": 3, "title": "T", "url": "https://a.example"}
    annotations: list[Json] = [{"type": "url_citation", "url_citation": cited}]
    answer = body(content="Hi.", annotations=annotations)
    rest = cast("JsonObject", weft_of(lift(NAME, answer))["rest"])
    assert rest["message"] == {"annotations": annotations}
    assert spoken(answer) == {"role": "assistant", "content": "Hi."}


def test_speech_goes_back_by_its_id_and_to_others_in_words() -> None:
    audio: JsonObject = {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "Hi."}
    answer = body(audio=audio)
    response = lift(NAME, answer)
    assert response.text == "Hi."
    assert "UklGRg==" in str(weft_of(response)["rest"])
    assert spoken(answer) == {"role": "assistant", "audio": {"id": "audio_1"}}
    said: JsonObject = {"role": "assistant", "content": "Hi."}
    assert spoken(answer, to=(NAME, "gpt-4o")) == said


def test_the_first_of_several_choices_is_the_answer() -> None:
    answer = body(content="A.")
    second: JsonObject = {"index": 1, "message": {"role": "assistant", "content": "B."}}
    cast("list[Json]", answer["choices"]).append(second)
    response = lift(NAME, answer)
    assert response.text == "A."
    assert cast("JsonObject", weft_of(response)["rest"])["choices"] == [second]


def test_probabilities_are_kept() -> None:
    answer = body(content="Hi.")
    told: JsonObject = {"content": [{"token": "Hi", "logprob": -0.1}], "refusal": None}
    cast("list[JsonObject]", answer["choices"])[0]["logprobs"] = told
    assert lift(NAME, answer).logprobs_result == told


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, "rate_limited"),
        ({"choices": [{"error": {"message": "gone", "code": 502}}]}, "overloaded"),
        ({"choices": []}, "bad_response"),
        ({}, "bad_response"),
        ({"choices": [{"text": "Hi."}]}, "bad_response"),
        (body(role="user", content="Hi."), "bad_response"),
    ],
)
def test_what_is_no_answer_says_so(answer: JsonObject, code: str) -> None:
    with pytest.raises(ModelError) as raised:
        lift(NAME, answer)
    assert raised.value.code == code
    assert raised.value.provider == NAME


def test_a_request_after_an_answer_fits_the_providers_own_types() -> None:
    answer = body("tool_calls", content="Looking.", tool_calls=[call(arguments='{"key": "a"}')])
    answers = (answer, body(refusal="No."))
    for one in answers:
        assert misfits_of(dict(sent_back(NAME, GPT, one).wire), NAME) == []
