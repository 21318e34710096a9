"""Answers of Gemini generateContent: read without loss, whole or streamed, and sent back."""

from typing import cast

import pytest

from tests.dialects.answers import (
    sent_back,
    weft_of,
)
from weft.dialects import lift
from weft.errors import ModelError
from weft.ir import ModelResponse
from weft.values import Json, JsonObject

NAME = "gemini"
MODEL = "gemini-3-flash"
SIGNATURE = "c2lnbmVk"

SIGNED: JsonObject = {"thoughtSignature": SIGNATURE}
CALL: JsonObject = {
    "functionCall": {"name": "lookup", "args": {"key": "a", "deep": [1, {"b": None}]}, "id": "x1"},
    **SIGNED,
}
ASKED: JsonObject = {
    "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t1"},
    **SIGNED,
}
CAME: JsonObject = {
    "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"a": "b"}, "id": "t1"},
    **SIGNED,
}
CODE: JsonObject = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN: JsonObject = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
IMAGE: JsonObject = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def text(words: str) -> JsonObject:
    return {"text": words}


def candidate(*parts: Json, stop: str | None = "STOP", **more: Json) -> JsonObject:
    held: JsonObject = {"content": {"parts": [*parts], "role": "model"}, "index": 0, **more}
    return {**held, "finishReason": stop} if stop else held


def body(*parts: Json, stop: str = "STOP", **more: Json) -> JsonObject:
    return {
        "candidates": [candidate(*parts, stop=stop, **more)],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
        "modelVersion": "gemini-3-flash-preview",
        "responseId": "r1",
    }


def kinds(response: ModelResponse) -> list[str]:
    assert response.content is not None
    return [part.kind for part in response.content.parts or ()]


# --- whole answers


def test_every_kind_of_part_is_read() -> None:
    parts: list[JsonObject] = [
        {"text": "Hm.", "thought": True}, text("Hi"), CALL, CODE, RAN, IMAGE, ASKED, CAME,
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}}, {"hologram": 1},
        {"text": "", **SIGNED},
    ]  # fmt: skip
    response = lift(NAME, body(*parts))
    assert kinds(response) == [
        "thought", "text", "call", "code", "code_result", "media", "opaque", "opaque", "media",
        "opaque", "thought",
    ]  # fmt: skip
    assert response.text == "Hi"
    assert response.finish_reason == "STOP"
    assert response.model_version == "gemini-3-flash-preview"
    assert response.error_code is None


def test_what_is_said_about_an_answer_has_its_own_fields() -> None:
    answer = body(
        text("x"),
        groundingMetadata={"webSearchQueries": ["x"]},
        citationMetadata={"citationSources": [{"uri": "u"}]},
        logprobsResult={"logProbabilitySum": -1.5},
        avgLogprobs=-0.5,
        safetyRatings=[{"category": "C"}],
        finishMessage="Done.",
    )
    response = lift(NAME, answer)
    assert response.grounding_metadata == {"webSearchQueries": ["x"]}
    assert response.citation_metadata == {"citationSources": [{"uri": "u"}]}
    assert response.logprobs_result == {"logProbabilitySum": -1.5}
    assert response.avg_logprobs == -0.5
    assert weft_of(response)["rest"] == {
        "responseId": "r1",
        "candidate": {"index": 0, "safetyRatings": [{"category": "C"}], "finishMessage": "Done."},
    }


def test_counts_are_read_and_the_rest_of_them_is_kept() -> None:
    usage: JsonObject = {
        "promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 5,
        "totalTokenCount": 112, "cachedContentTokenCount": 64, "toolUsePromptTokenCount": 0,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}], "serviceTier": "standard",
    }  # fmt: skip
    response = lift(NAME, {**body(text("x")), "usageMetadata": usage})
    assert response.usage is not None
    assert response.usage.prompt_token_count == 100
    assert response.usage.cached_content_token_count == 64
    assert response.usage.candidates_token_count == 7
    assert response.usage.thoughts_token_count == 5
    assert response.usage.total_token_count == 112
    rest = cast("JsonObject", weft_of(response)["rest"])
    assert rest["usageMetadata"] == {"serviceTier": "standard"}


def test_the_first_candidate_is_the_answer_and_the_others_are_kept() -> None:
    other = candidate(text("two"), index=1)
    answer = {**body(), "candidates": [candidate(text("one")), other]}
    response = lift(NAME, answer)
    assert response.text == "one"
    assert cast("JsonObject", weft_of(response)["rest"])["candidates"] == [other]


@pytest.mark.parametrize(
    "stop",
    [
        "SAFETY",
        "RECITATION",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "PROHIBITED_CONTENT",
    ],
)
def test_a_bad_end_is_an_error_that_keeps_what_was_said(stop: str) -> None:
    response = lift(NAME, body(text("Well"), stop=stop, finishMessage="No."))
    assert (response.error_code, response.error_message) == (stop.lower(), "No.")
    assert response.finish_reason == stop
    assert response.text == "Well"


def test_an_end_nobody_knows_is_another() -> None:
    response = lift(NAME, body(text("Well"), stop="TIRED"))
    assert (response.finish_reason, response.error_code) == ("OTHER", "other")
    assert cast("JsonObject", weft_of(response)["rest"])["finishReason"] == "TIRED"


def test_an_answer_that_ran_out_of_tokens_is_an_error_only_if_it_is_empty() -> None:
    assert lift(NAME, body(text("Once"), stop="MAX_TOKENS")).error_code is None
    empty = {**body(), "candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}
    assert lift(NAME, empty).error_code == "max_tokens"
    assert lift(NAME, empty).content is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("SAFETY", "SAFETY"), ("PROHIBITED_CONTENT", "PROHIBITED_CONTENT"), ("JAILBREAK", "OTHER")],
)
def test_a_blocked_prompt_has_no_answer(reason: str, finish: str) -> None:
    feedback: JsonObject = {"blockReason": reason, "safetyRatings": []}
    response = lift(NAME, {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}})
    assert (response.error_code, response.finish_reason) == (reason.lower(), finish)
    assert response.content is None
    assert reason in (response.error_message or "")
    assert cast("JsonObject", weft_of(response)["rest"])["promptFeedback"] == feedback


def test_an_answer_without_a_candidate_says_so() -> None:
    response = lift(NAME, {"usageMetadata": {"promptTokenCount": 4}})
    assert response.error_code == "empty_response"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "no candidates"),
        ({"candidates": "x"}, "no candidates"),
        ({"candidates": [{"content": {"role": "user", "parts": [{"text": "x"}]}}]}, "role 'user'"),
        ({"candidates": [{"content": {"parts": "x"}}]}, "no list"),
        ({"candidates": [{"content": {"parts": ["x"]}}]}, "not an object"),
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
    told: JsonObject = {"error": {"code": 503, "message": "Busy", "status": "UNAVAILABLE"}}
    with pytest.raises(ModelError, match="Busy") as caught:
        lift(NAME, told)
    assert caught.value.code == "overloaded"


def test_odd_counts_and_numbers_do_not_lose_the_answer() -> None:
    answer = body(text("x"), avgLogprobs="NaN")
    answer["usageMetadata"] = {"promptTokenCount": "many", "trafficType": 7}
    response = lift(NAME, answer)
    assert response.text == "x"
    assert response.avg_logprobs is None
    rest = cast("JsonObject", weft_of(response)["rest"])
    assert rest["usageMetadata"] == {"promptTokenCount": "many", "trafficType": 7}


# --- the way back

ANSWERS: dict[str, list[JsonObject]] = {
    "a signed call": [CALL],
    "a call without an id": [{"functionCall": {"name": "lookup", "args": {"key": "b"}}, **SIGNED}],
    "a call without arguments": [{"functionCall": {"name": "lookup"}, **SIGNED}],
    "calls in parallel": [
        CALL,
        {"functionCall": {"name": "lookup", "args": {"key": "b"}, "id": "x2"}},
    ],
    "a call with a field nobody knows": [
        {"functionCall": {"name": "lookup", "args": {}, "id": "x1", "mood": "calm"}, **SIGNED}
    ],
    "signed text": [{"text": "Hello.", **SIGNED}],
    "a signature after the text": [text("Hello."), {"text": "", **SIGNED}],
    "nothing but a signature": [text("Hello."), SIGNED],
    "thoughts that are not signed": [{"text": "Hm.", "thought": True}, text("Hello.")],
    "thoughts that are signed": [{"text": "Hm.", "thought": True, **SIGNED}, text("Hello.")],
    "a signed thought without words": [{"text": "", "thought": True, **SIGNED}, text("Hello.")],
    "code that was run": [CODE, RAN, text("1")],
    "code with an id, signed": [
        {"executableCode": {"language": "PYTHON", "code": "1", "id": "c1"}, **SIGNED},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "id": "c1"}, **SIGNED},
        text("1"),
    ],
    "the provider's own tools": [ASKED, CAME, {"text": "Found.", **SIGNED}],
    "own tools with a field nobody knows": [{**ASKED, "mood": 1}, CAME, text("Found.")],
    "an image, signed": [{**IMAGE, **SIGNED}, text("There.")],
    "a file with a name": [
        {"fileData": {"mimeType": "image/png", "fileUri": "u", "displayName": "n"}},
        text("There."),
    ],
    "a part nobody knows": [{"hologram": {"light": [1]}, **SIGNED}, text("See?")],
    "a text with a field nobody knows": [{"text": "Hi", "partMetadata": {"a": 1}, "tone": "warm"}],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_goes_back_as_it_came(name: str) -> None:
    content = ANSWERS[name]
    sent = sent_back(NAME, MODEL, body(*content))
    assert sent.parts(NAME)[: len(content)] == content
    assert not [said for said in sent.diagnostics if "WEFT704" in said]


def test_what_goes_back_is_what_the_vendors_types_take() -> None:
    from google.genai import types

    for name, content in ANSWERS.items():
        if "nobody knows" not in name:
            sent = sent_back(NAME, MODEL, body(*content))
            for turn in cast("list[JsonObject]", sent.wire["contents"]):
                types.Content.model_validate(turn)


@pytest.mark.parametrize(
    "content",
    [[CALL], [ASKED, CAME, {"text": "Found.", **SIGNED}], [{**IMAGE, **SIGNED}, text("x")]],
)
def test_another_model_does_not_get_the_signature(content: list[JsonObject]) -> None:
    sent = sent_back(NAME, MODEL, body(*content), to=(NAME, "gemini-2.5-pro"))
    assert SIGNATURE not in str(sent.wire)
    assert any("WEFT704" in said for said in sent.diagnostics)


@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("anthropic", "claude-sonnet-4-6"),
        ("openai-chat", "openai-chat/gpt-4.1"),
        ("openai-responses", "gpt-5.4"),
    ],
)
def test_another_provider_gets_a_legal_request_and_a_word_about_it(
    dialect: str, model: str
) -> None:
    answer = body({"text": "Hm.", "thought": True, **SIGNED}, ASKED, CAME, text("So."), CALL)
    sent = sent_back(NAME, MODEL, answer, to=(dialect, model))
    wire = str(sent.wire)
    assert "So." in wire
    assert "lookup" in wire
    assert SIGNATURE not in wire
    assert "GOOGLE_SEARCH_WEB" not in wire
    assert sum("WEFT704" in said for said in sent.diagnostics) == 4
