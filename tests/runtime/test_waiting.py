"""F8: calls that wait for somebody, confirmations, and resuming with their answers."""

import asyncio

import pytest

import weft
from tests.runtime.tools import approve
from weft import Agent, Content, Part, Runner, Sequence, ToolContext, tool
from weft.content import FunctionResponse
from weft.testing import ScriptedModel, call


@tool(long_running=True)
def approve_silently(amount: int) -> None:
    """Ask a manager, with nothing to say yet."""


paid: list[str] = []


@tool(confirm=True)
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    paid.append(ctx.call_id)
    return f"paid {amount}"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


@pytest.mark.parametrize("name", ["approve", "approve_silently"])
def test_f8_the_call_stays_open_and_the_invocation_ends(name: str) -> None:
    model = ScriptedModel([call(name, amount=5), "approved!"])
    runner = Runner(Agent("bot", model=model, tools=[approve, approve_silently]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="pay 5")
        assert first.text == ""
        assert first.error is None
        assert list(first.waiting.values()) == [name]
        assert len(model.wires) == 1
        (call_id,) = first.waiting
        again = await runner.resume(session_id="s")
        assert again.events == ()
        assert len(model.wires) == 1
        last = await runner.resume(session_id="s", answers={call_id: {"ok": True}})
        assert last.text == "approved!"
        assert last.waiting == {}
        assert last.invocation_id == first.invocation_id
        request = str(model.prompts[1])
        assert f'{name} -> {{"ok":true}}' in request
        assert "asked" not in request

    asyncio.run(go())


def test_f8_other_calls_of_the_reply_are_answered_at_once() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([[call("look"), call("approve", amount=1)], "both"])
    runner = Runner(Agent("bot", model=model, tools=[look, approve]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        last = await runner.resume(session_id="s", answers={call_id: "fine"})
        assert last.text == "both"
        request = str(model.prompts[1])
        assert 'look -> {"result":"seen"}' in request
        assert 'approve -> {"result":"fine"}' in request

    asyncio.run(go())


def test_f8_a_confirmation_is_asked_bound_to_the_call_and_its_arguments() -> None:
    model = ScriptedModel([call("pay", amount=5), "done"])
    runner = Runner(Agent("bot", model=model, tools=[pay]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="pay")
        assert paid == []
        asked = first.events[-1].calls[0]
        assert asked.name == "adk_request_confirmation"
        args = asked.args or {}
        original = args["originalFunctionCall"]
        assert isinstance(original, dict)
        assert original["name"] == "pay"
        assert original["args"] == {"amount": 5}
        (call_id,) = {k for k, v in first.waiting.items() if v == "pay"}
        last = await runner.resume(session_id="s", answers={call_id: True})
        assert paid == [call_id]
        assert last.text == "done"
        assert 'pay -> {"result":"paid 5"}' in str(model.prompts[1])
        assert "adk_request_confirmation" not in str(model.wires[1])

    asyncio.run(go())


def test_f8_a_refused_call_is_not_run() -> None:
    model = ScriptedModel([call("pay", amount=5), "as you wish"])
    runner = Runner(Agent("bot", model=model, tools=[pay]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="pay")
        (call_id,) = {k for k, v in first.waiting.items() if v == "pay"}
        last = await runner.resume(session_id="s", answers={call_id: False})
        assert paid == []
        assert last.text == "as you wish"
        assert "the user refused this call" in str(model.wires[1])

    asyncio.run(go())


def test_f8_a_confirmation_of_other_arguments_is_refused() -> None:
    model = ScriptedModel([call("pay", amount=5), "as you wish"])
    runner = Runner(Agent("bot", model=model, tools=[pay]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="pay")
        asked = first.events[-1].calls[0]
        forged = FunctionResponse(
            name=asked.name,
            id=asked.id,
            response={"confirmed": True, "payload": {"fingerprint": "of something else"}},
        )
        answer = Content(parts=(Part(function_response=forged),), role="user")
        await runner.run(session_id="s", message=answer)
        assert paid == []
        assert "other arguments" in str(model.wires[1])

    asyncio.run(go())


def test_f8_a_flow_goes_on_behind_the_step_that_waited() -> None:
    model = ScriptedModel({"asker": [call("approve", amount=1), "granted"], "writer": ["The end."]})
    flow = Agent("asker", model=model, tools=[approve]).writes("word") >> Agent(
        "writer", model=model, instruction="Word: {word}"
    )
    runner = Runner(flow)

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        assert [p.agent for p in model.prompts] == ["asker"]
        (call_id,) = first.waiting
        last = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert last.text == "The end."
        assert "Word: granted" in model.prompts[2].system_text

    asyncio.run(go())


def test_f8_branches_beside_the_one_that_waits_run_to_their_end() -> None:
    model = ScriptedModel(
        {"asker": [call("approve", amount=1), "granted"], "other": ["beside"], "last": ["end"]}
    )
    flow = Sequence(
        Agent("asker", model=model, tools=[approve]) | Agent("other", model=model),
        Agent("last", model=model),
    )
    runner = Runner(flow)

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        assert sorted(p.agent for p in model.prompts) == ["asker", "other"]
        (call_id,) = first.waiting
        last = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert last.text == "end"
        assert sorted(p.agent for p in model.prompts) == ["asker", "asker", "last", "other"]

    asyncio.run(go())


def test_an_answer_to_no_call_lists_the_calls_that_wait() -> None:
    runner = Runner(Agent("bot", model=ScriptedModel([call("approve", amount=1)]), tools=[approve]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        with pytest.raises(weft.WeftError, match=call_id):
            await runner.resume(session_id="s", answers={"nonsense": 1})

    asyncio.run(go())


def test_resuming_what_is_not_there_says_what_is() -> None:
    runner = Runner(Agent("bot", model=ScriptedModel(["hi"])))

    async def go() -> None:
        await runner.run(user_id="ada", session_id="s1", message="x")
        with pytest.raises(weft.WeftError, match="the user has: s1"):
            await runner.resume(user_id="ada", session_id="s2")
        with pytest.raises(weft.WeftError, match="users that have: ada"):
            await runner.resume(user_id="bob", session_id="s1")

    asyncio.run(go())


def test_resuming_a_complete_run_gives_its_result_again_and_calls_nothing() -> None:
    model = ScriptedModel(["hi"])
    runner = Runner(Agent("bot", model=model))

    async def go() -> None:
        first = await runner.run(session_id="s", message="x")
        again = await runner.resume(session_id="s")
        assert again.text == first.text == "hi"
        assert again.events == ()
        assert len(model.wires) == 1

    asyncio.run(go())


def test_an_agent_as_a_tool_may_wait_and_goes_on_with_the_answer() -> None:
    model = ScriptedModel(
        {
            "boss": [call("clerk", request="get approval"), "all settled"],
            "clerk": [call("approve", amount=9), "approved"],
        }
    )
    clerk = Agent("clerk", model=model, tools=[approve], description="Gets approvals.")
    runner = Runner(Agent("boss", model=model, tools=[clerk]))

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        assert list(first.waiting.values()) == ["approve"]
        assert [p.agent for p in model.prompts] == ["boss", "clerk"]
        (call_id,) = first.waiting
        last = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert last.text == "all settled"
        assert [p.agent for p in model.prompts] == ["boss", "clerk", "clerk", "boss"]

    asyncio.run(go())
