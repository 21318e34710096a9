"""Chats of apps: trees, turns with calls among the words, and histories that are texts."""

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from weft.errors import SessionError
from weft.inspector import Inspection
from weft.recordings import Recording, exchanges_of, read_file
from weft.recordings.accounting import find
from weft.recordings.read import read_recordings


def node(
    id: str, parent: str, role: str, content: dict[str, Any], **fields: Any
) -> tuple[str, dict[str, Any]]:
    author = {"role": role, "name": fields.pop("name", None), "metadata": {}}
    message = {"id": id, "author": author, "content": content, "recipient": "all", **fields}
    return id, {"id": id, "parent": parent, "children": [], "message": message}


def text(words: str) -> dict[str, Any]:
    return {"content_type": "text", "parts": [words]}


MODEL = {"model_slug": "gpt-4o"}
CODE = {"content_type": "code", "language": "python", "text": "print(read('sales'))"}
PLAN = {"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "I look first."}]}
PICTURE = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
CHATGPT = {
    "title": "Sales",
    "conversation_id": "c-1",
    "current_node": "f",
    "mapping": dict(
        (
            ("root", {"id": "root", "parent": None, "children": ["s"], "message": None}),
            node("s", "root", "system", text("")),
            node("u", "s", "user", text("How did sales grow?"), create_time=1_780_000_000.0),
            node("a", "u", "assistant", text("An answer that was given up.")),
            node("b", "u", "assistant", PLAN, metadata=MODEL),
            node("c", "b", "assistant", CODE, recipient="python", metadata=MODEL),
            node("d", "c", "tool", {"content_type": "execution_output", "text": "1, 2 and 3"},
                 name="python"),
            node("e", "d", "tool", {"content_type": "multimodal_text", "parts": [PICTURE]},
                 name="python"),
            node("f", "e", "assistant", text("By one each time."), metadata=MODEL),
        )
    ),
}  # fmt: skip
EMPTY = {"title": "", "mapping": {"r": {"id": "r", "parent": None, "message": None}}}


def read(value: Any, name: str = "conversations.json") -> list[Recording]:
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return [*read_recordings(data, name=name)]


def spoken(recording: Recording) -> list[tuple[str, str]]:
    return [
        (event.author, part.text or str((call and call.name) or (back and back.response)))
        for event in recording.session.events
        for part in (event.content.parts or () if event.content is not None else ())
        for call, back in [(part.function_call, part.function_response)]
    ]


def test_the_branch_that_a_chat_ended_on_is_the_conversation() -> None:
    (recording,) = read([CHATGPT, EMPTY])
    assert (recording.id, recording.format, recording.model) == ("c-1", "chatgpt", "gpt-4o")
    assert spoken(recording) == [
        ("user", "How did sales grow?"),
        ("agent", "Plan\nI look first."),
        ("agent", "python"),
        ("agent", "{'result': '1, 2 and 3'}"),
        ("agent", "By one each time."),
    ]
    assert len(exchanges_of(recording)) == 2  # thoughts and the call after them are one answer
    assert {one.what for one in recording.aside} == {
        "message of another branch",
        "`image_asset_pointer`",
    }
    without = {key: value for key, value in CHATGPT.items() if key != "current_node"}
    without["mapping"] = {**CHATGPT["mapping"]}  # type: ignore[dict-item]
    last = node("f", "e", "assistant", text("By one each time."), create_time=1_780_000_009.0)
    without["mapping"]["f"] = last[1]  # type: ignore[index]
    assert spoken(read([without])[0]) == spoken(recording)


def test_an_export_is_read_in_its_archive(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([CHATGPT]))
        archive.writestr("user.json", json.dumps({"id": "user-1", "email": "a@example.org"}))
        archive.writestr("message_feedback.json", "[]")
        archive.writestr("chat.html", "<html></html>")
    assert [one.id for one in read_file(path)] == ["c-1"]


def test_an_export_in_which_nothing_was_said_is_refused() -> None:
    with pytest.raises(SessionError, match="nothing was said in it"):
        read([EMPTY])


def test_what_the_count_finds_in_a_tree_is_what_is_read_of_it() -> None:
    found = [*find(CHATGPT, "c")]
    assert [one.key for one in found if one.kind == "call"] == ["c"]
    assert [one.key for one in found if one.kind == "text"] == [
        "How did sales grow?",
        "An answer that was given up.",
        "I look first.",
        "Plan",
        "1, 2 and 3",
        "By one each time.",
    ]


@pytest.mark.parametrize("is_bare", [False, True])
def test_calls_among_the_words_of_turns_are_calls(is_bare: bool) -> None:
    called = '<tool_call>\n{"name": "look", "arguments": {"q": "box"}}\n</tool_call>'
    turns = [
        {"from": "system", "value": "You look into boxes."},
        {"from": "human", "value": "What is in it?"},
        {"from": "gpt", "value": f"I look.\n{called}\n{called}"},
        {"from": "tool", "value": "<tool_response>a cat</tool_response>"
                                  "<tool_response>a dog</tool_response>"},
        {"from": "gpt", "value": "<tool_call>not a call</tool_call>"},
        {"from": "observation", "value": "nobody asked"},
        {"from": "gpt", "value": "A cat."},
    ]  # fmt: skip
    tools = [{"name": "look", "description": "Look.", "parameters": {"type": "object"}}]
    value: Any = turns if is_bare else {"conversations": turns, "tools": json.dumps(tools)}
    (recording,) = read(value)
    assert recording.format == "sharegpt"
    assert [tool.name for tool in recording.tools] == ([] if is_bare else ["look"])
    assert spoken(recording)[1:] == [
        ("agent", "I look."),
        ("agent", "look"),
        ("agent", "look"),
        ("agent", "{'result': 'a cat'}"),
        ("agent", "{'result': 'a dog'}"),
        ("agent", "<tool_call>not a call</tool_call>"),
        ("user", "nobody asked"),
        ("agent", "A cat."),
    ]


def test_a_turn_of_nobody_is_named() -> None:
    with pytest.raises(SessionError, match="nobody is called 'robot'"):
        read({"conversations": [{"from": "robot", "value": "Hello."}]})


def test_the_context_of_kimi_has_its_system_text_and_its_thoughts() -> None:
    function = {"name": "look", "arguments": '{"q":"box"}'}
    lines = [
        {"role": "_system_prompt", "content": "You are an agent."},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": [{"type": "text", "text": "Look into it."}]},
        {"role": "assistant", "content": [{"type": "think", "think": "I should look."}],
         "tool_calls": [{"type": "function", "id": "t1", "function": function}]},
        {"role": "_usage", "token_count": 100},
        {"role": "tool", "tool_call_id": "t1", "content": [
            {"type": "text", "text": "<system>done</system>"}, {"type": "text", "text": "a cat"},
        ]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
    ]  # fmt: skip
    (recording,) = read("\n".join(map(json.dumps, lines)), "context.jsonl")
    assert (recording.format, recording.instructions) == (
        "kimi-cli", {"agent": "You are an agent."},
    )  # fmt: skip
    assert spoken(recording) == [
        ("user", "Look into it."),
        ("agent", "I should look."),
        ("agent", "look"),
        ("agent", "{'result': '<system>done</system>\\n\\na cat'}"),
        ("agent", "A cat."),
    ]


SAID = """
# aider chat started at 2025-08-07 19:28:50

> Aider v0.85.4··
> Model: gpt-4o with diff edit format··

#### /add x.py··

> Added x.py to the chat.··

#### Make it print··
#### hello twice.··

#### What changes

Here it is:

```
print("hello")
```

> Tokens: 2.5k sent, 1.0k cache hit, 120 received. Cost: $0.01 message, $0.02 session.··

# aider chat started at 2025-08-08 10:00:00

#### And again?··

Yes.
""".replace("·", " ")

SENT = """TO LLM 2024-11-10T12:00:00
-------
SYSTEM Act as an expert.
SYSTEM Be brief.
-------
USER Say hello.
LLM RESPONSE 2024-11-10T12:00:05
ASSISTANT Hello to you.
TO LLM 2024-11-10T12:01:00
-------
SYSTEM Act as an expert.
SYSTEM Be brief.
-------
USER Say hello.
-------
ASSISTANT Hello to you.
-------
USER Again.
LLM RESPONSE 2024-11-10T12:01:05
ASSISTANT Hello again.
"""


def test_what_was_said_in_a_terminal_is_a_recording_for_each_chat(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(SAID)
    first, second = read_file(path)
    assert (first.format, first.model) == ("aider", "gpt-4o")
    words = '#### What changes\n\nHere it is:\n\n```\nprint("hello")\n```'
    assert spoken(first) == [("user", "Make it print\nhello twice."), ("agent", words)]
    usage = first.session.events[-1].usage
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count) == (2_500, 120)
    assert [one.count for one in first.aside] == [4]
    assert spoken(second) == [("user", "And again?"), ("agent", "Yes.")]


def test_what_was_sent_is_a_log_of_calls(tmp_path: Path) -> None:
    path = tmp_path / ".aider.llm.history"
    path.write_text(SENT)
    (recording,) = read_file(path)
    assert [len(one.body["messages"]) for one in exchanges_of(recording) if one.body] == [2, 4]
    assert recording.instructions == {"agent": "Act as an expert.\nBe brief."}
    assert [words for _, words in spoken(recording)] == [
        "Say hello.",
        "Hello to you.",
        "Again.",
        "Hello again.",
    ]


def test_the_database_of_grok_has_messages_of_the_ai_sdk(tmp_path: Path) -> None:
    path = tmp_path / "grok.db"
    call = {"type": "tool-call", "toolCallId": "t1", "toolName": "look", "input": {"q": "box"}}
    output = {"type": "text", "value": "a cat"}
    back = {"type": "tool-result", "toolCallId": "t1", "toolName": "look", "output": output}
    messages: list[Any] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [back]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
    ]
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE messages (session_id TEXT, seq INTEGER, role TEXT, message_json TEXT)"
        )
        for at, one in enumerate(messages):
            database.execute(
                "INSERT INTO messages VALUES ('s', ?, ?, ?)", (at, one["role"], json.dumps(one))
            )
    (recording,) = read_file(path)
    assert recording.format == "vercel"
    assert spoken(recording) == [
        ("user", "Look."),
        ("agent", "look"),
        ("agent", "{'result': 'a cat'}"),
        ("agent", "A cat."),
    ]


def test_a_file_that_is_encrypted_is_refused_with_what_to_do() -> None:
    with pytest.raises(SessionError, match="encrypted") as error:
        [*read_recordings(b"\x08\x01abc", name="c.pb")]
    assert "weft proxy" in (error.value.hint or "")


def test_what_kimi_tells_its_user_interface_is_the_session(tmp_path: Path) -> None:
    def line(kind: str, **payload: object) -> str:
        message = {"type": kind, "payload": payload}
        return json.dumps({"timestamp": 1_770_000_000.5, "message": message})

    def inside(kind: str, **payload: object) -> str:
        event = {"type": kind, "payload": payload}
        return line("SubagentEvent", parent_tool_call_id="c1", event=event)

    def called(id: str, name: str, arguments: str) -> dict[str, object]:
        return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}

    said = [{"type": "text", "text": "Two."}]
    usage = {"input_other": 100, "input_cache_read": 700, "input_cache_creation": 200, "output": 9}
    path = tmp_path / "wire.jsonl"
    path.write_text("\n".join([
        json.dumps({"type": "metadata", "protocol_version": "1.1"}),
        line("TurnBegin", user_input="Count the files."),
        line("StepBegin", n=1),
        line("ContentPart", type="think", think="I ask "),
        line("ContentPart", type="think", think="a helper."),
        line("ToolCall", **called("c1", "Task", '{"prompt": "count')),
        line("ToolCallPart", arguments_part='"}'),
        inside("TurnBegin", user_input="count"),
        inside("ToolCall", **called("c2", "Shell", '{"command": "ls"}')),
        inside("ToolResult", tool_call_id="c2", return_value={"is_error": False, "output": "a\nb"}),
        inside("StepBegin", n=2),
        inside("ContentPart", type="text", text="Two."),
        line("ToolResult", tool_call_id="c1", return_value={"output": said}),
        line("StatusUpdate", token_usage=usage),
        line("StepBegin", n=2),
        line("ContentPart", type="text", text="There are "),
        line("ContentPart", type="text", text="two."),
        line("TurnEnd"),
    ]))  # fmt: skip
    main, helper = read_file(path)
    parts = [
        [(part.kind, part.text or (part.function_call and part.function_call.args))
         for part in (event.content.parts or () if event.content else ())]
        for event in main.session.events
    ]  # fmt: skip
    assert parts == [
        [("text", "Count the files.")],
        [("thought", "I ask a helper."), ("call", {"prompt": "count"})],
        [("result", None)],
        [("text", "There are two.")],
    ]
    counted = main.session.events[1]
    assert counted.usage is not None
    assert (counted.usage.prompt_token_count, counted.provenance.cache_write) == (1000, 200)
    assert (helper.parent, helper.relation, helper.forked) == (main.id, "sub-agent", 1)
    assert [event.text for event in helper.session.events][-1] == "Two."
    assert {one.what for one in main.aside} == {"message `metadata`", "message `TurnEnd`"}


def test_an_agent_of_autogen_is_sent_the_words_of_others_as_such(tmp_path: Path) -> None:
    used = {"id": "c1", "name": "look", "arguments": "{}"}
    came = {"call_id": "c1", "name": "look", "content": "rain", "is_error": False}
    team = [
        {"type": "TextMessage", "source": "user", "content": "Plan a trip."},
        {"type": "ToolCallRequestEvent", "source": "planner", "content": [used]},
        {"type": "ToolCallExecutionEvent", "source": "planner", "content": [came]},
        {"type": "TextMessage", "source": "planner", "content": "Go by train."},
        {"type": "TextMessage", "source": "critic", "content": "It rains."},
        {"type": "TextMessage", "source": "planner", "content": "Take a coat."},
    ]
    path = tmp_path / "team.json"
    path.write_text(json.dumps({"messages": team, "stop_reason": None}))
    (recording,) = read_file(path)
    sent = [
        [(item.kind, item.author) for item in step.request.prompt.items]
        for step in Inspection.of_recording(recording).steps
        if step.request is not None
    ]
    assert sent[2] == [("user", "user"), ("user", "planner")]
    assert sent[3] == [
        ("user", "user"), ("calls", "planner"), ("results", "planner"), ("model", "planner"),
        ("user", "critic"),
    ]  # fmt: skip


def kimi_code(*rows: dict[str, object]) -> list[Recording]:
    lines = [{"type": "profile.bind", "agentId": "main", "systemPrompt": "You are Kimi."}, *rows]
    return read("\n".join(map(json.dumps, lines)), "wire.jsonl")


def asked(text: str, kind: str = "user") -> dict[str, object]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "toolCalls": []}
    return {"type": "context.append_message", "message": {**message, "origin": {"kind": kind}}}


def stepped(kind: str, **event: object) -> dict[str, object]:
    line = {"type": "context.append_loop_event", "event": {"type": kind, **event}}
    return {**line, "time": 1_770_000_000_500}


def answered(text: str) -> list[dict[str, object]]:
    part = {"type": "text", "text": text}
    return [stepped("step.begin"), stepped("content.part", part=part), stepped("step.end")]


def test_the_log_of_kimi_code_is_what_was_sent() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = {"name": "Read", "description": "Reads.", "parameters": schema}
    usage = {"inputOther": 100, "inputCacheRead": 700, "inputCacheCreation": 200, "output": 9}
    noted = {"output": "x", "note": "<system>1</system>"}
    picture = {"type": "image_url", "imageUrl": {"url": "data:image/png;base64,aWNvbg=="}}
    (recording,) = kimi_code(
        asked("Count the lines."),
        asked("<system-reminder>It is Monday.</system-reminder>", "injection"),
        stepped("step.begin"),
        {"type": "llm.tools_snapshot", "tools": [tool]},
        {"type": "llm.request", "model": "kimi-k2", "provider": "kimi"},
        stepped("content.part", part={"type": "think", "think": "I read both."}),
        stepped("tool.call", toolCallId="c1", name="Read", args={"path": "a"}),
        stepped("tool.call", toolCallId="c2", name="Read", args={"path": "b"}),
        stepped("tool.call", toolCallId="c3", name="Read", args={"path": "c"}),
        stepped("tool.result", toolCallId="c2", result={"output": "no file", "isError": True}),
        stepped("tool.result", toolCallId="c1", result=noted),
        stepped("tool.result", toolCallId="c3", result={"output": [picture]}),
        stepped("step.end", usage=usage, rawFinishReason="tool_calls"),
    )  # fmt: skip
    assert (recording.format, recording.model) == ("kimi-code", "kimi-k2")
    assert recording.instructions == {"agent": "You are Kimi."}
    assert [one.name for one in recording.tools] == ["Read"]
    assert spoken(recording)[:3] == [
        ("user", "Count the lines."),
        ("user", "<system-reminder>It is Monday.</system-reminder>"),
        ("agent", "I read both."),
    ]
    answer, results = recording.session.events[2:]
    assert [(call.name, call.args) for call in answer.calls] == [
        ("Read", {"path": name}) for name in "abc"
    ]
    assert answer.usage is not None
    assert (answer.usage.prompt_token_count, answer.finish_reason) == (1000, "tool_calls")
    assert answer.timestamp == pytest.approx(1_770_000_000.5)
    assert [(one.id, one.response) for one in results.results][:2] == [
        ("c2", {"result": "<system>ERROR: Tool execution failed.</system>\nno file"}),
        ("c1", {"result": "x\n<system>1</system>"}),
    ]
    assert "image/png" in str(results.content)


def test_what_a_user_of_kimi_code_takes_back_sums_up_or_clears_is_read_so() -> None:
    first, second = kimi_code(
        asked("One?"), *answered("Yes."),
        asked("Two?"), *answered("No."),
        {"type": "context.undo", "count": 1},
        asked("Three?"), *answered("Well."),
        {"type": "context.apply_compaction", "summary": "We counted.", "keptUserMessageCount": 1},
        {"type": "context.clear"},
        asked("Anew."), *answered("Hello."),
    )  # fmt: skip
    said = spoken(first)
    assert [text for _, text in said][:4] == ["One?", "Yes.", "Three?", "Well."]
    (summary,) = [event.actions.compaction for event in first.session.events
                  if event.actions and event.actions.compaction]  # fmt: skip
    assert "We counted." in str(summary)
    assert said[-1] == ("user", "Three?")
    assert spoken(second) == [("user", "Anew."), ("agent", "Hello.")]
    assert second.instructions == first.instructions
    assert "the user took it back" in {one.why for one in first.aside}
