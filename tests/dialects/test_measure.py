"""A request is counted as it is sent, the same way whether Weft made it or somebody else."""

import copy
import gzip
import itertools
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import weft
from tests.dialects import prompts
from tests.support.each import with_each
from tests.support.laws import all_laws
from tests.support.strategies import json_values, logs
from weft import Agent, Content, Event, Part, Session, TokenBudget, count_tokens
from weft.compiler import Compilation, compile_request
from weft.compiler import compile_request as compile
from weft.content import (
    call_part,
    media_part,
    opaque_part,
    result_part,
    text_part,
    thought_part,
)
from weft.dialects import DIALECTS, count_request
from weft.dialects.measure import Meter
from weft.errors import BudgetExceeded, UsageError
from weft.tokens import audio_seconds, counter_for, overheads_for, thought_tokens
from weft.values import Json, JsonObject

ROOT = Path(__file__).parents[2]
FAMILIES = {
    "gemini": ("gemini-2.0-flash", "gemini-2.5-pro", "gemini-3-flash", "gemini-flash-latest"),
    "anthropic": ("claude-3-haiku", "claude-sonnet-4-5", "claude-opus-5-5"),
    "openai-chat": ("openai-chat/gpt-4.1", "openrouter/openai/gpt-5", "ollama/unknown"),
    "openai-responses": ("openai-responses/gpt-4.1", "gpt-5.4"),
}
READERS = {name: dialect.meter("gpt-5").weigher for name, dialect in DIALECTS.items()}
MODELS = [(dialect, model) for dialect, models in FAMILIES.items() for model in models]


def look(q: str = "") -> str:
    """Look something up."""
    return q


def counted(compiled: Compilation) -> int:
    return count_request(compiled.wire, dialect=compiled.dialect, model=compiled.prompt.model)


# --- what Weft makes


def a_compiled_request_counts_as_its_wire_does(compiled: Compilation, dialect: str) -> None:
    assert compiled.tokens == counted(compiled)


def every_part_of_a_turn_belongs_to_a_block(compiled: Compilation, dialect: str) -> None:
    for entry in compiled.lowered(dialect).entries:
        parts = READERS[dialect].turn(entry.wire).parts
        assert {part.pointer for part in parts} <= {pointer for pointer, _ in entry.blocks}


LAWS = [a_compiled_request_counts_as_its_wire_does, every_part_of_a_turn_belongs_to_a_block]


@pytest.mark.parametrize("name", prompts.BY_NAME)
def test_every_scene_is_counted_as_it_is_sent_in_every_dialect(name: str) -> None:
    with all_laws() as laws:
        for dialect in prompts.DIALECTS:
            laws.check(f"{dialect}: {name}", LAWS, prompts.compiled(name, dialect), dialect)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(events=logs())
@with_each("named", MODELS)
def test_any_session_counts_as_its_wire_does_at_every_step(
    named: tuple[str, str], events: list[Event]
) -> None:
    dialect, model = named
    agent = Agent("bot", model=model, instruction="Intent: {intent?}", tools=[look])
    session = Session("s")
    for event in events:
        session = session.append(event)
        compiled = compile(agent, session=session)
        assert compiled.dialect == dialect
        assert compiled.tokens == counted(compiled)


SEALED = "c2Vh" * 1_500


def thinking(dialect: str) -> Part:
    """A thought that the dialect takes back."""
    if dialect == "openai-responses":
        # without an id, as what follows has none
        held: JsonObject = {"type": "reasoning", "summary": [], "encrypted_content": SEALED}
        return opaque_part(dialect, held)
    return thought_part("Let me think about it. " * 40, signature=SEALED, provider=dialect)


def thoughtful(dialect: str, rounds: int) -> list[Event]:
    """A session in which the model thinks before each call and each answer."""
    events: list[Event] = []

    def say(author: str, role: str, *parts: Part) -> None:
        index = len(events)
        content = Content(role=role, parts=parts)
        invocation = f"i{index // 5}"
        events.append(
            Event(author=author, content=content, id=f"e{index}", invocation_id=invocation)
        )

    for number in range(rounds):
        say("user", "user", text_part(f"Question {number}, please look it up."))
        call = call_part("look", {"q": f"{number}"}, id=f"c{number}")
        say("bot", "model", thinking(dialect), call)
        say("bot", "user", result_part("look", {"result": "word " * 30}, id=f"c{number}"))
        say("user", "user", text_part("Go on."))
        say("bot", "model", thinking(dialect), text_part(f"It is {number}."))
    return events


@pytest.mark.parametrize(("dialect", "model"), MODELS)
def test_thoughts_count_as_long_as_the_provider_counts_them(dialect: str, model: str) -> None:
    agent = Agent("bot", model=model, tools=[look])
    session = Session("s")
    sizes: list[int] = []
    for event in thoughtful(dialect, 6):
        session = session.append(event)
        compiled = compile(agent, session=session)
        sizes.append(compiled.tokens)
        assert compiled.tokens == counted(compiled)
        report = compiled.explain()
        assert sum(row.tokens for row in report.sent) == compiled.tokens
        assert all(row.tokens >= 0 for row in report.sent)
        assert compiled.stable_prefix.tokens <= compiled.tokens
    over = overheads_for(dialect, model)
    forgets = any(after < before for before, after in itertools.pairwise(sizes))
    billed = thought_tokens(over, 200, len(SEALED)) > 0 and dialect != "openai-chat"
    assert forgets == (billed and not over.earlier_thoughts)


@pytest.mark.parametrize("budget", [700, 1_500, 4_000])
@pytest.mark.parametrize(("dialect", "model"), MODELS)
def test_a_budget_holds_with_thoughts_and_without(dialect: str, model: str, budget: int) -> None:
    limit = TokenBudget(budget, keep_recent=1)
    agent = Agent("bot", model=model, tools=[look], context_compressor=limit)
    session = Session("s")
    for event in thoughtful(dialect, 8):
        session = session.append(event)
        try:
            compiled = compile(agent, session=session)
        except BudgetExceeded:
            continue
        assert counted(compiled) == compiled.tokens <= budget


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(events=logs(), budget=st.integers(60, 800))
@with_each("named", MODELS)
def test_a_budget_holds_for_every_model(
    named: tuple[str, str], events: list[Event], budget: int
) -> None:
    _, model = named
    limit = TokenBudget(budget, keep_recent=1)
    agent = Agent("bot", model=model, instruction="Be brief.", context_compressor=limit)
    try:
        compiled = compile(agent, session=Session("s", events=events))
    except BudgetExceeded:
        return
    assert counted(compiled) == compiled.tokens <= budget


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_more_step_counts_only_what_is_new(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent("bot", model=FAMILIES[dialect][-1], instruction="Be brief.")
    said = enumerate(("user", "bot") * 1_000)
    events = [prompts.event(index, author, f"{author} says {index}") for index, author in said]
    session = Session("s", events=events)
    assert compile(agent, session=session).tokens > 2_000
    counted: list[object] = []
    turn = Meter.turn
    monkeypatch.setattr(Meter, "turn", lambda self, wire: counted.append(wire) or turn(self, wire))
    for index in range(2_000, 2_010):
        session = session.append(prompts.event(index, "user" if index % 2 == 0 else "bot", "More."))
        assert compile(agent, session=session).tokens
    assert len(counted) <= 10 * 4


def test_a_compilation_that_is_not_asked_for_its_tokens_counts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Meter, "turn", lambda *_: pytest.fail("counted"))
    monkeypatch.setattr(Meter, "head", lambda *_: pytest.fail("counted"))
    compiled = compile(Agent("bot", model="gpt-5"), message="Hi")
    assert compiled.wire
    assert compiled.hash


# --- what others made

DECLARED: JsonObject = {
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
}
RECORDED: dict[str, tuple[str, str, JsonObject, int]] = {
    "a plain chat": (
        "openai-chat",
        "gpt-4o",
        {"messages": [{"role": "user", "content": "Hi"}]},
        3 + 4 + 1,
    ),
    "a chat with tools, as parts and as text": (
        "openai-chat",
        "gpt-4o",
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "1", "function": {"name": "look", "arguments": '{ "q": "a" }'}},
                        {"id": "2", "function": {"name": "look", "arguments": "not json"}},
                    ],
                },
                {"role": "tool", "tool_call_id": "1", "content": "sun"},
                {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "sun"}]},
            ],
            "tools": [{"type": "function", "function": DECLARED}],
        },
        3 + 5 * 4 + 3 + 1 + (5 + 1 + 5) + (5 + 1 + 2) + 9 + 2 * (4 + 1) + 15 + 17,
    ),
    "a response to a string": (
        "openai-responses",
        "gpt-5",
        {"input": "Hi", "instructions": "Be brief."},
        2 + 4 + 1 + 4 + 3,
    ),
    "a response with reasoning": (
        "openai-responses",
        "gpt-5",
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "reasoning", "encrypted_content": "x" * 1950, "summary": []},
                {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "1"},
                {"type": "function_call_output", "call_id": "1", "output": "sun"},
            ],
            "tools": [{"type": "function", **DECLARED}],
            "tool_choice": "required",
        },
        2 + 5 + 205 + (4 + 7 + 2) + (4 + 6 + 1) + 12 + 17,
    ),
    "a message of strings": (
        "anthropic",
        "claude-sonnet-4-5",
        {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
        4 + 3 + 3 + 1,
    ),
    "messages of one role": (
        "anthropic",
        "claude-sonnet-4-5",
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            ]
        },
        4 + 3 + 1 + 1,
    ),
    "contents in camelCase": (
        "gemini",
        "gemini-2.5-flash",
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "look", "response": {"r": "sun"}}}],
                },
            ],
            "tools": [{"functionDeclarations": [DECLARED]}],
        },
        3 * 1 + 3 + 1 + (6 + 1 + 1) + (5 + 6) + (8 + 18),
    ),
    "contents in snake_case": (
        "gemini",
        "gemini-2.5-flash",
        {
            "system_instruction": {"parts": {"text": "Be brief."}},
            "contents": [
                {"parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [{"function_response": {"name": "look", "response": {"r": "sun"}}}],
                },
            ],
            "tools": [{"function_declarations": [DECLARED]}],
        },
        3 * 1 + 3 + 1 + (6 + 1 + 1) + (5 + 6) + (8 + 18),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_have_known_counts(name: str) -> None:
    dialect, model, wire, tokens = RECORDED[name]
    assert count_request(wire, dialect=dialect, model=model) == tokens


PNG = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQA"  # 1024 x 1024


@pytest.mark.parametrize(
    ("dialect", "model", "part"),
    [
        ("gemini", "gemini-2.5-pro", {"inlineData": {"mimeType": "image/png", "data": PNG}}),
        ("gemini", "gemini-2.5-pro", {"inline_data": {"mime_type": "image/png", "data": PNG}}),
        (
            "anthropic",
            "claude-sonnet-4-5",
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
        ),
        (
            "openai-chat",
            "gpt-4o",
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ),
        (
            "openai-responses",
            "gpt-4o",
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        ),
    ],
)
def test_an_image_is_counted_by_its_size_not_its_bytes(
    dialect: str, model: str, part: JsonObject
) -> None:
    known = {"gemini": 1_032, "anthropic": 1_398, "openai-chat": 765, "openai-responses": 765}
    (found,) = READERS[dialect].turn(_message(dialect, part)).parts
    assert found.text == PNG
    assert Meter(READERS[dialect], model).part(found) == known[dialect]


def _message(dialect: str, part: Json) -> JsonObject:
    key = "parts" if dialect == "gemini" else "content"
    return {"role": "user", key: [part]}


@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("gemini", {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a.png"}}),
        ("anthropic", {"type": "image", "source": {"type": "url", "url": "https://e.com/a.png"}}),
        ("openai-chat", {"type": "image_url", "image_url": {"url": "https://e.com/a.png"}}),
        ("openai-responses", {"type": "input_image", "file_id": "file-1"}),
    ],
)
def test_an_image_at_an_address_counts_as_a_small_one_at_least(
    dialect: str, part: JsonObject
) -> None:
    message = _message(dialect, part)
    (image,) = READERS[dialect].turn(message).parts
    meter = Meter(READERS[dialect], FAMILIES[dialect][0])
    assert (image.kind, image.text) == ("media", "")
    assert 0 < meter.part(image) < 500
    assert meter.list_uncounted({READERS[dialect].turns: [message]}) == (
        "the image that only an address is sent of",
    )


def test_text_sent_as_a_document_costs_a_little_more() -> None:
    source: JsonObject = {"type": "text", "media_type": "text/plain", "data": "Hi"}
    document, text = (
        Meter(READERS["anthropic"], "claude-sonnet-4-5").turn(_message("anthropic", part)).tokens
        for part in ({"type": "document", "source": source}, {"type": "text", "text": "Hi"})
    )
    assert document == text + 38


def test_results_do_not_end_the_thoughts_before_them() -> None:
    def wire(*last: Json) -> JsonObject:
        thought: JsonObject = {"type": "thinking", "thinking": "hm " * 50, "signature": "s"}
        call: JsonObject = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
        return {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [thought, call]},
                {"role": "user", "content": list(last)},
            ]
        }

    result: JsonObject = {"type": "tool_result", "tool_use_id": "1", "content": "sun"}
    words: JsonObject = {"type": "text", "text": "Go on."}
    old, new = "claude-sonnet-4-5", "claude-opus-5-5"
    for model, forgets in ((old, True), (new, False)):
        alone = count_tokens(wire(result), model=model)
        spoken = count_tokens(wire(result, words), model=model)
        said = counter_for(model).count("Go on.") + overheads_for("anthropic", model).text
        assert (spoken < alone) is forgets
        assert (spoken == alone + said) is not forgets


def test_the_dialect_is_the_models_unless_it_is_given() -> None:
    wire: JsonObject = {"messages": [{"role": "user", "content": "Hi"}]}
    assert count_tokens(wire, model="gpt-5", dialect="openai-chat") == 2 + 4 + 1
    assert count_tokens(wire, model="gpt-5") == 2  # it is spoken to in openai-responses
    assert weft.count_tokens is count_tokens


def test_an_unknown_dialect_is_an_error_that_lists_them() -> None:
    assert READERS.keys() == DIALECTS.keys()
    with pytest.raises(UsageError, match="openai-responses"):
        count_request({}, dialect="opnai", model="gpt-5")


# --- shapes nobody expects


def places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        below = enumerate(value)  # type: ignore[assignment]
    return [path, *(found for key, one in below for found in places(one, (*path, key)))]


@pytest.mark.parametrize("name", RECORDED)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(
    data=st.data(), odd=json_values | st.sampled_from([float("nan"), [[[]]], {"": {}}, "\ud83d"])
)
def test_odd_shapes_are_counted_too(name: str, data: st.DataObject, odd: Json) -> None:
    dialect, model, wire, _ = RECORDED[name]
    changed: Any = {"whole": copy.deepcopy(wire)}
    place = data.draw(st.sampled_from(places(changed)[2:]))
    *above, last = place
    held = changed
    for key in above:
        held = held[key]
    held[last] = odd
    assert count_request(changed["whole"], dialect=dialect, model=model) >= 0


@settings(deadline=None, max_examples=150)
@given(wire=st.dictionaries(st.text(max_size=5), json_values, max_size=3), turns=json_values)
@example(wire={"tools": {"name": 1}, "system": [None, 2, {"text": []}]}, turns=[None, 1, "x"])
@with_each("named", MODELS)
def test_any_json_is_counted(named: tuple[str, str], wire: JsonObject, turns: Json) -> None:
    dialect, model = named
    wire = {**wire, READERS[dialect].turns: turns}
    assert count_request(wire, dialect=dialect, model=model) >= 0
    assert count_request({}, dialect=dialect, model=model) >= 0


def test_a_schema_without_an_end_is_counted() -> None:
    nested: JsonObject = {}
    for _ in range(5_000):
        nested = {"items": nested}
    wire: JsonObject = {
        "messages": [],
        "tools": [{"type": "function", "function": {"name": "deep", "parameters": nested}}],
    }
    assert count_request(wire, dialect="openai-chat", model="gpt-4o") >= 0


# --- the calibration


@pytest.mark.parametrize("options", [(), ("--fit", "--worst", "1")])
def test_the_calibration_reads_what_the_package_reads(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    recording = tmp_path / "exchanges.jsonl.gz"
    with gzip.open(recording, "wt", encoding="utf-8") as lines:
        for name, (dialect, model, wire, tokens) in RECORDED.items():
            usage: JsonObject = {"usage": {"input_tokens": tokens, "prompt_tokens": tokens}}
            if dialect == "gemini":
                usage = {"usageMetadata": {"promptTokenCount": tokens}}
            exchange = {"id": name, "dialect": dialect, "path": f"/models/{model}:generate"}
            exchange |= {"request": {**wire, "model": model}, "response": usage}
            lines.write(json.dumps({**exchange, "status": 200, "stream": None}) + "\n")
    script = ROOT / "bench" / "calibrate_tokens.py"
    done = subprocess.run(
        [sys.executable, script, recording, *options], capture_output=True, text=True, check=True
    )
    table = {row[0]: row[1:] for row in (line.split() for line in done.stdout.splitlines()) if row}
    for dialect in DIALECTS:
        assert table[dialect][:3] == ["2", "0.0%", "0.0%"]


# --- what cannot be counted is said to be unknown


def _pdf(pages: int, *, packed: bool = False) -> bytes:
    listed = b"".join(b"<< /Type /Page /Parent 1 0 R >>\n" for _ in range(pages))
    if not packed:
        return b"%PDF-1.4\n<< /Type /Pages >>\n" + listed + b"%%EOF"
    body = zlib.compress(listed)
    return b"%PDF-1.5\n1 0 obj << /Type /ObjStm /Filter /FlateDecode >>\nstream\n" + body


@pytest.mark.parametrize("packed", [False, True])
def test_a_pdf_counts_its_pages_and_says_that_its_text_is_not_counted(packed: bool) -> None:
    for model in ("claude-sonnet-4-5", "gemini-2.5-flash", "gpt-5"):
        sizes: list[int] = []
        for pages in (1, 12):
            said = Content((media_part("application/pdf", _pdf(pages, packed=packed)),), "user")
            compiled = compile_request(Agent("bot", model=model), message=said)
            assert compiled.uncounted == ("the text of the PDF",)
            sizes.append(compiled.tokens)
        assert sizes[1] - sizes[0] >= 11 * 200


def test_the_report_says_at_least_and_what_is_unknown() -> None:
    agent = Agent(
        "bot",
        model="claude-sonnet-4-5",
        generate_config={"extra": {"anthropic": {"mcp_servers": [{"name": "a", "url": "b"}]}}},
    )
    compiled = compile_request(agent, message="Hi")
    report = compiled.explain()
    assert report.uncounted == ("the tools of its MCP servers",)
    assert f"at least {compiled.tokens:,}" in report.to_text()
    assert "the tools of its MCP servers" in report.to_text()
    assert "at least" in report.to_html()
    plain = compile_request(Agent("bot", model="claude-sonnet-4-5"), message="Hi")
    assert plain.uncounted == ()
    assert "at least" not in plain.explain().to_text()


WEB = {"type": "web_search_20250305", "name": "web_search"}
LATER = {"type": "function", "name": "look", "parameters": {}, "defer_loading": True}
UNKNOWN: list[tuple[str, str, JsonObject, str]] = [
    ("anthropic", "claude-sonnet-4-5", {"tools": [WEB], "messages": []}, "own tools"),
    ("anthropic", "claude-sonnet-4-5", {"container": "c1", "messages": []}, "holds"),
    ("openai-responses", "gpt-5", {"tools": [{"type": "mcp"}], "input": "Hi"}, "MCP"),
    ("openai-responses", "gpt-5.4", {"tools": [LATER], "input": "Hi"}, "loaded later"),
    ("openai-responses", "gpt-5", {"previous_response_id": "r1", "input": "Hi"}, "holds"),
    ("openai-chat", "gpt-4o-search-preview", {"web_search_options": {}, "messages": []}, "own"),
    ("gemini", "gemini-2.5-flash", {"tools": [{"googleSearch": {}}], "contents": []}, "own tools"),
    ("gemini", "gemini-2.5-flash", {"cachedContent": "x", "contents": []}, "holds"),
    ("gemini", "gemini-2.5-flash", {"contents": [{"role": "user", "parts": [
        {"fileData": {"fileUri": "u", "mimeType": "video/mp4"}}]}]}, "film"),
    ("openai-responses", "gpt-5", {"input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": "https://a.b/c.png"}]}]}, "image"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "model", "wire", "words"), UNKNOWN)
def test_what_only_the_provider_can_count_is_named(
    dialect: str, model: str, wire: JsonObject, words: str
) -> None:
    meter = Meter(READERS[dialect], model)
    assert any(words in told for told in meter.list_uncounted(wire))
    assert meter.request(wire) < 3_000


def test_a_tool_that_others_run_has_its_size_and_is_not_unknown() -> None:
    meter = Meter(READERS["anthropic"], "claude-sonnet-4-5")
    tools = [{"type": "memory_20250818", "name": "memory"}]
    wire: JsonObject = {"tools": tools, "messages": [{"role": "user", "content": "hello"}]}
    assert meter.list_uncounted(wire) == ()
    assert 1_400 < meter.request(wire) < 1_700


def test_a_recording_counts_its_seconds() -> None:
    head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0" + (8000).to_bytes(4, "little")
    head += (16_000).to_bytes(4, "little") + b"\2\0\x10\0data\0\0\0\0"
    ten = media_part("audio/wav", head + bytes(160_000))
    compiled = compile_request(
        Agent("bot", model="gemini-2.5-flash"), message=Content((ten,), "user")
    )
    silent = compile_request(Agent("bot", model="gemini-2.5-flash"), message=" ")
    assert compiled.uncounted == ()
    assert abs(compiled.tokens - silent.tokens - 320) < 8
    odd = media_part("audio/ogg", b"OggS" + bytes(5_000))
    compiled = compile_request(
        Agent("bot", model="gemini-2.5-flash"), message=Content((odd,), "user")
    )
    assert compiled.uncounted == ("the recording of type audio/ogg",)


def test_an_mp3_of_changing_rate_counts_its_frames() -> None:
    frame = b"\xff\xfb\x50\xc4" + bytes(32) + b"Xing\0\0\0\1" + (126).to_bytes(4) + bytes(4_000)
    seconds = audio_seconds(b"ID3\4\0\0\0\0\0\5" + bytes(5) + frame)
    assert seconds == pytest.approx(126 * 1152 / 44_100)
    assert audio_seconds(b"ID3") is None
    assert audio_seconds(b"") is None


@pytest.mark.parametrize(("dialect", "model"), MODELS)
def test_the_schema_of_the_answer_takes_tokens(dialect: str, model: str) -> None:
    def sized(fields: int) -> Compilation:
        properties: JsonObject = {f"field_{n}": {"type": "string"} for n in range(fields)}
        schema: JsonObject = {"type": "object", "properties": properties}
        return compile(Agent("bot", model=model, output_schema=schema), message="Hi")

    small, large = sized(2), sized(30)
    assert large.tokens - small.tokens > 28 * 4
    assert large.tokens == counted(large)
    rows = [row for row in large.explain().sent if row.source == "schema"]
    assert all(row.tokens > 28 * 4 for row in rows)
    assert sum(row.tokens for row in large.explain().sent) == large.tokens


def test_a_tool_that_the_provider_runs_takes_tokens_before_it_is_used() -> None:
    def size(*tools: Json, model: str = "claude-sonnet-4-5") -> int:
        wire: JsonObject = {"messages": [{"role": "user", "content": "hello"}]}
        wire |= {"tools": [*tools]} if tools else {}
        return Meter(READERS["anthropic"], model).request(wire)

    search: JsonObject = {"type": "tool_search_tool_bm25_20251119", "name": "search"}
    later: JsonObject = {"name": "look", "input_schema": {"type": "object"}, "defer_loading": True}
    assert size({"type": "web_search_20250305", "name": "web_search"}) - size() == 2_600
    # functions that are loaded later bring the preamble, and none of their own text
    assert (
        size(later, search) - size() == overheads_for("anthropic", "claude-sonnet-4-5").tools + 200
    )
    assert size(later, {**later, "name": "other"}, search) == size(later, search)


def test_older_models_have_preambles_of_their_own() -> None:
    tool: JsonObject = {"name": "look", "description": "", "input_schema": {"type": "object"}}
    wire: JsonObject = {"messages": [{"role": "user", "content": "hello"}], "tools": [tool]}
    sizes = {
        model: Meter(READERS["anthropic"], model).request(wire)
        for model in (
            "claude-3-sonnet",
            "claude-3-5-haiku-latest",
            "claude-3-5-sonnet",
            "claude-3-opus",
        )
    }
    assert [*sizes.values()] == sorted(sizes.values())
    assert len({*sizes.values()}) == 4


def test_a_model_that_decides_how_long_it_thinks_is_told_in_fewer_tokens() -> None:
    def size(kind: str) -> int:
        wire: JsonObject = {"messages": [], "thinking": {"type": kind}}
        return Meter(READERS["anthropic"], "claude-opus-4-6").request(wire)

    assert size("disabled") < size("adaptive") < size("enabled")


def test_tools_that_are_declared_later_bring_words_of_their_own() -> None:
    tool: JsonObject = {"type": "function", "name": "look", "parameters": {"type": "object"}}
    declared: JsonObject = {"type": "additional_tools", "role": "developer", "tools": [tool]}
    meter = Meter(READERS["openai-responses"], "gpt-5.4")
    told: JsonObject = {"role": "user", "content": "hello"}
    assert meter.request({"input": [told, declared]}) - meter.request({"input": [told]}) > 90


def test_an_image_by_its_address_takes_what_a_small_one_does() -> None:
    for model, least in (("gemini-2.5-flash", 258), ("claude-sonnet-4-5", 200), ("gpt-4o", 200)):
        part = Part.from_url("https://example.org/a.png")
        shown = compile(Agent("bot", model=model), message=Content((part,), "user"))
        assert shown.tokens - compile(Agent("bot", model=model), message=" ").tokens > least - 10
        assert shown.uncounted == ("the image that only an address is sent of",)
