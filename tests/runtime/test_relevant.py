"""Relevance through real runs: what was asked finds what was said, and nothing else is sent."""

import json
from typing import cast

import pytest

import weft
from weft import Agent, C, Session
from weft.ir import Prompt
from weft.meaning import is_installed
from weft.session import Event
from weft.testing import ScriptedModel, call, make_session
from weft.values import JsonObject

LONG_AGO = (
    ("user", "My locker at the station has the code 4711."),
    ("bot", "I will remember the locker."),
)
SMALL_TALK = [
    ("user" if number % 2 == 0 else "bot", f"Small talk number {number} about sunny mornings.")
    for number in range(40)
]


def talk() -> Session:
    return make_session(*LONG_AGO, *SMALL_TALK)


def said(wire: JsonObject) -> list[str]:
    """The texts of a chat request behind its system text."""
    messages = cast("list[JsonObject]", wire["messages"])
    return [str(message.get("content")) for message in messages[1:]]


def scripted(*script: object) -> ScriptedModel:
    return ScriptedModel(list(script), dialect="openai-chat")  # type: ignore[arg-type]


def test_the_question_finds_what_was_said_long_ago() -> None:
    model = scripted("4711.")
    bot = Agent("bot", model=model, context=C.relevant(top_k=2))
    result = weft.run_sync(bot, "What is the code of my locker?", session=talk())
    assert said(model.wires[0]) == [
        "My locker at the station has the code 4711.",
        "I will remember the locker.",
        "What is the code of my locker?",
    ]
    assert len(result.session.events) == 44, "nothing is lost from the log"


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_only_what_fits_is_sent_in_every_dialect(dialect: str) -> None:
    model = ScriptedModel(["4711."], dialect=dialect)
    bot = Agent("bot", model=model, context=C.relevant().fit(60))
    weft.run_sync(bot, "What is the code of my locker?", session=talk())
    sent = json.dumps(model.wires[0])
    assert "4711" in sent
    assert sent.count("Small talk") <= 3


def test_the_selection_stays_the_same_within_a_turn() -> None:
    def look(place: str) -> dict[str, str]:
        """Look at a place."""
        return {"seen": f"a locker in {place} with small talk and sunny mornings"}

    model = scripted(call("look", place="Oslo"), call("look", place="Bergen"), "Done.")
    bot = Agent("bot", model=model, tools=[look], context=C.relevant().fit(120))
    weft.run_sync(bot, "What is the code of my locker?", session=talk())
    first, second, third = (cast("list[JsonObject]", wire["messages"]) for wire in model.wires)
    assert second[: len(first)] == first
    assert third[: len(second)] == second


def test_a_call_is_found_with_its_result() -> None:
    def find_order(id: str) -> dict[str, str]:
        """Find an order."""
        return {"status": "shipped", "carrier": "Posten"}

    first = scripted(call("find_order", id="A-77"), "It is on its way.")
    bot = Agent("bot", model=first, tools=[find_order], context=C.relevant(top_k=1))
    session = weft.run_sync(bot, "Look up my order A-77").session
    for author, text in SMALL_TALK:
        content = weft.Content(
            role="user" if author == "user" else "model", parts=[weft.Part(text=text)]
        )
        session = session.append(Event(author=author, content=content, invocation_id="later"))
    model = scripted("Posten.")
    asked = Agent("bot", model=model, tools=[find_order], context=C.relevant(top_k=1))
    weft.run_sync(asked, "Which carrier has it?", session=session)
    messages = cast("list[JsonObject]", model.wires[0]["messages"])
    roles = [message["role"] for message in messages]
    assert roles[-3:] == ["assistant", "tool", "user"]
    assert "Posten" in json.dumps(messages[-2])


def test_the_query_may_come_from_the_state() -> None:
    model = scripted("Yes.")
    bot = Agent("bot", model=model, context=C.relevant(from_state="topic", top_k=1))
    weft.run_sync(bot, "Go on.", session=talk(), state={"topic": "the locker code"})
    assert said(model.wires[0]) == ["My locker at the station has the code 4711.", "Go on."]


@pytest.mark.skipif(not is_installed(), reason="wordllama is not installed")
def test_vectors_find_what_was_said_in_other_words() -> None:
    model = scripted("Yes.")
    bot = Agent("bot", model=model, context=C.relevant(top_k=1, scorer="embedding"))
    weft.run_sync(bot, "Which digits open my luggage box?", session=talk())
    assert said(model.wires[0])[0] == "My locker at the station has the code 4711."


def test_a_model_says_what_is_relevant_and_is_asked_once() -> None:
    def judged(prompt: Prompt) -> str:
        listed = str(prompt.items[-1].blocks[0])
        number = listed.split("My locker at")[0].rsplit("\\n", 1)[-1].strip(". ")
        return json.dumps({"relevant": [int(number)]})

    model = ScriptedModel(
        {"judge": [judged], "bot": [call("wait"), "4711."]}, dialect="openai-chat"
    )

    def wait() -> str:
        """Wait a little."""
        return "waited"

    bot = Agent("bot", model=model, tools=[wait], context=C.relevant(scorer="model"))
    result = weft.run_sync(bot, "What is the code of my locker?", session=talk())
    asked = [prompt.agent for prompt in model.prompts]
    assert asked == ["judge", "bot", "bot"]
    assert said(model.wires[1]) == [
        "My locker at the station has the code 4711.",
        "What is the code of my locker?",
    ]
    again = weft.compile(bot, session=result.session)
    assert "Small talk" not in json.dumps(again.wire)


def test_a_judge_that_fails_is_done_without() -> None:
    model = ScriptedModel({"judge": [RuntimeError("503")], "bot": ["4711."]}, dialect="openai-chat")
    bot = Agent("bot", model=model, context=C.relevant(scorer="model", top_k=1))
    weft.run_sync(bot, "What is the code of my locker?", session=talk())
    assert said(model.wires[-1])[0] == "My locker at the station has the code 4711."


def test_recent_turns_stay_and_old_ones_fade() -> None:
    model = scripted("Hm.")
    bot = Agent("bot", model=model, context=C.recent(half_life=2, min_score=0.5))
    weft.run_sync(bot, "What is the code of my locker?", session=talk())
    sent = said(model.wires[0])
    assert len(sent) == 5
    assert sent[0] == "Small talk number 36 about sunny mornings."


def test_less_than_a_quarter_of_a_long_log_is_sent() -> None:
    whole = weft.compile(
        Agent("bot", model="gpt-4o"), session=talk(), message="What is the code of my locker?"
    )
    chosen = weft.compile(
        Agent("bot", model="gpt-4o", context=C.relevant().fit(100)),
        session=talk(),
        message="What is the code of my locker?",
    )
    assert chosen.tokens * 4 < whole.tokens


def test_a_query_that_is_not_in_the_state_is_told() -> None:
    log = make_session(("user", "I live in Oslo"), ("bot", "Noted"), ("user", "Where do I live?"))
    bot = Agent("bot", model="gpt-5").sees(C.relevant(from_state="topic"))
    without = weft.compile(bot, session=log)
    assert [one.code for one in without.diagnostics] == ["WEFT101"]
    assert not weft.compile(bot, session=log, state={"topic": "Oslo"}).diagnostics


def test_what_is_not_told_takes_no_room() -> None:
    model = ScriptedModel(
        {"desk": [call("transfer_to_agent", agent_name="clerk")], "clerk": ["Here."]}
    )
    clerk = Agent("clerk", model=model, description="Knows.", context=C.default().fit(400))
    weft.run_sync(Agent("desk", model=model, sub_agents=[clerk]), "Where are the pianos?")
    assert [item.kind for item in model.prompts[1].items] == ["user"]
