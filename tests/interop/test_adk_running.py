"""google-adk: what its users wrote runs in Weft, with google-adk's own objects, or is refused."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.models import LlmResponse  # type: ignore[import-not-found]
from google.adk.tools import ToolContext  # type: ignore[import-not-found]
from google.genai import types  # type: ignore[import-not-found]

import weft
from tests.interop.kit import (
    AgentTool,
    BaseAgent,
    BaseTool,
    BaseToolset,
    LoopAgent,
    ParallelAgent,
    PlanReActPlanner,
    SequentialAgent,
    google_search,
)
from tests.interop.shapes import llm
from weft.declare.visit import rebuild
from weft.errors import UsageError
from weft.interop.adk import check_adk, from_adk
from weft.testing import ScriptedModel, call

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def run(agent: Any, *answers: Any, message: str = "hi there") -> tuple[Any, ScriptedModel]:
    """A run of the imported tree with a scripted model."""
    model = ScriptedModel([*answers])
    flow = rebuild(from_adk(agent), lambda one: replace(one, model=model))
    return weft.run_sync(flow, message), model


def said(words: str) -> Any:
    return types.Content(role="model", parts=[types.Part(text=words)])


def answer(words: str) -> Any:
    return LlmResponse(content=said(words))


def weather(city: str, tool_context: ToolContext) -> str:
    """The weather of a city."""
    tool_context.state["city"] = city
    return f"sunny in {city}"


def test_before_agent_sees_the_user_and_changes_the_state() -> None:
    seen: list[Any] = []

    def before(callback_context: Any) -> None:
        user = callback_context.user_content.parts[0].text
        seen.append((callback_context.agent_name, user, callback_context.session.id))
        callback_context.state["visits"] = callback_context.state.get("visits", 0) + 1

    result, model = run(llm("a", "Visit {visits}.", before_agent_callback=before), "ok")
    assert seen[0][:2] == ("a", "hi there")
    assert "Visit 1." in str(model.wires[0])
    assert result.state["visits"] == 1


def test_an_answer_before_the_agent_stands_for_it_and_nothing_follows() -> None:
    later: list[str] = []
    agent = llm(
        "a",
        before_agent_callback=[lambda callback_context: said("closed"), lambda callback_context: 1],
        after_agent_callback=lambda callback_context: later.append("after"),
    )
    result, model = run(agent)
    assert (result.text, model.wires, later) == ("closed", [], [])


async def test_after_agent_is_async_and_adds_to_what_was_said() -> None:
    async def after(callback_context: Any) -> Any:
        await callback_context.save_artifact("note.txt", types.Part(text="kept"))
        part = await callback_context.load_artifact("note.txt")
        return said(f"and {part.text}, {await callback_context.list_artifacts()}")

    model = ScriptedModel(["first"])
    flow = rebuild(
        from_adk(llm("a", after_agent_callback=after)), lambda a: replace(a, model=model)
    )
    async with weft.Runner(flow) as runner:
        result = await runner.run(session_id="s", message="hi")
    assert result.text == "and kept, ['note.txt']"


def test_callbacks_before_the_model_change_one_request_one_behind_the_other() -> None:
    order: list[str] = []

    def first(callback_context: Any, llm_request: Any) -> None:
        llm_request.config.system_instruction += "\nBe kind."
        llm_request.contents[-1].parts[0].text = "HELLO"
        llm_request.config.temperature = 0.5

    async def second(callback_context: Any, llm_request: Any) -> None:
        order.append(llm_request.config.system_instruction)
        llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="more")]))

    _, model = run(llm("a", "Help.", before_model_callback=[first, second]), "ok")
    assert order[0].endswith("Be kind.")
    wire = model.wires[0]
    texts = [part["text"] for content in wire["contents"] for part in content["parts"]]
    assert texts == ["HELLO", "more"]
    assert wire["systemInstruction"]["parts"][0]["text"].endswith("Help.\nBe kind.")
    assert wire["generationConfig"]["temperature"] == 0.5


def test_a_request_that_a_callback_only_looks_at_is_sent_as_it_was() -> None:
    def look(callback_context: Any, llm_request: Any) -> None:
        assert llm_request.contents
        assert "weather" in llm_request.tools_dict

    _, plain = run(llm("a", "Help.", tools=[weather]), call("weather", city="Oslo"), "ok")
    looked = llm("a", "Help.", tools=[weather], before_model_callback=look)
    _, model = run(looked, call("weather", city="Oslo"), "ok")
    assert model.wires == plain.wires


def test_an_answer_before_the_model_is_the_reply_and_is_not_asked_about_again() -> None:
    later: list[str] = []
    agent = llm(
        "a",
        before_model_callback=lambda callback_context, llm_request: answer("cached"),
        after_model_callback=lambda callback_context, llm_response: later.append("after"),
        output_key="out",
    )
    result, model = run(agent)
    assert (result.text, model.wires, later) == ("cached", [], [])
    assert result.state["out"] == "cached"


@pytest.mark.parametrize("how", ["in place", "anew"])
def test_after_the_model_its_answer_can_be_changed(how: str) -> None:
    def after(callback_context: Any, llm_response: Any) -> Any:
        if how == "anew":
            return answer(llm_response.content.parts[0].text + "!")
        llm_response.content.parts[0].text += "!"
        return None

    result, _ = run(llm("a", after_model_callback=after, output_key="out"), "yes")
    assert result.text == "yes!"
    assert result.state["out"] == "yes!"


def test_a_model_that_fails_may_be_answered_for() -> None:
    def failed(callback_context: Any, llm_request: Any, error: Exception) -> Any:
        return answer(f"sorry: {error}")

    result, _ = run(llm("a", on_model_error_callback=failed), ValueError("down"))
    assert result.text == "sorry: down"


class Guard:
    """Callbacks that are methods."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def before(self, tool: Any, args: dict[str, Any], tool_context: Any) -> Any:
        self.seen.append((tool.name, dict(args), bool(tool_context.function_call_id)))
        if args["city"] == "Oslo":
            args["city"] = "Bergen"
        return {"weather": "cached"} if args["city"] == "Rome" else None

    async def after(
        self, word: str, *, tool: Any, args: Any, tool_context: Any, tool_response: Any
    ) -> Any:
        self.seen.append(tool_response)
        tool_context.state["word"] = word
        return {"wrapped": tool_response} if isinstance(tool_response, str) else None


def test_tools_and_their_callbacks_get_what_google_adk_gives_them() -> None:
    guard = Guard()
    agent = llm(
        "a",
        tools=[weather],
        before_tool_callback=guard.before,
        after_tool_callback=functools.partial(guard.after, "x"),
    )
    result, model = run(agent, call("weather", city="Oslo"), call("weather", city="Rome"), "done")
    assert guard.seen == [
        ("weather", {"city": "Oslo"}, True),
        "sunny in Bergen",
        ("weather", {"city": "Rome"}, True),
        {"weather": "cached"},
    ]
    answers = [part["functionResponse"]["response"] for content in model.wires[2]["contents"]
               for part in content["parts"] if "functionResponse" in part]  # fmt: skip
    assert answers == [{"wrapped": "sunny in Bergen"}, {"weather": "cached"}]
    assert result.state == {"city": "Bergen", "word": "x"}


def test_a_tool_that_fails_may_be_answered_for_and_one_may_end_a_loop() -> None:
    def broken(city: str, tool_context: ToolContext) -> str:
        """Break."""
        raise ValueError("down")

    def failed(tool: Any, args: Any, tool_context: Any, error: Exception) -> Any:
        tool_context.actions.escalate = True
        return {"sorry": str(error)}

    inner = llm("a", tools=[broken], on_tool_error_callback=failed)
    loop = LoopAgent(name="loop", sub_agents=[inner], max_iterations=3)
    result, model = run(loop, call("broken", city="x"), "one", "two", "three")
    assert "sorry" in str(model.wires[1])
    assert len(model.wires) == 2
    assert result.error is None


async def provider(context: Any) -> str:
    from google.adk.utils.instructions_utils import (  # type: ignore[import-not-found]
        inject_session_state,
    )

    return str(await inject_session_state("The plan is {plan}.", context))


def test_a_provider_gets_a_context_of_google_adk() -> None:
    first = llm("first", output_key="plan")
    both = SequentialAgent(name="both", sub_agents=[first, llm("second", provider)])
    _, model = run(both, "go north", "ok")
    assert "The plan is go north." in str(model.wires[1]["systemInstruction"])


async def test_callbacks_look_back_at_the_session_and_at_every_scope_of_the_state() -> None:
    seen: list[Any] = []

    def before(callback_context: Any) -> None:
        events = callback_context.session.events
        seen.append([(event.author, event.get_function_calls() != []) for event in events])
        callback_context.state["user:name"] = "Ada"
        callback_context.state["temp:now"] = 1
        callback_context.state.setdefault("list", [])
        callback_context.state["list"].append(len(events))
        assert reversed(events)
        assert events[-1].author == "user"
        assert len(events) == len([*events])

    model = ScriptedModel([call("weather", city="Oslo"), "one", "two"])
    agent = llm("a", "{user:name} {temp:now}", tools=[weather], before_agent_callback=before)
    flow = rebuild(from_adk(agent), lambda one: replace(one, model=model))
    async with weft.Runner(flow) as runner:
        await runner.run(session_id="s", message="hi")
        result = await runner.run(session_id="s", message="again")
    assert seen[0] == [("user", False)]
    assert ("a", True) in seen[1]
    assert result.state["list"] == [1, len(seen[1])]
    assert result.state["user:name"] == "Ada"
    assert "Ada 1" in str(model.wires[-1]["systemInstruction"])


def test_a_tree_with_branches_runs_with_the_callbacks_of_each() -> None:
    def mark(callback_context: Any) -> None:
        callback_context.state[f"by_{callback_context.agent_name}"] = True

    branches = [llm(name, before_agent_callback=mark, output_key=f"out_{name}") for name in "xy"]
    last = llm("last", "{out_x} {out_y} {by_x}")
    tree = SequentialAgent(
        name="all", sub_agents=[ParallelAgent(name="both", sub_agents=branches), last]
    )
    result, model = run(tree, "one", "two", "three")
    assert result.text == "three"
    assert result.state["by_x"]
    assert result.state["by_y"]
    assert len(model.wires) == 3


class Custom(BaseAgent):  # type: ignore[misc, valid-type]
    """An agent of a class of its own."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        if ctx is None:
            yield None


class Toolset(BaseToolset):  # type: ignore[misc, valid-type]
    """Tools that are asked for when they are needed."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []


class Own(BaseTool):  # type: ignore[misc, valid-type]
    """A tool of a class of its own."""


def step(callback_context: Any) -> None:
    callback_context.state["x"] = 1


def refusing() -> dict[str, Callable[[], Any]]:
    """Trees that Weft does not run, and what is named."""
    return {
        "a.planner": lambda: llm("a", planner=PlanReActPlanner()),
        "a.tools": lambda: llm("a", tools=[google_search]),
        "a.tools ": lambda: llm("a", tools=[Toolset()]),
        "tool own": lambda: llm("a", tools=[Own(name="own", description="Own.")]),
        "c.name": lambda: Custom(name="c"),
        "s.before_agent_callback": lambda: SequentialAgent(
            name="s", sub_agents=[llm("a")], before_agent_callback=step
        ),
    }


@pytest.mark.parametrize("place", refusing())
@pytest.mark.parametrize("around", ["alone", "last", "tool", "branch"])
def test_what_cannot_be_run_is_refused_before_anything_is_spent(place: str, around: str) -> None:
    agent = refusing()[place]()
    if around == "last":
        agent = SequentialAgent(name="all", sub_agents=[llm("first"), agent])
    elif around == "tool":
        agent = llm("top", tools=[AgentTool(agent=agent)])
    elif around == "branch":
        agent = ParallelAgent(name="all", sub_agents=[llm("first"), agent])
    model = ScriptedModel(["one", "two"])
    flow = rebuild(from_adk(agent), lambda one: replace(one, model=model))
    with pytest.raises(UsageError, match="cannot be run here") as raised:
        weft.run_sync(flow, "hi")
    assert place.strip() in str(raised.value)
    assert "WeftPlugin" in raised.value.hint
    assert not model.wires


def test_options_that_only_gemini_knows_are_sent_and_are_no_findings() -> None:
    unsafe = types.SafetySetting(category="HARM_CATEGORY_HATE_SPEECH", threshold="BLOCK_NONE")
    config = types.GenerateContentConfig(
        temperature=0.3,
        safety_settings=[unsafe],
        labels={"team": "a"},
        media_resolution="MEDIA_RESOLUTION_LOW",
    )
    agent = llm("a", "Help.", generate_content_config=config)
    assert not check_adk(agent)
    _, model = run(agent, "ok")
    wire = model.wires[0]
    assert wire["safetySettings"] == [
        {"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}
    ]
    assert wire["labels"] == {"team": "a"}
    assert wire["generationConfig"]["mediaResolution"] == "MEDIA_RESOLUTION_LOW"
