"""What a proxy keeps: recalls by the history before them, bills, and requests that were refused.

One SQLite file. What cannot be written is kept in memory, counted, and tried again with the next:
a full disk must not stop an agent.
"""

import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from weft.compaction.splicing import encode
from weft.compiler.costs import Load
from weft.session import Usage
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS recalls (history BLOB NOT NULL, record BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS histories ON recalls (history);
CREATE TABLE IF NOT EXISTS heads (
    history BLOB PRIMARY KEY, session TEXT NOT NULL, lane INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (time REAL NOT NULL, session TEXT NOT NULL, record BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS refused (time REAL NOT NULL, record BLOB NOT NULL);
"""


class RecallLeg(msgspec.Struct, frozen=True):
    """An answer that only recalled something, as elements of a request, and what it got."""

    turns: list[JsonObject]
    results: list[JsonObject]


class RecallRecord(msgspec.Struct, frozen=True):
    """What the client did not see of an answer: by it the conversation is made whole again.

    `seen` tells the answer that the client got. `calls` stood in it among calls of the client's
    tools, each with the number of those before it; `results` are their results.
    """

    seen: str
    legs: list[RecallLeg] = []
    calls: list[JsonObject] = []
    places: list[int] = []
    results: list[JsonObject] = []


class BilledCall(msgspec.Struct, frozen=True):
    """A call on the receipt: what was promised, and what the provider counted."""

    session: str
    lane: int
    time: float
    dialect: str
    model: str
    expected: Load | None = None
    """Tokens by kind, as the request went."""
    before: Load | None = None
    """Tokens by kind, as it came."""
    usage: Usage | None = None
    written: int = 0
    answered_by: str = ""
    recalls: int = 0
    status: int = 200
    fault: str = ""


class RefusedPair(msgspec.Struct, frozen=True):
    """A request that a provider refused although it took the original."""

    dialect: str
    original: Json
    sent: Json
    answer: str


Record = TypeVar("Record", bound=msgspec.Struct)


def _pack(record: msgspec.Struct) -> bytes:
    """A record as JSON, also where its texts have half a character."""
    return encode(msgspec.to_builtins(record))


def _unpack(raw: bytes, kind: type[Record]) -> Record:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:  # half a character, which only Python reads
        return msgspec.convert(json.loads(raw), kind)


def is_proxy_store(path: Path) -> bool:
    """Whether a file is what a proxy keeps."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return False
    return {"heads", "recalls", "calls"} <= {name for (name,) in rows}


class ProxyStore:
    """The file, or only memory where there is none."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.faults = 0
        """How often something could not be written or read."""
        self.problem = ""
        """Why nothing is kept in the file; empty where it can be."""
        self._recalls: dict[bytes, list[RecallRecord]] = {}
        self._heads: dict[bytes, tuple[str, int]] = {}
        self._connection = self._open()
        self._stored = {cast("bytes", key) for (key,) in self._rows("SELECT history FROM recalls")}
        self.secret = self._secret()
        """What placeholders of this file are made with."""

    def _open(self) -> sqlite3.Connection | None:
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # it may hold what tools returned: it is nobody else's, nor is its journal
                self.path.touch(0o600)
                self.path.chmod(0o600)
            place = self.path or ":memory:"
            connection = sqlite3.connect(place, check_same_thread=False, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(_TABLES)
        except (sqlite3.Error, OSError) as error:
            self._note(error)
            self.problem = (isinstance(error, OSError) and error.strerror) or str(error)
            return None
        return connection

    def _note(self, error: Exception) -> None:
        self.faults += 1
        _log.warning("the proxy's store: %s", error)

    def _rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._note(error)
            return []

    def _write(self, statement: str, *values: object) -> None:
        if self._connection is None:
            return
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            self._note(error)

    def _secret(self) -> str:
        rows = self._rows("SELECT value FROM facts WHERE name = 'secret'")
        if rows:
            return str(rows[0][0])
        secret = secrets.token_hex(16)
        self._write("INSERT OR IGNORE INTO facts VALUES ('secret', ?)", secret)
        return secret

    # Recalls.

    def add_recall(self, history: bytes, record: RecallRecord) -> None:
        """Remember what an answer to this history recalled."""
        known = self.find_recalls(history)
        if record in known:
            return
        self._recalls[history] = [record, *known]
        self._stored.add(history)
        self._write("INSERT INTO recalls VALUES (?, ?)", history, _pack(record))

    def find_places(self, chain: Sequence[bytes]) -> list[int]:
        """The places in a chain of histories after which an answer recalled something."""
        if self._stored.isdisjoint(chain):
            return []
        return [at for at, history in enumerate(chain) if history in self._stored]

    def find_recalls(self, history: bytes) -> list[RecallRecord]:
        """What answers to this history recalled, the newest first."""
        if history not in self._stored:
            return []
        known = self._recalls.get(history)
        if known is None:
            rows = self._rows(
                "SELECT record FROM recalls WHERE history = ? ORDER BY rowid DESC", history
            )
            known = [_unpack(cast("bytes", row), RecallRecord) for (row,) in rows]
            if len(self._recalls) > _MOST:
                self._recalls.clear() if self._connection is not None else None
            self._recalls[history] = known
        return known

    # Conversations.

    def add_head(self, history: bytes, session: str, lane: int) -> None:
        """Remember where a conversation has come to."""
        if len(self._heads) > _MOST:
            self._heads.clear()
        self._heads[history] = session, lane
        self._write("INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", history, session, lane)

    def find_head(self, history: bytes) -> tuple[str, int] | None:
        """The session and the lane whose last request had this history."""
        known = self._heads.get(history)
        if known is None:
            rows = self._rows("SELECT session, lane FROM heads WHERE history = ?", history)
            known = (str(rows[0][0]), cast("int", rows[0][1])) if rows else None
        return known

    # Bills.

    def add_call(self, call: BilledCall) -> None:
        """Put a call on the receipt."""
        record = msgspec.json.encode(call)
        self._write("INSERT INTO calls VALUES (?, ?, ?)", call.time, call.session, record)

    def list_calls(self) -> list[BilledCall]:
        """The calls on the receipt, the oldest first."""
        rows = self._rows("SELECT record FROM calls ORDER BY time")
        return [msgspec.json.decode(cast("bytes", row), type=BilledCall) for (row,) in rows]

    # Refused requests.

    def add_refused(self, pair: RefusedPair) -> None:
        """Keep a pair for a report of a bug; the newest few."""
        self._write("INSERT INTO refused VALUES (?, ?)", time.time(), _pack(pair))
        self._write(
            "DELETE FROM refused WHERE rowid <= (SELECT max(rowid) FROM refused) - ?", _REFUSED
        )

    def list_refused(self) -> list[RefusedPair]:
        """The pairs that were kept, the oldest first."""
        rows = self._rows("SELECT record FROM refused ORDER BY time")
        return [_unpack(cast("bytes", row), RefusedPair) for (row,) in rows]

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_MOST = 10_000
_REFUSED = 20
