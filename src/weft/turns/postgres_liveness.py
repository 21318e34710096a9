"""The table of workers in a PostgreSQL database, for the thread that keeps it."""

import hashlib
import json
from collections.abc import Sequence
from typing import cast

import psycopg
from psycopg.conninfo import conninfo_to_dict

from weft.stores.postgres_server import DatabaseAddress
from weft.stores.postgres_tables import KEEPALIVES, explained
from weft.turns.liveness import RECOVERING, WorkerInfo

_BURYING = 0x57454654_01
"""The lock of who declares others dead."""


class ServerLiving:
    """The workers in a PostgreSQL database. The lock is an advisory lock of one connection."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._url = address.lease_url or address.url
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._worker = ""
        self._is_known = False

    def enter(self, info: WorkerInfo) -> None:
        """Connect, take the lock, and write the row."""
        self._worker = info.worker
        try:
            options = {
                **KEEPALIVES,
                "connect_timeout": "5",
                "application_name": f"weft {info.worker}",
                **conninfo_to_dict(self._url),
                "autocommit": True,
            }
            connection = psycopg.connect(**options)  # type: ignore[arg-type]
            self._connection = cast("psycopg.Connection[tuple[object, ...]]", connection)
            # a beat that is lost with the server is no loss, and a server that hangs is noticed
            self._connection.execute("SET synchronous_commit = off; SET statement_timeout = '5s'")
            # whoever buried this worker has cut its connection off, or will not be long
            self._connection.execute("SELECT pg_advisory_lock(%s)", (_number(info.worker),))
            # after a break the row is still there; where it is gone, this worker was declared dead
            if not self._is_known:
                self._connection.execute(
                    f"INSERT INTO weft.turn_workers VALUES (%s, %s, %s, %s, {_NOW}, {_NOW})",
                    (info.worker, json.dumps(info.apps), info.engine, info.slots),
                )
                self._is_known = True
        except psycopg.Error as error:
            raise explained(error, self._url) from None

    def beat(self) -> bool:
        """Say that this worker lives."""
        rows = self._run(
            f"UPDATE weft.turn_workers SET beat = {_NOW} WHERE worker = %s RETURNING 1",
            (self._worker,),
        )
        return bool(rows)

    def beats(self) -> list[tuple[str, float]]:
        """The workers, each with its last beat."""
        rows = self._run("SELECT worker, beat FROM weft.turn_workers", ())
        return cast("list[tuple[str, float]]", rows)

    def bury(self, worker: str, beat: float, *, hangs: bool) -> bool:
        """Declare a worker dead, and cut it off."""
        # one statement, and so one transaction: the locks are given back with it
        gone = self._run(
            """
            WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(%(burying)s) AS is_so),
            free AS MATERIALIZED (
                SELECT is_so AND (%(hangs)s OR pg_try_advisory_xact_lock(%(number)s)) AS is_so
                FROM alone)
            DELETE FROM weft.turn_workers USING free
            WHERE free.is_so AND worker = %(worker)s AND beat = %(beat)s RETURNING 1""",
            {
                "burying": _BURYING,
                "number": _number(worker),
                "hangs": hangs,
                "worker": worker,
                "beat": beat,
            },
        )
        if gone:  # also of one that seems dead: it may be behind a cut cable, and hold leases
            self._run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = left('weft ' || %s, 63)",
                (worker,),
            )
        return bool(gone)

    def lock_recovery(self) -> bool:
        """Be the only one who recovers turns."""
        return self._run("SELECT pg_try_advisory_lock(%s)", (RECOVERING,)) == [(True,)]

    def unlock_recovery(self) -> None:
        """Let others recover turns."""
        self._run("SELECT pg_advisory_unlock(%s)", (RECOVERING,))

    def leave(self) -> None:
        """Take the row away."""
        self._run("DELETE FROM weft.turn_workers WHERE worker = %s", (self._worker,))

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(
        self, statement: str, values: Sequence[object] | dict[str, object]
    ) -> list[tuple[object, ...]]:
        assert self._connection is not None
        try:
            cursor = self._connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise explained(error, self._url) from None


_NOW = "extract(epoch FROM clock_timestamp())::float8"


def _number(worker: str) -> int:
    """The number that stands for a worker among the server's advisory locks."""
    text = f"weft\0worker\0{worker}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
