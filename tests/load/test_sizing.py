"""The simulation behind docs/sizing.md runs, and gives the same table for the same seed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows(*options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "bench/sizing.py", *options],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if line.startswith("| ")][1:]


def test_the_table_of_the_page_is_what_the_simulation_prints() -> None:
    page = (ROOT / "docs/sizing.md").read_text("utf-8")
    printed = rows("--worker-ms", "7", "--server-ms", "3", "--rate", "100", "--rate", "1000")
    assert len(printed) == 2
    assert all(row in page for row in printed)


def test_more_databases_are_less_busy() -> None:
    few, many = (
        rows("--rate", "2000", "--databases", count, "--seconds", "1")[0].split(" | ")
        for count in ("1", "4")
    )
    share = [float(cells[2].split("%")[0]) for cells in (few, many)]
    assert share[1] < share[0] / 3
