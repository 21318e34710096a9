"""Policies: what an agent sees, as an algebra. Rules C1, C2, C5, H6 to H8."""

import asyncio
import random

import pytest

import weft
from weft import Agent, C, Event, Session
from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.declare import Policy
from weft.errors import CompileError, DeclarationError
from weft.session import Actions
from weft.testing import ScriptedModel, call


def said(author: str, text: str, invocation: str, **more: object) -> Event:
    role = "user" if author == "user" else "model"
    return Event(
        author=author,
        content=Content(parts=(Part(text=text),), role=role),
        invocation_id=invocation,
        id=f"{invocation}-{author}-{text}",
        timestamp=float(len(text)),
        **more,  # type: ignore[arg-type]
    )


def used(author: str, name: str, result: str, invocation: str) -> list[Event]:
    id = f"{invocation}-{name}"
    asked = Part(function_call=FunctionCall(name=name, args={}, id=id))
    given = Part(function_response=FunctionResponse(name=name, response={"result": result}, id=id))
    return [
        Event(author=author, content=Content(parts=(asked,), role="model"),
              invocation_id=invocation, id=f"{id}-call", timestamp=1.0),
        Event(author=author, content=Content(parts=(given,), role="user"),
              invocation_id=invocation, id=f"{id}-result", timestamp=1.0),
    ]  # fmt: skip


def talk(turns: int = 4) -> Session:
    """Turns in which the user asks, a scout looks something up, and the bot answers."""
    events: list[Event] = []
    for turn in range(1, turns + 1):
        events.append(said("user", f"question {turn}", f"i{turn}"))
        if turn < turns:
            events += used("scout", "look", f"found {turn}", f"i{turn}")
            events.append(said("scout", f"report {turn}", f"i{turn}"))
            events.append(said("bot", f"answer {turn}", f"i{turn}"))
    return Session("s", events=events)


def texts(policy: Policy, session: Session | None = None, **more: object) -> list[str]:
    bot = Agent("bot", model="gpt-5", instruction="Help.").sees(policy)
    compiled = weft.compile(bot, session=session or talk(), **more)  # type: ignore[arg-type]
    return [
        str(part)
        for item in compiled.prompt.items
        for part in [" ".join(getattr(block, "text", block.__class__.__name__)
                              for block in item.blocks)]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (C.user(), ["question 1", "question 2", "question 3", "question 4"]),
        (C.user("first"), ["question 1", "question 4"]),
        (C.user("last"), ["question 4"]),
        (C.user("bookend"), ["question 1", "question 4"]),
        (C.none(), ["question 4"]),
        (C.select(author="bot"), ["(The conversation begins.)", "answer 1", "answer 2", "answer 3",
                                  "question 4"]),
        (C.select(author="scout", kind="model"), ["question 4"]),
        (C.user() + C.user("first"), ["question 1", "question 2", "question 3", "question 4"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_selector_lets_its_items_through_and_the_current_turn(
    policy: Policy, expected: list[str]
) -> None:
    assert texts(policy) == expected


def test_an_excluded_agents_text_occurs_nowhere() -> None:
    bot = Agent("bot", model="gpt-5").sees(C.without_agents("scout"))
    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        wire = str(weft.compile(bot, session=talk()).lower(dialect))
        assert "report" not in wire
        assert "found" not in wire
        assert "answer 3" in wire


def test_an_agents_traffic_is_told_in_its_name() -> None:
    seen = texts(C.agents("scout"))
    assert seen[:2] == ["[scout] called look({}) [scout] look returned {\"result\":\"found 1\"}",
                        "[scout]: report 1"]  # fmt: skip
    assert seen[-1] == "question 4"
    assert not any("answer" in text for text in seen)


def test_a_window_counts_turns_with_all_that_follows() -> None:
    assert texts(C.window(2))[0] == "question 3"
    assert len(texts(C.window(2))) == 5
    assert texts(C.window(9)) == texts(C.default())


def test_a_wide_window_moves_in_blocks_so_that_requests_extend_each_other() -> None:
    bot = Agent("bot", model="gpt-5").sees(C.window(8))
    starts = []
    for turns in range(8, 25):
        compiled = weft.compile(bot, session=talk(turns))
        asked = [i for i in compiled.prompt.items if i.kind == "user"]
        assert 8 <= len(asked) < 10
        starts.append(asked[0].event)
    assert len(set(starts)) == 9


def test_tags_of_events_select_them() -> None:
    events = list(talk(2).events)
    tagged = said("bot", "remember", "i1", custom_metadata={"weft": {"tags": ["keep"]}})
    session = Session("s", events=[*events[:-1], tagged, events[-1]])
    seen = texts(C.select(tag="keep"), session)
    assert seen == ["(The conversation begins.)", "remember", "question 2"]


def test_state_stands_where_it_was_written_and_stays_there() -> None:
    events = list(talk(3).events)
    wrote = Event(author="bot", invocation_id="i1", id="w", timestamp=1.0,
                  actions=Actions(state_delta={"plan": "go north"}))  # fmt: skip
    session = Session("s", events=[*events[:5], wrote, *events[5:]])
    seen = texts(C.user() + C.state("plan"), session)
    assert seen == ["question 1", "[state] plan: go north", "question 2", "question 3"]
    later = Session("s", events=[*session.events, said("bot", "ok", "i3"), said("user", "n", "i4")])
    assert texts(C.user() + C.state("plan"), later)[:4] == seen


def test_a_value_arrives_once_through_its_best_channel() -> None:
    classifier = Agent("classifier", instruction="Classify.", output_key="intent")
    for policy, place in (
        (C.default(), "system"),
        (C.state("intent") + C.default(), "system"),
        (C.user(), "system"),
    ):
        model = ScriptedModel(["booking-7f", "done"])
        booker = Agent("booker", instruction="Help book. Intent: {intent}").sees(policy)
        flow = classifier >> booker
        asyncio.run(_run(flow, model))
        sent = str(model.wires[1])
        assert sent.count("booking-7f") == 1, (policy, place)
        assert sent.count("I want to fly to London") == 1
    model = ScriptedModel(["booking-7f", "done"])
    booker = Agent("booker", instruction="Help book.").sees(C.state("intent") + C.default())
    asyncio.run(_run(classifier >> booker, model))
    assert str(model.wires[1]).count("booking-7f") == 1


async def _run(flow: object, model: ScriptedModel) -> None:
    config = weft.RunConfig(model=model)
    await weft.run(flow, "I want to fly to London", config=config)  # type: ignore[arg-type]


def test_five_steps_send_hardly_more_than_the_least_that_is_needed() -> None:
    outputs = [f"{word} " * 30 + word for word in ("alpha", "beta", "gamma", "delta", "omega")]
    request = "Write about " + "the sea and its many ships " * 10
    steps: list[Agent] = []
    for number in range(5):
        reads = f" Work on: {{s{number - 1}}}" if number else ""
        step = Agent(f"step{number}", instruction=f"Do part {number}.{reads}")
        steps.append(step.writes(f"s{number}").sees(C.user()))
    model = ScriptedModel(outputs)
    flow = steps[0] >> steps[1] >> steps[2] >> steps[3] >> steps[4]
    asyncio.run(weft.run(flow, request, config=weft.RunConfig(model=model)))  # type: ignore[arg-type]
    sent = sum(weft.count_tokens(wire, model="gpt-5") for wire in model.wires)
    least = 0
    for number in range(5):
        reads = f" Work on: {outputs[number - 1]}" if number else ""
        by_hand = Agent(f"step{number}", model=model, instruction=f"Do part {number}.{reads}")
        wire = weft.compile(by_hand, message=request).wire
        least += weft.count_tokens(wire, model="gpt-5")
    assert sent <= 1.1 * least
    for number, wire in enumerate(model.wires):
        for other, output in enumerate(outputs):
            assert str(wire).count(output) == (1 if other == number - 1 else 0)


def test_a_union_keeps_log_order_repeats_nothing_and_commutes() -> None:
    rng = random.Random(7)
    pool = [
        C.user(), C.user("first"), C.window(1), C.window(2), C.agents("scout"),
        C.select(author="bot"), C.none(), C.nothing(), C.default(), C.window(2).priority(1),
        C.select(kind="results").priority(3),
    ]  # fmt: skip
    session = talk(6)
    whole = [item.key for item in _items(C.default() + C.default(), session)]
    for _ in range(300):
        one, two = rng.choice(pool), rng.choice(pool)
        united = _items(one + two, session)
        assert united == _items(two + one, session), (one, two)
        keys = [item.key for item in united]
        assert len(keys) == len(set(keys))
        known = [key for key in keys if key in whole]
        assert known == sorted(known, key=whole.index)
        assert _items(one + one, session) == _items(one, session)
        assert set(keys) >= {i.key for i in _items(one, session) if i.event}


def _items(policy: Policy, session: Session) -> list[object]:
    bot = Agent("bot", model="gpt-5").sees(policy)
    return list(weft.compile(bot, session=session).prompt.items)


def test_the_users_message_is_in_view_under_every_policy_but_nothing() -> None:
    for policy in (C.none(), C.user("first"), C.window(1), C.agents("nobody"), C.state("x")):
        bot = Agent("bot", model="gpt-5", allow=["WEFT101"]).sees(policy)
        compiled = weft.compile(bot, session=talk(3), message="What now?")
        assert "What now?" in str(compiled.wire), policy
    bot = Agent("bot", model="gpt-5").sees(C.nothing())
    assert "What now?" not in str(weft.compile(bot, session=talk(3), message="What now?").wire)


def test_what_the_agent_did_in_this_turn_is_in_the_next_request() -> None:
    def look(city: str) -> str:
        """Look up a city."""
        return f"{city} is fine"

    for policy in (C.user("first"), C.window(1), C.state("x"), C.agents("a"), C.nothing()):
        model = ScriptedModel([call("look", city="Oslo"), "fine"])
        bot = Agent("bot", model=model, tools=[look], allow=["WEFT101"]).sees(policy)
        weft.run_sync(bot, "How is Oslo?")
        assert "Oslo is fine" in str(model.wires[1]), policy


def test_a_condition_is_decided_by_the_state() -> None:
    policy = C.user("last") + C.when(lambda state: state.get("vip") is True, C.window(3))
    assert texts(policy) == ["question 4"]
    assert texts(policy, state={"vip": True})[0] == "question 2"


def test_a_predicate_cannot_write_into_the_state_it_looks_at() -> None:
    def writes(state: dict[str, object]) -> bool:
        state["vip"] = True
        return True

    log = Session("s", state={"city": "Oslo"})
    with pytest.raises(CompileError, match="raised TypeError"):
        weft.compile(Agent("bot", context=C.when(writes, C.default())), session=log)
    assert log.state == {"city": "Oslo"}


def test_a_predicate_that_raises_is_an_error_that_names_it() -> None:
    def broken(state: dict[str, object]) -> bool:
        return bool(state["missing"])

    with pytest.raises(CompileError, match=r"broken.*KeyError"):
        texts(C.when(broken, C.window(3)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: C.window(0), "n=0"),
        (lambda: C.window("five"), "n='five'"),
        (lambda: C.window(turns=3), "`turns` is not one of its options"),
        (lambda: C.user("frist"), "did you mean 'first'"),
        (lambda: C.default() + C.compact(), "it is a transform"),
        (lambda: C.compact() + C.default(), "it is a transform"),
        (lambda: C.default() | C.default(), "unite two policies with +"),
        (lambda: C.default().budget(100).compact(), "a budget is the last word"),
        (lambda: C.default().budget(100) + C.user(), "covers the whole request"),
        (lambda: C.default() | 3, "is not a transform"),
        (lambda: C.default() + 3, "is not a policy"),
        (lambda: C.default().priority(5), "none of 1, 2, 3, 4"),
        (lambda: C.default().truncate(0), "tokens=0"),
        (lambda: C.default().budget(100, overflow="degrad"), "did you mean 'degrade'"),
        (lambda: C.default().budget(100, reserve=100), "leaves nothing"),
        (lambda: C.default().fresh(), "needs an age"),
        (lambda: C.default().project(), "fields= or exclude="),
        (lambda: C.recent(), "half_life= or decay="),
        (lambda: C.select(), "nothing to select by"),
        (lambda: C.select(kind="resluts"), "did you mean 'results'"),
        (lambda: C.agents(), "list of agent names"),
        (lambda: C.state(), "list of state keys"),
        (lambda: C.relevant(query="a", from_state="b"), "keep one of them"),
        (lambda: C.when(3, C.user()), "cannot be called"),
        (lambda: C.when(lambda state: True, C.compact()), "is not a policy"),
        (lambda: C.default().compact(to=900), "saves nothing"),
        (lambda: C.default().note(""), "not a state key"),
        (lambda: C.default().label("secret"), "is on nothing"),
        (lambda: Agent("x").sees(C.compact()), r"write C.default\(\).compact\(\)"),
        (lambda: Agent("x").sees(3), "is not a policy"),
        (lambda: weft.RunConfig(context=3), "is not a policy"),  # type: ignore[arg-type]
    ],
)
def test_what_is_ill_typed_is_refused_where_it_is_written(wrong: object, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        wrong()  # type: ignore[operator]


def test_an_unknown_word_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"did you mean `C.window`"):
        _ = C.windw
    with pytest.raises(AttributeError, match=r"did you mean `policy.compact`"):
        C.default().compct()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"begin with C.window\(...\), or add \+ C.window"):
        C.default().window(3)  # type: ignore[attr-defined]


def test_policies_are_values_that_print_as_they_are_written() -> None:
    view = C.state("intent").priority(1) + C.window(5).compact().priority(2)
    assert view == C.state("intent").priority(1) + (C.window(5) | C.compact() | C.priority(2))
    assert str(view) == "C.state('intent').priority(1) + C.window(5).compact().priority(2)"
    assert eval(str(view.budget(8000)), {"C": C}) == view.budget(8000)
    assert C.window(5) != C.window(6)
    assert repr(C.default().redact("email")) == "C.default().redact('email')"


def test_a_run_can_give_a_policy_to_agents_that_have_none() -> None:
    model = ScriptedModel(["one", "two", "three", "four"])
    bot = Agent("bot", model=model)
    own = bot.sees(C.default())
    config = weft.RunConfig(context=C.none())
    first = weft.run_sync(bot, "a", config=config)
    weft.run_sync(bot, "b", session=first.session, config=config)
    assert "one" not in str(model.wires[1])
    weft.run_sync(own, "c", session=first.session, config=config)
    assert "one" in str(model.wires[2])


def test_a_pipeline_without_policies_sends_hardly_more_than_the_least() -> None:
    """O2 and O4: what is written to a key is data, and reaches who reads the key."""
    outputs = [f"{word} " * 30 + word for word in ("alpha", "beta", "gamma", "delta", "omega")]
    request = "Write about " + "the sea and its many ships " * 10
    steps: list[Agent] = []
    for number in range(5):
        reads = f" Work on: {{s{number - 1}}}" if number else ""
        step = Agent(f"step{number}", instruction=f"Do part {number}.{reads}")
        steps.append(step.writes(f"s{number}"))
    model = ScriptedModel(outputs)
    flow = steps[0] >> steps[1] >> steps[2] >> steps[3] >> steps[4]
    result = weft.run_sync(flow, request, config=weft.RunConfig(model=model))
    assert result.text == outputs[-1]
    audiences = [event.audience for event in result.events if event.text]
    assert audiences == ["internal"] * 4 + [None]
    for number, wire in enumerate(model.wires):
        for other, output in enumerate(outputs):
            assert str(wire).count(output) == (1 if other == number - 1 else 0)
        assert str(wire).count(request) == 1
    whole = ScriptedModel(outputs)
    everything = [step.sees(C.default()) for step in steps]
    flow = everything[0] >> everything[1] >> everything[2] >> everything[3] >> everything[4]
    weft.run_sync(flow, request, config=weft.RunConfig(model=whole))
    assert str(whole.wires[4]).count(outputs[0]) == 1
