"""Evaluators look at what an agent really did, and say what was wrong."""

import subprocess
import sys
from typing import cast

import pytest
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains, Evaluator

from weft import Agent, ToolContext, tool
from weft.compiler.report import block_text
from weft.errors import DeclarationError
from weft.evals import (
    AgentRun,
    answer,
    cached,
    cost,
    evaluate,
    evidence,
    judge,
    outcomes_of,
    state,
    task,
    tokens,
    trajectory,
)
from weft.testing import ScriptedModel, call, usage


def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add two numbers."""
    ctx.state["sum"] = a + b
    return a + b


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}\nin two lines"


def calculator(*script: object) -> Agent:
    model = ScriptedModel([*script], name="gpt-5")
    return Agent("calculator", model=model, instruction="You add.", tools=[add, pay])


TWO_CALLS = [call("add", a=1, b=2), call("add", a=3, b=4)]


async def reasons(agent: Agent, *evaluators: object, inputs: object = "go") -> list[str]:
    """Why the checks of one case fail."""
    own = cast("list[Evaluator[object, object, object]]", [*evaluators])
    case = Case[object, object, object](name="one", inputs=inputs, evaluators=own)
    report = await evaluate(agent, Dataset[object, object, object](name="set", cases=[case]))
    return [*outcomes_of(report).cases["one"].reasons]


@pytest.mark.parametrize(
    ("expected", "fits"),
    [
        (trajectory("add", "add"), True),
        (trajectory(call("add", a=1, b=2), call("add", a=3, b=4)), True),
        (trajectory(call("add", a=3, b=4), call("add", a=1, b=2)), False),
        (trajectory("add"), False),
        (trajectory(), False),
        (trajectory({"add": {"a": 3, "b": 4}}, order="in_order"), True),
        (trajectory(call("add", a=3, b=4), call("add", a=1, b=2), order="in_order"), False),
        (trajectory(call("add", a=3, b=4), call("add", a=1, b=2), order="any_order"), True),
        # a bare name must not take the only call that another expectation can have
        (trajectory("add", call("add", a=1, b=2), order="any_order"), True),
        (trajectory("add", "add", "add", order="any_order"), False),
        (trajectory({"name": "add", "args": {"a": 1}}, "add"), False),
        (trajectory({"name": "add", "args": {"a": 1}}, "add", arguments="subset"), True),
        (trajectory(call("add", a=9), "add", arguments="ignored"), True),
    ],
)
async def test_calls_are_compared(expected: object, fits: bool) -> None:
    failures = await reasons(calculator(TWO_CALLS, "done"), expected)
    assert (not failures) == fits, failures


async def test_a_failed_trajectory_shows_both_sides() -> None:
    (reason,) = await reasons(calculator(TWO_CALLS, "done"), trajectory("pay"))
    assert reason == (
        'trajectory: expected: pay; the calls were: add("a":1,"b":2), add("a":3,"b":4)'
    )


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (answer("It is 3."), None),
        (answer(contains="IS 3"), None),
        (answer(contains=["3", "4"]), "'4' is not in 'It is 3.'"),
        (answer(matches=r"\b\d\b"), None),
        (answer(matches=r"^\d"), "'It is 3.' does not match '^\\\\d'"),
        (answer("It was 3", similar=0.6), None),
        (answer("It was 3", similar=0.9), "'It is 3.' is 67% like 'It was 3', expected 90%"),
        (answer("4"), "expected '4', got 'It is 3.'"),
    ],
)
async def test_answers_are_compared(expected: object, reason: str | None) -> None:
    failures = await reasons(calculator("It is 3."), expected)
    assert failures == ([] if reason is None else [f"answer: {reason}"])


async def test_the_state_and_what_was_spent_are_compared() -> None:
    metered = usage("done", prompt=1000, cached=800, output=10)
    agent = calculator(call("add", a=1, b=2), metered)
    assert await reasons(agent, state({"sum": 3}), tokens(5_000)) == []
    agent = calculator(usage(call("add", a=1, b=2), prompt=1000, cached=0, output=5), metered)
    failures = await reasons(
        agent, state({"sum": 4, "other": 1}), tokens(2_014), cost(0.0001), cached(0.5), cost(1)
    )
    assert failures[:2] == [
        "state: sum is 3, expected 4; other is not there, expected 1",
        "tokens: 2,015 tokens, at most 2,014",
    ]
    assert failures[2].startswith("cost: $0.0")
    assert failures[3:] == ["cached: 40%, at least 50%"]


async def test_what_nobody_knows_is_not_within_a_limit() -> None:
    failures = await reasons(calculator("done"), cost(100), cached(0))
    assert failures == [
        "cost: the cost is not known: the model has no price, or reports no usage",
        "cached: the model reports no cached tokens",
    ]


async def test_evidence_is_looked_for_in_the_requests() -> None:
    inputs = {"message": "Pay 4711", "answers": {"pay": True}}
    agent = calculator(call("pay", amount=4711), "done")
    failures = await reasons(
        agent,
        evidence("You add.", "Pay 4711", request="every"),
        evidence("paid 4711\nin two lines", request="last"),
        evidence("paid 4711", request="first"),
        evidence("You add.", absent=True),
        trajectory(call("pay", amount=4711)),
        inputs=inputs,
    )
    assert failures == [
        "evidence_3: 'paid 4711' is in 0 of 1 request, the first",
        "evidence_4: 'You add.' is in 2 of 2 requests",
    ]


async def test_a_model_judges_and_says_why() -> None:
    model = ScriptedModel(['{"reason": "it names no city", "passes": false}'])
    failures = await reasons(calculator("It is 3."), judge("names a city", model=model))
    assert failures == ["judge: names a city: it names no city"]
    asked = block_text(model.prompts[0].items[-1].blocks[0])
    assert "<rubric>\nnames a city\n</rubric>" in asked
    assert "<answer>\nIt is 3.\n</answer>" in asked


async def test_a_conversation_has_turns() -> None:
    agent = calculator("Hi.", call("add", a=1, b=1), "2")
    failures = await reasons(
        agent,
        answer("Hi.", turn=1),
        trajectory(turn=1),
        trajectory("add", turn=2),
        answer("2"),
        inputs={"messages": ["Hello", "1 + 1?"], "state": {"mood": "good"}},
    )
    assert failures == []


async def test_a_run_that_fails_or_waits_is_a_failed_case() -> None:
    (reason,) = await reasons(calculator(call("pay", amount=1)), answer("x"))
    assert "the run waits for an answer to `pay`" in reason
    (reason,) = await reasons(calculator(RuntimeError("503")), answer("x"))
    assert reason.startswith("the run failed:")
    assert "503" in reason


async def test_evaluators_of_pydantic_evals_and_ones_own_work_too() -> None:
    from dataclasses import dataclass

    from pydantic_evals.evaluators import EvaluatorContext

    @dataclass
    class OneRequest(Evaluator[object, object, object]):
        def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> bool:
            return len(AgentRun.of(ctx).requests) == 1

    case = Case[object, object, object](
        name="a", inputs="hi", evaluators=[Contains("3"), OneRequest()]
    )
    dataset = Dataset[object, object, object](name="set", cases=[case])
    report = await dataset.evaluate(task(calculator("It is 3.")), progress=False)
    assert {name: result.value for name, result in report.cases[0].assertions.items()} == {
        "Contains": True,
        "OneRequest": True,
    }


async def test_the_value_of_a_schema_is_the_output() -> None:
    agent = Agent(
        "a",
        model=ScriptedModel(['{"city": "Oslo"}']),
        output_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    )
    case = Case[object, object, object](name="a", inputs="hi", expected_output={"city": "Oslo"})
    report = await evaluate(agent, Dataset[object, object, object](name="set", cases=[case]))
    assert outcomes_of(report).failing == []
    assert outcomes_of(report).cases["a"].checks == {"answer": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: trajectory("a", order="inorder"), "order is 'inorder'"),  # type: ignore[arg-type]
        (lambda: trajectory(cast("str", 3)), "3 is not a call"),
        (lambda: trajectory("a", turn=0), "turn is 0"),
        (lambda: answer(matches="("), "not a regular expression"),
        (lambda: answer(similar=80), "similar is 80"),
        (lambda: evidence(), "there is no text to look for"),
        (lambda: judge(" "), "there is no rubric"),
    ],
)
def test_what_cannot_be_right_is_refused(make: object, message: str) -> None:
    with pytest.raises(DeclarationError, match=message.replace("(", r"\(")):
        cast("type", make)()


async def test_an_output_without_a_run_says_what_to_evaluate() -> None:
    case = Case[object, object, object](name="a", inputs="hi", evaluators=[tokens(1)])
    dataset = Dataset[object, object, object](name="set", cases=[case])

    async def other(inputs: object) -> object:
        return inputs

    report = await dataset.evaluate(other, progress=False)
    (failure,) = report.cases[0].evaluator_failures
    assert "evaluate weft.evals.task(agent)" in failure.error_message


def test_without_the_extra_it_is_named() -> None:
    script = "import sys; sys.modules['pydantic_evals'] = None; import weft.evals"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "pydantic-evals is not installed" in done.stderr
    assert "pip install 'weft[evals]'" in done.stderr
