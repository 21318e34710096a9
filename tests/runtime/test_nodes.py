"""O1: map, gate, race, timeout, tap, expect, while_ and fallbacks, run for real, in one log."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.runtime.clock import LoopClock
from tests.runtime.laws import check_laws
from tests.runtime.logs import Measured
from weft import (
    Agent,
    Content,
    Event,
    Gate,
    Map,
    Parallel,
    Part,
    Route,
    Runner,
    Session,
    Step,
    ToolContext,
    expect,
    race,
    tap,
    timeout,
    tool,
    until,
    while_,
)
from weft.content import result_part
from weft.declare import Node
from weft.errors import SessionError
from weft.ir import Prompt
from weft.session import MemoryStore, SessionKey
from weft.testing import ScriptedModel, call, delayed
from weft.values import Json

KEY = SessionKey("app", "user", "s")


def said(prompt: Prompt) -> str:
    """An answer that shows what the agent was told."""
    return f"<{prompt.system_text.rpartition('|')[2]}>"


def echo(name: str, model: ScriptedModel, told: str = "{item}") -> Agent:
    """An agent that answers with what its template says."""
    return Agent(name, model=model, instruction=f"|{told}")


def echoing(*names: str, times: int = 40) -> ScriptedModel:
    """A model that answers each of the agents with what its template says."""
    return ScriptedModel({name: [said] * times for name in names})


def prompts_of(model: ScriptedModel, agent: str) -> list[str]:
    """The requests of an agent, as text."""
    return [str(prompt) for prompt in model.prompts if prompt.agent == agent]


async def never(state: Any) -> dict[str, Json]:
    """A step that nobody waits for to its end."""
    await asyncio.sleep(30)
    return {"never": True}


class Hare:
    """A branch that has begun and will not end, and one that waits for that before it wins."""

    def __init__(self) -> None:
        self.asleep = asyncio.Event()

    async def sleeps(self, prompt: Prompt) -> str:
        self.asleep.set()
        await asyncio.sleep(600)
        return "late"

    async def passed(self, prompt: Prompt) -> str:
        await self.asleep.wait()
        self.asleep.clear()
        return "Q"


# Map.


def test_a_map_runs_its_body_for_each_element_and_collects_the_answers_in_order() -> None:
    model = ScriptedModel({"s": [delayed(0.02, "slow"), "quick", "last"], "w": ["All done."]})
    flow = Map("xs", Agent("s", model=model, instruction="Sum up {item}"), into="ys") >> Agent(
        "w", model=model, instruction="Join {ys}"
    )
    result = weft.run_sync(flow, "go", state={"xs": ["a", "b", "c"]})
    assert result.check().text == "All done."
    assert result.state == {"xs": ["a", "b", "c"], "ys": ["slow", "quick", "last"]}
    assert sorted(p.system_text[-1] for p in model.prompts if p.agent == "s") == ["a", "b", "c"]
    check_laws(result.session, flow)


def test_what_comes_behind_a_map_sees_its_list_and_none_of_its_words() -> None:
    model = echoing("s", "w")
    flow = Map("xs", echo("s", model), into="ys") >> echo("w", model, "{ys}")
    weft.run_sync(flow, "go", state={"xs": ["a", "b"]})
    assert '|["<a>","<b>"]' in model.prompts[-1].system_text
    assert str(model.prompts[-1]).count("<a>") == 1
    assert "user: go" in str(model.prompts[-1])


def test_elements_see_their_own_state_however_they_interleave() -> None:
    model = echoing("a", "b")

    async def late(state: dict[str, Any]) -> dict[str, Json]:
        await asyncio.sleep(0.01 * (3 - state["item"]))
        return {"seen": [state["item"], state["a"], state.get("seen")]}

    body = echo("a", model).writes("a") >> late >> echo("b", model, "{item} {a} {seen}")
    result = weft.run_sync(Map("xs", body, into="ys", concurrency=3), "go", state={"xs": [1, 2, 3]})
    assert result.state["ys"] == [f'<{n} <{n}> [{n},"<{n}>",null]>' for n in (1, 2, 3)]
    assert set(result.state) == {"xs", "ys"}


def test_H8_a_value_of_an_element_is_told_once() -> None:
    model = echoing("a", "b")
    body = echo("a", model).writes("word") >> echo("b", model, "From {word}")
    weft.run_sync(Map("xs", body, into="ys"), "go", state={"xs": ["one", "two"]})
    for prompt, word in zip(prompts_of(model, "b"), ("<one>", "<two>"), strict=True):
        assert prompt.count(word) == 1


def test_a_map_collects_parsed_values_and_what_functions_wrote() -> None:
    model = ScriptedModel({"s": ['{"n": 1}', '{"n": 2}']})
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    typed = Map("xs", Agent("s", model=model) @ schema, into="ys", concurrency=1)
    assert weft.run_sync(typed, "go", state={"xs": [0, 0]}).state["ys"] == [{"n": 1}, {"n": 2}]

    def double(state: dict[str, Any]) -> dict[str, Json]:
        return {"double": state["item"] * 2}

    plain = Map("order.lines", double, into="ys")
    state: dict[str, Json] = {"order": {"lines": [1, 2]}}
    assert weft.run_sync(plain, "go", state=state).state["ys"] == [{"double": 2}, {"double": 4}]


def test_a_map_over_nothing_gives_nothing() -> None:
    model = ScriptedModel({"s": []})
    result = weft.run_sync(Map("xs", Agent("s", model=model), into="ys"), "go", state={"xs": []})
    assert result.check().state["ys"] == []
    assert not model.prompts


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"xs": "a, b"}, '`xs` is not a list but text: "a, b"'),
        ({"xs": {"a": 1}}, '`xs` is not a list but dict: {"a":1}'),
        ({"xs": 3}, "`xs` is not a list but int: 3"),
        ({}, "there is no `xs` in the state"),
    ],
)
def test_a_map_over_no_list_is_an_error_that_names_key_and_type(
    state: dict[str, Json], says: str
) -> None:
    model = ScriptedModel({"s": []})
    flow = Map("xs", Agent("s", model=model), into="ys")
    error = weft.run_sync(flow, "go", state=state).error
    assert error is not None
    assert (error.author, error.error_code) == ("map", "not_a_list")
    assert says in (error.error_message or "")


async def test_no_more_elements_run_at_once_than_were_asked_for() -> None:
    running = most = 0
    together = asyncio.Event()

    async def work(state: dict[str, Any]) -> dict[str, Json]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            together.set()
        await asyncio.wait_for(together.wait(), 60)
        await asyncio.sleep(0)
        running -= 1
        return {"n": state["item"]}

    result = await weft.run(
        Map("xs", work, into="ys", concurrency=3), "go", state={"xs": list(range(10))}
    )
    assert result.state["ys"] == [{"n": n} for n in range(10)]
    assert most == 3


def fails_on_two(state: dict[str, Any]) -> dict[str, Json]:
    if state["item"] == 2:
        raise ValueError("two")
    return {"n": state["item"]}


def test_a_failing_element_cancels_the_others() -> None:
    model = ScriptedModel({"s": ["fine", RuntimeError("503"), delayed(30, "late")]})
    flow = Map("xs", Agent("s", model=model), into="ys")
    result = weft.run_sync(flow, "go", state={"xs": [1, 2, 3]})
    assert result.error is not None
    assert result.error.error_code == "model_error"
    assert "ys" not in result.state


def test_or_failures_are_collected_and_leave_their_place_empty() -> None:
    model = ScriptedModel({"s": ["one", RuntimeError("503"), "three"]})
    flow = Map("xs", Agent("s", model=model), into="ys", on_error="collect", concurrency=1)
    result = weft.run_sync(flow, "go", state={"xs": [1, 2, 3]})
    assert result.check().state["ys"] == ["one", None, "three"]
    assert [e.error_code for e in result.session.events if e.error_code] == ["model_error"]
    model = ScriptedModel({"s": [RuntimeError("503")] * 2})
    flow = Map("xs", Agent("s", model=model), into="ys", on_error="collect")
    assert weft.run_sync(flow, "go", state={"xs": [1, 2]}).error is not None


def test_maps_nest() -> None:
    model = echoing("s")
    inner = Map("row", echo("s", model, "{row} {cell}"), into="cells", item="cell", name="inner")
    flow = Map("rows", inner, into="all", item="row", name="outer")
    result = weft.run_sync(flow, "go", state={"rows": [[1, 2], [3]]})
    assert result.check().state["all"] == [
        {"cells": ["<[1,2] 1>", "<[1,2] 2>"]},
        {"cells": ["<[3] 3>"]},
    ]
    assert set(result.state) == {"rows", "all"}


def test_the_output_of_branches_is_what_they_wrote() -> None:
    model = echoing("a", "b")
    both = echo("a", model, "a {item}").writes("a") | echo("b", model, "b {item}").writes("b")
    result = weft.run_sync(Map("xs", both, into="ys"), "go", state={"xs": [1, 2]})
    assert result.check().state["ys"] == [{"a": f"<a {n}>", "b": f"<b {n}>"} for n in (1, 2)]


def test_tools_of_an_element_read_and_write_its_own_state_and_shared_state_comes_out() -> None:
    @tool
    def note(ctx: ToolContext) -> str:
        """Note the element."""
        ctx.state["own"] = ctx.state["item"]
        ctx.state[f"user:{ctx.state['item']}"] = True
        return f"noted {ctx.state['own']}"

    model = ScriptedModel({"s": [call("note"), call("note"), "ok", "ok"]})
    flow = Map("xs", Agent("s", model=model, tools=[note]), into="ys")
    result = weft.run_sync(flow, "go", state={"xs": ["a", "b"]})
    results = [r.response for e in result.events for r in e.results]
    assert results == [{"result": "noted a"}, {"result": "noted b"}]
    assert result.state == {"xs": ["a", "b"], "ys": ["ok", "ok"], "user:a": True, "user:b": True}
    check_laws(result.session, flow)


def test_a_flow_with_a_map_may_be_a_tool_inside_a_map() -> None:
    model = ScriptedModel(
        {"s": [call("split", request="x"), call("split", request="y"), "ok", "ok"]}
        | {"t": [said] * 9}
    )

    def halves(state: dict[str, Any]) -> dict[str, Json]:
        return {"parts": [f"{state['item']}1", f"{state['item']}2"]}

    def joined(state: dict[str, Any]) -> dict[str, Json]:
        return {"both": state["words"]}

    split = (
        Step(halves)
        >> Map("parts", echo("t", model, "{part}"), into="words", item="part")
        >> joined
        >> echo("u", echoing("u"), "{both} for {item}")
    )
    named = weft.Sequence(*split.steps, name="split", description="Splits.")
    flow = Map("xs", Agent("s", model=model, tools=[named]), into="ys")
    result = weft.run_sync(flow, "go", state={"xs": ["a", "b"]})
    told = [r.response for e in result.session.events for r in e.results]
    assert told == [{"result": f'<["<{n}1>","<{n}2>"] for {n}>'} for n in "ab"]
    assert set(result.check().state) == {"xs", "ys"}


def test_elements_of_a_later_round_or_turn_are_strangers_to_those_before() -> None:
    model = echoing("s")
    flow = Map("xs", echo("s", model), into="ys")
    first = weft.run_sync(flow * 2, "go", state={"xs": ["a"]})
    weft.run_sync(flow * 2, "again", session=first.session)
    assert len(model.prompts) == 4
    assert not any("model:" in str(prompt) for prompt in model.prompts)


def test_a_request_of_an_element_is_rebuilt_from_the_log_alone() -> None:
    model = echoing("a", "b")
    body = echo("a", model).writes("word") >> echo("b", model, "From {word} of {item}")
    flow = Map("xs", body, into="ys")
    log = Session.from_json(
        weft.run_sync(flow, "go", state={"xs": ["one", "two"]}).session.to_json()
    )
    sent = {(p.agent, p.system_text): str(p) for p in model.prompts}
    for index, event in enumerate(log.events):
        if event.text and event.author in ("a", "b"):
            root = next(
                agent for agent in weft.declare.agents_of(flow) if agent.name == event.author
            )
            again = weft.compile(root, session=log.before(index), branch=event.branch)
            assert sent[event.author, again.prompt.system_text] == str(again.prompt)


# Gate.


def gated(model: ScriptedModel, **options: Any) -> Node:
    """A draft, a decision, and what is done about it."""
    return (
        Agent("writer", model=model).writes("draft")
        >> Gate("send", question="Send {draft}?", **options)
        >> Agent("sender", model=model, instruction="Decision: {send}")
    )


async def test_a_gate_stops_the_run_and_goes_on_with_the_answer() -> None:
    model = ScriptedModel({"writer": ["Hi."], "sender": ["Sent."]})
    runner = Runner(gated(model, choices=["yes", "no"]), app_name="app")
    first = await runner.run(session_id="s", message="go")
    assert first.error is None
    assert list(first.waiting.values()) == ["send"]
    assert [p.agent for p in model.prompts] == ["writer"]
    question = first.events[-1].calls[0]
    assert question.args is not None
    assert question.args["message"] == "Send Hi.?"
    assert first.events[-1].long_running_tool_ids == (question.id,)
    again = await runner.resume(session_id="s")
    assert (again.waiting, len(model.prompts)) == (first.waiting, 1)
    assert not again.events
    result = await runner.resume(session_id="s", answers={question.id or "": "YES "})
    assert (result.text, result.waiting) == ("Sent.", {})
    assert result.state == {"draft": "Hi.", "send": "yes"}
    assert "Send Hi" not in str(model.prompts[-1])
    check_laws(result.session, runner.root)


async def test_a_gate_is_answered_by_its_name_or_by_a_posted_response() -> None:
    for posted in (False, True):
        model = ScriptedModel({"writer": ["Hi."], "sender": ["Sent."]})
        runner = Runner(gated(model))
        waiting = (await runner.run(session_id="s", message="go")).waiting
        if posted:
            part = result_part(
                "adk_request_input", {"result": {"by": "ann"}}, id=next(iter(waiting))
            )
            answer = Content(parts=(part,), role="user")
            result = await runner.run(session_id="s", message=answer)
        else:
            result = await runner.resume(session_id="s", answers={"send": {"by": "ann"}})
        assert result.check().state["send"] == {"by": "ann"}
        assert result.text == "Sent."


async def test_a_wrong_answer_is_refused_and_the_gate_still_waits() -> None:
    model = ScriptedModel({"writer": ["Hi."], "sender": ["Sent."]})
    runner = Runner(gated(model, choices=["yes", "no"]))
    first = await runner.run(session_id="s", message="go")
    for wrong in ("maybe", None, 3, {"a": "b"}):
        with pytest.raises(SessionError, match="not an answer to the gate `send`") as caught:
            await runner.resume(session_id="s", answers={"send": wrong})
        assert caught.value.hint == 'answer one of: "yes", "no"'
    assert (await runner.session(session_id="s")).events == first.session.events
    assert (await runner.resume(session_id="s", answers={"send": "no"})).text == "Sent."


async def test_a_gate_answered_twice_keeps_its_first_answer() -> None:
    model = ScriptedModel({"writer": ["Hi."], "sender": ["Sent."]})
    runner = Runner(gated(model, choices=["yes", "no"]))
    id = next(iter((await runner.run(session_id="s", message="go")).waiting))
    first = await runner.resume(session_id="s", answers={id: "yes"})
    same = await runner.resume(session_id="s", answers={id: "yes"})
    assert (same.text, same.session.events) == (first.text, first.session.events)
    with pytest.raises(SessionError, match="has its answer already"):
        await runner.resume(session_id="s", answers={id: "no"})
    assert len(model.prompts) == 2


async def test_gates_side_by_side_in_loops_and_in_maps_are_asked_apart() -> None:
    both = Parallel(Gate("left"), Gate("right"))
    runner = Runner(both)
    waiting = (await runner.run(session_id="s", message="go")).waiting
    assert sorted(waiting.values()) == ["left", "right"]
    assert (
        await runner.resume(session_id="s", answers={"left": 1})
    ).waiting.keys() < waiting.keys()
    assert (await runner.resume(session_id="s", answers={"right": 2})).state == {
        "left": 1,
        "right": 2,
    }
    runner = Runner(Gate("ok", choices=["more", "stop"]) * until(lambda s: s["ok"] == "stop"))
    await runner.run(session_id="s", message="go")
    assert (await runner.resume(session_id="s", answers={"ok": "more"})).waiting
    assert (await runner.resume(session_id="s", answers={"ok": "stop"})).check().waiting == {}
    runner = Runner(Map("xs", Gate("ok", question="{item}?"), into="ys"))
    first = await runner.run(session_id="s", message="go", state={"xs": ["a", "b"]})
    asked = {str((e.calls[0].args or {})["message"]): e.calls[0].id or "" for e in first.events}
    await runner.resume(session_id="s", answers={asked["b?"]: "B"})
    last = await runner.resume(session_id="s", answers={asked["a?"]: "A"})
    assert last.check().state == {"xs": ["a", "b"], "ys": [{"ok": "A"}, {"ok": "B"}]}


# Race.


def test_the_first_branch_that_completes_wins_and_the_others_never_were() -> None:
    hare = Hare()
    model = ScriptedModel({"draft": ["A sketch."], "slow": [hare.sleeps], "quick": [hare.passed]})
    loser = Agent("draft", model=model).writes("draft") >> Agent("slow", model=model)
    winner = Agent("quick", model=model).writes("quick")
    last = echoing("w")
    flow = race(loser, winner) >> echo("w", last, "{draft?} {quick}")
    result = weft.run_sync(flow, "go")
    assert result.check().state == {"quick": "Q"}
    assert result.text == "< Q>"
    assert "sketch" not in str(last.prompts[0])
    assert "A sketch." in [event.text for event in result.session.events]
    check_laws(result.session, flow)


def test_what_the_winner_said_is_in_view_and_no_branch_saw_another() -> None:
    model = ScriptedModel({"quick": ["Quick words."], "slow": [delayed(30, "late")], "w": ["W"]})
    flow = race(Agent("slow", model=model), Agent("quick", model=model)) >> Agent("w", model=model)
    result = weft.run_sync(flow, "go")
    assert str(prompts_of(model, "w")[0]).count("[quick]: Quick words.") == 1
    assert "Quick" not in prompts_of(model, "slow")[0]
    log = Session.from_json(result.session.to_json())
    again = weft.compile(Agent("w", model=model), session=log.before(len(log.events) - 2))
    assert str(again.prompt) == prompts_of(model, "w")[0]


def test_a_branch_that_fails_is_out_of_the_race_and_all_failing_fails_it() -> None:
    model = ScriptedModel({"a": [RuntimeError("503")], "b": [delayed(0.02, "B")]})
    result = weft.run_sync(race(Agent("a", model=model), Agent("b", model=model)), "go")
    assert result.check().text == "B"
    model = ScriptedModel({"a": [RuntimeError("1")], "b": [RuntimeError("2")], "c": ["C"]})
    lost = race(Agent("a", model=model), Agent("b", model=model))
    assert weft.run_sync(lost // Agent("c", model=model), "go").check().text == "C"


async def test_a_branch_that_waits_loses_to_one_that_completes_and_asks_no_more() -> None:
    asked = asyncio.Event()

    class Watched(MemoryStore):
        async def append(self, session: Session, *events: Event) -> Session:
            if any(event.calls for event in events):
                asked.set()
            return await super().append(session, *events)

    async def slow(state: Any) -> None:
        await asked.wait()

    runner = Runner(race(Gate("ok"), Step(slow)), store=Watched())
    result = await runner.run(session_id="s", message="go")
    assert (result.error, result.waiting) == (None, {})
    id = next(e.calls[0].id or "" for e in result.session.events if e.calls)
    with pytest.raises(SessionError, match="there is no call"):
        await runner.resume(session_id="s", answers={id: "late"})
    runner = Runner(race(Gate("ok"), Gate("well")))
    assert len((await runner.run(session_id="s", message="go")).waiting) == 2
    result = await runner.resume(session_id="s", answers={"well": "yes"})
    assert (result.check().state, result.waiting) == ({"well": "yes"}, {})


def test_a_race_in_a_loop_and_a_race_in_a_map() -> None:
    model = echoing("a", times=9)
    flow = race(echo("a", model, "{n?}").writes("n"), never) * 3
    assert weft.run_sync(flow, "go").state == {"n": "<<<>>>"}
    flow = Map("xs", race(echo("b", echoing("b")).writes("b"), never), into="ys")
    assert weft.run_sync(flow, "go", state={"xs": [1, 2]}).state["ys"] == ["<1>", "<2>"]


def test_calls_of_a_loser_are_answered_so_that_the_log_stays_whole() -> None:
    hare = Hare()

    async def wait() -> str:
        """Wait."""
        hare.asleep.set()
        await asyncio.sleep(600)
        return "late"

    model = ScriptedModel({"slow": [call("wait")], "quick": [hare.passed], "w": ["W"]})
    flow = race(Agent("slow", model=model, tools=[wait]), Agent("quick", model=model)) >> Agent(
        "w", model=model
    )
    result = weft.run_sync(flow, "go")
    assert result.check().text == "W"
    assert [r.response for e in result.session.events for r in e.results] == [
        {"error": "another branch won"}
    ]
    check_laws(result.session, flow)


# Timeout.


def test_a_node_that_takes_too_long_fails_and_a_fallback_catches_it() -> None:
    result = weft.run_sync(timeout(never, 0.02), "go")
    assert result.error is not None
    assert result.error.error_code == "timeout"
    assert result.error.error_message == "`never` took longer than 0.02 s"
    model = ScriptedModel({"slow": [delayed(30, "late")], "quick": ["Q"]})
    flow = timeout(Agent("slow", model=model), 0.02) // Agent("quick", model=model)
    result = weft.run_sync(flow, "go")
    assert result.check().text == "Q"
    check_laws(result.session, flow)


def test_a_node_that_is_quick_enough_is_not_changed_by_its_timeout() -> None:
    model = ScriptedModel({"a": ["A"]})
    result = weft.run_sync(timeout(Agent("a", model=model).writes("a"), 600), "go")
    assert (result.check().text, result.state) == ("A", {"a": "A"})


async def test_a_slow_reader_does_not_use_up_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LoopClock(monkeypatch)
    model = ScriptedModel({"a": ["A"], "b": ["B"]})
    flow = timeout(Agent("a", model=model) >> Agent("b", model=model), 600)
    events: list[Event] = []
    async for event in Runner(flow).run(session_id="s", message="go"):
        clock.pass_by(1000)
        await asyncio.sleep(0)
        events.append(event)
    assert [e.text for e in events] == ["A", "B"]


async def test_parallels_and_tools_are_stopped_by_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = LoopClock(monkeypatch)
    begun: list[str] = []
    stopped: list[str] = []

    async def wait() -> str:
        """Wait."""
        begun.append("wait")
        if len(begun) == 2:
            clock.pass_by(1000)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.append("wait")
            raise
        return "late"

    model = ScriptedModel({"a": [call("wait")], "b": [call("wait")], "c": ["C"]})
    a, b = (Agent(name, model=model, tools=[wait]) for name in "ab")
    flow = timeout(a | b, 600) // Agent("c", model=model)
    result = await weft.run(flow, "go")
    assert (result.check().text, stopped) == ("C", ["wait", "wait"])
    told = [r.response for e in result.session.events for r in e.results]
    assert told == [{"error": "it took too long"}] * 2
    check_laws(result.session, flow)


# Tap, expect, while_.


def test_a_tap_looks_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[object] = []

    def look(state: dict[str, Any]) -> dict[str, Json]:
        seen.append(state["a"])
        return {"a": "changed"}

    async def breaks(state: dict[str, Any]) -> None:
        state["a"] = "changed"

    model = ScriptedModel({"a": ["A"], "b": ["B"]})
    flow = (
        Agent("a", model=model).writes("a") >> tap(look) >> tap(breaks) >> Agent("b", model=model)
    )
    with caplog.at_level(logging.WARNING, logger="weft"):
        result = weft.run_sync(flow, "go")
    assert (result.check().state, result.text, seen) == ({"a": "A"}, "B", ["A"])
    assert "breaks: the tap raised" in caplog.text


@pytest.mark.parametrize("later", [False, True])
def test_an_expectation_fails_the_run_with_its_message(later: bool) -> None:
    async def paid_later(state: dict[str, Any]) -> bool:
        return bool(state["paid"])

    predicate: Callable[[dict[str, Any]], object] = paid_later if later else lambda s: s["paid"]
    model = ScriptedModel({"a": ["A"]})
    flow = expect(predicate, "the invoice is not paid") >> Agent("a", model=model)
    assert weft.run_sync(flow, "go", state={"paid": True}).check().text == "A"
    error = weft.run_sync(flow, "go", state={"paid": False}).error
    assert error is not None
    assert (error.error_code, error.error_message) == (
        "expectation_failed",
        "the invoice is not paid",
    )
    with pytest.raises(KeyError):
        weft.run_sync(flow, "go")
    caught = weft.run_sync(flow // Step(lambda s: {"caught": True}), "go")
    assert caught.check().state == {"caught": True}


def test_while_is_asked_before_each_round() -> None:
    def count(state: dict[str, Any]) -> dict[str, Json]:
        return {"n": state.get("n", 0) + 1}

    flow = Step(count) * while_(lambda state: state.get("n", 0) < 3)
    assert weft.run_sync(flow, "go").state == {"n": 3}
    assert weft.run_sync(flow, "go", state={"n": 5}).state == {"n": 5}
    assert weft.run_sync(Step(count) * while_(lambda s: True, max=2), "go").state == {"n": 2}

    async def later(state: dict[str, Any]) -> bool:
        return bool(state["go"])

    with pytest.raises(KeyError):
        weft.run_sync(Step(count) * while_(later), "go")


# Fallback.


def test_what_a_choice_that_failed_said_is_in_nobodys_view() -> None:
    model = ScriptedModel(
        {"a": ["Half a plan."], "b": [RuntimeError("503")], "c": ["C"], "d": ["D"]}
    )
    first = Step(lambda state: {"tried": 1}) >> Agent("a", model=model) >> Agent("b", model=model)
    flow = first // Agent("c", model=model) >> Agent("d", model=model)
    result = weft.run_sync(flow, "go")
    assert result.check().text == "D"
    assert "Half a plan." in [event.text for event in result.session.events]
    assert "Half" in prompts_of(model, "b")[0]
    assert "Half" not in prompts_of(model, "c")[0]
    assert "Half" not in prompts_of(model, "d")[0]
    assert prompts_of(model, "d")[0].count("[c]: C") == 1
    assert result.state == {"tried": 1}
    check_laws(result.session, flow)


def test_what_failed_before_anything_was_said_leaves_the_view_as_it_was() -> None:
    model = ScriptedModel({"a": [RuntimeError("503")], "c": ["C"]})
    result = weft.run_sync(Agent("a", model=model) // Agent("c", model=model), "go")
    marks = [e.custom_metadata for e in result.session.events if e.author == "fallback"]
    assert marks == [None, None]


def test_the_answer_is_never_that_of_a_choice_that_failed() -> None:
    model = ScriptedModel({"a": ["Half a plan."]})
    flow = (Agent("a", model=model) >> expect(lambda s: False, "no")) // Step(lambda s: {"n": 1})
    result = weft.run_sync(flow, "go")
    assert (result.check().text, result.state) == ("", {"n": 1})


def test_views_woven_step_by_step_are_those_of_a_log_read_at_once() -> None:
    model = echoing("a", "b", "c", "d", "w", times=60)
    choice = (echo("a", model, "a") >> expect(lambda s: False, "no")) // echo("c", model, "c")
    fast = race(echo("b", model, "b").writes("b"), never)
    flow = (choice >> fast >> Map("xs", echo("d", model), into="ys") >> echo("w", model, "w")) * 3
    session = weft.run_sync(flow, "go", state={"xs": [1, 2]}).check().session
    fresh = Session.from_json(session.to_json())
    agents = {agent.name: agent for agent in weft.declare.agents_of(flow)}
    for index, event in enumerate(fresh.events):
        if event.text and event.author in agents:
            alone = Session.from_json(fresh.before(index).to_json())
            one = weft.compile(agents[event.author], session=alone, branch=event.branch)
            woven = weft.compile(
                agents[event.author], session=session.before(index), branch=event.branch
            )
            assert str(one.prompt) == str(woven.prompt)
            assert one.wire == woven.wire
            assert str(one.prompt) in [str(prompt) for prompt in model.prompts]


# Going on from any point.


def everything(model: ScriptedModel, ran: list[str]) -> Node:
    """A flow that has each of the nodes, some inside others."""

    def count(state: dict[str, Any]) -> dict[str, Json]:
        ran.append("count")
        return {"n": state.get("n", 0) + 1}

    def look(state: dict[str, Any]) -> None:
        ran.append(f"look {state['n']}")

    body = echo("a", model, "{item}").writes("word") >> Route("item").eq(
        "two", echo("b", model, "{word}!")
    ).otherwise(echo("c", model, "{word}"))
    tried = (echo("d", model, "d") >> expect(lambda s: False, "never")) // echo("e", model, "e")
    return (
        Map("xs", body, into="ys", concurrency=2)
        >> Step(count) * while_(lambda state: state.get("n", 0) < 2)
        >> tap(look)
        >> race(echo("f", model, "{ys} {n}").writes("f"), never)
        >> tried
        >> timeout(echo("g", model, "g"), 20)
        >> Gate("ok", choices=["yes", "no"])
        >> echo("h", model, "{ok} {f}").writes("h")
    )


async def cut(log: Session, length: int, root: Node) -> Runner:
    """A runner on a store that has the first events of a log, as if the process had died there."""
    store = MemoryStore()
    session = await store.create(KEY, state=log.initial)
    await store.append(session, *log.events.first(length))
    return Runner(root, app_name=KEY.app_name, store=store)


async def test_a_run_of_all_nodes_ends_the_same_from_any_point_of_its_log() -> None:
    names = "abcdefgh"
    store, ran = Measured(), list[str]()
    model = echoing(*names, times=1000)
    runner = Runner(everything(model, ran), app_name=KEY.app_name, store=store)
    state: dict[str, Json] = {"xs": ["one", "two", "three"]}
    assert (await runner.run(session_id=KEY.id, message="go", state=state)).waiting
    whole = (await runner.resume(session_id=KEY.id, answers={"ok": "yes"})).check()
    assert whole.state["ys"] == ["<<one>>", "<<two>!>", "<<three>>"]
    assert whole.text == '<yes <["<<one>>","<<two>!>","<<three>>"] 2>>'
    assert ran == ["count", "count", "look 2"]
    check_laws(whole.session, runner.root)
    for length in store.lengths:
        ran.clear()
        model = echoing(*names)
        root = everything(model, ran)
        went = await cut(whole.session, length, root)
        again = await went.resume(session_id=KEY.id)
        if again.waiting:
            again = await went.resume(session_id=KEY.id, answers={"ok": "yes"})
        assert again.check().text == whole.text, f"cut after {length} events"
        assert again.state == whole.state
        check_laws(again.session, root)
        kept = whole.session.events.first(length)
        answered = [event.author for event in kept if event.text and event.author in names]
        asked = [prompt.agent for prompt in model.prompts]
        assert sorted([*answered, *asked]) == sorted("aaabccdefgh"), f"cut after {length} events"
        done = [e.author for e in kept if e.actions.end_of_agent]
        assert len(ran) == 3 - done.count("count") - done.count("look")


@pytest.mark.parametrize("after", range(1, 14))
async def test_a_race_that_was_cut_off_has_one_winner_and_repeats_nothing(after: int) -> None:
    store = Measured()
    model = ScriptedModel({"a": ["A"], "b": [delayed(30, "late")], "c": ["C"], "w": ["W"]})

    def flow(model: ScriptedModel) -> Node:
        left = Agent("a", model=model).writes("x") >> Agent("c", model=model).writes("y")
        return race(left, Agent("b", model=model).writes("x")) >> Agent("w", model=model)

    log = (
        await Runner(flow(model), app_name="app", store=store).run(session_id="s", message="go")
    ).session
    if after > len(log.events):
        return
    again = ScriptedModel({"a": ["A"], "b": [delayed(30, "late")], "c": ["C"], "w": ["W"]})
    result = await (await cut(log, after, flow(again))).resume(session_id="s")
    assert result.check().state == {"x": "A", "y": "C"}
    assert result.text == "W"
    check_laws(result.session, flow(again))
    spoken = {event.author for event in log.events.first(after) if event.text}
    assert not spoken & {prompt.agent for prompt in again.prompts}


@pytest.mark.parametrize(
    "make",
    [
        lambda a, slow: Map("xs", a >> slow, into="ys"),
        lambda a, slow: race(a >> slow, slow),
        lambda a, slow: timeout(a >> slow, 20),
    ],
)
async def test_all_nodes_stream_and_stop_when_they_are_cancelled(
    make: Callable[[Agent, Agent], Node],
) -> None:
    model = ScriptedModel({"a": ["one two three"], "b": [delayed(30, "late")] * 2})
    flow = make(Agent("a", model=model), Agent("b", model=model))
    runner, config = Runner(flow), weft.RunConfig(stream=True)
    running = runner.run(session_id="s", message="go", state={"xs": [1]}, config=config)
    events: list[Event] = []
    spoken = asyncio.Event()

    async def read() -> None:
        async for event in running:
            events.append(event)
            if not event.partial:
                spoken.set()

    task = asyncio.create_task(read())
    await spoken.wait()
    assert any(event.partial for event in events)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    log = await runner.session(session_id="s")
    assert log.events[-1].error_code == "cancelled"
    check_laws(log, flow, may_hang=True)


def test_an_escalation_of_a_loser_ends_no_loop() -> None:
    def leave(ctx: ToolContext) -> str:
        """Leave."""
        ctx.actions.escalate = True
        return "left"

    hare = Hare()
    model = ScriptedModel({"a": [call("leave"), hare.sleeps] * 2, "b": [hare.passed] * 2})
    loser = Agent("a", model=model, tools=[leave])
    result = weft.run_sync(race(loser, Agent("b", model=model)) * 2, "go")
    assert [e.text for e in result.check().session.events if e.author == "b"] == ["Q", "Q"]


def test_parts_of_a_message_reach_every_element() -> None:
    model = ScriptedModel({"s": ["ok", "ok"]})
    flow = Map("xs", Agent("s", model=model), into="ys")
    message = Content(parts=(Part(text="Look"),), role="user")
    weft.run_sync(flow, message, state={"xs": [1, 2]})
    assert all("user: Look" in str(prompt) for prompt in model.prompts)
