"""Declaring custom agents: their children are found wherever they are given, mistakes are named."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

import weft
from weft import Agent, CustomAgent, Event, RunContext
from weft.declare import agents_of
from weft.declare.agent import walk_nodes
from weft.declare.visit import inherit
from weft.errors import DeclarationError, FrozenError
from weft.graph import graph_of, to_mermaid, to_text

a, b, c = Agent("a"), Agent("b"), Agent("c").writes("c")


class Base(CustomAgent):
    """Says one word."""

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        yield ctx.say("word")


class InClass(Base):
    """A child that is an attribute of the class."""

    helper = a


class Annotated(Base):
    """Children that are passed when it is made."""

    first: Agent
    others: dict[str, Agent]


class OwnInit(Base):
    """An `__init__` of its own, which forgets that of its base."""

    def __init__(self, child: Agent) -> None:
        self.child = child
        self.more = [b, a >> c]


@dataclass(eq=False)
class Data(Base):
    """A dataclass."""

    child: Agent
    name: str = "data"


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        (Base(sub_agents=[a, b]), "a b"),
        (InClass(), "a"),
        (Annotated(first=a, others={"x": b}), "a b"),
        (OwnInit(b), "b a c"),
        (Data(a), "a"),
        (InClass(sub_agents=[a]), "a"),
    ],
)
def test_children_are_found_wherever_they_are_given(agent: CustomAgent, names: str) -> None:
    assert [one.name for one in agents_of(agent)] == names.split()
    assert len([*walk_nodes(agent)]) > 1
    for draw in (to_text, to_mermaid):
        assert all(name in draw(graph_of(agent)) for name in (agent.name, *names.split()))


def test_the_name_is_that_of_the_class() -> None:
    assert OwnInit(b).name == "own_init"
    assert Base("greeter").name == Base(name="greeter").name == "greeter"
    assert str(Base("greeter") >> a) == "(greeter >> a)"


def test_children_inherit_a_model_and_the_code_finds_them_where_they_were() -> None:
    agent = Annotated(first=a, others={"x": b})
    heir = inherit(agent, "gpt-5")
    assert isinstance(heir, Annotated)
    assert (heir.first.model, heir.others["x"].model) == ("gpt-5", "gpt-5")
    assert (agent.first.model, agent.others["x"].model) == (None, None)
    assert heir.heir_of(a) is heir.first
    assert isinstance(inherit(InClass(), "gpt-5"), InClass)
    assert InClass().helper.model is None


def test_it_is_frozen_and_says_where_what_changes_belongs() -> None:
    agent = Base()
    with pytest.raises(FrozenError, match=r"yield ctx.say\(None, count=\.\.\.\)"):
        agent.count = 1  # type: ignore[attr-defined]


def mistakes() -> list[tuple[str, str]]:
    """What is wrong, by what is raised for it."""

    class NoRun(CustomAgent):
        pass

    def no_yield() -> None:
        class NoYield(CustomAgent):
            async def run(self, ctx: RunContext) -> None:  # type: ignore[override]
                pass

    def not_async() -> None:
        class NotAsync(CustomAgent):
            def run(self, ctx: RunContext):  # type: ignore[no-untyped-def]
                yield ctx.say("x")

    def no_context() -> None:
        class NoContext(CustomAgent):
            async def run(self):  # type: ignore[no-untyped-def, override]
                yield None

    def of_agent() -> None:
        class Mine(Agent):
            async def run(self, ctx: RunContext) -> None:
                pass

    cases = [
        (NoRun, "it has no `run`"),
        (no_yield, "there is no `yield` in it"),
        (not_async, "it is not async"),
        (no_context, r"run takes \(self, ctx\); this takes 1"),
        (of_agent, "derive from weft.CustomAgent: class Mine"),
        (lambda: Base(sub_agent=[a]), "did you mean `sub_agents`"),
        (lambda: Annotated(frist=a), "did you mean `first`"),
        (lambda: Annotated(), "`first`.* must be set"),
        (lambda: Base("my agent"), "it is not an identifier"),
        (lambda: Base("user"), "events of the user carry it"),
        (lambda: Base(writes="owner"), "is one string, not a list"),
        (lambda: Base(sub_agents=a), "sub_agents is an Agent, not a list"),
        (lambda: Base(sub_agents=["a"]), "is not an Agent or a flow"),
        (lambda: Base(max_steps=0), "max_steps=0"),
        (lambda: Base(before_agent=3), "cannot be called"),
        (lambda: Base("a", sub_agents=[a]), "two different agents are named `a`"),
        (lambda: Base(sub_agents=[a, replace(c, name="a")]), "two different agents are named `a`"),
        (lambda: Base("x") >> Agent("x"), "two different agents are named `x`"),
        (lambda: weft.Sequence(a, before_agent="no"), "cannot be called"),
        (lambda: weft.Loop(a, after_agent=lambda: None), r"after_agent takes \(ctx\)"),
    ]
    return cases  # type: ignore[return-value]


@pytest.mark.parametrize(("make", "words"), mistakes())
def test_mistakes_are_named_where_they_are_made(make: object, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        make()  # type: ignore[operator]


class Escalate(Base):
    """Code that says what it writes."""

    reads = ("severity",)
    writes = ("owner",)


def test_the_check_knows_what_it_declares() -> None:
    reader = Agent("reader", instruction="{owner} has {severity}")
    classifier = Agent("classifier").writes("severity")
    assert weft.check(Escalate(sub_agents=[classifier]) >> reader) == []
    codes = [one.code for one in weft.check(Escalate() >> Agent("r", instruction="{ownr}"))]
    assert "WEFT105" in codes
    assert weft.check(Base() >> Agent("r", instruction="{anything}")) == [], "it may write any key"


def test_the_check_looks_at_its_children() -> None:
    flow = Escalate(sub_agents=[Agent("child", instruction="{nobody}")])
    assert [one.code for one in weft.check(flow)] == ["WEFT105"]


def test_the_check_knows_what_callbacks_of_a_flow_write() -> None:
    def before(ctx: weft.CallbackContext) -> None:
        ctx.state["topic"] = "tea"

    reader = Agent("reader", instruction="Write about {topic}.")
    assert weft.check(weft.Sequence(reader, before_agent=before)) == []
    assert [one.code for one in weft.check(weft.Sequence(reader))] == ["WEFT105"]
