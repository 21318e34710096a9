"""Recordings of other programs: what-ifs begin with what was recorded, and parts add up."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.compiler.explain import notes_of
from weft.errors import SessionError
from weft.inspector import Inspection, Variant, questions, sources
from weft.inspector.answer import describe_answer
from weft.inspector.diagnosis import Ledger, diagnose, find_saving
from weft.inspector.request import RequestView
from weft.inspector.trust import describe_trust
from weft.ir import CallBlock, OpaqueBlock, ResultBlock
from weft.recordings import Recording, read_file
from weft.recordings.read import read_recordings
from weft.values import compact

FOLDER = Path(__file__).parents[1] / "recordings"


def recordings() -> Iterator[Recording]:
    """Those of every format that Weft reads, with a model's answer."""
    for file in sorted((FOLDER / "samples").iterdir()):
        if file.name != "streams.json":
            yield from read_file(file)
    for line in (FOLDER / "variants" / "variants.jsonl").read_text().splitlines():
        yield from read_recordings(json.loads(line)["file"].encode(), name="file.json")
    yield from team()


def span(number: int, agent: str, messages: list[Any], answer: Any, tools: bool) -> dict[str, Any]:
    """A call of a model as the GenAI conventions record it."""
    values: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": "trip",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.provider.name": "openai",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": f"You: {agent}."}]),
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps([answer]),
    }
    if tools:
        declared = {"type": "function", "name": "look", "description": "Look.", "parameters": {}}
        values["gen_ai.tool.definitions"] = json.dumps([declared])
    return {
        "traceId": "1" * 32,
        "spanId": f"{number:016x}",
        "name": "chat gpt-5",
        "startTimeUnixNano": str((1_780_000_000 + number) * 10**9),
        "endTimeUnixNano": str((1_780_000_000 + number) * 10**9 + 5 * 10**8),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in values.items()
        ],
    }


def team() -> list[Recording]:
    """Two agents that speak in turns, of which each is sent what it said itself, and a third."""
    text = {"type": "text", "content": ""}
    spans: list[dict[str, Any]] = []
    said: dict[str, list[Any]] = {"finder": [], "writer": [], "judge": []}
    for turn in range(4):
        for agent in ("finder", "writer"):
            words = {**text, "content": f"{agent}, go on with {turn}. " + "It is long. " * 30}
            said[agent].append({"role": "user", "parts": [words]})
            answer = {"role": "assistant", "parts": [{**text, "content": f"{agent} {turn} done"}]}
            spans.append(span(len(spans), agent, list(said[agent]), answer, agent == "finder"))
            said[agent].append(answer)
    words = {**text, "content": "finder 3 done. writer 3 done. Which is better?"}
    answer = {"role": "assistant", "parts": [{**text, "content": "Both."}]}
    spans.append(
        span(len(spans), "judge", [{"role": "user", "parts": [words]}], answer, tools=False)
    )
    data = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    return [*read_recordings(json.dumps(data).encode(), name="spans.json")]


def inspections() -> Iterator[tuple[Recording, Inspection]]:
    for recording in recordings():
        if any(event.author != "user" for event in recording.session.events):
            yield recording, Inspection.of_recording(recording)


def is_sound(inspection: Inspection, number: int) -> bool:
    """Whether Weft would send a request as it is.

    It mends one that a provider may refuse, and it knows no part that only the provider reads.
    """
    items = inspection.request(number).prompt.items
    blocks = [one for item in items for one in item.blocks]
    calls = {one.id for one in blocks if isinstance(one, CallBlock)}
    results = {one.call_id for one in blocks if isinstance(one, ResultBlock)}
    is_mended = notes_of(inspection.alone(number, PLAIN).request(number))
    return (
        calls == results
        and not any(isinstance(one, OpaqueBlock) for one in blocks)
        and not [*is_mended]
    )


PLAIN = Variant(policy="C.default()")


def test_a_what_if_that_changes_nothing_changes_nothing() -> None:
    failed: list[str] = []
    seen = 0
    for recording, inspection in inspections():
        if inspection.recorded is None:
            continue
        for step in inspection.steps:
            same = questions.what_if(inspection, step.number, Variant())
            assert same["view"]["text"] == compact(inspection.request(step.number).wire)
            assert same["tokens"] == same["tokens_now"]
            plain = questions.what_if(inspection, step.number, PLAIN)
            seen += 1
            if plain["tokens"] != plain["tokens_now"] and is_sound(inspection, step.number):
                where = f"{recording.format} {recording.id} call {step.number}"
                failed.append(f"{where}: {plain['tokens_now']} became {plain['tokens']}")
    assert seen > 200
    assert not failed, "\n".join(failed)


def test_a_policy_that_is_taken_back_leaves_what_was_sent() -> None:
    for _, inspection in inspections():
        if inspection.recorded is None:
            continue
        before = [compact(step.request.wire) for step in inspection.steps if step.request]
        for text in ("C.none()", "C.auto()", "C.window(1)"):
            other = inspection.under(Variant(policy=text))
            assert len(other.steps) == len(inspection.steps)
        after = [compact(step.request.wire) for step in inspection.steps if step.request]
        assert after == before
        assert inspection.under(Variant()) is inspection


def test_the_parts_of_a_bill_are_all_of_it() -> None:
    for recording, inspection in inspections():
        recorded = inspection.recorded
        if recorded is None:
            continue
        ledger = Ledger(inspection.steps, recorded=recorded)
        parts = sum(row.cost for row in ledger.parts.values())
        assert parts == pytest.approx(ledger.total), recording.format
        for frame in inspection.film()["frames"]:
            assert sum(frame["sources"].values()) == frame["tokens"]
            assert frame["cached"] <= frame["possible"] <= frame["tokens"]


def test_every_view_of_every_format_opens() -> None:
    for _, inspection in inspections():
        words = [line["words"] for line in diagnose(inspection)["lines"]]
        words.append(find_saving(inspection)["words"])
        text = " ".join(words)
        assert not [one for one in ("foreign", "dialect", "instruction:") if one in text]
        describe_trust(inspection)
        questions.dead_weight(inspection)
        questions.picture(inspection)
        inspection.receipt().to_json()
        for step in inspection.steps:
            RequestView(inspection, step.number).to_json()
            RequestView(inspection, step.number).cache()
            describe_answer(inspection, step.number)


def test_agents_of_one_recording_are_sent_what_they_were_sent() -> None:
    read = team()
    assert sum(len(one.exchanges) for one in read) == 9
    for recording in read:
        inspection = Inspection.of_recording(recording)
        for step in inspection.steps:
            assert step.request is not None
            assert step.request.prefix_break is None, "no agent breaks the cache of another"
            answer = questions.what_if(inspection, step.number, PLAIN)
            assert answer["view"]["text"].count("You: ") == 1
            assert answer["tokens"] == step.request.tokens


def log_of_claude_code(lifetime: str = "ephemeral_5m_input_tokens") -> Recording:
    """A session of Claude Code: its file holds neither the system text nor the tools."""
    rows: list[dict[str, Any]] = []
    parent: str | None = None

    def add(kind: str, message: dict[str, Any]) -> None:
        nonlocal parent
        number = len(rows)
        rows.append(
            {
                "type": kind,
                "uuid": f"u{number}",
                "parentUuid": parent,
                "sessionId": "s",
                "timestamp": f"2026-01-01T10:00:{number:02}Z",
                "message": message,
            }
        )
        parent = f"u{number}"

    add("user", {"role": "user", "content": "Mend it. " * 500})
    held, cached = 1_000, 0
    for call in range(12):
        total = 20_000 + held
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": total - cached - 3,
            "cache_creation": {lifetime: total - cached - 3},
            "output_tokens": 20,
        }
        use = {"type": "tool_use", "id": f"t{call}", "name": "Read", "input": {"path": f"{call}"}}
        answer = {"role": "assistant", "id": f"m{call}", "model": "claude-opus-4-6"}
        add("assistant", {**answer, "content": [use], "usage": usage})
        text = f"line {call} " * 400
        result = {"type": "tool_result", "tool_use_id": f"t{call}", "content": text}
        add("user", {"role": "user", "content": [result]})
        cached, held = total, held + 1_250
    content = [{"type": "text", "text": "Mended."}]
    usage = {"input_tokens": 3, "cache_read_input_tokens": cached, "output_tokens": 9}
    answer = {"role": "assistant", "id": "m", "model": "claude-opus-4-6"}
    add("assistant", {**answer, "content": content, "usage": usage})
    data = "\n".join(map(json.dumps, rows)).encode()
    return next(iter(read_recordings(data, name="session.jsonl")))


def test_what_stands_out_is_what_was_billed_and_not_what_the_file_holds() -> None:
    recording = log_of_claude_code()
    inspection = Inspection.of_recording(recording)
    recorded = inspection.recorded
    assert recorded is not None
    assert 15_000 < recorded.unrecorded_tokens < 21_000
    lines = [line["words"] for line in diagnose(inspection)["lines"]]
    assert "is the system text and the tools, which the file does not hold" in lines[0]
    assert "results of `Read`" in lines[1]
    assert not [line for line in lines if "cache" in line], "each call read all before it"
    bills = recorded.bills.values()
    ledger = Ledger(inspection.steps, recorded=recorded)
    expected = sum(
        bill.cached * 0.5e-6 + bill.written * 6.25e-6 + bill.fresh * 5e-6 for bill in bills
    )
    assert ledger.total == pytest.approx(expected, rel=0.01)
    # a program that has its requests kept is not sold that it could
    film = inspection.film()
    assert film["session"]["cached"] > 0.8 * film["session"]["tokens"]
    plain = sum(ghost["cost"] for ghost in inspection.ghosts())
    assert plain == pytest.approx(film["session"]["cost"])


def test_a_tool_that_the_provider_runs_is_shown() -> None:
    body = {
        "model": "claude-opus-4-6",
        "max_tokens": 9,
        "tools": [
            {"type": "web_search_20250305", "name": "web_search"},
            {"name": "look", "description": "Look.", "input_schema": {"type": "object"}},
        ],
        "messages": [{"role": "user", "content": "Search."}],
    }
    said = [{"type": "text", "text": "Done."}]
    response = {"type": "message", "role": "assistant", "content": said}
    line = {"request": body, "response": response}
    (recording,) = read_recordings(json.dumps(line).encode(), name="calls.jsonl")
    inspection = Inspection.of_recording(recording)
    rows = RequestView(inspection, 1).to_json()["rows"]
    tools = {row["text"].partition(":")[0]: row["tokens"] for row in rows if row["kind"] == "tool"}
    assert tools.keys() >= {"look"}
    assert tools["look"] > 0
    listed = questions.dead_weight(inspection)["tools"]
    assert [(row["tool"], row["called"]) for row in listed] == [("look", False)]


def test_turns_of_a_body_keep_their_places_where_weft_would_join_them() -> None:
    body = {
        "model": "gemini-3-flash-preview",
        "contents": [
            {"role": "user", "parts": [{"text": "One."}]},
            {"role": "user", "parts": [{"text": "Two."}]},
            {"role": "model", "parts": [{"text": "Three."}]},
            {"role": "user", "parts": [{"text": "Four."}]},
        ],
    }
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Five."}]}}]}
    line = json.dumps({"request": body, "response": answer}).encode()
    (recording,) = read_recordings(line, name="calls.jsonl")
    inspection = Inspection.of_recording(recording)
    view = RequestView(inspection, 1).to_json()
    assert json.loads(view["text"])["contents"] == body["contents"]
    start, found = 0, []
    for end, origin, _ in view["segments"]:
        words = view["text"][start:end]
        if words.endswith('."'):
            found.append((words[:-1], view["origins"][origin]["kind"]))
        start = end
    assert [kind for _, kind in found] == ["event"] * 4


def test_a_part_that_only_the_provider_reads_is_named_where_a_policy_cannot_keep_it() -> None:
    upload = {"type": "container_upload", "file_id": "file_1"}
    said = [{"type": "text", "text": "Read it."}, upload]
    messages = [{"role": "user", "content": said}]
    body = {"model": "claude-opus-4-6", "max_tokens": 9, "messages": messages}
    response = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Ok"}]}
    line = json.dumps({"request": body, "response": response}).encode()
    (recording,) = read_recordings(line, name="calls.jsonl")
    inspection = Inspection.of_recording(recording)
    assert questions.what_if(inspection, 1, Variant())["remark"] == ""
    remark = questions.what_if(inspection, 1, PLAIN)["remark"]
    assert remark.startswith("1 part of the request that was sent can only be read by its provider")


def log_of_calls(most: int) -> Inspection:
    """Six calls whose program sends the newest messages only."""
    talk: list[dict[str, str]] = []
    rows: list[str] = []
    for number in range(6):
        talk.append({"role": "user", "content": f"Question {number}?"})
        answer = {"role": "assistant", "content": f"Answer {number}."}
        request = {
            "model": "gpt-4o",
            "temperature": 0.3,
            "messages": [{"role": "system", "content": "Be brief."}, *talk[-most:]],
            "tools": [{"type": "web_search"}],
        }
        response = {"choices": [{"message": answer, "finish_reason": "stop"}]}
        time = 1_780_000_000 + number
        rows.append(json.dumps({"request": request, "response": response, "timestamp": time}))
        talk.append(answer)
    (recording,) = read_recordings("\n".join(rows).encode(), name="log.jsonl")
    return Inspection.of_recording(recording)


@pytest.mark.parametrize("most", [5, 100])
def test_what_is_forced_in_joins_what_was_recorded(most: int) -> None:
    inspection = log_of_calls(most)
    first = inspection.session.events[0]
    sent = inspection.request(6).wire
    forced = questions.force_in(inspection, 6, [first.id])
    wire = json.loads(forced["view"]["text"])
    words = {"role": "user", "content": "Question 0?"}
    system, *messages = sent["messages"]
    assert wire["messages"] == [system, words, *(one for one in messages if one != words)]
    assert {**wire, "messages": None} == {**sent, "messages": None}
    assert forced["tokens_now"] == inspection.request(6).tokens


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (["Mend the parser."], "Mend the parser."),
        (["<environment_context>\n<cwd>/a</cwd>\n</environment_context>", "Mend it."], "Mend it."),
        (["# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>x</INSTRUCTIONS>", "Do."], "Do."),
        (["<current_datetime>2026</current_datetime>\n\nMend it."], "Mend it."),
        (["<pr_description>all</pr_description>"], "<pr_description>all</pr_description>"),
    ],
)  # fmt: skip
def test_a_session_is_called_after_what_a_person_said_first(said: list[str], title: str) -> None:
    messages = [{"role": "user", "content": text} for text in said]
    messages.append({"role": "assistant", "content": "Yes."})
    (recording,) = read_recordings(json.dumps(messages).encode(), name="chat.json")
    assert Inspection.of_recording(recording).film()["session"]["first"] == title


def test_a_list_says_what_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_ROWS", 3)
    answer = {"role": "assistant", "content": "Yes."}
    chats = [{"messages": [{"role": "user", "content": f"Number {n}."}, answer]} for n in range(5)]
    read = [*read_recordings(compact(chats).encode(), name="chats.json")]
    source = sources.RecordedSessions(read, unreadable=[SessionError("it is torn", where="b.json")])
    rows = asyncio.run(source.sessions())
    listed = [one["first"] for one in rows if isinstance(one, dict)]
    assert listed == ["Number 2.", "Number 3.", "Number 4."]
    (found,) = asyncio.run(source.sessions("number 0"))
    assert isinstance(found, dict)
    assert found["first"] == "Number 0."
    unread, unlisted = source.notices()
    assert "b.json: it is torn" in unread
    assert "the last 3 of 5 recordings" in unlisted
