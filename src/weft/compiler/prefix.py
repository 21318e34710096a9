"""The prefix a request shares with the one before it, and who broke it.

Providers sell bytes they have seen at a tenth of the price, up to the first one that
differs. Requests are compared in the order providers read them: tools, system, turns.
"""

from typing import NamedTuple, cast

from weft.compiler.sourcemap import SourceMap
from weft.diagnostics import Origin
from weft.dialects import Entry, Lowered
from weft.dialects.caching import bare
from weft.dialects.track import Head
from weft.values import Json, Strand, compact


class Prefix(NamedTuple):
    """What a request shares with the previous one: tokens, bytes and whole turns.

    `text` is the system text that no variable or provider can change.
    """

    tokens: int
    bytes: int
    turns: int
    text: str


class PrefixBreak(NamedTuple):
    """Where a request first differs from the previous one, who did it, and what it costs."""

    pointer: str
    origin: Origin
    reason: str
    line: int
    lost_tokens: int

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        return (
            f"{self.pointer}{line}: {self.reason} ({self.origin});"
            f" {self.lost_tokens} tokens must be read again"
        )


class Shared(NamedTuple):
    """How far two requests agree."""

    tools: bool
    system: bool
    turns: int
    bytes: int
    broken: "tuple[str, Origin, str, int] | None"


def compare(before: Lowered, after: Lowered) -> Shared:
    """How far `after` repeats `before`, and the first place where it does not."""
    size = 0
    old_head, new_head = _head(before.head), _head(after.head)
    origins = SourceMap(after)
    for (pointer, old), (new_pointer, new) in zip(old_head, new_head, strict=False):
        common = _common(old, new)
        size += len(new[:common].encode(errors="surrogatepass"))
        if pointer != new_pointer or old != new:
            at = pointer == "tools"
            line = new.count("\n", 0, common) + 1
            where, offset = (_tools_pointer(after), 0) if at else _system_place(after, common)
            origin = origins.origin(where, offset)
            what = "the tools changed" if at else "the system text changed"
            return Shared(not at, False, 0, size, (where, origin, what, 0 if at else line))
    lasting = before.track.entries(before.final).with_tail(before.lasting)
    known = min(before.final, after.final) if before.track is after.track else 0
    size += _written(after.entries, known)
    new_turns = after.entries.since(known)
    for index, entry in enumerate(lasting.since(known), known):
        old_turn = entry.wire
        if index >= known + len(new_turns):
            where = f"/{before.turns}/{index + len(before.lead)}"
            origin = SourceMap(before).origin(where)
            return Shared(True, True, index, size, (where, origin, "a turn was taken back", 0))
        new_turn = new_turns[index - known].wire
        if old_turn is not new_turn and old_turn != new_turn:
            where = f"/{after.turns}/{index + len(after.lead)}"
            size += _common(compact(old_turn), compact(new_turn))
            pointer, origin, what = _blame(old_turn, new_turn, where, origins)
            return Shared(True, True, index, size, (pointer, origin, what, 0))
        size += _bytes(new_turn)
    return Shared(True, True, len(lasting), size, None)


def _written(entries: Strand[Entry], length: int) -> int:
    """The bytes of the first turns, which are final: the sums are kept with them."""
    with entries.lock:
        sums = cast("list[int]", entries.memo.setdefault("written", [0]))
        done = len(sums) - 1
        for entry in entries.since(done)[: max(0, length - done)]:
            sums.append(sums[-1] + _bytes(entry.wire))
        return sums[length]


def _bytes(turn: Json) -> int:
    return len(compact(turn).encode(errors="surrogatepass"))


def _blame(old: Json, new: Json, where: str, origins: SourceMap) -> tuple[str, Origin, str]:
    """The first part of a turn that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            held = old.get(key)
            if isinstance(held, list) and isinstance(value, list):
                for index, (one, other) in enumerate(zip(held, value, strict=False)):
                    if one != other:
                        place = f"{where}/{key}/{index}"
                        return place, origins.origin(place, 0), "this part changed"
                if len(value) > len(held):
                    place = f"{where}/{key}/{len(held)}"
                    return place, origins.origin(place, 0), "this turn was extended"
                if len(value) < len(held):
                    return where, origins.origin(where, 0), "this turn was shortened"
            elif held != value:
                place = f"{where}/{key}"
                return place, origins.origin(place, 0), "this turn changed"
    return where, origins.origin(where, 0), "this turn changed"


def _head(head: Head) -> tuple[tuple[str, str], ...]:
    """The tools and the system text as they are compared, kept with the head."""
    held = head.memo.get("compared")
    if held is None:
        listed = head.wire.get("tools")
        tools = compact([bare(tool) for tool in listed]) if isinstance(listed, list) else ""
        places = [p.source for p in head.placed if not isinstance(p.source, Origin)]
        text = "".join("\n\n".join(block.text for block in blocks) for blocks in places)
        held = head.memo["compared"] = (("tools", tools), ("system", text))
    return cast("tuple[tuple[str, str], ...]", held)


def _tools_pointer(lowered: Lowered) -> str:
    return "/tools" if "tools" in lowered.wire else ""


def _system_place(lowered: Lowered, at: int) -> tuple[str, int]:
    """Where the system text has its letter number `at`: the place, and the offset there."""
    where, offset = "", 0
    for place in lowered.placed:
        if not isinstance(place.source, Origin):
            size = len("\n\n".join(block.text for block in place.source))
            where, offset = place.pointer, min(at, max(0, size - 1))
            if at < size:
                break
            at -= size
    return where, offset


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with in common, by halving."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
