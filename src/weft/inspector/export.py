"""The inspector as one HTML file that needs nothing else."""

import base64
import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib.resources import files
from itertools import islice, pairwise
from typing import NamedTuple
from zlib import crc32

import msgspec

from weft.collector import collector_paused
from weft.compiler.explain import SentTurns, notes_of
from weft.compiler.prefix import Segment
from weft.compiler.report import LeftOutRow, SentRow
from weft.detect.redaction import TextCut, move_positions, replace_cuts
from weft.inspector import questions
from weft.inspector.answer import LARGEST_MEDIA, describe_answer, read_media
from weft.inspector.diagnosis import diagnose, find_saving
from weft.inspector.inspection import Inspection
from weft.inspector.request import OLDEST, Origins, RequestView, row_json
from weft.inspector.trust import describe_trust
from weft.inspector.words import parts_of
from weft.ir import Note
from weft.values import Json, JsonObject, compact

PAGE = files("weft.inspector") / "page"
"""The page's own files; they are served as they are."""

STYLE = "inspector.css"
LIBRARY = "vendor/htm-preact.js"
SCRIPTS = (
    "common.js",
    "text.js",
    "answer.js",
    "film.js",
    "request.js",
    "views.js",
    "talk.js",
    "inspector.js",
)
"""Each uses only those before it, so that in one file they stand one after the other."""

LARGEST = 24_000_000
"""Characters of requests that one file carries; the newest are kept where there are more."""


_FEW_STEPS = 60
"""Up to how many calls a file says what `C.auto()` would save: it means to compile them all."""

REOPEN = "weft inspect pkg.module:object --store sqlite:///weft.db"
"""The default command for asking more of a session than its file holds."""


def export(
    inspection: Inspection,
    *,
    key: str,
    largest: int = LARGEST,
    command: str = REOPEN,
    raw: bool = False,
) -> str:
    """The whole session as a page: film, requests, caches, checks. It asks no server."""
    return "".join(export_parts(inspection, key=key, largest=largest, command=command, raw=raw))


def export_parts(
    inspection: Inspection,
    *,
    key: str,
    largest: int = LARGEST,
    command: str = REOPEN,
    raw: bool = False,
) -> Iterator[str]:
    """The page in parts, to be written one by one.

    A file may reach anybody. What any agent of the session redacts or withholds is
    replaced in all of it; `raw` keeps all that is stored. The file says which of the two it is.

    `command` opens the session again, for what only its program can answer: the page names it.
    """
    inspection = inspection.for_file(raw=raw)
    mask = inspection.mask
    key = mask.text(key) if mask is not None else key
    data: dict[str, str] = {}
    quoted = _query(session=key)

    def encode_masked(answer: JsonObject) -> str:
        return _encode_for_script(mask.fields(answer) if mask is not None else answer)

    film = inspection.film()
    film |= {"command": command, "file": _kind_of_file(inspection, raw=raw)}
    data[f"diagnosis?{quoted}"] = _encode_for_script(diagnose(inspection))
    if len(inspection.steps) <= _FEW_STEPS:
        data[f"saving?{quoted}"] = _encode_for_script(find_saving(inspection))
    data[f"ghosts?{quoted}"] = _encode_for_script(inspection.ghosts())
    data[f"dead-weight?{quoted}"] = encode_masked(questions.dead_weight(inspection))
    data[f"trust?{quoted}"] = encode_masked(describe_trust(inspection))
    data[f"receipt?{quoted}"] = encode_masked(inspection.receipt().to_json())
    data[f"picture?{quoted}"] = encode_masked(questions.picture(inspection))
    pieces = Pieces()
    packed: list[_PackedStep] = []
    before: dict[str, _DrawnRequest] = {}
    with collector_paused():  # all that is drawn stays until the file is written
        for step in inspection.steps:  # in their order: each costs what is new in it
            if step.request is None:
                before.pop(step.event.author, None)
                continue
            known = before.get(step.event.author)
            drawing = _DrawnRequest(inspection, step.number, pieces, known)
            before[step.event.author] = drawing
            packed.append(drawing.pack())
    size = 0
    for number, one in enumerate(reversed(packed)):
        if size > largest:
            omitted = len(packed) - number
            film["notice"] = (
                f"This file holds the newest requests: with the first {omitted} it would have more"
                f" than {largest // 1_000_000} MB. Open the session with `weft inspect` to see"
                " them."
            )
            break
        where = _query(session=key, step=str(one.number))
        answer = _encode_for_script(describe_answer(inspection, one.number))
        data[f"answer?{where}"] = answer
        data[f"request?{where}"], data[f"cache?{where}"] = one.request, one.cache
        size += len(one.request) + len(one.cache) + len(answer) + pieces.use(one)
    if mask is None:  # nobody can look through a picture for what is to be hidden
        data |= _encode_media(inspection, key, largest - size)
    data[f"film?{quoted}"] = encode_masked(film)
    yield from _inline_files(data, pieces, key)


def _encode_media(inspection: Inspection, key: str, room: int) -> dict[str, str]:
    """The pictures, sounds and documents of the log, the newest first, as far as there is room."""
    data: dict[str, str] = {}
    for event in reversed(inspection.session.events):
        for place, part in enumerate(parts_of(event)):
            media = part.inline_data
            if media is None or not media.data or not len(media.data) <= min(room, LARGEST_MEDIA):
                continue
            room -= len(media.data)
            where = _query(session=key, event=event.id, part=str(place))
            data[f"media?{where}"] = _encode_for_script(read_media(inspection, event.id, place))
    return data


def _kind_of_file(inspection: Inspection, *, raw: bool) -> JsonObject:
    """What a reader has to know of the file: whether it is redacted, and by which rules."""
    rules = inspection.rules
    return {"redacted": bool(rules) and not raw, "rules": list[Json](rules.words)}


class _PackedStep(NamedTuple):
    """The answers about one step, and the numbers of the pieces that stand for their parts."""

    number: int
    request: str
    cache: str
    texts: Sequence[int]
    parts: Sequence[int]


class Pieces:
    """What requests have in common, each piece once: they have its number.

    A list is cut where an item's own letters say so, so that the pieces of a list that has grown,
    or lost its beginning, are those that are there already.
    """

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        self.links: dict[int, tuple[Note, JsonObject, set[int]]] = {}
        """What each note did, as it is shown, and the numbers of its texts."""
        self._used_texts: set[int] = set()
        self._used_parts: set[int] = set()

    def text(self, text: str) -> int:
        """The number of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def part(self, items: Sequence[Json]) -> int:
        """The number of a part of a list."""
        return self._parts.setdefault(_encode_for_script(items), len(self._parts))

    def use(self, step: _PackedStep) -> int:
        """Note that a step is in the file; how many letters it adds to the pieces."""
        texts = set(step.texts) - self._used_texts
        parts = set(step.parts) - self._used_parts
        self._used_texts |= texts
        self._used_parts |= parts
        return sum(map(len, map(self._all_texts.__getitem__, texts))) + sum(
            map(len, map(self._all_parts.__getitem__, parts))
        )

    @cached_property
    def _all_texts(self) -> list[str]:
        return [*self._texts]

    @cached_property
    def _all_parts(self) -> list[str]:
        return [*self._parts]

    def encode_texts(self) -> Iterator[str]:
        """All texts in the order of their numbers; of those nobody has, nothing."""
        for number, text in enumerate(self._all_texts):
            yield _encode_for_script(text) if number in self._used_texts else '""'

    def encode_parts(self) -> Iterator[str]:
        """The same of all parts."""
        for number, part in enumerate(self._all_parts):
            yield part if number in self._used_parts else "[]"


class _PackedList:
    """A list in pieces; one that begins as another does takes its pieces from that."""

    def __init__(
        self,
        pieces: Pieces,
        items: Sequence[Json],
        before: "_PackedList | None" = None,
        same: int = 0,
    ) -> None:
        """`items` follow the first `same` ones of the list before."""
        self.items: list[Json] = [*before.items[:same], *items] if before is not None else [*items]
        whole = bisect_right(before._ends, same) if before is not None else 0
        self._ends: list[int] = before._ends[:whole] if before is not None else []
        self.numbers: list[int] = before.numbers[:whole] if before is not None else []
        start = self._ends[-1] if whole else 0
        for index in range(start + 1, len(self.items) + 1):
            if _ends_piece(self.items[index - 1]) or index - start >= 3 * _PART:
                self.numbers.append(pieces.part(self.items[start:index]))
                self._ends.append(index)
                start = index
        if start < len(self.items):
            self.numbers.append(pieces.part(self.items[start:]))


class _DrawnRequest:
    """A request as the page draws it, in pieces.

    Requests of an agent begin alike. What one shares with the request `before` it is taken from
    that: to draw it costs what is new in it. Both number their origins and pointers alike, so that
    of what they share also the numbers are the same.
    """

    _sent: SentTurns
    _origins: Origins
    _places: dict[str, int]
    _ages: list[list[int]]
    _segments: _PackedList
    _pointers: _PackedList
    _texts: _PackedList
    _packed_ages: _PackedList
    _packed_origins: _PackedList
    _rows_of_turns: _PackedList
    _texts_of_turns: list[int]
    _missing: dict[tuple[int, tuple[float, bool]], tuple[LeftOutRow, Json]]
    _left_out: _PackedList
    _entries: list[tuple[str, list[Json]]]
    _chains: _PackedList

    def __init__(
        self, inspection: Inspection, number: int, pieces: Pieces, before: "_DrawnRequest | None"
    ) -> None:
        request = inspection.request(number)
        self._inspection, self._request, self._pieces = inspection, request, pieces
        lowered = request.lowered()
        wire, self._key = lowered.wire, lowered.turns
        turns = wire[self._key]
        # a request to Responses may have one text in the place of turns
        self._turns: list[Json] = turns if isinstance(turns, list) else [turns]
        fields = list(wire)
        self._head = [(name, compact(wire[name])) for name in fields[: fields.index(self._key)]]
        self._common = 0 if before is None else self._same_turns(before)
        if before is None or not self._common:
            before, self._common = None, 0
        lead = len(lowered.lead)
        known = before._sent if before is not None else None
        self._sent = SentTurns(request, known, max(0, self._common - lead))
        self._view = RequestView(inspection, number, self._sent)
        self._draw_segments(before)
        self._draw_texts(before)
        self._draw_rows(before)
        self._draw_chains(before)

    def _same_turns(self, before: "_DrawnRequest") -> int:
        """How many turns both requests begin with, after the same head."""
        if self._head != before._head or self._key != before._key:
            return 0
        both = zip(self._turns, before._turns, strict=False)
        least = min(len(self._turns), len(before._turns))
        return next((at for at, (new, old) in enumerate(both) if new is not old), least)

    def _draw_segments(self, before: "_DrawnRequest | None") -> None:
        """The text in stretches, each with the number of its origin and of its pointer."""
        same = before._marks[self._common] if before is not None else 0
        at = before._starts[self._common] if before is not None else 0
        self._marks: list[int] = before._marks[: self._common] if before is not None else []
        """How many segments there are before each turn."""
        self._starts: list[int] = before._starts[: self._common] if before is not None else []
        """Where each turn begins in the text."""
        self._origins = before._origins if before is not None else Origins(self._inspection)
        self._places = places = before._places if before is not None else {}
        fresh: list[Json] = []
        stretches = self._view.source_map.stretches(self._common, at)
        for index, stretch in enumerate(stretches, self._common if before is not None else -1):
            if index >= 0:
                self._marks.append(same + len(fresh))
                self._starts.append(stretch[0].start)
            lengths = self._lengths(index, stretch)
            for length, (_, _, pointer, origin) in zip(lengths, stretch, strict=True):
                place = places.setdefault(pointer, len(places))
                fresh.append([length, self._origins.number(origin), place])
        known = before._segments if before is not None else None
        self._segments = _PackedList(self._pieces, fresh, known, same)
        known = before._pointers if before is not None else None
        same = len(known.items) if known is not None else 0
        new: list[Json] = [self._view.mask_text(one) for one in islice(places, same, None)]
        self._pointers = _PackedList(self._pieces, new, known, same)

    def _lengths(self, index: int, stretch: Sequence[Segment]) -> list[int]:
        """How long the segments of the head, of a turn, or of the rest are as they are shown."""
        first = stretch[0].start
        ends = [one.end - first for one in stretch]
        if self._view.mask is not None:
            if 0 <= index < len(self._turns):
                lead = 1 if index else 0  # the comma
                fields = [(lead, self._key, self._turns[index])]
            else:
                fields = self._fields(after_turns=index >= 0)
            ends = move_positions(ends, [cut for one in fields for cut in self._cuts_of(*one)])
        return [end - start for start, end in pairwise([0, *ends])]

    def _fields(self, *, after_turns: bool) -> list[tuple[int, str, Json]]:
        """The fields before the turns, or after them, each with where its value begins there."""
        fields: list[tuple[int, str, Json]] = []
        at, is_after = 1, False
        for index, (name, value) in enumerate(self._request.wire.items()):
            if name == self._key:
                at, is_after = 1, True
                continue
            at += len(compact(name)) + (2 if index else 1)
            if is_after == after_turns:
                fields.append((at, name, value))
            at += len(compact(value))
        return fields

    def _cuts_of(self, at: int, name: str, value: Json) -> Iterator[TextCut]:
        """What is cut out of a field or a turn, which begins at `at`."""
        if self._view.mask is not None:
            text = self._inspection.shared.text(value)
            for cut in self._view.mask.wire_cuts(text, value, (name,)):
                yield TextCut(at + cut.start, at + cut.end, cut.placeholder)

    def _draw_texts(self, before: "_DrawnRequest | None") -> None:
        """The text field by field and turn by turn, each with its age."""
        shared, pieces = self._inspection.shared, self._pieces
        texts: list[Json] = []
        ages: list[list[int]] = []
        first = len(self._head)
        same = 0
        if before is not None:
            same = first + self._common
            ages = [
                [size, min(age + 1, OLDEST)]  # the request before has it too
                for size, age in before._ages[:same]
            ]
        age_of = self._view.ages()
        opening = "{"
        for index, (name, value) in enumerate(self._request.wire.items()):
            label = f"{',' if index else ''}{compact(name)}:"
            if name != self._key:
                if index >= first or not same:
                    text = compact(value)
                    whole = f"{opening}{label}{self._mask_text(text, name, value)}"
                    texts.append(pieces.text(whole))
                    ages.append([len(whole), age_of(name, text)])
                opening = ""
                continue
            opening = f"{opening}{label}["
            for number in range(self._common, len(self._turns)):
                text = shared.text(self._turns[number])
                masked = self._mask_text(text, name, self._turns[number])
                whole = f"{',' if number else opening}{masked}"
                texts.append(pieces.text(whole))
                ages.append([len(whole), age_of(name, text)])
            opening = "]" if self._turns else f"{opening}]"
        texts.append(pieces.text(f"{opening}}}"))
        known = before._texts if before is not None else None
        self._texts = _PackedList(pieces, texts, known, same)
        self._ages = ages
        old = before._ages if before is not None else []
        both, least = zip(ages, old, strict=False), min(len(ages), len(old))
        alike = next((at for at, (new, past) in enumerate(both) if new != past), least)
        known = before._packed_ages if before is not None else None
        self._packed_ages = _PackedList(pieces, [[*one] for one in ages[alike:]], known, alike)

    def _mask_text(self, text: str, name: str, value: Json) -> str:
        """A field or a turn as it is shown."""
        return replace_cuts(text, [*self._cuts_of(0, name, value)])

    def _draw_rows(self, before: "_DrawnRequest | None") -> None:
        """The rows: those of the turns grow, those around them are written again."""
        rows, turns = self._view.report.sent, len(self._sent.rows)
        first = next(
            (at for at, row in enumerate(rows) if turns and row is self._sent.rows[0]), len(rows)
        )
        same = self._sent.same if before is not None else 0
        before_turns = self._rows(rows[:first])
        fresh = self._rows(rows[first + same : first + turns])
        known = before._rows_of_turns if before is not None else None
        self._rows_of_turns = _PackedList(self._pieces, fresh, known, same)
        after_turns = self._rows(rows[first + turns :])
        self._row_numbers = [
            *_PackedList(self._pieces, before_turns).numbers,
            *self._rows_of_turns.numbers,
            *_PackedList(self._pieces, after_turns).numbers,
        ]
        texts = before._texts_of_turns[:same] if before is not None else []
        self._texts_of_turns = [*texts, *map(_text_in, fresh)]
        self._row_texts = [
            *map(_text_in, before_turns),
            *self._texts_of_turns,
            *map(_text_in, after_turns),
        ]
        self._draw_left_out(before)
        known = before._packed_origins if before is not None else None
        same = len(known.items) if known is not None else 0
        fresh = self._view.describe_origins(self._origins, same)
        self._packed_origins = _PackedList(self._pieces, fresh, known, same)

    def _draw_left_out(self, before: "_DrawnRequest | None") -> None:
        """What was left out: most of it was also left out of the request before."""
        rates = self._view.rates.fresh, self._view.rates.money
        self._missing = before._missing if before is not None else {}
        rows: list[Json] = []
        for row in self._view.left_out():
            known = self._missing.get((id(row), rates))
            if known is None:
                (drawn,) = self._number_texts((self._view.describe_left_out(row, self._origins),))
                known = self._missing[id(row), rates] = row, drawn
            rows.append(known[1])
        old = before._left_out.items if before is not None else []
        both, least = zip(rows, old, strict=False), min(len(rows), len(old))
        same = next((at for at, (new, past) in enumerate(both) if new is not past), least)
        known_list = before._left_out if before is not None else None
        self._left_out = _PackedList(self._pieces, rows[same:], known_list, same)

    def _rows(self, rows: Iterable[SentRow]) -> list[Json]:
        return self._number_texts(row_json(row, self._origins, self._view.mask) for row in rows)

    def _number_texts(self, rows: Iterable[JsonObject]) -> list[Json]:
        """Rows with the numbers of their texts: most stand in many requests."""
        return [{**row, "text": self._pieces.text(str(row["text"]))} for row in rows]

    def _draw_chains(self, before: "_DrawnRequest | None") -> None:
        """The passes by event. Those that the request before has, too, are taken from it."""
        chains: dict[str, list[Json]] = {}
        self._linked_texts = set[int]()
        for note in notes_of(self._request):
            known = self._pieces.links.get(id(note))
            if known is None:
                known = self._pieces.links[id(note)] = (note, *self._link(note))
            if note.before.event:
                chains.setdefault(note.before.event, []).append(known[1])
                self._linked_texts |= known[2]
        entries = list(chains.items())
        old = before._entries if before is not None else []
        both = zip(entries, old, strict=False)
        least = min(len(entries), len(old))
        same = next((at for at, (new, past) in enumerate(both) if new != past), least)
        fresh: list[Json] = [[self._view.name_event(one), links] for one, links in entries[same:]]
        known_list = before._chains if before is not None else None
        self._entries = entries
        self._chains = _PackedList(self._pieces, fresh, known_list, same)

    def _link(self, note: Note) -> tuple[JsonObject, set[int]]:
        """What a note did, with the numbers of its texts."""
        link = self._view.link(note)
        texts: JsonObject = {
            name: self._pieces.text(text)
            for name in ("before", "after")
            if isinstance(text := link[name], str)
        }
        return link | texts, {one for one in texts.values() if isinstance(one, int)}

    def pack(self) -> _PackedStep:
        """Pack the answers about this request, with numbers in the place of its parts."""
        facts = self._view.facts()
        passes = facts["passes"]
        assert isinstance(passes, list)
        lists: dict[str, list[int]] = {
            "text": self._texts.numbers,
            "rows": self._row_numbers,
            "segments": self._segments.numbers,
            "pointers": self._pointers.numbers,
            "origins": self._packed_origins.numbers,
            "passes": _PackedList(self._pieces, passes).numbers,
            "left_out": self._left_out.numbers,
            "chains": self._chains.numbers,
        }
        full = {name: numbers for name, numbers in lists.items() if numbers}
        empty: JsonObject = {"left_out": [], "chains": {}}
        request = {**facts, **empty, **full, "packed": [*full]}
        ages = self._packed_ages.numbers
        cache = {**self._view.cache_facts(), "ages": ages, "packed": ["ages"]}
        texts = [one for one in self._texts.items if isinstance(one, int)]
        return _PackedStep(
            self._view.number,
            _encode_for_script(request),
            _encode_for_script(cache),
            [*texts, *self._row_texts, *map(_text_in, self._left_out.items), *self._linked_texts],
            [*itertools.chain.from_iterable(full.values()), *ages],
        )


_PART = 12
"""How many items of a list are one piece, on average."""


def _text_in(row: Json) -> int:
    assert isinstance(row, dict)
    number = row["text"]
    assert isinstance(number, int)
    return number


def _ends_piece(item: Json) -> bool:
    """Whether a list is cut after an item: it depends on nothing else."""
    if isinstance(item, list) and item:
        item = item[0]
    elif isinstance(item, dict):
        item = item.get("text", item.get("name"))
    mark = item if isinstance(item, int) else crc32(str(item).encode(errors="replace"))
    return mark * 2_654_435_761 % 4_294_967_296 < 4_294_967_296 // _PART


def _encode_for_script(value: object) -> str:
    """JSON for a script: `<` never stands in it, so that no text can end the script around it."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can write
        text = json.dumps(value)
    return text.replace("<", "\\u003c")


def _query(**params: str) -> str:
    """Parameters as a browser writes them."""
    from urllib.parse import urlencode

    return urlencode(params)


def _inline_files(data: dict[str, str], pieces: Pieces, key: str) -> Iterator[str]:
    """The page with its files and the data inside."""
    html = (PAGE / "index.html").read_text("utf-8")
    style = (PAGE / STYLE).read_text("utf-8")
    html = html.replace('<link rel="stylesheet" href="inspector.css">', f"<style>\n{style}</style>")
    html = html.replace(
        '<script type="module" src="inspector.js"></script>',
        f'<script type="module">\n{_one_script()}</script>',
    )
    head, _, foot = html.partition("<!-- data -->")
    yield f"{head}<script>window.WEFT_DATA = {{"
    yield from _with_commas(f"{_encode_for_script(name)}:{one}" for name, one in data.items())
    yield "}; window.WEFT_TEXTS = ["
    yield from _with_commas(pieces.encode_texts())
    yield "]; window.WEFT_PARTS = ["
    yield from _with_commas(pieces.encode_parts())
    yield f"]; location.hash ||= {_hash(key)};</script>{foot}"


def _with_commas(parts: Iterable[str]) -> Iterator[str]:
    """The parts of a list, some thousands of letters at a time."""
    waiting: list[str] = []
    size, begun = 0, False
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size > _PORTION:
            yield f"{',' if begun else ''}{','.join(waiting)}"
            waiting, size, begun = [], 0, True
    if waiting:
        yield f"{',' if begun else ''}{','.join(waiting)}"


_PORTION = 65_536
"""Letters that are written at once."""


def _one_script() -> str:
    """The page's modules as one: what they import of each other stands above."""
    library = base64.b64encode((PAGE / LIBRARY).read_bytes()).decode()
    names: set[str] = set()
    parts: list[str] = []
    for name in SCRIPTS:
        text = (PAGE / name).read_text("utf-8")
        for listed, source in _IMPORT.findall(text):
            if source == f"./{LIBRARY}":
                names |= {word.strip() for word in listed.split(",") if word.strip()}
        parts.append(
            re.sub(r"^export (?=const|function|async)", "", _IMPORT.sub("", text), flags=re.M)
        )
    head = f'import {{ {", ".join(sorted(names))} }} from "data:text/javascript;base64,{library}";'
    return "\n".join((head, *parts))


_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.M)


def _hash(key: str) -> str:
    from urllib.parse import quote

    return json.dumps(quote(key, safe="")).replace("<", "\\u003c")
