"""Cases are read from files; what cannot be read, or expects nothing, is named."""

import json
from pathlib import Path

import pytest

from tests.support.tools import add
from weft import Agent
from weft.errors import UsageError
from weft.evals import compare, evaluate, outcomes_of, read_cases, read_outcomes
from weft.evals.task import CaseOutcome, Outcomes
from weft.testing import ScriptedModel, call

CASES = """
name: sums
cases:
  - name: small
    inputs: 1 + 2?
    expected_output: "3"
    evaluators:
      - trajectory: [{add: {a: 1, b: 2}}]
      - state: {sum: 3}
  - name: talk
    inputs: {messages: [Hello, "1 + 2?"], state: {mood: good}}
    evaluators:
      - answer: {contains: "3"}
      - trajectory: {calls: [add], order: in_order, turn: 2}
      - Contains: "3"
evaluators:
  - tokens: 5000
  - evidence: You add.
"""


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_dataset_names_the_evaluators_of_weft_and_of_pydantic_evals(tmp_path: Path) -> None:
    dataset = read_cases(write(tmp_path / "cases.yaml", CASES))
    assert [case.name for case in dataset.cases] == ["small", "talk"]
    again = tmp_path / "again.yaml"
    dataset.to_file(again, schema_path=None)
    assert read_cases(again).model_dump() == dataset.model_dump()


async def test_an_expected_output_that_nobody_looks_at_is_compared(tmp_path: Path) -> None:
    dataset = read_cases(write(tmp_path / "cases.yaml", CASES))
    model = ScriptedModel([call("add", a=1, b=2), "It is 3.", "Hello.", call("add", a=1, b=2), "3"])
    agent = Agent("calculator", model=model, instruction="You add.", tools=[add])
    outcomes = outcomes_of(await evaluate(agent, dataset))
    assert outcomes.failing == ["small"]
    assert outcomes.cases["small"].reasons == (
        "answer: expected '3', got 'It is 3.'",
        "state: sum is not there, expected 3",
    )
    assert outcomes.cases["talk"].checks.keys() == {
        "answer", "trajectory of turn 2", "Contains", "tokens", "evidence"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", "cases:\n  - name: empty\n    inputs: hi\n", "a case expects nothing: empty"),
        ("a.yaml", "cases: []", "there are no cases"),
        ("a.yaml", "cases: [", "while parsing"),
        ("a.json", "{", "Expecting property name"),
        ("a.yaml", "questions: []", "neither a dataset nor an eval set"),
        ("a.yaml", "cases:\n  - input: hi\n", "cases.0.inputs: Field required"),
        (
            "a.yaml",
            "cases:\n  - inputs: hi\n    evaluators: [trajectry: [a]]\n",
            "there is no evaluator `trajectry`",
        ),
        (
            "a.yaml",
            "cases:\n  - inputs: hi\n    evaluators: [trajectory: {calls: [a], order: any}]\n",
            "order is 'any'",
        ),
        (
            "a.yaml",
            "cases:\n  - inputs: {mesage: hi}\n    expected_output: x\n",
            "inputs have no `mesage`",
        ),
        (
            "a.yaml",
            "cases:\n  - inputs: hi\n    evaluators: [answer: {contains: x, turn: 2}]\n",
            "there is no turn 2: the case has 1",
        ),
        ("a.evalset.json", {"eval_cases": [{"eval_id": "e"}]}, "no conversation to follow"),
        ("a.evalset.json", [{"name": "n", "data": [{"reference": "x"}]}], "a turn has no query"),
        ("a.evalset.json", [{"name": "n", "data": [{"query": "x"}]}], "a case expects nothing: n"),
    ],
)
async def test_bad_cases_are_refused_before_anything_runs(
    tmp_path: Path, name: str, content: object, message: str
) -> None:
    model = ScriptedModel([])
    with pytest.raises(UsageError) as refused:
        await evaluate(Agent("a", model=model), write(tmp_path / name, content))
    assert message in str(refused.value)
    assert refused.value.hint
    assert model.calls == 0


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_cases(tmp_path / "none.yaml")


OLDER = [
    {
        "name": "roll",
        "data": [
            {"query": "Hi", "expected_tool_use": [], "reference": "Hello there"},
            {
                "query": "1 + 2?",
                "expected_tool_use": [{"tool_name": "add", "tool_input": {"a": 1, "b": 2}}],
                "reference": "It is 3",
            },
        ],
        "initial_session": {"state": {"mood": "good"}, "app_name": "calc", "user_id": "ann"},
    }
]
NEWER = {
    "eval_set_id": "sums",
    "eval_cases": [
        {
            "eval_id": "roll",
            "conversation": [
                {
                    "invocation_id": "i1",
                    "user_content": {"parts": [{"text": "Hi"}], "role": "user"},
                    "final_response": {"parts": [{"text": "Hello there"}], "role": "model"},
                    "intermediate_data": {"tool_uses": [], "intermediate_responses": []},
                },
                {
                    "userContent": {"parts": [{"text": "1 + 2?"}], "role": "user"},
                    "finalResponse": {"parts": [{"text": "It is 3"}], "role": "model"},
                    "intermediateData": {
                        "invocationEvents": [
                            {
                                "author": "calc",
                                "content": {
                                    "parts": [
                                        {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}
                                    ]
                                },
                            }
                        ]
                    },
                },
            ],
            "session_input": {"app_name": "c", "user_id": "ann", "state": {"mood": "good"}},
            "final_session_state": {"mood": "good"},
        }
    ],
}


@pytest.mark.parametrize("content", [OLDER, NEWER])
async def test_eval_sets_of_adk_are_read(tmp_path: Path, content: object) -> None:
    dataset = read_cases(write(tmp_path / "sums.evalset.json", content))
    assert dataset.name == "sums"
    good = [["Hello there"], [call("add", a=1, b=2), "Well, it is 3"]]
    bad = [["Hello there"], [call("add", a=2, b=2), "Four"]]
    for script, fails in ((good, False), (bad, True)):
        model = ScriptedModel([entry for turn in script for entry in turn])
        agent = Agent("calc", model=model, instruction="Be {mood}.", tools=[add])
        outcomes = outcomes_of(await evaluate(agent, dataset))
        assert bool(outcomes.failing) == fails, outcomes
        assert "Be good." in str(model.prompts[0])
        turns = {f"{what} of turn {n}" for what in ("trajectory", "answer") for n in (1, 2)}
        assert turns <= outcomes.cases["roll"].checks.keys()


def test_the_criteria_beside_an_eval_set_hold(tmp_path: Path) -> None:
    criteria = {
        "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
        "safety_v1": 0.8,
    }
    write(tmp_path / "test_config.json", {"criteria": criteria})
    with pytest.warns(UserWarning, match="no criterion safety_v1"):
        dataset = read_cases(write(tmp_path / "sums.evalset.json", OLDER))
    specs = [evaluator.as_spec() for evaluator in dataset.cases[0].evaluators]
    assert [spec.name for spec in specs] == ["trajectory", "trajectory"]
    assert all(spec.kwargs["order"] == "in_order" for spec in specs)


async def test_repeated_runs_have_rates(tmp_path: Path) -> None:
    cases = write(
        tmp_path / "c.yaml", "cases:\n  - {name: a, inputs: hi, expected_output: yes please}\n"
    )
    model = ScriptedModel(["yes please", "no", "yes please", "yes please"])
    outcomes = outcomes_of(await evaluate(Agent("a", model=model), cases, repeat=4))
    assert (outcomes.cases["a"].passed, outcomes.cases["a"].runs) == (3, 4)
    assert outcomes.cases["a"].rate == 0.75


def outcome(passed: int, runs: int = 4, **checks: int) -> Outcomes:
    case = CaseOutcome(runs=runs, passed=passed, checks=checks)
    return Outcomes(dataset="d", agent="a", cases={"one": case})


def test_regressions_are_found_by_check_within_the_tolerance(tmp_path: Path) -> None:
    before = outcome(4, answer=4, tokens=4)
    before.save(tmp_path / "b.json")
    assert read_outcomes(tmp_path / "b.json") == before
    assert compare(before, before) == []
    worse = compare(outcome(3, answer=3, tokens=4), before)
    assert [str(one) for one in worse] == ["one, answer: passed 100% before, 75% now"]
    assert compare(outcome(3, answer=3, tokens=4), before, tolerance=0.25) == []
    # a run that failed altogether has no checks
    assert [one.check for one in compare(outcome(0), before)] == [""]
    # a case that failed already may still get worse
    assert compare(outcome(0, answer=0, tokens=0), outcome(0, answer=0, tokens=4))
    new = Outcomes(dataset="d", agent="a", cases={"two": CaseOutcome(runs=1, passed=0)})
    assert [one.case for one in compare(new, before)] == ["two"]


@pytest.mark.parametrize("text", ["", "[]", '{"dataset": 1}'])
def test_a_baseline_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="it holds no outcomes"):
        read_outcomes(write(tmp_path / "b.json", text))
