"""The databases that a queue can be in: each test runs once for each of them."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from weft.session import Store
from weft.turns import Turns, open_turns


@pytest.fixture(params=("sqlite inbox", "postgres inbox", "postgres procrastinate"))
def place(request: pytest.FixtureRequest) -> list[str]:
    """The kind of database, and of queue."""
    return str(request.param).split()


@pytest.fixture
def address(place: list[str], request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the store is."""
    if place[0] == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def turns(store: Store, place: list[str]) -> AsyncIterator[Turns]:
    """Its queue."""
    turns = open_turns(store, place[1])
    yield turns
    await turns.close()


@pytest.fixture
def app() -> str:
    """An app that no other test knows."""
    return f"app_{uuid4().hex}"
