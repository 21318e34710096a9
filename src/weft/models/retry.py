"""When to ask again: how often, how long after, and how long all of it may take."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, cast

import msgspec

from weft.errors import DeclarationError, ModelError
from weft.values import Json, JsonObject

PASSING = frozenset(("rate_limited", "overloaded", "timeout", "connection", "cut_stream"))
"""Codes of what may have passed a moment later."""

# Below 500 these too may pass: timed out, a conflict, too early, too many requests.
_PASSING_STATUSES = frozenset((408, 409, 425, 429))


class Final(ModelError):
    """A failure of which the provider itself says that asking again will not help."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a request that failed is sent again, and when.

    The pauses grow from `first` seconds to `most`, each up to `jitter` of itself shorter. What
    the provider asks to wait is waited instead, unless it is more than `longest`: then the
    error is told at once. `within` is how long all attempts together may take. Once a piece of
    the answer was shown nothing is sent again, unless `after_partial`; then the pieces of the
    next attempt follow those of the one that was cut.
    """

    attempts: int = 4
    first: float = 0.5
    most: float = 30.0
    jitter: float = 0.25
    longest: float = 60.0
    within: float = 3600.0
    after_partial: bool = False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Attempt(NamedTuple):
    """One attempt: when it began, in seconds after the first, and how it ended."""

    at: float
    outcome: str
    status: int | None = None
    pause: float | None = None
    """How long was waited after it."""


class Trail:
    """The attempts of one call, and whether there is to be another."""

    __slots__ = ("_began", "_deadline", "_retry", "_started", "attempts")

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._began = self._started = retry.clock()
        self._deadline = self._began + retry.within
        self.attempts: list[Attempt] = []

    @property
    def remaining(self) -> float:
        """How many seconds the call may still take."""
        return self._deadline - self._retry.clock()

    def begin(self) -> None:
        """Note that an attempt starts now."""
        self._started = self._retry.clock()

    def failed(self, error: ModelError, *, has_streamed: bool) -> float | None:
        """Record a failure. Returns the wait before the next attempt, or None to give up."""
        pause = self._pause(error, has_streamed=has_streamed)
        at = round(self._started - self._began, 3)
        rounded = round(pause, 3) if pause is not None else None
        self.attempts.append(Attempt(at, error.code, error.status, rounded))
        return pause

    def noted(self) -> list[Json] | None:
        """All attempts as JSON, the last one a success; None where it was the only one."""
        if not self.attempts:
            return None
        at = round(self._started - self._began, 3)
        return [_as_json(each) for each in (*self.attempts, Attempt(at, "ok"))]

    def words(self) -> str:
        """How often it was tried, for the message of the last error."""
        if len(self.attempts) < 2:
            return ""
        seconds = self._retry.clock() - self._began
        return f" ({len(self.attempts)} attempts in {seconds:.1f} s)"

    def _pause(self, error: ModelError, *, has_streamed: bool) -> float | None:
        retry = self._retry
        if len(self.attempts) + 1 >= retry.attempts or isinstance(error, Final):
            return None
        # the reader would see the beginning of the answer twice
        if has_streamed and not retry.after_partial:
            return None
        status = error.status if error.status is not None else 0
        passing = status in _PASSING_STATUSES or status >= 500 or error.code in PASSING
        # these come with many a status, and are the same next time
        if not passing or error.code in ("auth", "context_overflow"):
            return None
        pause = min(retry.most, retry.first * 2 ** len(self.attempts))
        pause *= 1 - retry.jitter * retry.random()
        if error.retry_after is not None:
            # nobody should sit in a call for so long: the caller may have another model
            if error.retry_after > retry.longest:
                return None
            pause = max(error.retry_after, 0.0) + retry.jitter * retry.random() * retry.first
        # to wait until after the deadline helps nobody
        return pause if pause < self.remaining else None


def _as_json(attempt: Attempt) -> JsonObject:
    return {name: value for name, value in attempt._asdict().items() if value is not None}


def retry_of(retries: object, where: str) -> Retry:
    """The retries that somebody asked for: a Retry, how many, or the usual ones."""
    if retries is None:
        return Retry()
    if isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0:
        return Retry(attempts=retries + 1)
    if isinstance(retries, Retry):
        usual = msgspec.structs.asdict(Retry())
        for name in ("first", "most", "jitter", "longest", "within", "attempts"):
            value = cast("object", msgspec.structs.asdict(retries)[name])
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not cast("float", value) >= (1 if name == "attempts" else 0):
                raise DeclarationError(
                    f"Retry.{name} cannot be {value!r}",
                    where=where,
                    hint=f"write Retry({name}={usual[name]})",
                )
        return retries
    raise DeclarationError(
        f"{retries!r} does not say how to retry",
        where=where,
        hint="write retries=2, or retries=weft.models.Retry(attempts=3)",
    )


def asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """How many seconds the headers of an answer ask to wait, in any of the spellings there are."""
    # some providers send milliseconds; HTTP itself knows seconds, or a date
    text = headers.get("retry-after-ms", "").strip()
    if (milliseconds := _number(text)) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    if (seconds := _number(text)) is not None:
        return seconds
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # `float` also reads "nan" and "inf"
    return value if 0 <= value < float("inf") else None
