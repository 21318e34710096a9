"""What outlives versions and accidents: unknown fields, damaged events, and locks."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import weft
from weft import Agent, Content, Event, Part, RunConfig, Runner, Session
from weft.errors import Conflict, DeclarationError, SessionBusy, SessionError, StoreError
from weft.session import SessionKey
from weft.stores.locks import FileLocks
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_file import MIGRATIONS, open_file
from weft.testing import ScriptedModel, delayed

KEY = SessionKey("app", "user", "s")


def said(text: str, id: str) -> Event:
    content = Content(role="user", parts=(Part(text=text),))
    return Event(author="user", content=content, invocation_id=id, id=id)


async def filled(path: Path, *texts: str) -> None:
    store = SqliteStore(path)
    session = await store.create(KEY)
    for number, text in enumerate(texts):
        session = await store.append(session, said(text, str(number)))
    await store.close()


def change(path: Path, old: str, new: str, *, checked: bool = True) -> None:
    """Change the text of stored events behind the store's back."""
    with sqlite3.connect(path) as connection:
        if not checked:
            connection.execute("UPDATE events SET checksum = NULL WHERE instr(event, ?)", (old,))
        connection.execute("UPDATE events SET event = replace(event, ?, ?)", (old, new))
    connection.close()


async def test_a_changed_event_is_named_and_the_rest_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await filled(path, "one", "two", "three")
    change(path, "two", "2wo")
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"session s of user in app: event 1 is damaged"):
        await store.get(KEY)
    rest = await store.get(KEY, skip_unreadable=True)
    assert rest is not None
    assert [event.text for event in rest.events] == ["one", "three"]
    with pytest.raises((Conflict, StoreError)):
        await store.append(rest, said("four", "4"))
    await store.close()


async def test_an_event_that_is_no_json_is_named_too(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await filled(path, "one", "two")
    change(path, '"two"', '"two', checked=False)
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="event 1 cannot be read"):
        await store.get(KEY)
    rest = await store.get(KEY, skip_unreadable=True)
    assert rest is not None
    assert [event.text for event in rest.events] == ["one"]
    await store.close()


async def test_fields_of_a_later_version_are_kept_and_written_back(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await filled(path, "one")
    change(path, '"text":"one"', '"text":"one","later":{"deep":[1]}', checked=False)
    change(path, '"author"', '"mood":"blue","author"', checked=False)
    store = SqliteStore(path)
    session = await store.get(KEY)
    assert session is not None
    session = await store.append(session, said("two", "2"))
    await store.close()
    exported = json.loads(session.to_json())
    assert exported["events"][0]["mood"] == "blue"
    assert exported["events"][0]["content"]["parts"][0] == {"text": "one", "later": {"deep": [1]}}
    again = Session.from_json(session.to_json())
    assert again.events[0] == session.events[0]
    assert again.to_json() == session.to_json()
    compiled = weft.compile(Agent("bot", model="gemini-flash-latest"), session=again)
    assert "blue" not in str(compiled.wire)


async def test_a_file_of_an_older_version_is_read_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    old = open_file(path, timeout=5, alone=nullcontext(), migrations=MIGRATIONS[:1])
    old.execute("INSERT INTO sessions VALUES (1, 'app', 'user', 's', 1.0, '{}')")
    text = said("one", "0").to_json().decode()
    old.execute("INSERT INTO events VALUES (?, 1.0, ?)", (2**32, text))
    old.close()
    stores = [SqliteStore(path) for _ in range(3)]
    sessions = await asyncio.gather(*(store.get(KEY) for store in stores))
    assert [session.events[0].text for session in sessions if session] == ["one"] * 3
    assert sessions[0] is not None
    await stores[0].append(sessions[0], said("two", "1"))
    for store in stores:
        await store.close()
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT checksum IS NULL FROM events ORDER BY place").fetchall()
    connection.close()
    assert found == [(1,), (0,)]


@pytest.mark.skipif(sys.platform != "linux", reason="locks of an open file are Linux's")
def test_closing_the_file_elsewhere_does_not_drop_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.db-lease"
    locks = FileLocks(path)
    assert locks.take(7)
    with path.open("rb"):
        pass
    take = (
        "import sys; from pathlib import Path; from weft.stores.locks import FileLocks;"
        "print(FileLocks(Path(sys.argv[1])).take(7))"
    )

    def other() -> str:
        command = [sys.executable, "-c", take, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert other() == "False"
    child = os.fork()
    if not child:  # a child that lives on must not keep the lock of its parent
        import time

        time.sleep(3)
        os._exit(0)
    locks.close()
    assert other() == "True"
    os.waitpid(child, 0)


async def test_who_waits_for_a_session_can_give_up(tmp_path: Path) -> None:
    model = ScriptedModel([delayed(1.0, "slow"), "second", "third"])
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with Runner(Agent("bot", model=model), store=url) as runner:
        first = asyncio.ensure_future(_run(runner, RunConfig()))
        await asyncio.sleep(0.3)
        with pytest.raises(SessionBusy, match=r"another run has had the session for 0.05 seconds"):
            await _run(runner, RunConfig(queue_timeout=0.05))
        assert await first == "slow"
        assert await _run(runner, RunConfig(queue_timeout=5)) == "second"
    for wrong in (0, -1, True, "3"):
        with pytest.raises(DeclarationError, match="queue_timeout"):
            RunConfig(queue_timeout=wrong)  # type: ignore[arg-type]


async def _run(runner: Runner, config: RunConfig) -> str:
    return (await runner.run(session_id="s", message="Hi", config=config)).text


def test_a_changed_letter_in_an_exported_session_is_found() -> None:
    session = Session("s", events=[said("one", "0"), said("zwei \ud83d", "1"), said("three", "2")])
    data = session.to_json()
    assert Session.from_json(data).events == session.events
    pretty = json.dumps(json.loads(data), indent=2)
    assert Session.from_json(pretty).events == session.events
    for text in (data.decode(), pretty):
        with pytest.raises(SessionError, match=r"events\[2\]: the event is damaged"):
            Session.from_json(text.replace("three", "thrae"))
    plain = json.loads(data.decode().replace("three", "thrae"))
    for event in plain["events"]:
        del event["checksum"]
    assert Session.from_json(json.dumps(plain)).events[2].text == "thrae"
