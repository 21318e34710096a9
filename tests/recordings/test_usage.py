"""What a file says was billed is what the page and the terminal say: tokens and costs.

Each file is read twice: by Weft, and by a few lines here that know where its program writes tokens.
`WEFT_NATIVE_RECORDINGS` names a folder of more files, one folder a program.
"""

import json
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from weft.compiler.costs import rates_for
from weft.inspector import Inspection
from weft.inspector.inspection import SessionSpending
from weft.recordings import Recording, read_file
from weft.replay.page import recorded_facts

Value = Any

SAMPLES = Path(__file__).parent / "samples"


class Bill(NamedTuple):
    """Tokens as a provider counts them: `cached` and `written` are parts of `sent`."""

    sent: int = 0
    cached: int = 0
    written: int = 0
    answered: int = 0


def inside(value: Value) -> Iterator[dict[str, Value]]:
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from inside(one)
    elif isinstance(value, list):
        for one in value:
            yield from inside(one)


def of_claude_code(rows: list[Value]) -> Iterator[Bill]:
    """Each piece of an answer has its usage; that of the last piece counts."""
    usages: dict[str, Value] = {}
    for row in rows:
        if row.get("type") == "assistant" and row["message"].get("model") != "<synthetic>":
            usages[row["message"]["id"]] = row["message"]["usage"]
    for one in usages.values():
        read = one.get("cache_read_input_tokens", 0)
        written = one.get("cache_creation_input_tokens", 0)
        sent = one["input_tokens"] + read + written
        yield Bill(sent, read, written, one["output_tokens"])


def of_codex(rows: list[Value]) -> Iterator[Bill]:
    """Each report has the sum of all before it; the last one is of the whole session."""
    reports = [one for one in inside(rows) if one.get("type") == "token_count" and one.get("info")]
    for one in [report["info"]["total_token_usage"] for report in reports[-1:]]:
        yield Bill(one["input_tokens"], one["cached_input_tokens"], 0, one["output_tokens"])


def of_opencode(rows: list[Value]) -> Iterator[Bill]:
    for one in inside(rows):
        tokens = one.get("tokens")
        # the call that wrote a summary is no answer of the conversation
        if one.get("role") == "assistant" and isinstance(tokens, dict) and not one.get("summary"):
            read, written = tokens["cache"]["read"], tokens["cache"]["write"]
            answered = tokens["output"] + tokens["reasoning"]
            yield Bill(tokens["input"] + read + written, read, written, answered)


def of_gemini_cli(rows: list[Value]) -> Iterator[Bill]:
    for one in inside(rows):
        if isinstance(one.get("tokens"), dict) and "thoughts" in one["tokens"]:
            tokens = one["tokens"]
            answered = tokens["output"] + tokens["thoughts"]
            yield Bill(tokens["input"], tokens["cached"], 0, answered)


def of_chat(rows: list[Value]) -> Iterator[Bill]:
    """mini-swe-agent keeps the provider's response."""
    for one in inside(rows):
        if "prompt_tokens" in one and "completion_tokens" in one:
            cached = (one.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            yield Bill(one["prompt_tokens"], cached, 0, one["completion_tokens"])


def of_openhands(rows: list[Value]) -> Iterator[Bill]:
    for row in rows:
        one = row["metrics"]["accumulated_token_usage"]
        yield Bill(one["prompt_tokens"], one["cache_read_tokens"], 0, one["completion_tokens"])


def of_openinference(rows: list[Value]) -> Iterator[Bill]:
    for one in inside(rows):
        if one.get("openinference.span.kind") == "LLM" and "llm.token_count.prompt" in one:
            sent, answered = (
                int(one[f"llm.token_count.{name}"]) for name in ("prompt", "completion")
            )
            yield Bill(sent, 0, 0, answered)


def of_pydantic_ai(rows: list[Value]) -> Iterator[Bill]:
    for one in inside(rows):
        if one.get("kind") == "response":
            usage = one["usage"]
            yield Bill(usage["input_tokens"], usage["cache_read_tokens"], 0, usage["output_tokens"])


def of_langchain(rows: list[Value]) -> Iterator[Bill]:
    for one in inside(rows):
        usage = one.get("usage_metadata")
        if isinstance(usage, dict):
            yield Bill(usage["input_tokens"], 0, 0, usage["output_tokens"])


def of_langfuse(rows: list[Value]) -> Iterator[Bill]:
    for one in rows:
        if one.get("type") == "GENERATION":
            usage = one.get("usageDetails") or one["usage"]
            yield Bill(usage["input"], 0, 0, usage["output"])


def of_adk(rows: list[Value]) -> Iterator[Bill]:
    for one in inside(rows):
        usage = one.get("usageMetadata") or one.get("usage_metadata")
        if isinstance(usage, dict):
            sent = usage.get("promptTokenCount") or usage.get("prompt_token_count")
            answered = usage.get("candidatesTokenCount") or usage.get("candidates_token_count")
            yield Bill(sent, 0, 0, answered)


OWN = {
    "adk-events.json": of_adk,
    "claude-code.jsonl": of_claude_code,
    "codex.jsonl": of_codex,
    "langchain.json": of_langchain,
    "langchain-flat.json": of_langchain,
    "langchain-lc.json": of_langchain,
    "langfuse.jsonl": of_langfuse,
    "opencode.json": of_opencode,
    "pydantic-ai.json": of_pydantic_ai,
}
"""Samples that hold usage."""

WITHOUT = {
    "adk-v0.db": "a database, with the events of adk-events.json",
    "adk.db": "a database, with the events of adk-events.json",
    "anthropic.json": "a request without its answer",
    "bedrock.json": "a request without its answer",
    "gemini.json": "a request without its answer",
    "openai-agents.db": "messages alone",
    "openai-agents.json": "messages alone",
    "openai-chat.json": "a request without its answer",
    "openai-responses.json": "a request without its answer",
    "vercel-ui.json": "messages alone",
    "vercel.json": "messages alone",
}
"""Samples that hold none, and why."""

LEFT = {"claude-code.jsonl": Bill(13206, 12900, 300, 20)}
"""What answers took that are on a branch that the user left: they are not in the conversation."""

FEW_COUNTED = ("langchain.json", "langchain-flat.json", "langchain-lc.json")
"""Samples of which one answer of three has usage."""

NATIVE = {
    "claude-code": of_claude_code,
    "codex": of_codex,
    "gemini-cli": of_gemini_cli,
    "mini-swe-agent": of_chat,
    "opencode": of_opencode,
    "openhands-output": of_openhands,
    "otel-openinference": of_openinference,
}
"""Programs whose files hold usage; Copilot CLI's have the tokens of answers alone."""


def require_bill(path: Path, expected: list[Bill]) -> None:
    """The tokens of a file are those that its program counted, and cost what these cost."""
    read = [*read_file(path)]
    left = LEFT.get(path.name, Bill())
    sums = map(sum, zip(Bill(), *expected, strict=True))
    whole = Bill(*(one - other for one, other in zip(sums, left, strict=True)))
    facts = recorded_facts(read)
    terminal = Bill(
        sum(one.prompt for one in facts.usage),
        sum(one.cached for one in facts.usage),
        sum(one.written for one in facts.usage),
        sum(one.output for one in facts.usage),
    )
    assert terminal == whole, path.name
    if path.name in FEW_COUNTED:  # the page counts by itself
        assert [*map(spending, read)] == [None] * len(read)
        return
    pages = [page for page in map(spending, read) if page is not None]
    assert sum(page.tokens for page in pages) == whole.sent, path.name
    assert sum(page.cached for page in pages) == whole.cached, path.name
    models = {one.model for one in facts.usage}
    if len(models) == 1 and pages:
        (model,) = models
        rates = rates_for(model)
        fresh = whole.sent - whole.cached - whole.written
        own = fresh * rates.fresh + whole.cached * rates.read + whole.written * rates.write
        own += whole.answered * rates.answer
        # a write may be for an hour, and a long request be dearer
        assert own * 0.95 <= sum(page.cost for page in pages) <= own * 1.65, path.name
        assert {page.money for page in pages} == {rates.money}


def spending(recording: Recording) -> SessionSpending | None:
    inspection = Inspection.of_recording(recording)
    return SessionSpending.from_reports(recording.session, inspection.model, inspection.answers)


def rows_of(path: Path) -> list[Value]:
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    if ".jsonl" in path.name:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return [json.loads(text)]


def test_every_sample_has_its_bill_or_says_why_not() -> None:
    names = {path.name for path in SAMPLES.iterdir() if "request" not in path.name}
    assert names - {"streams.json"} == OWN.keys() | WITHOUT.keys()


@pytest.mark.parametrize("name", OWN)
def test_a_sample_costs_what_its_file_says(name: str) -> None:
    path = SAMPLES / name
    require_bill(path, [*OWN[name](rows_of(path))])


def test_native_files_cost_what_they_say() -> None:
    folder = os.environ.get("WEFT_NATIVE_RECORDINGS")
    if not folder:
        pytest.skip("WEFT_NATIVE_RECORDINGS names no folder")
    for format, bills in NATIVE.items():
        for path in sorted(Path(folder, format).iterdir()):
            require_bill(path, [*bills(rows_of(path))])


def chat_log(model: str, usage: Value) -> Value:
    said = {"role": "assistant", "content": "Yes."}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    request = {"model": model, "messages": [{"role": "user", "content": "Hello."}]}
    answer = {"id": "r", "model": model, "choices": [choice], "usage": usage}
    return {"request": request, "response": answer}


def claude_log(model: str, usage: Value) -> Value:
    content = [{"type": "text", "text": "Yes."}]
    request = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
    answer = {"id": "m", "type": "message", "role": "assistant", "model": model, "usage": usage,
              "content": content, "stop_reason": "end_turn"}  # fmt: skip
    return {"request": request, "response": answer}


def gemini_log(model: str, usage: Value) -> Value:
    content = {"role": "model", "parts": [{"text": "Yes."}]}
    request = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
    answer = {"candidates": [{"content": content}], "modelVersion": model, "usageMetadata": usage}
    return {"path": f"/models/{model}:generateContent", "request": request, "response": answer}


LOGS = {
    "cached within the prompt, thoughts within the answer": (
        chat_log("gpt-4o", {
            "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
            "prompt_tokens_details": {"cached_tokens": 800},
            "completion_tokens_details": {"reasoning_tokens": 40},
        }),
        Bill(1000, 800, 0, 50),
    ),
    "cached and written next to the input": (
        claude_log("claude-sonnet-4-5", {
            "input_tokens": 100, "output_tokens": 50,
            "cache_read_input_tokens": 700, "cache_creation_input_tokens": 200,
        }),
        Bill(1000, 700, 200, 50),
    ),
    "thoughts next to the answer": (
        gemini_log("gemini-2.5-flash", {
            "promptTokenCount": 1000, "cachedContentTokenCount": 600, "candidatesTokenCount": 50,
            "thoughtsTokenCount": 30, "totalTokenCount": 1080,
        }),
        Bill(1000, 600, 0, 80),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_however_a_provider_counts_it_is_what_it_bills(name: str, tmp_path: Path) -> None:
    log, bill = LOGS[name]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    require_bill(path, [bill])


def test_a_report_that_comes_twice_is_counted_once(tmp_path: Path) -> None:
    rows = rows_of(SAMPLES / "codex.jsonl")
    kinds = [row["payload"].get("type") for row in rows]
    report = kinds.index("token_count")
    calls = ("reasoning", "function_call", "custom_tool_call", "local_shell_call")
    call = next(at for at, kind in enumerate(kinds) if at > report and kind in calls)
    path = tmp_path / "codex.jsonl"
    twice = [*rows[: call + 1], rows[report], *rows[call + 1 :]]
    path.write_text("\n".join(map(json.dumps, twice)))
    require_bill(path, [*of_codex(rows)])
