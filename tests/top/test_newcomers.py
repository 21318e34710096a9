"""What a newcomer types, often from another library, and what it says: what to type instead."""

import asyncio
import warnings
from typing import Any

import pydantic
import pytest

import weft
from weft import Agent, Runner
from weft.declare.hints import CHOICES_ELSEWHERE, NAMES_ELSEWHERE
from weft.errors import UnknownImport
from weft.testing import ScriptedModel


def search(query: str) -> str:
    """Search."""
    return f"three pages on {query}"


async def fetch(url: str) -> str:
    """Fetch."""
    return url


class Trip(pydantic.BaseModel):
    """A trip."""

    city: str


class ChatOpenAI:
    """A model of another library."""

    def __init__(self, model: str) -> None:
        self.model_name = model


class StructuredTool:
    """A tool of another library."""

    func = staticmethod(search)


def bot() -> Agent:
    """An agent that answers without a provider."""
    return Agent("bot", model=ScriptedModel(["Hello!"] * 9))


def space() -> dict[str, Any]:
    """What a newcomer has at hand: everything of weft, some functions, and an agent."""
    names: dict[str, Any] = {name: getattr(weft, name) for name in weft.__all__}
    mine = [search, fetch, Trip, ChatOpenAI, StructuredTool]
    names |= {one.__name__: one for one in mine}
    return {**names, "weft": weft, "agent": bot(), "result": weft.run_sync(bot(), "Hi")}


NAMES = [
    ("from weft import LlmAgent", "write from weft import Agent"),
    ("from weft import Agent, Crew", "a >> b for one after the other"),
    ("from weft import create_react_agent", 'Agent("name", tools=[...])'),
    ("from weft import StateGraph", "a | b for both at once"),
    ("from weft import FunctionTool", "write from weft import tool"),
    ("from weft import AgentTool", "tools=[other]"),
    ("from weft import InMemorySessionService", "store="),
    ("from weft import ChatOpenAI", 'model="'),
    ("from weft import AnthropicModel", 'model="'),
    ("from weft import ModelRetry", "raise ValueError("),
    ("from weft import UsageLimits", "RunBudget("),
    ("from weft import exit_loop", "write from weft.tools import exit_loop"),
    ("from weft import ScriptedModel", "write from weft.testing import ScriptedModel"),
    ("from weft import SessionBusy", "write from weft.errors import SessionBusy"),
    ("from weft import Runer", "did you mean `Runner`?"),
    ("from weft import input_guardrail", "Guardrail(input=...)"),
    ("from weft import Command", 'Route("key")'),
    ("weft.start(agent, 'Hi')", 'await Runner(agent).start("message")'),
    ("weft.LlmAgent", "write weft.Agent"),
    ("weft.Crew", "a >> b"),
]

TOOLS = [
    ("Agent('a', tools=[search('x')])", "pass the function itself: tools=[f]"),
    ("Agent('a', tools=[fetch('x')])", "tools=[fetch], without calling it"),
    ("Agent('a', tools=fetch('x'))", "tools=[fetch], without calling it"),
    ("Agent('a', tools=[search])  # right", ""),
    ("Agent('a', tools=search)", "write tools=[search]"),
    ("Agent('a', tools='search')", "write tools=[search]"),
    ("Agent('a', tools=['search'])", "without quotes: search"),
    ("Agent('a', tools={search})", "a set has none"),
    ("Agent('a', tools={'search': search})", "write tools=[f]"),
    ("Agent('a', tools=None)", "leave it out"),
    ("Agent('a', tools=[None])", "pass the function itself"),
    ("Agent('a', tools=[[search]])", "one by one"),
    ("Agent('a', tools=[Trip])", "output_schema=Trip"),
    ("Agent('a', tools=[int])", "pass a function"),
    ("Agent('a', tools=[StructuredTool()])", "structuredtool.func"),
    ("Agent('a', tools=[{'type': 'function'}])", "its schema is read from its signature"),
    ("agent.uses([search])", ".uses(f, g)"),
    ("agent.uses('search')", "without quotes: search"),
    ("Agent('a', tools=[Agent('b'), Agent('b', instruction='x')])", 'Agent("b_2", ...)'),
    ("tool(effect='safe')(search)", 'write effect="pure", if it changes nothing'),
    ("tool(effect='read-only')(search)", 'write effect="pure"'),
    ("tool(effect='writes')(search)", 'write effect="unsafe"'),
    ("tool(effect='retryable')(search)", 'write effect="idempotent"'),
    ("tool(effect='atomic')(search)", 'write effect="transactional"'),
    ("tool(effect='idempotnet')(search)", "did you mean 'idempotent'?"),
    ("tool(effect='PURE')(search)", "did you mean 'pure'?"),
    ("tool(effect='side effects')(search)", 'write effect="unsafe"'),
    ("tool(safe=True)(search)", 'write effect="pure", if it changes nothing'),
    ("tool(unsafe=True)(search)", 'write effect="unsafe"'),
    ("tool(writes='plan')(search)", 'write writes=["plan"]'),
    ("tool('search')", '@tool(name="search")'),
]

AGENTS = [
    ("Agent('You are a helpful assistant.')", 'Agent("assistant", instruction=...)'),
    ("Agent('my agent')", 'write Agent("my_agent")'),
    ("Agent('a', instruction=['Be kind.', 'Be brief.'])", ".join([...])"),
    ("Agent('a', instruction=None)", "leave it out"),
    ("Agent('a', instruction={'role': 'system', 'content': 'x'})", 'message["content"]'),
    ("Agent('a', instruction=fetch('x'))", "instruction=fetch, without calling it"),
    ("Agent('a', instruction=5)", "pass text"),
    ("Agent('a', model=ChatOpenAI('gpt-4o'))", 'model="gpt-4o"'),
    ("Agent('a', model=ChatOpenAI)", 'ChatOpenAI("NAME")'),
    ("Agent('a', model={'provider': 'openai', 'name': 'gpt-4o'})", 'model="openai/gpt-4o"'),
    ("Agent('a', model=['gpt-4o', 'gpt-5'])", 'write one name: model="gpt-4o"'),
    ("Agent('a', model=object())", "pass a name"),
    ("Agent('a', output_type=Trip)", "write output_schema="),
    ("Agent('a', output_schema=Trip(city='Oslo'))", "pass the class: output_schema=Trip"),
    ("Agent('a', output_schema={'city': str})", "declare a class with these fields"),
    ("Agent('a', output_schema='Trip')", "pass a type"),
    ("Agent('a', sub_agents=['b'])", "not its name: sub_agents=[b]"),
    ("Agent('a', sub_agents='b')", "write sub_agents=[a, b]"),
    ("Agent('a', sub_agents=agent)", "write sub_agents=[a, b]"),
    ("Agent('a', sub_agents={'b': agent})", "write sub_agents=[a, b]"),
    ("Agent('a', sub_agents={agent})", "write sub_agents=[a, b]"),
    ("Agent('a', sub_agents=None)", "leave it out"),
    ("Agent('a', sub_agents=[Agent])", 'sub_agents=[Agent("name", ...)]'),
    ("Agent('a', sub_agents=[fetch('x')])", "without calling it"),
    ("agent.delegates_to('b')", "not its name"),
    ("Agent('a', sub_agents=[Agent('b'), Agent('b', instruction='x')])", 'Agent("b_2", ...)'),
    ("Agent('a', sub_agents=[Agent('a', instruction='x')])", 'Agent("a_2", ...)'),
    ("Agent('a', before_agent=fetch('x'))", "before_agent=fetch, without calling it"),
    ("Agent('a', before_agent='log')", "without quotes: before_agent=log"),
    ("Agent('a', before_agent=lambda: None)", "write def before_agent(ctx)"),
    ("Agent('a', before_model=lambda ctx: None)", "write def before_model(ctx, prompt)"),
    ("Agent('a', before_tool=lambda tool, args, tool_context: None)", "the context comes first"),
    ("Agent('a', after_tool=lambda tool, args, ctx, result: None)", "the context comes first"),
    ("Agent('a', max_llm_calls=3)", "RunConfig(max_llm_calls=...)"),
    ("Agent('a', timeout=3)", "timeout(agent, 30)"),
    ("Agent('a', effect='pure')", "@tool(effect=...)"),
    ("Agent('a', max_iterations=3)", "write max_steps="),
]

KEYS = [
    ("agent.writes('my key')", 'write "my_key"'),
    ("agent.writes('{plan}')", 'write "plan"'),
    ("agent.writes('plan?')", 'write "plan"'),
    ("agent.writes('usr:plan')", 'write "user:plan"'),
    ("agent.writes('User:plan')", 'write "user:plan"'),
    ("agent.writes('$plan')", 'write "plan"'),
    ("agent.writes('')", 'output_key="plan"'),
    ("agent.writes(['plan'])", 'output_key="plan"'),
    ("agent.writes('user:plan')  # right", ""),
    ("agent.writes('größe')  # right", ""),
    ("agent.writes('my-key')  # right, for code", ""),
    ("Agent('a', output_key='my key')", 'write "my_key"'),
    ("Agent('a', inputs={'my key': str})", 'write "my_key"'),
    ("agent.takes('my key')", "inputs="),
    ("S.set({'my key': 1})", 'write "my_key"'),
    ("S.capture('my key')", 'write "my_key"'),
    ("Map('items', agent, into='my key')", 'write "my_key"'),
    ("S.rename({'my key': 'my_key'})  # right: the application may call it so", ""),
    ("S.rename(plan='my plan')", 'write "my_plan"'),
    ("S.drop('my key')  # right", ""),
    ("tool(writes=['my key'])(search)  # right: its code may call it so", ""),
    ("agent.sees(C.default().capture('my key'))", 'write "my_key"'),
]

PLACES = [
    ("weft.run_sync(agent, 'Hi', max_steps=3)", "Agent(max_steps=...)"),
    ("RunConfig(max_steps=3)", 'Agent("name", max_steps=...)'),
    ("Runner(agent, max_steps=3)", 'Agent("name", max_steps=...)'),
    ("Runner(agent, max_turns=3)", 'Agent("name", max_steps=...)'),
    ("Sequence(agent, max_steps=3)", 'Agent("name", max_steps=...)'),
    ("Loop(agent, max_steps=3)", 'Agent("name", max_steps=...)'),
    ("race(agent, max_steps=3)", 'Agent("name", max_steps=...)'),
    ("agent.instruct('Hi', max_steps=3)", 'Agent("name", max_steps=...)'),
    ("agent.sees(C.none(), max_steps=3)", 'Agent("name", max_steps=...)'),
    ("check(agent, max_steps=3)", 'Agent("name", max_steps=...)'),
    ("Map('x', agent, into='y', max_steps=3)", 'Agent("name", max_steps=...)'),
    ("tool(max_steps=3)(search)", 'Agent("name", max_steps=...)'),
    ("Agent('a', generate_config={'max_steps': 3})", 'Agent("name", max_steps=...)'),
    ("Sequence(agent, model='gpt-5')", 'Agent("name", model=...)'),
    ("Loop(agent, max_iterations=3)", "write max="),
]

FLOWS = [
    ("Agent('a') >> Agent('a', instruction='x')", 'Agent("a_2", ...)'),
    ("Agent('a') | Agent('a', instruction='x')", 'Agent("a_2", ...)'),
    ("agent >> 'b'", "pass the agent itself, not its name: b"),
    ("agent >> Agent", 'Agent("name", ...)'),
    ("agent >> Trip", "agent @ Trip"),
    ("agent >> fetch('x')", "pass the function itself: fetch"),
    ("agent >> [Agent('b')]", "one by one"),
    ("Sequence([agent])", "one by one"),
    ("agent + Agent('b')", "a >> b"),
    ("agent * until(True)", "pass a function of the state"),
    ("Route('k').eq('x', 'agent')", "not its name: agent"),
    ("agent.run_sync('Hi')", 'weft.run_sync(agent, "message")'),
    ("agent.kickoff()", 'weft.run_sync(agent, "message")'),
]

RUNS = [
    ("Runner.run_sync(agent, 'Hi')", 'weft.run_sync(agent, "message")'),
    ("Runner.run(agent, 'Hi')", 'weft.run(agent, "message")'),
    ("Runner(agent).invoke('Hi')", 'await runner.run("message")'),
    ("Runner(agent).kickoff()", 'await runner.run("message")'),
    ("result.output", "result.text"),
    ("result.final_output", "result.text"),
    ("result.raw", "result.text"),
    ("result.data", "result.value"),
    ("result.last_agent", "result.events[-1].author"),
    ("result.usage_metadata", "result.usage"),
    ("result['messages']", "result.events"),
    ("result['plan']", 'result.state["plan"]'),
    ("[event for event in result]", "result.events"),
    ("weft.run(agent, 'Hi').output", '(await weft.run(agent, "message")).text'),
    ("weft.run(agent, 'Hi').final_output", '(await weft.run(agent, "message")).text'),
    ("weft.run_sync(agent, {'messages': []})", "pass the text alone"),
    ("Runner(agent).start('Hi').text", '(await runner.run("message")).text'),
    ("Runner(agent).start('Hi').output", '(await runner.run("message")).text'),
    ("Runner(agent).start('Hi')['text']", '(await runner.run("message")).text'),
    ("aiter(Runner(agent).start('Hi'))", 'async for event in runner.run("message")'),
    ("Runner(agent).start('Hi').result", "(await run).text"),
    ("Runner(agent).start('Hi').is_done", '(await runner.start("message")).is_done'),
]

TABLE = [*NAMES, *TOOLS, *AGENTS, *KEYS, *PLACES, *FLOWS, *RUNS]


@pytest.mark.parametrize(("typed", "hint"), TABLE, ids=[typed for typed, _ in TABLE])
def test_what_a_newcomer_types_is_answered_with_what_to_type(typed: str, hint: str) -> None:
    names = space()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also: no coroutine is left that nobody waits for
        if not hint:
            exec(typed, names)
            return
        with pytest.raises(weft.WeftError) as caught:
            exec(typed, names)
    assert hint in caught.value.hint
    assert len(caught.value.message) < 300
    assert "0x" not in caught.value.hint


@pytest.mark.parametrize("name", sorted(NAMES_ELSEWHERE))
def test_a_name_of_another_library_is_imported_with_a_hint(name: str) -> None:
    with pytest.raises(UnknownImport) as caught:
        exec(f"from weft import {name}")
    assert caught.value.hint.startswith("write ")
    assert isinstance(caught.value, ImportError)
    assert not hasattr(weft, name)  # who only asks is told no
    ours = NAMES_ELSEWHERE[name]
    assert ours in weft.__all__ or " " in ours or "(" in ours


def test_modules_of_weft_are_imported_as_before() -> None:
    exec("from weft import inspector, tools, testing, instructions")
    exec("from weft import *")


def test_each_word_for_a_choice_leads_to_one_that_exists() -> None:
    from typing import get_args

    from weft.declare.tool import Effect

    for word, hint in CHOICES_ELSEWHERE.items():
        assert word.partition(".")[2] not in get_args(Effect)
        assert any(f'effect="{one}"' in hint for one in get_args(Effect)), word


def test_a_started_run_says_that_its_result_is_waited_for() -> None:
    async def main() -> None:
        async with Runner(bot()) as runner:
            run = await runner.start("Hi", session_id="s")
            with pytest.raises(weft.WeftError) as caught:
                run.text  # type: ignore[attr-defined]  # noqa: B018
            assert caught.value.hint == "write (await run).text"
            with pytest.raises(weft.WeftError, match=r"\(await run\)\.text"):
                run.final_output  # type: ignore[attr-defined]  # noqa: B018
            assert not hasattr(run, "nonsense")
            assert (await run).text == "Hello!"
            # as a coroutine for whoever wants one
            task = asyncio.create_task(runner.start("And?", session_id="s"))
            assert (await (await asyncio.wait_for(task, 60))).text == "Hello!"
            first, second = await asyncio.gather(
                runner.start("A", session_id="a"), runner.start("B", session_id="b")
            )
            assert {(await first).text, (await second).text} == {"Hello!"}
            looked_at = asyncio.create_task(runner.start("D", session_id="d"))
            assert "Starting" in repr(looked_at)  # which asks for its code, and leaves it alone
            assert (await (await looked_at)).text == "Hello!"
            never = runner.start("C", session_id="c")
            never.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Greet {name, and be kind.", ["write {name}"]),
        ("Greet {name", ["write {name}"]),
        ("Greet {name} and { title.", ["write {title}"]),
        ('Greet {name}. Answer as {"a": 1}.', []),
        ("Write a function: void f() { return; }", []),
        ("Keep {name} as it is: {{name}}.", []),
        ("Use }{ as a face, and {} for nothing.", []),
    ],
)
def test_an_unclosed_brace_is_told_when_it_is_compiled_and_when_it_is_checked(
    text: str, told: list[str]
) -> None:
    agent = Agent("bot", model=ScriptedModel(["Hi"]), instruction=text)
    compiled = weft.compile(agent, message="Hi", state={"name": "Ann"})
    found = weft.check(agent, inputs={"name": str})
    for diagnostics in (compiled.diagnostics, found, weft.run_sync(agent, "Hi").diagnostics):
        assert [one.hint for one in diagnostics if one.code == "WEFT114"] == told
