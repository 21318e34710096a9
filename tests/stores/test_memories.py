"""A memory keeps what is known of a user, in every kind of store, and of nobody else."""

import asyncio
from collections.abc import Callable

import pytest

from weft import Memory
from weft.errors import SessionError, UsageError
from weft.session import Session, SessionKey, Store
from weft.testing import make_session


async def test_notes_are_found_by_their_words_in_another_process(
    store: Store, again: Callable[[], Store], key: SessionKey
) -> None:
    app = key.app_name
    memory = Memory(store)
    first = await memory.remember(app, "ada", "The cat is called Tom.", session="s1")
    await memory.remember(app, "ada", "She likes green tea.")
    assert await memory.remember(app, "ada", " The cat is called Tom.\n") == first
    other = Memory(again())
    (hit,) = await other.find(app, "ada", "What is my cat's name?")
    assert (hit.id, hit.text, hit.session, hit.score) == (first, "The cat is called Tom.", "s1", 1)
    assert [one.text for one in await other.search(app, "ada", "tea")] == ["She likes green tea."]
    assert len(await other.entries(app, "ada")) == 2


async def test_no_search_reaches_another_user_or_app(store: Store, key: SessionKey) -> None:
    memory, app = Memory(store), key.app_name
    await memory.remember(app, "ada", "The cat is called Tom.")
    await memory.remember(app, "bob", "The cat is called Rex.")
    await memory.remember(f"{app}-other", "ada", "The cat is called Kit.")
    assert [one.text for one in await memory.find(app, "ada", "cat")] == ["The cat is called Tom."]
    assert await memory.forget(app, "bob") == 1
    assert [one.text for one in await memory.find(app, "ada", "cat")] == ["The cat is called Tom."]


async def test_what_is_forgotten_is_deleted(store: Store, key: SessionKey) -> None:
    memory, app = Memory(store), key.app_name
    first = await memory.remember(app, "ada", "The cat is called Tom.")
    await memory.remember(app, "ada", "The dog is called Rex.")
    assert await memory.find(app, "ada", "cat")
    assert await memory.forget(app, "ada", first) == 1
    assert await memory.forget(app, "ada", first) == 0
    assert await memory.find(app, "ada", "cat") == []
    assert first not in [info.key.id for info in await store.sessions(f"memory:{app}", "ada")]
    assert await memory.forget(app, "ada") == 1
    assert await memory.entries(app, "ada") == []


async def test_a_session_is_added_once_and_grows(store: Store, key: SessionKey) -> None:
    memory, app = Memory(store), key.app_name

    def session(*turns: tuple[str, str]) -> Session:
        return Session("s1", app_name=app, user_id="ada", events=make_session(*turns).events)

    short = session(("user", "My cat is Tom."), ("bot", "A fine cat."))
    longer = session(("user", "My cat is Tom."), ("bot", "A fine cat."), ("user", "My dog is Rex."))
    assert await memory.add_session(short) == 2
    assert await memory.add_session(short) == 0
    assert await memory.add_session(longer) == 1
    (hit,) = await memory.find(app, "ada", "dog")
    assert (hit.id, hit.session, hit.author) == ("s1/e3", "s1", "user")
    # a session that asks is not told what it says itself
    assert await memory.find(app, "ada", "dog", without="s1") == []
    assert await memory.forget(app, "ada", "session-s1") == 1
    assert await memory.find(app, "ada", "dog") == []
    with pytest.raises(SessionError, match="belongs to nobody's memory"):
        await memory.add_session(make_session(("user", "hi")))


async def test_writers_side_by_side_keep_one_note(store: Store, key: SessionKey) -> None:
    memory = Memory(store)
    ids = await asyncio.gather(*(memory.remember(key.app_name, "u", "Tom") for _ in range(5)))
    assert len(set(ids)) == 1
    assert [entry.texts for entry in await memory.entries(key.app_name, "u")] == [("Tom",)]


async def test_meaning_finds_what_shares_no_word() -> None:
    memory = Memory(scorer="embedding")
    for text in (
        "She owns a small puppy.",
        "He works at a bank.",
        "They painted the kitchen yellow.",
        "Her flight leaves on Monday.",
        "The invoice is overdue.",
    ):
        await memory.remember("app", "u", text)
    assert await memory.find("app", "u", "dog", scorer="bm25") == []
    best, *_ = await memory.find("app", "u", "dog")
    assert best.text == "She owns a small puppy."


@pytest.mark.parametrize(
    ("text", "message"), [("", "nothing to remember"), ("x" * 5000, "5,000 letters is too long")]
)
async def test_what_is_no_note_is_refused(text: str, message: str) -> None:
    memory = Memory()
    with pytest.raises(UsageError, match=message):
        await memory.remember("app", "u", text)
    with pytest.raises(UsageError, match="user_id=''"):
        await memory.remember("app", "", "x")
    with pytest.raises(UsageError, match="scorer is 'magic'"):
        Memory(scorer="magic")  # type: ignore[arg-type]


async def test_a_search_refuses_what_it_cannot_do() -> None:
    memory = Memory("memory://")
    with pytest.raises(UsageError, match="scorer is 'meaning'"):
        await memory.find("app", "ada", "cat", scorer="meaning")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="top_k is 0"):
        await memory.find("app", "ada", "cat", top_k=0)
