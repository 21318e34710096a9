"""A question stays open until it is answered: across messages, rewinds, crashes and processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from tests.runtime.tools import approve
from weft import Agent, Runner, Session, ToolContext, ToolResult, tool
from weft.errors import SessionError
from weft.testing import ScriptedModel, call

BANK = '''
"""A bank whose process dies in the middle of a refund."""
import os, signal
from pathlib import Path
from weft import tool

LEDGER = Path(__file__).with_name("ledger")

def refund(amount: int) -> str:
    """Refund an amount."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{amount}\\n")
    if len(LEDGER.read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"refunded {amount}"

refund_tool = tool(confirm=True, effect="unsafe")(refund)
'''

FIRST = """
import asyncio, sys
import bank
from weft import Agent, Runner
from weft.testing import ScriptedModel, call

async def main():
    model = ScriptedModel([call("refund", amount=50)])
    bot = Agent("bot", model=model, tools=[bank.refund_tool])
    async with Runner(bot, store=sys.argv[1]) as runner:
        first = await runner.run(session_id="s", message="refund 50")
        (call_id,) = first.waiting
        await runner.resume(session_id="s", answers={call_id: True})

asyncio.run(main())
"""


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, object]]:
    """A store whose session was killed inside an approved call, and the call's tool."""
    (tmp_path / "bank.py").write_text(BANK)
    (tmp_path / "first.py").write_text(FIRST)
    store = f"sqlite:///{tmp_path}/weft.db"
    done = subprocess.run(
        [sys.executable, "first.py", store], cwd=tmp_path, env=os.environ, check=False
    )
    assert done.returncode == -signal.SIGKILL
    monkeypatch.syspath_prepend(str(tmp_path))
    import bank  # type: ignore[import-not-found]

    yield store, bank
    del sys.modules["bank"]  # pages and other tests have a bank of their own


@pytest.mark.parametrize("asked_first", [True, False])
@pytest.mark.parametrize("said", ["refunded 50", {"refunded": 50}, {"confirmed": True, "id": 7}])
def test_after_a_kill_inside_an_approved_call_its_result_can_be_said(
    killed: tuple[str, object], asked_first: bool, said: object
) -> None:
    store, bank = killed
    model = ScriptedModel(["done"])
    bot = Agent("bot", model=model, tools=[bank.refund_tool])  # type: ignore[attr-defined]

    async def go() -> None:
        async with Runner(bot, store=store) as runner:
            session = await runner.session(session_id="s")
            call_id = next(c.id for e in session.events for c in e.calls if c.name == "refund")
            assert call_id is not None
            if asked_first:
                asked = await runner.resume(session_id="s")
                assert asked.waiting == {call_id: "refund"}
                assert asked.session.waiting == {call_id: "refund"}
                assert asked.events[-1].error_code == "unknown_outcome"
            last = await runner.resume(session_id="s", answers={call_id: said})
            assert last.text == "done"
            assert last.waiting == {}
            same = await runner.resume(session_id="s", answers={call_id: said})
            assert same.events == ()
            with pytest.raises(SessionError, match="has its answer already"):
                await runner.resume(session_id="s", answers={call_id: "another"})

    asyncio.run(go())
    assert bank.LEDGER.read_text() == "50\n"  # type: ignore[attr-defined]
    shown = "refunded 50" if isinstance(said, str) else '"refunded":50'
    assert "id" in said or shown in str(model.prompts[0])  # type: ignore[operator]


def test_after_a_kill_an_answer_carries_the_state_that_the_tool_would_have_written(
    killed: tuple[str, object],
) -> None:
    store, bank = killed
    model = ScriptedModel(["refunded", "again"])
    tools = [bank.refund_tool]  # type: ignore[attr-defined]
    bot = Agent("bot", model=model, tools=tools, instruction="Receipt: {receipt?}.")

    async def go() -> None:
        async with Runner(bot, store=store) as runner:
            session = await runner.session(session_id="s")
            call_id = next(c.id for e in session.events for c in e.calls if c.name == "refund")
            assert call_id is not None
            for wrong in ([1], {"a": object()}, {1: "x"}):
                answers = {call_id: ToolResult("ok", state=wrong)}  # type: ignore[arg-type]
                with pytest.raises(SessionError) as error:
                    await runner.resume(session_id="s", answers=answers)
                assert error.value.where.startswith(f"answers[{call_id}].state")
                assert await runner.session(session_id="s") == session  # nothing was stored
            with pytest.raises(SessionError, match="ToolResult is a class"):
                await runner.resume(session_id="s", answers={call_id: ToolResult})
            answer = ToolResult("refunded 50", state={"receipt": "R-7", "user:refunds": 1})
            last = await runner.resume(session_id="s", answers={call_id: answer})
            assert last.state["receipt"] == "R-7"
            assert last.state["user:refunds"] == 1
            # the same answer again changes nothing, whatever it says of the state
            await runner.run("And?", session_id="s", state={"receipt": "R-8"})
            same = await runner.resume(session_id="s", answers={call_id: answer})
            assert same.state["receipt"] == "R-8"

    asyncio.run(go())
    assert bank.LEDGER.read_text() == "50\n"  # type: ignore[attr-defined]
    request = str(model.prompts[0])
    assert "Receipt: R-7." in request
    assert '"result":"refunded 50"' in request


def test_each_answer_writes_the_state_of_its_own_branch() -> None:
    @tool(long_running=True)
    def order(item: str) -> None:
        """Order."""

    def shop(name: str) -> Agent:
        return Agent(name, model=model, tools=[order]).writes(f"{name}_done")

    model = ScriptedModel({
        "a": [call("order", item="a"), "a ordered"], "b": [call("order", item="b"), "b ordered"],
        "end": ["both"],
    })  # fmt: skip
    end = Agent("end", model=model, instruction="{a_number} {b_number} {a_done} {b_done}")
    runner = Runner((shop("a") | shop("b")) >> end)

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        calls = {c.args["item"]: c.id or "" for e in first.events for c in e.calls if c.args}
        said = {
            calls[name]: ToolResult("sent", state={f"{name}_number": number})
            for name, number in (("a", 1), ("b", 2))
        }
        last = await runner.resume(session_id="s", answers=said)
        assert last.text == "both"
        assert "1 2 a ordered b ordered" in str(model.prompts[-1])

    asyncio.run(go())


def test_a_question_that_is_not_about_a_result_takes_no_outcome() -> None:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([call("pay", amount=5), "done"])
    asks = Runner(Agent("bot", model=model, tools=[pay]))
    gate = Runner(weft.Gate("ok", question="Fine?"))

    async def go() -> None:
        for runner, words in ((asks, "it has not run yet"), (gate, "a gate stores its answer")):
            waiting = (await runner.run(session_id="s", message="go")).waiting
            for key in (*waiting, *waiting.values()):
                with pytest.raises(SessionError, match=words) as error:
                    await runner.resume(
                        session_id="s", answers={key: ToolResult(1, state={"x": 1})}
                    )
                assert "write answers=" in error.value.hint
            assert (await runner.session(session_id="s")).waiting == waiting

    asyncio.run(go())


def test_after_a_kill_a_yes_is_no_result_and_retry_runs_it_again(
    killed: tuple[str, object],
) -> None:
    store, bank = killed
    bot = Agent("bot", model=ScriptedModel(["done"]), tools=[bank.refund_tool])  # type: ignore[attr-defined]

    async def go() -> None:
        async with Runner(bot, store=store) as runner:
            session = await runner.session(session_id="s")
            call_id = next(c.id for e in session.events for c in e.calls if c.name == "refund")
            assert call_id is not None
            # who was never told that the yes arrived says it again: it is no answer to the new
            # question, and does not run the call again
            again = await runner.resume(session_id="s", answers={call_id: True})
            assert again.waiting == {call_id: "refund"}
            for unclear in (True, False, {"confirmed": True}):
                with pytest.raises(SessionError, match="is confirmed already") as error:
                    await runner.resume(session_id="s", answers={call_id: unclear})
                assert f"retry=['{call_id}']" in str(error.value)
            by_id = await runner.resume(session_id="s", answers={f"ask-{call_id}": True})
            assert by_id.waiting == {call_id: "refund"}
            assert bank.LEDGER.read_text() == "50\n"  # type: ignore[attr-defined]
            with pytest.raises(SessionError, match="there is no call with the id refnd"):
                await runner.resume(session_id="s", retry=["refnd"])
            last = await runner.resume(session_id="s", retry=[call_id])
            assert last.text == "done"
            assert last.waiting == {}

    asyncio.run(go())
    assert bank.LEDGER.read_text() == "50\n50\n"  # type: ignore[attr-defined]


def test_a_confirmed_call_that_runs_long_takes_its_result_by_the_same_id() -> None:
    @tool(confirm=True, long_running=True)
    def order(amount: int) -> None:
        """Order."""

    model = ScriptedModel([call("order", amount=5), "done"])
    runner = Runner(Agent("bot", model=model, tools=[order]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        second = await runner.resume(session_id="s", answers={call_id: True})
        assert second.waiting == {call_id: "order"}
        last = await runner.resume(session_id="s", answers={call_id: {"arrived": "today"}})
        assert last.text == "done"
        assert 'order -> {"arrived":"today"}' in str(model.prompts[1])

    asyncio.run(go())


def test_a_confirmation_takes_a_yes_or_no_by_either_id_and_nothing_else() -> None:
    @tool(confirm=True)
    def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([call("pay", amount=5), "done"])
    runner = Runner(Agent("bot", model=model, tools=[pay]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        for odd in ("paid 5", {"result": 5}, None, 1):
            with pytest.raises(SessionError, match="waits for a yes or no"):
                await runner.resume(session_id="s", answers={call_id: odd})
        with pytest.raises(SessionError, match="never ran"):
            await runner.resume(session_id="s", retry=[call_id])
        last = await runner.resume(session_id="s", answers={f"ask-{call_id}": True})
        assert last.text == "done"
        assert 'pay -> {"result":"paid 5"}' in str(model.prompts[1])

    asyncio.run(go())


def test_a_question_stays_listed_until_it_is_answered(tmp_path: Path) -> None:
    model = ScriptedModel([
        call("approve", amount=5), "Nice weather.", call("approve", amount=6), "both", "first",
    ])  # fmt: skip
    bot = Agent("bot", model=model, tools=[approve])

    async def go() -> None:
        async with Runner(bot, store=f"sqlite:///{tmp_path}/weft.db") as runner:
            first = await runner.run(session_id="s", message="5 please")
            (one,) = first.waiting
            second = await runner.run(session_id="s", message="How is the weather?")
            assert second.text == "Nice weather."
            assert second.waiting == {one: "approve"}
            third = await runner.run(session_id="s", message="6 please")
            two = next(id for id in third.waiting if id != one)
            assert third.waiting == {one: "approve", two: "approve"}
            later = await runner.resume(session_id="s", answers={two: "fine"})
            assert later.waiting == {one: "approve"}
            stored = await runner.session(session_id="s")
            assert stored.waiting == {one: "approve"}
            assert Session.from_json(stored.to_json()).waiting == {one: "approve"}
            assert first.session.waiting == {one: "approve"}  # an older value stays as it was
            last = await runner.resume(session_id="s", answers={one: "fine too"})
            assert last.waiting == {}
            assert last.invocation_id == first.invocation_id
            back = await runner.rewind(session_id="s", invocation_id=third.invocation_id)
            assert back.waiting == {one: "approve"}, "what was answered later is open again"
            gone = await runner.rewind(session_id="s", invocation_id=first.invocation_id)
            assert gone.waiting == {}

    asyncio.run(go())


def test_a_plain_session_waits_for_nobody() -> None:
    result = weft.run_sync(Agent("bot", model=ScriptedModel(["hi"])), "hello")
    assert result.waiting == {} == result.session.waiting
