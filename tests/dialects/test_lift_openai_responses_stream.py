"""Streams of OpenAI Responses: events that add up to the answer that would have come whole."""

from functools import cache
from typing import cast

import pytest
from pydantic import TypeAdapter

from tests.dialects.answers import Told, byte_by_byte, in_pieces, read, stream
from tests.dialects.test_lift_openai_responses import (
    BARE,
    NAME,
    SEARCH,
    THOUGHT,
    body,
    call,
    message,
    text,
)
from weft.dialects import stream_of
from weft.errors import ModelError
from weft.values import Json, JsonObject


@cache
def full_answer() -> JsonObject:
    """An answer with one item of every kind."""
    return body(
        {
            **THOUGHT,
            "summary": [{"type": "summary_text", "text": words} for words in ("Hm.", "Ah.")],
        },
        SEARCH,
        message(text("Grüße, 🌍"), text(" und mehr")),
        BARE,
        call(),
    )


def event(kind: str, **fields: Json) -> Told:
    """One event, named as the provider names it."""
    return kind, {"type": kind, "sequence_number": 0, **fields}


def streamed(answer: JsonObject, end: str = "response.completed") -> list[Told]:
    """The events of an answer, each text in pieces of three letters."""
    begun: JsonObject = {**answer, "output": [], "status": "in_progress", "usage": None}
    events = [event("response.created", response=begun), ("", {"type": "keepalive"})]
    for at, item in enumerate(cast("list[JsonObject]", answer["output"])):
        empty = {**item, **{key: [] for key in ("content", "summary") if key in item}}
        if "arguments" in item:
            empty["arguments"] = ""
        events.append(event("response.output_item.added", output_index=at, item=empty))
        events += [
            event(kind, item_id=item["id"], output_index=at, **fields)
            for kind, fields in _pieces(item)
        ]
        events.append(event("response.output_item.done", output_index=at, item=item))
    return [*events, event(end, response=answer)]


def _pieces(item: JsonObject) -> list[Told]:
    made: list[Told] = []
    for at, piece in enumerate(cast("list[JsonObject]", item.get("summary", []))):
        where: JsonObject = {"summary_index": at}
        empty: JsonObject = {**where, "part": {**piece, "text": ""}}
        made.append(("response.reasoning_summary_part.added", empty))
        for words in _thirds(str(piece["text"])):
            made.append(("response.reasoning_summary_text.delta", {**where, "delta": words}))
    for at, piece in enumerate(cast("list[JsonObject]", item.get("content", []))):
        where = {"content_index": at}
        made.append(("response.content_part.added", {**where, "part": {**piece, "text": ""}}))
        for words in _thirds(str(piece["text"])):
            delta: JsonObject = {**where, "delta": words, "logprobs": []}
            made.append(("response.output_text.delta", delta))
        made.append(("response.output_text.done", {**where, "text": piece["text"], "logprobs": []}))
        made.append(("response.content_part.done", {**where, "part": piece}))
    for words in _thirds(str(item.get("arguments", ""))):
        made.append(("response.function_call_arguments.delta", {"delta": words}))
    return made


def _thirds(words: str) -> list[str]:
    return [words[at : at + 3] for at in range(0, len(words), 3)]


def test_text_and_thoughts_are_shown_as_they_come() -> None:
    found = read(NAME, [stream(streamed(full_answer()))])
    assert found.body == full_answer()
    assert found.text == found.response.text == "Grüße, 🌍 und mehr"
    assert found.thoughts == "Hm.\n\nAh."
    assert all(shown.partial for shown in found.shown)


def test_however_the_bytes_are_cut_the_answer_is_the_same() -> None:
    data = stream(streamed(full_answer()), newline="\r\n")
    whole = read(NAME, [data])
    assert read(NAME, byte_by_byte(data)) == whole
    for seed in range(100):
        assert read(NAME, in_pieces(data, cuts=1 + seed % 20, seed=seed)) == whole


def test_the_body_is_what_the_providers_own_client_puts_together() -> None:
    from openai import omit
    from openai.lib.streaming.responses._responses import ResponseStreamState
    from openai.types.responses import ResponseStreamEvent

    events: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
    state: ResponseStreamState[object] = ResponseStreamState(input_tools=omit, text_format=omit)
    theirs: JsonObject = {}
    for _, data in streamed(full_answer()):
        if data["type"] != "keepalive":
            for made in state.handle_event(events.validate_python(data)):
                if made.type == "response.completed":
                    theirs = made.response.model_dump(mode="json", exclude_unset=True)
    found = [_plain(item) for item in cast("list[JsonObject]", theirs["output"])]
    ours = read(NAME, [stream(streamed(full_answer()))]).body["output"]
    assert found == ours


def _plain(item: JsonObject) -> JsonObject:
    """An item without what the client adds of its own."""
    held = {key: value for key, value in item.items() if key != "parsed_arguments"}
    for piece in cast("list[JsonObject]", held.get("content", [])):
        piece.pop("parsed", None)
    return held


def test_the_finished_item_counts_and_not_the_bodys() -> None:
    events = streamed(full_answer())
    stale: list[Json] = [{**BARE, "encrypted_content": "c3RhbGU="}]
    last = event("response.completed", response={**full_answer(), "output": stale})
    assert read(NAME, [stream([*events[:-1], last])]).body["output"] == [BARE]


def test_a_body_without_items_gets_the_finished_ones() -> None:
    last = event("response.completed", response={**full_answer(), "output": []})
    assert read(NAME, [stream([*streamed(full_answer())[:-1], last])]).body == full_answer()


def test_an_item_that_was_never_finished_comes_from_the_body() -> None:
    events = [one for one in streamed(full_answer()) if one[0] != "response.output_item.done"]
    assert read(NAME, [stream(events)]).body == full_answer()


def test_an_incomplete_answer_is_an_answer() -> None:
    details: JsonObject = {"reason": "max_output_tokens"}
    answer = body(message(text("Ha")), status="incomplete", incomplete_details=details)
    found = read(NAME, [stream(streamed(answer, "response.incomplete"))])
    assert found.response.finish_reason == "MAX_TOKENS"
    assert found.text == "Ha"


def test_refusals_and_shown_reasoning_are_shown() -> None:
    answer = stream_of(NAME)
    refused = answer.feed(*event("response.refusal.delta", delta="No."))
    thought = answer.feed(*event("response.reasoning_text.delta", delta="Hm."))
    assert refused is not None
    assert refused.text == "No."
    assert thought is not None
    assert thought.text == ""


def test_a_stream_without_its_end_is_cut() -> None:
    with pytest.raises(ModelError) as raised:
        read(NAME, [stream(streamed(full_answer())[:-1])])
    assert raised.value.code == "cut_stream"


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (event("error", code="server_error", message="x"), "overloaded"),
        (event("error", error={"code": "rate_limit_exceeded", "message": "x"}), "rate_limited"),
        (("", {"error": {"type": "server_error", "message": "x"}}), "overloaded"),
        (
            event("response.failed", response={"error": {"code": "server_error", "message": "x"}}),
            "overloaded",
        ),
    ],
)
def test_an_error_in_the_stream_is_raised(told: Told, code: str) -> None:
    with pytest.raises(ModelError) as raised:
        read(NAME, [stream([*streamed(full_answer())[:4], told])])
    assert raised.value.code == code


@pytest.mark.parametrize(
    "told",
    [
        event("response.crystal_ball.gazing", item_id="cb_1"),
        event("response.output_text.delta", delta=None),
        event("response.output_text.delta"),
        event("response.output_item.done", item=None, output_index=0),
        ("", {}),
        ("", {"type": None}),
    ],
)
def test_an_event_of_any_shape_does_no_harm(told: Told) -> None:
    events = streamed(full_answer())
    assert read(NAME, [stream([*events[:3], told, *events[3:]])]).body == full_answer()
