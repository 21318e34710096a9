"""Search results and test output: what is found keeps its place, what failed stays whole.

A search gives a path and a line number for each hit. Where not all hits have room, those that fit
what was asked stay as they are, and of the others the path and the line number. A run of tests
says much about what went well; the sections about what failed are what it is read for. Of a list of
files, those of the tests come last.
"""

import re
from collections.abc import Sequence

from weft.digest.asked import Asked, fits
from weft.digest.cut import Count
from weft.digest.lines import Line
from weft.digest.windows import SIGNATURE
from weft.late import late_pattern

_LEAST = 6
"""Fewer hits are no list."""

_SHARES = (0.85, 0.6, 0.35, 0.15, 0.0)
"""Which share of the room hits as they are may take, until the others can all be named."""

FAILED = 30.0
"""The weight of a line of a section about something that failed."""

OUTSIDE = 2.0
"""The weight that a path gains in a list of paths if it leads to no test."""

_HIT = late_pattern(r"(?:([^\s:][^:\n]{0,300}):)?(?:Line )?(\d{1,7})[:-]")
_SECTION = late_pattern(
    r"_{3,} .+ _{3,}$|(?:FAIL|ERROR): \S|--- FAIL: |---- .+ stdout ----$|\s{0,4}\u25cf \S"
)
_RULE = late_pattern(r"={5,}|-{20,}$|(?:ok|PASS|FAIL)\s+\S+\s+[\d.(]|failures:$|test result: ")
_PATH = late_pattern(r"(?:\.{0,2}/)?(?:[\w.@+-]+/)+[\w.@+-]+/?$")
_TESTS = late_pattern(r"(?:^|[/_.-])tests?(?:[/_.-]|$)")
_TRACE = late_pattern(r"Traceback \(most recent call last\)")


def choose_hits(text: str, asked: Asked, *, limit: int, count: Count) -> str | None:
    """The hits of a search within so many tokens; None if the text is no such list.

    Hits that define something are whole, then those that fit. The others are named by path and
    line, in the order of the text.
    """
    lines = text.split("\n")
    hits = {place: match for place, line in enumerate(lines) if (match := _HIT.match(line[:400]))}
    # six of ten lines: a search may print headings and summaries too
    if len(hits) < _LEAST or len(hits) * 10 < len([line for line in lines if line.strip()]) * 6:
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
    if len(paths) < _LEAST or len(paths) * 10 < len(lines) * 6:
        return list(lines)
    return [
        line._replace(weight=line.weight + OUTSIDE)
        if place in paths and _TESTS.search(line.text[:400]) is None
        else line
        for place, line in enumerate(lines)
    ]
