"""F8, S4: calls that wait, and what is taken back, as users of ADK know them."""

import pytest

import weft
from tests.peers.running import TO, runs, told
from tests.support.tools import add
from weft import (
    Agent,
    Content,
    Part,
    Runner,
    ToolContext,
    tool,
)
from weft.content import FunctionResponse
from weft.testing import ScriptedModel, call
from weft.values import JsonObject

# Calls that wait.


@tool(confirm=True)
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    confirmed = ctx.confirmed or {}
    return f"paid {amount}, {confirmed.get('payload')}"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"confirmed": True}, {"result": "paid 5, None"}),
        ({"response": '{"confirmed": true}'}, {"result": "paid 5, None"}),
        ({"confirmed": True, "payload": {"by": "Ada"}}, {"result": "paid 5, {'by': 'Ada'}"}),
        ({"confirmed": False}, {"error": "the user refused this call"}),
        ({"response": '{"confirmed": false}'}, {"error": "the user refused this call"}),
        ({"response": "yes"}, {"error": "the user refused this call"}),
        ({"confirmed": "true"}, {"error": "the user refused this call"}),
        ({}, {"error": "the user refused this call"}),
    ],
)
def test_F8_a_client_of_adk_confirms_in_its_own_words(
    answer: JsonObject, result: JsonObject
) -> None:
    async def go() -> None:
        runner = Runner(
            Agent("bot", model=ScriptedModel([call("pay", amount=5), "ok"]), tools=[pay])
        )
        first = await runner.run(session_id="s", message="x")
        asked = first.events[-1]
        question = asked.calls[0]
        assert question.name == "adk_request_confirmation"
        assert asked.long_running_tool_ids == (question.id,)
        told_back = FunctionResponse(name=question.name, id=question.id, response=answer)
        last = await runner.run(session_id="s", message=Part(function_response=told_back))
        assert last.invocation_id == first.invocation_id
        assert told(last.events) == [[result], "bot: ok"]
        assert last.waiting == {}

    runs(go)


def test_F8_a_call_is_answered_once_however_often_the_answer_comes() -> None:
    @tool(long_running=True)
    def job() -> dict[str, str]:
        """Start."""
        return {"status": "started"}

    async def go() -> None:
        model = ScriptedModel([call("job"), "done"])
        runner = Runner(Agent("bot", model=model, tools=[job]))
        first = await runner.run(session_id="s", message="x")
        (call_id,) = first.waiting
        for _ in range(2):
            last = await runner.resume(session_id="s", answers={call_id: {"status": "ready"}})
            assert last.text == "done"
        with pytest.raises(weft.WeftError, match="has its answer already"):
            await runner.resume(session_id="s", answers={call_id: {"status": "failed"}})
        session = await runner.session(session_id="s")
        assert told(list(session.events)) == [
            "user: x", ["job"], [{"status": "started"}], [{"status": "ready"}], "bot: done",
        ]  # fmt: skip
        assert model.calls == 2

    runs(go)


def test_F8_an_answer_with_words_beside_it_brings_both() -> None:
    @tool(long_running=True)
    def job() -> None:
        """Start."""

    async def go() -> None:
        model = ScriptedModel([call("job"), "done"])
        runner = Runner(Agent("bot", model=model, tools=[job]))
        first = await runner.run(session_id="s", message="x")
        (call_id,) = first.waiting
        ready = FunctionResponse(name="job", id=call_id, response={"status": "ready"})
        message = Content(parts=(Part(function_response=ready), Part(text="Hurry.")), role="user")
        await runner.run(session_id="s", message=message)
        asked = str(model.prompts[-1])
        assert 'job -> {"status":"ready"}' in asked
        assert "user: Hurry." in asked

    runs(go)


@tool(long_running=True)
def ask(question: str) -> None:
    """Ask somebody."""


def test_F8_answers_to_agents_side_by_side_may_come_together() -> None:
    async def go() -> None:
        model = ScriptedModel(
            {
                "a": [call("ask", question="a?"), "A"],
                "b": [[call("ask", question="b?"), call("pay", amount=1)], "B"],
                "c": ["done"],
            }
        )
        a, b, c = (Agent(name, model=model, tools=[ask, pay]) for name in "abc")
        runner = Runner((a | b) >> c)
        first = await runner.run(session_id="s", message="go")
        assert sorted(first.waiting.values()) == ["ask", "ask", "pay"]
        answers = dict.fromkeys(first.waiting, True)
        last = await runner.resume(session_id="s", answers=answers)
        assert last.text == "done"
        assert last.waiting == {}
        asked = {prompt.agent: str(prompt) for prompt in model.prompts}
        assert 'ask -> {"result":true}' in asked["a"]
        assert 'ask -> {"result":true}' in asked["b"]
        assert 'pay -> {"result":"paid 1, None"}' in asked["b"]

    runs(go)


def test_F8_calls_of_different_invocations_are_answered_one_invocation_at_a_time() -> None:
    async def go() -> None:
        model = ScriptedModel([call("ask", question="1?"), call("ask", question="2?"), "two"])
        runner = Runner(Agent("bot", model=model, tools=[ask]))
        waiting: dict[str, object] = {}
        for text in ("1", "2"):
            waiting |= (await runner.run(session_id="s", message=text)).waiting
        with pytest.raises(weft.WeftError, match="different invocations"):
            await runner.resume(session_id="s", answers=waiting)
        second = list(waiting)[1]
        assert (await runner.resume(session_id="s", answers={second: "yes"})).text == "two"

    runs(go)


@pytest.mark.parametrize("waits", ["ask", "pay", "expert"])
def test_X3_nobody_hands_over_while_a_call_of_the_reply_waits(waits: str) -> None:
    async def go() -> None:
        arguments: JsonObject = {"ask": {"question": "?"}, "pay": {"amount": 1}}.get(
            waits, {"request": "x"}
        )
        model = ScriptedModel(
            {
                "boss": [
                    [call(TO, agent_name="left"), call(waits, **arguments)],
                    call(TO, agent_name="left"),
                ],
                "expert": [call("ask", question="?"), "expert says"],
                "left": ["left here"],
            }
        )
        expert = Agent("expert", model=model, description="x", tools=[ask])
        boss = Agent("boss", model=model, tools=[ask, pay, expert], sub_agents=[Agent("left")])
        runner = Runner(boss)
        first = await runner.run(session_id="s", message="go")
        assert "not handed over" in str(first.events[1].results[0].response)
        last = await runner.resume(session_id="s", answers=dict.fromkeys(first.waiting, True))
        assert last.text == "left here"
        assert [p.agent for p in model.prompts if p.agent != "expert"] == ["boss", "boss", "left"]

    runs(go)


def test_F1_asking_the_user_is_no_step() -> None:
    async def go() -> None:
        calls = [call("pay", amount=n) for n in range(3)]
        model = ScriptedModel([calls, call("add", a=1, b=1), "never"])
        runner = Runner(Agent("bot", model=model, tools=[pay, add], max_steps=2))
        first = await runner.run(session_id="s", message="x")
        last = await runner.resume(session_id="s", answers=dict.fromkeys(first.waiting, True))
        assert last.error is not None
        assert last.error.error_code == "max_steps"
        assert model.calls == 2

    runs(go)


# Artifacts and rewinding.


def test_T1_a_users_artifact_is_seen_in_all_of_their_sessions() -> None:
    async def keep(name: str, ctx: ToolContext) -> list[str]:
        """Keep."""
        await ctx.save_artifact(name, f"text of {name}")
        return await ctx.list_artifacts()

    async def load(name: str, ctx: ToolContext) -> str:
        """Load."""
        part = await ctx.load_artifact(name)
        return part.text or "" if part is not None else "none"

    async def go() -> None:
        model = ScriptedModel(
            [
                [call("keep", name="user:card"), call("keep", name="own")],
                "kept",
                [call("load", name="user:card"), call("load", name="own")],
                "loaded",
            ]
        )
        runner = Runner(Agent("bot", model=model, tools=[keep, load]))
        await runner.run(session_id="1", message="x")
        second = await runner.run(session_id="2", message="x")
        assert told(second.events)[1] == [{"result": "text of user:card"}, {"result": "none"}]

    runs(go)


def test_S4_a_rewind_puts_state_artifacts_and_view_back_and_deletes_nothing() -> None:
    async def keep(text: str, ctx: ToolContext) -> str:
        """Keep."""
        await ctx.save_artifact("note", text)
        ctx.state["note"] = text
        ctx.state["user:notes"] = text
        return "ok"

    async def go() -> None:
        model = ScriptedModel(
            [call("keep", text="first"), "1", call("keep", text="second"), "2", "3"]
        )
        bot = Agent("bot", model=model, tools=[keep], instruction="Note: {artifact.note}, {note}")
        runner = Runner(bot)
        await runner.run(session_id="s", message="one")
        second = await runner.run(session_id="s", message="two")
        before = await runner.session(session_id="s")
        session = await runner.rewind(session_id="s", invocation_id=second.invocation_id)
        assert list(session.events)[:-1] == list(before.events)
        assert session.state == {"note": "first", "user:notes": "second"}
        await runner.run(session_id="s", message="three")
        asked = model.prompts[-1]
        assert "Note: first, first" in asked.system_text
        assert "two" not in str(asked)
        assert "user: one" in str(asked)

    runs(go)


def test_S4_what_was_rewound_is_neither_resumed_nor_answered() -> None:
    @tool(long_running=True)
    def job() -> None:
        """Start."""

    async def go() -> None:
        model = ScriptedModel(["hello", call("job"), "later"])
        runner = Runner(Agent("bot", model=model, tools=[job]))
        first = await runner.run(session_id="s", message="x")
        second = await runner.run(session_id="s", message="y")
        (call_id,) = second.waiting
        await runner.rewind(session_id="s", invocation_id=second.invocation_id)
        again = await runner.resume(session_id="s")
        assert again.invocation_id == first.invocation_id
        assert again.events == ()
        with pytest.raises(weft.WeftError, match="wait for an answer: none"):
            await runner.resume(session_id="s", answers={call_id: "x"})
        with pytest.raises(weft.WeftError, match="there is no invocation"):
            await runner.resume(session_id="s", invocation_id=second.invocation_id)
        await runner.rewind(session_id="s", invocation_id=first.invocation_id)
        with pytest.raises(weft.WeftError, match="nothing to go on with"):
            await runner.resume(session_id="s")
        assert (await runner.run(session_id="s", message="z")).text == "later"
        assert model.calls == 3

    runs(go)


def test_S4_what_an_earlier_invocation_did_since_is_taken_back_too() -> None:
    async def go() -> None:
        model = ScriptedModel([call("ask", question="?"), "aside", "they agreed", "they did not"])
        bot = Agent("bot", model=model, tools=[ask], output_key="said")
        runner = Runner(bot)
        first = await runner.run(session_id="s", message="ask them")
        second = await runner.run(session_id="s", message="by the way")
        (call_id,) = first.waiting
        done = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert done.text == "they agreed"
        await runner.rewind(session_id="s", invocation_id=second.invocation_id)
        again = await Runner(bot, store=runner.store).resume(session_id="s")
        assert again.waiting == {call_id: "ask"}
        assert again.text == ""
        fresh = ScriptedModel(["they did not"])
        runner = Runner(
            Agent("bot", model=fresh, tools=[ask], output_key="said"), store=runner.store
        )
        last = await runner.resume(session_id="s", answers={call_id: "no"})
        assert last.text == "they did not"
        assert 'ask -> {"result":"no"}' in str(fresh.prompts[0])
        assert "by the way" not in str(fresh.prompts[0])

    runs(go)
