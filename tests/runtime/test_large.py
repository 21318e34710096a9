"""Large runs: what a step costs grows with what it sees, not with all that runs beside it."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

import weft
from tests.support.linear import check_calls
from weft import Agent, Gate, Loop, Map, Parallel, RunConfig, Runner, Sequence, Step, tool
from weft.declare import Node
from weft.session import SessionKey
from weft.testing import ScriptedModel, call
from weft.values import JsonObject

MANY = RunConfig(max_llm_calls=10_000)


def worker(model: ScriptedModel, name: str = "worker") -> Agent:
    return Agent(name, model=model, instruction="Work.")


def mapped(count: int, model: ScriptedModel) -> Node:
    return Map("items", worker(model), into="done")


def branches(count: int, model: ScriptedModel) -> Node:
    return Parallel(*(worker(model, f"n{i}").writes(f"k{i}") for i in range(count)))


def rounds(count: int, model: ScriptedModel) -> Node:
    return Loop(worker(model), max=count)


def chain(count: int, model: ScriptedModel) -> Node:
    return Sequence(*(worker(model, f"n{i}") for i in range(count)))


@pytest.mark.parametrize("shape", [mapped, branches, rounds, chain])
def test_a_run_four_times_as_large_takes_about_four_times_the_work(
    shape: Callable[[int, ScriptedModel], Node],
) -> None:
    def work(count: int) -> Callable[[], object]:
        model = ScriptedModel([f"answer {i}" for i in range(count)])
        runner = Runner(shape(count, model), app_name="large")
        state: JsonObject = {"items": [str(i) for i in range(count)]}

        async def run() -> None:
            result = await runner.run(message="Go", state=state, config=MANY)
            assert result.error is None

        return lambda: asyncio.run(run())

    check_calls(work, 128)


def test_so_does_a_run_that_goes_on_with_many_answers() -> None:
    def work(count: int) -> Callable[[], object]:
        model = ScriptedModel([f"answer {i}" for i in range(count)])
        asks = Gate("ask", question="Right?", choices=("yes", "no"))
        root = Map("items", worker(model) >> asks, into="done", concurrency=count)
        runner = Runner(root, app_name="large")
        state: JsonObject = {"items": [str(i) for i in range(count)]}

        async def run() -> None:
            first = await runner.run(message="Go", session_id="s", state=state, config=MANY)
            assert len(first.waiting) == count
            answers: dict[str, object] = dict.fromkeys(first.waiting, "yes")
            last = await runner.resume(session_id="s", answers=answers, config=MANY)
            assert last.error is None
            assert not last.waiting
            assert len(last.session.state["done"]) == count  # type: ignore[arg-type]

        return lambda: asyncio.run(run())

    check_calls(work, 64)


def test_so_does_one_in_which_a_failure_stops_all_other_branches() -> None:
    def work(count: int) -> Callable[[], object]:
        async def run() -> None:
            begun, all_begun = list[str](), asyncio.Event()

            @tool
            async def wait(name: str) -> str:
                """Wait for ever."""
                begun.append(name)
                if len(begun) == count:
                    all_begun.set()
                return str(await asyncio.Event().wait())

            async def fail(state: Mapping[str, object]) -> None:
                await all_begun.wait()
                raise RuntimeError("no")

            model = ScriptedModel([call("wait", name=f"n{i}") for i in range(count)])
            agents = (Agent(f"n{i}", model=model, tools=[wait]) for i in range(count))
            runner = Runner(Parallel(*agents, Step(fail)), app_name="large")
            with pytest.raises(RuntimeError, match="no"):
                await runner.run(message="Go", session_id="s", config=MANY)
            session = await runner.store.get(SessionKey("large", "user", "s"))
            assert session is not None
            assert len([event for event in session.events if event.results]) == count

        return lambda: asyncio.run(run())

    check_calls(work, 64)


async def test_a_report_says_what_stands_on_the_branches_beside_one() -> None:
    model = ScriptedModel(["left said", "right said", "both"])
    left, right = worker(model, "left").writes("l"), worker(model, "right").writes("r")
    end = worker(model, "end")
    result = await Runner((left | right) >> end, app_name="large").run(message="Go")
    session = result.session
    said = {event.author: event for event in session.events if event.text}
    joined = next(i for i, event in enumerate(session.events) if event.author == "parallel")
    running = session.before(joined)
    for agent, log, reason, others in (
        (left, running, "it belongs to branch", {"right"}),
        (left, session, "what right says is data", {"right"}),
        (end, session, "what ", {"left", "right"}),
    ):
        branch = said[agent.name].branch
        for compiled in (
            weft.compile(agent, session=log, branch=branch),
            weft.compile(agent, session=weft.Session.from_json(log.to_json()), branch=branch),
        ):
            rows = compiled.explain().left_out
            told = {row.text for row in rows if row.reason.startswith(reason)}
            assert told == {f"{other} said" for other in others}
