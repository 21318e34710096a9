"""C7: what models are asked for requests happens once, is an event, and replays offline."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft import Agent, C, Event, ModelResponse, Parallel, RunConfig, Runner, Session
from weft.dialects import DIALECTS
from weft.errors import DeclarationError, UsageError
from weft.ir import Prompt
from weft.replay.steps import at_step
from weft.session import Usage
from weft.testing import ScriptedModel, call, cut, usage

SUMMARY = "They want flight KL1204 to Oslo."
LONG = (
    "Please look for flight KL1204 to Oslo. I would like to sit at a window, and far from the"
    " wings if that can be done. My sister comes along, but she books for herself, so there is no"
    " need to think of her. We shall both take the train to the airport in the morning."
)
REPLY = (
    "I found KL1204 to Oslo. There are seats at a window in most rows, and a few of them are far"
    " from the wings. The train to the airport leaves every half hour in the morning, and takes"
    " about twenty minutes when nothing is in its way."
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address of an empty store."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


def bot_with(*answers: object, summaries: object = (SUMMARY,), **options: object) -> Agent:
    """An agent that sums up all but the current turn."""
    script = {"bot": answers, "summarizer": summaries}
    model = ScriptedModel(script)  # type: ignore[arg-type]
    return Agent("bot", model=model, context=C.default().summarize(before=1, **options))  # type: ignore[arg-type]


def model_of(agent: Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def effects_in(session: Session) -> list[dict[str, object]]:
    return [dict(effect) for event in session.events if (effect := event.provenance.effect)]


def shown(prompt: Prompt) -> list[str]:
    """The texts of a request, an item a line."""
    return [getattr(block, "text", "") for item in prompt.items for block in item.blocks]


def asked(model: ScriptedModel, name: str) -> list[Prompt]:
    return [prompt for prompt in model.prompts if prompt.agent == name]


def test_a_model_is_asked_once_for_one_input_and_the_outcome_is_an_event() -> None:
    bot = bot_with(
        REPLY, usage("Good", prompt=9, output=1), "Bye", summaries=[SUMMARY, "They part."]
    )
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    model = model_of(bot)
    assert [prompt.agent for prompt in model.prompts] == ["bot", "summarizer", "bot"]
    assert shown(model.prompts[1]) == [f"user: {LONG}\nbot: {REPLY}"]
    assert shown(model.prompts[2]) == [f"[summary of earlier turns]: {SUMMARY}", "And back?"]
    [effect] = effects_in(second.session)
    assert effect["kind"] == "summary"
    assert effect["outcome"] == SUMMARY
    assert effect["model"] == "scripted"
    third = weft.run_sync(bot, "Thanks", session=second.session)
    assert [prompt.agent for prompt in model.prompts[3:]] == ["summarizer", "bot"]
    assert shown(model.prompts[3]) == ["user: And back?\nbot: Good"]
    assert len(effects_in(third.session)) == 2


def test_an_effect_is_internal_and_its_usage_counts() -> None:
    bot = bot_with(
        REPLY, usage("Good", prompt=9, output=1), summaries=[usage(SUMMARY, prompt=5, output=7)]
    )
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    event = next(event for event in second.events if event.provenance.effect)
    assert event.author == "bot"
    assert event.audience == "internal"
    assert event.content is None
    assert event.usage == Usage(
        prompt_token_count=5, candidates_token_count=7, total_token_count=12
    )
    assert second.usage.total_token_count == 22
    assert second.text == "Good"


def test_a_request_is_rebuilt_offline_byte_for_byte(store: str) -> None:
    bot = bot_with(REPLY, "Good", "Fine", summaries=[SUMMARY, "They talk of the way back."])

    async def go() -> Session:
        async with Runner(bot, store=store) as runner:
            for said in (LONG, "And back?", "By train"):
                await runner.run(user_id="ada", session_id="one", message=said)
            return await runner.session(user_id="ada", session_id="one")

    session = asyncio.run(go())
    again = Session.from_json(session.to_json())
    silent = Agent("bot", model=ScriptedModel([]), context=bot.context)
    wires = [
        wire
        for wire, prompt in zip(model_of(bot).wires, model_of(bot).prompts, strict=True)
        if prompt.agent == "bot"
    ]
    for step, wire in enumerate(wires, 1):
        made = at_step(silent, again, step, agent="bot", dialect=None, config=RunConfig())
        assert made.wire == wire


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (RuntimeError("no network"), "the model failed: RuntimeError: no network"),
        (ModelResponse(error_code="overloaded", error_message="later"), "overloaded: later"),
        (None, "the model returned nothing"),
        ("Error: rate limit exceeded", "the answer is an error or an excuse"),
        ("I'm sorry, I cannot help with that.", "the answer is an error or an excuse"),
        ("They want a flight to Oslo.", "it leaves out: KL1204"),
        ("Flight KL1204 costs 4250 crowns.", "it says what was not said: 4250"),
        ("KL1204 " + "and so on " * 200, "it has 2006 letters, and 1000 are the most"),
        (cut(SUMMARY), "the model returned nothing"),
        (
            ModelResponse(
                content=weft.Content(parts=(weft.Part(text=SUMMARY),), role="model"),
                finish_reason="MAX_TOKENS",
            ),
            "the answer was cut off",
        ),
    ],
)
def test_a_bad_answer_is_told_and_an_extract_stands_in(entry: object, problem: str) -> None:
    bot = bot_with(REPLY, "Good", "Fine", summaries=[entry, "They part."])
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    [effect] = effects_in(second.session)
    assert effect["error"] == problem
    assert "outcome" not in effect
    extract, question = shown(model_of(bot).prompts[2])
    assert question == "And back?"
    assert extract.startswith(
        "[summary of earlier turns]: user: Please look for flight KL1204 to Oslo."
    )
    assert len(extract) < len(LONG)
    compiled = weft.compile(bot, session=second.session.before(len(second.session.events) - 1))
    [said] = [one for one in compiled.diagnostics if one.code == "WEFT504"]
    assert problem in said.message
    third = weft.run_sync(bot, "By train", session=second.session)
    assert len(asked(model_of(bot), "summarizer")) == 2, "only the new turn is asked about"
    assert shown(model_of(bot).prompts[-1])[0] == extract, "the extract is the same the next time"
    assert third.text == "Fine"


def test_nothing_is_lost_from_the_log_when_a_summary_stands_for_it() -> None:
    bot = bot_with(REPLY, "Good")
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    assert [event.text for event in second.session.events if event.text] == [
        LONG,
        REPLY,
        "And back?",
        "Good",
    ]


def test_parallel_branches_ask_once_for_one_fingerprint() -> None:
    calls: list[str] = []

    async def slow(prompt: Prompt) -> str:
        calls.append(prompt.agent)
        await asyncio.sleep(0.02)
        return SUMMARY

    model = ScriptedModel(
        {"greeter": [REPLY], "left": ["l"], "right": ["r"], "summarizer": [slow, slow]}
    )
    greeter = Agent("greeter", model=model)
    first = weft.run_sync(greeter, LONG)
    policy = C.default().summarize(before=1)
    both = Parallel(
        Agent("left", model=model, context=policy), Agent("right", model=model, context=policy)
    )
    second = weft.run_sync(both, "And back?", session=first.session)
    assert second.error is None
    assert calls == ["summarizer"]
    for name in ("left", "right"):
        [prompt] = asked(model, name)
        assert shown(prompt)[0] == f"[summary of earlier turns]: {SUMMARY}"


def test_effects_can_be_turned_off() -> None:
    bot = bot_with(REPLY, "Good", summaries=[])
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session, config=RunConfig(effects=False))
    assert second.text == "Good"
    assert effects_in(second.session) == []
    assert shown(model_of(bot).prompts[1])[0].startswith("[summary of earlier turns]: user: Please")
    with pytest.raises(DeclarationError, match="pass True or False"):
        RunConfig(effects="no")  # type: ignore[arg-type]


def test_effects_count_towards_the_most_calls_and_leave_room_for_the_answer() -> None:
    bot = bot_with(REPLY, "Good", summaries=[])
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(
        bot, "And back?", session=first.session, config=RunConfig(max_llm_calls=1)
    )
    assert second.text == "Good"
    assert effects_in(second.session) == []


def test_a_run_that_goes_on_does_not_ask_again() -> None:
    bot = bot_with(REPLY, RuntimeError("down"), "Good")

    async def go() -> None:
        async with Runner(bot) as runner:
            await runner.run(user_id="ada", session_id="one", message=LONG)
            failed = await runner.run(user_id="ada", session_id="one", message="And back?")
            assert failed.error is not None
            went_on = await runner.resume(user_id="ada", session_id="one")
            assert went_on.text == "Good"

    asyncio.run(go())
    assert [prompt.agent for prompt in model_of(bot).prompts] == ["bot", "summarizer", "bot", "bot"]
    assert model_of(bot).wires[2] == model_of(bot).wires[3]


KILLED = """
import asyncio, os, sys
from weft import Agent, C, Runner
from weft.testing import ScriptedModel

def die(prompt):
    os._exit(9)

model = ScriptedModel({"bot": [sys.argv[2], die], "summarizer": [sys.argv[3]]})
policy = C.default().summarize(before=1).note("log").capture("asked")
bot = Agent("bot", model=model, context=policy)

async def go():
    async with Runner(bot, store=sys.argv[1]) as runner:
        for said in (sys.argv[4], "And back?"):
            await runner.run(user_id="ada", session_id="one", message=said)

asyncio.run(go())
"""


def test_a_process_that_was_killed_leaves_its_effects_to_the_next(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    arguments = [sys.executable, "-c", KILLED, address, REPLY, SUMMARY, LONG]
    assert subprocess.run(arguments, check=False).returncode == 9
    policy = C.default().summarize(before=1).note("log").capture("asked")
    model = ScriptedModel({"bot": ["Good"], "summarizer": []})

    async def go() -> None:
        bot = Agent("bot", model=model, context=policy)
        async with Runner(bot, store=address) as runner:
            went_on = await runner.resume(user_id="ada", session_id="one")
        assert went_on.text == "Good"
        assert went_on.state == {"asked": "And back?", "log": [REPLY, "Good"]}

    asyncio.run(go())
    assert shown(model.prompts[0]) == [f"[summary of earlier turns]: {SUMMARY}", "And back?"]


def test_another_model_can_be_asked() -> None:
    other = ScriptedModel([SUMMARY], name="small", dialect="openai-chat")
    bot = bot_with(REPLY, "Good", model=other)
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    assert len(other.wires) == 1
    assert effects_in(second.session)[0]["model"] == "small"
    assert shown(model_of(bot).prompts[1])[0] == f"[summary of earlier turns]: {SUMMARY}"


def test_a_model_that_does_not_exist_is_a_clear_error() -> None:
    bot = bot_with(REPLY, "Good", model="no-such-model-anywhere")
    first = weft.run_sync(bot, LONG)
    with pytest.raises(UsageError, match="no-such-model-anywhere"):
        weft.run_sync(bot, "And back?", session=first.session)
    with pytest.raises(DeclarationError, match="is not a model"):
        C.default().summarize(model=3)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_summary_with_a_schema_is_asked_for_in_every_dialect(dialect: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "flight": {"type": "string"},
            "open": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["flight", "open"],
        "additionalProperties": False,
    }
    entry = {"flight": "KL1204", "open": []}
    other = ScriptedModel([entry], dialect=dialect)
    bot = bot_with(REPLY, "Good", schema=schema, model=other)
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    [effect] = effects_in(second.session)
    assert effect.get("error") is None
    assert effect["outcome"] == entry
    assert shown(model_of(bot).prompts[1])[0] == (
        '[summary of earlier turns]: {"flight":"KL1204","open":[]}'
    )


def test_an_answer_that_does_not_fit_its_schema_is_not_used() -> None:
    schema = {
        "type": "object",
        "properties": {"flight": {"type": "string"}},
        "required": ["flight"],
    }
    for entry, problem in (("no JSON", "not JSON"), ({"flight": 3}, "flight")):
        bot = bot_with(REPLY, "Good", schema=schema, summaries=[entry])
        first = weft.run_sync(bot, LONG)
        second = weft.run_sync(bot, "And back?", session=first.session)
        [effect] = effects_in(second.session)
        assert problem in str(effect["error"])
        assert shown(model_of(bot).prompts[2])[0].startswith("[summary of earlier turns]: user:")


def test_an_agent_that_is_called_as_a_tool_has_effects_of_its_own() -> None:
    model = ScriptedModel(
        {
            "boss": [call("helper", request="Find a hotel"), "Done"],
            "helper": ["Hotel Opera"],
            "extractor": [{"city": "Oslo"}],
        }
    )
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    helper = Agent(
        "helper", model=model, description="Finds", context=C.default().extract(schema, "place")
    )
    result = weft.run_sync(Agent("boss", model=model, tools=[helper]), "Go to Oslo")
    assert result.error is None
    assert shown(asked(model, "extractor")[0]) == ["user: Find a hotel"]
    assert [
        event.isolation_scope for event in result.session.events if event.provenance.effect
    ] != [None]


def test_what_is_redacted_does_not_reach_the_summarizer_either() -> None:
    answers = ["I wrote to ada@example.org", "Good"]
    model = ScriptedModel({"bot": answers, "summarizer": ["They write to somebody."]})
    policy = C.default().summarize(before=1).redact("email")
    bot = Agent("bot", model=model, context=policy)
    first = weft.run_sync(bot, "Write to ada@example.org")
    second = weft.run_sync(bot, "And back?", session=first.session)
    assert second.error is None
    assert all("ada@example.org" not in str(wire) for wire in model.wires)
    assert second.session.events[0].text == "Write to ada@example.org"


def test_what_is_labelled_does_not_reach_a_summarizer_that_is_not_cleared() -> None:
    other = ScriptedModel(["They talk of a code."], name="small")
    model = ScriptedModel({"bot": ["The code is swordfish-77", "Good"]})
    policy = C.default().summarize(before=1, model=other).label("secret", "code")
    bot = Agent("bot", model=model, context=policy, cleared=["secret"])
    first = weft.run_sync(bot, "What is the code?", state={"code": "swordfish-77"})
    second = weft.run_sync(bot, "And back?", session=first.session)
    assert second.error is None
    assert len(other.wires) == 1
    assert "swordfish-77" not in str(other.wires[0])


def test_an_event_with_an_effect_is_never_a_turn_of_a_request() -> None:
    bot = bot_with(REPLY, "Good")
    first = weft.run_sync(bot, LONG)
    second = weft.run_sync(bot, "And back?", session=first.session)
    made = weft.compile(Agent("bot", model="gpt-5"), session=second.session, message="x")
    assert shown(made.prompt) == [LONG, REPLY, "And back?", "Good", "x"]
    assert all(isinstance(event, Event) for event in second.session.events)
