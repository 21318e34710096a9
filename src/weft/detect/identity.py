"""Social security numbers of the United States, and documents named by a word in front."""

import re
from collections.abc import Iterator

from weft.detect.found import Span
from weft.detect.near import BEGIN, END, is_near, lowered, places, words

_SSN = re.compile(r"([0-9](?<![\w.+-][0-9])\d{2})([- .]?)(\d{2})\2(\d{4})(?![\w])(?!\.\d)(?!-\d)")
_SSN_WORDS = words(
    r"ssns?|social security(?: (?:number|no|num))?|itin|tax(?:payer)? id\w{0,10}|social"
)
_SAMPLES = frozenset({"078051120", "219099999"})
"""Numbers that were printed in advertisements, and so were never anybody's again."""


def look_for_ssns(text: str) -> Iterator[Span]:
    """Numbers in the ranges that are given out; without hyphens only beside a word for it."""
    for match in _SSN.finditer(text):
        area, between, group, serial = match.groups()
        if area in {"000", "666"} or group == "00" or serial == "0000":
            continue
        if area >= "900" and not _is_taxpayer(group):
            continue
        named = is_near(_SSN_WORDS, text, *match.span())
        if area + group + serial in _SAMPLES and not named:
            continue
        if between == "-" or named:
            yield Span(*match.span())


def _is_taxpayer(group: str) -> bool:
    """Whether a number from 900 on is one of those given to taxpayers without an SSN."""
    number = int(group)
    return 50 <= number <= 65 or 70 <= number <= 88 or 90 <= number <= 92 or 94 <= number <= 99


# A label, then what may stand between, then a value with a digit in it.
_LINK = (
    r"(?:[\s_-]{0,3}(?:numbers?|no\.?|num|nr\.?|id|#|code))?[\"']?\s{0,3}(?:is|was|are|:|=|\(|-|->)?"
    r"[\s\"']{0,4}"
)


def _labelled(label: str, value: str) -> re.Pattern[str]:
    spaced = label.replace(" ", "[ _-]?")
    return re.compile(rf"(?i){BEGIN}(?:{spaced}){END}{_LINK}(?P<value>{value})(?![\w])")


_LICENCE = _labelled(
    r"driv(?:er|ing)(?:'s|s|\u2019s)? (?:licen[cs]e|permit)|licen[cs]e (?:number|no\.?)|DLN?",
    r"(?=[A-Z -]{0,8}\d)[A-Z0-9]{1,14}(?:[- ]?[A-Z0-9]*\d[A-Z0-9]*){0,4}",
)
_PASSPORT = _labelled(
    r"passports?|reisepass\w{0,6}|passeport|pasaporte|passaporto",
    r"(?=[A-Z]{0,9}\d)[A-Z0-9]{6,10}",
)
_PLATE = _labelled(
    r"(?:licen[cs]e|number|registration|vehicle|car) (?:plates?|registration)|plates?"
    r"|kennzeichen|reg",
    r"(?=[A-Z0-9 -]{0,6}\d)(?=[A-Z0-9 -]{0,9}[A-Z])[A-Z0-9]{1,4}(?:[- ]?[A-Z0-9]{1,4}){1,2}",
)
_VEHICLE = re.compile(r"(?<!\w)(?=[A-Z0-9]{0,16}\d)[A-HJ-NPR-Z0-9]{17}(?!\w)")
_VEHICLE_WORDS = words(r"vin|vehicle identification\w{0,3}|chassis")
_RECORD = _labelled(
    r"medical record|mrn|patient(?: id| number)|health (?:card|plan|insurance)|insurance (?:id"
    r"|policy)|policy",
    r"(?=[A-Z-]{0,5}\d)[A-Z0-9]{2,6}(?:-?[A-Z0-9]*\d[A-Z0-9]*){1,4}",
)


def look_for_licences(text: str) -> Iterator[Span]:
    """Driving licences after the words that say so: each state has its own shape."""
    return _values(_LICENCE, text, "licen", "driv", "dl")


def look_for_passports(text: str) -> Iterator[Span]:
    """Passport numbers after the word."""
    return _values(_PASSPORT, text, "pass", "pasap", "reisep")


def look_for_plates(text: str) -> Iterator[Span]:
    """Number plates after the words that say so, and the numbers of vehicles."""
    stems = ("plate", "licen", "number", "regist", "vehicle", "car", "kennzeichen", "reg")
    yield from _values(_PLATE, text, *stems)
    lower = text.lower()
    if not any(each in lower for each in ("vin", "vehicle", "chassis")):
        return
    for match in _VEHICLE.finditer(text):
        if is_near(_VEHICLE_WORDS, text, *match.span()):
            yield Span(*match.span())


def look_for_records(text: str) -> Iterator[Span]:
    """Numbers of patients and insurances after the words that say so."""
    return _values(_RECORD, text, "medical", "mrn", "patient", "health", "insurance", "policy")


def _values(pattern: re.Pattern[str], text: str, *stems: str) -> Iterator[Span]:
    """What follows a label; every label begins with one of the stems."""
    for at in places(lowered(text), *stems):
        match = pattern.match(text, at)
        if match is not None:
            yield Span(*match.span("value"))
