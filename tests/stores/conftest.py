"""The stores under test: each test of the suite runs once for each of them."""

from collections.abc import AsyncIterator, Callable
from uuid import uuid4

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
