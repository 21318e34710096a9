"""Plain turns are spelled by a shorter way, and are the same as by the long one."""

import copy
import gc
import json
import random
import weakref
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import with_each
from tests.support.strategies import arguments, words
from weft.compiler import compile
from weft.declare import Agent
from weft.diagnostics import Origin
from weft.dialects import dialect_named
from weft.dialects.anthropic import AnthropicTurnRules
from weft.dialects.base import Dialect
from weft.dialects.legality import Finding
from weft.dialects.openai_chat import ChatTurnRules
from weft.dialects.openai_responses import ResponsesTurnRules
from weft.dialects.track import LoweringReport, track_of
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


@settings(max_examples=150)
@given(made=st.lists(calls, min_size=1, max_size=3))
@with_each("name", DIALECTS)
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


def test_what_was_lowered_goes_with_the_request_that_nobody_has_any_more() -> None:
    gc.disable()  # nothing waits for the collector
    try:
        compiled = compile(Agent("bot", model="gpt-5.4"), message="Hi")
        assert compiled.wire
        items = compiled.prompt.items
        track = weakref.ref(track_of(items, compiled.dialect, compiled.prompt.model))
        assert track() is not None
        del compiled, items
        assert track() is None
    finally:
        gc.enable()


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


@settings(max_examples=200)
@given(text=words.filter(lambda text: bool(text.strip())), role=st.sampled_from(("user", "model")))
@with_each("name", DIALECTS)
def test_a_text_is_spelled_as_any_item_is(
    name: str, text: str, role: Literal["user", "model"]
) -> None:
    dialect = dialect_named(name)
    block = TextBlock(role=role, origin=Origin("event"), text=text)
    (entry,) = dialect._item((block,), report(dialect))
    assert dialect.spell_plain_turn(block) == entry
    assert dialect.spell_plain_wire(role, text) == entry.wire


# --- what is wrong with turns: most are looked at by a shorter way, too

BODIES = ("", " ", "hi", None, [], {}, [{"text": "hi"}], [{"type": "text", "text": "hi"}])
PARTS = {
    "text": ("hi", " ", ""),
    "id": ("a", "b", "no id!", 3),
    "name": ("look",),
    "input": ({},),
    "tool_use_id": ("a", "b", 3),
    "content": BODIES,
    "cache_control": ({"type": "ephemeral"},),
}
IDS = ("a", "b")
KINDS = ("text", "input_text", "tool_use", "tool_result", "image")
ROLES = ("user", "assistant", "assistant", "tool", "system", "nobody")
ITEMS = ("message", "function_call", "function_call_output", "reasoning")


TALKS = 2_000


class Speaker(random.Random):
    """Makes turns of a conversation as no client sends them."""

    def record(self, needed: JsonObject, optional: Mapping[str, Sequence[object]]) -> JsonObject:
        """What is needed, and some of the rest."""
        keys = [key for key in optional if self.random() < 0.5]
        return {**needed, **{key: copy.deepcopy(self.choice(optional[key])) for key in keys}}

    def content(self) -> object:
        if self.random() < 0.5:
            return self.choice(BODIES)
        count = self.randint(0, 2)
        return [self.record({"type": self.choice(KINDS)}, PARTS) for _ in range(count)]

    def turn(self) -> JsonObject:
        called = [{"id": self.choice(IDS)} for _ in range(self.randint(0, 2))]
        optional = {"content": [self.content()], "tool_calls": [called], "tool_call_id": IDS}
        return self.record({"role": self.choice(ROLES)}, optional)

    def item(self) -> JsonObject:
        if self.random() < 0.5:
            return self.turn()
        optional = {
            "role": ("user", "assistant", "nobody"),
            "content": [self.content()],
            "id": IDS,
            "call_id": IDS,
            "output": [self.content()],
        }
        return self.record({"type": self.choice(ITEMS)}, optional)


def read_anthropic(rules: AnthropicTurnRules, turn: JsonObject, at: str) -> list[Finding]:
    blank, rules._blank = rules._blank, ()
    return [*blank, *rules._judge(turn, at, turn.get("role"))]


def read_chat(rules: ChatTurnRules, turn: JsonObject, at: str) -> list[Finding]:
    rules._any = True
    return [*rules._judge(turn, at, turn.get("role"), turn.get("content"))]


def read_responses(rules: ResponsesTurnRules, turn: JsonObject, at: str) -> list[Finding]:
    rules._any = True
    return [*rules._judge(turn, str(turn.get("type") or "message"), at)]


def test_messages_are_refused_as_by_the_long_way() -> None:
    for seed in range(TALKS):
        chance = Speaker(seed)
        talk = [chance.turn() for _ in range(chance.randint(0, 6))]
        claude, slow_claude = (AnthropicTurnRules("claude-sonnet-4-5") for _ in range(2))
        chat, slow_chat = (ChatTurnRules("gpt-5") for _ in range(2))
        for at, turn in enumerate(talk):
            place = f"/messages/{at}"
            assert [*claude.read(turn, place)] == read_anthropic(slow_claude, turn, place), talk
            assert [*chat.read(turn, place)] == read_chat(slow_chat, turn, place), talk
            assert [*claude.fork().end({})] == [*slow_claude.fork().end({})], talk
            assert [*chat.fork().end({})] == [*slow_chat.fork().end({})], talk


def test_items_are_refused_as_by_the_long_way() -> None:
    for seed in range(TALKS):
        chance = Speaker(seed)
        talk = [chance.item() for _ in range(chance.randint(0, 6))]
        short, long = ResponsesTurnRules("gpt-5"), ResponsesTurnRules("gpt-5")
        for at, turn in enumerate(talk):
            place = f"/input/{at}"
            assert [*short.read(turn, place)] == read_responses(long, turn, place), talk
            assert [*short.fork().end({})] == [*long.fork().end({})], talk
