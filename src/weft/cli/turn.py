"""One run, shown while it lasts: how it ended is what the commands go on with."""

import sys
from collections.abc import Callable
from typing import NamedTuple

from weft.cli.load import blame
from weft.cli.waiting import Question, open_questions
from weft.cli.words import error_words
from weft.errors import WeftError
from weft.runtime import Result
from weft.runtime.running import Running
from weft.session import Event


class Ending(NamedTuple):
    """How a run ended: with a result, perhaps an error, perhaps waiting for somebody."""

    result: Result
    events: list[Event]
    error: Event | None
    cause: Exception | None
    questions: list[Question]


async def played(running: Running, show: Callable[[Event], None]) -> Ending:
    """Run to the end and show every event; what leaves no error event in the log is raised."""
    events: list[Event] = []
    cause: Exception | None = None
    iterator = aiter(running)
    try:
        while True:
            try:
                event = await anext(iterator)
            except StopAsyncIteration:
                break
            except Exception as raised:
                if not events or not events[-1].error_code:
                    raise
                cause = raised
                break
            show(event)
            if not event.partial:
                events.append(event)
    finally:  # cancelled, or nobody reads the answer any more
        await running.aclose()
    result = await running  # it has run: this only says how it ended
    error = result.error
    if error is None and events and (events[-1].interrupted or _is_open(events[-1])):
        error = events[-1]
    questions = open_questions(result.session)
    return Ending(result, events, error, cause, questions)


def _is_open(event: Event) -> bool:
    """Whether the run stopped because nobody knows what a call did."""
    return event.error_code == "unknown_outcome"


def tell_ending(ending: Ending) -> None:
    """What is wrong with what was asked, and `error: code: message`, each with its hint below."""
    for found in ending.result.diagnostics:
        print(found, file=sys.stderr)
    if ending.error is None:
        return
    line, _, hint = error_words(ending.error).partition("\n")
    cause = ending.cause
    if cause is not None and not isinstance(cause, WeftError):
        place = blame(cause)
        line = line if place.startswith("internal error") else f"{line} ({place})"
    print(f"error: {line}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
