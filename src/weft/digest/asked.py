"""What a call asked for, and what of a long result answers it: lines of a file, hits, failures.

A long result is read for something. What that is stands before it: in the arguments of the call,
in what the agent said with it, a little in what it said before, and in the user's question. Names
there make lines of the result matter that have them too. A command in words counts as arguments:
some agents write theirs as the last code block of what they say.

Top to bottom: what was asked, windows of numbered lines, search results and test output.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from weft.digest.cut import Count
from weft.digest.lines import Line
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

_NAME = re.compile(r"[^\W\d]\w{2,}")
_MARKED = re.compile(r"[a-z][A-Z]|[^\W_]_[^\W_]|[A-Za-z]\d")
_QUOTED = re.compile(r"[`\"']([^`\"'\n]{2,60})[`\"']")
_FENCED = late_pattern(r"```[^\n]*\n(.*?)```|```(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])\d{1,7}(?![\w.])")
_SPAN = re.compile(r"(?<![\w.])(\d{1,7})\s?[:,-]\s?(\d{1,7})(?![\w.])")

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


class CallQuery(NamedTuple):
    """What a call asked for.

    `names` have a weight each, in lower case. `command` is its first line, or its short arguments.
    `numbers` stand in that, `span` is the first pair of them that looks like a range, and `lines`
    are the lines of text that it carries. `searches` says that it looks for a text in files. `seen`
    are lines of the result before, which need not be said again.
    """

    names: Mapping[str, float] = {}
    command: str = ""
    numbers: tuple[int, ...] = ()
    span: tuple[int, int] | None = None
    lines: tuple[str, ...] = ()
    searches: bool = False
    seen: frozenset[str] = frozenset()


NOTHING = CallQuery()


def read_query(
    arguments: Iterable[str],
    words: str,
    *,
    earlier: Iterable[str] = (),
    question: str = "",
    tool: str = "",
) -> CallQuery:
    """Read what a call asked for: its arguments, or the command in the agent's words.

    `earlier` are things the agent said before, `question` is what the user wants, and `tool` is
    what was called.
    """
    texts = [one for one in arguments if one.strip()]
    command = "\n".join(texts) if texts else _command(words)
    head, *carried = command.split("\n")
    if texts:
        head = "\n".join(one for one in texts if "\n" not in one and len(one) <= _SHORT)
        carried = [line for one in texts if "\n" in one for line in one.split("\n")]
    weights = dict(names_of("\n".join((words, command))))
    for text, share in (*((one, EARLIER) for one in earlier), (question, QUESTION)):
        shared = _names_by_share(text, share)
        both = [name for name in weights if name in shared]
        heavier = {name: max(weights[name], shared[name]) for name in both}
        weights = {**weights, **shared, **heavier}
    numbers = tuple(dict.fromkeys(map(int, _NUMBER.findall(head))))
    match = _SPAN.search(head)
    span = (int(match[1]), int(match[2])) if match else None
    # an edit names its first and last line, in any spelling
    if span is None and len(numbers) == 2 and carried:
        span = (numbers[0], numbers[1])
    # "3-1" is not a range
    if span is not None and span[0] > span[1]:
        span = None
    searches = _SEARCHING_TOOL.search(tool) is not None or _SEARCH.search(command[:_LETTERS])
    return CallQuery(weights, head, numbers, span, tuple(carried[:_MOST_LINES]), bool(searches))


_SEARCH = late_pattern(
    r"(?:^|[\s|;&(`$])(?:\S*/)?(?:[efz]?grep|rg|ag|ack|findstr|Select-String|search\w*|find_\w+)\b"
)
_SEARCHING_TOOL = late_pattern(r"(?i)grep|search|find|^rg$|lookup|references|symbol")


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


@lru_cache(maxsize=256)
def _names_by_share(text: str, share: float) -> Mapping[str, float]:
    """The names of a text that stands before many calls, with a share of their weights."""
    return {name: weight * share for name, weight in names_of(text).items()}


def fits(lines: Iterable[str], asked: CallQuery) -> list[float]:
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


# --- windows of numbered lines

# An editor's view of a file. What a window is opened for stands in the
# call: a line to go to, lines to change, names to look for. The lines around these stay, with
# their numbers, and so do the signatures in it. What has one of these names stays with its whole
# block, since agents read and change functions, not lines. A number that is missing says what was
# left out, so a gap takes a single mark.

GAP = "…"
"""What stands where lines are left out: their numbers are missing too."""

BEFORE, AFTER = 4, 84
"""How many lines before and after one that is gone to stay at most, if its block goes so far.

The numbers of this chapter were set on recorded coding runs: by what agents used at the next step,
and by what recalls of the rest cost. docs/replay.md says on which part of the runs.
"""

AROUND = 8
"""How many lines around a change, or around a line that fits, stay."""

BLOCK = 60
"""How many lines of a block stay whose first line fits."""

ROOM = 0.28
"""The share of the room that lines take because they fit what was asked; thrice in a short file."""

FITS = 0.5
"""The score from which on a line fits what was asked."""

DEFINES = 0.2
"""The weight that a name needs for its block to stay; a name of the question has enough."""

SIGNATURES = 20
"""How many signatures stay."""

LEAST_BEHIND = 12
"""How many lines after one that is gone to stay at least, however short its block is."""

_REACH = 120
"""How many lines above a window a block may begin that goes on in it."""

_HEADS = 3
"""How many lines the head of a block takes at most: decorators, and the lines of its signature."""

_TELLING = 4
"""In letters. Shorter lines stand everywhere, so they say nothing about a change."""

_MARK = 2
"""The tokens of a mark."""

_SHORT_LINE = 8
"""A line of so few letters takes no more than a mark."""

_LEAST_LINES = 8
"""Fewer lines are not a window."""

_LONG = 0.4
"""A window with at least this share of its file shows most of it."""

_NUMBERED = re.compile(r"\s*(\d{1,7})(?:[:|\t\u2192]| \||  )")
SIGNATURE = late_pattern(
    r"\s*(?:export |default |public |private |protected |static |final |abstract |pub )*"
    r"(?:async )?(?:def|class|function|func|fn|interface|struct|enum|trait|impl|module)\b"
    r"(?:\s+(?:\([^()\n]{0,80}\)\s*)?(\w+))?"
)
"""The first line of something that is defined, and its name."""

_TOTAL = late_pattern(r"\((\d{1,7}) lines total\)|of (\d{1,7}) lines")

_AROUND = late_pattern(r"\(\d{1,7} (?:more lines|lines (?:above|below|more|total))")


class NumberedWindow(NamedTuple):
    """The lines of a text. Of those with a number, by place: the number, and the text after it."""

    lines: list[str]
    numbers: dict[int, int]
    bodies: dict[int, str]

    def between(self, first: int, last: int) -> list[int]:
        """The places of the lines with these numbers."""
        return [place for place, number in self.numbers.items() if first <= number <= last]


def tells_around(window: NumberedWindow) -> bool:
    """Whether a window says in its first or last lines how much of its file lies around it."""
    ends = (*window.lines[:3], *window.lines[-6:])
    return any(_AROUND.search(line[:400]) is not None for line in ends)


@lru_cache(maxsize=32)
def window_of(text: str) -> NumberedWindow | None:
    """A text as a window: many of its lines are numbered, one after the other; None for others."""
    lines = text.split("\n")
    numbers: dict[int, int] = {}
    bodies: dict[int, str] = {}
    for place, line in enumerate(lines):
        match = _NUMBERED.match(line[:400])
        if match is not None:
            numbers[place] = int(match[1])
            bodies[place] = line[match.end() :]
    if len(numbers) < _LEAST_LINES or len(numbers) * 10 < len(lines) * 4:
        return None
    following = sum(numbers.get(place - 1) == number - 1 for place, number in numbers.items())
    # seven of ten follow each other: a list of hits has numbers too, with gaps
    return NumberedWindow(lines, numbers, bodies) if following * 10 >= len(numbers) * 7 else None


def choose_window(
    window: NumberedWindow, asked: CallQuery, *, limit: int, count: Count
) -> str | None:
    """The lines of a window that matter within a number of tokens, a mark in each gap.

    None where nothing in it is what was asked for, and nothing has a signature.

    Lines without a number stay: they say which file it is, or what went wrong. Where the call
    changed lines, those around the change stay. Else it is what was gone to, what goes on from the
    result before, what fits the words and the signatures, in this order, as far as there is room.
    """
    chosen = _PlaceSelection(window, limit, count)
    first = min(window.numbers)
    chosen.add(
        place
        for place, line in enumerate(window.lines)
        if place not in window.numbers
        and line.strip()
        and (place < first or line not in asked.seen)
    )
    changed = _find_changed(window, asked)
    if changed is not None:
        low, high = changed
        chosen.add(
            place
            for place, number in window.numbers.items()
            if low - AROUND <= number <= high + AROUND
        )
        return chosen.text()
    size = sum(chosen.add(_places_around(window, number)) for number in asked.numbers)
    size += chosen.add(_find_continued(window, asked))
    signatures = {
        place: match[1]
        for place, body in window.bodies.items()
        if (match := SIGNATURE.match(body)) is not None
    }
    # who opens a short file wants most of it
    room = int(limit * ROOM) * (3 if _shows_most(window) else 1)
    size += _add_fitting(window, signatures, asked, chosen, room)
    size += chosen.add([*signatures][:SIGNATURES])
    return chosen.text() if size else None


class _PlaceSelection:
    """The places that are chosen, as far as there is room."""

    def __init__(self, window: NumberedWindow, limit: int, count: Count) -> None:
        self._lines = window.lines
        self._room = limit
        self._count = count
        self._places: set[int] = set()

    def add(self, places: Iterable[int]) -> int:
        """Choose these as well, in their order, as far as there is room; the tokens they take."""
        spent = 0
        for place in places:
            if place in self._places:
                continue
            size = self._count(self._lines[place]) + 1
            # the first is taken whatever it costs: an empty digest says nothing
            if self._places and size + _MARK > self._room:
                break
            self._places.add(place)
            self._room -= size
            spent += size
        return spent

    def text(self) -> str:
        """The chosen lines in their order; what takes no more than a mark stands in its gap."""
        rows: list[str] = []
        last = -1
        for place in sorted(self._places):
            if place == last + 2 and len(self._lines[last + 1]) <= _SHORT_LINE:
                rows.append(self._lines[last + 1])
            elif place > last + 1:
                rows.append(GAP)
            rows.append(self._lines[place])
            last = place
        return "\n".join([*rows, GAP] if last < len(self._lines) - 1 else rows)


def _find_changed(window: NumberedWindow, asked: CallQuery) -> tuple[int, int] | None:
    """The first and the last number of the lines that the call changed; None if it changed none.

    It names them as a range, and how many lines it carries says where they end. Or it carries
    lines that stand in the window.
    """
    if asked.span is not None and asked.lines:
        low, high = asked.span
        return low, max(high, low + len(asked.lines) - 1)
    own = {line.strip() for line in asked.lines if len(line.strip()) >= _TELLING}
    if not own:
        return None
    places = [place for place, body in window.bodies.items() if body.strip() in own]
    # most of the lines are not in this window: the change is elsewhere
    if len(places) * 2 < len(own):
        return None
    numbers = [window.numbers[place] for place in places]
    return min(numbers), max(numbers)


def _places_around(window: NumberedWindow, number: int) -> list[int]:
    """The places around a line that was gone to: to the end of the block that it is in."""
    start = next((place for place, one in window.numbers.items() if one == number), None)
    if start is None:
        return []
    end = start + AFTER
    head = _head_of(window, start)
    if head is not None:
        end = min(end, max(start + LEAST_BEHIND, _block_end(window, head, end)))
    around = (*range(start, end + 1), *range(start - 1, start - BEFORE - 1, -1))
    return [place for place in around if place in window.bodies]


def _head_of(window: NumberedWindow, start: int) -> int | None:
    """Where the block begins that a line is in, or is about to begin; None if that is unknown."""
    for place in range(start, start + _HEADS):
        if SIGNATURE.match(window.bodies.get(place, "")):
            return place
    depth = _depth_at(window, start)
    for place in range(start - 1, -1, -1):
        body = window.bodies.get(place, "")
        if SIGNATURE.match(body) and _depth(body) < depth:
            return place if _block_end(window, place, start + 1) > start else None
    return None


def _find_continued(window: NumberedWindow, asked: CallQuery) -> list[int]:
    """The places of the rest of a block that began in the result before, if it was asked for.

    Who scrolls on to see more of a function reads on: its name stands above the window.
    """
    first = min(window.numbers)
    number = window.numbers[first]
    above: dict[int, str] = {}
    for line in asked.seen if not asked.numbers else ():
        match = _NUMBERED.match(line[:400])
        if match is not None and number - _REACH <= int(match[1]) < number:
            above[int(match[1])] = line[match.end() :]
    depth = _depth_at(window, first)
    for one in sorted(above, reverse=True):
        body = above[one]
        match = SIGNATURE.match(body)
        if match is not None and _depth(body) < depth:
            if not _is_asked_for(match[1], asked):
                return []
            end = _end_of(window, first, first + BLOCK, _depth(body))
            return [place for place in range(first, end) if place in window.bodies]
    return []


def _is_asked_for(name: str | None, asked: CallQuery) -> bool:
    """Whether somebody asked for what has this name."""
    return name is not None and asked.names.get(name.lower(), 0.0) >= DEFINES


def _block_end(window: NumberedWindow, start: int, most: int) -> int:
    """Where the block ends that begins at a place: at the next line that is not deeper."""
    return _end_of(window, start + _HEADS, most, _depth(window.bodies[start]))


def _end_of(window: NumberedWindow, start: int, most: int, depth: int) -> int:
    """The place of the first line from `start` on that is not deeper; `most` if there is none."""
    for place in range(start, most):
        body = window.bodies.get(place, "")
        if body.strip() and _depth(body) <= depth:
            return place
    return most


def _depth(body: str) -> int:
    return len(body) - len(body.lstrip())


def _depth_at(window: NumberedWindow, start: int) -> int:
    """How deep a line is; a blank line is as deep as the next line with text."""
    bodies = (window.bodies.get(place, "") for place in range(start, start + BLOCK))
    return next((_depth(body) for body in bodies if body.strip()), 0)


def _add_fitting(
    window: NumberedWindow,
    signatures: Mapping[int, str | None],
    asked: CallQuery,
    chosen: _PlaceSelection,
    room: int,
) -> int:
    """Choose lines that fit, the best first, with those around; a signature with its block.

    What is defined under a name that was asked for fits, however common its other words are.
    """
    scores = fits((window.bodies.get(place, "") for place in range(len(window.lines))), asked)
    fitting = {place for place in window.bodies if scores[place] >= FITS}
    fitting.update(place for place, name in signatures.items() if _is_asked_for(name, asked))
    whole = room
    for place in sorted(fitting, key=lambda at: (-scores[at], at)):
        if room <= 0:
            break
        around = {*range(place - AROUND, place + AROUND + 1)}
        if place in signatures:
            around.update(range(place, _block_end(window, place, place + BLOCK)))
        room -= chosen.add(at for at in sorted(around) if at in window.bodies)
    return whole - room


def shows_all(window: NumberedWindow) -> bool:
    """Whether the whole file stands in the window: who opens a short file reads it."""
    total = _total(window)
    return 0 < total <= len(window.numbers)


def _shows_most(window: NumberedWindow) -> bool:
    """Whether most of its file stands in the window."""
    return 0 < _total(window) * _LONG <= len(window.numbers)


def _total(window: NumberedWindow) -> int:
    """How many lines the file has, as far as what stands above the window says so; else 0."""
    first = min(window.numbers)
    match = _TOTAL.search("\n".join(window.lines[: first + 1])[:1_000])
    return int(match[1] or match[2]) if match else 0


# --- search results and test output

# A search gives a path and a line number for each hit. Where not
# all hits have room, those that fit what was asked stay as they are, and of the others the path
# and the line number. A run of tests says much about what went well; the sections about what
# failed are what it is read for. Of a list of files, those of the tests come last.

_LEAST_HITS = 6
"""Fewer hits are not a list."""

_SHARES = (0.85, 0.6, 0.35, 0.15, 0.0)
"""Which share of the room hits as they are may take, until the others can all be named."""

FAILED = 30.0
"""The weight of a line of a section about something that failed."""

OUTSIDE = 2.0
"""The weight that a path gains in a list of paths if it leads to no test."""

_NAME_OF_FILE = r"(?:[A-Za-z]:)?[^\s:|\"'<>\[\]()]*[^\W\d][^\s:|\"'<>\[\]()]*"
_HIT = re.compile(rf"(?:({_NAME_OF_FILE}?)[:-])?(?:Line )?(\d{{1,7}})(?::(?!\d\d:)|-)")
_NAMED = late_pattern(r"[\w-]+\.[A-Za-z]\w{0,9}\b|[\w.-]+[/\\][\w.-]")
"""Somewhere a file is named."""
_SECTION = re.compile(
    r"_{3,} .+ _{3,}$|(?:FAIL|ERROR): \S|--- FAIL: |---- .+ stdout ----$|\s{0,4}\u25cf \S"
)
_RULE = late_pattern(r"={5,}|-{20,}$|(?:ok|PASS|FAIL)\s+\S+\s+[\d.(]|failures:$|test result: ")
_PATH = re.compile(r"(?:\.{0,2}/)?(?:[\w.@+-]+/)+[\w.@+-]+/?$")
_TESTS = late_pattern(r"(?:^|[/_.-])tests?(?:[/_.-]|$)")
_TRACE = re.compile(r"Traceback \(most recent call last\)")


def choose_hits(text: str, asked: CallQuery, *, limit: int, count: Count) -> str | None:
    """The hits of a search within a number of tokens; None if the text is not such a list.

    Hits that define something are whole, then those that fit. The others are named by path and
    line, in the order of the text.
    """
    lines = text.split("\n")
    hits = _hits_in(lines, asked)
    if hits is None:
        return None
    scores = fits(lines, asked)
    defining = {
        place
        for place, match in hits.items()
        if SIGNATURE.match(lines[place][match.end() :][:400]) is not None
    }
    order = sorted(hits, key=lambda at: (at not in defining, -scores[at], at))
    for share in _SHARES:
        digest = _hits_shown(lines, hits, order, int(limit * share), limit, count)
        if digest is not None:
            return digest
    return None


def _hits_in(lines: list[str], asked: CallQuery) -> dict[int, re.Match[str]] | None:
    """The hits of a search by their places; None if nothing was searched, or found in this way.

    A hit has the name of its file, or the search or what stands around the hits has it. The
    numbers of its lines grow: those of a clock do not.
    """
    if not asked.searches:
        return None
    hits = {place: match for place, line in enumerate(lines) if (match := _HIT.match(line[:400]))}
    # six of ten lines: a search may print headings and summaries too
    if (
        len(hits) < _LEAST_HITS
        or len(hits) * 10 < len([line for line in lines if line.strip()]) * 6
    ):
        return None
    others = "\n".join(line[:400] for place, line in enumerate(lines) if place not in hits)
    if not all(match[1] for match in hits.values()) and not _NAMED.search(
        f"{asked.command}\n{others}"
    ):
        return None
    at: dict[str, int] = {}
    growing = 0
    for match in hits.values():
        number = int(match[2])
        growing += number > at.get(match[1] or "", -1)
        at[match[1] or ""] = number
    return hits if growing * 10 >= len(hits) * 8 else None


def _hits_shown(
    lines: list[str],
    hits: dict[int, re.Match[str]],
    order: list[int],
    room: int,
    limit: int,
    count: Count,
) -> str | None:
    """Hits of `room` tokens as they are, the others by their places; None if that exceeds `limit`.

    With no room for whole hits, as many places as fit are better than nothing.
    """
    last = not room
    chosen = {place for place, line in enumerate(lines) if place not in hits and line}
    for place in order:
        room -= count(lines[place]) + 1
        if room < 0:
            break
        chosen.add(place)
    named: dict[str, list[str]] = {}
    for place, match in hits.items():
        if place not in chosen:
            named.setdefault(match[1] or "", []).append(match[2])
    rows = [f"{path}:{','.join(at)}" if path else ",".join(at) for path, at in named.items()]
    whole = [lines[place] for place in sorted(chosen)]
    size = len(rows)
    while size >= 0:
        more = [f"… {len(rows) - size:,} more paths …"] if size < len(rows) else []
        digest = "\n".join([*whole, *(["also at:"] if size else []), *rows[:size], *more])
        if count(digest) <= limit:
            return digest
        if not last:
            return None
        # counting for each number of paths would take long
        size = size * 3 // 4 if size > 1 else size - 1
    return None


def with_failures(lines: Sequence[Line]) -> list[Line]:
    """The lines of a text, those of sections about something that failed with more weight.

    A line that a trace has again weighs no more than others: a recursion repeats a few of them.
    """
    weighed: list[Line] = []
    once: set[str] = set()
    failing, tracing = False, False
    for line in lines:
        text = line.text[:400]
        if _SECTION.match(text) is not None:
            failing, tracing = True, False
        elif _TRACE.search(text) is not None:
            tracing = True
        # a ruler ends the section, also that of the last failure
        elif failing and _RULE.match(text) is not None:
            failing = tracing = False
        inside = failing or (tracing and line.text not in once)
        once.add(line.text)
        weighed.append(line._replace(weight=max(line.weight, FAILED)) if inside else line)
        if tracing and text.strip() and not text[:1].isspace() and _TRACE.search(text) is None:
            tracing = False  # the line that names the error ends a trace
    return weighed


def with_paths(lines: Sequence[Line]) -> list[Line]:
    """The lines of a text; in a list of paths, those that lead to no test with more weight."""
    paths = {place for place, line in enumerate(lines) if _PATH.match(line.text[:400])}
    if len(paths) < _LEAST_HITS or len(paths) * 10 < len(lines) * 6:
        return list(lines)
    return [
        line._replace(weight=line.weight + OUTSIDE)
        if place in paths and _TESTS.search(line.text[:400]) is None
        else line
        for place, line in enumerate(lines)
    ]
