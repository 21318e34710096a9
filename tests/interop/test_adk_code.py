"""google-adk: what tools do with the state is read in their source, also in loops."""

from typing import Any

import pytest

from tests.interop.kit import LoopAgent, SequentialAgent, ToolContext, exit_loop
from tests.interop.shapes import llm
from weft import Severity
from weft.interop.adk import check_adk

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TODO = "todo_list"


def errors(source: Any) -> list[tuple[str, str]]:
    """The errors that a check finds, and where."""
    return [(d.code, str(d.origin)) for d in check_adk(source) if d.severity is Severity.ERROR]


def count_visits(tool_context: ToolContext) -> dict[str, Any]:
    """Count, beginning with none."""
    return {"visits": tool_context.state.get("visits", 0)}


def load(tool_context: ToolContext) -> dict[str, Any]:
    """Load a profile."""
    tool_context.state.update({"name": "Ann", "age": 3})
    return {}


def add(item: str, tool_context: ToolContext) -> dict[str, Any]:
    """Add to the list."""
    state = tool_context.state
    state[TODO] = [*state.get(TODO, []), item]
    return {}


def test_a_key_that_a_tool_asks_for_may_lack() -> None:
    assert not errors(llm("counter", tools=[count_visits]))


@pytest.mark.parametrize(("tool", "right", "wrong"), [(load, "name", "nam"), (add, TODO, "todo")])
def test_keys_that_a_tool_sets_are_known_and_no_others(tool: Any, right: str, wrong: str) -> None:
    def flow(key: str) -> Any:
        reader = llm("reader", f"Use {{{key}}}.")
        return SequentialAgent(name="both", sub_agents=[llm("writer", tools=[tool]), reader])

    assert not errors(flow(right))
    assert errors(flow(wrong)) == [("WEFT105", "reader.instruction:4")]


def test_a_loop_with_exit_loop_is_looked_into() -> None:
    def flow(read: str) -> Any:
        critic = llm("critic", f"Criticise {{{read}}}.", output_key="critique")
        refiner = llm("refiner", "Refine by {critique}.", output_key="draft", tools=[exit_loop])
        loop = LoopAgent(name="polish", max_iterations=3, sub_agents=[critic, refiner])
        writer = llm("writer", "Write.", output_key="draft")
        return SequentialAgent(name="all", sub_agents=[writer, loop])

    assert not errors(flow("draft"))
    assert errors(flow("drft")) == [("WEFT105", "critic.instruction:10")]
