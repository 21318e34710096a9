"""Names of people, as far as words alone tell.

A capitalised word is a name when something says so: a title or a phrase in front of it, a given
name that is known, a known given name beside it, or the ending of a surname. Part of a name that
was found stands for the person in the rest of the text too.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from weft.detect._given_names import AMBIGUOUS, COMMON
from weft.detect._name_words import (
    NOT_NAMES,
    ORGANISATION,
    PARTICLES,
    PERSON_VERBS,
    SURE_ENDS,
    SURNAME_ENDS,
    SURNAME_WORDS,
    SURNAMES,
    TITLES,
)
from weft.detect.found import Span
from weft.detect.letters import CAPITALS

_CAPITALISED = re.compile(
    rf"[{CAPITALS}](?<!\w[{CAPITALS}])(?<!['\u2019][{CAPITALS}])[^\W\d_]*(?:['\u2019\-\u2010][^\W\d_]+)*"
)
_ANY = re.compile(r"[^\W\d_]+(?:['\u2019\-\u2010][^\W\d_]+)*")
_CUE = re.compile(
    r"(?:\b(?:called|i am|i['\u2019]m|this is|calls? me|named|née|sincerely|regards|cheers"
    r"|signed|attn|dear|hi|hello|hey|says"
    r"|said|shouted at|by|under|kid|son|daughter|brother|sister|wife|husband|partner|friend"
    r"|colleague|boss|patient|guardian"
    r"|employee|customer|passenger|add|starring|meet|met|ask(?:ed)?|told|tell|contact|known as"
    r"|follow up with"
    r"|(?:speak|talk(?:ed)?|spoke) (?:to|with)|belongs to|assistant to|tribute to|songwriter"
    r"|producer|heard"
    r"|(?:correct|change) it to|given|founders)|name|user)"
    r"(?: is|['\u2019]s| was)?[\s:>,?\-\"\u201c(]{1,6}$",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"(?:\bname(?: is|'s|\u2019s| was)?|\bnamed (?:him|her)|\bcalls? me|\bi['\u2019]m|née"
    r"|was called|directed by|written by|\bsays"
    r"|\bsurname(?: is)?|account\? user|name on it is|everyone calls me)[\s:?\"\u201c]{1,6}$",
    re.IGNORECASE,
)
_STRONG_ENDS = (
    "name",
    "is",
    "'s",
    "\u2019s",
    "was",
    "him",
    "her",
    "me",
    "'m",
    "\u2019m",
    "née",
    "called",
    "by",
    "says",
    "user",
)
_POSTAL = re.compile(
    r"[^\n]*(?:\n[^\n]*){0,3}?\n[> ?]*(?:\d|Apt|Suite|PSC|Unit|Phone|E-?mail|Tel|Mobile)", re.I
)
_INITIAL = re.compile(r"[A-Z]\.?")
_ROMAN = frozenset({"II", "III", "IV", "Jr", "Sr"})
_LISTED = frozenset({", ", " and ", ", and ", " & ", " or "})
_LONGEST = 5


class _Word(NamedTuple):
    """A capitalised word, and how the tables spell it."""

    text: str
    low: str
    start: int
    end: int


def look_for_names(text: str) -> Iterator[Span]:
    """Names with a reason to be believed, and their parts wherever they come again."""
    words = [
        _Word(match.group(), fold(match.group()), *match.span())
        for match in _CAPITALISED.finditer(text)
    ]
    if not words:
        yield from _in_lower_case(text)
        return
    sizes = _sizes(words, text)
    known: set[str] = set()
    at = 0
    while at < len(words):
        size = sizes[at]
        if size:
            found = words[at : at + size]
            known.update(_bare(each) for each in found if _is_part(each))
            yield Span(_with_title(text, found[0].start), _without_possessive(found[-1]))
        at += size or 1
    if not known:
        return
    taken = {at + more for at, size in enumerate(sizes) for more in range(size)}
    for at, word in enumerate(words):
        if at not in taken and _bare(word) in known and not _is_organisation(words, at, 1, text):
            yield Span(word.start, _without_possessive(word))


def _sizes(words: Sequence[_Word], text: str) -> list[int]:
    """For each word, how many words are one person's name from it on; 0 where none begins."""
    sizes = [0] * len(words)
    at = 0
    while at < len(words):
        sizes[at] = _name_at(words, at, text)
        at += sizes[at] or 1
    for step in (1, -1):  # whoever is listed beside a given name is a person too
        for at in range(len(words))[::step]:
            other = at - step
            if sizes[at] or not 0 <= other < len(words) or sizes[other] != 1:
                continue
            before, after = sorted((at, other))
            gap = text[words[before].end : words[after].start]
            if gap in _LISTED and _is_listed(words, at, other, text):
                sizes[at] = 1
    return sizes


def _is_listed(words: Sequence[_Word], at: int, other: int, text: str) -> bool:
    word = words[at]
    if word.low in NOT_NAMES or _run(words, at, text) != 1 or _is_organisation(words, at, 1, text):
        return False
    if words[other].low in COMMON:
        return True
    return _looks_like_surname(word) and not _is_enumerated(words, at, text)


@lru_cache(8192)
def fold(word: str) -> str:
    """The word in lower case without accents and without the possessive, as tables spell it."""
    bare = word[:-2] if word.endswith(("'s", "\u2019s")) else word
    if bare.isascii():
        return bare.lower()
    split = unicodedata.normalize("NFKD", bare.lower())
    plain = "".join(each for each in split if not unicodedata.combining(each))
    return plain.translate(_LETTERS)


_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae"})


def _bare(word: _Word) -> str:
    return word.text[:-2] if word.text.endswith(("'s", "\u2019s")) else word.text


def _is_part(word: _Word) -> bool:
    return len(_bare(word)) > 2 and word.low not in NOT_NAMES and word.low not in SURNAME_WORDS


def _is_given(word: _Word) -> bool:
    first, _, second = word.low.partition("-")
    return word.low in COMMON or (bool(second) and first in COMMON and second in COMMON)


def _looks_like_surname(word: _Word) -> bool:
    bare = _bare(word)
    if word.low in NOT_NAMES or len(bare) < 3:
        return False
    return word.low in SURNAMES or (len(bare) > 4 and bare.lower().endswith(SURNAME_ENDS))


def _is_surely_surname(word: _Word) -> bool:
    bare = _bare(word)
    if word.low in NOT_NAMES or bare.isupper():
        return False
    if word.low in SURNAMES:
        return word.low not in SURNAME_WORDS
    return len(bare) > 5 and bare.lower().endswith(SURE_ENDS)


def _name_at(words: Sequence[_Word], at: int, text: str) -> int:
    word = words[at]
    shouted = word.text.isupper() and len(word.text) > 2
    if shouted or (word.low in NOT_NAMES and word.low not in COMMON):
        return 0
    if "'" in word.low and word.low.partition("'")[0] in NOT_NAMES:
        return 0
    if word.low in TITLES:
        return 0
    size = _run(words, at, text)
    if _is_organisation(words, at, size, text):
        return 0
    before = text[max(0, word.start - 40) : word.start]
    if _titled(before):
        return size
    if size > 1:
        return size if _is_full_name(words[at : at + size], before, text) else 0
    return int(_is_single_name(words, at, before, text))


def _titled(before: str) -> int:
    """How many characters in front of a name are its title; 0 where there is none."""
    if before[-1:] != " ":
        return 0
    last = before[-13:-1].replace("\n", " ").rpartition(" ")[2].lstrip("(\"'\u201c>")
    low = last.rstrip(".").lower()
    if low not in TITLES:
        return 0
    dotted = last.endswith(".")
    return len(last) + 1 if dotted or low not in _LOOSE_TITLES else 0


_LOOSE_TITLES = frozenset(
    {"sister", "brother", "general", "president", "don", "fr", "father", "col", "gen"}
)


def _is_announced(before: str) -> bool:
    """Whether what stands in front can only be followed by a name."""
    last = before[-24:].rstrip(' :?"\u201c\n\t').lower()
    return last.endswith(_STRONG_ENDS) and _STRONG.search(before) is not None


def _is_full_name(found: Sequence[_Word], before: str, text: str) -> bool:
    word, others = found[0], found[1:]
    sure = any(_is_surely_surname(each) for each in others)
    likely = sure or any(_looks_like_surname(each) for each in others)
    if _is_given(word) and (word.low not in AMBIGUOUS or likely or _CUE.search(before)):
        return True
    if len(others) > 1 and len(others[0].text) == 1 and len(word.text) > 1:
        return True
    if _CUE.search(before) is not None:
        return _is_announced(before) or likely or len(found) == 2
    if any(each.low in COMMON and each.low not in AMBIGUOUS for each in others):
        return True
    if sure:
        return True
    return _is_above_address(found, text)


def _is_single_name(words: Sequence[_Word], at: int, before: str, text: str) -> bool:
    word = words[at]
    given = _is_given(word)
    if word.low not in NOT_NAMES and _is_announced(before):
        return True
    if given and word.low not in AMBIGUOUS:
        return True
    after = text[word.end : word.end + 16]
    if word.low not in NOT_NAMES and after.startswith(" ") and after[1:].startswith(PERSON_VERBS):
        return True
    surname = _is_surely_surname(word)
    if not given and not surname and not _looks_like_surname(word):
        return False
    if _CUE.search(before) or (
        given and _begins_line(text, word.start) and after[:1] in {":", ","}
    ):
        return True
    if given and re.match(r"[!?]", after) and before.endswith(", "):
        return True
    if not surname or _is_enumerated(words, at, text) or after.startswith("-"):
        return False
    return before[-1:] == " " and before[-2:-1] not in {".", "!", "?", ":", ""}


def _is_enumerated(words: Sequence[_Word], at: int, text: str) -> bool:
    """Whether commas stand between it and other names, as in those of law firms."""
    for before, after in ((at - 1, at), (at, at + 1), (at - 2, at - 1)):
        if (
            before >= 0
            and after < len(words)
            and text[words[before].end : words[after].start] == ", "
        ):
            return True
    return False


def _run(words: Sequence[_Word], at: int, text: str) -> int:
    """How many words from here on are capitalised and stand beside each other."""
    size = 1
    while at + size < len(words) and size < _LONGEST:
        before, word = words[at + size - 1], words[at + size]
        if before.text.endswith(("'s", "\u2019s")) or not _is_joined(text, before, word):
            break
        if word.text in _ROMAN:
            return size + 1
        if word.low in NOT_NAMES and word.low not in SURNAMES:
            break
        if word.text.isupper() and len(word.text) > 2:
            break
        size += 1
    return size


def _is_joined(text: str, before: _Word, word: _Word) -> bool:
    gap = text[before.end : word.start]
    if gap == " ":
        return True
    if gap == ". ":
        return len(before.text) == 1
    return (
        gap[:1] == " "
        and len(gap) < 12
        and gap[-1:] in {" ", "'", "\u2019"}
        and all(each in PARTICLES for each in gap.split())
        and bool(gap.strip())
        and gap.strip() not in {"e", "y", "do"}
    )


def _is_organisation(words: Sequence[_Word], at: int, size: int, text: str) -> bool:
    if any(each.low in ORGANISATION for each in words[at : at + size]):
        return True
    after = at + size
    if after >= len(words):
        return False
    gap = text[words[after - 1].end : words[after].start]
    return gap in {" ", ", "} and words[after].low in ORGANISATION


def _begins_line(text: str, start: int) -> bool:
    return start == 0 or text[start - 1] in "\n>"


def _is_above_address(found: Sequence[_Word], text: str) -> bool:
    """Whether the words are all there is on their line, and an address or a number follows."""
    start, end = found[0].start, found[-1].end
    begins = text.rfind("\n", 0, start) + 1
    if text[begins:start].strip(" >?") or text[end : end + 1] != "\n" or len(found) > 3:
        return False
    return _POSTAL.match(text[end : end + 240]) is not None


def _in_lower_case(text: str) -> Iterator[Span]:
    """Known given names in a text without capitals, with a surname that looks like one."""
    words = [
        _Word(match.group(), fold(match.group()), *match.span()) for match in _ANY.finditer(text)
    ]
    for word in words:
        before = text[max(0, word.start - 40) : word.start]
        given = word.low in COMMON and word.low not in AMBIGUOUS and len(word.low) > 3
        if not given and not (re.search(r"name is $", before) and word.low not in NOT_NAMES):
            continue
        end = word.end
        initial = re.match(r" [a-z]\.? (?=\w)", text[end:])
        reach = end + len(initial.group()) if initial else end + 1
        follow = _ANY.match(text, reach) if text[end : end + 1] == " " else None
        if follow is not None:
            last = _Word(follow.group(), fold(follow.group()), *follow.span())
            if (
                initial
                or _looks_like_surname(last)
                or (_CUE.search(before) and last.low not in NOT_NAMES)
            ):
                end = _without_possessive(last)
        yield Span(word.start, end)


def _with_title(text: str, start: int) -> int:
    """Where a name begins: at its title, if it has one."""
    return start - _titled(text[max(0, start - 14) : start])


def _without_possessive(word: _Word) -> int:
    return word.end - 2 if word.text.endswith(("'s", "\u2019s")) else word.end
