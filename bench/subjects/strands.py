"""strands: an Agent for each session, its Graph and Swarm, a Model that answers from the script."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from script import ANSWER, DELTA, INSTRUCTION, QUESTION, Missing, Script, Subject, work
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model

logging.disable(logging.WARNING)

PACKAGE = "strands-agents"
NAME = "strands"

BUILT = 12
"""Graphs made before the clock runs: their agents remember, so each invocation needs a new one."""

TOOL = tool(work)


class Scripted(Model):
    """Answers from the script, as a stream of events, which is the only way models answer."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        calls = self.script.next(len(messages))
        yield {"messageStart": {"role": "assistant"}}
        for id, given in calls:
            for event in _call("work", id, given):
                yield event
        if not calls:
            yield {"contentBlockDelta": {"delta": {"text": ANSWER}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


class Routing(Scripted):
    """Hands over to the child; asked once more by the library, it has nothing to add."""

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        if "toolResult" in messages[-1]["content"][0]:
            yield {"contentBlockDelta": {"delta": {"text": "Handed over."}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        self.script.next(len(messages))
        task = {"agent_name": "child", "message": QUESTION}
        for event in _call("handoff_to_agent", "handover", task):
            yield event
        yield {"messageStop": {"stopReason": "tool_use"}}


class Speaking(Scripted):
    """Says its answer in as many deltas."""

    def __init__(self, deltas: int) -> None:
        super().__init__(Script())
        self.deltas = deltas

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        for _ in range(self.deltas):
            yield {"contentBlockDelta": {"delta": {"text": DELTA}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def _call(name: str, id: str, args: dict[str, Any]) -> list[Any]:
    return [
        {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": id}}}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}},
        {"contentBlockStop": {}},
    ]


def _agent(model: Model, name: str = "bot", tools: list[Any] | None = None) -> Agent:
    return Agent(
        model, name=name, system_prompt=INSTRUCTION, tools=tools, callback_handler=None,
        conversation_manager=NullConversationManager(),
    )  # fmt: skip


async def agent(script: Script, store: str | None = None) -> Subject:
    if store is not None:
        raise Missing("has no SQLite store, only files and S3")
    model = Scripted(script)
    sessions: dict[str, Agent] = {}

    async def turn(session: str) -> str:
        if session not in sessions:
            sessions[session] = _agent(model, tools=[TOOL])
        return _text(await sessions[session].invoke_async(QUESTION))

    return Subject(turn, script)


def _text(result: Any) -> str:
    return result.message["content"][-1]["text"]


async def speaker(deltas: int) -> Subject:
    model = Speaking(deltas)

    async def turn(session: str) -> str:
        stream = _agent(model).stream_async(QUESTION)
        return "".join([event["data"] async for event in stream if "data" in event])

    return Subject(turn)


async def router() -> Subject:
    from strands.multiagent import Swarm

    script = Script()

    def build() -> Swarm:
        root, child = _agent(Routing(script), "root"), _agent(Scripted(script), "child")
        return Swarm([root, child], entry_point=root)

    return _subject(build, script, "child")


async def sequence(length: int) -> Subject:
    from strands.multiagent import GraphBuilder

    script = Script()
    model = Scripted(script)

    def build() -> Any:
        graph = GraphBuilder()
        for i in range(length):
            graph.add_node(_agent(model, f"bot_{i}"), f"bot_{i}")
        for i in range(1, length):
            graph.add_edge(f"bot_{i - 1}", f"bot_{i}")
        graph.set_entry_point("bot_0")
        return graph.build()

    return _subject(build, script, f"bot_{length - 1}")


async def parallel(width: int) -> Subject:
    from strands.multiagent import GraphBuilder

    script = Script()
    model = Scripted(script)

    def build() -> Any:
        graph = GraphBuilder()
        for i in range(width):
            graph.add_node(_agent(model, f"bot_{i}"), f"bot_{i}")
            graph.set_entry_point(f"bot_{i}")
        return graph.build()

    return _subject(build, script, f"bot_{width - 1}")


def _subject(build: Callable[[], Any], script: Script, last: str) -> Subject:
    built = [build() for _ in range(BUILT)]

    async def turn(session: str) -> str:
        result = await built.pop().invoke_async(QUESTION)
        return _text(result.results[last].result)

    return Subject(turn, script)
