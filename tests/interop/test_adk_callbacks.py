"""google-adk: callbacks are read as ours are: one of them hides nothing that can be seen."""

import functools
import json
from typing import Any

import pytest

from tests.interop.kit import LoopAgent, SequentialAgent, ToolContext
from tests.interop.shapes import llm
from weft import Severity
from weft.interop.adk import check_adk

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MOMENTS = [
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
    "before_tool_callback",
    "after_tool_callback",
]
PLAN = "plan"


def bad(source: Any) -> list[tuple[str, str]]:
    """What a check finds that is more than a note, and where."""
    return [(d.code, str(d.origin)) for d in check_adk(source) if d.severity is not Severity.INFO]


def item(callback_context: Any) -> None:
    callback_context.state[PLAN] = "x"


async def later(callback_context: Any) -> None:
    callback_context.state.update({"plan": "x", "other": callback_context.state.get("n", 1)})


def asking(callback_context: Any) -> None:
    if "plan" not in callback_context.state:
        callback_context.state.setdefault("plan", "x")


def helped(callback_context: Any) -> None:
    _keep(1, callback_context)


def _keep(number: int, context: Any) -> None:
    _store(context.state, number)


def _store(state: Any, number: int) -> None:
    state["plan"] = number


def inside(callback_context: Any) -> None:
    callback_context._invocation_context.session.state["plan"] = callback_context.agent_name


def renamed(callback_context: Any) -> None:
    ctx = callback_context
    state = ctx.state
    while True:
        state["plan"] = ctx.user_content
        break


def numbered(number: int, callback_context: Any) -> None:
    callback_context.state["plan"] = number


class Holder:
    """A callback that is a method, and one that is an object."""

    def keep(self, callback_context: Any) -> None:
        self._deeper(callback_context)

    def _deeper(self, callback_context: Any) -> None:
        callback_context.state["plan"] = 1

    def __call__(self, callback_context: Any) -> None:
        callback_context.state["plan"] = 1


WAYS = {
    "item": item,
    "async": later,
    "asking": asking,
    "helper": helped,
    "session": inside,
    "renamed": renamed,
    "partial": functools.partial(numbered, 1),
    "method": Holder().keep,
    "object": Holder(),
    "lambda": lambda callback_context: callback_context.state.update(plan=1),
    "list": [lambda callback_context: None, item],
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_callback_writes_is_known_and_no_other_key(way: str) -> None:
    def tree(key: str) -> Any:
        first = llm("first", "Begin.", before_agent_callback=WAYS[way])
        return SequentialAgent(name="all", sub_agents=[first, llm("second", f"Use {{{key}}}.")])

    assert not bad(tree("plan"))
    assert bad(tree("plna")) == [("WEFT105", "second.instruction:4")]


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_kind_of_callback_is_looked_into(moment: str) -> None:
    def model(callback_context: Any, llm_request: Any = None, llm_response: Any = None) -> None:
        callback_context.state["plan"] = 1

    def tool(tool: Any, args: Any, tool_context: Any, tool_response: Any = None) -> None:
        tool_context.state["plan"] = args

    def tree(key: str) -> Any:
        code: Any = tool if "tool" in moment else model
        first = llm("first", "Begin.", **{moment: code})
        return SequentialAgent(name="all", sub_agents=[first, llm("second", f"Use {{{key}}}.")])

    assert not bad(tree("plan"))
    assert bad(tree("plna")) == [("WEFT105", "second.instruction:4")]


def test_a_callback_that_only_looks_blinds_nothing() -> None:
    def look(callback_context: Any, llm_request: Any) -> None:
        print(callback_context.agent_name, len(llm_request.contents))

    agents = [llm(f"a{n}", f"Use {{k{n}}}.", before_model_callback=look) for n in range(5)]
    assert len(bad(SequentialAgent(name="all", sub_agents=agents))) == 5


def load(callback_context: Any) -> None:
    callback_context.state.update(json.loads("{}"))


def memorize(key: str, value: str, tool_context: ToolContext) -> dict[str, str]:
    """Keep a value."""
    tool_context.state[key] = value
    return {}


KEYS = ("origin", "destination", "user_profile", "start_date")


def travel(change: str = "", to: str = "") -> Any:
    """A tree whose code may write any key."""
    text = " ".join(f"{{{key}}}" for key in KEYS)
    agents = [llm(f"a{n}", text, tools=[memorize]) for n in range(3)]
    if change:
        agents[1].instruction = text.replace(change, to)
    return llm("root", "Help.", sub_agents=agents, before_agent_callback=load)


@pytest.mark.parametrize(
    ("key", "typo"),
    [("origin", "orign"), ("destination", "desitnation"), ("user_profile", "user_profle"),
     ("start_date", "star_date"), ("start_date", "startdate")],
)  # fmt: skip
def test_a_slip_is_found_even_where_code_may_write_any_key(key: str, typo: str) -> None:
    assert not bad(travel())
    found = [d for d in check_adk(travel(key, typo)) if d.severity is not Severity.INFO]
    assert [(d.code, d.origin.agent) for d in found] == [("WEFT105", "a1")]
    assert found[0].hint == f"did you mean `{key}`?"


@pytest.mark.parametrize("other", ["origins", "origin_2", "budget", "end_date", "user_x_profile"])
def test_a_key_of_its_own_is_no_slip(other: str) -> None:
    assert not bad(travel("origin", other))


def test_one_cause_is_one_finding() -> None:
    found = check_adk(travel())
    notes = [d for d in found if d.code == "WEFT490"]
    assert [str(d.origin) for d in notes] == ["a0.tools", "root.before_agent_callback"]
    assert "also at a1.tools, a2.tools" in notes[0].message
    readers = [llm(f"r{n}", "Use {nobody}.") for n in range(4)]
    missing = check_adk(SequentialAgent(name="all", sub_agents=readers))
    (one,) = [d for d in missing if d.code == "WEFT105"]
    assert str(one.origin) == "r0.instruction:4"
    assert "also at r1.instruction:4, r2.instruction:4, r3.instruction:4" in one.message
    shared = llm("root", "Help.", sub_agents=[llm("x"), llm("y")], global_instruction="By {who}.")
    assert len([d for d in check_adk(shared) if d.code == "WEFT105"]) == 1


def test_a_callback_that_ends_a_loop_is_seen_and_one_that_does_not_too() -> None:
    def stop(callback_context: Any) -> None:
        if callback_context.state.get("done"):
            callback_context.actions.escalate = True

    def loop(callback: Any) -> Any:
        return LoopAgent(name="loop", sub_agents=[llm("a", after_agent_callback=callback)])

    assert not bad(loop(stop))
    assert ("WEFT404", "loop.max_iterations") in bad(loop(item))
