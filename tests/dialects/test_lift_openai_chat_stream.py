"""Streams of Chat Completions: chunks that add up to the answer that would have come whole."""

import json
from typing import cast

import pytest

from tests.dialects.answers import Read, Told, byte_by_byte, in_pieces, read, sent_back, stream
from tests.dialects.test_lift_openai_chat import GPT, NAME, OPEN, call, parts_of
from weft.dialects import stream_of
from weft.errors import ModelError
from weft.values import Json, JsonObject

HEAD: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1763000000,
    "model": "gpt-4.1-2025-04-14",
}
USAGE: JsonObject = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def chunk(finish: str | None = None, index: int = 0, **delta: Json) -> Told:
    """One chunk with this delta."""
    choice: JsonObject = {"index": index, "delta": delta, "logprobs": None}
    return "", {**HEAD, "choices": [{**choice, "finish_reason": finish}], "usage": None}


def streamed(*deltas: JsonObject, finish: str = "stop") -> list[Told]:
    """The chunks of an answer, with its usage in a last one without a choice."""
    first, last = chunk(role="assistant", content=""), chunk(finish)
    usage: JsonObject = {**HEAD, "choices": [], "usage": USAGE}
    return [first, *(chunk(**delta) for delta in deltas), last, ("", usage)]


def piece(index: int | None, text: str, **more: Json) -> JsonObject:
    """A piece of a call's arguments."""
    function: JsonObject = {"arguments": text, **more.pop("function", {})}  # type: ignore[dict-item]
    held: JsonObject = {"function": function, **more}
    return {"tool_calls": [held if index is None else {"index": index, **held}]}


def opened(index: int | None, call_id: str | None, text: str = "") -> JsonObject:
    """The first piece of a call of the tool that every run here has."""
    named: JsonObject = {"name": "lookup"}
    more: JsonObject = {"type": "function", "function": named}
    return piece(index, text, **more) if call_id is None else piece(index, text, id=call_id, **more)


def told(*deltas: JsonObject, finish: str = "stop") -> Read:
    """What a stream of these deltas says."""
    return read(NAME, [stream(streamed(*deltas, finish=finish))])


def calls_of(found: Read) -> list[JsonObject]:
    """The calls of the body that a stream adds up to."""
    choice = cast("list[JsonObject]", found.body["choices"])[0]
    return cast("list[JsonObject]", cast("JsonObject", choice["message"])["tool_calls"])


TEXT = streamed({"content": "Grüße, "}, {"content": "Welt 🌍"}, {"content": "."})
TWO_CALLS = streamed(
    opened(0, "c1"), piece(0, '{"key"'), opened(1, "c2"), piece(1, '{"key":'), piece(0, ':"a"}'),
    piece(1, '"b"}'), finish="tool_calls",
)  # fmt: skip


def test_text_is_shown_as_it_comes_and_usage_follows() -> None:
    found = read(NAME, [stream(TEXT)])
    assert [shown.text for shown in found.shown] == ["Grüße, ", "Welt 🌍", "."]
    assert all(shown.partial for shown in found.shown)
    assert found.response.text == "Grüße, Welt 🌍."
    assert found.response.finish_reason == "STOP"
    assert found.response.usage is not None
    assert found.response.usage.total_token_count == 15
    assert found.response.model_version == "gpt-4.1-2025-04-14"


@pytest.mark.parametrize("events", [TEXT, TWO_CALLS], ids=["text", "calls"])
def test_the_body_is_what_the_providers_own_client_puts_together(events: list[Told]) -> None:
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    state = ChatCompletionStreamState()
    for _, data in events:
        state.handle_chunk(ChatCompletionChunk.model_validate(data))
    theirs = state.current_completion_snapshot.choices[0].message
    ours = cast("list[JsonObject]", read(NAME, [stream(events)]).body["choices"])[0]["message"]
    message = cast("JsonObject", ours)
    assert message["content"] == (theirs.content or "")
    wanted = [
        (one.id, one.function.name, one.function.arguments) for one in theirs.tool_calls or ()
    ]
    found = cast("list[dict[str, dict[str, str]]]", message.get("tool_calls", []))
    assert [(x["id"], x["function"]["name"], x["function"]["arguments"]) for x in found] == wanted


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("events", [TEXT, TWO_CALLS], ids=["text", "calls"])
def test_however_the_bytes_are_cut_the_answer_is_the_same(events: list[Told], newline: str) -> None:
    data = stream(events, newline=newline) + f"data: [DONE]{newline}{newline}".encode()
    whole = read(NAME, [data])
    assert read(NAME, byte_by_byte(data)) == whole
    for seed in range(100):
        assert read(NAME, in_pieces(data, cuts=1 + seed % 20, seed=seed)) == whole


def test_a_streamed_answer_goes_back_as_it_came() -> None:
    found = read(NAME, [stream(TWO_CALLS)])
    wire = sent_back(NAME, GPT, found.body).wire
    turns = cast("list[JsonObject]", wire["messages"])
    turn = next(turn for turn in turns if turn["role"] == "assistant")
    assert turn["tool_calls"] == [call("c1"), call("c2", '{"key":"b"}')]


@pytest.mark.parametrize(
    "deltas",
    [
        [opened(0, "c1", '{"key":'), piece(0, '"a"}'), opened(1, "c2", '{"key":"b"}')],
        [opened(0, "c1", '{"key":"a"}'), opened(0, "c2", '{"key":"b"}')],
        [opened(None, "c1", '{"key":'), piece(None, '"a"}'), opened(None, "c2", '{"key":"b"}')],
        [opened(0, "c1", '{"key":'), opened(0, "c1", '"a"}'), opened(1, "c2", '{"key":"b"}')],
        [opened(0, "c1"), opened(1, "c2"), piece(1, '{"key":"b"}', id=""), piece(0, '{"key":"a"}')],
        [{"tool_calls": [call("c1"), call("c2", '{"key":"b"}')]}],
        [opened(None, "c1"), opened(None, "c2"), piece(None, '{"key":"b"}', id="c2"),
         piece(None, '{"key":"a"}', id="c1")],
    ],
    ids=["by index", "one index", "no index", "id repeated", "id blank", "whole", "by id"],
)  # fmt: skip
def test_calls_come_in_many_ways(deltas: list[JsonObject]) -> None:
    found = told(*deltas, finish="tool_calls")
    assert calls_of(found) == [call("c1"), call("c2", '{"key":"b"}')]


def test_arguments_that_come_as_an_object_are_text_again() -> None:
    named: JsonObject = {"name": "lookup", "arguments": {"key": "a"}}
    whole: JsonObject = {"tool_calls": [{"id": "c1", "type": "function", "function": named}]}
    assert calls_of(told(whole)) == [call("c1")]


def test_a_custom_call_comes_in_pieces_too() -> None:
    first: JsonObject = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "lookup"}}
    deltas: list[JsonObject] = [{"tool_calls": [first]}]
    deltas += [{"tool_calls": [{"index": 0, "custom": {"input": text}}]} for text in ("key", " a")]
    custom: JsonObject = {"name": "lookup", "input": "key a"}
    assert calls_of(told(*deltas)) == [{"id": "c1", "type": "custom", "custom": custom}]


def test_a_call_that_was_cut_short_is_malformed() -> None:
    found = told(opened(0, "c1"), piece(0, '{"key": "a'), finish="length")
    assert found.response.finish_reason == "MAX_TOKENS"
    part = parts_of(found.response)[0]
    assert part.function_call is not None
    assert part.function_call.args is None


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_shown_as_thoughts(field: str) -> None:
    found = told({field: "Let me"}, {"content": None, field: " look."}, {"content": "Hi."})
    assert found.thoughts == "Let me look."
    assert found.text == "Hi."
    assert [part.text for part in parts_of(found.response)] == ["Let me look.", "Hi."]


def test_details_of_a_thought_grow_by_their_index() -> None:
    def detail(index: int, **more: Json) -> JsonObject:
        kind = "reasoning.encrypted" if "data" in more else "reasoning.text"
        return {"reasoning_details": [{"type": kind, "index": index, **more}]}

    found = told(
        {**detail(0, text="Let me"), "reasoning": "Let me"},
        {**detail(0, text=" look.", signature="c2ln"), "reasoning": " look."},
        detail(1, data="c2Vh"),
        detail(1, data="bGVk"),
        {"content": "Hi."},
    )
    choice = cast("list[dict[str, JsonObject]]", found.body["choices"])[0]
    text: JsonObject = {"text": "Let me look.", "signature": "c2ln"}
    assert choice["message"]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, **text},
        {"type": "reasoning.encrypted", "index": 1, "data": "c2VhbGVk"},
    ]
    turns = cast("list[JsonObject]", sent_back(NAME, OPEN, found.body).wire["messages"])
    turn = next(turn for turn in turns if turn["role"] == "assistant")
    assert turn["reasoning_details"] == choice["message"]["reasoning_details"]


def test_speech_refusals_probabilities_and_unknown_fields_add_up() -> None:
    events = streamed(
        {"audio": {"id": "audio_1", "transcript": "H"}},
        {"audio": {"transcript": "i.", "data": "Ukl"}},
        {"audio": {"data": "GRg=="}},
        {"refusal": "I would "},
        {"refusal": "rather not."},
        {"annotations": [{"type": "url_citation"}]},
        {"vendor": "a"},
        {"vendor": "b"},
    )
    for at, token in ((1, "H"), (2, "i")):
        choice = cast("list[JsonObject]", events[at][1]["choices"])[0]
        choice["logprobs"] = {"content": [{"token": token}], "refusal": None}
    found = read(NAME, [stream(events)])
    held = cast("list[dict[str, JsonObject]]", found.body["choices"])[0]
    assert held["message"]["audio"] == {"id": "audio_1", "transcript": "Hi.", "data": "UklGRg=="}
    assert held["message"]["refusal"] == "I would rather not."
    assert held["message"]["annotations"] == [{"type": "url_citation"}]
    assert held["message"]["vendor"] == "ab"
    assert found.response.logprobs_result == {
        "content": [{"token": "H"}, {"token": "i"}],
        "refusal": None,
    }
    assert found.text == "I would rather not."


def test_only_the_first_of_several_choices_is_shown() -> None:
    events = [chunk(content="A", role="assistant"), chunk(index=1, content="B")]
    found = read(NAME, [stream([*events, chunk("stop", index=1), chunk("stop")])])
    assert found.text == "A"
    messages = [
        one["message"] for one in cast("list[dict[str, JsonObject]]", found.body["choices"])
    ]
    assert [message["content"] for message in messages] == ["A", "B"]


def test_a_stream_without_its_end_is_cut() -> None:
    with pytest.raises(ModelError) as raised:
        read(NAME, [stream(TEXT[:3])])
    assert raised.value.code == "cut_stream"


def test_a_stream_without_a_reason_is_whole_once_the_server_says_that_it_is_done() -> None:
    found = read(NAME, [stream(TEXT[:3]), b"data: [DONE]\n\n"])
    assert found.response.text == found.text
    assert found.response.finish_reason is None
    assert found.response.error_code is None


@pytest.mark.parametrize(
    "data",
    [
        {"error": {"message": "slow down", "type": "rate_limit_exceeded"}},
        {**HEAD, "choices": [{"index": 0, "error": {"message": "slow down", "code": 429}}]},
    ],
)
def test_an_error_in_the_stream_is_raised(data: JsonObject) -> None:
    with pytest.raises(ModelError) as raised:
        read(NAME, [stream([*TEXT[:3], ("", data)])])
    assert raised.value.code == "rate_limited"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"choices": null}',
        '{"choices": [null]}',
        '{"choices": [{}]}',
        '{"choices": [{"delta": null}]}',
        '{"choices": [{"delta": {"content": 1}, "index": 0, "finish_reason": null}]}',
        '{"choices": [{"delta": "x", "index": "0", "finish_reason": null}]}',
        '{"choices": [{"delta": {"tool_calls": [null, {}]}, "index": 0}]}',
        '{"choices": {"0": {}}}',
    ],
)
def test_a_chunk_of_any_shape_does_no_harm(text: str) -> None:
    answer = stream_of(NAME)
    for _, data in TEXT[:2]:
        answer.feed("", data)
    assert answer.feed("", json.loads(text)) is None
    for _, data in TEXT[2:]:
        answer.feed("", data)
    choice = cast("list[dict[str, JsonObject]]", answer.body()["choices"])[0]
    assert choice["message"]["role"] == "assistant"
