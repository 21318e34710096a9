"""Forms that other programs were seen to write, each with what it must come to."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.recordings.test_accounting import SHAPES
from weft.errors import SessionError
from weft.inspector import Inspection
from weft.inspector.questions import dead_weight
from weft.recordings import Recording, exchanges_of, read_file, read_recordings
from weft.recordings.recording import read_counts

Value = Any
"""JSON of a stranger."""

QUESTION = "Weather in Oslo please?"
CALL = {"id": "k1", "type": "function", "function": {"name": "look", "arguments": '{"q": "x"}'}}
ASKED: list[Value] = [{"role": "user", "content": QUESTION}]
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
BACK = {"role": "tool", "tool_call_id": "k1", "content": "it rains"}
ANSWER = {"role": "assistant", "content": "It rains in Oslo."}


def read(value: Value, name: str = "f.json") -> list[Recording]:
    text = value if isinstance(value, str) else json.dumps(value)
    return [*read_recordings(text.encode(), name=name)]


def outline(recording: Recording) -> list[tuple[str, ...]]:
    """What was said, called and returned, event by event."""
    return [
        tuple(part.kind for part in event.content.parts or ())
        for event in recording.session.events
        if event.content is not None
    ]


def count(recording: Recording) -> list[tuple[int | None, int | None, int | None]]:
    usages = [call.usage for call in exchanges_of(recording)]
    return [
        (one.prompt_token_count, one.candidates_token_count, one.cached_content_token_count)
        for one in usages
        if one is not None
    ]


TALK = [("text",), ("call",), ("result",), ("text",)]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # OpenAI's name covers what was cached, whoever writes what was read from it next to it
        ({"prompt_tokens": 100, "completion_tokens": 5, "cacheRead": 60}, (100, 5, 0)),
        ({"input_tokens": 40, "output_tokens": 5, "cache_read_input_tokens": 60}, (100, 5, 0)),
        # a total says that the input covers it
        (
            {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105,
             "cache_read_input_tokens": 60},
            (100, 5, 0),
        ),
        # more was cached than sent: it is counted apart
        ({"prompt_tokens": 4, "completion_tokens": 5, "cached_tokens": 96}, (100, 5, 0)),
        # thoughts apart from the output, and within it
        ({"input": 100, "output": 5, "thoughts": 30, "total": 135}, (100, 5, 30)),
        (
            {"prompt_tokens": 100, "completion_tokens": 35, "total_tokens": 135,
             "completion_tokens_details": {"reasoning_tokens": 30}},
            (100, 35, 0),
        ),
        ({"prompt_tokens": "100", "completion_tokens": "5"}, (100, 5, 0)),
    ],
)  # fmt: skip
def test_tokens_are_counted_once(counts: Value, expected: tuple[int, int, int]) -> None:
    usage = read_counts(counts)
    assert usage is not None
    whole = (usage.prompt_token_count, usage.candidates_token_count)
    assert (*whole, usage.thoughts_token_count or 0) == expected


@pytest.mark.parametrize("shape", sorted({*SHAPES} - {"unknown"}))
def test_the_page_counts_the_tools_of_every_recording(shape: str) -> None:
    (recording,) = read(SHAPES[shape]())
    # a transcript has calls and no declarations: some providers want one all the same
    assert dead_weight(Inspection.of_recording(recording))


def test_numbers_that_count_nothing_are_no_usage() -> None:
    for odd in (-1, 10**30, "9" * 40, "²", None, True, 1.5):
        assert read_counts({"prompt_tokens": odd, "completion_tokens": odd}) is None


def test_an_answer_of_another_server_is_that_of_a_chat() -> None:
    request = {"model": "m", "messages": ASKED}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "I look."}]}
    words = {"type": "text", "text": "It rains in Oslo."}
    line = {"message": {"role": "assistant", "content": "It rains "}, "done": False}
    last = {"message": {"content": "in Oslo."}, "done": True, "prompt_eval_count": 9,
            "eval_count": 4}  # fmt: skip
    answers: list[tuple[Value, tuple[str, ...]]] = [
        ({"message": {**ANSWER, "thinking": "I look."}, "done": True, "prompt_eval_count": 9,
          "eval_count": 4}, ("thought", "text")),
        (f"{json.dumps(line)}\n{json.dumps(last)}\n", ("text",)),
        ({"id": "c", "message": {"role": "assistant", "content": [words]}, "finish_reason":
          "COMPLETE", "usage": {"tokens": {"input_tokens": 9, "output_tokens": 4}}}, ("text",)),
        ({"choices": [{"message": {"role": "assistant", "content": [thinking, words]}}],
          "usage": {"prompt_tokens": 9, "completion_tokens": 4}}, ("thought", "text")),
    ]  # fmt: skip
    for answer, parts in answers:
        (recording,) = read({"request": request, "response": answer})
        assert outline(recording) == [("text",), parts]
        assert recording.session.events[-1].text == "It rains in Oslo."
        assert count(recording) == [(9, 4, None)]


def test_an_error_in_the_place_of_an_answer_is_named_and_loses_nothing() -> None:
    parts = [{"functionCall": {"name": "look", "args": {"q": "x"}}}]
    answer = {"candidates": [{"content": {"role": "model", "parts": parts},
                              "finishReason": "UNEXPECTED_TOOL_CALL"}]}  # fmt: skip
    request = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
    (recording,) = read({"request": request, "response": answer})
    (exchange,) = exchanges_of(recording)
    assert exchange.answer == answer
    assert any("it is an error" in one.why for one in recording.aside)


def test_a_trace_over_many_lines_is_one_conversation() -> None:
    def span(number: int, messages: Value, answer: Value) -> Value:
        said = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.output.messages": json.dumps([answer])}  # fmt: skip
        pairs = [{"key": key, "value": {"stringValue": one}} for key, one in said.items()]
        return {"spanId": str(number), "traceId": "t", "attributes": pairs,
                "startTimeUnixNano": str(1_790_000_000_000_000_000 + number)}  # fmt: skip

    spans = [span(1, ASKED, CALLED), span(2, [*ASKED, CALLED, BACK], ANSWER)]
    trace = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    for text in (json.dumps(trace), json.dumps(trace, indent=2)):
        (recording,) = read(text)
        assert outline(recording) == TALK


SYSTEM = json.dumps([{"type": "text", "content": "Be brief."}])


@pytest.mark.parametrize("told", [{}, {"gen_ai.system_instructions": SYSTEM}])
def test_a_trace_without_words_says_how_to_have_them(told: dict[str, str]) -> None:
    def span(number: int, said: dict[str, str]) -> Value:
        pairs = [{"key": key, "value": {"stringValue": one}} for key, one in said.items()]
        return {"spanId": str(number), "traceId": "t", "attributes": pairs}

    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **told}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    spans = [span(1, chat), span(2, tool), span(3, chat)]
    with pytest.raises(SessionError, match="no call of a model says what was said") as error:
        read({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert "CAPTURE_MESSAGE_CONTENT=true" in (error.value.hint or "")


def test_a_generation_of_instructions_alone_is_refused() -> None:
    asked = {"messages": [{"role": "system", "content": "Be brief."}]}
    row = {"id": "g", "traceId": "t", "type": "GENERATION", "model": "m", "input": asked}
    with pytest.raises(SessionError, match="nothing that was said"):
        read(row)


def log_of(clock: int) -> list[str]:
    """Five calls of one talk, the time of each so much later than that of the one before."""
    lines: list[str] = []
    messages: list[Value] = []
    for number in range(5):
        messages = [*messages, {"role": "user", "content": f"Question {number} of five?"}]
        answer = {"role": "assistant", "content": f"Answer {number} of five."}
        call = {
            "timestamp": 1_790_000_000 + clock * number,
            "request": {"model": "m", "messages": messages},
            "response": {"choices": [{"message": answer}]},
        }
        lines.append(json.dumps(call))
        messages = [*messages, answer]
    return lines


def test_a_log_is_one_conversation_with_the_newest_first_and_with_a_clock_that_went_back() -> None:
    for order in (log_of(1), log_of(1)[::-1], log_of(-1)):
        (recording,) = read("\n".join(order), "log.jsonl")
        assert len(exchanges_of(recording)) == 5


def test_a_step_with_messages_in_it_is_not_a_saved_state() -> None:
    said = {"messages": [*ASKED, CALLED, BACK, ANSWER]}
    step = {"id": "o1", "traceId": "t", "type": "SPAN", "input": {"q": 1}, "output": said}
    asked = {"id": "o2", "traceId": "t", "type": "GENERATION", "parentObservationId": "o1",
             "input": ASKED, "output": ANSWER}  # fmt: skip
    (recording,) = read({"id": "t", "observations": [step, asked]})
    assert outline(recording) == [("text",), ("text",)]


def test_fields_that_are_null_are_not_there() -> None:
    empty = {"tool_calls": None, "tool_call_id": None, "refusal": None}
    messages = [{**ASKED[0], **empty}, CALLED, {**BACK, "tool_calls": None}, {**ANSWER, **empty}]
    (recording,) = read({"messages": messages})
    assert outline(recording) == TALK


def test_a_trajectory_has_its_sub_agents_and_what_the_system_observed() -> None:
    child = {"schema_version": "ATIF-v1.7", "trajectory_id": "child",
             "agent": {"name": "b", "version": "1", "model_name": "m2"},
             "steps": [{"step_id": 1, "source": "user", "message": "Look that up."},
                       {"step_id": 2, "source": "agent", "message": "It rains."}]}  # fmt: skip
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}}
    called = {"tool_call_id": "c", "function_name": "delegate", "arguments": {"task": "weather"}}
    back = {"source_call_id": "c", "content": "done so far",
            "subagent_trajectory_ref": [{"trajectory_id": "child"}]}  # fmt: skip
    steps: list[Value] = [
        {"step_id": 1, "source": "user", "message": [{"type": "text", "text": QUESTION}, picture]},
        {"step_id": 2, "source": "agent", "message": "", "tool_calls": [called],
         "observation": {"results": [back]},
         "metrics": {"prompt_tokens": 50, "completion_tokens": 4, "cached_tokens": 30}},
        {"step_id": 3, "source": "system", "message": "Compacted.",
         "observation": {"results": [{"content": "What was said before, in short."}]}},
        {"step_id": 4, "source": "agent", "message": "It rains in Oslo."},
    ]  # fmt: skip
    run = {"schema_version": "ATIF-v1.7", "session_id": "s", "steps": steps,
           "agent": {"name": "a", "version": "1", "model_name": "m1"},
           "subagent_trajectories": [child]}  # fmt: skip
    whole, other = read(run)
    assert outline(whole) == [("text",), ("call",), ("result",), ("text",), ("text",), ("text",)]
    assert count(whole) == [(50, 4, 30)]
    assert any(one.what == "picture" for one in whole.aside)
    assert (other.parent, other.relation, other.forked, other.model) == ("s", "sub-agent", 1, "m2")


def test_a_thought_belongs_to_the_answer_after_it() -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 12}
    called = [{"id": "k1", "name": "look", "arguments": "{}"}]
    back = [{"call_id": "k1", "name": "look", "content": "it rains", "is_error": False}]
    (recording,) = read(
        [
            {"type": "TextMessage", "source": "user", "content": QUESTION},
            {"type": "ThoughtEvent", "source": "a", "content": "I look that up."},
            {"type": "ToolCallRequestEvent", "source": "a", "content": called,
             "models_usage": usage},
            {"type": "ToolCallExecutionEvent", "source": "a", "content": back},
            {"type": "TextMessage", "source": "a", "content": "It rains in Oslo."},
        ]
    )  # fmt: skip
    assert outline(recording) == [("text",), ("thought", "call"), ("result",), ("text",)]
    assert len(exchanges_of(recording)) == 2


def test_an_odd_line_in_a_transcript_is_named() -> None:
    said = {"type": "user", "uuid": "u", "sessionId": "s", "message": ASKED[0]}
    with pytest.raises(SessionError, match="a line of claude-code is an object") as caught:
        read(f'{json.dumps(said)}\n"oops"\n', "t.jsonl")
    assert caught.value.where == "t.jsonl:2"


def test_objects_that_two_writers_left_on_one_line_are_read() -> None:
    (recording,) = read("".join(map(json.dumps, ASKED)) + json.dumps(ANSWER) + "\n", "t.jsonl")
    assert outline(recording) == [("text",), ("text",)]


def test_checkpoints_of_langgraph_are_read_without_their_classes(tmp_path: Path) -> None:
    def packed(kind: str, **fields: Value) -> msgspec.msgpack.Ext:
        inner = ["langchain_core.messages", kind, {"type": kind, **fields}, "model_validate_json"]
        return msgspec.msgpack.Ext(5, msgspec.msgpack.encode(inner))

    called = {"name": "look", "args": {"q": "x"}, "id": "k1", "type": "tool_call"}
    messages = [
        packed("human", content=QUESTION),
        packed("ai", content="", tool_calls=[called]),
        packed("tool", content="it rains", tool_call_id="k1", name="look"),
        packed("ai", content="It rains in Oslo."),
    ]
    path = tmp_path / "graph.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint)"
        )
        for number in (2, 4):
            state = {"channel_values": {"messages": messages[:number], "note": "x"}}
            row = ("talk", "", f"c{number}", "msgpack", msgspec.msgpack.encode(state))
            database.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", row)
    (recording,) = read_file(path)
    assert (recording.id, recording.format) == ("talk", "langchain")
    assert outline(recording) == TALK


def test_the_database_of_goose_has_its_sessions(tmp_path: Path) -> None:
    asked = {"status": "success", "value": {"name": "look", "arguments": {"q": "x"}}}
    back = {"status": "success", "value": [{"type": "text", "text": "it rains"}]}
    said: list[tuple[str, Value]] = [
        ("user", {"type": "text", "text": QUESTION}),
        ("assistant", {"type": "toolRequest", "id": "k1", "toolCall": asked}),
        ("user", {"type": "toolResponse", "id": "k1", "toolResult": back}),
        ("assistant", {"type": "text", "text": "It rains in Oslo."}),
    ]
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content_json,"
            " created_timestamp, metadata_json)"
        )
        for session in ("one", "two"):
            for role, piece in said:
                row = (session, role, json.dumps([piece]), 1_767_261_600, "{}")
                database.execute(
                    "INSERT INTO messages (session_id, role, content_json, created_timestamp,"
                    " metadata_json) VALUES (?, ?, ?, ?, ?)",
                    row,
                )
    first, second = read_file(path)
    assert (first.id, second.id, first.format) == ("one", "two", "goose")
    assert outline(first) == outline(second) == TALK


def test_a_run_of_agno_is_a_run_and_not_a_request() -> None:
    counted = {"input_tokens": 60, "output_tokens": 6, "total_tokens": 66}
    ran = {"tool_call_id": "k1", "tool_name": "look", "result": "it rains"}
    run = {"run_id": "r", "model": "m", "content": "It rains in Oslo.", "tools": [ran],
           "messages": [*ASKED, {**CALLED, "metrics": counted}, BACK,
                        {**ANSWER, "metrics": counted}]}  # fmt: skip
    (recording,) = read({"session_id": "s", "runs": [run]})
    assert outline(recording) == TALK
    assert [call.options for call in exchanges_of(recording)] == [{}, {}]
    assert count(recording) == [(60, 6, None), (60, 6, None)]


def test_each_agent_of_a_team_has_a_lane_of_its_own() -> None:
    called = {"id": "c1", "name": "look", "arguments": '{"q": "box"}'}
    came = {"call_id": "c1", "name": "look", "content": "a cat", "is_error": False}
    messages = [
        {"type": "TextMessage", "source": "user", "content": "What is in it?"},
        {"type": "ToolCallRequestEvent", "source": "finder", "content": [called]},
        {"type": "ToolCallExecutionEvent", "source": "finder", "content": [came]},
        {"type": "TextMessage", "source": "finder", "content": "A cat."},
        {"type": "TextMessage", "source": "writer", "content": "There is a cat in it."},
    ]
    value = json.dumps({"messages": messages, "stop_reason": None})
    (recording,) = read_recordings(value.encode(), name="team.json")
    authors = [event.author for event in recording.session.events]
    assert authors == ["user", "finder", "finder", "finder", "writer"]
    inspection = Inspection.of_recording(recording)
    assert [frame["agent"] for frame in inspection.film()["frames"]] == [
        "finder", "finder", "writer",
    ]  # fmt: skip
    alone = json.dumps({"messages": messages[:-1], "stop_reason": None})
    (recording,) = read_recordings(alone.encode(), name="alone.json")
    assert {event.author for event in recording.session.events} == {"user", "agent"}


def test_the_database_of_opencode_has_its_sessions(tmp_path: Path) -> None:
    state = {"status": "completed", "input": {"q": "x"}, "output": "it rains"}
    tokens = {"input": 60, "output": 6, "reasoning": 0, "cache": {"read": 40, "write": 0}}
    answer = {"role": "assistant", "modelID": "gpt-x", "time": {"created": 2000}, "tokens": tokens}
    said: list[tuple[dict[str, Value], list[Value]]] = [
        ({"role": "user", "time": {"created": 1000}}, [{"type": "text", "text": QUESTION}]),
        (answer, [{"type": "tool", "tool": "look", "callID": "k1", "state": state}]),
        (answer, [{"type": "step-start"}, {"type": "text", "text": "It rains in Oslo."}]),
    ]
    path = tmp_path / "opencode.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE session (id, parent_id, title)")
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, time_created, data)")
        for session in ("ses_1", "ses_2"):
            for at, (info, parts) in enumerate(said):
                message = f"{session}/{at}"
                row = (message, session, at, json.dumps(info))
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                for number, part in enumerate(parts):
                    row = (f"{message}/{number}", message, session, at, json.dumps(part))
                    database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", row)
    first, second = read_file(path)
    assert (first.id, second.id, first.format) == ("ses_1", "ses_2", "opencode")
    assert outline(first) == outline(second) == TALK
    assert count(first) == [(100, 6, 40), (100, 6, 40)]


def test_the_end_of_a_run_of_mini_swe_agent_is_set_aside() -> None:
    # version 2.4.6 appends how the run ended, in the role `exit`
    answered = {**CALLED, "extra": {"response": {"usage": {"prompt_tokens": 9}}, "timestamp": 1.0}}
    over = {"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}}
    run = {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": "Submitted", "mini_version": "2.4.6"},
        "messages": [*ASKED, answered, BACK, over],
    }
    (recording,) = read(run)
    assert outline(recording) == TALK[:3]
    assert [(one.what, one.places) for one in recording.aside] == [
        ("message `exit`", ("f.json:1: messages[3]",))
    ]


def test_what_openhands_tells_about_a_command_is_part_of_its_result() -> None:
    about = {
        "prefix": "",
        "suffix": "\n[The command completed with exit code 0.]",
        "working_dir": "/repo",
        "py_interpreter_path": "/usr/bin/python",
        "exit_code": 0,
    }
    seen = {"content": [{"type": "text", "text": "it rains"}], "metadata": about}
    event = {"timestamp": "2026-11-19T20:00:00", "source": "agent"}
    call = {"id": "k1", "name": "look", "arguments": '{"q": "x"}'}
    message = {"role": "user", "content": [{"type": "text", "text": QUESTION}]}
    history = [
        {**event, "id": "1", "source": "user", "llm_message": message, "kind": "MessageEvent"},
        {**event, "id": "2", "tool_name": "look", "tool_call_id": "k1", "tool_call": call,
         "llm_response_id": "r1", "kind": "ActionEvent"},
        {**event, "id": "3", "tool_name": "look", "tool_call_id": "k1", "observation": seen,
         "kind": "ObservationEvent"},
    ]  # fmt: skip
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "cache_read_tokens": 60}
    metrics = {"token_usages": [{**usage, "response_id": "r1"}]}
    (recording,) = read({"instance_id": "i", "history": history, "metrics": metrics})
    assert outline(recording) == TALK[:3]
    assert count(recording) == [(100, 5, 60)]
    (result,) = recording.session.events[-1].results
    assert result.response == {
        "result": "it rains\n[The command completed with exit code 0.]\n"
        "[Current working directory: /repo]\n[Python interpreter: /usr/bin/python]\n"
        "[Command finished with exit code 0]"
    }


def test_items_of_openai_agents_for_javascript_are_read_in_each_form() -> None:
    made = {"type": "function_call", "name": "look", "callId": "k1", "arguments": "{}"}
    back = {"type": "function_call_result", "name": "look", "callId": "k1"}
    picture = {"type": "image", "image": {"url": "https://example.com/a.png"}}
    seen = {"type": "input_image", "image": "https://example.com/b.png"}
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "content": [{"type": "input_text", "text": "Hm."}],
    }
    asked = {"type": "message", "role": "user",
             "content": [{"type": "input_text", "text": QUESTION}, seen]}  # fmt: skip
    words: list[Value] = [{"type": "text", "text": "it rains"}, picture]
    for output in ("it rains", words[0], words):
        (recording,) = read([asked, thought, made, {**back, "output": output}])
        assert outline(recording) == [("text", "media"), ("thought", "call"), ("result",)]
        (result,) = recording.session.events[-1].results
        assert "it rains" in json.dumps(result.response)


def test_thoughts_of_openai_agents_for_python_are_read_under_its_name() -> None:
    thought = {"type": "reasoning", "id": "rs_1",
               "summary": [{"type": "summary_text", "text": "Hm."}]}  # fmt: skip
    made = {"type": "function_call", "name": "look", "call_id": "k1", "arguments": "{}"}
    back = {"type": "function_call_output", "call_id": "k1", "output": "it rains"}
    items = json.dumps([*ASKED, thought, made, back]).encode()
    (recording,) = read_recordings(items, name="f.json", format="openai-agents")
    assert outline(recording) == [("text",), ("thought", "call"), ("result",)]
