"""Names that tell something apart: paths, identifiers, numbers, addresses; and short values."""

import re

SHORTEST = 6
"""How many letters a name must have to be told from chance inside other words."""

_STRING = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_./:@\-]{{{SHORTEST - 2},}}[A-Za-z0-9_]")

_TELLING = re.compile(r"[0-9_./@]|[a-z][A-Z]")
"""What tells a name, a path or a number from a plain word."""


def telling_names(text: str) -> list[str]:
    """The strings of a text that look like a name, a path or a number, each once."""
    strings = dict.fromkeys(_STRING.findall(text))
    # most are plain words or have a digit, which is quicker seen without a search
    return [
        one
        for one in strings
        if (
            not one[1:].islower() and _TELLING.search(one)
            if one.isalpha()
            else one.isalnum() or _TELLING.search(one)
        )
    ]


GROUPED = re.compile(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])")
"""A number with thousands separators."""

_COMMA = re.compile(r"\d,\d{3}")
_VALUE = re.compile(r"(?<![\w./:@#-])[$€£¥]?(\w+(?:[.:-]\w+)*)%?(?![\w/@])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHORT = re.compile(r"(?=.*\d.*\d|.*[A-Za-z].*\d|.*\d.*[A-Za-z]).{2,5}")
"""Two digits, or a digit and a letter: one digit alone stands everywhere."""
_LONGEST_SHORT = 5


def short_values_in(text: str) -> list[str]:
    """The short values that stand by themselves: numbers, prices, seats and ids, each once.

    A number is spelled without its currency, its thousands separators and zeros at its end.
    """
    ungrouped = text
    # to look for whole numbers takes longer than to see that none can be there
    if _COMMA.search(text) is not None:
        ungrouped = GROUPED.sub(lambda match: match[0].replace(",", ""), text)
    values = dict.fromkeys(_VALUE.findall(ungrouped))
    spelled_plainly = [plain_value(one) if "." in one else one for one in values]
    short = [one for one in dict.fromkeys(spelled_plainly) if len(one) <= _LONGEST_SHORT]
    # most are words, which is quicker seen without a search
    return [one for one in short if not one.isalpha() and _SHORT.fullmatch(one)]


def plain_value(token: str) -> str:
    """A value as it is compared: `158.00` is `158`."""
    if "." in token and _NUMBER.fullmatch(token):
        return token.rstrip("0").rstrip(".")
    return token
