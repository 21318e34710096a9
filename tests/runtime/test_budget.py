"""A policy's budget holds for what is really sent, and what it gives up is said."""

import json

import pytest

import weft
from weft import Agent, C, RunConfig, Runner, count_tokens
from weft.compiler import compile_request
from weft.errors import BudgetExceeded
from weft.testing import ScriptedModel, call, make_session
from weft.values import JsonObject

ROWS = [{"id": number, "status": "open", "owner": f"person {number}"} for number in range(150)]


def tickets(page: int = 1) -> list[dict[str, object]]:
    """List the tickets."""
    return [{**row, "page": page} for row in ROWS]


def wire(model: ScriptedModel, index: int = -1) -> str:
    return json.dumps(model.wires[index], ensure_ascii=False)


async def test_a_large_result_gives_way_before_the_conversation_does() -> None:
    model = ScriptedModel(
        [call("tickets"), "There are many.", "It is open."], name="gpt-4.1", dialect="openai-chat"
    )
    agent = Agent("desk", model=model, instruction="Help.", tools=[tickets])
    runner = Runner(agent.sees(C.default().budget(2500)))
    await runner.run(message="What is there?", session_id="s")
    await runner.run(message="And ticket 7?", session_id="s")
    for sent in model.wires:
        assert count_tokens(sent, model="gpt-4.1", dialect="openai-chat") <= 2250
    last = wire(model)
    assert "What is there?" in last
    assert "There are many." in last
    assert "handle" in last
    assert "person 149" not in last or "left_out" in last


async def test_the_first_request_is_not_touched_while_it_fits() -> None:
    model = ScriptedModel(["Hello."], name="gpt-4.1", dialect="openai-chat")
    agent = Agent("desk", model=model, instruction="Help.")
    await weft.run(agent.sees(C.default().budget(4000)), "Hi")
    plain = ScriptedModel(["Hello."], name="gpt-4.1", dialect="openai-chat")
    await weft.run(Agent("desk", model=plain, instruction="Help.").sees(C.default()), "Hi")
    assert model.wires[0]["messages"] == plain.wires[0]["messages"]


async def test_tiers_decide_who_goes_first() -> None:
    long = "the long answer " * 80
    model = ScriptedModel([long, long, "three"], name="gpt-4.1", dialect="openai-chat")
    view = C.state("goal").priority(1) + C.user().priority(2) + C.default().priority(4)
    runner = Runner(Agent("desk", model=model).sees(view.budget(420, overflow="drop", reserve=0)))
    state = {"goal": "book the night train"}
    await runner.run(message="first words", session_id="s", state=state)
    await runner.run(message="second words", session_id="s")
    await runner.run(message="third words", session_id="s")
    last = wire(model)
    assert "book the night train" in last
    assert "first words" in last
    assert "third words" in last
    assert last.count("the long answer") < 81


async def test_a_budget_that_cannot_be_met_ends_the_run_with_the_figures() -> None:
    model = ScriptedModel(["never"], name="gpt-4.1", dialect="openai-chat")
    agent = Agent("desk", model=model, instruction="Very long. " * 300)
    with pytest.raises(BudgetExceeded) as caught:
        await weft.run(agent.sees(C.default().budget(500)), "Hi")
    assert model.wires == []
    words = str(caught.value)
    assert "what must stay takes" in words
    assert "50 are for the answer" in words
    assert "the instruction" in words
    needed = int(words.split(".budget(")[1].split(")")[0])
    model = ScriptedModel(["fine"], name="gpt-4.1", dialect="openai-chat")
    agent = Agent("desk", model=model, instruction="Very long. " * 300)
    result = await weft.run(agent.sees(C.default().budget(needed)), "Hi")
    assert result.text == "fine"


async def test_overflow_error_gives_up_nothing() -> None:
    model = ScriptedModel(["word " * 600, "never"], name="gpt-4.1", dialect="openai-chat")
    policy = C.default().budget(400, overflow="error")
    runner = Runner(Agent("desk", model=model).sees(policy))
    await runner.run(message="Hi", session_id="s")
    with pytest.raises(BudgetExceeded, match="the request takes"):
        await runner.run(message="Go on", session_id="s")
    assert len(model.wires) == 1


async def test_what_does_not_fit_is_summed_up_once_by_the_model() -> None:
    answers = [f"The code of trip {number} is QX-{number}77. " + "so " * 120 for number in range(6)]
    model = ScriptedModel(
        {
            "desk": [*answers, "done"],
            "summarizer": ["Trips 0 to 5 have the codes " + " ".join(f"QX-{n}77" for n in range(6))]
            * 20,
        },
        name="gpt-4.1",
        dialect="openai-chat",
    )
    policy = C.default().budget(900, overflow="summarize", reserve=0)
    runner = Runner(Agent("desk", model=model).sees(policy))
    for number in range(6):
        await runner.run(message=f"Tell me of trip {number}.", session_id="s")
    result = await runner.run(message="And which was first?", session_id="s")
    assert result.text == "done"
    asked = [index for index, one in enumerate(model.prompts) if one.agent == "desk"]
    last = wire(model, asked[-1])
    assert "[summary of earlier turns]" in last
    assert "QX-077" in last
    assert count_tokens(model.wires[asked[-1]], model="gpt-4.1", dialect="openai-chat") <= 900
    session = await runner.session(session_id="s")
    replies = [index for index, event in enumerate(session.events) if event.text == "done"]
    rebuilt = compile_request(runner.root, session=session.before(replies[0]))  # type: ignore[arg-type]
    assert rebuilt.wire == model.wires[asked[-1]]
    assert rebuilt.prompt.wants == ()


async def test_what_was_given_up_is_reported() -> None:
    model = ScriptedModel(["word " * 900, "fine"], name="gpt-4.1", dialect="openai-chat")
    agent = Agent("desk", model=model).sees(C.default().budget(600))
    runner = Runner(agent)
    await runner.run(message="Hi", session_id="s")
    session = await runner.session(session_id="s")
    compiled = compile_request(agent, session=session, message="Go on")
    found = {one.code: one.message for one in compiled.diagnostics}
    assert "WEFT503" in found
    assert "600" in found["WEFT503"]
    assert "fit_budget" in str(compiled.explain())


async def test_an_estimated_count_is_kept_with_its_margin() -> None:
    agent = Agent("desk", model="claude-sonnet-4-5").sees(C.default().budget(1000, reserve=0))
    session = weft.Session("s")
    for number in range(12):
        author, role = ("user", "user") if number % 2 == 0 else ("desk", "model")
        content = weft.Content(role=role, parts=(weft.Part(text=f"{number} " + "word " * 90),))
        session = session.append(weft.Event(author=author, content=content, invocation_id="1"))
    compiled = compile_request(agent, session=session, message="Go on")
    assert compiled.tokens * (1 + compiled.scale.counter.margin) <= 1000


async def test_the_reserve_is_what_the_answer_may_take() -> None:
    session = weft.Session("s")
    agent = Agent("desk", model="gpt-4.1", generate_config={"max_output_tokens": 900}).sees(
        C.default().budget(1000, overflow="error")
    )
    with pytest.raises(BudgetExceeded, match="900 are for the answer"):
        compile_request(agent, session=session, message="word " * 120)
    config = RunConfig(generate_config={"max_output_tokens": 100})
    assert (
        compile_request(agent, session=session, message="word " * 120, config=config).tokens < 900
    )


def test_the_tool_that_the_budget_itself_brings_is_named_with_a_way_to_do_without_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    agent = Agent("desk", model="gemini-2.5-flash", output_schema=schema)  # all its tools at once
    with pytest.raises(BudgetExceeded) as caught:
        compile_request(agent.sees(C.default().budget(100)), message="Hi")
    assert "the tools" in caught.value.message
    assert 'overflow="drop", which needs no recall' in str(caught.value.hint)
    compile_request(agent.sees(C.default().budget(100, overflow="drop")), message="Hi")
    with pytest.raises(BudgetExceeded) as caught:
        compile_request(agent.sees(C.default().compact().budget(100)), message="Hi")
    assert "overflow" not in str(caught.value.hint)


NUMBERS = " ".join(f"line {number} has the value {number * 7}" for number in range(900))
LONG = f"read this: {NUMBERS}"
TALK = [
    one for n in range(10) for one in (("user", f"{n} " + "a " * 50), ("bot", f"{n} " + "b " * 50))
]


@pytest.mark.parametrize("model", ["claude-sonnet-5", "gpt-5.6", "gemini-flash-latest"])
@pytest.mark.parametrize("schema", [None, {"type": "object", "properties": {"a": {}}}])
def test_C4_a_budget_that_hides_nothing_brings_no_tool(
    model: str, schema: JsonObject | None
) -> None:
    """A chat paid for `recall` in every request, and a small budget had no room for it."""
    agent = Agent("bot", model=model, output_schema=schema)
    plain = compile_request(agent, message="Hi")
    for tokens in (1_000, 8_000):
        within = compile_request(agent.sees(C.default().budget(tokens)), message="Hi")
        assert within.wire == plain.wire


@pytest.mark.parametrize("model", ["claude-sonnet-5", "gpt-5.6", "gemini-flash-latest"])
@pytest.mark.parametrize("first", ["Hello.", LONG], ids=["short", "long"])
def test_C4_recall_comes_with_the_first_handle_and_within_the_budget(
    model: str, first: str
) -> None:
    session = make_session(("user", first), ("bot", "Yes?"), *TALK, ("user", "last"))
    recalled = 0
    for tokens in (60, 200, 500, 1_000, 2_000, 4_000, 20_000):
        agent = Agent("bot", model=model).sees(C.default().budget(tokens))
        compiled = compile_request(agent, session=session)
        assert compiled.tokens <= tokens
        has_handle = "[handle " in str(compiled.prompt)
        assert (compiled.tools == ["recall"]) == has_handle
        assert "last" in str(compiled.prompt)
        recalled += has_handle
    assert bool(recalled) == (first == LONG)
