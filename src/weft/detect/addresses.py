"""Street addresses: a street with its number, a box or a unit, and what follows it.

Every address has a number, so the search goes from number to number and reads the words around.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.detect.found import Span
from weft.detect.streets import (
    ENDINGS,
    FOLLOWERS,
    LEADERS,
    LINKS,
    LOWER_LEADERS,
    RARE_ROADS,
    ROADS,
)
from weft.detect.tables import table
from weft.detect.tail import CODE, FOLLOWS, STOPS, city, tail

_NUMBER = re.compile(
    r"[0-9](?<![\w.,$€£/:=#+%-][0-9])[0-9]{0,5}[a-zA-Z]?(?:[-/][0-9]{1,4}[a-z]?)?(?![\w:=%])(?!,\d)"
)
_BOX = re.compile(
    r"(?i)\b(?:(?:PSC|CMR|Unit)\s\d{1,5},?\s(?:Box"
    r"|Unit)\s\d{1,5}(?:[,\s]{1,3}[AFD]PO,?\sA[AEP]\s\d{5}(?:-\d{4})?)?"
    r"|US(?:N?[SV]|CGC|NS)\s[^\W\d_]{2,20}[,\s]{1,3}[AFD]PO,?\sA[AEP]\s\d{5}"
    r"|p\.?\s?o\.?\sbox\s\d{1,6}|post(?:box|fach|boks|bus)\s\d{1,6}"
    r"|apartado\s(?:de\scorreos\s)?\d{1,6})"
)
_BOX_WORDS = ("box", "apo", "fpo", "dpo", "postfach", "postboks", "postbus", "apartado")
_UNIT = re.compile(
    r"(?i)\b(?:(?P<sure>apt|apartment|suite|ste|lgh)\.?\s?#?\d[\w-]{0,6}(?!\w)"
    r"|(?:flat|studio)\s\d{1,4}[a-z]?(?=[,\n]))"
)
_UNIT_WORDS = ("apt", "apartment", "suite", "ste ", "ste.", "lgh", "flat ", "studio ")
_UNIT_BEFORE = re.compile(
    r"(?i)(?<!\w)(?:(?:unit|level|suite|ste|apt|studio|flat|floor)\.?\s"
    r"(?:\d{1,5}[a-z]?(?:,\s|[ \n]))?"
    r"|(?:h\.? ?)?n[or]\.\s?)\Z"
)
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
_CUE_ENDS = table("address addresses is with to user at in on of are following")
_SPELLED = re.compile(r"[^\s>]+")
_STREET_FOLLOWS = re.compile(r" (?:[^\W\d_]|[0-9][\w/-]{0,8},? [^\W\d_]|[0-9]{1,3}[a-z])")
_STREET_WORD = re.compile(r"[^\W\d_][\w'\u2019.\-]{0,30}")
_MEASURES = table(
    """
year years day days hour hours minute minutes month months week weeks time times km mile miles
step steps second seconds percent items tokens lines files people bytes rows points usd eur
dollars euros am pm
"""
)
_COUNTED = table(
    """
january february march april may june july august september october november december jan feb
mar apr jun jul aug sep sept oct nov dec chapter section version page table figure part step
phase day week year room gate flight line item order ticket case level class grade number no
volume issue edition question task type round game episode season series model windows python
top act article clause rule release build total monday tuesday wednesday thursday friday saturday
sunday
"""
)
"""Words that a number may follow without being one of a house."""
_CODE_AND_CITY = re.compile(
    rf"(?:,[ ]|[ ]?\n[ >]{{0,4}})(?P<code>{CODE})[ ](?=[^\W\d_])(?=\w*[^\W\d_a-z])"
)
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_WEAK_ROADS = frozenset({"way", "row", "pass", "hill"})
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
            yield Span(match.start(), tail(text, match.end()))
    if any(each in low for each in _UNIT_WORDS):
        last = 0
        for match in _UNIT.finditer(text):
            if match.start() >= last:
                last = tail(text, match.end())
                if match["sure"] or last > match.end():
                    yield Span(match.start(), last)
    if "corner of" in low:
        for match in _CORNER.finditer(text):
            yield Span(*match.span())
    last = 0
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        if start < last:
            continue
        begins = end + (text[end : end + 1] == ",")
        if _STREET_FOLLOWS.match(text, begins) is not None:
            stop = _number_first(text, start, begins, plain=plain)
            if stop:
                last = tail(text, stop)
                yield Span(_with_unit(text, _announced_start(text, start)), last)
                continue
        if start > 3 and text[start - 1] == " " and _may_end_street(text, start - 1, plain=plain):
            begin = _street_first(text, start, end, plain=plain)
            if begin is not None:
                last = tail(text, end + (text[end : end + 1] == "."))
                if last == end and text[start - 2] == "," and end - start > 3:
                    last = city(text, end)
                yield Span(_with_unit(text, begin), last)


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
    leads = words[0].low in LEADERS
    lower = _leads_in_lower_case(words)
    if not (plain or lower or words[0].text[0].isupper()):
        return 0
    last = rare = 0
    for at, word in enumerate(words):
        upper = word.text[0].isupper() or word.text[0].isdigit() or (lower and not at)
        if not (plain or upper or word.low in LINKS):
            break
        named = word.low in ROADS and not (plain and word.low in _WEAK_ROADS)
        if at and (named or (leads and word.low not in LINKS and not plain)):
            last = word.end
        elif at and not last and word.low in RARE_ROADS:
            rare = word.end
    if last:
        return last
    cued = _is_announced(text, start)
    if rare and (cued or _is_house(text[start:end].rstrip(",")) or tail(text, rare) > rare):
        return rare
    if not cued:
        return 0
    for at, word in enumerate(words):
        if word.text[0].isdigit() and at:
            return word.end
        if not (plain or word.text[0].isupper() or word.low in LINKS):
            return words[at - 1].end if at > 1 or len(words[0].text) > 5 else 0
    return 0


def _leads_in_lower_case(words: Sequence[_Word]) -> bool:
    """Whether the words are as in `rue de Rivoli`: a small word for a street, then its name."""
    if words[0].low not in LOWER_LEADERS:
        return False
    name = next((each for each in words[1:] if each.low not in LINKS), None)
    return name is not None and name.text[0].isupper()


def _is_house(number: str) -> bool:
    """Whether a number is more likely one of a house than a count or a year."""
    return len(number) > 2 and not (len(number) == 4 and number[:2] in {"19", "20"})


def _words_before(text: str, start: int) -> list[_Word]:
    """The words before a number, on its line and in its phrase."""
    window = text[max(0, start - _BEFORE) : max(0, start - 1)]
    line = window[window.rfind("\n") + 1 :]
    base = start - 1 - len(line)
    return _since_stop(
        [
            _Word(match.group(), base + match.start(), base + match.end())
            for match in _SPELLED.finditer(line)
        ][-6:]
    )


def _is_announced(text: str, start: int) -> bool:
    """Whether what stands in front is followed by an address."""
    before = text[max(0, start - 48) : start]
    last = before.rsplit(None, 1)[-1:]
    if not last or last[0].rstrip(":?").lower() not in _CUE_ENDS:
        return False
    return _CUE.search(before) is not None


def _with_unit(text: str, start: int) -> int:
    """Where an address begins: at the unit or the word for a number right before its street."""
    match = _UNIT_BEFORE.search(text, max(0, start - 24), start)
    return start if match is None else match.start()


def _announced_start(text: str, start: int) -> int:
    """Where an address begins: before the number, where words before it were announced as one."""
    if start < 4 or text[start - 1] != " " or text[start - 2] == ",":
        return start
    words = _words_before(text, start)
    first = _after_cue(text, words) if words and words[-1].text[0].isupper() else None
    return start if first is None else words[first].start


def _street_first(text: str, start: int, end: int, *, plain: bool) -> int | None:
    """Where a street begins that ends with this number."""
    words = _words_before(text, start)
    if not words or not re.fullmatch(r"[^\W\d_][\w'\u2019.\-]*,?", words[-1].text):
        return None
    first = _street_start(words, plain=plain)
    if first is None:
        first = _before_code(text, words, end)
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
    if last.low in FOLLOWERS and len(words) > 2 and words[-3].text[0].isupper():
        return _back_over_capitals(words, len(words) - 2, 2)
    for at in range(len(words) - 2, -1, -1):
        if words[at].low in LEADERS and (
            words[at].text[0].isupper()
            or words[at].text.endswith(".")
            or _leads_in_lower_case(words[at:])
        ):
            return at
        if not (words[at].text[0].isupper() or words[at].low in LINKS):
            return None
    return None


def _back_over_capitals(words: list[_Word], at: int, most: int) -> int:
    while most and at and words[at - 1].text[0].isupper() and words[at - 1].text not in STOPS:
        at -= 1
        most -= 1
    return at


def _before_code(text: str, words: list[_Word], end: int) -> int | None:
    """One or two capitalised words and this number, where a postal code and a city follow."""
    follows = _CODE_AND_CITY.match(text, end)
    if follows is None or _YEAR.match(follows["code"]) or not _may_name_street(words[-1]):
        return None
    return _back_over_capitals(words, len(words) - 1, 2)


def _may_name_street(word: _Word) -> bool:
    return word.text[0].isupper() and len(word.text) > 3 and word.low not in _COUNTED


def _between_numbers(text: str, words: list[_Word], end: int) -> int | None:
    """A number, a few words and this number, where a unit, a city or a code follows."""
    if words[-1].low in _COUNTED:
        return None
    for at in range(len(words) - 1, max(-1, len(words) - 6), -1):
        word = words[at].text
        if re.fullmatch(r"[0-9]{1,6}", word):
            follows = FOLLOWS.match(text, end + (text[end : end + 1] == "."))
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
    if words[-1].low in _COUNTED:
        return None
    for at in range(max(0, len(words) - 4), len(words)):
        if not words[at].text[0].isupper() and not words[at].text[0].isdigit():
            continue
        start = words[at].start
        if _is_announced(text, start):
            return at
    return None
