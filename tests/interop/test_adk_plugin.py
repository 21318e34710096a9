"""WeftPlugin in a google-adk Runner: what its models are asked, counted in what was sent."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.interop.kit import REAL

if not REAL:
    pytest.skip("google-adk is not installed", allow_module_level=True)

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

from tests.interop.kit import (
    AgentTool,
    GlobalInstructionPlugin,
    LlmAgent,
    LoopAgent,
    PlanReActPlanner,
    SequentialAgent,
    exit_loop,
)
from weft import C
from weft.interop.adk import WeftPlugin

pytestmark = pytest.mark.filterwarnings("ignore")


class Scripted(BaseLlm):
    """A model that answers by who asks, and keeps what it was asked."""

    model: str = "gemini-2.5-flash"
    script: dict[str, list[Any]] = {}
    asked: list[tuple[str, LlmRequest]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        agent = (llm_request.config.labels or {})["adk_agent_name"]
        self.asked.append((agent, llm_request.model_copy(deep=True)))
        said = self.script[agent].pop(0)
        said = said(llm_request) if callable(said) else said
        part = types.Part(text=said) if isinstance(said, str) else types.Part(function_call=said)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def call(tool: str, **args: Any) -> Any:
    return types.FunctionCall(name=tool, args=args)


def contents(request: LlmRequest) -> str:
    """All that the contents say, in order."""
    return "\n".join(
        f"{content.role}: {part.text or part.function_call or part.function_response}"
        for content in request.contents
        for part in content.parts or []
    )


def size(request: LlmRequest) -> int:
    return weft.count_tokens(
        {
            "systemInstruction": {"parts": [{"text": str(request.config.system_instruction)}]},
            "contents": [
                content.model_dump(mode="json", by_alias=True, exclude_none=True)
                for content in request.contents
            ],
        },
        model="gemini-2.5-flash",
    )


class Ran:
    """A run: what was asked of the model, by agent, and what came of it."""

    def __init__(self, model: Scripted, events: list[Any], state: dict[str, Any]) -> None:
        self.model, self.events, self.state = model, events, state

    def asked(self, agent: str, index: int = 0) -> LlmRequest:
        return [request for name, request in self.model.asked if name == agent][index]

    @property
    def text(self) -> str:
        return str(self.events[-1].content.parts[0].text)


def ran(
    build: Any, script: dict[str, list[Any]], *plugins: Any, messages: Any = ("Fly me to Oslo",),
    state: dict[str, Any] | None = None,
) -> Ran:  # fmt: skip
    """Run what `build` makes of a model, with these plugins."""

    async def go() -> Ran:
        model = Scripted(script={name: [*lines] for name, lines in script.items()}, asked=[])
        sessions = InMemorySessionService()
        runner = Runner(
            app_name="test", agent=build(model), session_service=sessions, plugins=[*plugins]
        )
        await sessions.create_session(
            app_name="test", user_id="u", session_id="s", state=state or {}
        )
        events: list[Any] = []
        for message in messages:
            said = message
            if isinstance(message, str):
                said = types.Content(role="user", parts=[types.Part(text=message)])
            async for event in runner.run_async(user_id="u", session_id="s", new_message=said):
                events.append(event)
        session = await sessions.get_session(app_name="test", user_id="u", session_id="s")
        assert session is not None
        return Ran(model, events, dict(session.state))

    return asyncio.run(asyncio.wait_for(go(), 120))


def both(build: Any, script: dict[str, list[Any]], **more: Any) -> tuple[Ran, Ran, Any]:
    """The same run without the plugin and with it."""
    plugin = WeftPlugin()
    return ran(build, script, **more), ran(build, script, plugin, **more), plugin


def classified(model: Any) -> Any:
    return SequentialAgent(
        name="trip",
        sub_agents=[
            LlmAgent(name="classifier", model=model, instruction="Classify.", output_key="intent"),
            LlmAgent(name="booker", model=model, instruction="Help book. Intent: {intent}"),
        ],
    )


CLASSIFIED = {"classifier": ["a long trip by air"], "booker": ["Booked."]}


def test_the_run_itself_is_the_same() -> None:
    plain, compiled, _ = both(classified, CLASSIFIED)
    assert compiled.text == plain.text == "Booked."
    assert compiled.state == plain.state == {"intent": "a long trip by air"}
    assert [e.author for e in compiled.events] == [e.author for e in plain.events]


def get_weather(city: str) -> dict[str, str]:
    """Weather of a city."""
    return {"weather": f"rain in {city}"}


def test_calls_and_results_are_sent_as_google_adk_sends_them() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Help.", tools=[get_weather])

    script = {"bot": [call("get_weather", city="Oslo"), "It rains."]}
    plain, compiled, plugin = both(build, script)
    assert compiled.asked("bot", 1).contents == plain.asked("bot", 1).contents
    assert compiled.asked("bot", 1).config.tools == plain.asked("bot", 1).config.tools
    assert compiled.text == "It rains."
    assert not plugin.compactor.compacted


def test_what_tools_planners_and_plugins_add_stays() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Help.", planner=PlanReActPlanner())

    script = {"bot": ["/*FINAL_ANSWER*/ Done."]}
    plugin = WeftPlugin()
    ruled = ran(build, script, GlobalInstructionPlugin("Be brief."), plugin)
    said = str(ruled.asked("bot").config.system_instruction)
    assert "Be brief." in said
    assert "/*PLANNING*/" in said
    assert said.count("Help.") == 1


def test_a_budget_holds_for_every_request() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Talk.")

    turns = [f"turn {n}: " + "many words " * 60 for n in range(8)]
    script = {"bot": ["an answer of some length " * 20] * 8}
    plain = ran(build, script, messages=turns)
    plugin = WeftPlugin(context=C.default().budget(900, reserve=0))
    compiled = ran(build, script, plugin, messages=turns)
    assert size(plain.asked("bot", 7)) > 1500
    assert all(size(request) <= 900 for _, request in compiled.model.asked)
    assert plugin.compactor.compacted > 2


def test_a_budget_covers_what_only_google_adk_sends() -> None:
    def build(model: Any) -> Any:
        def instruct(context: Any) -> str:
            return "A long instruction. " * 80

        return LlmAgent(name="bot", model=model, instruction=instruct)

    turns = [f"turn {n}: " + "many words " * 30 for n in range(6)]
    plugin = WeftPlugin(context=C.default().budget(900, reserve=0))
    found = ran(build, {"bot": ["an answer of some length " * 10] * 6}, plugin, messages=turns)
    assert all(size(request) <= 900 for _, request in found.model.asked)
    assert all(
        "A long instruction." in str(r.config.system_instruction) for _, r in found.model.asked
    )
    assert plugin.compactor.compacted


def test_what_became_a_handle_can_be_recalled() -> None:
    def list_orders() -> dict[str, Any]:
        """All orders."""
        return {"orders": [{"id": n, "text": f"order number {n} of many"} for n in range(400)]}

    def recalling(request: Any) -> Any:
        handle = re.search(r"handle[: =\"']*([0-9a-f]{12})", contents(request))
        assert handle is not None
        return call("recall", handle=handle[1], query="order number 123")

    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Help.", tools=[list_orders])

    script = {"bot": [call("list_orders"), recalling, "It is on its way."]}
    plugin = WeftPlugin(context=C.default().compact())
    found = ran(build, script, plugin)
    assert found.text == "It is on its way."
    assert "order number 123" not in contents(found.asked("bot", 1))
    assert "order number 123" in contents(found.asked("bot", 2))
    assert size(found.asked("bot", 2)) < 4000
    assert plugin.compactor.compacted == 2


def test_a_policy_may_be_for_one_agent() -> None:
    plugin = WeftPlugin(contexts={"booker": C.default().redact("email")})
    found = ran(classified, CLASSIFIED, plugin, messages=("Write to bob@corp.example",))
    assert "bob@corp.example" in contents(found.asked("classifier"))
    assert "bob@corp.example" not in contents(found.asked("booker"))
    assert plugin.compactors["booker"].compacted == 1
    assert not plugin.compactor.compacted


def test_nothing_that_goes_wrong_stops_the_run(caplog: pytest.LogCaptureFixture) -> None:
    plugin = WeftPlugin(context=C.default().budget(1))
    plain, found = ran(classified, CLASSIFIED), ran(classified, CLASSIFIED, plugin)
    assert found.text == "Booked."
    assert contents(found.asked("booker")) == contents(plain.asked("booker"))
    assert not plugin.compactor.compacted
    assert sum(plugin.compactor.skipped.values()) == 2
    assert "left as it is" in caplog.text


def test_media_arrives_byte_for_byte() -> None:
    def build(model: Any) -> Any:
        return LlmAgent(name="bot", model=model, instruction="Look.")

    picture = types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256))))
    message = types.Content(role="user", parts=[types.Part(text="See:"), picture])
    _, compiled, plugin = both(build, {"bot": ["ok"]}, messages=(message,))
    parts = compiled.asked("bot").contents[0].parts or []
    assert parts[1].inline_data is not None
    assert parts[1].inline_data.data == bytes(range(256))
    assert not plugin.compactor.compacted


def test_an_agent_behind_a_tool_and_a_loop_are_compiled_too() -> None:
    def build(model: Any) -> Any:
        expert = LlmAgent(name="expert", model=model, instruction="Know.", description="Knows.")
        worker = LlmAgent(
            name="worker", model=model, instruction="Work.", tools=[AgentTool(agent=expert)]
        )
        checker = LlmAgent(name="checker", model=model, instruction="Check.", tools=[exit_loop])
        return LoopAgent(name="rounds", sub_agents=[worker, checker], max_iterations=3)

    script = {
        "worker": [call("expert", request="why?"), "because", "still"],
        "expert": ["42"],
        "checker": ["again", call("exit_loop")],
    }
    plain, compiled, plugin = both(build, script)
    assert [name for name, _ in compiled.model.asked] == [name for name, _ in plain.model.asked]
    assert sum(plugin.compactor.skipped.values()) == len(compiled.model.asked)


@pytest.mark.parametrize("wrong", [3, "C.none()", C])
def test_what_is_no_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(weft.WeftError, match="not a policy"):
        WeftPlugin(context=wrong)


MODULE = """
from google.adk.agents import LlmAgent, SequentialAgent

classifier = LlmAgent(name="classifier", model="gemini-2.5-flash", instruction="Classify.",
                      output_key="intent")
booker = LlmAgent(name="booker", model="gemini-2.5-flash", instruction="Intent: {intent}")
root_agent = SequentialAgent(name="trip", sub_agents=[classifier, booker])
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "trip_agent.py"
    path.write_text(MODULE, "utf-8")
    return str(path)


def test_commands_take_a_module_of_google_adk(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from weft.cli import main

    given = [f"{module}:root_agent", "-m", "To Oslo", "--agent", "booker", "--state", "intent=fly"]
    assert main(["compile", *given]) == 0
    assert "Intent: fly" in capsys.readouterr().out
    assert main(["explain", *given]) == 0
    assert "booker.instruction" in capsys.readouterr().out
    assert main(["check", f"{module}:root_agent"]) == 1
    found = capsys.readouterr().out
    assert "booker.instruction:8: warning[WEFT206]" in found
    assert "trip_agent.py:6" in found
    assert main(["check", f"{module}:classifier"]) == 0
    capsys.readouterr()
    assert main(["compile", module]) == 2
    assert f"{module}:root_agent" in capsys.readouterr().err
