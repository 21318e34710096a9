"""A memory with vectors, in an SQLite file with sqlite-vec: what is near in meaning is found there.

`Memory` reads all that is kept for a user and ranks it here. Where a user has tens of thousands of
texts, or embeddings of your own are better than words, each text is a row with a vector, and the
database finds the nearest.

The file is this memory's own. It is opened by `apsw`, because many builds of Python cannot load
extensions of SQLite; two SQLite libraries of one process must not share a file.
"""

import asyncio
import inspect
import struct
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar, cast

from weft.content import Content, Part
from weft.declare.context import Recollection
from weft.declare.policy_parts import MemoryScorer
from weft.errors import StoreError, UsageError, describe_kind
from weft.meaning import direction_of, is_installed
from weft.session import Event, Session
from weft.stores.memories import check_note, list_spoken, spell_memories
from weft.values import handle_of

Embed: TypeAlias = Callable[
    [Sequence[str]], "Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]"
]
"""A function from texts to their vectors, all of one length; it may be async."""

_Value = TypeVar("_Value")


class _Rows(Protocol):
    """What a statement gave; the statement is open until all of it is read."""

    def fetchall(self) -> list[tuple[object, ...]]: ...


class _VectorFile(Protocol):
    """What of apsw's connections is used: its own types need a newer Python."""

    def execute(self, statements: str, bindings: Sequence[object] | None = None) -> _Rows: ...
    def executemany(self, statements: str, bindings: Sequence[Sequence[object]]) -> object: ...
    def pragma(self, name: str, value: str) -> object: ...
    def wal_checkpoint(self, *, mode: int) -> object: ...
    def set_busy_timeout(self, milliseconds: int) -> None: ...
    def enable_load_extension(self, enable: bool) -> None: ...
    def load_extension(self, filename: str) -> None: ...
    def close(self) -> None: ...


_SCHEME = "sqlite:///"

_TABLES = """
CREATE TABLE IF NOT EXISTS memories (
    number INTEGER PRIMARY KEY, app TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL,
    text TEXT NOT NULL, author TEXT NOT NULL, session TEXT NOT NULL, at REAL NOT NULL,
    UNIQUE (app, user_id, id)
);
CREATE VIRTUAL TABLE IF NOT EXISTS vectors USING vec0 (
    owner TEXT PARTITION KEY, vector FLOAT[{width}] distance_metric=cosine
);
CREATE TABLE IF NOT EXISTS vector_width AS SELECT {width} AS width;
"""

_WIDEST = 4_096
"""The dimensions that sqlite-vec is known to take well."""

_TRUNCATE = 3
"""SQLite's number for a checkpoint that empties the log: apsw.SQLITE_CHECKPOINT_TRUNCATE."""

_WAIT_MS = 10_000
"""How long a writer waits for another one."""


class VectorMemory:
    """What is known of the users of an app, in an SQLite file of its own, found by vectors.

    `embed` makes the vectors; without it the word vectors of `weft[embedding]` do. Everything is by
    app and user: no search reaches the memory of another user.

    >>> memory = VectorMemory("sqlite:///memories.db", embed=my_embeddings)
    >>> runner = Runner(agent, memory=memory)
    """

    def __init__(self, address: str, *, embed: Embed | None = None, top_k: int = 10) -> None:
        if not isinstance(cast("object", address), str) or not address.startswith(_SCHEME):
            raise UsageError(
                f"{address!r} is not the address of an SQLite file",
                where="VectorMemory",
                hint='write VectorMemory("sqlite:///memories.db")',
            )
        if embed is None and not is_installed():
            raise UsageError(
                "there are no embeddings",
                where="VectorMemory",
                hint="pass embed=, or pip install 'weft[embedding]'",
            )
        if not isinstance(cast("object", top_k), int) or top_k < 1:
            raise UsageError(f"top_k is {top_k!r}", where="VectorMemory", hint="write 1 or more")
        self._path = Path(address.removeprefix(_SCHEME))
        self._embed: Embed = embed if embed is not None else _embed_words
        self._top_k = top_k
        self._connection: _VectorFile | None = None
        self._lock = asyncio.Lock()

    async def remember(
        self, app_name: str, user_id: str, text: str, *, session: str = "", author: str = ""
    ) -> str:
        """Keep a note for a user, and give its id. The same text twice is one note."""
        text = check_note(text)
        id = f"note-{handle_of(text)}"
        event = Event(author=author or "user", content=Content(parts=(Part(text=text),)))
        await self._add(app_name, user_id, [(id, session, event)])
        return id

    async def add_session(self, session: Session) -> int:
        """Keep what was said in a session; gives how many texts are new."""
        rows = [(f"{session.id}/{event.id}", session.id, event) for event in list_spoken(session)]
        return await self._add(session.app_name, session.user_id, rows)

    async def search(self, app_name: str, user_id: str, query: str) -> list[Content]:
        """What may answer the query, the best first, as contents."""
        return spell_memories(await self.find(app_name, user_id, query))

    async def find(
        self,
        app_name: str,
        user_id: str,
        query: str,
        *,
        top_k: int | None = None,
        scorer: MemoryScorer | None = None,
        without: str = "",
    ) -> list[Recollection]:
        """What is nearest to the query, with where it comes from; `scorer` is the database's own.

        `without` is the id of a session whose texts are not looked at: the one that asks.
        """
        (vector,) = await self._vectors([query])
        wanted = top_k or self._top_k

        def read(connection: _VectorFile) -> list[tuple[object, ...]]:
            # those of the asking session are left out afterwards: they may be the nearest
            owner = _owner(app_name, user_id)
            ((own,),) = connection.execute(
                "SELECT count(*) FROM memories WHERE app = ? AND user_id = ? AND session = ?",
                (app_name, user_id, without),
            ).fetchall()
            rows = connection.execute(
                "SELECT m.id, m.text, m.author, m.session, m.at, v.distance FROM"
                " (SELECT rowid, distance FROM vectors WHERE vector MATCH ? AND k = ? AND"
                " owner = ?) AS v JOIN memories AS m ON m.number = v.rowid"
                " ORDER BY v.distance, m.number",
                (_pack(vector), wanted + cast("int", own) * bool(without), owner),
            ).fetchall()
            return [row for row in rows if not without or row[3] != without][:wanted]

        rows = await self._use(read, len(vector))
        nearest = cast("list[tuple[str, str, str, str, float, float]]", rows)
        best = max((1 - row[5] for row in nearest), default=1.0)
        return [
            Recollection(
                id=id,
                text=text,
                author=author,
                session=session,
                at=at,
                score=max(0.0, (1 - distance) / best) if best > 0 else 0.0,
            )
            for id, text, author, session, at, distance in nearest
        ]

    async def forget(self, app_name: str, user_id: str, id: str | None = None) -> int:
        """Delete an entry, or all that is kept for the user; gives how many texts were there."""
        if not self._path.exists():
            return 0

        def erase(connection: _VectorFile) -> int:
            chosen, values = "app = ? AND user_id = ?", [app_name, user_id]
            if id is not None:
                chosen, values = f"{chosen} AND (id = ? OR session = ?)", [*values, id, id]
            numbers = connection.execute(f"SELECT number FROM memories WHERE {chosen}", values)
            gone = numbers.fetchall()
            with _writing(connection):
                connection.executemany("DELETE FROM vectors WHERE rowid = ?", gone)
                connection.executemany("DELETE FROM memories WHERE number = ?", gone)
            if gone:
                connection.wal_checkpoint(mode=_TRUNCATE)
                connection.execute(
                    "VACUUM"
                ).fetchall()  # deleted rows would stay readable in the file
            return len(gone)

        return await self._use(erase, None)

    async def close(self) -> None:
        """Close the file."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await asyncio.to_thread(connection.close)

    async def _add(
        self, app_name: str, user_id: str, rows: Sequence[tuple[str, str, Event]]
    ) -> int:
        for name, value in (("app_name", app_name), ("user_id", user_id)):
            if not isinstance(cast("object", value), str) or not value:
                raise UsageError(
                    f"{name}={value!r}", where="VectorMemory", hint="pass a non-empty string"
                )
        if not rows:
            return 0
        vectors = await self._vectors([event.text for _, _, event in rows])

        def write(connection: _VectorFile) -> int:
            added = 0
            with _writing(connection):
                for (id, session, event), vector in zip(rows, vectors, strict=True):
                    new = connection.execute(
                        "INSERT INTO memories (app, user_id, id, text, author, session, at)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING number",
                        (app_name, user_id, id, event.text, event.author, session, event.timestamp),
                    ).fetchall()
                    if new:
                        connection.execute(
                            "INSERT INTO vectors (rowid, owner, vector) VALUES (?, ?, ?)",
                            (new[0][0], _owner(app_name, user_id), _pack(vector)),
                        )
                        added += 1
            return added

        return await self._use(write, len(vectors[0]))

    async def _vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vectors of texts, or an error if they are none."""
        vectors: object = self._embed(texts)
        if inspect.isawaitable(vectors):
            vectors = await cast("Awaitable[object]", vectors)
        vectors_given = cast("Sequence[Sequence[float]]", vectors)
        try:
            rows = [[float(each) for each in row] for row in vectors_given]
        except (TypeError, ValueError):
            rows = []
        widths = {len(row) for row in rows}
        if len(rows) != len(texts) or len(widths) != 1 or not 0 < max(widths) <= _WIDEST:
            raise UsageError(
                f"embed gave {describe_kind(vectors)} for {len(texts)} texts",
                where="VectorMemory.embed",
                hint=f"give a list of numbers for each text, all of one length up to {_WIDEST:,}",
            )
        return rows

    async def _use(self, work: Callable[[_VectorFile], _Value], width: int | None) -> _Value:
        """Do something with the file, in a thread, one after the other."""

        def do() -> _Value:
            if self._connection is None:
                self._connection = _connect(self._path)
            _require_width(self._connection, width, self._path)
            return work(self._connection)

        async with self._lock:
            return await asyncio.to_thread(do)


def _connect(path: Path) -> _VectorFile:
    try:
        import apsw
        import sqlite_vec  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError(
            "sqlite-vec or apsw is not installed",
            where="VectorMemory",
            hint="pip install 'weft[vectors]'",
        ) from None
    try:
        connection = cast("_VectorFile", apsw.Connection(str(path)))
        connection.set_busy_timeout(_WAIT_MS)
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
        listed = connection.execute("SELECT name FROM sqlite_master").fetchall()
        names = {name for (name,) in listed}
        if names and "memories" not in names:
            connection.close()
            raise StoreError(
                f"{path.name} is a database of something else",
                where="VectorMemory",
                hint="give the memory a file of its own",
            )
        connection.pragma("journal_mode", "wal")
        return connection
    except apsw.Error as error:
        raise StoreError(
            f"{path.name} cannot be opened: {error}",
            where="VectorMemory",
            hint="name a file that can be written, or a new one",
        ) from error


def _require_width(connection: _VectorFile, width: int | None, path: Path) -> None:
    """Make the tables for vectors of a width, or say that the file has others."""
    names = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vector_width'")
    if width is not None and not names.fetchall():
        with _writing(connection):
            connection.execute(_TABLES.format(width=width)).fetchall()
    if width is None:
        return
    ((there,),) = connection.execute("SELECT width FROM vector_width").fetchall()
    if there != width:
        raise StoreError(
            f"{path.name} has vectors of {there} dimensions, and embed gives {width}",
            where="VectorMemory",
            hint="use the embeddings that it was written with, or another file",
        )


@contextmanager
def _writing(connection: _VectorFile) -> Generator[None]:
    """A transaction. The connection's own `with` waits for others while it holds up all threads."""
    connection.execute("BEGIN IMMEDIATE").fetchall()
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK").fetchall()
        raise
    connection.execute("COMMIT").fetchall()


def _owner(app_name: str, user_id: str) -> str:
    """Whose texts a search looks at; the length keeps `a`, `bc` apart from `ab`, `c`."""
    return f"{len(app_name)}:{app_name}:{user_id}"


def _embed_words(texts: Sequence[str]) -> list[tuple[float, ...]]:
    return [direction_of(text) for text in texts]


def _pack(vector: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)
