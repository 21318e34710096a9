"""Streams of Gemini generateContent: chunks that add up to the answer as it would come whole."""

from typing import cast

import pytest

from tests.dialects.answers import (
    Told,
    byte_by_byte,
    in_pieces,
    read,
    sent_back,
    stream,
    weft_of,
)
from tests.dialects.test_lift_gemini import (
    ASKED,
    CALL,
    CAME,
    CODE,
    MODEL,
    NAME,
    RAN,
    SIGNED,
    candidate,
    text,
)
from weft.errors import ModelError
from weft.values import Json, JsonObject


def chunk(*parts: JsonObject, **more: Json) -> Told:
    stop = more.pop("stop", None)
    held = candidate(*parts, stop=cast("str | None", stop), **more)
    return "", {"candidates": [held], "modelVersion": "gemini-3-flash-preview", "responseId": "r1"}


def counted(told: Told, tokens: int) -> Told:
    return told[0], {**told[1], "usageMetadata": {"candidatesTokenCount": tokens}}


EVERYTHING: list[Told] = [
    chunk({"text": "Let me ", "thought": True}),
    counted(chunk({"text": "see.", "thought": True}), 2),
    chunk(text("Grö")),
    chunk(text("ße 🚀")),
    chunk(text("")),
    chunk({"text": "!", **SIGNED}, text(" Then")),
    chunk(ASKED),
    chunk(CAME, groundingMetadata={"webSearchQueries": ["x"]}),
    chunk(CODE, RAN),
    chunk(CALL),
    chunk({"functionCall": {"name": "lookup", "args": {}}}),
    counted(
        chunk({"text": "", **SIGNED}, stop="STOP", groundingMetadata={"groundingChunks": [{}]}), 9
    ),
]
WHOLE: list[JsonObject] = [
    {"text": "Let me see.", "thought": True},
    text("Größe 🚀"),
    {"text": "!", **SIGNED},
    text(" Then"),
    ASKED,
    CAME,
    CODE,
    RAN,
    CALL,
    {"functionCall": {"name": "lookup", "args": {}}},
    {"text": "", **SIGNED},
]


def first(answer: JsonObject) -> JsonObject:
    return cast("list[JsonObject]", answer["candidates"])[0]


def parts(answer: JsonObject) -> Json:
    return cast("JsonObject", first(answer)["content"])["parts"]


def test_a_stream_adds_up_to_the_answer_that_would_have_come_whole() -> None:
    from google.genai import types

    found = read(NAME, [stream(EVERYTHING, newline="\r\n")])
    assert parts(found.body) == WHOLE
    assert first(found.body)["groundingMetadata"] == {
        "webSearchQueries": ["x"],
        "groundingChunks": [{}],
    }
    assert found.text == "Größe 🚀! Then"
    assert found.thoughts == "Let me see."
    assert found.response.usage is not None
    assert found.response.usage.candidates_token_count == 9
    assert found.response.finish_reason == "STOP"
    types.GenerateContentResponse.model_validate(found.body)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_no_cut_changes_what_a_stream_says(newline: str) -> None:
    data = stream(EVERYTHING, newline=newline)
    whole = read(NAME, [data])
    assert read(NAME, byte_by_byte(data)) == whole
    for seed in range(1000):
        assert read(NAME, in_pieces(data, 1 + seed % 40, seed)) == whole


def test_a_streamed_answer_goes_back_as_it_came() -> None:
    answer = read(NAME, [stream(EVERYTHING)]).body
    assert sent_back(NAME, MODEL, answer).parts(NAME)[: len(WHOLE)] == WHOLE


def piece(path: str, *, more: bool = False, **value: Json) -> JsonObject:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def growing(*pieces: JsonObject, more: bool = True, **fields: Json) -> Told:
    call: JsonObject = {**fields}
    if pieces:
        call["partialArgs"] = [*pieces]
    if more:
        call["willContinue"] = True
    return chunk({"functionCall": call})


def test_arguments_that_come_in_pieces_become_one_call() -> None:
    opened = chunk({"functionCall": {"name": "book", "id": "b1", "willContinue": True}, **SIGNED})
    events = [
        chunk(text("I book.")),
        opened,
        growing(piece("$.to.city", stringValue="San ", more=True)),
        growing(piece("$.to.city", stringValue="José", more=True)),
        growing(piece("$.to.city", stringValue=""), piece("$.seats", numberValue=2)),
        growing(
            piece("$['my key'][0].ok", boolValue=True), piece("$.note", nullValue="NULL_VALUE")
        ),
        growing(piece("$['my key'][1]", stringValue="$.x")),
        growing(more=False),
        chunk({"functionCall": {"name": "lookup", "args": {"key": "a"}}}, stop="STOP"),
    ]
    data = stream(events)
    found = read(NAME, [data])
    arguments: JsonObject = {
        "to": {"city": "San José"},
        "seats": 2,
        "my key": [{"ok": True}, "$.x"],
        "note": None,
    }
    assert parts(found.body) == [
        text("I book."),
        {"functionCall": {"name": "book", "id": "b1", "args": arguments}, **SIGNED},
        {"functionCall": {"name": "lookup", "args": {"key": "a"}}},
    ]
    assert read(NAME, byte_by_byte(data)) == found


@pytest.mark.parametrize("path", ["$", "", "city", "$[99999999999].x", "$.a[0", "$..a"])
def test_a_path_that_leads_nowhere_does_no_harm(path: str) -> None:
    events = [
        growing(name="book"),
        growing(piece("$.a", stringValue="x")),
        growing(piece(path, stringValue="y"), more=False),
        chunk(stop="STOP"),
    ]
    called = cast("list[JsonObject]", parts(read(NAME, [stream(events)]).body))[0]
    assert cast("JsonObject", called["functionCall"])["name"] == "book"


def test_candidates_stream_side_by_side() -> None:
    both: JsonObject = {"candidates": [candidate(text("a")), candidate(text("b"), index=1)]}
    found = read(NAME, [stream([("", both), ("", both)])])
    assert found.response.text == "aa"
    assert found.text == "aa"
    others = cast("JsonObject", weft_of(found.response)["rest"])["candidates"]
    assert parts({"candidates": others}) == [text("bb")]


def test_citations_and_probabilities_add_up() -> None:
    def part(uri: str, stop: str | None) -> Told:
        return chunk(
            text(uri),
            stop=stop,
            citationMetadata={"citationSources": [{"uri": uri}]},
            logprobsResult={"chosenCandidates": [{"token": uri}]},
        )

    response = read(NAME, [stream([part("a", None), part("b", "STOP")])]).response
    assert response.citation_metadata == {"citationSources": [{"uri": "a"}, {"uri": "b"}]}
    assert response.logprobs_result == {"chosenCandidates": [{"token": "a"}, {"token": "b"}]}


def test_an_error_in_mid_stream_is_raised() -> None:
    told: JsonObject = {"error": {"code": 429, "message": "Slow", "status": "RESOURCE_EXHAUSTED"}}
    with pytest.raises(ModelError, match="Slow") as caught:
        read(NAME, [stream([EVERYTHING[0], ("", told)])])
    assert caught.value.code == "rate_limited"


def test_a_stream_is_cut_until_it_says_how_it_ended() -> None:
    for length in range(len(EVERYTHING)):
        with pytest.raises(ModelError) as caught:
            read(NAME, [stream(EVERYTHING[:length])])
        assert caught.value.code == "cut_stream"


def test_a_blocked_prompt_ends_a_stream() -> None:
    told: Told = ("", {"promptFeedback": {"blockReason": "SAFETY"}})
    assert read(NAME, [stream([told])]).response.error_code == "safety"
