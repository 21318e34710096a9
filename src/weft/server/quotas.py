"""Quotas of users and apps, and the depth of the queue.

    app(agent, quotas=Quotas(user=Quota(turns_per_minute=20), app=Quota(tokens_per_day=5_000_000)))

A quota is fair sharing: who exceeds it gets 429 and the time to come back. Each process counts
what it began itself, from its start on: two servers behind one address allow twice as much, and
a restart begins at zero. Top to bottom: what is declared, the book that counts, the queue.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple, cast

from weft.errors import UsageError
from weft.misuse import few, meant
from weft.runtime.costs import tokens_of
from weft.server.problems import Problem
from weft.session import SessionKey, Store
from weft.turns import Turns

_MINUTE = 60.0
_DAY = 86_400

_SOON = 1.0
"""Seconds to wait where nobody knows when a run ends."""

_LOOK_EVERY = 1.0
"""Seconds for which the depth of the queue is believed."""

_FEW_ACCOUNTS = 10_000
"""From so many accounts on, idle ones are forgotten."""

_Holder = Literal["user", "app"]


@dataclass(frozen=True, kw_only=True)
class Quota:
    """How much one user, or one app, may have. None is no limit."""

    turns_per_minute: int | None = None
    """Runs that begin in any 60 seconds; an answer to a question begins one too."""
    open_runs: int | None = None
    """Runs under way at once; with a queue, also those that wait in it."""
    tokens_per_day: int | None = None
    """Tokens of requests and answers in a day of UTC. A run that has begun may pass the limit."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not is_whole or value < 1):
                raise UsageError(
                    f"{name}={value!r}",
                    where="Quota",
                    hint=f"pass a whole number above 0: {name}=100, or None for no limit",
                )

    @property
    def limits_something(self) -> bool:
        """Whether anything is limited."""
        return any(value is not None for value in vars(self).values())


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The quotas of a server: of each user over all apps, and of each app with all its users."""

    user: Quota = Quota()
    """What each user has."""
    app: Quota = Quota()
    """What each app has."""
    users: Mapping[str, Quota] = field(default_factory=dict[str, Quota])
    """Users who have a quota of their own instead."""
    apps: Mapping[str, Quota] = field(default_factory=dict[str, Quota])
    """Apps that have a quota of their own instead."""

    def __post_init__(self) -> None:
        for name in ("user", "app"):
            _require_quota(getattr(self, name), name)
        for name in ("users", "apps"):
            own: object = getattr(self, name)
            if not isinstance(own, Mapping):
                raise UsageError(
                    f"{name} is a {type(own).__name__}",
                    where="Quotas",
                    hint=f'pass quotas by name: {name}={{"name": Quota(open_runs=10)}}',
                )
            for key, quota in cast("Mapping[object, object]", own).items():
                _require_quota(quota, f"{name}[{key!r}]")

    @property
    def limit_something(self) -> bool:
        """Whether any of them limits anything."""
        own = (self.user, self.app, *self.users.values(), *self.apps.values())
        return any(quota.limits_something for quota in own)

    def require_apps(self, served: Iterable[str]) -> None:
        """Refuse the quota of an app that is not served."""
        known = [*served]
        for name in self.apps:
            if name not in known:
                raise UsageError(
                    f"apps has a quota of `{name}`, which is not served",
                    where="Quotas",
                    hint=meant(name, known) or f"served here: {few(known)}",
                )


def _require_quota(value: object, name: str) -> None:
    if not isinstance(value, Quota):
        raise UsageError(
            f"{name} is a {type(value).__name__}",
            where="Quotas",
            hint=f"pass a quota: {name}=Quota(turns_per_minute=20)",
        )


class _Refusal(NamedTuple):
    """Why no run begins: the limit, whose it is, and the seconds until it is free."""

    holder: _Holder
    name: str
    limit: str
    allowed: int
    used: int
    pause: float


class _Account:
    """What a user or an app has used."""

    def __init__(self, holder: _Holder, name: str, quota: Quota) -> None:
        self.holder: _Holder = holder
        self.name = name
        self.quota = quota
        self.turns: deque[float] = deque()
        """When the turns of the last minute began; empty where they are not limited."""
        self.open = 0
        self.tokens = 0
        self.day = 0

    def refusals(self, now: float) -> Iterable[_Refusal]:
        """The limits that leave no room for one more run."""
        self.forget_old(now)
        quota = self.quota
        if quota.turns_per_minute is not None and len(self.turns) >= quota.turns_per_minute:
            # a clock that was set back must not keep anybody out for longer than the minute
            pause = min(self.turns[0] + _MINUTE - now, _MINUTE)
            yield self._refusal("turns_per_minute", quota.turns_per_minute, len(self.turns), pause)
        if quota.open_runs is not None and self.open >= quota.open_runs:
            yield self._refusal("open_runs", quota.open_runs, self.open, _SOON)
        if quota.tokens_per_day is not None and self.tokens >= quota.tokens_per_day:
            pause = (self.day + 1) * _DAY - now
            yield self._refusal("tokens_per_day", quota.tokens_per_day, self.tokens, pause)

    def _refusal(self, limit: str, allowed: int, used: int, pause: float) -> _Refusal:
        return _Refusal(self.holder, self.name, limit, allowed, used, pause)

    def forget_old(self, now: float) -> None:
        """Forget turns older than a minute, and the tokens of another day."""
        while self.turns and self.turns[0] <= now - _MINUTE:
            self.turns.popleft()
        if self.day != now // _DAY:
            self.day, self.tokens = int(now // _DAY), 0

    @property
    def is_idle(self) -> bool:
        """Whether a new account would be the same."""
        return not (self.turns or self.open or self.tokens)


class Reservation:
    """The room that one run takes in the accounts of its user and app, until it is over."""

    def __init__(
        self, accounts: tuple[_Account, ...], clock: Callable[[], float], *, is_turn: bool
    ) -> None:
        self._accounts = accounts
        self._clock = clock
        self._began = clock()
        self._is_over = False
        quotas = [account.quota for account in accounts]
        self.needs_end = any(
            one.open_runs is not None or one.tokens_per_day is not None for one in quotas
        )
        """Whether it matters when the run ends and what it cost."""
        for account in accounts:
            account.open += 1
            if is_turn and account.quota.turns_per_minute is not None:
                account.turns.append(self._began)

    def end(self, tokens: int) -> None:
        """The run is over and used so many tokens; only the first call counts."""
        if self._is_over:
            return
        self._is_over = True
        now = self._clock()
        for account in self._accounts:
            account.forget_old(now)
            account.open -= 1
            account.tokens += tokens

    def give_back(self) -> None:
        """No run began, or one that was counted before: nothing was used."""
        if self._is_over:
            return
        self.end(0)
        for account in self._accounts:
            with suppress(ValueError):  # it is older than a minute
                account.turns.remove(self._began)


class QuotaBook:
    """What every user and app has used in this process."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float] = time.time) -> None:
        self.quotas = quotas
        self.clock = clock
        self._accounts: dict[tuple[_Holder, str], _Account] = {}
        self._sweep_at = _FEW_ACCOUNTS
        # without quotas, as most servers are, there is nothing to count
        self._free = None if quotas.limit_something else Reservation((), clock, is_turn=True)

    def problem_of(self, app: str, user: str) -> Problem | None:
        """The problem that says which limit leaves no room for a run; None where there is room."""
        if self._free is not None:
            return None
        now = self.clock()
        accounts = self._limited(app, user, now)
        refusals = [one for account in accounts for one in account.refusals(now)]
        if not refusals:
            return None
        # of several the longest: who waits for it is not refused again
        return _problem_of(max(refusals, key=lambda one: one.pause), now)

    def admit(self, app: str, user: str) -> Reservation:
        """Take the room of a run; ask `problem_of` first, without a pause in between."""
        if self._free is not None:
            return self._free
        return Reservation(self._limited(app, user, self.clock()), self.clock, is_turn=True)

    def resume(self, app: str, user: str) -> Reservation:
        """The room of a run that an earlier process began: it goes on in any case."""
        return Reservation(self._limited(app, user, self.clock()), self.clock, is_turn=False)

    def _limited(self, app: str, user: str, now: float) -> tuple[_Account, ...]:
        """The accounts that something is limited in."""
        quotas = self.quotas
        both: tuple[tuple[_Holder, str, Quota], ...] = (
            ("user", user, quotas.users.get(user, quotas.user)),
            ("app", app, quotas.apps.get(app, quotas.app)),
        )
        return tuple(self._account(*one, now) for one in both if one[2].limits_something)

    def _account(self, holder: _Holder, name: str, quota: Quota, now: float) -> _Account:
        account = self._accounts.get((holder, name))
        if account is not None:
            return account
        if len(self._accounts) >= self._sweep_at:
            for key, old in [*self._accounts.items()]:
                old.forget_old(now)
                if old.is_idle:
                    del self._accounts[key]
            self._sweep_at = max(_FEW_ACCOUNTS, 2 * len(self._accounts))
        account = self._accounts[holder, name] = _Account(holder, name, quota)
        return account


_SENTENCES = {
    "turns_per_minute": "may begin {allowed} turn{s} a minute, and has begun {used}",
    "open_runs": "may have {allowed} run{s} open at once, and has {used}",
    "tokens_per_day": "may use {allowed} token{s} a day, and has used {used}",
}


def _problem_of(refusal: _Refusal, now: float) -> Problem:
    """What the client is told: which limit, how much, and when it is free again."""
    seconds = int(refusal.pause) + 1
    free_at: str | None = None
    hint = "try again when one of these runs has ended"
    if refusal.limit != "open_runs":
        moment = datetime.fromtimestamp(now + refusal.pause, UTC)
        free_at = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
        hint = f"try again in {seconds} seconds, at {free_at}"
    sentence = _SENTENCES[refusal.limit].format(
        allowed=refusal.allowed, used=refusal.used, s="" if refusal.allowed == 1 else "s"
    )
    return Problem(
        429,
        "quota",
        f"the {refusal.holder} `{refusal.name[:100]}` {sentence}",
        hint=hint,
        headers={"retry-after": str(seconds)},
        members={
            "limit": refusal.limit,
            "of": refusal.holder,
            "allowed": refusal.allowed,
            "used": refusal.used,
            "free_at": free_at,
        },
    )


def overloaded(limit: str, allowed: int, used: int, sentence: str) -> Problem:
    """The problem of a server that has too much to do, whoever asks."""
    return Problem(
        503,
        "overloaded",
        sentence,
        hint="try again soon",
        headers={"retry-after": "2"},
        members={"limit": limit, "of": "server", "allowed": allowed, "used": used},
    )


class QueueDepth:
    """How many turns of some apps wait in a queue: looked up now and then, counted in between."""

    def __init__(self, turns: Turns, apps: Iterable[str]) -> None:
        self.clock: Callable[[], float] = time.monotonic
        self._turns = turns
        self._apps = frozenset(apps)
        self._looked: float | None = None
        self._waiting = 0

    async def waiting(self) -> int:
        """About how many turns wait."""
        now = self.clock()
        if self._looked is None or now - self._looked >= _LOOK_EVERY:
            self._looked = now  # first, so that only one of many requests at once asks
            counts = await self._turns.counts()
            self._waiting = sum(
                count
                for (app, status), count in counts.items()
                if status == "waiting" and app in self._apps
            )
        return self._waiting

    def add(self, change: int) -> None:
        """Turns that this process has put since, or could not put."""
        self._waiting += change


async def stored_tokens(store: Store, key: SessionKey, run: str, after: int) -> int:
    """The tokens that a run used, as its log says; events up to `after` came before it."""
    events = await store.events(key, after=after) or ()
    return sum(tokens_of(event.usage) or 0 for event in events if event.invocation_id == run)
