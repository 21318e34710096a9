"""Dates, times, dates of birth and ages."""

import re
from collections.abc import Iterator

from weft.detect.kinds import Span, is_near, lower_letters, places, words

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:1[89]|20)\d\d"
_CLOCK = (
    r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?: ?[ap]\.?m\.?)?"
    r"(?: ?(?:Z|UTC|GMT)|[+-]\d\d:?\d\d)?"
)
_DATE = re.compile(
    rf"(?i)[0-9](?<![\w./-][0-9])(?:(?:(?<=1)[89]|(?<=2)0)\d\d[-/.](?:0?[1-9]"
    rf"|1[0-2])[-/.]{_DAY}(?:[T ]{_CLOCK})?"
    rf"|\d?[-/.](?:{_DAY}|1[0-2])[-/.](?:{_YEAR}|\d\d)(?: {_CLOCK})?"
    rf"|\d?(?:st|nd|rd|th)?(?: of)?[ -]{_MONTH}\.?(?:,?[ -]{_YEAR})?|\d?{_MONTH}{_YEAR}"
    rf"|\d?:[0-5]\d(?::[0-5]\d(?:\.\d{{1,9}})?)?(?: ?[ap]\.?m\.?)?(?: ?(?:Z|UTC|GMT)"
    rf"|[+-]\d\d:?\d\d)?"
    rf"|[0-2]? ?[ap]\.?m\.?"
    rf")(?![\w/:])(?![.-]\d)"
)
_MONTHS = re.compile(
    rf"(?i)\b{_MONTH}(?:\.? {_DAY}(?:st|nd|rd|th)?(?:,? {_YEAR})?|\.?,? {_YEAR})(?![\w/])(?![.-]\d)"
)
_MONTH_STEMS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY = re.compile(r"(?<!\w)(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day(?!\w)", re.I)
_WEEKDAY_BEFORE = re.compile(
    r"(?:\b(?:on|next|(?<!the )last|this|until|by|since|every|from|to|before|after)\s)\Z", re.I
)
_YEAR_ALONE = re.compile(
    r"[12](?<![\w.,/:$€£#-][12])(?:(?<=1)[89]|(?<=2)0)\d\d(?![\w%])(?![.,]\d)(?!-\d)"
)
_YEAR_BEFORE = re.compile(
    r"\b(?:in|during|since|until|till|by|from|of|year|before|after|circa|ca\.|around|early|late"
    r"|mid|spring"
    r"|summer|autumn|fall|winter|is an?|was an?|the) \Z",
    re.I,
)
_YEAR_ENDS = re.compile(
    r"\s(?:Box|Apt|Suite|St\b|Street|Road|Avenue|km|kg|tokens|bytes|items|lines|files|people)"
)


def look_for_dates(text: str) -> Iterator[Span]:
    """Days and times in the common spellings, week days, and years that a word leads to."""
    yield from _days(text)
    for match in _WEEKDAY.finditer(text):
        before = text[max(0, match.start() - 12) : match.start()]
        if _WEEKDAY_BEFORE.search(before) is not None:
            yield Span(*match.span())
    for match in _YEAR_ALONE.finditer(text):
        before = text[max(0, match.start() - 12) : match.start()]
        if _YEAR_BEFORE.search(before) and _YEAR_ENDS.match(text, match.end()) is None:
            yield Span(*match.span())


def _days(text: str) -> Iterator[Span]:
    """Days and times that begin with a digit or with a month."""
    for match in _DATE.finditer(text):
        if _is_possible(match.group()):
            yield Span(*match.span())
    lower = text.lower()
    if any(each in lower for each in _MONTH_STEMS):
        for match in _MONTHS.finditer(text):
            yield Span(*match.span())


def _is_possible(spelled: str) -> bool:
    """Whether the first number can be a day, an hour or a year, and it is not a version."""
    if _VERSION.fullmatch(spelled) is not None:
        return False
    first = int(spelled[: len(spelled) - len(spelled.lstrip("0123456789"))])
    return first <= (23 if ":" in spelled[:3] else 31) or first >= 1800


_VERSION = re.compile(r"\d{1,2}\.\d{1,2}\.\d{1,2}")
_BIRTH = words(
    r"born(?: on| in)?|birth(?:s|day|date)?|d\.?o\.?b\.?|date of birth|geboren|né|née"
    r"|nacid[oa]"
)


def look_for_birth_dates(text: str) -> Iterator[Span]:
    """Dates shortly after a word about birth."""
    lower = text.lower()
    if not any(
        each in lower for each in ("born", "birth", "dob", "d.o.b", "geboren", "né", "nacid")
    ):
        return
    for start, end in _days(text):
        if is_near(_BIRTH, text, start, end, before=32) and ":" not in text[start : start + 3]:
            yield Span(start, end)


_OLD = re.compile(
    r"(?i)[0-9](?<![\w.,$-][0-9])\d{0,2}(?=[ -]?(?:years?|yrs?)[ -](?:old|of age)\b"
    r"|[ -]?y/?o\b|[ -]?year[ -]old)"
)
_AGED = re.compile(
    r"(?i)(?:\baged?|\bage of|\bturn(?:s|ed|ing)?|\bage is|(?<![^\W_])age[\"']?\s?[:=])[\s\"']{0,2}"
    r"(?P<aged>1?\d{1,2})(?=\s*(?:$|[.,;!?)\n\"'}\]]|years?\b|and\b|next\b|this\b|last\b|on\b"
    r"|today\b|yesterday\b))"
)


def look_for_ages(text: str) -> Iterator[Span]:
    """Years of a life: `47 years old`, `aged 47`, `turned 47`."""
    for match in _OLD.finditer(text):
        yield Span(*match.span())
    for at in places(lower_letters(text), "age", "turn"):
        aged = _AGED.match(text, at)
        if aged is not None:
            yield Span(*aged.span("aged"))
