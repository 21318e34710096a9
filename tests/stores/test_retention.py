"""What is deleted is gone: from the log, the state, memories, artifacts, and from the files."""

import asyncio
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.run import weft
from weft import Agent, Memory, Part, Runner, ToolContext, tool
from weft.errors import UsageError
from weft.session import Event, MemoryStore, SessionKey
from weft.stores import open_store
from weft.stores.postgres import PostgresStore
from weft.stores.upkeep import erase_sessions, erase_user
from weft.testing import ScriptedModel, call

PLANTED = "xyzzy-4711-plugh"


@tool
async def note(text: str, ctx: ToolContext) -> str:
    """Note something."""
    ctx.state["user:secret"] = text
    ctx.state["own"] = text
    await ctx.save_artifact("note.txt", Part(text=text))
    await ctx.save_artifact("user:note.txt", Part(text=text))
    return text


async def _planted(
    store: str, folder: Path, user: str, text: str, app: str = "app"
) -> tuple[Runner, Memory]:
    agent = Agent("bot", model=ScriptedModel([call("note", text=text), text]), tools=[note])
    memory = Memory(store)
    runner = Runner(agent, store=store, artifacts=folder, memory=memory, app_name=app)
    await runner.run(f"My word is {text}", user_id=user, session_id="s")
    await memory.remember(app, user, f"The word is {text}")
    return runner, memory


def _files_with(folder: Path, text: str) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and text.encode() in file.read_bytes()
    ]


async def test_nothing_of_a_user_is_left_in_the_files(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/weft.db"
    others, others_memory = await _planted(store, tmp_path / "files", "bob", "another-word")
    await others.close()
    await others_memory.close()
    runner, memory = await _planted(store, tmp_path / "files", "ada", PLANTED)
    assert {"weft.db-wal"} <= set(_files_with(tmp_path, PLANTED))
    erased = await runner.delete_user(user_id="ada")
    assert erased.sessions == 1
    assert erased.memories == 1
    assert erased.artifacts == 2
    assert _files_with(tmp_path, PLANTED) == []
    assert _files_with(tmp_path, "another-word") != []
    await runner.close()
    await memory.close()
    assert _files_with(tmp_path, PLANTED) == []
    kept = await others.session(user_id="bob", session_id="s")
    assert kept.state["user:secret"] == "another-word"
    await others.close()


async def test_a_user_is_forgotten_by_a_server(postgres_url: str, tmp_path: Path) -> None:
    app = f"app-{uuid4().hex}"  # tests that share the server leave state in their apps
    runner, memory = await _planted(postgres_url, tmp_path, "ada", PLANTED, app)
    erased = await runner.delete_user(user_id="ada")
    assert erased[:2] == (1, 1)
    store = runner.store
    assert isinstance(store, PostgresStore)
    assert await store.get(SessionKey(app, "ada", "s")) is None
    again = await store.create(SessionKey(app, "ada", "s"))
    assert dict(again.state) == {}
    assert _files_with(tmp_path, PLANTED) == []
    await runner.close()
    await memory.close()


async def test_a_run_of_the_user_is_stopped_first() -> None:
    begun, store = asyncio.Event(), MemoryStore()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return "late"

    agent = Agent("bot", model=ScriptedModel([call("wait"), "done"]), tools=[wait])
    runner = Runner(agent, store=store, app_name="app")
    await runner.start("go", user_id="ada", session_id="s")
    await begun.wait()
    assert (await runner.delete_user(user_id="ada")).sessions == 1
    assert await store.get(SessionKey("app", "ada", "s")) is None


async def test_what_cannot_forget_is_refused_before_anything_is_deleted() -> None:
    store = MemoryStore()
    await store.create(SessionKey("app", "ada", "s"))

    class Plain:
        pass

    with pytest.raises(UsageError, match="cannot forget a user"):
        await erase_user(store, Plain(), "app", "ada")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot forget a user"):
        await erase_sessions(store, Plain(), [])  # type: ignore[arg-type]
    assert await store.get(SessionKey("app", "ada", "s")) is not None


def test_the_commands_say_what_they_would_do_first(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    address = f"sqlite:///{path}"

    async def plant() -> None:
        store = open_store(address)
        for user, age in (("ada", 100), ("bob", 1)):
            session = await store.create(SessionKey("app", user, f"of-{user}"))
            old = time.time() - age * 86400
            await store.append(session, Event(author="user", timestamp=old))
        await store.close()

    async def users() -> list[str]:
        store = open_store(address)
        infos = await store.sessions("app")
        await store.close()
        return sorted(info.key.user_id for info in infos)

    asyncio.run(plant())
    done = weft(tmp_path, "sessions", "prune", "--older-than", "90d", "--store", address)
    assert done.returncode == 0
    assert "of-ada" in done.stdout
    assert "of-bob" not in done.stdout
    assert "add --yes" in done.stderr
    assert asyncio.run(users()) == ["ada", "bob"]
    assert (
        weft(tmp_path, "sessions", "prune", "--older-than", "soon", "--store", address).returncode
        == 2
    )
    done = weft(tmp_path, "sessions", "prune", "--older-than", "90d", "--yes", "--store", address)
    assert "deleted 1 sessions" in done.stdout
    assert asyncio.run(users()) == ["bob"]
    done = weft(tmp_path, "sessions", "delete", "--user", "bob", "--store", address)
    assert "add --yes" in done.stderr
    assert asyncio.run(users()) == ["bob"]
    done = weft(tmp_path, "sessions", "delete", "--user", "bob", "--yes", "--store", address)
    assert "deleted from app: 1 sessions" in done.stdout
    assert asyncio.run(users()) == []
    assert os.path.exists(path)


def test_one_session_is_deleted_from_the_command_line(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"

    async def plant() -> None:
        store = open_store(address)
        for user in ("ada", "bob"):
            for id in ("same", f"of-{user}"):
                session = await store.create(SessionKey("app", user, id))
                await store.append(session, Event(author="user"))
        await store.close()

    async def ids() -> list[str]:
        store = open_store(address)
        infos = await store.sessions("app")
        await store.close()
        return sorted(f"{info.key.user_id}/{info.key.id}" for info in infos)

    def delete(*arguments: str) -> str:
        done = weft(tmp_path, "sessions", "delete", *arguments, "--store", address)
        return done.stdout + done.stderr

    asyncio.run(plant())
    everything = asyncio.run(ids())
    assert "add --yes" in delete("of-ada")
    assert "2 sessions are named `same`" in delete("same", "--yes")
    assert "there is no session `of-bo`" in delete("of-bo", "--yes")
    assert "name a session, or --user ID" in delete("--yes")
    assert asyncio.run(ids()) == everything
    assert "deleted 1 session" in delete("of-ada", "--yes")
    assert "deleted 1 session" in delete("same", "--user", "bob", "--yes")
    assert asyncio.run(ids()) == ["ada/same", "bob/of-bob"]
