"""How well texts of one conversation fit a query, from 0 to 1.

Three things are known of a conversation that plain BM25 does not use. What was said beside a
hit belongs to it: the question before an answer, the answer behind a question. What the best
hits talk about leads to others that share no word with the query. And people say one thing in
different words, which vectors see, where they are installed.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest
from typing import Literal, NamedTuple

from weft.relevance.index import Index, SearchScope, match, rarity, weigh, words

Scorer = Literal["bm25", "embedding"]

BESIDE = ((0.6, 0.5), (0.4, 0.3), (0.2, 0.1))
"""What a hit lends to the texts behind and before it, by how far they are from it."""

BEST = 10

_LED = 20

_LEADS = 0.3
"""From how many hits how many words are taken, and what the best of them counts."""

_MEANT = 0.125
"""What it counts to be one standard deviation nearer in meaning than usual."""


def rank(query: str, texts: Sequence[str], *, scorer: Scorer = "bm25") -> list[float]:
    """How well each text fits the query: 1 for the best, 0 for what has nothing to do with it.

    The texts stand in the order in which they were said.
    """
    return search(Index(texts), query, scorer=scorer)


def search(
    index: Index,
    query: str,
    *,
    first: int | None = None,
    more: Sequence[str] = (),
    without: AbstractSet[int] = frozenset(),
    scorer: Scorer = "bm25",
) -> list[float]:
    """As `rank`, over an index that is kept: over its `first` texts, with a few `more` behind.

    The texts whose numbers are in `without` are as if they were not there; they get 0.
    """
    return found_by(index, query, first=first, more=more, without=without, scorer=scorer).scores


class Hits(NamedTuple):
    """How well each text fits, and whether more texts that are left out would not change that."""

    scores: list[float]
    steady: bool


def found_by(
    index: Index,
    query: str,
    *,
    first: int | None = None,
    more: Sequence[str] = (),
    without: AbstractSet[int] = frozenset(),
    scorer: Scorer = "bm25",
) -> Hits:
    """As `search`, and whether it holds however many texts behind them all are left out."""
    length = len(index) if first is None else first
    scope = SearchScope(index, length, Index(more), frozenset(without))
    asked = dict.fromkeys(words(query))
    scores = match(scope, {word: scope.nearly(word) for word in asked})
    scores, steady = _led(scope, asked, scores)
    if scorer == "embedding":
        # only this scorer needs numpy, which comes with an extra
        from weft.relevance.vectors import nearness

        best = max(scores, default=0.0) or 1.0
        near = nearness(scope, query)
        scores = [score / best + _MEANT * each for score, each in zip(scores, near, strict=True)]
    scores = lent(scores)
    for number in scope.without:
        scores[number] = 0.0
    best = max(scores, default=0.0)
    rounded = [round(score / best, 4) if score > 0 else 0.0 for score in scores]
    return Hits(rounded, steady)


def _is_steady(
    scope: SearchScope, scores: list[float], lifted: list[float], top: list[int]
) -> bool:
    """Whether none that is left out behind the others takes a place among the best hits.

    A hit lends to its neighbours, also to those that are left out, and these count then.
    """
    past, near = scope.total - len(scope.without), len(BESIDE)
    if scope.without and min(scope.without) < past:
        return False  # some of them stand in between
    best = [number for number in top if number < past][:BEST]
    worst = lifted[best[-1]] if len(best) == BEST else 0.0
    behind = lent(scores[max(0, past - near) : past] + [0.0] * near)[-near:]
    return not worst or max(behind) <= worst


def _led(
    scope: SearchScope, asked: dict[str, None], scores: list[float]
) -> tuple[list[float], bool]:
    """The scores with what the words of the best hits add to them, and whether they are steady."""
    lifted = lent(scores)
    top = nlargest(BEST + len(BESIDE), range(len(lifted)), key=lifted.__getitem__)
    steady = _is_steady(scope, scores, lifted, top)
    hits = [
        (scope.counts(number), scope.size(number), lifted[number])
        for number in top[:BEST]
        if number not in scope.without and lifted[number]
    ]
    leads = leading_words(asked, hits, lambda word: rarity(scope, scope.holding(word)))
    if not leads:
        return scores, steady
    added = weigh(scope, ((weight, scope.times(word)) for word, weight in leads))
    return [score + more for score, more in zip(scores, added, strict=True)], steady


def leading_words(
    asked: Container[str],
    hits: Iterable[tuple[Counter[str], int, float]],
    rarity_of: Callable[[str], float],
) -> list[tuple[str, float]]:
    """The words that the best hits talk about beside those asked for, and what each counts.

    A hit is its words, how many there are, and its score.
    """
    gathered: dict[str, float] = {}
    for counts, size, score in hits:
        share = score / (1 + size)
        for word, often in counts.items():
            if word not in asked:
                gathered[word] = gathered.get(word, 0.0) + share * often
    worths = {word: worth * rarity_of(word) for word, worth in gathered.items()}
    chosen = sorted(worths, key=lambda word: (-worths[word], word))[:_LED]
    return [(word, _LEADS * worths[word] / worths[chosen[0]]) for word in chosen]


def lent(scores: Sequence[float]) -> list[float]:
    """The scores with what neighbours lend each other, the nearest first."""
    edge = (0.0,) * len(BESIDE)
    padded = (*edge, *scores, *edge)
    (a, b), (c, d), (e, f) = BESIDE
    shifted = zip(scores, *(padded[start:] for start in (2, 4, 1, 5, 0, 6)), strict=False)
    return [
        own + a * p1 + b * n1 + c * p2 + d * n2 + e * p3 + f * n3
        for own, p1, n1, p2, n2, p3, n3 in shifted
    ]
