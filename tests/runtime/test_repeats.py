"""A message that comes twice is one turn, and a run that was cut off is finished first."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import scripted_agent
from weft import Actions, Agent, Content, Event, Part, RunConfig, Runner, tool
from weft.content import FunctionResponse
from weft.errors import DeclarationError, ModelError, SessionBusy, SessionError, UsageError
from weft.runtime.earlier import is_unfinished
from weft.session import SessionKey
from weft.testing import ScriptedModel, call, chunks

FINISH = RunConfig(unfinished="resume")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


async def texts(runner: Runner, session_id: str = "s") -> list[str]:
    return [e.text for e in (await runner.session(session_id=session_id)).events if e.text]


async def test_the_same_request_twice_is_one_turn_and_the_same_answer(address: str) -> None:
    booked: list[str] = []

    @tool
    def book(what: str) -> str:
        """Book."""
        booked.append(what)
        return "booked"

    agent = scripted_agent(call("book", what="Oslo"), "Booked.", "Bye.", tools=[book])
    async with Runner(agent, app_name="twice", store=address) as runner:
        first = await runner.run("Book Oslo", session_id="s", request_id="r-1")
        assert (first.text, first.repeated, first.invocation_id) == ("Booked.", False, "r-1")
        await runner.run("Bye", session_id="s")
        before = await runner.session(session_id="s")
        again = await runner.run("Book Oslo", session_id="s", request_id="r-1")
        assert (again.text, again.repeated, again.usage) == ("Booked.", True, first.usage)
        assert [e.id for e in again.events] == [e.id for e in first.events]
        assert len(booked) == 1
        assert len((await runner.session(session_id="s")).events) == len(before.events)
        # in another session the id means something else
        with pytest.raises(Exception, match="script"):
            (await runner.run("Book Oslo", session_id="t", request_id="r-1")).check()


async def test_two_at_once_are_one_turn(address: str) -> None:
    agent = scripted_agent(chunks("On", "ce."))
    async with Runner(agent, app_name="at_once", store=address) as runner:
        results = await asyncio.gather(
            *(runner.run("hi", session_id="s", request_id="r") for _ in range(4))
        )
        assert {r.text for r in results} == {"Once."}
        assert sorted(r.repeated for r in results) == [False, True, True, True]
        assert await texts(runner) == ["hi", "Once."]


async def test_a_repeated_message_does_not_stop_its_own_run(address: str) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        """Hold."""
        begun.set()
        await gate.wait()
        return "ok"

    agent = scripted_agent(call("hold"), "Done.", tools=[hold])
    async with Runner(agent, app_name="own", store=address) as runner:
        first = await runner.start("go", session_id="s", request_id="r")
        await begun.wait()
        config = RunConfig(busy="interrupt")
        again = asyncio.ensure_future(
            runner.run("go", session_id="s", request_id="r", config=config)
        )
        # started again while it runs: under `reject` too it is the run that answers
        refusing = RunConfig(busy="reject")
        joined = await runner.start("go", session_id="s", request_id="r", config=refusing)
        assert (joined.id, joined.after, joined.repeated) == ("r", 0, True)
        with pytest.raises(SessionBusy):
            await runner.start("other", session_id="s", request_id="r2", config=refusing)
        await asyncio.sleep(0.05)
        gate.set()
        assert (await first).text == (await again).text == (await joined).text == "Done."
        assert [e.text for e in [e async for e in joined.events()] if e.text] == ["go", "Done."]
        assert await texts(runner) == ["go", "Done."]


async def test_a_stopped_request_stays_stopped_and_a_failed_one_is_tried_again() -> None:
    @tool
    async def hold() -> str:
        """Hold."""
        await asyncio.sleep(60)
        return "ok"

    failing = ModelError("down", code="overloaded")
    agent = scripted_agent(call("hold"), failing, "Up again.", tools=[hold])
    async with Runner(agent, app_name="stopped") as runner:
        run = await runner.start("go", session_id="s", request_id="r1")
        assert await runner.cancel(session_id="s")
        assert (await run).error is not None
        again = await runner.run("go", session_id="s", request_id="r1")
        assert again.repeated
        assert again.error is not None
        assert again.error.error_code == "cancelled"
        failed = await runner.run("more", session_id="s", request_id="r2")
        assert failed.error is not None
        better = await runner.run("more", session_id="s", request_id="r2")
        assert (better.text, better.error, better.repeated) == ("Up again.", None, True)
        assert (await texts(runner)).count("more") == 1


async def test_a_request_id_that_cannot_be_right_is_refused() -> None:
    async with Runner(scripted_agent("One.", "Two."), app_name="wrong") as runner:
        for wrong in ("", "a\nb", "x" * 201, 7):
            with pytest.raises(UsageError, match="request_id="):
                runner.run("hi", session_id="s", request_id=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="needs a session"):
            runner.run("hi", request_id="r")
        answer = Part(function_response=FunctionResponse(name="f", id="1", response={}))
        with pytest.raises(UsageError, match="message of answers"):
            runner.run(Content(parts=(answer,), role="user"), session_id="s", request_id="r")
        with pytest.raises(UsageError, match="goes with a message"):
            await runner.start(session_id="s", request_id="r")
        result = await runner.run("hi", session_id="s", request_id="r")
        with pytest.raises(SessionError, match="came with another message"):
            await runner.run("ho", session_id="s", request_id="r")
        with pytest.raises(SessionError, match="came with another message"):
            await runner.start("ho", session_id="s", request_id="r")
        await runner.rewind(session_id="s", invocation_id=result.invocation_id)
        with pytest.raises(SessionError, match="was rewound"):
            await runner.run("hi", session_id="s", request_id="r")
        with pytest.raises(DeclarationError, match="unfinished"):
            RunConfig(unfinished="finish")  # type: ignore[arg-type]


async def test_what_was_cut_off_is_finished_before_the_next_message(address: str) -> None:
    begun = asyncio.Event()
    ran: list[int] = []

    @tool
    async def work(n: int) -> str:
        """Work."""
        ran.append(n)
        if len(ran) == 1:
            begun.set()
            await asyncio.sleep(60)
        return f"did {n}"

    agent = scripted_agent(call("work", n=1), "First is done.", "Second.", "Third.", tools=[work])
    async with Runner(agent, app_name="cut", store=address) as runner:
        run = await runner.start("first", session_id="s")
        await begun.wait()
        await run.hand_over()  # the log ends as after a crash
        with pytest.raises(SessionError, match="was cut off") as refused:
            await runner.run("second", session_id="s", config=RunConfig(unfinished="reject"))
        assert "unfinished=" in refused.value.hint
        result = await runner.run("second", session_id="s", config=FINISH)
        assert result.text == "Second."
        assert {e.invocation_id for e in result.events} == {result.invocation_id}
        assert await texts(runner) == ["first", "First is done.", "second", "Second."]
        # nothing is cut off any more
        assert (await runner.run("third", session_id="s", config=FINISH)).text == "Third."


async def test_state_that_is_written_between_runs_is_no_run(address: str) -> None:
    """A server would have gone on with it after a restart, and asked the model unasked."""
    model = ScriptedModel([call("work"), "Done."])
    begun = asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return "did"

    async def write(n: int) -> None:
        session = await runner.session(session_id="s")
        delta = Actions(state_delta={"n": n})
        await runner.store.append(session, Event("user", invocation_id=f"w{n}", actions=delta))

    agent = Agent("bot", model=model, tools=[work])
    async with Runner(agent, app_name="between", store=address) as runner:
        run = await runner.start("first", session_id="s")
        await begun.wait()
        await run.hand_over()  # the log ends as after a crash
        await write(1)
        assert is_unfinished(agent, await runner.session(session_id="s"))
        assert (await runner.resume(session_id="s")).text == "Done."
        await write(2)
        assert not is_unfinished(agent, await runner.session(session_id="s"))
        assert (await runner.resume(session_id="s")).text == "Done."
        assert len(model.prompts) == 2
        assert (await runner.session(session_id="s")).state == {"n": 2}


async def test_stopping_a_run_that_finishes_an_earlier_one_stops_both() -> None:
    begun = asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        begun.set()
        await asyncio.sleep(60)
        return "did"

    agent = scripted_agent(call("work"), "Never.", tools=[work])
    async with Runner(agent, app_name="both") as runner:
        run = await runner.start("first", session_id="s")
        await begun.wait()
        await run.hand_over()
        begun.clear()
        second = asyncio.ensure_future(runner.run("second", session_id="s", config=FINISH))
        await begun.wait()
        assert await runner.cancel(session_id="s")
        assert (await second).error is not None
        log = (await runner.session(session_id="s")).events
        assert [e.error_code for e in log if e.interrupted] == ["cancelled", "cancelled"]


WORKER = """
import asyncio, os, sys
from weft import Agent, Runner, RunConfig, tool
from weft.testing import ScriptedModel, call

address, journal = sys.argv[1:3]


@tool(effect="pure")
async def book(what: str) -> str:
    "Book."
    with open(journal, "a") as file:
        file.write(f"{os.getpid()} {what}\\n")
    print("booking", flush=True)
    if os.environ.get("HOLD"):
        await asyncio.sleep(60)
    return "booked"


def say(prompt):
    last = prompt.items[-1]
    return "Booked." if last.kind != "user" else call("book", what="Oslo")


async def main():
    agent = Agent("bot", model=ScriptedModel([say] * 9), tools=[book])
    async with Runner(agent, app_name="killed", store=address) as runner:
        if os.environ.get("WAIT"):
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        result = await runner.run("Book Oslo", session_id="s", request_id="r-1")
        print(result.text, result.repeated, flush=True)


asyncio.run(main())
"""


def worker(address: str, journal: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, address, str(journal)],
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_killed_worker_and_one_that_wakes_up_late_add_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    if kind == "postgres":
        address = str(request.getfixturevalue("postgres_url"))
    journal = tmp_path / "journal"
    killed = worker(address, journal, HOLD="1")
    late = worker(address, journal, WAIT="1")
    assert killed.stdout is not None
    assert late.stdout is not None
    assert killed.stdout.readline() == "booking\n"
    assert late.stdout.readline() == "ready\n"
    late.send_signal(signal.SIGSTOP)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    taking_over = worker(address, journal)
    said, _ = await asyncio.to_thread(taking_over.communicate)
    assert said == "booking\nBooked. True\n"
    late.send_signal(signal.SIGCONT)
    said, _ = await asyncio.to_thread(late.communicate, "go\n")
    assert said == "Booked. True\n"
    runner = Runner(scripted_agent(), app_name="killed", store=address)
    async with runner:
        events = await runner.store.events(SessionKey("killed", "user", "s"))
    assert [e.text for e in events or () if e.text] == ["Book Oslo", "Booked."]
    assert len(journal.read_text().splitlines()) == 2  # the first was killed in the middle
