"""Remote agents as tools and as agents: against servers of the official SDK, and hostile ones."""

import asyncio
import threading
from typing import Any

import pytest

import weft
from tests.tools.a2a_servers import hostile, remote
from tests.tools.test_mcp_kills import Worker
from weft import Agent, Runner
from weft.errors import DeclarationError
from weft.testing import ScriptedModel, call
from weft.tools import A2A


def boss(url: str, *script: object, **options: Any) -> Agent:
    return Agent("boss", model=ScriptedModel([*script]), tools=[A2A(url, name="adder", **options)])


def results(session: weft.Session) -> list[dict[str, Any]]:
    return [dict(one.response or {}) for event in session.events for one in event.results]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_remote_agent_is_a_tool(version: str) -> None:
    with remote(version) as (url, executor):
        agent = boss(url, call("adder", message="add 2 and 3"), call("adder", message="fail"), "5.")
        result = await weft.run(agent, "2 and 3?")
        assert result.text == "5."
        good, bad = results(result.session)
        assert good == {"result": 'It is 5.\n\n{"sum":5.0}'}
        assert bad == {"error": "the task of adder ended as failed: no luck"}
        (tool,) = agent.model.prompts[0].tools  # type: ignore[union-attr]
        assert (tool.name, tool.description) == ("adder", "Adds numbers.")
        assert "<untrusted-" in str(agent.model.prompts[1])  # type: ignore[union-attr]
        assert executor.journal == ["add 2 and 3", "fail"]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_what_it_asks_is_a_question_to_the_user(version: str) -> None:
    with remote(version) as (url, executor):
        agent = boss(
            url, call("adder", message="ask"), "Done.", call("adder", message="ask"), "No."
        )
        runner = Runner(agent)
        await runner.run("Book.", session_id="s")
        (question,) = await runner.pending()
        assert question.question == "adder asks: In which name?"
        done = await runner.resume(session_id="s", answers={question.call_id: "Ann"})
        assert results(done.session)[-1] == {"result": "Booked for Ann."}
        await runner.run("Book again.", session_id="s")
        (question,) = await runner.pending()
        done = await runner.resume(session_id="s", answers={question.call_id: False})
        assert results(done.session)[-1] == {"error": "the user did not answer adder"}
        assert executor.journal == ["ask", "answered Ann", "ask", "cancelled"]


async def test_a_remote_agent_is_an_agent() -> None:
    with remote() as (url, _):
        helper = A2A(url).as_agent("adder", "Adds.")
        writer = Agent("writer", model=ScriptedModel(["add 2 and 3, please"]))
        result = await weft.run(writer >> helper, "Sum?")
        assert result.text == 'It is 5.\n\n{"sum":5.0}'
        model = ScriptedModel([call("transfer_to_agent", agent_name="adder")])
        front = Agent("front", model=model, sub_agents=[helper])
        result = await weft.run(front, "2 and 3?")
        assert (result.text, result.events[-1].author) == ('It is 5.\n\n{"sum":5.0}', "adder")
        failed = await weft.run(helper, "fail now")
        assert failed.error is not None
        assert failed.error.error_message == "the task of 127_0_0_1 ended as failed: no luck"


async def test_a_run_that_is_stopped_cancels_the_task() -> None:
    with remote() as (url, executor):
        runner = Runner(boss(url, call("adder", message="wait")))
        run = await runner.start("Go.", session_id="s")
        assert await asyncio.to_thread(executor.begun.wait, 60)
        await runner.cancel(session_id="s")
        await run
        executor.go.set()
        assert executor.journal == ["wait", "cancelled"]


CARDS = {
    "hanging card": "did not show its card within 0.5 s",
    "no json": "has no card that can be read",
    "a list": "has no card that can be read",
    "another host": "has a card that points to 'http://evil.example/rpc'",
    "no address": "has a card without an address for JSON-RPC",
    "large card": "has no card that can be read",
}


@pytest.mark.parametrize("way", CARDS)
async def test_a_card_that_lies_is_a_warning(way: str) -> None:
    with hostile(way) as url:
        seconds = 0.5 if way == "hanging card" else 30
        result = await weft.run(boss(url, "Alone, then.", seconds=seconds), "Sum?")
        assert result.text == "Alone, then."
        assert CARDS[way] in str(result.diagnostics)


@pytest.mark.parametrize("way", ["hangs", "dies", "endless", "nonsense"])
async def test_a_server_that_hangs_or_dies_is_an_error_result(way: str) -> None:
    with hostile(way) as url:
        agent = boss(url, call("adder", message="add"), "I tried.", seconds=1)
        result = await weft.run(agent, "Sum?")
        assert result.text == "I tried."
        ((error,),) = [list(one.values()) for one in results(result.session)]
        words = "was silent for more than 1 s" if way == "hangs" else "agent `adder` "
        assert error.startswith(("the agent `adder`", "RemoteAgentError: the agent `adder`"))
        assert words in error, error


async def test_a_result_that_is_too_large_is_an_error_result() -> None:
    with remote() as (url, _):
        result = await weft.run(boss(url, call("adder", message="large"), "ok"), "Sum?")
        ((error,),) = [list(one.values()) for one in results(result.session)]
        assert "too large" in error


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_a_task_that_runs_while_the_process_is_killed_is_found_again(
    address: str,
) -> None:
    with remote() as (url, executor):
        args = (address, url, "a2a", "wait", "a2a-open")
        with Worker(*args) as first:
            first.send()
            assert executor.begun.wait(120)
        with Worker(*args) as second:
            second.send({})
            threading.Event().wait(0.2)
            executor.go.set()
            assert second.read() == {"pending": [], "results": [{"result": "waited"}]}
        assert executor.journal == ["wait"]
        # the question of a remote agent outlives the process, too
        args = (address, url, "a2a", "ask", "a2a-asked")
        with Worker(*args) as first:
            ((question, kind),) = first.ask()["pending"]
        assert kind == "input"
        with Worker(*args) as second:
            done = second.ask({"answers": {question: "Bo"}})
        assert (done["pending"], done["results"][-1]) == ([], {"result": "Booked for Bo."})
        assert executor.journal == ["wait", "ask", "answered Bo"]


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(DeclarationError, match="is not the address of an agent"):
        A2A("other.host")
    with pytest.raises(DeclarationError, match="seconds=0"):
        A2A("http://other.host", seconds=0)
