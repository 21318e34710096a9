"""What every store does: one suite for all of them (S1 to S4)."""

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests.stores.build import read_session
from tests.support.build import says, user
from tests.support.strategies import logs
from weft import Actions, Agent, Content, Event, Part, Runner, Session, tool
from weft.content import call_part, result_part
from weft.errors import Conflict, SessionError, StoreError
from weft.session import MemoryStore, SessionKey, Store
from weft.session.store import ArchivingStore, WaitingList
from weft.stores import create_filled
from weft.testing import ScriptedModel, call
from weft.values import Json, JsonObject

Again = Callable[[], Store]

UNFIT = r"cannot be stored|longer than 800 bytes"


def wrote(*, inv: str = "1", **delta: Json) -> Event:
    return says("bot", "noted", inv=inv, actions=Actions(state_delta=delta))


def state(**values: Json) -> dict[str, Json]:
    """Keys with a scope, written with a double underscore: `app__x` is `app:x`."""
    return {key.replace("__", ":"): value for key, value in values.items()}


async def test_S3_a_session_read_back_equals_the_one_written(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.create(key, state={"city": "Oslo"})
    session = await store.append(session, user("Hi"), says("bot", "Hello", writes="greeting"))
    session = await store.append(session, user("Bye", inv="2"))
    assert await read_session(store, key) == session
    assert await read_session(again(), key) == session
    assert session.state == {"city": "Oslo", "greeting": "Hello"}
    assert [event.text for event in session.events] == ["Hi", "Hello", "Bye"]


@given(events=logs())
@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
async def test_S3_any_log_comes_back_as_it_was(
    store: Store, again: Again, key: SessionKey, events: list[Event]
) -> None:
    key = key._replace(id=uuid4().hex)
    session = await store.create(key)
    for event in events:
        session = await store.append(session, event)
    held = await read_session(again(), key)
    assert held == session
    assert held.events == [event for event in events if not event.partial]


@given(events=logs())
@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
async def test_S3_a_session_made_with_events_is_one_that_got_them(
    store: Store, again: Again, key: SessionKey, events: list[Event]
) -> None:
    one, other = key._replace(id=uuid4().hex), key._replace(id=uuid4().hex)
    begin = state(own=1, app__a=1, user__u=1, temp__t=1)
    made = await create_filled(store, one, events, state=begin)
    grown = await store.append(await store.create(other, state=begin), *events)
    assert (made.events, made.state) == (grown.events, grown.state)
    stored = await read_session(again(), one)
    assert stored == made
    for at in range(len(made.events) + 1):
        assert stored.before(at).state == made.before(at).state
    more = await store.append(made, user("more", inv="more"))
    assert await read_session(again(), one) == more


async def test_a_session_made_with_events_exists_once_and_whole(
    store: Store, again: Again, key: SessionKey
) -> None:
    events = [wrote(**state(app__a=2, own=2, temp__t=2)), user("Hi", inv="2")]
    made = await create_filled(store, key, events, state=state(app__a=1, user__u=1, own=1))
    assert made.state == {"own": 2, "app:a": 2, "user:u": 1}
    assert made.before(0).state["own"] == 1
    with pytest.raises(Conflict, match="exists already"):
        await create_filled(again(), key, [user("Other")], state=state(app__a=3))
    assert await read_session(again(), key) == made


@pytest.mark.parametrize(
    "bad",
    [
        [user("Hi"), wrote(**{"app:" + "x" * 900: 1})],
        [user("Hi", id="same"), user("Bye", id="same")],
    ],
    ids=["a name too long", "one id twice"],
)
async def test_a_session_whose_first_events_are_refused_does_not_exist(
    store: Store, again: Again, key: SessionKey, bad: list[Event]
) -> None:
    with pytest.raises((StoreError, SessionError)):
        await create_filled(store, key, bad, state=state(app__a=1))
    for reader in (store, again()):
        assert await reader.get(key) is None
    assert (await store.create(key)).state == {}


async def test_a_store_of_ones_own_sees_the_first_events_too(store: Store, key: SessionKey) -> None:
    """A class that adds to `append` is asked to append, and cleaned up behind if it fails."""
    appended: list[str] = []
    kind: Any = type(store)

    class Own(kind):  # type: ignore[misc]
        async def append(self, session: Session, *events: Event) -> Session:
            appended.extend(event.text for event in events)
            if "fail" in appended:
                raise StoreError("no room", where="here")
            return await super().append(session, *events)

    # the same store under another class: it is open already
    store.__class__ = Own
    try:
        made = await create_filled(store, key, [user("one"), user("two")])
        assert appended == ["one", "two"]
        assert [event.text for event in made.events] == appended
        with pytest.raises(StoreError, match="no room"):
            await create_filled(store, key._replace(id="s2"), [user("fail")])
        assert await store.get(key._replace(id="s2")) is None
    finally:
        store.__class__ = kind


_PLACES = [(name, id) for name in ("ada", "bob") for id in ("s1", "s2")]
_DELTAS = ("own", "other", "app:a", "app:b", "user:u", "temp:t")


async def _work(store: Store, app: str, chance: random.Random, step: int) -> object:
    """Do something to one of the sessions; the same for the same chance."""
    name, id = chance.choice(_PLACES)
    key, what = SessionKey(app, name, id), chance.choice(["new", "filled", *["add"] * 4, "delete"])

    def delta() -> JsonObject:
        names = chance.sample(_DELTAS, chance.randrange(4))
        return {name: chance.choice([None, 1, "x", [1], {"k": 2}]) for name in names}

    def event(n: int) -> Event:
        wrote = Actions(state_delta=delta())
        return user("Hi", inv=str(step), id=f"{step}-{n}", timestamp=float(step), actions=wrote)

    begin, events = delta(), [event(n) for n in range(1 + chance.randrange(3))]
    try:
        if what == "new":
            return (await store.create(key, state=begin)).state
        if what == "filled":
            return (await create_filled(store, key, events, state=begin)).state
        if what == "delete":
            return await store.delete(key)
        session = await store.get(key)
        if session is None:
            return None
        if isinstance(store, ArchivingStore) and step % 5 == 0 and len(session.events):
            await store.archive(key, keep_recent=1)
        return [event.id for event in (await store.append(session, *events)).events]
    except Conflict as error:
        return error.message


@pytest.mark.parametrize("seed", range(3))
async def test_every_store_makes_the_same_of_the_same_work(
    store: Store, again: Again, key: SessionKey, seed: int
) -> None:
    memory, other = MemoryStore(), again()
    for step in range(40):
        # by turns: what one object of the store did, the other must see
        chance, same = random.Random(f"{seed}-{step}"), random.Random(f"{seed}-{step}")
        worked = await _work((store, other)[step % 2], key.app_name, chance, step)
        assert worked == await _work(memory, key.app_name, same, step), step
        for name, id in _PLACES:
            wanted = await memory.get(SessionKey(key.app_name, name, id))
            for reader in (store, other):
                session = await reader.get(SessionKey(key.app_name, name, id))
                assert session == wanted, step
                if session is None or wanted is None:
                    continue
                assert session.initial == wanted.initial, step
                for at in range(len(wanted.events)):
                    assert session.before(at).state == wanted.before(at).state, step


async def test_an_unknown_session_is_none(store: Store, key: SessionKey) -> None:
    assert await store.get(key) is None
    await store.delete(key)


async def test_appending_to_an_unknown_session_is_refused(store: Store, key: SessionKey) -> None:
    nowhere = Session(key.id, app_name=key.app_name, user_id=key.user_id)
    with pytest.raises(StoreError, match="no such session"):
        await store.append(nowhere, user("Hi"))


async def test_a_session_cannot_be_created_twice(store: Store, key: SessionKey) -> None:
    await store.append(await store.create(key, state={"k": 1}), user("Hi"))
    with pytest.raises(Conflict, match="exists already") as caught:
        await store.create(key, state={"k": 2})
    assert "get" in caught.value.hint
    session = await read_session(store, key)
    assert session.state == {"k": 1}
    assert len(session.events) == 1


async def test_S1_scopes_are_shared_as_far_as_they_reach(
    store: Store, again: Again, key: SessionKey
) -> None:
    same_user, other_user = key._replace(id="s2"), key._replace(user_id="bob")
    other_app = key._replace(app_name=key.app_name + "2")
    for each in (same_user, other_user, other_app):
        await store.create(each)
    session = await store.create(key)
    await store.append(session, wrote(**state(app__a=1, user__u=2, own=3, temp__t=4)))
    for reader in (store, again()):
        assert (await read_session(reader, key)).state == {"own": 3, "app:a": 1, "user:u": 2}
        assert (await read_session(reader, same_user)).state == {"app:a": 1, "user:u": 2}
        assert (await read_session(reader, other_user)).state == {"app:a": 1}
        assert (await read_session(reader, other_app)).state == {}


async def test_S1_shared_state_given_to_create_is_shared(store: Store, key: SessionKey) -> None:
    first = await store.create(key, state=state(app__a=1, user__u=2, own=3, temp__t=4))
    assert first.state == {"own": 3, "app:a": 1, "user:u": 2}
    second = await store.create(key._replace(id="s2"))
    assert second.state == {"app:a": 1, "user:u": 2}


async def test_S1_the_newest_value_wins_whoever_wrote_it(
    store: Store, again: Again, key: SessionKey
) -> None:
    mine = await store.create(key)
    mine = await store.append(mine, wrote(**state(app__a="mine", user__u="mine")))
    other = again()
    theirs = await other.create(key._replace(id="s2"))
    await other.append(theirs, wrote(**state(app__a="theirs", user__u="theirs")))
    assert (await read_session(store, key)).state == {"app:a": "theirs", "user:u": "theirs"}
    await store.append(await read_session(store, key), wrote(**state(app__a="mine again")))
    assert (await read_session(other, key)).state == {"app:a": "mine again", "user:u": "theirs"}


async def test_S1_deleting_is_a_tombstone_in_every_scope(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.create(key, state=state(app__a=1, user__u=1, own=1, stays=1))
    session = await store.append(
        session, wrote(**state(app__a=None, user__u=None, own=None, never=None))
    )
    assert session.state == {"stays": 1}
    for reader in (store, again()):
        assert (await read_session(reader, key)).state == {"stays": 1}


async def test_S1_temp_is_never_stored(store: Store, again: Again, key: SessionKey) -> None:
    session = await store.create(key, state=state(temp__a=1))
    session = await store.append(session, wrote(**state(temp__b=1, k=1)))
    for reader in (store, again()):
        held = await read_session(reader, key)
        assert held.state == {"k": 1}
        assert held.events[0].actions.state_delta == {"k": 1}
        assert held == session


async def test_S2_the_same_event_with_its_temp_state_is_still_the_same(
    store: Store, again: Again, key: SessionKey
) -> None:
    event = wrote(**state(temp__t=1, k=1))
    session = await store.append(await store.create(key), event)
    assert len((await store.append(session, event)).events) == 1
    other = again()
    assert len((await other.append(await read_session(other, key), event)).events) == 1


async def test_S3_nobody_can_change_a_stored_session(store: Store, key: SessionKey) -> None:
    given: dict[str, Json] = {"list": [1], "app:a": {"k": [1]}}
    delta: dict[str, Json] = {"user:u": [1], "own": {"k": 1}}
    created = await store.create(key, state=given)
    appended = await store.append(created, wrote(**delta))
    before = (await read_session(store, key)).state
    for held in (
        given,
        delta,
        created.state,
        appended.state,
        (await read_session(store, key)).state,
    ):
        for value in list(held.values()):
            value.clear()  # type: ignore[union-attr]
        held["new"] = 1
    assert (await read_session(store, key)).state == before
    assert before == {"list": [1], "app:a": {"k": [1]}, "user:u": [1], "own": {"k": 1}}


async def test_S2_the_same_event_twice_is_stored_once(
    store: Store, again: Again, key: SessionKey
) -> None:
    event = user("Hi")
    first = await store.append(await store.create(key), event)
    assert await store.append(first, event) == first
    later = msgspec.structs.replace(event, timestamp=event.timestamp + 1)
    assert await store.append(first, later, event) == first
    other = again()
    assert await other.append(await read_session(other, key), event) == first


async def test_S2_another_event_with_the_same_id_is_refused(
    store: Store, again: Again, key: SessionKey
) -> None:
    event = user("Hi")
    session = await store.append(await store.create(key), event)
    for reader in (store, again()):
        with pytest.raises(SessionError, match="two different events"):
            await reader.append(await read_session(reader, key), says("bot", "Ho", id=event.id))
        assert await read_session(reader, key) == session


async def test_S2_partial_events_are_neither_stored_nor_applied(
    store: Store, key: SessionKey
) -> None:
    session = await store.create(key)
    delta = Actions(state_delta={"k": 1})
    after = await store.append(session, says("bot", "Hel", partial=True, actions=delta))
    assert after == session == await read_session(store, key)


async def test_S2_events_are_stored_all_or_none(store: Store, key: SessionKey) -> None:
    session = await store.append(await store.create(key), user("Hi"))
    bad = says("bot", "", actions=Actions(state_delta={"k": {1, 2}}))  # type: ignore[dict-item]
    with pytest.raises(SessionError, match="a set is not a JSON value") as caught:
        await store.append(session, wrote(**state(app__a=1, k=1)), bad)
    assert "stateDelta.k" in caught.value.where
    assert await read_session(store, key) == session
    assert (await store.append(session, user("Still here"))).state == {}


@pytest.mark.parametrize("value", [{1}, math.nan, object(), {1: 1}])
async def test_state_that_is_not_json_is_refused(
    store: Store, key: SessionKey, value: Json
) -> None:
    with pytest.raises(SessionError, match="not a"):
        await store.create(key, state={"k": value})
    assert await store.get(key) is None


async def test_a_stale_write_is_a_conflict_and_nothing_is_lost(
    store: Store, again: Again, key: SessionKey
) -> None:
    old = await store.create(key)
    other = again()
    new = await other.append(await read_session(other, key), user("first"))
    with pytest.raises(Conflict, match="1 events, and this value of it has 0") as caught:
        await store.append(old, user("second"), wrote(**state(app__a=1)))
    assert "get" in caught.value.hint
    assert await read_session(store, key) == new
    after = await store.append(await read_session(store, key), user("second"))
    assert [event.text for event in after.events] == ["first", "second"]
    assert await read_session(again(), key) == after


async def test_a_write_that_the_store_has_already_is_no_conflict(
    store: Store, again: Again, key: SessionKey
) -> None:
    old = await store.create(key)
    event = user("Hi")
    new = await again().append(old, event)
    assert await store.append(old, event) == new
    newer = await store.append(new, user("more"))
    assert await store.append(old, event) == newer


async def test_a_session_value_of_somebody_else_is_a_conflict(
    store: Store, key: SessionKey
) -> None:
    session = await store.append(await store.create(key), user("Hi"))
    foreign = Session(
        key.id, app_name=key.app_name, user_id=key.user_id, events=[user("Something else")]
    )
    with pytest.raises(Conflict):
        await store.append(foreign, user("more"))
    with pytest.raises(Conflict):
        await store.append(session.append(user("not stored")), user("more"))
    assert await read_session(store, key) == session


async def test_of_many_writers_of_one_value_exactly_one_wins(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.create(key)
    stores = [store, again()]
    outcomes = await asyncio.gather(
        *(stores[n % 2].append(session, user(f"{n}")) for n in range(20)), return_exceptions=True
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, Session)]
    assert len(won) == 1
    assert all(isinstance(outcome, Conflict | Session) for outcome in outcomes)
    assert await read_session(again(), key) == won[0]


async def test_writers_of_many_sessions_do_not_disturb_each_other(
    store: Store, again: Again, key: SessionKey
) -> None:
    async def chat(id: str) -> Session:
        session = await store.create(key._replace(id=id))
        for n in range(10):
            session = await store.append(session, wrote(**state(**{f"user__{id}": n, "n": n})))
        return session

    sessions = await asyncio.gather(*(chat(f"s{n}") for n in range(10)))
    other = again()
    for session in sessions:
        held = await read_session(other, key._replace(id=session.id))
        assert held.events == session.events
        assert held.state == {"n": 9, **{f"user:s{n}": 9 for n in range(10)}}


async def test_a_failing_write_harms_no_other_that_is_written_with_it(
    store: Store, key: SessionKey
) -> None:
    sessions = [await store.create(key._replace(id=f"{n}")) for n in range(6)]
    bad = user("", actions=Actions(state_delta={"k": object()}))  # type: ignore[dict-item]
    outcomes = await asyncio.gather(
        *(store.append(each, user("Hi"), *[bad] * (n % 2)) for n, each in enumerate(sessions)),
        return_exceptions=True,
    )
    assert [isinstance(outcome, Session) for outcome in outcomes] == [True, False] * 3
    for n in range(6):
        assert len((await read_session(store, key._replace(id=f"{n}"))).events) == (n + 1) % 2


async def test_the_newest_events_can_be_read_alone(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.create(key, state={"a": 1})
    events = [wrote(**{f"k{n}": n}, inv=f"{n}") for n in range(5)]
    events = [msgspec.structs.replace(e, timestamp=float(n)) for n, e in enumerate(events)]
    session = await store.append(session, *events)
    for reader in (store, again()):
        recent = await reader.get(key, recent=2)
        assert recent is not None
        assert recent.events == events[3:]
        assert recent.state == session.state
        later = await reader.get(key, after=1.0)
        assert later is not None
        assert later.events == events[2:]
        both = await reader.get(key, recent=1, after=1.0)
        assert both is not None
        assert both.events == events[4:]
        none = await reader.get(key, recent=0)
        assert none is not None
        assert list(none.events) == []
        assert await reader.get(key, recent=99) == session
        with pytest.raises(Conflict):
            await reader.append(recent, user("more"))
        with pytest.raises(SessionError, match="-1"):
            await reader.get(key, recent=-1)


@pytest.mark.parametrize("seed", range(3))
async def test_a_part_that_is_read_alone_is_the_part_of_the_whole(
    store: Store, again: Again, key: SessionKey, seed: int
) -> None:
    chance = random.Random(seed)
    session = await store.create(key, state={"a": 0, "b": [1]})
    for n in range(30):
        names = chance.sample(("a", "b", "c", "app:x", "user:y", "temp:z"), chance.randrange(4))
        delta: JsonObject = {name: chance.choice((None, n, {"n": n})) for name in names}
        text = 'he said "stateDelta": {' if chance.random() < 0.2 else f"{n}"
        event = user(text, inv=f"{n // 3}", actions=Actions(state_delta=delta))
        session = await store.append(
            session, msgspec.structs.replace(event, timestamp=float(chance.randrange(20)))
        )
    whole = await read_session(store, key)
    for recent, after in ((7, None), (None, 8.0), (3, 8.0), (0, None), (30, None), (None, -1.0)):
        alone = await again().get(key, recent=recent, after=after)
        assert alone is not None
        events = [event for event in whole.events if after is None or event.timestamp > after]
        assert alone.events == (events if recent is None else events[len(events) - recent :])
        assert alone.state == whole.state
        assert alone.last_update_time == whole.last_update_time


async def test_sessions_are_listed_the_latest_first(
    store: Store, again: Again, key: SessionKey
) -> None:
    app = key.app_name
    for id, user_id, at in (("a", "ada", 10.0), ("b", "bob", 30.0), ("c", "ada", 20.0)):
        session = await store.create(SessionKey(app, user_id, id))
        await store.append(session, user("Hi", timestamp=1.0), user("Ho", timestamp=at))
    fresh = await store.create(SessionKey(app, "ada", "empty"))
    for reader in (store, again()):
        listed = await reader.sessions(app)
        assert [(info.key.id, info.events) for info in listed] == [
            ("empty", 0), ("b", 2), ("c", 2), ("a", 2)
        ]  # fmt: skip
        assert [info.last_update_time for info in listed[1:]] == [30.0, 20.0, 10.0]
        assert listed[0].last_update_time == fresh.last_update_time
        assert [info.key.id for info in await reader.sessions(app, "ada")] == ["empty", "c", "a"]
        assert listed[1].key == SessionKey(app, "bob", "b")
        assert await reader.sessions(app + "x") == []
        assert await reader.sessions(app, "nobody") == []


async def test_the_apps_that_have_sessions_are_listed_once(
    store: Store, again: Again, key: SessionKey
) -> None:
    app = key.app_name
    for name, id in ((app + "b", "1"), (app + "a", "1"), (app + "b", "2")):
        await store.append(
            await store.create(SessionKey(name, "ada", id)), wrote(**state(app__a=1))
        )
    for reader in (store, again()):
        assert [name for name in await reader.apps() if name.startswith(app)] == [
            app + "a", app + "b"
        ]  # fmt: skip
    await store.delete(SessionKey(app + "a", "ada", "1"))
    assert [name for name in await again().apps() if name.startswith(app)] == [app + "b"]


async def test_deleting_forgets_the_session_and_keeps_what_it_shared(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.append(await store.create(key), wrote(**state(app__a=1, k=1)))
    other = again()
    assert await read_session(other, key) == session
    await store.delete(key)
    assert await store.get(key) is None
    assert await other.get(key) is None
    assert await store.sessions(key.app_name) == []
    with pytest.raises(StoreError, match="no such session"):
        await other.append(session, user("Hi"))
    assert (await store.create(key._replace(id="s2"))).state == {"app:a": 1}


async def test_a_session_created_again_is_another(
    store: Store, again: Again, key: SessionKey
) -> None:
    other = again()
    old = await store.append(await store.create(key, state={"k": 1}), user("old"))
    assert await read_session(other, key) == old
    await store.delete(key)
    new = await store.append(await store.create(key, state={"k": 2}), user("new"))
    assert await read_session(other, key) == new
    for writer in (store, other):
        with pytest.raises(Conflict, match="deleted and created again"):
            await writer.append(old, user("more"))
    assert await read_session(store, key) == new


async def test_S4_a_rewind_is_an_event_and_nothing_goes(store: Store, key: SessionKey) -> None:
    session = await store.append(await store.create(key), user("one"), says("bot", "1"))
    rewind = user("", inv="2", actions=Actions(rewind_before_invocation_id="1"))
    await store.append(session, rewind)
    held = await read_session(store, key)
    assert [event.text for event in held.events] == ["one", "1", ""]
    assert held.events[-1].actions.rewind_before_invocation_id == "1"


async def test_a_large_event_is_stored_whole(store: Store, again: Again, key: SessionKey) -> None:
    text = "0123456789abcdef" * (10 * 2**20 // 16)
    session = await store.append(await store.create(key), user(text), user("small"))
    held = await read_session(again(), key)
    assert held.events[0].text == text
    assert held == session


@pytest.mark.parametrize(
    "text",
    ["🙂👍🏽 日本語", "\ud83d half an emoji", "\0 nul", "'; DROP TABLE events; --", "%s %(x)s"],
)
async def test_any_text_is_stored_as_it_is(
    store: Store, again: Again, key: SessionKey, text: str
) -> None:
    call = Event(
        author="bot",
        invocation_id="1",
        content=Content(role="model", parts=(call_part("f", {text: [text]}, id=text),)),
    )
    session = await store.create(key, state={text: text})
    session = await store.append(session, user(text), call, wrote(**{text: text, "app:t": text}))
    held = await read_session(again(), key)
    assert held == session
    assert held.state[text] == held.state["app:t"] == held.events[0].text == text


async def test_any_number_is_stored_as_it_is(store: Store, again: Again, key: SessionKey) -> None:
    numbers: list[Json] = [0, -1, 2**53 + 1, 2**70, 0.1, 1e300, True]
    session = await store.append(await store.create(key), wrote(numbers=numbers))
    held = await read_session(again(), key)
    assert held == session
    assert repr(held.state["numbers"]) == repr(numbers)


@pytest.mark.parametrize("name", ["nul\0", "half \ud83d", "x" * 801, "ü" * 401])
async def test_a_key_that_some_store_cannot_hold_is_refused_by_all(
    store: Store, key: SessionKey, name: str
) -> None:
    with pytest.raises(StoreError, match=UNFIT):
        await store.create(key._replace(id=name))
    with pytest.raises(StoreError, match=UNFIT):
        await store.create(key, state={f"user:{name}": 1})
    with pytest.raises(StoreError, match=UNFIT):
        await store.lengths([key._replace(id=name)])
    assert await store.get(key) is None
    longest = key._replace(id="x" * 800, user_id="ü" * 400)
    session = await store.append(await store.create(longest), wrote(**{"user:" + "k" * 795: 1}))
    assert await read_session(store, longest) == session


async def test_a_transaction_stores_its_events_when_it_ends(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.append(await store.create(key), user("Hi"))
    async with store.transaction(session) as transaction:
        first = await transaction.append(says("bot", "one", writes="k"))
        assert first.state == {"k": "one"}
        second = await transaction.append(wrote(**state(app__a=1, k="two")))
        assert await read_session(again(), key) == session
    for reader in (store, again()):
        assert await read_session(reader, key) == second
    third = await store.append(second, user("Bye"))
    assert [event.text for event in third.events] == ["Hi", "one", "noted", "Bye"]


async def test_a_transaction_that_fails_stores_nothing(
    store: Store, again: Again, key: SessionKey
) -> None:
    session = await store.append(await store.create(key), user("Hi"))

    async def fail() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(wrote(**state(app__a=1, k=1)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    for reader in (store, again()):
        assert await read_session(reader, key) == session
    assert (await store.append(session, user("Bye"))).state == {}


async def test_a_stale_session_cannot_be_appended_to_in_a_transaction(
    store: Store, again: Again, key: SessionKey
) -> None:
    old = await store.create(key)
    new = await again().append(old, user("first"))
    with pytest.raises(Conflict):
        async with store.transaction(old) as transaction:
            await transaction.append(user("second"))
    assert await read_session(store, key) == new


async def test_a_refused_event_in_a_transaction_leaves_the_others(
    store: Store, key: SessionKey
) -> None:
    session = await store.create(key)
    bad = user("", actions=Actions(state_delta={"k": object()}))  # type: ignore[dict-item]
    async with store.transaction(session) as transaction:
        await transaction.append(user("good"))
        with pytest.raises(SessionError):
            await transaction.append(user("with it"), bad)
        await transaction.append(user("also good"))
    assert [e.text for e in (await read_session(store, key)).events] == ["good", "also good"]


async def test_a_closed_store_opens_again(store: Store, key: SessionKey) -> None:
    session = await store.append(await store.create(key), user("Hi"))
    await store.close()
    await store.close()
    assert await read_session(store, key) == session
    await store.append(session, user("Bye"))


async def test_media_and_results_come_back_byte_for_byte(
    store: Store, again: Again, key: SessionKey
) -> None:
    parts = (
        result_part("shot", {"ok": True}, id="1"),
        Part(inline_data=None, text=None, thought_signature="c2ln"),
    )
    event = Event(author="bot", invocation_id="1", content=Content(role="user", parts=parts))
    await store.append(await store.create(key), event)
    assert (await read_session(again(), key)).events[0].to_json() == event.to_json()


def test_a_store_outlives_its_event_loop(address: str, key: SessionKey) -> None:
    from weft.stores import open_store

    store = open_store(address)

    async def turn(text: str) -> int:
        session = await store.get(key) or await store.create(key)
        lease = await store.lease(key, busy="reject", interrupt=lambda: None)
        session = await store.append(session, user(text))
        await lease.release()
        return len(session.events)

    assert [asyncio.run(turn(f"{n}")) for n in range(3)] == [1, 2, 3]
    asyncio.run(store.close())


async def test_only_sessions_in_which_calls_wait_are_listed_as_waiting(
    store: Store, again: Again, key: SessionKey
) -> None:
    paid: list[int] = []

    @tool(confirm=lambda args, ctx: args["amount"] > 5)
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid; the calls were {', '.join(ids)}"

    ids: list[str] = []
    script = [call("pay", amount=1), "ok", *[call("pay", amount=9)] * 4, "done", "later", "done"]
    agent = Agent("till", model=ScriptedModel(script), tools=[pay])
    runner = Runner(agent, app_name=key.app_name, store=store)
    waiting: dict[str, str] = {}
    for name in ("plain", "answered", "open", "talked", "rewound"):
        result = await runner.run("Pay.", user_id=key.user_id, session_id=name)
        waiting[name] = next(iter(result.waiting), "")
        ids.append(waiting[name])
    place = {"user_id": key.user_id}
    await runner.resume(**place, session_id="answered", answers={waiting["answered"]: True})
    await runner.run("Something else.", **place, session_id="talked")
    first = (await runner.session(**place, session_id="rewound")).events[0].invocation_id
    await runner.resume(**place, session_id="rewound", answers={waiting["rewound"]: True})
    await runner.rewind(**place, session_id="rewound", invocation_id=first)
    other = again()
    assert isinstance(other, WaitingList)
    listed = {found.id for found in await other.waiting(key.app_name)}
    assert listed - {"rewound"} == {"open", "talked"}  # what a rewind left, the whole log tells
    assert await other.waiting(key.app_name, "somebody else") == []
    assert await other.waiting("another app") == []
    assert {one.session_id for one in await runner.pending()} == {"open", "talked"}
    assert paid == [1, 9, 9]


async def test_who_lists_what_waits_reads_no_session_that_does_not(key: SessionKey) -> None:
    class Counting(MemoryStore):
        reads: list[str] = []

        async def get(self, key: SessionKey, **options: Any) -> Session | None:
            self.reads.append(key.id)
            return await super().get(key, **options)

    @tool(confirm=True)
    def pay(amount: int) -> str:
        return "paid"

    store = Counting()
    model = ScriptedModel([*["Hi"] * 20, call("pay", amount=9)])
    runner = Runner(Agent("till", model=model, tools=[pay]), store=store)
    for number in range(21):
        await runner.run("Hi", session_id=str(number))
    store.reads.clear()
    assert [one.session_id for one in await runner.pending()] == ["20"]
    assert store.reads == ["20"]
