"""Tables as programs print them: records of JSON at any depth, delimited, marked and aligned."""

import csv
import io
import json
import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from weft.values import Json, JsonObject

CITIES = ["Oslo", "Bergen", "Lyon", "Graz", "Porto", "Turku", "Malm\u00f6", "Gent", "Brno", "Cork"]
NOTES = ["window seat", "two bags", "late check-in", "quiet room", "paid by card", "with breakfast"]


def records(chance: random.Random, size: int) -> list[JsonObject]:
    """Offers with all that is compared: a price, a duration, a score, a date, a number of seats."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {
            "offer_id": f"OF{chance.randrange(10_000, 99_999)}",
            "city": chance.choice(CITIES),
            "price": round(chance.uniform(20, 900), 2),
            "duration_minutes": chance.randrange(30, 1_400),
            "score": round(chance.uniform(1, 5), 1),
            "date": (day + timedelta(days=chance.randrange(700))).strftime("%Y-%m-%d"),
            "seats_left": chance.randrange(0, 180),
            "status": "open" if chance.random() < 0.97 else "waitlist",
            "note": " ".join(chance.choices(NOTES, k=3)),
        }
        for _ in range(size)
    ]


COMPARED = ("price", "duration_minutes", "score", "date", "seats_left")


class TableStyle(NamedTuple):
    """How records are written, and how a cell is spelled."""

    name: str
    write: Callable[[list[JsonObject]], Json]


def _nested(rows: list[JsonObject]) -> Json:
    return {"meta": {"took": 12}, "data": {"answer": [{"page": 1, "offers": rows}]}}


def _inner_objects(rows: list[JsonObject]) -> Json:
    return {
        "offers": [
            {**{key: row[key] for key in row if key not in ("price", "score")},
             "terms": {"price": row["price"], "score": row["score"]}}
            for row in rows
        ]
    }  # fmt: skip


def _pairs(rows: list[JsonObject]) -> Json:
    return [rows[at : at + 2] for at in range(0, len(rows), 2)]


def _csv(delimiter: str) -> Callable[[list[JsonObject]], Json]:
    def write(rows: list[JsonObject]) -> Json:
        out = io.StringIO()
        writer = csv.DictWriter(out, [*rows[0]], delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    return write


def _markdown(rows: list[JsonObject]) -> Json:
    head = "| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0])
    return "\n".join([head, *("| " + " | ".join(map(str, row.values())) + " |" for row in rows)])


def _aligned(rows: list[JsonObject]) -> Json:
    names = [name for name in rows[0] if name != "note"]
    cells = [
        [name.upper() for name in names],
        *([str(row[name]) for name in names] for row in rows),
    ]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _ruled(rows: list[JsonObject]) -> Json:
    """As `psql` prints it."""
    names = [*rows[0]]
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    lines = [
        " " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells
    ]
    ruler = "-" + "-+-".join("-" * width for width in widths) + "-"
    return "\n".join([lines[0], ruler, *lines[1:], f"({len(rows)} rows)"])


def _numbered(rows: list[JsonObject]) -> Json:
    text = _csv(",")(rows)
    assert isinstance(text, str)
    return "\n".join(f"{n:6}\u2192{line}" for n, line in enumerate(text.splitlines(), 1))


def _wrapped(rows: list[JsonObject]) -> Json:
    return f"<returncode>0</returncode>\n<output>\n{_aligned(rows)}\n</output>"


def _wrapped_json(rows: list[JsonObject]) -> Json:
    return f"Exit code: 0\nWall time: 2 seconds\nOutput:\n{json.dumps(rows, indent=2)}\n"


def _boxed(rows: list[JsonObject]) -> Json:
    text = _ruled(rows)
    assert isinstance(text, str)
    return (
        text.replace("|", "\u2502")
        .replace("-+-", "\u2500\u253c\u2500")
        .replace("--", "\u2500\u2500")
    )


def _grid(rows: list[JsonObject]) -> Json:
    """A ruler below each row, as reStructuredText has it."""
    text = _ruled(rows)
    assert isinstance(text, str)
    head, ruler, *below = text.splitlines()[:-1]
    return "\n".join([head, ruler, *(line for row in below for line in (row, ruler))])


def _page(rows: list[JsonObject]) -> Json:
    def line(cells: Iterable[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join([line(rows[0], "th"), *(line(row.values(), "td") for row in rows)])
    return f"<html><body><h1>Offers</h1><table>{body}</table><p>Have a good trip.</p></body></html>"


def _two_tables(rows: list[JsonObject]) -> Json:
    today, later = _markdown(rows[: len(rows) // 2]), _markdown(rows[len(rows) // 2 :])
    return f"# Today\n\nAll of them.\n\n{today}\n\n# Later\n\n{later}"


STYLES = (
    TableStyle("a list", lambda rows: [*rows]),
    TableStyle("a list in a text", lambda rows: json.dumps(rows, indent=2)),
    TableStyle("deep in an answer", _nested),
    TableStyle("objects in records", _inner_objects),
    TableStyle("lists of records", _pairs),
    TableStyle("JSON lines", lambda rows: "\n".join(map(json.dumps, rows))),
    TableStyle("CSV", _csv(",")),
    TableStyle("TSV", _csv("\t")),
    TableStyle("semicolons", _csv(";")),
    TableStyle("Markdown", _markdown),
    TableStyle("aligned", _aligned),
    TableStyle("psql", _ruled),
    TableStyle("CSV with numbered lines", _numbered),
    TableStyle("aligned, in the words of a harness", _wrapped),
    TableStyle("JSON, in the words of a harness", _wrapped_json),
    TableStyle("by name", lambda rows: {f"row {at}": row for at, row in enumerate(rows)}),
    TableStyle(
        "columns", lambda rows: {"data": {key: [row[key] for row in rows] for key in rows[0]}}
    ),
    TableStyle("rows without names", lambda rows: [[*rows[0]], *([*row.values()] for row in rows)]),
    TableStyle("as Python prints it", repr),
    TableStyle("JSON in quotes", lambda rows: json.dumps(json.dumps(rows))),
    TableStyle("in a box", _boxed),
    TableStyle("in a grid", _grid),
    TableStyle("a page", _page),
    TableStyle("two of Markdown", _two_tables),
)

PS = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"
KUBECTL = "NAME                              READY   STATUS             RESTARTS   AGE"
DF = "Filesystem      Size  Used Avail Use% Mounted on"


def ps_aux(chance: random.Random, size: int) -> str:
    """What `ps aux` prints."""
    rows = [PS]
    for _ in range(size):
        command = chance.choice(["/usr/sbin/sshd -D", "python3 -m app --port 80", "[kworker/0:1]"])
        rows.append(
            f"{chance.choice(['root', 'www-data', 'app']):<8} {chance.randrange(1, 99_999):7}"
            f" {chance.uniform(0, 99):4.1f} {chance.uniform(0, 30):4.1f}"
            f" {chance.randrange(9_999_999):6} {chance.randrange(999_999):5} ?        Ss  "
            f" {chance.randrange(24):02}:{chance.randrange(60):02}"
            f" {chance.randrange(60):3}:{chance.randrange(60):02} {command}"
        )
    return "\n".join(rows)


def kubectl_pods(chance: random.Random, size: int) -> str:
    """What `kubectl get pods` prints."""
    rows = [KUBECTL]
    for _ in range(size):
        name = f"{chance.choice(['api', 'web', 'jobs'])}-{chance.getrandbits(36):09x}"
        restarts, days = chance.randrange(40), chance.randrange(1, 400)
        rows.append(f"{name:<34}1/1     Running            {restarts:<11}{days}d")
    rows[chance.randrange(1, len(rows))] = (
        "jobs-0badc0ffe                    0/1     CrashLoopBackOff   977        3m12s"
    )
    return "\n".join(rows)


def ls_long(chance: random.Random, size: int) -> str:
    """What `ls -l` prints."""
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    rows = [f"total {chance.randrange(900, 9_000)}"]
    for at in range(size):
        rows.append(
            f"-rw-r--r-- {chance.randrange(1, 9)} app  staff {chance.randrange(1, 9_999_999):>9}"
            f" {chance.choice(months)} {chance.randrange(1, 28):2}"
            f" {chance.randrange(24):02}:{chance.randrange(60):02} file_{at}.dat"
        )
    return "\n".join(rows)


def df_human(chance: random.Random, size: int) -> str:
    """What `df -h` prints."""
    rows = [DF]
    for at in range(size):
        used = chance.randrange(1, 99)
        rows.append(
            f"/dev/sd{chr(97 + at % 26)}{at}       {chance.randrange(50, 99)}G   {used}G  "
            f" {chance.randrange(1, 50)}G  {used:>2}% /mnt/disk{at}"
        )
    return "\n".join(rows)
