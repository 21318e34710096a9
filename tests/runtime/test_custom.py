"""Custom agents: code that decides what runs, in one log, resumed without repeating anything."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import msgspec
import pytest

import weft
from tests.runtime.laws import check_laws
from weft import (
    Actions,
    Agent,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    Gate,
    Map,
    Part,
    Plugin,
    Route,
    RunConfig,
    RunContext,
    Runner,
    Session,
    race,
    timeout,
)
from weft.content import call_part
from weft.errors import RunError
from weft.session import MemoryStore, SessionKey
from weft.testing import ScriptedModel, call
from weft.values import Json

Plans = dict[str, list[object]]


class Escalate(CustomAgent):
    """Hands over to a person where it is serious."""

    classifier: Agent
    reads = ("severity",)
    writes = ("owner",)

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        async for event in ctx.run(self.classifier):
            yield event
        if int(cast("str", ctx.state["severity"])) > 3:
            yield ctx.say("Handing over to a person.", owner="human")
        else:
            yield ctx.say("We will see to it.", owner="bot")


def escalate(model: ScriptedModel) -> Escalate:
    return Escalate(classifier=Agent("classifier", model=model).writes("severity"))


def texts(result: weft.Result) -> list[tuple[str, str]]:
    return [(event.author, event.text) for event in result.events]


def test_code_decides_by_the_state_and_what_it_yields_is_in_the_log() -> None:
    model = ScriptedModel(["5"])
    result = weft.run_sync(escalate(model), "The server burns.")
    assert texts(result) == [("classifier", "5"), ("escalate", "Handing over to a person.")]
    assert result.text == "Handing over to a person."
    assert result.state == {"severity": "5", "owner": "human"}
    assert [event.text for event in result.session.events if event.text] == [
        "The server burns.",
        "5",
        "Handing over to a person.",
    ]
    check_laws(result.session, escalate(model))


def test_it_stands_in_flows_and_the_next_agent_sees_what_it_said_and_wrote() -> None:
    model = ScriptedModel({"classifier": ["1"], "writer": ["Dear customer"]})
    writer = Agent("writer", model=model, instruction="The owner is {owner}.")
    result = weft.run_sync(escalate(model) >> writer, "A lamp is broken.")
    assert result.text == "Dear customer"
    assert "The owner is bot." in str(model.prompts[-1])
    assert "[escalate]: We will see to it." in str(model.prompts[-1])
    assert "classifier" not in str(model.prompts[-1]), "what it wrote for the code is data"


class Greeter(CustomAgent):
    """Says one thing."""

    description = "Greets."

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        yield ctx.say(f"Hello, {ctx.user_text}", greeted=True)


def test_it_may_be_handed_over_to() -> None:
    model = ScriptedModel([call("transfer_to_agent", agent_name="greeter")])
    result = weft.run_sync(Agent("desk", model=model, sub_agents=[Greeter()]), "Ada")
    assert result.text == "Hello, Ada"
    assert "Greets." in str(model.wires[0])


def test_it_may_be_a_tool() -> None:
    model = ScriptedModel([call("greeter", request="Ada"), "She was greeted."])
    result = weft.run_sync(Agent("desk", model=model, tools=[Greeter()]), "Greet Ada")
    assert result.text == "She was greeted."
    assert "Hello, Ada" in str(model.prompts[-1])
    assert result.state == {"greeted": True}


@pytest.mark.parametrize(
    "build",
    [
        lambda one: one | Agent("other", model=ScriptedModel(["hi"])),
        lambda one: one * 2,
        lambda one: Agent("broken", model=ScriptedModel([RuntimeError("no")])) // one,
        lambda one: race(one, name="first"),
        lambda one: timeout(one, 30),
        lambda one: Route("kind").eq("a", one),
        lambda one: Map("items", one, into="out"),
        lambda one: one >> (lambda state: {"after": state["greeted"]}),
    ],
)
def test_it_stands_wherever_an_agent_stands(build: Callable[[CustomAgent], weft.Flow]) -> None:
    flow = build(Greeter())
    result = weft.run_sync(flow, "Ada", state={"kind": "a", "items": [1, 2]})
    assert result.error is None
    assert ("greeter", "Hello, Ada") in texts(result)
    if isinstance(flow, Map):
        assert result.state["out"] == ["Hello, Ada", "Hello, Ada"]
    else:
        assert result.state["greeted"] is True
    check_laws(result.session, flow)
    weft.check(flow)
    assert "greeter" in str(flow)


async def test_its_children_stream() -> None:
    model = ScriptedModel(["5"])
    partial = [e async for e in weft.stream(escalate(model), "Fire.") if e.partial]
    assert "".join(event.text for event in partial) == "5"


class Long(CustomAgent):
    """Uses all that a context has: state, children, flows of them, a failure that it catches."""

    worker: Agent
    flaky: Agent

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        if "begun" not in ctx.state:
            yield ctx.say("Begin.", begun=True)
        seen = 0
        async for event in ctx.run(self.worker):
            seen += 1
            yield event
        yield ctx.say(f"{seen} events.", count=seen)
        try:
            async for event in ctx.run(self.flaky):
                yield event
        except RunError:
            yield ctx.say("It failed, so we go on.")
        async for event in ctx.run(self.worker >> self.worker):
            yield event
        if cast("int", ctx.state["count"]) == 3:
            yield ctx.say("End.", count=None, end=True)


PLANS: Plans = {
    "worker": [call("look", x="1"), "one", call("look", x="2"), "two", "three"],
    "flaky": [RuntimeError("no")],
}


def long_run(plans: Plans) -> tuple[Long, list[str]]:
    looks: list[str] = []

    def look(x: str) -> str:
        """Look at it."""
        looks.append(x)
        return x

    model = ScriptedModel(cast("dict[str, object]", plans))  # type: ignore[arg-type]
    worker = Agent("worker", model=model, tools=[look]).writes("work")
    return Long(worker=worker, flaky=Agent("flaky", model=model)), looks


def facts(session: Session) -> list[tuple[object, ...]]:
    return [
        (e.author, e.text, e.error_code, e.actions, (e.node_info or {}).get("path"))
        for e in session.events
    ]


async def resumed(root: weft.Flow, session: Session) -> weft.Result:
    """The run that goes on from this log."""
    store = MemoryStore()
    empty = await store.create(SessionKey(root.name, "user", "s"))
    await store.append(empty, *session.events)
    return await Runner(root, store=store).resume(session_id="s")


async def test_cut_off_at_any_event_it_goes_on_and_repeats_nothing() -> None:
    root, _ = long_run(PLANS)
    whole = await Runner(root, store=MemoryStore()).run("hi", session_id="s")
    assert whole.text == "End."
    for cut in range(1, len(whole.session.events) + 1):
        before = whole.session.before(cut)
        replies = [e for e in before.events if e.content is not None and e.content.role == "model"]
        asked = sum(event.author == "worker" for event in replies)
        failed = any(event.author == "flaky" for event in before.events)
        rest: Plans = {
            "worker": PLANS["worker"][asked:],
            "flaky": [] if failed else PLANS["flaky"],
        }
        root, _ = long_run(rest)
        result = await resumed(root, before)
        assert facts(result.session) == facts(whole.session), cut
        assert result.session.state == whole.session.state
        given = {event.id for event in before.events}
        assert not [event for event in result.events if event.id in given]
        assert result.text == "End."


async def test_a_failure_that_nobody_catches_is_tried_again_by_a_resumed_run() -> None:
    class Plain(CustomAgent):
        worker: Agent

        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say("First.")
            async for event in ctx.run(self.worker):
                yield event

    model = ScriptedModel([RuntimeError("503"), "fine"])
    runner = Runner(Plain(worker=Agent("worker", model=model)), store=MemoryStore())
    first = await runner.run("hi", session_id="s")
    assert first.error is not None
    assert first.error.error_code == "model_error"
    again = await runner.resume(session_id="s")
    assert (again.error, again.text) == (None, "fine")
    assert texts(again) == [("worker", "fine")]


async def test_code_that_does_something_else_over_the_log_is_told_so() -> None:
    says = ["one"]

    class Fickle(CustomAgent):
        worker: Agent

        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say(says[0])
            async for event in ctx.run(self.worker):
                yield event

    model = ScriptedModel([RuntimeError("503"), "fine"])
    runner = Runner(Fickle(worker=Agent("worker", model=model)), store=MemoryStore())
    await runner.run("hi", session_id="s")
    says[0] = "two"
    with pytest.raises(weft.WeftError, match='yields "two" as step 1, where it yielded "one"'):
        await runner.resume(session_id="s")
    stored = await runner.session(session_id="s")
    assert stored.events[-1].error_code == "diverged"
    says[0] = "one"
    assert (await runner.resume(session_id="s")).text == "fine", "nothing is lost"


async def test_code_that_ends_before_the_log_does_is_told_so() -> None:
    more = [True]

    class Short(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say("one")
            if more[0]:
                yield ctx.say("two")
                raise ValueError("stop")

    runner = Runner(Short(), store=MemoryStore())
    with pytest.raises(ValueError, match="stop"):
        await runner.run("hi", session_id="s")
    more[0] = False
    with pytest.raises(weft.WeftError, match='ends as step 2, where it yielded "two"'):
        await runner.resume(session_id="s")


async def test_a_child_that_waits_for_an_answer_suspends_it_whatever_the_code_catches() -> None:
    asked: list[str] = []

    class Careful(CustomAgent):
        gate: Gate

        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say("Before.")
            try:
                async for event in ctx.run(self.gate):
                    yield event
            except Exception:
                asked.append("caught")
            yield ctx.say(f"Answered {ctx.state.get('approve')}.")

    runner = Runner(Careful(gate=Gate("approve", choices=["yes", "no"])), store=MemoryStore())
    first = await runner.run("hi", session_id="s")
    assert first.waiting
    assert first.text == "Before."
    second = await runner.resume(session_id="s", answers={next(iter(first.waiting)): "yes"})
    assert second.text == "Answered yes."
    assert [e.text for e in second.session.events if e.text] == ["hi", "Before.", "Answered yes."]


async def test_a_child_that_the_code_leaves_is_stopped_and_its_calls_are_answered() -> None:
    ran: list[str] = []

    def look(x: str) -> str:
        """Look at it."""
        ran.append(x)
        return x

    class Leaves(CustomAgent):
        first: Agent
        second: Agent

        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            async for event in ctx.run(self.first):
                yield event
                if event.calls:
                    break
            yield ctx.say("That is enough.")
            async for event in ctx.run(self.second):
                yield event

    model = ScriptedModel({"first": [call("look", x="1")], "second": ["done"]})
    root = Leaves(
        first=Agent("first", model=model, tools=[look]), second=Agent("second", model=model)
    )
    result = await weft.run(root, "hi")
    assert (result.text, ran) == ("done", [])
    check_laws(result.session, root)


def test_an_agent_that_is_not_declared_runs_and_is_reported() -> None:
    stranger = Agent("stranger", model=ScriptedModel(["hi"]))

    class Loose(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            async for event in ctx.run(stranger):
                yield event

    result = weft.run_sync(Loose(), "hi")
    assert result.text == "hi"
    assert [one.code for one in result.diagnostics] == ["WEFT409"]
    declared = weft.run_sync(
        Loose(sub_agents=[stranger]), "hi", config=RunConfig(model=ScriptedModel(["again"]))
    )
    assert (declared.text, declared.diagnostics) == ("again", ())


async def yields(*what: object) -> tuple[str, str]:
    """The code and words of the error that a run ends with whose agent yields this."""

    class Yields(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            for one in what:
                yield one  # type: ignore[misc]

    runner = Runner(Yields(), store=MemoryStore())
    try:
        result = await runner.run("hi", session_id="s")
        error = result.error
    except weft.WeftError:
        error = (await runner.session(session_id="s")).events[-1]
    assert error is not None
    return error.error_code or "", error.error_message or ""


BAD: list[tuple[object, str]] = [
    ("text", "yielded a str, not an event"),
    (None, "yielded None"),
    (Event(author="user", content=Content(parts=(Part(text="x"),))), 'in the name of "user"'),
    (Event(content=Content(parts=(call_part("f", {}, id="1"),), role="model")), "a tool call"),
    (Event(actions=Actions(transfer_to_agent="other")), "`transfer_to_agent`"),
    (Event(content=Content(parts=(Part(text="x"),), role="user")), 'of role "user"'),
    (Event(custom_metadata={"weft": {"undone": ["x"]}}), "notes that only Weft writes"),
]


@pytest.mark.parametrize(("event", "words"), BAD)
async def test_what_is_no_event_of_its_own_is_refused(event: object, words: str) -> None:
    code, message = await yields(event)
    assert code == "bad_event"
    assert words in message


async def test_an_error_event_of_its_own_fails_the_run() -> None:
    assert await yields(Event(error_code="no_stock", error_message="none left")) == (
        "no_stock",
        "none left",
    )


async def test_events_that_users_build_are_stored_with_what_they_do() -> None:
    class Builds(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            content = Content(parts=(Part(text="Built."),), role="model")
            yield Event(content=content, actions=Actions(state_delta={"k": [1]}))
            yield Event(actions=Actions(escalate=True))

    result = await weft.run(Builds() * 3, "hi")
    assert (result.text, result.state) == ("Built.", {"k": [1]})
    assert [event.author for event in result.events] == ["builds", "builds"], "it left the loop"


async def test_changing_an_event_of_a_child_is_refused() -> None:
    class Changes(CustomAgent):
        worker: Agent

        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            async for event in ctx.run(self.worker):
                yield msgspec.structs.replace(event, content=None)

    with pytest.raises(weft.WeftError, match="changed an event of `worker`"):
        await weft.run(Changes(worker=Agent("worker", model=ScriptedModel(["hi"]))), "hi")


def test_code_that_never_ends_is_stopped() -> None:
    class Endless(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            while True:
                yield ctx.say("again")

    result = weft.run_sync(Endless(max_steps=7), "hi")
    assert result.error is not None
    assert result.error.error_code == "max_steps"
    assert "took 7 steps and did not end" in (result.error.error_message or "")


async def test_code_that_waits_for_ever_can_be_timed_out() -> None:
    class Sleeps(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            await asyncio.sleep(3600)
            yield ctx.say("never")

    result = await weft.run(timeout(Sleeps(), 0.01), "hi")
    assert result.error is not None
    assert result.error.error_code == "timeout"


class Writes(CustomAgent):
    writes = ("owner",)

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        yield ctx.say("x", ownr="me")


async def test_an_undeclared_key_is_refused_under_strict_and_reported_else() -> None:
    runner = Runner(Writes(), store=MemoryStore(), config=RunConfig(strict=True))
    with pytest.raises(weft.WeftError, match="writes `ownr`, which it does not declare"):
        await runner.run("hi", session_id="s")
    stored = await runner.session(session_id="s")
    assert stored.events[-1].error_code == "undeclared_write"
    assert stored.state == {}
    result = await weft.run(Writes(), "hi")
    assert [one.code for one in result.diagnostics] == ["WEFT118"]
    assert result.state == {"ownr": "me"}


async def test_what_the_code_raises_is_in_the_log() -> None:
    class Raises(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say("one")
            raise ValueError("no such customer")

    runner = Runner(Raises(), store=MemoryStore())
    with pytest.raises(ValueError, match="no such customer"):
        await runner.run("hi", session_id="s")
    last = (await runner.session(session_id="s")).events[-1]
    assert last.error_code == "agent_error"
    assert last.error_message == "the code of `raises` raised ValueError: no such customer"
    backup = Agent("backup", model=ScriptedModel(["saved"]))
    assert (await weft.run(Raises() // backup, "hi")).text == "saved"


# Callbacks of flows.


async def test_callbacks_of_a_flow_are_called_around_it_once() -> None:
    calls: list[str] = []

    def before(ctx: CallbackContext) -> None:
        calls.append("before")
        ctx.state["begun"] = True

    async def after(ctx: CallbackContext) -> Content:
        calls.append(f"after {ctx.state['begun']}")
        return Content(parts=(Part(text="Anything else?"),))

    model = ScriptedModel(["a says", "b says"])
    a, b = Agent("a", model=model), Agent("b", model=model)
    for flow in (
        weft.Sequence(a, b, name="both", before_agent=before, after_agent=[after]),
        weft.Parallel(a, b, name="both", before_agent=before, after_agent=[after]),
        weft.Loop(a, max=2, name="both", before_agent=before, after_agent=after),
    ):
        calls.clear()
        model = ScriptedModel(["1", "2"])
        config = RunConfig(model=model)
        runner = Runner(flow, store=MemoryStore(), config=config)
        result = await runner.run("hi", session_id="s")
        assert calls == ["before", "after True"]
        assert result.text == "Anything else?"
        assert result.events[-1].author == "both"
        for cut in range(2, len(result.session.events) + 1):
            calls.clear()
            rest = ScriptedModel(["1", "2"])
            runner = Runner(flow, store=MemoryStore(), config=RunConfig(model=rest))
            session = await runner.store.create(SessionKey("both", "user", "s"))
            await runner.store.append(session, *result.session.events[:cut])
            again = await runner.resume(session_id="s")
            assert again.text == "Anything else?"
            assert calls == ([] if cut == len(result.session.events) else ["after True"])


def test_a_callback_may_answer_in_the_place_of_a_flow() -> None:
    def answer(ctx: CallbackContext) -> Content:
        return Content(parts=(Part(text="No."),))

    def never(ctx: CallbackContext) -> None:
        raise AssertionError

    a, b = Agent("a"), Agent("b")
    flow = weft.Sequence(a, b, name="both", before_agent=answer, after_agent=never)
    result = weft.run_sync(flow, "hi")
    assert (result.text, len(result.events)) == ("No.", 1)
    assert "before_agent=answer" in str(flow)


def test_plugins_are_asked_before_and_after_a_custom_agent() -> None:
    class Watch(Plugin):
        def __init__(self) -> None:
            self.names: list[str] = []

        def before_agent(self, ctx: CallbackContext) -> None:
            self.names.append(f"before {ctx.agent_name}")

        def after_agent(self, ctx: CallbackContext) -> None:
            self.names.append(f"after {ctx.agent_name}")

    watch = Watch()
    weft.run_sync(Greeter(), "Ada", plugins=[watch])
    assert watch.names == ["before greeter", "after greeter"]


def test_a_callback_that_raises_fails_the_flow() -> None:
    def broken(ctx: CallbackContext) -> None:
        raise KeyError("x")

    flow = weft.Sequence(Agent("a"), name="one", before_agent=broken)
    backup = Agent("backup", model=ScriptedModel(["saved"]))
    assert weft.run_sync(flow // backup, "hi").text == "saved"


def test_the_states_of_branches_are_those_of_the_code_on_them() -> None:
    class Element(CustomAgent):
        writes = ("seen",)

        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say(None, seen=ctx.state["item"])
            seen: Json = ctx.state["seen"]
            yield ctx.say(f"saw {seen}")

    result = weft.run_sync(Map("items", Element(), into="out"), "hi", state={"items": ["a", "b"]})
    assert result.state["out"] == ["saw a", "saw b"]


@pytest.mark.parametrize(
    "write",
    [
        lambda state: state.__setitem__("owner", "me"),
        lambda state: state.__delitem__("owner"),
        lambda state: state.update(owner="me"),
        lambda state: state.setdefault("owner", "me"),
        lambda state: state.pop("owner"),
    ],
)
async def test_writing_to_the_state_is_told_how_it_is_done(write: Callable[..., None]) -> None:
    class Writes(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            yield ctx.say("first", owner="you")
            write(ctx.state)

    runner = Runner(Writes())
    with pytest.raises(weft.WeftError, match=r"(?s)read, not written.*yield ctx\.say\(None"):
        await runner.run("x", session_id="s")
    session = await runner.session(session_id="s")
    assert [event.error_code for event in session.events] == [None, None, "bad_event"]
    assert session.state == {"owner": "you"}


def test_code_that_runs_itself_for_ever_is_stopped_before_python_stops_it() -> None:
    class Endless(CustomAgent):
        async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
            async for event in ctx.run(self):
                yield event

    error = weft.run_sync(Endless(), "x").error
    assert error is not None
    assert error.error_code == "max_steps"
    assert "does it run itself" in (error.error_message or "")
