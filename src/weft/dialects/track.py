"""What was lowered, kept from one request to the next."""

from _thread import RLock  # as threading.RLock(), without a call in Python
from array import array
from collections.abc import Callable, Sequence
from operator import is_
from sys import getrefcount
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.dialects.schema_subset import Loss
from weft.errors import LoweringError
from weft.ir import (
    Block,
    CallBlock,
    Item,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
    pair_blocks,
)
from weft.session.strand import Memo, Strand
from weft.session.talk import PlainCall, Utterance
from weft.values import Json, JsonObject, canonical

if TYPE_CHECKING:
    import hashlib

    from weft.dialects.base import Dialect

Wire: TypeAlias = JsonObject


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One element of the request's turns, and which block each part of it came from.

    Where several blocks were joined to one text, `joined` has them with the offset each ends at.
    """

    wire: Wire
    role: str
    blocks: tuple[tuple[str, Block], ...]
    joined: tuple[tuple[int, Block], ...] = ()


class Placed(msgspec.Struct, frozen=True):
    """A place in the request and what stands there: blocks joined by a blank line, or an origin."""

    pointer: str
    source: "tuple[TextBlock, ...] | Origin"


_NO_ITEMS: Strand[Item] = Strand()
"""The items of a head, of which it has none; nobody adds to them."""


class Head:
    """Everything but the turns, the elements that stand before them, and what was said of it."""

    __slots__ = ("diagnostics", "first", "lead", "letters", "memo", "of", "placed", "wire")

    def __init__(
        self,
        of: Prompt,
        wire: Wire,
        placed: tuple[Placed, ...],
        lead: tuple[Entry, ...],
        diagnostics: tuple[Diagnostic, ...],
    ) -> None:
        # a head outlives the session it was first made in, so it does not hold the conversation
        self.of = msgspec.structs.replace(of, items=_NO_ITEMS, notes=(), diagnostics=())
        self.wire = wire
        self.placed = placed
        self.lead = lead
        self.first = [entry.wire for entry in lead]
        self.diagnostics = diagnostics
        self.letters = letters(wire) if of.cache else 0
        self.memo = Memo()
        """What was derived from this head, for all requests that have it."""

    def fits(self, prompt: Prompt) -> bool:
        """Whether this is the head of that prompt too."""
        of = self.of
        return (
            prompt.system == of.system
            and prompt.tools is of.tools
            and prompt.output is of.output
            and prompt.model == of.model
            and prompt.cache == of.cache
            and prompt.config_origins == of.config_origins
            and prompt.config == of.config
            and (not of.config or _alike(prompt.config, of.config))
        )


def _alike(one: JsonObject, other: JsonObject) -> bool:
    """Whether equal options are the same, in the same order: to Python, 1 and True are equal."""
    return list(one) == list(other) and all(map(is_, one.values(), other.values()))


class _HandedTurns:
    """A list of turns that a request was given: `lead` ones first, then `final` ones."""

    __slots__ = ("final", "lead", "length", "turns")

    def __init__(self, lead: int) -> None:
        self.turns: list[Wire] = []
        self.lead = lead
        self.final = 0
        self.length = 0

    def is_free(self, lead: int, wires: list[Wire]) -> bool:
        """Whether nobody refers to the list any more, and it begins and ends as it was given."""
        turns, final = self.turns, self.final
        # somebody still has the request, or has changed its list: it must not be grown
        if getrefcount(turns) > _ALONE or len(turns) != self.length or lead != self.lead:
            return False
        return turns[lead] is wires[0] and turns[lead + final - 1] is wires[final - 1]


def _count_alone() -> int:
    handed = _HandedTurns(0)
    turns = handed.turns
    return getrefcount(turns)


_ALONE = _count_alone()
"""What a list counts that only its `_HandedTurns` and the one who asks refer to."""


def letters(value: Json) -> int:
    """How many letters a value holds, names of fields left out."""
    count = 0
    pending = [value]
    for each in pending:  # it grows as it is read
        if type(each) is str:
            count += len(each)
        elif type(each) is dict:
            pending += each.values()
        elif type(each) is list:
            pending += each
        else:
            count += 1
    return count


LONG = 500
"""How many turns are a long session: fewer are copied for each request."""


_NEAR = 16
"""How many items a fork goes back at most."""


class Track:
    """Turns already lowered for the items that will not change any more.

    The last turn is kept apart: the next item may still be merged into it. `of` says whose
    items they are: the lock their snapshots share. The memo, which they share too, has the track,
    and would keep itself alive with it.
    """

    of: object = None
    head: Head | None = None
    items = 0
    lower_again: Callable[[], tuple[list[Entry], list[int]]] | None = None
    """What makes the entries of the first turns, and what items begin, where nobody has."""
    open: Entry | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    letters = 0
    hashed = 0
    _read = 0
    _hasher: "hashlib.blake2b | None" = None
    _entries: Strand[Entry] | None = None
    _handed: tuple[_HandedTurns, ...] = ()
    """The lists that requests were given, the last one first."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._final: list[Entry] = []
        self.wires: list[Wire] = []
        """The turns that are final, as they are sent."""
        self.begins: list[int] = []
        """The turn that each item begins; -1 where it continues the turn before."""
        self.memo = Memo()
        """What was found out about the final turns."""
        self.checked: dict[object, int] = {}
        """How many final turns were looked through, by what was looked for."""

    @staticmethod
    def late(items: int, wires: list[Wire]) -> "Track":
        """The turns of `items` items; `lower_again` says later where they came from."""
        track = Track()
        track.items, track.wires = items, wires
        return track

    @property
    def final(self) -> list[Entry]:
        """The turns that are final, with the blocks they came from."""
        if self.lower_again is not None:
            with self.lock:
                if self.lower_again is not None:
                    entries, begins = self.lower_again()
                    pairs = zip(entries, self.wires, strict=False)
                    # what was sent is what it is about: the turns themselves, not equal ones
                    self._final[:0] = [msgspec.structs.replace(e, wire=wire) for e, wire in pairs]
                    self.begins[:0] = begins
                    self.lower_again = None
        return self._final

    def fits(self, items: Strand[Item]) -> bool:
        """Whether its turns begin those of the items; a new one takes any."""
        if self.of is None:
            self.of = items.lock
        return self.of is items.lock and self.items <= items.settled

    def fork(self, length: int) -> "Track | None":
        """The turns of the first items alone; None where it cannot be told which these are.

        It goes back to an item before which a turn ends, a few items at most: the next item may
        have been merged into the turn of the last.
        """
        with self.lock:
            all_final = self.final
            last = min(length, len(self.begins) - 1)
            places = range(last, max(0, last - _NEAR), -1)
            upto = next((place for place in places if self.begins[place] > 0), 0)
            # which diagnostics belong to the first items is not known
            if self.diagnostics or not upto:
                return None
            final = self.begins[upto] - 1
            track = Track()
            track.items, track.head, track.open = upto, self.head, all_final[final]
            track._final, track.wires = all_final[:final], self.wires[:final]
            track.begins = self.begins[:upto]
            if self._entries is not None:
                track._entries = self._entries.fork(min(final, self._entries.settled))
            track.checked = {what: min(done, final) for what, done in self.checked.items()}
            return track

    def settle(
        self,
        items: int,
        ready: list[Entry],
        last: Entry | None,
        diagnostics: tuple[Diagnostic, ...],
    ) -> None:
        """Keep turns, the last one apart, and what was said of them."""
        self._final += ready
        self.wires += [entry.wire for entry in ready]
        self.open = last
        self.diagnostics += diagnostics
        self.items = items

    def entries(self, length: int) -> Strand[Entry]:
        """The first of the final turns, as a strand with which what is counted is kept."""
        with self.lock:
            known = self._entries
            if known is None:
                known = self._entries = Strand(self.final)
            elif known.settled < len(self.final):
                known = self._entries = known.extend(self.final[known.settled :])
            return known if known.length == length else known.first(length)

    def turns(self, first: list[Wire], rest: list[Entry]) -> list[Wire]:
        """All turns as one list: `first`, the final ones, `rest`.

        To copy a list costs what the session holds, and a step should cost what it adds. So in a
        long session a list that nobody refers to any more is grown, and given again.
        """
        wires = self.wires
        if len(wires) < LONG:
            turns = [*first, *wires]
            for entry in rest:
                turns.append(entry.wire)
            return turns
        handed = self._free(len(first))
        turns = handed.turns
        del turns[handed.lead + handed.final :]
        turns[: handed.lead] = first
        turns += wires[handed.final :] if handed.final else wires
        turns += [entry.wire for entry in rest]
        handed.final, handed.length = len(wires), len(turns)
        return turns

    def _free(self, lead: int) -> _HandedTurns:
        """A list to give; of two, as the request before is often at hand when the next is made."""
        self._handed = self._handed[::-1]
        for handed in self._handed:
            if handed.is_free(lead, self.wires):
                return handed
        self._handed = (_HandedTurns(lead), *self._handed[-1:])
        return self._handed[0]

    def has_letters(self, least: int) -> bool:
        """Whether the head and the final turns have `least` letters, counted only that far."""
        if self.head is not None:
            least -= self.head.letters
        while self.letters < least and self._read < len(self.wires):
            self.letters += letters(self.wires[self._read])
            self._read += 1
        return self.letters >= least

    def settled_hash(self) -> "tuple[int, hashlib.blake2b]":
        """How many turns are final, and a hash over them, continued each time."""
        if self._hasher is None:
            self._hasher = new_hash()
        for wire in self.wires[self.hashed :]:
            self._hasher.update(canonical(wire))
        self.hashed = len(self.wires)
        return self.hashed, self._hasher.copy()


class _EarlierHash:
    """A hash over the first final turns, for requests that are asked for after later ones."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.length = 0
        self.hasher = new_hash()


def earlier_hash(entries: Strand[Entry]) -> "tuple[int, hashlib.blake2b]":
    """How many turns are final, and a hash over them: it goes on from one request to a later."""
    earlier = entries.memo[_EarlierHash]
    with earlier.lock:
        if earlier.length > entries.settled:
            earlier.length, earlier.hasher = 0, new_hash()
        for entry in entries.between(earlier.length, entries.settled):
            earlier.hasher.update(canonical(entry.wire))
        earlier.length = entries.settled
        return earlier.length, earlier.hasher.copy()


def new_hash() -> "hashlib.blake2b":
    """The hash over a request, before its first turn."""
    import hashlib  # few requests are hashed

    return hashlib.blake2b(digest_size=16)


def track_of(items: Strand[Item], dialect: str, model: str, *, strict: bool = False) -> Track:
    """The turns lowered of a strand of items, kept with it; strict ones apart."""
    return items.memo[Track, dialect, model, strict]


def keep_track(track: Track, items: Strand[Item], dialect: str, model: str) -> None:
    """Keep turns that were lowered with the items they came from, for `track_of`."""
    track.of = items.lock
    items.memo.keep(track, dialect, model, False)


class Lowered(msgspec.Struct):
    """A request in one dialect, with what is needed to say where each piece came from."""

    dialect: str
    wire: Wire
    head: Head
    turns: str
    diagnostics: tuple[Diagnostic, ...]
    track: Track
    final: int
    rest: list[Entry]
    lasting: list[Entry]
    """The rest without what is said once, at the end: what the next request begins with."""
    all_entries: Strand[Entry] | None = None

    @property
    def lead(self) -> tuple[Entry, ...]:
        """The elements that stand before the turns."""
        return self.head.lead

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Where everything but the turns stands."""
        return self.head.placed

    @property
    def entries(self) -> Strand[Entry]:
        """The turns with the blocks they came from: the final ones, and then the rest."""
        if self.all_entries is None:
            self.all_entries = self.track.entries(self.final).with_tail(self.rest)
        return self.all_entries


class LoweringReport(msgspec.Struct, kw_only=True):
    """Collects what a lowering could not express; under strict it stops there."""

    dialect: str
    strict: bool
    model: str = ""
    stores: bool = False
    """Whether the provider stores the conversation, so that an id alone names a part of it."""
    own_ids: frozenset[str] = frozenset()
    """Ids of the calls at hand that the provider itself gave."""
    diagnostics: list[Diagnostic] = []
    legal_names: dict[str, str] = {}
    """Names of tools as the provider takes them, by what they are in the log."""
    last_id: tuple[str, str] = ("", "")
    """The id of a call in the log, and as the provider takes it: the last that was looked at."""

    def take(self) -> tuple[Diagnostic, ...]:
        """What was added since the last take."""
        if not self.diagnostics:
            return ()
        taken = tuple(self.diagnostics)
        self.diagnostics.clear()
        return taken

    def lose(self, code: str, origin: Origin, message: str, hint: str = "") -> None:
        """Report a loss, or refuse it under strict."""
        if self.strict:
            raise LoweringError(f"{message} [{code}]", where=str(origin), hint=hint)
        self.diagnostics.append(report(code, origin, message, hint))

    def add(
        self,
        code: str,
        origin: Origin,
        message: str,
        hint: str = "",
        *,
        severity: Severity | None = None,
    ) -> None:
        """Report something that loses nothing the author asked for."""
        self.diagnostics.append(report(code, origin, message, hint, severity=severity))

    def schema_losses(self, losses: Sequence[Loss], origin: Origin) -> None:
        """Report what a schema had to give up."""
        for loss in losses:
            message = (
                f"{self.dialect} cannot express `{loss.keyword}` at"
                f" {loss.pointer or 'the root'}: {loss.message}"
            )
            if loss.kind == "changed":
                self.add("WEFT701", origin, message, severity=Severity.INFO)
            else:
                hint = "validate it in the tool, or say it in the description"
                self.lose("WEFT701", origin, message, hint)

    def foreign_fields(self, blocks: Sequence[Block]) -> None:
        """Report, once a turn, that what another provider said besides its words is left out.

        Thoughts are told of by those who drop them. What comes with a result names its tool,
        which every provider knows from the call.
        """
        foreign = [
            block
            for block in blocks
            if block.kept
            and block.provider != self.dialect
            and not isinstance(block, ThoughtBlock | ResultBlock)
        ]
        names = dict.fromkeys(
            name for block in foreign for name in _meaningful_fields(block.kept or {})
        )
        if names:
            listed = ", ".join(f"`{name}`" for name in names)
            maker = foreign[0].provider or "an unknown provider"
            self.add(
                "WEFT704", foreign[0].origin, f"{listed} of {maker} cannot go to {self.dialect}"
            )


_BOOKKEEPING = frozenset(
    ("id", "type", "status", "message", "arguments", "said_in", "phase", "logprobs", "index",
     "namespace")
)  # fmt: skip
"""Fields that say nothing which anybody else could miss."""


def _meaningful_fields(fields: JsonObject) -> list[str]:
    return [
        name for name, value in fields.items() if name not in _BOOKKEEPING and not _is_empty(value)
    ]


def _is_empty(value: Json) -> bool:
    return value in (None, "", [], {}, {"type": "direct"})


LATER = Origin("event")
"""Where a turn came from whose items will be made when somebody asks."""


class HeardTurns(list[Wire | None]):
    """What readers of a log are sent alike, by position: the user's words, and a third one's.

    It is kept with the log, so that an agent shares with the next one what both hear.
    """


class TurnsOnly:
    """Lowers plain talk as it comes, and keeps its turns alone.

    What says where each turn came from is made again from the items when somebody asks for it.
    """

    def __init__(self, dialect: "Dialect", model: str, heard: HeardTurns) -> None:
        self._dialect = dialect
        self._merges = dialect.traits.merges_turns
        self._model = model
        self._report = self._new_report()
        self._heard = heard
        self.starts = array("I")
        """Where in the log each item begins; whoever asks for a turn notes it after that."""
        self.opens = ""
        """Who speaks first."""
        self._wires: list[Wire] = []
        self._side = ""
        """Whose the last turn is."""
        self._count = 0
        """How many items stand before the last that begins a turn."""
        self._turn = 0
        """The turn that it begins."""

    @property
    def is_reported(self) -> bool:
        """Whether something is to be said about one of the turns."""
        return bool(self._report.diagnostics)

    def say(self, role: Literal["user", "model"], text: str) -> None:
        """Add an item that is one text of the reader's own."""
        if text.isspace():  # some providers refuse it
            block = TextBlock(role=role, origin=LATER, text=text)
            turns = [entry.wire for entry in self._dialect.item_turns((block,), self._report)]
            self._extend(role, turns, begins=True)
        else:
            self._put(role, self._dialect.spell_plain_wire(role, text))

    def ask(self, position: int, text: str) -> None:
        """Add an item that is one text of the user's."""
        if text.isspace():
            self.say("user", text)
            return
        wire = self._heard[position]
        if wire is None:
            wire = self._heard[position] = self._dialect.spell_plain_wire("user", text)
        self._put("user", wire)

    def tell(
        self, position: int, one: Utterance, in_words: Callable[[Utterance], Sequence[str]]
    ) -> bool:
        """Add an item of another agent's; False where there is nothing to tell."""
        wire = self._heard[position]
        if wire is None:
            texts = in_words(one)
            if not texts:
                return False
            wire = self._heard[position] = self._dialect.spell_told_wire(texts)
        self._put("user", wire)
        return True

    def exchange(self, calls: Sequence[PlainCall]) -> None:
        """Add an item of the reader's calls and their results."""
        call_blocks: list[CallBlock] = []
        result_blocks: list[ResultBlock] = []
        for call in calls:
            call_block, result_block = pair_blocks(call, LATER, LATER)
            call_blocks.append(call_block)
            result_blocks.append(result_block)
        asked, answered = self._dialect.exchange(call_blocks, result_blocks, self._report)
        self.opens = self.opens or "model"
        if self._merges:
            self._extend("user", answered, begins=self._extend("model", asked, begins=True))
        else:
            self._turn, self._count = len(self._wires), len(self.starts)
            self._wires += asked
            self._wires += answered

    def _put(self, role: Literal["user", "model"], wire: Wire) -> None:
        """Add the one turn of an item, as nearly every item has."""
        if self._merges and role == self._side:
            self._merge(wire)
        else:
            wires = self._wires
            self._turn, self._count, self._side = len(wires), len(self.starts), role
            self.opens = self.opens or role
            wires.append(wire)

    def _extend(
        self, side: Literal["user", "model"], turns: Sequence[Wire], *, begins: bool
    ) -> bool:
        """Add turns, the first of an item if it `begins`; whether the item is still to begin.

        As `Dialect.extend` does it: turns of one side are merged.
        """
        wires = self._wires
        for turn in turns:
            if self._merges and side == self._side:
                self._merge(turn)
            else:
                if begins:
                    self._turn, self._count = len(wires), len(self.starts)
                wires.append(turn)
                self.opens = self.opens or side
                self._side = side
            begins = False
        return begins

    def _merge(self, turn: Wire) -> None:
        """Append the parts of a turn to the last one, which others may have as it is."""
        last, key = self._wires[-1], self._dialect.traits.parts
        before, more = last[key], turn[key]
        assert isinstance(before, list)
        assert isinstance(more, list)
        # a list that is extended has room for more than it holds
        self._wires[-1] = {**last, key: before + more}

    def settled(self) -> Track | None:
        """The turns that are final; None where there are none yet."""
        if not self._turn:
            return None
        del self._wires[self._turn :]
        return Track.late(self._count, self._wires)

    def keep_with(self, items: Strand[Item], track: Track) -> None:
        """Keep the turns with the items that they came from."""
        count = self._count

        def lower_again() -> tuple[list[Entry], list[int]]:
            begins: list[int] = []
            ready, last = self._dialect.extend(
                None, items.between(0, count), self._new_report(), begins=begins
            )
            return (ready if last is None else [*ready, last]), begins

        track.lower_again = lower_again
        keep_track(track, items, self._dialect.traits.name, self._model)

    def _new_report(self) -> LoweringReport:
        return LoweringReport(dialect=self._dialect.traits.name, strict=False, model=self._model)
