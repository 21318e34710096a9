"""Processes that are killed with an MCP call open, or while the user is asked."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_programs import command_of
from tests.tools.mcp_servers import serve_toy

KILLS = int(os.environ.get("WEFT_KILLS", "0")) or 2
STORES = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)


class Worker:
    """A process that runs an agent, until it is killed."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [*command_of("tests.tools.mcp_worker"), *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def send(self, resumed: object = None) -> None:
        """Begin a run, or resume it with these answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(resumed)}\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """What waits, and what the tools returned."""
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def ask(self, resumed: object = None) -> dict[str, Any]:
        self.send(resumed)
        return self.read()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    journal = tmp_path_factory.mktemp("mcp") / "journal"
    with serve_toy(journal) as url:
        yield url, journal


@pytest.fixture
def server(served: tuple[str, Path]) -> tuple[str, Path]:
    url, journal = served
    for path in (journal, journal.with_name("journal.go")):
        path.unlink(missing_ok=True)
    return url, journal


def wait_for(journal: Path, line: str) -> None:
    for _ in range(6000):
        if journal.exists() and line in journal.read_text().splitlines():
            return
        time.sleep(0.05)
    raise AssertionError(f"{line} never came")


@STORES
@pytest.mark.parametrize("revision", ["2026-07-28", "legacy"])
def test_a_call_that_was_open_is_not_made_twice(
    server: tuple[str, Path], address: str, revision: str
) -> None:
    url, journal = server
    args = (address, url, revision, "pay_slowly", f"open-{revision}")
    with Worker(*args) as first:
        first.send()
        wait_for(journal, "pay 5")
        first.kill()
    journal.with_name("journal.go").touch()
    with Worker(*args) as second:
        # nobody knows whether it ran: a person is asked, and says what it returned
        ((call_id, kind),) = second.ask({})["pending"]
        assert kind == "unknown"
        done = second.ask({"answers": {call_id: "paid 5"}})
    assert done["pending"] == []
    assert done["results"] == [{"result": "paid 5"}]
    assert journal.read_text().splitlines() == ["pay 5"]


@STORES
@pytest.mark.parametrize(
    ("revision", "tool", "effect"),
    [("2026-07-28", "introduce", "introduce Bo"), ("legacy", "greet", "greet Bo")],
)
def test_a_question_outlives_the_process(
    server: tuple[str, Path], address: str, revision: str, tool: str, effect: str
) -> None:
    url, journal = server
    args = (address, url, revision, tool, f"asked-{tool}")
    with Worker(*args) as first:
        ((question, kind),) = first.ask()["pending"]
    assert kind == "input"
    with Worker(*args) as second:
        done = second.ask({"answers": {question: {"name": "Bo"}}})
        if revision == "legacy":
            # the call was open at the server and is lost: the answer is kept, and a person decides
            ((call_id, kind),) = done["pending"]
            assert kind == "unknown"
            assert effect not in journal.read_text().splitlines()
            done = second.ask({"retry": [call_id]})
    assert done["pending"] == []
    assert journal.read_text().splitlines().count(effect) == 1
    words = {"introduce": "this is Bo", "greet": "hello Bo"}[tool]
    assert done["results"][-1] == {"result": words}


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("revision", "tool", "effect", "result"),
    [
        ("2026-07-28", "introduce", "introduce Bo", "this is Bo"),
        ("legacy", "greet", "greet Bo", "hello Bo"),
        ("2026-07-28", "pay", "pay 5", "paid 5"),
    ],
)
def test_killed_at_any_moment_nothing_is_lost_or_doubled(
    server: tuple[str, Path], address: str, revision: str, tool: str, effect: str, result: str
) -> None:
    url, journal = server

    def work(session: str, *moments: float) -> float:
        """Run until it is done, killed at these moments; how long the last process took."""
        message: dict[str, Any] | None = None
        for moment in (*moments, None):
            with Worker(address, url, revision, tool, session) as worker:
                begun = time.monotonic()
                if moment is not None:
                    worker.send(message)
                    time.sleep(moment)
                    message = message or {}
                    continue
                state = worker.ask(message)
                while state["pending"]:
                    done = journal.exists() and effect in journal.read_text().splitlines()
                    answers, retry = {}, []
                    for id, kind in state["pending"]:  # a call that was cut off may have asked
                        if kind == "input":
                            answers[id] = {"name": "Bo"}
                        elif done:
                            answers[id] = result
                        else:
                            retry.append(id)
                    message = {"answers": answers, "retry": retry}
                    state = worker.ask(message)
        assert state["results"].count({"result": result}) == 1
        assert journal.read_text().splitlines().count(effect) == 1
        journal.unlink()
        return time.monotonic() - begun

    seconds = work("whole")
    for number in range(KILLS):
        share = (number + 0.5) / KILLS
        work(f"killed-{number}", seconds * share, seconds * (1 - share))
