"""What outlives versions and accidents: unknown fields, damaged events, and locks."""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

import weft
from tests.support.build import make_event
from weft import Actions, Agent, Content, Event, Part, RunConfig, Runner, Session
from weft.errors import Conflict, DeclarationError, SessionBusy, SessionError, StoreError
from weft.ir import Prompt
from weft.session import MemoryStore, SessionKey, Store
from weft.stores import open_store, postgres_server
from weft.stores.postgres_server import migrate
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_file import MIGRATIONS, open_file
from weft.stores.sqlite_lease import FileLocks
from weft.testing import ScriptedModel
from weft.values import Json

KEY = SessionKey("app", "user", "s")
FLIPS = int(os.environ.get("WEFT_FLIPS", "40"))


async def filled(path: Path, *texts: str) -> None:
    store = SqliteStore(path)
    session = await store.create(KEY)
    for number, text in enumerate(texts):
        session = await store.append(
            session, make_event("user", text, inv=str(number), id=str(number))
        )
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
        await store.append(rest, make_event("user", "four", inv="4", id="4"))
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
    session = await store.append(session, make_event("user", "two", inv="2", id="2"))
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
    text = make_event("user", "one", inv="0", id="0").to_json().decode()
    old.execute("INSERT INTO events VALUES (?, 1.0, ?)", (2**32, text))
    old.close()
    stores = [SqliteStore(path) for _ in range(3)]
    sessions = await asyncio.gather(*(store.get(KEY) for store in stores))
    assert [session.events[0].text for session in sessions if session] == ["one"] * 3
    assert sessions[0] is not None
    await stores[0].append(sessions[0], make_event("user", "two", inv="1", id="1"))
    for store in stores:
        await store.close()
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT checksum IS NULL FROM events ORDER BY place").fetchall()
    connection.close()
    assert found == [(1,), (0,)]


@pytest.mark.skipif(sys.platform != "linux", reason="locks of an open file are Linux's")
def test_closing_the_file_elsewhere_does_not_drop_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.db-lease"
    locks = FileLocks(path, database=tmp_path / "x.db")
    assert locks.take(7)
    with path.open("rb"):
        pass
    take = (
        "import sys; from pathlib import Path; from weft.stores.sqlite_lease import FileLocks;"
        "path = Path(sys.argv[1]); print(FileLocks(path, database=path).take(7))"
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
    asked, gate = asyncio.Event(), asyncio.Event()

    async def slow(prompt: Prompt) -> str:
        asked.set()
        await gate.wait()
        return "slow"

    model = ScriptedModel([slow, "second", "third"])
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with Runner(Agent("bot", model=model), store=url) as runner:
        first = asyncio.ensure_future(_run(runner, RunConfig()))
        await asyncio.wait_for(asked.wait(), 60)
        with pytest.raises(SessionBusy, match=r"another run has had the session for 0.05 seconds"):
            await _run(runner, RunConfig(queue_timeout=0.05))
        gate.set()
        assert await first == "slow"
        assert await _run(runner, RunConfig(queue_timeout=60)) == "second"
    for wrong in (0, -1, True, "3"):
        with pytest.raises(DeclarationError, match="queue_timeout"):
            RunConfig(queue_timeout=wrong)  # type: ignore[arg-type]


async def _run(runner: Runner, config: RunConfig) -> str:
    return (await runner.run(session_id="s", message="Hi", config=config)).text


def test_a_changed_letter_in_an_exported_session_is_found() -> None:
    session = Session(
        "s",
        events=[
            make_event("user", "one", inv="0", id="0"),
            make_event("user", "zwei \ud83d", inv="1", id="1"),
            make_event("user", "three", inv="2", id="2"),
        ],
    )
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


STARTED: dict[str, Json] = {"start": "begin here", "app:plan": "one", "user:name": "Ann"}


def told(number: int, *, delta: bool = False) -> Event:
    state: dict[str, Json] = {"k": f"v{number}", "app:plan": f"p{number}", "user:name": "Eve"}
    actions = Actions(state_delta=state) if delta else Actions()
    text = f"message {number} " + "word " * (number % 17)
    content = Content(role="user", parts=(Part(text=text),))
    id = f"e{number}"
    return Event(author="user", content=content, invocation_id=id, id=id, actions=actions)


async def talk(store: Store, key: SessionKey, length: int = 12) -> Session:
    session = await store.create(key, state=STARTED)
    for number in range(length):
        session = await store.append(session, told(number, delta=number % 3 == 0))
    return session


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The data with one byte changed."""
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    return bytes(changed)


async def test_a_flipped_byte_of_a_sqlite_file_is_harmless_or_reported(tmp_path: Path) -> None:
    path, chance = tmp_path / "x.db", random.Random(12)
    store = SqliteStore(path)
    await talk(store, KEY)
    await talk(store, KEY._replace(id="other"), length=1)
    await store.close()
    session = await store.get(KEY)
    assert session is not None
    await store.close()
    data, reported = path.read_bytes(), 0
    for number in range(FLIPS):
        damaged = SqliteStore(tmp_path / f"{number}.db")
        damaged.path.write_bytes(flipped(data, chance))
        try:
            again = await damaged.get(KEY)
        except StoreError:
            reported += 1
        else:
            assert again is not None, number
            assert again.to_json() == session.to_json(), number
        await damaged.close()
    assert 0 < reported < FLIPS


async def test_a_flipped_byte_of_an_exported_session_is_reported() -> None:
    chance = random.Random(12)
    for number in range(FLIPS):
        session = await talk(MemoryStore(), KEY, length=1 + number % 5)
        data = session.to_json()
        assert Session.from_json(data) == session
        try:
            again = Session.from_json(flipped(data, chance))
        except SessionError:
            continue
        assert again.to_json() == data, number


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"start":"begin here"', '"start":"began here"'),
        ('"appName":"app"', '"appName":"apt"'),
        ('"userId":"user"', '"userIe":"user"'),
        ('"checksum":', '"chocksum":'),
        ('"sessionChecksum":', '"sessionChocksum":'),
        ('"lastUpdateTime":', '"lastUpdateTime":1'),
        ('"events":', '"event":'),
    ],
)
async def test_what_is_around_the_events_is_covered_too(old: str, new: str) -> None:
    for length in (1, 3):
        data = (await talk(MemoryStore(), KEY, length=length)).to_json().decode()
        assert old in data
        with pytest.raises(SessionError) as caught:
            Session.from_json(data.replace(old, new, 1))
        assert "session" in str(caught.value)


async def test_an_exported_session_may_be_formatted_sorted_and_changed_on_purpose() -> None:
    session = await talk(MemoryStore(), KEY)
    data = json.loads(session.to_json())
    assert Session.from_json(json.dumps(data, indent=1)) == session
    assert Session.from_json(json.dumps(dict(sorted(data.items())))) == session
    data["state"]["start"] = "changed"
    with pytest.raises(SessionError, match="the session is damaged") as caught:
        Session.from_json(json.dumps(data))
    assert "take out every `checksum`" in caught.value.hint
    for event in data["events"]:
        del event["checksum"]
    assert Session.from_json(json.dumps(data)).state["start"] == "changed"
    del data["events"][-1]["sessionChecksum"]
    assert Session.from_json(json.dumps(data)).state["start"] == "changed"


async def test_unknown_fields_of_a_session_are_kept_and_written_back() -> None:
    data = json.loads((await talk(MemoryStore(), KEY)).to_json())
    for event in data["events"]:
        event.pop("checksum")
        event.pop("sessionChecksum", None)
    data["mood"] = {"deep": ["blue"]}
    session = Session.from_json(json.dumps(data)).append(told(99))
    again = json.loads(session.to_json())
    assert again["mood"] == {"deep": ["blue"]}
    assert Session.from_json(session.to_json()).to_json() == session.to_json()
    again["mood"]["deep"] = ["red"]
    with pytest.raises(SessionError, match="damaged"):
        Session.from_json(json.dumps(again))
    with pytest.raises(SessionError, match="statf"):
        Session.from_json('{"id": "s", "events": [], "statf": {}}')


class Rows:
    """A database as another program sees it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement, in which `@` stands before the names of tables."""
        if self._address.startswith("sqlite"):
            path = self._address.removeprefix("sqlite:///")
            with sqlite3.connect(path) as connection:
                found = connection.execute(statement.replace("@", "")).fetchall()
            connection.close()
            return found
        with psycopg.connect(self._address, autocommit=True) as server:
            done = server.execute(statement.replace("@", "weft.").encode())
            return done.fetchall() if done.description else []


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without our tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    url = str(request.getfixturevalue("postgres_url"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS weft, weft_dbos CASCADE")
    return url


async def test_every_damaged_row_is_named_and_the_rest_can_be_read(database: str) -> None:
    rows, store = Rows(database), open_store(database)
    await talk(store, KEY, length=4)
    await store.close()
    damages = {
        "events SET event = replace(event, 'message 1', 'massage 1')": "event 1 is damaged",
        "sessions SET state = replace(state, 'begin', 'began')": "",
        "app_state SET value = replace(value, 'p3', 'p4')": "",
        "user_state SET value = 'Eve'": "",
    }
    for damage, words in damages.items():
        table = damage.split()[0]
        before = rows.run(f"SELECT * FROM @{table}")
        column = damage.split()[2]
        rows.run(f"UPDATE @{damage}")
        assert rows.run(f"SELECT * FROM @{table}") != before
        store = open_store(database)
        with pytest.raises(StoreError, match=words or "damaged") as caught:
            await store.get(KEY)
        assert "skip_unreadable=True" in caught.value.hint
        rest = await store.get(KEY, skip_unreadable=True)
        assert rest is not None
        assert len(rest.events) == (3 if table == "events" else 4)
        assert ("start" in rest.state) == (table != "sessions")
        assert rest.state.get("app:plan") == ("p3" if table != "app_state" else None)
        assert rest.state.get("user:name") == ("Eve" if table != "user_state" else None)
        await store.close()
        undo = {"events": ("massage 1", "message 1"), "sessions": ("began", "begin")}
        old, new = undo.get(table, ("p4", "p3") if table == "app_state" else ("Eve", '"Eve"'))
        rows.run(f"UPDATE @{table} SET {column} = replace({column}, '{old}', '{new}')")
        assert rows.run(f"SELECT * FROM @{table}") == before


async def test_a_damaged_name_does_not_hide_a_session_or_its_state(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/x.db"
    rows = Rows(address)
    store = open_store(address)
    await talk(store, KEY, length=4)
    await store.close()
    for table, column in (("sessions", "id"), ("app_state", "app_name"), ("user_state", "key")):
        ((name,),) = rows.run(f"SELECT {column} FROM {table}")
        rows.run(f"UPDATE {table} SET {column} = 'z'")
        store = open_store(address)
        with pytest.raises(StoreError, match=f"a row of {table} is not what was stored"):
            await store.get(KEY)
        with pytest.raises(StoreError, match="the file is damaged"):
            await store.create(KEY._replace(id="new"))
        assert len(await store.sessions("app")) == 1
        await store.close()
        rows.run(f"UPDATE {table} SET {column} = '{name}'")
    store = open_store(address)
    assert await store.get(KEY) is not None
    await store.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_database_of_an_older_version_goes_on(database: str, version: int) -> None:
    rows, text = Rows(database), told(0).to_json().decode()
    if database.startswith("sqlite"):
        path = Path(database.removeprefix("sqlite:///"))
        open_file(path, timeout=5, alone=nullcontext(), migrations=MIGRATIONS[:version]).close()
        place = f"{2**32}, 1.0"
    else:
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as server:
            await migrate(server, postgres_server.MIGRATIONS[:version], where="here")
        place = "1, 0, 1.0"
    start = "'{\"start\":1}'"
    columns = "(app_name, user_id, id, created, state)"
    rows.run(f"INSERT INTO @sessions {columns} VALUES ('app', 'user', 's', 1.0, {start})")
    rows.run("INSERT INTO @app_state VALUES ('app', 'app:plan', '\"old\"')")
    rows.run("INSERT INTO @user_state VALUES ('app', 'user', 'user:name', '\"Ann\"')")
    rows.run(f"INSERT INTO @events VALUES ({place}, '{text}'{', NULL' * (version - 1)})")
    stores = [open_store(database) for _ in range(4)]
    sessions = await asyncio.gather(*(store.get(KEY) for store in stores))
    for session in sessions:
        assert session is not None
        assert [event.id for event in session.events] == ["e0"]
        assert session.state == {"start": 1, "app:plan": "old", "user:name": "Ann"}
    assert sessions[0] is not None
    longer = await stores[0].append(sessions[0], told(3, delta=True))
    for store in stores:
        assert await store.get(KEY) == longer
        await store.close()
    for table, missing in (("events", 1), ("sessions", 1), ("app_state", 0), ("user_state", 0)):
        query = f"SELECT count(*) FROM @{table} WHERE checksum IS NULL"
        assert rows.run(query) == [(missing,)], table


LATER = {"later": {"deep": [1, {"x": None}], "a/b~c": "d"}}
EVERYWHERE = {
    "author": "bot",
    "invocationId": "i",
    "id": "e",
    "timestamp": 1.0,
    "content": {
        "role": "model",
        "parts": [
            {"text": "one", **LATER},
            {"functionCall": {"id": "c", "name": "look", "args": {"x": 1}, **LATER}, **LATER},
            {
                "functionResponse": {
                    "id": "c",
                    "name": "look",
                    "response": {"y": 2},
                    "parts": [{"inlineData": {"mimeType": "a/b", "data": "AA==", **LATER}}],
                    **LATER,
                }
            },
            {"inlineData": {"mimeType": "image/png", "data": "AA==", **LATER}},
            {"fileData": {"mimeType": "image/png", "fileUri": "gs://x", **LATER}},
            {"executableCode": {"code": "1", "language": "PYTHON", **LATER}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1", **LATER}},
        ],
        **LATER,
    },
    "usageMetadata": {"promptTokenCount": 1, **LATER},
    "actions": {
        "stateDelta": {"k": 1},
        "compaction": {
            "startTimestamp": 1.0,
            "endTimestamp": 2.0,
            "compactedContent": {"role": "user", "parts": [{"text": "t", **LATER}], **LATER},
            **LATER,
        },
        **LATER,
    },
    **LATER,
}


async def test_unknown_fields_at_every_level_go_through_every_store(address: str) -> None:
    key = SessionKey(f"app-{os.urandom(8).hex()}", "user", "s")
    read = Session.from_json(json.dumps({"id": "x", "events": [EVERYWHERE]}))
    assert json.loads(read.events[0].to_json()) == EVERYWHERE
    store = open_store(address)
    await store.append(await store.create(key), read.events[0])
    if address != "memory://":
        await store.close()
    again = await store.get(key)
    assert again is not None
    assert again.events[0] == read.events[0]
    exported = Session.from_json(again.to_json())
    assert json.loads(exported.events[0].to_json()) == EVERYWHERE
    assert exported.to_json() == again.to_json()
    await store.close()
