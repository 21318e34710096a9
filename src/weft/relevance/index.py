"""An index of texts that grows, and BM25 over it.

Each text is read once, when it is added. What a query costs depends on the texts that have a
word of it, not on all.
"""

import functools
import math
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from weft.relevance.vectors import Vectors

from weft.late import late_pattern

SATURATION = 1.2

LENGTH = 0.75
"""The usual constants of BM25: how soon a repeated word counts less, and a long text."""

MOST = 512
"""Of the texts that have a word the newest count, at most this many: a common word tells little."""


class RankWeights(msgspec.Struct, frozen=True):
    """How much each clue of a conversation counts, besides the words in common."""

    beside: tuple[tuple[float, float], ...] = ((0.6, 0.5), (0.4, 0.3), (0.2, 0.1))
    """What a hit lends to the texts after and before it, by how far they are from it."""
    leads: float = 0.3
    """What the best of the words counts that the best hits talk about."""
    spoken: float = 2.0
    """How many times as much a text counts that is spoken by the one who is asked about."""
    alike: float = 0.5
    """What a word counts that only begins like one of the query's."""
    meant: float = 0.125
    """What it counts to be one standard deviation nearer in meaning than usual."""
    echo: float = 0.3
    """What the texts nearest in meaning count as a part of the query, once they are known."""
    telling: float = 0.3
    """The power of how rare the words of a text are, where words alone are looked for."""


WEIGHTS = RankWeights()
"""Chosen on dialogues: `bench/relevance.py PATH --ablate` shows what each of them brings."""


class Index:
    """Texts, the words they hold and who speaks in them, in the order they were added."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: list[str] = []
        self.counts: list[Counter[str]] = []
        self.sizes: list[int] = []
        self.sums = [0]
        """How many words the texts before each have."""
        self.speakers: list[tuple[str, ...]] = []
        """The names that a text begins with; the speech begins after them."""
        self.begins: list[int] = []
        self.names: set[str] = set()
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        """The texts that have a word, and how often each does."""
        self._beginning: dict[str, list[str]] = {}
        self.vectors: Vectors | None = None
        """The vectors of the texts, from the first time that somebody asks for nearness."""
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Read one more text."""
        number = len(self.texts)
        counts = Counter(words(text))
        size = counts.total()
        self.texts.append(text)
        self.counts.append(counts)
        self.sizes.append(size)
        self.sums.append(self.sums[-1] + size)
        speakers, begin = speakers_of(text)
        self.speakers.append(speakers)
        self.begins.append(begin)
        self.names.update(speakers)
        for word, often in counts.items():
            posting = self._postings.get(word)
            if posting is None:
                self._postings[word] = ([number], [often])
                if len(word) >= NEAR and not _has_digit(word):
                    self._beginning.setdefault(word[:NEAR], []).append(word)
            else:
                posting[0].append(number)
                posting[1].append(often)

    def __len__(self) -> int:
        return len(self.texts)

    def holders(self, word: str) -> Sequence[int]:
        """The texts that have the word."""
        return self.posting(word)[0]

    def posting(self, word: str) -> tuple[Sequence[int], Sequence[int]]:
        """The texts that have the word, and how often each does."""
        return self._postings.get(word, _NOWHERE)

    def begins_like(self, word: str) -> list[str]:
        """The other words that begin like it; none for one with a digit, which is itself alone."""
        # `A100` and `A1001` are two things
        near = () if _has_digit(word) else self._beginning.get(word[:NEAR], ())
        return [other for other in near if other != word and alike(word, other)]


_NOWHERE: tuple[Sequence[int], Sequence[int]] = ((), ())


class Term(NamedTuple):
    """A word that is looked for: what it counts, how many have it, which, and how often each."""

    weight: float
    holders: int
    texts: Sequence[int]
    times: Sequence[float]


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What is searched: the first texts of an index, some left out, and a few more after them.

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
        words_in_all = self.index.sums[self.length] + self.more.sums[-1]
        words_in_all -= sum(self.size(number) for number in self.without)
        return words_in_all / max(1, self.searched) or 1.0

    @property
    def sizes(self) -> Sequence[int]:
        """How many words each text has. The list may go on after the last text of the scope."""
        sizes = self.index.sizes
        return sizes if not len(self.more) else [*sizes[: self.length], *self.more.sizes]

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

    def speakers(self, number: int) -> tuple[str, ...]:
        """Who speaks in a text, where it says so."""
        if number < self.length:
            return self.index.speakers[number]
        return self.more.speakers[number - self.length]

    @property
    def all_speakers(self) -> Iterator[tuple[str, ...]]:
        """Who speaks in each text."""
        return chain(islice(self.index.speakers, self.length), self.more.speakers)

    def speech(self, number: int) -> str:
        """A text without the names of who speaks."""
        index, place = (self.index, number)
        if number >= self.length:
            index, place = self.more, number - self.length
        return index.texts[place][index.begins[place] :]

    def holding(self, word: str) -> int:
        """How many texts have the word."""
        count = bisect_left(self.index.holders(word), self.length)
        # the usual case: nothing more, and nothing left out
        if self.more.texts:
            count += len(self.more.holders(word))
        if self.without:
            count -= sum(word in self.counts(number) for number in self.without)
        return count

    def exactly(self, word: str, weight: float = 1.0) -> Term:
        """The texts that have the word."""
        return Term(weight, self.holding(word), *self._newest(word))

    def nearly(self, word: str, worth: float) -> Term:
        """Like `exactly`; a text without the word counts by its words that begin like it."""
        exact = self.exactly(word)
        if not worth:
            return exact
        near: dict[int, float] = {}
        for other in dict.fromkeys((*self.index.begins_like(word), *self.more.begins_like(word))):
            for number, often in zip(*self._newest(other), strict=True):
                # a text with the word itself counts by that alone
                if word not in self.counts(number):
                    near[number] = near.get(number, 0.0) + worth * often
        if not near:
            return exact
        texts, times = [*exact.texts, *near], [*exact.times, *near.values()]
        return Term(1.0, exact.holders + len(near), texts, times)

    def _newest(self, word: str) -> tuple[Sequence[int], Sequence[float]]:
        """The texts that have the word, and how often each does; of very many, the newest."""
        texts, times = self.index.posting(word)
        end = bisect_left(texts, self.length)
        begin = max(0, end - MOST)
        # the usual case: slices, and nothing to put together
        if not len(self.more) and not self.without:
            return texts[begin:end], times[begin:end]
        later, later_times = self.more.posting(word)
        counted = dict(zip(texts[begin:end], times[begin:end], strict=True))
        counted.update(zip((self.length + one for one in later), later_times, strict=True))
        for number in self.without:
            counted.pop(number, None)
        return [*counted], [*counted.values()]


def all_of(index: Index) -> SearchScope:
    """All of an index."""
    return SearchScope(index, len(index), Index())


def rarity(searched: int, holders: int) -> float:
    """How much a word tells if `holders` of the texts that are searched have it."""
    return math.log(1 + (searched - holders + 0.5) / (holders + 0.5))


def match(scope: SearchScope, terms: Iterable[Term]) -> list[float]:
    """What each text has in common with a query (BM25)."""
    scores = [0.0] * scope.total
    for number, score in weigh(scope, terms).items():
        scores[number] = score
    return scores


def weigh(scope: SearchScope, terms: Iterable[Term]) -> dict[int, float]:
    """As `match`, for those that have anything in common with it."""
    scores: dict[int, float] = {}
    usual, sizes, searched = scope.usual, scope.sizes, scope.searched
    base, slope = SATURATION * (1 - LENGTH), SATURATION * LENGTH / usual
    for term in terms:
        gain = term.weight * rarity(searched, term.holders) * (1 + SATURATION)
        for number, often in zip(term.texts, term.times, strict=True):
            value = gain * often / (often + base + slope * sizes[number])
            scores[number] = scores.get(number, 0.0) + value
    return scores


_SPEAKER = late_pattern(r"\s*([^\W\d_][\w.'-]{0,30}(?: [^\W\d_][\w.'-]{0,30}){0,2}):(?=\s)")

_DEEPEST = 2
"""How many names may stand before a text: an agent's, and whom it quotes."""


def speakers_of(text: str) -> tuple[tuple[str, ...], int]:
    """The names that a text begins with, as in `Maria: I moved`, and where they end."""
    names: list[str] = []
    end = 0
    while len(names) < _DEEPEST and (named := _SPEAKER.match(text, end)) is not None:
        names.append(" ".join(plain_words(named[1])))
        end = named.end()
    return tuple(names), end


def plain_words(text: str) -> list[str]:
    """All words of a text as they stand there, in small letters."""
    return _PLAIN.findall(text.lower())


_PLAIN = late_pattern(r"\w+")

_MARKS = r"\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u1000-\u109f\u1780-\u17d3"
"""Vowel signs and accents, which belong to a word though they are not letters."""

_WORD = late_pattern(rf"(?:[^\W_]|[{_MARKS}])+")

_HUMP = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_UNSPACED = late_pattern(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Scripts in which the letters of two words stand next to each other, or nearly so."""

_ACCENT = late_pattern(r"(?<=[a-z])[\u0300-\u036f]+")

_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "er", "ed", "es", "s", "y", "e")

_COMMON = (
    "a about am an and any are as at be been but by bye can could d did do does evening for"
    " from get give good goodbye got great had has have he hello her hey hi him his how i if"
    " in into is it its just later like ll m make many may me more morning much my need nice"
    " night no not now of ok okay on one or our out please re s see she should so some such t"
    " tell than thank thanks that the their them then there these they this to up us use used"
    " using ve want was we well were what when where which who why will with would write yes"
    " you your"
)
"""Words that say nothing about what is wanted, greetings among them."""


def words(text: str) -> list[str]:
    """The words that say something, without their endings; the parts of names apart.

    Where a script has no blanks between words, every two letters next to each other are one.
    """
    # no script to take apart, no accents to drop
    if text.isascii():
        spoken = _WORD.findall(_HUMP.sub(" ", text).lower())
    else:
        plain = unicodedata.normalize("NFKC", text)
        folded = unicodedata.normalize("NFD", _HUMP.sub(" ", plain).lower())
        whole = unicodedata.normalize("NFC", _ACCENT.sub("", folded))
        spoken = [part for word in _WORD.findall(whole) for part in _parts(word)]
    common = _common()
    return [_stem(word) for word in spoken if word not in common]


def words_of(text: str) -> str:
    """A name in words: `getWeather` and `get_weather` are `get weather`."""
    return _HUMP.sub(" ", text).replace("_", " ")


def alike(one: str, other: str) -> bool:
    """Whether one word begins with the other and is little longer."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    return len(short) >= NEAR and len(long) - len(short) <= NEAR and long.startswith(short)


NEAR = 3
"""The letters that two words which are alike begin with at least, and differ by at most."""


def _has_digit(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def _parts(word: str) -> list[str]:
    """A word, with what is written without blanks in pairs of letters."""
    if word.isascii() or not _UNSPACED.search(word):
        return [word]
    parts: list[str] = []
    end = 0
    for match in _UNSPACED.finditer(word):
        parts += [word[end : match.start()]] if match.start() > end else []
        run, end = match[0], match.end()
        parts += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
    return parts + ([word[end:]] if end < len(word) else [])


@functools.cache
def _common() -> frozenset[str]:
    return frozenset(_COMMON.split())


@functools.lru_cache(1 << 15)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        # shorter stems would be one for many words
        if word.endswith(ending) and len(word) - len(ending) >= NEAR:
            return word.removesuffix(ending)
    return word
