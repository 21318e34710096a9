"""What users of other vocabularies of state changes try: the forms they write, what they get."""

import asyncio
from collections.abc import Callable

import pytest

import weft
from weft import Agent, Route, RunConfig, S
from weft.declare import Node, Sequence
from weft.errors import DeclarationError
from weft.testing import ScriptedModel
from weft.values import JsonObject


def after(change: Node, **state: object) -> JsonObject:
    """The state once the change was made, in a run."""
    return weft.run_sync(Sequence(change), "Go", state=state).check().state  # type: ignore[arg-type]


def found(flow: Node) -> list[str]:
    """What the checker has to say, of warning and above."""
    return [one.code for one in weft.check(flow) if one.severity != "info"]


async def later(state: object) -> int:
    return 1


@pytest.mark.parametrize(
    "change",
    [
        S.set({"user:name": "Ada"}), S.set("user:name", "Ada"), S.compute({"user:n": len}),
        S.default({"app:tone": "dry"}), S.rename({"user:a": "b"}), S.rename(a="b"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_change_can_be_written_again_from_what_it_prints(change: Node) -> None:
    assert repr(eval(repr(change), {"S": S, "len": len})) == repr(change)


def test_scoped_keys_are_written_and_computed() -> None:
    change = S.set({"user:name": "Ada", "n": 1}) >> S.compute({"user:n": lambda state: state["n"]})
    assert after(change) == {"user:name": "Ada", "n": 1, "user:n": 1}


def test_a_chain_of_changes_is_their_composition() -> None:
    change = S.pick("a", "b") >> S.rename(a="x") >> S.default(y=99)
    assert after(change, a=1, b=2, c=3) == {"x": 1, "b": 2, "y": 99}


def test_pick_and_drop_leave_what_is_not_of_the_session() -> None:
    scopes = {"app:v": 1, "user:p": 2}
    assert after(S.pick("a"), a=1, b=2, **scopes) == {"a": 1, **scopes}
    assert after(S.drop("b", "absent"), a=1, b=2, **scopes) == {"a": 1, **scopes}
    assert after(S.pick("absent"), a=1) == {}


def test_what_is_false_is_a_value_and_not_missing() -> None:
    assert after(S.default(a=5, b=6, c=7), a=0, b="") == {"a": 0, "b": "", "c": 7}
    assert after(S.require("a"), a=0) == {"a": 0}
    assert after(S.counter("a", by=-2), a=0) == {"a": -2}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: S.counter("n", step=3), "S.counter: `step`.*did you mean `by`"),
        (lambda: S.merge("a", "b", into="c", fn=max), "S.merge: `fn`.*did you mean `how`"),
        (lambda: S.transform("a", fn=len), "S.transform: `fn`.*did you mean `function`"),
        (lambda: S.guard(bool, msg="no"), "S.guard: `msg`.*did you mean `message`"),
        (lambda: S.accumulate("a"), r"S.accumulate.*write S.accumulate\(key, into=...\)"),
        (lambda: S.zip("a", "b"), r"S.zip.*write S.zip\(\*keys, into=...\)"),
        (lambda: S.group_by("a", len, into="b"), "S.group_by: .*len.* is not a state key"),
        (lambda: S.drop(["a", "b"]), r'is a list.*write S.drop\("a", "b"\)'),
        (lambda: S.rename(("a", "b")), "is not a mapping"),
        (lambda: S.when("ready", S.set(a=1)), r'lambda state: state.get\("ready"\)'),
        (
            lambda: S.when(bool, S.set(a=1) >> S.set(b=2)),
            r"is not a change of the state.*Route\(\)",
        ),
        (lambda: S.set(a=None), r'`a` gets None.*write S.drop\("a"\)'),
        (lambda: S.default(a=None), "`a` gets None"),
        (lambda: S.compute(a=later), "does not answer at once"),
        (lambda: S.transform("a", later), "does not answer at once"),
        (lambda: S.merge("a", "b", into="c", how=later), "does not answer at once"),
    ],
)
def test_another_way_to_write_it_gets_ours(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(DeclarationError, match=f"(?s){words}"):
        wrong()


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("history", "S.accumulate"),
        ("branch", "Route"),
        ("validate", "S.guard"),
        ("renam", "S.rename"),
    ],
)
def test_another_word_gets_ours(word: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=rf"there is no `S.{word}`.*{ours}"):
        getattr(S, word)


def test_a_predicate_that_would_have_to_be_waited_for_is_no_yes() -> None:
    change = S.when(lambda state: later(state), S.set(a=1))
    with pytest.raises(TypeError, match="something to wait for"):
        after(change)


def test_the_checker_knows_what_each_change_reads_and_writes() -> None:
    writes = Agent("a", instruction="Write.").writes("text")
    assert found(writes >> S.transform("text", str.upper) >> Agent("b", instruction="{text}")) == []
    assert found(
        writes >> S.compute(n=lambda state: len(state["text"])) >> Agent("b", instruction="{n}")
    ) == []  # fmt: skip
    assert found(
        writes >> S.merge("text", "other", into="all") >> Agent("b", instruction="{all}")
    ) == ["WEFT105"]


def test_a_change_that_may_not_be_made_reads_only_where_it_is() -> None:
    router = Route("kind").eq("a", Agent("one").writes("memo")).otherwise(Agent("two"))
    start = Agent("triage").writes("kind") >> router
    tail = Agent("end", instruction="{loud?}")
    careful = S.when(lambda state: "memo" in state, S.compute(loud=lambda state: state["memo"]))
    assert found(start >> careful >> tail) == []
    assert found(start >> S.compute(loud=lambda state: state["memo"]) >> tail) == ["WEFT106"]


def test_each_change_between_agents_is_one_event_and_reaches_the_next_request() -> None:
    model = ScriptedModel(["three flights", "done"])
    flow = (
        Agent("scout").writes("findings")
        >> S.rename(findings="input")
        >> S.compute(size=lambda state: len(state["input"].split()))
        >> Agent("author", instruction="{size} words: {input}")
    )

    async def go() -> list[JsonObject]:
        result = await weft.run(flow, "Go", config=RunConfig(model=model))
        return [dict(event.actions.state_delta) for event in result.events if event.actions]

    deltas = [delta for delta in asyncio.run(go()) if delta]
    assert deltas == [
        {"findings": "three flights"},
        {"findings": None, "input": "three flights"},
        {"size": 2},
    ]
    assert "2 words: three flights" in str(model.wires[1])
    assert str(model.wires[1]).count("three flights") == 1
