"""The upkeep of a store: the version of its tables, a backup, and what must not be kept.

A store brings its tables up to date with its first use. These are for whoever wants to do it at a
moment of their own, in one place, before any worker is upgraded.

What must not be kept is a user with everything, or sessions that are old: the log, the state, turns
in queues, memories and artifacts go. Then the store writes what is left anew, because a database
only marks deleted rows as free. What is archived stays, in less room.

Top to bottom: versions, the backup and what verifies a store, what is deleted, what is archived.
"""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import NamedTuple

from weft.errors import StoreError, UsageError, describe_kind
from weft.session import ArtifactStore, SessionKey, Store
from weft.session.store import ArchivingStore, ErasingArtifacts, ErasingStore, lease_session
from weft.stores import open_store
from weft.stores.sqlite_file import MIGRATIONS as FILE_MIGRATIONS
from weft.stores.sqlite_file import UNDO as FILE_UNDO
from weft.stores.sqlite_file import damage, explain_sqlite, file_version, open_file
from weft.stores.sqlite_lease import join, leave
from weft.stores.sqlite_tables import FILE_SQL
from weft.stores.sqlite_tables import run_steps as run_file_steps
from weft.stores.steps import unpack_all
from weft.stores.verify import StoreCheck, add_checks, check_session, check_shared, list_numbers

_WAIT = 30.0


class StoreVersion(NamedTuple):
    """The version that the tables have, and the newest that this Weft knows."""

    version: int
    known: int

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.version == self.known:
            return "up to date"
        if self.version < self.known:
            return "older: run `weft store migrate`"
        return "newer by one: this Weft works with it; upgrade it when you can"


async def store_version(address: str) -> StoreVersion:
    """The version of a store; nothing is changed."""
    path = _path(address)
    if path is not None:
        version = await asyncio.to_thread(_file_version, path)
        return StoreVersion(version, len(FILE_MIGRATIONS))
    from weft.stores import postgres_server as tables

    async with tables.explaining(address):
        connection = await tables.connect(_server(address))
        async with connection:
            where = tables.place(address)
            version = await tables.version_of(connection, tables.MIGRATIONS, where=where)
    return StoreVersion(version, len(tables.MIGRATIONS))


async def migrate_store(address: str) -> StoreVersion:
    """Bring the tables up to date, while others work on."""
    store = open_store(address)
    try:
        # any use opens the store, and that migrates it
        await store.apps()
    finally:
        await store.close()
    return await store_version(address)


async def downgrade_store(address: str) -> StoreVersion:
    """Take the tables back by one version, for the Weft before this one.

    Sessions stay as they are. A process of this version that opens the store migrates it again.
    """
    before = await store_version(address)
    if before.version != before.known:
        raise StoreError(
            f"the tables are version {before.version}, and this Weft knows the way back from"
            f" {before.known} only",
            where=address if _path(address) is not None else "store",
            hint="each version takes back its own: use the Weft that made them",
        )
    path = _path(address)
    if path is not None:
        await asyncio.to_thread(_downgrade_file, path)
        return await store_version(address)
    from weft.stores import postgres_server as tables
    from weft.stores.postgres_tables import SERVER_SQL, run_steps

    async with tables.explaining(address):
        connection = await tables.connect(_server(address))
        async with connection, connection.transaction():
            # no process may migrate forward at the same time
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (tables.MIGRATING,))
            await run_steps(connection, unpack_all(SERVER_SQL))
            for statement in tables.UNDO:
                await connection.execute(statement.encode())
            await connection.execute("UPDATE weft.version SET version = version - 1")
    return await store_version(address)


async def backup_store(address: str, target: Path) -> int:
    """Copy a file of sessions while it is in use; gives the bytes of the copy, which is whole."""
    path = _path(address)
    if path is None:
        raise UsageError(
            "a server is backed up with its own program",
            where="store backup",
            hint="pg_dump --schema=weft --format=custom --file=weft.dump ADDRESS; and back with"
            " pg_restore --clean --if-exists --dbname=ADDRESS weft.dump",
        )
    return await asyncio.to_thread(_copy, path, target)


def _copy(path: Path, target: Path) -> int:
    if target.exists():
        raise UsageError(
            "the file exists already", where=str(target), hint="name one that does not"
        )
    # a copy that was cut off must not have the name of a whole one
    unfinished = target.with_name(f".{target.name}.part")
    try:
        source = _open_to_read(path)
        copy = sqlite3.connect(unfinished)
        try:
            source.backup(copy)
            (verdict,) = copy.execute("PRAGMA integrity_check").fetchone()
            if verdict != "ok":
                raise StoreError(
                    f"the copy is damaged: {verdict}", where=str(path), hint="try again"
                )
        finally:
            copy.close()
            source.close()
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        unfinished.rename(target)
    except sqlite3.Error as error:
        raise explain_sqlite(error, path, timeout=_WAIT) from None
    finally:
        unfinished.unlink(missing_ok=True)
    return target.stat().st_size


async def verify_store(address: str) -> StoreCheck:
    """Look at every row of a store, while it is in use; nothing is changed."""
    version = await store_version(address)
    if version.version < version.known:
        raise StoreError(
            f"the tables are version {version.version} of {version.known}",
            where=address if _path(address) is not None else "store",
            hint="bring them up to date first: weft store migrate",
        )
    path = _path(address)
    if path is not None:
        return await asyncio.to_thread(_verify_file, path)
    from psycopg import IsolationLevel

    from weft.stores import postgres_server as tables
    from weft.stores.postgres_tables import SERVER_SQL, run_steps

    async with tables.explaining(address):
        connection = await tables.connect(_server(address))
        async with connection:
            await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            checks = [await run_steps(connection, check_shared(SERVER_SQL))]
            for number in await run_steps(connection, list_numbers(SERVER_SQL)):
                async with connection.transaction():
                    checks.append(await run_steps(connection, check_session(SERVER_SQL, number)))
    return add_checks(checks)


def _verify_file(path: Path) -> StoreCheck:
    checks: list[StoreCheck] = []
    try:
        with closing(_open_to_read(path)) as connection:
            # rows that the file has lost are in none of the logs below
            if lost := damage(connection):
                checks.append(StoreCheck(0, 0, 0, [f"the file is damaged: {lost}"]))
            try:
                checks.append(run_file_steps(connection, check_shared(FILE_SQL)))
                for number in run_file_steps(connection, list_numbers(FILE_SQL)):
                    connection.execute("BEGIN")
                    checks.append(run_file_steps(connection, check_session(FILE_SQL, number)))
                    connection.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                if not lost:
                    raise
                checks.append(StoreCheck(0, 0, 0, [f"the rest cannot be read: {error}"]))
    except sqlite3.Error as error:
        raise explain_sqlite(error, path, timeout=_WAIT) from None
    return add_checks(checks)


def _open_to_read(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)


def _file_version(path: Path) -> int:
    try:
        with closing(_open_to_read(path)) as connection:
            return file_version(connection, path)
    except sqlite3.Error as error:
        raise explain_sqlite(error, path, timeout=_WAIT) from None


def _downgrade_file(path: Path) -> None:
    leases = join(path)
    try:
        connection = open_file(path, timeout=_WAIT, alone=leases.alone())
        try:
            connection.execute("BEGIN IMMEDIATE")
            run_file_steps(connection, unpack_all(FILE_SQL))
            for statement in FILE_UNDO:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={len(FILE_MIGRATIONS) - 1}")
            connection.execute("COMMIT")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise explain_sqlite(error, path, timeout=_WAIT) from None
    finally:
        leave(leases)


def _path(address: str) -> Path | None:
    """The file of a SQLite address; None for a server. Memory has neither."""
    store = open_store(address)
    file = getattr(store, "path", None)
    if isinstance(file, Path):
        return file
    if address == "memory://":
        raise UsageError(
            "a store in memory has no tables", where="store", hint="sqlite:///FILE or postgresql://"
        )
    return None


def _server(address: str) -> str:
    from weft.stores.postgres_server import read_address

    return read_address(address).url


# --- what must not be kept

MEMORY_APP = "memory:"
"""What the name of an app begins with whose sessions are the memories of another."""


class Erased(NamedTuple):
    """How much was deleted."""

    sessions: int
    memories: int
    artifacts: int


async def erase_user(
    store: Store, artifacts: ArtifactStore, app_name: str, user_id: str, *, compact: bool = True
) -> Erased:
    """Delete all that is kept of a user of an app; runs of the user are stopped first.

    State under `app:` belongs to all users and stays. Without `compact`, deleted rows stay on the
    disk until the database uses their place again.
    """
    erasing, files = _able(store), _able_artifacts(artifacts)
    apps = (app_name, f"{MEMORY_APP}{app_name}")
    keys = [info.key for app in apps for info in await store.sessions(app, user_id)]
    # first: else a worker whose run is stopped takes the next turn, and has the session made anew
    await erasing.erase_turns(app_name, user_id)
    async with AsyncExitStack() as stack:
        await _take(store, keys, stack)
        sessions, memories = [await erasing.erase_user(app, user_id) for app in apps]
        erased = Erased(sessions, memories, await files.erase(app_name, user_id))
    if compact:
        await erasing.compact()
    return erased


async def erase_sessions(
    store: Store, artifacts: ArtifactStore, keys: Sequence[SessionKey]
) -> Erased:
    """Delete sessions with their artifacts and queued turns.

    What they wrote to `user:` and `app:` stays.
    """
    erasing, files = _able(store), _able_artifacts(artifacts)
    count = 0
    for key in keys:
        # first, for the same reason
        await erasing.erase_turns(*key)
        async with AsyncExitStack() as stack:
            await _take(store, [key], stack)
            await store.delete(key)
            count += await files.erase(*key)
    if keys:
        await erasing.compact()
    return Erased(len(keys), 0, count)


async def archive_sessions(
    store: Store, keys: Sequence[SessionKey], *, keep_recent: int, before: float | None = None
) -> int:
    """Pack the older events of sessions, while they run; gives how many events were packed."""
    if not isinstance(store, ArchivingStore):
        raise UsageError(
            f"{describe_kind(store)} keeps no archive",
            where="store",
            hint="use sqlite:///FILE or postgresql://..., or give it `archive(key, keep_recent=,"
            " before=)`",
        )
    return sum([await store.archive(key, keep_recent=keep_recent, before=before) for key in keys])


async def _take(store: Store, keys: Sequence[SessionKey], stack: AsyncExitStack) -> None:
    """Stop the runs of the sessions, in whichever process, and keep others from beginning."""
    for key in keys:
        await stack.enter_async_context(lease_session(store, key, busy="interrupt"))


def _able(store: Store) -> ErasingStore:
    if isinstance(store, ErasingStore):
        return store
    raise _unable(
        store,
        "store",
        "`erase_user(app_name, user_id)`, `erase_turns(app_name, user_id, session_id)`,"
        " `apps_of_turns(user_id)` and `compact()`",
    )


def _able_artifacts(artifacts: ArtifactStore) -> ErasingArtifacts:
    if isinstance(artifacts, ErasingArtifacts):
        return artifacts
    raise _unable(artifacts, "artifacts", "`erase(app_name, user_id, session_id)`")


def _unable(store: object, where: str, methods: str) -> UsageError:
    return UsageError(
        f"{describe_kind(store)} cannot forget a user", where=where, hint=f"give it {methods}"
    )
