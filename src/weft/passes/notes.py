"""What a note says of steps that were folded: a line for each, and the names in their results.

A step goes by its number, which is the place of its first event in the log. `recall` finds it by
that number, so nothing has to be kept besides the log. Names are what later steps need most: each
stands in the notes once, with the step that brought it first.
"""

import math
import operator
import re
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

from weft.digest.acts import find_action
from weft.digest.alike import trouble_in
from weft.digest.asked import window_of
from weft.digest.names import SHORTEST, short_values_in, telling_names
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    ResultBlock,
    TextBlock,
)
from weft.passes.env import is_spoken
from weft.passes.handles import sent_text
from weft.values import Json, compact

HEADING = (
    "[Folded steps: the number, what was called, and after -> names that its result holds."
    ' recall("#12") gets a step back, with lines= or query= a part of it.]'
)
"""What the first note begins with."""

MORE = "[More folded steps.]"
"""What every other note begins with."""

_CALL = 48
"""How many letters the line of a call has, roughly."""

_SPOKEN, _ANSWER, _TOLD = 400, 200, 200
"""How many letters stay of the user's words, of an answer, and of what another agent said."""

_TROUBLE = 160
"""How many letters stay of the line that says why a step failed."""

_LONGEST_NAME = 56

_VALUES = 10
"""How many short values of a result stand in a note at most."""

_ROOM = 15
"""How many letters the names of a result take at most, times the root of its own.

A short list of files is told whole. Of a long file most names are hardly ever said again, and those
that are stand near its beginning more often than near its end.
"""

_REASONS = frozenset(
    {"description", "explanation", "justification", "thought", "reason", "timeout", "timeout_ms"}
)
"""Arguments that say why something is called, or for how long, and not what."""

_PATH = re.compile(r"(?<![\w.:/\\@-])(?:[A-Za-z]:)?[\\/]?(?:[\w.@+-]+[\\/]){2,}[\w.@+-]+")


class ResultNames(NamedTuple):
    """What a result tells: names, short values, and how many letters its names may take."""

    room: float
    names: Sequence[str]
    values: Sequence[str]


class StepSummary(NamedTuple):
    """What a note may say of a step, whatever else is in the note: worked out once for a step."""

    line: str
    line_names: Sequence[str]
    results: Sequence[ResultNames]


StepRole = Literal["action", "result", ""]
"""What an item is to its neighbour: an action said in words, or what answers one."""


def summarize_step(item: Item, agent: str, role: StepRole = "") -> StepSummary:
    """What a note for an agent may say of an item."""
    if role == "result":
        line = f"#{item.position} result"
    elif role == "action":
        line = f"#{item.position} {clip(first_line(_action_of(item)), _CALL)}"
    else:
        line = _line_of(item, agent)
    return StepSummary(line, telling_names(line), [*map(_read_names, result_texts(item))])


@lru_cache(1_024)  # folds ask when a result is new, and notes when it goes
def result_names(text: str) -> Sequence[str]:
    """The names in a result."""
    return telling_names(text)


@lru_cache(1_024)  # other policies read the same results
def _read_names(text: str) -> ResultNames:
    # the numbers at the lines of a window would be nothing but a count
    values = short_values_in(text) if window_of(text) is None else []
    names = [*filter(None, map(_worth_telling, result_names(text)))]
    return ResultNames(_ROOM * math.sqrt(len(text)), names, values[:_VALUES])


class NoteDraft:
    """The note on some steps, as far as it is written; `known` names are not said again.

    Most notes are tried at several requests until one can be paid for, each time with a few steps
    more: what it says of the steps before is not worked out again.
    """

    def __init__(self, known: Container[str], *, first: bool) -> None:
        self._known = known
        self._heading = HEADING if first else MORE
        self._steps: list[StepSummary] = []
        self._lines: list[str] = []
        self._names: set[str] = set()

    def fork(self) -> "NoteDraft":
        """A copy to write on with."""
        draft = copy(self)
        draft._steps, draft._lines = self._steps[:], self._lines[:]
        draft._names = {*self._names}
        return draft

    def write(
        self, steps: Sequence[StepSummary], *, most: int = sys.maxsize, share: float = 1.0
    ) -> tuple[str, set[str]]:
        """The note and the names in it.

        One that has more than `most` letters is of no use, so it ends there. Of the names and
        values that it may have, it has a `share`.
        """
        if share < 1.0:
            return NoteDraft(self._known, first=self._heading == HEADING)._write(steps, most, share)
        same = sum(takewhile(bool, map(operator.is_, self._steps, steps)))
        if same < len(self._steps):
            self._steps, self._lines, self._names = [], [], set()
        return self._write(steps, most, share)

    def _write(self, steps: Sequence[StepSummary], most: int, share: float) -> tuple[str, set[str]]:
        size = len(self._heading) + sum(map(len, self._lines)) + len(self._lines)
        for step in steps[len(self._steps) :]:
            if size > most:
                break
            self._names.update(step.line_names)
            names = _new_names(step, self._known, self._names, share)
            line = f"{step.line} -> {' '.join(names)}" if names else step.line
            self._steps.append(step)
            self._lines.append(line)
            size += 1 + len(line)
        return "\n".join((self._heading, *self._lines)), {*self._names}


def _action_of(item: Item) -> str:
    """The action in an agent's words."""
    return next(
        (find_action(b.text) for b in reversed(item.blocks) if isinstance(b, TextBlock)), ""
    )


def merge_notes(notes: Sequence[str], *, letters: int) -> str:
    """One note for several: the newest lines without their names, and which steps came before."""
    lines = [line.partition(" -> ")[0] for note in notes for line in note.split("\n")[1:]]
    start = len(lines)
    while start and letters > len(lines[start - 1]):
        start -= 1
        letters -= len(lines[start]) + 1
    older = [re.match(r"#(\d+)", line) for line in lines[:start]]
    numbers = [match[1] for match in older if match is not None]
    if numbers:
        lines[:start] = [
            f"#{numbers[0]} to #{numbers[-1]} and between: only their numbers are left"
        ]
    return "\n".join((HEADING, *lines))


def _line_of(item: Item, agent: str) -> str:
    """One line for a step: who said what, or what was called, and why it failed."""
    number = f"#{item.position}"
    # others are told by name already, or will be
    if item.author not in (agent, "user", "") and item.kind != "foreign":
        number += f" [{item.author}]"
    words = " ".join(block.text for block in item.blocks if isinstance(block, TextBlock))
    media = " ".join(f"[{one.mime_type} {one.name}]".replace(" ]", "]") for one in _media_in(item))
    acts = [line for block in item.blocks if (line := _act_line(block))]
    if acts:
        text = " | ".join(acts)
        trouble = _trouble_in(item)
        return " ".join(filter(None, (number, shorten_paths(text), media, trouble)))
    if is_spoken(item):
        return " ".join(filter(None, (number, "user:", clip(words, _SPOKEN), media)))
    longest = _TOLD if item.kind == "foreign" else _ANSWER
    return " ".join(filter(None, (number, clip(words, longest), media)))


def _media_in(item: Item) -> Iterator[MediaBlock]:
    for block in item.blocks:
        if isinstance(block, MediaBlock):
            yield block
        elif isinstance(block, ResultBlock):
            yield from block.media


def _act_line(block: Block) -> str:
    """A call or code in a few words; nothing for other blocks."""
    if isinstance(block, CallBlock):
        line = block.name
        for text in _spelled_arguments(block):
            room = _CALL - len(line)
            if room < 12:
                return f"{line} …"
            line += f" {clip(text, room)}"
        return line
    if isinstance(block, CodeBlock):
        return clip(first_line(block.code), _CALL)
    return ""


def _spelled_arguments(block: CallBlock) -> Iterator[str]:
    """The arguments that say what was called for, each by its first line."""
    for name, value in block.args.items():
        if name in _REASONS or value is None or isinstance(value, bool) or value == "":
            continue
        yield first_line(value if isinstance(value, str) else compact(value))


def first_line(text: str) -> str:
    """The first line of a text, and how many more it has."""
    lines = text.strip().split("\n")
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return " ".join(lines[0].split()) + more


def _trouble_in(item: Item) -> str:
    """The line of its results that tells of a failure, if one of them failed."""
    for block in item.blocks:
        text = ""
        if isinstance(block, ResultBlock) and block.is_error:
            text = _error_text(block.response)
        elif isinstance(block, CodeResultBlock) and "OK" not in block.outcome:
            text = block.output
        if text:
            lines = text.strip().split("\n")
            telling = next((one for one in reversed(lines) if trouble_in(one)), lines[-1])
            return f"failed: {clip(telling, _TROUBLE)}"
    return ""


def _error_text(response: dict[str, Json]) -> str:
    error = response.get("error")
    return error if isinstance(error, str) else compact(error)


def _new_names(
    step: StepSummary, known: Container[str], note_names: set[str], share: float
) -> list[str]:
    """The names and short values in the results of a step that no note has yet, if they fit.

    They are added to the names of the note.
    """
    fresh: list[str] = []
    for result in step.results:
        room = result.room * share
        for name in result.names:
            if name in known or name in note_names:
                continue
            room -= len(name) + 1
            if room < 0:
                break
            note_names.add(name)
            fresh.append(name)
        values = result.values[: math.ceil(len(result.values) * share)]
        for value in values if room > 0 else ():
            if value not in known and value not in note_names:
                note_names.add(value)
                fresh.append(value)
    return fresh


# A step stands in several notes before one of them is taken, so what it tells is remembered.


def _worth_telling(name: str) -> str:
    """A name as a note tells it; nothing for one that hardly any later step says.

    Of a place in a file its path, and neither addresses nor what is long.
    """
    if len(name) > _LONGEST_NAME or "://" in name or "@" in name:
        return ""
    path = name.partition(":")[0]
    return path if path == name or (len(path) >= SHORTEST and "." in path) else ""


def result_texts(item: Item) -> Iterator[str]:
    """What an item tells the agent: results, and the words of others."""
    for block in item.blocks:
        if isinstance(block, ResultBlock):
            yield sent_text(block.response)
        elif isinstance(block, CodeResultBlock):
            yield block.output
        elif isinstance(block, TextBlock) and block.role == "user":
            yield block.text


def said_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """What an agent says and passes on in its own step."""
    for block in blocks:
        if isinstance(block, TextBlock) and block.role == "model":
            yield block.text
        elif isinstance(block, CallBlock):
            yield compact(block.args)
        elif isinstance(block, CodeBlock):
            yield block.code


def clip(text: str, longest: int) -> str:
    """The beginning of a text in one line; a mark says that it goes on."""
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"


def shorten_paths(text: str) -> str:
    """The text with long paths by their last two parts."""
    return _PATH.sub(lambda match: "/".join(re.split(r"[\\/]+", match[0])[-2:]), text)
