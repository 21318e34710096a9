"""Street addresses: a street with its number, a box or a unit, and what follows it.

Every address has a number, so the search goes from number to number and reads the words around.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.detect.kinds import Span, capitals, table, word_lists

_CAPITALS = capitals()

_WORD_LISTS = word_lists("addresses")
ROADS = frozenset(_WORD_LISTS["roads"])
RARE_ROADS = frozenset(_WORD_LISTS["rare roads"])
LEADERS = frozenset(_WORD_LISTS["leaders"])
LOWER_LEADERS = frozenset(_WORD_LISTS["lower leaders"])
FOLLOWERS = frozenset(_WORD_LISTS["followers"])
LINKS = frozenset(_WORD_LISTS["links"])
COUNTRIES = frozenset(_WORD_LISTS["countries"])
STATES = frozenset(_WORD_LISTS["states"])
STOPS = frozenset(_WORD_LISTS["stops"])
_COUNTED = frozenset(_WORD_LISTS["counted"])
_MEASURES = frozenset(_WORD_LISTS["measures"])
ENDINGS = tuple(_WORD_LISTS["endings"])

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

CODE = (
    r"\d{4} ?[A-Z]{2}(?!\w)|(?:[A-Z]{1,2}-)?\d{4,5}(?:-\d{3,4})?(?!\w)(?![ .-]\d)"
    r"|\d{6}(?!\w)(?![ .-]\d)"
    r"|\d{3} \d{2}(?![\w-])(?! \d)|\d{2}-\d{3}(?![\w-])|\d{8}(?= [A-Z])"
    r"|[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}(?!\w)|[A-Z]\d[A-Z] ?\d[A-Z]\d(?!\w)"
    r"|[A-Z]\d[\dW] ?[A-Z\d]{4}(?!\w)"
)
"""Postal codes as they are written in an address."""

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
    following: list[_Word] = []
    at = end
    while len(following) < most and text[at : at + 1] == " ":
        match = _STREET_WORD.match(text, at + 1) or _NUMBER.match(text, at + 1)
        if match is None:
            break
        following.append(_Word(match.group(), *match.span()))
        if following[-1].text.endswith(".") and len(following[-1].text) > 4:
            break
        at = match.end()
    return following


def _number_first(text: str, start: int, end: int, *, plain: bool) -> int:
    """The end of a street that begins with this number; 0 if there is none."""
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
    """The start of an address: the unit, or the word for a number, right before its street."""
    match = _UNIT_BEFORE.search(text, max(0, start - 24), start)
    return start if match is None else match.start()


def _announced_start(text: str, start: int) -> int:
    """The start of an address whose words before the number were announced as an address."""
    if start < 4 or text[start - 1] != " " or text[start - 2] == ",":
        return start
    words = _words_before(text, start)
    first = _after_cue(text, words) if words and words[-1].text[0].isupper() else None
    return start if first is None else words[first].start


def _street_first(text: str, start: int, end: int, *, plain: bool) -> int | None:
    """The start of a street that ends with this number."""
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


_WORD = rf"[{_CAPITALS}∆][\w'\u2019.\-∆]{{0,40}}"

_LINK = "(?:de|del|da|do|dos|di|la|le|am|an|im|in|der|den|ob|of|sur|upon|nad)"

UNITS = (
    "apt|apartment|suite|ste|unit|flat|floor|room|dept|app|appartement|wohnung|piso|lgh|box"
    "|interior|int|edif|edificio|depto|puerta|planta|piano|building|bldg|level|studio"
)

FOLLOWS = re.compile(
    rf"(?P<gap>[ \t]{{0,4}},?[ \t]{{0,4}}\n{{0,2}}[ \t>?|]{{0,6}},?[ \t]{{0,4}})"
    rf"(?:(?P<unit>(?i:{UNITS})\.?\s?#?\d[\w-]{{0,6}}(?!\w))"
    rf"|(?P<code>{CODE}|\d{{3}}(?!\w)(?![ .-]?[\w])|\d{{1,3}}(?=[ \t]*\n?[ \t]*\d{{4,6}}\b))"
    rf"|(?P<state>/ [A-Z]{{2}}(?!\w)|[A-Z]{{2}}(?!\w)|[A-Z]{{3,4}}(?= \d{{5}})|nan(?!\w))"
    rf"|(?P<word>\(?{_WORD}(?:(?: {_LINK}){{1,2}} {_WORD})?\)?))"
)
"""One part of what follows a street."""

_CITY_LINE = re.compile(
    rf"(?:,? |[ ]?\n[ >]{{0,4}})(?={_WORD})(?:(?:{_WORD}|{_LINK})(?: (?={_WORD}|{_LINK} ))?){{1,6}}"
)

_LAST_WORD = re.compile(r"[^\s>,]+")

_TOWN = re.compile(rf"(?: {_WORD}){{1,4}}(?=[,.?!\n]|\Z)")

_ENDS_SENTENCE = re.compile(r"[^\W\d_]{4}\.\Z")

_CODED_WORD = re.compile(r"-\d{4,6}\Z")

_MOST_WORDS = 7

_MOST_STEPS = 24


def tail(text: str, end: int) -> int:
    """The end of the address, including unit, city, code and country after its street."""
    sure = at = end
    words = 0
    coded = False
    for _ in range(_MOST_STEPS):
        match = FOLLOWS.match(text, at)
        if match is None or words == _MOST_WORDS or (not match["gap"] and at != end):
            break
        at = match.end()
        if match["word"] is not None:
            word = match["word"].strip(".()")
            if word in STOPS or text[at : at + 1] == ":":
                break
            words = _MOST_WORDS if _ENDS_SENTENCE.search(match["word"]) else words + 1
            beside = sure == match.start() and "\n" not in match["gap"]
            if word.lower() in COUNTRIES or _CODED_WORD.search(word) or (beside and word.isupper()):
                sure = at
        elif match["code"] is not None:
            if coded:
                break
            coded = len(match["code"]) > 3
            sure = at
            if coded and words == 0 and (match["gap"].strip(" \t") or not match["code"].isdigit()):
                sure = at = city(text, at)
        else:
            sure = at
            if match["unit"] is not None:
                sure = _town(text, at)
    return sure


def _town(text: str, end: int) -> int:
    """The end of a town that fills the rest of the line after a unit."""
    match = _TOWN.match(text, end)
    if match is None or any(each.strip(".") in STOPS for each in match.group().split()):
        return end
    return match.end() - match.group().endswith(".")


def city(text: str, end: int) -> int:
    """The end of the city after a postal code, on the same line or alone on the next."""
    match = _CITY_LINE.match(text, end)
    if match is None or text[match.end() : match.end() + 1] == ":":
        return end
    last = end
    for word in _LAST_WORD.finditer(match.group()):
        if word.group().strip(".") in STOPS:
            break
        if not word.group()[0].islower():
            last = end + word.end() - word.group().endswith(".")
        if len(word.group()) > 3 and word.group()[-1] == ".":
            break
    if "\n" in match.group() and text[last : last + 1] not in {"", "\n", ",", ".", "?", "!"}:
        return end
    return last


_WORDS = ("zip", "post", "pin", "plz", "cap", "cep", "eircode")

_LABELLED = re.compile(
    r"(?i)(?<![^\W_])(?:zip(?:[ _-]?code)?|post(?:al)?[ _-]?code|pin ?code|plz|code postal|cep"
    r"|cap(?=[\"'\s:=]{1,4}\d{5}\b)"
    r"|eircode)"
    r"[\"']?\s{0,3}(?:is|was|:|=|#|-|->)?[\s\"']{0,4}"
    r"(?P<value>(?:[A-Z]{1,2}-(?=\d{4}))?(?=[A-Z -]{0,4}\d)[A-Z0-9]{2,5}(?:[- ]?(?=[A-Z]{0,3}\d"
    r"|[A-Z]{2}(?!\w))[A-Z0-9]{2,4})?)(?!\w)"
)

_STATED = re.compile(r"[0-9](?<=[A-Z]{2} [0-9])(?<![\w-][A-Z]{2} [0-9])\d{4}(?:-\d{4})?(?![\w-])")

_BRITISH = re.compile(
    r"[A-PR-UWYZ](?<![\w-][A-Z])(?:\d{1,2}|[A-HK-Y]\d|[A-HK-Y]\d\d|\d[A-HJKPSTUW]"
    r"|[A-HK-Y]\d[ABEHMNPRV-Y])"
    r" \d[ABD-HJLNP-UW-Z]{2}(?![\w-])"
    r"|[ABCEGHJ-NPRSTVXY](?<![\w-][A-Z])\d[ABCEGHJ-NPRSTV-Z] ?\d[ABCEGHJ-NPRSTV-Z]\d(?![\w-])"
)

_AFTER_CITY = re.compile(
    r"[0-9](?<=[^\W\d_] [0-9])(?:\d{3}-\d{3}|\d{2} \d{2}|\d-\d{3}|\d{2,5}(?: [A-Z]{2})?"
    r"|\d{4}-\d{4})(?=$|\s(?:in|is)\b|[,\n])"
)

_CITY_BEFORE = re.compile(
    rf"(?:\bin|,|\n)\s[{_CAPITALS}][\w'\u2019.-]{{2,30}}"
    rf"(?: (?:[{_CAPITALS}][\w'\u2019.-]{{0,30}}|de|do|da|das|dos|of|del|la|and|the|nan)){{0,6}} \Z"
)


def look_for_zips(text: str) -> Iterator[Span]:
    """Postal codes after a label, a state or a city, and those of a spelling of their own."""
    lower = text.lower()
    if any(each in lower for each in _WORDS):
        for match in _LABELLED.finditer(text):
            yield Span(*match.span("value"))
    for match in _STATED.finditer(text):
        if text[match.start() - 3 : match.start() - 1] in STATES:
            yield Span(*match.span())
    for match in _BRITISH.finditer(text):
        yield Span(*match.span())
    for match in _AFTER_CITY.finditer(text):
        if _CITY_BEFORE.search(text[max(0, match.start() - 90) : match.start()]) is not None:
            yield Span(*match.span())
