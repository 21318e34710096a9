"""A table of ratios, and the clock they are measured with."""

import gc
import os
import time
from collections.abc import Callable
from typing import TypeVar

Thing = TypeVar("Thing")


class Table:
    """Rows of (what, measured, baseline, ratio, target)."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: list[tuple[str, str, str, str, str]] = []
        self.missed = 0

    def add(
        self, what: str, value: float, baseline: str, against: float, target: float | None = None,
        *, at_least: bool = False,
    ) -> None:  # fmt: skip
        """A row: seconds, the baseline's seconds, and what their ratio should be."""
        ratio = against / value if at_least else value / against
        verdict = ""
        if target is not None:
            met = ratio >= target if at_least else ratio <= target
            self.missed += not met
            verdict = f"{'>=' if at_least else '<='} {target:g}x {'ok' if met else 'MISSED'}"
        word = "faster" if at_least else ""
        self.rows.append(
            (
                what,
                duration(value),
                f"{baseline} {duration(against)}",
                f"{ratio:.2f}x {word}",
                verdict,
            )
        )

    def note(self, what: str, text: str) -> None:
        """A row that has no ratio."""
        self.rows.append((what, text, "", "", ""))

    def __str__(self) -> str:
        head = ("", "measured", "baseline", "ratio", "target")
        rows = [head, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([f"== {self.title}", *lines])


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def race(
    action: Callable[[Thing], object], things: list[Thing], baseline: Callable[[], object]
) -> tuple[float, float]:
    """The least times of an action, each on a fresh thing, and of a baseline run in between.

    Taking turns keeps a busy or throttled machine from favouring one of them.
    """
    ours: list[float] = []
    theirs: list[float] = []
    for thing in things:
        ours.append(best(lambda thing=thing: action(thing), rounds=1))
        theirs.append(best(baseline, rounds=1))
    return min(ours), min(theirs)


def best(action: Callable[[], object], rounds: int = 7) -> float:
    """The least CPU time of several rounds, without the collector's pauses between them."""
    least = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        action()
        least = min(least, time.process_time() - start)
    return least


def installed() -> dict[str, str]:
    """The environment of a process in which Weft is as it is installed: with its bytecode kept.

    Other packages have theirs from pip. Weft runs from its source here, and where writing bytecode
    is turned off it would be compiled at every start.
    """
    return {key: held for key, held in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
