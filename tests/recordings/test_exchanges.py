"""A recorded call is shown as it was: its body, and where each block of it comes from."""

import json
from pathlib import Path

import pytest

from tests.compaction.talks import TALKS
from weft import Session
from weft.errors import SessionError
from weft.inspector import Inspection
from weft.inspector.export import export
from weft.recordings import Recording, exchanges_of
from weft.recordings.read import read_recordings
from weft.values import JsonObject


def read(*lines: JsonObject) -> list[Recording]:
    data = "\n".join(map(json.dumps, lines)).encode()
    return [*read_recordings(data, name="log.jsonl")]


def chat(*messages: JsonObject, answer: JsonObject | None = None, **fields: object) -> JsonObject:
    request = {"model": "some-model", "messages": [*messages], "tool_choice": "none", **fields}
    line: JsonObject = {"request": request, "status": 200}
    if answer is not None:
        usage = {"prompt_tokens": 90, "completion_tokens": 5, "total_tokens": 95}
        choice = {"index": 0, "message": answer, "finish_reason": "stop"}
        line["response"] = {"id": "x", "model": "some-model", "choices": [choice], "usage": usage}
    return line


def says(role: str, text: str) -> JsonObject:
    return {"role": role, "content": text}


CALL: JsonObject = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "tea"}'}}
    ],
}
RESULT: JsonObject = {"role": "tool", "tool_call_id": "c1", "content": "three kinds of tea"}
HOSTED: JsonObject = {"type": "web_search", "user_location": {"country": "DE"}}


def three_calls() -> tuple[JsonObject, ...]:
    system, later = says("system", "It is 10:01. Help."), says("system", "It is 10:02. Help.")
    asked = says("user", "Which tea?")
    return (
        chat(system, asked, answer=CALL, tools=[HOSTED], temperature=0.25),
        chat(system, asked, CALL, RESULT, answer=says("assistant", "Green tea.")),
        chat(later, asked, CALL, RESULT, says("assistant", "Green tea."), says("user", "Thanks"),
             answer=says("assistant", "Welcome.")),
    )  # fmt: skip


def test_body_model_options_tools_and_answer_are_those_of_the_file() -> None:
    lines = three_calls()
    (recording,) = read(*lines)
    calls = exchanges_of(recording)
    assert [call.number for call in calls] == [1, 2, 3]
    for call, line in zip(calls, lines, strict=True):
        assert call.body == line["request"]
        assert json.dumps(call.body) == json.dumps(line["request"])
        assert call.answer == line["response"]
        assert (call.model, call.status, call.finish) == ("some-model", 200, "STOP")
        assert call.usage is not None
        assert call.usage.prompt_token_count == 90
    assert calls[0].options == {"tool_choice": "none", "temperature": 0.25}
    assert calls[0].tools == (HOSTED,)
    assert calls[1].tools == ()


def test_each_block_says_where_it_comes_from() -> None:
    (recording,) = read(*three_calls())
    first, second, third = exchanges_of(recording)
    assert [str(block.source) for block in first.blocks] == [
        "tool, new in call 1", "system text, new in call 1", "user's words, new in call 1",
    ]  # fmt: skip
    assert [str(block.source) for block in second.blocks] == [
        "system text, new in call 1", "user's words, new in call 1", "answer of call 1",
        "result of `find`, called in call 1",
    ]  # fmt: skip
    assert [str(block.source) for block in third.blocks] == [
        "system text, changed in call 3", "user's words, new in call 1", "answer of call 1",
        "result of `find`, called in call 1", "answer of call 2", "user's words, new in call 3",
    ]  # fmt: skip
    assert third.blocks[0].source.before == "It is 10:01. Help."


def test_a_retry_a_fork_and_a_sub_agent_are_found() -> None:
    start = says("user", "Plan a party for nine people")
    task = "Find nine chairs that are easy to carry"
    ask: JsonObject = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {
            "name": "helper", "arguments": json.dumps({"task": task})}}],
    }  # fmt: skip
    failed: JsonObject = {**chat(start), "status": 500, "response": {"error": {"message": "no"}}}
    recordings = read(
        failed,
        chat(start, answer=ask),
        chat(says("system", "You help."), says("user", task), answer=says("assistant", "Folding.")),
        chat(start, ask, {"role": "tool", "tool_call_id": "c", "content": "Folding."},
             answer=says("assistant", "Done.")),
        chat(start, ask, {"role": "tool", "tool_call_id": "c", "content": "Edited."},
             answer=says("assistant", "Other.")),
    )  # fmt: skip
    main, helper, fork = recordings
    calls = exchanges_of(main)
    assert [(call.retries, call.status, bool(call.error)) for call in calls] == [
        (0, 500, True), (1, 200, False), (0, 200, False),
    ]  # fmt: skip
    assert (helper.parent, helper.relation, helper.forked) == (main.id, "sub-agent", 2)
    assert (fork.parent, fork.relation, fork.forked) == (main.id, "fork", 2)


def test_a_request_whose_input_is_a_text_has_it_as_one_block() -> None:
    (one,) = read({"model": "some-model", "input": "Tea or coffee?"})
    (call,) = exchanges_of(one)
    assert [block.text for block in call.blocks] == ["Tea or coffee?"]


def test_a_sub_agent_of_copilot_is_started_by_its_call() -> None:
    line = next(
        json.loads(line)
        for line in (Path(__file__).parent / "variants" / "variants.jsonl").read_text().split("\n")
        if '"copilot sub-agent"' in line
    )
    main, helper = read_recordings(line["file"].encode(), name="events.jsonl")
    assert (helper.parent, helper.relation, helper.forked) == (main.id, "sub-agent", 1)
    assert [call.model for call in exchanges_of(main)] == ["gpt-x", "gpt-x"]
    assert [call.model for call in exchanges_of(helper)] == ["small-x", "small-x"]
    assert any(one.what == "token counts" for one in main.aside)


def test_spans_in_which_no_model_was_asked_are_an_error() -> None:
    span = {"name": "f", "spanContext": {"traceId": "t", "spanId": "1"}, "attributes": {"a": "b"}}
    with pytest.raises(SessionError, match="no model was asked"):
        list(read_recordings(json.dumps([span]).encode(), name="spans.json"))


@pytest.mark.parametrize(
    "line",
    [
        {"model": "gpt-4o", "input": "Tea or coffee?"},
        {
            "model": "a-model-of-nobody",
            "messages": [says("user", "Tea?"), says("assistant", "Tea")],
        },
    ],
    ids=["one text", "unknown model"],
)
def test_a_recording_can_be_exported(line: JsonObject) -> None:
    (one,) = read(line)
    assert "Tea" in export(Inspection.of_recording(one), key="s")


def test_what_a_program_says_beside_results_begins_no_turn() -> None:
    talk, messages = TALKS["anthropic"], [TALKS["anthropic"].user("Go")]
    beside = ("<system-reminder>Mind the list.</system-reminder>", "Stop, and do this instead.")
    for number, words in enumerate(beside):
        call, results = talk.step(f"c{number}", "read", {"path": "x"}, "text")
        text = {"type": "text", "text": words}
        messages += [call, {**results, "content": [*results["content"], text]}]
    spoken = [one for one in Session.from_messages(messages).events if one.author == "user"]
    assert [one.invocation_id for one in spoken] == ["i1", "i1", "i2"]
