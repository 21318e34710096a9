"""What users of other flow vocabularies try: routes without a key, methods, lists and dicts."""

import copy
import pickle
from collections.abc import Callable

import pytest

import weft
from weft import Agent, Fallback, Gate, Map, Route, RunConfig, S, Sequence, expect, timeout, until
from weft.declare import Node
from weft.errors import DeclarationError
from weft.testing import ScriptedModel
from weft.values import JsonObject

a, b, c = (Agent(name, instruction=f"Be {name}.") for name in "abc")


def ran(flow: Node, state: JsonObject | None = None, **script: object) -> tuple[str, list[str]]:
    """The answer, and who was asked, in order."""
    model = ScriptedModel(script)  # type: ignore[arg-type]
    result = weft.run_sync(flow, "Go", state=state or {}, config=RunConfig(model=model))
    return result.text or result.error or "", [prompt.agent for prompt in model.prompts]


def test_a_route_without_a_key_asks_functions() -> None:
    route = Route().when(lambda state: state["n"] > 5, a).when(lambda state: state["n"] > 2, b)
    full = route.otherwise(c)
    assert ran(full, {"n": 9}, a=["high"]) == ("high", ["a"])
    assert ran(full, {"n": 3}, b=["middle"]) == ("middle", ["b"])
    assert ran(full, {"n": 1}, c=["low"]) == ("low", ["c"])
    assert repr(full) == "Route().when(<lambda>, a).when(<lambda>, b).otherwise(c)"
    failed = weft.run_sync(route, "Go", state={"n": 1}, config=RunConfig(model=ScriptedModel([])))
    assert "no case of route holds for the state" in str(failed.error)


def test_what_a_route_without_a_key_reads_is_checked() -> None:
    score = Agent("score").writes("score")
    good = Route().when(lambda state: state["score"] == "high", a).otherwise(b)
    bad = Route().when(lambda state: state["scor"] == "high", a).otherwise(b)
    assert [one.code for one in weft.check(score >> good)] == []
    assert "WEFT105" in [one.code for one in weft.check(score >> bad)]
    assert weft.check(score >> good) == weft.check(score >> good)


def test_a_key_that_no_case_compares_need_not_be_written() -> None:
    flow = Agent("score").writes("score") >> Route("topic").when(
        lambda state: state["score"] == "high", a
    ).otherwise(b)
    assert [one.code for one in weft.check(flow)] == []
    assert ran(flow, score=["high"], a=["done"]) == ("done", ["score", "a"])


@pytest.mark.parametrize("case", ["eq", "ne", "contains", "gt", "gte", "lt", "lte"])
def test_a_comparison_needs_a_key(case: str) -> None:
    with pytest.raises(DeclarationError, match="the route has none"):
        getattr(Route(), case)(1, a)


def test_operands_stay_as_they_are() -> None:
    pair, both = a >> b, a | b
    longer, wider = pair >> c, both | c
    assert [node.name for node in pair.steps] == ["a", "b"]
    assert [node.name for node in both.branches] == ["a", "b"]
    assert len(longer.steps) == len(wider.branches) == 3
    assert (a >> b) >> c == a >> (b >> c)
    assert 3 * a == a * 3


def test_one_expression_may_stand_in_two_flows() -> None:
    review = a >> b
    first, second = review >> c, review >> Agent("d")
    assert ran(first, a=["1"], b=["2"], c=["3"]) == ("3", ["a", "b", "c"])
    assert ran(second, a=["1"], b=["2"], d=["4"]) == ("4", ["a", "b", "d"])


def test_an_expectation_needs_no_words_of_its_own() -> None:
    flow = expect(lambda state: state["n"] > 3) >> a
    assert ran(flow, {"n": 4}, a=["done"]) == ("done", ["a"])
    failed = weft.run_sync(flow, "Go", state={"n": 1}, config=RunConfig(model=ScriptedModel([])))
    assert "the expectation does not hold" in str(failed.error)


def test_a_loop_of_changes_ends_when_it_should() -> None:
    flow = S.counter("n") * until(lambda state: state["n"] >= 3, max=10)
    assert weft.run_sync(flow, "Go").check().state == {"n": 3}
    assert weft.run_sync(S.counter("n") * 4, "Go").check().state == {"n": 4}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: a.writes("kind") >> {"x": b}, r'write Route\("key"\).eq'),
        (lambda: a >> [b, c], "one by one"),
        (lambda: Sequence([a, b]), "one by one"),
        (lambda: a >> 3, "3 is neither an agent"),
        (lambda: a >> int, "int is a class"),
        (lambda: (a >> b) @ dict, "a flow has no schema"),
        (lambda: Fallback(), "it is empty"),
        (lambda: timeout(30, a), "is not a number of seconds"),
        (lambda: Map(a, "items", into="x"), "is not a state key"),
        (lambda: Gate("ok", choices="yes"), "is not a list of choices"),
    ],
)
def test_what_cannot_stand_there_is_told_in_few_words(
    wrong: Callable[[], object], words: str
) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        wrong()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("method", "ours"),
    [
        ("timeout", "timeout(agent, 30)"), ("loop_until", "until(predicate"),
        ("outputs", '.writes("key")'), ("tap", "tap(function)"), ("then", "agent >> other"),
        ("build", "it is ready"), ("proceed_if", "Route().when"),
    ],
)  # fmt: skip
def test_a_method_that_others_have_gets_ours(method: str, ours: str) -> None:
    for node in (a, a >> b, a | b, S.set(x=1)):
        with pytest.raises(AttributeError) as caught:
            getattr(node, method)
        assert ours in str(caught.value)


def test_agents_and_flows_can_be_copied_and_stored() -> None:
    flow = (a | b) >> S.set(x=1) >> Route("x").eq(1, c)
    assert copy.copy(flow) == flow
    assert copy.deepcopy(a) == a
    assert pickle.loads(pickle.dumps(a)) == a
    assert not hasattr(a, "no_such_thing")
