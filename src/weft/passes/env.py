"""The read-only inputs of a pass."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple, overload

import msgspec

from weft.declare import Policy, Tool
from weft.declare.policy_parts import Budget
from weft.diagnostics import Origin
from weft.ir import Item, Prompt, TextBlock, ToolDecl
from weft.session import Event, Session
from weft.session.strand import Strand
from weft.session.talk import MOST_LETTERS
from weft.values import Json, JsonObject, compact


class Sizes(msgspec.Struct, frozen=True):
    """The tokens of a prompt, and what it is made of, worked out when asked for.

    `split` gives what everything but the items takes, and what each item takes at most: any of
    them together take no more than that, as long as the user's last and the very last stay.
    `item` gives what any one item takes by itself.
    """

    total: int
    split: Callable[[], tuple[int, list[int]]]
    item: Callable[[Item], int]
    part: "Callable[[Sequence[int], int], SizePart] | None" = None
    """Like `split`, for the items at these indexes, and for all from an index on."""


class SizePart(NamedTuple):
    """What everything but the items takes, and what some of the items take at most.

    Thoughts before the item `asked` do not count.
    """

    fixed: int
    sizes: list[int]
    asked: int


def _letters(text: str) -> int:
    """The count where nobody gives another: four letters a token."""
    return -(-len(text) // 4)


def _unknown() -> int:
    return 0


def _no_cliffs() -> tuple[tuple[int, float], ...]:
    return ()


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass may know of the model that is asked."""

    name: str = ""
    dialect: str = ""
    window: int = 0
    """The most tokens it takes; 0 where nobody knows."""
    widest: Callable[[], int] = _unknown
    """Looks the window up in a list that takes a while to load."""
    cliffs: Callable[[], tuple[tuple[int, float], ...]] = _no_cliffs
    """Looks up from how many tokens on all of them cost how many times as much, in that list."""
    read: float = 0.10
    """What a token costs that the provider has read before, as a share of a fresh one."""
    write: float = 1.25
    """What a token costs that the provider is to keep, as a share of a fresh one."""
    minimum: int = 0
    """How many tokens a prefix must have for the provider to keep it."""
    lifetime: float = 0.0
    """For how many seconds the provider keeps what it has read; 0 where nobody knows."""
    marks: bool = False
    """Whether the provider keeps only what it is asked to, up to a mark."""
    finds_any: bool = True
    """Whether it finds any prefix again that it has read, and not only what ends at a mark."""
    picks_tools: bool = True
    """Whether it can be left to choose among tools."""
    calls_need_tools: bool = False
    """Whether its provider refuses calls in the conversation of a request without tools."""
    cleared: frozenset[str] = frozenset()
    """The labels that it may see."""
    binds: bool = False
    """Whether it refuses a thought of its own if something before it has changed."""
    forgives: bool = False
    """Whether its provider was asked to drop such a thought, and to go on."""


class TokenFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are counted, and how many there are."""

    count: Callable[[str], int] = _letters
    """The tokens of a text."""
    margin: float = 0.0
    """By which share a count may be too low."""
    measure: Callable[[Prompt], Sizes] | None = None
    """The tokens of a prompt; None for passes on new items."""
    budget: Budget | None = None
    """The agent's own budget, or a tighter one of this run."""


class InstructionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the instruction says already."""

    carried: Mapping[str, Json] = {}
    """The state values that the templates inserted and the conversation has too."""
    captured: frozenset[str] = frozenset()
    """The keys of those that hold what the user said."""
    inserted: Mapping[str, Json] = {}
    """All state values that the templates inserted."""
    changes: tuple[TextBlock, ...] = ()
    """What the instruction says differently by now."""


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The session as it is now."""

    id: str = ""
    state: Mapping[str, Json] = {}
    artifacts: Mapping[str, str] = {}
    """The newest text of each artifact."""
    effects: Mapping[str, JsonObject] = {}
    """What models were asked before, by fingerprint."""
    whole: Session | None = None
    """The whole session, of which the log may be the part that the agent is in."""


class ToolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the agent has."""

    own: Mapping[str, Tool] = {}
    recall: ToolDecl | None = None
    """The tool that gets back what handles stand for, where it is not offered anyway."""
    priced: bool = False
    """Whether prices decide when it is offered, and what becomes a digest."""
    recall_tokens: int = 0
    """The tokens of its declaration, roughly."""
    head: int = 0
    """The tokens of the other tools and of the instructions, roughly, as they are declared."""


class ThreadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was final before the items of a pass on new items."""

    before: Strand[Item] = msgspec.field(default_factory=Strand[Item])
    """The items that were final, as they are sent."""
    used_ids: AbstractSet[str] = frozenset()
    """The call ids in them."""
    opening: bool = True
    """Whether there are none."""


NO_MODEL, NO_TOKENS, NO_TOOLS = ModelFacts(), TokenFacts(), ToolFacts()
NO_INSTRUCTION, NO_SESSION, NO_THREAD = InstructionFacts(), SessionFacts(), ThreadFacts()


class Env(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked, where, under which policy, and what else a pass may look at.

    A pass on fresh items may look at nothing that changes: what it decides is final.
    """

    agent: str
    """The name of the agent that is asked."""
    policy: Policy = Policy()
    """What it sees, with conditions decided."""
    branch: str = ""
    """Where in a parallel flow it stands."""
    invocation: str = ""
    """The invocation that it is asked in."""
    turn: int = 0
    """The log index at which the current turn begins."""
    log: Strand[Event] = msgspec.field(default_factory=Strand[Event])
    """The events of the session."""
    session: SessionFacts = NO_SESSION
    """The session as it is now."""
    model: ModelFacts = NO_MODEL
    """The model that is asked."""
    tokens: TokenFacts = NO_TOKENS
    """How tokens are counted, and how many there are."""
    tools: ToolFacts = NO_TOOLS
    """The agent's tools."""
    instruction: InstructionFacts = NO_INSTRUCTION
    """What the instruction says already."""
    thread: ThreadFacts = NO_THREAD
    """What was final before, for passes on new items."""

    @property
    def now(self) -> float:
        """When the newest event happened: the only clock a pass has."""
        newest = self.log.tip
        return newest.timestamp if newest is not None else 0.0

    def is_asked(self, item: Item) -> bool:
        """Whether the user said this in the current turn: no pass may reduce it."""
        return item.kind == "user" and item.author == "user" and item.position >= self.turn

    def is_current(self, item: Item) -> bool:
        """Whether it is in view under every policy: what was asked, what the agent did since."""
        if item.position < self.turn:
            return False
        return item.author in ("user", self.agent) or item.kind == "summary"


def turn_numbers(items: Iterable[Item]) -> list[int]:
    """The turn each item is in, from 1; 0 is what stands before the user first spoke.

    What the user says again within one invocation does not begin a new turn.
    """
    numbers: list[int] = []
    number, current = 0, ""
    for item in items:
        asks = item.kind == "user" and item.author == "user"
        # a log from elsewhere may have no invocations: there every message begins a turn
        if asks and (not number or not item.invocation or item.invocation != current):
            number, current = number + 1, item.invocation
        numbers.append(number)
    return numbers


class TurnFold:
    """Where the turns of some items begin, in the order of the items."""

    def __init__(self, read: int = 0, last: str = "", starts: list[int] | None = None) -> None:
        self._read = read
        self._last = last
        self.starts = starts if starts is not None else []

    def take(self, items: Iterable[Item], *, spoken: bool) -> None:
        """Read more items; `spoken` says that a turn has begun before these."""
        for index, item in enumerate(items, self._read):
            self._read = index + 1
            if item.kind != "user" or item.author != "user":
                continue
            if not (spoken or self.starts) or not item.invocation or item.invocation != self._last:
                self.starts.append(index)
                self._last = item.invocation

    def read(self, items: Strand[Item]) -> None:
        """Read the settled items that were not read yet."""
        self.take(items.between(self._read, items.settled), spoken=False)

    def has_read(self, items: Strand[Item]) -> bool:
        """Whether it knows no more than these items."""
        return self._read <= items.settled

    def starts_in_tail(self, items: Sequence[Item]) -> list[int]:
        """Where turns begin in a tail."""
        tail = TurnFold(self._read, self._last)
        tail.take(items, spoken=bool(self.starts))
        return tail.starts


class TurnStarts(Sequence[int]):
    """At which item each turn begins: of the settled items, and of those after them."""

    __slots__ = ("_settled", "_tail")

    def __init__(self, settled: list[int], tail: list[int]) -> None:
        self._settled = settled
        self._tail = tail

    def __len__(self) -> int:
        return len(self._settled) + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [*self._settled, *self._tail][index]
        settled = len(self._settled)
        return self._settled[index] if index < settled else self._tail[index - settled]


def turns_of(items: Strand[Item]) -> TurnStarts:
    """At which item each turn begins, as `turn_numbers` counts them, the first being 0."""
    with items.lock:
        turns = items.memo[TurnFold]
        if not turns.has_read(items):  # an older snapshot
            turns = TurnFold()
        turns.read(items)
        return TurnStarts(turns.starts, turns.starts_in_tail(items.tail))


class _Positions:
    """The highest log position of all items up to each, and where one falls below it first."""

    def __init__(self) -> None:
        self.highest: list[int] = []
        self.falls: int | None = None

    def read(self, items: Strand[Item]) -> None:
        """Read the settled items that were not read yet."""
        top = self.highest[-1] if self.highest else -1
        for item in items.between(len(self.highest), items.settled):
            if item.position < top and self.falls is None:
                self.falls = len(self.highest)
            top = max(top, item.position)
            self.highest.append(top)


def text_in(item: Item) -> str:
    """The texts of an item, without what was called, thought or sent along."""
    return "\n".join(block.text for block in item.blocks if isinstance(block, TextBlock))


def is_spoken(item: Item) -> bool:
    """Whether the user said it."""
    return item.kind == "user" and item.author == "user"


def first_from(items: Strand[Item], position: int) -> int:
    """The index up to which all items stand before a log position; each item is read once."""
    with items.lock:
        positions = items.memo[_Positions]
        positions.read(items)
        return bisect_left(positions.highest, position, 0, items.settled)


class _AskedNow:
    """What the user said in the current turn, as far as settled items were read."""

    def __init__(self) -> None:
        self.turn = self.read = -1
        self.items: list[Item] = []


def asked_now(items: Strand[Item], env: Env) -> list[Item]:
    """What the user said in the current turn; items that were read before are not read again."""
    with items.lock:
        known = items.memo[_AskedNow]
        # another turn began, or this is an older snapshot
        if known.turn != env.turn or known.read > items.settled:
            known.turn, known.read, known.items = env.turn, first_from(items, env.turn), []
        fresh = items.between(known.read, items.settled)
        known.items += filter(env.is_asked, fresh)
        known.read = items.settled
        return [*known.items, *filter(env.is_asked, items.tail)]


def is_in_log_order(items: Strand[Item]) -> bool:
    """Whether items stand in the order of the log; those of branches that joined may not."""
    with items.lock:
        positions = items.memo[_Positions]
        positions.read(items)
        # what falls below it later does not concern an older snapshot
        if positions.falls is not None and positions.falls < items.settled:
            return False
        top = positions.highest[items.settled - 1] if items.settled else -1
    tail = [top, *(item.position for item in items.tail)]
    return all(one <= other for one, other in pairwise(tail))


OPENING = "(The conversation begins.)"


def opening_of(first: Item) -> Item:
    """The user's turn before an item that speaks as the model: providers want the user to begin."""
    origin = Origin("pass", "open_turn")
    return Item(
        kind="user",
        blocks=(TextBlock(role="user", origin=origin, text=OPENING),),
        author="",
        invocation=first.invocation,
        position=first.position,
        last=first.position,
        event="",
    )


def is_short(response: JsonObject) -> bool:
    """Whether a result is sent as it is under every policy."""
    # most results are one text: its length is known without spelling JSON
    if len(response) == 1:
        only = next(iter(response.values()))
        if isinstance(only, str):
            return len(only) <= MOST_LETTERS
    return len(compact(response)) <= MOST_LETTERS
