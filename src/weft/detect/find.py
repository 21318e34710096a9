"""Find values of several kinds in a text at once, and those of the author's own patterns.

A pattern can need longer than the universe for a short text, and Python's own engine cannot be
stopped. The package `regex` can, so authors' patterns run there, each with a limit. A pattern
that reached its limit has found nothing for sure: who asked must not go on as if it had.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.detect.kinds import ALL_KINDS, KINDS, Detection, Detector, detectors_named
from weft.errors import DeclarationError, WeftError
from weft.late import late_pattern

if TYPE_CHECKING:
    import regex


PLACEHOLDER = late_pattern(r"<[A-Z][A-Z0-9_]{1,40}_[0-9a-f]{10}>")
"""The placeholder of a value that was taken out. Nothing is looked for inside it."""

_BLANK = "\ue000"

_DIGIT = late_pattern(r"[0-9]")

_RANKS = {kind: rank for rank, kind in enumerate(KINDS)}


class PatternTimeout(WeftError):
    """A pattern that did not finish in time, so that the content of the text is unknown."""


class Pattern(msgspec.Struct, frozen=True):
    """An author's own kind of value: its name, and the expression that finds it."""

    name: str
    expression: str


def find(text: str, kinds: Iterable[str], patterns: Sequence[Pattern] = ()) -> list[Detection]:
    """The values of these kinds in the text, in order, none of them twice.

    Where values overlap, the longest gives its kind and the union of all is one value, so that
    no part of any of them stays.
    """
    wanted = set(kinds)
    # of the same length: places in the masked text are places in the text
    masked = PLACEHOLDER.sub(_blank_match, text) if "<" in text else text
    detections = [
        Detection(pattern.name, start, end, text[start:end])
        for pattern in patterns
        for start, end in _matches(pattern, masked)
    ]
    if not wanted or text.isspace():
        return _apart(detections, text)
    for detector in detectors_named(wanted):
        detections += _from_detector(detector, masked, text)
    simple = plain(masked)
    has_digits = _DIGIT.search(simple.text) is not None
    for kind in ALL_KINDS:
        if kind.name not in wanted or (kind.numbered and not has_digits):
            continue
        for span in kind.look(simple.text):
            start, end = simple.span(*span)
            if end > start:
                detections.append(Detection(kind.name, start, end, text[start:end]))
    return _apart(detections, text)


def replace_found(
    text: str, kinds: Iterable[str], replacement_of: Callable[[Detection], str]
) -> str:
    """The text with something else in place of each value of these kinds."""
    for one in reversed(find(text, kinds)):  # from the end: the places before it stay right
        text = f"{text[: one.start]}{replacement_of(one)}{text[one.end :]}"
    return text


def _blank_match(match: re.Match[str]) -> str:
    return _BLANK * len(match.group())


def _from_detector(detector: Detector, masked: str, text: str) -> Iterator[Detection]:
    for kind, start, end in detector.find(masked):
        # a span outside the text would leave its value in place
        if not 0 <= start <= end <= len(text):
            raise DeclarationError(
                f"it found {kind!r} at {start} to {end} in a text of {len(text)} characters",
                where=type(detector).__name__,
                hint="give the start and the end of a value as offsets in the text",
            )
        if end > start:
            yield Detection(kind, start, end, text[start:end])


def _apart(detections: list[Detection], text: str) -> list[Detection]:
    """The detections merged until none overlaps another, in the order of the text."""
    if len(detections) < 2:
        return detections
    detections.sort(key=lambda each: (each.start, -each.end, _RANKS.get(each.kind, -1)))
    apart = [detections[0]]
    for each in detections[1:]:
        last = apart[-1]
        if each.start >= last.end:
            apart.append(each)
        elif each.end > last.end:
            longer = last if last.end - last.start >= each.end - each.start else each
            apart[-1] = Detection(longer.kind, last.start, each.end, text[last.start : each.end])
    return apart


# --- a text as it is looked at

_ODD = late_pattern(
    "[\u00a0\u00ad\u034f\u061c\u0660-\u0669\u06f0-\u06f9\u07c0-\u07c9\u0966-\u1099\u17b4\u17b5"
    "\u17e0-\u17e9\u180e-\u1819\u1946-\u194f\u19d0-\u19d9\u1a80-\u1a99\u1b50-\u1b59\u1bb0-\u1bb9"
    "\u1c40-\u1c59\u2000-\u2015\u2028-\u202f\u205f-\u2064\u2212\u3000\ua620-\uabf9\ufe00-\ufe0f"
    "\ufeff\uff01-\uff5e\U000104a0-\U000104a9\U0001d7ce-\U0001d7ff]"
)

_INVISIBLE = late_pattern(
    "[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\ufe00-\ufe0f\ufeff]"
)

_BLANKS = (
    "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)

_HYPHENS = "\u2010\u2011\u2012\u2013\u2212"


class Plain(NamedTuple):
    """A text in plain characters, with the place of each one in the original text."""

    text: str
    places: list[int] | None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The position of a stretch of the plain text in the original text."""
        if self.places is None or end <= start:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def plain(text: str) -> Plain:
    """The text with look-alikes of ASCII replaced and invisible characters left out."""
    if text.isascii() or _ODD.search(text) is None:
        return Plain(text, None)
    places = None
    if _INVISIBLE.search(text) is not None:
        places = [at for at, each in enumerate(text) if _INVISIBLE.match(each) is None]
        text = "".join(text[at] for at in places)
    return Plain(text.translate(_replacements()), places)


@lru_cache(1)
def _replacements() -> dict[int, str]:
    """The ASCII character for each one that looks like it."""
    replacements = {full: chr(full - 0xFEE0) for full in range(0xFF01, 0xFF5F)}
    replacements.update((ord(each), " ") for each in _BLANKS)
    replacements.update((ord(each), "-") for each in _HYPHENS)
    for first, last in ((0x0660, 0x1C59), (0xA620, 0xABF9), (0x104A0, 0x104A9), (0x1D7CE, 0x1D7FF)):
        for code in range(first, last + 1):
            digit = unicodedata.decimal(chr(code), None)
            if digit is not None:
                replacements[code] = str(digit)
    return replacements


# --- authors' patterns

LIMIT = 0.5
"""Seconds that one pattern may look at one text."""
LEAST = 0.005
"""Seconds that it may look in any case."""

_PATTERN_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def spell_pattern(compiled: "re.Pattern[str]") -> str:
    """Spell a compiled pattern as text, its flags in front."""
    flags = "".join(
        letter
        for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S), ("x", re.X), ("a", re.A))
        if compiled.flags & flag
    )
    text = compiled.pattern
    if not isinstance(cast("object", text), str):
        raise DeclarationError(
            "a pattern of bytes cannot be looked for in text",
            where=repr(compiled),
            hint='write it as text: re.compile(r"EMP-[0-9]{6}")',
        )
    return f"(?{flags}){text}" if flags else text


def pattern_of(expression: str, *, name: str = "pattern", where: str = "") -> Pattern:
    """The expression as a pattern, or an error that says where it cannot be read."""
    if not isinstance(cast("object", expression), str):
        raise DeclarationError(
            f"a pattern of {type(expression).__name__} cannot be looked for in text",
            where=where,
            hint='write it as text: r"EMP-[0-9]{6}"',
        )
    if _PATTERN_NAME.fullmatch(name) is None:
        raise DeclarationError(
            f"{name!r} cannot name a pattern",
            where=where,
            hint='use lower-case letters, digits and underscores: {"employee_id": r"EMP-[0-9]{6}"}',
        )
    _require_valid(expression, where)
    return Pattern(name, expression)


def _require_valid(expression: str, where: str) -> None:
    try:
        compiled = re.compile(expression)
    except re.error as error:
        at = f" at position {error.pos}" if error.pos is not None else ""
        raise DeclarationError(
            f"the pattern {expression!r} cannot be read{at}: {error.msg}",
            where=where,
            hint="mend the pattern; re.compile(...) shows the same error",
        ) from None
    if compiled.match("") is not None:
        raise DeclarationError(
            f"the pattern {expression!r} matches the empty text, so it is found everywhere",
            where=where,
            hint="let it need a character at least: `+` instead of `*`",
        )
    try:
        _engine(expression)
    except ImportError:
        raise DeclarationError(
            "patterns need the package `regex`, which can stop one that takes too long",
            where=where,
            hint="pip install 'weft[patterns]'",
        ) from None
    except ValueError as error:
        raise DeclarationError(
            f"the pattern {expression!r} cannot be read: {error}",
            where=where,
            hint="use what both `re` and `regex` know",
        ) from None


@lru_cache(256)
def _engine(expression: str) -> "regex.Pattern[str]":
    import regex

    try:
        return regex.compile(expression, regex.VERSION0)
    except regex.error as error:
        raise ValueError(str(error)) from None


def _matches(pattern: Pattern, text: str) -> list[tuple[int, int]]:
    """The spans of the text that match the pattern.

    A pattern that did not finish before gets less and less time, so that many texts cannot take
    long where one did.

    Raises:
        PatternTimeout: it did not finish in time.
    """
    engine = _engine(pattern.expression)
    failed = _timeouts.get(pattern.expression, 0)
    limit = max(LIMIT / (1 + failed) ** 2, LEAST)
    try:
        matches = engine.finditer(text, timeout=limit)
        return [match.span() for match in matches if match.end() > match.start()]
    except TimeoutError:
        _timeouts[pattern.expression] = failed + 1
        raise PatternTimeout(
            f"the pattern {pattern.expression!r} did not finish on a text of {len(text):,}"
            " characters",
            hint="avoid repeats inside repeats, such as `(a+)+`, and `.*` twice in a row",
        ) from None


_timeouts: dict[str, int] = {}
"""How often each expression did not finish, in this process."""


def check_patterns(expressions: Iterable[str], *, where: str) -> None:
    """Refuse an expression that cannot be read, or that is found everywhere."""
    for expression in expressions:
        pattern_of(expression, where=where)
