"""Plain turns are spelled by a shorter way, and are the same as by the long one."""

import json
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import arguments, words
from weft.diagnostics import Origin
from weft.dialects import dialect_named
from weft.dialects.anthropic import AnthropicTurnRules
from weft.dialects.base import Dialect
from weft.dialects.legality import Finding
from weft.dialects.openai_chat import ChatTurnRules
from weft.dialects.openai_responses import ResponsesTurnRules
from weft.dialects.track import LoweringReport
from weft.ir import Block, CallBlock, ResultBlock, TextBlock, pair_blocks
from weft.session.talk import PlainCall
from weft.values import JsonObject

DIALECTS = ("anthropic", "gemini", "openai-chat", "openai-responses")

ids = st.from_regex(r"[a-zA-Z0-9_ .é-]{1,70}", fullmatch=True)
names = st.sampled_from(("get_weather", "no name!", "x" * 200, "größe"))
outcomes = st.fixed_dictionaries({"result": words}) | st.fixed_dictionaries({"error": words})
calls = st.builds(PlainCall, ids, names, arguments, arguments | outcomes)


def report(dialect: Dialect) -> LoweringReport:
    return LoweringReport(dialect=dialect.traits.name, strict=False, model="some-model")


def blocks_of(made: list[PlainCall]) -> tuple[Block, ...]:
    pairs = [
        pair_blocks(call, Origin("event", "asked", part=at), Origin("event", "answered", part=at))
        for at, call in enumerate(made)
    ]
    return (*(call for call, _ in pairs), *(result for _, result in pairs))


@pytest.mark.parametrize("name", DIALECTS)
@given(made=st.lists(calls, min_size=1, max_size=3))
def test_an_exchange_is_spelled_as_any_item_is(name: str, made: list[PlainCall]) -> None:
    dialect, blocks = dialect_named(name), blocks_of(made)
    short, long = report(dialect), report(dialect)
    entries = dialect._exchange(blocks, short)
    assert entries is not None
    wires, slow = [entry.wire for entry in entries], dialect._item(blocks, long)
    assert entries == slow
    assert json.dumps(wires) == json.dumps([entry.wire for entry in slow])  # in the same order
    assert short.take() == long.take()
    asking = [block for block in blocks if isinstance(block, CallBlock)]
    answers = [block for block in blocks if isinstance(block, ResultBlock)]
    asked, answered = dialect.exchange(asking, answers, report(dialect))
    assert [*asked, *answered] == wires


@pytest.mark.parametrize("name", DIALECTS)
def test_half_a_character_in_an_exchange_is_mended(name: str) -> None:
    dialect, half = dialect_named(name), "\ud83d"
    blocks = blocks_of([PlainCall("c1", "look", {"q": half}, {"a": 1, "b": half})])
    short, long = report(dialect), report(dialect)
    slow = [dialect._encodable(entry, long) for entry in dialect._item(blocks, long)]
    assert dialect.item_turns(blocks, short) == slow
    assert short.take() == long.take()


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("index", [0, 1])
def test_an_exchange_with_something_kept_takes_the_long_way(name: str, index: int) -> None:
    dialect, blocks = dialect_named(name), blocks_of([PlainCall("c1", "look", {}, {"a": 1})])
    for change in ({"provider": name}, {"kept": {"x": 1}}, {"role": "system"}):
        changed = list(blocks)
        changed[index] = msgspec.structs.replace(blocks[index], **change)
        assert dialect._exchange(tuple(changed), report(dialect)) is None
    signed = msgspec.structs.replace(blocks[0], signature="s")
    assert dialect._exchange((signed, blocks[1]), report(dialect)) is None
    assert dialect._exchange(blocks[:1], report(dialect)) is None
    assert dialect._exchange(blocks[::-1], report(dialect)) is None


@pytest.mark.parametrize("name", DIALECTS)
@given(text=words.filter(lambda text: bool(text.strip())), role=st.sampled_from(("user", "model")))
def test_a_text_is_spelled_as_any_item_is(
    name: str, text: str, role: Literal["user", "model"]
) -> None:
    dialect = dialect_named(name)
    block = TextBlock(role=role, origin=Origin("event"), text=text)
    (entry,) = dialect._item((block,), report(dialect))
    assert dialect.spell_plain_turn(block) == entry
    assert dialect.spell_plain_wire(role, text) == entry.wire


# --- what is wrong with turns: most are looked at by a shorter way, too

bodies = st.sampled_from(
    ("", " ", "hi", None, [], {}, [{"text": "hi"}], [{"type": "text", "text": "hi"}])
)
contents = bodies | st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("text", "input_text", "tool_use", "tool_result", "image"))},
        optional={
            "text": st.sampled_from(("hi", " ", "")),
            "id": st.sampled_from(("a", "b", "no id!", 3)),
            "name": st.just("look"),
            "input": st.just({}),
            "tool_use_id": st.sampled_from(("a", "b", 3)),
            "content": bodies,
            "cache_control": st.just({"type": "ephemeral"}),
        },
    ),
    max_size=2,
)
turns = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant", "assistant", "tool", "system", "nobody"))},
    optional={
        "content": contents,
        "tool_calls": st.lists(st.fixed_dictionaries({"id": st.sampled_from("ab")}), max_size=2),
        "tool_call_id": st.sampled_from("ab"),
    },
)
items = turns | st.fixed_dictionaries(
    {"type": st.sampled_from(("message", "function_call", "function_call_output", "reasoning"))},
    optional={
        "role": st.sampled_from(("user", "assistant", "nobody")),
        "content": contents,
        "id": st.sampled_from("ab"),
        "call_id": st.sampled_from("ab"),
        "output": bodies | contents,
    },
)


def read_anthropic(rules: AnthropicTurnRules, turn: JsonObject, at: str) -> list[Finding]:
    blank, rules._blank = rules._blank, ()
    return [*blank, *rules._judge(turn, at, turn.get("role"))]


def read_chat(rules: ChatTurnRules, turn: JsonObject, at: str) -> list[Finding]:
    rules._any = True
    return [*rules._judge(turn, at, turn.get("role"), turn.get("content"))]


def read_responses(rules: ResponsesTurnRules, turn: JsonObject, at: str) -> list[Finding]:
    rules._any = True
    return [*rules._judge(turn, str(turn.get("type") or "message"), at)]


@settings(max_examples=300)
@given(talk=st.lists(turns, max_size=6))
def test_messages_are_refused_as_by_the_long_way(talk: list[JsonObject]) -> None:
    claude, slow_claude = (AnthropicTurnRules("claude-sonnet-4-5") for _ in range(2))
    chat, slow_chat = (ChatTurnRules("gpt-5") for _ in range(2))
    for at, turn in enumerate(talk):
        place = f"/messages/{at}"
        assert [*claude.read(turn, place)] == read_anthropic(slow_claude, turn, place)
        assert [*chat.read(turn, place)] == read_chat(slow_chat, turn, place)
        assert [*claude.fork().end({})] == [*slow_claude.fork().end({})]
        assert [*chat.fork().end({})] == [*slow_chat.fork().end({})]


@settings(max_examples=300)
@given(talk=st.lists(items, max_size=6))
def test_items_are_refused_as_by_the_long_way(talk: list[JsonObject]) -> None:
    short, long = ResponsesTurnRules("gpt-5"), ResponsesTurnRules("gpt-5")
    for at, turn in enumerate(talk):
        assert [*short.read(turn, f"/input/{at}")] == read_responses(long, turn, f"/input/{at}")
        assert [*short.fork().end({})] == [*long.fork().end({})]
