"""Settings every test shares."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is not a bug: examples have no deadline of their own.
settings.register_profile("weft", deadline=None)
settings.load_profile("weft")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run once, on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a database on a real server, which starts when a test first asks for it."""
    from tests.postgres import database

    with database() as address:
        yield address
