"""Inputs are declared in the program: check, compile, run and explain know them."""

from pathlib import Path

import pytest
from pydantic import BaseModel

import weft
from weft import Agent, C, Map, Parallel, Route, RunConfig, Runner, S, Sequence, race, timeout
from weft.checker.check import declared_inputs, sights
from weft.cli import main
from weft.errors import DeclarationError, MissingVariable, UsageError
from weft.session import MemoryStore
from weft.testing import ScriptedModel, call


def speaking(*answers: object) -> ScriptedModel:
    return ScriptedModel([*answers])


def test_a_missing_input_is_an_error_before_the_first_call() -> None:
    model = speaking("text")
    writer = Agent("writer", model=model, inputs={"topic": str}).instruct("Write about {topic}.")
    with pytest.raises(UsageError) as error:
        weft.run_sync(writer, "Go.")
    assert error.value.message == "the input `topic` is missing"
    assert 'pass state={"topic": ...} (string)' in error.value.hint
    assert "--state topic=" in error.value.hint
    assert not model.wires
    assert weft.run_sync(writer, "Go.", state={"topic": "tea"}).text == "text"
    assert "Write about tea." in model.prompts[0].system_text


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [(int, "three", 3), (list[str], "a", ["a"]), (bool, 1, True), (str, 5, "5"), (float, "x", 1.5)],
)
def test_an_input_of_another_type_is_an_error_that_names_the_type(
    kind: object, wrong: object, right: object
) -> None:
    model = speaking("fine")
    agent = Agent("a", model=model, inputs={"k": kind}).instruct("{k}")
    with pytest.raises(UsageError, match="the input `k` has another type"):
        weft.run_sync(agent, "Go.", state={"k": wrong})  # type: ignore[dict-item]
    assert not model.wires
    assert weft.run_sync(agent, "Go.", state={"k": right}).text == "fine"  # type: ignore[dict-item]


async def test_nothing_is_stored_for_a_run_that_cannot_start() -> None:
    writer = Agent("writer", model=speaking("x"), inputs={"topic": str}).instruct("{topic}")
    async with Runner(writer) as runner:
        with pytest.raises(UsageError):
            await runner.run(session_id="s", message="Go.")
        assert not await runner.store.sessions(runner.app_name)


async def test_what_the_session_holds_counts_on_later_turns() -> None:
    model = speaking("one", "two", "three")
    writer = Agent("writer", model=model, inputs={"topic": str}).instruct("{topic}")
    async with Runner(writer) as runner:
        await runner.run(session_id="s", message="Go.", state={"topic": "tea"})
        again = await runner.run(session_id="s", message="And now?")
        assert again.text == "two"
        with pytest.raises(UsageError):
            await runner.run(session_id="s", message="Go.", state={"topic": None})
        assert len((await runner.session(session_id="s")).events) == 4


async def test_a_key_of_the_user_may_come_from_another_session() -> None:
    model = speaking("one", "two")
    greet = Agent("greet", model=model, inputs={"user:name": str}).instruct("Hi {user:name}")
    async with Runner(greet) as runner:
        await runner.run(session_id="a", message="Go.", state={"user:name": "Ada"})
        assert (await runner.run(session_id="b", message="Go.")).text == "two"
        with pytest.raises(UsageError):
            await runner.run(session_id="c", user_id="other", message="Go.")


async def test_a_run_is_resumed_with_the_inputs_it_began_with() -> None:
    model = ScriptedModel({"a": ["draft"], "b": ["sent"]})
    flow = (
        Agent("a", model=model).instruct("On {topic}.").writes("draft")
        >> S.drop("topic")
        >> weft.Gate("ok", question="Send {draft}?", choices=["yes", "no"])
        >> Agent("b", model=model).instruct("{draft} {ok}")
    ).takes(topic=str)
    async with Runner(flow) as runner:
        first = await runner.run(session_id="s", message="Go.", state={"topic": "tea"})
        assert first.waiting
        assert "topic" not in first.state
        second = await runner.resume(session_id="s", answers={"ok": "yes"})
        assert second.text == "sent"


async def test_resuming_a_run_that_lacked_an_input_says_so() -> None:
    def flow(**inputs: object) -> weft.Flow | Agent:
        model = ScriptedModel({"a": ["draft"], "b": ["sent"]})
        made = (
            Agent("a", model=model).writes("draft")
            >> weft.Gate("ok", question="Send {draft}?")
            >> Agent("b", model=model).instruct("{draft} {ok}")
        )
        return made.takes(**inputs)

    store = MemoryStore()
    async with Runner(flow(), store=store) as runner:
        await runner.run(session_id="s", message="Go.")
    later = Runner(flow(topic=str), store=store, app_name=runner.app_name)
    with pytest.raises(UsageError, match="the input `topic` is missing"):
        await later.resume(session_id="s", answers={"ok": "yes"})


def test_the_check_needs_no_inputs_of_its_own() -> None:
    a, b = Agent("a").instruct("{topic}").writes("x"), Agent("b").instruct("{x} {topic}")
    assert [one.code for one in weft.check(a >> b)] != []
    flows = [
        Sequence(a, b, inputs={"topic": str}),
        (a >> b).takes(topic=str),
        (a >> b).takes(["topic"]),
        a.takes(topic=str) >> b,
        Agent("a", inputs={"topic": str}).instruct("{topic}").writes("x") >> b,
        (a >> Agent("m").instruct("{x}").writes("x")).takes(topic=str) >> b,
        timeout(a >> b, 5, inputs={"topic": str}),
        weft.Loop(a >> b, max=2, inputs={"topic": str}),
        weft.Fallback(a >> b, b, inputs={"topic": str, "x": str}),
    ]
    for flow in flows:
        assert not [one for one in weft.check(flow) if one.severity != "info"], flow
    assert not weft.check(a >> b, inputs={"topic": str})


@pytest.mark.parametrize(
    "join",
    [
        lambda one, other: one >> other,
        lambda one, other: other >> one,
        lambda one, other: one | other,
        lambda one, other: one // other,
        lambda one, other: race(one, other),
        lambda one, other: one * 3,
        lambda one, other: Map("items", one, into="out", inputs={"items": list[str]}),
        lambda one, other: Route("kind", inputs={"kind": str}).eq("a", one).otherwise(other),
        lambda one, other: Agent("desk", sub_agents=[one, other]),
        lambda one, other: Agent("desk", tools=[one]),
        lambda one, other: timeout(one, 3),
    ],
)
def test_operators_keep_inputs(join: object) -> None:
    one = Agent("one", description="1", inputs={"topic": str}).instruct("{topic}")
    other = Agent("other", description="2").instruct("Go.")
    assert declared_inputs(join(one, other))["topic"] is str  # type: ignore[operator]


def test_a_flow_with_inputs_is_the_same_whichever_way_it_is_put_together() -> None:
    a, b, c = Agent("a"), Agent("b"), Agent("c")
    assert (a >> b).takes(x=int) >> c == (a >> b >> c).takes(x=int)
    assert ((a | b).takes(x=int) | c).inputs == {"x": int}
    assert (a >> b).inputs == {}
    assert str((a >> b).takes(x=int)) == 'Sequence(a, b, inputs={"x": int})'
    assert S.set("a", 1).takes(k=str).inputs == {"k": str}


def test_what_a_step_before_it_writes_need_not_be_given() -> None:
    model = ScriptedModel({"find": ["facts"], "tell": ["told"]})
    tell = Agent("tell", model=model, inputs={"facts": str}).instruct("Tell {facts}.")
    flow = Agent("find", model=model).instruct("Find.").writes("facts") >> tell
    assert declared_inputs(flow) == {}
    assert weft.run_sync(flow, "Go.").text == "told"
    assert "Tell facts." in model.prompts[1].system_text
    with pytest.raises(UsageError):
        weft.run_sync(tell, "Go.")


def test_what_a_step_before_it_writes_must_fit_the_type() -> None:
    tell = Agent("tell", inputs={"facts": list[str]}).instruct("Tell {facts}.")
    flow = Agent("find").instruct("Find.").writes("facts") >> tell
    found = [one for one in weft.check(flow) if one.code == "WEFT109"]
    assert [str(one.origin) for one in found] == ["tell.inputs"]
    some = Route("k").eq("a", Agent("find").instruct("Find.").writes("facts")).otherwise(Agent("o"))
    late = (S.set("k", "a") >> some) >> Agent("tell", inputs={"facts": str}).instruct("{facts}")
    assert "WEFT106" in [one.code for one in weft.check(late)]


def test_a_declared_input_is_not_inferred() -> None:
    model = ScriptedModel({"a": ["hello"], "b": ["done"]})
    flow = Agent("a", model=model).instruct("Greet.") >> Agent("b", model=model).instruct("{name}")
    assert [one.code for one in weft.check(flow)] == ["WEFT116"]
    declared = flow.takes(name=str)
    assert not weft.check(declared)
    weft.run_sync(declared, "Go.", state={"name": "Ada"})
    assert "Ada" in model.prompts[1].system_text
    assert "hello" not in model.prompts[1].system_text


def test_an_input_that_may_be_absent_is_not_missed() -> None:
    model = speaking("ok", "ok")
    agent = Agent("a", model=model, inputs={"note": str | None}).instruct("Note: {note?}")
    assert weft.run_sync(agent, "Go.").text == "ok"
    assert weft.run_sync(agent, "Go.", state={"note": "n"}).text == "ok"
    assert [one.code for one in weft.check(agent.instruct("Note: {note}"))] == ["WEFT106"]


class Order(BaseModel):
    id: str
    total: float


def test_a_typed_input_has_fields() -> None:
    agent = Agent("a", model=speaking("ok"), inputs={"order": Order}).instruct("{order.totl}")
    assert [one.code for one in weft.check(agent)] == ["WEFT109"]
    with pytest.raises(UsageError, match="another type"):
        weft.run_sync(agent, "Go.", state={"order": {"id": "x"}})


def test_compile_reports_what_is_missing_and_strict_refuses() -> None:
    agent = Agent("a", model="gpt-4o", inputs={"topic": str, "n": int}).instruct("{topic} {n}")
    made = weft.compile(agent, message="Go.", state={"n": "x"})
    said = [one for one in made.diagnostics if one.code == "WEFT117"]
    assert [str(one.origin) for one in said] == ["a.inputs", "a.inputs"]
    assert all(one.severity == "error" and one.hint for one in said)
    with pytest.raises(MissingVariable):
        weft.compile(agent, message="Go.", config=RunConfig(strict=True))
    fine = weft.compile(agent, message="Go.", state={"topic": "tea", "n": 1})
    assert not [one for one in fine.diagnostics if one.code == "WEFT117"]
    facts = " ".join(fine.explain().inferred)
    assert "the state key `topic` is declared as an input, string" in facts


def test_sights_say_that_an_input_is_declared() -> None:
    agent = Agent("a", inputs={"topic": str}).instruct("{topic}")
    assert "topic from the application (declared)" in str(sights(agent)[0])
    assert "topic from the application\n" in str(
        sights(Agent("a").instruct("{topic}"), inputs=["topic"])[0]
    )


@pytest.mark.parametrize("wrong", ["topic", 5, {"a b": str}, {"a.b": str}, {3: str}, {"t": 3}])
def test_what_names_no_inputs_is_refused(wrong: object) -> None:
    with pytest.raises(DeclarationError) as error:
        Agent("a", inputs=wrong)  # type: ignore[arg-type]
    assert error.value.hint
    with pytest.raises(DeclarationError):
        Parallel(Agent("a"), Agent("b"), inputs=wrong)  # type: ignore[arg-type]


PROGRAM = """
from weft import Agent, C
from weft.testing import ScriptedModel

model = ScriptedModel(["done"] * 5)
writer = Agent("writer", model=model, inputs={"topic": str, "zip": str})
writer = writer.instruct("On {topic} {zip}.")
"""


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prog_inputs.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "prog_inputs.py:writer"]) == 0
    capfd.readouterr()
    assert main(["run", "prog_inputs.py:writer", "Go"]) == 2
    said = capfd.readouterr().err
    assert "the input `topic` is missing" in said
    assert "--state topic=..." in said
    given = ["--state", "topic=tea", "--state", "zip=01234"]
    assert main(["run", "prog_inputs.py:writer", "Go", *given]) == 0
    assert "done" in capfd.readouterr().out
    assert main(["compile", "prog_inputs.py:writer", "-m", "Go", *given]) == 0
    assert "On tea 01234." in capfd.readouterr().out


def test_agents_that_are_called_need_what_nobody_writes() -> None:
    model = ScriptedModel({"boss": [call("expert", request="?"), "ok"], "expert": ["42"]})
    expert = Agent("expert", model=model, description="Knows.", inputs={"country": str})
    boss = Agent("boss", model=model, tools=[expert.instruct("In {country}.")]).sees(C.default())
    with pytest.raises(UsageError, match="`country`"):
        weft.run_sync(boss, "Go.")
    assert weft.run_sync(boss, "Go.", state={"country": "Norway"}).text == "ok"
