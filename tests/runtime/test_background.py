"""Runs without a reader: they go on, can be followed, stopped, and taken up again."""

import asyncio
import gc
import warnings
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.build import scripted_agent
from weft import Agent, RunConfig, Runner, Step, tool
from weft.errors import DeclarationError, SessionBusy, SessionError, StoreError, UsageError
from weft.runtime import feeds
from weft.session import Event, Lease, MemoryStore, Session, SessionKey
from weft.testing import ScriptedModel, call, chunks, delayed

STREAM = RunConfig(stream=True)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


async def told(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def test_a_run_goes_on_without_a_reader(address: str) -> None:
    async with Runner(scripted_agent("One.", "Two."), app_name="goes_on", store=address) as runner:
        run = await runner.start("hi", session_id="s")
        assert run.id
        assert run.session_id == "s"
        assert (await run).text == "One."
        assert run.is_done
        await (await runner.start("more", session_id="s"))
        events = await told(runner.events(session_id="s"))
        assert [(e.sequence, e.author, e.text) for e in events] == [
            (1, "user", "hi"), (2, "bot", "One."), (3, "user", "more"), (4, "bot", "Two."),
        ]  # fmt: skip
        assert [e.sequence for e in await told(runner.events(session_id="s", after=3))] == [4]
        assert await told(runner.events(session_id="s", after=4)) == []
        stored = await runner.store.events(SessionKey("goes_on", "user", "s"), after=1, limit=2)
        assert stored == events[1:3]
        # the log itself has no sequence numbers in it
        assert all(e.sequence is None for e in (await runner.session(session_id="s")).events)


async def test_readers_get_stored_events_then_live_ones_and_partials(address: str) -> None:
    gate = asyncio.Event()

    @tool
    async def wait_for_it() -> str:
        """Wait."""
        await gate.wait()
        return "there"

    agent = scripted_agent(call("wait_for_it"), chunks("It ", "is ", "there."), tools=[wait_for_it])
    async with Runner(agent, app_name="live", store=address) as runner:
        run = await runner.start("go", session_id="s", config=STREAM)
        early = runner.events(session_id="s")
        everything = [await anext(early), await anext(early)]
        late = runner.events(session_id="s", after=1)
        rest = [await anext(late)]  # both have heard of the call, and follow
        gate.set()
        everything += await told(early)
        rest += await told(late)
        await run
    complete = [e for e in everything if not e.partial]
    assert [e.sequence for e in complete] == [*range(1, len(complete) + 1)]
    assert complete[-1].text == "It is there."
    assert [e.text for e in everything if e.partial] == ["It ", "is ", "there."]
    assert [e.text for e in rest if e.partial] == ["It ", "is ", "there."]
    assert [e.sequence for e in rest if not e.partial] == [e.sequence for e in complete[1:]]


async def test_who_joins_in_the_middle_of_an_answer_gets_its_beginning() -> None:
    gate, spoken = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def generate(self, *args: object, **options: object):  # type: ignore[no-untyped-def, override]
            async for response in super().generate(*args, **options):  # type: ignore[arg-type]
                if not response.partial:
                    spoken.set()
                    await gate.wait()
                yield response

    agent = Agent("bot", model=Slow([chunks("Once ", "upon ", "a time.")]))
    async with Runner(agent) as runner:
        run = await runner.start("tell", session_id="s", config=STREAM)
        await spoken.wait()
        reader = runner.events(session_id="s", after=1)
        first = await anext(reader)
        gate.set()
        await run
        events = [first, *await told(reader)]
    assert [e.text for e in events] == ["Once ", "upon ", "a time.", "Once upon a time."]


async def test_who_sees_the_end_of_a_run_can_begin_the_next(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving, gate = asyncio.Event(), asyncio.Event()
    async with Runner(scripted_agent("One.", "Two."), app_name="next", store=address) as runner:
        lease_of = runner.store.lease

        class SlowLease:
            def __init__(self, lease: Lease) -> None:
                self._lease = lease

            async def release(self) -> None:
                leaving.set()
                await gate.wait()
                await self._lease.release()

        async def slow_lease(*arguments: object, **options: object) -> SlowLease:
            return SlowLease(await lease_of(*arguments, **options))  # type: ignore[arg-type]

        monkeypatch.setattr(runner.store, "lease", slow_lease)
        run = await runner.start("hi", session_id="s", follow=True)
        readers = [
            asyncio.create_task(told(run.events())),
            asyncio.create_task(told(runner.events(session_id="s"))),
        ]
        await leaving.wait()
        await asyncio.wait(readers, timeout=0.1)
        assert not any(reader.done() for reader in readers)
        assert runner.active == [run.key]
        gate.set()
        for reader in readers:
            assert [event.text for event in await reader] == ["hi", "One."]
        assert runner.active == []
        rejecting = RunConfig(busy="reject")
        assert (await (await runner.start("more", session_id="s", config=rejecting))).text == "Two."


async def test_a_reader_that_never_reads_does_not_slow_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeds, "BACKLOG", 5)
    words = [f"{n} " for n in range(50)]
    async with Runner(scripted_agent(chunks(*words), "Bye.")) as runner:
        run = await runner.start("count", session_id="s", config=STREAM)
        lazy = runner.events(session_id="s")
        first = await anext(lazy)
        assert first.sequence == 1
        await run
        await (await runner.start("bye", session_id="s"))
        rest = await told(lazy)
    assert [e.sequence for e in rest if not e.partial] == [2, 3, 4]
    # of the answer whose partial events were lost, the complete one came
    assert rest[-1].text == "Bye."


async def test_busy_unknown_and_invalid_are_told_before_the_run(address: str) -> None:
    gate = asyncio.Event()

    @tool
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "ok"

    agent = scripted_agent(call("hold"), "Done.", tools=[hold])
    async with Runner(agent, app_name="refusals", store=address) as runner:
        run = await runner.start("hi", session_id="s")
        with pytest.raises(SessionBusy):
            await runner.start("again", session_id="s", config=RunConfig(busy="reject"))
        with pytest.raises(SessionError, match="there is no session `t`"):
            await runner.start(session_id="t", answers={"x": 1})
        with pytest.raises(SessionError, match="there is no session `t`"):
            await told(runner.events(session_id="t"))
        with pytest.raises(SessionError, match="there is no event 99"):
            await told(runner.events(session_id="s", after=99))
        with pytest.raises(SessionError, match="after=-1"):
            runner.events(session_id="s", after=-1)
        with pytest.raises(UsageError, match="there is no message"):
            await runner.start()
        with pytest.raises(UsageError, match="there is no message"):
            await runner.start("")
        gate.set()
        assert (await run).text == "Done."


async def test_cancel_stops_the_run_and_the_session_goes_on(address: str) -> None:
    agent = scripted_agent(delayed(60, "never"), "Back again.")
    async with Runner(agent, app_name="cancel", store=address) as runner:
        run = await runner.start("hi", session_id="s")
        assert runner.active == [run.key]
        reader = asyncio.create_task(told(runner.events(session_id="s")))
        await asyncio.sleep(0.05)
        assert await runner.cancel(session_id="s") is True
        result = await run
        assert result.error is not None
        assert result.error.error_code == "cancelled"
        assert [e.error_code for e in await reader] == [None, "cancelled"]
        assert await runner.cancel(session_id="s") is False
        assert (await (await runner.start("hi", session_id="s"))).text == "Back again."
        with pytest.raises(SessionError):
            await runner.cancel(session_id="nobody's")


async def test_a_run_of_another_runner_is_followed_and_cancelled(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/weft.db"
    async with (
        Runner(scripted_agent(delayed(60, "never")), store=store) as working,
        Runner(scripted_agent(), store=store) as watching,
    ):
        run = await working.start("hi", session_id="s")
        reader = asyncio.create_task(told(watching.events(session_id="s")))
        await asyncio.sleep(0.1)
        assert not reader.done()
        assert await watching.cancel(session_id="s") is True
        await run
        assert [e.sequence for e in await reader] == [1, 2]


@pytest.mark.parametrize("flow", [False, True])
async def test_a_runner_that_closes_hands_its_runs_over(tmp_path: Path, flow: bool) -> None:
    calls: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note."""
        calls.append(text)
        return "noted"

    store = f"sqlite:///{tmp_path}/weft.db"
    scripts = [call("note", text="a"), delayed(60, "never")], ["Noted."]

    def program(script: list[object]) -> object:
        agent = scripted_agent(*script, tools=[note])
        return agent >> Step(_shout, name="shout") if flow else agent

    runner = Runner(program(scripts[0]), app_name="app", store=store)  # type: ignore[arg-type]
    await runner.start("hi", session_id="s")
    async for event in runner.events(session_id="s"):
        if event.results:
            break
    await runner.close()
    async with Runner(program(scripts[1]), app_name="app", store=store) as later:  # type: ignore[arg-type]
        (resumed,) = await later.recover()
        assert (await resumed).session.state.get("loud") == (True if flow else None)
        events = await told(later.events(session_id="s"))
        assert calls == ["a"]
        assert "Noted." in [e.text for e in events]
        assert not any(e.error_code for e in events)
        assert await later.recover() == []


def _shout(state: dict[str, object]) -> dict[str, object]:
    return {"loud": True}


async def test_recover_leaves_alone_what_failed_waits_or_was_cancelled(tmp_path: Path) -> None:
    @tool(confirm=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    store = f"sqlite:///{tmp_path}/weft.db"
    agent = scripted_agent(call("pay"), RuntimeError("503"), delayed(60, ""), "fine", tools=[pay])
    async with Runner(agent, store=store) as runner:
        await (await runner.start("waits", session_id="waits"))
        assert (await (await runner.start("fails", session_id="fails"))).error is not None
        await runner.start("stops", session_id="stops")
        await runner.cancel(session_id="stops")
        await (await runner.start("ends", session_id="ends"))
        assert await runner.recover() == []


async def test_a_session_deleted_while_it_is_followed_ends_the_stream(address: str) -> None:
    async with Runner(scripted_agent("One."), app_name="deleted", store=address) as runner:
        await (await runner.start("hi", session_id="s"))
        events = runner.events(session_id="s", follow=True)
        assert [(await anext(events)).sequence for _ in range(2)] == [1, 2]
        await runner.delete(session_id="s")
        with pytest.raises(SessionError, match="there is no session"):
            await anext(events)


async def test_a_fork_begins_with_the_first_events_and_shares_nothing_back(address: str) -> None:
    agent = scripted_agent("One.", "Two.", "Other.", output_key="user:last")
    async with Runner(agent, app_name="fork", store=address) as runner:
        await runner.run("a", session_id="s", state={"topic": "x"})
        await runner.run("b", session_id="s")
        forked = await runner.fork(session_id="s", upto=2, to="t")
        assert [e.text for e in forked.events] == ["a", "One."]
        assert forked.state["topic"] == "x"
        # what users share is as it was last written, not as it was at the fork
        assert (await runner.session(session_id="t")).state["user:last"] == "Two."
        assert (await runner.run("c", session_id="t")).text == "Other."
        assert len((await runner.session(session_id="s")).events) == 4
        with pytest.raises(SessionError, match="there is no event 9"):
            await runner.fork(session_id="s", upto=9)


async def test_a_fork_that_cannot_be_filled_is_not_there() -> None:
    """The store is away when the events come, and still when the session is taken back first."""
    away: list[str] = []

    class Failing(MemoryStore):
        async def append(self, session: Session, *events: Event) -> Session:
            if away:
                raise StoreError("the database is away", where="here", hint="wait")
            return await super().append(session, *events)

        async def delete(self, key: SessionKey) -> None:
            if away:
                away.pop()
                raise StoreError("the database is away", where="here", hint="wait")
            await super().delete(key)

    async with Runner(scripted_agent("One.", "Two."), app_name="fork", store=Failing()) as runner:
        await runner.run("a", session_id="s")
        away += ["append and delete", "delete"]
        with pytest.raises(StoreError, match="the database is away"):
            await runner.fork(session_id="s", to="t")
        assert [info.key.id for info in await runner.store.sessions("fork")] == ["s"]
        assert len((await runner.fork(session_id="s", to="t")).events) == 2


async def test_a_thousand_readers_of_one_run() -> None:
    async with Runner(scripted_agent("One.")) as runner:
        run = await runner.start("hi", session_id="s")
        readers = [asyncio.create_task(told(runner.events(session_id="s"))) for _ in range(1_000)]
        await run
        for events in await asyncio.gather(*readers):
            assert [e.sequence for e in events] == [1, 2]


async def test_a_reader_that_leaves_at_once_leaves_nothing_behind() -> None:
    async with Runner(scripted_agent(chunks("One ", "two."))) as runner:
        run = await runner.start("hi", session_id="s", config=STREAM, follow=True)
        batches = run.batches()
        assert [event.text for event in await anext(batches)] == ["hi"]
        await batches.aclose()
        await run
        assert runner._services.feeds._feeds == {}  # pyright: ignore[reportPrivateUsage]
        assert [batch async for batch in batches] == []


async def test_a_run_can_be_read_twice() -> None:
    async with Runner(scripted_agent(chunks("One ", "two."))) as runner:
        run = await runner.start("hi", session_id="s", config=STREAM, follow=True)
        first = [event.text for event in await told(run.events())]
        assert first == ["hi", "One ", "two.", "One two."]
        assert [event.text for event in await told(run.events())] == ["hi", "One two."]


async def test_events_that_are_there_at_once_come_together() -> None:
    async with Runner(scripted_agent(chunks("One ", "two."), "Three.")) as runner:
        run = await runner.start("hi", session_id="s", config=STREAM, follow=True)
        batches = run.batches()
        said = await anext(batches)
        await run
        await (await runner.start("more", session_id="s"))  # events of another run follow
        rest = [batch async for batch in batches]
        assert [event.text for event in said] == ["hi"]
        assert [[event.text for event in batch] for batch in rest] == [["One ", "two.", "One two."]]


async def test_a_run_that_is_over_is_no_garbage_that_waits_for_the_collector() -> None:
    async with Runner(scripted_agent(*["One."] * 9)) as runner:
        await (await runner.start("hi", session_id="s"))
        gc.collect()
        gc.disable()
        try:
            run = await runner.start("hi", session_id="s", follow=True)
            assert [event.text async for event in run.events()] == ["hi", "One."]
            assert (await run).text == "One."
            gone = weakref.ref(run)
            del run
            await asyncio.sleep(0)
            assert gone() is None
        finally:
            gc.enable()


async def test_tools_that_cannot_be_added_leave_no_run_behind() -> None:
    """Somebody who reads the server's log would take the warning for a fault of the server."""
    agent = Agent("bot", model=ScriptedModel([]), tools=[tool(name="own")(len_of)])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(DeclarationError, match="two tools are named `own`"):
            await Runner(agent).start("hi", session_id="s", tools=[tool(name="own")(len_of)])
        gc.collect()
    assert not warned


def len_of(text: str) -> int:
    """How long it is."""
    return len(text)
