"""Agents as tasks of pydantic-evals, and the outcomes in a form to keep.

One case is a conversation in a session of its own. An outcome has pass rates and costs by case;
two of them tell what got worse.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
from pydantic_evals import set_eval_attribute
from pydantic_evals.evaluators import EvaluatorContext

from weft.compiler.report import block_text
from weft.declare import CallbackContext, Node, RunBudget, RunConfig
from weft.errors import RunError, UsageError
from weft.ir import Block, Prompt, ResultBlock
from weft.misuse import suggest_names
from weft.runtime.costs import cost_of, is_priced
from weft.runtime.result import Result, total_usage
from weft.runtime.runner import Runner
from weft.session import Event, Usage
from weft.session.lookback import CONFIRMATION
from weft.values import Json, JsonObject, require_object

if TYPE_CHECKING:
    from pydantic_evals.reporting import ReportCase

    from weft.evals.cases import Report


ATTRIBUTE = "weft"
"""Under which attribute of a case its run is kept."""

_NO_LIMIT = RunBudget(tokens=10**15)
"""A run with a budget counts the tokens of answers whose provider reports none."""


class MadeCall(msgspec.Struct, frozen=True):
    """A tool call that a model made, and in which turn of the conversation, from 1."""

    name: str
    args: JsonObject
    turn: int = 1


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """What one case's run did. Evaluators of your own get it with `AgentRun.of(ctx)`."""

    answers: list[str]
    """The answer of each turn."""
    calls: list[MadeCall]
    state: JsonObject
    """The state at the end."""
    tokens: int
    """Of all requests and answers, as reported; estimated where nothing is reported."""
    money: float | None
    """In US dollars; None if a model has no price, or reports no usage."""
    cached: float | None
    """Which share of the request tokens came from the provider's cache; None if not reported."""
    requests: list[str] = field(repr=False)
    """The text of each request, in order: system, tools, history."""

    @staticmethod
    def of(ctx: EvaluatorContext[object, object, object]) -> "AgentRun":
        """The run that made a case's output."""
        run = cast("object", ctx.attributes.get(ATTRIBUTE))
        if isinstance(run, AgentRun):
            return run
        raise UsageError(
            "no agent's run made this output",
            where=f"case {ctx.name}",
            hint="evaluate weft.evals.task(agent)",
        )


def task(
    root: Node, *, config: RunConfig | None = None, plugins: Sequence[object] = ()
) -> Callable[[object], Awaitable[object]]:
    """The agent as a function that a pydantic-evals `Dataset` evaluates.

    The inputs of a case are a message, a list of messages that are said one after the other, or
    `{message: ..., state: ..., answers: ..., user_id: ...}`. Every case has a session of its own,
    in memory. The output is the last answer: its value if
    the agent has an output schema, as JSON, else its text. A run that ends with an error, or waits
    for an answer that the case does not give, is a failed case.

    >>> await dataset.evaluate(task(agent))
    """
    config = config if config is not None else RunConfig()
    if config.budget is None:
        config = msgspec.structs.replace(config, budget=_NO_LIMIT)
    elif config.budget.tokens is None:
        budget = msgspec.structs.replace(config.budget, tokens=_NO_LIMIT.tokens)
        config = msgspec.structs.replace(config, budget=budget)
    Runner(root, plugins=plugins, config=config)  # says now what is wrong with them

    async def run_case(inputs: object) -> object:
        seen = _SeenRequests()
        conversation = CaseInputs.read(inputs)
        async with Runner(root, plugins=[*plugins, seen], config=config) as runner:
            results = await conversation.play(runner)
        set_eval_attribute(ATTRIBUTE, _run_of(results, seen.requests))
        return _output(results[-1])

    run_case.__name__ = run_case.__qualname__ = root.name
    return run_case


class CaseInputs(msgspec.Struct, frozen=True):
    """The inputs of a case: messages in a row, the state they begin with, answers to questions."""

    messages: tuple[str, ...]
    state: JsonObject = {}
    answers: JsonObject = {}
    """By tool name: what a call that waits gets; True or False where it asks for approval."""
    user_id: str = "user"

    @staticmethod
    def read(inputs: object) -> "CaseInputs":
        """The inputs of a case, or what is wrong with them."""
        if isinstance(inputs, Mapping):
            return _conversation(cast("Mapping[str, object]", inputs))
        return CaseInputs(_messages(inputs))

    async def play(self, runner: Runner) -> list[Result]:
        """Run the turns, and return the result of each."""
        results: list[Result] = []
        session_id = "case"
        for message in self.messages:
            # the state is given with the first message only
            state = None if results else self.state
            result = await runner.run(
                message, user_id=self.user_id, session_id=session_id, state=state
            )
            parts = [result.check()]
            # an answer may lead to the next question
            while result.waiting:
                answers = {id: self._answer(name) for id, name in result.waiting.items()}
                result = await runner.resume(
                    user_id=self.user_id, session_id=session_id, answers=answers
                )
                parts.append(result.check())
            results.append(_join_results(parts))
        return results

    def _answer(self, name: str) -> Json:
        if name not in self.answers:
            raise RunError(
                f"the run waits for an answer to `{name}`",
                where="inputs",
                hint=f"give it in the case: inputs: {{message: ..., answers: {{{name}: true}}}}",
            )
        return self.answers[name]


_FIELDS = ("message", "messages", "state", "answers", "user_id")


def _conversation(inputs: Mapping[str, object]) -> CaseInputs:
    unknown = next((key for key in inputs if key not in _FIELDS), None)
    if unknown is not None:
        raise UsageError(
            f"inputs have no `{unknown}`",
            where="inputs",
            hint=suggest_names(unknown, _FIELDS) or f"there are {', '.join(_FIELDS)}",
        )
    if ("message" in inputs) == ("messages" in inputs):
        raise UsageError(
            "the case has both message and messages" if "message" in inputs else "nothing is said",
            where="inputs",
            hint="write message: for one turn, or messages: for several",
        )
    user_id = inputs.get("user_id", "user")
    if not isinstance(user_id, str) or not user_id:
        raise UsageError(f"user_id is {user_id!r}", where="inputs", hint="write a text")
    return CaseInputs(
        _messages(inputs.get("message", inputs.get("messages"))),
        require_object(inputs.get("state") or {}, where="inputs.state"),
        require_object(inputs.get("answers") or {}, where="inputs.answers"),
        user_id,
    )


def _messages(value: object) -> tuple[str, ...]:
    several = isinstance(value, list | tuple)
    messages = cast("Sequence[object]", value) if several else [value]
    for message in messages:
        if not isinstance(message, str) or not message.strip():
            raise UsageError(
                f"{message!r} is not a message", where="inputs", hint="write a text, or several"
            )
    if not messages:
        raise UsageError("nothing is said", where="inputs", hint="write a text, or several")
    return tuple(cast("Sequence[str]", messages))


def _join_results(parts: Sequence[Result]) -> Result:
    """The result of a turn that was answered in between: all its events, the last answer."""
    if len(parts) == 1:
        return parts[0]
    events: dict[str, Event] = {event.id: event for part in parts for event in part.events}
    last = parts[-1]
    return Result(
        text=last.text,
        value=last.value,
        events=tuple(events.values()),
        session=last.session,
        usage=total_usage(events.values()),
        invocation_id=last.invocation_id,
        diagnostics=last.diagnostics,
    )


class _SeenRequests:
    """A plugin that keeps the text of every request."""

    name = "weft_evals"

    def __init__(self) -> None:
        self.requests: list[str] = []

    def before_model(self, ctx: CallbackContext, prompt: Prompt) -> None:
        """Keep the text of a request. An agent's own `before_model` comes after this."""
        tools = [f"{tool.name}: {tool.description}" for tool in prompt.tools]
        texts = [text for item in prompt.items for block in item.blocks for text in _texts(block)]
        self.requests.append("\n\n".join([prompt.system_text, *tools, *texts]))


def _texts(block: Block) -> Iterator[str]:
    """What a block says; of a result also its texts as they were before they became JSON."""
    yield block_text(block)
    if isinstance(block, ResultBlock):
        yield from _leaves(block.response)


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _run_of(results: Sequence[Result], requests: list[str]) -> AgentRun:
    """What the turns of a conversation did, together."""
    calls = [
        MadeCall(call.name or "", dict(call.args or {}), turn)
        for turn, result in enumerate(results, 1)
        for event in result.events
        if event.author != "user"
        for call in event.calls
        if call.name != CONFIRMATION
    ]
    events = [event for result in results for event in result.events]
    spent = [cost_of(event, priced=True) for event in events if _is_answer(event)]
    return AgentRun(
        answers=[result.text for result in results],
        calls=calls,
        state=results[-1].state,
        tokens=sum(tokens for tokens, _ in spent),
        money=sum(money for _, money in spent) if _is_priced(events) else None,
        cached=_cached_share(total_usage(events)),
        requests=requests,
    )


def _is_answer(event: Event) -> bool:
    return event.usage is not None or event.provenance.spent is not None


def _is_priced(events: Sequence[Event]) -> bool:
    """Whether the price of every answer is known."""
    return all(
        (charge := event.provenance.spent) is not None
        and is_priced(charge.model or event.model_version or "")
        and (event.usage is not None or charge.money is not None)
        for event in events
        if _is_answer(event)
    )


def _cached_share(usage: Usage) -> float | None:
    if not usage.prompt_token_count or usage.cached_content_token_count is None:
        return None
    return usage.cached_content_token_count / usage.prompt_token_count


def _output(result: Result) -> object:
    """The answer as JSON, so that a dataset in a file can say what is expected."""
    if isinstance(result.value, str):
        return result.text
    try:
        return cast("object", msgspec.to_builtins(result.value))
    except TypeError:  # a pydantic model, which pydantic-evals knows how to compare
        return _dump_json(result.value)


def _dump_json(value: object) -> object:
    from pydantic import TypeAdapter

    return cast("object", TypeAdapter(type(value)).dump_python(value, mode="json"))


# --- outcomes

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
