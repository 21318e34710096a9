"""agent-framework: programs of its documentation, with and without the middleware."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="agent-framework is not installed")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    Case,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Default,
    FunctionInvocationLayer,
    Message,
    SlidingWindowStrategy,
    WorkflowBuilder,
    chat_middleware,
    function_middleware,
    tool,
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
from weft.compaction.compact import forget
from weft.errors import ProtectionError
from weft.interop.agent_framework import WeftMiddleware, _spell_messages


class Script(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client that says what is written down, and keeps what it was sent."""

    def __init__(self, *steps: object) -> None:
        super().__init__()
        self.steps = [*steps]
        self.requests: list[list[Any]] = []
        self.chats: list[list[Any]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        self.requests.append([_bare(one.to_dict()) for one in messages])
        self.chats.append([piece.wire for piece in _spell_messages([*messages])])
        number = len(self.requests)
        step: Any = self.steps[number - 1]
        step = step(self.chats[-1]) if callable(step) else step
        contents: list[Any] = [Content.from_text(step)] if isinstance(step, str) else []
        if not contents:
            contents = [
                Content.from_function_call(f"call_{number}_{at}", name, arguments=json.dumps(args))
                for at, (name, args) in enumerate(step)
            ]

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", contents)], response_id=f"r{number}")

        async def answer_piece_by_piece() -> AsyncIterator[ChatResponseUpdate]:
            for one in contents:
                yield ChatResponseUpdate(role="assistant", contents=[one], response_id=f"r{number}")

        return self._build_response_stream(answer_piece_by_piece()) if stream else answer()

    def played(self, *answers: str) -> Played:
        return Played([*answers], self.requests, self.chats)


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """A message without ids that differ from run to run."""
    contents = [{k: v for k, v in one.items() if k != "id"} for one in message["contents"]]
    return {"role": message["role"], "contents": contents}


def read_gauges(place: str) -> str:
    """Read the gauges of a place."""
    return GAUGES[place]


def _agent(script: Script, added: object, *tools: Any, around: Any = (), **options: Any) -> Agent:
    before, after = around or ((), ())
    return Agent(
        client=script,
        instructions="You watch gauges.",
        tools=[read_gauges, *tools],
        middleware=[*before, *([added] if added is not None else []), *after],
        **options,
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


async def _streamed(added: object) -> Played:
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    stream = _agent(script, added).run("Read all places.", stream=True)
    words = "".join([update.text async for update in stream])
    assert (await stream.get_final_response()).text == words
    return script.played(words)


async def _workflow(added: object) -> Played:
    """One agent after the other, the second with all that the first one said."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, call, "It is high.", call, "Close the weir.")
    first, second = (_agent(script, added, name=name) for name in ("first", "second"))
    flow = WorkflowBuilder(start_executor=first).add_edge(first, second).build()
    outputs = (await flow.run("Look north.")).get_outputs()
    return script.played(*(one.text for one in outputs))


async def _handoff(added: object) -> Played:
    """One agent decides by what it says which other one goes on."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, "Ask south.", call, call, "All is well.")
    names = ("triage", "south", "north")
    triage, south, north = (_agent(script, added, name=name) for name in names)
    cases = [Case(lambda said: "south" in said.agent_response.text, south), Default(north)]
    flow = WorkflowBuilder(start_executor=triage).add_switch_case_edge_group(triage, cases).build()
    outputs = (await flow.run("Who knows?")).get_outputs()
    return script.played(*(one.text for one in outputs))


async def _agent_as_tool(added: object) -> Played:
    call = [("read_gauges", {"place": "north"})]
    script, boss_script = (
        Script(call, call, "All is well."),
        Script([("watch", {"task": "Look."})], "Good."),
    )
    watch = _agent(script, added, name="watcher", description="Looks.").as_tool(name="watch")
    result = await _agent(boss_script, added, watch).run("How is north?")
    requests, chats = boss_script.requests + script.requests, boss_script.chats + script.chats
    return Played([result.text], requests, chats)


async def _failing_tool(added: object) -> Played:
    @tool
    def open_weir(place: str) -> str:
        """Open a weir."""
        raise ValueError(GAUGES[place])

    script = Script(
        [("open_weir", {"place": "north"}), ("read_gauges", {"place": "north"})],
        [("open_weir", {"place": "north"})],
        "It stays shut.",
    )
    script.function_invocation_configuration["include_detailed_errors"] = True
    return script.played((await _agent(script, added, open_weir).run("Open it.")).text)


async def _middleware(added: object) -> Played:
    """Middleware of the user's own before and after, which write into requests and results."""

    @chat_middleware
    async def say_time(context: Any, call_next: Any) -> None:
        context.messages = [*context.messages, Message("user", ["It is noon."])]
        await call_next()

    @function_middleware
    async def sign_result(context: Any, call_next: Any) -> None:
        await call_next()
        context.result = [Content.from_text(f"{context.result[0].text}\nread by hand")]

    script = Script(*([("read_gauges", {"place": place})] for place in ROUND), "Read them all.")
    around = [sign_result], [say_time]
    return script.played((await _agent(script, added, around=around).run("Read all.")).text)


async def _new_process(added: Any) -> Played:
    """A session that goes on in a process that has seen nothing of it."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(call, call, "Fine.", call, "As I said.")
    agent = _agent(script, added)
    session = agent.create_session()
    first = await agent.run("Look north.", session=session)
    kept = json.dumps(session.to_dict())
    forget()
    again = WeftMiddleware(added.compactor.context) if added is not None else None
    second = await _agent(script, again).run(
        "And now?", session=AgentSession.from_dict(json.loads(kept))
    )
    return script.played(first.text, second.text)


async def _own_window(added: object) -> Played:
    """agent-framework's own compaction, which leaves out the oldest steps."""
    script = Script(*([("read_gauges", {"place": place})] for place in ROUND * 2), "Read them all.")
    window = SlidingWindowStrategy(keep_last_groups=4)
    agent = _agent(script, added, compaction_strategy=window)
    return script.played((await agent.run("Read all places.")).text)


async def _pictures(added: object) -> Played:
    """A picture from the user, and a tool that returns text and a picture."""
    picture = Content.from_data(b"\x89PNG" + bytes(90), "image/png")

    @tool
    def take_picture(place: str) -> list[Content]:
        """Take a picture."""
        return [Content.from_text(GAUGES[place]), picture]

    call = [("take_picture", {"place": "north"})]
    script = Script(call, call, "A weir.")
    said = Message("user", [picture, Content.from_text("What is it?")])
    return script.played((await _agent(script, added, take_picture).run(said)).text)


async def _approved(added: object) -> Played:
    """A tool that a person has to allow."""

    @tool(approval_mode="always_require")
    def open_weir(place: str) -> str:
        """Open a weir."""
        return GAUGES[place]

    call = [("open_weir", {"place": "north"})]
    script = Script([("read_gauges", {"place": "north"})], call, "It is open.", "As I said.")
    agent = _agent(script, added, open_weir)
    session = agent.create_session()
    asked = await agent.run("Open it.", session=session)
    allowed = [one.to_function_approval_response(True) for one in asked.user_input_requests]
    assert allowed
    opened = await agent.run(Message("user", allowed), session=session)
    again = await agent.run("And now?", session=session)
    return script.played(opened.text, again.text)


async def _reread(added: Any) -> Played:
    looks = [[("look", {"place": place})] for place in WEIRS]
    script = Script(*looks, *[reread] * 9)
    script.function_invocation_configuration["max_iterations"] = 99
    own = [added.tool] if added is not None else []
    return script.played((await _agent(script, added, look, *own).run("Look around.")).text)


PROGRAMS = [
    *(_question, _tool_loop, _parallel_calls, _structured_output, _session),
    *(_streamed, _workflow, _handoff, _agent_as_tool, _failing_tool, _middleware),
    *(_new_process, _own_window, _pictures, _approved),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, WeftMiddleware, hides=False)


async def _secret(added: object) -> Played:
    picture = Content.from_data(b"\x89PNG" + bytes(90), "image/png")

    @tool
    def write_mail(to: str) -> list[Content]:
        """Write a mail."""
        return [Content.from_text(f"{GAUGES['north']}\nsent to {to}"), picture]

    script = Script([("write_mail", {"to": SECRET})], "Sent.")
    said = Message("user", [picture, Content.from_text(f"Write to {SECRET}.")])
    return script.played((await _agent(script, added, write_mail).run(said)).text)


async def test_what_a_policy_protects_is_in_no_message() -> None:
    await check_protected(_secret, WeftMiddleware)
    script = Script("Hello.")
    agent = Agent(client=script, instructions=SECRET, middleware=[WeftMiddleware(NO_EMAIL)])
    with pytest.raises(ProtectionError):
        await agent.run("Hello?")
    assert not script.requests


async def test_an_agent_with_the_tool_gets_back_what_was_left_out() -> None:
    def ask(chat: object) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", str(chat))
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


async def test_a_model_reads_again_what_was_left_out_long_ago() -> None:
    await check_reread(_reread, WeftMiddleware)
