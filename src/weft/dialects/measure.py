"""Counting the tokens of a request as it is sent, whoever made it."""

import base64
import functools
import json
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

from weft.dialects.wire import as_json, as_list
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

_HEADER = 512 * 1024
"""How much of an image's base64 is decoded to find its size in."""


class TurnCost(msgspec.Struct, frozen=True):
    """What one turn takes: thoughts apart, since they may stop counting."""

    role: str
    tokens: int
    thoughts: int
    asks: bool
    counts: bool


class Mark(msgspec.Struct, frozen=True):
    """What a conversation takes up to some turn, thoughts that still count apart."""

    tokens: int = 0
    thoughts: int = 0
    role: str = ""

    @property
    def total(self) -> int:
        """All of it."""
        return self.tokens + self.thoughts


class HeadCost(msgspec.Struct, frozen=True):
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


Kind = Literal["text", "document", "thought", "call", "result", "media", "tool", "other"]


class Quantity(msgspec.Struct, frozen=True):
    """One thing with a size of its own, and where in its turn it stands.

    `text` is what to count; of media it is the base64 data, empty where only an address is
    sent; of a tool that is declared in mid-conversation it is the declaration as JSON. `name` is
    a call's name or a media type, `sealed` the length of a signature or of encrypted content.
    `uncounted` names what the provider adds here that nobody else can count. Several parts may
    stand at one place: a call and its signature, a result and its media.
    """

    pointer: str
    kind: Kind
    text: str
    name: str = ""
    sealed: int = 0
    uncounted: str = ""


class WeighedTool(NamedTuple):
    """A tool as the request declares it."""

    name: str
    description: str
    schema: JsonObject | None


class WeighedHead(msgspec.Struct, frozen=True):
    """Everything but the turns.

    `others` are the provider's own tools, as JSON, `own` the tokens of those whose size is known.
    `stateful` says that the request continues something only the provider holds, so that its
    bytes do not tell its size; `uncounted` names what else the provider adds that they do not
    tell.
    """

    system: tuple[str, ...] = ()
    tools: tuple[WeighedTool, ...] = ()
    others: tuple[str, ...] = ()
    schema: Json = None
    forced: bool = False
    later: bool = False
    """Whether functions are declared to be loaded later: these alone have the preamble, too."""
    thinking: bool = False
    adaptive: bool = False
    """Whether the model decides itself how long it thinks."""
    stateful: bool = False
    own: int = 0
    uncounted: tuple[str, ...] = ()


class WeighedTurn(msgspec.Struct, frozen=True):
    """One element of the request's turns.

    `asks` says whether the user speaks in it, rather than a tool, `counts` whether the provider
    makes a turn of it.
    """

    role: str
    parts: list[Quantity]
    asks: bool = False
    counts: bool = True


class Weigher(msgspec.Struct, frozen=True):
    """How a dialect's requests are taken apart to be counted, and what is a turn in them."""

    dialect: str
    turns: str
    head: Callable[[JsonObject], WeighedHead]
    turn: Callable[[Json], WeighedTurn]
    merges: bool = False
    """Whether neighbours of one role are one turn."""
    counts_system: bool = False
    """Whether the system text is a turn."""


class Meter:
    """Counts requests of one dialect as one model does; `overheads` are for trying others."""

    def __init__(self, weigher: Weigher, model: str, overheads: Overheads | None = None) -> None:
        self.weigher = weigher
        self.dialect = weigher.dialect
        self.model = model
        self.counter = counter_for(model)
        self.overheads = overheads or overheads_for(weigher.dialect, model)

    def request(self, wire: JsonObject) -> int:
        """The whole request."""
        turns = map(self.turn, as_list(wire.get(self.weigher.turns)))
        return self.head(self.weigher.head(wire)).total + self.follow(Mark(), turns).total

    def head(self, head: WeighedHead) -> HeadCost:
        """Everything but the turns."""
        over, count = self.overheads, self.counter.count
        once = over.tools_forced if head.forced else over.tools
        schema = 0
        if head.schema:
            schema = over.schema + round(over.schema_json * count(as_json(head.schema)))
        system = sum(over.text + _system_tokens(self.model, text) for text in head.system)
        if head.system and self.weigher.counts_system:
            system += over.turn
        return HeadCost(
            over.request,
            once if head.tools or head.later else 0,
            tuple(self.tool(tool) for tool in head.tools),
            sum(map(count, head.others)) + head.own,
            schema,
            (over.adaptive if head.adaptive else over.thinking) if head.thinking else 0,
            system,
        )

    def tool(self, tool: WeighedTool) -> int:
        """One tool declaration."""
        size = _tool_tokens(self.dialect, self.model, as_json(tool))
        return self.overheads.tool + round(self.overheads.tool_json * size)

    def turn(self, turn: Json) -> TurnCost:
        """One turn of a request."""
        return self.cost(self.weigher.turn(turn))

    def cost(self, read: WeighedTurn) -> TurnCost:
        """One turn that was taken apart already."""
        tokens = thoughts = calls = 0
        if any(part.kind == "tool" for part in read.parts):
            tokens = self.overheads.more_tools
        for part in read.parts:
            if part.kind == "thought":
                thoughts += self.part(part)
            else:
                tokens += self.part(part)
                calls += part.kind == "call"
        if calls > 1:
            tokens += self.overheads.parallel
        return TurnCost(read.role, tokens, thoughts, read.asks, read.counts)

    def step(self, mark: Mark, load: TurnCost) -> Mark:
        """The mark after one more turn."""
        tokens = mark.tokens + load.tokens
        if load.counts and not (self.weigher.merges and load.role == mark.role):
            tokens += self.overheads.turn
        # a provider may drop earlier thoughts once the user speaks again
        earlier = mark.thoughts if self.overheads.earlier_thoughts or not load.asks else 0
        return Mark(tokens, earlier + load.thoughts, load.role)

    def follow(self, mark: Mark, loads: Iterable[TurnCost]) -> Mark:
        """The mark after more turns."""
        return functools.reduce(self.step, loads, mark)

    def part(self, part: Quantity) -> int:
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
                return self.tool(WeighedTool(*json.loads(part.text)))
            case "media":
                return self._media(part).tokens

    def list_uncounted(self, wire: JsonObject) -> tuple[str, ...]:
        """What the provider adds to a request that nobody else can count, each thing once.

        With any of these, `request` is the least that the provider counts.
        """
        turns = map(self.weigher.turn, as_list(wire.get(self.weigher.turns)))
        return self.uncounted_in(self.weigher.head(wire), turns)

    def uncounted_in(self, head: WeighedHead, turns: Iterable[WeighedTurn]) -> tuple[str, ...]:
        """As `uncounted`, for a request that was taken apart already."""
        reasons = dict.fromkeys(head.uncounted)
        if head.stateful:
            reasons[STORED] = None
        for turn in turns:
            for part in turn.parts:
                reason = self._media(part).uncounted if part.kind == "media" else part.uncounted
                if reason:
                    reasons[reason] = None
        return tuple(reasons)

    def _media(self, part: Quantity) -> Media:
        kind, data = part.name.partition(";")[0].strip().lower(), part.text
        if kind.startswith("text/") and data:
            return Media(self.counter.count(_base64_bytes(data).decode("utf-8", "replace")))
        if kind.startswith("image/"):
            data = data[:_HEADER]
        return measure_media(self.dialect, self.model, kind, _base64_bytes(data))


@functools.lru_cache(maxsize=4096)
def _tool_tokens(dialect: str, model: str, tool: str) -> int:
    """A declaration given as JSON, so that one that comes back is not written out again."""
    try:
        text = tool_text(dialect, model, *json.loads(tool))
    except (TypeError, ValueError, RecursionError):  # no schema: counted as the JSON it is
        text = tool
    return counter_for(model).count(text)


@functools.lru_cache(maxsize=64)
def _system_tokens(model: str, text: str) -> int:
    """System texts are long and come back with every request."""
    return counter_for(model).count(text)


def _base64_bytes(data: str) -> bytes:
    try:
        # both alphabets are in use, and padding that is too long does no harm
        return base64.b64decode(data.translate({45: 43, 95: 47}) + "==")
    except ValueError:
        return b""


OWN_TOOLS = "what the provider's own tools add"

LATER = "tools that are loaded later"

SERVED = "what the provider's tools gave"

STORED = "what the provider holds of the conversation"


def url_quantity(pointer: str, url: str, fallback: str) -> Quantity:
    """Media in a data URL, or at an address that is not read."""
    if not url.startswith("data:"):
        return Quantity(pointer, "media", "", fallback)
    head, _, data = url.removeprefix("data:").partition(",")
    return Quantity(pointer, "media", data, head.partition(";")[0] or fallback)
