"""What later steps of a recording used of what was said or returned before: strings, and lines.

A string is used that looks like a name, a path or a number, was told to the agent, and comes up
in what it says or calls later. Lines are used by an edit: of the numbers that a command names, in
the newest result that shows them, or those that it quotes to be replaced.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.content import Part
from weft.digest.asked import NumberedWindow, asked_by, window_of
from weft.session import Event
from weft.values import Json, compact, handle_of, only_text


class EditedLines(NamedTuple):
    """The lines that an edit changed, as a result showed them, and the handle of that result."""

    lines: tuple[str, ...]
    handle: str


class Uses(NamedTuple):
    """By the place of a model's event in the log: the strings it used that it was told before.

    `at_once` are those of them that it had been told since its last word, and never before.
    `edits` are the lines that it changed.
    """

    by_event: dict[int, tuple[str, ...]]
    at_once: dict[int, frozenset[str]] = {}
    edits: dict[int, EditedLines] = {}

    @property
    def total(self) -> int:
        """How many uses there are."""
        return sum(map(len, self.by_event.values()))


def uses_of(events: Sequence[Event], instruction: str = "") -> Uses:
    """What each model event of a log used of what was said or returned before it.

    `instruction` and what the user says before the agent's first word are the task.
    """
    task, heard = [instruction], list[str]()
    coined: set[str] = set()
    uses: dict[int, tuple[str, ...]] = {}
    at_once: dict[int, frozenset[str]] = {}
    edits: dict[int, EditedLines] = {}
    results = _EditableResults()
    spoken, older = False, 0
    for index, event in enumerate(events):
        content = event.content
        parts = (content.parts or ()) if content is not None else ()
        if content is not None and content.role == "user":
            for part in parts:
                (heard if spoken or part.function_response else task).append(_part_text(part))
                results.add(part)
            continue
        quoted = strings_in("\n".join(map(_part_text, parts)))
        spoken = spoken or bool(parts)
        born = [one for one in quoted if one not in coined and not any(one in t for t in task)]
        used = tuple(one for one in born if any(one in text for text in heard))
        # the agent made it up: when it says it again, nothing of the log was used
        coined.update(one for one in born if one not in used)
        if used:
            uses[index] = used
            # what was told before the agent's last word
            known = heard[:older]
            at_once[index] = frozenset(
                one for one in used if not any(one in text for text in known)
            )
        edited = results.edited_by(parts)
        if edited is not None:
            edits[index] = edited
        older = len(heard)
    return Uses(uses, at_once, edits)


SHORTEST = 6
"""How many letters a string must have to be told from chance."""

_STRING = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@\-]*[A-Za-z0-9_]")

_TELLING = re.compile(r"[0-9_./@]|[a-z][A-Z]")
"""What tells a name, a path or a number from a plain word."""

_EDITS = re.compile(r"\s*(?:\w*edit|replace|change)\w*\b", re.IGNORECASE)
"""How a command begins that changes the lines it names."""

_QUOTES = ("old_str", "old_string", "old_text")
"""The arguments that quote the lines to be replaced."""


def strings_in(text: str) -> list[str]:
    """The strings of a text that look like a name, a path or a number, each once."""
    strings = dict.fromkeys(_STRING.findall(text))
    return [one for one in strings if len(one) >= SHORTEST and _TELLING.search(one)]


class _ShownWindow(NamedTuple):
    """A result that shows numbered lines, by their numbers, and its handle."""

    lines: dict[int, str]
    handle: str


class _EditableResults:
    """The results so far that an edit may be about."""

    def __init__(self) -> None:
        self._windows: list[_ShownWindow] = []
        self._texts: list[tuple[str, str]] = []

    def add(self, part: Part) -> None:
        """Take in a result."""
        result = part.function_response
        if result is None or not result.response:
            return
        text, handle = spelled(result.response), handle_of(result.response)
        self._texts.append((text, handle))
        window = window_of(text)
        if window is not None:
            self._windows.append(_ShownWindow(_by_number(window), handle))

    def edited_by(self, parts: Iterable[Part]) -> EditedLines | None:
        """The lines that an answer changes, as the newest result with all of them has them."""
        words = "\n".join(part.text for part in parts if part.text)
        for part in parts:
            call = part.function_call
            arguments = {**(call.args or {})} if call is not None else {}
            # words beside a call are no command of their own
            if call is None and any(one.function_call for one in parts):
                continue
            quote = next((arguments[name] for name in _QUOTES if arguments.get(name)), None)
            if isinstance(quote, str):
                return self._quoted(quote)
            texts = [one if isinstance(one, str) else compact(one) for one in arguments.values()]
            named = call.name if call is not None else ""
            asked = asked_by(texts, words)
            if asked.span is not None and _EDITS.match(f"{named if texts else ''} {asked.command}"):
                return self._numbered(*asked.span)
        return None

    def _numbered(self, first: int, last: int) -> EditedLines | None:
        numbers = range(first, last + 1)
        for window in reversed(self._windows):
            if all(number in window.lines for number in numbers):
                return EditedLines(tuple(window.lines[one] for one in numbers), window.handle)
        return None

    def _quoted(self, quote: str) -> EditedLines | None:
        wanted = quote.strip("\n").split("\n")
        for text, handle in reversed(self._texts):
            lines = text.split("\n")
            if all(any(line.endswith(one) for line in lines) for one in wanted):
                places = [next(line for line in lines if line.endswith(one)) for one in wanted]
                return EditedLines(tuple(places), handle)
        return None


def _by_number(window: NumberedWindow) -> dict[int, str]:
    return {number: window.lines[place] for place, number in window.numbers.items()}


def spelled(value: Json) -> str:
    """A value as text: the one text that it has, else its JSON."""
    text = only_text(value)
    return text if text is not None else compact(value)


def _part_text(part: Part) -> str:
    call, result = part.function_call, part.function_response
    if call is not None:
        return f"{call.name} {compact(call.args or {})}"
    if result is not None:
        return spelled(result.response or {})
    return part.text or ""
