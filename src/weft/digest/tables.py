"""Tables: their columns, and the rows that stay when not all can.

Who reads a table compares: the cheapest, the newest, the one that is not like the others. So a
table keeps its header whole, the rows at both ends of each column that is compared, a row of each
state, and the rows that tell of a failure. Records of JSON, delimited lines, Markdown and aligned
columns of a command are tables alike.

Top to bottom: what is compared, rows that stay, tables in a text.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import NamedTuple, TypeGuard, cast

from weft.digest.alike import GRAVE, kinds_of, troubles_in
from weft.late import late_pattern
from weft.values import Json, compact

# --- what is compared

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_DATE = re.compile(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?:[T ](\d{1,2}:\d\d.*))?")
_DATE_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d\d)(?:[T ,]+(\d{1,2}:\d\d.*))?")
_DATE_NAMED = late_pattern(
    r"(?:[A-Za-z]{3},? )?(?:(\d{1,2})[ -])?([A-Za-z]{3})[a-z]*[ -](\d{1,2},? )?(\d{4}|\d\d:\d\d)?.*"
)
_CLOCK = re.compile(r"(\d{1,4}):(\d\d)(?::(\d\d(?:\.\d+)?))?(?:[Zz]|\+\d.*| ?[AaPp]\.?[Mm]\.?)?")
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:y|mo|w|d|h|ms|m|s|us|µs|ns|min|sec|hrs?|days?) ?)+(?:ago)?")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)([a-zµ]+)")
_SECONDS = {
    "y": 31_557_600.0, "mo": 2_629_800.0, "w": 604_800.0, "d": 86_400.0, "day": 86_400.0,
    "days": 86_400.0, "h": 3_600.0, "hr": 3_600.0, "hrs": 3_600.0, "m": 60.0, "min": 60.0,
    "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_AMOUNT = re.compile(
    r"[~<>≈≤≥]?\s?([-+\u2212(]?)(?:[A-Z]{3}\s|[$€£¥₹]\s?)?([-+]?\d[\d,_'\u00a0\u202f]*(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"\s?(%|[kKMGTP]i?B?|[bB](?:ytes)?|[$€£¥₹]|[A-Za-z]{1,4}(?:/[A-Za-z]{1,3})?)?\)?"
)
_DIGIT, _PLAIN = re.compile(r"[0-9]"), re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WORDED = re.compile(r"[A-Za-z]{3}(?:[a-z]*[ ,-]|\s)")
"""How an amount begins that begins with a letter: with a currency, a day or a month."""
_GROUPING = re.compile(r"[,_'\u00a0\u202f]")
_SIZE = re.compile(r"[kKMGTP]i?B?")
_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}


@lru_cache(maxsize=16_384)
def amount_of(text: str) -> float | None:
    """The number by which a cell is compared: a price, size, duration, share or date; or None."""
    bare = text.strip().strip('"')
    if not bare or len(bare) > 40 or _DIGIT.search(bare) is None:
        return None
    if _PLAIN.fullmatch(bare) is not None:
        return float(bare)
    if bare[0].isalpha() and _WORDED.match(bare) is None:  # most cells are names
        return None
    if (match := _AMOUNT.fullmatch(bare)) is not None and not _SPAN.fullmatch(bare):
        value = float(_GROUPING.sub("", match[2]))
        scale = _SCALE.get((match[3] or "")[:1].lower(), 1.0) if _is_size(match[3]) else 1.0
        return value * scale * (-1 if match[1] in ("-", "\u2212", "(") else 1)
    if _SPAN.fullmatch(bare) is not None:
        parts = _SPAN_PART.findall(bare)
        return float(sum(float(size) * _SECONDS.get(unit, 1.0) for size, unit in parts))
    return _moment_of(bare)


def _is_size(unit: str | None) -> bool:
    return unit is not None and _SIZE.fullmatch(unit) is not None


def _moment_of(bare: str) -> float | None:
    """A date or a time of day as a number that grows with it."""
    if (match := _DATE.fullmatch(bare)) is not None:
        return _day(match[1], match[2], match[3] or "1") + _clock(match[4] or "")
    if (match := _DATE_LAST.fullmatch(bare)) is not None:
        # which of the two is the month nobody can know; a year says most
        month, day = (match[1], match[2]) if int(match[1]) <= 12 else (match[2], match[1])
        return _day(match[3], month, day) + _clock(match[4] or "")
    if _CLOCK.fullmatch(bare) is not None:
        return _clock(bare)
    match = _DATE_NAMED.fullmatch(bare)
    if match is None or (month_number := _MONTHS.get(match[2].lower())) is None:
        return None
    year = re.search(r"\b\d{4}\b", bare)
    day = (match[1] or match[3] or "1").strip(" ,")
    return _day(year[0] if year else "0", str(month_number), day) + _clock(bare)


def _day(year: str, month: str, day: str) -> float:
    return (int(year) * 12 + int(month)) * 31.0 + int(day)


def _clock(text: str) -> float:
    """A time of day as a share of the day."""
    match = _CLOCK.search(text)
    if match is None:
        return 0.0
    hours = int(match[1]) % 12 if re.search(r"[AaPp]\.?[Mm]", match[0]) else int(match[1])
    hours += 12 if re.search(r"[Pp]\.?[Mm]", match[0]) else 0
    return (hours * 3_600 + int(match[2]) * 60 + float(match[3] or 0)) / 86_400


_LARGEST = 1e300
_NUMBERS = frozenset((int, float))


def amount(cell: Json) -> float | None:
    """The number by which a cell of any kind is compared; None where it is not."""
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, int | float):
        return float(cell) if abs(cell) < _LARGEST else None
    return amount_of(cell) if isinstance(cell, str) else None


# --- rows that stay

HEADER, FAILED, END, STATE = 60.0, 40.0, 25.0, 15.0
"""How firmly lines and rows stay: a header, a failure, the end of a column, one of each state."""

SHORT_TABLE = 24
"""A table with no more rows keeps all of them: who asks for one compares them all."""

_MANY = 400
"""How many rows tell which columns are compared."""
_COMPARED = 0.7
"""The share of the cells of a column that must be amounts for it to be compared."""
_MOST_STATES = 12
"""A column with more different words has no states, but texts."""
_FEW = 6
"""A table with no more rows has no column of states: each row may be another."""
_WIDE = 100
"""In how many columns states are looked for."""
_EACH = 8
"""How many rows that tell of a failure stay for sure."""


def compared_columns(rows: Sequence[Sequence[Json]]) -> list[int]:
    """The columns whose cells are amounts that differ."""
    return _find_compared(_turn_rows(rows[:_MANY]))


def _turn_rows(rows: Sequence[Sequence[Json]]) -> list[tuple[Json, ...]]:
    """The cells of each column; where a row has none, an empty text."""
    return [*zip_longest(*rows, fillvalue="")]


def _find_compared(columns: Sequence[Sequence[Json]]) -> list[int]:
    return [at for at, cells in enumerate(columns) if _is_compared(cells[:_MANY])]


def _is_compared(cells: Sequence[Json]) -> bool:
    """Whether so many cells are amounts that nobody need look at the others."""
    if _are_numbers(cells):
        return True
    spoken = [cell for cell in cells if cell is not None and cell != ""]
    others = len(spoken) - max(1, math.ceil(_COMPARED * len(spoken)))
    for cell in spoken if others >= 0 else ():
        # most cells are texts: they are known again without a call
        if (amount_of(cell) if isinstance(cell, str) else amount(cell)) is None:
            others -= 1
            if others < 0:
                break
    return others >= 0


def _are_numbers(cells: Sequence[Json]) -> "TypeGuard[Sequence[float]]":
    """Whether all cells are numbers by which they are compared."""
    if not {*map(type, cells)} <= _NUMBERS:
        return False
    numbers = cast("Sequence[float]", cells)
    return min(numbers) > -_LARGEST and max(numbers) < _LARGEST


class TableColumns(NamedTuple):
    """What there is to know of the columns of a table."""

    cells: list[tuple[Json, ...]]
    """The cells of each; where a row has none, an empty text."""
    texts: list[Sequence[str]]
    """The same as texts."""
    compared: list[int]
    """Those whose cells are amounts that differ."""
    states: dict[int, dict[int, int]]
    """Those with states, or with texts of few kinds: where each first is, and how often."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[Json]]) -> "TableColumns":
        """The columns of these rows."""
        columns = _turn_rows(rows)
        compared = _find_compared(columns)
        texts = [*map(_spell_cells, columns)]
        wide = min(_WIDE, len(rows[0])) if len(rows) > _FEW else 0
        states = {
            at: _first_of_each(_clip_cells(columns[at], texts[at]))
            for at in range(wide)
            if at not in compared
        }
        with_states = {column: places for column, places in states.items() if places}
        return cls(columns, texts, compared, with_states)


def rows_that_stay(
    rows: Sequence[Sequence[Json]], columns: TableColumns | None = None
) -> dict[int, float]:
    """The rows that a table never loses, by how firmly each stays: a larger number goes last.

    `columns` are the table's, for who has looked at them already.
    """
    stay: dict[int, float] = {}

    def keep(row: int, how: float) -> None:
        stay[row] = max(stay.get(row, 0.0), how)

    if not rows:
        return stay
    known = columns or TableColumns.of(rows)
    texts = [*zip(*known.texts, strict=True)] or [()] * len(rows)
    # without the cells that a row does not have
    lines = [" ".join(text[: len(row)]) for row, text in zip(rows, texts, strict=True)]
    troubles = troubles_in(lines)
    failed = [at for at, trouble in enumerate(troubles) if trouble]
    for at in failed[:_EACH]:
        keep(at, FAILED if troubles[at] >= GRAVE else FAILED - 5)
    for column in known.compared:
        cells = known.cells[column]
        amounts = [*map(float, cells)] if _are_numbers(cells) else [*map(amount, cells)]
        low = min(one for one in amounts if one is not None)
        high = max(one for one in amounts if one is not None)
        if low < high:
            keep(amounts.index(low), END)
            keep(amounts.index(high), END)
    for places in known.states.values():
        for at, size in places.items():
            keep(at, STATE + 1 / size)
    return stay


def _first_of_each(cells: Sequence[str]) -> dict[int, int]:
    """Where each state of a column stands first, and how often it does; of texts, each kind."""
    times = Counter(cells)
    if len(times) <= 1:
        return {}
    if len(times) <= _MOST_STATES:
        return {cells.index(cell): size for cell, size in times.items()}
    # names are not texts; and texts of which hardly one is like another are not states
    if len([cell for cell in cells if " " in cell.strip()]) * 2 < len(cells):
        return {}
    kinds = kinds_of(cells)
    if len(kinds.sizes) * 2 > len(cells):
        return {}
    return {kinds.of.index(kind): size for kind, size in enumerate(kinds.sizes)}


_CONSTANTS = {True: "true", False: "false", None: "null"}


def _spell_cells(cells: Sequence[Json]) -> Sequence[str]:
    """The cells of a column as texts: as they are, or as compact JSON."""
    kinds = {*map(type, cells)}
    if kinds == {str}:
        return cast("Sequence[str]", cells)
    if kinds == {int}:
        return [*map(str, cells)]
    if kinds <= {bool, type(None)}:
        return [_CONSTANTS[cell] for cell in cast("Sequence[bool | None]", cells)]
    return [cell if isinstance(cell, str) else compact(cell) for cell in cells]


def _clip_cells(cells: Sequence[Json], texts: Sequence[str]) -> list[str]:
    """The texts of a column as far as they are compared."""
    return [
        text[:1_000] if isinstance(cell, str) else text[:80]
        for cell, text in zip(cells, texts, strict=True)
    ]


# --- tables in a text

_GAPS = re.compile(r" {2,}|\t")
_RULE = re.compile("--|==|──|━━|══")
_RULES = "-=|+: \t─━═│┃║┌┬┐├┼┤└┴┘┏┳┓┣╋┫┗┻┛╔╦╗╠╬╣╚╩╝╞╪╡╟╫╢╭╮╯╰╇╈┡┩╒╕╘╛"
_BARS = str.maketrans("│┃║", "|||")
_LEAST_ROWS = 3
_SAMPLE = 60
"""How many rows tell which columns have amounts."""
_LONG_ROW = 400
"""A row of more letters has its long cells cut."""
_LONG_CELL = 60


class TextTable(NamedTuple):
    """A table in a text: the places of its header, and the cells of its rows by their places."""

    header: tuple[int, ...]
    rows: dict[int, list[str]]
    joint: str
    """What stands between cells."""

    @property
    def places(self) -> set[int]:
        """Where its lines are."""
        return {*self.header, *self.rows}


def tables_in(lines: Sequence[str]) -> list[TextTable]:
    """The tables of a text: those of Markdown, else the one that most of its lines belong to."""
    marked = list(_marked_tables(lines))
    if marked:
        return marked
    spoken = [at for at, line in enumerate(lines) if line.strip() and not is_ruler(line)]
    if len(spoken) < _LEAST_ROWS:
        return []
    for find in (_find_delimited, _find_aligned, _find_by_words):
        table = find(lines, spoken)
        if table is not None:
            return [table]
    return []


def is_ruler(line: str) -> bool:
    """Whether a line only parts a header from its rows."""
    return _RULE.search(line) is not None and not line.strip(_RULES)


def _marked_tables(lines: Sequence[str]) -> Iterable[TextTable]:
    """Tables with a ruler below their header and bars between their cells."""
    lines = [line.translate(_BARS) for line in lines]
    at = 1
    while at < len(lines):
        named = "|" in lines[at - 1] and not is_ruler(lines[at - 1])
        if not (named and is_ruler(lines[at])):
            at += 1
            continue
        head = at - 1
        rows: dict[int, list[str]] = {}
        at += 1
        # some draw a ruler below each row
        while at < len(lines) and ("|" in lines[at] or is_ruler(lines[at])):
            if not is_ruler(lines[at]):
                rows[at] = _barred_cells(lines[at])
            at += 1
        if rows:
            yield TextTable((head, head + 1), rows, " | ")
        at += 1


def _barred_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def barred_tables(lines: Sequence[str]) -> Iterable[TextTable]:
    """Lines in a row that have as many bars between their cells, as those of a page have."""
    for bars, places in groupby(range(len(lines)), key=lambda at: lines[at].count(" | ")):
        table = _with_header({at: _barred_cells(lines[at]) for at in places}, " | ")
        if bars >= 1 and table is not None:
            yield table


_FIELD = re.compile(r"\s*(?:- )?\s*([A-Za-z_][\w .()/-]{0,40}?)\s*[:=]\s+(\S.*)")


def staying_blocks(lines: Sequence[str]) -> Iterable[tuple[range, float]]:
    """Of records that have a line for each field, those that stay, and how firmly."""
    fields = [_FIELD.fullmatch(line[:400]) for line in lines]
    names = [field[1] if field is not None else "" for field in fields]
    times = Counter(name for name in names if name)
    # the first name that comes again begins each record
    first = next((name for name in names if times[name] >= _LEAST_ROWS), None)
    starts = [at for at, name in enumerate(names) if name == first]
    if first is None or len(starts) < 2 * _LEAST_ROWS:
        return
    blocks = [range(*pair) for pair in zip(starts, [*starts[1:], len(lines)], strict=True)]
    # records have the same fields in the same order
    orders = Counter(tuple(names[at] for at in block if names[at]) for block in blocks)
    usual, size = orders.most_common(1)[0]
    if not _LEAST_ROWS <= len(usual) == len({*usual}) or size * 10 < len(blocks) * 8:
        return
    cells = [{names[at]: field[2] for at in block if (field := fields[at])} for block in blocks]
    staying = rows_that_stay([[one.get(name) for name in usual] for one in cells])
    for number, how in staying.items():
        # what comes after the fields of the last one is not a part of it
        block = blocks[number]
        length = max(at for at in block if fields[at] is not None) + 1 - block.start
        yield block[: min(length, 3 * len(usual))], how


def _find_delimited(lines: Sequence[str], spoken: Sequence[int]) -> TextTable | None:
    for delimiter in ("\t", ";", "|", ","):
        least = 1 if delimiter == "\t" else 2
        holding = [at for at in spoken if lines[at].count(delimiter) >= least]
        if len(holding) * 10 < len(spoken) * 8:
            continue
        cells = {at: _split(lines[at], delimiter) for at in holding}
        usual, times = Counter(map(len, cells.values())).most_common(1)[0]
        if usual <= least or times * 10 < len(spoken) * 8 or times < _LEAST_ROWS:
            continue
        if delimiter == "," and not _is_csv([lines[at] for at in holding], usual - 1):
            continue
        return _with_header({at: row for at, row in cells.items() if len(row) == usual}, delimiter)
    return None


def _split(line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except (csv.Error, StopIteration):  # a cell beyond the reader's limit, or a lone quote
        return line.split(delimiter)


def _is_csv(lines: list[str], commas: int) -> bool:
    """Whether commas part cells: prose has blanks after them, code has brackets."""
    blanks = sum(line.count(", ") for line in lines)
    brackets = sum(line[-1:] in "({[:" for line in lines)
    return blanks * 2 < commas * len(lines) and brackets * 4 < len(lines)


def _find_aligned(lines: Sequence[str], spoken: Sequence[int]) -> TextTable | None:
    """Columns with at least two blanks between them."""
    cells = {at: _GAPS.split(lines[at].strip()) for at in spoken}
    usual, times = Counter(map(len, cells.values())).most_common(1)[0]
    if usual < 3 or times * 10 < len(spoken) * 8:
        return None
    return _with_header({at: row for at, row in cells.items() if len(row) >= usual - 1}, "  ")


def _find_by_words(lines: Sequence[str], spoken: Sequence[int]) -> TextTable | None:
    """Columns with single blanks, as `ls -l` and `ps` print them: the same words are amounts."""
    words = {at: lines[at].split() for at in spoken}
    sizes = sorted(map(len, words.values()))
    least = sizes[len(sizes) // 10]
    if least < 4 or len(spoken) < 2 * _LEAST_ROWS:
        return None
    rows = {at: row for at, row in words.items() if len(row) >= least}
    some = [*rows.values()][:_SAMPLE]
    numeric = [
        column
        for column in range(least)
        if sum(amount_of(row[column]) is not None for row in some) * 10 >= len(some) * 8
    ]
    if len(numeric) < 2 or len(numeric) * 3 < least:
        return None
    return _with_header(
        {at: [*row[: least - 1], " ".join(row[least - 1 :])] for at, row in rows.items()}, " "
    )


def _with_header(rows: dict[int, list[str]], joint: str) -> TextTable | None:
    """Rows with a header, if the first one has words where the others have amounts."""
    if len(rows) < _LEAST_ROWS:
        return None
    first, *others = rows
    below = [rows[at] for at in others]
    compared = compared_columns(below)
    words = [
        column
        for column in compared
        if column < len(rows[first]) and amount_of(rows[first][column]) is None
    ]
    # without amounts below it, the first row is taken for a header, as it mostly is
    if compared and len(words) * 2 < len(compared):
        return TextTable((), rows, joint)
    return TextTable((first,), {at: rows[at] for at in others}, joint)


def short_row(line: str, cells: Sequence[str], joint: str) -> str:
    """A row as it is, or, where it is very long, with its long texts cut: amounts stay."""
    if len(line) <= _LONG_ROW:
        return line
    joint = f"{joint} " if joint in (",", ";") else joint
    return joint.join(
        cell
        if len(cell) <= _LONG_CELL + 24
        else f"{cell[:_LONG_CELL].rstrip()}… (+{len(cell) - _LONG_CELL:,} characters)"
        for cell in cells
    )
