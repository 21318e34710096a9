"""Weft: a Runner over a store, and a model of its own that answers from the script."""

from collections.abc import AsyncIterator

from script import ANSWER, DELTA, INSTRUCTION, QUESTION, TEMPLATE, Script, Subject, work

from weft import (
    Agent,
    Content,
    Flow,
    ModelResponse,
    Parallel,
    Part,
    RunConfig,
    Runner,
    Sequence,
)
from weft.content import call_part

PACKAGE = "weft"
NAME = "weft"


class Scripted:
    """The least a model can be."""

    name = "scripted"
    dialect = "openai-chat"

    def __init__(self, script: Script) -> None:
        self.script = script

    async def generate(
        self, prompt: object, wire: dict, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        calls = self.script.next(len(wire["messages"]))
        yield _said(*[call_part("work", args, id=id) for id, args in calls] or [Part(text=ANSWER)])


class Speaking(Scripted):
    """Says its answer in as many deltas."""

    def __init__(self, deltas: int) -> None:
        super().__init__(Script())
        self.deltas = deltas

    async def generate(
        self, prompt: object, wire: dict, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        for _ in range(self.deltas):
            content = Content(parts=(Part(text=DELTA),), role="model")
            yield ModelResponse(content=content, partial=True)
        yield _said(Part(text=DELTA * self.deltas))


class Routing(Scripted):
    """Hands over to the child; the child answers."""

    async def generate(
        self, prompt: object, wire: dict, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        self.script.next(len(wire["messages"]))
        if prompt.agent == "root":
            yield _said(call_part("transfer_to_agent", {"agent_name": "child"}))
        else:
            yield _said(Part(text=ANSWER))


def _said(*parts: Part) -> ModelResponse:
    return ModelResponse(content=Content(parts=parts, role="model"), finish_reason="STOP")


async def agent(script: Script, store: str | None = None) -> Subject:
    bot = Agent("bot", model=Scripted(script), instruction=INSTRUCTION, tools=[work], max_steps=50)
    return _subject(bot, script, f"sqlite:///{store}" if store else "memory://")


async def speaker(deltas: int) -> Subject:
    runner = Runner(Agent("bot", model=Speaking(deltas), instruction=INSTRUCTION))
    config = RunConfig(stream=True)

    async def turn(session: str) -> str:
        pieces: list[str] = []
        async for event in runner.run(session_id=session, message=QUESTION, config=config):
            if event.partial:
                pieces.append(event.text)
        return "".join(pieces)

    return Subject(turn)


async def router() -> Subject:
    script = Script()
    model = Routing(script)
    child = Agent("child", model=model, instruction=INSTRUCTION, description="Knows orders.")
    return _subject(Agent("root", model=model, instruction=INSTRUCTION, sub_agents=[child]), script)


async def sequence(length: int) -> Subject:
    script = Script()
    return _subject(Sequence(*_agents(length, script)), script)


async def templates(length: int) -> Subject:
    script = Script()
    first, *others = _agents(length, script)
    agents = [first.writes("answer_0")]
    for i, bot in enumerate(others, 1):
        agents.append(bot.instruct(TEMPLATE % f"answer_{i - 1}").writes(f"answer_{i}"))
    return _subject(Sequence(*agents), script)


async def parallel(width: int) -> Subject:
    script = Script()
    return _subject(Parallel(*_agents(width, script)), script)


def _agents(count: int, script: Script) -> list[Agent]:
    model = Scripted(script)
    return [Agent(f"bot_{i}", model=model, instruction=INSTRUCTION) for i in range(count)]


def _subject(root: Agent | Flow, script: Script, store: str = "memory://") -> Subject:
    runner = Runner(root, store=store)

    async def turn(session: str) -> str:
        return (await runner.run(session_id=session, message=QUESTION)).text

    return Subject(turn, script, runner.close)
