"""Settings every test shares."""

import pytest
from hypothesis import settings

# A busy machine is not a bug: examples have no deadline of their own.
settings.register_profile("weft", deadline=None)
settings.load_profile("weft")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run once, on asyncio."""
    return "asyncio"
