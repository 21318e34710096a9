"""Postal codes."""

import re
from collections.abc import Iterator

from weft.detect.found import Span
from weft.detect.letters import CAPITALS
from weft.detect.streets import STATES

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
_CITY = re.compile(
    rf"(?:\bin|,|\n)\s[{CAPITALS}][\w'\u2019.-]{{2,30}}"
    rf"(?: (?:[{CAPITALS}][\w'\u2019.-]{{0,30}}|de|do|da|das|dos|of|del|la|and|the|nan)){{0,6}} \Z"
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
        if _CITY.search(text[max(0, match.start() - 90) : match.start()]) is not None:
            yield Span(*match.span())
