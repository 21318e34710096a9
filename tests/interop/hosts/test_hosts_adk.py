"""google-adk: five programs from its documentation, with and without the plugin."""

import re
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("google.adk.plugins", reason="google-adk is not installed")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

from pydantic import BaseModel

from tests.interop.hosts.checks import DIGESTS, GAUGES, ROUND, Played, Program, check_program
from weft import Policy, Session
from weft.interop.adk import WeftPlugin

pytestmark = pytest.mark.filterwarnings("ignore")


class Script(BaseLlm):
    """A model that says what is written down, and keeps what it was sent."""

    model: str = "gemini-2.5-flash"
    steps: list[Any] = []
    requests: list[list[Any]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        sent = [one.model_dump(mode="json", exclude_none=True) for one in llm_request.contents]
        self.requests.append(sent)
        step = self.steps[len(self.requests) - 1]
        step = step(str(sent)) if callable(step) else step
        said = [step] if isinstance(step, str) else step
        parts = [
            types.Part(text=one)
            if isinstance(one, str)
            else types.Part(function_call=types.FunctionCall(name=one[0], args=one[1]))
            for one in said
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def read_gauges(place: str) -> str:
    """Read the gauges of a place."""
    return GAUGES[place]


def watcher(script: Script, name: str = "watcher", **options: Any) -> LlmAgent:
    """An agent with the tool of the programs, unless it says what it has."""
    return LlmAgent(
        name=name,
        model=script,
        instruction="You watch gauges.",
        **{"tools": [read_gauges], **options},
    )


async def play(added: Any, script: Script, agent: Any, *messages: str) -> Played:
    """Run a program to its end."""
    runner = InMemoryRunner(agent, app_name="gauges", plugins=[added] if added else [])
    session = await runner.session_service.create_session(app_name="gauges", user_id="u")
    answers: list[str] = []
    for message in messages:
        said = types.Content(role="user", parts=[types.Part(text=message)])
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=said):
            parts = event.content.parts if event.content is not None else None
            answers += [part.text for part in parts or () if part.text]
    chats = [
        Session.from_messages({"contents": one}, format="gemini").to_messages("openai-chat")
        for one in script.requests
    ]
    return Played(answers, script.requests, chats)


def write_script(*steps: object) -> Script:
    """A model for one run."""
    return Script(steps=[*steps], requests=[])


async def _question(added: object) -> Played:
    script = write_script("All is well.")
    return await play(added, script, watcher(script), "How are you?")


async def _tool_loop(added: object) -> Played:
    calls = [[("read_gauges", {"place": place})] for place in ROUND]
    script = write_script(*calls, "Read them all.")
    return await play(added, script, watcher(script), "Read all places.")


async def _parallel_calls(added: object) -> Played:
    calls = [("read_gauges", {"place": place}) for place in GAUGES]
    script = write_script(calls, "All at once.")
    return await play(added, script, watcher(script), "Read all places.")


class Reading(BaseModel):
    """What came of it."""

    place: str
    pressure: int


async def _structured_output(added: object) -> Played:
    answer = [("set_model_response", {"place": "north", "pressure": 37})]
    script = write_script([("read_gauges", {"place": "north"})], answer)
    return await play(
        added, script, watcher(script, output_schema=Reading), "What is the pressure?"
    )


async def _session(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script = write_script(call, "Fine.", call, "As I said.")
    return await play(added, script, watcher(script), "Look north.", "And now?")


PROGRAMS = [_question, _tool_loop, _parallel_calls, _structured_output, _session]


def add(policy: Policy | None) -> Any:
    return WeftPlugin(context=policy)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, add)


async def test_an_agent_gets_back_what_was_left_out() -> None:
    def ask(sent: str) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", sent)
        assert handle is not None
        return [("recall", {"handle": handle[1], "lines": "200-200"})]

    script = write_script([("read_gauges", {"place": "north"})], ask, "Got it.")
    played = await play(add(DIGESTS), script, watcher(script), "Look.")
    assert played.answers == ["Got it."]
    assert "north gauge 199: " in str(played.requests[-1])
    assert "north gauge 199: " not in str(played.requests[1])
