"""`weft eval` on a dataset of twenty cases; breaking the agent is noticed."""

import json
from pathlib import Path

import pytest

from tests.cli.run import weft

DESK = '''
"""A desk that looks up prices, on a scripted model."""

import re

from weft import Agent
from weft.testing import ScriptedModel, call

PRICES = {f"item{n}": n * 10 for n in range(1, 21)}


def price_of(item: str) -> int:
    """The price of an item."""
    print("looking up", item)
    return PRICES[item]


def reply(prompt):
    results = [b for i in prompt.items for b in i.blocks if type(b).__name__ == "ResultBlock"]
    if results:
        return f"It costs {results[-1].response['result']}."
    return call("price_of", item=re.search(r"item\\d+", str(prompt)).group())


desk = Agent(
    "desk",
    model=ScriptedModel([reply] * 200),
    instruction="Look prices up, never guess.",
    tools=[price_of],
)
'''
CASES = "name: prices\ncases:\n" + "".join(
    f"""  - name: item{n}
    inputs: What is the price of item{n}?
    expected_output: It costs {n * 10}.
    evaluators:
      - trajectory: [{{price_of: {{item: item{n}}}}}]
"""
    for n in range(1, 21)
)
CASES += "evaluators:\n  - evidence: never guess\n  - tokens: 1000\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "cases.yaml").write_text(CASES)
    return tmp_path


def test_twenty_cases_pass_and_are_saved(folder: Path) -> None:
    done = weft(folder, "eval", "desk:desk", "cases.yaml", "--save", "base.json")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["case", "passed", "tokens", "cost", "cached", "why", "not"]
    assert [line.split()[:2] for line in lines[1:21]] == [[f"item{n}", "1/1"] for n in range(1, 21)]
    assert lines[21].startswith("20 of 20 cases passed, ")
    assert "looking up item1" in done.stderr
    assert len(json.loads((folder / "base.json").read_text())["cases"]) == 20


def test_a_broken_agent_is_a_regression(folder: Path) -> None:
    weft(folder, "eval", "desk:desk", "cases.yaml", "--save", "base.json")
    kept = (folder / "base.json").read_text()
    compared = ("eval", "desk:desk", "cases.yaml", "--baseline", "base.json")
    assert weft(folder, *compared).returncode == 0
    (folder / "desk.py").write_text(DESK.replace("n * 10", "n * 10 + (n == 7)"))
    done = weft(folder, *compared, "--save", "base.json")
    assert done.returncode == 1, done
    assert "worse: item7, answer: passed 100% before, 0% now" in done.stdout
    assert "0/1 (was 1/1)" in done.stdout
    assert "against the baseline: 1 worse, tokens " in done.stdout
    # a baseline is not replaced by what is worse
    assert (folder / "base.json").read_text() == kept
    assert "base.json stays as it is" in done.stderr
    # the instruction is part of what is tested
    (folder / "desk.py").write_text(DESK.replace("never guess", "guess"))
    done = weft(folder, *compared, "--json")
    assert done.returncode == 1
    regressions = json.loads(done.stdout)["regressions"]
    assert len(regressions) == 20
    assert regressions[0] == {"case": "item1", "check": "evidence", "before": 1.0, "after": 0.0}


def test_without_a_baseline_a_failing_case_is_a_finding(folder: Path) -> None:
    (folder / "desk.py").write_text(DESK.replace("n * 10", "n * 10 + (n == 7)"))
    done = weft(folder, "eval", "desk:desk", "cases.yaml", "--json", "--repeat", "2")
    assert done.returncode == 1
    outcomes = json.loads(done.stdout)
    assert outcomes["failing"] == ["item7"]
    assert outcomes["cases"]["item7"]["runs"] == 2
    assert outcomes["cases"]["item7"]["reasons"] == [
        "answer: expected 'It costs 70.', got 'It costs 71.'"
    ]
    # what fails in the baseline too is nothing new
    weft(folder, "eval", "desk:desk", "cases.yaml", "--save", "base.json")
    done = weft(folder, "eval", "desk:desk", "cases.yaml", "--baseline", "base.json")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("desk:desk",), "which cases?"),
        (("desk:desk", "none.yaml"), "No such file"),
        (("desk:desk", "cases.yaml", "--baseline", "none.json"), "No such file"),
        (("desk:desk", "empty.yaml"), "a case expects nothing: a"),
        (("desk:desk", "cases.yaml", "--save", "none/base.json"), "there is no folder none"),
    ],
)
def test_a_wrong_use_says_what_to_type(folder: Path, words: tuple[str, ...], message: str) -> None:
    (folder / "empty.yaml").write_text("cases:\n  - {name: a, inputs: hi}\n")
    done = weft(folder, "eval", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("spec", "line", "hint"),
    [
        (
            "trajectry: [price_of]",
            "there is no evaluator `trajectry`",
            "did you mean `trajectory`?",
        ),
        ("answer: {wrong: 3}", "the evaluator `answer` of case 'a'", "`answer` takes "),
    ],
)
def test_a_wrong_evaluator_is_named_with_what_there_is(
    folder: Path, spec: str, line: str, hint: str
) -> None:
    text = f"cases:\n  - name: a\n    inputs: Hi\n    evaluators:\n      - {spec}\n"
    (folder / "wrong.yaml").write_text(text)
    done = weft(folder, "eval", "desk:desk", "wrong.yaml")
    assert done.returncode == 2
    first, second = done.stderr.splitlines()[:2]
    assert line in first
    assert hint in second
