"""An index of texts that grows, and BM25 over it.

Each text is read once, when it is added. What a query costs depends on the texts that have a
word of it, not on all.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from weft.relevance.words import NEAR, alike, words

_SATURATION = 1.2
_LENGTH = 0.75
"""The usual constants of BM25: how soon a repeated word counts less, and a long text."""
_BEGINS = 0.5
"""What a word counts that only begins like one of the query's."""


class Index:
    """Texts and the words they hold, in the order they were added."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: list[str] = []
        self.counts: list[Counter[str]] = []
        self.sizes: list[int] = []
        self._holders: dict[str, list[int]] = {}
        self._beginning: dict[str, list[str]] = {}
        self.memo: dict[str, object] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Read one more text."""
        number = len(self.texts)
        counts = Counter(words(text))
        self.texts.append(text)
        self.counts.append(counts)
        self.sizes.append(counts.total())
        for word in counts:
            held = self._holders.get(word)
            if held is None:
                self._holders[word] = [number]
                if len(word) >= NEAR:
                    self._beginning.setdefault(word[:NEAR], []).append(word)
            else:
                held.append(number)

    def __len__(self) -> int:
        return len(self.texts)

    def holders(self, word: str) -> Sequence[int]:
        """The texts that have the word."""
        return self._holders.get(word, ())

    def begins_like(self, word: str) -> list[str]:
        """The other words that begin like it."""
        near = self._beginning.get(word[:NEAR], ())
        return [other for other in near if other != word and alike(word, other)]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is searched: the first texts of an index, some left out, and a few more behind them.

    The few more are read on the spot: what may still change is not kept.
    """

    index: Index
    length: int
    more: Index
    without: AbstractSet[int] = frozenset()

    @property
    def total(self) -> int:
        """How many texts there are, with those left out."""
        return self.length + len(self.more)

    @property
    def searched(self) -> int:
        """How many texts are looked at."""
        return self.total - len(self.without)

    @property
    def usual(self) -> float:
        """How many words a text usually has."""
        held = sum(self.index.sizes[: self.length]) + sum(self.more.sizes)
        held -= sum(self.size(number) for number in self.without)
        return held / max(1, self.searched) or 1.0

    def size(self, number: int) -> int:
        """How many words a text has."""
        if number < self.length:
            return self.index.sizes[number]
        return self.more.sizes[number - self.length]

    def counts(self, number: int) -> Counter[str]:
        """A text's words, and how often it has each."""
        if number < self.length:
            return self.index.counts[number]
        return self.more.counts[number - self.length]

    def text(self, number: int) -> str:
        """A text itself."""
        if number < self.length:
            return self.index.texts[number]
        return self.more.texts[number - self.length]

    def times(self, word: str) -> dict[int, int]:
        """How often each text that has the word has it."""
        counts, holders = self.index.counts, self.index.holders(word)
        near = holders[: bisect_left(holders, self.length)]
        found = {number: counts[number][word] for number in near}
        for number in self.more.holders(word):
            found[self.length + number] = self.more.counts[number][word]
        for number in self.without:
            found.pop(number, None)
        return found

    def holding(self, word: str) -> int:
        """How many texts have the word."""
        held = bisect_left(self.index.holders(word), self.length) + len(self.more.holders(word))
        return held - sum(word in self.counts(number) for number in self.without)

    def nearly(self, word: str) -> dict[int, float]:
        """As `times`; a text that has not the word counts with those that begin like it."""
        exact: dict[int, float] = {**self.times(word)}
        near: dict[int, float] = {}
        for other in dict.fromkeys((*self.index.begins_like(word), *self.more.begins_like(word))):
            for number, times in self.times(other).items():
                if number not in exact:
                    near[number] = near.get(number, 0.0) + _BEGINS * times
        return exact | near


def all_of(index: Index) -> Scope:
    """All of an index."""
    return Scope(index, len(index), Index())


def rarity(scope: Scope, holders: int) -> float:
    """What a word tells that so many texts have."""
    return math.log(1 + (scope.searched - holders + 0.5) / (holders + 0.5))


def match(scope: Scope, found: Mapping[str, Mapping[int, float]]) -> list[float]:
    """What each text has in common with a query (BM25), given who has its words how often."""
    return weigh(scope, [(1.0, times) for times in found.values()])


def weigh(
    scope: Scope, found: Iterable[tuple[float, Mapping[int, float] | Mapping[int, int]]]
) -> list[float]:
    """As `match`, with what each word counts."""
    scores = [0.0] * scope.total
    usual, sizes = scope.usual, (*scope.index.sizes[: scope.length], *scope.more.sizes)
    base, slope = _SATURATION * (1 - _LENGTH), _SATURATION * _LENGTH / usual
    for weight, times in found:
        gain = weight * rarity(scope, len(times)) * (1 + _SATURATION)
        for number, often in times.items():
            scores[number] += gain * often / (often + base + slope * sizes[number])
    return scores
