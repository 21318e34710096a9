"""How near texts are to a query in meaning, by vectors that give rare words more weight.

A text's vector is the sum of the vectors of its pieces. A piece weighs more the fewer texts of
this conversation have it. What is rare is computed over a part of the conversation that doubles,
so that one more text does not change the vectors of the others. This chapter needs numpy, so it
is loaded only where somebody asks for nearness.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft import meaning
from weft.errors import CompileError
from weft.relevance.index import Index, RankWeights, SearchScope

_Floats: TypeAlias = NDArray[np.float32]

_LONGEST = 8192
"""The letters of a text that are looked at: what is longer is about the same thing by then."""


_ECHOES, _LEAST_ECHOED = 10, 32
"""How many of the nearest texts say with the query what is looked for, and of how many for each: in
a short conversation the nearest are soon about something else."""


def nearness(scope: SearchScope, query: str, echo: float = 0.0) -> _Floats:
    """By how many standard deviations each text is nearer to the query than usual; 0 left out.

    With `echo`, the texts that are nearest count as a part of the query: who asks for hobbies
    finds one that is told among others, in words that the query does not have.
    """
    index = scope.index
    known = index.vectors = index.vectors or Vectors()
    known.read(index)
    later = [_pieces(scope.speech(number)) for number in range(scope.length, scope.total)]
    looked = np.ones(scope.total, dtype=np.bool_)
    looked[list(scope.without)] = False
    searched = np.flatnonzero(looked)
    near = np.zeros(scope.total, dtype=np.float32)
    if len(searched):
        # a power of two: what is rare stays the same until the conversation has doubled
        sample = searched[: 1 << (len(searched).bit_length() - 1)]
        known.weigh(sample, scope.length, later)
        own = known.vectors([_pieces(query)])[0]
        rows = known.upto(scope.length), known.vectors(later)
        likeness = _likeness(rows, own)
        echoes = min(_ECHOES, len(searched) // _LEAST_ECHOED)
        if echo and echoes and own.any():
            near_first = searched[np.argsort(-likeness[searched], kind="stable")[:echoes]]
            own = own + echo * np.stack([_row(rows, number) for number in near_first]).mean(axis=0)
            likeness = _likeness(rows, own)
        chosen = likeness[searched]
        near[searched] = (chosen - chosen.mean()) / (float(chosen.std()) or 1.0)
    return near


def _likeness(rows: tuple[_Floats, _Floats], own: _Floats) -> _Floats:
    """How near each row of both is to a direction.

    `rows @ own` may give other last digits for a text, depending on how many follow it.
    """
    return np.concatenate([np.einsum("ij,j->i", each, own) for each in rows])


def _row(rows: tuple[_Floats, _Floats], number: int) -> _Floats:
    first, later = rows
    row: _Floats = first[number] if number < len(first) else later[number - len(first)]
    return row


def nearest(
    scope: SearchScope,
    query: str,
    scores: Mapping[int, float],
    is_meant: Callable[[tuple[str, ...]], bool] | None,
    top: int | None,
    least: float,
    weights: RankWeights,
) -> tuple[Container[int], dict[int, float]]:
    """The texts that have to do with a query by words and by meaning, and the best with shares.

    What is less near than usual has less than nothing before neighbours lend each other.
    """
    own = weights.meant * nearness(scope, query, weights.echo).astype(np.float64)
    best = max(scores.values(), default=0.0) or 1.0
    own[list(scores)] += np.fromiter(scores.values(), np.float64, len(scores)) / best
    gained = np.zeros_like(own)
    for far, (after, before) in enumerate(weights.beside, 1):
        gained[far:] += after * own[:-far]
        gained[:-far] += before * own[far:]
    sizes = np.array(scope.sizes[: scope.total], dtype=np.float64)
    own += gained * np.sqrt(np.minimum(1.0, scope.usual / np.maximum(sizes, 1.0)))
    own[list(scope.without)] = 0.0
    if is_meant is not None:
        # scores may be below zero: from the lowest on, more is better
        lowest = min(0.0, float(own.min(initial=0.0)))
        meant = np.fromiter(map(is_meant, scope.all_speakers), np.bool_, scope.total)
        meant[list(scope.without)] = False
        own[meant] = (own[meant] - lowest) * weights.spoken + lowest
    return _best_of(own, top, least)


def _best_of(
    scores: NDArray[np.float64], top: int | None, least: float
) -> tuple[Container[int], dict[int, float]]:
    """The texts with a score, and the `top` best from `least` on, of two equal ones the newer."""
    hits = np.flatnonzero(scores > 0)
    if not len(hits):
        return (), {}
    shares: NDArray[np.float64] = np.around(scores[hits] / float(scores.max()), 4)
    good = np.flatnonzero((shares > 0) & (shares >= least))
    ranked = good[np.lexsort((-hits[good], -scores[hits[good]]))][:top]
    numbers: list[int] = hits[ranked].tolist()
    values: list[float] = shares[ranked].tolist()
    return _Above(scores), dict(zip(numbers, values, strict=True))


class _Above(Container[int]):
    """The numbers of the texts whose score is above nothing."""

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self._scores = scores

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bool(self._scores[number] > 0)


class Vectors:
    """The vectors of an index's texts, under one view of what is rare."""

    def __init__(self) -> None:
        table = meaning.table()
        if table is None:
            raise CompileError(
                'scorer="embedding" needs word vectors, and none are installed',
                where="C.relevant",
                hint="pip install 'weft[embedding]', or leave scorer out",
            )
        count = table.rows * table.width
        flat = np.frombuffer(table.buffer, np.float16, count, table.begin)
        self.table = flat.reshape(table.rows, table.width)
        self.pieces: list[list[int]] = []
        self._basis = 0, 0
        self._weights: _Floats = np.ones(table.rows, dtype=np.float32)
        self._directions: _Floats = np.zeros((0, table.width), dtype=np.float32)
        self._done = 0

    def read(self, index: Index) -> None:
        """Split new texts into pieces, without the names of their speakers."""
        for number in range(len(self.pieces), len(index)):
            self.pieces.append(_pieces(index.texts[number][index.begins[number] :]))

    def weigh(self, sample: NDArray[np.intp], length: int, later: Sequence[list[int]]) -> None:
        """Work out which pieces are rare, if the texts that tell it have changed.

        The texts are the first ones, and those of `later` follow them.
        """
        basis = len(sample), int(sample[-1])
        if basis == self._basis:
            return
        counts = np.zeros(len(self.table), dtype=np.float32)
        numbers: list[int] = sample.tolist()
        for number in numbers:
            pieces = self.pieces[number] if number < length else later[number - length]
            counts[list(set(pieces))] += 1
        self._weights = np.log(1 + len(sample) / (1 + counts)).astype(np.float32)
        self._basis, self._done = basis, 0

    def upto(self, length: int) -> _Floats:
        """The vectors of the first texts."""
        if self._done < length:
            fresh = self.vectors(self.pieces[self._done : length])
            if len(self._directions) < length:
                # doubled, so that one more text seldom copies all
                wider = np.zeros((2 * length, self.table.shape[1]), dtype=np.float32)
                wider[: self._done] = self._directions[: self._done]
                self._directions = wider
            self._directions[self._done : length] = fresh
            self._done = length
        return self._directions[:length]

    def vectors(self, texts: Sequence[list[int]]) -> _Floats:
        """The directions that texts point to, row by row."""
        directions = np.zeros((len(texts), self.table.shape[1]), dtype=np.float32)
        for row, text in enumerate(texts):
            if text:
                directions[row] = self._weights[text] @ self.table[text].astype(np.float32)
        sizes = np.linalg.norm(directions, axis=1, keepdims=True)
        # a text without known pieces points nowhere
        sizes[sizes == 0] = 1
        scaled: _Floats = directions / sizes
        return scaled


def _pieces(text: str) -> list[int]:
    return meaning.pieces(text[:_LONGEST])
