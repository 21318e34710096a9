"""The stores under test: each test of the suite runs once for each of them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from weft.session import MemoryStore, SessionKey, Store
from weft.stores import open_store


@pytest.fixture
async def again(address: str, store: Store) -> AsyncIterator[Callable[[], Store]]:
    """Another store object on the same data, as another process would have it."""
    opened: list[Store] = []

    def open_again() -> Store:
        if isinstance(store, MemoryStore):
            return store
        opened.append(open_store(address))
        return opened[-1]

    yield open_again
    for other in opened:
        await other.close()


@pytest.fixture
def key() -> SessionKey:
    """A session of an app that no other test knows."""
    return SessionKey(f"app-{uuid4().hex}", "ada", "s1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a SQLite store."""
    return tmp_path / "weft.db"


@pytest.fixture
def server(postgres_url: str) -> str:
    """A database without our tables."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS weft, weft_dbos CASCADE")
    return postgres_url
