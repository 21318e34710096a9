"""The words that names are made of, and what each looks like by itself."""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from weft.detect._given_names import COMMON
from weft.detect._name_words import NOT_NAMES, SURE_ENDS, SURNAME_ENDS, SURNAME_WORDS, SURNAMES

_GAELIC = re.compile(r"(?:Mc|O['\u2019])[A-Z][a-z]")


class Word(NamedTuple):
    """A capitalised word, and how the tables spell it."""

    text: str
    low: str
    start: int
    end: int


@lru_cache(8192)
def fold(word: str) -> str:
    """The word in lower case without accents and without the possessive, as tables spell it."""
    spelled = word[:-2] if word.endswith(("'s", "\u2019s")) else word
    if spelled.isascii():
        return spelled.lower()
    split = unicodedata.normalize("NFKD", spelled.lower())
    plain = "".join(each for each in split if not unicodedata.combining(each))
    return plain.translate(_LETTERS)


_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae"})


def bare(word: Word) -> str:
    """The word without its possessive."""
    return word.text[:-2] if word.text.endswith(("'s", "\u2019s")) else word.text


def without_possessive(word: Word) -> int:
    """Where the word ends, not counting its possessive."""
    return word.start + len(bare(word))


def is_given(word: Word) -> bool:
    """Whether the word is a given name that is known, or two of them with a hyphen."""
    first, _, second = word.low.partition("-")
    return word.low in COMMON or (bool(second) and first in COMMON and second in COMMON)


def looks_like_surname(word: Word) -> bool:
    """Whether the word is a surname that is known, or ends as surnames do."""
    spelled = bare(word)
    if word.low in NOT_NAMES or len(spelled) < 3:
        return False
    return word.low in SURNAMES or (len(spelled) > 4 and spelled.lower().endswith(SURNAME_ENDS))


def is_surely_surname(word: Word) -> bool:
    """Whether the word is a surname and hardly anything else."""
    spelled = bare(word)
    if word.low in NOT_NAMES or spelled.isupper():
        return False
    if word.low in SURNAMES:
        return word.low not in SURNAME_WORDS
    if len(spelled) < 6:
        return False
    return spelled.lower().endswith(SURE_ENDS) or _GAELIC.match(spelled) is not None
