"""Events in short lines: who said what, what was called, what came back, what went wrong."""

from collections.abc import Iterator
from typing import NamedTuple, TextIO

from weft.compiler.text import clip, safe
from weft.compiler.transfer import TRANSFER
from weft.content import FunctionCall, FunctionResponse
from weft.session import Event
from weft.session.waiting import CONFIRMATION, INPUT
from weft.values import compact


class Marks(NamedTuple):
    """What a line begins with, by what it tells."""

    call: str = "→"
    result: str = "←"
    transfer: str = "⇒"
    agent: str = "·"
    problem: str = "!"


PLAIN = Marks("->", "<-", "=>", "-", "!")
"""Marks for a stream that can carry ASCII only."""


def marks_for(stream: TextIO) -> Marks:
    """The marks that a stream can carry."""
    try:
        "".join(Marks()).encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return Marks()


def call_words(call: FunctionCall) -> str:
    """A call as it would be written: `get_weather(city="Oslo")`."""
    arguments = ", ".join(f"{key}={compact(value)}" for key, value in (call.args or {}).items())
    return f"{call.name}({arguments})"


def result_words(result: FunctionResponse) -> str:
    """A result as compact JSON; one that is only a value, as that value."""
    response = result.response or {}
    return compact(response["result"] if set(response) == {"result"} else response)


def error_words(event: Event) -> str:
    """An error event in one line: `code: message`, and behind it a hint, if there is one."""
    message, _, hint = (event.error_message or "").partition("\n  hint: ")
    code = "" if event.error_code == "error" else f"{event.error_code}: "
    line = f"{code}{' '.join(message.split())}"
    return safe(f"{line}\n  hint: {' '.join(hint.split())}" if hint else line)


def deeds(event: Event, marks: Marks, width: int) -> Iterator[str]:
    """What an event does beside speaking, a line each: calls, results, a hand-over, a refusal."""
    for call in event.calls:
        if call.name not in (TRANSFER, CONFIRMATION, INPUT):
            yield _line(marks.call, call_words(call), width)
    shown = [one for one in event.results if one.name not in (TRANSFER, CONFIRMATION)]
    for result in shown:
        name = f"{result.name}: " if len(shown) > 1 else ""
        yield _line(marks.result, f"{name}{result_words(result)}", width)
    for result in event.results:
        if result.name == TRANSFER and "error" in (result.response or {}):
            yield _line(marks.problem, result_words(result), width)
        elif result.name == CONFIRMATION:
            yes = (result.response or {}).get("confirmed") is True
            yield _line(marks.result, "yes" if yes else "no", width)
    if event.actions.transfer_to_agent:
        yield _line(marks.transfer, event.actions.transfer_to_agent, width)
    why = rejected(event)
    if why:
        yield _line(marks.problem, f"the answer was rejected: {why}", width)


def rejected(event: Event) -> str:
    """Why an answer was returned to its model, if it was."""
    weft = (event.custom_metadata or {}).get("weft")
    why = weft.get("rejected") if isinstance(weft, dict) else None
    return why if isinstance(why, str) else ""


def _line(mark: str, text: str, width: int) -> str:
    return clip(safe(f"{mark} {' '.join(text.split())}"), width)
