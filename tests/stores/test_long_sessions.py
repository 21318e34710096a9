"""The first turn on a long stored session: the same request, and the event loop goes on."""

import threading
from pathlib import Path

import pytest

import weft
from tests.stores.build import KEY
from tests.support.build import says, user
from weft import Agent, Event, Runner
from weft.compiler import Compilation, compile_request
from weft.compiler.incremental import LONG
from weft.runtime import model_call
from weft.stores import open_store
from weft.testing import ScriptedModel


async def test_a_cold_log_is_compiled_beside_the_loop_and_a_warm_one_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    store = open_store(address)
    talk: list[Event] = []
    for turn in range(LONG // 2):
        talk += [user(f"q{turn}", inv=f"i{turn}"), says("bot", f"a{turn}", inv=f"i{turn}")]
    await store.append(await store.create(KEY), *talk)
    await store.close()
    threads: list[str] = []

    def compiling(*args: object, **options: object) -> Compilation:
        threads.append(threading.current_thread().name)
        return compile_request(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(model_call, "compile_request", compiling)
    model = ScriptedModel(["one", "two"])
    runner = Runner(Agent("bot", model=model), store=address, app_name="app")
    for said in ("first", "second"):
        await runner.run(said, user_id="ada", session_id="s")
    await runner.close()
    main = threading.main_thread().name
    assert [name == main for name in threads] == [False, True]
    session = await store.get(KEY)
    assert session is not None
    agent = Agent("bot", model=ScriptedModel([]))
    for at, asked in enumerate((LONG + 1, LONG + 3)):
        cold = weft.compile(agent, session=session.before(asked))
        assert model.prompts[at].items == cold.prompt.items
    await store.close()
