"""How well texts of one conversation fit a query, from 0 to 1.

Five things are known of a conversation that plain BM25 does not use. What was said next to a
hit belongs to it: the question before an answer, the answer after a question. What the best
hits talk about, names above all, leads to others that share no word with the query. A query
that names one of the speakers is about that person. What has rare words tells more than small
talk does. And people say one thing in different
words, which vectors see, where they are installed.

What a search costs depends on how many texts have the words that are looked for. Of a word that
very many have only the newest count, and only the best hits lend to their neighbours, so a long
conversation costs little more than a short one.
"""

import functools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest
from itertools import islice
from typing import Literal, NamedTuple

from weft.late import late_pattern
from weft.relevance.index import (
    WEIGHTS,
    Index,
    RankWeights,
    SearchScope,
    all_of,
    match,
    plain_words,
    rarity,
    weigh,
    words,
)

Scorer = Literal["bm25", "embedding"]

_FIRST_LENDERS, _LENDERS = 64, 256
"""How many hits lend to their neighbours, the best: at the first look, and at the second."""

_BEST, _LED = 10, 20
"""How many of the best hits lead on, and how many of their words are looked for as well."""

_LONGEST_NAME = 3

_WEIGHED, _LOOKED = 128, 64
"""How many of the best hits are looked at for how rare their words are, and how many words."""


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
    """As `rank`, over an index that is kept: over its `first` texts, with a few `more` after them.

    The texts whose numbers are in `without` are as if they were not there; they get 0.
    """
    length = len(index) if first is None else first
    scope = SearchScope(index, length, Index(more), frozenset(without))
    scores = [0.0] * scope.total
    for number, score in find_hits(scope, query, scorer=scorer).best.items():
        scores[number] = score
    return scores


def rank_apart(query: str, texts: Iterable[str], *, scorer: Scorer = "bm25") -> list[float]:
    """As `rank`, for texts that are not a conversation, as the memories of a user are.

    A text counts by itself: it must have a word of the query, or be much nearer than usual.
    """
    scope = all_of(Index(texts))
    asked = dict.fromkeys(words(query))
    scores = match(scope, (scope.nearly(word, WEIGHTS.alike) for word in asked))
    best = max(scores, default=0.0) or 1.0
    if scorer == "embedding" and query.strip() and scores:
        from weft.relevance.vectors import nearness

        near: list[float] = nearness(scope, query).tolist()
        pairs = zip(scores, near, strict=True)
        scores = [score / best + (each if each >= _NEAR else 0.0) for score, each in pairs]
        best = max(scores) or 1.0
    return [round(score / best, 4) for score in scores]


_NEAR = 1.5
"""By how many standard deviations a text must be nearer in meaning than usual to be a hit."""


class Hits(NamedTuple):
    """The texts that have to do with a query, by number."""

    every: Container[int]
    best: dict[int, float]
    """Those that were asked for, with their share of the best one's score."""


def find_hits(
    scope: SearchScope,
    query: str,
    *,
    scorer: Scorer = "bm25",
    top: int | None = None,
    least: float = 0.0,
    weights: RankWeights = WEIGHTS,
) -> Hits:
    """The `top` best texts from `least` on, of two equal ones the newer."""
    scores = _match_words(scope, query, weights)
    is_meant = _speakers_meant(scope, query)
    if scorer == "embedding":
        # only this scorer needs numpy, which comes with an extra
        from weft.relevance.vectors import nearest

        return Hits(*nearest(scope, query, scores, is_meant, top, least, weights))
    scores = _lend(scope, scores, _LENDERS, weights)
    if is_meant is not None:
        for number, score in scores.items():
            if is_meant(scope.speakers(number)):
                scores[number] = score * weights.spoken
    if weights.telling:
        scores = _prefer_telling(scope, scores, weights.telling)
    best = max(scores.values(), default=0.0)
    ranked = _newest_best(scores, len(scores) if top is None else top)
    shares = {number: round(score / best, 4) for score, number in ranked}
    return Hits(scores, {number: share for number, share in shares.items() if share >= least})


def _newest_best(scores: Mapping[int, float], count: int) -> list[tuple[float, int]]:
    """The best scores with their texts; of two that are equally good, the newer first."""
    pairs = zip(scores.values(), scores, strict=True)
    # sorting all is faster than a heap for so large a part
    if count * 8 > len(scores):
        return sorted(pairs, reverse=True)[:count]
    return nlargest(count, pairs)


def _match_words(scope: SearchScope, query: str, weights: RankWeights) -> dict[int, float]:
    """What texts have in common with the query, and with the best of its hits."""
    asked = dict.fromkeys(words(query))
    scores = weigh(scope, (scope.nearly(word, weights.alike) for word in asked))
    if not weights.leads:
        return scores
    hits = _newest_best(_lend(scope, scores, _FIRST_LENDERS, weights), _BEST)
    leads = _leading_words(scope, asked, hits, weights.leads)
    for number, score in weigh(scope, (scope.exactly(*lead) for lead in leads)).items():
        scores[number] = scores.get(number, 0.0) + score
    return scores


def _leading_words(
    scope: SearchScope, asked: Container[str], hits: Iterable[tuple[float, int]], best: float
) -> list[tuple[str, float]]:
    """The words that the best hits talk about besides those asked for, and what each counts."""
    gathered: dict[str, float] = {}
    for score, number in hits:
        share = score / (1 + scope.size(number))
        for word, often in scope.counts(number).items():
            if word not in asked:
                gathered[word] = gathered.get(word, 0.0) + share * often
    searched = scope.searched
    worths = {
        word: worth * rarity(searched, scope.holding(word)) for word, worth in gathered.items()
    }
    chosen = sorted(worths, key=lambda word: (-worths[word], word))[:_LED]
    return [(word, best * worths[word] / worths[chosen[0]]) for word in chosen]


def _lend(
    scope: SearchScope, scores: dict[int, float], most: int, weights: RankWeights
) -> dict[int, float]:
    """The scores with what the best hits, `most` of them, lend to their neighbours.

    A long neighbour takes less than a short one: it costs more to show.
    """
    offsets = _offsets(weights.beside)
    lifted, total, usual = {**scores}, scope.total, scope.usual
    sizes, without = scope.sizes, scope.without
    for score, number in _newest_best(scores, most):
        for far, worth in offsets:
            neighbour = number + far
            if 0 <= neighbour < total and neighbour not in without:
                size, lent = sizes[neighbour], worth * score
                # a long neighbour costs more to show
                if size > usual:
                    lent *= math.sqrt(usual / size)
                lifted[neighbour] = lifted.get(neighbour, 0.0) + lent
    return lifted


@functools.cache
def _offsets(beside: tuple[tuple[float, float], ...]) -> list[tuple[int, float]]:
    """How far neighbours are from a text, and what each is lent."""
    return [
        (far, worth)
        for place, (after, before) in enumerate(beside, 1)
        for far, worth in ((place, after), (-place, before))
    ]


def _prefer_telling(scope: SearchScope, scores: dict[int, float], power: float) -> dict[int, float]:
    """The scores by how much the texts tell; below the best hits, as if they told the least."""
    best = [number for _, number in _newest_best(scores, _WEIGHED)]
    shares = [*tell_apart(scope, best, power)]
    least = min(shares, default=1.0)
    weighed = {number: score * least for number, score in scores.items()}
    weighed.update(
        (number, scores[number] * share) for number, share in zip(best, shares, strict=True)
    )
    return weighed


def tell_apart(scope: SearchScope, numbers: Iterable[int], power: float) -> Iterator[float]:
    """What texts count by how rare their words are: small talk has the words that all have."""
    rare: dict[str, float] = {}
    searched = scope.searched
    for number in numbers:
        counts = scope.counts(number)
        looked = [*islice(counts, _LOOKED)]
        for word in looked:
            if word not in rare:
                rare[word] = rarity(searched, scope.holding(word))
        worth = math.fsum(map(rare.__getitem__, looked)) * len(counts) / max(1, len(looked))
        # a little more, so that a text of one word or none is not all or nothing
        yield ((worth + 1) / (scope.size(number) + 6)) ** power


_TELLING = late_pattern(
    r"\b(i|you) (?:\w+ ){0,2}(?:(?:say|tell)s?|said|told"
    r"|(?:ask|mention|explain|suggest|recommend|state|propose|describe|promise)(?:s|e?d)?)\b"
)
"""Somebody who asks what was said by themselves, or by the one they talk to."""


def _speakers_meant(scope: SearchScope, query: str) -> Callable[[tuple[str, ...]], bool] | None:
    """Whose texts the query is about, told by their speakers; None where it names nobody."""
    spoken = plain_words(query)
    phrases = {
        " ".join(spoken[at : at + length])
        for length in range(1, _LONGEST_NAME + 1)
        for at in range(len(spoken) + 1 - length)
    }
    names = {name for name in phrases if name in scope.index.names or name in scope.more.names}
    if names:
        return lambda speakers: not names.isdisjoint(speakers)
    pronouns = {one[1] for one in _TELLING.finditer(" ".join(spoken))}
    # "I told you what you said" names both
    if len(pronouns) != 1:
        return None
    # the user's own words have no name before them
    return (
        (lambda speakers: not speakers) if pronouns == {"i"} else (lambda speakers: bool(speakers))
    )
