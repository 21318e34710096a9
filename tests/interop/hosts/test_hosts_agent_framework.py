"""agent-framework: five programs from its documentation, with and without the middleware."""

import asyncio
import json
import re
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="agent-framework is not installed")

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)
from pydantic import BaseModel

from tests.interop.hosts.checks import DIGESTS, GAUGES, ROUND, Played, Program, check_program
from weft.interop.agent_framework import WeftMiddleware, _spell_messages


class Script(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client that says what is written down, and keeps what it was sent."""

    def __init__(self, *steps: object) -> None:
        super().__init__()
        self.steps = [*steps]
        self.requests: list[list[Any]] = []
        self.chats: list[list[Any]] = []

    async def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **more: Any
    ) -> ChatResponse:
        self.requests.append([_bare(one.to_dict()) for one in messages])
        self.chats.append([piece.wire for piece in _spell_messages([*messages])])
        step: Any = self.steps[len(self.requests) - 1]
        step = step(messages) if callable(step) else step
        number = len(self.requests)
        contents: list[Any] = [step]
        if not isinstance(step, str):
            contents = [
                Content.from_function_call(f"call_{number}_{at}", name, arguments=json.dumps(args))
                for at, (name, args) in enumerate(step)
            ]
        return ChatResponse(messages=[Message("assistant", contents)], response_id=f"r{number}")

    def played(self, *answers: str) -> Played:
        return Played([*answers], self.requests, self.chats)


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """A message without ids that differ from run to run."""
    contents = [{k: v for k, v in one.items() if k != "id"} for one in message["contents"]]
    return {"role": message["role"], "contents": contents}


def read_gauges(place: str) -> str:
    """Read the gauges of a place."""
    return GAUGES[place]


def _agent(script: Script, added: object, *tools: Any) -> Agent:
    return Agent(
        client=script,
        instructions="You watch gauges.",
        tools=[read_gauges, *tools],
        middleware=[added] if added is not None else None,  # type: ignore[list-item]
    )


async def _question(added: object) -> Played:
    script = Script("All is well.")
    return script.played((await _agent(script, added).run("How are you?")).text)


async def _tool_loop(added: object) -> Played:
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    return script.played((await _agent(script, added).run("Read all places.")).text)


async def _parallel_calls(added: object) -> Played:
    script = Script([("read_gauges", {"place": place}) for place in GAUGES], "All at once.")
    return script.played((await _agent(script, added).run("Read all places.")).text)


class Reading(BaseModel):
    """What came of it."""

    place: str
    pressure: int


async def _structured_output(added: object) -> Played:
    script = Script([("read_gauges", {"place": "north"})], '{"place": "north", "pressure": 37}')
    agent = _agent(script, added)
    result = await agent.run("What is the pressure?", options={"response_format": Reading})
    return script.played(repr(result.value))


async def _session(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Fine.", call, "As I said.")
    agent = _agent(script, added)
    session = agent.create_session()
    first = await agent.run("Look north.", session=session)
    second = await agent.run("And now?", session=session)
    return script.played(first.text, second.text)


PROGRAMS = [_question, _tool_loop, _parallel_calls, _structured_output, _session]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, WeftMiddleware, hides=False)


async def test_an_agent_with_the_tool_gets_back_what_was_left_out() -> None:
    def ask(messages: Any) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", str([one.to_dict() for one in messages]))
        assert handle is not None
        return [("recall", {"handle": handle[1], "lines": "399-400"})]

    script = Script([("read_gauges", {"place": "north"})], ask, "Got it.")
    added = WeftMiddleware(DIGESTS)
    result = await _agent(script, added, added.tool).run("Look north.")
    assert result.text == "Got it."
    assert "north gauge 399: " in json.dumps(script.requests[-1])


async def test_two_conversations_get_their_own_steps_back() -> None:
    added = WeftMiddleware()

    async def run(who: str, steps: int) -> str:
        looks = [[("look", {"place": f"weir {number}"})] for number in range(steps)]
        script = Script(*looks, [("recall", {"handle": "#1", "lines": "1-1"})], "Done.")
        script.function_invocation_configuration["max_iterations"] = 99

        def look(place: str) -> str:
            """Look at a place."""
            return "\n".join(f"{who} saw {place} {line}: wind and river" for line in range(90))

        await _agent(script, added, added.tool, look).run("Look around.")
        assert ("Folded steps" in json.dumps(script.requests[-1])) == (steps > 9)
        return json.dumps(script.requests[-1][-1])

    ann, bob, cy = await asyncio.gather(run("ann", 40), run("bob", 40), run("cy", 2))
    assert "ann saw weir 0 0" in ann
    assert "bob saw weir 0 0" in bob
    assert "there is no" in cy
    assert "there is no" in await run("dora", 2)
