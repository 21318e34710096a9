"""Quotas of users and apps, and the depth of the queue.

    app(agent, quotas=Quotas(user=Quota(turns_per_minute=20), app=Quota(tokens_per_day=5_000_000)))

A quota is fair sharing: who exceeds it gets 429 and the time to come back. All servers that share
a store count together, in its database; a store in memory is counted in its process. Top to
bottom: what is declared, what is counted, the book, the queue.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple, cast

import msgspec

from weft.errors import UsageError, WeftError, describe_kind
from weft.misuse import join_few, suggest_names
from weft.runtime.costs import cost_of
from weft.server.problems import Problem
from weft.session import SessionKey, Store
from weft.session.store import Count, CountingStore, Tally
from weft.stores.leases import new_worker
from weft.turns import Turns
from weft.values import JsonObject, digest

_log = logging.getLogger("weft.server")

_MINUTE = 60.0
_DAY = 86_400

_SOON = 1.0
"""Seconds to wait where the end of a run is unknown."""

_LOOK_EVERY = 1.0
"""Seconds for which the depth of the queue is believed."""

_FEW_ACCOUNTS = 10_000
"""The number of accounts from which on idle ones are forgotten."""

_AT_ONCE = 100
"""How many requests are counted at once."""

_SERVER = "server/"
"""What the names of servers begin with, unlike those of accounts."""

_BEAT_EVERY = 10.0
"""Seconds after which a server with open runs says that it lives."""

_SILENT = 30.0
"""Seconds of silence after which the open runs of a server do not count any more."""

_Holder = Literal["user", "app"]


@dataclass(frozen=True, kw_only=True)
class Quota:
    """How much one user, or one app, may have. None means no limit."""

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
                    f"{name} is {describe_kind(own)}",
                    where="Quotas",
                    hint=f'pass quotas by name: {name}={{"name": Quota(open_runs=10)}}',
                )
            for key, quota in cast("Mapping[object, object]", own).items():
                _require_quota(quota, f"{name}[{key!r}]")

    @property
    def all(self) -> tuple[Quota, ...]:
        """Each of them."""
        return (self.user, self.app, *self.users.values(), *self.apps.values())

    def require_apps(self, served: Iterable[str]) -> None:
        """Refuse the quota of an app that is not served."""
        known = [*served]
        for name in self.apps:
            if name not in known:
                raise UsageError(
                    f"apps has a quota of `{name}`, which is not served",
                    where="Quotas",
                    hint=suggest_names(name, known) or f"served here: {join_few(known)}",
                )


def _require_quota(value: object, name: str) -> None:
    if not isinstance(value, Quota):
        raise UsageError(
            f"{name} is {describe_kind(value)}",
            where="Quotas",
            hint=f"pass a quota: {name}=Quota(turns_per_minute=20)",
        )


class _Refusal(NamedTuple):
    """Why no run begins: the limit, its user or app, and the seconds until it is free."""

    limited: "_LimitedAccount"
    limit: str
    allowed: int
    used: int
    pause: float


class _Account(msgspec.Struct):
    """What a user or an app has used, as all servers on one store have counted it."""

    turns: list[tuple[float, int]] = []
    """How many turns began in each second of the last minute, and when the last of them did."""
    open: dict[str, int] = {}
    """How many runs are open, by the server that counts them."""
    tokens: int = 0
    day: int = 0

    def refusals(self, limited: "_LimitedAccount", now: float) -> Iterable[_Refusal]:
        """The limits that leave no room for one more run."""
        quota = limited.quota
        begun, under_way = sum(count for _, count in self.turns), sum(self.open.values())
        if quota.turns_per_minute is not None and begun >= quota.turns_per_minute:
            pause = self.turns[0][0] + _MINUTE - now
            yield _Refusal(limited, "turns_per_minute", quota.turns_per_minute, begun, pause)
        if quota.open_runs is not None and under_way >= quota.open_runs:
            yield _Refusal(limited, "open_runs", quota.open_runs, under_way, _SOON)
        if quota.tokens_per_day is not None and self.tokens >= quota.tokens_per_day:
            pause = (self.day + 1) * _DAY - now
            yield _Refusal(limited, "tokens_per_day", quota.tokens_per_day, self.tokens, pause)

    def forget_old(self, now: float, silent: Container[str]) -> None:
        """Forget turns older than a minute, tokens of another day, and servers that are gone."""
        # a clock that was set back: what seems to come later began by now at the latest
        self.turns = [(min(last, now), count) for last, count in self.turns if last > now - _MINUTE]
        self.open = {name: count for name, count in self.open.items() if name not in silent}
        if self.day != now // _DAY:
            self.day, self.tokens = int(now // _DAY), 0

    def begin_turn(self, now: float) -> None:
        """Count a turn that begins."""
        # counted by the second, so that an account stays small however many turns begin
        if self.turns and int(self.turns[-1][0]) == int(now):
            self.turns[-1] = now, self.turns[-1][1] + 1
        else:
            self.turns.append((now, 1))

    def take_back(self, began: float) -> None:
        """Take back a turn that did not begin after all."""
        self.turns = [
            (last, count - (int(last) == int(began)))
            for last, count in self.turns
            if count > (int(last) == int(began))
        ]

    def set_open(self, server: str, count: int) -> None:
        """Note how many runs a server has open."""
        self.open.pop(server, None)
        if count > 0:
            self.open[server] = count

    def until(self, now: float) -> float:
        """From when on a new account would be the same."""
        ends = [now, *(last + _MINUTE for last, _ in self.turns[-1:])]
        if self.tokens or self.open:
            # a run may be open past midnight: its account is kept a day longer
            ends.append((self.day + 1) * _DAY + _DAY * bool(self.open))
        return max(ends)


class _LimitedAccount(NamedTuple):
    """A user or an app with a limit."""

    holder: _Holder
    name: str
    quota: Quota

    @property
    def key(self) -> str:
        """The key of its counts. The store does not get the name, which may be personal."""
        return f"{self.holder}/{digest(self.name.encode(errors='surrogatepass'))}"


class Reservation:
    """The room that one run takes in the accounts of its user and app, until it is over."""

    def __init__(
        self, book: "QuotaBook", limited: tuple[_LimitedAccount, ...], began: float | None = None
    ) -> None:
        self._book = book
        self._limited_accounts = limited
        self._began = began
        self._is_over = False
        quotas = [one.quota for one in limited]
        self.needs_end = any(
            one.open_runs is not None or one.tokens_per_day is not None for one in quotas
        )
        """Whether it matters when the run ends and what it cost."""

    def end(self, tokens: int) -> None:
        """The run is over and used `tokens` tokens; only the first call counts."""
        if not self._is_over:
            self._is_over = True
            self._book.end(self._limited_accounts, tokens)

    def give_back(self) -> None:
        """No run began, or one that was counted before: nothing was used."""
        if not self._is_over:
            self._is_over = True
            self._book.end(self._limited_accounts, 0, began=self._began)


_Change = Callable[[Mapping[str, _Account], float], object]


class _CountRequest(NamedTuple):
    """Something to be counted, and who waits for it."""

    limited: tuple[_LimitedAccount, ...]
    change: _Change
    future: "asyncio.Future[object]"
    takes: bool
    """Whether a run takes its room, unless the answer is a problem."""
    tokens: int
    """What a run used: it is counted later where the store fails now."""


class QuotaBook:
    """What every user and app has used, counted in a store by all servers that use it.

    A store that cannot count, as one in memory, has its own count in each process. What is asked
    for at the same time is asked of the store at once. While the store fails no run begins; what
    ends meanwhile is counted as soon as it can be.
    """

    def __init__(
        self, quotas: Quotas, stores: Iterable[Store] = (), clock: Callable[[], float] = time.time
    ) -> None:
        self.quotas = quotas
        self.clock = clock
        """The time, where the store has none of its own."""
        self._server = new_worker()
        self._free = Reservation(self, ())
        """Of who is not limited: there is nothing to count."""
        self._is_free = not any(quota.limits_something for quota in quotas.all)
        counting = [store for store in stores if isinstance(store, CountingStore)]
        self._store: CountingStore = counting[0] if counting else LocalTallies(self)
        self._counts_open = any(one.open_runs is not None for one in quotas.all)
        self._waiting: list[_CountRequest] = []
        self._asking: asyncio.Task[None] | None = None
        self._open: dict[str, int] = {}
        """How many runs of this server are open in each account that limits them. The store is
        told the number and not its changes, so that one that was lost does no harm."""
        self._late: dict[tuple[_LimitedAccount, ...], int] = {}
        """The accounts that could not be written, and the tokens that are missing there."""
        self._beating: asyncio.Task[None] | None = None

    async def problem_of(self, app: str, user: str) -> Problem | None:
        """The problem that says which limit leaves no room for a run; None where there is room."""
        limited = self._limited_accounts(app, user)
        if not limited:
            return None

        def look(accounts: Mapping[str, _Account], now: float) -> Problem | None:
            return _refusal_for(limited, accounts, now)

        return cast("Problem | None", await self._enqueue(limited, look))

    async def admit(self, app: str, user: str) -> Reservation:
        """Take the room of a run; raises the problem that says which limit leaves none."""
        limited = self._limited_accounts(app, user)
        if not limited:
            return self._free

        def take(accounts: Mapping[str, _Account], now: float) -> Problem | float:
            problem = _refusal_for(limited, accounts, now)
            if problem is None:
                for one in limited:
                    account = accounts[one.key]
                    if one.quota.open_runs is not None:
                        account.set_open(self._server, account.open.get(self._server, 0) + 1)
                    if one.quota.turns_per_minute is not None:
                        account.begin_turn(now)
            return problem or now

        def took(future: "asyncio.Future[object]") -> Reservation:
            taken = future.result()
            if isinstance(taken, Problem):
                raise taken
            return Reservation(self, limited, cast("float", taken))

        asked = self._enqueue(limited, take, takes=True)
        try:
            # shielded: the count may be on its way, and then room was taken
            await asyncio.shield(asked)
        except asyncio.CancelledError:  # who asked is gone: what is taken nevertheless goes back

            def give_back(future: "asyncio.Future[object]") -> None:
                with suppress(Problem, WeftError):
                    took(future).give_back()

            asked.add_done_callback(give_back)
            raise
        return took(asked)

    def resume(self, app: str, user: str) -> Reservation:
        """The room of a run that an earlier process began: it goes on in any case."""
        limited = self._limited_accounts(app, user)
        if limited:
            # it goes on whatever the quota says, but others see that it is open
            self._note_open(limited, 1)
            self._enqueue(limited, _no_change).add_done_callback(_note_failure)
        return Reservation(self, limited)

    def end(
        self, limited: tuple[_LimitedAccount, ...], tokens: int, *, began: float | None = None
    ) -> None:
        """Count what a run used, and that it is over; or that it never `began`."""
        if not limited:
            return
        self._note_open(limited, -1)

        def close(accounts: Mapping[str, _Account], now: float) -> None:
            for one in limited:
                account = accounts[one.key]
                if one.quota.tokens_per_day is not None:
                    account.tokens += tokens
                if began is not None:
                    account.take_back(began)

        self._enqueue(limited, close, tokens=tokens).add_done_callback(_note_failure)

    async def close(self) -> None:
        """Have everything counted that is to be counted."""
        if self._beating is not None:
            self._beating.cancel()
        if self._late:
            self._enqueue((), _no_change).add_done_callback(_note_failure)
        while self._asking is not None and not self._asking.done():
            await asyncio.wait([self._asking])

    def _limited_accounts(self, app: str, user: str) -> tuple[_LimitedAccount, ...]:
        """Those of the two that have a limit; on most servers neither has."""
        # without quotas a request is not even looked at
        if self._is_free:
            return ()
        quotas = self.quotas
        both = (
            _LimitedAccount("user", user, quotas.users.get(user, quotas.user)),
            _LimitedAccount("app", app, quotas.apps.get(app, quotas.app)),
        )
        return tuple([one for one in both if one.quota.limits_something])

    def _note_open(self, limited: tuple[_LimitedAccount, ...], change: int) -> None:
        """Count the open runs of this server."""
        for one in limited:
            if one.quota.open_runs is not None:
                count = self._open.pop(one.key, 0) + change
                if count > 0:
                    self._open[one.key] = count
        self._start_beating()

    def _start_beating(self) -> None:
        """Have the other servers know that this one lives, as long as it has open runs."""
        if (self._open or self._late) and (self._beating is None or self._beating.done()):
            self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while self._open or self._late:
            await asyncio.sleep(_BEAT_EVERY)
            beaten = self._enqueue((), _no_change)
            beaten.add_done_callback(_note_failure)
            await asyncio.wait([beaten])  # if it failed, the next may be heard

    def _enqueue(
        self,
        limited: tuple[_LimitedAccount, ...],
        change: _Change,
        *,
        takes: bool = False,
        tokens: int = 0,
    ) -> "asyncio.Future[object]":
        """Have something counted, with whatever else is waiting to be."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        self._waiting.append(_CountRequest(limited, change, future, takes, tokens))
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask())
        return future

    async def _ask(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            late, self._late = self._late, {}
            answers: list[object] = []
            keys = {one.key for asked in batch for one in asked.limited}
            keys |= {one.key for limited in late for one in limited}
            # copied here, for the store may count in a thread of its own
            mine = {key: self._open.get(key, 0) for key in keys}

            def count(
                tallies: Mapping[str, JsonObject],
                now: float,
                batch: Sequence[_CountRequest] = batch,
                late: Mapping[tuple[_LimitedAccount, ...], int] = late,
                answers: list[object] = answers,
                mine: Mapping[str, int] = mine,
            ) -> dict[str, Tally]:
                accounts = {
                    key: msgspec.convert(tallies.get(key, {}), _Account, strict=False)
                    for key in mine
                }
                silent = self._silent(accounts.values(), tallies, now)
                for key, account in accounts.items():
                    account.forget_old(now, silent)
                    account.set_open(self._server, mine[key])
                for limited, tokens in late.items():
                    for one in limited:
                        if one.quota.tokens_per_day is not None:
                            accounts[one.key].tokens += tokens
                answers[:] = [asked.change(accounts, now) for asked in batch]
                after = {
                    key: Tally(msgspec.to_builtins(account), account.until(now))
                    for key, account in accounts.items()
                }
                if self._counts_open:
                    after[_SERVER + self._server] = Tally({"beat": now}, now + 2 * _SILENT)
                # what did not change is not written
                return {key: one for key, one in after.items() if one.value != tallies.get(key)}

            names = [*keys, *([_SERVER + self._server] if self._counts_open else [])]
            try:
                if names:
                    beside = _SERVER if self._counts_open else ""
                    await self._store.tally(names, count, beside=beside)
                else:  # what was late has been counted by others meanwhile
                    answers[:] = [None] * len(batch)
            except Exception as error:
                self._note_late(batch, late)
                for asked in batch:
                    if not asked.future.done():
                        asked.future.set_exception(error)
                continue
            for asked, answer in zip(batch, answers, strict=True):
                # here, and not where it is waited for: the next count begins before that
                if asked.takes and not isinstance(answer, Problem):
                    self._note_open(asked.limited, 1)
                if not asked.future.done():
                    asked.future.set_result(answer)

    def _note_late(
        self, batch: Iterable[_CountRequest], late: Mapping[tuple[_LimitedAccount, ...], int]
    ) -> None:
        """Write accounts again whose writing failed: it may or may not have happened."""
        for limited, tokens in [*late.items(), *((one.limited, one.tokens) for one in batch)]:
            if limited:
                self._late[limited] = self._late.get(limited, 0) + tokens
        self._start_beating()

    def _silent(
        self, accounts: Iterable[_Account], tallies: Mapping[str, JsonObject], now: float
    ) -> set[str]:
        """The servers that have open runs in an account, and have not been heard of for long."""
        silent: set[str] = set()
        for name in {name for account in accounts for name in account.open}:
            beat = tallies.get(_SERVER + name, {}).get("beat")
            # `abs`: a clock that was set back must not make a dead server live for ever
            is_heard = isinstance(beat, int | float) and abs(now - beat) < _SILENT
            if name != self._server and not is_heard:
                silent.add(name)
        return silent


def _no_change(accounts: Mapping[str, _Account], now: float) -> None:
    """Nothing changes but what is written with every count."""


def _note_failure(future: "asyncio.Future[object]") -> None:
    """Log what could not be counted, where nobody waits for it."""
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.warning("quotas could not be counted: %s", error)


class LocalTallies:
    """What one process counts by itself, where its store counts nothing."""

    def __init__(self, book: QuotaBook) -> None:
        self._book = book
        self.tallies: dict[str, Tally] = {}
        self._sweep_at = _FEW_ACCOUNTS

    async def tally(self, names: Sequence[str], count: Count, *, beside: str = "") -> None:
        """Change what is counted; nothing comes between."""
        now, tallies = self._book.clock(), self.tallies
        # servers count together nowhere else: there is nothing but the names
        asked = {name: tallies[name].value for name in names if name in tallies}
        tallies.update(count(asked, now))
        if len(tallies) >= self._sweep_at:
            for name in [name for name, one in tallies.items() if one.until <= now]:
                del tallies[name]
            # twice as many next time: a sweep that finds nothing must not come with every request
            self._sweep_at = max(_FEW_ACCOUNTS, 2 * len(tallies))


def _refusal_for(
    limited: Sequence[_LimitedAccount], accounts: Mapping[str, _Account], now: float
) -> Problem | None:
    """The problem of who has no room; None where there is room."""
    refusals = [one for who in limited for one in accounts[who.key].refusals(who, now)]
    if not refusals:
        return None
    # of several the longest: who waits for it is not refused again
    return _problem_of(max(refusals, key=lambda one: one.pause), now)


_SENTENCES = {
    "turns_per_minute": "may begin {allowed} turn{s} a minute, and has begun {used}",
    "open_runs": "may have {allowed} run{s} open at once, and has {used}",
    "tokens_per_day": "may use {allowed} token{s} a day, and has used {used}",
}


def _problem_of(refusal: _Refusal, now: float) -> Problem:
    """The problem for the client: which limit, how much, and when it is free again."""
    # rounded up: who comes back in time must not be refused again
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
    holder, name, _ = refusal.limited
    return Problem(
        429,
        "quota",
        f"the {holder} `{name[:100]}` {sentence}",
        hint=hint,
        headers={"retry-after": str(seconds)},
        members={
            "limit": refusal.limit,
            "of": holder,
            "allowed": refusal.allowed,
            "used": refusal.used,
            "free_at": free_at,
        },
    )


def overload_problem(limit: str, allowed: int, used: int, sentence: str) -> Problem:
    """The problem of a server that has too much to do for anybody."""
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
    return sum(cost_of(event, priced=False)[0] for event in events if event.invocation_id == run)
