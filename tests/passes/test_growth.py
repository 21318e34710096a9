"""One more step costs what it added: what is kept is right, and nothing looks at all items."""

import ast
import builtins
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.linear import calls
from tests.support.strategies import logs
from tests.support.tools import look
from weft import Agent, C, Content, Event, Part, Session, TokenBudget
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.content import call_part, result_part
from weft.declare import Policy
from weft.declare.policy_parts import (
    ArtifactText,
    Auto,
    Compact,
    Dedupe,
    Distill,
    Everything,
    Extract,
    Fence,
    Fit,
    Folding,
    Fresh,
    FromAgents,
    Hide,
    Label,
    Matching,
    Memories,
    Notes,
    Nothing,
    Priority,
    Project,
    Recent,
    Redact,
    Relevant,
    StateKeys,
    Summarize,
    ThisTurn,
    Truncate,
    UserWords,
    Validate,
    Window,
    WithoutAgents,
)
from weft.errors import WeftError
from weft.passes.verbs import VERBS
from weft.values import Json

PASSES = Path(__file__).parents[2] / "src" / "weft" / "passes"

LOOKS_AT_ALL = {
    "_restore_at_once": "once a request, where a budget or a later result decides",
    "_select": "once a turn: the query is the turn's",
    "_replace_superseded": "once a request: the last result decides about all before it",
    "explain_excess": "when nothing fits, for the error",
    "_largest": "when nothing fits, for the error",
    "_left_by_budget": "once a request under a budget",
    "_look_at": "behind what is sealed",
    "_view_until_now": "once a request whose policy writes",
    "_stale": "where items stand in no order of time, or with a warning",
    "fence_untrusted": "once a request, where a settled item inserts state",
    "_copy_prompt": "once a request with a pass of the user's: it is run on a copy first",
    "_spell_prompt": "once a request with a pass of the user's",
    "_require_same": "once a request with a pass of the user's",
    "_fit_best": "once a request under .fit(...), where items have scores",
    "item_sizes": "only what is new, but where items have scores",
    "_mark_each": "where items stand in no order of time, or with a warning",
    "pair_results": "only what is new",
    "reduce_results": "only what is new, but for several views",
    "summarize_items": "once a request under .summarize(...)",
    "_sum_up": "once a request under .summarize(...)",
    "_with_summaries": "once a request under .summarize(...)",
    "beside": "once a request under .summarize(...)",
    "validate_context": "once a request under .validate(...)",
    "_calls": "once a request under .validate(...)",
    "_incomplete": "once a request under .validate(...)",
    "_lost_handles": "once a request under .validate(...)",
    "asked_for": "once a request under .validate(...)",
}
"""Functions of passes that look at all items, and how often."""


def _names_that_look_at_all(tree: ast.Module) -> Iterator[str]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            looked: list[ast.expr] = []
            if isinstance(node, ast.For | ast.comprehension):
                looked = [node.iter]
            elif isinstance(node, ast.Starred):
                looked = [node.value]
            elif isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in ("list", "tuple", "enumerate", "zip", "map", "sorted", "set"):
                    looked = node.args
                elif name.endswith("items.since") and ast.unparse(node.args[0]) == "0":
                    yield function.name
            if any(ast.unparse(one).endswith("prompt.items") for one in looked):
                yield function.name


@pytest.mark.parametrize("path", sorted(PASSES.glob("*.py")), ids=lambda path: path.stem)
def test_a_pass_looks_at_all_items_only_where_it_says_how_often(path: Path) -> None:
    found = {*_names_that_look_at_all(ast.parse(path.read_text()))}
    assert found <= LOOKS_AT_ALL.keys(), f"use rewrite_items or keep_since: {found}"


EXAMPLES: dict[type[msgspec.Struct], Policy] = {
    Everything: C.default(),
    ThisTurn: C.none(),
    Nothing: C.nothing(),
    Auto: C.auto(),
    UserWords: C.user("last"),
    Window: C.window(2),
    FromAgents: C.agents("bot"),
    WithoutAgents: C.without_agents("bot"),
    Matching: C.select(kind="results"),
    Recent: C.recent(half_life=1, min_score=0.5),
    Relevant: C.relevant(top_k=8),
    StateKeys: C.window(2) + C.state("intent"),
    Notes: C.window(2) + C.notes("plan"),
    ArtifactText: C.window(2) + C.artifact("plan"),
    Memories: C.default() + C.memory(),
    Compact: C.window(2).compact(results=64, texts=64, to=64, media=1),
    Truncate: C.window(2).truncate(8),
    Project: C.window(2).project(fields="result"),
    Priority: C.window(2).priority(2),
    Dedupe: C.default().dedupe(),
    Summarize: C.default().summarize(before=1),
    Fit: C.default().fit(2000),
    Fresh: C.default().fresh(turns=3),
    Folding: C.default().fold(),
    Label: C.default().label("secret", "plan"),
    Redact: C.default().redact("email"),
    Fence: C.default().fence(),
    Hide: C.default().hide(),
    Validate: C.default().validate(),
    Extract: C.default().extract(dict[str, str], "plan"),
    Distill: C.default().distill("plan"),
}
"""A policy for every verb; the natures of its entry in `VERBS` are held against it."""

COMBINED = {
    "compact at birth": C.default().compact(),
    "careful": C.auto(careful=True),
    "auto with a step": C.auto().dedupe(),
    "budget": C.default().budget(8000),
    "budget that drops": C.default().budget(8000, overflow="drop"),
    "token budget": C.default(),
    "fresh by time": C.default().fresh(seconds=600),
    "relevant that fits": C.relevant().fit(1000),
    "union": C.window(10) + C.select(kind="user"),
    "union with relevance": C.window(3) + C.relevant().fit(1000),
}
"""Policies of several verbs, and of options that have a way of their own."""


def test_every_verb_has_an_example() -> None:
    assert EXAMPLES.keys() == VERBS.keys(), "give it a policy in EXAMPLES"


def group(number: int, *, turns: bool) -> list[Event]:
    """Four events: what begins them, a call, its result, an answer."""
    invocation = f"i{number}" if turns else "i0"
    same = "the same long value, " * 20
    rows = "\n".join(f"row {k} of {number}: value {k * number}" for k in range(12))
    begins = ("user", "user", Part(text=f"question {number}, mail jane{number % 5}@example.org"))
    if number and not turns:
        begins = ("bot", "model", Part(text=f"step {number}"))
    said = [
        begins,
        ("bot", "model", call_part("look", {"city": f"c{number}"}, id=f"c{number}")),
        (
            "bot",
            "user",
            result_part("look", {"result": rows if number % 3 else same}, id=f"c{number}"),
        ),
        ("bot", "model", Part(text=f"answer {number}: it is fine in city {number % 7}")),
    ]
    return [
        Event(
            author=author, invocation_id=invocation, id=f"e{number}_{at}",
            timestamp=float(4 * number + at), content=Content(role=role, parts=(part,)),
        )
        for at, (author, role, part) in enumerate(said)
    ]  # fmt: skip


def snapshots(length: int, *, turns: bool) -> list[Session]:
    """A session of so many events, and as it grows event by event."""
    first = length // 4
    grown = [Session("s", events=[e for n in range(first) for e in group(n, turns=turns)])]
    for number in range(first, first + 5):
        for event in group(number, turns=turns):
            grown.append(grown[-1].append(event))
    return grown


def work_of_a_step(agent: Agent, grown: list[Session]) -> float:
    """How many functions are called for one more step, as usual; relevance begins turns apart."""
    for session in grown[:9]:  # the first steps read once what the cold one did not need
        _ = compile(agent, session=session).wire
    late = sorted(
        calls(lambda session=session: compile(agent, session=session).wire) for session in grown[9:]
    )
    return late[len(late) // 4]


GROWING = {
    **{
        word.__name__: policy
        for word, policy in EXAMPLES.items()
        if word not in VERBS or VERBS[word].nature.looks != "whole"
    },
    **COMBINED,
}
"""Policies under which a step costs what it added: all but of verbs that say otherwise."""


@pytest.mark.parametrize("turns", [True, False], ids=["many turns", "one long turn"])
def test_one_more_step_costs_what_it_added(turns: bool) -> None:
    small, large = (snapshots(length, turns=turns) for length in (250, 2_500))
    grows: dict[str, float] = {}
    for name, policy in GROWING.items():
        agent = Agent("bot", model="gpt-4o", tools=[look], instruction="Be brief.").sees(policy)
        if name == "token budget":
            agent = replace(agent, context_compressor=TokenBudget(8000, keep_recent=2))
        before, after = work_of_a_step(agent, small), work_of_a_step(agent, large)
        grows[name] = math.log10(after / before)
    assert {name: grown for name, grown in grows.items() if grown >= 0.2} == {}


WALKED = {
    **{word.__name__: policy for word, policy in EXAMPLES.items()},
    **COMBINED,
    "compact and fresh": C.default().fresh(turns=2, stale="compact").truncate(8),
    "small fit": C.default().fit(60),
    "superseded": C.default().dedupe("superseded"),
    "small budget": C.default().budget(600),
    "small budget that drops": C.default().budget(500, overflow="drop"),
    "small token budget": C.auto().dedupe(),
    "redact under auto": C.auto().redact("email"),
    "nearest": C.relevant(scorer="embedding").fit(60),
}


@pytest.mark.parametrize("name", WALKED)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=8)
@given(events=logs())
def test_what_is_kept_gives_what_everything_at_once_gives(name: str, events: list[Event]) -> None:
    agent = Agent("bot", model="gpt-4o", tools=[look], instruction="Now: {intent?}")
    agent = agent.sees(WALKED[name])
    if name.endswith("token budget"):
        agent = replace(agent, context_compressor=TokenBudget(200, keep_recent=2))
    grown = Session("s")
    for index, event in enumerate(events):
        grown = grown.append(event)
        complete = [one for one in events[: index + 1] if not one.partial]
        cold = Session("s", events=complete)
        assert outcome_of(agent, grown) == outcome_of(agent, cold)
        if index % 3 == 0:
            assert outcome_of(agent, grown, "and now?") == outcome_of(agent, cold, "and now?")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
@given(events=logs(), names=st.lists(st.sampled_from(sorted(WALKED)), min_size=2, max_size=4))
def test_policies_on_one_log_do_not_change_each_other(
    events: list[Event], names: list[str]
) -> None:
    shared, complete = Session("s"), list[Event]()
    for index, event in enumerate(events):
        shared = shared.append(event)
        complete += [event] if not event.partial else []
        if index % 4 and index != len(events) - 1:
            continue
        for name in names:
            agent = Agent("bot", model="gpt-4o", tools=[look]).sees(WALKED[name])
            cold = outcome_of(agent, Session("s", events=complete))
            assert outcome_of(agent, shared) == cold
            assert outcome_of(agent, shared) == cold  # asked again, nothing is new


def test_a_late_result_is_weighed_again_where_an_extract_would_stand_for_its_turn() -> None:
    arguments: dict[str, Json] = {"city": None, "day": {"E4": None, "0:0=": None, ":\x1f": -1314}}
    arguments["q"] = {":0\U00010000": None}
    call = call_part("slow", arguments, id="c")
    pending, late = ({"status": "pending"}, {"result": "{not} a {variable?}"})
    events = [
        Event(author="user", content=Content((Part(text="Oslo"),)), invocation_id="i", id="e0"),
        Event(
            author="bot",
            content=Content((call,), role="model"),
            invocation_id="i",
            id="e1",
            long_running_tool_ids=("c",),
        ),
        *(
            Event(
                author="bot",
                content=Content((result_part("slow", response, id="c"),)),
                invocation_id="i",
                id=name,
            )
            for name, response in (("e2", pending), ("e3", late))
        ),
        Event(author="user", content=Content((Part(text="Oslo"),)), invocation_id="j", id="e4"),
    ]
    agent = Agent("bot", model="gpt-4o", tools=[look]).sees(C.default().summarize(before=1))
    grown = Session("s")
    for event in events:
        grown = grown.append(event)
        outcome_of(agent, grown, "and now?")
    assert outcome_of(agent, grown) == outcome_of(agent, Session("s", events=events))


def outcome_of(agent: Agent, session: Session, message: str | None = None) -> object:
    try:
        compiled = compile(agent, session=session, message=message)
        wire, tokens = compiled.wire, compiled.tokens
    except WeftError as error:
        return str(error)
    said = Counter(str(one) for one in compiled.diagnostics)
    return wire, compiled.hash, tokens, said, _notes(compiled)


def _notes(compiled: Compilation) -> Counter[str]:
    steps = [(step.name, list(step.notes)) for step in compiled.steps]
    made = [*compiled.woven.notes, *(note for _, notes in steps for note in notes)]
    return Counter(f"{note.step} {note.reason} {note.before.event}" for note in made)


def test_a_request_before_does_not_take_the_place_of_the_newest() -> None:
    agent = Agent("bot", model="gpt-4o", tools=[look], context=C.window(10))
    grown = snapshots(400, turns=True)
    for session in grown:
        compile(agent, session=session).wire  # noqa: B018
    newest = grown[-1]
    plain = calls(lambda: compile(agent, session=newest).wire)
    looked = compile(agent, session=newest)
    assert looked.previous is not None
    looked.previous.wire  # noqa: B018
    assert calls(lambda: compile(agent, session=newest).wire) < 2 * plain


@pytest.mark.parametrize(
    "policy", [C.default().redact("email"), C.default().redact(fields=["pin"])]
)
def test_a_step_imports_nothing_for_each_text(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent("bot", model="gpt-4o", tools=[look]).sees(policy)

    def imports_of(texts: int) -> int:
        session = Session("s", events=group(0, turns=True))
        compile(agent, session=session).wire  # noqa: B018
        grown = group(1, turns=True)
        rows: Json = [{"city": f"city {texts} {number}"} for number in range(texts)]
        result = Content(role="user", parts=(result_part("look", {"rows": rows}, id="c1"),))
        grown[2] = msgspec.structs.replace(grown[2], content=result)
        parts = tuple(Part(text=f"word {texts} {number}") for number in range(texts))
        grown[0] = msgspec.structs.replace(grown[0], content=Content(role="user", parts=parts))
        count = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            return real(*args, **kwargs)

        real = builtins.__import__
        with monkeypatch.context() as patch:
            patch.setattr(builtins, "__import__", counted)
            compile(agent, session=session.append(*grown)).wire  # noqa: B018
        return count

    imports_of(2)  # what is loaded late is loaded now
    assert imports_of(40) == imports_of(4)


def test_a_late_pass_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent("bot", model="gpt-4o", tools=[look]).sees(C.default().redact("email"))
    compile(agent, session=Session("s", events=group(0, turns=True))).wire  # noqa: B018

    def never(name: str) -> object:
        raise AssertionError(name)

    monkeypatch.setattr("weft.passes.verbs.import_module", never)
    compile(agent, session=Session("t", events=group(1, turns=True))).wire  # noqa: B018
