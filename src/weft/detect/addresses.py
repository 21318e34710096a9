"""Street addresses: a street with its number, a box or a unit, and what follows it.

Every address has a number, so the search goes from number to number and reads the words around.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from weft.detect.found import Span
from weft.detect.letters import CAPITALS
from weft.detect.streets import COUNTRIES, ENDINGS, FOLLOWERS, LEADERS, LINKS, ROADS, UNITS
from weft.detect.tables import table

_NUMBER = re.compile(
    r"[0-9](?<![\w.,$€£/:=#+%-][0-9])[0-9]{0,5}[a-zA-Z]?(?:[-/][0-9]{1,4}[a-z]?)?(?![\w:=%])(?!,\d)"
)
_BOX = re.compile(
    r"(?i)\b(?:(?:PSC|CMR|Unit)\s\d{1,5},?\s(?:Box"
    r"|Unit)\s\d{1,5}(?:[,\s]{1,3}[AFD]PO,?\sA[AEP]\s\d{5}(?:-\d{4})?)?"
    r"|US(?:N?[SV]|CGC|NS)\s[a-z]{2,20}[,\s]{1,3}[AFD]PO,?\sA[AEP]\s\d{5}"
    r"|p\.?\s?o\.?\sbox\s\d{1,6}|post(?:box|fach|boks|bus)\s\d{1,6}"
    r"|apartado\s(?:de\scorreos\s)?\d{1,6})"
)
_BOX_WORDS = ("box", "apo", "fpo", "dpo", "postfach", "postboks", "postbus", "apartado")
_UNIT = re.compile(r"(?i)\b(?:apt|apartment|suite|ste|lgh)\.?\s?#?\d[\w-]{0,6}(?!\w)")
_UNIT_WORDS = ("apt", "apartment", "suite", "ste ", "ste.", "lgh")
_CORNER = re.compile(
    r"(?i)(?:the\s)?corner\sof\s(?:[\w'\u2019.\-]{1,30}\s){1,6}and\s[\w'\u2019.\-]{1,30}(?:\s[\w'\u2019.\-]{1,30})?"
)
_CUE = re.compile(
    r"(?i)(?:\b(?:address(?:es)?(?: is| with|:| to|: user:)?|located (?:at|in|on)|(?:live[sd]?"
    r"|resid\w{1,3}|stay\w{0,3}) (?:at|on|in)"
    r"|offices? (?:is|are|is located|are located) (?:at|in)|(?:sen[dt]|deliver(?:ed)?"
    r"|ship(?:ped)?|mail(?:ed)?|return|moved?|drive) to(?:\? user:)?"
    r"|(?:north|south|east|west) side of|meet (?:me|you) (?:at|on)|arrived at|taxi to"
    r"|it['\u2019]s in|is (?:at|on)|stop at|off at|enter on"
    r"|of [\w ]{2,40} is|new one to|following\?|they are:)\s{1,6})$"
)
_STREET_WORD = re.compile(r"[^\W\d_][\w'\u2019.\-]{0,30}")
_TAIL = re.compile(
    rf"(?P<gap>[ \t]{{0,4}},?[ \t]{{0,4}}\n{{0,2}}[ \t>?|]{{0,6}},?[ \t]{{0,4}})"
    rf"(?:(?P<unit>(?i:{UNITS})\.?\s?#?\d[\w-]{{0,6}}(?!\w))"
    rf"|(?P<code>\d{{3,6}}(?:-\d{{3,4}})?(?!\w)(?![ .-]\d)|\d{{2}}-\d{{3}}(?!\d)"
    rf"|\d{{1,3}}(?=[ \t]*\n?[ \t]*\d{{4,6}}\b)"
    rf"|[A-Z]{{1,2}}\d[A-Z\d]?\s\d[A-Z]{{2}}(?!\w))|(?P<state>[A-Z]{{2}}(?!\w)|nan(?!\w))"
    rf"|(?P<word>\(?[{CAPITALS}∆][\w'\u2019.\-∆]{{0,40}}\)?))"
)
_STOPS = table(
    """
The I It My We You He She They Please Can Could Would Is Are Was And Or But If In On At For From
To This That What When Where Who Why How Mobile Phone Fax Desk Office Email Tel Thanks Regards
Name Date Our Your His Her User Bot
"""
)
_MEASURES = table(
    """
year years day days hour hours minute minutes month months week weeks time times km mile miles
step steps second seconds percent items tokens lines files people bytes rows points usd eur
dollars euros am pm
"""
)
_WEAK_ROADS = frozenset({"way", "row", "pass", "hill"})
_MOST_WORDS = 7
_BEFORE = 90


class _Word(NamedTuple):
    text: str
    start: int
    end: int

    @property
    def low(self) -> str:
        return self.text.lower().rstrip(".,")


def look_for_addresses(text: str) -> Iterator[Span]:
    """Boxes, units and corners by their words, and every number that stands in a street."""
    low = text.lower()
    plain = low == text
    if any(each in low for each in _BOX_WORDS):
        for match in _BOX.finditer(text):
            yield Span(match.start(), _tail(text, match.end()))
    if any(each in low for each in _UNIT_WORDS):
        for match in _UNIT.finditer(text):
            yield Span(match.start(), _tail(text, match.end()))
    if "corner of" in low:
        for match in _CORNER.finditer(text):
            yield Span(*match.span())
    last = 0
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if start < last:
            continue
        if text[end : end + 1] == " " and text[end + 1 : end + 2].isalnum():
            stop = _number_first(text, start, end, plain=plain)
            if stop:
                last = _tail(text, stop)
                yield Span(start, last)
                continue
        if start > 3 and text[start - 1] == " " and _may_end_street(text, start - 1, plain=plain):
            begin = _street_first(text, start, end, plain=plain)
            if begin is not None:
                last = _tail(text, end + (text[end : end + 1] == "."))
                yield Span(begin, last)


def _may_end_street(text: str, end: int, *, plain: bool) -> bool:
    """Whether the word that ends here begins with a capital, or is a word for a street."""
    if plain or not (text[end - 1].isalpha() or text[end - 1] in ".,"):
        return text[end - 1].isalpha()
    begin = text.rfind(" ", max(0, end - 40), end) + 1
    begin = max(begin, text.rfind("\n", begin, end) + 1)
    return text[begin].isupper() or text[begin:end].lower().rstrip(".,") in FOLLOWERS


def _words_after(text: str, end: int, most: int) -> list[_Word]:
    """The words after a number, on its line, with nothing but blanks between them."""
    found: list[_Word] = []
    at = end
    while len(found) < most and text[at : at + 1] == " ":
        match = _STREET_WORD.match(text, at + 1) or _NUMBER.match(text, at + 1)
        if match is None:
            break
        found.append(_Word(match.group(), *match.span()))
        if found[-1].text.endswith(".") and len(found[-1].text) > 4:
            break
        at = match.end()
    return found


def _number_first(text: str, start: int, end: int, *, plain: bool) -> int:
    """Where a street ends that begins with this number; 0 where none does."""
    words = _words_after(text, end, 6)
    if words and words[0].text[0].isdigit() and words[0].text[-1] != ".":
        words = words[1:]
    if not words or words[0].text[0].isdigit() or words[0].low in _MEASURES:
        return 0
    if not (plain or words[0].text[0].isupper()):
        return 0
    leads = words[0].low in LEADERS
    last = 0
    for at, word in enumerate(words):
        if not (plain or word.text[0].isupper() or word.low in LINKS or word.text[0].isdigit()):
            break
        named = word.low in ROADS and not (plain and word.low in _WEAK_ROADS)
        if at and (named or (leads and word.low not in LINKS and not plain)):
            last = word.end
    if last:
        return last
    if _CUE.search(text[max(0, start - 48) : start]) is None:
        return 0
    for at, word in enumerate(words):
        if word.text[0].isdigit() and at:
            return word.end
        if not (plain or word.text[0].isupper() or word.low in LINKS):
            return words[at - 1].end if at > 1 or len(words[0].text) > 5 else 0
    return 0


def _street_first(text: str, start: int, end: int, *, plain: bool) -> int | None:
    """Where a street begins that ends with this number."""
    window = text[max(0, start - _BEFORE) : start - 1]
    line = window[window.rfind("\n") + 1 :]
    base = start - 1 - len(line)
    words = [
        _Word(match.group(), base + match.start(), base + match.end())
        for match in re.finditer(r"\S+", line)
    ][-6:]
    words = _since_stop(words)
    if not words or not re.fullmatch(r"[^\W\d_][\w'\u2019.\-]*,?", words[-1].text):
        return None
    first = _street_start(words, plain=plain)
    if first is None:
        first = _between_numbers(text, words, end)
    if first is None:
        first = _after_cue(text, words)
    if first is None:
        return None
    while first > 0 and re.fullmatch(r"[0-9]{1,6}[a-z]?", words[first - 1].text):
        first -= 1
    return words[first].start


def _since_stop(words: list[_Word]) -> list[_Word]:
    """The words after the last one that ends a phrase."""
    for at in range(len(words) - 2, -1, -1):
        word = words[at].text
        if word[-1] in ",;:!?)" or (word[-1] == "." and len(word) > 5):
            return words[at + 1 :]
    return words


def _street_start(words: list[_Word], *, plain: bool) -> int | None:
    last = words[-1]
    if len(last.text) > 5 and last.low.endswith(ENDINGS) and (plain or last.text[0].isupper()):
        return _back_over_capitals(words, len(words) - 1, 2)
    if last.low in FOLLOWERS and len(words) > 1 and (plain or words[-2].text[0].isupper()):
        return _back_over_capitals(words, len(words) - 1, 3)
    for at in range(len(words) - 2, -1, -1):
        if words[at].low in LEADERS and (
            words[at].text[0].isupper() or words[at].text.endswith(".")
        ):
            return at
        if not (words[at].text[0].isupper() or words[at].low in LINKS):
            return None
    return None


def _back_over_capitals(words: list[_Word], at: int, most: int) -> int:
    while most and at and words[at - 1].text[0].isupper() and words[at - 1].text not in _STOPS:
        at -= 1
        most -= 1
    return at


def _between_numbers(text: str, words: list[_Word], end: int) -> int | None:
    """A number, a few words and this number, where a unit, a city or a code follows."""
    for at in range(len(words) - 1, max(-1, len(words) - 6), -1):
        word = words[at].text
        if re.fullmatch(r"[0-9]{1,6}", word):
            follows = _TAIL.match(text, end + (text[end : end + 1] == "."))
            return (
                at
                if follows is not None
                and at < len(words) - 1
                and (follows["unit"] or "\n" in follows["gap"] or "," in follows["gap"])
                else None
            )
        if not (word[0].isupper() or words[at].low in LINKS):
            return None
    return None


def _after_cue(text: str, words: list[_Word]) -> int | None:
    """Capitalised words that begin right where an address is announced."""
    for at in range(max(0, len(words) - 4), len(words)):
        if not words[at].text[0].isupper() and not words[at].text[0].isdigit():
            continue
        start = words[at].start
        if _CUE.search(text[max(0, start - 48) : start]) is not None:
            return at
    return None


def _tail(text: str, end: int) -> int:
    """Where the address ends, with the unit, city, code and country that follow its street."""
    sure = at = end
    words = 0
    coded = False
    while words < _MOST_WORDS:
        match = _TAIL.match(text, at)
        if match is None or (not match["gap"] and at != end):
            break
        if match["word"] is not None:
            word = match["word"].strip(".()")
            if word in _STOPS or text[match.end() : match.end() + 1] == ":":
                break
            words += 1
            if word.lower() in COUNTRIES or (
                sure == at and "\n" not in match["gap"] and word.isupper()
            ):
                sure = match.end()
        elif match["code"] is not None and coded:
            break
        else:
            coded = match["code"] is not None and len(match["code"]) > 3
            sure = match.end()
        at = match.end()
    return sure
