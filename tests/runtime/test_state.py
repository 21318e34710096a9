"""S: state, scopes and sessions, through the real loop and every store that is at hand."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft import Agent, CallbackContext, Content, Runner, Session, ToolContext
from weft.ir import Prompt
from weft.testing import ScriptedModel, call


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address of an empty store."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


def test_s1_each_scope_reaches_as_far_as_it_says(store: str) -> None:
    def remember(ctx: ToolContext) -> str:
        """Write to every scope."""
        ctx.state["plain"] = "session"
        ctx.state["user:name"] = "Ada"
        ctx.state["app:motto"] = "weave"
        ctx.state["temp:now"] = "passing"
        return "ok"

    template = "{plain?}|{user:name?}|{app:motto?}|{temp:now?}"
    model = ScriptedModel([call("remember"), "1", "2", "3", "4"])
    bot = Agent("bot", model=model, tools=[remember], instruction=template)

    async def go() -> None:
        async with Runner(bot, store=store) as runner:
            first = await runner.run(user_id="ada", session_id="one", message="x")
            assert "session|Ada|weave|passing" in model.prompts[1].system_text
            assert first.state == {"plain": "session", "user:name": "Ada", "app:motto": "weave"}
            await runner.run(user_id="ada", session_id="one", message="x")
            assert "session|Ada|weave|" in model.prompts[2].system_text
            assert "passing" not in model.prompts[2].system_text
            await runner.run(user_id="ada", session_id="two", message="x")
            assert "|Ada|weave|" in model.prompts[3].system_text
            await runner.run(user_id="bob", session_id="three", message="x")
            assert "||weave|" in model.prompts[4].system_text
            stored = await runner.session(user_id="ada", session_id="one")
            assert "passing" not in stored.to_json().decode()

    asyncio.run(go())


def test_s1_writes_are_seen_at_once_and_by_everything_that_follows() -> None:
    seen: list[object] = []

    def before_agent(ctx: CallbackContext) -> None:
        ctx.state["a"] = 1

    def before_model(ctx: CallbackContext, prompt: Prompt) -> None:
        seen.append(ctx.state["a"])
        ctx.state["b"] = 2

    def before_tool(ctx: ToolContext, tool: weft.Tool, args: object) -> None:
        seen.append(ctx.state["b"])
        ctx.state["c"] = 3

    def act(ctx: ToolContext) -> str:
        """Act."""
        seen.append(ctx.state["c"])
        ctx.state["d"] = 4
        return "ok"

    def after_tool(ctx: ToolContext, tool: weft.Tool, args: object, result: object) -> None:
        seen.append(ctx.state["d"])

    model = ScriptedModel([call("act"), "done"])
    bot = Agent(
        "bot", model=model, tools=[act], before_agent=before_agent, before_model=before_model,
        before_tool=before_tool, after_tool=after_tool, instruction="{a}{b?}{c?}{d?}",
    )  # fmt: skip
    result = weft.run_sync(bot, "x")
    assert seen == [1, 2, 3, 4, 1]
    assert result.state == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert "1234" in model.prompts[1].system_text


def test_s1_deltas_travel_on_events_only_and_deleting_is_a_tombstone(store: str) -> None:
    def forget(ctx: ToolContext) -> str:
        """Forget."""
        del ctx.state["secret"]
        assert "secret" not in ctx.state
        return "gone"

    model = ScriptedModel([call("forget"), "done"])
    bot = Agent("bot", model=model, tools=[forget], instruction="{secret?}")

    async def go() -> None:
        async with Runner(bot, store=store) as runner:
            result = await runner.run(session_id="s", message="x", state={"secret": "42"})
            assert result.events[1].actions.state_delta == {"secret": None}
            assert result.state == {}
            assert "42" not in model.prompts[1].system_text
            again = await runner.session(session_id="s")
            assert again.state == {}
            folded = Session("s", app_name="bot", user_id="user", events=again.events)
            assert folded.state == again.state

    asyncio.run(go())


def test_s1_a_list_changed_in_place_counts_as_written() -> None:
    def push(ctx: ToolContext) -> str:
        """Push."""
        items = ctx.state["items"]
        assert isinstance(items, list)
        items.append("new")
        return "ok"

    model = ScriptedModel([call("push"), "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[push]), "x", state={"items": ["old"]})
    assert result.state == {"items": ["old", "new"]}
    assert result.events[1].actions.state_delta == {"items": ["old", "new"]}


def test_s1_a_value_that_is_not_json_is_refused_where_it_is_written() -> None:
    def bad(ctx: ToolContext) -> str:
        """Write what is not JSON."""
        ctx.state["x"] = object()  # type: ignore[assignment]
        return "never"

    model = ScriptedModel([call("bad"), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[bad]), "x")
    assert "state['x']" in str(result.events[1].results[0].response)
    assert result.text == "sorry"
    assert result.state == {}
    with pytest.raises(weft.WeftError, match="state"):
        weft.run_sync(Agent("bot", model=ScriptedModel([])), "x", state={"x": object()})  # type: ignore[dict-item]


def test_s2_the_users_message_carries_the_callers_delta() -> None:
    model = ScriptedModel(["ok"])
    result = weft.run_sync(
        Agent("bot", model=model, instruction="{city}"), "x", state={"city": "Oslo"}
    )
    assert result.session.events[0].actions.state_delta == {"city": "Oslo"}
    assert "Oslo" in model.prompts[0].system_text


def test_s2_every_event_is_stored_before_it_is_given(store: str) -> None:
    model = ScriptedModel([call("act"), "done"])

    def act() -> str:
        """Act."""
        return "ok"

    async def go() -> None:
        async with Runner(Agent("bot", model=model, tools=[act]), store=store) as runner:
            async for event in runner.run(session_id="s", message="x"):
                stored = await runner.session(session_id="s")
                assert stored.events[-1] == event

    asyncio.run(go())


def test_s3_a_session_read_back_equals_the_one_in_the_result(store: str) -> None:
    model = ScriptedModel(["one", "two"])

    async def go() -> None:
        async with Runner(Agent("bot", model=model, output_key="said"), store=store) as runner:
            result = await runner.run(session_id="s", message="ä 🚀", state={"temp:x": 1})
            read = await runner.session(session_id="s")
            assert read == result.session
            assert Session.from_json(read.to_json()) == read

    asyncio.run(go())


def test_s4_a_rewind_appends_an_event_and_puts_the_state_back(store: str) -> None:
    model = ScriptedModel(["one", "two", "three"])

    async def go() -> None:
        async with Runner(Agent("bot", model=model, output_key="said"), store=store) as runner:
            await runner.run(session_id="s", message="first", state={"a": 1})
            second = await runner.run(session_id="s", message="second", state={"a": 2, "b": 3})
            before = len(second.session.events)
            rewound = await runner.rewind(session_id="s", invocation_id=second.invocation_id)
            assert len(rewound.events) == before + 1
            assert rewound.state == {"a": 1, "said": "one"}
            await runner.run(session_id="s", message="third")
            request = str(model.prompts[2])
            assert "first" in request
            assert "second" not in request
            assert "third" in request
            with pytest.raises(weft.WeftError, match="no invocation"):
                await runner.rewind(session_id="s", invocation_id="nope")

    asyncio.run(go())


def test_artifacts_are_versioned_and_reach_templates() -> None:
    async def save(text: str, ctx: ToolContext) -> dict[str, int]:
        """Save."""
        return {"version": await ctx.save_artifact("notes.txt", text)}

    model = ScriptedModel([call("save", text="one"), call("save", text="two"), "done"])
    bot = Agent("bot", model=model, tools=[save], instruction="Notes: {artifact.notes.txt?}")
    result = weft.run_sync(bot, "x")
    assert [e.actions.artifact_delta for e in result.events if e.results] == [
        {"notes.txt": 0}, {"notes.txt": 1},
    ]  # fmt: skip
    assert "Notes: one" in model.prompts[1].system_text
    assert "Notes: two" in model.prompts[2].system_text


def test_a_tool_reads_the_session_the_user_and_the_memory() -> None:
    found: list[object] = []

    async def look(ctx: ToolContext) -> str:
        """Look around."""
        found.extend((ctx.user_id, ctx.app_name, len(ctx.session.events)))
        assert ctx.user_content is not None
        found.append(ctx.user_content.text)
        memories = await ctx.search_memory("where is the kettle?")
        found.append([memory.text for memory in memories][:1])
        return "ok"

    model = ScriptedModel(["noted", call("look"), "done"])

    async def go() -> None:
        runner = Runner(Agent("bot", model=model, tools=[look]))
        await runner.run(user_id="ada", session_id="one", message="the kettle is in the shed")
        await runner.run(user_id="ada", session_id="two", message="find it")

    asyncio.run(go())
    assert found == ["ada", "bot", 2, "find it", ["the kettle is in the shed"]]


def test_an_async_instruction_provider_is_asked_once_per_request_on_the_loop() -> None:
    asked: list[object] = []

    async def provider(ctx: weft.ReadonlyContext) -> str:
        asked.append(asyncio.get_running_loop())
        return f"Mood: {ctx.state['mood']} {{city}}"

    model = ScriptedModel(["ok"])

    async def go() -> None:
        result = await weft.run(
            Agent("bot", model=model, instruction=provider),
            "x",
            state={"mood": "dry", "city": "Oslo"},
        )
        assert asked == [asyncio.get_running_loop()]
        assert "Mood: dry Oslo" in model.prompts[0].system_text
        metadata = result.events[0].custom_metadata or {}
        assert metadata["weft"] == {"instructions": {"instruction": "Mood: dry {city}"}}

    asyncio.run(go())


def test_a_content_with_media_is_kept_and_sent() -> None:
    picture = weft.content.media_part("image/png", b"\x89PNG")
    model = ScriptedModel(["a picture"])
    weft.run_sync(Agent("bot", model=model), Content(parts=(picture,), role="user"))
    assert "image/png" in str(model.wires[0])


def test_artifacts_of_a_durable_store_are_durable(tmp_path: Path) -> None:
    async def save(ctx: ToolContext) -> str:
        """Save."""
        await ctx.save_artifact("notes", "kept")
        return "ok"

    model = ScriptedModel([call("save"), "one", "two"])
    bot = Agent("bot", model=model, tools=[save], instruction="{artifact.notes?}")

    async def go() -> None:
        for _ in range(2):
            async with Runner(bot, store=f"sqlite:///{tmp_path}/weft.db") as runner:
                await runner.run(session_id="s", message="x")

    asyncio.run(go())
    assert "kept" in model.prompts[2].system_text


def test_a_guard_that_raised_is_asked_again_on_resume() -> None:
    answers: list[object] = [PermissionError("not now"), None]

    def guard(ctx: CallbackContext) -> None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer

    runner = Runner(Agent("bot", model=ScriptedModel(["in"]), before_agent=guard))

    async def go() -> None:
        with pytest.raises(PermissionError):
            await runner.run(session_id="s", message="x")
        assert (await runner.resume(session_id="s")).text == "in"
        assert answers == []

    asyncio.run(go())


def test_a_misspelled_plugin_method_is_refused() -> None:
    class Typo:
        def before_agnet(self, ctx: CallbackContext) -> None: ...
        def before_tool(self, ctx: ToolContext, tool: weft.Tool, args: object) -> None: ...

    with pytest.raises(weft.WeftError, match="did you mean `before_agent`"):
        Runner(Agent("bot"), plugins=[Typo()])
