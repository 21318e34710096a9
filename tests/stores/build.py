"""What tests of the stores do with a store, its file and its session."""

import sqlite3
from contextlib import closing
from pathlib import Path

from weft.session import Session, SessionKey, Store, Transaction

KEY = SessionKey("app", "ada", "s")


def run_sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Use the file as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement)]


async def read_session(store: Store, key: SessionKey = KEY) -> Session:
    session = await store.get(key)
    assert session is not None
    return session


def connection_of(transaction: Transaction) -> sqlite3.Connection:
    assert isinstance(transaction.connection, sqlite3.Connection)
    return transaction.connection
