"""Code that calls the agent's tools: each call is logged, asked about, labelled and made once."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import msgspec
import pytest

import weft
from weft import (
    Agent,
    Approve,
    C,
    Deny,
    Event,
    Loop,
    Map,
    Part,
    ReadonlyContext,
    RunConfig,
    Runner,
    Session,
    Tool,
    ToolContext,
    tool,
)
from weft.errors import SessionError
from weft.inspector import Inspection
from weft.ir import Prompt
from weft.plugins import Plugin
from weft.replay.steps import model_events
from weft.runtime import code_calls
from weft.testing import ScriptedModel, call
from weft.tools import PythonTool, exit_loop
from weft.values import JsonObject

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")
ROOT = Path(__file__).parents[2]


class Shop:
    """Tools that note what was done."""

    def __init__(self, **options: object) -> None:
        self.done: list[object] = []
        self.ids: list[str] = []

        @tool
        def search(query: str, ctx: ToolContext, limit: int = 2) -> list[str]:
            """Find articles."""
            self.done.append(query)
            self.ids.append(ctx.call_id)
            return [f"{query} {n}" for n in range(limit)]

        @tool(**options)  # type: ignore[call-overload, untyped-decorator]
        def buy(what: str, ctx: ToolContext) -> dict[str, object]:
            """Buy an article."""
            self.done.append(f"bought {what}")
            self.ids.append(ctx.call_id)
            ctx.state["bought"] = [*ctx.state.get("bought", []), what]
            return {"bought": what, "price": 3}

        self.tools: list[object] = [search, buy, PythonTool()]

    def agent(self, *script: object, **options: object) -> tuple[Agent, ScriptedModel]:
        turns = [call("run_python", code=one) if isinstance(one, str) else one for one in script]
        model = ScriptedModel([*turns, "Done."])  # type: ignore[list-item]
        return Agent("bot", **{"model": model, "tools": self.tools, **options}), model  # type: ignore[arg-type]


async def session_of(runner: Runner) -> Session:
    session = await runner.session(session_id="s")
    assert session is not None
    return session


def calls_in(session: Session) -> list[tuple[str | None, JsonObject | None]]:
    """The calls that code made, in order."""
    inner = [event for event in session.events if event.isolation_scope]
    return [(one.name, one.args) for event in inner for one in event.calls]


def output_in(events: tuple[Event, ...] | Session) -> JsonObject:
    """The result of the last code."""
    listed = [*events.events] if isinstance(events, Session) else events
    results = [r.response for e in listed for r in e.results if r.name == "run_python"]
    assert results
    return results[-1] or {}


async def test_calls_of_code_stand_in_the_log_and_only_its_result_reaches_the_model() -> None:
    shop = Shop()
    code = "found = search('tea', limit=3)\nprint(len(found))\nbuy(found[0])['price']"
    agent, model = shop.agent(code)
    runner = Runner(agent)
    result = await runner.run("Go", session_id="s")
    session = await session_of(runner)
    assert calls_in(session) == [
        ("search", {"query": "tea", "limit": 3}),
        ("buy", {"what": "tea 0"}),
    ]
    assert output_in(result.events) == {"output": "3\n3\n"}
    assert result.state["bought"] == ["tea 0"]
    assert len(model.prompts) == 2
    assert "tea 1" not in json.dumps(model.wires)
    # each is in the log with the id that the tool got, below the call that brought the code
    (outer,) = [
        one.id for event in session.events for one in event.calls if one.name == "run_python"
    ]
    assert shop.ids == [f"{outer}-1", f"{outer}-2"]


async def test_calls_that_are_awaited_together_are_made_together() -> None:
    together = asyncio.Barrier(3)

    @tool
    async def fetch(n: int) -> int:
        """Fetch."""
        await together.wait()
        return n * n

    code = "import asyncio\nprint(await asyncio.gather(*[fetch(n) for n in range(3)]))"
    model = ScriptedModel([call("run_python", code=code), "ok"])
    runner = Runner(Agent("bot", model=model, tools=[fetch, PythonTool()]))
    async with asyncio.timeout(60):
        result = await runner.run("Go", session_id="s")
    assert output_in(result.events)["output"] == "[0, 1, 4]\n"
    steps = [e for e in (await session_of(runner)).events if e.isolation_scope and e.calls]
    assert [len(event.calls) for event in steps] == [3]


async def test_a_mistake_in_a_call_is_an_exception_in_code() -> None:
    shop = Shop()
    code = (
        "def attempt(call):\n    try:\n        return call()\n    except Exception as e:\n"
        "        print(type(e).__name__, e)\n"
        "attempt(lambda: search())\nattempt(lambda: search(1, 2, 3))\n"
        "attempt(lambda: search(query='a', what='b'))\nattempt(lambda: search({1, 2}))\n"
        "attempt(lambda: nobody(1))\nattempt(lambda: buy(what=['a']))"
    )
    agent, _ = shop.agent(code)
    output = str(output_in((await weft.run(agent, "Go")).events)["output"])
    lines = output.splitlines()
    assert "query" in lines[0]
    assert lines[1].startswith("TypeError search(): search() takes 2 positional arguments")
    assert "what" in lines[2]
    assert "an argument is set" in lines[3]
    assert lines[4].startswith("NameError name 'nobody' is not defined; there are: search, buy")
    assert "RuntimeError" in lines[5]
    assert shop.done == []


async def test_arguments_that_are_endless_when_spelled_are_refused() -> None:
    shop = Shop()
    code = "x = [0] * 10\nfor _ in range(12):\n    x = [x] * 10\nsearch(x)"
    agent, _ = shop.agent(code, "search('a' * 2_000_000)", "search(2 ** 100_000)")
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    errors = [r.response["error"] for e in (await session_of(runner)).events for r in e.results]  # type: ignore[index]
    for words, error in zip(
        ("too large", "1,000,000 letters", "an argument is int"), errors, strict=True
    ):
        assert words in str(error)
    assert shop.done == []


async def test_what_code_puts_into_the_log_is_limited_in_all() -> None:
    shop = Shop()
    agent, _ = shop.agent("for n in range(20):\n    search('a' * 100_000)")
    error = str(output_in((await weft.run(agent, "Go")).events)["error"])
    assert "the arguments of all calls have more than 1,000,000 letters" in error
    assert len(shop.done) == 10


async def test_an_agent_that_is_called_as_its_tool_sees_no_call_of_code() -> None:
    shop = Shop()
    turns = [call("run_python", code="search('tea')"), "Done."]
    model = ScriptedModel(turns)
    await weft.run(Agent("run_python", model=model, tools=shop.tools), "Go")
    results = [item for item in model.prompts[-1].items if item.kind == "exchange"]
    assert len(results) == 1


async def test_code_may_call_so_often_and_no_more() -> None:
    shop = Shop()
    shop.tools[-1] = PythonTool(calls=3)
    agent, _ = shop.agent("for n in range(9):\n    search(str(n))")
    error = str(output_in((await weft.run(agent, "Go")).events)["error"])
    assert "the code has made 3 calls, which is all that it may" in error
    assert shop.done == ["0", "1", "2"]


async def test_a_call_without_await_is_not_made_and_that_is_told() -> None:
    shop = Shop()
    agent, _ = shop.agent("x = search('a')\nprint(await search('b'))")
    result = output_in((await weft.run(agent, "Go")).events)
    # the call that was begun is made together with the one that is awaited, or never
    assert shop.done in (["b"], ["a", "b"], ["b", "a"])
    agent, _ = shop.agent("async def f():\n    await search('c')\nx = search('d')")
    note = str(output_in((await weft.run(agent, "Go")).events).get("note"))
    assert "called without `await`, and so not made: search()" in note
    assert "d" not in shop.done
    assert "error" not in result


async def test_a_call_may_be_begun_in_one_step_and_awaited_in_another() -> None:
    shop = Shop(confirm=True)
    agent, _ = shop.agent("x = search('a')\nprint(await buy('b'))\nprint(await x)")
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    await Runner(agent, store=runner.store).resume(session_id="s", answers={"buy": True})
    output = output_in(await session_of(runner))["output"]
    assert output == "{'bought': 'b', 'price': 3}\n['a 0', 'a 1']\n"
    assert sorted(map(str, shop.done)) == ["a", "bought b"]


async def test_the_model_is_told_what_code_can_call() -> None:
    shop = Shop()

    @tool(name="print")
    def show(text: str) -> str:
        """Show."""
        return f"shown {text}"

    @tool(name="odd-name")
    def odd(kind: str, deep: list[dict[str, int]], maybe: float | None = None) -> str:
        """Be odd."""
        return f"{kind} {deep} {maybe}"

    agent, model = shop.agent(
        "odd_name('a', [{'b': 1}])",
        tools=[*shop.tools[:2], odd, show, PythonTool(), Agent("helper")],
    )
    result = await weft.run(agent, "Go")
    (described,) = [one.description for one in model.prompts[0].tools if one.name == "run_python"]
    for signature in (
        "search(query: str, limit: int = 2)",
        "buy(what: str)",
        "odd_name(kind: str, deep: list[dict], maybe: float | None = None)",
        "print_(text: str)",
        "helper(request: str)",
    ):
        assert signature in described
    assert "run_python(" not in described
    assert output_in(result.events)["output"] == "\"a [{'b': 1}] None\"\n"


async def test_code_calls_only_the_functions_that_it_may() -> None:
    shop = Shop()
    shop.tools[-1] = PythonTool(functions=["search"])
    agent, model = shop.agent("search('a')\nbuy('b')")
    error = str(output_in((await weft.run(agent, "Go")).events)["error"])
    assert "name 'buy' is not defined; there are: search" in error
    (described,) = [one.description for one in model.prompts[0].tools if one.name == "run_python"]
    assert "buy(" not in described
    assert shop.done == ["a"]


async def test_a_tool_that_was_taken_out_of_the_request_cannot_be_called() -> None:
    shop = Shop()

    def without_buy(ctx: object, prompt: Prompt) -> Prompt:
        tools = tuple(one for one in prompt.tools if one.name != "buy")
        return msgspec.structs.replace(prompt, tools=tools)

    agent, _ = shop.agent("buy('b')", before_model=without_buy)
    error = str(output_in((await weft.run(agent, "Go")).events)["error"])
    assert "name 'buy' is not defined" in error


async def test_tools_that_a_toolset_answers_are_functions_too() -> None:
    shop = Shop()
    search, buy, python = shop.tools

    async def offered(context: ReadonlyContext) -> list[object]:
        return [search, buy, *python.get_tools()]  # type: ignore[attr-defined]

    agent, model = shop.agent("len(search('a', 4))", tools=[weft.Toolset("all", offered)])
    runner = Runner(agent)
    result = await runner.run("Go", session_id="s")
    assert output_in(result.events)["output"] == "4\n"
    # the request can be rebuilt from the log alone
    compiled = weft.compile(agent, session=await session_of(runner))
    assert compiled.prompt.tools == model.prompts[-1].tools


async def test_an_agent_can_be_called_from_code() -> None:
    inner = ScriptedModel(["Paris", "Rome"])
    helper = Agent("helper", model=inner, description="Knows capitals.")
    code = "[helper(request='France?'), helper('Italy?')]"
    model = ScriptedModel([call("run_python", code=code), "ok"])
    result = await weft.run(Agent("bot", model=model, tools=[helper, PythonTool()]), "Go")
    assert output_in(result.events)["output"] == "['Paris', 'Rome']\n"


async def test_callbacks_and_plugins_see_each_call() -> None:
    shop = Shop()
    seen: list[str] = []

    class Watch(Plugin):
        def before_tool(self, ctx: ToolContext, tool: Tool, args: JsonObject) -> None:
            seen.append(f"before {tool.name} of {ctx.agent_name}")

        def on_event(self, ctx: object, event: Event) -> None:
            seen.extend(f"logged {one.name}" for one in event.calls if event.isolation_scope)

    def cheaper(
        ctx: ToolContext, tool: Tool, args: JsonObject, result: JsonObject
    ) -> JsonObject | None:
        return {**result, "price": 1} if tool.name == "buy" else None

    agent, _ = shop.agent("buy('tea')['price']", after_tool=cheaper)
    runner = Runner(agent, plugins=[Watch()])
    result = await runner.run("Go", session_id="s")
    assert output_in(result.events)["output"] == "1\n"
    assert seen == ["before run_python of bot", "logged buy", "before buy of bot"]


async def test_a_callback_that_raises_stops_the_run() -> None:
    shop = Shop()

    def refuse(ctx: ToolContext, tool: Tool, args: JsonObject) -> None:
        if tool.name == "buy":
            raise ValueError("not today")

    agent, _ = shop.agent("try:\n    buy('tea')\nexcept Exception:\n    pass", before_tool=refuse)
    with pytest.raises(ValueError, match="not today"):
        await weft.run(agent, "Go")
    assert shop.done == []


async def test_a_tool_that_may_not_fail_stops_the_run_also_from_code() -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    code = "try:\n    fail()\nexcept RuntimeError as e:\n    print('caught', e)"
    model = ScriptedModel([call("run_python", code=code), "ok"])
    agent = Agent("bot", model=model, tools=[fail, PythonTool()])
    assert (
        output_in((await weft.run(agent, "Go")).events)["output"] == "caught ValueError: broken\n"
    )
    strict = Agent("bot", model=ScriptedModel([call("run_python", code=code)]),
                   tools=[fail, PythonTool()], on_tool_error="raise")  # fmt: skip
    with pytest.raises(ValueError, match="broken"):
        await weft.run(strict, "Go")


# --- approval, and going on elsewhere

ASKING = (
    "print('begin')\nfound = search('tea')\nreceipt = buy(found[1])\nprint(receipt)\nsearch('more')"
)


@pytest.mark.parametrize("store", ["memory://", "sqlite:///{folder}/weft.db"])
async def test_a_call_that_asks_suspends_the_run_and_goes_on_with_the_answer(
    store: str, tmp_path: Path
) -> None:
    shop = Shop(confirm=True, effect="unsafe")
    agent, model = shop.agent(ASKING)
    runner = Runner(agent, store=store.format(folder=tmp_path))
    first = await runner.run("Go", session_id="s")
    (question,) = await runner.pending()
    assert (question.name, question.args, question.kind) == ("buy", {"what": "tea 1"}, "confirm")
    assert shop.done == ["tea"]
    # as another process would, that knows nothing but the store
    other = Runner(agent, store=runner.store)
    result = await other.resume(session_id="s", answers={question.call_id: True})
    assert first.text == ""
    assert result.text == "Done."
    assert output_in(result.events)["output"] == (
        "begin\n{'bought': 'tea 1', 'price': 3}\n['more 0', 'more 1']\n"
    )
    assert shop.done == ["tea", "bought tea 1", "more"]
    assert len(model.prompts) == 2
    assert await other.pending() == []


async def test_a_no_is_an_exception_in_code_and_other_arguments_are_checked() -> None:
    shop = Shop(confirm=True)
    agent, _ = shop.agent(
        "try:\n    buy('tea')\nexcept RuntimeError as e:\n    print(e)", "buy('tea')"
    )
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    await runner.resume(session_id="s", answers={"buy": Deny("too dear")})
    session = await session_of(runner)
    assert output_in(session)["output"] == "the user refused this call: too dear\n"
    with pytest.raises(SessionError, match="does not take these arguments"):
        await runner.resume(session_id="s", answers={"buy": Approve(args={"which": 1})})
    await runner.resume(session_id="s", answers={"buy": Approve(args={"what": "milk"})})
    assert shop.done == ["bought milk"]
    note = "the user changed the arguments"
    assert note in str(output_in(await session_of(runner))["output"])


async def test_a_long_running_call_in_code_waits_for_its_result() -> None:
    @tool(long_running=True)
    def ask_team(question: str) -> None:
        """Ask the team."""

    code = "print('asked')\nanswer = ask_team('when?')\nprint('got', answer)"
    model = ScriptedModel([call("run_python", code=code), "ok"])
    runner = Runner(Agent("bot", model=model, tools=[ask_team, PythonTool()]))
    first = await runner.run("Go", session_id="s")
    ((call_id, name),) = first.waiting.items()
    assert name == "ask_team"
    result = await runner.resume(session_id="s", answers={call_id: "noon"})
    assert output_in(result.events)["output"] == "asked\ngot noon\n"


async def test_many_questions_of_one_step_are_answered_one_by_one() -> None:
    shop = Shop(confirm=True)
    code = "import asyncio\nprint(len(await asyncio.gather(buy('a'), buy('b'), search('c'))))"
    agent, _ = shop.agent(code)
    runner = Runner(agent)
    first = await runner.run("Go", session_id="s")
    ids = [*first.waiting]
    assert len(ids) == 2
    half = await runner.resume(session_id="s", answers={ids[0]: True})
    assert half.text == ""
    assert shop.done == ["c", "bought a"]
    last = await runner.resume(session_id="s", answers={ids[1]: True})
    assert last.text == "Done."
    assert shop.done == ["c", "bought a", "bought b"]


async def test_two_programs_of_one_reply_wait_and_go_on_by_themselves() -> None:
    shop = Shop(confirm=True)
    codes = [f"search('{one}')\nprint(buy('{one}')['bought'])" for one in ("a", "b")]
    agent, model = shop.agent([call("run_python", code=code) for code in codes])
    runner = Runner(agent)
    first = await runner.run("Go", session_id="s")
    assert sorted(map(str, shop.done)) == ["a", "b"]
    for call_id in first.waiting:
        result = await Runner(agent, store=runner.store).resume(
            session_id="s", answers={call_id: True}
        )
    assert result.text == "Done."
    session = await session_of(runner)
    outputs = [r.response for e in session.events for r in e.results if r.name == "run_python"]
    assert sorted(map(str, outputs)) == ["{'output': 'a\\n'}", "{'output': 'b\\n'}"]
    assert sorted(map(str, shop.done)) == ["a", "b", "bought a", "bought b"]
    assert len(model.prompts) == 2


async def test_code_itself_can_be_asked_about() -> None:
    shop = Shop()
    shop.tools[-1] = PythonTool(confirm=True)
    agent, _ = shop.agent("search('a')")
    runner = Runner(agent)
    first = await runner.run("Go", session_id="s")
    assert [*first.waiting.values()] == ["run_python"]
    assert shop.done == []
    assert (await runner.resume(session_id="s", answers={"run_python": True})).text == "Done."
    assert shop.done == ["a"]


PROGRAM = """
import asyncio, os, sys, time
from pathlib import Path
from weft import Agent, Runner, ToolContext, tool
from weft.content import call_part
from weft.testing import ScriptedModel
from weft.tools import PythonTool

folder = Path(sys.argv[1])

@tool
def note(what: str, ctx: ToolContext) -> str:
    \"\"\"Note it.\"\"\"
    with open(folder / "notes", "a") as file:
        file.write(f"{ctx.call_id} {what}\\n")
    if what == sys.argv[2]:
        time.sleep(600)
    return what

CODE = \"\"\"
print("first")
a = note("one")
big = ["x" * 100 for _ in range(SIZE)]
b = note("two")
print(len(big))
c = note("three")
print(a, b, c)
\"\"\".replace("SIZE", sys.argv[3])
script = [call_part("run_python", {"code": CODE}, id="c1"), "ok"]
model = ScriptedModel(script if sys.argv[2] != "-" else ["ok"])
runner = Runner(Agent("bot", model=model, tools=[note, PythonTool()]), app_name="killed",
                store=f"sqlite:///{folder}/weft.db")

async def main():
    go = runner.run if sys.argv[2] != "-" else runner.resume
    result = await (go("Go", session_id="s") if sys.argv[2] != "-" else go(session_id="s"))
    print(result.text)
    await runner.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("size", ["10", "100000"], ids=["with a snapshot", "too large for one"])
def test_a_run_killed_inside_code_goes_on_where_it_was(tmp_path: Path, size: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    notes = tmp_path / "notes"

    def start(stop_at: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(program), str(tmp_path), stop_at, size],
            text=True,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    first = start("three")
    deadline = time.monotonic() + 120
    while not notes.exists() or "three" not in notes.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = start("-")
    assert second.communicate(timeout=120)[0] == "ok\n"
    # what had its result is not done again; what was in flight has the same id
    assert notes.read_text().splitlines() == [
        "c1-1 one", "c1-2 two", "c1-3 three", "c1-3 three",
    ]  # fmt: skip

    async def log() -> Session:
        runner = Runner(Agent("bot"), app_name="killed", store=f"sqlite:///{tmp_path}/weft.db")
        session = await session_of(runner)
        await runner.close()
        return session

    session = asyncio.run(log())
    assert output_in(session)["output"] == f"first\n{size}\none two three\n"
    kept = [e.provenance.code.snapshot for e in session.events if e.provenance.code is not None]
    assert [one is not None for one in kept] == (
        [True] * 3 if size == "10" else [True, False, False]
    )


async def suspended(shop: Shop) -> Runner:
    agent, _ = shop.agent(ASKING)
    runner = Runner(agent)
    assert (await runner.run("Go", session_id="s")).waiting
    return runner


async def test_snapshots_of_another_version_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(confirm=True)
    runner = await suspended(shop)
    monkeypatch.setattr("weft.tools.interpreter.__version__", "99.0")
    result = await runner.resume(session_id="s", answers={"buy": True})
    assert "begin\n{'bought'" in str(output_in(result.events)["output"])
    assert shop.done == ["tea", "bought tea 1", "more"]


async def test_without_room_for_snapshots_nothing_is_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_calls, "MOST_SNAPSHOTS", 0)
    shop = Shop(confirm=True)
    runner = await suspended(shop)
    session = await session_of(runner)
    assert all(e.provenance.code.snapshot is None for e in session.events if e.provenance.code)
    await runner.resume(session_id="s", answers={"buy": True})
    assert shop.done == ["tea", "bought tea 1", "more"]


async def test_code_that_was_given_something_else_says_so_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_calls, "MOST_SNAPSHOTS", 0)
    shop = Shop(confirm=True)
    agent, _ = shop.agent(
        call("run_python", code="search(open('in.txt').read())\nbuy('b')", files=["in.txt"])
    )
    runner = Runner(agent)
    await runner.artifacts.save("bot", "user", "s", "in.txt", Part(text="one"))
    await runner.run("Go", session_id="s")
    await runner.artifacts.save("bot", "user", "s", "in.txt", Part(text="two"))
    result = await runner.resume(session_id="s", answers={"buy": True})
    error = str(output_in(result.events)["error"])
    assert 'the code calls search({"query":"two"}) in step 1, where it called' in error
    assert shop.done == ["one"]


async def test_a_snapshot_in_a_log_from_outside_is_not_loaded() -> None:
    shop = Shop(confirm=True)
    runner = await suspended(shop)
    text = (await session_of(runner)).to_json()
    read = Session.from_json(text)
    trusted = Session.from_json(text, trusted=True)
    assert all(e.provenance.code.snapshot for e in trusted.events if e.provenance.code)
    steps = [event.provenance.code for event in read.events if event.provenance.code is not None]
    assert [step.number for step in steps] == [0, 1]
    assert [step.snapshot for step in steps] == [None, None]


async def test_limits_count_model_calls_and_not_calls_of_code() -> None:
    shop = Shop(confirm=True)
    agent, _ = shop.agent(ASKING)
    runner = Runner(agent, config=RunConfig(max_llm_calls=2))
    await runner.run("Go", session_id="s")
    result = await runner.resume(session_id="s", answers={"buy": True})
    assert result.error is None
    assert result.text == "Done."


async def test_a_run_that_is_stopped_answers_what_its_code_had_called() -> None:
    started = asyncio.Event()

    @tool
    async def hang(what: str) -> str:
        """Hang."""
        started.set()
        await asyncio.sleep(600)
        return what

    model = ScriptedModel([call("run_python", code="hang('a')"), "ok"])
    runner = Runner(Agent("bot", model=model, tools=[hang, PythonTool()]))
    running = asyncio.create_task(_ended(runner))
    async with asyncio.timeout(60):
        await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    session = await session_of(runner)
    called = {one.id for event in session.events for one in event.calls}
    answered = {one.id for event in session.events for one in event.results}
    assert called == answered
    assert len(called) == 2


async def _ended(runner: Runner) -> None:
    await runner.run("Go", session_id="s")


async def test_code_that_calls_the_same_in_a_loop_is_no_stall() -> None:
    @tool(effect="pure")
    def poll() -> str:
        """Look whether it is done."""
        return "not yet"

    model = ScriptedModel([call("run_python", code="for _ in range(8):\n    poll()"), "ok"])
    runner = Runner(Agent("bot", model=model, tools=[poll, PythonTool()]))
    result = await runner.run("Go", session_id="s")
    assert (result.text, result.error) == ("ok", None)
    assert len(calls_in(await session_of(runner))) == 8


async def test_a_tool_called_from_code_ends_the_loop_or_hands_over() -> None:
    code = "exit_loop()\nprint('still here')"
    model = ScriptedModel([call("run_python", code=code), "never"])
    rounds = Loop(Agent("bot", model=model, tools=[exit_loop, PythonTool()]), max=5)
    result = await weft.run(rounds, "Go")
    assert len(model.prompts) == 1
    assert "still here" in str(output_in(result.events)["output"])

    @tool
    def hand_over(ctx: ToolContext) -> str:
        """Hand over."""
        ctx.actions.transfer_to_agent = "other"
        return "handed over"

    other = Agent("other", model=ScriptedModel(["I am other."]))
    first = ScriptedModel([call("run_python", code="hand_over()"), "never"])
    root = Agent("bot", model=first, tools=[hand_over, PythonTool()], sub_agents=[other])
    assert (await weft.run(root, "Go")).text == "I am other."


async def test_code_on_a_branch_writes_to_its_branch() -> None:
    @tool
    def put(value: str, ctx: ToolContext) -> str:
        """Put."""
        before = ctx.state.get("value")
        ctx.state["value"] = value
        return f"{ctx.state['item']}: {before} then {value}"

    model = EachItem()
    coder = Agent("coder", model=model, tools=[put, PythonTool()], instruction="Do {item}.")
    runner = Runner(Map("items", coder, into="out"))
    result = await runner.run("Go", session_id="s", state={"items": ["a", "b", "c"]})
    outputs = {
        str(r.response["output"])  # type: ignore[index]
        for e in (await session_of(runner)).events
        for r in e.results
        if r.name == "run_python"
    }
    assert outputs == {f"{one}: None then 1\n{one}: 1 then 2\n" for one in "abc"}
    assert "value" not in result.state


class EachItem(ScriptedModel):
    """A model that runs code first, and then is done, on each branch."""

    def __init__(self) -> None:
        super().__init__(
            [call("run_python", code="print(put('1'))\nprint(put('2'))")] * 3 + ["ok"] * 3
        )


async def test_media_that_a_tool_returned_reach_the_model_beside_the_result() -> None:
    image = Part.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")

    @tool
    def draw() -> Part:
        """Draw."""
        return image

    @tool(confirm=True)
    def ask() -> str:
        """Ask."""
        return "yes"

    model = ScriptedModel([call("run_python", code="draw()\nask()\ndraw()"), "ok"])
    agent = Agent("bot", model=model, tools=[draw, ask, PythonTool()])
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    result = await Runner(agent, store=runner.store).resume(session_id="s", answers={"ask": True})
    (answer,) = [one for e in result.events for one in e.results if one.name == "run_python"]
    assert answer.parts is not None
    assert len(answer.parts) == 2
    assert "image/png" in json.dumps(model.wires)


async def test_dependencies_reach_tools_that_code_calls() -> None:
    @tool
    def who(ctx: ToolContext[str]) -> str:
        """Say who."""
        return ctx.deps

    model = ScriptedModel([call("run_python", code="who()"), "ok"])
    result = await weft.run(Agent("bot", model=model, tools=[who, PythonTool()]), "Go", deps="Ada")
    assert output_in(result.events)["output"] == "'Ada'\n"


# --- what is shown, and what is secret


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_requests_are_rebuilt_and_no_call_of_code_passes_for_a_models(dialect: str) -> None:
    shop = Shop()
    turns = [call("run_python", code="[search('a'), buy('b')]"), call("search", query="c"), "Done."]
    model = ScriptedModel(turns, dialect=dialect)
    agent = Agent("bot", model=model, tools=shop.tools)
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    session = await session_of(runner)
    assert len(model_events(session)) == 3
    compiled = weft.compile(agent, session=session.before(len(session.events) - 1))
    assert json.dumps(compiled.wire) == json.dumps(model.wires[-1])
    # the inspector has a step for each answer of the model, and a row for each call of code
    inspection = Inspection(agent, session)
    assert [step.problem for step in inspection.steps] == [""] * 3
    rows = cast("list[JsonObject]", inspection.film()["events"])
    own = (row["calls"] for row in rows if row["author"] == "run_python()")
    called = [[one["name"] for one in cast("list[JsonObject]", calls)] for calls in own if calls]
    assert called == [["search"], ["buy"]]


SECRET = "zx-91-KQ77-opal"


@tool(labels=["secret"])
def vault(name: str) -> str:
    """Look something up."""
    return SECRET


@tool
def send(text: str) -> str:
    """Send it to everybody."""
    raise AssertionError(f"sent {text}")


@tool(cleared=["secret"])
def seal(text: str) -> str:
    """Seal it."""
    return f"sealed {len(text)}"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_code_returns_carries_the_labels_of_what_it_was_given(dialect: str) -> None:
    # the model is not cleared, and code spells the secret in a way that no comparison finds
    code = "s = vault('x')\nprint(s[::-1].upper(), len(s))\nopen('out.txt', 'w').write(s[::-1])\n7"
    model = ScriptedModel([call("run_python", code=code), "ok", "again"], dialect=dialect)
    runner = Runner(Agent("bot", model=model, tools=[vault, PythonTool()]))
    await runner.run("Go", session_id="s")
    await runner.run("And out.txt?", session_id="s")
    sent = json.dumps(model.wires)
    assert SECRET[::-1].upper() not in sent
    assert "[withheld: secret]" in sent
    # who is cleared sees it
    model = ScriptedModel([call("run_python", code=code), "ok"], dialect=dialect)
    await weft.run(Agent("bot", model=model, tools=[vault, PythonTool()], cleared=["secret"]), "Go")
    assert SECRET[::-1].upper() in json.dumps(model.wires)


async def test_what_code_wrote_after_it_read_a_secret_carries_the_label() -> None:
    code = "open('out.txt', 'w').write(vault('x')[::-1])"
    first = ScriptedModel([call("run_python", code=code), "ok", "see"])
    agent = Agent("bot", model=first, tools=[vault, PythonTool()]).sees(
        C.default() + C.artifact("out.txt")
    )
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    await runner.run("Show me.", session_id="s")
    assert SECRET[::-1] not in json.dumps(first.wires)


async def test_code_that_holds_a_secret_calls_no_tool_that_is_not_cleared() -> None:
    code = (
        "s = vault('x')\ns = vault(name='y')\nprint(seal(s[::-1]))\n"
        "try:\n    send(text=s[::-1])\nexcept RuntimeError as e:\n    print(e)"
    )
    tools = [vault, send, seal, PythonTool()]
    model = ScriptedModel([call("run_python", code=code), "ok"])
    agent = Agent("bot", model=model, tools=tools, cleared=["secret"])
    result = await weft.run(agent, "Go")
    output = str(output_in(result.events)["output"])
    assert output.startswith("sealed 15\n")  # and what the values come from may be asked again
    assert "this was made from what carries the label `secret`, which send is not cleared" in output


async def test_a_secret_in_a_file_or_in_the_code_itself_counts_as_given() -> None:
    agent = Agent(
        "bot",
        model=ScriptedModel(
            [
                call("run_python", code="send(open('a.txt').read()[::-1])", files=["a.txt"]),
                call("run_python", code=f"send('{SECRET}'[::-1])"),
                "ok",
            ]
        ),
        tools=[vault, send, PythonTool()],
        cleared=["secret"],
    ).sees(C.default().label("secret", "key"))
    runner = Runner(agent)
    await runner.artifacts.save("bot", "user", "s", "a.txt", Part(text=f"it is {SECRET}"))
    await runner.run("Go", session_id="s", state={"key": SECRET})
    errors = [
        r.response for e in (await session_of(runner)).events for r in e.results if r.name == "send"
    ]
    assert len(errors) == 2
    assert all("the label `secret`" in str(one) for one in errors)


async def test_a_suspended_run_keeps_the_labels_of_what_its_code_was_given() -> None:
    @tool(confirm=True, cleared=["secret"])
    def approve() -> str:
        """Ask."""
        return "yes"

    code = "s = vault('x')\napprove()\nprint(s[::-1])\nsend(s[::-1])"
    model = ScriptedModel([call("run_python", code=code), "ok"])
    agent = Agent("bot", model=model, tools=[vault, approve, send, PythonTool()])
    runner = Runner(agent)
    await runner.run("Go", session_id="s")
    await Runner(agent, store=runner.store).resume(session_id="s", answers={"approve": True})
    session = await session_of(runner)
    assert SECRET[::-1] not in json.dumps(model.wires)
    refused = [r.response for e in session.events for r in e.results if r.name == "send"]
    assert "the label `secret`" in str(refused)


def test_nothing_of_the_interpreter_is_loaded_before_code_runs() -> None:
    program = (
        "import sys\nfrom weft import Agent\nfrom weft.tools import PythonTool\n"
        "Agent('bot', tools=[PythonTool()])\n"
        "print([one for one in sys.modules if 'monty' in one or 'seccomp' in one])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"
