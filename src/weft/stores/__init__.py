"""Stores keep the log: open one by its address, and make a session in it that is whole."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import Conflict, StoreError, UsageError, describe_kind
from weft.misuse import find_near
from weft.session import ArtifactStore, Event, MemoryStore, Session, SessionKey, Store
from weft.session.store import FillingStore
from weft.values import Json

if TYPE_CHECKING:
    from pathlib import Path

_ARTIFACTS = ("memory://", "file:///directory")

_TAKE_BACK = (0.05, 0.3, 1.0)
"""Seconds to wait between tries to delete a session whose first events could not be stored."""

_log = logging.getLogger("weft")


def open_store(store: str | Store) -> Store:
    """The store at an address, or the store that is given.

    Addresses are `memory://`, `sqlite:///relative.db`, `sqlite:////absolute.db` and
    `postgresql://user@host/database`. Nothing is opened before the store is first used.
    """
    if not isinstance(store, str):
        _require_store(store)
        return store
    scheme, separator, _ = store.partition("://")
    for kind in STORES:
        if separator and scheme in kind.schemes:
            return kind.open(store)
    raise _unknown(store, "a store", _forms())


class StoreKind(NamedTuple):
    """A kind of store that has an address."""

    schemes: tuple[str, ...]
    """What an address begins with."""
    form: str
    """An address, for hints."""
    open: Callable[[str], Store]


def _open_memory(address: str) -> Store:
    if address != "memory://":
        raise _unknown(address, "a store", _forms())
    return MemoryStore()


def _open_sqlite(address: str) -> Store:
    from weft.stores.sqlite import SqliteStore

    return SqliteStore(_file(address, address.partition("://")[2]))


def _open_postgres(address: str) -> Store:
    from weft.stores.postgres import PostgresStore

    return PostgresStore(address)


STORES = (
    StoreKind(("memory",), "memory://", _open_memory),
    StoreKind(("sqlite",), "sqlite:///weft.db", _open_sqlite),
    StoreKind(("postgresql", "postgres"), "postgresql://user@host/database", _open_postgres),
)
"""The stores that have an address."""


def _forms() -> tuple[str, ...]:
    return tuple(kind.form for kind in STORES)


def open_artifacts(artifacts: "str | Path | ArtifactStore") -> ArtifactStore:
    """The artifact store at an address or in a directory, or the one that is given.

    Addresses are `memory://` and `file:///directory`.
    """
    from weft.stores.artifacts import FileArtifacts, MemoryArtifacts

    if artifacts == "memory://":
        return MemoryArtifacts()
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    if isinstance(artifacts, Path):
        return FileArtifacts(artifacts)
    if not isinstance(artifacts, str):
        _require_artifacts(artifacts)
        return artifacts
    if artifacts.startswith("file:///"):
        return FileArtifacts(Path(unquote(urlsplit(artifacts).path)))
    raise _unknown(artifacts, "an artifact store", _ARTIFACTS, where="artifacts")


def beside_store(store: Store) -> "str | Path":
    """Where artifacts are kept if nobody says: next to a file of sessions, else in memory."""
    file = getattr(store, "path", None)
    if file is None:
        return "memory://"
    from pathlib import Path

    return Path(f"{file}-artifacts") if isinstance(file, Path) else "memory://"


async def create_filled(
    store: Store,
    key: SessionKey,
    events: Sequence[Event],
    *,
    state: Mapping[str, Json] | None = None,
) -> Session:
    """A new session with these events: all of it, or nothing.

    A store that cannot make both at once makes the session first. If the events cannot be stored
    there, the session is deleted again: else a client that tries once more finds an empty one.
    """
    if isinstance(store, FillingStore) and _fills_as_it_appends(store):
        return await store.create_filled(key, events, state=state)
    session = await store.create(key, state=state)
    if not events:
        return session
    try:
        return await store.append(session, *events)
    except Conflict:  # somebody wrote to it meanwhile: it is not ours alone
        raise
    except BaseException:
        import asyncio

        # to its end, also if whoever asked for the session is gone
        await asyncio.shield(asyncio.create_task(_take_back(store, key)))
        raise


def _fills_as_it_appends(store: Store) -> bool:
    """Whether filling is of the same make as appending.

    A class that only has an `append` or `create` of its own, over one of our stores, does there
    what must happen to every event: filling past it would leave that out.
    """
    for kind in type(store).__mro__:
        if "create_filled" in vars(kind):
            return True
        if "append" in vars(kind) or "create" in vars(kind):
            return False
    return False


async def _take_back(store: Store, key: SessionKey) -> None:
    """Delete a session that was just made; a store that fails may be there again in a moment."""
    import asyncio

    for pause in (*_TAKE_BACK, None):
        try:
            await store.delete(key)
        except StoreError as error:
            if pause is None:
                _log.error("%s is empty and cannot be deleted: %s", key, error.message)
            else:
                await asyncio.sleep(pause)
        else:
            return


def _file(address: str, rest: str) -> str:
    """The path in a SQLite address: what follows the third slash."""
    path = rest.removeprefix("/")
    # SQLite would take ":memory:", and lose the sessions when its connection closes
    if path in ("", ":memory:") or not rest.startswith("/"):
        raise UsageError(
            f"`{address}` names no file",
            where="store",
            hint=f"write sqlite:///{rest or 'weft.db'}, or memory:// to keep sessions in memory"
            if rest not in ("", "/", "/:memory:")
            else "write sqlite:///weft.db, or memory:// to keep sessions in memory",
        )
    if "?" in path:
        # it would be part of the file's name, and no option
        raise UsageError(
            f"`{address}` has options, which an address of a file cannot have",
            where="store",
            hint="pass them in Python: SqliteStore(path, timeout=...)",
        )
    return path


def _require_store(store: object) -> None:
    """Refuse what has none of a store's methods, before a run finds out."""
    # a class has the method too: it was not called
    if callable(getattr(store, "lease", None)) and not isinstance(store, type):
        return
    from pathlib import Path

    forms = f"valid forms: {', '.join(_forms())}"
    raise UsageError(
        f"{store!r} is not a store" if store is None else f"{describe_kind(store)} is not a store",
        where="store",
        hint=f'write "sqlite:///{store}"' if isinstance(store, Path) else forms,
    )


def _require_artifacts(artifacts: object) -> None:
    """Refuse what has none of an artifact store's methods, before a tool finds out."""
    if callable(getattr(artifacts, "save", None)) and not isinstance(artifacts, type):
        return
    raise UsageError(
        f"{artifacts!r} is not an artifact store",
        where="artifacts",
        hint=f"pass a directory as a Path, or one of {', '.join(_ARTIFACTS)}",
    )


def _unknown(
    address: str, what: str, forms: tuple[str, ...], *, where: str = "store"
) -> UsageError:
    scheme, separator, _ = address.partition("://")
    redacted = re.sub(r"//[^/@]*@", "//...@", address)  # a login is not for logs and screens
    hint = f"valid forms: {', '.join(forms)}"
    database = scheme.partition("+")[0]  # others name their driver after it
    schemes = ("file", *[scheme for kind in STORES for scheme in kind.schemes])
    if not separator or find_near(database, schemes, cutoff=0.6):
        near = find_near(address, forms, cutoff=0.3)
        hint = f"did you mean {near[0]}? {hint}" if near else hint
    return UsageError(f"`{redacted}` is not the address of {what}", where=where, hint=hint)
