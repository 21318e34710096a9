"""Cases from files: pydantic-evals' datasets, and the eval sets of google-adk, older and newer."""

import inspect
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec
from pydantic import ValidationError
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator

from weft.content import Content
from weft.declare import Node, RunConfig
from weft.errors import UsageError
from weft.evals.evaluators import (
    EVALUATORS,
    CachedShare,
    EndState,
    EvidenceInView,
    ExpectedAnswer,
    Judge,
    MostMoney,
    MostTokens,
    Order,
    Trajectory,
)
from weft.evals.task import CaseInputs, task
from weft.late import late_pattern
from weft.misuse import find_near, join_few
from weft.values import Json, require_object

if TYPE_CHECKING:
    from pydantic_evals.reporting import EvaluationReport

    Report: TypeAlias = EvaluationReport[object, object, object]

Cases: TypeAlias = Dataset[object, object, object]
AnyCase: TypeAlias = Case[object, object, object]
AnyEvaluator: TypeAlias = Evaluator[object, object, object]

_BLIND = (Trajectory, EndState, MostTokens, MostMoney, CachedShare, EvidenceInView)
"""Evaluators that do not look at the expected output."""

_SIMILAR = 0.8
"""How similar google-adk wants an answer to be where nobody says."""


async def evaluate(
    root: Node,
    cases: "Cases | Path | str",
    *,
    repeat: int = 1,
    parallel: int = 1,
    config: RunConfig | None = None,
    progress: bool = False,
) -> "Report":
    """Run an agent on every case, `repeat` times each, and give pydantic-evals' report.

    A case without any expectation is refused before anything runs. `parallel` cases run at once.
    """
    for name, number in (("repeat", repeat), ("parallel", parallel)):
        if not isinstance(cast("object", number), int) or number < 1:
            raise UsageError(f"{name} is {number!r}", where="evaluate", hint="write 1 or more")
    dataset = read_cases(cases) if isinstance(cases, str | Path) else cases
    dataset = with_expectations(dataset)
    return await dataset.evaluate(
        task(root, config=config),
        task_name=root.name,
        repeat=repeat,
        max_concurrency=parallel,
        progress=progress,
    )


def with_expectations(dataset: Cases) -> Cases:
    """The dataset, where an expected output that no evaluator looks at is compared.

    A case that expects nothing passes whatever the agent does, so it is refused.
    """
    if not dataset.cases:
        raise UsageError("there are no cases", where=dataset.name, hint="add one under cases:")
    empty = [
        case.name or f"Case {number}"
        for number, case in enumerate(dataset.cases, 1)
        if case.expected_output is None and not case.evaluators and not dataset.evaluators
    ]
    if empty:
        raise UsageError(
            f"{'a case expects' if len(empty) == 1 else f'{len(empty)} cases expect'} nothing:"
            f" {join_few(empty)}",
            where=dataset.name,
            hint="add expected_output:, or evaluators: such as `- trajectory: [get_weather]`",
        )
    # all before the first run: a mistake in the last case must not cost the others
    for number, case in enumerate(dataset.cases, 1):
        _require_inputs(case, f"{dataset.name}, {case.name or f'case {number}'}")
    cases = [_with_expected_answer(case, dataset.evaluators) for case in dataset.cases]
    return Dataset(
        name=dataset.name,
        cases=cases,
        evaluators=dataset.evaluators,
        report_evaluators=dataset.report_evaluators,
    )


def _require_inputs(case: AnyCase, where: str) -> None:
    """Refuse inputs that cannot be said, before the cases in front of them are paid for."""
    try:
        conversation = CaseInputs.read(case.inputs)
    except UsageError as error:
        raise UsageError(error.message, where=f"{where}, {error.where}", hint=error.hint) from error
    for evaluator in case.evaluators:
        turn = (
            evaluator.turn if isinstance(evaluator, Trajectory | ExpectedAnswer | Judge) else None
        )
        if turn is not None and turn > len(conversation.messages):
            raise UsageError(
                f"there is no turn {turn}: the case has {len(conversation.messages)}",
                where=where,
                hint="turns count from 1, one for each message",
            )


def _with_expected_answer(case: AnyCase, shared: Sequence[AnyEvaluator]) -> AnyCase:
    everyone = [*case.evaluators, *shared]
    # some evaluator looks at the expected output already
    if case.expected_output is None or any(not isinstance(one, _BLIND) for one in everyone):
        return case
    return Case(
        name=case.name,
        inputs=case.inputs,
        metadata=case.metadata,
        expected_output=case.expected_output,
        evaluators=[ExpectedAnswer(), *case.evaluators],
    )


def read_cases(path: Path | str) -> Cases:
    """The cases of a file: a dataset as YAML or JSON, or google-adk's `*.evalset.json`."""
    path = Path(path)
    content = _read_file(path)
    if isinstance(content, list):
        return _adk_set(path, _older(cast("list[object]", content), path))
    if isinstance(content, Mapping):
        fields = cast("Mapping[str, object]", content)
        if "eval_cases" in fields or "evalCases" in fields:
            cases = _field(fields, "eval_cases")
            if not isinstance(cases, list):
                raise _unreadable(path, "eval_cases is not a list")
            return _adk_set(path, _newer(cast("list[object]", cases), path))
        if "cases" in fields:
            return _dataset(path, fields)
    raise _unreadable(path, "it is neither a dataset nor an eval set")


def _read_file(path: Path) -> object:
    import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return cast("object", json.loads(text))
        return cast("object", yaml.safe_load(text))
    except OSError as error:
        hint = "name a file such as cases.yaml"
        raise UsageError(str(error.strerror), where=str(path), hint=hint) from error
    except (ValueError, yaml.YAMLError) as error:
        raise _unreadable(path, " ".join(str(error).split())) from error


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        why, where=str(path), hint="write `cases:` with a list of `- inputs: ...` below it"
    )


def _dataset(path: Path, fields: Mapping[str, object]) -> Cases:
    kind = Dataset[object, object, object]
    name = path.name.removesuffix(path.suffix)
    try:
        return kind.from_dict(_with_values(fields), [*EVALUATORS], default_name=name)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _unreadable(path, f"{place}: {first['msg']}") from error
    except ExceptionGroup as group:
        # the first is enough: the others come up when it is mended
        leaf = next(_leaves(group))
        raise _wrong_evaluator(path, " ".join(str(leaf).split())) from group
    except (ValueError, TypeError) as error:
        raise _wrong_evaluator(path, " ".join(str(error).split())) from error


_UNKNOWN = late_pattern(
    r"Evaluator '([^']*)' is not in the provided .*?Valid choices: \[([^\]]*)\]"
)

_MISUSED = late_pattern(r"Failed to instantiate evaluator '([^']*)' for ([^:]*): (.*)")


def _wrong_evaluator(path: Path, why: str) -> UsageError:
    """The error for a dataset that cannot be made, mostly because an evaluator is misspelled."""
    if unknown := _UNKNOWN.search(why):
        known = re.findall(r"'([^']*)'", unknown[2])
        near = find_near(unknown[1], known, cutoff=0.5)
        meant = f"did you mean `{near[0]}`? " if near else ""
        message = f"there is no evaluator `{unknown[1]}`"
        return UsageError(message, where=str(path), hint=f"{meant}known: {', '.join(known)}")
    if misused := _MISUSED.search(why):
        kinds = {kind.get_serialization_name(): kind for kind in EVALUATORS}
        kind = kinds.get(misused[1])
        takes = [*inspect.signature(kind).parameters] if kind is not None else []
        return UsageError(
            f"the evaluator `{misused[1]}` of {misused[2]}: {misused[3]}",
            where=str(path),
            hint=f"`{misused[1]}` takes {', '.join(takes)}" if takes else "see its documentation",
        )
    return _unreadable(path, why)


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _with_values(fields: Mapping[str, object]) -> dict[str, object]:
    """The dataset with `state: {key: value}` written as the evaluator's argument."""

    def name_values(spec: object) -> object:
        inner = cast("Mapping[str, object]", spec).get("state") if _is_state(spec) else None
        if isinstance(inner, Mapping) and "values" not in inner:
            return {"state": {"values": cast("object", inner)}}
        return spec

    def holder(value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        parts = dict(cast("Mapping[str, object]", value))
        specs = parts.get("evaluators")
        if isinstance(specs, list):
            parts["evaluators"] = [name_values(spec) for spec in cast("list[object]", specs)]
        return parts

    whole = cast("dict[str, object]", holder(fields))
    cases = whole.get("cases")
    if isinstance(cases, list):
        whole["cases"] = [holder(case) for case in cast("list[object]", cases)]
    return whole


def _is_state(spec: object) -> bool:
    return isinstance(spec, Mapping) and set(cast("Mapping[str, object]", spec)) == {"state"}


# --- google-adk


class _AdkTurn(msgspec.Struct, frozen=True):
    """One invocation of an eval set: what is said, and what is expected of it."""

    message: str
    calls: list[dict[str, object]] | None = None
    answer: str | None = None
    rubrics: tuple[str, ...] = ()


class _AdkCase(msgspec.Struct, frozen=True):
    """One case of an eval set."""

    name: str
    turns: tuple[_AdkTurn, ...]
    state: dict[str, Json] = {}
    user_id: str = ""
    end_state: dict[str, Json] = {}
    rubrics: tuple[str, ...] = ()


class _Criteria(msgspec.Struct, frozen=True):
    """What a `test_config.json` next to the eval set asks for; else google-adk's defaults."""

    order: Order | None = "exact"
    similar: float | None = _SIMILAR
    rubrics: bool = False


def _adk_set(path: Path, cases: Iterator[_AdkCase]) -> Cases:
    criteria = _criteria(path.with_name("test_config.json"))
    name = path.name.removesuffix(".json").removesuffix(".evalset").removesuffix(".test")
    converted = [_adk_case(case, criteria) for case in cases]
    skipped = sum(len(case.rubrics) for case, _ in converted if not criteria.rubrics)
    if skipped:
        warnings.warn(
            f"{path}: {skipped} rubrics are not judged; name a rubric_based criterion in"
            " test_config.json, or add judge(...) evaluators",
            stacklevel=3,
        )
    return Dataset(name=name, cases=[case for _, case in converted])


def _adk_case(case: _AdkCase, criteria: _Criteria) -> tuple[_AdkCase, AnyCase]:
    inputs: dict[str, object] = {"messages": [turn.message for turn in case.turns]}
    if case.state:
        inputs["state"] = case.state
    if case.user_id:
        inputs["user_id"] = case.user_id
    evaluators: list[AnyEvaluator] = []
    for number, turn in enumerate(case.turns, 1):
        # a single turn needs no number in the report
        place = number if len(case.turns) > 1 else None
        if turn.calls is not None and criteria.order is not None:
            evaluators.append(Trajectory([*turn.calls], criteria.order, turn=place))
        if turn.answer is not None and criteria.similar is not None:
            evaluators.append(ExpectedAnswer(turn.answer, similar=criteria.similar, turn=place))
        if criteria.rubrics:
            evaluators += [Judge(rubric, turn=place) for rubric in turn.rubrics]
    if case.end_state:
        evaluators.append(EndState(case.end_state))
    if criteria.rubrics:
        evaluators += [Judge(rubric) for rubric in case.rubrics]
    every = (*case.rubrics, *(rubric for turn in case.turns for rubric in turn.rubrics))
    return msgspec.structs.replace(case, rubrics=every), Case(
        name=case.name, inputs=inputs, evaluators=evaluators
    )


def _older(cases: list[object], path: Path) -> Iterator[_AdkCase]:
    """Cases as a list: with turns under `data`, or one turn each."""
    for number, item in enumerate(cases, 1):
        where = f"{path}, case {number}"
        case = _object(item, where)
        session = _object(case.get("initial_session") or {}, where)
        turns = case.get("data", [case])
        if not isinstance(turns, list):
            raise UsageError("data is not a list", where=where, hint="write a list of turns")
        yield _AdkCase(
            name=str(case.get("name") or f"case {number}"),
            turns=tuple(_older_turn(turn, where) for turn in cast("list[object]", turns)),
            state=require_object(session.get("state") or {}, where=where),
            user_id=str(session.get("user_id") or ""),
        )


def _older_turn(item: object, where: str) -> _AdkTurn:
    turn = _object(item, where)
    query = turn.get("query")
    if not isinstance(query, str):
        raise UsageError("a turn has no query", where=where, hint='write {"query": "..."}')
    uses = turn.get("expected_tool_use")
    calls: list[dict[str, object]] | None = None
    if isinstance(uses, list):
        calls = [
            {"name": use.get("tool_name"), "args": use.get("tool_input") or {}}
            for use in (_object(use, where) for use in cast("list[object]", uses))
        ]
    reference = turn.get("reference")
    return _AdkTurn(query, calls, reference if isinstance(reference, str) and reference else None)


def _newer(cases: list[object], path: Path) -> Iterator[_AdkCase]:
    """Cases as google-adk's own classes write them."""
    for number, item in enumerate(cases, 1):
        case = _object(item, f"{path}, case {number}")
        name = str(_field(case, "eval_id") or f"case {number}")
        where = f"{path}, {name}"
        turns = case.get("conversation")
        if not isinstance(turns, list):
            raise UsageError(
                "the case has no conversation to follow",
                where=where,
                hint="write its turns under conversation; Weft simulates no user",
            )
        session = _object(_field(case, "session_input") or {}, where)
        yield _AdkCase(
            name=name,
            turns=tuple(_newer_turn(turn, where) for turn in cast("list[object]", turns)),
            state=require_object(session.get("state") or {}, where=where),
            user_id=str(_field(session, "user_id") or ""),
            end_state=require_object(_field(case, "final_session_state") or {}, where=where),
            rubrics=_rubrics(case, where),
        )


def _newer_turn(item: object, where: str) -> _AdkTurn:
    turn = _object(item, where)
    message = _text(_field(turn, "user_content"), where)
    if not message:
        raise UsageError("a turn says nothing", where=where, hint="only texts are read")
    final = _field(turn, "final_response")
    data = _field(turn, "intermediate_data")
    calls = None if data is None else _calls(_object(data, where), where)
    return _AdkTurn(message, calls, _text(final, where) or None, _rubrics(turn, where))


def _calls(data: Mapping[str, object], where: str) -> list[dict[str, object]]:
    """The calls of a turn, which stand in a list of their own or in its events."""
    uses = _field(data, "tool_uses")
    if not isinstance(uses, list):
        events = cast("list[object]", _field(data, "invocation_events") or [])
        uses = [
            call
            for event in events
            for part in _parts(_object(event, where).get("content"), where)
            if (call := _field(part, "function_call")) is not None
        ]
    objects = [_object(use, where) for use in cast("list[object]", uses)]
    return [{"name": use.get("name"), "args": use.get("args") or {}} for use in objects]


def _text(content: object, where: str) -> str:
    if content is None:
        return ""
    media = [part for part in _parts(content, where) if not isinstance(part.get("text"), str)]
    if media:
        raise UsageError(
            f"a part of a turn is not text: {', '.join(media[0])}",
            where=where,
            hint="write the case in Python, with a task of your own",
        )
    return msgspec.convert(content, Content, strict=False).text


def _parts(content: object, where: str) -> list[Mapping[str, object]]:
    parts = cast("list[object]", _object(content or {}, where).get("parts") or [])
    return [_object(part, where) for part in parts]


def _rubrics(holder: Mapping[str, object], where: str) -> tuple[str, ...]:
    texts: list[str] = []
    for item in cast("list[object]", holder.get("rubrics") or []):
        content = _object(_field(_object(item, where), "rubric_content") or {}, where)
        text = _field(content, "text_property")
        if isinstance(text, str) and text:
            texts.append(text)
    return tuple(texts)


_ORDERS: dict[object, Order] = {
    "EXACT": "exact",
    "IN_ORDER": "in_order",
    "ANY_ORDER": "any_order",
    0: "exact",
    1: "in_order",
    2: "any_order",
}


def _criteria(path: Path) -> _Criteria:
    """What the file asks for. A criterion that Weft does not have is named, not passed over."""
    if not path.is_file():
        return _Criteria()
    asked = _object(_object(_read_file(path), str(path)).get("criteria") or {}, str(path))
    order: Order | None = None
    similar: float | None = None
    rubrics = False
    for name, value in asked.items():
        fields = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
        threshold = fields["threshold"] if "threshold" in fields else asked[name]
        if name == "tool_trajectory_avg_score":
            order = _ORDERS.get(_field(fields, "match_type") or "EXACT", "exact")
        elif name == "response_match_score" and isinstance(threshold, int | float):
            similar = float(threshold)
        elif name.startswith("rubric_based"):
            rubrics = True
        else:
            warnings.warn(f"{path}: Weft has no criterion {name}", stacklevel=4)
    return _Criteria(order, similar, rubrics)


def _field(holder: Mapping[str, object], name: str) -> object:
    """A field by its name in snake case or in camel case: eval sets have both."""
    first, *rest = name.split("_")
    return holder.get(name, holder.get(first + "".join(map(str.capitalize, rest))))


def _object(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    raise UsageError(f"{value!r} is not an object", where=where, hint="write {...}")
