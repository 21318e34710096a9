"""The words of a text that say something, in the form in which they are compared."""

import functools
import re
import unicodedata

_MARKS = r"\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u1000-\u109f\u1780-\u17d3"
"""Vowel signs and accents, which belong to a word though they are no letters."""
_WORD = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Scripts in which the letters of two words stand beside each other, or nearly so."""
_ACCENT = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")
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

    Where a script has no blanks between words, every two letters beside each other are one.
    """
    if text.isascii():
        spoken = _WORD.findall(_HUMP.sub(" ", text).lower())
    else:
        plain = unicodedata.normalize("NFKC", text)
        folded = unicodedata.normalize("NFD", _HUMP.sub(" ", plain).lower())
        whole = unicodedata.normalize("NFC", _ACCENT.sub("", folded))
        spoken = [part for word in _WORD.findall(whole) for part in _parts(word)]
    common = _common()
    return [_stem(word) for word in spoken if word not in common]


def said(text: str) -> str:
    """A name in words: `getWeather` and `get_weather` are `get weather`."""
    return _HUMP.sub(" ", text).replace("_", " ")


def alike(one: str, other: str) -> bool:
    """Whether one word begins with the other and is little longer."""
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    return len(short) >= NEAR and len(long) - len(short) <= NEAR and long.startswith(short)


NEAR = 3
"""The letters that two words which are alike begin with at least, and differ by at most."""


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
        if word.endswith(ending) and len(word) - len(ending) >= NEAR:
            return word.removesuffix(ending)
    return word
