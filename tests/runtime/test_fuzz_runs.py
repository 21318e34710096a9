"""Random runs: whatever models say and tools return, nothing raises but a WeftError."""

import logging
from collections.abc import Iterator

import pytest

from tests.support.fuzz_runs import RAISES, RETURNS, draw_run, run_faults
from weft import Agent, run_sync, tool
from weft.errors import WeftError
from weft.testing import ScriptedModel, call


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Tools that fail are logged: all of these do."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("part", range(4))
def test_random_runs_keep_the_laws(part: int) -> None:
    for seed in range(part * 20, (part + 1) * 20):
        faults = run_faults(draw_run(seed))
        assert faults == [], f"seed {seed}"


@pytest.mark.parametrize("kind", range(len(RETURNS)))
def test_whatever_a_tool_returns_the_run_goes_on(kind: int) -> None:
    @tool
    def odd() -> object:
        """Return something."""
        return RETURNS[kind]()

    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        model = ScriptedModel([call("odd"), "done"], dialect=dialect)
        result = run_sync(Agent("bot", model=model, tools=[odd]), "Go.")
        assert result.text == "done"
        assert model.calls == 2


@pytest.mark.parametrize("kind", range(len(RAISES)))
def test_whatever_a_tool_raises_the_run_goes_on(kind: int) -> None:
    @tool
    def fall() -> object:
        """Fail."""
        return RAISES[kind]()

    model = ScriptedModel([call("fall"), "done"])
    assert run_sync(Agent("bot", model=model, tools=[fall]), "Go.").text == "done"


@pytest.mark.parametrize("kind", range(len(RETURNS)))
def test_whatever_is_written_to_the_state_the_run_ends_well(kind: int) -> None:
    from weft import ToolContext

    @tool
    def keep(ctx: ToolContext) -> str:
        """Write something."""
        ctx.state["x"] = RETURNS[kind]()  # type: ignore[assignment]
        return "kept"

    model = ScriptedModel([call("keep"), "done"])
    try:
        result = run_sync(Agent("bot", model=model, tools=[keep]), "Go.")
    except WeftError:
        return
    assert result.text == "done"


@pytest.mark.parametrize("value", ["\ud83d", ["\udc00"], {"a": "\ud83d"}, 10**30, None])
def test_arguments_that_cannot_be_read_are_sent_back(value: object) -> None:
    @tool
    def look(city: str) -> str:
        """Look."""
        return city

    @tool
    def find(query: dict[str, object]) -> str:
        """Find."""
        return "found"

    for name, argument in (("look", "city"), ("find", "query")):
        model = ScriptedModel([call(name, **{argument: value}), "done"])  # type: ignore[arg-type]
        assert run_sync(Agent("bot", model=model, tools=[look, find]), "Go.").text == "done"


def test_an_answer_with_half_a_character_is_not_an_answer_of_the_schema() -> None:
    model = ScriptedModel(['"\ud83d"', '{"result": 3}'])
    assert run_sync(Agent("bot", model=model, output_schema=int), "Go.").value == 3
    nested = ScriptedModel(["[" * 100_000, '{"result": 3}'])
    assert run_sync(Agent("bot", model=nested, output_schema=int), "Go.").value == 3
