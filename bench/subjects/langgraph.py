"""langgraph: a StateGraph over messages with a chat model, its ToolNode and its checkpointers."""

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from script import ANSWER, DELTA, INSTRUCTION, QUESTION, Script, Subject, work

PACKAGE = "langgraph"
NAME = "langgraph"

SYSTEM = SystemMessage(INSTRUCTION)


class Scripted(BaseChatModel):
    """Answers from the script."""

    script: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        calls = self.script.next(len(messages))
        asked = [
            {"name": "work", "args": args, "id": id, "type": "tool_call"} for id, args in calls
        ]
        said = AIMessage(content="" if calls else ANSWER, tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)


class Routing(Scripted):
    """Hands over to the child."""

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        self.script.next(len(messages))
        call = {"name": "child", "args": {}, "id": "handover", "type": "tool_call"}
        said = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


class Speaking(Scripted):
    """Says its answer in as many deltas."""

    deltas: int

    async def _astream(
        self, messages: Any, *args: Any, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for _ in range(self.deltas):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=DELTA))
            if run_manager is not None:
                await run_manager.on_llm_new_token(DELTA, chunk=chunk)
            yield chunk


async def agent(script: Script, store: str | None = None) -> Subject:
    graph = StateGraph(MessagesState)
    graph.add_node("ask", _node(Scripted(script=script).bind_tools([work])))
    graph.add_node("tools", ToolNode([tool(work)]))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    if store is None:
        return _subject(graph.compile(checkpointer=InMemorySaver()), script)
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    opened = AsyncSqliteSaver.from_conn_string(store)
    subject = _subject(graph.compile(checkpointer=await opened.__aenter__()), script)

    async def close() -> None:
        await opened.__aexit__(None, None, None)

    subject.close = close
    return subject


async def speaker(deltas: int) -> Subject:
    graph = StateGraph(MessagesState)
    graph.add_node("ask", _node(Speaking(deltas=deltas)))
    graph.add_edge(START, "ask")
    compiled = graph.compile()

    async def turn(session: str) -> str:
        said = {"messages": [HumanMessage(QUESTION)]}
        stream = compiled.astream(said, stream_mode="messages")
        return "".join([chunk.content async for chunk, _ in stream])

    return Subject(turn)


async def router() -> Subject:
    script = Script()
    model = Routing(script=script)

    async def root(state: MessagesState) -> Command[Any]:
        asked = await model.ainvoke([SYSTEM, *state["messages"]])
        call = asked.tool_calls[0]
        told = ToolMessage("Handed over.", tool_call_id=call["id"])
        return Command(goto=call["name"], update={"messages": [asked, told]})

    graph = StateGraph(MessagesState)
    graph.add_node("root", root, destinations=("child",))
    graph.add_node("child", _node(Scripted(script=script)))
    graph.add_edge(START, "root")
    graph.add_edge("child", END)
    return _subject(graph.compile(), script)


async def sequence(length: int) -> Subject:
    script = Script()
    model = Scripted(script=script)
    graph = StateGraph(MessagesState)
    graph.add_sequence([(f"bot_{i}", _node(model)) for i in range(length)])
    graph.add_edge(START, "bot_0")
    return _subject(graph.compile(), script)


async def parallel(width: int) -> Subject:
    script = Script()
    model = Scripted(script=script)
    graph = StateGraph(MessagesState)
    for i in range(width):
        graph.add_node(f"bot_{i}", _node(model))
        graph.add_edge(START, f"bot_{i}")
    return _subject(graph.compile(), script)


def _node(model: Scripted) -> Any:
    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([SYSTEM, *state["messages"]])]}

    return ask


def _subject(graph: Any, script: Script) -> Subject:
    async def turn(session: str) -> str:
        said = {"messages": [HumanMessage(QUESTION)]}
        config = {"configurable": {"thread_id": session}, "recursion_limit": 100}
        return (await graph.ainvoke(said, config))["messages"][-1].content

    return Subject(turn, script)
