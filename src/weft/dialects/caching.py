"""Where a request asks its provider to keep what it has read.

Providers sell what they have read before at a tenth of its price or less. Some must be told
up to where: at the end of the tools, of the system text that never changes, and of the
conversation so far. Such marks are not part of what they compare, so they may move on from
one request to the next.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.diagnostics import Origin
from weft.dialects.facts import Cache, facts_for
from weft.dialects.measure import Meter
from weft.dialects.track import Entry, Placed, Track, Wire, letters
from weft.dialects.wire import drop_fields
from weft.ir import Block, Prompt, Stability, TextBlock
from weft.ir.block import FOLDED
from weft.values import Json, JsonObject, canonical, digest

MARK = "cache_control"
BREAKPOINT = "prompt_cache_breakpoint"
MARKS = (MARK, BREAKPOINT)
"""Fields that say where to keep, in the dialects that have them."""


LETTERS = 3
"""How few letters a token may have: a request of fewer than the minimum times this is too short."""

_UNMARKED = frozenset(("thinking", "redacted_thinking"))
"""Types of parts that take no mark."""

_BLANK = TextBlock(role="system", origin=Origin("dialect", "blank line"), text="")


def marker(prompt: Prompt, cache: Cache, wire: Wire) -> Wire:
    """The mark itself, with how long to keep what stands before it where somebody said so.

    Nothing may be kept longer than what stands before it, so a mark of the author's that is
    kept for less limits those after it.
    """
    mark: Wire = {"type": "ephemeral"}
    before = [_ttl(one, cache) for one in _marks(wire)]
    if prompt.cache in cache.ttls:
        order = cache.ttls.index
        mark["ttl"] = min((prompt.cache, *before), key=order)
    return mark


def mark_head(
    wire: Wire,
    placed: list[Placed],
    system: Sequence[TextBlock],
    prompt: Prompt,
    meter_for: Callable[[str], Meter],
) -> None:
    """Mark the end of the tools and of the system text that never changes.

    That text becomes a block of its own, so that what may change comes after the mark. Marks
    the author wrote count, and one is left for the end of the conversation.
    """
    cache = facts_for(prompt.model).cache
    # no cache is wanted, the provider needs no marks, or the author marks the whole request
    if not prompt.cache or not cache.lookback or MARK in wire:
        return
    tools, text = wire.get("tools"), wire.get("system")
    # a token has at least one letter: fewer letters need not be counted
    if letters(tools) + letters(text) < cache.minimum:
        return
    meter = meter_for(prompt.model)
    cost = meter.head(meter.weigher.head(wire))
    before = cost.total - cost.system - cost.schema - cost.thinking
    # the author's marks count, and one stays for the end of the conversation
    free = cache.breakpoints - 1 - marks_in(wire)
    mark = marker(prompt, cache, wire)
    stable: list[TextBlock] = []
    for block in system:
        # a block that may change ends what can be kept
        if block.stability is not Stability.STATIC:
            break
        stable.append(block)
    whole = "\n\n".join(block.text for block in stable)
    if stable and isinstance(text, str) and free > 0:
        size = before + meter.overheads.text + meter.counter.count(whole)
        if size >= cache.minimum:
            free -= 1
            _split_system(wire, placed, whole, system, len(stable), mark)
    if isinstance(tools, list) and tools and before >= cache.minimum and free > 0:
        last = tools[-1]
        if isinstance(last, dict) and MARK not in last:
            wire["tools"] = [*tools[:-1], {**last, MARK: mark}]


def _split_system(
    wire: Wire,
    placed: list[Placed],
    whole: str,
    system: Sequence[TextBlock],
    stable: int,
    mark: Wire,
) -> None:
    """The system text as a marked block that stays, and one that may change."""
    blocks: list[Json] = [{"type": "text", "text": whole, MARK: mark}]
    at = next(index for index, one in enumerate(placed) if one.pointer == "/system")
    places = [Placed("/system/0/text", tuple(system[:stable]))]
    if stable < len(system):
        changing = (_BLANK, *system[stable:])
        text = "\n\n".join(block.text for block in changing)
        blocks.append({"type": "text", "text": text})
        places.append(Placed("/system/1/text", changing))
    wire["system"] = blocks
    placed[at : at + 1] = places


def mark_end(
    prompt: Prompt,
    wire: Wire,
    key: str,
    lasting: Sequence[Entry],
    end: int,
    note: "PlaceOfNote | None" = None,
) -> Wire:
    """Mark the end of the conversation: the last turn that the next request will have again.

    `end` is where that turn stands, and `note` the last note on folded steps: the next fold changes
    what comes after it, so that is marked too. The provider looks back only a limited number of
    blocks for what the request before kept. Where the last answer and its results have more, the
    end of that request is marked too, so that it is found there. A request that is likely the last
    has that mark alone: what is new in it is not worth the price of keeping it.
    """
    cache = facts_for(prompt.model).cache
    free = cache.breakpoints - marks_in(wire)
    if not cache.lookback or free <= 0 or MARK in wire:
        return wire
    turns = wire[key]
    assert isinstance(turns, list)
    mark = marker(prompt, cache, wire)
    if prompt.keeps == "before":
        return _with_earlier_mark(wire, key, turns, end, mark)
    parts = lasting[-1].wire.get("content")
    marked = _mark_last_part(turns[end], len(parts) if isinstance(parts, list) else 0, mark)
    if marked is None:
        return wire
    turns[end] = marked  # the list is this request's own from its last turn on
    fresh = sum(_parts(turn) for turn in turns[end - 1 : end + 1])
    # the provider looks back only a limited number of blocks for what it kept
    if free > 1 and fresh >= cache.lookback:
        free -= 1
        wire = _with_earlier_mark(wire, key, turns, end, mark)
    return _with_note_mark(wire, key, note, mark) if free > 1 and note is not None else wire


class PlaceOfNote(NamedTuple):
    """The turn in which the last note on folded steps stands, and its part there."""

    turn: int
    part: int


def place_of_note(prompt: Prompt, track: Track, lasting: Sequence[Entry]) -> PlaceOfNote | None:
    """Where the last note stands; None where there is none.

    All before its end is the same in every later request, whatever is folded next.
    """
    note: Block | None = None
    for index in range(prompt.items.length):
        item = prompt.items[index]
        folded = bool(item.blocks) and item.blocks[0].origin == FOLDED
        note = item.blocks[0] if folded else note
        # notes follow what the conversation begins with
        if not folded and (note is not None or item.kind not in _OPENING or index > _MOST_OPENING):
            break
    if note is None:
        return None
    for turn, entry in enumerate((*track.final, *lasting)):
        for pointer, block in entry.blocks:
            if block is note:
                return PlaceOfNote(turn, int(pointer.split("/")[2]))
    return None


_OPENING = ("user", "state", "system", "summary")
"""The kinds of items that a conversation may begin with."""

_MOST_OPENING = 16


def _with_note_mark(wire: Wire, key: str, note: PlaceOfNote, mark: Wire) -> Wire:
    """The request with a mark at the end of its last note."""
    turns = wire[key]
    assert isinstance(turns, list)
    marked = _mark_last_part(turns[note.turn], note.part + 1, mark)
    if marked is None:
        return wire
    return {**wire, key: [*turns[: note.turn], marked, *turns[note.turn + 1 :]]}


def _with_earlier_mark(wire: Wire, key: str, turns: list[Json], end: int, mark: Wire) -> Wire:
    """The request with a mark where the one before it ended, if there was one."""
    earlier = _mark_last_part(turns[end - 2], _parts(turns[end - 2]), mark) if end >= 2 else None
    if earlier is None:
        return wire
    return {**wire, key: [*turns[: end - 2], earlier, *turns[end - 1 :]]}


def mark_item(wire: Wire, key: str, end: int) -> Wire:
    """Mark the last message that the next request will have again, in a list of items."""
    turns = wire[key]
    assert isinstance(turns, list)
    item = turns[end]
    parts = item.get("content") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(parts, list) or not parts:
        return wire
    last = parts[-1]
    if not isinstance(last, dict) or last.get("type") != "input_text":
        return wire
    turns = list(turns)
    turns[end] = {**item, "content": [*parts[:-1], {**last, BREAKPOINT: {"mode": "explicit"}}]}
    return {**wire, key: turns}


def name_prefix(wire: Wire, prompt: Prompt) -> None:
    """Name what all sessions of this agent have in common, and how long to keep it.

    Requests that share a long prefix reach the same machine by that name.
    """
    cache = facts_for(prompt.model).cache
    if not prompt.cache or not cache.keyed:
        return
    static = [block.text for block in prompt.system if block.stability is Stability.STATIC]
    shared = [wire.get("tools"), *static]
    if letters(shared) >= cache.minimum * LETTERS:
        # the author's own key stands
        wire.setdefault("prompt_cache_key", f"weft-{digest(canonical(shared))[:32]}")
    if prompt.cache in cache.ttls:
        wire.setdefault("prompt_cache_options", {"ttl": prompt.cache})


def keeps_unasked(wire: Wire, cache: Cache) -> bool:
    """Whether the provider keeps what it reads of a request that has no mark.

    Where marks are known at all, the newest models of OpenAI do, unless only marks are to count.
    """
    options = wire.get("prompt_cache_options")
    mode = options.get("mode") if isinstance(options, dict) else None
    return not cache.breakpoints or (cache.keyed and mode != "explicit")


def marks_in(wire: Wire) -> int:
    """How many marks the tools and the system text carry."""
    return len(_marks(wire))


def _marks(wire: Wire) -> list[Json]:
    """The marks of the tools and the system text."""
    marks: list[Json] = []
    for key in ("tools", "system"):
        listed = wire.get(key)
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and MARK in one:
                marks.append(one[MARK])
    return marks


def _ttl(mark: Json, cache: Cache) -> str:
    """How long a mark asks to keep things."""
    asked = mark.get("ttl") if isinstance(mark, dict) else None
    return str(asked) if asked in cache.ttls else cache.ttls[0]


def without_marks(turn: Json) -> Json:
    """A turn as it is compared: without marks."""
    if not isinstance(turn, dict):
        return turn
    parts = turn.get("content")
    if not isinstance(parts, list):
        return turn
    return {**turn, "content": [bare(part) for part in parts]}


def is_marked(part: JsonObject) -> bool:
    """Whether a part, or a tool, carries a mark."""
    return any(mark in part for mark in MARKS)


def bare(part: Json) -> Json:
    """A part, or a tool, without its mark."""
    if not isinstance(part, dict) or not is_marked(part):
        return part
    return drop_fields(part, *MARKS)


def _mark_last_part(turn: Json, upto: int, mark: Wire) -> JsonObject | None:
    """A copy of the turn with its last part before `upto` marked that takes a mark."""
    parts = turn.get("content") if isinstance(turn, dict) else None
    if not isinstance(turn, dict) or not isinstance(parts, list):
        return None
    for index in range(upto - 1, -1, -1):
        part = parts[index]
        if isinstance(part, dict) and part.get("type") not in _UNMARKED and part.get("text") != "":
            if MARK in part:
                return None
            return {
                **turn,
                "content": [*parts[:index], {**part, MARK: mark}, *parts[index + 1 :]],
            }
    return None


def _parts(turn: Json) -> int:
    parts = turn.get("content") if isinstance(turn, dict) else None
    return len(parts) if isinstance(parts, list) else 1
