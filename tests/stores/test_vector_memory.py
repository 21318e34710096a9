"""A memory in an SQLite file, found by vectors."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from weft import Agent, C, Runner
from weft.errors import StoreError, UsageError
from weft.session import SessionKey
from weft.stores import open_store
from weft.stores.vector_memory import VectorMemory
from weft.testing import ScriptedModel, call
from weft.tools import remember

FACTS = {
    "Rex the dog is three years old": (1.0, 0.0, 0.0),
    "Ann moved to Oslo": (0.0, 1.0, 0.0),
    "she plays the cello": (0.0, 0.1, 1.0),
}


async def embed(texts: Sequence[str]) -> list[tuple[float, ...]]:
    """Vectors in which pets, places and music stand apart."""
    await asyncio.sleep(0)
    near = {"pet": (0.9, 0.1, 0.0), "where": (0.0, 0.9, 0.1), "instrument": (0.0, 0.0, 1.0)}
    return [
        FACTS.get(text) or next((v for word, v in near.items() if word in text), (0.3, 0.3, 0.3))
        for text in texts
    ]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memories.db"


@pytest.fixture
async def memory(address: str) -> AsyncIterator[VectorMemory]:
    memory = VectorMemory(address, embed=embed)
    yield memory
    await memory.close()


async def test_what_is_near_is_found_of_this_user_only(memory: VectorMemory) -> None:
    for fact in FACTS:
        await memory.remember("shop", "ann", fact)
    await memory.remember("shop", "bob", "he has a pet snake")
    found = await memory.find("shop", "ann", "which pet?", top_k=2)
    assert found[0].text == "Rex the dog is three years old"
    assert found[0].score == 1.0
    assert "snake" not in str(await memory.find("shop", "ann", "which pet?"))
    assert await memory.find("shop", "nobody", "which pet?") == []
    assert await memory.remember("shop", "ann", "Ann moved to Oslo") == found_id(memory, "Oslo")
    assert len(await memory.find("shop", "ann", "where?")) == 3, "the same text is one note"


def found_id(memory: VectorMemory, word: str) -> str:
    from weft.values import handle_of

    return next(f"note-{handle_of(fact)}" for fact in FACTS if word in fact)


async def test_a_run_reads_it_and_writes_it_and_a_user_can_be_deleted(
    memory: VectorMemory,
) -> None:
    model = ScriptedModel([call("remember", fact="Ann moved to Oslo"), "noted", "In Oslo."])
    bot = Agent("bot", model=model, tools=[remember]).sees(C.default() + C.memory())
    runner = Runner(bot, app_name="shop", memory=memory)
    await runner.run("I moved to Oslo", user_id="ann", session_id="one")
    await runner.run("where do I live?", user_id="ann", session_id="two")
    assert "Ann moved to Oslo" in str(model.prompts[-1])
    session = await runner.session(user_id="ann", session_id="one")
    assert await memory.add_session(session) == 2
    assert await memory.add_session(session) == 0, "what is there is not added again"
    assert {
        one.session for one in await memory.find("shop", "ann", "where?", without="one")
    } == set()
    await runner.delete_user(user_id="ann")
    assert await memory.find("shop", "ann", "where?") == []


async def test_many_writers_at_once_lose_nothing(address: str, memory: VectorMemory) -> None:
    several = [VectorMemory(address, embed=embed) for _ in range(3)]
    try:
        await asyncio.gather(
            *(
                one.remember("shop", "ann", f"fact {number} of {at}")
                for at, one in enumerate(several)
                for number in range(5)
            )
        )
        assert len(await memory.find("shop", "ann", "all", top_k=50)) == 15
    finally:
        for one in several:
            await one.close()


async def test_what_cannot_be_is_said(address: str, memory: VectorMemory, tmp_path: Path) -> None:
    await memory.remember("shop", "ann", "Ann moved to Oslo")
    other = VectorMemory(address, embed=lambda texts: [[1.0, 2.0] for _ in texts])
    with pytest.raises(StoreError, match="vectors of 3 dimensions, and embed gives 2"):
        await other.find("shop", "ann", "where?")
    await other.close()
    makers: list[tuple[Any, str]] = [
        (
            lambda: VectorMemory("postgresql://h/d", embed=embed),
            "is not the address of an SQL",
        ),
        (lambda: VectorMemory(address, embed=embed, top_k=0), "top_k is 0"),
    ]
    for make, words in makers:
        with pytest.raises(UsageError, match=words):
            make()
    (tmp_path / "store.db").write_bytes(b"")
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    await store.create(SessionKey("shop", "ann", "s"))
    await store.close()
    taken = VectorMemory(f"sqlite:///{tmp_path}/store.db", embed=embed)
    with pytest.raises(StoreError, match="a database of something else"):
        await taken.remember("shop", "ann", "x")
    for wrong in ([], [[1.0], [1.0, 2.0]], "vectors", [["a"]]):
        given: Any = wrong
        broken = VectorMemory(address, embed=lambda texts, given=given: given)
        with pytest.raises(UsageError, match="embed gave"):
            await broken.remember("shop", "ann", "x")
