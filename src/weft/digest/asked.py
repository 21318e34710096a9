"""What a call asked for: its words, its line numbers and its own lines, from the log alone.

A long result is read for something. What that is stands before it: in the arguments of the call,
in what the agent said with it, a little in what it said before, and in the user's question. Names
there make lines of the result matter that have them too. A command in words counts as arguments:
some agents write theirs as the last code block of what they say.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from weft.late import late_pattern

EARLIER, QUESTION = 0.3, 0.4
"""The weight of names that the agent said earlier, and of those in the user's question."""

_COMMONNESS = 0.7
"""A name that many lines have tells little: its weight is divided by their number to this power."""

_LETTERS = 20_000
"""How many letters of a long text are read."""

_SHORT = 400
"""In letters. A longer argument is a text, not a command."""

_MOST_LINES = 400
"""How many lines that a call carries are looked for in its result, at most."""

_NAME = late_pattern(r"[^\W\d]\w{2,}")
_MARKED = late_pattern(r"[a-z][A-Z]|[^\W_]_[^\W_]|[A-Za-z]\d")
_QUOTED = late_pattern(r"[`\"']([^`\"'\n]{2,60})[`\"']")
_FENCED = late_pattern(r"```[^\n]*\n(.*?)```|```(.*?)```", re.DOTALL)
_NUMBER = late_pattern(r"(?<![\w.])\d{1,7}(?![\w.])")
_SPAN = late_pattern(r"(?<![\w.])(\d{1,7})\s?[:,-]\s?(\d{1,7})(?![\w.])")

_COMMON = frozenset((
    "the", "and", "for", "that", "this", "with", "from", "into", "when", "where", "which",
    "what", "will", "would", "should", "could", "can", "may", "might", "must", "our", "your",
    "its", "their", "has", "have", "had", "are", "was", "were", "been", "being", "not", "but",
    "any", "all", "some", "there", "these", "those", "then", "than", "also", "only", "just",
    "now", "let", "lets", "use", "used", "using", "how", "why", "who", "see", "find", "first",
    "next", "need", "new", "one", "two", "out", "get", "got", "make", "made", "does", "did",
    "done", "def", "class", "self", "return", "import", "none", "true", "false", "line", "lines",
    "file", "files", "code", "method", "function", "issue",
))  # fmt: skip


class Asked(NamedTuple):
    """What a call asked for.

    `names` have a weight each, in lower case. `command` is its first line, or its short arguments.
    `numbers` stand in that, `span` is the first pair of them that looks like a range, and `lines`
    are the lines of text that it carries. `seen` are lines of the result before, which need not be
    said again.
    """

    names: Mapping[str, float] = {}
    command: str = ""
    numbers: tuple[int, ...] = ()
    span: tuple[int, int] | None = None
    lines: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()


NOTHING = Asked()


def asked_by(
    arguments: Iterable[str], words: str, *, earlier: Iterable[str] = (), question: str = ""
) -> Asked:
    """What a call asked for: its arguments, or the command in the agent's words, and all of them.

    `earlier` are things the agent said before, `question` is what the user wants.
    """
    texts = [one for one in arguments if one.strip()]
    command = "\n".join(texts) if texts else _command(words)
    head, *carried = command.split("\n")
    if texts:
        head = "\n".join(one for one in texts if "\n" not in one and len(one) <= _SHORT)
        carried = [line for one in texts if "\n" in one for line in one.split("\n")]
    weights = dict(names_of("\n".join((words, command))))
    for text, share in (*((one, EARLIER) for one in earlier), (question, QUESTION)):
        for name, weight in names_of(text).items():
            weights[name] = max(weights.get(name, 0.0), weight * share)
    numbers = tuple(dict.fromkeys(map(int, _NUMBER.findall(head))))
    match = _SPAN.search(head)
    span = (int(match[1]), int(match[2])) if match else None
    # an edit names its first and last line, in any spelling
    if span is None and len(numbers) == 2 and carried:
        span = (numbers[0], numbers[1])
    # "3-1" is no range
    if span is not None and span[0] > span[1]:
        span = None
    return Asked(weights, head, numbers, span, tuple(carried[:_MOST_LINES]))


def _command(words: str) -> str:
    """The command in what an agent says: its last code block, else its last line."""
    # from the end: the last block is the command
    blocks = _FENCED.findall(words[-_LETTERS:])
    if blocks:
        return str(blocks[-1][0] or blocks[-1][1]).strip("\n")
    return words.rstrip().rpartition("\n")[2]


@lru_cache(maxsize=4096)
def names_of(text: str) -> Mapping[str, float]:
    """The names of a text, in lower case, by how much each tells: an identifier, a quoted word."""
    text = text[:_LETTERS]
    quoted = {name.lower() for part in _QUOTED.findall(text) for name in _NAME.findall(part)}
    weights: dict[str, float] = {}
    for name in _NAME.findall(text):
        lowered = name.lower()
        if lowered in _COMMON:
            continue
        weight = 0.3 if len(name) >= 4 else 0.1
        if _MARKED.search(name) is not None:
            weight = 1.0
        elif lowered in quoted:
            weight = 0.8
        weights[lowered] = max(weights.get(lowered, 0.0), weight)
    return weights


def fits(lines: Iterable[str], asked: Asked) -> list[float]:
    """How well each line fits what was asked: the names it has, rare ones more."""
    if not asked.names:
        return [0.0 for _ in lines]
    names = [{name.lower() for name in _NAME.findall(line[:1_000])} for line in lines]
    times: dict[str, int] = {}
    for one in names:
        for name in one:
            if name in asked.names:
                times[name] = times.get(name, 0) + 1
    worth = {name: asked.names[name] / count**_COMMONNESS for name, count in times.items()}
    # sorted: a sum of floats depends on the order, and sets have none
    return [sum(worth.get(name, 0.0) for name in sorted(one)) for one in names]
