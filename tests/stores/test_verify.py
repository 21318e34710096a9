"""`weft store verify`: every row is looked at, and what a store would read differently is found."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.cli.run import weft
from tests.stores.test_damage import FLIPS, KEY, Rows, database, flipped, talk, told
from weft import Session
from weft.errors import StoreError
from weft.session import Event, SessionKey, Store
from weft.session.store import ArchivingStore
from weft.stores import chapters, open_store, sqlite_file
from weft.stores.sqlite import SqliteStore
from weft.stores.upkeep import downgrade_store, verify_store

LONG = KEY._replace(id="long")

__all__ = ["database"]


async def fill(store: Store) -> None:
    """A short session, and one whose older events are in chapters: the first is packed."""
    await talk(store, KEY, length=12)
    session = await store.create(LONG)
    events = [told(number, delta=number % 50 == 0) for number in range(690)]
    await store.append(session, *events)
    assert isinstance(store, ArchivingStore)
    assert await store.archive(LONG, keep_recent=290) == 400
    # with its events in the table, as chapters of a long log are that nobody packed
    session = await store.create(KEY._replace(id="chapters"))
    await store.append(session, *[told(number) for number in range(620)])


@pytest.fixture(autouse=True)
def short_chapters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapters of 200 events: a log of a few hundred is a long one."""
    monkeypatch.setattr(chapters, "LENGTH", 200)
    monkeypatch.setattr(chapters, "SPARE", 100)


async def all_sessions(store: Store) -> dict[SessionKey, bytes]:
    """Every session, as a client reads it."""
    found: dict[SessionKey, bytes] = {}
    for app in await store.apps():
        for info in await store.sessions(app):
            session = await store.get(info.key)
            assert session is not None
            found[info.key] = session.to_json()
    return found


async def test_a_whole_store_is_whole_while_others_write(database: str) -> None:
    store = open_store(database)
    await fill(store)
    session = await store.get(KEY)
    assert session is not None
    writing = asyncio.create_task(_write(store, session))
    for _ in range(3):
        check = await verify_store(database)
        assert (check.sessions, check.problems, check.unhashed) == (3, [], 0)
        assert check.events >= 12 + 690 + 620
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await store.close()


async def _write(store: Store, session: Session) -> None:
    while True:
        session = await store.append(session, Event(author="user"))


async def test_every_kind_of_damage_is_named(database: str) -> None:
    rows, store = Rows(database), open_store(database)
    await fill(store)
    async with asyncio.timeout(60):
        while rows.run("SELECT count(*) FROM @chapters") != [(4,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await store.close()
    is_file = database.startswith("sqlite")
    at = (lambda n: f"place % 4294967296 = {n}") if is_file else (lambda n: f"seq = {n}")
    changed_blob = "x'00' || substr({0}, 2)" if is_file else "overlay({0} placing '\\x00' from 1)"
    damages = {
        "events SET event = replace(event, 'message 11 ', 'message 12 ')": "event 11 is damaged",
        f"events SET timestamp = 1.5 WHERE {at(610)}": "event 610 is damaged: its row has",
        f"events SET timestamp = 1.5 WHERE {at(650)}": "event 650 is damaged: its row has",
        "sessions SET state = replace(state, 'begin', 'began')": "its row is not what was stored",
        "sessions SET chaptered = 0 WHERE id = 'long'": "events in chapters, not 0",
        "app_state SET value = replace(value, 'p', 'q')": "of an app, is not what was stored",
        "user_state SET value = '\"Bob\"'": "of a user, is not what was stored",
        "chapters SET delta_checksum = 7 WHERE packed IS NULL": "the chapter at event 0 is not",
        "chapters SET checksum = 7 WHERE packed IS NULL": "the chapter at event 0 is not",
        "chapters SET newest = 7 WHERE packed IS NULL": "the chapter at event 0 is not",
        "chapters SET length = length - 1 WHERE packed IS NOT NULL": "events in chapters, not",
        f"chapters SET packed = {changed_blob.format('packed')}": "the packed events from 0 on",
        f"chapters SET talk = {changed_blob.format('talk')}": "the talk of the chapter at event",
    }
    for damage, words in damages.items():
        table = damage.split()[0]
        rows.run(f"CREATE TABLE @kept AS SELECT * FROM @{table}")
        rows.run(f"UPDATE @{damage}")
        check = await verify_store(database)
        assert any(words in problem for problem in check.problems), (damage, check)
        _put_back(rows, table)
        assert (await verify_store(database)).problems == [], damage
    rows.run(f"DELETE FROM @events WHERE {at(655)}")
    (problem,) = (await verify_store(database)).problems[:1]
    assert "missing" in problem


def _put_back(rows: Rows, table: str) -> None:
    """Put the rows of a table back as they were."""
    generated = "number" if table == "sessions" and "postgres" in rows._address else ""
    names = [
        str(name)
        for (name,) in (
            rows.run(f"SELECT name FROM pragma_table_info('{table}')")
            if "sqlite" in rows._address
            else rows.run(
                "SELECT column_name FROM information_schema.columns"
                f" WHERE table_schema = 'weft' AND table_name = '{table}'"
            )
        )
        if name != generated
    ]
    keys = {"events": "place", "sessions": "number", "chapters": "session, first"}
    if "postgres" in rows._address:
        keys["events"] = "session, seq"
    key = keys.get(table, "key")
    sets = ", ".join(f"{name} = kept.{name}" for name in names if name not in key.split(", "))
    same = " AND ".join(f"{table}.{one} = kept.{one}" for one in key.split(", "))
    rows.run(f"UPDATE @{table} SET {sets} FROM @kept AS kept WHERE {same}")
    rows.run("DROP TABLE @kept")


async def test_what_a_large_file_reads_differently_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file is not checked when it is opened. If it verifies, all of it is as it was."""
    monkeypatch.setattr(sqlite_file, "CHECKED_BYTES", 0)
    path, chance = tmp_path / "x.db", random.Random(7)
    store = SqliteStore(path)
    await talk(store, KEY, length=12)
    session = await store.create(LONG)
    await store.append(session, *[told(number, delta=number % 50 == 0) for number in range(690)])
    await store.archive(LONG, keep_recent=290)
    whole = await all_sessions(store)
    await store.close()
    data, found = path.read_bytes(), 0
    for number in range(FLIPS):
        other = tmp_path / f"{number}.db"
        other.write_bytes(flipped(data, chance))
        try:
            check = await verify_store(f"sqlite:///{other}")
        except StoreError:  # the file is none, or its version is damaged
            found += 1
            continue
        if check.problems:
            found += 1
            continue
        damaged = SqliteStore(other)
        assert await all_sessions(damaged) == whole, number
        await damaged.close()
    assert found


def test_the_command_exits_with_1_for_damage_and_says_what_to_type(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"

    async def filled() -> None:
        store = open_store(address)
        await talk(store, KEY, length=4)
        await store.close()

    asyncio.run(filled())
    done = weft(tmp_path, "store", "verify", "--store", address)
    assert (done.returncode, done.stdout) == (0, "whole: 1 sessions, 4 events\n")
    rows = Rows(address)
    rows.run("UPDATE events SET event = replace(event, 'message 1 ', 'massage 1 ')")
    done = weft(tmp_path, "store", "verify", "--store", address)
    assert done.returncode == 1
    assert "session s of user in app: event 1 is damaged" in done.stdout
    assert "1 problems in 1 sessions, 4 events" in done.stdout
    rows.run("UPDATE events SET checksum = NULL")
    done = weft(tmp_path, "store", "verify", "--store", address)
    assert "4 rows of an older Weft have no checksum" in done.stdout
    asyncio.run(downgrade_store(address))
    done = weft(tmp_path, "store", "verify", "--store", address)
    assert done.returncode != 0
    assert "weft store migrate" in done.stderr
