"""A plan is made once, and never outlives what it was made from."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from tests.support.build import calls, returns, says, session, user
from tests.support.tools import look
from weft import Agent, Raw, RunConfig
from weft.compiler import compile_request as compile
from weft.compiler.plan import MOST_PLANS, plan_for
from weft.declare import Sequence
from weft.errors import CompileError, DeclarationError
from weft.values import Json

MODEL = "gemini-flash-latest"
DEFAULT = RunConfig()


class Spoken:
    """A model object, as the compiler knows one."""

    def __init__(self, name: str = "tiny", dialect: str = "anthropic") -> None:
        self.name = name
        self.dialect = dialect


# --- it is kept


def test_every_step_has_the_same_plan() -> None:
    bot = Agent("bot", model=MODEL, tools=[look])
    log = session(user("Hi"))
    first = compile(bot, session=log)
    second = compile(bot, session=log.append(says("bot", "Hello"), user("And?")))
    assert first.plan is second.plan is plan_for(bot, None, DEFAULT)
    assert first.prompt.tools is second.prompt.tools


def test_equal_run_configs_share_a_plan_and_others_do_not() -> None:
    bot = Agent("bot", model=MODEL)
    warm = plan_for(bot, None, RunConfig(generate_config={"temperature": 1}))
    assert plan_for(bot, None, RunConfig(generate_config={"temperature": 1})) is warm
    assert plan_for(bot, None, RunConfig(generate_config={"temperature": 1}, strict=True)) is warm
    assert plan_for(bot, None, DEFAULT) is not warm
    assert plan_for(bot, None, RunConfig(model="gpt-5")).target.model == "gpt-5"


def test_options_that_python_holds_equal_are_told_apart() -> None:
    bot = Agent("bot", model="openrouter/some-model")
    log = session(user("Hi"))
    sent = [
        compile(bot, session=log, config=RunConfig(generate_config={"logprobs": value})).wire
        for value in (True, 1, True)
    ]
    assert [(wire.get("logprobs"), wire.get("top_logprobs")) for wire in sent] == [
        (True, None),
        (True, 1),
        (True, None),
    ]


def test_options_keep_the_order_they_are_given_in() -> None:
    bot = Agent("bot", model="gpt-4")
    log = session(user("Hi"))
    for order in (["seed", "top_p"], ["top_p", "seed"]):
        config = RunConfig(generate_config=dict.fromkeys(order, 1))
        wire = compile(bot, session=log, config=config).wire
        assert [name for name in wire if name in order] == order


def test_a_root_does_not_keep_a_plan_for_every_request_it_ever_had() -> None:
    bot = Agent("bot", model=MODEL)
    for number in range(3 * MOST_PLANS):
        config = RunConfig(generate_config={"user": f"u{number}"})
        assert plan_for(bot, None, config).config == {"user": f"u{number}"}
    assert len(bot.memo) <= MOST_PLANS


# --- whose it is


def test_a_copy_of_an_agent_has_plans_of_its_own() -> None:
    bot = Agent("bot", model=MODEL, instruction="Be brief.")
    log = session(user("Hi"))
    assert compile(bot, session=log).system.endswith("Be brief.")
    long = replace(bot, instruction="Be long.")
    assert compile(long, session=log).system.endswith("Be long.")
    assert compile(long.uses(look), session=log).tools == ["look"]
    assert compile(bot, session=log).system.endswith("Be brief.")
    assert compile(bot, session=log).tools == []


def test_equal_agents_compile_alike_on_one_log_and_keep_apart() -> None:
    one, other = (Agent("bot", model=MODEL, instruction="In {city}.") for _ in range(2))
    log = session(user("Hi"), city="Oslo")
    assert one == other
    assert compile(one, session=log).wire == compile(other, session=log).wire
    assert plan_for(one, None, DEFAULT) is not plan_for(other, None, DEFAULT)
    assert plan_for(other, None, DEFAULT).agent is other


def test_two_agents_of_one_name_may_take_turns_on_one_log() -> None:
    polite = Agent("bot", model=MODEL, instruction="Be polite, {name}.")
    rude = Agent("bot", model=MODEL, instruction="Be rude, {name}.")
    log = session(user("Hi"), name="Ann")
    for number in range(3):
        assert compile(polite, session=log).system.endswith("Be polite, Ann.")
        assert compile(rude, session=log).system.endswith("Be rude, Ann.")
        log = log.append(says("bot", f"a{number}"), user(f"q{number}"))


def plain(agent: Agent) -> Agent:
    return copy.copy(agent)


def deep(agent: Agent) -> Agent:
    return copy.deepcopy(agent)


def pickled(agent: Agent) -> Agent:
    copied: Agent = pickle.loads(pickle.dumps(agent))
    return copied


@pytest.mark.parametrize("make", [plain, deep, pickled])
def test_what_was_derived_is_no_part_of_the_agent(make: Callable[[Agent], Agent]) -> None:
    bot = Agent("bot", model=MODEL, instruction="In {city}.", sub_agents=[Agent("below")])
    fresh = replace(bot)
    shown = repr(bot)
    wire = compile(bot, session=session(user("Hi"), city="Oslo")).wire
    assert bot.memo
    assert repr(bot) == shown
    assert bot == fresh
    assert "memo" not in {field.name for field in fields(bot)}
    copied = make(bot)
    assert copied == bot
    assert not copied.memo
    assert compile(copied, session=session(user("Hi"), city="Oslo")).wire == wire


def test_what_is_done_to_a_prompts_options_stays_with_that_prompt() -> None:
    bot = Agent("bot", model=MODEL, generate_config={"temperature": 0.3})
    log = session(user("Hi"))
    compile(bot, session=log).prompt.config["temperature"] = 1.0
    again = compile(bot, session=log)
    assert again.prompt.config == {"temperature": 0.3}
    assert again.wire["generationConfig"] == {"temperature": 0.3}


# --- the model


def test_a_model_that_the_environment_names_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    bot, log = Agent("bot"), session(user("Hi"))
    monkeypatch.setenv("WEFT_MODEL", "claude-sonnet-4-5")
    assert compile(bot, session=log).dialect == "anthropic"
    monkeypatch.setenv("WEFT_MODEL", "gpt-5")
    changed = compile(bot, session=log)
    assert (changed.prompt.model, changed.wire["model"]) == ("gpt-5", "gpt-5")
    assert compile(bot, session=log).plan is changed.plan
    monkeypatch.delenv("WEFT_MODEL")
    assert compile(bot, session=log).plan.model == "local"
    named = Agent("bot", model=MODEL)
    before = plan_for(named, None, DEFAULT)
    monkeypatch.setenv("WEFT_MODEL", "gpt-5")
    assert plan_for(named, None, DEFAULT) is before


def test_a_model_object_for_the_run_wins_and_is_what_the_plan_calls() -> None:
    bot, given = Agent("bot", model=MODEL), Spoken()
    config = RunConfig(model=given)
    compiled = compile(bot, session=session(user("Hi")), config=config)
    assert (compiled.prompt.model, compiled.dialect) == ("tiny", "anthropic")
    assert compiled.wire["model"] == "tiny"
    assert compiled.diagnostics == ()
    assert compiled.plan.model is given
    assert plan_for(bot, None, RunConfig(model=given)) is compiled.plan
    assert plan_for(bot, None, RunConfig(model=Spoken())).model is not given


def test_a_plan_says_which_model_was_declared_for_the_agent_or_above_it() -> None:
    above, own = Spoken("above"), Spoken("own", "gemini")
    root = Agent("root", model=above, sub_agents=[Agent("heir"), Agent("other", model=own)])
    assert plan_for(root, None, DEFAULT).model is above
    assert plan_for(root, "heir", DEFAULT).model is above
    assert plan_for(root, "other", DEFAULT).model is own
    assert plan_for(root, "other", DEFAULT).target.dialect == "gemini"


def test_a_model_object_that_takes_another_name_or_dialect_is_noticed() -> None:
    made = Spoken()
    for bot, config in (
        (Agent("bot", model=made), DEFAULT),
        (Agent("bot"), RunConfig(model=made)),
    ):
        made.name, made.dialect = "tiny", "anthropic"
        assert compile(bot, config=config).dialect == "anthropic"
        made.name = "huge"
        assert compile(bot, config=config).prompt.model == "huge"
        made.dialect = "gemini"
        assert "contents" in compile(bot, config=config).wire


def test_a_model_object_needs_no_hash() -> None:
    class Unhashable(Spoken):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    bot = Agent("bot")
    one, other = Unhashable("one"), Unhashable("other")
    for given in (one, other, one):
        assert plan_for(bot, None, RunConfig(model=given)).model is given


@pytest.mark.parametrize("given", [5, "", " ", object(), Spoken(name=3), ["gpt-5"]])  # type: ignore[arg-type]
def test_what_is_no_model_is_refused_in_a_run_config(given: object) -> None:
    with pytest.raises(DeclarationError, match="is not a model") as caught:
        RunConfig(model=given)
    assert caught.value.where == "RunConfig.model"
    assert "`name` and `dialect`" in caught.value.hint


# --- the agent that is asked


def test_a_plan_knows_the_path_and_whom_the_agent_may_hand_over_to() -> None:
    leaf = Agent("leaf", description="Leaf.")
    root = Agent("root", model=MODEL, sub_agents=[Agent("middle", sub_agents=[leaf])])
    plan = plan_for(root, "middle", DEFAULT)
    assert [agent.name for agent in plan.path] == ["root", "middle"]
    assert plan.agent.name == "middle"
    assert [target.name for target in plan.transfers] == ["leaf", "root"]
    assert [tool.name for tool in plan.tools] == ["transfer_to_agent"]


@pytest.mark.parametrize("name", ["nobody", "", "trip", ["root"], 5])
def test_an_agent_that_is_not_in_the_tree_is_refused_each_time(name: str) -> None:
    trip = Sequence(Agent("first"), Agent("second"), name="trip")
    root = Agent("root", model=MODEL, sub_agents=[Agent("child"), trip])
    for _ in range(2):
        with pytest.raises(CompileError, match="there is no agent") as caught:
            compile(root, agent=name)
        assert caught.value.hint == "the tree has: root, child"


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(CompileError, match="a str is not an agent"):
        compile("bot")  # type: ignore[arg-type]


# --- what instructions read


def test_a_value_that_changes_between_two_steps_is_in_the_next_request() -> None:
    bot = Agent("bot", model=MODEL, instruction="The mood is {mood}.")
    log = session(user("Hi"), mood="fine")
    said = []
    for mood in ("fine", "bad", "bad", "fine"):
        log = log.append(says("bot", "Well"), says("clock", mood, writes="mood"), user("And?"))
        said.append(compile(bot, session=log).system.rpartition("\n")[2])
    assert said == [f"The mood is {mood}." for mood in ("fine", "bad", "bad", "fine")]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It is {x}.", ["1", 1, True, 1.0, [1], {"a": 1}, "1"]),
        ("It is {x?}.", ["a", None, "", "a"]),
        ("It is {x.a[0]}.", [{"a": [1]}, {"a": ["1"]}, {"a": [2, 1]}]),
    ],
)
def test_values_laid_over_the_state_are_used_in_turn(text: str, values: list[Json]) -> None:
    bot = Agent("bot", model=MODEL, instruction=text)
    log = session(user("Hi"))
    for value in values:
        warm = compile(bot, session=log, state={"x": value})
        cold = compile(replace(bot), session=session(user("Hi")), state={"x": value})
        assert warm.system == cold.system
        assert warm.diagnostics == cold.diagnostics


def test_a_list_that_is_changed_in_place_is_noticed() -> None:
    bot = Agent("bot", model=MODEL, instruction="Seen: {seen}")
    seen: list[Json] = ["a"]
    log = session(user("Hi"))
    log.state["seen"] = seen
    assert compile(bot, session=log).system.endswith('Seen: ["a"]')
    seen.append("b")
    assert compile(bot, session=log).system.endswith('Seen: ["a","b"]')


def test_a_missing_variable_is_reported_each_time_with_the_keys_there_are_then() -> None:
    bot = Agent("bot", model=MODEL, instruction="Hi {name}.")
    log = session(user("Hi"))
    said = []
    for state in ({}, {"a": 1}, {"b": 1}):
        [found] = compile(bot, session=log, state=state).diagnostics
        said.append(found.message.rpartition(": ")[2])
    assert said == ["none", "`a`", "`b`"]
    assert compile(bot, session=log, state={"name": "Ann"}).diagnostics == ()
    assert compile(bot, session=log).diagnostics != ()


def test_a_newer_artifact_is_in_the_next_request() -> None:
    bot = Agent("bot", model=MODEL, instruction="Read: {artifact.notes}")
    log = session(user("Hi"))
    for text in ("one", "two", "two", "one"):
        compiled = compile(bot, session=log, artifacts={"notes": text})
        assert compiled.system.endswith(f"Read: {text}")


def test_providers_are_asked_at_every_step() -> None:
    asked: list[int] = []

    def provider(context: object) -> str:
        asked.append(len(asked))
        return f"call {len(asked)} in {{city}}"

    bot = Agent("bot", model=MODEL, instruction=provider, global_instruction="Always.")
    log = session(user("Hi"), city="Oslo")
    for number in range(1, 4):
        assert compile(bot, session=log).system.endswith(f"call {number} in Oslo")
    assert len(asked) == 3


def test_what_was_recorded_stands_for_what_is_declared_once() -> None:
    bot = Agent("bot", model=MODEL, instruction="In {city}.", global_instruction="Be kind.")
    log = session(user("Hi"), city="Oslo")
    before = compile(bot, session=log).system
    rebuilt = compile(bot, session=log, recorded={"instruction": "Was in {city}."})
    assert rebuilt.system.endswith("Was in Oslo.")
    raw = compile(bot, session=log, recorded={"global_instruction.raw": "{city}"})
    assert raw.system.endswith("{city}")
    assert compile(bot, session=log).system == before


def test_a_key_that_turns_volatile_moves_its_part_to_the_end() -> None:
    bot = Agent(
        "bot", model=MODEL, instruction="{city}", global_instruction="{country}",
        sub_agents=[Agent("helper")],
    )  # fmt: skip
    log = session(user("Hi"), city="Oslo", country="Norway")
    first = compile(bot, session=log)
    assert [block.text for block in first.prompt.system[2:]] == ["Norway", "Oslo"]
    log = log.append(says("clock", "Norway", writes="country"), user("And?"))
    second = compile(bot, session=log)
    assert [block.text for block in second.prompt.system[2:]] == ["Oslo", "Norway"]
    assert [step.name for step in second.steps] == ["order_system"]


def test_a_raw_instruction_is_never_templated_however_often_it_is_sent() -> None:
    bot = Agent("bot", model=MODEL, instruction=lambda _: Raw("{city}"))
    log = session(user("Hi"), city="Oslo")
    for _ in range(2):
        assert compile(bot, session=log).system.endswith("{city}")
        log = log.append(calls("bot", "look", {}, "c"), returns("bot", "look", {}, "c"))
