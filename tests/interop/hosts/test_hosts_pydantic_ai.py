"""pydantic-ai: programs from its documentation, with and without the capability."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="pydantic-ai is not installed")

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessagesTypeAdapter,
    ModelRetry,
    capture_run_messages,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextContent, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import UsageLimits

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
from weft.errors import ProtectionError
from weft.interop.pydantic_ai import WeftCapability, _spell_messages


class Script:
    """A model that says what is written down, and keeps what it was sent."""

    def __init__(self, *steps: object) -> None:
        self.steps = [*steps]
        self.requests: list[list[object]] = []
        self.chats: list[list[dict[str, object]]] = []

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        dumped = ModelMessagesTypeAdapter.dump_json(messages)
        self.requests.append([_bare(one) for one in json.loads(dumped)])
        self.chats.append([piece.wire for piece in _spell_messages([*messages])])
        step = self.steps[len(self.requests) - 1]
        step = step(self.chats[-1], info) if callable(step) else step
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        number = len(self.requests)
        return ModelResponse(
            parts=[
                ToolCallPart(name, args, tool_call_id=f"call_{number}_{at}")
                for at, (name, args) in enumerate(step)
            ]
        )

    async def stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for at, part in enumerate(self.answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                args = json.dumps(part.args)
                yield {at: DeltaToolCall(part.tool_name, args, tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.answer, stream_function=self.stream)

    def played(self, *answers: str) -> Played:
        return Played([*answers], self.requests, self.chats)  # type: ignore[arg-type]


def _bare(message: dict[str, object]) -> dict[str, object]:
    """A message without the times and ids that differ from run to run."""
    text = json.dumps(message)
    text = re.sub(r'"(timestamp|run_id|conversation_id)": ("[^"]*"|null)', r'"\1": 0', text)
    return json.loads(text)


def _agent(script: Script, added: object, **options: object) -> Agent:
    capabilities = [added] if added is not None else []
    agent = Agent(
        script.model, instructions="You watch gauges.", capabilities=capabilities, **options
    )

    @agent.tool_plain
    def read_gauges(place: str) -> str:
        """Read the gauges of a place."""
        return GAUGES[place]

    return agent


async def _question(added: object) -> Played:
    script = Script("All is well.")
    return script.played((await _agent(script, added).run("How are you?")).output)


async def _tool_loop(added: object) -> Played:
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    return script.played((await _agent(script, added).run("Read all places.")).output)


async def _parallel_calls(added: object) -> Played:
    script = Script([("read_gauges", {"place": place}) for place in GAUGES], "All at once.")
    return script.played((await _agent(script, added).run("Read all places.")).output)


class Reading(BaseModel):
    """What came of it."""

    place: str
    pressure: int


async def _structured_output(added: object) -> Played:
    script = Script(
        [("read_gauges", {"place": "north"})],
        [("final_result", {"place": "north", "pressure": 37})],
    )
    agent = _agent(script, added, output_type=Reading)
    return script.played(repr((await agent.run("What is the pressure?")).output))


async def _history(added: object) -> Played:
    script = Script([("read_gauges", {"place": "north"})], "Fine.", "As I said.")
    agent = _agent(script, added)
    first = await agent.run("Look north.")
    with capture_run_messages():
        second = await agent.run("And now?", message_history=first.all_messages())
    assert "gauge 399" in str(first.all_messages())  # the history is pydantic-ai's own
    return script.played(first.output, second.output)


async def _streamed(added: object) -> Played:
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    async with _agent(script, added).run_stream("Read all places.") as result:
        return script.played(await result.get_output())


async def _agent_as_tool(added: object) -> Played:
    script = Script([("read_gauges", {"place": "north"})] * 2, "All is well.")
    watcher = _agent(script, added)
    boss = Agent(Script([("watch", {})], "Good.").model, capabilities=[added] if added else [])

    @boss.tool_plain
    async def watch() -> str:
        return (await watcher.run("Look north, twice.")).output

    return script.played((await boss.run("Have somebody look.")).output)


async def _retried_tool(added: object) -> Played:
    """A tool that asks the model to call it again."""
    call = [("open_weir", {"place": "north"})]
    script = Script([("read_gauges", {"place": "north"}), *call], call, "It is open.")
    agent, tries = _agent(script, added, retries=2), list[str]()

    @agent.tool_plain
    def open_weir(place: str) -> str:
        """Open a weir."""
        tries.append(place)
        if len(tries) < 2:
            raise ModelRetry(GAUGES[place])
        return "open"

    return script.played((await agent.run("Open it.")).output)


async def _checked_output(added: object) -> Played:
    """An answer that is refused once."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Perhaps.", call, "It is well.")
    agent = _agent(script, added, retries=2)

    @agent.output_validator
    def check(said: str) -> str:
        if "well" not in said:
            raise ModelRetry("Say whether it is well.")
        return said

    return script.played((await agent.run("Look north.")).output)


async def _step_by_step(added: object) -> Played:
    """A run whose nodes the program walks itself."""
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    async with _agent(script, added).iter("Read all places.") as run:
        nodes = [type(node).__name__ async for node in run]
    assert nodes.count("CallToolsNode") == len(ROUND) + 1
    assert run.result is not None
    return script.played(run.result.output)


async def _several_turns(added: object) -> Played:
    """Several runs of one agent, each with all messages before it, and one without."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Fine.", call, call, "As I said.", "Hello.")
    agent = _agent(script, added)
    first = await agent.run("Look north.")
    second = await agent.run("Look twice.", message_history=first.all_messages())
    third = await agent.run("Hello?")
    return script.played(first.output, second.output, third.output)


async def _handed_over(added: object) -> Played:
    """The messages of one agent go to another one, with an answer of its own form."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(
        call, "Your turn.", call, [("final_result", {"place": "north", "pressure": 37})]
    )
    first = await _agent(script, added).run("Look north.")
    second = await _agent(script, added, output_type=Reading).run(
        "And you?", message_history=first.all_messages()
    )
    return script.played(first.output, repr(second.output))


PROGRAMS = [
    *(_question, _tool_loop, _parallel_calls, _structured_output, _history),
    *(_streamed, _agent_as_tool, _retried_tool, _checked_output, _step_by_step),
    *(_several_turns, _handed_over),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, WeftCapability)


async def _reread(added: object) -> Played:
    looks = [[("look", {"place": place})] for place in WEIRS]
    script = Script(*looks, *[lambda chat, info: reread(chat)] * 9)
    agent = _agent(script, added)
    agent.tool_plain(look)
    result = await agent.run("Look around.", usage_limits=UsageLimits(request_limit=99))
    return script.played(result.output)


async def test_a_model_reads_again_what_was_left_out_long_ago() -> None:
    await check_reread(_reread, WeftCapability)


async def _secret(added: object) -> Played:
    picture = BinaryContent(b"\x89PNG" + bytes(90), media_type="image/png")
    script = Script([("write_mail", {"to": SECRET})], "Sent.")
    agent = _agent(script, added)

    @agent.tool_plain
    def write_mail(to: str) -> list[str | BinaryContent]:
        """Write a mail."""
        return [f"{GAUGES['north']}\nsent to {to}", picture]

    said = [picture, TextContent(f"Write to {SECRET}."), "Now."]
    return script.played((await agent.run(said)).output)


async def test_what_a_policy_protects_is_in_no_message() -> None:
    await check_protected(_secret, WeftCapability)
    script = Script("Hello.")
    agent = Agent(script.model, instructions=SECRET, capabilities=[WeftCapability(NO_EMAIL)])
    with pytest.raises(ProtectionError):
        await agent.run("Hello?")
    assert not script.requests


async def test_the_model_gets_back_what_was_left_out() -> None:
    def ask(chat: object, info: AgentInfo) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", str(chat))
        assert handle is not None
        assert "recall" in [one.name for one in info.function_tools]
        return [("recall", {"handle": handle[1], "lines": "399-400"})]

    script = Script([("read_gauges", {"place": "north"})], ask, "Got it.")
    result = await _agent(script, WeftCapability(DIGESTS)).run("Look north.")
    assert result.output == "Got it."
    assert "north gauge 399: " in json.dumps(script.requests[-1])


async def test_two_conversations_get_their_own_steps_back() -> None:
    capability = WeftCapability()

    async def run(who: str) -> str:
        looks = [[("look", {"place": f"weir {number}"})] for number in range(40)]
        script = Script(*looks, [("recall", {"handle": "#1", "lines": "1-1"})], "Done.")
        agent = Agent(FunctionModel(script.answer), capabilities=[capability])

        @agent.tool_plain
        def look(place: str) -> str:
            """Look at a place."""
            return "\n".join(f"{who} saw {place} {line}: wind and river" for line in range(90))

        await agent.run("Look around.", usage_limits=UsageLimits(request_limit=99))
        assert "Folded steps" in json.dumps(script.chats[40])
        return json.dumps(script.chats[-1][-1])

    ann, bob = await asyncio.gather(run("ann"), run("bob"))
    assert "ann saw weir 0 0" in ann
    assert "bob saw weir 0 0" in bob
