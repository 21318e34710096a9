"""langchain and LangGraph: programs of the documentation, with and without Weft."""

import asyncio
import json
import re
from typing import Any

import pytest

pytest.importorskip("langchain.agents.middleware", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel, Field

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
from weft.interop.langchain import WeftMiddleware, _spell_messages, compact_messages


class Script(BaseChatModel):
    """A model that says what is written down, and keeps what it was sent."""

    steps: list[Any] = Field(default_factory=list)
    requests: list[list[Any]] = Field(default_factory=list)
    chats: list[list[Any]] = Field(default_factory=list)
    offered: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **more: Any) -> "Script":
        self.offered = [getattr(one, "name", "") for one in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *others: Any, **more: Any) -> ChatResult:
        self.requests.append([_bare(one) for one in messages])
        self.chats.append([piece.wire for piece in _spell_messages([*messages])])
        step = self.steps[len(self.requests) - 1]
        step = step(self.chats[-1]) if callable(step) else step
        number = len(self.requests)
        if isinstance(step, str):
            message = AIMessage(step, id=f"m{number}")
        else:
            calls = [
                {"name": name, "args": args, "id": f"call_{number}_{at}"}
                for at, (name, args) in enumerate(step)
            ]
            # some providers' packages keep a call as it came, too
            raw = [
                {"id": f"call_{number}_{at}", "function": str(one)} for at, one in enumerate(step)
            ]
            message = AIMessage(
                "", tool_calls=calls, id=f"m{number}", additional_kwargs={"tool_calls": raw}
            )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def played(self, *answers: str) -> Played:
        return Played([*answers], self.requests, self.chats)


def _bare(message: BaseMessage) -> dict[str, Any]:
    """A message without the ids that differ from run to run."""
    dumped = message.model_dump(mode="json", exclude={"id"})
    return json.loads(json.dumps(dumped))


@tool
def read_gauges(place: str) -> str:
    """Read the gauges of a place."""
    return GAUGES[place]


def _agent(script: Script, added: object, **options: Any) -> Any:
    middleware = [added] if added is not None else []
    return create_agent(
        script, [read_gauges], system_prompt="You watch.", middleware=middleware, **options
    )


def _ask(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


async def _question(added: object) -> Played:
    script = Script(steps=["All is well."])
    result = await _agent(script, added).ainvoke(_ask("How are you?"))
    return script.played(result["messages"][-1].content)


async def _tool_loop(added: object) -> Played:
    steps = [*([("read_gauges", {"place": place})] for place in ROUND), "Read them all."]
    script = Script(steps=steps)
    result = _agent(script, added).invoke(_ask("Read all places."))
    return script.played(result["messages"][-1].content)


async def _parallel_calls(added: object) -> Played:
    script = Script(steps=[[("read_gauges", {"place": one}) for one in GAUGES], "All at once."])
    result = await _agent(script, added).ainvoke(_ask("Read all places."))
    return script.played(result["messages"][-1].content)


class Reading(BaseModel):
    """What came of it."""

    place: str
    pressure: int


async def _structured_output(added: object) -> Played:
    from langchain.agents.structured_output import ToolStrategy

    answer = [("Reading", {"place": "north", "pressure": 37})]
    script = Script(steps=[[("read_gauges", {"place": "north"})], answer])
    agent = _agent(script, added, response_format=ToolStrategy(Reading))
    result = await agent.ainvoke(_ask("What is the pressure?"))
    return script.played(repr(result["structured_response"]))


async def _thread(added: object) -> Played:
    script = Script(steps=[[("read_gauges", {"place": "north"})], "Fine.", "As I said."])
    agent = _agent(script, added, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    first = await agent.ainvoke(_ask("Look north."), thread)
    second = await agent.ainvoke(_ask("And now?"), thread)
    assert "gauge 399" in str(second["messages"])  # the state is the host's own
    return script.played(first["messages"][-1].content, second["messages"][-1].content)


async def _streamed(added: object) -> Played:
    steps = [*([("read_gauges", {"place": place})] for place in ROUND), "Read them all."]
    script = Script(steps=steps)
    seen: list[Any] = []
    agent = _agent(script, added)
    async for update in agent.astream(_ask("Read all places."), stream_mode="updates"):
        seen += update.get("model", {}).get("messages", [])
    return script.played(seen[-1].content)


async def _agent_as_tool(added: object) -> Played:
    script = Script(steps=[[("read_gauges", {"place": "north"})] * 2, "All is well."])
    watcher = _agent(script, added)

    @tool
    async def watch() -> str:
        """Have somebody look."""
        return (await watcher.ainvoke(_ask("Look north, twice.")))["messages"][-1].content

    middleware = [added] if added is not None else []
    boss = create_agent(Script(steps=[[("watch", {})], "Good."]), [watch], middleware=middleware)
    return script.played((await boss.ainvoke(_ask("How is north?")))["messages"][-1].content)


async def _failing_tool(added: object) -> Played:
    @tool
    def open_weir(place: str) -> str:
        """Open a weir."""
        raise ToolException(GAUGES[place])

    open_weir.handle_tool_error = True
    both = [("open_weir", {"place": "north"}), ("read_gauges", {"place": "north"})]
    script = Script(steps=[both, [("open_weir", {"place": "north"})], "It stays shut."])
    middleware = [added] if added is not None else []
    agent = create_agent(script, [read_gauges, open_weir], middleware=middleware)
    result = await agent.ainvoke(_ask("Open it."))
    return script.played(result["messages"][-1].content)


async def _history(added: object) -> Played:
    """Several runs of one agent, each with the messages of the one before it."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(steps=[call, "Fine.", call, "As I said.", call, "Still."])
    agent, messages, answers = _agent(script, added), list[Any](), list[str]()
    for words in ("Look north.", "And now?", "And now?"):
        messages = (await agent.ainvoke({"messages": [*messages, HumanMessage(words)]}))["messages"]
        answers.append(messages[-1].content)
    assert sum("gauge 399" in str(one.content) for one in messages) == 3
    return script.played(*answers)


async def _retried(added: object) -> Played:
    """A model that fails once, and middleware of the host's own that asks again."""

    def fail(messages: object) -> object:
        raise ConnectionError("slow down")

    call = [("read_gauges", {"place": "north"})]
    script = Script(steps=[call, fail, call, fail, "At last."])
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    middleware = [retry, *([added] if added is not None else [])]
    agent = create_agent(script, [read_gauges], middleware=middleware)
    result = await agent.ainvoke(_ask("Look north."))
    return script.played(result["messages"][-1].content)


async def _moved_on(added: object) -> Played:
    """An agent in a graph, and another one that goes on with its messages."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(steps=[call, "Your turn.", call, "All is well."])
    graph = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, _agent(script, added))
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    result = await graph.compile().ainvoke(_ask("Look north, both."))
    return script.played(result["messages"][-1].content)


async def _several_threads(added: object) -> Played:
    """Two conversations of one agent, turn by turn."""
    call = [("read_gauges", {"place": "north"})]
    script = Script(steps=[call, "Fine.", "Hello.", call, call, "Again."])
    agent, answers = _agent(script, added, checkpointer=InMemorySaver()), list[str]()
    for thread, words in (("1", "Look north."), ("2", "Hello?"), ("1", "Look twice.")):
        named: Any = {"configurable": {"thread_id": thread}}
        answers.append((await agent.ainvoke(_ask(words), named))["messages"][-1].content)
    return script.played(*answers)


PROGRAMS = [
    *(_question, _tool_loop, _parallel_calls, _structured_output, _thread),
    *(_streamed, _agent_as_tool, _failing_tool, _history, _retried),
    *(_moved_on, _several_threads),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
async def test_a_stock_program_runs_the_same_and_sends_less(program: Program) -> None:
    await check_program(program, WeftMiddleware)


async def _reread(added: object) -> Played:
    looks = [[("look", {"place": place})] for place in WEIRS]
    script = Script(steps=[*looks, *[reread] * 9])
    middleware = [added] if added is not None else []
    agent = create_agent(script, [look], middleware=middleware)
    result = await agent.ainvoke(_ask("Look around."), {"recursion_limit": 300})
    return script.played(result["messages"][-1].content)


async def test_a_model_reads_again_what_was_left_out_long_ago() -> None:
    await check_reread(_reread, WeftMiddleware)


async def _secret(added: object) -> Played:
    picture = {"type": "image", "base64": "iVBO", "mime_type": "image/png"}

    @tool
    def write_mail(to: str) -> list[Any]:
        """Write a mail."""
        return [{"type": "text", "text": f"{GAUGES['north']}\nsent to {to}"}, picture]

    script = Script(steps=[[("write_mail", {"to": SECRET})], "Sent."])
    middleware = [added] if added is not None else []
    agent = create_agent(script, [write_mail], middleware=middleware)
    words = {"type": "text", "text": f"Write to {SECRET}."}
    result = await agent.ainvoke({"messages": [HumanMessage([picture, words])]})
    return script.played(result["messages"][-1].content)


async def test_what_a_policy_protects_is_in_no_message() -> None:
    await check_protected(_secret, WeftMiddleware)
    script = Script(steps=["Hello."])
    middleware = [WeftMiddleware(NO_EMAIL)]
    agent = create_agent(script, [], system_prompt=SECRET, middleware=middleware)
    with pytest.raises(ProtectionError):
        await agent.ainvoke(_ask("Hello?"))
    assert not script.requests


async def test_the_model_gets_back_what_was_left_out() -> None:
    def ask(chat: object) -> object:
        handle = re.search(r"handle ([0-9a-f]{12})", str(chat))
        assert handle is not None
        return [("recall", {"handle": handle[1], "lines": "399-400"})]

    script = Script(steps=[[("read_gauges", {"place": "north"})], ask, "Got it."])
    result = await _agent(script, WeftMiddleware(DIGESTS)).ainvoke(_ask("Look north."))
    assert result["messages"][-1].content == "Got it."
    assert sorted(script.offered) == ["read_gauges", "recall"]
    assert "north gauge 399: " in json.dumps(script.requests[-1])


def test_a_graph_by_hand_sends_less_by_one_function() -> None:
    def run(*, compacts: bool) -> tuple[str, Script]:
        steps = [*([("read_gauges", {"place": place})] for place in ROUND), "Read them all."]
        script = Script(steps=steps)

        def call_model(state: MessagesState) -> dict[str, Any]:
            messages = compact_messages(state["messages"]) if compacts else state["messages"]
            return {"messages": [script.invoke([SystemMessage("You watch."), *messages])]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", call_model)
        graph.add_node("tools", ToolNode([read_gauges]))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        result = graph.compile().invoke({"messages": [HumanMessage("Read all places.")]})
        return str(result["messages"][-1].content), script

    (plain, before), (answer, after) = run(compacts=False), run(compacts=True)
    assert plain == answer
    assert len(str(after.requests)) < len(str(before.requests))
    assert "as lines 1-400 of" in str(after.requests[-1])


async def test_two_conversations_get_their_own_steps_back() -> None:
    middleware = WeftMiddleware()

    async def run(who: str) -> str:
        def look(place: str) -> str:
            """Look at a place."""
            return "\n".join(f"{who} saw {place} {line}: wind and river" for line in range(90))

        looks = [[("look", {"place": f"weir {number}"})] for number in range(40)]
        back = [("recall", {"handle": "#1", "lines": "1-1"})]
        script = Script(steps=[*looks, back, "Done."])
        agent = create_agent(script, [look], middleware=[middleware])
        await agent.ainvoke(_ask("Look around."), {"recursion_limit": 300})
        assert "Folded steps" in json.dumps(script.requests[40])
        return json.dumps(script.requests[-1][-1])

    ann, bob = await asyncio.gather(run("ann"), run("bob"))
    assert "ann saw weir 0 0" in ann
    assert "bob saw weir 0 0" in bob
