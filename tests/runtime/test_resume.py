"""Going on from any point of a log: what a crash leaves is a log that ends early."""

import os
from pathlib import Path

import pytest

from tests.runtime.journal import Journal
from tests.runtime.kill_flow import flow
from tests.runtime.logs import Measured, by_place, check_log
from weft import Agent, Fallback, Parallel, Runner, ToolContext, tool
from weft.declare import Node
from weft.session import MemoryStore, Session, SessionKey
from weft.testing import ScriptedModel, call, malformed

KEY = SessionKey("app", "user", "s")
EVERY = 1 if int(os.environ.get("WEFT_KILLS", "0")) >= 200 else 9
"""Of how many points of the long log one is tried."""


async def cut(log: Session, length: int, root: Node) -> Runner:
    """A runner on a store that has the first events of a log, as if the process had died there."""
    store = MemoryStore()
    session = await store.create(KEY, state=log.initial)
    await store.append(session, *log.events.first(length))
    return Runner(root, app_name=KEY.app_name, store=store)


async def test_a_run_ends_the_same_from_any_point_of_its_log(tmp_path: Path) -> None:
    note, store = Journal(tmp_path / "journal"), Measured()
    runner = Runner(flow(note), app_name=KEY.app_name, store=store)
    whole = (await runner.run(session_id=KEY.id, message="Go", state={"given": 1})).session
    assert len(whole.events) > 120
    assert whole.state["count"] == 5, "a call that ran alone saw what the one before it wrote"
    for length in store.lengths[::EVERY]:
        again = await (await cut(whole, length, flow(note))).resume(session_id=KEY.id)
        check_log(again.session)
        assert by_place(again.session) == by_place(whole), f"cut after {length} events"
        assert again.state == {k: v for k, v in whole.state.items() if "temp:" not in k}
        assert again.text.startswith("the end")


async def first_run(root: Node) -> Session:
    """The log of a run."""
    runner = Runner(root, app_name=KEY.app_name)
    return (await runner.run(session_id=KEY.id, message="Go")).session


async def test_a_choice_that_failed_is_not_tried_again_where_there_is_another() -> None:
    model = ScriptedModel({"a": [RuntimeError("503")], "b": ["B", "B", "B"]})
    root = Fallback(Agent("a", model=model), Agent("b", model=model))
    log = await first_run(root)
    assert log.events[1].error_code == "model_error"
    for length in (2, 3):
        result = await (await cut(log, length, root)).resume(session_id=KEY.id)
        assert result.check().text == "B"
    assert [prompt.agent for prompt in model.prompts] == ["a", "b", "b", "b"]


async def test_a_step_that_failed_is_not_called_again_where_there_is_another_choice() -> None:
    called: list[str] = []

    def fails(state: object) -> None:
        called.append("fails")
        raise ValueError("no")

    model = ScriptedModel({"b": ["B", "B"]})
    root = Fallback(fails, Agent("b", model=model))
    log = await first_run(root)
    result = await (await cut(log, 2, root)).resume(session_id=KEY.id)
    assert result.check().text == "B"
    assert called == ["fails"]


async def test_a_run_that_failed_is_tried_again() -> None:
    model = ScriptedModel({"a": [RuntimeError("503")], "b": [RuntimeError("503"), "B"]})
    root = Fallback(Agent("a", model=model), Agent("b", model=model))
    runner = Runner(root)
    assert (await runner.run(session_id="s", message="Go")).error is not None
    assert (await runner.resume(session_id="s")).check().text == "B"
    assert [prompt.agent for prompt in model.prompts] == ["a", "b", "b"]


@pytest.mark.parametrize("good", [False, True])
async def test_a_failure_that_is_collected_stays_one_unless_all_failed(good: bool) -> None:
    model = ScriptedModel(
        {"a": [RuntimeError("503"), "A"], "b": ["B" if good else RuntimeError("503"), "B"]}
    )
    both = Parallel(Agent("a", model=model), Agent("b", model=model), on_error="collect")
    log = await first_run(both)
    result = await (await cut(log, 3, both)).resume(session_id=KEY.id)
    assert result.error is None
    assert len(model.prompts) == (2 if good else 4)


async def test_malformed_arguments_are_still_malformed_after_a_crash() -> None:
    called: list[str] = []

    def look(what: str = "all") -> str:
        """Look."""
        called.append(what)
        return "seen"

    model = ScriptedModel([malformed("look", '{"what": '), "sorry", "sorry"])
    root = Agent("bot", model=model, tools=[look])
    log = await first_run(root)
    result = await (await cut(log, 2, root)).resume(session_id=KEY.id)
    assert result.text == "sorry"
    assert "not a JSON object" in str(result.events[0].results[0].response)
    assert called == []


async def test_a_call_that_runs_alone_sees_what_calls_before_it_wrote() -> None:
    @tool(sequential=True)
    async def count(step: str, ctx: ToolContext) -> int:
        """Count."""
        ctx.state["n"] = now = int(str(ctx.state.get("n", 0))) + 1
        return now

    script = [[call("count", step="a"), call("count", step="b")], call("count", step="c"), "done"]
    root = Agent("bot", model=ScriptedModel(script), tools=[count])
    log = await first_run(root)
    assert log.state == {"n": 3}
    assert "WEFT104" not in str([event.custom_metadata for event in log.events])
    root = Agent("bot", model=ScriptedModel([call("count", step="c"), "done"]), tools=[count])
    result = await (await cut(log, 3, root)).resume(session_id=KEY.id)
    assert result.state == {"n": 3}, "also where the one before it ran before a crash"


async def test_a_question_to_the_user_is_in_the_log_as_soon_as_the_call_waits() -> None:
    paid: list[str] = []

    @tool(confirm=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        paid.append(ctx.call_id)
        return "paid"

    def root(*script: object) -> Agent:
        return Agent("bot", model=ScriptedModel(script), tools=[pay])  # type: ignore[arg-type]

    store = Measured()
    first = await Runner(root(call("pay")), app_name=KEY.app_name, store=store).run(
        session_id=KEY.id, message="Go"
    )
    for length in store.lengths[1:]:
        paid.clear()
        runner = await cut(first.session, length, root("done"))
        waiting = (await runner.resume(session_id=KEY.id)).waiting
        (call_id,) = (id for id, name in waiting.items() if name == "pay")
        assert paid == []
        result = await runner.resume(session_id=KEY.id, answers={call_id: True})
        assert paid == [call_id]
        assert result.text == "done"
        check_log(result.session)
