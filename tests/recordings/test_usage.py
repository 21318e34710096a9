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
from genai_prices import Usage, calc_price
from genai_prices.types import TieredPrices

from weft.inspector import Inspection
from weft.inspector.inspection import SessionSpending
from weft.recordings import Recording, read_file
from weft.replay.page import recorded_facts

Value = Any

SAMPLES = Path(__file__).parent / "samples"


class Bill(NamedTuple):
    """Tokens of a call as a provider counts them: `cached` and `written` are parts of `sent`.

    `lasting` is the part of `written` that is kept for an hour. `model` is empty where the file has
    one model for all calls.
    """

    sent: int = 0
    cached: int = 0
    written: int = 0
    answered: int = 0
    lasting: int = 0
    model: str = ""

    def price(self, model: str) -> float | None:
        """US dollars by the published list of prices; None where it does not have the model."""
        usage = Usage(
            input_tokens=self.sent,
            cache_read_tokens=self.cached,
            cache_write_tokens=self.written,
            output_tokens=self.answered,
        )
        try:
            price = calc_price(usage, model_ref=(self.model or model).rpartition("/")[2])
        except LookupError:
            return None
        fresh = price.model_price.input_mtok
        base = fresh.base if isinstance(fresh, TieredPrices) else fresh or 0
        # Anthropic takes twice the input price for an hour, and the list has 1.25 times
        return float(price.total_price) + self.lasting * float(base) * 0.75 / 1e6


def sum_bills(bills: list[Bill]) -> Bill:
    return Bill(*(sum(one[at] for one in bills) for at in range(4)))


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
    models: dict[str, str] = {}
    for row in rows:
        if row.get("type") == "assistant" and row["message"].get("model") != "<synthetic>":
            usages[row["message"]["id"]] = row["message"]["usage"]
            models[row["message"]["id"]] = row["message"]["model"]
    for id, one in usages.items():
        read = one.get("cache_read_input_tokens", 0)
        written = one.get("cache_creation_input_tokens", 0)
        lasting = (one.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0)
        sent = one["input_tokens"] + read + written
        yield Bill(sent, read, written, one["output_tokens"], lasting, models[id])


def of_codex(rows: list[Value]) -> Iterator[Bill]:
    """Each report has the sum of all before it; a call took what is more than in the last one."""
    reports = [one for one in inside(rows) if one.get("type") == "token_count" and one.get("info")]
    before = Bill()
    for one in [report["info"]["total_token_usage"] for report in reports]:
        now = Bill(one["input_tokens"], one["cached_input_tokens"], 0, one["output_tokens"])
        if now != before:
            yield Bill(*(now[at] - before[at] for at in range(4)))
        before = now


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
    "openai-agents-js.json": "messages alone",
    "openai-agents.json": "messages alone",
    "openai-chat.json": "a request without its answer",
    "openai-responses.json": "a request without its answer",
    "vercel-ui.json": "messages alone",
    "vercel.json": "messages alone",
}
"""Samples that hold none, and why."""

LEFT = {"claude-code.jsonl": Bill(13206, 12900, 300, 20, model="claude-sonnet-4-5")}
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
    whole = sum_bills([*expected, Bill(*(-count for count in left[:4]))])
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
    if pages and (len(models) == 1 or all(one.model for one in expected)):
        prices = [one.price(next(iter(models))) for one in expected]
        if None in prices:
            assert {page.money for page in pages} == {False}
            return
        own = sum(filter(None, prices)) - (left.price("") or 0 if left.model else 0)
        assert sum(page.cost for page in pages) == pytest.approx(own, rel=0.05), path.name
        assert {page.money for page in pages} == {True}
        assert not any(page.unpriced for page in pages)


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
    "written for an hour": (
        claude_log("claude-sonnet-4-5", {
            "input_tokens": 100, "output_tokens": 50, "cache_creation_input_tokens": 900,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 900},
        }),
        Bill(1000, 0, 900, 50, lasting=900),
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


def state_in_row(log: Value, cost: float) -> Value:
    """As LiteLLM does."""
    return {**log, "response_cost": cost}


def state_in_usage(log: Value, cost: float) -> Value:
    """As OpenRouter does."""
    usage = {**log["response"]["usage"], "cost": cost}
    return {**log, "response": {**log["response"], "usage": usage}}


def state_in_line(log: Value, cost: float) -> Value:
    """As Claude Code did."""
    said = {"type": "user", "message": {"role": "user", "content": "Hello."}}
    answer = {"type": "assistant", "message": log["response"], "costUSD": cost}
    rows = [{**said, "uuid": "a", "sessionId": "s"}, {**answer, "uuid": "b", "parentUuid": "a"}]
    return [{**row, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"} for row in rows]


def state_in_trace(log: Value, cost: float) -> Value:
    """As Langfuse does."""
    return {
        "type": "GENERATION", "id": "g", "traceId": "t", "model": log["request"]["model"],
        "input": log["request"]["messages"],
        "output": log["response"]["choices"][0]["message"],
        "usageDetails": {"input": 1000, "output": 50, "total": 1050},
        "totalCost": cost,
    }  # fmt: skip


PLAIN_USAGE = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}


def state_in_span(**attributes: Value) -> Value:
    """As exporters of spans do; `COST` stands for the cost, and may stand inside of JSON."""

    def state(log: Value, cost: float) -> Value:
        told = log["response"]["choices"][0]["message"]
        stated = {
            name.replace("__", "."): cost if one == "COST" else one.replace("COST", str(cost))
            for name, one in attributes.items()
        }
        said: Value = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": log["request"]["model"],
            "gen_ai.input.messages": json.dumps(log["request"]["messages"]),
            "gen_ai.output.messages": json.dumps([told]),
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 50,
        }
        if "llm.cost.total" in stated:
            said = {
                "openinference.span.kind": "LLM",
                "llm.model_name": log["request"]["model"],
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "Hello.",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": told["content"],
                "llm.token_count.prompt": 1000,
                "llm.token_count.completion": 50,
            }
        ids = {"trace_id": "t", "span_id": "s"}
        return {"name": "chat", "context": ids, "attributes": {**said, **stated}}

    return state


CHAT_BILL = (chat_log("gpt-4o", PLAIN_USAGE), Bill(1000, 0, 0, 50))

STATED: dict[str, tuple[Value, Value, Bill]] = {
    "LiteLLM": (state_in_row, chat_log("gpt-4o", PLAIN_USAGE), Bill(1000, 0, 0, 50)),
    "OpenRouter": (state_in_usage, chat_log("gpt-4o", PLAIN_USAGE), Bill(1000, 0, 0, 50)),
    "Langfuse": (state_in_trace, chat_log("gpt-4o", PLAIN_USAGE), Bill(1000, 0, 0, 50)),
    "Claude Code": (
        state_in_line,
        claude_log("claude-sonnet-4-5", {"input_tokens": 1000, "output_tokens": 50}),
        Bill(1000, 0, 0, 50),
    ),
    "OpenLIT": (state_in_span(gen_ai__usage__cost="COST"), *CHAT_BILL),
    "OpenInference": (state_in_span(llm__cost__total="COST"), *CHAT_BILL),
    "Logfire": (state_in_span(operation__cost="COST"), *CHAT_BILL),
    "Langfuse's spans": (
        state_in_span(langfuse__observation__cost_details='{"input": COST, "output": 0}'),
        *CHAT_BILL,
    ),
    "MLflow": (state_in_span(mlflow__llm__cost='{"total_cost": COST}'), *CHAT_BILL),
}


@pytest.mark.parametrize("program", STATED)
def test_a_cost_that_the_file_states_is_the_one_on_the_page_or_the_page_tells(
    program: str, tmp_path: Path
) -> None:
    state, log, bill = STATED[program]
    own = bill.price(log["request"]["model"])
    assert own is not None
    path = tmp_path / "log.jsonl"
    for cost in (own, 0, own * 2, own / 2):
        value = state(log, cost)
        rows = value if isinstance(value, list) else [value]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (recording,) = read_file(path)
        inspection = Inspection.of_recording(recording)
        warning = inspection.film()["notice"]
        page = spending(recording)
        assert page is not None
        assert page.cost == pytest.approx(own, rel=0.05)
        words = f"The file says that 1 call cost ${cost:.4f}; by the price list it is ${own:.4f}."
        assert (words in str(warning)) == (cost not in (own, 0)), warning
        assert ("The file says" in str(warning)) == (cost not in (own, 0)), warning


def test_a_stated_cost_without_a_price_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(state_in_row(chat_log("own-model", PLAIN_USAGE), 0.25)))
    (recording,) = read_file(path)
    notice = Inspection.of_recording(recording).film()["notice"]
    assert "The file says that 1 call cost $0.2500; the price list has no such model." in str(
        notice
    )
