"""What a beginner types wrong, and what is said then: each error says what to type instead."""

import asyncio
import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import weft
from weft import Agent, C, Content, Event, Part, Route, RunConfig, Runner, Sequence, tool
from weft.declare import RunBudget, TokenBudget
from weft.errors import CallError, DeclarationError, FrozenError, UnknownName, describe_kind
from weft.testing import ScriptedModel, make_session

ROOT = Path(__file__).parents[2]


def bot(*answers: str) -> Agent:
    return Agent("bot", model=ScriptedModel(answers or ["Hello!"]))


@tool
def search(query: str) -> str:
    """Search."""
    return query


# Unknown keywords.


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("instructions", "write instruction="),
        ("system_prompt", "write instruction="),
        ("prompt", "write instruction="),
        ("static_instruction", "write instruction="),
        ("llm", "write model="),
        ("model_client", "write model="),
        ("functions", "write tools="),
        ("handoffs", "write sub_agents="),
        ("agents", "write sub_agents="),
        ("output_type", "write output_schema="),
        ("response_format", "write output_schema="),
        ("result_type", "write output_schema="),
        ("before_model_callback", "write before_model="),
        ("after_tool_callback", "write after_tool="),
        ("on_tool_error_callback", "write on_tool_error="),
        ("generate_content_config", "write generate_config="),
        ("model_settings", "write generate_config="),
        ("temperature", 'generate_config={"temperature": ...}'),
        ("max_tokens", 'generate_config={"max_output_tokens": ...}'),
        ("max_turns", "write max_steps="),
        ("history", "C.window(5)"),
        ("api_key", "model object"),
        ("instuction", "did you mean `instruction`?"),
        ("sub_agnts", "did you mean `sub_agents`?"),
        ("frobnicate", "the options are: name, model, instruction"),
    ],
)
def test_an_agent_knows_the_words_of_others(word: str, ours: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Agent("bot", **{word: "x"})  # type: ignore[arg-type]
    assert f"`{word}` is not an option of Agent" in caught.value.message
    assert caught.value.where == "Agent bot"
    assert ours in caught.value.hint
    assert isinstance(caught.value, TypeError)  # as Python itself would have it


def test_every_word_of_others_leads_to_an_option_that_exists() -> None:
    from weft.declare.hints import AGENT_VERBS, AGENT_WORDS

    fields = set(Agent.__dataclass_fields__)
    assert not fields & set(AGENT_WORDS)
    for word, ours in AGENT_WORDS.items():
        assert ours in fields or " " in ours, word
    assert set(AGENT_VERBS) <= fields


WRONG_CALLS: list[tuple[Callable[[], object], str, str]] = [
    (lambda: Agent(), "`name` is missing", 'write Agent("name"'),  # type: ignore[call-arg]
    (lambda: Agent("a", "Be kind."), "too many", "instruction="),  # type: ignore[misc]
    (lambda: bot().returns(), "is missing", "agent.returns(Schema)"),  # type: ignore[call-arg]
    (lambda: bot().sees(), "is missing", "agent.sees(C.window(5))"),  # type: ignore[call-arg]
    (lambda: Sequence(sub_agents=[bot()]), "sub_agents", "one by one"),  # type: ignore[call-arg]
    (lambda: weft.Loop(bot(), max_iterations=3), "max_iterations", "write max="),  # type: ignore[call-arg]
    (lambda: weft.Map(bot()), "is missing", 'Map("items", agent'),  # type: ignore[call-arg]
    (lambda: Route("k").eq("a"), "`node` is missing", '.eq("value", agent)'),  # type: ignore[call-arg]
    (lambda: weft.until(), "`predicate` is missing", "until(lambda"),  # type: ignore[call-arg]
    (lambda: weft.timeout(bot()), "`seconds` is missing", "timeout(agent, 30)"),  # type: ignore[call-arg]
    (lambda: RunConfig(temperature=1), "temperature", "generate_config="),  # type: ignore[call-arg]
    (lambda: RunConfig(max_turns=1), "max_turns", "write max_llm_calls="),  # type: ignore[call-arg]
    (lambda: RunConfig("gpt-5"), "too many", "RunConfig("),  # type: ignore[misc]
    (lambda: RunBudget(dollars=1), "dollars", "tokens, steps, seconds, money"),  # type: ignore[call-arg]
    (lambda: TokenBudget(tokens=5), "tokens", "write token_budget="),  # type: ignore[call-arg]
    (lambda: tool(max_retries=3), "max_retries", "write retries="),  # type: ignore[call-overload]
    (lambda: weft.Tool(name="x"), "is missing", "@tool above a function"),  # type: ignore[call-arg]
    (lambda: weft.run_sync(bot()), "`message` is missing", 'weft.run_sync(agent, "message")'),  # type: ignore[call-arg]
    (lambda: weft.run(bot()), "`message` is missing", 'await weft.run(agent, "message")'),  # type: ignore[call-arg]
    (lambda: weft.run_sync(bot(), prompt="Hi"), "prompt", "write message="),  # type: ignore[call-arg]
    (lambda: weft.run_sync(bot(), "Hi", model="x"), "model", "RunConfig("),  # type: ignore[call-arg]
    (lambda: weft.compile(bot(), "Hi"), "too many", "message="),  # type: ignore[misc]
    (lambda: weft.check(), "is missing", "weft.check(agent)"),  # type: ignore[call-arg]
    (lambda: Runner(agent=bot()), "`agent`", "Runner(agent)"),  # type: ignore[call-arg]
    (lambda: Runner(bot(), session_service=1), "session_service", "write store="),  # type: ignore[call-arg]
    (lambda: Runner(bot()).resume("s"), "too many", 'resume(session_id="s")'),  # type: ignore[misc,call-arg]
    (lambda: weft.Session(messages=[]), "messages", "write events="),  # type: ignore[call-arg]
    (lambda: ScriptedModel(), "is missing", "ScriptedModel(["),  # type: ignore[call-arg]
]


@pytest.mark.parametrize(("call", "message", "hint"), WRONG_CALLS)
def test_a_wrong_call_says_how_it_is_right(
    call: Callable[[], object], message: str, hint: str
) -> None:
    with pytest.raises(CallError) as caught:
        call()
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_error_from_inside_a_call_stays_what_it_is() -> None:
    def look(ctx: object) -> str:
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine") as caught:
        weft.compile(Agent("bot", instruction=look, on_provider_error="raise"), message="Hi")
    assert not isinstance(caught.value, CallError)


# Frozen values.


@pytest.mark.parametrize(
    ("value", "name", "hint"),
    [
        (bot(), "instruction", "agent = agent.instruct("),
        (bot(), "instructions", "agent = agent.instruct("),
        (bot(), "tools", "agent = agent.uses("),
        (bot(), "context", "agent = agent.sees("),
        (bot(), "output_key", "agent = agent.writes("),
        (bot(), "output_schema", "agent = agent.returns("),
        (bot(), "sub_agents", "agent = agent.delegates_to("),
        (bot(), "model", "dataclasses.replace(agent, model=...)"),
        (bot() >> Agent("b"), "name", "Sequence(first, second)"),
        (bot() | Agent("b"), "on_error", "Parallel(left, right)"),
        (bot() // Agent("b"), "name", "Fallback(primary, backup)"),
        (bot() * 3, "max", "Loop(agent, max=3)"),
        (Route("k").eq("a", bot()), "key", "Route("),
        (weft.Gate("ok"), "question", "Gate("),
        (C.default(), "limit", "policy = policy.budget("),
        (search, "timeout", "@tool(timeout=...)"),
        (RunConfig(), "max_llm_calls", "msgspec.structs.replace(config, max_llm_calls=...)"),
        (RunBudget(tokens=5), "tokens", "RunBudget("),
        (TokenBudget(5), "token_budget", "TokenBudget("),
        (Part(text="a"), "text", "msgspec.structs.replace("),
        (Content(), "role", "msgspec.structs.replace("),
        (Event(author="user"), "author", "the log only grows"),
    ],
)
def test_a_frozen_field_says_how_it_is_changed(value: object, name: str, hint: str) -> None:
    before = repr(value)
    with pytest.raises(FrozenError) as caught:
        setattr(value, name, "x")
    assert f"`{name}` cannot be changed" in caught.value.message
    assert hint in caught.value.hint
    with pytest.raises(FrozenError):
        delattr(value, name)
    assert repr(value) == before
    assert isinstance(caught.value, dataclasses.FrozenInstanceError)


def test_what_the_hints_say_works() -> None:
    agent = bot()
    assert dataclasses.replace(agent, model="local").model == "local"
    assert agent.instruct("Be kind.").instruction == "Be kind."
    assert msgspec.structs.replace(RunConfig(), max_llm_calls=3).max_llm_calls == 3
    with pytest.raises(CallError, match="instructions"):
        dataclasses.replace(agent, instructions="x")  # type: ignore[call-arg]


def test_a_result_cannot_be_changed_either() -> None:
    result = weft.run_sync(bot(), "Hi")
    with pytest.raises(FrozenError):
        result.text = "x"  # type: ignore[misc]


# Runs.


def test_a_message_may_stand_first() -> None:
    async def main() -> list[str]:
        runner = Runner(bot("Hello!", "Again!", "New!"))
        first = await runner.run("Hi", session_id="s")
        second = await runner.run("And?", session_id="s")
        other = await runner.run("Who?")
        assert len(second.session.events) == 4
        assert len(other.session.events) == 2  # a session of its own
        assert other.session.id not in ("", "s")
        return [first.text, second.text, other.text]

    assert asyncio.run(main()) == ["Hello!", "Again!", "New!"]


@pytest.mark.parametrize("name", ["text", "value", "state", "events", "usage", "check"])
def test_a_run_that_was_not_awaited_says_so(name: str) -> None:
    for run in (weft.run(bot(), "Hi"), weft.stream(bot(), "Hi"), Runner(bot()).run("Hi")):
        with pytest.raises(UnknownName) as caught:
            getattr(run, name)
        assert "has not been waited for" in caught.value.message
        assert f'(await weft.run(agent, "message")).{name}' in caught.value.hint
        assert f'weft.run_sync(agent, "message").{name}' in caught.value.hint
        assert not hasattr(run, name)
        assert isinstance(caught.value, AttributeError)


def test_a_run_that_nobody_starts_warns() -> None:
    with pytest.warns(RuntimeWarning, match=r"the run of `bot` was never started: write await"):
        assert "not started: await it, or use weft.run_sync" in repr(weft.run(bot(), "Hi"))


def test_a_run_is_iterated_with_async_for() -> None:
    run = weft.stream(bot(), "Hi")
    with pytest.raises(CallError, match="async for event in run"):
        list(run)  # type: ignore[call-overload]
    asyncio.run(run.aclose())


def test_a_run_is_a_coroutine_for_whoever_wants_one() -> None:
    assert asyncio.run(weft.run(bot(), "Hi")).text == "Hello!"
    assert asyncio.run(Runner(bot()).run("Hi")).text == "Hello!"

    async def main() -> list[str]:
        task = asyncio.create_task(weft.run(bot("One"), "Hi"))
        some = await asyncio.gather(task, weft.run(bot("Two"), "Hi"))
        late = await asyncio.wait_for(Runner(bot("Three")).run("Hi"), 60)
        return [result.text for result in (*some, late)]

    assert asyncio.run(main()) == ["One", "Two", "Three"]


def test_a_task_of_a_run_is_cancelled_like_any_other() -> None:
    async def main() -> str | None:
        started = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            started.set()
            await asyncio.sleep(3600)
            return ""

        from weft.testing import call

        runner = Runner(Agent("bot", model=ScriptedModel([call("wait")]), tools=[wait]))
        task = asyncio.create_task(runner.run("Hi", session_id="s"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await runner.session(session_id="s")).events[-1].error_code

    assert asyncio.run(main()) == "cancelled"


def test_a_result_needs_no_await() -> None:
    async def slip() -> None:
        await weft.run_sync(bot(), "Hi")  # type: ignore[misc]

    with pytest.raises(CallError, match="without await"):
        asyncio.run(slip())

    async def iterate() -> None:
        async for _ in await weft.stream(bot(), "Hi"):  # type: ignore[attr-defined]
            pass

    with pytest.raises(CallError, match=r"async for event in weft\.stream"):
        asyncio.run(iterate())


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("final_output", "result.text"),
        ("output", "result.text"),
        ("data", "result.value"),
        ("all_messages", "result.events"),
        ("raise_for_status", "result.check()"),
        ("txt", "did you mean `text`?"),
    ],
)
def test_a_result_knows_what_others_call_its_parts(name: str, ours: str) -> None:
    result = weft.run_sync(bot(), "Hi")
    with pytest.raises(UnknownName) as caught:
        getattr(result, name)
    assert ours in caught.value.hint
    assert not hasattr(result, name)
    assert pickle.loads(pickle.dumps(result.usage)) == result.usage
    assert copy.copy(result) == result


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("messages", "write print(request.prompt), or request.wire"),
        ("json", "write request.wire"),
        ("cost", "write request.explain()"),
        ("sytem", "did you mean `system`?"),
    ],
)
def test_a_compiled_request_knows_what_others_call_its_parts(name: str, ours: str) -> None:
    request = weft.compile(bot(), message="Hi")
    with pytest.raises(UnknownName) as caught:
        getattr(request, name)
    assert caught.value.hint == ours
    assert not hasattr(request, "_nothing")
    assert copy.copy(request).hash == request.hash


def test_run_sync_works_where_a_loop_runs() -> None:
    async def main() -> str:
        return weft.run_sync(bot(), "Hi").text

    assert asyncio.run(main()) == "Hello!"


WRONG_RUNS: list[tuple[Callable[[], object], str, str]] = [
    (lambda: weft.run_sync("Hi", bot()), "a str cannot be run", "the agent comes first"),  # type: ignore[arg-type]
    (lambda: weft.run_sync(Agent, "Hi"), "a type cannot be run", 'Agent("name"'),  # type: ignore[arg-type]
    (lambda: weft.run_sync([bot()], "Hi"), "a list cannot be run", "a >> b"),  # type: ignore[arg-type]
    (lambda: weft.run_sync(Runner(bot()), "Hi"), "a Runner cannot be run", "await runner.run("),  # type: ignore[arg-type]
    (lambda: weft.run_sync(bot(), ""), "there is no message", 'run(agent, "message")'),
    (
        lambda: weft.run_sync(bot(), "Hi", session=[("user", "Hi")]),
        "a list is not a session",
        "session=result.session",
    ),  # type: ignore[arg-type]
    (lambda: weft.run_sync(bot(), "Hi", session="s1"), "a str is not a session", 'session_id="s1"'),  # type: ignore[arg-type]
    (
        lambda: weft.run_sync(bot(), "Hi", session=weft.run_sync(bot(), "Hi")),
        "a Result is not a session",
        "session=result.session",
    ),  # type: ignore[arg-type]
    (
        lambda: weft.run_sync(bot(), "Hi", config={"max_llm_calls": 3}),
        "config is a dict",
        "RunConfig(",
    ),  # type: ignore[arg-type]
    (lambda: Runner(bot(), config={}), "config is a dict", "RunConfig("),  # type: ignore[arg-type]
    (
        lambda: weft.run_sync(bot(), "Hi", store="mysql://ann:secret@host/x"),
        "`mysql://...@host/x` is not the address of a store",
        "sqlite:///weft.db",
    ),
    (
        lambda: weft.run_sync(bot(), "Hi", store="redis://host"),
        "`redis://host` is not the address",
        "postgresql://",
    ),
    (
        lambda: weft.run_sync(bot(), "Hi", store="sqlit:///a.db"),
        "is not the address",
        "did you mean sqlite:///",
    ),
    (
        lambda: weft.run_sync(bot(), "Hi", store=Path("my.db")),
        "is not a store",
        '"sqlite:///my.db"',
    ),  # type: ignore[arg-type]
    (lambda: weft.run_sync(bot(), "Hi", store=None), "None is not a store", "memory://"),  # type: ignore[arg-type]
    (
        lambda: weft.run_sync(Agent("a", model="openai:gpt-5"), "Hi"),
        "`openai:gpt-5`",
        "write openai/gpt-5",
    ),
    (
        lambda: weft.run_sync(Agent("a", model="ollama:llama3"), "Hi"),
        "`ollama:llama3`",
        "write ollama/llama3",
    ),
    (
        lambda: weft.run_sync(Agent("a", model="google-gla:gemini-2.5-pro"), "Hi"),
        "no client",
        "write gemini/gemini-2.5-pro",
    ),
    (lambda: bot().sees("last 5"), "'last 5' is not a policy", "C.window(5)"),  # type: ignore[arg-type]
    (lambda: bot().sees(C.window), "is not a policy", "C.window(...)"),  # type: ignore[arg-type]
    (lambda: bot().sees("none"), "is not a policy", "C.none()"),  # type: ignore[arg-type]
    (lambda: bot().returns("json"), "'json' is not a type", "pass a type"),
    (lambda: bot() @ "json", "'json' is not a type", "pass a type"),
    (lambda: bot().returns(["a"]), "is not a type", "pass a type"),
    (lambda: Agent("a", tools=["search"]), "'search' is not a tool", "without quotes: search"),
    (lambda: bot().uses([search]), "is not a tool", ".uses(f, g)"),
    (lambda: Agent("a", tools={"s": search}), "tools is a dict", "tools=[f]"),
    (lambda: tool("search"), "is not a function", '@tool(name="search")'),  # type: ignore[call-overload]
    (lambda: bot() + Agent("b"), "agents are not added", "a >> b"),  # type: ignore[operator]
    (
        lambda: weft.run_sync(bot(), {"role": "user", "content": "Hi"}),
        "a dict is not a message",
        "pass the text alone; weft.Session.from_messages",
    ),  # type: ignore[arg-type]
    (
        lambda: weft.run_sync(bot(), [{"role": "user", "content": "Hi"}]),
        "a dict is not part of a message",
        "weft.Session.from_messages",
    ),  # type: ignore[list-item]
    (
        lambda: weft.count_tokens("Hi", model="gpt-5.6"),
        "a str is not the body of a request",
        "weft.compile(agent, message=...).tokens",
    ),  # type: ignore[arg-type]
    (
        lambda: weft.count_tokens({}),
        "`model` is missing",
        'weft.count_tokens(compiled.wire, model="gpt-5.6")',
    ),  # type: ignore[call-arg]
]


@pytest.mark.parametrize(("call", "message", "hint"), WRONG_RUNS)
def test_a_wrong_value_says_what_to_type(
    call: Callable[[], object], message: str, hint: str
) -> None:
    with pytest.raises(weft.WeftError) as caught:
        call()
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_store_in_a_missing_folder_names_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "no" / "such"
    with pytest.raises(weft.WeftError) as caught:
        weft.run_sync(bot(), "Hi", store=f"sqlite:///{folder}/weft.db")
    assert caught.value.where == str(folder)
    assert caught.value.hint == f"make it: mkdir -p {folder}"
    folder.mkdir(parents=True)
    assert weft.run_sync(bot(), "Hi", store=f"sqlite:///{folder}/weft.db").text == "Hello!"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Hi {nmae}", "did you mean `{name}`?"),
        ("Hi {user.nmae}", "did you mean `{user.name}`?"),
        ("Hi {artifact.nots.md}", ""),
        ("Hi {weather}", ""),
    ],
)
def test_a_misspelt_variable_is_told_from_the_keys_that_exist(written: str, meant: str) -> None:
    state: dict[str, object] = {"name": "Ann", "age": 3, "user": {"name": "Ann"}}
    model = ScriptedModel(["Hello!"])
    agent = Agent("bot", model=model, instruction=written)
    result = weft.run_sync(agent, "Hi", state=state)  # type: ignore[arg-type]
    (finding,) = result.diagnostics
    assert finding.code == "WEFT101"
    assert finding.hint.startswith(meant)
    assert ("did you mean" in finding.hint) == bool(meant)
    assert "`name`" in finding.message or "artifacts" in finding.message
    with pytest.raises(weft.WeftError) as caught:
        weft.compile(agent, message="Hi", state=state, config=RunConfig(on_missing="error"))  # type: ignore[arg-type]
    assert caught.value.hint.startswith(meant)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("run", "weft.run_sync(agent"),
        ("invoke", "weft.run_sync(agent"),
        ("stream", "weft.stream(agent"),
        ("instrct", "did you mean `instruct`?"),
    ],
)
def test_an_agent_without_that_method_says_what_to_write(name: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        getattr(bot(), name)
    assert hint in caught.value.hint
    assert not hasattr(bot(), name)


def test_a_name_that_weft_does_not_have_is_told_from_those_it_has() -> None:
    with pytest.raises(AttributeError, match="did you mean `Runner`"):
        weft.Runer  # noqa: B018
    with pytest.raises(AttributeError, match=r"write weft\.Agent"):
        weft.LlmAgent  # noqa: B018
    with pytest.raises(AttributeError, match=r"write weft\.run_sync"):
        Runner(bot()).chat  # noqa: B018


def test_a_type_checker_still_refuses_an_unknown_keyword(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(
        "import asyncio\n"
        "import weft\n"
        "from weft import Agent, RunConfig\n"
        'Agent("a", instructions="x")\n'
        "RunConfig(tempo=1)\n"
        'good = Agent("a", instruction="x", tools=[print]).writes("k")\n'
        'text: str = asyncio.run(weft.run(good, "Hi")).text\n'
        'weft.run(good, "Hi").text\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    lines = [line.partition(":")[2] for line in done.stdout.splitlines() if ": error:" in line]
    numbers = [*dict.fromkeys(line.split(":")[0] for line in lines)]
    assert numbers == ["4", "5", "8"], done.stdout + done.stderr
    assert 'did you mean "instruction"?' in done.stdout


# The environment.


def test_a_package_that_is_compiled_at_its_first_import_fails_no_test(tmp_path: Path) -> None:
    """uv leaves compiling to the first import, and there the warnings of others are errors."""
    package = tmp_path / "site-packages" / "stranger"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('PATTERN = "\\/"\nSAME = PATTERN is "x"\n')
    (tmp_path / "test_it.py").write_text(
        "import sys, warnings\n"
        f"sys.path.insert(0, {str(package.parent)!r})\n"
        "import pytest\n"
        "import stranger\n"
        "def test_ours() -> None:\n"
        "    with pytest.raises(UserWarning):\n"
        "        warnings.warn('ours', UserWarning)\n"
    )
    command = [
        sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_sessions_from_make_session_still_work_as_sessions() -> None:
    log = make_session(("user", "I am Ann"), ("bot", "Hello Ann."))
    assert weft.run_sync(bot(), "Who am I?", session=log).text == "Hello!"


def test_names_that_live_elsewhere_say_where() -> None:
    assert weft.DeclarationError is DeclarationError
    with pytest.raises(AttributeError, match=r"write from weft\.errors import SessionBusy"):
        weft.SessionBusy  # noqa: B018
    with pytest.raises(AttributeError, match=r"write import weft\.inspector"):
        weft.__getattr__("inspector")


def test_a_message_names_a_kind_with_its_article() -> None:
    class _User: ...

    class Unknown: ...

    class Unit: ...

    values = [5, 1.5, "x", [], object(), Agent("a"), None, _User(), Unknown(), Unit()]
    assert [*map(describe_kind, values)] == [
        "an int", "a float", "a str", "a list", "an object", "an Agent", "None", "a _User",
        "an Unknown", "a Unit",
    ]  # fmt: skip
