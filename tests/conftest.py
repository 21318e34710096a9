"""Settings every test shares."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# First of all, before the tests are imported: keep compiled modules, even where the shell says
# otherwise. Workers and the processes that tests start read them, and collecting takes half.
sys.dont_write_bytecode = False

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from hypothesis.internal.conjecture import providers  # noqa: E402

if TYPE_CHECKING:
    from weft.session import Store

# A busy machine is not a bug: examples have no deadline of their own. And they are the same in
# every run, so that no change fails over what it did not touch.
settings.register_profile(
    "weft", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("weft")

# Hypothesis also draws the constants of the modules that are imported so far. Which these are
# depends on the tests before, and reading them takes each worker five seconds.
providers._get_local_constants = lambda: providers._local_constants

# Files of tests live in memory where there is room for them: nothing of what is tested is the disk,
# and links, databases and their commits cost a fraction. Workers and other processes inherit it.
MEMORY = "/dev/shm"
ROOM = 4 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
    _room = os.statvfs(MEMORY)
    if _room.f_bavail * _room.f_frsize > ROOM and not _room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# Each client of HTTP reads all certificates of the machine, which takes far longer than a request
# of a test. Here they read one. Only `fetched` (models/local_weights.py) goes outside, with all.
if "WEFT_TESTS_SSL_CERT_FILE" not in os.environ:
    os.environ["WEFT_TESTS_SSL_CERT_FILE"] = os.environ.get("SSL_CERT_FILE", "")
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("support") / "certificate.pem")

# What a shell starts in the background is told not to hear Ctrl-C, and so are its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: what is collected stays, and there is much of it.

    Later searches for garbage pass over it, too. They are rare: tests make a lot and keep little,
    and searching as often as Python does took a tenth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Set aside what a file of tests leaves behind, which is loaded modules and caches.

    A test that searches for garbage finds its own, and does not look through all that.
    """
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


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


@pytest.fixture(params=("memory", "sqlite", "postgres"))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the store is: each test runs once for every kind, or for those that it names."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(address: str) -> "AsyncIterator[Store]":
    """A store."""
    from weft.stores import open_store

    store = open_store(address)
    yield store
    await store.close()
