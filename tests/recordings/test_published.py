"""Forms that were met in files which people published, each as small as shows it."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weft.errors import SessionError
from weft.recordings import Recording, exchanges_of, files_in, read_file, read_files
from weft.recordings.read import read_recordings

Value = Any
"""JSON of a stranger."""

ASKED: list[Value] = [{"role": "user", "content": "Is it open?"}]
ANSWERED: list[Value] = [*ASKED, {"role": "assistant", "content": "It is open."}]


def read(value: Value, name: str = "f.json", *, lenient: bool = False) -> list[Recording]:
    return [*read_recordings(json.dumps(value).encode(), name=name, lenient=lenient)]


def read_lines(*rows: Value) -> list[Recording]:
    text = "\n".join(map(json.dumps, rows))
    return [*read_recordings(text.encode(), name="f.jsonl")]


def texts(recording: Recording) -> list[str]:
    return [event.text or "" for event in recording.session.events]


def asides(recording: Recording) -> list[str]:
    return [f"{one.what}: {one.why}" for one in recording.aside]


def test_what_gemini_cli_shows_of_a_call_was_not_said() -> None:
    response = {"id": "k", "name": "activate_skill", "response": {"output": "it is on"}}
    call = {"id": "k", "name": "activate_skill", "args": {"name": "draw"}, "status": "success",
            "displayName": "Activate Skill", "description": "Turns a skill on for this task.",
            "result": [{"functionResponse": response}]}  # fmt: skip
    answer = {"type": "gemini", "content": "", "toolCalls": [call]}
    (recording,) = read({"sessionId": "s", "messages": [answer]})
    assert [event.calls[0].name for event in recording.session.events if event.calls] == [
        "activate_skill"
    ]


INIT = {"type": "init", "timestamp": "2026-01-01T10:00:00Z", "model": "gemini-3-pro"}


def test_what_gemini_cli_prints_is_read_run_by_run() -> None:
    used = {"type": "tool_use", "tool_name": "ls", "tool_id": "a", "parameters": {}}
    failed = {"type": "tool_result", "tool_id": "a", "status": "error",
              "error": {"type": "x", "message": "no such folder"}}  # fmt: skip
    first, second = read_lines(
        {"type": "message", "role": "user", "content": "Look around."},
        {**INIT, "session_id": "one"},
        {"type": "message", "role": "assistant", "content": "I ", "delta": True},
        {"type": "message", "role": "assistant", "content": "look.", "delta": True},
        used,
        failed,
        {"type": "result", "status": "success", "stats": {"input_tokens": 70, "output_tokens": 5}},
        {**INIT, "session_id": "two"},
        {"type": "message", "role": "user", "content": "Again."},
    )
    assert (first.id, second.id, first.model) == ("one", "two", "gemini-3-pro")
    asked, called, returned = first.session.events
    assert (asked.text, called.text, called.calls[0].name) == ("Look around.", "I look.", "ls")
    assert returned.results[0].response == {"error": "no such folder"}
    assert asides(first) == [
        "token counts: of the whole run: 70 sent and 5 received, not of each answer"
    ]
    assert texts(second) == ["Again."]


def test_kimi_code_shows_what_a_call_does_and_keeps_its_system_text_with_the_settings() -> None:
    def step(**event: Value) -> Value:
        return {"type": "context.append_loop_event", "event": event, "time": 1_785_000_000_000}

    asked = {"role": "user", "content": [{"type": "text", "text": "Make a plan."}]}
    (recording,) = read_lines(
        {"type": "metadata", "protocol_version": "1.4", "created_at": 1},
        {"type": "config.update", "systemPrompt": "You are an agent."},
        {"type": "config.update", "modelAlias": "m"},
        *({"type": "permission.set_mode", "mode": "manual"} for _ in range(6)),
        {"type": "turn.prompt", "input": asked["content"], "origin": {"kind": "user"}},
        {"type": "context.append_message", "message": asked},
        step(type="step.begin", step=1),
        step(type="tool.call", uuid="k", turnId="0", toolCallId="k", name="EnterPlanMode", args={},
             description="Requesting to enter plan mode"),
        step(type="step.end", step=1),
        step(type="tool.result", toolCallId="k", result={"output": "done"}),
    )  # fmt: skip
    assert recording.instructions == {"agent": "You are an agent."}
    assert [call.name for event in recording.session.events for call in event.calls] == [
        "EnterPlanMode"
    ]


# --- conversations under names of their own


@pytest.mark.parametrize(
    "value",
    [
        {"task_id": 1, "reward": 0.5, "traj": ANSWERED},
        [{"task_id": 1, "reward": 0.5, "traj": ANSWERED}],
        {"info": {"seed": 3}, "simulations": [{"reward": 0.5, "messages": ANSWERED}]},
        {"score": 0.5, "run": {"messages": ANSWERED}},
    ],
)
def test_a_conversation_under_a_name_of_its_own_is_read_and_the_rest_is_named(value: Value) -> None:
    (recording,) = read(value)
    assert texts(recording) == ["Is it open?", "It is open."]
    assert any("next to the" in one for one in asides(recording))


def test_conversations_by_name_are_recordings_by_name() -> None:
    first, second = read({"monday": ANSWERED, "tuesday": ANSWERED, "note": "two days"})
    assert [first.id, second.id] == ["f/monday", "f/tuesday"]
    assert asides(first) == ["`note` next to the `monday`: it is not part of the conversation"]
    assert not second.aside


def test_messages_that_nobody_answers_are_no_conversation() -> None:
    with pytest.raises(SessionError, match="an object with cases"):
        read({"cases": ASKED})


# --- spans


def span(id: str, parent: str = "", **attributes: Value) -> Value:
    listed = [{"key": key, "value": {"stringValue": one}} for key, one in attributes.items()]
    return {"traceId": "t", "spanId": id, "parentSpanId": parent, "name": id, "attributes": listed,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2"}  # fmt: skip


def otlp(*spans: Value) -> Value:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [*spans]}]}]}


LLM = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-4o",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Is it open?",
    "llm.output_messages.0.message.role": "assistant",
}
OUT = "llm.output_messages.0.message"


def test_a_call_without_its_id_has_that_of_the_answer_as_it_came_or_of_its_result() -> None:
    call = "tool_calls.0.tool_call.function.name"
    came = {
        "generations": [[{"message": {"kwargs": {"tool_calls": [{"name": "look", "id": "k"}]}}}]]
    }
    asking = {**LLM, f"{OUT}.{call}": "look", "output.value": json.dumps(came)}
    first = "llm.input_messages.1.message"
    back = "llm.input_messages.2.message"
    answering = {**LLM, f"{first}.role": "assistant", f"{first}.{call}": "look",
                 f"{back}.role": "tool", f"{back}.tool_call_id": "k", f"{back}.content": "yes",
                 f"{OUT}.content": "It is open."}  # fmt: skip
    (recording,) = read(otlp(span("a", **asking), span("b", **answering)))
    calls = [call.id for event in recording.session.events for call in event.calls]
    results = [one for event in recording.session.events for one in event.results]
    assert (calls, [(one.id, one.name) for one in results]) == (["k"], [("k", "look")])
    (alone,) = read(otlp(span("a", **{**LLM, f"{OUT}.{call}": "look"})))
    assert [one.name for event in alone.session.events for one in event.calls] == ["look"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_span_of_a_library_around_that_of_its_client_is_one_call(at_once: bool) -> None:
    said = {**LLM, f"{OUT}.content": "It is open."}
    inner, outer = span("inner", "outer", **said), span("outer", **said)
    (recording,) = read(otlp(inner, outer) if at_once else [otlp(inner), otlp(outer)])
    assert len(exchanges_of(recording)) == 1
    assert asides(recording) == ["span around a call: the call in it is read"]


def test_what_langfuse_is_sent_is_put_together_by_the_ids_in_it() -> None:
    made = {"id": "g", "traceId": "t", "model": "gpt-4o", "input": {"messages": ASKED}}
    ended = {"id": "g", "output": ANSWERED[1], "usageDetails": {"input": 10, "output": 2}}
    (recording,) = read({"batch": [
        {"type": "trace-create", "body": {"id": "t", "input": {"messages": ASKED}}},
        {"type": "generation-create", "body": made},
        {"type": "generation-update", "body": ended},
    ], "metadata": {"sdk_name": "python"}})  # fmt: skip
    assert (recording.format, texts(recording)) == ("langfuse", ["Is it open?", "It is open."])
    (call,) = exchanges_of(recording)
    assert call.usage is not None
    assert (call.model, call.usage.prompt_token_count) == ("gpt-4o", 10)
    assert asides(recording) == ["event `trace-create`: no model was asked in it"]


# --- Crush's database


def crush(path: Path, *messages: tuple[str, str, Value], summary: str = "") -> None:
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE sessions (id, parent_session_id, title, prompt_tokens,"
            " completion_tokens, cost, created_at, summary_message_id);"
            "CREATE TABLE messages (id, session_id, role, parts, model, created_at)"
        )
        for id, parent in (("main", None), ("k1", "main")):
            row = (id, parent, "t", 90 if id == "main" else 0, 7, 0.25, 1_780_000_000, summary)
            database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        for at, (session, role, parts) in enumerate(messages):
            row = (f"m{at}", session, role, json.dumps(parts), "qwen3", 1_780_000_000)
            database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", row)


def part(kind: str, **data: Value) -> Value:
    return {"type": kind, "data": data}


CRUSH: Sequence[tuple[str, str, Value]] = (
    ("main", "user", [part("text", text="Find it."), part("finish", reason="stop", time=0)]),
    ("main", "assistant", [part("finish", reason="error", message="API Error", details="404 x y")]),
    ("main", "assistant", [
        part("reasoning", thinking="I ask somebody."),
        part("tool_call", id="k1", name="agent", input='{"prompt": "Look."}', type="function"),
        part("finish", reason="tool_use", time=1)]),
    ("main", "tool", [
        part("tool_result", tool_call_id="k1", name="", content="It is here.", is_error=False)]),
    ("main", "assistant", [part("text", text="Here it is."), part("finish", reason="end_turn")]),
    ("k1", "user", [part("text", text="Look.")]),
    ("k1", "assistant", [part("text", text="It is here.")]),
)  # fmt: skip


def test_the_database_of_crush_has_its_sessions_and_those_of_its_sub_agents(tmp_path: Path) -> None:
    crush(tmp_path / "crush.db", *CRUSH)
    main, helper = read_file(tmp_path / "crush.db")
    kinds = [[one.kind for one in event.content.parts or ()] for event in main.session.events
             if event.content is not None]  # fmt: skip
    assert kinds == [["text"], ["thought", "call"], ["result"], ["text"]]
    assert (main.format, main.model, main.session.events[2].results[0].name) == (
        "crush", "qwen3", "agent",
    )  # fmt: skip
    assert asides(main) == [
        "answer: it is an error: API Error: 404 x y",
        "token counts: of the session: 90 sent and 7 received at the last count, $0.2500 in all,"
        " not of each answer",
    ]
    assert (helper.parent, helper.relation, helper.forked) == ("main", "sub-agent", 1)
    assert texts(helper) == ["Look.", "It is here."]


def test_a_summary_of_crush_takes_the_place_of_what_was_said(tmp_path: Path) -> None:
    more = ("main", "user", [part("text", text="And now?")])
    crush(tmp_path / "crush.db", *CRUSH[:5], more, summary="m4")
    (main,) = read_file(tmp_path / "crush.db")
    (summed,) = [one.actions.compaction for one in main.session.events if one.actions.compaction]
    assert summed.compacted_content.parts is not None
    assert summed.compacted_content.parts[0].text == "Here it is."


# --- gptme


TOLD = "Ran command"


def test_gptme_writes_calls_among_its_words_and_results_as_the_system() -> None:
    at = {"timestamp": "2026-01-01T10:00:00"}
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 50}
    facts = {"model": "anthropic/claude-sonnet-4-5", "cost": 0.01, "usage": usage}
    (recording,) = read_lines(
        {"role": "system", "content": "You are gptme.", "pinned": True, **at},
        {"role": "system", "content": "# The folder", **at},
        {"role": "user", "content": "List the files.", "files": ["/p/a.txt"], **at},
        {"role": "assistant", "content": 'I look.\n@shell(k1): {"command": "ls {a}"}', **at,
         "metadata": facts},
        {"role": "system", "content": "a.txt is there", "call_id": "k1", **at},
        {"role": "assistant", "content": "```shell\nls -la\n```", **at},
        {"role": "system", "content": TOLD, **at},
    )  # fmt: skip
    assert recording.instructions == {"agent": "You are gptme.\n\n# The folder"}
    asked, called, returned, more, printed = recording.session.events
    assert (asked.text, called.text) == ("List the files.", "I look.")
    assert [(call.id, call.args) for call in called.calls] == [("k1", {"command": "ls {a}"})]
    assert [(one.name, one.response) for one in returned.results] == [
        ("shell", {"result": "a.txt is there"})
    ]
    assert (more.author, printed.author, printed.text) == ("agent", "user", TOLD)
    assert called.usage is not None
    assert (called.usage.prompt_token_count, called.usage.cached_content_token_count) == (150, 50)
    assert called.provenance.stated_cost == 0.01
    assert asides(recording) == [
        "files of a message: the conversation names them, and they are kept elsewhere"
    ]


# --- folders that are one recording


ABOUT = {
    "session_id": "abc",
    "environment": {"working_directory": "/p"},
    "system_prompt": {"role": "system", "content": "You are Vibe."},
    "tools_available": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
    "config": {"active_model": "dev", "models": [{"name": "devstral-2", "alias": "dev"}]},
    "stats": {"session_prompt_tokens": 1200, "session_completion_tokens": 40},
}
PICTURE = {"source": {"kind": "file", "path": "x.png"}, "alias": "x", "mime_type": "image/png"}


def vibe(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(ABOUT))
    asked = {**ASKED[0], "injected": False, "message_id": "m1", "images": [PICTURE]}
    lines = "\n".join(map(json.dumps, [asked, {**ANSWERED[1], "reasoning_content": "I look up."}]))
    (folder / "messages.jsonl").write_text(lines)
    return folder


def test_a_session_of_vibe_is_its_messages_and_what_it_was_held_with(tmp_path: Path) -> None:
    (recording,) = read_files(files_in([vibe(tmp_path / "session_1")]))
    assert (recording.id, recording.format, recording.model) == ("abc", "vibe", "devstral-2")
    assert recording.instructions == {"agent": "You are Vibe."}
    assert [tool.name for tool in recording.tools] == ["bash"]
    assert texts(recording) == ["Is it open?", "It is open."]
    assert asides(recording) == [
        "picture of a message: it is kept in another file",
        "token counts: of the session: 1,200 sent and 40 received, not of each answer",
    ]
    (alone,) = read_files([tmp_path / "session_1" / "messages.jsonl"])
    assert alone.id == "abc"


def test_a_torn_last_line_of_vibe_is_named_and_another_is_an_error(tmp_path: Path) -> None:
    path = vibe(tmp_path / "session_1") / "messages.jsonl"
    whole = path.read_text()
    path.write_text(whole + '\n{"role": "us')
    (recording,) = read_files([path])
    assert any(one.startswith("line that cannot be read") for one in asides(recording))
    path.write_text('{"role": "us\n' + whole)
    with pytest.raises(SessionError, match=r"messages.jsonl:1"):
        [*read_files([path])]
    assert [*read_files([path], lenient=True)]


def test_messages_next_to_another_programs_notes_are_a_file_of_their_own(tmp_path: Path) -> None:
    path = vibe(tmp_path / "session_1") / "messages.jsonl"
    path.write_text("\n".join(map(json.dumps, ANSWERED)))
    path.with_name("meta.json").write_text(json.dumps({"title": "x"}))
    (recording,) = read_files([path])
    assert recording.format == "openai-chat"


def opencode(root: Path) -> Path:
    def write(name: str, value: Value) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    for session in ("ses_1", "ses_2"):
        for at, role in enumerate(("user", "assistant")):
            id = f"msg_{session}_{at}"
            info = {"id": id, "sessionID": session, "role": role, "modelID": "big-pickle",
                    "time": {"created": 1_780_000_000_000 + at}}  # fmt: skip
            write(f"message/{session}/{id}.json", info)
            part = {"id": "prt_1", "messageID": id, "type": "text", "text": f"{role} of {session}"}
            write(f"part/{id}/prt_1.json", part)
        write(f"session/project/{session}.json", {"id": session, "title": "x"})
    write("todo/ses_1.json", [])
    return root


def test_the_files_of_older_opencode_are_its_sessions(tmp_path: Path) -> None:
    first, second = read_files(files_in([opencode(tmp_path / "storage")]))
    assert [(one.id, one.format, one.model) for one in (first, second)] == [
        ("ses_1", "opencode", "big-pickle"), ("ses_2", "opencode", "big-pickle"),
    ]  # fmt: skip
    assert texts(second) == ["user of ses_2", "assistant of ses_2"]
    assert asides(first) == ["folder `todo`: it is not part of a conversation"]
    (only,) = read_files(files_in([tmp_path / "storage" / "message" / "ses_2"]))
    assert only.id == "ses_2"


# --- what a model was not asked


@pytest.mark.parametrize(
    "row",
    [
        {"input": "What is the capital?", "target": "Oslo"},
        {"input": [*ASKED], "ideal": "yes"},
    ],
)
def test_a_row_of_a_data_set_is_no_request(row: Value) -> None:
    with pytest.raises(SessionError, match="this is not a recording: an object with input"):
        read(row)
    (request,) = read({**row, "model": "gpt-4o"})
    assert request.format == "openai-responses"


def test_a_call_of_a_scorer_is_named_and_the_answers_keep_their_counts() -> None:
    def call(id: str, sent: int) -> Value:
        message = {"id": id, "role": "assistant", "content": "It is open."}
        usage = {"input_tokens": sent, "output_tokens": 2}
        return {"event": "model", "model": "m", "output": {"choices": [{"message": message}],
                "usage": usage}}  # fmt: skip

    sample = {"id": 1, "epoch": 1, "messages": [*ASKED, {**ANSWERED[1], "id": "a"}],
              "events": [call("a", 60), call("grade", 250)]}  # fmt: skip
    log = {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": [sample]}
    (recording,) = read(log)
    usages = [event.usage for event in recording.session.events if event.usage]
    assert [one.prompt_token_count for one in usages] == [60]
    assert "call of m: a scorer or another agent made it, 250 tokens sent: it is in no sum" in (
        asides(recording)
    )


def test_a_database_of_another_program_says_what_is_in_it(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute("CREATE TABLE blobs (id, data)")
    with pytest.raises(
        SessionError, match="no program that is known made it: its tables are blobs"
    ):
        [*read_file(tmp_path / "c.db")]


def test_messages_of_a_graph_may_be_pairs(tmp_path: Path) -> None:
    answer = {"type": "ai", "content": "It is open."}
    state = {"channel_values": {"messages": [["user", "Is it open?"], answer]}}
    with sqlite3.connect(tmp_path / "c.sqlite") as database:
        database.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint)"
        )
        row = ("t", "", "1", "json", json.dumps(state))
        database.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", row)
    (recording,) = read_file(tmp_path / "c.sqlite")
    assert texts(recording) == ["Is it open?", "It is open."]


# --- chats of apps


def test_the_export_of_claude_ai_is_the_branch_that_a_chat_ended_on() -> None:
    def message(id: str, parent: str, sender: str, *content: Value, **more: Value) -> Value:
        return {"uuid": id, "parent_message_uuid": parent, "sender": sender, "text": "",
                "content": [*content], "created_at": "2026-01-01T10:00:00Z", **more}  # fmt: skip

    used = {"type": "tool_use", "name": "search", "input": {"q": "opening"}}
    back = {"type": "tool_result", "name": "search", "is_error": False,
            "content": [{"type": "text", "text": "open until nine"}]}  # fmt: skip
    words = {"type": "text", "text": "It is open."}
    thought = {"type": "thinking", "thinking": "I look it up."}
    attached = [{"file_name": "a.txt", "extracted_content": "the plan"}]
    (recording,) = read([{"uuid": "c", "name": "x", "chat_messages": [
        message("1", "0", "human", {"type": "text", "text": "Is it open?"}, attachments=attached),
        message("2", "1", "assistant", {"type": "text", "text": "I do not know."}),
        message("3", "1", "assistant", thought, used, back, words),
    ]}], "conversations.json")  # fmt: skip
    kinds = [[one.kind for one in event.content.parts or ()] for event in recording.session.events
             if event.content is not None]  # fmt: skip
    assert kinds == [["text", "text"], ["thought", "call"], ["result"], ["text"]]
    assert recording.session.events[2].results[0].id == recording.session.events[1].calls[0].id
    assert asides(recording) == ["message: it is on a branch that was left"]


def test_a_session_of_continue_has_what_was_added_to_a_message() -> None:
    call = {"id": "k", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    state = {"toolCallId": "k", "status": "done", "output": [{"content": "a.txt"}]}
    (recording,) = read({"sessionId": "s", "title": "x", "workspaceDirectory": "/p", "history": [
        {"message": {"role": "user", "content": [{"type": "text", "text": "Look."}]},
         "contextItems": [{"name": "a", "content": "the file a"}]},
        {"message": {"role": "thinking", "content": "I list."}, "contextItems": []},
        {"message": {"role": "assistant", "content": "", "toolCalls": [call]},
         "toolCallStates": [state], "promptLogs": [{"modelTitle": "gpt-4o"}]},
    ]})  # fmt: skip
    asked, called, returned = recording.session.events
    assert [part.text for part in asked.content.parts or ()] == ["the file a", "Look."]
    assert [part.kind for part in called.content.parts or ()] == ["thought", "call"]
    assert (recording.model, returned.results[0].response) == ("gpt-4o", {"result": "a.txt"})


# --- SWE-agent


def swe() -> Value:
    def said(role: str, content: str) -> Value:
        return {"role": role, "content": content, "agent": "main", "message_type": "x"}

    start = [said("system", "You are an agent."), said("user", "Mend it.")]
    first = [said("assistant", "I look: ls"), said("user", "a long list of files")]
    second = [said("assistant", "I read: cat a"), said("user", "print('x')")]
    third = [said("assistant", "I write: sed a"), said("user", "It is written.")]
    short = said("user", "Old environment output: (9 lines omitted)")
    later = [*start, first[0], short, *second]
    steps = [
        {"action": "ls", "response": "I look: ls", "messages": start + first},
        {"action": "cat a", "response": "I read: cat a", "messages": later},
        {"action": "sed a", "response": "I write: sed a", "messages": later + third},
        {"action": "", "response": "I am done, said badly.", "messages": later + third},
    ]
    config = json.dumps({"agent": {"model": {"name": "gpt-4o"}}})
    ends = [said("assistant", "Exit due to cost limit"), said("user", "It ran.")]
    history = [*start, *first, *second, *third, *ends]
    return {"environment": "e", "history": history, "trajectory": steps, "info": {},
            "replay_config": config}  # fmt: skip


def test_a_request_of_swe_agent_leaves_out_what_old_commands_printed() -> None:
    (recording,) = read(swe())
    calls = exchanges_of(recording)
    bodies = [call.body["messages"] for call in calls if call.body is not None]
    assert [len(one) for one in bodies] == [2, 4, 6]
    assert bodies[2][3] == {"role": "user", "content": "Old environment output: (9 lines omitted)"}
    assert {call.model for call in calls} == {"gpt-4o"}
    answers = [event.id for event in recording.session.events if event.author == "agent"]
    assert [call.event for call in calls] == answers
    assert "a long list of files" in texts(recording)


def test_a_request_of_swe_agent_is_that_of_its_step() -> None:
    run = swe()
    for step in run["trajectory"]:
        step["query"] = step.pop("messages")[:-2]
    calls = exchanges_of(read(run)[0])
    assert [len(call.body["messages"]) for call in calls if call.body is not None] == [2, 4, 6]


def test_what_swe_agent_says_itself_or_asks_again_is_named() -> None:
    (recording,) = read(swe())
    assert texts(recording)[-1] == "It is written."
    assert asides(recording) == [
        "message: the program wrote how the run ended: Exit due to cost limit",
        "answer: the history goes on without it: it was asked again, or the run ended with it",
    ]


def test_a_chat_of_gemini_cli_that_nobody_answered_is_one() -> None:
    rows = [{"type": "info", "content": "Update!"}, {"type": "user", "content": "Is it open?"}]
    (recording,) = read({"sessionId": "s", "projectHash": "p", "messages": rows})
    assert (recording.format, texts(recording)) == ("gemini-cli", ["Is it open?"])
