"""What follows the street of an address: a unit, a postal code, a city, a state, a country."""

import re

from weft.detect.letters import CAPITALS
from weft.detect.streets import COUNTRIES, UNITS
from weft.detect.tables import table

CODE = (
    r"\d{4} ?[A-Z]{2}(?!\w)|(?:[A-Z]{1,2}-)?\d{4,5}(?:-\d{3,4})?(?!\w)(?![ .-]\d)"
    r"|\d{6}(?!\w)(?![ .-]\d)"
    r"|\d{3} \d{2}(?![\w-])(?! \d)|\d{2}-\d{3}(?![\w-])|\d{8}(?= [A-Z])"
    r"|[A-Z]{1,2}\d[A-Z\d]?\s\d[A-Z]{2}(?!\w)|[A-Z]\d[A-Z] ?\d[A-Z]\d(?!\w)"
    r"|[A-Z]\d[\dW] ?[A-Z\d]{4}(?!\w)"
)
"""Postal codes as they are written in an address."""
_WORD = rf"[{CAPITALS}∆][\w'\u2019.\-∆]{{0,40}}"
_LINK = "(?:de|del|da|do|dos|di|la|le|am|an|im|in|der|den|ob|of|sur|upon|nad)"
FOLLOWS = re.compile(
    rf"(?P<gap>[ \t]{{0,4}},?[ \t]{{0,4}}\n{{0,2}}[ \t>?|]{{0,6}},?[ \t]{{0,4}})"
    rf"(?:(?P<unit>(?i:{UNITS})\.?\s?#?\d[\w-]{{0,6}}(?!\w))"
    rf"|(?P<code>{CODE}|\d{{3}}(?!\w)(?![ .-]?[\w])|\d{{1,3}}(?=[ \t]*\n?[ \t]*\d{{4,6}}\b))"
    rf"|(?P<state>/ [A-Z]{{2}}(?!\w)|[A-Z]{{2}}(?!\w)|[A-Z]{{3,4}}(?= \d{{5}})|nan(?!\w))"
    rf"|(?P<word>\(?{_WORD}(?:(?: {_LINK}){{1,2}} {_WORD})?\)?))"
)
"""One part of what follows a street."""
_CITY = re.compile(
    rf"(?:,? |[ ]?\n[ >]{{0,4}})(?={_WORD})(?:(?:{_WORD}|{_LINK})(?: (?={_WORD}|{_LINK} ))?){{1,6}}"
)
_SPELLED = re.compile(r"[^\s>,]+")
_TOWN = re.compile(rf"(?: {_WORD}){{1,4}}(?=[,.?!\n]|\Z)")
_ENDS_SENTENCE = re.compile(r"[^\W\d_]{4}\.\Z")
_CODED_WORD = re.compile(r"-\d{4,6}\Z")
STOPS = table(
    """
The I It My We You He She They Please Can Could Would Is Are Was And Or But If In On At For From
To This That What When Where Who Why How Mobile Phone Fax Desk Office Email Tel Thanks Regards
Name Date Our Your His Her User Bot
"""
)
"""Words that begin something else."""
_MOST_WORDS = 7
_MOST_STEPS = 24


def tail(text: str, end: int) -> int:
    """Where the address ends, with the unit, city, code and country that follow its street."""
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
    """Where a town ends that fills the rest of the line after a unit."""
    match = _TOWN.match(text, end)
    if match is None or any(each.strip(".") in STOPS for each in match.group().split()):
        return end
    return match.end() - match.group().endswith(".")


def city(text: str, end: int) -> int:
    """Where the city after a postal code ends, on its line or alone on the next."""
    match = _CITY.match(text, end)
    if match is None or text[match.end() : match.end() + 1] == ":":
        return end
    last = end
    for word in _SPELLED.finditer(match.group()):
        if word.group().strip(".") in STOPS:
            break
        if not word.group()[0].islower():
            last = end + word.end() - word.group().endswith(".")
        if len(word.group()) > 3 and word.group()[-1] == ".":
            break
    if "\n" in match.group() and text[last : last + 1] not in {"", "\n", ",", ".", "?", "!"}:
        return end
    return last
