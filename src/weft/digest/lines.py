"""Choose the lines of a text that say most within a number of tokens.

Some lines stay before all others: those that tell of a failure, and one of each kind, which says
how many more are like it. Every other line has a weight, which its shape gives, and names, which
count once: a line is worth what it adds to those already chosen. What is left out leaves a mark
that says how much it was, and the names in it that are likely to be typed again are listed at the
end, as far as there is room.
"""

import functools
import heapq
import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import NamedTuple

from weft.digest.alike import trouble_in
from weft.digest.cut import Count, boundary_before, cut_text

NAMED = 0.33
"""The share of the room that names of what was left out may take."""

_BESIDE = 1.3
"""How much more a line next to a chosen one is worth: it needs no mark of its own."""

_PIECE = 240
"""How many characters a piece of a long line has at most."""

_WHOLE = 600
"""How many characters a line that stays has at most to be left whole."""

_LINES = 3_000
"""How many lines are looked at. Of more, the ends, the heaviest and a sample are."""

_SHORT = 24
"""A gap of so few characters is shown: a mark would cost more."""

_HEAD = re.compile(r"[.;,>})\]]\s|\s")


FIRM = 10.0
"""From here on a line stays before all others, also where not all that stay have room."""


class Line(NamedTuple):
    """A line of a text, and how much it matters; `glued` to the one before it as its piece.

    Lines of one `kind` differ only in what varies; -1 stands for none. A line that `stays` is
    chosen before those that do not, the larger numbers first.
    """

    text: str
    weight: float = 0.0
    glued: bool = False
    kind: int = -1
    stays: float = 0.0


class ChosenLines(NamedTuple):
    """The text that is left, and how many lines of it are whole."""

    text: str
    size: int
    total: int


Mark = Callable[[int, int], str]
"""What stands for the lines from one to another, the first being 1."""


def hidden_lines(first: int, last: int) -> str:
    """The mark for lines."""
    return "…" if first == last else f"… lines {first}-{last} …"


def hidden_count(first: int, last: int) -> str:
    """The mark for lines that have numbers of their own."""
    return f"… {last - first + 1:,} lines …" if last > first else "…"


def hidden_text(first: int, last: int) -> str:
    """The mark for lines that nobody counts."""
    return "…"


def hidden_rows(first: int, last: int) -> str:
    """The mark for rows."""
    return f"… {last - first + 1:,} more rows …" if last > first else "… 1 more row …"


def bookends(lines: Sequence[str], *, first: int = 3, last: int = 3) -> list[float]:
    """Weights that let the ends of a text stay before anything else."""
    size = len(lines)
    weights = [0.0] * size
    for index in range(min(first, size)):
        weights[index] = 40.0 - index if index else 70.0
    for index in range(min(last, size)):
        weights[size - 1 - index] = max(weights[size - 1 - index], 30.0 - index if index else 50.0)
    return weights


def choose_lines(
    lines: Sequence[Line],
    *,
    limit: int,
    count: Count,
    mark: Mark = hidden_lines,
    named: float = NAMED,
    known: Container[str] = frozenset(),
    most: int | None = None,
) -> ChosenLines:
    """The lines that say most, in their order, within `limit` tokens.

    Where those that stay take more, they get up to `most`. Of the names that are left out, those
    that are `known` need not be listed.
    """
    pieces = _in_pieces(lines, limit)
    order = [at for at, piece in enumerate(pieces) if piece.stays]
    order.sort(key=lambda at: (-pieces[at].stays, at))
    # the second search begins where the first did, and where no name is listed it ends there
    count = functools.cache(count)

    @functools.cache
    def joined(size: int) -> str:
        return _render_pieces(pieces, sorted(order[:size]), mark)

    need = count(joined(len(order))) if order else 0
    if limit <= need <= (most or limit):  # there is room for nothing else
        return ChosenLines(joined(len(order)), _whole(pieces, order), len(lines))
    limit = max(limit, min(need, most or 0))
    if need > limit:  # not all can stay: those of a text where no line is like another stand back
        order = [at for at in order if pieces[at].stays >= FIRM]
        need = count(_render_pieces(pieces, sorted(order), mark)) if order else 0
    joined.cache_clear()
    room = max(limit - int(limit * named), min(need, limit))
    order += _in_order_of_worth(pieces, limit, order)

    size_kept = _most(len(order), lambda size: count(joined(size)) <= room)
    text = joined(size_kept)
    used = count(text)
    if size_kept < len(pieces):
        names = _left_out_names(pieces, set(order[:size_kept]), known)
        listed = _append_names(text, names, limit, count)
        # the names take less than their share
        if not listed.endswith("…") or not names:  # there is room for more lines
            spare = limit - (count(listed) - used)
            most = _most(len(order), lambda size: count(joined(size)) <= spare)
            size_kept = max(size_kept, most)
            names = _left_out_names(pieces, set(order[:size_kept]), known)
            listed = _append_names(joined(size_kept), names, limit, count)
        text = listed
    if not size_kept or count(text) > limit:
        whole = "\n".join(line.text for line in lines) if not size_kept else text
        text = cut_text(whole.strip(), limit=limit, count=count, keep="bookend")
    return ChosenLines(text, _whole(pieces, order[:size_kept]), len(lines))


def _most(size: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits, as far as halving finds it."""
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


class _LinePiece(NamedTuple):
    text: str
    weight: float
    line: int
    glued: bool
    kind: int
    stays: float


def _in_pieces(lines: Sequence[Line], limit: int) -> list[_LinePiece]:
    """The lines, very long ones in pieces that may be left out one by one."""
    pieces: list[_LinePiece] = []
    number = 0
    for line in lines:
        number += 0 if line.glued else 1
        size = _piece_size(line.text, limit)
        # of a line that stays nothing is left out, unless it is very long
        if len(line.text) <= 2 * size or (
            line.stays and len(line.text) <= _WHOLE and 2 * _rough(line.text) <= limit
        ):
            rest = line.glued, line.kind, line.stays
            pieces.append(_LinePiece(line.text, line.weight, number, *rest))
            continue
        at = 0
        while at < len(line.text):
            end = _piece_end(line.text, at, size)
            piece = line.text[at:end]
            # the weight is that of the line's beginning; what failed may be told further on
            weight, stays = (line.weight, line.stays) if at == 0 else (line.weight * 0.1, 0.0)
            if at and line.stays and trouble_in(piece):
                stays = line.stays
            pieces.append(_LinePiece(piece, weight, number, at > 0 or line.glued, line.kind, stays))
            at = end
    return pieces


def _piece_size(text: str, limit: int) -> int:
    """How many characters a piece may have, so that several fit."""
    return max(24, min(_PIECE, int(limit / 6 * (3.6 if text.isascii() else 0.8))))


def _piece_end(text: str, at: int, size: int) -> int:
    end = at + size
    if end >= len(text):
        return len(text)
    breaks = [gap.end() for gap in _HEAD.finditer(text, at + size // 2, end)]
    end = boundary_before(text, breaks[-1] if breaks else end)
    return end if end > at else min(len(text), at + size)


def _in_order_of_worth(
    pieces: Sequence[_LinePiece], limit: int, staying: Sequence[int]
) -> list[int]:
    """The pieces that come into question besides those that stay, what adds most first."""
    looked = _looked_at(pieces)
    names = {i: _line_gains(pieces[i].text) for i in looked}
    costs = {i: _rough(pieces[i].text) for i in looked}
    chosen = {*staying}
    seen = {name for i in staying if i in names for name in names[i][0]}
    lifted = {near for i in staying for near in (i - 1, i + 1) if near in names}

    def value(index: int) -> float:
        gains, new = names[index]
        if not seen.isdisjoint(gains):
            new = sum(gain for name, gain in gains.items() if name not in seen)
        total = (pieces[index].weight + new) / costs[index]
        return total * _BESIDE if index in lifted else total

    heap = [(-value(index), index) for index in looked]
    heapq.heapify(heap)
    order: list[int] = []
    spent = sum(costs.get(index, 0.0) for index in staying)
    # costs are rough: twice the limit is ordered, and tokens decide how much of it fits
    while heap and spent < 2 * limit + 16:
        before, index = heapq.heappop(heap)
        if index in chosen:
            continue
        now = -value(index)
        # its names were said by lines chosen since: it waits for its turn
        if now > before + 1e-9 and heap and now > heap[0][0]:
            heapq.heappush(heap, (now, index))
            continue
        chosen.add(index)
        order.append(index)
        spent += costs[index]
        seen.update(names[index][0])
        for near in (index - 1, index + 1):
            if near in names and near not in chosen and near not in lifted:
                lifted.add(near)
                heapq.heappush(heap, (-value(near), near))
    return order


def _looked_at(pieces: Sequence[_LinePiece]) -> list[int]:
    """The pieces that come into question; of very many the ends, the heavy ones and a sample."""
    spoken = [index for index, piece in enumerate(pieces) if piece.text.strip()]
    if len(spoken) <= _LINES:
        return spoken
    part = _LINES // 4
    heavy = sorted(spoken, key=lambda index: -pieces[index].weight)[:part]
    step = len(spoken) // part
    return sorted({*spoken[:part], *spoken[-part:], *heavy, *spoken[::step]})


def _rough(text: str) -> float:
    """About how many tokens a line has."""
    return 1.5 + (len(text) / 3.6 if text.isascii() else len(text.encode("utf-8", "replace")) / 3)


def _render_pieces(pieces: Sequence[_LinePiece], chosen: Sequence[int], mark: Mark) -> str:
    """The chosen pieces in their order, with a mark for every stretch that is left out.

    The first line that is shown of a kind says how many more there are.
    """
    chosen = _with_short_gaps(pieces, chosen)
    hidden = Counter(piece.kind for piece in pieces if not piece.glued)
    hidden.subtract(pieces[index].kind for index in chosen if not pieces[index].glued)
    kinds_in_view = {pieces[index].kind for index in chosen}
    out: list[str] = []
    last = -1
    for index in [*chosen, len(pieces)]:
        if index > last + 1:
            _leave_out(out, pieces, last + 1, index, mark, kinds_in_view)
        if index < len(pieces):
            piece = pieces[index]
            glued = piece.glued and last >= 0
            out.append(piece.text if glued or not out else "\n" + piece.text)
            more = hidden.pop(piece.kind, 0) if piece.kind >= 0 else 0
            if more:
                out.append(f" (+{more:,} alike)")
        last = index
    return "".join(out)


def _with_short_gaps(pieces: Sequence[_LinePiece], chosen: Sequence[int]) -> list[int]:
    """The chosen pieces, and those between them that take no more than a mark."""
    full: list[int] = []
    last = -1
    for index in [*chosen, len(pieces)]:
        if 0 < index - last - 1 <= _SHORT:
            gap = pieces[last + 1 : index]
            goes_on = index < len(pieces) and pieces[index].glued
            letters = sum(len(piece.text) for piece in gap)
            if letters <= _SHORT and not gap[0].glued and not goes_on:
                full += range(last + 1, index) if any(one.text.strip() for one in gap) else ()
        full.append(index)
        last = index
    return full[:-1]


def _leave_out(
    out: list[str],
    pieces: Sequence[_LinePiece],
    start: int,
    end: int,
    mark: Mark,
    kinds_in_view: Container[int],
) -> None:
    before, behind = pieces[start], pieces[end - 1]
    goes_on = end < len(pieces) and pieces[end].glued
    if before.glued and before.line == behind.line and (goes_on or end == len(pieces)):
        letters = sum(len(pieces[index].text) for index in range(start, end))
        out.append(f" …{letters:,} characters… ")
        return
    if not any(piece.text.strip() for piece in pieces[start:end]) and end - start <= _SHORT:
        return
    first = before.line + (1 if before.glued else 0)
    last = behind.line - (1 if goes_on else 0)
    if before.glued:
        out.append(" …")
    if first <= last:
        # what each of them is like is shown, and how many there are
        is_accounted = mark is hidden_count and all(
            piece.kind in kinds_in_view if piece.kind >= 0 else not piece.text.strip()
            for piece in pieces[start:end]
        )
        out.append(("\n" if out else "") + (hidden_text if is_accounted else mark)(first, last))
    if goes_on:
        out.append("\n… ")


def _left_out_names(
    pieces: Sequence[_LinePiece], chosen: set[int], known: Container[str]
) -> list[str]:
    """Names that occur only in what is left out, the likeliest to be typed again first."""
    visible_names = {name for index in chosen for name in _line_gains(pieces[index].text)[0]}
    times: dict[str, int] = {}
    for index in _looked_at(pieces):
        if index not in chosen:
            for name in _line_gains(pieces[index].text)[0]:
                if name not in visible_names and name not in known:
                    times[name] = times.get(name, 0) + 1
    visible_text = "\n".join(pieces[index].text for index in sorted(chosen))
    names = sorted(
        (name for name in times if worth(name) >= 1.0 and name not in visible_text),
        key=lambda name: -min(times[name], 3),
    )
    listed: list[str] = []
    # a name within a longer one is not listed again; comparing all would cost too much
    for name in sorted(names, key=len, reverse=True)[:400]:
        if not any(name in other for other in listed):
            listed.append(name)
    stay = set(listed)
    return [name for name in names if name in stay]


def _append_names(text: str, names: list[str], limit: int, count: Count) -> str:
    """The text, and after it as many names as fit; `…` where there are more."""

    def listed(size: int) -> str:
        if not size:
            return text
        more = ", …" if size < len(names) else ""
        return f"{text}\nalso: {', '.join(names[:size])}{more}"

    return listed(_most(min(len(names), limit), lambda size: count(listed(size)) <= limit))


def _whole(pieces: Sequence[_LinePiece], chosen: Sequence[int]) -> int:
    """How many lines are complete."""
    whole = set(chosen)
    missing = {
        piece.line
        for index, piece in enumerate(pieces)
        if index not in whole and piece.text.strip()
    }
    return len({piece.line for piece in pieces} - missing)


_NAME = re.compile(r"[/~.]{0,3}[A-Za-z0-9_]+(?:(?:::|[/.@-]{1,3})[A-Za-z0-9_]+)*")

_MARKED = re.compile(r"[a-z0-9][A-Z]|_|[A-Za-z][./:@-][A-Za-z_]|[A-Za-z]\d|\d[A-Za-z]")

_SHORTEST = 6

_LONGEST = 120


@lru_cache(maxsize=4096)
def names_in(text: str) -> tuple[str, ...]:
    """Paths, identifiers, numbers and long words, each once, in their order."""
    names = [name.strip(".:-") for name in dict.fromkeys(_NAME.findall(text))]
    return tuple(dict.fromkeys([one for one in names if _SHORTEST <= len(one) <= _LONGEST]))


@lru_cache(maxsize=16_384)
def _line_gains(line: str) -> tuple[dict[str, float], float]:
    """The names of a line with what each is worth, and what they are worth together.

    They are remembered: a text is digested in more than one size.
    """
    names = [name.strip(".:-") for name in _NAME.findall(line)]
    gains = {one: worth(one) for one in names if _SHORTEST <= len(one) <= _LONGEST}
    return gains, sum(gains.values())


@lru_cache(maxsize=8192)
def worth(name: str) -> float:
    """How likely a name is to be typed again: an identifier or a path more than a word."""
    if _MARKED.search(name) is not None:
        return 1.0
    return 0.5 if name.isdigit() else 0.3
