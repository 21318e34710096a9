"""What is in a file of another program is what is read: counted here without the readers.

The samples are small and made by hand after the real shapes. `WEFT_NATIVE_RECORDINGS` names a
folder with files that the programs wrote themselves, in a folder for each format: they are counted
too.
"""

import json
import lzma
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.inspector import Inspection
from weft.recordings import exchanges_of, read_file

Value = Any
"""JSON of a stranger: the counts here look at it as it comes."""


def lines(text: str) -> list[Value]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def inside(value: Value) -> Iterator[dict[str, Value]]:
    """All objects in a value."""
    if isinstance(value, dict):
        yield value
    for one in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from inside(one)


def count_claude_code(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    rows = [row for row in lines(text) if row.get("type") in ("user", "assistant")]
    answers = {}
    for row in rows:
        message = row["message"]
        if row["type"] == "assistant" and message.get("model") != "<synthetic>":
            answers[message["id"]] = message
        blocks = message["content"] if isinstance(message["content"], list) else []
        counts["calls"] += sum(block["type"] == "tool_use" for block in blocks)
        counts["results"] += sum(block["type"] == "tool_result" for block in blocks)
    counts["answers"] = len(answers)
    for message in answers.values():
        usage = message["usage"]
        counts["tokens"] += usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
        counts["tokens"] += usage.get("cache_creation_input_tokens", 0)
    return counts


def count_codex(text: str) -> Counter[str]:
    items = [row["payload"] for row in lines(text) if row["type"] == "response_item"]
    kinds = Counter(item["type"] for item in items)
    calls = kinds["function_call"] + kinds["custom_tool_call"] + kinds["local_shell_call"]
    results = kinds["function_call_output"] + kinds["custom_tool_call_output"]
    return Counter(calls=calls, results=results)


def count_copilot(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    rows = lines(text)
    if "agent" in rows[0]:
        used = [one for one in inside(rows) if one.get("type") == "tool_use"]
        counts["calls"], counts["results"] = len(used), sum("result" in one for one in used)
        counts["answers"] = sum(row["type"] == "assistant" for row in rows)
        return counts
    spoken = [row["data"] for row in rows if row["type"] == "assistant.message"]
    counts["answers"] = len({data["apiCallId"] for data in spoken})
    counts["calls"] = sum(len(data["toolRequests"]) for data in spoken)
    counts["results"] = sum(row["type"] == "tool.execution_complete" for row in rows)
    return counts


def count_gemini_cli(text: str) -> Counter[str]:
    value = json.loads(text)
    objects = [*inside(value)]
    if isinstance(value, list):  # the history that it sends
        calls, results = (
            sum(key in one for one in objects) for key in ("functionCall", "functionResponse")
        )
        return Counter(
            calls=calls, results=results, answers=sum(m["role"] == "model" for m in value)
        )
    spoken = [message for message in value["messages"] if message["type"] == "gemini"]
    called = [call for message in spoken for call in message.get("toolCalls", [])]
    return Counter(
        answers=len(spoken),
        calls=len(called),
        results=sum("functionResponse" in one for one in objects),
        tokens=sum(message["tokens"]["input"] for message in spoken if "tokens" in message),
    )


def count_mini_swe(text: str) -> Counter[str]:
    spoken = [one for one in json.loads(text)["messages"] if one["role"] == "assistant"]
    usages = [one["extra"]["response"]["usage"] for one in spoken]
    return Counter(
        answers=len(spoken),
        calls=sum(len(one.get("tool_calls") or ()) for one in spoken),
        tokens=sum(usage["prompt_tokens"] for usage in usages),
    )


def count_opencode(text: str) -> Counter[str]:
    value = json.loads(text)
    messages = value["messages"] if isinstance(value, dict) else value
    used = [part for one in messages for part in one["parts"] if part["type"] == "tool"]
    done = [part for part in used if part["state"]["status"] in ("completed", "error")]
    return Counter(calls=len(used), results=len(done))


def count_openhands(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for run in lines(text):
        answers = {}
        for event in run["history"]:
            made = event.get("tool_call_metadata")
            if made and "action" in event:
                answers[made["model_response"]["id"]] = made["model_response"]
            counts["results"] += bool(made) and "observation" in event
        counts["answers"] += len(answers)
        for answer in answers.values():
            counts["calls"] += len(answer["choices"][0]["message"]["tool_calls"])
            counts["tokens"] += answer["usage"]["prompt_tokens"]
    return counts


def count_openinference(text: str) -> Counter[str]:
    asked = [one for one in inside(json.loads(text)) if one.get("openinference.span.kind") == "LLM"]
    tokens = sum(int(one["llm.token_count.prompt"]) for one in asked)
    return Counter(answers=len(asked), tokens=tokens)


COUNTS: dict[str, Callable[[str], Counter[str]]] = {
    "claude-code": count_claude_code,
    "codex": count_codex,
    "copilot-cli": count_copilot,
    "gemini-cli": count_gemini_cli,
    "mini-swe-agent": count_mini_swe,
    "opencode": count_opencode,
    "openhands-output": count_openhands,
    "otel-openinference": count_openinference,
}


def count_read(path: Path) -> Counter[str]:
    """What the readers make of a file: what is in the sessions, and on the page."""
    counts: Counter[str] = Counter()
    for recording in read_file(path):
        events = recording.session.events
        counts["calls"] += sum(len(event.calls) for event in events)
        counts["results"] += sum(len(event.results) for event in events)
        calls = exchanges_of(recording)
        counts["answers"] += len(calls)
        usages = [call.usage for call in calls if call.usage is not None]
        counts["tokens"] += sum(usage.prompt_token_count or 0 for usage in usages)
        film = Inspection.of_recording(recording).film()
        assert len(film["frames"]) == len(calls)
    return counts


def require_same(path: Path, expected: Counter[str]) -> None:
    read = count_read(path)
    assert {kind: read[kind] for kind in expected} == dict(expected), path.name


# --- samples made by hand

TIME = "2026-01-02T10:00:00Z"

COPILOT = [
    {"type": "session.start", "data": {"sessionId": "s1"}, "id": "1", "timestamp": TIME,
     "parentId": None},
    {"type": "system.message", "data": {"role": "system", "content": "Be brief."}, "id": "2",
     "timestamp": TIME, "parentId": "1"},
    {"type": "user.message", "data": {"content": "List it", "transformedContent": "<now/> List it"},
     "id": "3", "timestamp": TIME, "parentId": "2"},
    {"type": "assistant.message", "id": "4", "timestamp": TIME, "parentId": "3", "data": {
        "messageId": "m1", "model": "gpt-x", "apiCallId": "a1", "content": "I look.",
        "toolRequests": [{"toolCallId": "c1", "name": "view", "arguments": {"path": "a.md"}}]}},
    {"type": "assistant.message", "id": "5", "timestamp": TIME, "parentId": "4", "data": {
        "messageId": "m2", "model": "gpt-x", "apiCallId": "a1", "content": "", "outputTokens": 9,
        "toolRequests": [{"toolCallId": "c2", "name": "bash", "arguments": {"command": "ls -l"}}]}},
    {"type": "tool.execution_complete", "id": "6", "timestamp": TIME, "parentId": "5", "data": {
        "toolCallId": "c1", "success": True, "result": {"content": "# A file"}}},
    {"type": "tool.execution_complete", "id": "7", "timestamp": TIME, "parentId": "6", "data": {
        "toolCallId": "c2", "success": False, "error": {"message": "no such place"}}},
    {"type": "assistant.message", "id": "8", "timestamp": TIME, "parentId": "7", "data": {
        "messageId": "m3", "model": "gpt-x", "apiCallId": "a2", "content": "Done.",
        "toolRequests": []}},
]  # fmt: skip

COPILOT_COUNTED = [
    {"type": "user.message", "id": "1", "timestamp": TIME, "parentId": None,
     "data": {"content": "List it"}},
    {"type": "session.usage_record", "id": "2", "timestamp": TIME, "parentId": "1", "data": {
        "usage": {"model": "gpt-x", "inputTokens": 900, "cacheReadTokens": 800, "outputTokens": 7,
                  "cacheWriteTokens": 0, "apiCallId": "a1", "finishReason": "tool_calls"}}},
    {"type": "assistant.message", "id": "3", "timestamp": TIME, "parentId": "2", "data": {
        "messageId": "m1", "model": "gpt-x", "content": "", "apiCallId": "a1",
        "toolRequests": [{"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"},
                          "intentionSummary": "to list it", "toolTitle": "Running command"}]}},
    {"type": "session.usage_record", "id": "4", "timestamp": TIME, "parentId": "3", "data": {
        "usage": {"model": "gpt-x", "inputTokens": 50, "outputTokens": 3, "apiCallId": "title"}}},
    {"type": "tool.execution_complete", "id": "5", "timestamp": TIME, "parentId": "4", "data": {
        "toolCallId": "c1", "success": True, "result": {"content": "one file"}}},
]  # fmt: skip

COPILOT_EXPORT = [
    {"v": 1, "agent": "copilot-cli", "type": "user", "ts": TIME, "content": [{"text": "List it"}]},
    {"v": 1, "agent": "copilot-cli", "type": "assistant", "ts": TIME, "id": "m1",
     "output_tokens": 9, "content": [{"type": "text", "text": "I look."},
                 {"type": "tool_use", "id": "c1", "name": "edit", "input": "*** Begin Patch of it",
                  "result": {"output": "It is done", "status": "success"}}]},
]  # fmt: skip

GEMINI = {
    "sessionId": "g1",
    "messages": [
        {"id": "1", "timestamp": TIME, "type": "user", "content": [{"text": "Show the icon"}]},
        {"id": "2", "timestamp": TIME, "type": "gemini", "content": "I look it up.", "model": "gem",
         "thoughts": [{"subject": "Icons", "description": "Where may they be?"}],
         "tokens": {"input": 700, "output": 5, "cached": 600, "thoughts": 8, "total": 713},
         "toolCalls": [{"id": "c1", "name": "read_file", "args": {"file": "a.json"},
                        "description": "a.json, which is long", "displayName": "ReadFile",
                        "result": [{"functionResponse": {
                            "id": "c1", "name": "read_file",
                            "response": {"output": "an icon here"}}}]}]},
        {"id": "3", "timestamp": TIME, "type": "info", "content": "Request cancelled."},
        {"id": "4", "timestamp": TIME, "type": "gemini", "content": "Found.", "model": "gem"},
    ],
}  # fmt: skip


def _gemini_lines() -> list[Value]:
    """The same chat as newer versions keep it: line by line, and results as they were sent, too."""
    talk = GEMINI["messages"]
    assert isinstance(talk, list)
    question, answer, notice, last = talk
    call = {**answer, "toolCalls": []}
    sent = answer["toolCalls"][0]["result"]
    return [
        {"sessionId": "g1", "projectHash": "p", "kind": "main"},
        {"$set": {"messages": [{**question, "id": "0", "content": [{"text": "It is Monday."}]}]}},
        question, {"$set": {"lastUpdated": TIME}}, call, answer,
        {"id": "2b", "timestamp": TIME, "type": "user", "content": sent},
        notice, last,
    ]  # fmt: skip


def test_results_that_gemini_cli_keeps_twice_are_read_once(tmp_path: Path) -> None:
    (whole,) = read_file(write(tmp_path / "old.json", GEMINI))
    (lines,) = read_file(write(tmp_path / "new.jsonl", _gemini_lines()))
    first, *rest = [event.content for event in lines.session.events]
    assert first is not None
    assert [part.text for part in first.parts or ()] == ["It is Monday."]
    assert rest == [event.content for event in whole.session.events]


def _answer(number: int, content: str, **fields: Value) -> Value:
    message = {"role": "assistant", "content": content, **fields}
    usage = {"prompt_tokens": 100 * number, "completion_tokens": 7, "total_tokens": 7}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": f"r{number}", "model": "m/x", "object": "chat.completion", "created": 1767348000,
            "choices": [choice], "usage": usage}  # fmt: skip


MINI_SWE = {
    "trajectory_format": "mini-swe-agent-1",
    "instance_id": "repo-1",
    "info": {"model_stats": {"api_calls": 2}, "config": {"model": {"model_name": "m/x"}}},
    "messages": [
        {"role": "system", "content": "You can use a shell."},
        {"role": "user", "content": "Fix the thing"},
        {"role": "assistant", "content": "THOUGHT: look", "extra": {
            "response": _answer(1, "THOUGHT: look", reasoning="It may be in a file")}},
        {"role": "user", "content": "<returncode>0</returncode>"},
        {"role": "assistant", "content": "Done", "extra": {"response": _answer(2, "Done")}},
    ],
}  # fmt: skip


def _call(id: str, name: str, arguments: str) -> Value:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _openhands() -> Value:
    response = _answer(1, "I run it", tool_calls=[_call("c1", "bash", '{"command": "ls"}')])
    made = {"function_name": "bash", "tool_call_id": "c1", "model_response": response}
    return {
        "instance_id": "i1",
        "metadata": {"llm_config": {"model": "m/x", "temperature": 0.5}},
        "history": [
            {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be careful.",
             "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}]}},
            {"id": 1, "source": "user", "action": "message", "args": {"content": "Repair it"}},
            {"id": 2, "source": "user", "action": "recall", "args": {"query": "Repair it"}},
            {"id": 3, "source": "environment", "observation": "recall", "cause": 2, "content": "x"},
            {"id": 4, "source": "agent", "action": "run", "tool_call_metadata": made,
             "args": {"command": "ls", "thought": "I run it"}},
            {"id": 5, "source": "agent", "observation": "run", "cause": 4, "content": "two files",
             "tool_call_metadata": made},
        ],
    }  # fmt: skip


def _span(id: str, kind: str, attributes: Value, *children: Value) -> Value:
    return {
        "span_id": id, "trace_id": "t", "span_name": id, "timestamp": TIME, "duration": "PT1M2.5S",
        "span_attributes": {"openinference.span.kind": kind, **attributes},
        "child_spans": [*children],
    }  # fmt: skip


def _asked(number: int, *messages: tuple[str, str], answer: str) -> Value:
    attributes = {"llm.model_name": "m/x", "llm.token_count.prompt": str(100 * number),
                  "llm.token_count.completion": "5", "llm.invocation_parameters": '{"top_p": 0.5}',
                  "llm.output_messages.0.message.role": "assistant",
                  "llm.output_messages.0.message.content": answer}  # fmt: skip
    for at, (role, text) in enumerate(messages):
        attributes[f"llm.input_messages.{at}.message.role"] = role
        attributes[f"llm.input_messages.{at}.message.content"] = text
    return _span(f"call{number}", "LLM", attributes)


def _openinference() -> Value:
    start = (("system", "You write code."), ("user", "Count the files"))
    later = (("assistant", "final_answer(3)<end>"), ("tool-response", "It is 3, and the end"))
    tool = _span("tool", "TOOL", {"tool.name": "final_answer"})
    first, second = (
        _asked(1, *start, answer="final_answer(3)"), _asked(2, *start, *later, answer="Three.")
    )  # fmt: skip
    return {"trace_id": "t", "spans": [_span("run", "AGENT", {}, first, second, tool)]}


def write(path: Path, value: Value, *, packed: bool = False) -> Path:
    text = "\n".join(map(json.dumps, value)) if isinstance(value, list) else json.dumps(value)
    path.write_bytes(lzma.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize(
    ("format", "value", "name"),
    [
        ("copilot-cli", COPILOT, "copilot-cli"),
        ("copilot-cli", COPILOT_COUNTED, "copilot-cli"),
        ("copilot-cli", COPILOT_EXPORT, "copilot-cli"),
        ("gemini-cli", GEMINI, "gemini-cli"),
        ("mini-swe-agent", MINI_SWE, "mini-swe-agent"),
        ("openhands-output", _openhands(), "openhands"),
        ("otel-openinference", _openinference(), "openinference"),
    ],
)
def test_all_that_is_in_a_file_is_read(
    format: str, value: Value, name: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "run.jsonl", value)
    text = path.read_text()
    require_same(path, COUNTS[format](text))
    (recording,) = read_file(path)
    assert recording.format == name
    assert all(call.model in ("gpt-x", "gem", "m/x", "") for call in exchanges_of(recording))


def test_copilot_counts_each_request_before_its_answer(tmp_path: Path) -> None:
    (recording,) = read_file(write(tmp_path / "events.jsonl", COPILOT_COUNTED))
    (answer,) = [event for event in recording.session.events if event.calls]
    assert answer.usage is not None
    counts = answer.usage.prompt_token_count, answer.usage.cached_content_token_count
    assert (*counts, answer.finish_reason) == (900, 800, "tool_calls")
    # the other one has no answer in the file
    assert [one.why for one in recording.aside if one.what == "token counts"] == [
        'of another request: {"inputTokens":50,"outputTokens":3}'
    ]


def test_spans_of_one_run_are_one_conversation(tmp_path: Path) -> None:
    (recording,) = read_file(write(tmp_path / "run.json", _openinference()))
    first, second = exchanges_of(recording)
    assert (first.options, first.ended) == ({"top_p": 0.5}, pytest.approx(first.started + 62.5))
    assert [str(block.source) for block in second.blocks[2:]] == [
        "answer, changed in call 2", "user's words, new in call 2",
    ]  # fmt: skip
    assert second.blocks[2].source.before == "final_answer(3)"


def test_a_run_that_names_its_model_is_not_one_request(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "Count the files"},
        {"role": "assistant", "content": None, "tool_calls": [_call("c1", "ls", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "one file"},
        {"role": "assistant", "content": "One."},
    ]
    usage = [{"input_tokens": 40, "output_tokens": 2, "cache_read_input_tokens": 60}] * 2
    run = {"id": "r", "model": "m/x", "steps": 2, "messages": messages, "usage": usage,
           "timestamps": ["2026-01-02T10:00:00Z", "2026-01-02T09:00:00Z"]}  # fmt: skip
    (recording,) = read_file(write(tmp_path / "runs.json", run))
    calls = exchanges_of(recording)
    assert [(call.model, call.usage.prompt_token_count) for call in calls if call.usage] == [
        ("m/x", 100), ("m/x", 100),
    ]  # fmt: skip
    times = [event.timestamp for event in recording.session.events]
    assert times == sorted(times)  # the clock went back


def test_native_files_are_read_whole() -> None:
    folder = os.environ.get("WEFT_NATIVE_RECORDINGS")
    if not folder:
        pytest.skip("WEFT_NATIVE_RECORDINGS names no folder")
    for format, count in COUNTS.items():
        for path in sorted(Path(folder, format).iterdir()):
            data = path.read_bytes()
            text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
            require_same(path, count(text))


# --- samples that the programs wrote, on the page

SAMPLES = [
    path
    for path in sorted((Path(__file__).parent / "samples").glob("*.json*"))
    if "request" not in path.name and path.stem != "streams"
]


def count_kinds(values: list[Value]) -> Counter[str]:
    """Calls, results and media in objects of any format, each once by its id."""
    seen: dict[str, set[str]] = {"calls": set(), "results": set(), "media": set()}

    def note(kind: str, one: dict[str, Value]) -> None:
        ids = ("call_id", "tool_call_id", "tool_use_id", "toolUseId", "toolCallId", "callID", "id")
        named = next((str(one[key]) for key in ids if one.get(key)), "")
        seen[kind].add(named or json.dumps(one, sort_keys=True))

    for one in inside(values):
        kind = str(one.get("type") or one.get("part_kind") or "")
        for key in ("functionCall", "function_call", "toolUse"):
            if isinstance(one.get(key), dict) and one[key].get("name"):
                note("calls", one[key])
        for key in ("functionResponse", "function_response", "toolResult"):
            if isinstance(one.get(key), dict):
                note("results", one[key])
        if kind in ("tool_use", "tool-call") or kind.endswith("_call"):
            note("calls", one)
        elif kind in (
            "tool_result",
            "tool-result",
            "tool-return",
            "function_call_result",
        ) or kind.endswith("_output"):
            note("results", one)
        elif kind == "function" and isinstance(one.get("function"), dict) and one.get("id"):
            note("calls", one)
        elif (kind == "tool" or one.get("role") == "tool") and one.get("tool_call_id"):
            note("results", one)
        elif kind.startswith("tool") and isinstance(one.get("state"), dict | str):
            note("calls", one)
            note("results", one)
        if kind in ("image", "image_url", "input_image", "file") or "inlineData" in one:
            note("media", one)
    return Counter({kind: len(ids) for kind, ids in seen.items()})


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_is_in_a_sample_is_on_the_page(path: Path) -> None:
    text = path.read_text()
    values = lines(text) if path.suffix == ".jsonl" else [json.loads(text)]
    shown: Counter[str] = Counter(calls=0, results=0, media=0)
    for recording in read_file(path):
        film = Inspection.of_recording(recording).film()
        assert not film["frames"] or all("tokens" in frame for frame in film["frames"])
        for kind in shown:
            shown[kind] += sum(len(event[kind]) for event in film["events"])
    expected = count_kinds(values)
    assert shown == expected
    assert expected["calls"] > 0
