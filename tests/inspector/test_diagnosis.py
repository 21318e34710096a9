"""What stands out in a session, the answer of a call, two sides of a comparison."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.inspector.programs import Shape, ran, shapes
from tests.inspector.sessions import book_hotel, find_flights, inspected
from tests.support.linear import check_calls
from weft import Agent, C, RunConfig, Runner, tool
from weft.compiler.costs import cost_of
from weft.content import Blob, Content, Part
from weft.errors import UsageError
from weft.inspector import Inspection, Variant, questions
from weft.inspector.answer import describe_answer, read_media
from weft.inspector.comparing import ChangedRun, run_again, set_side_by_side
from weft.inspector.diagnosis import Ledger, diagnose, find_saving
from weft.inspector.sources import find_words
from weft.inspector.trust import describe_trust
from weft.inspector.words import MaskedTexts
from weft.session import Session
from weft.testing import ScriptedModel, call, make_session, usage


def _run(agent: Any, *messages: object) -> Session:
    async def talk() -> Session:
        runner = Runner(agent)
        for message in messages:
            await runner.run(message, session_id="s")
        return await runner.session(session_id="s")

    return asyncio.run(talk())


def _agent(script: list[Any], instruction: Any = "You book trips.", **more: Any) -> Agent:
    model = ScriptedModel(script, name="claude-opus-5", dialect="anthropic")
    return Agent(
        "traveller", model=model, instruction=instruction, tools=[find_flights, book_hotel], **more
    )


def test_results_that_are_read_again_are_named_with_their_calls() -> None:
    @tool
    def search(query: str) -> str:
        """Search."""
        return " ".join(f"{query}{n}" for n in range(400))

    script = [one for n in range(20) for one in (call("search", query=f"C{n}"), "Fine.")]
    model = ScriptedModel(script, name="claude-opus-5", dialect="anthropic")
    agent = Agent("finder", model=model, tools=[search])
    session = _run(agent, *(f"Look for C{n}" for n in range(20)))
    line = diagnose(Inspection(agent, session))["lines"][0]
    assert line["kind"] == "cost"
    assert "results of `search`, read again in calls 3 to 40" in line["words"]
    assert line["view"] == "request"


def test_a_clock_in_the_instruction_is_named_as_what_broke_the_cache() -> None:
    minutes = itertools.count(10)
    agent = _agent(
        ["Fine."] * 5, lambda context: f"{'Rules. ' * 900}\nNow: 10:{next(minutes)} o'clock"
    )
    session = _run(agent, *(f"Message {n}" for n in range(5)))
    lines = diagnose(Inspection(agent, session))["lines"]
    broken = next(line for line in lines if line["kind"] == "cache")
    assert broken["words"].startswith("The cache broke 4 times: the system text changed, line 4")
    assert "10:10" in broken["words"]
    assert "10:11" in broken["words"]
    assert (broken["step"], broken["view"]) == (2, "cache")


def test_a_policy_that_broke_the_cache_is_named_and_the_saving_is_what_replay_finds() -> None:
    inspection, _ = inspected(8)
    lines = diagnose(inspection)["lines"]
    assert any("left out by `select_window`" in line["words"] for line in lines)
    saving = find_saving(inspection)
    then = sum(cost_of(step.request).total for step in inspection.under(Variant("C.auto()")).steps)
    assert saving["then"] == pytest.approx(then)
    assert saving["cost"] == pytest.approx(saving["now"] - then)
    assert saving["words"].startswith("C.auto() would save $")


def test_a_turn_that_became_shorter_is_named_by_what_shortened_it() -> None:
    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return "\n".join(f"{n}: value_{n} = compute({n}, of={path!r})" for n in range(220))

    files = tuple(f"{letter}.py" for letter in "abcdefghijklmnopqrstuvwxyz")
    script = [one for file in files for one in (call("read_file", path=file), f"Read {file}.")]
    model = ScriptedModel(script, name="claude-opus-5", dialect="anthropic")
    agent = Agent("coder", model=model, tools=[read_file]).sees(C.auto())
    inspection = Inspection(agent, _run(agent, *(f"Look at {file}" for file in files)))
    assert any(step.request.prefix_break for step in inspection.steps)
    assert diagnose(inspection)["lines"][0]["kind"] == "cost"
    assert find_saving(inspection)["words"].startswith("The policy has saved $")


def test_agents_that_are_sent_the_same_are_named() -> None:
    @tool
    def read(name: str) -> str:
        """Read a file."""
        return " ".join(f"{name}{n}" for n in range(900))

    def model(*script: Any) -> ScriptedModel:
        return ScriptedModel([*script], name="claude-opus-5", dialect="anthropic")

    finder = Agent("finder", model=model(call("read", name="a"), "Read."), tools=[read])
    flow = finder >> Agent("writer", model=model("Done."))
    session = _run(flow, "Go")
    lines = diagnose(Inspection(flow, session))["lines"]
    assert any("2 agents are sent the same" in line["words"] for line in lines)
    # who is alone repeats nobody
    alone = Agent("finder", model=model(call("read", name="a"), "Read."), tools=[read])
    lines = diagnose(Inspection(alone, _run(alone, "Go")))["lines"]
    assert not any(line["kind"] == "repeat" for line in lines)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes)
def test_the_parts_of_the_cost_add_up_to_it_in_every_program(shape: Shape) -> None:
    root, session = asyncio.run(ran(shape))[:2]
    inspection = Inspection(root, session)
    ledger = Ledger(inspection.steps)
    total = sum(cost_of(step.request).total for step in inspection.steps if step.request)
    assert ledger.total == pytest.approx(total)
    assert sum(row.cost for row in ledger.parts.values()) == pytest.approx(total)
    assert len(diagnose(inspection)["lines"]) <= 3


def test_a_session_four_times_as_long_takes_about_four_times_the_work_to_share_its_cost() -> None:
    def sharing(turns: int) -> Callable[[], object]:
        agent = Agent("a", model="claude-opus-5", instruction="Go on. " * 400)
        said = [
            (who, f"{who} {n}: " + "Words. " * 20) for n in range(turns) for who in ("user", "a")
        ]
        inspection = Inspection(agent, make_session(*said))
        inspection.film()
        return lambda: Ledger(inspection.steps)

    check_calls(sharing, 120)
    whole, apart = sharing(30)(), sharing(30)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("weft.inspector.diagnosis._SeenParts.count_settled", lambda *_: 0)
        patched.setattr("weft.inspector.diagnosis._SeenParts.settle", lambda *_: None)
        other = apart()
    assert isinstance(whole, Ledger)
    assert isinstance(other, Ledger)
    assert whole.total == pytest.approx(other.total)
    for part, row in whole.parts.items():
        assert row.cost == pytest.approx(other.parts[part].cost)
        assert row.again == pytest.approx(other.parts[part].again)
        assert row.steps == other.parts[part].steps


def test_an_answer_has_its_calls_their_results_and_its_bill() -> None:
    script = [usage(call("find_flights", city="Oslo"), prompt=900, cached=100, output=20), "Fine."]
    agent = _agent(script)
    inspection = Inspection(agent, _run(agent, "Fly"))
    answer = describe_answer(inspection, 1)
    part = answer["parts"][0]
    assert (part["kind"], part["name"], part["text"]) == ("call", "find_flights", '{"city":"Oslo"}')
    assert "SK401" in answer["results"][part["id"]]["text"]
    assert answer["bill"]["billed"]["total"] == 900
    assert answer["seconds"] >= 0
    assert describe_answer(inspection, 2)["parts"][0]["text"] == "Fine."


def test_no_call_takes_less_than_nothing_where_a_clock_goes_back() -> None:
    import msgspec

    agent = _agent(["One.", "Two."])
    session = _run(agent, "a", "b")
    events = [*session.events]
    events[1] = msgspec.structs.replace(events[1], timestamp=events[0].timestamp - 50)
    back = Session("s", app_name="traveller", user_id="user", events=events)
    frames = Inspection(agent, back).film()["frames"]
    assert frames[0]["seconds"] is None
    assert frames[1]["seconds"] >= 0


def test_a_picture_of_the_log_is_read_and_nothing_else() -> None:
    agent = _agent(["A picture."])
    picture = Part(inline_data=Blob(mime_type="image/png", data="iVBORw0KGgo="))
    session = _run(agent, Content(role="user", parts=(Part(text="See"), picture)))
    inspection = Inspection(agent, session)
    event = session.events[0].id
    assert read_media(inspection, event, 1)["mime"] == "image/png"
    assert inspection.film()["events"][0]["media"][0]["mime"] == "image/png"
    for wrong in ((event, 0), (event, 7), ("nobody", 0)):
        with pytest.raises(UsageError, match="no such file"):
            read_media(inspection, *wrong)


def test_two_policies_part_at_the_first_block_that_one_leaves_out() -> None:
    inspection, _ = inspected(6)
    answer = questions.compare(inspection, Variant("C.default()"))["difference"]
    first = next(
        step.number
        for step, other in zip(
            inspection.steps, inspection.under(Variant("C.default()")).steps, strict=True
        )
        if step.request.hash != other.request.hash
    )
    assert answer["parting"]["step"] == first
    assert answer["answers"] == []  # one log: its answers are the same
    evidence = [side["evidence"] for side in answer["sides"]]
    assert evidence[0]["used"] == evidence[1]["used"]
    assert evidence[0]["present"] <= evidence[1]["present"]
    same = set_side_by_side(inspection, inspection.under(Variant("C.window(2)")))
    assert same["parting"] is None


def test_a_session_runs_again_on_its_results_up_to_the_call_that_was_not_recorded() -> None:
    used: list[str] = []

    @tool(confirm=True)
    def buy(what: str) -> str:
        """Buy it."""
        used.append(what)
        return f"bought {what}"

    def shopper(*script: Any) -> Agent:
        model = ScriptedModel([*script], name="gpt-5", dialect="openai-chat")
        return Agent("shopper", model=model, instruction="Shop.", tools=[find_flights, buy])

    session = _run(shopper(call("find_flights", city="Oslo"), "SK401", "Fine."), "Oslo?", "Thanks")
    again = shopper(call("find_flights", city="Oslo"), "Cheap: SK401", call("buy", what="SK401"))
    change = ChangedRun(agent="shopper", instruction="Be brief.", policy="C.window(3)")
    root, other, parted = asyncio.run(run_again(again, session, change, config=RunConfig()))
    assert used == []
    assert parted == {"agent": "shopper", "call": "buy", "args": '{"what":"SK401"}', "recorded": []}
    assert [event.text for event in other.events if event.text][:3] == [
        "Oslo?",
        "Cheap: SK401",
        "Thanks",
    ]
    both = set_side_by_side(Inspection(again, session), Inspection(root, other))
    assert both["parting"]["step"] == 1
    assert both["parting"]["texts"] == ["Shop.", "Be brief."]
    assert [one["same"] for one in both["answers"]] == [True, False, False]
    with pytest.raises(UsageError, match="no agent 'nobody'"):
        asyncio.run(run_again(again, session, ChangedRun("nobody", "Hi"), config=RunConfig()))


def test_a_search_finds_words_of_messages_arguments_and_results_and_shows_nothing_hidden() -> None:
    agent = _agent([call("find_flights", city="Tromso"), "Fine."]).sees(C.default().redact("email"))
    session = _run(agent, "I am ada@example.org")
    show = MaskedTexts(Inspection(agent, session).mask)
    assert "tromso" in (find_words(session, ["tromso"], show, "s") or "").lower()
    assert find_words(session, ["window", "dy622"], show, "s")
    assert find_words(session, ["tromso", "nowhere"], show, "s") is None
    assert "ada@example.org" not in (find_words(session, ["ada@example.org"], show, "s") or "")


def test_a_word_of_every_result_of_a_tool_is_not_a_leak() -> None:
    @tool
    def look(what: str) -> str:
        """Look."""
        return f"archive-number and value-of-{what}"

    model = ScriptedModel(
        [
            call("look", what="first"),
            call("look", what="second"),
            call("look", what="archive-number"),
            call("look", what="value-of-second"),
            "Done.",
        ],
        name="gpt-5",
    )
    agent = Agent("a", model=model, tools=[look])
    flows = describe_trust(Inspection(agent, _run(agent, "go")))["flows"]
    assert [flow["words"] for flow in flows] == [["value-of-second"]]
    assert flows[0]["agent"] == "a"
