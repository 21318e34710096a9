"""Which app a session belongs to, where nobody named it."""

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft import Agent, Runner, Sequence
from weft.errors import SessionError
from weft.session import SessionKey
from weft.stores.sqlite import SqliteStore
from weft.testing import ScriptedModel

MODEL = ScriptedModel(["x"] * 99)
ONE = Agent("a", model=MODEL).writes("app:seen") >> Agent("b", model=MODEL)
TWO = Agent("c", model=MODEL) >> Agent("d", model=MODEL)


async def test_two_flows_in_one_file_share_neither_sessions_nor_app_state(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'one.db'}"
    flows = [ONE, TWO, Agent("e", model=MODEL) >> Agent("f", model=MODEL)]
    lengths: list[int] = []
    for flow in (*flows, flows[-1] | Agent("g", model=MODEL)):
        async with Runner(flow, store=url) as runner:
            result = await runner.run(session_id="s", message="Hi")
            assert ("app:seen" in result.state) == (flow is ONE)
            lengths.append(sum(event.author == "user" for event in result.session.events))
    assert lengths == [1, 1, 1, 1]
    async with Runner(ONE, store=url) as runner:
        again = await runner.run(session_id="s", message="Again")
    assert sum(event.author == "user" for event in again.session.events) == 2
    assert Runner(ONE, store=url).app_name == f"{__name__}.ONE"


def test_a_name_that_somebody_gave_is_the_app(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'one.db'}"
    assert Runner(Agent("a", model=MODEL), store=url).app_name == "a"
    assert Runner(Sequence(ONE, name="trips"), store=url).app_name == "trips"
    assert Runner(ONE, store=url, app_name="mine").app_name == "mine"


def test_a_script_goes_by_its_file_and_an_interpreter_must_be_told(tmp_path: Path) -> None:
    source = (
        "from weft import Agent, Runner\n"
        "from weft.testing import ScriptedModel\n"
        "trip = Agent('a', model=ScriptedModel(['x'])) >> Agent('b')\n"
        f"print(Runner(trip, store='sqlite:///{tmp_path / 'one.db'}').app_name)\n"
    )
    script = tmp_path / "trips.py"
    script.write_text(source)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ran.stdout == "trips.trip\n"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert "the flow has no name to keep its sessions under" in ran.stderr
    assert 'app_name="trips"' in ran.stderr


async def test_sessions_of_an_older_version_are_found_by_their_old_name(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "one.db")
    await store.create(SessionKey("sequence", "user", "old"))
    async with Runner(ONE, store=store) as runner:
        with pytest.raises(SessionError, match='app_name="sequence"'):
            await runner.resume(session_id="old")
    async with Runner(ONE, store=store, app_name="sequence") as runner:
        assert (await runner.run(session_id="old", message="Hi")).text == "x"


def test_a_runner_in_memory_needs_no_name() -> None:
    assert weft.run_sync(TWO, "Hi").text == "x"
