"""Processes that run, are killed, and resume: `python -m tests.runtime.kill_worker`.

It reads a job a line from stdin, does each in a forked child, and says how the child ended. The
children start from a process that has everything imported and nothing open.
"""

import asyncio
import gc
import importlib
import json
import os
import pkgutil
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

import weft.checker.rules
import weft.digest
import weft.passes
import weft.runtime.runner
from tests.runtime.journal import Journal
from tests.runtime.kill_flow import built_in, effect, flow, in_code, inside, reading
from weft import Approve, Event, Runner
from weft.declare import Node
from weft.dialects.price_list import price_list
from weft.session import Session, SessionKey, Transaction
from weft.stores.memories import Memory
from weft.stores.postgres import PostgresStore
from weft.stores.sqlite import SqliteStore
from weft.tokens import counter_for

APP = "killed"
LONGEST = 600.0
BUILT_IN = ("keeper", "coder")


class Job(msgspec.Struct):
    """One attempt: what to run, on which session of which store, and when to die."""

    address: str
    session: str
    journal: str
    scenario: str = "flow"
    attempt: int = 0
    kill_after: int = 0
    delay: float = 0.0
    kill_at: float = 0.0
    answers: dict[str, str] = {}
    retry: list[str] = []


def root_of(scenario: str, note: Journal) -> Node:
    """What a scenario runs: "flow", "reader", "solo unsafe", "batch probe", "code unsafe"."""
    if scenario == "flow":
        return flow(note)
    if scenario == "reader":
        return reading(note)
    if scenario in BUILT_IN:
        return built_in(scenario, note)
    where, kind = scenario.split()
    if where == "code":
        return in_code(kind, note)
    return inside(kind, note) if where == "inside" else effect(kind, note, where)


def _about(events: tuple[Event, ...]) -> dict[str, list[str]]:
    """What the journal says of stored events: ids, the requests they answer, calls they settle."""
    ids, keys, calls = [], [], []
    for event in events:
        ids.append(event.id)
        metadata = event.custom_metadata or {}
        if "key" in metadata:
            keys.append(str(metadata["key"]))
        calls += [result.id or "" for result in event.results]
        held = metadata.get("weft")
        outcomes = held.get("outcomes") if isinstance(held, dict) else None
        calls += outcomes if isinstance(outcomes, dict) else []
    return {"ids": ids, "keys": keys, "calls": calls}


def key_of(session: str) -> SessionKey:
    """Each session has a user of its own, so that they share no state."""
    return SessionKey(APP, session, session)


class _Noted:
    """A store's append and transaction with a line before and a line after."""

    note: Journal

    async def append(self, session: Session, *events: Event) -> Session:
        self.note("appending")
        after = await super().append(session, *events)  # type: ignore[misc]
        self.note("stored", **_about(events))
        return after

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        inside: list[Event] = []
        async with super().transaction(session) as inner:  # type: ignore[misc]
            yield _NotedTransaction(inner, inside)
            self.note("committing")
        self.note("stored", **_about(tuple(inside)))


class _NotedTransaction:
    def __init__(self, inner: Transaction, events: list[Event]) -> None:
        self._inner = inner
        self._events = events

    @property
    def connection(self) -> object:
        return self._inner.connection

    async def append(self, *events: Event) -> Session:
        self._events += events
        return await self._inner.append(*events)


class NotedSqlite(_Noted, SqliteStore):
    """The SQLite store, noted."""


class NotedPostgres(_Noted, PostgresStore):
    """The PostgreSQL store, noted."""


def artifacts_of(journal: str) -> Path:
    """Where a session's artifacts are kept: they outlive the process too."""
    return Path(f"{journal}-artifacts")


def noted(address: str, note: Journal) -> NotedSqlite | NotedPostgres:
    """The store at an address, which writes lines."""
    store = (
        NotedSqlite(address.removeprefix("sqlite:///"))
        if address.startswith("sqlite")
        else NotedPostgres(address)
    )
    store.note = note
    return store


async def work(job: Job) -> None:
    """Run the scenario from its beginning, or from where the last attempt was killed."""
    note = Journal(
        Path(job.journal), attempt=job.attempt, kill_after=job.kill_after, delay=job.delay
    )
    store = noted(job.address, note)
    memory = Memory(noted(job.address, note)) if job.scenario in BUILT_IN else None
    runner = Runner(
        root_of(job.scenario, note),
        app_name=APP,
        store=store,
        memory=memory,
        artifacts=artifacts_of(job.journal),
    )
    key = key_of(job.session)
    held = await store.get(key)
    if held is None or not len(held.events):
        running = runner.run(
            user_id=key.user_id, session_id=key.id, message="Go", state={"given": 1}
        )
    else:
        running = runner.resume(
            user_id=key.user_id, session_id=key.id, answers=job.answers, retry=job.retry
        )
    async for event in running:
        note("acknowledged", **_about((event,)), author=event.author, error=event.error_code)
    result = await running
    while result.waiting and job.scenario.endswith(("approved", "doubted")):
        yes = Approve(args={"what": "approved"}) if "approved" in job.scenario else Approve()
        answers = dict.fromkeys(result.waiting, yes)
        note("answering")
        running = runner.resume(user_id=key.user_id, session_id=key.id, answers=answers)
        async for event in running:
            note("acknowledged", **_about((event,)), author=event.author, error=event.error_code)
        result = await running
    note("done", text=result.text, error=result.error and result.error.error_code)
    if memory is not None:
        await memory.close()
    await runner.close()


def _child(job: Job) -> None:
    code = 1
    try:
        random.seed()
        asyncio.run(work(job))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        sys.stderr.flush()
        os._exit(code)


def _wait_for(child: int, kill_at: float) -> int | str:
    """Wait for the child, and kill it when its time has come; how it ended."""
    late: list[bool] = []

    def kill(*_: object) -> None:
        late.append(True)
        with suppress(ProcessLookupError):  # it ended just now
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, kill_at or LONGEST)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return "hangs" if late and not kill_at else os.waitstatus_to_exitcode(status)


def _import_all() -> None:
    """Load what a run loads when it first needs it; otherwise each child would."""
    for room in (weft.checker, weft.checker.rules, weft.digest, weft.passes, weft.runtime):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    for name in (
        "concurrent.futures.thread", "difflib", "jsonschema_rs", "opentelemetry.context", "psycopg",
        "psycopg_pool", "weft.dialects.gemini", "weft.stores.artifacts", "weft.tools.interpreter",
    ):  # fmt: skip
        importlib.import_module(name)
    price_list()
    counter_for("gemini-flash-latest").count("A word that is in no vocabulary: xgwqvzk.")
    gc.freeze()  # a child that looks for garbage copies no page of this process


def main() -> None:
    """Do the jobs, one after the other."""
    _import_all()
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        child = os.fork()
        if not child:
            _child(job)
        print(json.dumps(_wait_for(child, job.kill_at)), flush=True)


if __name__ == "__main__":
    main()
