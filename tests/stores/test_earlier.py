"""Sessions that an earlier version stored open, and go on as if it had stayed."""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.stores import shop
from weft import Result, Runner
from weft.models.scripted import Entry, ScriptedModel

STORED = Path(__file__).parent / "earlier"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what was stored."""
    shutil.copytree(STORED / "artifacts", tmp_path / "artifacts")
    database = sqlite3.connect(tmp_path / "weft.db")
    database.executescript((STORED / "weft.sql").read_text())
    database.close()
    shop.done.clear()
    return tmp_path


def go(
    folder: Path, script: Sequence[Entry], act: Callable[[Runner], Awaitable[Result]]
) -> tuple[Result, ScriptedModel]:
    """What comes of one more run, and the model that was asked."""

    async def run() -> tuple[Result, ScriptedModel]:
        runner, model = shop.runner_over(folder, script)
        async with runner:
            return await act(runner), model

    return asyncio.run(run())


def waiting(folder: Path, session: str, name: str) -> str:
    """The id of the call that waits in a session."""

    async def look() -> str:
        runner, _ = shop.runner_over(folder, [])
        async with runner:
            calls = (await runner.session(session_id=session)).waiting
        return next(id for id, tool in calls.items() if tool == name)

    return asyncio.run(look())


def test_a_conversation_goes_on_with_its_state_and_its_artifacts(folder: Path) -> None:
    result, model = go(folder, ["hi"], lambda one: one.run("Where?", session_id="talk"))
    request = str(model.prompts[0])
    assert "City: Rome. Notes: second. Last: second." in request
    assert [result.response for event in result.session.events for result in event.results] == [
        {"version": 0},
        {"version": 1},
    ]
    assert request.count("noted") == 2
    assert result.text == "hi"


@pytest.mark.parametrize("word", [True, False])
def test_a_call_that_waited_for_a_yes_takes_it(folder: Path, word: bool) -> None:
    id = waiting(folder, "pay", "pay")
    result, model = go(
        folder, ["done"], lambda one: one.resume(session_id="pay", answers={id: word})
    )
    assert shop.done == (["paid 5"] if word else [])
    assert ("paid 5" if word else "the user refused this call") in str(model.prompts[0])
    assert (result.text, result.waiting) == ("done", {})


def test_a_call_that_waited_for_its_result_takes_it(folder: Path) -> None:
    id = waiting(folder, "ask", "ask")
    again, unasked = go(folder, [], lambda one: one.resume(session_id="ask"))
    assert (again.events, unasked.calls) == ((), 0)
    result, model = go(
        folder, ["fine"], lambda one: one.resume(session_id="ask", answers={id: "you may"})
    )
    assert "you may" in str(model.prompts[0])
    assert (result.text, result.waiting) == ("fine", {})


def test_what_was_taken_back_stays_so(folder: Path) -> None:
    result, model = go(folder, ["new"], lambda one: one.run("Again?", session_id="back"))
    request = str(model.prompts[0])
    assert "City: Oslo." in request
    assert "one" in request
    assert "two" not in request
    assert "three" not in request
    assert len(result.session.events) == 9


def test_an_unsafe_call_in_which_the_process_died_is_not_made_again(folder: Path) -> None:
    doubt, unasked = go(folder, [], lambda one: one.resume(session_id="cut"))
    assert [event.error_code for event in doubt.events] == ["unknown_outcome"]
    assert (unasked.calls, shop.done) == (0, [])
    (id,) = doubt.waiting
    result, model = go(
        folder, ["good"], lambda one: one.resume(session_id="cut", answers={id: "it arrived"})
    )
    assert "it arrived" in str(model.prompts[0])
    assert (result.text, shop.done) == ("good", [])
