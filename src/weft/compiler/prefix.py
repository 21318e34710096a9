"""The prefix a request shares with the one before it, and who broke it.

Providers sell bytes they have seen at a tenth of the price, up to the first one that
differs. Requests are compared in the order providers read them: tools, system, turns.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.compiler.plan import plan_for
from weft.compiler.tools import DEFAULT
from weft.declare import Agent
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.dialects import Entry, Lowered, dialect_named
from weft.dialects.caching import bare
from weft.dialects.legality import Finding, findings_in, judged_head
from weft.dialects.track import Head
from weft.dialects.wire import escape
from weft.errors import LoweringError, UsageError
from weft.ir import Block, Prompt, Span, TextBlock
from weft.session.strand import Strand
from weft.values import Json, compact


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


class SharedPrefix(msgspec.Struct, frozen=True):
    """How far two requests agree."""

    tools: bool
    system: bool
    turns: int
    bytes: int
    broken: "tuple[str, Origin, str, int] | None"


def compare(before: Lowered, after: Lowered) -> SharedPrefix:
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
            what = _changed_tools(before.head, after.head) if at else "the system text changed"
            return SharedPrefix(not at, False, 0, size, (where, origin, what, 0 if at else line))
    lasting = before.track.entries(before.final).with_tail(before.lasting)
    # final turns of one track are the same objects: they need not be compared
    known = min(before.final, after.final) if before.track is after.track else 0
    size += _count_bytes(after.entries, known)
    new_turns = after.entries.since(known)
    for index, entry in enumerate(lasting.since(known), known):
        old_turn = entry.wire
        if index >= known + len(new_turns):
            where = f"/{before.turns}/{index + len(before.lead)}"
            origin = SourceMap(before).origin(where)
            return SharedPrefix(
                True, True, index, size, (where, origin, "a turn was taken back", 0)
            )
        new_turn = new_turns[index - known].wire
        # most turns are the very same object
        if old_turn is not new_turn and old_turn != new_turn:
            where = f"/{after.turns}/{index + len(after.lead)}"
            size += _common(compact(old_turn), compact(new_turn))
            pointer, origin, what = _blame(old_turn, new_turn, where, origins)
            return SharedPrefix(True, True, index, size, (pointer, origin, what, 0))
        size += _bytes(new_turn)
    return SharedPrefix(True, True, len(lasting), size, None)


def _count_bytes(entries: Strand[Entry], length: int) -> int:
    """The bytes of the first turns, which are final: the sums are kept with them."""
    with entries.lock:
        sums = entries.memo[_TurnBytes].sums
        done = len(sums) - 1
        for entry in entries.since(done)[: max(0, length - done)]:
            sums.append(sums[-1] + _bytes(entry.wire))
        return sums[length]


class _TurnBytes:
    """How many bytes come before each turn that is final, and after the last."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        self.sums = [0]


def _bytes(turn: Json) -> int:
    return len(compact(turn).encode(errors="surrogatepass"))


class Segment(NamedTuple):
    """A stretch of the request's compact JSON text, and where it came from."""

    start: int
    end: int
    pointer: str
    origin: Origin


TurnSegments = dict[tuple[int, int, str], tuple[Entry, Json, list[Segment]]]
"""The segments of turns that requests of a session share, by the turn and its place."""


class SourceMap:
    """Answers where each piece of one lowered request came from.

    Whoever asks for the segments of many requests of a session passes `known`: turns that they
    share are walked once.
    """

    def __init__(self, lowered: Lowered, known: TurnSegments | None = None) -> None:
        self._lowered = lowered
        self._known = known
        self._dialect = Origin("dialect", lowered.dialect)

    def origin(self, pointer: str, offset: int = 0) -> Origin:
        """Where the value at the pointer came from, at this offset if it is a string."""
        value = _value_at(self._lowered.wire, pointer)
        if not isinstance(value, str):
            return self._pieces(pointer, "")[0].origin
        if not 0 <= offset <= len(value):
            raise UsageError(
                f"offset {offset} is outside the {len(value)} characters at {pointer}",
                where="origin",
                hint="offsets count characters from 0",
            )
        pieces = self._pieces(pointer, value)
        return next((piece.origin for piece in pieces if offset < piece.end), pieces[-1].origin)

    def segments(self) -> Iterator[Segment]:
        """The whole request as compact JSON, stretch by stretch, without a gap."""
        yield from self._walk(self._lowered.wire, "", 0)

    def stretches(self, first: int = 0, at: int = 0) -> Iterator[list[Segment]]:
        """The same segments in lists: what stands before the turns, each turn, and the rest.

        Whoever has those before turn `first`, which begins at `at`, gets those from there on.
        """
        wire, turns, here = self._lowered.wire, self._lowered.turns, self.origin("")
        stretch: list[Segment] = []
        is_skipped = first > 0
        if not is_skipped:
            stretch.append(Segment(0, 1, "", here))
            at = 1
        for index, (key, value) in enumerate(wire.items()):
            place, lead = f"/{escape(key)}", len(compact(key)) + (2 if index else 1)
            if key == turns and isinstance(value, list):
                above = self.origin(place)
                if not is_skipped:
                    stretch.append(Segment(at, at + lead, "", here))
                    stretch.append(Segment(at + lead, at + lead + 1, place, above))
                    at += lead + 1
                    yield stretch
                for number in range(first, len(value)):
                    turn = [Segment(at, at + 1, place, above)] if number else []
                    turn += self._turn(value[number], f"{place}/{number}", at + len(turn))
                    at = turn[-1].end
                    yield turn
                stretch = [Segment(at, at + 1, place, above)]
                is_skipped, at = False, at + 1
            elif not is_skipped:
                stretch.append(Segment(at, at + lead, "", here))
                stretch += self._walk(value, place, at + lead)
                at = stretch[-1].end
        yield [*stretch, Segment(at, at + 1, "", here)]

    def _pieces(self, pointer: str, text: str) -> Sequence[Span]:
        """The stretches of the text at the pointer; of anything else, the one it is."""
        block = self._block(pointer)
        if block is None:
            return self._head_pieces(pointer, text)
        if isinstance(block, TextBlock) and block.spans and len(text) == block.spans[-1].end:
            return block.spans
        return (Span(len(text), block.origin),)

    def _block(self, pointer: str) -> Block | None:
        """The block a place of a turn came from: the one it is in, or the first one below it."""
        steps = _steps(pointer)
        if len(steps) < 2 or steps[0] != self._lowered.turns:
            return None
        index = int(steps[1]) - len(self._lowered.lead)
        if index < 0:
            return None
        entry = self._lowered.entries[index]
        rest = "/".join(["", *steps[2:]])
        inside = [
            (len(suffix), block)
            for suffix, block in entry.blocks
            if rest == suffix or rest.startswith(suffix + "/")
        ]
        if inside:
            return max(inside, key=lambda candidate: candidate[0])[1]
        below = [block for suffix, block in entry.blocks if suffix.startswith(rest + "/")]
        return below[0] if below else None

    def _head_pieces(self, pointer: str, text: str) -> Sequence[Span]:
        best: Origin | tuple[TextBlock, ...] | None = None
        longest = -1
        for placed in self._lowered.placed:
            at = placed.pointer
            near = pointer == at or pointer.startswith(at + "/") or at.startswith(pointer + "/")
            if near and len(at) > longest:
                best, longest = placed.source, len(at)
        if best is None or pointer == "":
            return (Span(len(text), self._dialect),)
        if isinstance(best, Origin):
            return (Span(len(text), best),)
        return _system_pieces(best) if text else (Span(0, best[0].origin),)

    def _walk(self, value: Json, pointer: str, at: int) -> Iterator[Segment]:
        """Segments of a value's compact JSON, beginning at `at`."""
        if isinstance(value, dict):
            labelled = [
                (f"{compact(key)}:", f"{pointer}/{escape(key)}", child)
                for key, child in value.items()
            ]
            yield from self._walk_children(labelled, pointer, at)
        elif isinstance(value, list):
            indexed = [("", f"{pointer}/{index}", child) for index, child in enumerate(value)]
            yield from self._walk_children(indexed, pointer, at)
        elif isinstance(value, str):
            start = 0
            at += 1
            for piece in self._pieces(pointer, value):
                if piece.end == start and value:
                    continue  # an empty stretch has no letter, and not the opening quote either
                size = len(compact(value[start : piece.end])) - 2
                opening, closing = start == 0, piece.end == len(value)
                yield Segment(at - opening, at + size + closing, pointer, piece.origin)
                at, start = at + size, piece.end
        else:
            yield Segment(at, at + len(compact(value)), pointer, self.origin(pointer))

    def _walk_children(
        self, children: list[tuple[str, str, Json]], pointer: str, at: int
    ) -> Iterator[Segment]:
        here = self.origin(pointer)
        is_turns = self._known is not None and pointer == f"/{self._lowered.turns}"
        yield Segment(at, at + 1, pointer, here)
        at += 1
        for index, (label, below, child) in enumerate(children):
            lead = len(label) + (1 if index else 0)
            if lead:
                yield Segment(at, at + lead, pointer, here)
                at += lead
            for segment in (
                self._turn(child, below, at) if is_turns else self._walk(child, below, at)
            ):
                yield segment
                at = segment.end
        yield Segment(at, at + 1, pointer, here)

    def _turn(self, value: Json, pointer: str, at: int) -> Iterator[Segment]:
        """Segments of a turn, which other requests may have at the same place."""
        known, index = self._known, int(pointer.rpartition("/")[2]) - len(self._lowered.lead)
        if known is None or index < 0:
            yield from self._walk(value, pointer, at)
            return
        entry = self._lowered.entries[index]
        # a turn may go with a mark of the cache in one request, and without it in the next;
        # both are kept with their segments, so that their ids cannot be used again
        key = (id(entry), id(value), pointer)
        walked = known.get(key)
        if walked is None:
            walked = known[key] = (entry, value, [*self._walk(value, pointer, 0)])
        for start, end, place, origin in walked[2]:
            yield Segment(start + at, end + at, place, origin)


def _blame(old: Json, new: Json, where: str, origins: SourceMap) -> tuple[str, Origin, str]:
    """The first part of a turn that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            old_part = old.get(key)
            if isinstance(old_part, list) and isinstance(value, list):
                for index, (one, other) in enumerate(zip(old_part, value, strict=False)):
                    if one != other:
                        place = f"{where}/{key}/{index}"
                        return place, origins.origin(place, 0), "this part changed"
                if len(value) > len(old_part):
                    place = f"{where}/{key}/{len(old_part)}"
                    return place, origins.origin(place, 0), "this turn was extended"
                if len(value) < len(old_part):
                    return where, origins.origin(where, 0), "this turn was shortened"
            elif old_part != value:
                place = f"{where}/{key}"
                return place, origins.origin(place, 0), "this turn changed"
    return where, origins.origin(where, 0), "this turn changed"


class _ComparedHead(NamedTuple):
    """The parts of a head as texts, each with its name."""

    tools: tuple[str, str]
    system: tuple[str, str]


def _head(head: Head) -> _ComparedHead:
    """The tools and the system text as they are compared, kept with the head."""
    compared = head.memo.of(_ComparedHead)
    if compared is None:
        listed = head.wire.get("tools")
        tools = compact([bare(tool) for tool in listed]) if isinstance(listed, list) else ""
        places = [p.source for p in head.placed if not isinstance(p.source, Origin)]
        text = "".join("\n\n".join(block.text for block in blocks) for blocks in places)
        compared = head.memo.keep(_ComparedHead(("tools", tools), ("system", text)))
    return compared


def _changed_tools(before: Head, after: Head) -> str:
    """That the tools changed; and how, where it is the listing of a server that did."""
    old = {tool.name: tool for tool in before.of.tools}
    new = {tool.name: tool for tool in after.of.tools}
    changes: list[str] = []
    for name, tool in (old | new).items():
        if not tool.source or (name in old and name in new and old[name] == new[name]):
            continue
        verb = "changed" if name in old and name in new else "removed" if name in old else "added"
        changes.append(f"the listing of `{tool.source}` {verb} `{name}`")
    more = f", and {len(changes) - 3} more" if len(changes) > 3 else ""
    return ": ".join(("the tools changed", *([", ".join(changes[:3]) + more] if changes else ())))


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


_GAP = len("\n\n")

_BLANK = Origin("dialect", "blank line")


def _system_pieces(blocks: tuple[TextBlock, ...]) -> list[Span]:
    """The stretches of the system text: each block's own, with a blank line between two."""
    pieces: list[Span] = []
    base = 0
    for index, block in enumerate(blocks):
        if index:
            base += _GAP
            pieces.append(Span(base, _BLANK))
        spans = block.spans or (Span(len(block.text), block.origin),)
        pieces += [Span(base + span.end, span.origin) for span in spans]
        base += len(block.text)
    return pieces


def _steps(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise UsageError(
            f"`{pointer}` is not a JSON pointer",
            where="origin",
            hint='write "/messages/0/content"',
        )
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _value_at(wire: Json, pointer: str) -> Json:
    value = wire
    for step in _steps(pointer):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise UsageError(
                f"the request has nothing at `{pointer}`",
                where="origin",
                hint="look at Compilation.wire for what is there",
            )
    return value


def refused(lowered: Lowered, model: str) -> tuple[Diagnostic, ...]:
    """One diagnostic for each place that would be answered with a 400."""
    return placed_findings(findings_in(lowered, model), lowered)


def refused_declaration(agent: Agent) -> tuple[Diagnostic, ...]:
    """What would be refused of what an agent declares, whatever is said to it.

    A tool that its provider does not run counts too: it would be left out.
    """
    plan = plan_for(agent, None, DEFAULT)
    model, dialect = plan.target.model, plan.target.dialect
    prompt = Prompt(
        model,
        agent.name,
        tools=plan.tools,
        config=plan.config,
        config_origins=plan.origins,
        output=plan.output,
    )
    target = dialect_named(dialect)
    lowered = target.lower(prompt)
    findings = judged_head(target, lowered, model).findings
    unavailable = tuple(one for one in lowered.diagnostics if one.code == "WEFT709")
    return (*unavailable, *placed_findings(findings, lowered))


def require_accepted(lowered: Lowered, model: str, allow: Iterable[str]) -> None:
    """Refuse, under strict, what the provider would refuse."""
    for diagnostic in refused(lowered, model):
        if diagnostic.severity is not Severity.INFO and diagnostic.code not in allow:
            raise LoweringError(
                f"{diagnostic.message} [{diagnostic.code}]",
                where=str(diagnostic.origin),
                hint=diagnostic.hint or "",
            )


def placed_findings(findings: Sequence[Finding], lowered: Lowered) -> tuple[Diagnostic, ...]:
    """The findings as diagnostics, each with what its place in the request came from."""
    if not findings:
        return ()
    places, agent = SourceMap(lowered), lowered.head.of.agent
    return tuple(
        report(each.code, _origin(places, each.pointer, agent), each.message, each.hint)
        for each in findings
    )


def _origin(places: SourceMap, pointer: str, agent: str) -> Origin:
    """Where the place came from; for something that is missing, where it would stand."""
    if pointer == "/model":  # of some dialects it is in the address
        return Origin("field", "model", agent)
    while True:
        try:
            return places.origin(pointer)
        except UsageError:
            pointer = pointer.rpartition("/")[0]
