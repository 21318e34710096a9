"""Where a peer's policies fail, on the wire of real runs: pipes, helpers, agents, windows."""

import json
import re
from collections.abc import Callable

import pytest

import weft
from weft import Agent, C, Parallel, RunConfig, Session, tool
from weft.declare import Node, Policy
from weft.errors import BudgetExceeded, CompileError, DeclarationError
from weft.testing import ScriptedModel, call

NOTE = "Leave the parcel with the neighbour who has the green door. " * 40


@tool
def order() -> dict[str, object]:
    """Look up the order."""
    return {"id": 4711, "note": NOTE, "contact": "ada@example.com"}


def talked(policy: Policy, *, turns: int = 3) -> tuple[ScriptedModel, Session]:
    """A few turns, in the first two of which the same large result comes."""
    script: list[object] = [call("order"), "It is 4711.", call("order"), "Still 4711."]
    model = ScriptedModel([*script, *(f"Answer {n}." for n in range(turns))])  # type: ignore[list-item]
    bot = Agent("bot", model=model, instruction="Help.", tools=[order]).sees(policy)
    session = None
    for turn in range(turns):
        result = weft.run_sync(bot, f"Question {turn} about my order?", session=session)
        session = result.check().session
    assert session is not None
    return model, session


def asked_of(model: ScriptedModel, name: str) -> list[str]:
    """The requests that were made for one agent, or for a helper of it."""
    pairs = zip(model.prompts, model.wires, strict=True)
    return [json.dumps(wire) for prompt, wire in pairs if prompt.agent == name]


def sent(flow: Node, **script: object) -> ScriptedModel:
    """Run a flow whose agents answer as the script says."""
    model = ScriptedModel(script)  # type: ignore[arg-type]
    weft.run_sync(flow, "Fly me to Oslo", config=RunConfig(model=model)).check()
    return model


@pytest.mark.parametrize(
    ("transform", "gone", "times"),
    [
        (C.dedupe(), NOTE, 1),
        (C.compact(results=100, to=64), NOTE, 0),
        (C.truncate(50), NOTE, 0),
        (C.project(fields=["id"]), "green door", 0),
        (C.project(exclude=["contact"]), "ada@example.com", 0),
        (C.redact("email"), "ada@example.com", 0),
        (C.redact(r"\w+@example\.com"), "ada@example.com", 0),
        (C.redact(re.compile("ada@.*?com")), "ada@example.com", 0),
        (C.budget(500), NOTE, 0),
        (C.priority(4) | C.budget(500), NOTE, 0),
        (C.fit(100), NOTE, 0),
        (C.fresh(turns=1), NOTE, 0),
    ],
    ids=lambda one: str(one)[:30],
)
def test_what_stands_behind_a_pipe_acts_on_the_request(
    transform: object, gone: str, times: int
) -> None:
    plain, _ = talked(C.default())
    assert str(plain.wires[-1]).count(gone) == 2 * (1 + (gone == "green door") * 39)
    model, session = talked(C.default() | transform)  # type: ignore[operator]
    assert str(model.wires[-1]).count(gone) == times
    held = [str(event.content) for event in session.events]
    assert sum(gone in one for one in held) == 2, "nothing is lost from the log"


def test_a_limit_for_results_needs_no_other_figure() -> None:
    assert C.default().compact() == C.default().compact(to=300)
    assert C.default().compact(results=200) == C.default().compact(results=200, to=100)
    assert str(C.default().compact(results=64)) == "C.default().compact(results=64, to=64)"
    model, _ = talked(C.default().compact(results=200))
    assert NOTE not in str(model.wires[-1])


def test_the_figures_of_a_budget_that_is_too_small_are_all_there_is() -> None:
    """Some providers add words of their own to tools: what they take is the tools'."""
    model = ScriptedModel([], dialect="anthropic")
    bot = Agent("bot", model=model, instruction="Help.", tools=[order]).sees(
        C.default().budget(300)
    )
    with pytest.raises(BudgetExceeded, match=r"takes (\d+).*the tools (\d+)") as caught:
        weft.compile(bot, message="Hi")
    taken = re.search(r"takes (\d+).*the tools (\d+)", str(caught.value))
    assert taken is not None
    assert int(taken[2]) > 0.9 * int(taken[1])


def test_a_pipe_and_a_method_say_the_same() -> None:
    piped = C.window(3) | C.dedupe() | C.compact() | C.priority(2) | C.budget(9000)
    assert piped == C.window(3).dedupe().compact().priority(2).budget(9000)
    assert (C.window(3) | (C.dedupe() | C.compact())) == C.window(3).dedupe().compact()


@pytest.mark.parametrize("kept", ["first", "second"])
def test_a_budget_gives_up_the_lower_tier_first_whoever_spoke_last(kept: str) -> None:
    given = "second" if kept == "first" else "first"
    view = C.agents(kept).priority(1) + C.agents(given).priority(4)
    flow = Agent("first") >> Agent("second") >> Agent("end").sees(view.budget(600))
    words = {name: f"The {name} says this. " * 60 for name in ("first", "second")}
    model = sent(flow, first=[words["first"]], second=[words["second"]], end=["done"])
    [last] = asked_of(model, "end")
    assert words[kept] in last
    assert words[given] not in last
    assert "Fly me to Oslo" in last


def test_a_tier_belongs_to_the_words_of_every_author() -> None:
    flow = Agent("one") >> Agent("two") >> Agent("end").sees(
        C.agents("one").priority(1) + C.user().priority(3) + C.default().priority(4)
    )  # fmt: skip
    model = sent(flow, one=["first words"], two=["second words"], end=["done"])
    tiers = {item.author: item.priority for item in model.prompts[-1].items}
    assert tiers["one"] == 1
    assert tiers["two"] == 4


@pytest.mark.parametrize("holds", [True, False])
def test_a_condition_may_stand_under_a_budget(holds: bool) -> None:
    policy = (C.when(lambda state: state["vip"], C.window(2).note("seen")) + C.user()).budget(4000)
    model = ScriptedModel(["Yes.", "Still."])
    bot = Agent("bot", model=model, instruction="Help.").sees(policy)
    first = weft.run_sync(bot, "Is it open?", state={"vip": holds}).check()
    second = weft.run_sync(bot, "And now?", session=first.session).check()
    assert ("seen" in second.state) == holds
    assert ("Yes." in str(model.wires[-1])) == holds
    assert weft.compile(bot, session=second.session).tokens < 4000


def test_views_that_change_with_the_question_or_the_state_may_change_what_is_sent() -> None:
    """A model that guards the prefix lets a policy say that it reads earlier turns otherwise."""
    other = "The ferry leaves at noon and the train at three. " * 30

    for policy in (
        C.relevant(top_k=1) + C.auto(),
        C.when(lambda state: state.get("n", 0) % 2 == 0, C.default().truncate(5)) + C.window(9),
        C.agents("nobody").priority(1) + C.default(),
        C.auto() + C.window(2).summarize(before=0),
    ):
        model = ScriptedModel([call("order"), other, "Noon.", call("order"), "Three."] * 2)
        bot = Agent("bot", model=model, instruction="Help.", tools=[order]).sees(policy)
        session = None
        questions = ("Where is my parcel?", "When does the ferry leave?", "Which order is it?")
        for turn, question in enumerate(questions):
            result = weft.run_sync(bot, question, session=session, state={"n": turn})
            session = result.check().session
        assert "Which order is it?" in str(model.wires[-1])


TRIP = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FLIGHT = "Please look for the flight 4711 to Oslo, at a window if that can be done. "


@pytest.mark.parametrize(
    ("answer", "policy"),
    [
        ("They want the flight 4711 to Oslo.", lambda m: C.default().summarize(before=1, model=m)),
        ({"relevant": [1]}, lambda m: C.relevant(scorer="model", model=m)),
        ({"city": "Oslo"}, lambda m: C.default().extract(TRIP, "trip", model=m)),
        (
            {"facts": [{"fact": "The flight is 4711", "source": 1}]},
            lambda m: C.default().distill("facts", model=m),
        ),
        ({"contradictions": []}, lambda m: C.default().validate("contradictions", model=m)),
    ],
    ids=["summarize", "relevant", "extract", "distill", "validate"],
)
@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
def test_every_helper_that_asks_a_model_works_in_a_run_and_may_fail(
    answer: object, policy: Callable[[ScriptedModel], Policy], fails: bool
) -> None:
    helper = ScriptedModel([RuntimeError("503") if fails else answer] * 3)  # type: ignore[list-item]
    model = ScriptedModel(["I found the flight 4711. " + FLIGHT * 10, "Yes, at a window."])
    bot = Agent("bot", model=model, instruction="Help.").sees(policy(helper))
    first = weft.run_sync(bot, FLIGHT * 10).check()
    second = weft.run_sync(bot, "Is it at a window?", session=first.session).check()
    assert second.text == "Yes, at a window."
    assert helper.wires
    assert any(event.provenance.effect for event in second.session.events)
    assert "Is it at a window?" in str(model.wires[-1])


def test_an_upstream_agents_text_is_gone_with_its_calls_wherever_it_ran() -> None:
    @tool
    def look(query: str) -> str:
        """Look something up."""
        return f"hidden result for {query}"

    noisy = Agent("noisy", tools=[look])
    script = {"noisy": [call("look", query="hidden query"), "hidden words"] * 2,
              "calm": ["calm words"], "end": ["done"], "summarizer": ["calm words"]}  # fmt: skip
    end = Agent("end").sees(C.without_agents("noisy"))
    careful = Agent("end").sees(C.without_agents("noisy").summarize(before=0).budget(4000))
    for flow in (
        noisy >> Agent("calm") >> end,
        noisy * 2 >> Agent("calm") >> end,
        noisy >> Agent("calm") >> careful,
        noisy // Agent("backup") >> Agent("calm") >> end,
        weft.race(noisy) >> Agent("calm") >> end,
        Parallel(noisy) >> Agent("calm") >> end,
    ):
        model = sent(flow, **script)
        [last] = asked_of(model, "end")
        assert "hidden" not in last
        assert "hidden" not in str(asked_of(model, "summarizer"))
        assert "calm words" in last
        assert "Fly me to Oslo" in last


def test_only_named_agents_are_heard_and_the_user_always() -> None:
    flow = Agent("a") >> Agent("b") >> Agent("end").sees(C.agents("b"))
    [last] = asked_of(sent(flow, a=["first words"], b=["second words"], end=["done"]), "end")
    assert "first words" not in last
    assert "second words" in last
    assert "Fly me to Oslo" in last


def test_a_window_costs_no_more_than_the_whole_log_or_says_so() -> None:
    """C5: what a window saves in tokens it must not pay back in bytes nobody has seen yet."""
    long = "Tell me about the next of the many towns on the way to the north. " * 6

    def uncached(policy: Policy) -> tuple[int, bool]:
        model = ScriptedModel([f"Town {n}. {long}" for n in range(12)])
        bot = Agent("bot", model=model, instruction="Help.").sees(policy)
        session, fresh, told = None, 0, False
        for turn in range(12):
            result = weft.run_sync(bot, f"{turn} {long}", session=session)
            session = result.check().session
            compiled = weft.compile(bot, session=session.before(len(session.events) - 1))
            fresh += compiled.tokens - compiled.stable_prefix.tokens
            told = told or compiled.prefix_break is not None
        return fresh, told

    whole, _ = uncached(C.default())
    for policy in (C.window(4), C.window(8)):
        fresh, told = uncached(policy)
        assert fresh <= whole or told


def test_an_agent_reads_keys_beside_what_it_sees() -> None:
    scout = Agent("scout").writes("findings")
    for reader in (
        Agent("end").reads("findings"),
        Agent("end", include_contents="none").reads("findings"),
        Agent("end").sees(C.none().budget(4000)).reads("findings"),
    ):
        model = sent(scout >> reader, scout=["three flights"], end=["done"])
        [last] = asked_of(model, "end")
        assert last.count("three flights") == 1
        assert "Fly me to Oslo" in last
        assert not [one for one in weft.check(scout >> reader) if one.severity != "info"]
    assert Agent("end").sees(C.none().budget(4000)).reads("a", "b").context == (
        C.none() + C.state("a", "b")
    ).budget(4000)
    template = Agent("end", instruction="Write from {findings}.").reads("findings")
    [last] = asked_of(sent(scout >> template, scout=["three flights"], end=["done"]), "end")
    assert last.count("three flights") == 1
    assert [one.code for one in weft.check(scout >> Agent("end").reads("finding"))] == [
        "WEFT105",
        "WEFT112",
    ]


def test_the_checker_knows_what_a_condition_reads() -> None:
    triage = Agent("triage").writes("vip")
    good = Agent("end").sees(C.when(lambda state: state["vip"] == "yes", C.window(3)))
    bad = Agent("end").sees(C.when(lambda state: state["vop"] == "yes", C.window(3)))
    inner = C.when(lambda state: "vip" in state, C.when(lambda state: state["x"] > 1, C.user()))
    assert [one.code for one in weft.check(triage >> good)] == []
    assert [one.code for one in weft.check(triage >> bad)] == ["WEFT105", "WEFT112"]
    assert [one.code for one in weft.check(triage >> Agent("end").sees(inner))] == []


async def _later(state: object) -> bool:
    return False


def test_a_condition_that_would_have_to_be_waited_for_is_no_yes() -> None:
    bot = Agent("bot").sees(C.when(lambda state: _later(state), C.window(3)))
    with pytest.raises(CompileError, match="something to wait for"):
        weft.compile(bot, message="Hi")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: C.window(turns=3), "did you mean `n`"),
        (lambda: C.user(strategy="bookend"), "did you mean `which`"),
        (lambda: C.default().dedupe(strategy="exact"), "did you mean `how`"),
        (lambda: C.default().truncate(9, strategy="tail"), "did you mean `keep`"),
        (lambda: C.default().budget(max_tokens=9), "did you mean `tokens`"),
        (lambda: C.default().fresh(max_age=9), "did you mean `seconds`"),
        (lambda: C.default().fresh(turns=9, stale_action="drop"), "did you mean `stale`"),
        (lambda: C.recent(half_life=3, min_weight=0.2), "did you mean `min_score`"),
        (lambda: C.relevant(query_key="topic"), "did you mean `from_state`"),
        (lambda: C.relevant("x", k=3), "did you mean `top_k`"),
        (lambda: C.select(type="message"), "did you mean `kind`"),
        (lambda: C.default().redact(regex="x"), "did you mean `patterns`"),
        (lambda: C.default().redact("credit_card"), 'write "card"'),
        (lambda: C.default().redact(r"(unclosed"), "C.redact"),
        (lambda: C.default().project("id"), r"write C.project\(fields=..., exclude=..., tools"),
        (lambda: C.agents(["a", "b"]), "pass agent names one by one"),
        (lambda: C.state(["a"]), "pass state keys one by one"),
        (lambda: C.when("vip", C.window(3)), r'lambda state: state.get\("vip"\)'),
    ],
)
def test_another_way_to_write_it_gets_ours(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        wrong()


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("from_state", "C.state"), ("user_only", "C.user"), ("from_agents", "C.agents"),
        ("exclude_agents", "C.without_agents"), ("last_n_turns", "C.window"),
        ("dedup", "C.dedupe"), ("rolling", "summarize"), ("write_notes", "note"),
        ("template", "instruct"), ("recall", "compact"), ("pipeline_aware", "default"),
    ],
)  # fmt: skip
def test_another_word_gets_ours(word: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=rf"there is no `C.{word}`.*{ours}"):
        getattr(C, word)
