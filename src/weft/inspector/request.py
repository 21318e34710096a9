"""One request as the inspector shows it.

Its text with an origin for every character, what the passes did to it, what was left out, and what
of it the provider had read before.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from weft.compiler.compiled import Compilation
from weft.compiler.costs import Rates, cost_of, rates_for
from weft.compiler.explain import SentTurns, explain, notes_of
from weft.compiler.mask import Mask
from weft.compiler.prefix import SourceMap
from weft.compiler.report import LeftOutRow, Report, SentRow, block_text
from weft.declare import Agent, Node
from weft.declare.tool import Tool
from weft.detect.redaction import TextCut, move_positions, replace_cuts
from weft.diagnostics import Origin
from weft.dialects.caching import MARKS
from weft.inspector.inspection import (
    CacheCount,
    Inspection,
    RequestText,
    find_difference,
    reported_usage,
)
from weft.ir import Item, Note
from weft.late import late_pattern
from weft.replay.steps import homes_of
from weft.values import Json, JsonObject

LONGEST = 20_000
"""Characters of a text before or after a pass that are shown."""


class RequestView:
    """The request of one step."""

    def __init__(
        self,
        inspection: Inspection,
        number: int,
        turns: SentTurns | None = None,
    ) -> None:
        self.inspection = inspection
        self.number = number
        self.request = inspection.request(number)
        self.mask = inspection.request_mask
        self._turns = turns

    @cached_property
    def report(self) -> Report:
        """Its report."""
        return explain(self.request, self._turns, self.inspection.shared.noted_rows(self.request))

    @cached_property
    def text(self) -> str:
        """The request as it is sent: compact JSON."""
        return self._text_in_parts.whole

    @property
    def _text_in_parts(self) -> RequestText:
        return self.inspection.shared.whole_text(self.request, self.request.dialect)

    @property
    def source_map(self) -> SourceMap:
        """Where each character came from."""
        return SourceMap(self.request.lowered(), self.inspection.shared.segments)

    def pieces(self) -> list[str]:
        """The text in pieces that other requests may have too: up to each turn's end."""
        spans = self.inspection.shared.spans(self.request, self.request.dialect)
        ends = [end for end, *_ in spans]
        bounds = [0, *ends, len(self.text)]
        return [self.text[start:end] for start, end in pairwise(bounds) if end > start]

    def to_json(self, *, raw: bool = True) -> JsonObject:
        """All that the page draws of one request; without `raw`, only its messages."""
        origins = Origins(self.inspection)
        pointers: dict[str, int] = {}
        traced = [*self.source_map.segments()] if raw else []
        cuts = self._cuts()
        segments: list[Json] = [
            [end, origins.number(one.origin), pointers.setdefault(one.pointer, len(pointers))]
            for one, end in zip(
                traced, move_positions([one.end for one in traced], cuts), strict=True
            )
        ]
        return {
            **self.facts(),
            "text": replace_cuts(self.text, cuts),
            "segments": segments,
            "pointers": [self.mask_text(one) for one in pointers],
            "rows": [row_json(row, origins, self.mask) for row in self.report.sent],
            "left_out": [self.describe_left_out(row, origins) for row in self.left_out()],
            "chains": self.chains(),
            "origins": self.describe_origins(origins),
        }

    def describe_origins(self, origins: "Origins", first: int = 0) -> list[Json]:
        """All origins, or those from one number on, as the page draws them."""
        fresh, mask = origins.since(first), self.mask
        sources = self._find_sources({_part_of(one) for one in fresh if one.kind == "event"})
        listed = (origins.describe(one, sources.get(_part_of(one), "")) for one in fresh)
        return [mask.answer(one) if mask is not None else one for one in listed]

    def _find_sources(self, wanted: set[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """In a recording: where parts of events come from, in words."""
        sources: dict[tuple[str, int], str] = {}
        recorded = self.inspection.exchange_by_number.get(self.number)
        # those that are new in a request stand at its end
        for block in reversed(recorded.blocks if recorded is not None else ()):
            if len(sources) == len(wanted):
                break
            place = block.event, block.part
            if place in wanted and place not in sources:
                sources[place] = str(block.source)
        return sources

    def mask_text(self, text: str) -> str:
        """A text about the request as it may be shown."""
        return self.mask.text(text) if self.mask is not None else text

    def _cuts(self) -> list[TextCut]:
        """What is cut out of the request's text for readers, and what stands there instead."""
        return [*self._cuts_near(self.request, 0, len(self.text))]

    def _cuts_near(self, request: Compilation, start: int, end: int) -> Iterator[TextCut]:
        """The cuts in the fields and turns that stand in a stretch of a request's text."""
        if self.mask is None:
            return
        for last, key, text, value in self.inspection.shared.spans(request, self.request.dialect):
            first = last - len(text)
            if last > start and first < end:
                for cut in self.mask.wire_cuts(text, value, (key,)):
                    yield TextCut(first + cut.start, first + cut.end, cut.placeholder)

    def facts(self) -> JsonObject:
        """What the page draws of a request in addition to its text, its rows and their origins."""
        facts = self._facts()
        return facts if self.mask is None else self.mask.fields(facts)

    def _facts(self) -> JsonObject:
        report = self.report
        return {
            "number": self.number,
            "agent": report.agent,
            "model": report.model,
            "dialect": report.dialect,
            "tokens": report.tokens,
            "exact": report.exact,
            "counter": report.counter,
            "hash": report.hash,
            "passes": [
                {
                    "name": row.name,
                    "when": row.when,
                    "dropped": row.dropped,
                    "changed": row.changed,
                    "added": row.added,
                    "moved": row.moved,
                    "before": row.before,
                    "after": row.after,
                    "remark": row.remark,
                }
                for row in report.passes
            ],
            "cost": report.cost.words,
            "diagnostics": [str(one) for one in report.diagnostics],
            "inferred": list[Json](report.inferred),
            "options": [
                {"name": row.name, "value": row.value, "origin": str(row.origin), "sent": row.sent}
                for row in report.options
            ],
        }

    def chains(self) -> JsonObject:
        """By event: each pass that changed or dropped what came from it, with both texts."""
        chains: dict[str, list[Json]] = {}
        for note in notes_of(self.request):
            chains.setdefault(self.name_event(note.before.event), []).append(self.link(note))
        return {event: list[Json](links) for event, links in chains.items() if event}

    def name_event(self, event: str) -> str:
        """The id of an event as it may be shown."""
        return self.mask.identity(event) if self.mask is not None and event else event

    def link(self, note: Note) -> JsonObject:
        """What one pass did to one item, with both texts."""
        presentable = self.request.presentable
        before = presentable(note.before) if presentable is not None else note.before
        after = note.after
        if after is not None and presentable is not None:
            after = presentable(after)
        return {
            "pass": note.step,
            "reason": self.mask_text(note.reason),
            "before": self._item_text(before),
            "after": self._item_text(after) if after is not None else None,
        }

    def _item_text(self, item: Item) -> str:
        return self.mask_text("\n".join(block_text(block) for block in item.blocks))[:LONGEST]

    def left_out(self) -> list[LeftOutRow]:
        """What was not sent as it stands in the log, the dearest first."""
        listed = [
            row
            for row in self.report.left_out
            # what is only said otherwise, such as who spoke, is not left out
            if row.action == "dropped" or (row.action == "changed" and row.before > row.after)
            # an event that says nothing cannot be missed
            if row.text or row.before > row.after
        ]
        return sorted(listed, key=lambda row: min(0, row.after - row.before))

    @cached_property
    def rates(self) -> Rates:
        """What tokens of this request cost."""
        return rates_for(self.request.prompt.model, tokens=self.request.tokens)

    def describe_left_out(self, row: LeftOutRow, origins: "Origins") -> JsonObject:
        """Something that was left out, with the price of putting it back, as the page draws it."""
        tokens = max(0, row.before - row.after)
        return {
            "pass": row.step,
            "action": row.action,
            "reason": self.mask_text(row.reason),
            "origin": origins.number(row.origin),
            "text": self.mask_text(row.text)[:LONGEST],
            "tokens": tokens,
            "price": tokens * self.rates.fresh,
            "money": self.rates.money,
        }

    def cache(self) -> JsonObject:
        """Against the request before: the first byte that differs, who wrote it, what it costs.

        `ages` says of each segment of the text in how many requests in a row it stands unchanged.
        """
        return {**self.cache_facts(), "ages": self._ages()}

    def cache_facts(self) -> JsonObject:
        """The same without the ages."""
        request, before = self.request, self.request.previous
        cost, prediction = cost_of(request), request.cached
        answer: JsonObject = {
            "number": self.number,
            "first": before is None,
            **CacheCount.of(request)._asdict(),
            "total": request.tokens,
            "reported": reported_usage(self.inspection.step(self.number).event),
            "exact": prediction.exact,
            "blame": prediction.blame,
            "cost": cost.total,
            "saved": cost.saved,
            "lost": cost.broken,
            "money": cost.rates.money,
        }
        if before is not None:
            old = self.inspection.shared.whole_text(before, request.dialect)
            new = self._text_in_parts
            difference = _compare_texts(old, new)
            broken, at = request.prefix_break, difference.new
            earlier, now = (
                self._words_around(before, old, difference.old),
                self._words_around(request, new, at),
            )
            answer |= {
                "before": earlier[0],
                "after": now[0],
                "lead": [earlier[1], now[1]],
                "at": at,
                "mark_moved": difference.mark_moved,
                "byte": new.count_bytes(at),
                "broken": str(broken) if broken is not None else "",
                "author": str(broken.origin) if broken is not None else "",
            }
        return answer if self.mask is None else self.mask.fields(answer)

    def _words_around(self, request: Compilation, text: RequestText, at: int) -> tuple[str, int]:
        """The text of a request around a place as it may be shown, and where the place is in it.

        No value is cut in two.
        """
        start, end = max(0, at - _NEAR), min(len(text), at + _NEAR)
        near = [
            cut
            for cut in self._cuts_near(request, start, end)
            if cut.start < end and cut.end > start
        ]
        # half a hidden value would not be recognised, and shown
        if near:
            start, end = min(start, near[0].start), max(end, near[-1].end)
        cuts = [TextCut(cut.start - start, cut.end - start, cut.placeholder) for cut in near]
        return replace_cuts(text.between(start, end), cuts), move_positions([at - start], cuts)[0]

    def _ages(self) -> list[Json]:
        """Stretches of the text with their ages: `[end, requests]`."""
        shared, dialect = self.inspection.shared, self.request.dialect
        age_of = self.ages()
        spans = [*shared.spans(self.request, dialect)]
        ends = move_positions([end for end, *_ in spans], self._cuts())
        ages = (age_of(key, text) for _, key, text, _ in spans)
        return [[end, age] for end, age in zip(ends, ages, strict=True)]

    def ages(self) -> Callable[[str, str], int]:
        """What says of a text in a field in how many requests in a row it stands unchanged."""
        shared, dialect = self.inspection.shared, self.request.dialect
        earlier = [shared.parts(request, dialect) for request in self._earlier()]

        def age_of(key: str, text: str) -> int:
            for age, parts in enumerate(earlier):
                if text not in parts.get(key, ()):
                    return age
            return len(earlier)

        return age_of

    def _earlier(self) -> list[Compilation]:
        """The requests of the same agent before this one, the latest first."""
        author = self.inspection.step(self.number).event.author
        earlier: list[Compilation] = []
        for step in reversed(self.inspection.steps[: self.number - 1]):
            if step.event.author == author:
                if step.request is None or len(earlier) == OLDEST:
                    break
                earlier.append(step.request)
        return earlier


_NEAR = 400
"""Characters before and after the first difference that are shown."""

OLDEST = 12
"""How many requests back the age of a stretch is looked for."""


class Origins:
    """The origins of a request, numbered, with where each is written."""

    def __init__(self, inspection: Inspection) -> None:
        self._numbers: dict[Origin, int] = {}
        self._inspection = inspection
        self._places = declarations_of(inspection)

    def number(self, origin: Origin) -> int:
        """The number of an origin."""
        return self._numbers.setdefault(origin, len(self._numbers))

    def since(self, first: int) -> list[Origin]:
        """The origins from one number on, in the order of their numbers."""
        return [*islice(self._numbers, first, None)]

    def describe(self, origin: Origin, source: str) -> Json:
        """An origin as the page draws it; `source` says where a recorded part comes from."""
        authors = self._inspection.authors
        return {
            "author": authors.get(origin.name, "") if origin.kind == "event" else "",
            "kind": origin.kind,
            "name": origin.name,
            "agent": origin.agent,
            "part": origin.part,
            "words": str(origin),
            "source": source,
            "place": self._places.of(origin),
        }


def _part_of(origin: Origin) -> tuple[str, int]:
    """The event and the part of it that an origin names."""
    return origin.name, max(0, origin.part)


def declarations_of(inspection: Inspection) -> "Declarations":
    """Where the session's program is written; the sources are read once."""
    known = inspection.shared.declarations
    if not isinstance(known, Declarations):
        known = inspection.shared.declarations = Declarations(inspection.root, inspection.files)
    return known


class Declarations:
    """Where agents and tools are written: file and line, found in the sources."""

    def __init__(self, root: Node, files: tuple[str, ...]) -> None:
        self._tools: dict[str, str] = {}
        sources = list(files)
        for agent in _agents(root):
            for tool in agent.tools:
                place = _function_place(tool)
                if place:
                    self._tools[tool.name] = place
                    sources.append(place.rpartition(":")[0])
        self._fields: dict[tuple[str, str], str] = {}
        for file in dict.fromkeys(sources):
            self._read_places(file)

    def of(self, origin: Origin) -> str:
        """`file:line` of an origin that is a declaration; empty where it is not known."""
        if origin.kind == "tool":
            return self._tools.get(origin.name, "")
        if origin.kind in ("field", "config"):
            whole = self._fields.get((origin.agent, ""), "")
            return self._fields.get((origin.agent, origin.name), whole)
        return ""

    def _read_places(self, file: str) -> None:
        try:
            places = _places_in(file, Path(file).stat().st_mtime_ns)
        except (OSError, SyntaxError, ValueError):
            return  # a source that cannot be read has no places to show
        for field, place in places.items():
            self._fields.setdefault(field, place)


@lru_cache(maxsize=64)
def _places_in(file: str, changed: int) -> dict[tuple[str, str], str]:
    """Where a source names something and its fields; it is read again once it was `changed`."""
    places: dict[tuple[str, str], str] = {}
    for call in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        if isinstance(call, ast.Call):
            named = [
                value
                for value in (
                    *call.args[:1],
                    *(word.value for word in call.keywords if word.arg == "name"),
                )
                if isinstance(value, ast.Constant) and isinstance(value.value, str)
            ]
            for value in named:
                name = str(value.value)
                places.setdefault((name, ""), f"{file}:{call.lineno}")
                for word in call.keywords:
                    if word.arg is not None:
                        places.setdefault((name, word.arg), f"{file}:{word.value.lineno}")
    return places


def _agents(root: Node) -> Iterator[Agent]:
    seen: set[int] = set()
    for home in homes_of(root).values():
        waiting: list[object] = [home]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, Agent):
                yield node
                waiting.extend(node.sub_agents)


def _function_place(tool: Tool) -> str:
    function = inspect.unwrap(tool.function) if tool.function is not None else None
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def row_json(row: SentRow, origins: Origins, mask: Mask | None = None) -> JsonObject:
    """A row of a request as the page draws it."""
    text, pointer, ends = row.text, row.pointer, [piece.end for piece in row.pieces]
    if mask is not None:
        pointer = mask.text(pointer)
        text, ends = mask.with_ends(text, ends)
    return {
        "source": row.source,
        "kind": row.kind,
        "role": row.role,
        "tokens": row.tokens,
        "origin": origins.number(row.origin),
        "stability": row.stability,
        "pointer": pointer,
        "text": text,
        "shared": row.shared,
        "history": row.history,
        "pieces": [
            [end, origins.number(piece.origin)] for end, piece in zip(ends, row.pieces, strict=True)
        ],
    }


class _TextDifference(NamedTuple):
    """Where two requests differ, in the text of each.

    A mark says only up to where the provider is to keep the request: it is not compared.
    """

    old: int
    new: int
    mark_moved: bool
    """Whether a mark stands elsewhere before that."""


_CACHE_MARK = late_pattern(rf',"(?:{"|".join(MARKS)})":(?:\{{[^{{}}]*\}}|null)')
"""A mark in compact JSON; within a text its quotes would be escaped."""


def _compare_texts(old: RequestText, new: RequestText) -> _TextDifference:
    """The first difference of two requests that is not a mark's."""
    at = old.differs_at(new)
    if not (old.is_marked or new.is_marked):
        return _TextDifference(at, at, mark_moved=False)
    texts = old.whole, new.whole
    marks = [[one.span() for one in _CACHE_MARK.finditer(text)] for text in texts]
    bare = find_difference(*(_CACHE_MARK.sub("", text) for text in texts))
    places = [_with_marks(bare, spans) for spans in marks]
    return _TextDifference(places[0], places[1], mark_moved=at < min(places))


def _with_marks(at: int, marks: Sequence[tuple[int, int]]) -> int:
    """A place in a text without its marks as one in the text."""
    for start, end in marks:
        if start > at:
            break
        at += end - start
    return at
