"""agno: an Agent with its databases and teams, and a Model that answers from the script."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from script import ANSWER, DELTA, INSTRUCTION, QUESTION, Script, Subject, work

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.base import Model
from agno.models.response import ModelResponse

PACKAGE = "agno"
NAME = "agno"


@dataclass
class Scripted(Model):
    """Answers from the script."""

    id: str = "scripted"
    script: Script = field(default_factory=Script)

    async def ainvoke(self, messages: list[Any], *args: Any, **kwargs: Any) -> ModelResponse:
        calls = self.script.next(len(messages))
        if not calls:
            return ModelResponse(role="assistant", content=ANSWER)
        return ModelResponse(
            role="assistant", tool_calls=[_call("work", id, args) for id, args in calls]
        )

    def invoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError

    def invoke_stream(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def ainvoke_stream(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


@dataclass
class Routing(Scripted):
    """Hands over to the child."""

    async def ainvoke(self, messages: list[Any], *args: Any, **kwargs: Any) -> ModelResponse:
        self.script.next(len(messages))
        task = {"member_id": "child", "task": QUESTION}
        call = _call("delegate_task_to_member", "handover", task)
        return ModelResponse(role="assistant", tool_calls=[call])


@dataclass
class Speaking(Scripted):
    """Says its answer in as many deltas."""

    deltas: int = 0

    async def ainvoke_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ModelResponse]:
        for _ in range(self.deltas):
            yield ModelResponse(role="assistant", content=DELTA)


def _call(name: str, id: str, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(args)},
    }


async def agent(script: Script, store: str | None = None) -> Subject:
    db: Any = InMemoryDb()
    if store is not None:
        from agno.db.sqlite import SqliteDb

        db = SqliteDb(db_file=store)
    bot = Agent(
        name="bot", model=Scripted(script=script), instructions=INSTRUCTION, tools=[work], db=db,
        add_history_to_context=True, num_history_runs=1_000_000, telemetry=False,
    )  # fmt: skip

    async def turn(session: str) -> str:
        return (await bot.arun(QUESTION, session_id=session)).content

    return Subject(turn, script)


async def speaker(deltas: int) -> Subject:
    bot = Agent(model=Speaking(deltas=deltas), instructions=INSTRUCTION, telemetry=False)

    async def turn(session: str) -> str:
        pieces: list[str] = []
        async for event in bot.arun(QUESTION, stream=True):
            if event.event == "RunContent":
                pieces.append(event.content)
        return "".join(pieces)

    return Subject(turn)


async def router() -> Subject:
    from agno.team import Team
    from agno.team.mode import TeamMode

    script = Script()
    child = Agent(
        name="child", role="Knows orders.", model=Scripted(script=script),
        instructions=INSTRUCTION, telemetry=False,
    )  # fmt: skip
    team = Team(
        [child], name="root", mode=TeamMode.route, model=Routing(script=script),
        instructions=INSTRUCTION, telemetry=False,
    )  # fmt: skip

    async def turn(session: str) -> str:
        return (await team.arun(QUESTION, session_id=session)).content

    return Subject(turn, script)


async def sequence(length: int) -> Subject:
    from agno.workflow import Step, Workflow

    script = Script()
    steps = [Step(name=bot.name, agent=bot) for bot in _agents(length, script)]
    return _workflow(Workflow(name="all", steps=steps, telemetry=False), script)


templates = sequence
"""A step of a workflow is given what the step before it said, without a template."""


async def parallel(width: int) -> Subject:
    from agno.workflow import Parallel, Step, Workflow

    script = Script()
    steps = Parallel(*[Step(name=bot.name, agent=bot) for bot in _agents(width, script)])
    return _workflow(Workflow(name="all", steps=[steps], telemetry=False), script)


def _agents(count: int, script: Script) -> list[Agent]:
    model = Scripted(script=script)
    return [
        Agent(name=f"bot_{i}", model=model, instructions=INSTRUCTION, telemetry=False)
        for i in range(count)
    ]


def _workflow(workflow: Any, script: Script) -> Subject:
    async def turn(session: str) -> str:
        result = await workflow.arun(QUESTION, session_id=session)
        said = str(result.content)
        # Several steps side by side are joined to one text with headings.
        return ANSWER if ANSWER in said else said

    return Subject(turn, script)
