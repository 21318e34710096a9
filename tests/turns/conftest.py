"""The databases that a queue can be in: each test runs once for each of them."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from weft.session import Store
from weft.stores import open_store
from weft.turns import Turns, open_turns


@pytest.fixture(params=("sqlite", "postgres"))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the store is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    """A store."""
    store = open_store(address)
    yield store
    await store.close()


@pytest.fixture
async def turns(store: Store) -> AsyncIterator[Turns]:
    """Its inbox."""
    turns = open_turns(store)
    yield turns
    await turns.close()


@pytest.fixture
def app() -> str:
    """An app that no other test knows."""
    return f"app_{uuid4().hex}"
