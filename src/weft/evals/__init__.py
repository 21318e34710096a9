"""Evaluations of agents, on pydantic-evals: its datasets and reports, and what only Weft can see.

`task(agent)` is the function that a `Dataset` evaluates. The evaluators look at the run that made
an answer: the calls, the state, the tokens, the money, and the requests that the model was sent.
"""

from weft.errors import UsageError

try:
    from weft.evals.cases import evaluate, read_cases
    from weft.evals.evaluators import (
        answer,
        cached,
        cost,
        evidence,
        judge,
        state,
        tokens,
        trajectory,
    )
    from weft.evals.task import (
        AgentRun,
        Outcomes,
        Regression,
        compare,
        outcomes_of,
        read_outcomes,
        task,
    )
except ModuleNotFoundError as error:
    if not (error.name or "").startswith(("pydantic", "yaml")):
        raise
    raise UsageError(
        "pydantic-evals is not installed", where="weft.evals", hint="pip install 'weft[evals]'"
    ) from error

__all__ = [
    "AgentRun",
    "Outcomes",
    "Regression",
    "answer",
    "cached",
    "compare",
    "cost",
    "evaluate",
    "evidence",
    "judge",
    "outcomes_of",
    "read_cases",
    "read_outcomes",
    "state",
    "task",
    "tokens",
    "trajectory",
]
