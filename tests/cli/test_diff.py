"""`weft diff` says what changed between two requests of a session."""

import json
from pathlib import Path

from tests.cli.run import refusal, weft
from tests.cli.test_stored import STORE, ran
from weft.testing import make_session

STORED = ("--store", STORE, "--session", "s")


def test_two_steps_of_a_session(bots: Path) -> None:
    ran(bots, "weather", "Hello")
    done = weft(bots, "diff", "bots:weather", *STORED, "--step", "1", "--step", "2")
    assert done.returncode == 0, done.stderr
    first, second, *changes = done.stdout.splitlines()
    assert first == "step 1 (weather) -> step 2 (weather)"
    assert second.endswith(", 1 item unchanged")
    assert any(line.startswith("+ item") and "get_weather" in line for line in changes)
    last = weft(bots, "diff", "bots:weather", *STORED)
    assert last.stdout.splitlines()[1:] == [second, *changes], "the last one and the one before it"


def test_one_step_under_two_policies_and_against_the_agents_own(bots: Path) -> None:
    ran(bots, "weather", "Hello")
    policies = ("--policy", "C.default()", "--policy", "C.none()")
    done = weft(bots, "diff", "bots:weather", *STORED, *policies, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["from"] == "step 2 (weather), C.default()"
    assert told["to"] == "C.none()"
    assert told["after"] <= told["before"]
    fenced = "C.default().fence()"
    own = weft(bots, "diff", "bots:weather", *STORED, "--policy", fenced, "--exit-code")
    assert own.returncode == 1
    first, _, *changes = own.stdout.splitlines()
    assert first == f"step 2 (weather), weather's own policy -> {fenced}"
    assert [line[:8] for line in changes] == ["+ system", "~ item  "]
    same = weft(
        bots, "diff", "bots:weather", *STORED, "--step", "1", "--policy", "C.default()",
        "--exit-code",
    )  # fmt: skip
    assert same.returncode == 0
    assert "the two requests are the same" in same.stdout


def test_what_cannot_be_compared_is_said(bots: Path) -> None:
    ran(bots, "weather", "Hello")
    said, hint = refusal(weft(bots, "diff", "bots:weather", *STORED, "--step", "1"))
    assert "there is no request before step 1" in said
    assert hint == "give --step twice"
    said, _ = refusal(weft(bots, "diff", "bots:weather", *STORED, *("--step", "1") * 3))
    assert said == "diff: two requests are compared"
    said, _ = refusal(weft(bots, "diff", "bots:weather", *STORED, "--step", "9"))
    assert "there is no step 9" in said
    said, _ = refusal(weft(bots, "diff", "bots:weather"))
    assert said == "--session: which session?"
    said, hint = refusal(weft(bots, "diff", "bots:weather", *STORED, "--policy", "C.windw(2)"))
    assert "windw" in said
    assert "window" in hint


PROGRAM = """
from weft import Agent
clerk = Agent("clerk", model="gpt-5", instruction="Serve.")
router = Agent("router", model="gpt-5", sub_agents=[clerk])
caller = Agent("caller", model="gpt-5", tools=[router])
"""


def test_a_policy_is_laid_over_agents_below_agents_and_behind_tools(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(PROGRAM, "utf-8")
    said = ("user", "The first question. " * 20)
    session = make_session(said, ("clerk", "Yes."), ("user", "Again."), ("clerk", "No."))
    (tmp_path / "s.json").write_bytes(session.to_json())
    for target in ("team:router", "team:caller"):
        done = weft(
            tmp_path, "diff", target, "--session", "s.json", "--policy", "C.none()", "--json"
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["from"] == "step 2 (clerk), clerk's own policy"
        assert told["before"] > told["after"] + 50
