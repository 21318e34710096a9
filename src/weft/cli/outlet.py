"""Keep stdout for the answer: what tools print meanwhile goes to stderr."""

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO


@contextmanager
def answers_only() -> Generator[TextIO]:
    """The real stdout; while this lasts, whatever else is printed goes to stderr.

    Not only Python's prints: a program that a tool starts writes to the descriptor itself.
    """
    printed = sys.stdout
    printed.flush()
    try:
        number, aside = printed.fileno(), sys.stderr.fileno()
    except (io.UnsupportedOperation, AttributeError):  # captured: there is no descriptor
        with redirect_stdout(sys.stderr):
            yield printed
        return
    ours = os.dup(number)
    answer = open(  # noqa: SIM115  # closed below, where its reader may be gone
        ours, "w", encoding=printed.encoding, errors="backslashreplace"
    )
    os.dup2(aside, number)
    try:
        with redirect_stdout(sys.stderr):
            yield answer
    finally:
        with suppress(OSError):
            printed.flush()
        os.dup2(ours, number)
        with suppress(BrokenPipeError):
            answer.close()
