"""Outcomes of an evaluation in a form to keep: pass rates and costs by case, and what got worse."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.errors import UsageError
from weft.evals.task import ATTRIBUTE, AgentRun

if TYPE_CHECKING:
    from pydantic_evals.reporting import ReportCase

    from weft.evals.cases import Report

_LONGEST = 400
"""Characters of a reason that are kept."""


class CaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one case in all its runs."""

    runs: int
    passed: int
    """How many runs passed every check."""
    checks: dict[str, int] = {}
    """How many runs passed each check."""
    scores: dict[str, float] = {}
    """The mean of each score."""
    tokens: float | None = None
    money: float | None = None
    cached: float | None = None
    reasons: tuple[str, ...] = ()
    """Why runs did not pass, each reason once."""

    @property
    def rate(self) -> float:
        """Which share of the runs passed."""
        return self.passed / self.runs if self.runs else 0.0


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a dataset: a case a row."""

    dataset: str
    agent: str
    cases: dict[str, CaseOutcome]
    version: int = 1

    @property
    def failing(self) -> list[str]:
        """The cases that did not pass every time."""
        return [name for name, case in self.cases.items() if case.passed < case.runs]

    @property
    def tokens(self) -> float:
        """The tokens of one run of every case."""
        return sum(case.tokens or 0.0 for case in self.cases.values())

    @property
    def money(self) -> float | None:
        """The dollars of one run of every case; None where a price is not known."""
        known = [case.money for case in self.cases.values() if case.money is not None]
        return sum(known) if len(known) == len(self.cases) else None

    def save(self, path: Path | str) -> None:
        """Write them as JSON, for `read_outcomes`."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        Path(path).write_bytes(text + b"\n")


class Regression(NamedTuple):
    """A case or a check of it that passes less often than before."""

    case: str
    check: str
    """Empty for the whole case."""
    before: float
    after: float

    def __str__(self) -> str:
        what = f"{self.case}, {self.check}" if self.check else self.case
        return f"{what}: passed {self.before:.0%} before, {self.after:.0%} now"


def outcomes_of(report: "Report") -> Outcomes:
    """The outcomes in pydantic-evals' report."""
    runs: dict[str, list[ReportCase[object, object, object]]] = {}
    broken: dict[str, list[str]] = {}
    for case in report.cases:
        runs.setdefault(case.source_case_name or case.name, []).append(case)
    for failure in report.failures:
        name = failure.source_case_name or failure.name
        broken.setdefault(name, []).append(failure.error_message)
    names = dict.fromkeys([*runs, *broken])
    return Outcomes(
        dataset=report.dataset_name or "",
        agent=report.name,
        cases={name: _outcome(runs.get(name, []), broken.get(name, [])) for name in names},
    )


def _outcome(
    cases: "Sequence[ReportCase[object, object, object]]", errors: Sequence[str]
) -> CaseOutcome:
    checks: dict[str, int] = {}
    reasons = [f"the run failed: {error}" for error in errors]
    scores: dict[str, list[float]] = {}
    passed = 0
    for case in cases:
        fails = list(_failures(case))
        passed += not fails
        reasons += fails
        for name, result in case.assertions.items():
            checks[name] = checks.get(name, 0) + bool(result.value)
        for failure in case.evaluator_failures:
            checks.setdefault(failure.name, 0)
        for name, score in case.scores.items():
            scores.setdefault(name, []).append(float(score.value))
    traces = [cast("object", case.attributes.get(ATTRIBUTE)) for case in cases]
    known = [trace for trace in traces if isinstance(trace, AgentRun)]
    return CaseOutcome(
        runs=len(cases) + len(errors),
        passed=passed,
        checks=checks,
        scores={name: fmean(values) for name, values in scores.items()},
        tokens=_mean(run.tokens for run in known),
        money=_mean(run.money for run in known),
        cached=_mean(run.cached for run in known),
        reasons=tuple(dict.fromkeys(reason[:_LONGEST] for reason in reasons)),
    )


def _failures(case: "ReportCase[object, object, object]") -> Iterator[str]:
    """Why a run did not pass."""
    for name, result in case.assertions.items():
        if not result.value:
            yield f"{name}: {result.reason}" if result.reason else name
    for failure in case.evaluator_failures:
        yield f"{failure.name} could not be evaluated: {failure.error_message}"


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [*values]
    known = [number for number in numbers if number is not None]
    # a mean over some of the runs would look like one over all
    return fmean(known) if known and len(known) == len(numbers) else None


def read_outcomes(path: Path | str) -> Outcomes:
    """Outcomes that were saved."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Outcomes)
    except OSError as error:
        hint = "write one with `weft eval ... --save FILE`"
        raise UsageError(str(error.strerror), where=str(path), hint=hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"it holds no outcomes: {error}",
            where=str(path),
            hint="write it anew with `weft eval ... --save FILE`",
        ) from error


def compare(now: Outcomes, before: Outcomes, *, tolerance: float = 0.0) -> list[Regression]:
    """What passes less often than before, by more than the tolerance.

    A case that is new counts as one that always passed. Cases and checks that are gone say
    nothing. A whole case is named only where none of its checks explains the loss.
    """
    regressions: list[Regression] = []
    for name, case in now.cases.items():
        old = before.cases.get(name)
        if old is None:
            if _is_less(case.rate, 1.0, tolerance):
                regressions.append(Regression(name, "", 1.0, case.rate))
            continue
        checks = [
            Regression(name, check, count / old.runs, case.checks.get(check, 0) / case.runs)
            for check, count in old.checks.items()
            if check in case.checks
            and _is_less(case.checks[check] / case.runs, count / old.runs, tolerance)
        ]
        if not checks and _is_less(case.rate, old.rate, tolerance):
            checks = [Regression(name, "", old.rate, case.rate)]
        regressions += checks
    return regressions


def _is_less(after: float, before: float, tolerance: float) -> bool:
    # shares of runs are floats: equal ones may differ in the last digit
    return after < before - tolerance and not math.isclose(after, before - tolerance)
