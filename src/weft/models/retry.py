"""When to ask again: how often, how long after, and how long all of it may take.

And when not to ask at all. The circuit breaker leaves a server that keeps failing alone for a
while. There is one circuit for each address and model, shared by everything in the process. It
opens after some calls in a row that failed with all their attempts; then calls fail at once instead
of waiting for the next timeout. When its time is over one call is let through, with one attempt: if
that is answered the circuit closes, if not it stays open for another while.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Literal, NamedTuple, cast

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

    def note_failure(self, error: ModelError, *, has_streamed: bool) -> float | None:
        """Record a failure. Returns the wait before the next attempt, or None to give up."""
        pause = self._pause(error, has_streamed=has_streamed)
        at = round(self._started - self._began, 3)
        rounded = round(pause, 3) if pause is not None else None
        self.attempts.append(Attempt(at, error.code, error.status, rounded))
        return pause

    def list_attempts(self) -> list[Json] | None:
        """List all attempts as JSON, the last one a success; None where it was the only one."""
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


# --- the circuit breaker

COUNTED = frozenset(("overloaded", "connection", "timeout"))
"""Codes that say that the server is not well; all others are answers of one that is."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """When a circuit opens, and for how many seconds."""

    failures: int = 5
    pause: float = 30.0
    clock: Callable[[], float] = time.monotonic


class Circuit:
    """The recent failures of one server with one model."""

    __slots__ = ("_breaker", "_failed", "_lock", "_opened", "_trial", "_why")

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._failed = 0
        self._opened: float | None = None
        self._trial = False
        self._why = ""
        self._lock = Lock()

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Whether calls go through: all of them, none, or one to try."""
        if self._opened is None:
            return "closed"
        return "open" if self._remaining_pause() > 0 else "half-open"

    def enter(self) -> bool:
        """Let a call through, or say when the next one is; whether it is the one to try."""
        with self._lock:
            if self._opened is None:
                return False
            wait = self._remaining_pause()
            # one call at a time tries the server: the others go on failing at once
            if wait <= 0 and not self._trial:
                self._trial = True
                return True
        when = f"in {wait:.0f} s" if wait >= 1 else "in a moment"
        raise ModelError(
            f"{self._failed} calls in a row failed, the last with `{self._why}`,"
            f" and the next one is let through {when}",
            code="unavailable",
            retry_after=max(wait, 0.0),
            hint="wait, or give another model: weft.models.FallbackModel(...)",
        )

    def leave(self, outcome: str, *, trial: bool) -> None:
        """Note how a call that was let through ended: a code, "ok", or "" for given up."""
        # the common case, without the lock
        if outcome == "ok" and self._opened is None and not self._failed:
            return
        with self._lock:
            if outcome in COUNTED:
                self._failed += 1
                self._why = outcome
                enough = self._opened is None and self._failed >= self._breaker.failures
                if trial or enough:
                    self._opened = self._breaker.clock()
            # any answer, even a refusal, says that the server is well; "" says nothing
            elif outcome:
                self._failed, self._opened = 0, None
            if trial:
                self._trial = False

    def _remaining_pause(self) -> float:
        assert self._opened is not None
        return self._opened + self._breaker.pause - self._breaker.clock()


def breaker_of(breaker: object, where: str) -> Breaker | None:
    """The breaker that somebody asked for; None for the usual one."""
    if breaker is None:
        return None
    if isinstance(breaker, Breaker) and breaker.failures >= 1 and breaker.pause >= 0:
        return breaker
    raise DeclarationError(
        f"{breaker!r} is not a circuit breaker",
        where=where,
        hint="write breaker=weft.models.Breaker(failures=5, pause=30)",
    )


_circuits: dict[tuple[str, str, Breaker], Circuit] = {}
_usual = Breaker()


def circuit_of(address: str, model: str, breaker: Breaker | None = None) -> Circuit:
    """The one circuit of this address and model."""
    chosen = breaker if breaker is not None else _usual
    key = (address, model, chosen)
    circuit = _circuits.get(key)
    # two threads may come here at once: both must get the same one
    return circuit if circuit is not None else _circuits.setdefault(key, Circuit(chosen))
