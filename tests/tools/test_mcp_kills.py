"""Processes that are killed with an MCP call open, or while the user is asked."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp_servers import serve_toy

ROOT = Path(__file__).parents[2]
STORES = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)


def start(*args: str, answer: object = None) -> "subprocess.Popen[str]":
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(("src", "."))}
    if answer is not None:
        env["ANSWER"] = json.dumps(answer)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.tools.mcp_worker", *args],
        cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(*args: str, answer: object) -> dict[str, Any]:
    out, _ = start(*args, answer=answer).communicate(timeout=300)
    return dict(json.loads(out))


def wait_for(journal: Path, line: str) -> None:
    for _ in range(6000):
        if journal.exists() and line in journal.read_text().splitlines():
            return
        time.sleep(0.05)
    raise AssertionError(f"{line} never came")


@STORES
@pytest.mark.parametrize("revision", ["2026-07-28", "legacy"])
def test_a_call_that_was_open_is_not_made_twice(
    tmp_path: Path, address: str, revision: str
) -> None:
    journal = tmp_path / "journal"
    with serve_toy(journal) as url:
        args = (address, url, revision, "pay_slowly", f"open-{revision}")
        process = start(*args)
        wait_for(journal, "pay 5")
        process.kill()
        process.communicate()
        (tmp_path / "journal.go").touch()
        # nobody knows whether it ran: a person is asked, and says what it returned
        asked = finish(*args, answer={})
        ((call_id, kind),) = asked["pending"]
        assert kind == "unknown"
        done = finish(*args, answer={"answers": {call_id: "paid 5"}})
        assert done["pending"] == []
        assert done["results"] == [{"result": "paid 5"}]
        assert journal.read_text().splitlines() == ["pay 5"]


@STORES
@pytest.mark.parametrize(
    ("revision", "tool", "effect"),
    [("2026-07-28", "introduce", "introduce Bo"), ("legacy", "greet", "greet Bo")],
)
def test_a_question_outlives_the_process(
    tmp_path: Path, address: str, revision: str, tool: str, effect: str
) -> None:
    journal = tmp_path / "journal"
    with serve_toy(journal) as url:
        args = (address, url, revision, tool, f"asked-{tool}")
        process = start(*args)
        assert process.stdout is not None
        ((question, kind),) = json.loads(process.stdout.readline())["pending"]
        assert kind == "input"
        process.kill()
        process.communicate()
        done = finish(*args, answer={"answers": {question: {"name": "Bo"}}})
        if revision == "legacy":
            # the call was open at the server and is lost: the answer is kept, and a person decides
            ((call_id, kind),) = done["pending"]
            assert kind == "unknown"
            assert effect not in journal.read_text().splitlines()
            done = finish(*args, answer={"retry": [call_id]})
        assert done["pending"] == []
        assert journal.read_text().splitlines().count(effect) == 1
        words = {"introduce": "this is Bo", "greet": "hello Bo"}[tool]
        assert done["results"][-1] == {"result": words}
