"""Settings every test shares."""

import signal
import sys
from collections.abc import Iterator

# First of all, before the tests are imported: keep compiled modules, even where the shell says
# otherwise. Workers and the processes that tests start read them, and collecting takes half.
sys.dont_write_bytecode = False

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# A busy machine is not a bug: examples have no deadline of their own. And they are the same in
# every run, so that no change fails over what it did not touch.
settings.register_profile(
    "weft", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("weft")

# What a shell starts in the background is told not to hear Ctrl-C, and so are its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run once, on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a database on a real server, which starts when a test first asks for it."""
    from tests.support.postgres import database

    with database() as address:
        yield address
