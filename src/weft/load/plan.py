"""What a load run does: its sizes, its pace, where it runs, and which faults it makes.

A plan that cannot be carried out is refused when it is made, before anything is started.
"""

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import uuid4

from weft.errors import UsageError
from weft.misuse import join_few, suggest_names
from weft.session import SessionKey
from weft.turns import ENGINES as QUEUES

APP = "load"
"""The app that sessions of a load run belong to, unless they are those of a target."""

FAULTS = ("kill", "stop", "restart", "hang")
"""What can be done: kill -9 and SIGSTOP of a worker, restart and SIGSTOP of the database."""

OF_DATABASE = frozenset(("restart", "hang"))
"""The faults that the database has, not a worker: it must be one that the run has started."""

ENGINES = ("serve", *QUEUES)
"""Who carries turns to workers: the client over HTTP, or a queue."""


class PlannedTurn(NamedTuple):
    """One message of a run: the `number`-th of its session, from 0."""

    key: SessionKey
    number: int
    request_id: str
    message: str
    due: float
    """Seconds after the start at which it is sent; 0 for as soon as it can be."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """What a run does. Left out, it is small, without faults, in this process."""

    sessions: int = 20
    turns: int = 5
    rate: float | None = None
    """Turns that arrive each second, over all sessions; None: as fast as they are answered."""
    latency: float = 0.02
    """Seconds that each call of the scripted model takes; a turn has two."""
    message: str | None = None
    """What is said to an agent that is not the scripted one."""
    target: str | None = None
    """An address of a server that runs, or an agent as module:object; None: the scripted agent."""
    app: str | None = None
    """The app of that server, where it serves several."""
    store: str | None = None
    engine: str = "serve"
    workers: int = 0
    """Processes that run turns; 0: this process does, with a Runner."""
    slots: int = 8
    """Turns that one worker of a queue runs at once."""
    chaos: tuple[str, ...] = ()
    faults: int = 3
    """How many faults of each kind."""
    stop_seconds: float = 15.0
    silence: float = 4.0
    """Seconds after which a worker that was stopped counts as dead."""
    patience: float = 120.0
    """Seconds without a new answer after which the turns that are open count as lost."""
    seed: int = 0
    run: str = field(default_factory=lambda: uuid4().hex[:8])
    """What tells the sessions of this run from those of others."""

    def __post_init__(self) -> None:
        for name in ("sessions", "turns"):
            if getattr(self, name) < 1:
                raise _wrong(name, getattr(self, name), "from 1 on")
        for name in ("workers", "faults"):
            if getattr(self, name) < 0:
                raise _wrong(name, getattr(self, name), "from 0 on")
        if self.slots < 1:
            raise _wrong("slots", self.slots, "from 1 on")
        for name in ("latency", "stop_seconds"):
            if not 0 <= getattr(self, name) < 1e6:
                raise _wrong(name, getattr(self, name), "from 0 on")
        for name in ("patience", "silence"):
            if not 0 < getattr(self, name) < 1e6:
                raise _wrong(name, getattr(self, name), "above 0")
        if self.rate is not None and not 0 < self.rate < 1e9:
            raise _wrong("rate", self.rate, "above 0")
        _require_known("--chaos", self.chaos, FAULTS)
        _require_known("--engine", (self.engine,), ENGINES)
        self._require_possible()

    def _require_possible(self) -> None:
        """Refuse what the parts of the plan make of each other."""
        if self.is_address and (self.workers or self.chaos or self.store):
            raise UsageError(
                "a server that runs already has its own store and its own workers",
                where=self.target or "",
                hint="leave --workers, --chaos and --store out;"
                " or leave the address out, and weft load starts workers itself",
            )
        if self.app is not None and not self.is_address:
            raise UsageError(
                "an app is chosen of a server that runs",
                where="--app",
                hint="leave it out, or name the address of a server",
            )
        if self.target is not None and not self.is_address and self.workers:
            raise UsageError(
                "workers run the scripted agent, whose effects can be counted",
                where=self.target,
                hint="leave --workers out to load your agent in this process,"
                " or serve it and name the address: weft load http://127.0.0.1:8000/?token=...",
            )
        needs_workers = [fault for fault in self.chaos if fault not in OF_DATABASE]
        if needs_workers and not self.workers:
            raise UsageError(
                f"there is no worker to {needs_workers[0]}", where="--chaos", hint="add --workers 3"
            )
        if OF_DATABASE & {*self.chaos} and self.store is not None:
            raise UsageError(
                "only a PostgreSQL that this command has started is restarted or stopped",
                where="--chaos",
                hint="leave --store out",
            )
        if self.engine != "serve" and not self.workers:
            raise UsageError(
                "turns that are put into a queue need workers that take them",
                where=f"--engine {self.engine}",
                hint="add --workers 3",
            )
        if self.store is not None and self.store.startswith("memory:") and self.workers:
            raise UsageError(
                "workers are other processes: they do not see this one's memory",
                where="--store",
                hint="leave --store out, or name a database: postgresql://...",
            )

    @property
    def is_address(self) -> bool:
        """Whether the target is a server that runs already."""
        return self.target is not None and self.target.startswith(("http://", "https://"))

    @property
    def is_scripted(self) -> bool:
        """Whether turns are run by the agent of `program.py`, so that effects can be counted."""
        return self.target is None

    @property
    def total(self) -> int:
        """How many turns there are."""
        return self.sessions * self.turns

    def schedule(self, app: str = APP) -> list[PlannedTurn]:
        """All turns in the order in which they are due: each session in turn has one."""
        planned: list[PlannedTurn] = []
        for number in range(self.turns):
            for session in range(self.sessions):
                id = f"{self.run}-s{session}"
                request = f"{id}-t{number}"
                planned.append(
                    PlannedTurn(
                        SessionKey(app, f"{self.run}-u{session}", id),
                        number,
                        request,
                        self.message or request,
                        len(planned) / self.rate if self.rate is not None else 0.0,
                    )
                )
        return planned


def _wrong(name: str, value: object, words: str) -> UsageError:
    flag = f"--{name.replace('_', '-')}"
    return UsageError(f"{flag} {value}", where="load", hint=f"pass a number {words}")


def _require_known(flag: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    for word in words:
        if word not in known:
            hint = f"{suggest_names(word, known)}; there are: {join_few(known)}".removeprefix("; ")
            raise UsageError(f"`{word}` is not one of them", where=flag, hint=hint)
