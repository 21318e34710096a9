"""The circuit breaker: a server that keeps failing is left alone for a while.

There is one circuit for each address and model, shared by everything in the process. It opens
after some calls in a row that failed with all their attempts; then calls fail at once instead of
waiting for the next timeout. When its time is over one call is let through, with one attempt: if
that is answered the circuit closes, if not it stays open for another while.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Literal

import msgspec

from weft.errors import DeclarationError, ModelError

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
        f"{breaker!r} is no circuit breaker",
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
