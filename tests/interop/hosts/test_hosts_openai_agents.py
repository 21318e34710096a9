"""openai-agents: programs from its documentation, with and without the filter."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
    input_guardrail,
)
from agents.extensions import handoff_filters
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel

from tests.interop.hosts.checks import (
    DIGESTS,
    GAUGES,
    NO_EMAIL,
    ROUND,
    SECRET,
    WEIRS,
    Played,
    Program,
    check_program,
    check_protected,
    check_reread,
    look,
    reread,
)
from weft import Session
from weft.errors import ProtectionError
from weft.interop.openai_agents import WeftFilter


class Script(Model):
    """A model that says what is written down, and keeps what it was sent."""

    def __init__(self, *steps: object) -> None:
        self.steps = [*steps]
        self.requests: list[list[Any]] = []

    async def get_response(
        self, system_instructions: str | None, input: Any, *others: Any, **more: Any
    ) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        self.requests.append(json.loads(json.dumps(items)))
        step: Any = self.steps[len(self.requests) - 1]
        step = step(_spell_chat(self.requests[-1])) if callable(step) else step
        number, output = len(self.requests), list[Any]()
        if isinstance(step, str):
            text = ResponseOutputText(annotations=[], text=step, type="output_text")
            output.append(
                ResponseOutputMessage(
                    id=f"m{number}", content=[text], role="assistant", status="completed",
                    type="message",
                )
            )  # fmt: skip
        else:
            output += [
                ResponseFunctionToolCall(
                    arguments=json.dumps(args), call_id=f"call_{number}_{at}", name=name,
                    type="function_call",
                )
                for at, (name, args) in enumerate(step)
            ]  # fmt: skip
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(
        self, system_instructions: str | None, input: Any, *others: Any, **more: Any
    ) -> AsyncIterator[Any]:
        answer = await self.get_response(system_instructions, input)
        response = Response(
            id="r", created_at=0, model="script", object="response", output=answer.output,
            parallel_tool_calls=True, tool_choice="auto", tools=[],
        )  # fmt: skip
        yield ResponseCompletedEvent(
            response=response, sequence_number=0, type="response.completed"
        )

    def played(self, *answers: str) -> Played:
        return Played([*answers], self.requests, [*map(_spell_chat, self.requests)])


def _spell_chat(items: list[Any]) -> list[Any]:
    """The items of a request as the messages of a chat."""
    return Session.from_messages(items, format="openai-responses").to_messages("openai-chat")


@function_tool
def read_gauges(place: str) -> str:
    """Read the gauges of a place."""
    return GAUGES[place]


def _agent(script: Script, *tools: Any, **options: Any) -> Agent[Any]:
    return Agent(
        name="Watcher",
        instructions="You watch gauges.",
        model=script,
        model_settings=ModelSettings(),
        tools=[read_gauges, *tools],
        **options,
    )


def _config(added: object) -> RunConfig:
    return RunConfig(call_model_input_filter=added, tracing_disabled=True)  # type: ignore[arg-type]


async def _question(added: object) -> Played:
    script = Script("All is well.")
    result = await Runner.run(_agent(script), "How are you?", run_config=_config(added))
    return script.played(result.final_output)


async def _tool_loop(added: object) -> Played:
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    result = await Runner.run(_agent(script), "Read all places.", run_config=_config(added))
    return script.played(result.final_output)


async def _parallel_calls(added: object) -> Played:
    script = Script([("read_gauges", {"place": place}) for place in GAUGES], "All at once.")
    result = await Runner.run(_agent(script), "Read all places.", run_config=_config(added))
    return script.played(result.final_output)


class Reading(BaseModel):
    """What came of it."""

    place: str
    pressure: int


async def _structured_output(added: object) -> Played:
    script = Script([("read_gauges", {"place": "north"})], '{"place": "north", "pressure": 37}')
    agent = _agent(script, output_type=Reading)
    result = await Runner.run(agent, "What is the pressure?", run_config=_config(added))
    return script.played(repr(result.final_output))


async def _session(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Fine.", call, "As I said.")
    agent, session = _agent(script), SQLiteSession("gauges")
    first = await Runner.run(agent, "Look north.", session=session, run_config=_config(added))
    second = await Runner.run(agent, "And now?", session=session, run_config=_config(added))
    assert "as lines" not in json.dumps(await session.get_items())  # the session is the host's own
    return script.played(first.final_output, second.final_output)


async def _streamed(added: object) -> Played:
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    running = Runner.run_streamed(_agent(script), "Read all places.", run_config=_config(added))
    events = [event.type async for event in running.stream_events()]
    assert "raw_response_event" in events
    return script.played(running.final_output)


async def _handoff(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, [("transfer_to_second", {})], call, "All is well.")
    second = Agent(name="second", model=script, tools=[read_gauges])
    first = _agent(script, handoffs=[second])
    result = await Runner.run(first, "Look north, both.", run_config=_config(added))
    assert result.last_agent.name == "second"
    return script.played(result.final_output)


async def _agent_as_tool(added: object) -> Played:
    script = Script(*[[("read_gauges", {"place": "north"})]] * 2, "All is well.")
    watch = _agent(script).as_tool("watch", "Have somebody look.", run_config=_config(added))
    boss = Agent(name="boss", model=Script([("watch", {"input": "Look."})], "Good."), tools=[watch])
    result = await Runner.run(boss, "How is north?", run_config=_config(added))
    return script.played(result.final_output)


async def _failing_tool(added: object) -> Played:
    @function_tool
    def open_weir(place: str) -> str:
        """Open a weir."""
        raise ValueError(GAUGES[place])

    script = Script(
        [("open_weir", {"place": "north"}), ("read_gauges", {"place": "north"})],
        [("open_weir", {"place": "north"})],
        "It stays shut.",
    )
    agent = _agent(script, open_weir)
    result = await Runner.run(agent, "Open it.", run_config=_config(added))
    return script.played(result.final_output)


async def _filtered_handoff(added: object) -> Played:
    """The next agent sees no calls, and hands back."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, [("transfer_to_second", {})], call, call, "All is well.")
    second = Agent(name="second", model=script, tools=[read_gauges])
    to_second = handoff(second, input_filter=handoff_filters.remove_all_tools)
    result = await Runner.run(
        _agent(script, handoffs=[to_second]), "Look north, both.", run_config=_config(added)
    )
    return script.played(result.final_output)


async def _input_list(added: object) -> Played:
    """Several runs of one agent, each with what the one before it said."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Fine.", call, "As I said.", call, "Still.")
    agent, items, answers = _agent(script), list[Any](), list[str]()
    for words in ("Look north.", "And now?", "And now?"):
        items.append({"role": "user", "content": words})
        result = await Runner.run(agent, items, run_config=_config(added))
        answers.append(result.final_output)
        items = result.to_input_list()
    return script.played(*answers)


async def _guarded(added: object) -> Played:
    """Guardrails before and after, and several conversations of one agent."""

    @input_guardrail
    async def asks(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Fine.", call, call, "Fine again.")
    agent, answers = _agent(script, input_guardrails=[asks]), list[str]()
    for words in ("Look north.", "Look twice."):
        result = await Runner.run(agent, words, run_config=_config(added))
        answers.append(result.final_output)
    return script.played(*answers)


PROGRAMS = [
    *(_question, _tool_loop, _parallel_calls, _structured_output, _session),
    *(_streamed, _handoff, _agent_as_tool, _failing_tool, _filtered_handoff),
    *(_input_list, _guarded),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, WeftFilter, hides=False)


async def _reread(added: Any) -> Played:
    looks = [[("look", {"place": place})] for place in WEIRS]
    script = Script(*looks, *[_reread_whole] * 9)
    own = [added.tool] if added is not None else []
    agent = _agent(script, function_tool(look), *own)
    result = await Runner.run(agent, "Look around.", run_config=_config(added), max_turns=99)
    return script.played(result.final_output)


def _reread_whole(chat: list[Any]) -> object:
    """As `reread`, with all arguments: openai-agents declares its tools strictly."""
    step = reread(chat)
    if isinstance(step, str):
        return step
    return [(name, {"query": "", "field": "", "page": 1, **args}) for name, args in step]


async def test_a_model_reads_again_what_was_left_out_long_ago() -> None:
    await check_reread(_reread, WeftFilter)


async def _secret(added: object) -> Played:
    picture = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBO"}

    @function_tool
    def write_mail(to: str) -> str:
        """Write a mail."""
        return f"{GAUGES['north']}\nsent to {to}"

    script = Script([("write_mail", {"to": SECRET})], "Sent.")
    words = {"type": "input_text", "text": f"Write to {SECRET}."}
    said: Any = [{"role": "user", "content": [picture, words]}]
    result = await Runner.run(_agent(script, write_mail), said, run_config=_config(added))
    return script.played(result.final_output)


async def test_what_a_policy_protects_is_in_no_item() -> None:
    await check_protected(_secret, WeftFilter)
    script = Script("Hello.")
    agent = Agent(name="Watcher", instructions=SECRET, model=script)
    with pytest.raises(ProtectionError):
        await Runner.run(agent, "Hello?", run_config=_config(WeftFilter(NO_EMAIL)))
    assert not script.requests


async def test_an_agent_with_the_tool_gets_back_what_was_left_out() -> None:
    def ask(chat: object) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", json.dumps(chat))
        assert handle is not None
        return [
            (
                "recall",
                {"handle": handle[1], "lines": "399-400", "query": "", "field": "", "page": 1},
            )
        ]

    script = Script([("read_gauges", {"place": "north"})], ask, "Got it.")
    added = WeftFilter(DIGESTS)
    result = await Runner.run(_agent(script, added.tool), "Look.", run_config=_config(added))
    assert result.final_output == "Got it."
    assert "north gauge 399: " in json.dumps(script.requests[-1])


async def test_two_conversations_get_their_own_steps_back() -> None:
    added = WeftFilter()

    async def run(who: str, steps: int) -> str:
        looks = [[("look", {"place": f"weir {number}"})] for number in range(steps)]
        script = Script(*looks, [("recall", {"handle": "#1", "lines": "1-1"})], "Done.")

        @function_tool
        def look(place: str) -> str:
            """Look at a place."""
            return "\n".join(f"{who} saw {place} {line}: wind and river" for line in range(90))

        agent = _agent(script, added.tool, look)
        await Runner.run(agent, "Look around.", run_config=_config(added), max_turns=99)
        assert ("Folded steps" in json.dumps(script.requests[-1])) == (steps > 9)
        return json.dumps(script.requests[-1][-1])

    ann, bob, cy = await asyncio.gather(run("ann", 40), run("bob", 40), run("cy", 2))
    assert "ann saw weir 0 0" in ann
    assert "bob saw weir 0 0" in bob
    assert "there is no" in cy
    assert "there is no" in await run("dora", 2)
