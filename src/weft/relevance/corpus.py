"""The best hits in a conversation that grows, without looking at every text.

Conversations repeat themselves: the same offer, the same form of a result, the same question about
another number. Texts that have the same words are scored once, as one shape. What a text gets from
its neighbours is worked out once for each row of shapes that stand side by side. The outcome is the
one of `rank.search`, to the last bit: the same sums are added up in the same order.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple, TypeAlias, cast

from weft.relevance.index import LENGTH, PREFIX_WORTH, SATURATION, Index, rarity_among, words
from weft.relevance.rank import BESIDE, BEST, leading_words, lent

_RARE = 2
"""How many texts hold a word on their own account; those behind them hold it as their shape does.

So texts that differ only in a number or a name nobody else uses are of one shape.
"""

_REPEATED = 4
"""A conversation repeats itself if it has so many times fewer rows than texts."""

_NEAR = len(BESIDE)

_ROUNDING = 1e-4
"""By how much two scores may differ that are rounded to the same."""

_BLANK = -1
"""The shape of what is not there: it is last in a list of scores, which end with a 0."""

Row: TypeAlias = tuple[int, int, int, int, int, int, int]
"""The shapes of a text, of the three before it and of the three behind it, in their order."""


class Corpus:
    """An index, and which of its texts are of one shape. It is read on as a conversation grows."""

    def __init__(self) -> None:
        self.index = Index()
        self.words_in_all = 0
        self.shapes: list[int] = []
        """The shape of each text."""
        self.members: list[list[int]] = []
        """The texts of each shape."""
        self.sizes: list[int] = []
        """How many words each shape has."""
        self.holders: dict[str, dict[int, list[int]]] = {}
        """The shapes that have a word, by how often they have it."""
        self.rare: dict[str, list[int]] = {}
        """The texts that have a word on their own account."""
        self.rows: list[Row] = []
        """The rows that there are."""
        self.rows_of: list[int] = []
        """The row of each text that has three behind it."""
        self.members_of_rows: list[list[int]] = []
        self._known_shapes: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}
        self._known_rows: dict[Row, int] = {}

    def __len__(self) -> int:
        return len(self.shapes)

    def add(self, text: str) -> None:
        """Read one more text."""
        number = len(self.shapes)
        self.index.add(text)
        size = self.index.sizes[number]
        self.words_in_all += size
        shared: list[tuple[str, int]] = []
        for word, often in self.index.counts[number].items():
            if len(self.index.holders(word)) <= _RARE:
                self.rare.setdefault(word, []).append(number)
            else:
                shared.append((word, often))
        shape = self._known_shapes.setdefault((size, tuple(shared)), len(self.members))
        if shape == len(self.members):
            self.members.append([])
            self.sizes.append(size)
            for word, often in shared:
                self.holders.setdefault(word, {}).setdefault(often, []).append(shape)
        self.members[shape].append(number)
        self.shapes.append(shape)
        if number >= _NEAR:
            self._add_row(number - _NEAR)

    def _add_row(self, number: int) -> None:
        first = number - _NEAR
        row = cast("Row", (*[_BLANK] * -min(first, 0), *self.shapes[max(first, 0) :]))
        known = self._known_rows.setdefault(row, len(self.rows))
        if known == len(self.rows):
            self.rows.append(row)
            self.members_of_rows.append([])
        self.members_of_rows[known].append(number)
        self.rows_of.append(known)


class BestHits(NamedTuple):
    """The texts that fit best, by number, and whether more blanks would not change that."""

    scores: dict[int, float]
    steady: bool


def best_hits(
    corpus: Corpus, query: str, *, blanks: int, top: int | None, least: float
) -> BestHits:
    """The `top` best texts, of two equal ones the newer; without a number, all from `least` on.

    `blanks` texts stand behind those of the corpus that are as if they were not there. Most of
    what it costs depends on how many shapes have a word of the query.
    """
    asked = dict.fromkeys(words(query))
    index = corpus.index
    scores = _weigh(corpus, [_Term(word, 1.0, index.begins_like(word)) for word in asked])
    hits = _Lent(corpus, scores, blanks)
    first = hits.first(BEST + _NEAR)
    steady = _is_steady(hits, first, len(corpus))
    leads = leading_words(
        asked,
        [
            (index.counts[number], index.sizes[number], value)
            for value, number in first[:BEST]
            if number < len(corpus)
        ],
        lambda word: rarity_among(len(corpus), len(index.holders(word))),
    )
    if leads:
        more = _weigh(corpus, [_Term(word, weight) for word, weight in leads])
        hits = _Lent(corpus, _sum(corpus, scores, more), blanks)
    return BestHits(hits.newest(top, least), steady)


class _Term(NamedTuple):
    """A word that is looked for, what it counts, and the words that begin like it."""

    word: str
    weight: float
    others: Sequence[str] = ()

    def times(self, counts: Counter[str]) -> float:
        """How often a text has it; one that has it not counts with those that begin like it."""
        exact = counts.get(self.word)
        if exact is not None:
            return exact
        often = 0.0
        for other in self.others:
            if other in counts:
                often += PREFIX_WORTH * counts[other]
        return often


class _Scores(NamedTuple):
    """What shapes have in common with a query, and a 0; and texts that differ from their shape."""

    shapes: list[float]
    texts: dict[int, float]


def _weigh(corpus: Corpus, terms: Sequence[_Term]) -> _Scores:
    """BM25, as `index.weigh` has it."""
    index, members = corpus.index, corpus.members
    usual = corpus.words_in_all / max(1, len(corpus)) or 1.0
    base, slope = SATURATION * (1 - LENGTH), SATURATION * LENGTH / usual
    scaled = [slope * size for size in corpus.sizes]
    shapes = [0.0] * (len(members) + 1)
    texts = {
        number: 0.0
        for term in terms
        for word in (term.word, *term.others)
        for number in corpus.rare.get(word, ())
    }
    apart = Counter(corpus.shapes[number] for number in texts)
    counts = [(number, index.counts[number]) for number in texts]
    for term in terms:
        near = _near(corpus, term) if term.others else {}
        own = [(number, often) for number, spoken in counts if (often := term.times(spoken))]
        holders = len(index.holders(term.word))
        holders += sum(len(members[shape]) - apart[shape] for shape in near)
        holders += sum(term.word not in index.counts[number] for number, _ in own)
        gain = term.weight * rarity_among(len(corpus), holders) * (1 + SATURATION)
        for often, exact in corpus.holders.get(term.word, {}).items():
            times, least = gain * often, often + base
            for shape in exact:
                shapes[shape] += times / (least + scaled[shape])
        for shape, often in near.items():
            shapes[shape] += gain * often / (often + base + scaled[shape])
        for number, often in own:
            texts[number] += gain * often / (often + base + slope * index.sizes[number])
    return _Scores(shapes, texts)


def _near(corpus: Corpus, term: _Term) -> dict[int, float]:
    """How often each shape that has not the word of a term has those that begin like it."""
    holders = corpus.holders
    near: dict[int, float] = {}
    for other in term.others:
        for often, shapes in holders.get(other, {}).items():
            for shape in shapes:
                near[shape] = near.get(shape, 0.0) + PREFIX_WORTH * often
    for exact in holders.get(term.word, {}).values() if near else ():
        for shape in exact:
            near.pop(shape, None)
    return near


def _sum(corpus: Corpus, one: _Scores, other: _Scores) -> _Scores:
    shapes = [score + more for score, more in zip(one.shapes, other.shapes, strict=True)]
    texts: dict[int, float] = {}
    for number in one.texts.keys() | other.texts.keys():
        shape = corpus.shapes[number]
        score = one.texts.get(number, one.shapes[shape])
        texts[number] = score + other.texts.get(number, other.shapes[shape])
    return _Scores(shapes, texts)


class _Lent:
    """Scores with what neighbours lend each other.

    In a conversation that repeats itself they are worked out for each row. Texts that differ from
    their shape, those near them, and the last ones have no row to be looked up by. Where nearly
    every row is another, all texts are gone through.
    """

    def __init__(self, corpus: Corpus, scores: _Scores, blanks: int) -> None:
        self._corpus = corpus
        self._scores = scores
        self._rows: list[tuple[float, int]] = []
        """What texts of a row have, for each row in which they have something."""
        length = len(corpus)
        end = length + min(blanks, _NEAR)
        if len(corpus.rows) * _REPEATED > length:
            own = [*map(scores.shapes.__getitem__, corpus.shapes), *[0.0] * (end - length)]
            for number, score in scores.texts.items():
                own[number] = score
            self._alone = dict(enumerate(lent(own)))
            self._apart: Counter[int] = Counter()
            return
        alone = {*range(max(0, length - _NEAR), end)}
        for number in scores.texts:
            alone.update(range(max(0, number - _NEAR), min(end, number + _NEAR + 1)))
        self._alone = {number: self.at(number) for number in alone}
        rows = corpus.rows_of
        self._apart = Counter(rows[number] for number in alone if number < len(rows))
        for row, shapes in enumerate(corpus.rows):
            value = _lend([scores.shapes[shape] for shape in shapes])
            if value > 0 and self._apart[row] < len(corpus.members_of_rows[row]):
                self._rows.append((value, row))

    def at(self, number: int) -> float:
        """What one text has; also one behind the last."""
        shapes, texts = self._corpus.shapes, self._scores.texts
        around: list[float] = []
        for place in range(number - _NEAR, number + _NEAR + 1):
            score = texts.get(place)
            if score is None:
                there = 0 <= place < len(shapes)
                score = self._scores.shapes[shapes[place]] if there else 0.0
            around.append(score)
        return _lend(around)

    def first(self, count: int) -> list[tuple[float, int]]:
        """The best of all, blanks as well, of two equal ones the older: what it has, its number."""
        hits = self._hits(self._floor(count), count)
        return sorted(hits, key=lambda hit: (-hit[0], hit[1]))[:count]

    def newest(self, top: int | None, least: float) -> dict[int, float]:
        """The best texts with their share of the best one's score, as `best_hits` has them."""
        length = len(self._corpus)
        floor = self._floor(1 + _NEAR)  # three of them may be blanks
        best = max((value for value, at in self._hits(floor, 1) if at < length), default=0.0)
        if not best:
            return {}
        floor = least * best if top is None else self._floor(top + _NEAR)
        shares = [
            (round(value / best, 4), number)
            for value, number in self._hits(floor - _ROUNDING * best, top, newest=True)
            if number < length
        ]
        if top is None:
            return {number: share for share, number in shares if share >= least}
        return {number: share for share, number in nlargest(top, shares) if share > 0}

    def _floor(self, count: int) -> float:
        """What the best so many have at least."""
        values = nlargest(count, self._alone.values())
        for value, row in self._rows:
            texts = len(self._corpus.members_of_rows[row]) - self._apart[row]
            values += [value] * min(count, texts)
        return nlargest(count, values)[-1] if len(values) >= count else 0.0

    def _hits(
        self, floor: float, most: int | None, *, newest: bool = False
    ) -> Iterator[tuple[float, int]]:
        """All that have something, and at least `floor`: of each row only the first, or newest."""
        alone = self._alone
        floor = max(floor, sys.float_info.min)
        yield from [(value, one) for one, value in alone.items() if value >= floor]
        for value, row in self._rows:
            if value >= floor:
                texts, apart = self._corpus.members_of_rows[row], self._apart[row]
                if most is not None:
                    texts = texts[-most - apart :] if newest else texts[: most + apart]
                for number in texts:
                    if not apart or number not in alone:
                        yield value, number


def _lend(around: Sequence[float]) -> float:
    """As `rank.lent`, for the one in the middle alone."""
    p3, p2, p1, own, n1, n2, n3 = around
    (a, b), (c, d), (e, f) = BESIDE
    return own + a * p1 + b * n1 + c * p2 + d * n2 + e * p3 + f * n3


def _is_steady(hits: _Lent, first: Sequence[tuple[float, int]], length: int) -> bool:
    """As `rank` has it: whether no blank behind the texts would be among the best hits."""
    best = [value for value, number in first if number < length][:BEST]
    if len(best) < BEST:
        return True
    return max(hits.at(length + place) for place in range(_NEAR)) <= best[-1]
