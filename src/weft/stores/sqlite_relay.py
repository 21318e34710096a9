"""Partial events between the processes on a SQLite file, by way of a small file next to it.

`weft.db-live` has who follows what, and the letters that nobody has taken yet. It is made when a
session is first followed that another process may run, it is never flushed to the disk, and it may
be deleted while nobody uses it. Letters are overwritten when they were taken.
"""

import asyncio
import os
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from weft.errors import StoreError
from weft.stores.relay import Relay
from weft.stores.sqlite_file import explain_sqlite

_TAKE_EVERY = 0.05
"""Seconds between two looks for letters, while something is followed."""

_LASTS = 16.0
"""Seconds without an announcement after which a follower counts as gone."""

_WAIT = 0.5
"""Seconds that a statement waits for those of other processes: a letter is not worth more."""

_TABLES = """
CREATE TABLE IF NOT EXISTS followers (
    session INTEGER NOT NULL, name TEXT NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (session, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS letters (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS letters_by_name ON letters (name, number);
"""

_NOW = "((julianday('now') - 2440587.5) * 86400.0)"


def live_file(path: Path) -> Path:
    """The file next to the one of a store."""
    return path.with_name(f"{path.name}-live")


class FileCarrier:
    """Partial events as rows, which the process that follows looks for."""

    longest = 1_000_000
    looks = True

    def __init__(self, path: Path) -> None:
        self._token = secrets.token_hex(8)
        self._path = live_file(path)
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._taking: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """What this process is reached by; a forked one has another name."""
        return f"{self._token}.{os.getpid()}"

    async def listen(self, relay: Relay, *, follows: bool = False, runs: bool = False) -> None:
        """Take letters from now on; who follows is looked up when something is sent."""
        if not follows:
            return
        # it makes the file, which tells those who run that somebody may follow
        self._run(lambda connection: connection.execute("SELECT 1"))
        taking = self._taking
        if taking is None or taking.done():
            self._taking = asyncio.get_running_loop().create_task(self._take(relay))

    async def send(self, texts: Sequence[tuple[str, str]]) -> None:
        """Put letters for others."""

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT INTO letters (name, text) VALUES (?, ?)", texts)

        self._run(insert)

    async def announce(self, joined: Sequence[int], departed: Sequence[int]) -> None:
        """Write down what is followed here, and forget who is gone."""

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                f"INSERT INTO followers VALUES (?, ?, {_NOW} + ?)"
                " ON CONFLICT DO UPDATE SET until = excluded.until",
                [(number, self.name, _LASTS) for number in joined],
            )
            connection.executemany(
                "DELETE FROM followers WHERE session = ? AND name = ?",
                [(number, self.name) for number in departed],
            )
            # processes that were killed say no goodbye: their rows and letters go here
            connection.execute(f"DELETE FROM followers WHERE until < {_NOW}")
            connection.execute(
                "DELETE FROM letters WHERE name <> ? AND name NOT IN (SELECT name FROM followers)",
                (self.name,),
            )

        self._run(write)

    async def catch_up(self, relay: Relay) -> None:
        """Pass on the letters that came, and overwrite them."""
        texts: list[str] = []

        def take(connection: sqlite3.Connection) -> None:
            rows = connection.execute(
                "SELECT number, text FROM letters WHERE name = ? ORDER BY number", (self.name,)
            )
            letters = cast("list[tuple[int, str]]", rows.fetchall())
            if letters:
                connection.execute(
                    "DELETE FROM letters WHERE name = ? AND number <= ?",
                    (self.name, letters[-1][0]),
                )
            texts.extend(text for _, text in letters)

        self._run(take)
        for text in texts:
            relay.hear(text)

    def followers(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        """Who follows these sessions; nobody where there is no file."""
        # nobody has ever followed from elsewhere: no file is made for asking
        if self._connection is None and not self._path.exists():
            return {}
        marks = ", ".join("?" * len(numbers))
        names: dict[str, list[int]] = {}

        def read(connection: sqlite3.Connection) -> None:
            rows = connection.execute(
                f"SELECT name, session FROM followers WHERE until >= {_NOW}"
                f" AND session IN ({marks})",
                tuple(numbers),
            )
            for name, session in cast("list[tuple[str, int]]", rows.fetchall()):
                names.setdefault(name, []).append(session)

        with suppress(StoreError):  # the next look may do better
            self._run(read)
        return names

    async def close(self) -> None:
        """Take no more letters, and close the file."""
        taking, self._taking = self._taking, None
        if taking is not None and taking.get_loop() is asyncio.get_running_loop():
            taking.cancel()
        connection, self._connection = self._connection, None
        # a forked child must not close the connection of its parent
        if connection is not None and self._process == os.getpid():
            connection.close()

    async def _take(self, relay: Relay) -> None:
        """Look for letters, as long as somebody follows."""
        while True:
            with suppress(StoreError):  # the next look may do better
                await self.catch_up(relay)
            await asyncio.sleep(_TAKE_EVERY)

    def _run(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do something in one transaction; short enough to be done in the event loop."""
        try:
            with self._open_connection() as connection:
                work(connection)
        except sqlite3.Error as error:
            raise explain_sqlite(error, self._path, timeout=_WAIT) from None

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():
            connection = sqlite3.connect(self._path, timeout=_WAIT, check_same_thread=False)
            try:
                # no flush and no journal on the disk: letters are worth nothing after a crash
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute("PRAGMA journal_mode=MEMORY")
                # what was said must not stay readable in free pages
                connection.execute("PRAGMA secure_delete=ON")
                connection.executescript(_TABLES)
            except BaseException:
                connection.close()
                raise
            self._connection, self._process = connection, os.getpid()
        return self._connection


def forget_letters(path: Path) -> None:
    """Overwrite what is on its way, when something of a store is deleted for good."""
    file = live_file(path)
    if not file.exists():
        return
    connection = sqlite3.connect(file, timeout=5.0, isolation_level=None)
    try:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("DELETE FROM letters")
    except sqlite3.Error as error:
        raise explain_sqlite(error, file, timeout=5.0) from None
    finally:
        connection.close()
