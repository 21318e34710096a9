"""WRITE: what is captured, noted, extracted and distilled is in the state, as events."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft import Agent, C, CallbackContext, Content, Part, RunConfig, Runner, S, Session, Step
from weft.declare.notes import apply_note
from weft.declare.policy_parts import Strategy
from weft.errors import DeclarationError, MissingVariable
from weft.ir import Prompt
from weft.testing import ScriptedModel, call
from weft.tools import scratchpad
from weft.values import Json

TRIP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address of an empty store."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


def texts(prompt: Prompt) -> list[str]:
    return [getattr(block, "text", "") for item in prompt.items for block in item.blocks]


def asked(model: ScriptedModel, name: str) -> list[Prompt]:
    return [prompt for prompt in model.prompts if prompt.agent == name]


# capture


def test_a_policy_captures_what_the_user_said_before_the_agent_runs() -> None:
    model = ScriptedModel(["1", "2"])
    bot = Agent(
        "bot", model=model, instruction="Asked: {request}", context=C.none().capture("request")
    )
    first = weft.run_sync(bot, "Fly me to Oslo")
    assert first.state["request"] == "Fly me to Oslo"
    assert "Asked: Fly me to Oslo" in model.prompts[0].system_text
    event = first.session.events[1]
    assert event.actions.state_delta == {"request": "Fly me to Oslo"}
    assert event.content is None
    second = weft.run_sync(bot, "By train", session=first.session)
    assert second.state["request"] == "By train"


def test_what_is_captured_and_what_a_callback_writes_is_one_event() -> None:
    def before_agent(ctx: CallbackContext) -> None:
        ctx.state["length"] = len(str(ctx.state["request"]))

    bot = Agent(
        "bot",
        model=ScriptedModel(["1"]),
        before_agent=before_agent,
        context=C.default().capture("request"),
    )
    result = weft.run_sync(bot, "Hello")
    assert result.session.events[1].actions.state_delta == {"request": "Hello", "length": 5}


def test_s_capture_is_a_step_that_leaves_an_event() -> None:
    model = ScriptedModel(["booking", "Done"])
    triage = Agent("triage", model=model, instruction="Sort: {request}", output_key="intent")
    booker = Agent("booker", model=model, instruction="{intent} for: {request}", context=C.none())
    flow = S.capture("request") >> triage >> booker
    assert isinstance(S.capture("request"), Step)
    assert S.capture("request") == S.capture("request")
    assert S.capture("request").writes == ("request",)
    result = weft.run_sync(flow, "Fly me to Oslo")
    assert "Sort: Fly me to Oslo" in model.prompts[0].system_text
    assert "booking for: Fly me to Oslo" in model.prompts[1].system_text
    [event] = [one for one in result.session.events if one.author == "capture_request"]
    assert event.actions.state_delta == {"request": "Fly me to Oslo"}


def test_s_names_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"did you mean `S\.capture`"):
        S.captur  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(DeclarationError, match="not a state key"):
        S.capture("")
    assert S.capture("user:name").name == "capture_user_name"


# note


@pytest.mark.parametrize(
    ("strategy", "notes", "value"),
    [
        ("append", ["one", "one", "two", "one"], ["one", "two", "one"]),
        ("replace", ["one", "two"], "two"),
        (
            "merge",
            ['{"a": {"x": 1}, "l": [1]}', '```json\n{"a": {"y": 2}, "l": [1, 2]}\n```'],
            {"a": {"x": 1, "y": 2}, "l": [1, 2]},
        ),
        ("merge", ["[1, 2]", "[2, 3]"], [1, 2, 3]),
        ("merge", ["one", "two", "one"], ["one", "two"]),
        ("merge", ['{"a": 1}', "and more"], [{"a": 1}, "and more"]),
        ("merge", ['{"a": 1}', "{broken"], [{"a": 1}, "{broken"]),
        (
            "checklist",
            ["Plan:\n- [ ] pack\n- [ ] pay", "- [x] Pack.\n* [ ] call"],
            [
                {"text": "pack", "done": True},
                {"text": "pay", "done": False},
                {"text": "call", "done": False},
            ],
        ),
        ("checklist", ["nothing to tick off"], None),
    ],
)
def test_each_strategy_does_what_it_says(strategy: Strategy, notes: list[str], value: Json) -> None:
    held: Json = None
    for note in notes:
        held = apply_note(held, note, strategy)
    assert held == value


def test_an_answer_is_noted_in_the_event_that_has_it(store: str) -> None:
    model = ScriptedModel(["Oslo", "Bergen", "Bergen"])
    bot = Agent("bot", model=model, context=(C.none() + C.notes("log")).note("log"))

    async def go() -> Session:
        for number in range(3):
            async with Runner(bot, store=store) as runner:
                if store.startswith("memory"):
                    for _ in range(3):
                        await runner.run(user_id="ada", session_id="one", message="Where?")
                    return await runner.session(user_id="ada", session_id="one")
                await runner.run(user_id="ada", session_id="one", message="Where?")
                session = await runner.session(user_id="ada", session_id="one")
            assert len(session.events) == 2 * (number + 1)
        return session

    session = asyncio.run(go())
    assert session.state["log"] == ["Oslo", "Bergen"]
    deltas = [
        event.actions.state_delta.get("log") for event in session.events if event.author == "bot"
    ]
    assert deltas == [["Oslo"], ["Oslo", "Bergen"], None]
    assert texts(model.prompts[2]) == ["[notes] log:\n- Oslo\n- Bergen", "Where?"]


def test_only_a_final_answer_is_noted() -> None:
    def look() -> str:
        """Look."""
        return "found"

    model = ScriptedModel(
        [[Part(text="Let me look"), call("look")], '{"city": 3}', '{"city": "Oslo"}']
    )
    bot = Agent(
        "bot",
        model=model,
        tools=[look],
        output_schema=TRIP,
        output_key="trip",
        context=C.default().note("log"),
    )
    result = weft.run_sync(bot, "Where?")
    assert result.state["log"] == [{"city": "Oslo"}]
    assert result.state["trip"] == {"city": "Oslo"}


def test_a_callbacks_answer_is_noted_too() -> None:
    def before_agent(ctx: CallbackContext) -> Content:
        return Content(parts=(Part(text="closed"),), role="model")

    bot = Agent(
        "bot", model=ScriptedModel([]), before_agent=before_agent, context=C.default().note("log")
    )
    assert weft.run_sync(bot, "Hello?").state["log"] == ["closed"]


def test_notes_are_taken_only_while_their_condition_holds() -> None:
    policy = C.default() + C.when(lambda state: state.get("vip") is True, C.default().note("log"))
    bot = Agent("bot", model=ScriptedModel(["one", "two"]), context=policy)
    first = weft.run_sync(bot, "Hello?")
    assert "log" not in first.state
    second = weft.run_sync(bot, "Hello?", session=first.session, state={"vip": True})
    assert second.state["log"] == ["two"]


# scratchpad


def test_a_model_takes_notes_and_reads_them_back() -> None:
    model = ScriptedModel(
        [
            [call("scratchpad", note="Oslo is north"), call("scratchpad", note="Rome is south")],
            call("scratchpad"),
            "Done",
            "Still there",
        ]
    )
    bot = Agent("bot", model=model, tools=[scratchpad()], context=C.default() + C.notes("notes"))
    first = weft.run_sync(bot, "Learn")
    assert first.state["notes"] == ["Oslo is north", "Rome is south"]
    results = [result.response for event in first.session.events for result in event.results]
    assert results == [
        {"notes": ["Oslo is north"]},
        {"notes": ["Oslo is north", "Rome is south"]},
        {"notes": ["Oslo is north", "Rome is south"]},
    ]
    weft.run_sync(bot, "And now?", session=first.session)
    assert any(
        "[notes] notes:\n- Oslo is north\n- Rome is south" in text
        for text in texts(model.prompts[-1])
    )


def test_a_scratchpad_can_be_a_checklist() -> None:
    model = ScriptedModel(
        [
            call("plan", note="- [ ] pack\n- [ ] pay"),
            call("plan", note="- [x] pay"),
            call("plan", note="hm"),
            "Done",
        ]
    )
    pad = scratchpad("todo", strategy="checklist", name="plan")
    result = weft.run_sync(Agent("bot", model=model, tools=[pad]), "Go")
    assert result.state["todo"] == [{"text": "pack", "done": False}, {"text": "pay", "done": True}]
    answers = [r.response for event in result.session.events for r in event.results]
    assert answers[2] is not None
    assert "error" in answers[2]
    shown = weft.compile(
        Agent("x", context=C.notes("todo", format="checklist")), session=result.session
    )
    assert "[notes] todo:\n- [ ] pack\n- [x] pay" in texts(shown.prompt)


def test_a_scratchpad_refuses_what_it_cannot_do() -> None:
    with pytest.raises(DeclarationError, match="strategy"):
        scratchpad(strategy="stack")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="not a state key"):
        scratchpad("")


# extract


def test_what_a_schema_asks_for_is_in_the_state_before_the_request(store: str) -> None:
    script = {
        "bot": [call("look"), "Booked", "Fine"],
        "extractor": [{"city": "Oslo"}, {"city": "Oslo", "days": 3}],
    }
    model = ScriptedModel(script)

    def look() -> str:
        """Look."""
        return "found"

    bot = Agent(
        "bot",
        model=model,
        tools=[look],
        instruction="Trip: {trip}",
        context=C.default().extract(TRIP, "trip"),
    )

    async def go() -> Session:
        async with Runner(bot, store=store) as runner:
            for said in ("Fly me to Oslo", "For 3 days"):
                await runner.run(user_id="ada", session_id="one", message=said)
            return await runner.session(user_id="ada", session_id="one")

    session = asyncio.run(go())
    assert [prompt.agent for prompt in model.prompts] == [
        "extractor",
        "bot",
        "bot",
        "extractor",
        "bot",
    ]
    assert [p.system_text.splitlines()[-1] for p in asked(model, "bot")] == [
        'Trip: {"city":"Oslo"}',
        'Trip: {"city":"Oslo"}',
        'Trip: {"city":"Oslo","days":3}',
    ]
    assert session.state["trip"] == {"city": "Oslo", "days": 3}
    effects = [event for event in session.events if event.provenance.effect]
    assert [event.actions.state_delta for event in effects] == [
        {"trip": {"city": "Oslo"}},
        {"trip": {"city": "Oslo", "days": 3}},
    ]
    made = weft.compile(bot, session=session.before(len(session.events) - 1))
    assert made.wire == model.wires[-1]
    assert made.prompt.wants == ()


def test_a_schema_that_nothing_fits_leaves_the_state_as_it_was() -> None:
    nothing = {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": ["x"], "maxLength": 0}},
        "required": ["a"],
    }
    model = ScriptedModel({"bot": ["Good", "Fine"], "extractor": [{"a": "x"}, {"a": ""}]})
    bot = Agent("bot", model=model, context=C.default().extract(nothing, "value"))
    first = weft.run_sync(bot, "Hello")
    assert first.text == "Good"
    assert "value" not in first.state
    compiled = weft.compile(bot, session=first.session.before(len(first.session.events) - 1))
    assert [one.code for one in compiled.diagnostics] == ["WEFT504"]
    assert "`value` is not extracted" in compiled.diagnostics[0].message


def test_what_is_extracted_is_not_missing_in_a_strict_run() -> None:
    model = ScriptedModel({"bot": ["Booked."], "extractor": [{"city": "Oslo"}]})
    bot = Agent("bot", instruction="To {trip.city}", context=C.default().extract(TRIP, "trip"))
    result = weft.run_sync(bot, "Fly me to Oslo", config=RunConfig(model=model, strict=True))
    assert result.text == "Booked."
    assert "To Oslo" in str(model.prompts[-1])


def test_what_could_not_be_extracted_is_missing_in_a_strict_run() -> None:
    for answer, effects in (({"town": "Oslo"}, True), ({"city": "Oslo"}, False)):
        model = ScriptedModel({"bot": ["Booked."], "extractor": [answer]})
        bot = Agent("bot", instruction="To {trip.city}", context=C.default().extract(TRIP, "trip"))
        config = RunConfig(model=model, strict=True, effects=effects)
        with pytest.raises(MissingVariable, match=r"trip\.city"):
            weft.run_sync(bot, "Fly me to Oslo", config=config)
        assert not asked(model, "bot")


def test_a_rewound_extraction_is_made_again() -> None:
    model = ScriptedModel({"bot": ["1", "2"], "extractor": [{"city": "Oslo"}, {"city": "Rome"}]})
    bot = Agent(
        "bot", model=model, instruction="{trip?}", context=C.default().extract(TRIP, "trip")
    )

    async def go() -> None:
        async with Runner(bot) as runner:
            first = await runner.run(user_id="ada", session_id="one", message="Fly me")
            await runner.rewind(user_id="ada", session_id="one", invocation_id=first.invocation_id)
            session = await runner.session(user_id="ada", session_id="one")
            assert "trip" not in session.state
            again = await runner.run(user_id="ada", session_id="one", message="Fly me")
            assert again.state["trip"] == {"city": "Rome"}

    asyncio.run(go())


def test_what_lasts_for_one_invocation_is_written_again_without_asking(tmp_path: Path) -> None:
    model = ScriptedModel({"bot": [RuntimeError("down"), "Good"], "extractor": [{"city": "Oslo"}]})
    bot = Agent(
        "bot",
        model=model,
        instruction="{temp:trip?}",
        context=C.default().extract(TRIP, "temp:trip"),
    )

    async def go() -> None:
        address = f"sqlite:///{tmp_path}/weft.db"
        async with Runner(bot, store=address) as runner:
            await runner.run(user_id="ada", session_id="one", message="Fly me to Oslo")
        async with Runner(bot, store=address) as later:
            assert (await later.resume(user_id="ada", session_id="one")).text == "Good"

    asyncio.run(go())
    assert [prompt.agent for prompt in model.prompts] == ["extractor", "bot", "bot"]
    assert all('{"city":"Oslo"}' in prompt.system_text for prompt in asked(model, "bot"))


# distill


def facts(*pairs: tuple[str, int]) -> dict[str, Json]:
    return {"facts": [{"fact": fact, "source": number} for fact, number in pairs]}


def test_facts_have_sources_and_grow_with_the_conversation() -> None:
    model = ScriptedModel(
        {
            "bot": ["Which day?", "Booked KL1204", "Bye"],
            "distiller": [
                facts(("The user wants to fly to Oslo", 1)),
                facts(
                    ("The flight is on May 12", 2),
                    ("The flight costs 900 EUR", 2),
                    ("He flies to Rome", 2),
                ),
                facts(("KL1204 is booked", 1)),
            ],
        }
    )
    bot = Agent("bot", model=model, context=(C.default() + C.notes("facts")).distill("facts"))
    first = weft.run_sync(bot, "Fly me to Oslo")
    said = first.session.events[0].id
    assert first.state["facts"] == [{"fact": "The user wants to fly to Oslo", "source": said}]
    second = weft.run_sync(bot, "On May 12", session=first.session)
    assert texts(asked(model, "distiller")[1]) == ["[1] bot: Which day?\n[2] user: On May 12"]
    held = second.state["facts"]
    assert isinstance(held, list)
    assert [fact["fact"] for fact in held if isinstance(fact, dict)] == [
        "The user wants to fly to Oslo",
        "The flight is on May 12",
    ]
    effect = [one for event in second.session.events if (one := event.provenance.effect)][-1]
    assert effect["dropped"] == ["The flight costs 900 EUR", "He flies to Rome"]
    compiled = weft.compile(bot, session=second.session.before(len(second.session.events) - 1))
    assert any("2 of the facts" in one.message for one in compiled.diagnostics)
    third = weft.run_sync(bot, "Thanks", session=second.session)
    shown = texts(asked(model, "bot")[-1])
    assert any(
        text.startswith("[notes] facts:\n- The user wants to fly to Oslo\n- The flight")
        for text in shown
    )
    assert len(asked(model, "distiller")) == 3
    assert third.error is None


def test_facts_that_no_source_says_are_not_kept_and_nothing_is_lost() -> None:
    model = ScriptedModel(
        {
            "bot": ["Which day?", "Good"],
            "distiller": [
                facts(("It costs 900 EUR", 1), ("x", 9)),
                facts(("The user wants to fly to Oslo", 1)),
            ],
        }
    )
    bot = Agent("bot", model=model, context=C.default().distill("facts"))
    first = weft.run_sync(bot, "Fly me to Oslo")
    assert "facts" not in first.state
    second = weft.run_sync(bot, "On May 12", session=first.session)
    assert "[1] user: Fly me to Oslo" in texts(asked(model, "distiller")[1])[0], (
        "it is looked at again"
    )
    assert len(second.state["facts"]) == 1  # type: ignore[arg-type]
