"""Patterns of the author: checked where they are written, stopped where they take too long.

A pattern can need longer than the universe for a short text, and Python's own engine cannot be
stopped. The package `regex` can, so authors' patterns run there, each with a limit. A pattern
that reached its limit has found nothing for sure: who asked must not go on as if it had.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec

from weft.errors import DeclarationError, WeftError

if TYPE_CHECKING:
    import regex

LIMIT = 0.5
"""Seconds that one pattern may look at one text."""
LEAST = 0.005
"""Seconds that it may look in any case."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class PatternTimeout(WeftError):
    """A pattern that did not finish in time, so that nobody knows what the text holds."""


class Pattern(msgspec.Struct, frozen=True):
    """An author's own kind of value: its name, and the expression that finds it."""

    name: str
    expression: str


def spelled(compiled: "re.Pattern[str]") -> str:
    """A compiled pattern as text, its flags in front."""
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
    if _NAME.fullmatch(name) is None:
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


def search(pattern: Pattern, text: str) -> list[tuple[int, int]]:
    """The spans of the text that match the pattern.

    A pattern that did not finish before gets less and less time, so that many texts cannot take
    long where one did.

    Raises:
        PatternTimeout: it did not finish in time.
    """
    engine = _engine(pattern.expression)
    failed = _failed.get(pattern.expression, 0)
    limit = max(LIMIT / (1 + failed) ** 2, LEAST)
    try:
        matches = engine.finditer(text, timeout=limit)
        return [match.span() for match in matches if match.end() > match.start()]
    except TimeoutError:
        _failed[pattern.expression] = failed + 1
        raise PatternTimeout(
            f"the pattern {pattern.expression!r} did not finish on a text of {len(text):,}"
            " characters",
            hint="avoid repeats inside repeats, such as `(a+)+`, and `.*` twice in a row",
        ) from None


_failed: dict[str, int] = {}
"""How often each expression did not finish, in this process."""


def check_patterns(expressions: Iterable[str], *, where: str) -> None:
    """Refuse an expression that cannot be read, or that is found everywhere."""
    for expression in expressions:
        pattern_of(expression, where=where)
