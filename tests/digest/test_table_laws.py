"""A table keeps its header whole, and the rows at both ends of every column that is compared."""

import json
import random
import re

import pytest

from tests.digest.table_styles import (
    COMPARED,
    DF,
    KUBECTL,
    PS,
    STYLES,
    TableStyle,
    df_human,
    kubectl_pods,
    ls_long,
    ps_aux,
    records,
)
from weft import C
from weft.content import call_part, result_part
from weft.digest import reduced
from weft.digest.tables import amount_of
from weft.digest.texts import value_in
from weft.recordings import recording_of
from weft.replay.replay import replay, requests_of, uses_of
from weft.testing import make_session
from weft.tokens import counter_for
from weft.values import Json, JsonObject, compact

COUNT = counter_for("gpt-5").count
NAMES = [style.name for style in STYLES]


def digest(value: Json, limit: int = 300, *, most: int | None = 1_000_000) -> str:
    short = reduced(value, limit_tokens=limit, count=COUNT, most=most).value
    return short if isinstance(short, str) else compact(short)


def ends(rows: list[JsonObject]) -> list[tuple[str, JsonObject]]:
    """For each column that is compared the first row with its least and with its most."""
    found: list[tuple[str, JsonObject]] = []
    for column in COMPARED:
        values = [str(row[column]) if column == "date" else row[column] for row in rows]
        found.append((column, rows[values.index(min(values))]))  # type: ignore[type-var]
        found.append((column, rows[values.index(max(values))]))  # type: ignore[type-var]
    return found


def cell_lines(short: str) -> list[str]:
    """The rows of a digest, each as one text, whatever they are written in."""
    return [*re.findall(r"\[[^\[\]]*\]", short), *short.splitlines()]


@pytest.mark.parametrize("style", STYLES, ids=NAMES)
@pytest.mark.parametrize("size", [40, 150])
def test_the_header_is_whole_and_both_ends_of_what_is_compared_stay(
    style: TableStyle, size: int
) -> None:
    for seed in range(3):
        rows = records(random.Random(f"{style.name} {seed} {size}"), size)
        whole = style.write(rows)
        short = digest(whole)
        lowered = short.lower()
        for name in rows[0]:
            assert name in lowered or (name == "note" and style.name.startswith("aligned"))
        lines = cell_lines(short)
        for column, row in ends(rows):
            mine = [line for line in lines if str(row["offer_id"]) in line]
            assert mine, (column, row)
            # every number by which rows are compared stands in each row that stays
            for name in COMPARED:
                assert any(str(row[name]) in line for line in mine)
        size_of_whole = COUNT(whole if isinstance(whole, str) else compact(whole))
        assert size == 40 or COUNT(short) < 0.6 * size_of_whole


@pytest.mark.parametrize("style", STYLES, ids=NAMES)
def test_each_row_that_stays_is_compared_by_all_its_numbers(style: TableStyle) -> None:
    rows = records(random.Random(style.name), 120)
    short = digest(style.write(rows))
    lines = cell_lines(short)
    shown = 0
    for row in rows:
        mine = [line for line in lines if str(row["offer_id"]) in line and "more" not in line]
        if mine:
            shown += 1
            for name in COMPARED:
                assert any(str(row[name]) in line for line in mine)
    assert 8 <= shown < len(rows)


@pytest.mark.parametrize("style", STYLES, ids=NAMES)
@pytest.mark.parametrize("limit", [150, 300])
def test_within_a_firm_limit_the_names_stay(style: TableStyle, limit: int) -> None:
    rows = records(random.Random(style.name), 90)
    short = digest(style.write(rows), limit, most=None)
    assert COUNT(short) <= limit
    missing = [name for name in rows[0] if name not in short.lower()]
    assert not missing or (missing == ["note"] and style.name.startswith("aligned"))


@pytest.mark.parametrize("style", STYLES, ids=NAMES)
def test_a_short_table_keeps_all_rows_and_a_rare_state_is_shown(style: TableStyle) -> None:
    rows = records(random.Random(style.name), 24)
    short = digest(style.write(rows))
    assert all(str(row["offer_id"]) in short for row in rows)
    many = records(random.Random(style.name), 200)
    for row in many:
        row["status"] = "open"
    many[133]["status"] = "suspended"
    assert "suspended" in digest(style.write(many))


@pytest.mark.parametrize("begin", ["- ", "*** {n}. row ***\n  "])
def test_records_with_a_line_for_each_field_stay_whole_at_both_ends(begin: str) -> None:
    rows = records(random.Random(begin), 120)
    text = "\n".join(
        begin.format(n=n) + "\n  ".join(f"{name}: {cell}" for name, cell in row.items())
        for n, row in enumerate(rows)
    )
    short = digest(text)
    for _, row in ends(rows):
        bare = re.sub(r" \(\+\d+ alike\)", "", short)
        assert "\n  ".join(f"{name}: {cell}" for name, cell in row.items()) in bare
    assert COUNT(short) < 0.5 * COUNT(text)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "text",
    ["['a\\d']", "{'n': 1" + "0" * 5_000 + "}", "['a', nan]", "('a' 'b')",
     "{'a': {1, 2}, (1, 2): 3}", "['\\ud800']", "['a'" + ", ['b'" * 500, '"[1, 2"'],
)  # fmt: skip
def test_what_only_looks_like_a_value_is_a_text(text: str) -> None:
    assert value_in(text) is None


def test_commands_print_tables() -> None:
    chance = random.Random(7)
    processes = ps_aux(chance, 150)
    short = digest(processes)
    assert short.startswith(PS)
    for column in (1, 2, 3, 4, 5):
        rows = [line.split(None, 10) for line in processes.splitlines()[1:]]
        most, least = (end(rows, key=lambda row: float(row[column])) for end in (max, min))
        assert most[1] in short
        assert least[1] in short
    pods = kubectl_pods(chance, 120)
    short = digest(pods)
    assert short.startswith(KUBECTL)
    assert "CrashLoopBackOff" in short
    files = ls_long(chance, 150)
    short = digest(files)
    assert short.startswith(files.splitlines()[0])
    by_size = sorted(files.splitlines()[1:], key=lambda line: int(line.split()[4]))
    assert by_size[0] in short
    assert by_size[-1] in short
    disks = df_human(chance, 80)
    short = digest(disks)
    assert short.startswith(DF)
    by_use = sorted(disks.splitlines()[1:], key=lambda line: int(line.split()[4].strip("%")))
    assert by_use[-1].split()[4] in short


def test_a_column_of_long_texts_costs_no_number_its_place() -> None:
    rows = [f'{n},"{"a long story " * 60}",{(n * 37) % 991},{n % 7}' for n in range(60)]
    short = digest("\n".join(["id,story,price,stars", *rows]), 400)
    dearest = max(range(60), key=lambda n: (n * 37) % 991)
    assert short.startswith("id,story,price,stars")
    (line,) = (one for one in short.splitlines() if one.startswith(f"{dearest}, "))
    assert line.endswith(f"{(dearest * 37) % 991}, {dearest % 7}")


def test_what_all_rows_share_is_said_once_and_columns_go_whole() -> None:
    rows: list[JsonObject] = [
        {
            "id": n,
            "currency": "EUR",
            "price": n * 3,
            "story": "words and words " * 9,
            "tags": ["a"] * 9,
        }
        for n in range(80)
    ]
    table = json.loads(digest({"found": [*rows]}, 100))["found"]
    assert table["same in all"]["currency"] == "EUR"
    named = {*table["columns"], *table["same in all"], *table["left out columns"]}
    assert named == {*rows[0]}
    assert all(len(row) == len(table["columns"]) for row in table["rows"] if isinstance(row, list))


def test_records_that_differ_keep_their_own_fields() -> None:
    rows: list[Json] = [{"kind": "a", "one": n, f"field_{n}": n} for n in range(60)]
    rows[41] = {"kind": "b", "error": "refused", "code": 17}
    short = digest([*rows])
    assert '"error":"refused","code":17' in short
    assert '"kind":"a","one":0,"field_0":0' in short


def test_names_of_records_inside_records_stay_when_their_column_goes() -> None:
    rows: list[Json] = [
        {"order": n, "total": n * 2, "items": [{"sku": f"S{n}{k}", "qty": k} for k in range(4)]}
        for n in range(90)
    ]
    short = digest({"orders": rows}, 120)
    for name in ("order", "total", "items", "sku", "qty"):
        assert name in short


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("9", "10"), ("$1,050.00", "$2,000"), ("450ms", "1.2s"), ("59s", "2m"), ("23h", "3d4h"),
        ("900K", "1.5M"), ("800MiB", "1GiB"), ("7%", "12%"), ("2023-12-31", "2024-01-01"),
        ("2024-01-01 09:00", "2024-01-01 10:30"), ("09:59:59", "10:00:00"), ("-5", "3"),
        ("Jan 02 2024", "Mar 01 2024"), ("31/12/2023", "01/01/2024"), ("11:59 AM", "1:00 PM"),
        ("(12)", "12"), ("EUR 9", "EUR 10"), ("1e3", "2e3"),
    ],
)  # fmt: skip
def test_amounts_of_all_kinds_are_compared(less: str, more: str) -> None:
    low, high = amount_of(less), amount_of(more)
    assert low is not None
    assert high is not None
    assert low < high


@pytest.mark.parametrize("text", ["HAT112", "10.0.0.1", "1/1", "v1.2.3", "3fa4c1d2e5f6", "", "May"])
def test_names_are_no_amounts(text: str) -> None:
    assert amount_of(text) is None


@pytest.mark.parametrize("policy", [C.auto(), C.default().compact()], ids=["auto", "compact"])
@pytest.mark.parametrize("style", STYLES, ids=NAMES)
def test_requests_show_the_names_and_the_ends(policy: object, style: TableStyle) -> None:
    rows = records(random.Random(style.name), 60)
    whole = style.write(rows)
    response: JsonObject = whole if isinstance(whole, dict) else {"result": whole}
    session = make_session(
        ("user", "Which is the cheapest?"),
        ("bot", [call_part("find_offers", {}, id="c1")]),
        ("bot", [result_part("find_offers", response, id="c1")]),
        ("bot", "That one."),
    )
    recording = recording_of(session)
    *_, (_, _, last) = requests_of(recording, policy)  # type: ignore[arg-type]
    sent = "\n".join(
        compact(block.response) for item in last.prompt.items for block in item.blocks
        if hasattr(block, "response")
    )  # fmt: skip
    for name in rows[0]:
        assert name in sent.lower() or (name == "note" and style.name.startswith("aligned"))
    # two tables have twice as many ends, more than what would have been left whole
    firm = style.name == "two of Markdown" and policy != C.auto()
    for _, row in ends(rows) if not firm else ():
        assert str(row["offer_id"]) in sent
    trial = replay(recording, policy, uses=uses_of(session.events))  # type: ignore[arg-type]
    assert trial.restorable == 1.0
