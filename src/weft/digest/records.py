"""JSON in short: keys stay, lists of records become tables, long texts say how long they were.

A table has all its columns by name, whatever is left out: rows go, or whole columns. A list keeps
its ends, and the rows that `rows_that_stay` names. How much is shown of all that is a step of a
ladder: the highest one that fits is taken.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from weft.digest.alike import troubles_in
from weft.digest.cut import Count, head_of
from weft.digest.repeats import COLUMNS, GROUPS, ROWS
from weft.digest.tables import (
    END,
    FAILED,
    SHORT_TABLE,
    STATE,
    TableColumns,
    amount,
    compared_columns,
    rows_that_stay,
)
from weft.values import Json, JsonObject, compact, leaf_fields

ReduceText = Callable[[str, int, Count, int | None], str]
"""Makes a text shorter: the text, its room, how tokens are counted, and what it may take."""

_TELLING = re.compile(
    r"^(?:id|uid|uuid|key|name|title|status|state|type|kind|code|error|errors|message|msg|level"
    r"|reason|path|file|url|uri|email|date|time|total|count|price|amount|result|ok|success|next"
    r"|cursor)$"
    r"|(?:_|^)(?:id|ids|name|number|status|error|code|key|path|type)$|Id$|Name$|Status$|Error$",
    re.IGNORECASE,
)
_LONG = 320
"""From this many characters on a text is a document of its own, reduced by its shape."""
_DOCUMENTS = 6
"""How many long texts are reduced each by its own shape; of more, none is."""
_NO_NAMES: Mapping[str, float] = {}
_ASKED = 0.8
"""From which weight on a name that was asked for makes a row matter."""
_RARE = 4
"""A name that more rows have does not tell them apart."""
_DEEP = 60
"""Deeper values are told by their size: whoever nests so deep wants no table."""
_SAMPLE = 400
"""How many rows tell whether a column has long texts."""
_LEAST, _ALIKE = 6, 0.8
"""More records by their names are a table where they share this much of their fields."""
_FILLED = 0.5
"""The share of its cells that records must have to be a table; else they are shown one by one."""


class Detail(NamedTuple):
    """How much of a value is shown.

    `rows` of a list are shown in addition to those that stay; texts have up to `letters`, objects
    up to `keys`. `all_stay` says that none of the rows that stay may go, `lean` that
    columns of texts do, `ends_only` that rows of a state may go, and all but the ends of a group.
    """

    rows: int
    letters: int
    keys: int
    depth: int
    all_stay: bool = True
    lean: bool = False
    ends_only: bool = False


_LADDER = (
    *(
        Detail(rows, letters, keys, depth, all_stay=False, lean=rows > 2)
        for rows, letters, keys, depth in (
            (1, 8, 2, 1), (1, 12, 3, 2), (1, 12, 3, 3), (1, 16, 4, 3), (2, 16, 4, 3),
            (2, 24, 6, 4), (3, 24, 6, 6), (4, 24, 8, 8), (6, 32, 8, _DEEP), (8, 32, 8, _DEEP),
            (10, 40, 8, _DEEP), (12, 40, 8, _DEEP), (14, 60, 8, _DEEP), (16, 60, 10, _DEEP),
            (20, 60, 10, _DEEP), (24, 80, 12, _DEEP), (32, 80, 16, _DEEP), (40, 80, 16, _DEEP),
        )
    ),
    *(
        Detail(rows, letters, keys, _DEEP, lean=True)
        for rows, letters, keys in ((0, 160, 8), (0, 160, 12))
    ),
    *(
        Detail(rows, letters, keys, _DEEP)
        for rows, letters, keys in (
            (0, 160, 8), (1, 160, 8), (1, 160, 10), (2, 160, 12), (3, 160, 12), (3, 160, 16),
            (4, 160, 16), (4, 160, 20), (5, 160, 20), (6, 160, 24), (6, 200, 24), (8, 160, 32),
            (8, 300, 32), (10, 200, 40), (12, 160, 40), (12, 400, 48), (16, 300, 48),
            (20, 200, 64), (20, 600, 64), (30, 400, 64), (40, 300, 100), (60, 300, 100),
            (80, 600, 200), (120, 600, 200), (200, 1000, 300), (400, 2000, 600), (1000, 4000, 2000),
        )
    ),
)  # fmt: skip

_LAWFUL = next(at for at, detail in enumerate(_LADDER) if detail.all_stay)
"""The first step on which every table has its names and the rows that stay."""

_ENDS = Detail(0, 160, 8, _DEEP, lean=True, ends_only=True)
"""What is tried before rows at the ends of a table, or rows that fail, may go."""


def reduced_json(
    value: Json,
    *,
    limit: int,
    count: Count,
    text: ReduceText,
    names: Mapping[str, float] = _NO_NAMES,
    most: int | None = None,
) -> Json:
    """The value within `limit` tokens as compact JSON; None where nothing of it fits.

    Where a table would lose rows that stay, it takes up to `most`. Fields that have one of these
    names come first, and rows that say one of them stay.
    """
    documents: list[str] = []
    _gather_documents(value, documents, 0)
    show = _Shower(names)
    if 1 <= len(documents) <= _DOCUMENTS:
        whole = _with_documents(value, documents, limit, count, text, show, most)
        if whole is not None:
            return whole
    return _in_most_detail(value, {}, limit, count, show, most)[0]


def _in_most_detail(
    value: Json,
    texts: dict[str, str],
    limit: int,
    count: Count,
    show: "_Shower",
    most: int | None = None,
) -> tuple[Json, Detail]:
    """The value in as much detail as fits; None where not even the least does."""
    least = show.value(value, _LADDER[_LAWFUL], texts)
    size = count(compact(least))
    best, low, high = least, _LAWFUL + 1, len(_LADDER) - 1
    if size > limit:
        if most is not None and size <= most:
            return least, _LADDER[_LAWFUL]
        limit = max(limit, most or 0)
        least = show.value(value, _ENDS, texts)
        if count(compact(least)) <= limit:
            return least, _ENDS
        best, low, high = None, 0, _LAWFUL - 1
    while low <= high:
        middle = (low + high) // 2
        reduced = show.value(value, _LADDER[middle], texts)
        if count(compact(reduced)) <= limit:
            best, low = reduced, middle + 1
        else:
            high = middle - 1
    return best, _LADDER[max(0, low - 1)]


def _with_documents(
    value: Json,
    documents: list[str],
    limit: int,
    count: Count,
    text: ReduceText,
    show: "_Shower",
    most: int | None,
) -> Json:
    """The value with its few long texts reduced, each by its own shape, to what room is left."""
    # half for what stands around the texts, the rest for the texts
    empty = dict.fromkeys(documents, "")
    frame, detail = _in_most_detail(value, empty, limit // 2, count, show, most)
    if frame is None:
        return None
    taken = count(compact(frame)) + 4
    room = max(limit, taken + 12 * len(documents)) - taken if most else limit - taken

    def count_as_json(part: str) -> int:
        return count(compact(part))

    for _ in range(6):
        if room < 12 * len(documents):
            return None
        spare = most - taken if most is not None else None
        short = _share_out(documents, room, count_as_json, text, spare)
        whole = show.value(value, detail, short)
        over = count(compact(whole)) - (most if most is not None else limit)
        if over <= 0:
            return whole
        room -= over + 4
        most = most - over if most is not None else None
    return None


def _share_out(
    documents: list[str], room: int, count: Count, text: ReduceText, most: int | None
) -> dict[str, str]:
    """Every text in its share of the room; what a short one does not need goes to the others."""
    short: dict[str, str] = {}
    for place, document in enumerate(sorted(documents, key=len)):
        others = len(documents) - place
        share = max(12, room // others)
        spare = most - 12 * (others - 1) if most is not None else None
        short[document] = text(document, share, count, spare)
        used = count(short[document])
        room -= used
        most = most - used if most is not None else None
    return short


def _gather_documents(value: Json, documents: list[str], depth: int) -> None:
    if len(documents) > _DOCUMENTS or depth > 12:
        return
    if isinstance(value, str):
        if len(value) >= _LONG and value not in documents:
            documents.append(value)
    elif isinstance(value, (list, dict)):
        for item in value[:200] if isinstance(value, list) else value.values():
            if item.__class__ in _BARE or (isinstance(item, str) and len(item) < _LONG):
                continue
            _gather_documents(item, documents, depth + 1)


# --- lists of records


class RecordTable(NamedTuple):
    """Records as a table: the names of all fields, and rows below them.

    `units` are the rows that belong together, by their places: each alone, or lists of records.
    `stays` says how firmly a unit stays, and `ends` which rows are at the end of a column, or fail.
    `same` are columns with one value in all rows.
    """

    columns: list[str]
    rows: list[list[Json]]
    units: list[list[int]]
    grouped: bool
    stays: dict[int, float]
    same: frozenset[int]
    needed: frozenset[int]
    """Columns that never go: what is compared, states, and what a row is called."""
    filled: float
    """The share of the cells that the records have."""
    ends: frozenset[int] = frozenset()
    bare: frozenset[int] = frozenset()
    """Columns whose cells are shown as they are, in any detail."""


def record_table(value: Json) -> RecordTable | None:
    """A list of records, or of lists of them, or such a list as a table already; else None.

    Records by their names, columns by theirs, and rows without names are tables as well.
    """
    if isinstance(value, dict):
        return _given_table(value) or _named_records(value) or _named_columns(value)
    if not isinstance(value, list) or len(value) < 2:
        return None
    if (bare := _bare_rows(value)) is not None:
        return bare
    grouped = all(isinstance(one, list) and one for one in value)
    records: list[Json] = []
    units: list[list[int]] = []
    for one in value:
        members = one if grouped and isinstance(one, list) else [one]
        units.append([*range(len(records), len(records) + len(members))])
        records += members
    objects = [one for one in records if isinstance(one, dict) and one]
    if len(objects) < len(records):
        return None
    flat = [leaf_fields(one, ".") for one in objects]
    columns = [*dict.fromkeys(name for one in flat for name in one)]
    filled = sum(map(len, flat)) / (len(columns) * len(flat))
    if filled < _FILLED and not grouped:
        return _unlike_records(objects, filled)
    rows: list[list[Json]] = [[one.get(name) for name in columns] for one in flat]
    return _table_of(columns, rows, units, grouped=grouped, filled=filled)


def _unlike_records(objects: list[JsonObject], filled: float) -> RecordTable:
    """Records that have few fields in common: one with each set of fields stays, as far as told."""
    rows: list[list[Json]] = [[*one.values()] for one in objects]
    stays: dict[int, float] = {}
    first: dict[tuple[str, ...], int] = {}
    for at, one in enumerate(objects):
        first.setdefault(tuple(one), at)
    if len(first) * 2 <= len(objects):
        stays = dict.fromkeys(first.values(), STATE)
    troubles = troubles_in([compact(one)[:2_000] for one in objects])
    stays |= dict.fromkeys([at for at, trouble in enumerate(troubles) if trouble][:8], FAILED)
    units = [[at] for at in range(len(objects))]
    return RecordTable([], rows, units, False, stays, frozenset(), frozenset(), filled)


def _given_table(value: JsonObject) -> RecordTable | None:
    columns, rows, groups = value.get(COLUMNS), value.get(ROWS), value.get(GROUPS)
    if len(value) != 2 or not isinstance(columns, list) or len(columns) < 1:
        return None
    grouped = not isinstance(rows, list)
    units: list[list[int]] = []
    members: list[Json] = rows if isinstance(rows, list) else []
    for one in groups if grouped and isinstance(groups, list) else ():
        group = one if isinstance(one, list) else []
        units.append([*range(len(members), len(members) + len(group))])
        members += group
    table = [row for row in members if isinstance(row, list) and len(row) == len(columns)]
    if not table or len(table) < len(members):
        return None
    units = units or [[at] for at in range(len(table))]
    return _table_of([*map(str, columns)], table, units, grouped=grouped, filled=1.0)


def _named_records(value: JsonObject) -> RecordTable | None:
    """An object of many records that have the same fields: their names are a column."""
    records = [one for one in value.values() if isinstance(one, dict) and len(one) > 1]
    if len(records) <= _LEAST or len(records) < len(value):
        return None
    flat = [leaf_fields(one, ".") for one in records]
    columns = [*dict.fromkeys(name for one in flat for name in one)]
    filled = sum(map(len, flat)) / (len(columns) * len(flat))
    if filled < _ALIKE:
        return None
    rows: list[list[Json]] = [
        [key, *(one.get(name) for name in columns)] for key, one in zip(value, flat, strict=True)
    ]
    units = [[at] for at in range(len(rows))]
    return _table_of(["key", *columns], rows, units, grouped=False, filled=filled)


def _named_columns(value: JsonObject) -> RecordTable | None:
    """An object of lists that are as long as each other, one a column."""
    lists = [one for one in value.values() if isinstance(one, list)]
    sizes = {len(one) for one in lists}
    if len(lists) < 2 or len(lists) < len(value) or len(sizes) > 1 or min(sizes) <= _LEAST:
        return None
    if any(isinstance(cell, list | dict) for one in lists for cell in one):
        return None
    rows: list[list[Json]] = [[*row] for row in zip(*lists, strict=True)]
    units = [[at] for at in range(len(rows))]
    return _table_of([*value], rows, units, grouped=False, filled=1.0)


def _bare_rows(value: list[Json]) -> RecordTable | None:
    """Rows of cells, with the names of the first one where the others have amounts below it."""
    rows = [one for one in value if isinstance(one, list) and len(one) > 1]
    if len(rows) <= _LEAST or len(rows) < len(value) or len({*map(len, rows)}) > 1:
        return None
    if any(isinstance(cell, list | dict) for row in rows for cell in row):
        return None
    first, *below = rows
    names = [cell for cell in first if isinstance(cell, str) and amount(cell) is None]
    if len({*names}) == len(first) and compared_columns(below):
        units = [[at] for at in range(len(below))]
        return _table_of(names, below, units, grouped=False, filled=1.0)
    units = [[at] for at in range(len(rows))]
    return _table_of([], rows, units, grouped=False, filled=0.0)


def _table_of(
    columns: list[str],
    rows: list[list[Json]],
    units: list[list[int]],
    *,
    grouped: bool,
    filled: float,
) -> RecordTable:
    look = TableColumns.of(rows)
    staying = rows_that_stay(rows, look)
    stays = staying  # a unit is a row
    if grouped:
        stays = {
            at: max(staying[row] for row in unit if row in staying)
            for at, unit in enumerate(units)
            if any(row in staying for row in unit)
        }
    same = {
        column
        for column, cells in enumerate(look.cells)
        if len(rows) > 2 and cells.count(cells[0]) == len(rows) and len(compact(cells[0])) <= 80
    }
    needed = {*look.compared, *look.states}
    needed |= {
        column
        for column, name in enumerate(columns)
        if _is_telling(name.rpartition(".")[2]) and not _mostly_long(look.cells[column][:_SAMPLE])
    }
    return RecordTable(
        columns,
        rows,
        units,
        grouped,
        stays,
        frozenset(same),
        frozenset(needed),
        filled,
        frozenset(row for row, how in staying.items() if how >= END),
        frozenset(column for column, cells in enumerate(look.cells) if _are_bare(cells)),
    )


def _are_bare(cells: Sequence[Json]) -> bool:
    """Whether all cells are shown as they are, in any detail."""
    if {*map(type, cells)} <= _BARE:
        return True
    texts = [cell for cell in cells if cell.__class__ not in _BARE]
    return all(isinstance(cell, str) and len(cell) <= _WHOLE for cell in texts)


def _mostly_long(cells: Sequence[Json]) -> bool:
    large = [cell for cell in cells if cell.__class__ not in _BARE and _is_large(cell)]
    return len(large) * 2 > len(cells)


# --- showing


class _Shower:
    """Shows one value in some detail, long texts as they were reduced before.

    What its tables are, and which rows were asked for, is worked out once: a value is tried in one
    detail after the other.
    """

    def __init__(self, names: Mapping[str, float]) -> None:
        self._names = names
        self._detail = _LADDER[0]
        self._texts: dict[str, str] = {}
        self._tables: dict[int, RecordTable | None] = {}
        self._row_texts: dict[int, str] = {}
        self._stays: dict[int, dict[int, float]] = {}
        self._wanted_units: dict[int, list[int]] = {}
        self._firm_units: dict[int, list[int]] = {}

    def value(self, value: Json, detail: Detail, texts: dict[str, str]) -> Json:
        """The value; what is too much is replaced by its size."""
        self._detail, self._texts = detail, texts
        return self._show(value, 0)

    def _show(self, value: Json, depth: int) -> Json:
        if value.__class__ in _BARE:
            return value
        if isinstance(value, str):
            known = self._texts.get(value) if len(value) >= _LONG else None
            return _shorten(value, self._detail.letters) if known is None else known
        if not isinstance(value, (list, dict)) or not value:
            return value
        table = self._table(value)
        if table is not None:
            return self._show_table(table, value, depth)
        return self._list(value, depth) if isinstance(value, list) else self._object(value, depth)

    def _table(self, value: "list[Json] | JsonObject") -> RecordTable | None:
        if id(value) not in self._tables:
            self._tables[id(value)] = record_table(value)
        return self._tables[id(value)]

    def _show_table(self, table: RecordTable, value: Json, depth: int) -> Json:
        """The table with all its names; rows, or columns of texts, as many as the detail says."""
        detail = self._detail
        if depth >= detail.depth:
            names = f": {', '.join(table.columns)}" if table.columns else ""
            return f"[{len(table.units):,} records{names}]"
        chosen = self._choose_units(table)
        whole = len(chosen) == len(table.units)
        short = detail.ends_only and not whole
        if whole and table.filled < 1.0 and not table.grouped and isinstance(value, list):
            return [self._record(row, depth + 1) for row in value]
        if table.filled < _FILLED and not table.grouped and isinstance(value, list):
            return self._list_units(
                chosen, [*range(len(value))], lambda at: self._record(value[at], depth + 1), table
            )
        gone = self._left_out_columns(table)
        places = [at for at in range(len(table.columns)) if at not in gone | table.same]
        fields: JsonObject = {COLUMNS: [table.columns[at] for at in places]}
        if table.same:
            fields["same in all"] = {
                table.columns[at]: self._show(table.rows[0][at], depth + 1)
                for at in sorted(table.same)
            }
        if gone:
            fields["left out columns"] = [_full_name(table, at) for at in sorted(gone)]

        are_bare = table.bare.issuperset(places)

        def cells(row: int) -> Json:
            if are_bare:
                return [*map(table.rows[row].__getitem__, places)]
            return [
                cell
                if cell.__class__ in _BARE or (isinstance(cell, str) and len(cell) <= _WHOLE)
                else self._show(cell, depth + 1)
                for cell in map(table.rows[row].__getitem__, places)
            ]

        def group(at: int) -> Json:
            members = table.units[at]
            ends = [row for row in members if row in table.ends] if short else []
            rows: list[Json] = [cells(row) for row in ends or members]
            if ends and len(ends) < len(members):
                rows.append(f"… {len(members) - len(ends):,} more …")
            return rows

        units = [*range(len(table.units))]
        listed = self._list_units(chosen, units, group if table.grouped else cells, table)
        fields[GROUPS if table.grouped else ROWS] = listed
        return fields

    def _list_units(
        self,
        chosen: set[int],
        units: list[int],
        show: Callable[[int], Json],
        table: RecordTable,
    ) -> list[Json]:
        """The chosen units in their order, and for each gap how many are missing.

        The longest gap says what the first of them are called, as far as there is room.
        """
        parts = [[*part] for _, part in groupby(units, key=chosen.__contains__)]
        gaps = [part for part in parts if part[0] not in chosen]
        longest = max(gaps, key=len, default=list[int]())
        out: list[Json] = []
        for part in parts:
            if part[0] in chosen:
                out += map(show, part)
            else:
                names = self._name_rows(table, part) if part is longest else ""
                out.append(f"… {len(part):,} more{names} …")
        return out

    def _name_rows(self, table: RecordTable, gap: list[int]) -> str:
        """What the rows that are left out are called, as far as there is room."""
        column = next((at for at, name in enumerate(table.columns) if _is_telling(name)), None)
        if column is None or self._detail.rows < 2:
            return ""
        rows = (row for at in gap[: self._detail.rows * 4] for row in table.units[at])
        cells = [cell for row in rows if isinstance(cell := table.rows[row][column], str | int)]
        names = [name for name in map(str, cells) if len(name) <= 24]
        missing = sum(map(len, map(table.units.__getitem__, gap)))
        more = ", …" if len(names) < missing else ""
        return f": {', '.join(names)}{more}" if names else ""

    def _choose_units(self, table: RecordTable) -> set[int]:
        """The units that are shown: those that stay, those that were asked for, and the ends."""
        detail, size = self._detail, len(table.units)
        firm = self._firm_units.get(id(table))
        if firm is None:
            firm = sorted(table.stays, key=lambda at: (-table.stays[at], at))
            self._firm_units[id(table)] = firm
        if detail.ends_only:
            firm = [at for at in firm if table.stays[at] >= END]
        asked = self._wanted_units.get(id(table))
        if asked is None:
            asked = self._wanted_units[id(table)] = self._find_asked(table)
        if not detail.all_stay:
            first = [0] if size else []
            return {*[*asked[: max(1, detail.rows // 2)], *firm, *first][: max(1, detail.rows)]}
        last = detail.rows // 3
        ends = {*range(min(size, detail.rows - last)), *range(max(0, size - last), size)}
        chosen = {*firm, *asked[: max(2, detail.rows)], *ends, *([0] if size else [])}
        # a short table stays whole, and a mark would take the place of a single row
        return {*range(size)} if size <= max(SHORT_TABLE, len(chosen) + 1) else chosen

    def _left_out_columns(self, table: RecordTable) -> set[int]:
        """The columns that go: those of texts and lists, unless somebody asked for them."""
        if not self._detail.lean or len(table.columns) <= 3:
            return set()
        gone = {
            at
            for at, name in enumerate(table.columns)
            if at not in table.needed
            and at not in table.same
            and name.rpartition(".")[2].lower() not in self._names
        }
        return gone if len(gone) < len(table.columns) - len(table.same) else set()

    def _record(self, record: Json, depth: int) -> Json:
        """A record of its own: all its fields, their texts cut."""
        if not isinstance(record, dict):
            return self._show(record, depth)
        return {name: self._show(inner, depth + 1) for name, inner in record.items()}

    def _list(self, rows: list[Json], depth: int) -> Json:
        """The ends of a list, and of a list of lines, such as a log, those that stay."""
        detail, size = self._detail, len(rows)
        if depth >= detail.depth:
            return f"[{size:,} items]"
        show = self._record if detail.all_stay else self._show
        most = max(1, detail.rows if depth < 2 else detail.rows // 2)
        last = most // 3
        stay = self._find_staying(rows)
        firm = sorted(stay, key=lambda at: (-stay[at], at))
        chosen = {*range(min(size, most - last)), *range(max(0, size - last), size)}
        chosen |= {*(firm if detail.all_stay else firm[:most])}
        if size <= len(chosen) + 1:
            return [show(row, depth + 1) for row in rows]
        items: list[Json] = []
        for here, part in groupby(range(size), key=chosen.__contains__):
            places = [*part]
            if here:
                items += [show(rows[at], depth + 1) for at in places]
            else:
                items.append(f"… {len(places):,} more{_range(rows)} …")
        return items

    def _find_staying(self, rows: list[Json]) -> dict[int, float]:
        """How firmly items of a list stay: a text of each kind, and what tells of a failure."""
        known = self._stays.get(id(rows))
        if known is None:
            cells = [[row if isinstance(row, str) else self._text(row)] for row in rows]
            numbers = all(isinstance(row, int | float) for row in rows)
            known = self._stays[id(rows)] = {} if numbers else rows_that_stay(cells)
        return known

    def _object(self, fields: JsonObject, depth: int) -> Json:
        most = self._detail.keys
        if depth >= self._detail.depth:
            return f"{{{len(fields):,} keys}}"
        keys, omitted = list(fields), list[str]()
        if len(keys) > most + 1:
            ranked = sorted(
                keys,
                key=lambda key: (
                    key.lower() not in self._names,
                    not _is_telling(key),
                    _is_large(fields[key]),
                ),
            )
            stay = set(ranked[:most])
            omitted = [key for key in keys if key not in stay]
            keys = [key for key in keys if key in stay]
        letters = max(60, self._detail.letters)
        fields_kept: JsonObject = {
            _shorten(key, letters): self._show(fields[key], depth + 1) for key in keys
        }
        if omitted:
            named = ", ".join(_shorten(key, 40) for key in omitted[:most])
            fields_kept["…"] = f"{len(omitted):,} more keys: {named}" + (
                ", …" if len(omitted) > most else ""
            )
        return fields_kept

    def _find_asked(self, table: RecordTable) -> list[int]:
        """Units that say a telling name that was asked for, and that few others say."""
        telling = [name for name, weight in self._names.items() if weight >= _ASKED]
        if not telling:
            return []
        texts = [
            " ".join(self._text(table.rows[row]) for row in unit).lower()
            for unit in table.units[:2_000]
        ]
        rare = [name for name in telling if 0 < sum(name in text for text in texts) <= _RARE]
        return [at for at, text in enumerate(texts) if any(name in text for name in rare)]

    def _text(self, row: Json) -> str:
        text = self._row_texts.get(id(row))
        if text is None:
            text = self._row_texts[id(row)] = compact(row)[:2_000]
        return text


def _full_name(table: RecordTable, column: int) -> str:
    """The name of a column, and of the fields of the records in it."""
    inner = next((row[column] for row in table.rows if row[column]), None)
    below = record_table(inner) if isinstance(inner, list) else None
    name = table.columns[column]
    return f"{name}[{', '.join(below.columns)}]" if below is not None else name


def _range(rows: list[Json]) -> str:
    """From which to which number the items of a list go."""
    numbers = [one for one in rows if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) < len(rows):
        return ""
    return f", from {min(numbers)} to {max(numbers)}"


_BARE = frozenset((int, float, bool, type(None)))
"""What is shown as it is: most cells of most tables."""


_SPARE = 16
"""So many letters more than it may have leave a text whole: the words on the rest take as many."""

_WHOLE = min(detail.letters for detail in _LADDER) + _SPARE
"""A text of so few letters is whole in any detail."""


def _shorten(text: str, letters: int) -> str:
    if len(text) <= letters + _SPARE:
        return text
    head = head_of(text, letters)
    return f"{head}… (+{len(text) - len(head):,} characters)"


@lru_cache(maxsize=2048)
def _is_telling(key: str) -> bool:
    return _TELLING.search(key[:80]) is not None


def _is_large(value: Json) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > 120)
