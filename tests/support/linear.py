"""Whether work grows with its size and no faster, on any machine, however busy that is."""

import sys
import time
from collections.abc import Callable
from types import FrameType


def check_linear(work: Callable[[str], object], text: str) -> None:
    """Raise AssertionError where the whole text takes far more than four of its quarters.

    What is counted are the seconds of this thread. The one that is added is for what is too
    quick to be measured: what is quadratic shows as soon as it takes a few seconds.
    """
    quarter, whole = (seconds(work, text[: len(text) // parts]) for parts in (4, 1))
    assert whole < 10 * quarter + 1, f"{whole:.1f} s, and a quarter takes {quarter:.1f} s"


def seconds(work: Callable[[str], object], text: str) -> float:
    """How long this thread works on the text."""
    begun = time.thread_time()
    work(text)
    return time.thread_time() - begun


def check_calls(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """Raise AssertionError where four times the size takes far more than four times the calls.

    `work` prepares something of a size, and gives back what is to be counted: the functions that
    are called. That is the same on every machine.
    """
    work(size // 4)()  # what is done once in a process is done, whichever test comes first
    quarter, whole = calls(work(size // 4)), calls(work(size))
    assert whole < 6 * quarter, f"{whole} calls, and a quarter takes {quarter}"


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
