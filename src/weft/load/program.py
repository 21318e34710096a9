"""The agent that a load run talks to: a model that takes its time, and a tool that leaves a row.

Workers serve it as `weft.load.program:agent`. A turn is a message, a call of `book`, its result,
and an answer. `book` writes into a table of its own in the transaction of the store, without a
unique key: an effect that happened twice shows as two rows. What a process begins it also notes
in a file, which outlives a kill: from there a run knows who had a turn when it was taken over.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from weft.content import Content, FunctionCall, Part
from weft.declare import Agent, ToolContext, tool
from weft.ir import ModelResponse, Prompt
from weft.load.plan import APP
from weft.models.scripted import ScriptedModel
from weft.session import Store
from weft.values import Json

LATENCY = "WEFT_LOAD_LATENCY"
"""The variable that says how many seconds a call of the model takes."""

JOURNAL = "WEFT_LOAD_JOURNAL"
"""The variable that names the folder of the journals; without one nothing is noted."""

EFFECTS = "weft_load_effects"
"""The table that `book` writes to."""

ANSWER = "done "
"""What an answer begins with; the message follows."""

_CREATE = f"CREATE TABLE IF NOT EXISTS {EFFECTS} (session_id TEXT, request TEXT, call_id TEXT)"

_IN_MEMORY: list[tuple[str, str, str]] = []
"""Effects of runs over a store in memory, which has no tables."""


class JournalLine(NamedTuple):
    """What a process began: when, which process, what, in which turn."""

    at: float
    pid: int
    what: str
    request: str


class Journal:
    """What this process begins, in a file of its own; each line is one write."""

    def __init__(self, folder: str | None) -> None:
        self._file: int | None = None
        self._folder = folder
        self._pid = 0

    def note(self, what: str, request: str) -> None:
        """Note that something begins; it is on record before it does."""
        if self._folder is None:
            return
        # a forked process has a journal of its own
        if self._file is None or self._pid != os.getpid():
            self._pid = os.getpid()
            path = Path(self._folder) / f"{self._pid}.journal"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        line = JournalLine(time.time(), self._pid, what, request)
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def read_journals(folder: Path) -> list[JournalLine]:
    """The lines of all processes by time; a line that a kill cut off is not one."""
    lines: list[JournalLine] = []
    for path in folder.glob("*.journal"):
        for data in path.read_bytes().split(b"\n")[:-1]:
            lines.append(msgspec.json.decode(data, type=JournalLine))
    return sorted(lines)


class PacedModel:
    """A model that reads the message, calls `book` with it, and answers when that is done."""

    name = "paced"
    dialect = ScriptedModel([]).dialect  # any would do

    def __init__(self, latency: float, journal: Journal) -> None:
        self._latency = latency
        self._journal = journal

    async def generate(
        self, prompt: Prompt, wire: Mapping[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """The call, or the answer: which of them follows from the request alone."""
        last = prompt.items[-1]
        self._journal.note("asked", last.invocation)
        await asyncio.sleep(self._latency)
        booked = last.kind == "exchange"
        question = prompt.items[-2] if booked else last
        message = "".join(getattr(block, "text", "") for block in question.blocks)
        part = (
            Part(text=f"{ANSWER}{message}")
            if booked
            else Part(function_call=FunctionCall(name="book", args={"what": message}))
        )
        yield ModelResponse(content=Content(role="model", parts=(part,)), finish_reason="STOP")


def make_agent(*, latency: float, journal: str | None = None) -> Agent:
    """The agent, with a model of this latency, and its journal in this folder."""
    notes = Journal(journal)

    @tool(effect="transactional")
    async def book(what: str, ctx: ToolContext) -> str:
        """Leave one row for the turn."""
        notes.note("booked", ctx.invocation_id)
        row = (ctx.session_id, ctx.invocation_id, ctx.call_id)
        connection = ctx.connection
        if connection is None:
            _IN_MEMORY.append(row)
        elif isinstance(connection, sqlite3.Connection):
            connection.execute(f"INSERT INTO {EFFECTS} VALUES (?, ?, ?)", row)
        else:
            server = cast("_ServerConnection", connection)
            await server.execute(f"INSERT INTO {EFFECTS} VALUES (%s, %s, %s)".encode(), row)
        return f"booked {what}"

    return Agent(APP, model=PacedModel(latency, notes), tools=[book])


class _ServerConnection:
    """What is used of a psycopg connection, which is an extra."""

    async def execute(self, statement: bytes, values: tuple[str, ...] = ()) -> object: ...


def agent() -> Agent:
    """The agent as workers serve it: with what the environment of the process says."""
    return make_agent(
        latency=float(os.environ.get(LATENCY, "0.02")), journal=os.environ.get(JOURNAL)
    )


async def make_table(address: str, store: Store) -> None:
    """The table of effects in the database of a store."""
    await store.apps()  # the file, or the schema, is there then
    await _execute(address, _CREATE)


async def count_effects(address: str, run: str) -> dict[str, int]:
    """How many rows each turn of a run has, by its request id."""
    rows = (
        [row for row in _IN_MEMORY if row[0].startswith(f"{run}-")]
        if address.startswith("memory:")
        else await _execute(
            address,
            f"SELECT session_id, request, call_id FROM {EFFECTS} WHERE session_id LIKE '{run}-%'",
        )
    )
    counts: dict[str, int] = {}
    for _, request, _ in rows:
        counts[request] = counts.get(request, 0) + 1
    return counts


async def forget_effects(address: str, run: str) -> None:
    """Delete the rows of a run."""
    await _execute(address, f"DELETE FROM {EFFECTS} WHERE session_id LIKE '{run}-%'")


async def _execute(address: str, statement: str) -> list[tuple[str, str, str]]:
    """Run one statement where the store keeps its tables."""
    if address.startswith("memory:"):
        return []
    if address.startswith("sqlite:///"):
        return await asyncio.to_thread(
            _execute_in_file, address.removeprefix("sqlite:///"), statement
        )
    from weft.stores.postgres_server import connect, read_address

    connection = await connect(read_address(address).url)
    try:
        cursor = await connection.execute(statement.encode())
        rows = await cursor.fetchall() if cursor.description else []
        return cast("list[tuple[str, str, str]]", rows)
    finally:
        await connection.close()


def _execute_in_file(path: str, statement: str) -> list[tuple[str, str, str]]:
    connection = sqlite3.connect(path, timeout=60)
    try:
        with connection:
            return connection.execute(statement).fetchall()
    finally:
        connection.close()
