"""Quantities to tokens, for one model: parts, turns, the head, and the sum of a conversation.

Every part is rounded by itself, so a conversation's count is the sum of its turns' and grows
with them: one more turn is one more step from the mark before it.
"""

import base64
import functools
import json
from collections.abc import Iterable
from typing import NamedTuple

from weft.dialects.measure import anthropic, gemini, openai
from weft.dialects.measure.quantities import HELD, Declared, Head, Part, Reader, list_of, said
from weft.errors import UsageError
from weft.tokens import (
    Media,
    Overheads,
    counter_for,
    measure_media,
    overheads_for,
    thought_tokens,
    tool_text,
)
from weft.values import Json, JsonObject

READERS: dict[str, Reader] = {
    "gemini": gemini.READER,
    "anthropic": anthropic.READER,
    "openai-chat": openai.CHAT,
    "openai-responses": openai.RESPONSES,
}

_HEADER = 512 * 1024
"""How much of an image's base64 is decoded to find its size in."""


class Load(NamedTuple):
    """What one turn takes: thoughts apart, since they may stop counting."""

    role: str
    tokens: int
    thoughts: int
    asks: bool
    counts: bool


class Mark(NamedTuple):
    """What a conversation takes up to some turn, thoughts that still count apart."""

    tokens: int = 0
    thoughts: int = 0
    role: str = ""

    @property
    def total(self) -> int:
        """All of it."""
        return self.tokens + self.thoughts


class HeadCost(NamedTuple):
    """What everything but the turns takes, `tools` one by one."""

    request: int
    preamble: int
    tools: tuple[int, ...]
    others: int
    schema: int
    thinking: int
    system: int

    @property
    def total(self) -> int:
        """All of it."""
        once = self.request + self.preamble + self.others + self.schema + self.thinking
        return once + sum(self.tools) + self.system


class Meter:
    """Counts requests of one dialect as one model does; `overheads` are for trying others."""

    def __init__(self, dialect: str, model: str, overheads: Overheads | None = None) -> None:
        self.dialect = dialect
        self.model = model
        self.reader = reader_for(dialect)
        self.counter = counter_for(model)
        self.overheads = overheads if overheads is not None else overheads_for(dialect, model)

    def request(self, wire: JsonObject) -> int:
        """The whole request."""
        turns = map(self.turn, list_of(wire.get(self.reader.turns)))
        return self.head(self.reader.head(wire)).total + self.follow(Mark(), turns).total

    def head(self, head: Head) -> HeadCost:
        """Everything but the turns."""
        over, count = self.overheads, self.counter.count
        once = over.tools_forced if head.forced else over.tools
        schema = 0
        if head.schema:
            schema = over.schema + round(over.schema_json * count(said(head.schema)))
        system = sum(over.text + _kept_count(self.model, text) for text in head.system)
        if head.system and self.reader.system_counts:
            system += over.turn
        return HeadCost(
            over.request,
            once if head.tools else 0,
            tuple(self.tool(tool) for tool in head.tools),
            sum(map(count, head.others)) + head.own,
            schema,
            over.thinking if head.thinking else 0,
            system,
        )

    def tool(self, tool: Declared) -> int:
        """One tool declaration."""
        size = _tool_size(self.dialect, self.model, said(tool))
        return self.overheads.tool + round(self.overheads.tool_json * size)

    def turn(self, turn: Json) -> Load:
        """One turn of a request."""
        read = self.reader.turn(turn)
        tokens = thoughts = calls = 0
        for part in read.parts:
            if part.kind == "thought":
                thoughts += self.part(part)
            else:
                tokens += self.part(part)
                calls += part.kind == "call"
        if calls > 1:
            tokens += self.overheads.parallel
        return Load(read.role, tokens, thoughts, read.asks, read.counts)

    def step(self, mark: Mark, load: Load) -> Mark:
        """The mark after one more turn."""
        tokens = mark.tokens + load.tokens
        if load.counts and not (self.reader.merges and load.role == mark.role):
            tokens += self.overheads.turn
        kept = mark.thoughts if self.overheads.earlier_thoughts or not load.asks else 0
        return Mark(tokens, kept + load.thoughts, load.role)

    def follow(self, mark: Mark, loads: Iterable[Load]) -> Mark:
        """The mark after more turns."""
        return functools.reduce(self.step, loads, mark)

    def part(self, part: Part) -> int:
        """One part, with what the provider adds to it."""
        over, count = self.overheads, self.counter.count
        match part.kind:
            case "text" | "other":
                return over.text + count(part.text)
            case "document":
                return over.text + over.document + count(part.text)
            case "thought":
                return thought_tokens(over, count(part.text), part.sealed)
            case "call":
                return over.call + round(over.args_json * (count(part.name) + count(part.text)))
            case "result":
                return over.result + round(over.result_json * count(part.text))
            case "tool":
                return self.tool(Declared(*json.loads(part.text)))
            case "media":
                return self._media(part).tokens

    def uncounted(self, wire: JsonObject) -> tuple[str, ...]:
        """What the provider adds to a request that nobody else can count, each thing once.

        With any of these, `request` is the least that the provider counts.
        """
        head = self.reader.head(wire)
        found = dict.fromkeys(head.uncounted)
        if head.stateful:
            found[HELD] = None
        for turn in list_of(wire.get(self.reader.turns)):
            for part in self.reader.turn(turn).parts:
                told = self._media(part).uncounted if part.kind == "media" else part.uncounted
                if told:
                    found[told] = None
        return tuple(found)

    def _media(self, part: Part) -> Media:
        kind, data = part.name.partition(";")[0].strip().lower(), part.text
        if kind.startswith("text/") and data:
            return Media(self.counter.count(_decoded(data).decode("utf-8", "replace")))
        if kind.startswith("image/"):
            data = data[:_HEADER]
        return measure_media(self.dialect, self.model, kind, _decoded(data))


@functools.lru_cache(maxsize=256)
def meter_for(dialect: str, model: str) -> Meter:
    """The meter of a model."""
    return Meter(dialect, model)


def reader_for(dialect: str) -> Reader:
    """How requests of that dialect are read."""
    found = READERS.get(dialect)
    if found is None:
        known = ", ".join(READERS)
        raise UsageError(f"`{dialect}` is not a dialect", where="dialect", hint=f"known: {known}")
    return found


@functools.lru_cache(maxsize=4096)
def _tool_size(dialect: str, model: str, tool: str) -> int:
    """A declaration given as JSON, so that one that comes back is not written out again."""
    try:
        text = tool_text(dialect, model, *json.loads(tool))
    except (TypeError, ValueError, RecursionError):  # no schema: counted as the JSON it is
        text = tool
    return counter_for(model).count(text)


@functools.lru_cache(maxsize=64)
def _kept_count(model: str, text: str) -> int:
    """System texts are long and come back with every request."""
    return counter_for(model).count(text)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data.translate({45: 43, 95: 47}) + "==")
    except ValueError:
        return b""
