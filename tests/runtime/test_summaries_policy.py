"""C.summarize: what lies back becomes a summary, in blocks, and nothing that matters is lost."""

import itertools
import random

import pytest

import weft
from weft import Agent, C, Content, Event, Part, RunConfig, Session, ToolContext
from weft.content import call_part, result_part
from weft.errors import DeclarationError
from weft.ir import Prompt
from weft.ir.prompt import show_block
from weft.testing import ScriptedModel, call


def shown(prompt: Prompt) -> list[str]:
    return [show_block(block) for item in prompt.items for block in item.blocks]


def talk(turns: int, words: str = "something") -> Session:
    """A session of so many finished turns."""
    events: list[Event] = []
    for number in range(1, turns + 1):
        inside = {"invocation_id": f"i{number}", "timestamp": float(number)}
        said = Content(parts=(Part(text=f"question {number} about {words}"),), role="user")
        events.append(Event(author="user", content=said, id=f"q{number}", **inside))
        told = Content(parts=(Part(text=f"answer {number} about {words}"),), role="model")
        events.append(Event(author="bot", content=told, id=f"a{number}", **inside))
    return Session("s", events=events)


def summaries(prompt: Prompt) -> str:
    """A summary that names the turns it is about."""
    said = [text for text in shown(prompt) if "question" in text or "turns" in text]
    words = [word for text in said for word in text.split() if word.isdigit()]
    return "turns " + " ".join(dict.fromkeys(words))


def script(count: int) -> ScriptedModel:
    return ScriptedModel(
        {"bot": [f"reply {n}" for n in range(count)], "summarizer": [summaries] * 99}
    )


def test_a_golden_request_through_a_run() -> None:
    model = ScriptedModel(
        {"bot": ["Good"], "summarizer": ["They ask about order A-4711."]}, dialect="openai-chat"
    )
    bot = Agent("bot", model=model, instruction="Help.", context=C.default().summarize(before=2))
    weft.run_sync(bot, "And now?", session=talk(2, "order A-4711"))
    assert model.wires[1]["messages"] == [
        {"role": "system", "content": "You are bot.\n\nHelp."},
        {"role": "user", "content": "[summary of earlier turns]: They ask about order A-4711."},
        {"role": "user", "content": "question 2 about order A-4711"},
        {"role": "assistant", "content": "answer 2 about order A-4711"},
        {"role": "user", "content": "And now?"},
    ]


def test_summaries_move_in_blocks_and_what_was_sent_keeps_its_bytes() -> None:
    """C5: between two blocks every request extends the one before."""
    model = script(12)
    bot = Agent("bot", model=model, context=C.default().summarize(before=4))
    session = Session("s")
    for number in range(12):
        session = weft.run_sync(bot, f"question {number}", session=session).session
    requests = [shown(prompt) for prompt in model.prompts if prompt.agent == "bot"]
    broken = [
        at
        for at, (one, two) in enumerate(itertools.pairwise(requests), 1)
        if two[: len(one)] != one
    ]
    assert broken == [7, 11], "one break for every block of four turns"
    assert len(model.prompts) == 12 + 2
    assert sum("[summary" in text for text in requests[-1]) == 2
    assert requests[10][0] == requests[11][0], "the first summary is not written again"


def test_every_says_how_many_turns_a_summary_covers() -> None:
    model = script(1)
    bot = Agent("bot", model=model, context=C.default().summarize(before=1, every=3))
    weft.run_sync(bot, "next", session=talk(7))
    assert shown(model.prompts[-1])[:3] == [
        "user: [summary of earlier turns]: turns 1 2 3",
        "user: [summary of earlier turns]: turns 4 5 6",
        "user: question 7 about something",
    ]


def test_many_summaries_in_a_row_become_one() -> None:
    model = script(1)
    bot = Agent("bot", model=model, context=C.default().summarize(before=1))
    result = weft.run_sync(bot, "next", session=talk(9))
    assert shown(model.prompts[-1]) == [
        "user: [summary of earlier turns]: turns 1 2 3 4 5 6 7 8",
        "user: [summary of earlier turns]: turns 9",
        "user: next",
    ]
    assert sum(event.provenance.effect is not None for event in result.session.events) == 10
    again = weft.compile(bot, session=result.session.before(len(result.session.events) - 1))
    assert shown(again.prompt) == shown(model.prompts[-1])


def test_only_results_or_only_other_agents_may_be_summed_up() -> None:
    def look(city: str) -> str:
        """Look a city up."""
        return f"{city} is large. " * 40

    model = ScriptedModel(
        {"bot": [call("look", city="Oslo"), "Large", "Bye"], "summarizer": ["Oslo is large."]}
    )
    bot = Agent(
        "bot", model=model, tools=[look], context=C.default().summarize(before=1, scope="results")
    )
    first = weft.run_sync(bot, "How large is Oslo?")
    weft.run_sync(bot, "Thanks", session=first.session)
    assert shown(model.prompts[-1]) == [
        "user: How large is Oslo?",
        "user: [summary of earlier turns]: Oslo is large.",
        "model: Large",
        "user: Thanks",
    ]
    assert "Oslo is large. Oslo is large." in shown(model.prompts[2])[0]
    other = Agent(
        "other",
        model=ScriptedModel({"other": ["Hm"], "summarizer": ["The bot speaks."]}),
        context=C.default().summarize(before=1, scope="agents"),
    )
    weft.run_sync(other, "Hello", session=talk(1))
    assert isinstance(other.model, ScriptedModel)
    assert shown(other.model.prompts[-1]) == [
        "user: question 1 about something",
        "user: [summary of earlier turns]: The bot speaks.",
        "user: Hello",
    ]


def test_what_is_pinned_stays_as_it_was_said() -> None:
    model = ScriptedModel({"bot": ["Good"] * 2, "summarizer": ["They talk."] * 2})
    policy = C.default().summarize(before=1) + C.user("first").priority(1)
    weft.run_sync(Agent("bot", model=model, context=policy), "next", session=talk(2))
    assert shown(model.prompts[-1]) == [
        "user: question 1 about something",
        "user: [summary of earlier turns]: They talk.",
        "user: [summary of earlier turns]: They talk.",
        "user: next",
    ]
    first = C.default().priority(1).summarize(before=1)
    weft.run_sync(Agent("bot", model=model, context=first), "next", session=talk(2))
    assert len(shown(model.prompts[-1])) == 5


def test_an_unanswered_question_and_what_is_to_be_done_must_be_in_the_summary() -> None:
    said = "Which seat did you take for me?"
    events = [
        Event(
            author="user",
            id="q1",
            invocation_id="1",
            content=Content(parts=(Part(text=said),), role="user"),
        ),
        Event(
            author="user",
            id="q2",
            invocation_id="2",
            content=Content(parts=(Part(text="Hello"),), role="user"),
        ),
        Event(
            author="bot",
            id="a2",
            invocation_id="2",
            content=Content(
                parts=(Part(text="TODO: send the invoice to accounting"),), role="model"
            ),
        ),
    ]
    for summary, problem in (
        ("They greet. The invoice is still to be sent to accounting.", "Which seat did you take"),
        ("They greet; the user asks which seat was taken.", "TODO: send the invoice"),
        ("The user asks which seat was taken for them; to do: send the invoice to accounting.", ""),
    ):
        model = ScriptedModel({"bot": ["Good"], "summarizer": [summary]})
        bot = Agent("bot", model=model, context=C.default().summarize(before=1, every=2))
        result = weft.run_sync(bot, "next", session=Session("s", events=events))
        [effect] = [one for event in result.session.events if (one := event.provenance.effect)]
        assert problem in str(effect.get("error", ""))
        assert bool(problem) == ("error" in effect)
        request = "\n".join(shown(model.prompts[-1]))
        assert "seat" in request
        assert "invoice" in request


def test_a_prompt_of_the_authors_own_is_asked() -> None:
    model = ScriptedModel({"bot": ["Good"], "summarizer": ["Kurz."]})
    policy = C.default().summarize(before=1, prompt="Fasse {dies} kurz zusammen.")
    weft.run_sync(Agent("bot", model=model, context=policy), "next", session=talk(1))
    assert "Fasse {dies} kurz zusammen." in model.prompts[0].system_text


def test_bad_options_are_refused_where_they_are_written() -> None:
    for options, words in (
        ({"before": -1}, "whole number"),
        ({"every": 0}, "whole number"),
        ({"scope": "everything"}, "scope"),
        ({"schema": {"type": "nonsense"}}, "JSON Schema"),
        ({"prompt": " "}, "not a text"),
        ({"befor": 3}, "did you mean `before`"),
    ):
        with pytest.raises(DeclarationError, match=words):
            C.default().summarize(**options)  # type: ignore[arg-type]
    assert (
        str(C.default().summarize(before=3, every=2)) == "C.default().summarize(before=3, every=2)"
    )


def test_state_notes_and_open_calls_are_not_summed_up() -> None:
    def wait(ctx: ToolContext) -> None:
        """Wait for somebody."""

    model = ScriptedModel({"bot": ["Good"], "summarizer": ["They talk."]})
    policy = C.default().summarize(before=1) + C.state("plan")
    bot = Agent("bot", model=model, context=policy)
    weft.run_sync(bot, "next", session=talk(1), state={"plan": "Go north"})
    assert any("[state] plan: Go north" in text for text in shown(model.prompts[-1]))


WORDS = [
    "flight KL1204",
    "鈴木さんに聞いて",
    "cost 1,250.00 EUR",
    "- [ ] pay it",
    "see /srv/app/main.py",
    "🙂👍🏽",
    "mail ada@example.org",
    '{"id": 77123, "ok": true}',
    "ERROR 500 at 10:45",
]


def random_session(seed: int) -> Session:
    pick = random.Random(seed)
    events: list[Event] = []

    def add(author: str, invocation: str, *parts: Part, role: str = "model") -> None:
        content = Content(parts=parts, role=role)  # type: ignore[arg-type]
        events.append(
            Event(author=author, content=content, invocation_id=invocation, id=f"e{len(events)}")
        )

    for turn in range(pick.randint(1, 14)):
        inside = f"i{turn}"
        add(
            "user",
            inside,
            Part(text=" ".join(pick.choices(WORDS, k=pick.randint(1, 6)))),
            role="user",
        )
        for number in range(pick.randint(0, 2)):
            name = f"c{turn}x{number}"
            add("bot", inside, call_part("look", {"n": number}, id=name))
            value = " ".join(pick.choices(WORDS, k=pick.randint(1, 90)))
            add("bot", inside, result_part("look", {"result": value}, id=name), role="user")
        if pick.random() < 0.8:
            add(pick.choice(["bot", "bot", "scout"]), inside, Part(text=pick.choice(WORDS)))
    return Session("s", events=events)


def test_laws_hold_for_random_sessions() -> None:
    """Order and pairs are kept, nothing of the current turn is touched, it is the same twice."""
    for seed in range(60):
        pick = random.Random(seed)
        session = random_session(seed)
        policy = C.default().summarize(
            before=pick.randint(0, 5),
            every=pick.choice([None, 1, 3]),
            scope=pick.choice(["all", "all", "results", "agents"]),
        )
        bot = Agent("bot", model="gpt-5", context=policy)
        made = weft.compile(bot, session=session, message="And now?")
        again = weft.compile(bot, session=Session.from_json(session.to_json()), message="And now?")
        assert made.wire == again.wire
        items = list(made.prompt.items)
        assert [item.position for item in items] == sorted(item.position for item in items)
        assert shown(made.prompt)[-1] == "user: And now?"
        whole = weft.compile(Agent("bot", model="gpt-5"), session=session, message="And now?")
        assert made.tokens <= whole.tokens
        wanted = {want.fingerprint for want in made.prompt.wants}
        assert len(wanted) == len(made.prompt.wants)


def test_the_second_run_with_the_same_input_asks_nothing() -> None:
    for seed in range(12):
        session = random_session(seed)
        model = ScriptedModel({"bot": ["one", "two"], "summarizer": ["They talk."] * 99})
        bot = Agent("bot", model=model, context=C.default().summarize(before=1))
        result = weft.run_sync(bot, "next", session=session)
        before = len(model.prompts)
        log = result.session.before(len(result.session.events) - 1)
        made = weft.compile(bot, session=log)
        assert made.wire == model.wires[-1]
        assert made.prompt.wants == ()
        weft.run_sync(bot, "again", session=log, config=RunConfig())
        repeated = [prompt.items[-1] for prompt in model.prompts[before:-1]]
        assert len(repeated) <= 1, "at most the turn that is new"
