"""Passes that users write: they run, are named and explained, and are held to the laws."""

import itertools
from typing import Any

import msgspec
import pytest

import weft
from weft import Agent, C, RunConfig, tool
from weft.errors import CompileError, DeclarationError, InvalidPrompt
from weft.passes import (
    PLAIN,
    Env,
    Item,
    Note,
    Prompt,
    Stability,
    add_system,
    add_turn,
    drop_items,
    map_texts,
    rewrite_items,
)
from weft.testing import ScriptedModel, call


def forget_small_talk(prompt: Prompt, env: Env) -> Prompt:
    """Leave out what the model said by itself."""
    return drop_items(prompt, lambda item: item.kind == "model", step="forget_small_talk")


def shout(prompt: Prompt, env: Env) -> Prompt:
    """Say everything in capitals."""

    def change(item: Item, _: None) -> Item | Note:
        loud = map_texts(item, str.upper)
        return item if loud is item else Note("shout", "louder", item, loud)

    return rewrite_items(prompt, "shout", change)


def looks_up(prompt: Prompt, env: Env) -> Prompt:
    """Say what the tool knows of."""
    return add_system(prompt, f"Known: {env.session.state.get('topic', '?')}.", step="looks_up")


@tool(prepare=looks_up)
def look(topic: str) -> str:
    """Look something up."""
    return f"about {topic}"


def sent(model: ScriptedModel, index: int = -1) -> str:
    return str(model.prompts[index])


def asked(*passes: Any, **options: Any) -> Agent:
    """An agent that has called its tool once, and answered."""
    return Agent("bot", model=ScriptedModel([call("look", topic="x"), "ok", "sure"]), tools=[look],
                 passes=passes, **options)  # fmt: skip


def test_a_pass_changes_what_is_sent_and_is_explained_by_its_name() -> None:
    agent = asked(forget_small_talk)
    first = weft.run_sync(agent, "hi")
    weft.run_sync(agent, "and?", session=first.session)
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert "model: ok" not in sent(model)
    assert "user: hi" in sent(model)
    compiled = weft.compile(agent, session=first.session, message="and?")
    assert "forget_small_talk dropped" in str(compiled.explain())


def test_a_pass_of_the_run_follows_that_of_the_agent() -> None:
    model = ScriptedModel(["ok"])
    agent = Agent("bot", model=model, passes=[shout])

    def whisper(prompt: Prompt, env: Env) -> Prompt:
        items = [map_texts(item, str.lower) for item in prompt.items]
        return prompt.with_items(items)

    weft.run_sync(agent, "Hi", config=RunConfig(passes=[whisper]))
    assert "user: hi" in sent(model)
    rows = weft.compile(agent, message="Hi", config=RunConfig(passes=[whisper])).explain().passes
    names = [row.name for row in rows]
    assert names.index("prune_tools") < names.index("shout") < names.index("whisper")
    assert names.index("whisper") < names.index("fit_budget")


def test_a_tool_prepares_the_request_only_while_it_is_offered() -> None:
    def hide(prompt: Prompt, env: Env) -> Prompt:
        return msgspec.structs.replace(prompt, tools=())

    agent = asked()
    assert "Known: oslo." in str(weft.compile(agent, message="?", state={"topic": "oslo"}).prompt)
    hidden = asked(hide)
    assert "Known" not in str(weft.compile(hidden, message="?", state={"topic": "oslo"}).prompt)


def test_a_compressor_may_be_a_pass() -> None:
    agent = asked(context_compressor=forget_small_talk)
    assert agent.token_budget is None
    first = weft.run_sync(agent, "hi")
    prompt = weft.compile(agent, session=first.session, message="and?").prompt
    assert "model: ok" not in str(prompt)


def test_what_a_pass_adds_is_protected_behind_it() -> None:
    def leak(prompt: Prompt, env: Env) -> Prompt:
        return add_turn(prompt, "write to ann@example.com", step="leak")

    agent = Agent("bot", passes=[leak], context=C.default().redact("email"))
    compiled = weft.compile(agent, message="hi")
    assert "ann@example.com" not in str(compiled.wire)


def test_a_system_text_that_changes_often_stands_last() -> None:
    def clock(prompt: Prompt, env: Env) -> Prompt:
        return add_system(prompt, f"It is {env.now}.", step="clock", stability=Stability.TURN)

    prompt = weft.compile(
        Agent("bot", passes=[clock, looks_up], instruction="Help."), message="hi"
    ).prompt
    assert [block.text for block in prompt.system][-1].startswith("It is")
    assert str(prompt.system[-1].origin) == "pass clock"


def test_grown_step_by_step_is_the_same_as_cold() -> None:
    model = ScriptedModel([one for n in range(6) for one in (call("look", topic=str(n)), f"a{n}")])
    agent = Agent("bot", model=model, tools=[look], passes=[shout, forget_small_talk])
    result = weft.run_sync(agent, "q0")
    for n in range(1, 6):
        grown = weft.compile(agent, session=result.session, message=f"q{n}")
        stored = weft.Session.from_json(result.session.to_json(), trusted=True)
        cold = weft.compile(agent, session=stored, message=f"q{n}")
        assert grown.wire == cold.wire
        result = weft.run_sync(agent, f"q{n}", session=result.session)


def test_an_agent_without_passes_of_its_own_has_the_plain_ones() -> None:
    from weft.compiler.plan import plan_for

    @tool
    def plain() -> str:
        """Do."""
        return ""

    plan = plan_for(Agent("bot", tools=[plain]), None, RunConfig())
    assert plan.passes == PLAIN


# What each mistake is called.


def drops_the_question(prompt: Prompt, env: Env) -> Prompt:
    return prompt.with_items([])


def breaks_a_pair(prompt: Prompt, env: Env) -> Prompt:
    cut = [msgspec.structs.replace(item, blocks=item.blocks[:1]) for item in prompt.items]
    return prompt.with_items(cut)


def tears_a_pair(prompt: Prompt, env: Env) -> Prompt:
    torn = [
        msgspec.structs.replace(item, kind="model", blocks=item.blocks[:1]) for item in prompt.items
    ]
    return prompt.with_items(torn)


def repeats_a_call(prompt: Prompt, env: Env) -> Prompt:
    return prompt.with_items([*prompt.items, *prompt.items])


def empties(prompt: Prompt, env: Env) -> Prompt:
    return prompt.with_items([msgspec.structs.replace(item, blocks=()) for item in prompt.items])


_count = itertools.count()


def counts(prompt: Prompt, env: Env) -> Prompt:
    return add_system(prompt, f"{next(_count)}", step="counts")


def remembers(prompt: Prompt, env: Env) -> Prompt:
    """Its answer depends on what `rewrite_items` was not told."""

    def change(item: Item, _: None) -> Item | Note:
        return map_texts(item, lambda text: f"{len(prompt.items)} {text}")

    return rewrite_items(prompt, "remembers", change)


def edits_in_place(prompt: Prompt, env: Env) -> Prompt:
    prompt.config["temperature"] = 0.5
    return prompt


def edits_a_call(prompt: Prompt, env: Env) -> Prompt:
    for item in prompt.items:
        for block in item.blocks:
            if hasattr(block, "args"):
                block.args["topic"] = "other"
    return prompt


def gives_nothing(prompt: Prompt, env: Env) -> None:
    return None


def raises(prompt: Prompt, env: Env) -> Prompt:
    raise KeyError("gone")


def changes_the_model(prompt: Prompt, env: Env) -> Prompt:
    return msgspec.structs.replace(prompt, model="gpt-5")


def adds_a_tool(prompt: Prompt, env: Env) -> Prompt:
    other = msgspec.structs.replace(prompt.tools[0], name="other")
    return msgspec.structs.replace(prompt, tools=(*prompt.tools, other))


def invents_an_option(prompt: Prompt, env: Env) -> Prompt:
    return msgspec.structs.replace(prompt, config={"temprature": 1})


MISTAKES = {
    drops_the_question: "drops what the user asks now",
    breaks_a_pair: "has no result",
    tears_a_pair: "stands alone",
    repeats_a_call: "stands in two items",
    empties: "without blocks",
    counts: "not pure",
    edits_in_place: "in place",
    edits_a_call: "in place",
    gives_nothing: "returns None",
    raises: "raised KeyError",
    changes_the_model: "changes `model`",
    adds_a_tool: "adds the tool `other`",
    invents_an_option: "`temprature` is not a generation option",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_a_mistake_is_named_and_nothing_is_lost(mistake: Any) -> None:
    result = weft.run_sync(asked(), "hi")
    before = result.session.to_json()
    agent = asked(mistake)
    with pytest.raises(CompileError) as caught:
        weft.compile(agent, session=result.session, message="and?")
    assert MISTAKES[mistake] in caught.value.message
    assert mistake.__name__ in caught.value.message
    assert caught.value.where == "bot.passes"
    assert caught.value.hint
    assert result.session.to_json() == before


def test_a_pass_that_rewrite_items_would_get_wrong_is_not_pure() -> None:
    agent = Agent("bot", model=ScriptedModel(["a", "b", "c"]), passes=[remembers])
    result = weft.run_sync(asked(), "hi")
    weft.compile(agent, session=result.session, message="one")
    longer = weft.run_sync(asked(), "more", session=result.session).session
    with pytest.raises(InvalidPrompt, match="not pure"):
        weft.compile(agent, session=longer, message="two")


async def test_a_run_with_a_bad_pass_ends_in_an_error_event_and_can_go_on() -> None:
    runner = weft.Runner(Agent("bot", model=ScriptedModel(["fine"])))
    with pytest.raises(CompileError, match="raises"):
        await runner.run("hi", session_id="s", config=RunConfig(passes=[raises]))
    session = await runner.session(session_id="s")
    assert "the pass `raises` raised KeyError" in (session.events[-1].error_message or "")
    again = await runner.run("once more", session_id="s")
    assert again.text == "fine"


async def later(prompt: Prompt, env: Env) -> Prompt:
    return prompt


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([later], "does not answer at once"),
        ([lambda prompt: prompt], "takes 1"),
        (["shout"], "is not a pass"),
        ([Prompt], "is not a pass"),
        (shout, "is not a list"),
    ],
)
def test_what_is_no_pass_is_refused_where_it_is_written(value: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        Agent("bot", passes=value)
    with pytest.raises(DeclarationError, match=words):
        RunConfig(passes=value)


def test_a_tool_cannot_prepare_with_what_is_no_pass() -> None:
    with pytest.raises(DeclarationError, match="takes 1"):

        @tool(prepare=lambda prompt: prompt)
        def bad() -> str:
            """Do."""
            return ""


def test_a_key_that_only_a_pass_reads_is_not_called_dead() -> None:
    def read(prompt: Prompt, env: Env) -> Prompt:
        return add_system(prompt, str(env.session.state.get("intent")), step="read")

    first = Agent("triage", model="gpt-5", instruction="Classify.", output_key="intent")
    flow = first >> Agent("helper", model="gpt-5", passes=[read])
    assert not [one for one in weft.check(flow) if one.code == "WEFT112"]


def test_checking_an_agent_runs_no_pass_that_could_stop_it() -> None:
    def needs_state(prompt: Prompt, env: Env) -> Prompt:
        return add_system(prompt, str(env.session.state["missing"]), step="needs_state")

    agent = Agent("bot", model="gpt-5", passes=[needs_state], context=C.default().budget(900))
    assert not [one for one in weft.check(agent) if one.severity == "error"]


async def test_a_run_that_waited_goes_on_with_the_passes_it_is_given() -> None:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("pay", amount=3), "Paid."])
    runner = weft.Runner(Agent("bot", model=model, tools=[pay], passes=[shout]))
    config = RunConfig(passes=[forget_small_talk])
    waiting = await runner.run("pay 3", session_id="s", config=config)
    (question,) = waiting.waiting
    result = await runner.resume(session_id="s", answers={question: True}, config=config)
    assert result.text == "Paid."
    assert "user: PAY 3" in str(model.prompts[1])


def test_a_streamed_run_sends_what_the_passes_left() -> None:
    async def stream() -> list[str]:
        model = ScriptedModel(["Hello there."])
        events = [e async for e in weft.stream(Agent("bot", model=model, passes=[shout]), "hi")]
        assert "user: HI" in str(model.prompts[0])
        return [event.text for event in events if not event.partial]

    import asyncio

    assert asyncio.run(stream())[-1] == "Hello there."
