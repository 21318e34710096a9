"""Toolsets that are asked once in each run: what they answered is in the log."""

from collections.abc import Callable, Sequence
from typing import cast

import msgspec
import pytest

import weft
from tests.runtime.laws import check_laws
from weft import Agent, ReadonlyContext, Runner, Session, Tool, Toolset, tool
from weft.errors import DeclarationError
from weft.ir import Prompt
from weft.session import MemoryStore, SessionKey
from weft.testing import ScriptedModel, call


def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def status(order: str) -> str:
    """Say where an order is."""
    return f"{order} is in Oslo"


def for_user(context: ReadonlyContext) -> list[Callable[..., object]]:
    return [status, refund] if context.state.get("role") == "admin" else [status]


async def for_user_later(context: ReadonlyContext[object]) -> Sequence[object]:
    return for_user(context)


class ByContext:
    """An object that is asked with the context."""

    def get_tools(self, context: ReadonlyContext) -> list[Callable[..., object]]:
        return for_user(context)


class Later:
    """An object that takes its time."""

    async def get_tools(self) -> list[Tool]:
        return [tool(status), tool(refund)]


SOURCES: list[object] = [
    for_user,
    for_user_later,
    ByContext(),
    Later(),
    Toolset("orders", for_user),
    Toolset("orders", for_user_later, prefix="shop_"),
]


def offered(model: ScriptedModel, index: int = -1) -> list[str]:
    return [one.name for one in model.prompts[index].tools]


@pytest.mark.parametrize("source", SOURCES)
async def test_it_is_asked_in_a_run_and_its_tools_are_called(source: object) -> None:
    prefix = source.prefix if isinstance(source, Toolset) else ""
    model = ScriptedModel([call(f"{prefix}refund", order="A1"), "Done."])

    def own(x: int) -> int:
        """Add one."""
        return x + 1

    agent = Agent("bot", model=model, tools=[own, source])
    assert [one.name for one in agent.tools] == ["own"]
    runner = Runner(agent, store=MemoryStore())
    result = await runner.run("Refund A1", session_id="s", state={"role": "admin"})
    assert result.text == "Done."
    assert offered(model, 0) == ["own", f"{prefix}status", f"{prefix}refund"]
    assert "A1 is refunded" in str(model.prompts[1])
    check_laws(result.session, agent)
    for index, prompt in enumerate(model.prompts):
        asked = [i for i, e in enumerate(result.session.events) if e.author == "bot" and e.content]
        position = [i for i in asked if result.session.events[i].content.role == "model"][index]  # type: ignore[union-attr]
        rebuilt = weft.compile(agent, session=result.session.before(position))
        assert rebuilt.prompt.tools == prompt.tools, "the request can be rebuilt from the log"
        assert rebuilt.lower("gemini") == model.wires[index]


async def test_it_is_asked_once_in_an_invocation_and_again_in_the_next() -> None:
    asked: list[str] = []

    def tools(context: ReadonlyContext) -> list[object]:
        asked.append(context.invocation_id)
        return for_user(context)  # type: ignore[return-value]

    model = ScriptedModel([call("status", order="1"), call("status", order="2"), "one", "two"])
    agent = Agent("bot", model=model, tools=[tools])
    runner = Runner(agent, store=MemoryStore())
    first = await runner.run("hi", session_id="s")
    assert len(asked) == 1
    assert len({str(prompt.tools) for prompt in model.prompts}) == 1
    second = await runner.run("hi", session_id="s", state={"role": "admin"})
    assert asked == [first.invocation_id, second.invocation_id]
    assert offered(model) == ["status", "refund"]
    before = weft.compile(agent, session=first.session)
    assert [one.name for one in before.prompt.tools] == ["status"]


async def test_agents_in_a_loop_share_what_was_answered() -> None:
    asked: list[str] = []

    def tools(context: ReadonlyContext) -> list[object]:
        asked.append(context.agent_name)
        return [status]

    model = ScriptedModel(["1", "2", "3"])
    result = await weft.run(Agent("bot", model=model, tools=[tools]) * 3, "hi")
    assert asked == ["bot"]
    notes = [e for e in result.session.events if e.provenance.offered is not None]
    assert len(notes) == 1


def test_an_agent_that_is_handed_over_to_or_a_tool_has_its_own() -> None:
    model = ScriptedModel(
        {
            "desk": [call("transfer_to_agent", agent_name="clerk")],
            "clerk": [call("status", order="1"), "In Oslo."],
            "top": [call("clerk", request="Where?"), "There."],
        }
    )
    clerk = Agent("clerk", model=model, description="Knows.", tools=[for_user])
    result = weft.run_sync(Agent("desk", model=model, sub_agents=[clerk]), "Where?")
    assert result.text == "In Oslo."
    model = ScriptedModel(
        {
            "clerk": [call("status", order="1"), "In Oslo."],
            "top": [call("clerk", request="Where?"), "There."],
        }
    )
    clerk = Agent("clerk", model=model, description="Knows.", tools=[for_user])
    root = Agent("top", model=model, tools=[clerk])
    result = weft.run_sync(root, "Where?")
    assert result.text == "There."
    assert "1 is in Oslo" in str(model.prompts[2])


async def resumed(agent: Agent, session: Session, **options: object) -> weft.Result:
    store = MemoryStore()
    empty = await store.create(SessionKey(agent.name, "user", "s"))
    await store.append(empty, *session.events)
    return await Runner(agent, store=store).resume(session_id="s", **options)  # type: ignore[arg-type]


async def test_cut_off_at_any_event_a_run_goes_on_with_the_same_tools() -> None:
    def tools(context: ReadonlyContext) -> list[object]:
        # by the state as it was when the run began, which the tool changes
        return [status] if context.state.get("seen") else [look, status]

    @tool
    def look(order: str, ctx: weft.ToolContext) -> str:
        """Look."""
        ctx.state["seen"] = True
        return order

    plan = [call("look", order="1"), call("status", order="1"), "Done."]
    model = ScriptedModel(plan)
    agent = Agent("bot", model=model, tools=[tools])
    whole = await Runner(agent, store=MemoryStore()).run("hi", session_id="s")
    assert whole.text == "Done."
    wires = model.wires
    for cut in range(1, len(whole.session.events) + 1):
        before = whole.session.before(cut)
        replies = [e for e in before.events if e.content is not None and e.content.role == "model"]
        rest = ScriptedModel(plan[len(replies) :])
        result = await resumed(Agent("bot", model=rest, tools=[tools]), before)
        assert result.text == "Done."
        assert rest.wires == wires[len(replies) :], cut
        assert len(result.session.events) == len(whole.session.events)


async def test_the_log_alone_gives_the_same_request() -> None:
    """The fields that one provider takes beside a declaration are in the log, too."""
    strict = msgspec.structs.replace(tool(status), extra={"openai-chat": {"strict": True}})
    answered = [strict, tool(refund)]
    model = ScriptedModel(["in Oslo"], dialect="openai-chat")
    agent = Agent("desk", model=model, tools=[Toolset("orders", lambda: answered)])
    result = await Runner(agent).run("where is A1?")
    asked = len(result.session.events) - 1
    rebuilt = weft.compile(agent, session=result.session.before(asked))
    assert "'strict': True" in str(model.wires[0])
    assert rebuilt.lower("openai-chat") == model.wires[0]


async def test_a_toolset_that_raises_ends_the_run_and_nothing_is_lost() -> None:
    broken = [True]

    def tools(context: ReadonlyContext) -> list[object]:
        if broken[0]:
            raise ConnectionError("no route to host")
        return [status]

    agent = Agent("bot", model=ScriptedModel(["fine"]), tools=[tools])
    runner = Runner(agent, store=MemoryStore())
    with pytest.raises(weft.WeftError, match="the toolset `tools` raised ConnectionError"):
        await runner.run("hi", session_id="s")
    last = (await runner.session(session_id="s")).events[-1]
    assert last.error_code == "toolset_error"
    assert "no route to host" in (last.error_message or "")
    broken[0] = False
    assert (await runner.resume(session_id="s")).text == "fine"
    backup = Agent("backup", model=ScriptedModel(["saved"]))
    broken[0] = True
    assert (await weft.run(agent // backup, "hi")).text == "saved"


async def test_a_toolset_that_answers_something_else_on_resume_is_named() -> None:
    now: list[object] = [status, refund]
    model = ScriptedModel([call("status", order="1"), RuntimeError("503"), "fine"])
    agent = Agent("bot", model=model, tools=[Toolset("orders", lambda: now)])
    runner = Runner(agent, store=MemoryStore())
    assert (await runner.run("hi", session_id="s")).error is not None

    @tool(name="refund")
    def other(order: int) -> str:
        """Refund an order."""
        return ""

    for answer, words in (([status], "`refund` is gone"), ([status, other], "another parameters")):
        now = answer  # type: ignore[assignment]
        with pytest.raises(weft.WeftError, match=words):
            await runner.resume(session_id="s")
        last = (await runner.session(session_id="s")).events[-1]
        assert last.error_code == "toolset_changed"
    now = [for_more, refund, status]
    assert (await runner.resume(session_id="s")).text == "fine"
    assert offered(model) == ["status", "refund"], "the run goes on with what it began with"


def as_it_is(prompt: Prompt, env: object) -> Prompt:
    return prompt


def for_more(x: int) -> int:
    """One more."""
    return x


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "tools is None, not a list"),
        (["text"], "is not a tool"),
        ([status, status], "two tools are named `status`"),
        ([tool(name="own")(status)], "two tools are named `own`"),
        ([tool(name="set_model_response")(status)], "is Weft's own"),
        ([tool(prepare=as_it_is)(status)], "prepares requests"),
    ],
)
def test_what_cannot_be_tools_is_refused(answer: object, words: str) -> None:
    def own(x: int) -> int:
        """Add one."""
        return x

    agent = Agent("bot", model=ScriptedModel([]), tools=[own, Toolset("odd", lambda: answer)])  # type: ignore[arg-type]
    with pytest.raises(weft.WeftError, match=words):
        weft.run_sync(agent, "hi")


def test_it_gets_the_dependencies_and_the_words_of_the_user() -> None:
    seen: list[object] = []

    def tools(context: ReadonlyContext[dict[str, int]]) -> list[object]:
        content = context.user_content
        seen.extend((context.deps, content.text if content is not None else None))
        with pytest.raises(TypeError):
            context.state["x"] = 1  # type: ignore[index]
        return []

    agent = Agent("bot", model=ScriptedModel(["fine"]), tools=[tools])
    assert weft.run_sync(agent, "Hello.", deps={"a": 1}).text == "fine"
    assert seen == [{"a": 1}, "Hello."]


def test_the_check_knows_that_it_does_not_know_the_tools() -> None:
    agent = Agent("bot", tools=[for_user])
    assert weft.check(agent >> Agent("next", instruction="{anything}")) == []
    assert [one.code for one in weft.check(agent)] == []
    compiled = weft.compile(agent, message="hi")
    assert [one.code for one in compiled.diagnostics] == ["WEFT303"]


def test_copies_keep_it_and_add_to_it() -> None:
    agent = Agent("bot", tools=[for_user]).uses(refund, ByContext()).instruct("Help.")
    assert [source.name for source in agent.tool_sources] == ["for_user", "ByContext"]
    assert [one.name for one in agent.tools] == ["refund"]


def test_mistakes_are_named_where_they_are_made() -> None:
    class Odd:
        def get_tools(self, one: object, two: object) -> list[object]:
            return []

    with pytest.raises(DeclarationError, match=r"get_tools takes \(context\) or nothing"):
        Agent("bot", tools=[Odd()])
    with pytest.raises(DeclarationError, match="cannot be asked for tools"):
        Toolset("odd", lambda one, two: [])
    with pytest.raises(DeclarationError, match="known when a run asks"):
        Toolset("orders", cast("Callable[..., object]", for_user)).get_tools()


def test_labels_of_its_tools_hold_for_the_run() -> None:
    @tool(labels=["secret"])
    def read_card() -> str:
        """Read the card."""
        return "4111 1111"

    model = ScriptedModel({"bot": [call("read_card"), "read"], "next": ["done"]})
    agent = Agent("bot", model=model, tools=[Toolset("cards", lambda: [read_card])])
    flow = agent >> Agent("next", model=model)
    result = weft.run_sync(flow, "hi")
    assert result.text == "done"
    assert "4111" not in str(model.wires), "no model is cleared for it"


async def test_a_listing_that_did_not_change_is_in_the_log_once() -> None:
    listed = ["Adds."]

    def offer(ctx: ReadonlyContext) -> list[Tool]:
        return [Tool(name="add", description=listed[-1], parameters={"type": "object"})]

    model = ScriptedModel(["one", "two", RuntimeError("down"), "three", "four"])
    runner = Runner(Agent("bot", model=model, tools=[offer]))
    for _ in range(3):
        await runner.run("Go.", session_id="s")
    # resumed, with a mark in its own invocation: the tools are those of the mark
    session = (await runner.resume(session_id="s")).session
    listed.append("Adds numbers.")
    session = (await runner.run("Go.", session_id="s")).session
    offers = [event.provenance.offered for event in session.events if event.provenance.offered]
    assert [(len(one.tools), one.as_before) for one in offers] == [
        (1, False), (0, True), (0, True), (1, False)
    ]  # fmt: skip
    assert [prompt.tools[0].description for prompt in model.prompts] == [
        "Adds.", "Adds.", "Adds.", "Adds.", "Adds numbers."
    ]  # fmt: skip
