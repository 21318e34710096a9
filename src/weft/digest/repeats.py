"""Repeats: lines that stand in view already, and the field names of records. Both are said once.

An editor shows the same window after every change, a search the same lines again. A text that
repeats what is in view refers to it. A reference stands for lines that follow each other in one
earlier text just as they do here, letter for letter, and names them by their numbers there. So
whoever has that text puts this one together again.

Below that, records as a table: an interface answers with a list of records, and every record
repeats the names of its fields. As `{"columns": [...], "rows": [[...], ...]}` the names stand once,
and nothing is left out: whoever has the table has the records again, letter for letter.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple, cast

import msgspec

from weft.values import Json, JsonObject, compact, leaf_fields

LEAST = 3
"""How many lines in a row must stand in an earlier text to be looked for."""

NEWEST = 4
"""In how many places three lines are looked at; the newest are nearest to what reads them."""

_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def tighten_json(text: str) -> str:
    """A JSON text without the blanks between its parts; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "[") or text.rstrip()[-1:] not in ("}", "]"):
        return text
    try:
        # blanks may go only where it is JSON
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    return _BLANKS.sub(lambda match: match[1] or "", text)


class LineSource(msgspec.Struct, frozen=True, eq=False):
    """A text that others may refer to: its lines, its place, and what it is called.

    `event` and `part` say where the log has it, `number` which of all results it is.
    """

    lines: list[str]
    event: str = ""
    part: int = 0
    handle: str = ""
    words: str = ""
    number: int = 0


class Stretch(NamedTuple):
    """`size` lines of a text, from `start`, that a source also has, from `line`."""

    start: int
    size: int
    source: LineSource
    line: int


class _Place(NamedTuple):
    """A line of a source, in a run of lines in view that goes up to `end`."""

    source: LineSource
    line: int
    end: int


_NOWHERE: Sequence[_Place] = ()


class Stock(msgspec.Struct, eq=False):
    """The lines that stand in view, where each run of them stands; `before` are older ones."""

    before: "Stock | None" = None
    places: dict[tuple[str, ...], list[_Place]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no line stands in view."""
        return not self.places and (self.before is None or self.before.is_empty)

    def add(self, source: LineSource, runs: Sequence[tuple[int, int]]) -> None:
        """Take in the lines of a source that are in view, from one up to another."""
        known, lines = self.places, source.lines
        for first, end in runs:
            for line in range(first, end - LEAST + 1):
                key = tuple(lines[line : line + LEAST])
                places = known.get(key)
                if places is None:
                    known[key] = [_Place(source, line, end)]
                    continue
                places.append(_Place(source, line, end))
                if len(places) > NEWEST:
                    del places[0]

    def longest(self, lines: Sequence[str], start: int) -> Stretch | None:
        """The longest run in view that the lines have from `start` on; of equals the newest."""
        best: Stretch | None = None
        for source, line, end in reversed(
            self._places_in_view(tuple(lines[start : start + LEAST]))
        ):
            size, most = LEAST, min(end - line, len(lines) - start)
            while size < most and source.lines[line + size] == lines[start + size]:
                size += 1
            if best is None or size > best.size:
                best = Stretch(start, size, source, line)
        return best

    def _places_in_view(self, key: tuple[str, ...]) -> Sequence[_Place]:
        own = self.places.get(key, _NOWHERE)
        if self.before is None or len(own) == NEWEST:
            return own
        older = self.before._places_in_view(key)
        return [*older, *own][-NEWEST:] if own and older else own or older


def stretches(
    lines: Sequence[str], stock: Stock, is_worth: Callable[[Stretch], bool]
) -> Iterator[Stretch]:
    """What of the lines stands in view, in their order, where a reference is worth it."""
    if stock.is_empty:
        return
    start = 0
    while start + LEAST <= len(lines):
        stretch = stock.longest(lines, start)
        if stretch is not None and is_worth(stretch):
            yield stretch
            start += stretch.size
        else:
            start += 1


def runs_in(text: str, whole: str) -> tuple[tuple[int, int], ...]:
    """Which lines of a whole text stand in what is left of it, as they are, in their order."""
    if text == whole:
        return ((0, whole.count("\n") + 1),)
    source = LineSource(whole.split("\n"))
    stock = Stock()
    stock.add(source, [(0, len(source.lines))])
    repeated = stretches(text.split("\n"), stock, lambda _: True)
    return tuple((one.line, one.line + one.size) for one in repeated)


# --- records as a table

COLUMNS, ROWS, GROUPS = "columns", "rows", "groups"
"""The fields of a table: the names, and rows or lists of rows.

A value that has an object with just these fields is left alone.
"""

_LEAST_RECORDS = 2
"""How many records make a table."""

_DEEP = 24
"""Deeper values are left as they are."""

_STEP = "."
"""What joins the names of a field and of the one below it."""

_CONTAINERS = frozenset((dict, list))

_decoder = msgspec.json.Decoder(float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


def tabled_text(text: str) -> str:
    """A JSON text without blanks, its lists of records as tables; any other text as it is.

    It is never longer, and `untabled` gives back what was there, with the same spelling.
    """
    tight = tighten_json(text)
    # too few objects for a table
    if tight.count("{") <= _LEAST_RECORDS or tight[:1] not in ("{", "["):
        return tight
    try:
        value = cast("Json", _decoder.decode(tight))
        table = make_tables(value)
        if table is value:
            return tight
        short = _encoder.encode(table).decode()
        # tried out: whoever reads the table must get the very same records
        same = _encoder.encode(undo_tables(cast("Json", _decoder.decode(short)))).decode() == tight
    except (ValueError, RecursionError):
        return tight
    return short if same and len(short) < len(tight) else tight


def tabled_object(value: JsonObject) -> JsonObject:
    """An object, its lists of records as tables; itself where that is not shorter."""
    try:
        table = make_tables(value)
        if table is value or not isinstance(table, dict):
            return value
        short, whole = compact(table), compact(value)
        same = compact(undo_tables(table)) == whole
    except (ValueError, RecursionError):
        return value
    return table if same and len(short) < len(whole) else value


def make_tables(value: Json) -> Json:
    """A value with tables for its lists of records; itself where it has none, or one already."""
    return value if _has_table(value) else _make_table(value, 0)


def undo_tables(value: Json) -> Json:
    """A value with lists of records for its tables."""
    if isinstance(value, list):
        return [undo_tables(one) for one in value]
    if not isinstance(value, dict):
        return value
    columns, rows, groups = value.get(COLUMNS), value.get(ROWS), value.get(GROUPS)
    if _is_table(value) and isinstance(columns, list):
        names = [str(name).split(_STEP) for name in columns]
        plain = [] if any(len(path) > 1 for path in names) else [*map(str, columns)]
        if isinstance(rows, list):
            return [_record(row, names, plain) for row in rows]
        if isinstance(groups, list) and all(isinstance(one, list) for one in groups):
            return [
                [_record(row, names, plain) for row in cast("list[Json]", one)] for one in groups
            ]
    return {
        name: undo_tables(one) if isinstance(one, (dict, list)) else one
        for name, one in value.items()
    }


def _is_table(value: JsonObject) -> bool:
    return COLUMNS in value and value.keys() in ({COLUMNS, ROWS}, {COLUMNS, GROUPS})


def _has_table(value: Json) -> bool:
    """Whether an object looks like a table already, or the value is too deep to tell."""
    level: list[Json] = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_DEEP):
        below: list[Json] = []
        for one in level:
            if isinstance(one, dict):
                if COLUMNS in one and _is_table(one):
                    return True
                below += [each for each in one.values() if each.__class__ in _CONTAINERS]
            elif isinstance(one, list):
                below += [each for each in one if each.__class__ in _CONTAINERS]
        if not below:
            return False
        level = below
    return any(level)


def _make_table(value: Json, depth: int) -> Json:
    if isinstance(value, dict):
        fields = {name: _make_table(one, depth + 1) for name, one in value.items()}
        return value if all(fields[name] is value[name] for name in value) else fields
    if not isinstance(value, list):
        return value
    table = _table(value)
    if table is not None and len(_encoder.encode(table)) < len(_encoder.encode(value)):
        return table
    rows = [_make_table(one, depth + 1) for one in value]
    return value if all(new is old for new, old in zip(rows, value, strict=True)) else rows


def _table(value: list[Json]) -> JsonObject | None:
    """The table of a list of records, or of lists of them; None where their fields differ."""
    groups = [one for one in value if isinstance(one, list)]
    if groups and len(groups) < len(value):
        return None
    records = [one for group in groups for one in group] if groups else value
    cells = _cells(records)
    if cells is None:
        return None
    columns, rows = cells
    if not groups:
        return {COLUMNS: columns, ROWS: rows}
    following = iter(rows)
    return {COLUMNS: columns, GROUPS: [[next(following) for _ in group] for group in groups]}


def _cells(records: list[Json]) -> tuple[list[Json], list[Json]] | None:
    """The names of the fields that all records have, in one order, and the rows below them."""
    objects = [one for one in records if isinstance(one, dict) and one]
    if len(objects) < max(_LEAST_RECORDS, len(records)):
        return None
    if not any(each.__class__ in _CONTAINERS for one in objects for each in one.values()):
        if len({*map(tuple, objects)}) > 1:
            return None
        return [*objects[0]], [[*one.values()] for one in objects]
    flat = [leaf_fields(one, _STEP) for one in objects]
    if any(list(one) != list(flat[0]) for one in flat):
        # some have deeper objects than others: then only the outer fields are columns
        flat = objects
        if any(list(one) != list(flat[0]) for one in flat):
            return None
    rows: list[Json] = [
        [_make_table(cell, 0) if isinstance(cell, (dict, list)) else cell for cell in one.values()]
        for one in flat
    ]
    return [*flat[0]], rows


def _record(row: Json, names: list[list[str]], plain: list[str]) -> Json:
    """A row as the record it was; `plain` are the names where none of them has a step."""
    if not isinstance(row, list) or len(row) != len(names):
        raise ValueError("a row has a cell for each column")
    if plain and _CONTAINERS.isdisjoint(map(type, row)):
        return dict(zip(plain, row, strict=True))
    record: JsonObject = {}
    for path, cell in zip(names, row, strict=True):
        at = record
        for step in path[:-1]:
            below = at.setdefault(step, {})
            if not isinstance(below, dict):
                raise ValueError("a field is a value, or has fields")
            at = below
        at[path[-1]] = undo_tables(cell) if isinstance(cell, (dict, list)) else cell
    return record
