"""A stall is a call that comes to the same result again and again, and nothing else is."""

import asyncio
from pathlib import Path

import pytest

import weft
from weft import Agent, Result, RunConfig, Runner, ToolContext, tool
from weft.errors import DeclarationError
from weft.testing import ScriptedModel, call, malformed


def codes(result: Result) -> list[str]:
    return [event.error_code for event in result.events if event.error_code]


def notes(result: Result) -> list[int]:
    """The positions of the results that carry a note."""
    results = [one for event in result.events for one in event.results]
    return [i for i, one in enumerate(results) if "nothing new" in str(one.response)]


def run(script: list[object], *tools: object, config: RunConfig | None = None) -> Result:
    model = ScriptedModel(script)  # type: ignore[arg-type]
    return weft.run_sync(Agent("bot", model=model, tools=tools), "go", config=config)


def test_the_third_same_result_is_noted_and_the_fourth_ends_the_run() -> None:
    made: list[str] = []

    @tool(effect="pure")
    def look(city: str) -> str:
        """Look."""
        made.append(city)
        return "rain"

    model = ScriptedModel([call("look", city="Oslo")] * 4)
    result = weft.run_sync(Agent("bot", model=model, tools=[look]), "go")
    assert len(made) == 4, "a call is made, not answered from memory"
    assert notes(result) == [2]
    assert codes(result) == ["stalled"]
    assert "nothing new: look was called" in str(model.wires[3])
    assert '"rain"' in str(model.prompts[3]), "the result is there beside the note"
    assert result.error is not None
    assert "4 times in a row" in (result.error.error_message or "")


def test_after_the_note_the_model_may_go_on() -> None:
    def look(city: str) -> str:
        """Look."""
        return "rain"

    script = [call("look", city="Oslo")] * 3 + [call("look", city="Rome")]
    result = run([*script, call("look", city="Oslo"), "rain everywhere"], look)
    assert result.text == "rain everywhere"
    assert notes(result) == [2]


def test_polling_paging_and_test_loops_are_no_stalls() -> None:
    left = iter(range(20))

    def scroll_down() -> str:
        """Show the next page."""
        return f"page {next(left)}"

    def edit(line: int, text: str) -> str:
        """Edit."""
        return "edited"

    def run_tests() -> str:
        """Test."""
        return "1 failed"

    def poll(id: int) -> dict[str, object]:
        """Look how far it is."""
        return {"done": False, "left": next(left)}

    result = run([call("scroll_down")] * 8 + ["read"], scroll_down)
    assert result.text == "read"
    loop = [call("edit", line=1, text="x"), call("run_tests")] * 6
    assert run([*loop, "gave up"], edit, run_tests).text == "gave up"
    assert run([call("poll", id=7)] * 6 + ["soon"], poll).text == "soon"


def test_a_call_that_changes_the_state_goes_on() -> None:
    def step(ctx: ToolContext) -> str:
        """Take a step."""
        ctx.state["steps"] = ctx.state.get("steps", 0) + 1  # type: ignore[operator]
        return "ok"

    result = run([call("step")] * 7 + ["there"], step)
    assert (result.text, result.state) == ("there", {"steps": 7})


def test_a_reply_of_several_calls_is_one_exchange() -> None:
    def look(city: str) -> str:
        """Look."""
        return "rain"

    both = [call("look", city="Oslo"), call("look", city="Rome")]
    result = run([both] * 4, look)
    assert codes(result) == ["stalled"]
    assert notes(result) == [4, 5]
    same = [call("look", city="Oslo")] * 5
    assert run([same, same, "done"], look).text == "done"


@pytest.mark.parametrize("entry", [call("lok", city="x"), malformed("look", "{oops")])
def test_a_call_that_cannot_be_made_stalls_too(entry: object) -> None:
    def look(city: str) -> str:
        """Look."""
        return "rain"

    assert codes(run([entry] * 4, look)) == ["stalled"]


def test_the_number_is_a_matter_of_configuration() -> None:
    def look() -> str:
        """Look."""
        return "rain"

    script = [call("look")] * 9
    assert run([*script, "bored"], look, config=RunConfig(stall=None)).text == "bored"
    result = run(script, look, config=RunConfig(stall=5))
    assert (notes(result), codes(result)) == ([4], ["stalled"])
    for bad in (0, 1, -3, True, "three", 2.5):
        with pytest.raises(DeclarationError, match="stall="):
            RunConfig(stall=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_people_answer_is_no_stall(at_once: bool) -> None:
    @tool(long_running=True)
    def ask(question: str) -> str | None:
        """Ask."""
        return "asked" if at_once else None

    model = ScriptedModel([call("ask", question="more?")] * 5 + ["enough"])
    runner = Runner(Agent("bot", model=model, tools=[ask]))

    async def go() -> None:
        result = await runner.run(session_id="s", message="go")
        for _ in range(5):
            (call_id,) = result.waiting
            result = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert result.text == "enough"
        assert "nothing new" not in str(model.wires)

    asyncio.run(go())


def test_a_run_that_goes_on_counts_on(tmp_path: Path) -> None:
    """What was repeated before a crash is read from the log, notes and all."""

    def look() -> dict[str, str]:
        """Look."""
        return {"sky": "rain", "note": "of the tool's own"}

    store = f"sqlite:///{tmp_path}/weft.db"
    first = ScriptedModel([*[call("look")] * 3, RuntimeError("down")])
    second = ScriptedModel([call("look"), "answer"])

    async def go() -> None:
        async with Runner(Agent("bot", model=first, tools=[look]), store=store) as runner:
            failed = await runner.run(session_id="s", message="go")
            assert codes(failed) == ["model_error"]
            assert notes(failed) == [2]
        async with Runner(Agent("bot", model=second, tools=[look]), store=store) as runner:
            stalled = await runner.resume(session_id="s")
            assert codes(stalled) == ["stalled"]
            again = await runner.resume(session_id="s")
            assert again.text == "answer", "whoever resumes gives the model another chance"

    asyncio.run(go())
