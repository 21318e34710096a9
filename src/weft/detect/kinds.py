"""The kinds of values that can be found, by name, and detectors that users add to them.

At the end, what all finders share: words, places, labels before a value.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol

from weft.errors import DeclarationError


class Detection(NamedTuple):
    """One value in a text: its kind, where it stands, and how it is spelled there."""

    kind: str
    start: int
    end: int
    value: str


class Span(NamedTuple):
    """The position of a value in a text."""

    start: int
    end: int


Look = Callable[[str], Iterator[Span]]
"""Finds the values of one kind in a text, in time proportional to the text."""


class Kind(NamedTuple):
    """A kind of value, and how to find it.

    `shaped` kinds have a form that tells them: a checksum, a prefix, a label in front. The others
    are guesses from words. `numbered` kinds have a digit in every value, so a text without digits
    is skipped. If two kinds claim the same place, the one earlier in the table wins.
    """

    name: str
    look: Look
    about: str
    secret: bool = False
    shaped: bool = True
    numbered: bool = True


def _late(family: str, name: str) -> Look:
    """The finder of one kind. Its chapter, with all its patterns, is loaded at its first use."""

    def look(text: str) -> Iterator[Span]:
        looks: Look = vars(import_module(f"weft.detect.{family}"))[name]
        return looks(text)

    return look


# In order of trust: of two kinds that claim the same characters the earlier one wins.
ALL_KINDS = (
    Kind(
        "api_key",
        _late("secrets", "look_for_keys"),
        "keys, tokens and passwords",
        secret=True,
        numbered=False,
    ),
    Kind("email", _late("contact", "look_for_emails"), "e-mail addresses", numbered=False),
    Kind("iban", _late("money", "look_for_ibans"), "bank accounts with a right checksum"),
    Kind("card", _late("money", "look_for_cards"), "payment cards with a right checksum"),
    Kind("crypto", _late("money", "look_for_wallets"), "addresses of wallets", numbered=False),
    Kind("ssn", _late("national", "look_for_ssns"), "US social security numbers"),
    Kind("passport", _late("national", "look_for_passports"), "passports, after the word"),
    Kind(
        "driver_license",
        _late("national", "look_for_licences"),
        "driving licences, after the words",
    ),
    Kind("national_id", _late("national", "look_for_national_ids"), "identity and tax numbers"),
    Kind("license_plate", _late("national", "look_for_plates"), "number plates, after the words"),
    Kind("medical_record", _late("national", "look_for_records"), "patients and insurances"),
    Kind("bank_account", _late("money", "look_for_accounts"), "accounts, after the words"),
    Kind(
        "swift", _late("money", "look_for_swifts"), "bank codes, next to the word", numbered=False
    ),
    Kind("ip", _late("contact", "look_for_ips"), "addresses of machines", numbered=False),
    Kind("mac", _late("contact", "look_for_macs"), "hardware addresses", numbered=False),
    Kind("url", _late("contact", "look_for_urls"), "web addresses and host names", numbered=False),
    Kind("birth_date", _late("dates", "look_for_birth_dates"), "dates after a word about birth"),
    Kind("date", _late("dates", "look_for_dates"), "days, times and years", numbered=False),
    Kind("phone", _late("contact", "look_for_phones"), "telephone numbers"),
    Kind("zip", _late("addresses", "look_for_zips"), "postal codes"),
    Kind("age", _late("dates", "look_for_ages"), "years of a life"),
    Kind(
        "address",
        _late("addresses", "look_for_addresses"),
        "postal addresses",
        shaped=False,
        numbered=False,
    ),
    Kind("name", _late("names", "look_for_names"), "names of people", shaped=False, numbered=False),
)
BY_NAME = {kind.name: kind for kind in ALL_KINDS}
KINDS = tuple(BY_NAME)
"""The kinds that Weft finds by itself, by name."""

GROUPS = {
    "structured": tuple(kind.name for kind in ALL_KINDS if kind.shaped),
    "secrets": tuple(kind.name for kind in ALL_KINDS if kind.secret),
    "pii": tuple(kind.name for kind in ALL_KINDS if not kind.secret),
}
"""Names that stand for several kinds."""


class Detector(Protocol):
    """Another engine that finds values in a text, added under a name with `add_detector`.

    It must find the same in the same text every time: a request is compiled again and again, and
    a value that is found once and not the next time would be sent.
    """

    def find(self, text: str) -> Iterable[tuple[str, int, int]]:
        """The kind, the start and the end of every value in the text."""
        ...


_added_detectors: dict[str, Detector] = {}


def add_detector(name: str, detector: Detector) -> None:
    """Add a detector, so that `C.default().redact(name)` replaces what it finds.

    A name stands for one detector in a process: what was found under it is remembered.
    """
    if name in GROUPS or name in BY_NAME or _added_detectors.get(name, detector) is not detector:
        raise DeclarationError(
            f"there is a detector named {name!r} already",
            where="add_detector",
            hint="write another name",
        )
    # a policy reads anything else as a regular expression
    if not name.isidentifier():
        raise DeclarationError(
            f"{name!r} is not a name for a detector",
            where="add_detector",
            hint="write letters, digits and underscores, such as presidio",
        )
    _added_detectors[name] = detector


def detectors_named(names: Iterable[str]) -> list[Detector]:
    """The added detectors among these names."""
    return [_added_detectors[name] for name in names if name in _added_detectors]


def kinds_named(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds that the names and groups stand for, in the order of the table.

    Names of added detectors follow, in the order in which they were added.
    """
    wanted: set[str] = set()
    for name in names:
        if name not in GROUPS and not _is_known(name):
            raise _unknown_detector_error(name)
        wanted.update(GROUPS.get(name, (name,)))
    return tuple(kind for kind in (*KINDS, *_added_detectors) if kind in wanted)


def check_kinds(names: Iterable[str], *, where: str) -> None:
    """Reject a name that no kind, no group and no added detector has."""
    for name in names:
        if name not in GROUPS and not _is_known(name):
            error = _unknown_detector_error(name)
            raise DeclarationError(error.message, where=where, hint=error.hint)


def _is_known(name: str) -> bool:
    return name in BY_NAME or name in _added_detectors


def _unknown_detector_error(name: str) -> DeclarationError:
    """The error for a name that stands for nothing, with the nearest one that does."""
    names = [*KINDS, *GROUPS, *_added_detectors]
    inside = [kind for kind in KINDS if kind in name.lower().split("_")]
    near = inside or get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    listed = ", ".join(names)
    hint = f'write "{near[0]}", or one of {listed}' if near else f"write one of {listed}"
    return DeclarationError(f"there is no detector named {name!r}", hint=hint)


# --- what all finders share

BEFORE = 48
"""How many characters before a value a label may stand."""

_INSIDE = r"(?<=(?-i:[a-z]))(?=(?-i:[A-Z]))"

BEGIN = rf"(?:(?<![^\W_])|{_INSIDE})"
"""Where a word begins: names of fields such as `home_phone` and `homePhone` are two words."""

END = rf"(?:(?![^\W_])|{_INSIDE})"
"""Where a word ends."""


def words(*alternatives: str) -> re.Pattern[str]:
    """A pattern that finds any of the alternatives as whole words, in any case.

    A blank in an alternative stands for a blank, an underscore, a hyphen or nothing.
    """
    joined = "|".join(alternatives).replace(" ", "[ _-]?")
    return re.compile(rf"{BEGIN}(?:{joined}){END}", re.IGNORECASE)


def lower_letters(text: str) -> str:
    """Lower the case, every letter in its place; the same text where one would become two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def places(text: str, *wanted: str) -> Iterator[int]:
    """The spans where a text contains any of the others."""
    for each in wanted:
        at = text.find(each)
        while at >= 0:
            yield at
            at = text.find(each, at + 1)


def labelled_values(pattern: re.Pattern[str], text: str, *stems: str) -> Iterator[Span]:
    """The value after a label. Every label begins with one of the stems."""
    for at in places(lower_letters(text), *stems):
        match = pattern.match(text, at)
        if match is not None:
            yield Span(*match.span("value"))


def is_near(
    label: re.Pattern[str], text: str, start: int, end: int, *, before: int = BEFORE, after: int = 0
) -> bool:
    """Whether the label stands shortly before the value, or after it within `after`."""
    if label.search(text, max(0, start - before), start) is not None:
        return True
    return after > 0 and label.search(text, end, end + after) is not None


def _ranges(wanted: list[int]) -> str:
    """The code points as the inside of a character class."""
    parts: list[str] = []
    at = 0
    while at < len(wanted):
        end = at
        while end + 1 < len(wanted) and wanted[end + 1] == wanted[end] + 1:
            end += 1
        parts.append(f"\\U{wanted[at]:08x}-\\U{wanted[end]:08x}")
        at = end + 1
    return "".join(parts)


@cache
def capitals() -> str:
    """The capital letters of Latin, Greek, Cyrillic and Armenian, for use inside `[...]`."""
    return "A-Z" + _ranges(
        [each for each in range(0xC0, min(0x2000, sys.maxunicode)) if chr(each).isupper()]
    )


def table(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def word_lists(name: str) -> dict[str, list[str]]:
    """The lists of words in a data file of this package, by their headings."""
    from importlib.resources import files

    lists: dict[str, list[str]] = {}
    heading = ""
    for line in (files("weft.detect") / "data" / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            heading = line.strip("[]")
            lists[heading] = []
        elif line and not line.startswith("#"):
            lists[heading] += line.split()
    return lists
