"""S: what is done to the state between agents. Rules O5 and O6."""

import asyncio
import random

import pytest

import weft
from weft import Agent, C, RunConfig, Runner, S
from weft.checker.walk import may_fail
from weft.declare import Node, Sequence
from weft.declare.changes import GroupBy
from weft.errors import DeclarationError
from weft.session.event import apply_delta
from weft.testing import ScriptedModel
from weft.values import JsonObject


def after(flow: Node, state: JsonObject) -> JsonObject:
    return weft.run_sync(flow, "Go", state=state).check().state


@pytest.mark.parametrize(
    ("change", "state", "expected"),
    [
        (S.pick("a"), {"a": 1, "b": 2, "user:c": 3}, {"a": 1, "user:c": 3}),
        (S.drop("a", "x"), {"a": 1, "b": 2}, {"b": 2}),
        (S.rename(a="z"), {"a": 1, "b": 2}, {"z": 1, "b": 2}),
        (S.rename(a="b", b="a"), {"a": 1, "b": 2}, {"b": 1, "a": 2}),
        (S.rename({"user:a": "b"}), {"user:a": 1}, {"b": 1}),
        (S.default(a=9, c=3), {"a": 1}, {"a": 1, "c": 3}),
        (S.set(a=9), {"a": 1}, {"a": 9}),
        (S.set("user:name", "Ada"), {"x": 0}, {"x": 0, "user:name": "Ada"}),
        (S.merge("a", "b", into="c"), {"a": "x", "b": "y"}, {"a": "x", "b": "y", "c": "x\ny"}),
        (S.merge("a", "b", into="a"), {"a": [1], "b": [2]}, {"a": [1, 2], "b": [2]}),
        (S.merge("a", "b", into="c", how=max), {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 2}),
        (S.transform("a", str.upper), {"a": "x"}, {"a": "X"}),
        (S.compute(n=lambda state: len(state["a"])), {"a": "xyz"}, {"a": "xyz", "n": 3}),
        (S.accumulate("a", into="all"), {"a": 2, "all": [1]}, {"a": 2, "all": [1, 2]}),
        (S.counter("n"), {"x": 0}, {"x": 0, "n": 1}),
        (S.counter("n", by=5), {"n": 1}, {"n": 6}),
        (S.flatten("a"), {"a": [[1], [2, 3], 4]}, {"a": [1, 2, 3, 4]}),
        (S.flatten("a", into="b"), {"a": {"x": {"y": 1}}}, {"a": {"x": {"y": 1}}, "b": {"x.y": 1}}),
        (S.zip("a", "b", into="r"), {"a": [1], "b": [2]}, {"a": [1], "b": [2],
                                                          "r": [{"a": 1, "b": 2}]}),
        (S.group_by("a", "k", into="g"), {"a": [{"k": "x"}]}, {"a": [{"k": "x"}],
                                                              "g": {"x": [{"k": "x"}]}}),
        (S.when(lambda state: state["a"] > 0, S.set(b=1)), {"a": 1}, {"a": 1, "b": 1}),
        (S.when(lambda state: state["a"] > 0, S.set(b=1)), {"a": 0}, {"a": 0}),
        (S.capture("asked"), {"a": 1}, {"a": 1, "asked": "Go"}),
        (S.log("a"), {"a": 1}, {"a": 1}),
        (S.require("a"), {"a": 1}, {"a": 1}),
        (S.guard(lambda state: state["a"] == 1, "no"), {"a": 1}, {"a": 1}),
    ],
    ids=repr,
)  # fmt: skip
def test_a_change_does_what_it_says(change: Node, state: JsonObject, expected: JsonObject) -> None:
    assert after(Sequence(change), state) == expected


def test_a_change_leaves_one_event_with_its_delta_and_none_where_nothing_changes() -> None:
    result = weft.run_sync(Sequence(S.drop("a"), S.drop("zz")), "Go", state={"a": 1})
    deltas = [event.actions.state_delta for event in result.events if event.author != "user"]
    assert deltas == [{"a": None}]


def test_composition_is_function_composition() -> None:
    rng = random.Random(3)
    pool = [
        S.pick("a", "b"), S.drop("c"), S.default(c=3, d=4), S.set(b=7), S.counter("n"),
        S.merge("a", "b", into="m"), S.compute(k=lambda state: len(state)),
    ]  # fmt: skip
    for _ in range(25):
        chosen = [rng.choice(pool) for _ in range(3)]
        state: JsonObject = {"a": "x", "b": "y", "c": "z", "user:u": 1}
        expected = dict(state)
        for step in chosen:
            delta = step.function(expected) or {}
            expected = apply_delta({**dict.fromkeys(delta), **expected}, delta)  # type: ignore[arg-type]
        assert after(Sequence(*chosen), state) == expected, chosen
    back = S.rename(a="q") >> S.rename(q="a")
    assert after(back, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert after(S.pick("a") >> S.pick("a"), {"a": 1, "b": 2}) == {"a": 1}


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        (S.rename(missing="x"), {"a": 1}, "there is no `missing`"),
        (S.transform("missing", len), {"a": 1}, "there is no `missing`"),
        (S.accumulate("a", into="b"), {"a": 1, "b": "text"}, "not a list"),
        (S.counter("a"), {"a": "x"}, "not a number"),
        (S.zip("a", "b", into="r"), {"a": [1], "b": []}, "differ in length"),
        (S.group_by("a", "k", into="g"), {"a": [{}]}, "no field `k`"),
        (S.require("a", "b"), {"a": 1}, "the state needs `a` and `b`"),
        (S.guard(lambda state: False, "too early"), {"a": 1}, "too early"),
    ],
    ids=repr,
)
def test_what_cannot_be_done_ends_the_run_with_words(
    change: Node, state: JsonObject, words: str
) -> None:
    model = ScriptedModel([])
    runner = Runner(Sequence(change, Agent("never", model=model)))

    async def run() -> str:
        last = ""
        config = RunConfig()
        try:
            async for event in runner.run(
                user_id="u", session_id="s", message="Go", state=state, config=config
            ):
                last = event.error_message or last
        except Exception as error:
            last = last or str(error)
        return last

    assert words in asyncio.run(run())
    assert model.wires == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: S.pick(), "names no keys"),
        (lambda: S.rename(a="b", c="b"), "two keys get one name"),
        (lambda: S.set("a"), "a key and a value"),
        (lambda: S.set(a=object()), "is not a JSON value"),
        (lambda: S.merge("a"), "too many or too few"),
        (lambda: S.transform("a", lambda: 1), "pass a function of one value"),
        (lambda: S.when(lambda state: True, Agent("x")), "is not a change"),
        (lambda: S.counter("a", by="x"), "is not a number"),
        (lambda: S.flatten("a", unto="b"), "did you mean `into`"),
    ],
)
def test_what_cannot_be_right_is_refused_where_it_is_written(wrong: object, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        wrong()  # type: ignore[operator]
    with pytest.raises(AttributeError, match=r"did you mean `S.rename`"):
        _ = S.renam


def test_a_flow_prints_its_changes_as_they_are_written() -> None:
    flow = Agent("a").writes("x") >> S.rename(x="y") >> S.pick("y") >> S.set("user:n", 1)
    assert repr(flow) == "(a >> S.rename(x='y') >> S.pick('y') >> S.set({'user:n': 1}))"


def test_a_change_is_data_that_compares_hashes_and_prints_with_all_its_options() -> None:
    assert S.set(a=[1]) == S.set(a=[1]) != S.set(a=[2])
    assert len({S.set(a=[1]), S.set(a=[1]), S.default(a=[1])}) == 2
    assert repr(S.counter("n", by=5)) == "S.counter('n', by=5)"
    assert repr(S.merge("a", "b", into="c", how=max)) == "S.merge('a', 'b', into='c', how=max)"
    group = S.group_by("rows", "kind", into="groups").change
    assert isinstance(group, GroupBy)
    assert (group.key, group.field, group.into) == ("rows", "kind", "groups")


def test_what_a_value_says_does_not_change_what_is_known_of_a_step() -> None:
    assert not may_fail(S.set(note="a >> b"))
    assert may_fail(S.rename(a="b"))


def test_a_tag_is_found_by_a_policy() -> None:
    model = ScriptedModel(["first", "second", "done"])
    flow = Agent("one") >> S.tag("keep") >> Agent("two") >> Agent("end").sees(C.select(tag="keep"))
    weft.run_sync(flow, "Go", config=RunConfig(model=model))
    sent = str(model.wires[2])
    assert "first" in sent
    assert "second" not in sent


def test_the_checker_knows_what_changes_do() -> None:
    def codes(flow: Node) -> list[str]:
        return [one.code for one in weft.check(flow) if one.severity != "info"]

    found = Agent("scout").writes("findings")
    assert codes(found >> S.rename(findings="input") >> Agent("w", instruction="{input}")) == []
    assert codes(found >> S.rename(findings="input") >> Agent("w", instruction="{findings}")) == [
        "WEFT107"
    ]
    assert codes(found >> S.drop("findings") >> Agent("w", instruction="{findings}")) == ["WEFT107"]
    assert codes(found >> S.pick("other") >> Agent("w", instruction="{findings}")) == ["WEFT107"]
    assert codes(S.default(tone="dry") >> Agent("w", instruction="{tone}")) == []
    assert codes(S.when(lambda state: "x" in state, S.set(a=1)) >> Agent("w", instruction="{a}")) \
        == ["WEFT106"]  # fmt: skip


def test_a_renamed_value_arrives_once() -> None:
    """H8: who carries the value under its new name does not overhear it."""
    model = ScriptedModel(["three flights", "done"])
    flow = (
        Agent("scout").writes("findings")
        >> S.rename(findings="input")
        >> Agent("author", instruction="Write from {input}.").sees(C.default())
    )
    weft.run_sync(flow, "Go", config=RunConfig(model=model))
    assert str(model.wires[1]).count("three flights") == 1
