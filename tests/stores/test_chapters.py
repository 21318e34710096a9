"""Sessions in chapters: what is read is what a full read gives, packed or not, killed or not."""

import asyncio
import gc
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4
from zlib import compress

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.cli.run import weft
from tests.stores.test_skim import BOT, FLOW, POLICIES, changed, facts, said, talk
from tests.support.strategies import logs
from weft import Actions, Agent, C, Content, Event, ModelResponse, Part, Policy, Runner, Session
from weft.collector import collector_paused
from weft.compiler import caching, compile_request, items
from weft.content import call_part, result_part
from weft.errors import StoreError, UsageError
from weft.runtime.earlier import rewind_event
from weft.session import MemoryStore, SessionKey, Store, Usage
from weft.session.store import ArchivingStore
from weft.stores import chapters, open_store, steps
from weft.stores.artifacts import MemoryArtifacts
from weft.stores.rows import StateReader, UnreadEvents
from weft.stores.upkeep import backup_store, downgrade_store, migrate_store
from weft.testing import ScriptedModel


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that keeps chapters."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(autouse=True)
def short_chapters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapters of few events, so that short logs have several."""
    monkeypatch.setattr(chapters, "LENGTH", 10)
    monkeypatch.setattr(chapters, "SPARE", 3)
    monkeypatch.setattr(chapters, "SHORTEST", 2)


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    store = open_store(address)
    yield store
    await store.close()


def new_key() -> SessionKey:
    return SessionKey(f"app-{uuid4().hex}", "ada", "s")


async def stored(address: str, key: SessionKey, events: list[Event]) -> Session:
    """A session with the events, written by a process that is gone."""
    store = open_store(address)
    session = await store.create(key, state={"begun": True})
    session = await store.append(session, *events)
    await chaptered(store, key)
    await store.close()
    return session


async def chaptered(store: Store, key: SessionKey) -> None:
    """Have all chapters written that are due."""
    await store.get(key)
    for task in [*store._chapters._tasks.values()]:  # type: ignore[attr-defined]
        await task


def unread(session: Session) -> int:
    """How many events of the session are not in memory."""
    backing = session.events._backing
    return sum(row is None for row in backing._rows) if isinstance(backing, UnreadEvents) else 0


async def archived(store: Store, key: SessionKey, keep_recent: int = 1) -> int:
    assert isinstance(store, ArchivingStore)
    return await store.archive(key, keep_recent=keep_recent)


async def same_as_read(address: str, key: SessionKey, whole: Session) -> None:
    """Whoever reads the session in any way finds what is in it."""
    store = open_store(address)
    length = len(whole.events)
    for recent in (0, 1, 4, length - 1, length, length + 1):
        part = await store.get(key, recent=recent)
        assert part is not None
        assert part.events == whole.events[max(length - recent, 0) :]
        assert part.state == whole.state
    times = sorted({event.timestamp for event in whole.events})
    for after in (times[0] - 1, times[len(times) // 2], times[-1]):
        part = await store.get(key, after=after)
        assert part is not None
        assert list(part.events) == [e for e in whole.events if e.timestamp > after]
        assert part.state == whole.state
        part = await store.get(key, after=after, recent=3)
        assert part is not None
        assert list(part.events) == [e for e in whole.events if e.timestamp > after][-3:]
    for after in (0, 3, length // 2, length - 1, length):
        events = await store.events(key, after=after, limit=7)
        assert events is not None
        assert [event.sequence for event in events] == [*range(after + 1, after + 1 + len(events))]
        assert [e.id for e in events] == [e.id for e in whole.events[after : after + 7]]
    assert await store.lengths([key]) == {key: length}
    sound = await store.get(key, skip_unreadable=True)
    assert sound is not None
    assert sound.events == whole.events
    assert sound.state == whole.state
    session = await store.get(key)
    assert session is not None
    assert len(session.events) == length
    assert session.state == whole.state
    assert session.waiting == whole.waiting
    waiting = await store.waiting(key.app_name)  # type: ignore[attr-defined]
    assert waiting == ([key] if whole.waiting else waiting)
    for policy in POLICIES.values():
        agent = BOT.sees(policy)
        fresh = open_store(address)
        cold = await fresh.get(key)
        assert cold is not None
        brief = compile_request(agent, session=cold, brief=True)
        read = Session("s", events=list(whole.events), state=whole.initial)
        assert facts(brief) == facts(compile_request(agent, session=read))
        await fresh.close()
    assert list(session.events) == list(whole.events)
    assert session == whole
    await store.close()


on_random_logs = settings(
    deadline=None,
    max_examples=8,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@on_random_logs
@given(
    before=st.integers(0, 12),
    later=logs(),
    after=st.integers(0, 8),
    seed=st.integers(0, 99),
    keep=st.integers(1, 20),
    agents=st.sampled_from([("bot",), FLOW]),
)
async def test_a_log_in_chapters_is_what_a_full_read_gives(
    address: str,
    before: int,
    later: list[Event],
    after: int,
    seed: int,
    keep: int,
    agents: tuple[str, ...],
) -> None:
    key = new_key()
    events = [
        *talk(before, seed, agents=agents, rewinds=0.1),
        *[event for event in later if not event.partial],
    ]
    events += [
        said("bot", Part(text=str(n)), n, actions=Actions(state_delta={f"k{n % 3}": n}))
        for n in range(seed % 5)
    ]
    events += [e for e in talk(after + 1, seed + 1) if not e.calls and not e.results]
    whole = await stored(address, key, events)
    await same_as_read(address, key, whole)
    store = open_store(address)
    await archived(store, key, keep)
    await store.close()
    await same_as_read(address, key, whole)


async def test_a_session_opens_at_its_end(address: str, store: Store) -> None:
    key, events = new_key(), talk(30)
    whole = await stored(address, key, events)
    assert await archived(store, key, 5) > len(events) - 20
    session = await store.get(key)
    assert session is not None
    assert unread(session) > len(events) - 20
    agent = BOT.sees(C.window(2))
    brief = compile_request(agent, session=session, brief=True)
    assert facts(brief) == facts(compile_request(agent, session=whole))
    before = unread(session)
    assert before > len(events) - 20
    assert session.events[0] == events[0]
    assert 0 < unread(session) < before
    assert session.events == whole.events
    assert not unread(session)


async def test_a_whole_history_is_read_in_pieces_and_not_kept(
    address: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PIECE", 7)
    key, events = new_key(), talk(30, writes=False)
    whole = await stored(address, key, events)
    await archived(store, key, 5)
    session = await store.get(key)
    assert session is not None
    before = unread(session)
    assert facts(compile_request(BOT, session=session, brief=True)) == facts(
        compile_request(BOT, session=whole)
    )
    assert unread(session) == before > 0
    assert session.events == whole.events


def test_the_collector_works_again_after_the_last_pause() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


# In a process of its own: a thread of another test may pause the collector at the same time.
OLD_AT_ITS_END = """
import gc
from weft.collector import collector_paused

with collector_paused():
    young = [[number] for number in range(50_000)]  # many times what starts a collection
first = young[0]
assert not any(one is first for one in gc.get_objects(generation=0))
assert any(one is first for one in gc.get_objects(generation=2))
assert not gc.get_freeze_count()
gc.collect()
gc.freeze()
frozen = gc.get_freeze_count()
with collector_paused():
    pass
assert gc.get_freeze_count() == frozen
"""


def test_what_was_read_in_a_pause_is_old_at_its_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OLD_AT_ITS_END], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


async def test_a_run_goes_on_where_the_log_is_packed(address: str) -> None:
    key, events = new_key(), talk(30)
    await stored(address, key, events)
    model = ScriptedModel(["one", "two"], name="gpt-5-mini")
    agent = Agent("bot", model=model, instruction="Be brief.", context=C.window(2))
    async with Runner(agent, store=address, app_name=key.app_name) as runner:
        await archived(runner.store, key, 3)
        first = await runner.run("a", user_id="ada", session_id="s", request_id="r1")
        assert unread(first.session) > 60
        await archived(runner.store, key, 1)
        result = await runner.run("b", user_id="ada", session_id="s")
        assert unread(result.session) > 60
        texts = [item.blocks[0].text for item in model.prompts[-1].items if item.author == "user"]  # type: ignore[union-attr]
        assert texts[-2:] == ["a", "b"]
        repeated = await runner.run("a", user_id="ada", session_id="s", request_id="r1")
        assert repeated.text == "one"
        again = await runner.store.get(key)
        assert again is not None
        assert [e.text for e in again.events[len(events) :]] == ["a", "one", "b", "two"]
        assert list(again.events[: len(events)]) == events


@pytest.mark.parametrize(
    ("name", "dialect"), [("gpt-5", "openai-chat"), ("claude-sonnet-4-5", "anthropic")]
)
@pytest.mark.parametrize("policy", [C.default(), C.window(2)], ids=["whole", "window"])
async def test_what_a_provider_says_of_its_cache_is_no_reason_to_keep_the_log(
    tmp_path: Path, name: str, dialect: str, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The instruction changes, which is said last once a log is long; and the answers say what was
    # reused, which is held against the last one: both looked at every event, and kept it.
    monkeypatch.setattr(items, "PIECE", 7)
    monkeypatch.setattr(caching, "_FAR", 10)
    monkeypatch.setattr(caching, "_LOOKED_AT", 5)
    key, address = new_key(), f"sqlite:///{tmp_path}/weft.db"
    words = "Is it far from here to there? " * 400
    await stored(address, key, [said("user", Part(text=words), 900), *talk(30, writes=False)])
    usage = Usage(prompt_token_count=900, cached_content_token_count=3)
    answer = ModelResponse(content=Content(parts=(Part(text="Yes."),), role="model"), usage=usage)
    model = ScriptedModel([answer, answer], name=name, dialect=dialect)
    agent = Agent("bot", model=model, instruction="At {begun}.", context=policy, max_steps=2)
    async with Runner(agent, store=address, app_name=key.app_name) as runner:
        first = await runner.run("a", user_id="ada", session_id="s")
        assert unread(first.session) > 60
        again = await runner.run("b", user_id="ada", session_id="s")
        assert unread(again.session) > 60


async def test_what_was_packed_since_the_last_look_is_read(address: str, store: Store) -> None:
    key, events = new_key(), talk(20)
    session = await store.create(key, state={"begun": True})
    await store.append(session, *events[:5])
    other = open_store(address)  # a process that has more of it, and packs that
    session = await other.get(key)
    assert session is not None
    whole = await other.append(session, *events[5:])
    await chaptered(other, key)
    assert await archived(other, key) > len(events[:5])
    await other.close()
    session = await store.get(key)
    assert session is not None
    assert session.state == whole.state
    assert list(session.events) == list(whole.events)
    for more in ("once", "twice"):
        session = await store.append(session, said("user", Part(text=more), 99))
    assert len(session.events) == len(events) + 2


async def test_an_event_that_is_in_a_chapter_is_not_added_twice(address: str, store: Store) -> None:
    key, events = new_key(), talk(30)
    await stored(address, key, events)
    await archived(store, key)
    session = await store.get(key)
    assert session is not None
    assert unread(session)
    assert await store.append(session, events[2]) == session
    with pytest.raises(Exception, match="two different events have the id"):
        await store.append(session, said("user", Part(text="x"), 1, id=events[2].id))
    old = session.before(3)
    assert (await store.append(old, events[3])).events == session.events


async def test_state_is_read_from_chapters(address: str, store: Store) -> None:
    key = new_key()
    events = [
        said("bot", Part(text="x"), n, actions=Actions(state_delta={f"k{n % 7}": n, "user:u": n}))
        for n in range(40)
    ]
    events[20] = said("bot", Part(text="x"), 20, actions=Actions(state_delta={"k3": None}))
    whole = await stored(address, key, events)
    before = await store.get(key, recent=2)
    await archived(store, key)
    after = await store.get(key, recent=2)
    assert before is not None
    assert after is not None
    assert before.state == after.state == whole.state


async def test_a_rewind_reaches_into_the_archive(address: str, store: Store) -> None:
    key, events = new_key(), talk(20)
    whole = await stored(address, key, events)
    await archived(store, key)
    session = await store.get(key)
    assert session is not None
    event = await rewind_event(session, "i2", MemoryArtifacts())
    session, whole = await store.append(session, event), whole.append(event)
    asked = said("user", Part(text="and?"), 99)
    session, whole = session.append(asked), whole.append(asked)
    for policy in (C.default(), C.window(2)):
        agent = BOT.sees(policy)
        assert facts(compile_request(agent, session=session, brief=True)) == facts(
            compile_request(agent, session=whole)
        )


async def test_a_question_in_the_archive_still_waits(address: str, store: Store) -> None:
    key = new_key()
    asked = said("bot", call_part("look", {}, id="open"), 0)
    pending = said("bot", Part(text="wait"), 0, custom_metadata={"weft": {"pending": ["open"]}})
    await stored(address, key, [asked, pending, *talk(12)])
    assert await archived(store, key)
    assert await store.waiting(key.app_name) == [key]  # type: ignore[attr-defined]


async def test_whoever_reads_a_deleted_session_is_told(address: str, store: Store) -> None:
    key = new_key()
    await stored(address, key, talk(30))
    await archived(store, key)
    session = await store.get(key)
    assert session is not None
    await store.delete(key)
    with pytest.raises(StoreError, match="not there any more"):
        list(session.events)
    again = await store.create(key)
    assert len(again.events) == 0
    await store.append(again, *talk(3))
    read = await store.get(key)
    assert read is not None
    assert len(read.events) == len(talk(3))


async def test_bad_wishes_are_refused(address: str, store: Store) -> None:
    with pytest.raises(StoreError, match="no such session"):
        await archived(store, new_key())
    key = new_key()
    await stored(address, key, talk(5))
    with pytest.raises(UsageError, match="keep_recent=0"):
        await archived(store, key, 0)
    assert not isinstance(MemoryStore(), ArchivingStore)


async def test_what_is_newer_than_a_time_stays(address: str, store: Store) -> None:
    key = new_key()
    events = [said("user", Part(text="x"), n, timestamp=float(n)) for n in range(1, 41)]
    await stored(address, key, events)
    assert isinstance(store, ArchivingStore)
    assert await store.archive(key, keep_recent=1, before=26.0) == 20  # a chapter goes on to 30
    assert await store.archive(key, keep_recent=1, before=26.0) == 0


async def test_a_store_goes_back_a_version_with_all_events(address: str) -> None:
    key = new_key()
    whole = await stored(address, key, talk(30))
    store = open_store(address)
    assert await archived(store, key, 4)
    await store.close()
    await downgrade_store(address)
    if address.startswith("sqlite"):
        with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
            (count,) = connection.execute("SELECT count(*) FROM events").fetchone()
            assert count == len(whole.events)
    await migrate_store(address)
    await same_as_read(address, key, whole)


async def test_a_backup_has_the_archive(tmp_path: Path) -> None:
    address, key = f"sqlite:///{tmp_path}/weft.db", new_key()
    whole = await stored(address, key, talk(30))
    store = open_store(address)
    await archived(store, key)
    await store.close()
    await backup_store(address, tmp_path / "copy.db")
    (tmp_path / "weft.db").unlink()
    await same_as_read(f"sqlite:///{tmp_path}/copy.db", key, whole)


async def test_a_process_of_the_version_before_refuses_what_is_packed(tmp_path: Path) -> None:
    address, key = f"sqlite:///{tmp_path}/weft.db", new_key()
    await stored(address, key, talk(30))
    store = open_store(address)
    await archived(store, key)
    await store.close()
    with sqlite3.connect(tmp_path / "weft.db") as connection:
        created, state, checksum = connection.execute(
            "SELECT created, state, checksum FROM sessions"
        ).fetchone()
    with pytest.raises(StoreError, match="damaged"):  # what such a process reads first
        StateReader(key).initial(created, state.encode(), checksum)


async def test_damage_in_the_archive_is_named(tmp_path: Path) -> None:
    address, key, events = f"sqlite:///{tmp_path}/weft.db", new_key(), talk(30)
    await stored(address, key, events)
    store = open_store(address)
    await archived(store, key)
    await store.close()
    with sqlite3.connect(tmp_path / "weft.db") as connection:
        connection.execute(
            "UPDATE chapters SET packed = substr(packed, 1, 40) || x'00' || substr(packed, 42)"
            " WHERE first = 0"
        )
    store = open_store(address)
    session = await store.get(key)
    assert session is not None
    assert session.events[-1] == events[-1]
    with pytest.raises(StoreError, match="event 0 is damaged"):
        list(session.events)
    sound = await store.get(key, skip_unreadable=True)
    assert sound is not None
    assert 0 < len(sound.events) < len(events)
    await store.close()
    with pytest.raises(StoreError, match="event 0 is damaged"):
        await downgrade_store(address)


async def test_facts_that_are_damaged_are_not_believed(address: str) -> None:
    key = new_key()
    whole = await stored(address, key, talk(30))
    execute(address, "UPDATE {chapters} SET checksum = checksum + 1")
    await same_as_read(address, key, whole)


def execute(address: str, statement: str) -> list[tuple[object, ...]]:
    """The rows of a statement about `{chapters}`, done by hand."""
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as connection, connection:
            return connection.execute(statement.format(chapters="chapters")).fetchall()
    import psycopg

    with psycopg.connect(address) as server:
        cursor = server.execute(statement.format(chapters="weft.chapters").encode())
        return cursor.fetchall() if cursor.description else []


MODELS = ("gemini-flash-latest", "claude-sonnet-4-5", "gpt-5", "ollama/llama3")


def conversation(
    turns: int, seed: int, *, writes: bool, agents: tuple[str, ...] = ("bot",), rewinds: float = 0.0
) -> list[Event]:
    """Plain talk with what a dialect may spell in its own way."""
    events = talk(turns, seed, writes=writes, agents=agents, rewinds=rewinds)
    chance = random.Random(seed)
    for number in range(1 + seed % 3):
        at = chance.choice(
            [at for at, event in enumerate(events) if event.text and event.author == "user"]
        )
        turn = int((events[at].text or "question 0").rpartition(" ")[2])
        ids = (f"adk-{number}", f"toolu_{number}!")
        aside = [
            said("bot", Part(text="and"), turn),
            said("bot", Part(text=" \n"), turn),
            said("bot", call_part("look", {"é": [1.5, None]}, id=ids[0]), turn),
            said("bot", result_part("look", {"error": "no"}, id=ids[0]), turn, "user"),
        ]
        both = tuple(call_part("look", {}, id=f"{id}-2") for id in ids)
        answers = tuple(result_part("look", {"a": 1, "b": "x"}, id=f"{id}-2") for id in ids)
        aside.append(changed(said("bot", both[0], turn), content=Content(both, "model")))
        aside.append(changed(said("bot", answers[0], turn), content=Content(answers, "user")))
        kinds = [0, 2, 3, 4, 5] if not number else chance.choice(([0, 1], [2, 3, 0], [4, 5]))
        events[at + 1 : at + 1] = [aside[kind] for kind in kinds]
    return events


@on_random_logs
@given(
    turns=st.integers(8, 20),
    later=logs(),
    seed=st.integers(0, 99),
    piece=st.integers(1, 9),
    writes=st.booleans(),
    agents=st.sampled_from([("bot",), FLOW]),
)
async def test_the_talk_of_chapters_gives_the_request_that_their_events_give(
    address: str,
    turns: int,
    later: list[Event],
    seed: int,
    piece: int,
    writes: bool,
    agents: tuple[str, ...],
) -> None:
    key = new_key()
    events = conversation(turns, seed, writes=writes, agents=agents, rewinds=seed % 3 / 10)
    events += [event for event in later if not event.partial]
    events += [said("user", Part(text="So?"), 990)]
    whole = await stored(address, key, events)
    lost = "UPDATE {chapters} SET talk = NULL WHERE first % 3 <> 0"
    readers = [replace(BOT, name=name, model=model) for model in MODELS for name in agents[:2]]
    full = [compile_request(agent, session=whole) for agent in readers]
    expected = [(one.wire, facts(one), str(one.explain())) for one in full]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(items, "PIECE", piece)
        for statement in ("SELECT 1", lost):  # all of it, and then some of it with gaps between
            execute(address, statement)
            for agent, (wire, told, report) in zip(readers, expected, strict=True):
                store = open_store(address)
                session = await store.get(key)
                await store.close()
                assert session is not None
                brief = compile_request(agent, session=session, brief=True)
                assert brief.wire == wire
                assert facts(brief) == told
                assert str(brief.explain()) == report


async def test_a_plain_history_is_sent_without_reading_its_events(
    address: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PIECE", 7)
    key, events = new_key(), talk(40, writes=False)
    whole = await stored(address, key, events)
    session = await store.get(key)
    assert session is not None
    backing = session.events._backing
    assert isinstance(backing, UnreadEvents)
    fetch = backing._fetch

    def refuse(position: int) -> tuple[int, list[bytes]]:
        raise AssertionError(f"event {position} is read")

    backing._fetch = refuse
    brief = compile_request(BOT, session=session, brief=True)
    full = compile_request(BOT, session=whole)
    assert brief.wire == full.wire
    assert unread(session) > len(events) - 20
    # who looks at the items reads the events after all
    with pytest.raises(AssertionError, match="is read"):
        list(brief.prompt.items)
    backing._fetch = fetch
    assert facts(brief) == facts(full)
    # to another agent these are words of somebody else, and spelled in their own way
    other = replace(BOT, name="other")
    heard = compile_request(other, session=session, brief=True)
    assert heard.wire == compile_request(other, session=whole).wire != brief.wire


@pytest.mark.parametrize("damage", ["x", "cut", "another form", "less"])
async def test_talk_that_is_damaged_is_not_believed(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PIECE", 7)
    key, address = new_key(), f"sqlite:///{tmp_path}/weft.db"
    whole = await stored(address, key, talk(30, writes=False))
    ((talk_of_first,),) = execute(address, "SELECT talk FROM {chapters} WHERE first = 0")
    assert isinstance(talk_of_first, bytes)
    data = {
        "x": b"x",
        "cut": talk_of_first[:-3],
        "another form": compress(msgspec.msgpack.encode((99, 5, []))),
        "less": compress(msgspec.msgpack.encode((1, "5"))),
    }[damage]
    execute(address, f"UPDATE {{chapters}} SET talk = x'{data.hex()}' WHERE first = 0")
    store = open_store(address)
    session = await store.get(key)
    await store.close()
    assert session is not None
    assert unread(session)
    brief = compile_request(BOT, session=session, brief=True)
    assert facts(brief) == facts(compile_request(BOT, session=whole))


async def test_tables_without_talk_are_written_and_read(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PIECE", 7)
    first = open_store(address)
    await first.create(new_key())
    await first.close()
    execute(address, "ALTER TABLE {chapters} DROP COLUMN talk")
    try:
        key = new_key()
        whole = await stored(address, key, talk(30, writes=False))
        store = open_store(address)
        session = await store.get(key)
        await store.close()
        assert session is not None
        assert unread(session) > 60
        brief = compile_request(BOT, session=session, brief=True)
        assert facts(brief) == facts(compile_request(BOT, session=whole))
    finally:  # the server is shared with other tests
        blob = "BLOB" if address.startswith("sqlite") else "bytea"
        execute(address, f"ALTER TABLE {{chapters}} ADD COLUMN talk {blob}")


PLANTED = "xyzzy-4711-plugh"


def contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]


async def test_nothing_archived_of_a_deleted_user_is_in_the_files(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    chance = random.Random(7)
    for user, writes in (("ada", True), ("ada", False), ("bob", True)):
        events = [
            said(
                "bot" if writes else "user",
                # random letters: compressed, a repeated word would not be found anyway
                Part(text=f"{user}-{PLANTED} " + "".join(chance.choices("abcdefgh", k=40))),
                n,
                actions=Actions(state_delta={f"{user}-{PLANTED}": n} if writes else {}),
            )
            for n in range(40)
        ]
        # what is only said is kept packed a second time, for the requests
        key = SessionKey("app", user, "writes" if writes else "talks")
        await stored(address, key, events)
        store = open_store(address)
        assert await archived(store, key)
        await store.close()
    columns = {
        column: [
            data
            for (data,) in execute(
                address,
                f"SELECT {column} FROM {{chapters}} JOIN sessions ON number = session"
                f" WHERE user_id = 'ada' AND {column} IS NOT NULL",
            )
        ]
        for column in ("packed", "talk")
    }
    assert all(columns.values())
    packed = [data for rows in columns.values() for data in rows if isinstance(data, bytes)]
    runner = Runner(BOT, store=address, app_name="app")
    await runner.delete_user(user_id="ada")
    await runner.close()
    files = contents(tmp_path)
    assert not any(f"ada-{PLANTED}".encode() in data for data in files)
    assert any(f"bob-{PLANTED}".encode() in data for data in files)
    for data in packed:  # no page of the packed events is left either
        assert not any(data[40:100] in file for file in files)


async def test_a_user_of_a_server_is_deleted_with_the_archive(postgres_url: str) -> None:
    import psycopg

    key = new_key()
    await stored(postgres_url, key, talk(30))
    store = open_store(postgres_url)
    assert await archived(store, key)
    runner = Runner(BOT, store=store, app_name=key.app_name)
    await runner.delete_user(user_id="ada")
    await runner.close()
    await store.close()
    with psycopg.connect(postgres_url) as server:
        rows = server.execute(
            "SELECT count(*) FROM weft.chapters WHERE session NOT IN"
            " (SELECT number FROM weft.sessions)"
        ).fetchone()
    assert rows == (0,)


_ARCHIVING = """
import asyncio, sys
from weft.session import SessionKey
from weft.stores import chapters, open_store, steps
chapters.LENGTH, chapters.SPARE, chapters.SHORTEST = 10, 3, 2
async def main():
    store = open_store(sys.argv[1])
    print("begun", flush=True)
    await store.archive(SessionKey(*sys.argv[2:]), keep_recent=1)
    print("ended", flush=True)
asyncio.run(main())
"""


async def test_a_kill_in_the_middle_of_archiving_loses_nothing(address: str) -> None:
    key, chance = new_key(), random.Random(3)
    whole = await stored(address, key, talk(200))
    for _ in range(4):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _ARCHIVING, address, *key, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"begun\n"
        await asyncio.sleep(chance.uniform(0.0, 0.25))
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        store = open_store(address)
        session = await store.get(key)
        assert session is not None
        assert list(session.events) == list(whole.events)
        await store.close()
    store = open_store(address)
    await archived(store, key)
    await store.close()
    await same_as_read(address, key, whole)


def test_the_command_archives(tmp_path: Path) -> None:
    address, key = f"sqlite:///{tmp_path}/weft.db", SessionKey("app", "ada", "s")
    events = [said("user", Part(text="x"), n, timestamp=1.0 + n) for n in range(400)]
    asyncio.run(stored(address, key, events))
    done = weft(tmp_path, "sessions", "archive", "s", "--keep-recent", "150", "--store", address)
    assert done.returncode == 0, done.stderr
    assert "archived 250 of 400 events" in done.stdout
    done = weft(
        tmp_path, "sessions", "archive", "--older-than", "1d", "--keep-recent", "1",
        "--store", address,
    )  # fmt: skip
    assert "archived 140 of 400 events" in done.stdout  # 9 are not worth a chapter
    done = weft(tmp_path, "sessions", "archive", "--keep-recent", "0", "--store", address)
    assert done.returncode == 2
    assert "pass 1 or more" in done.stderr
    done = weft(tmp_path, "sessions", "show", "s", "--store", address)
    assert done.returncode == 0


async def test_a_long_log_of_several_agents_does_not_stop_the_event_loop(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    log = [
        said(author, Part(text="x"), at, branch="fan.a" if author == "a" else None)
        for at in range(10)
        for author in ("user", "a", "b")
    ]
    await stored(postgres_url, key, log)
    threads: list[threading.Thread] = []

    def noting(cell: str | bytes) -> bytes:
        threads.append(threading.current_thread())
        return cell if isinstance(cell, bytes) else cell.encode()

    monkeypatch.setattr(steps, "as_bytes", noting)
    store = open_store(postgres_url)
    session = await store.get(key)
    await store.close()
    assert session is not None
    assert [event.id for event in session.events] == [event.id for event in log]
    # every row was made in another thread
    assert len(threads) >= len(log)
    assert threading.main_thread() not in threads
