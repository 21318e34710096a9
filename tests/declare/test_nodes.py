"""O1: the nodes beside the operators: map, gate, race, timeout, tap, expect and while_."""

import copy
import dataclasses
import pickle
from collections.abc import Callable, Mapping

import pytest

from weft import (
    Agent,
    Fallback,
    Gate,
    Loop,
    Map,
    Route,
    Sequence,
    expect,
    race,
    tap,
    timeout,
    tool,
    until,
    while_,
)
from weft.declare import Flow, agents_of, walk_nodes
from weft.declare.visit import inherit
from weft.errors import DeclarationError
from weft.values import Json

a, b, c = (Agent(name) for name in "abc")


def look(state: Mapping[str, Json]) -> None:
    return None


def done(state: Mapping[str, Json]) -> bool:
    return "done" in state


async def done_later(state: Mapping[str, Json]) -> bool:
    return "done" in state


NODES: list[tuple[Flow, str]] = [
    (Map("xs", a, into="ys"), 'Map("xs", a, into="ys")'),
    (
        Map("o.lines", a >> b, into="ys", item="line", concurrency=2, on_error="collect"),
        'Map("o.lines", (a >> b), into="ys", item="line", concurrency=2, on_error="collect")',
    ),
    (Map("xs", look, into="ys", name="each"), 'Map("xs", look, into="ys", name="each")'),
    (Gate("send"), 'Gate("send")'),
    (
        Gate("send", question="Send {draft}?", key="ok", choices=["yes", 2, True]),
        'Gate("send", question="Send {draft}?", key="ok", choices=["yes", 2, True])',
    ),
    (race(a, b >> c), "race(a, (b >> c))"),
    (race(a, look, name="first"), 'race(a, look, name="first")'),
    (timeout(a | b, 2.5), "timeout((a | b), 2.5)"),
    (timeout(a, 30, description="Slow."), 'timeout(a, 30, description="Slow.")'),
    (tap(look), "tap(look)"),
    (tap(look, name="watch"), 'tap(look, name="watch")'),
    (expect(done, "not done"), 'expect(done, "not done")'),
    (a * while_(done, max=3), "(a * while_(done, max=3))"),
    (Loop(a, while_=done, max=3, name="w"), 'Loop(a, max=3, while_=done, name="w")'),
]


@pytest.mark.parametrize(("node", "text"), NODES)
def test_O1_a_node_prints_as_it_was_written_and_is_a_frozen_value(node: Flow, text: str) -> None:
    assert str(node) == text
    assert str(a >> node) == f"(a >> {text})"
    same = copy.deepcopy(node)
    assert (same, hash(same)) == (node, hash(node))
    assert pickle.loads(pickle.dumps(node)) == node
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.name = "other"  # type: ignore[misc]


def test_nodes_of_other_options_differ() -> None:
    flows = [node for node, _ in NODES]
    assert len(set(flows)) == len(flows)


def test_O1_while_stands_on_either_side_and_has_a_named_form() -> None:
    assert a * while_(done, max=3) == while_(done, max=3) * a == Loop(a, while_=done, max=3)
    assert a * while_(done) != a * until(done)
    assert (a * while_(done_later)).while_ is done_later
    assert repr(while_(done, max=2)) == "while_(done, max=2)"


@pytest.mark.parametrize("node", [node for node, _ in NODES])
def test_O1_every_node_stands_wherever_an_agent_may(node: Flow) -> None:
    for flow in (a >> node, node | a, node // a, node * 2, Route("x").eq(1, node).otherwise(a)):
        assert node in [inner for inner, _ in walk_nodes(flow)]
        assert set(agents_of(node)) <= set(agents_of(flow))


def test_an_agent_may_stand_in_several_flows() -> None:
    first, second = Map("xs", a, into="ys") >> a, race(a, b) >> timeout(a, 1)
    assert agents_of(first) == (a,)
    assert agents_of(second) == (a, b)


@pytest.mark.parametrize("node", [node for node, _ in NODES])
def test_a_node_below_an_agent_takes_its_model(node: Flow) -> None:
    heir = inherit(node, "gpt-5")
    assert {agent.model for agent in agents_of(heir)} <= {"gpt-5"}
    assert inherit(heir, "other") is heir
    assert type(heir) is type(node)
    assert (heir.name, heir.description) == (node.name, node.description)
    assert {agent.model for agent in agents_of(node)} <= {None}


def test_a_gate_keeps_its_answer_under_its_name_unless_told_otherwise() -> None:
    assert Gate("send").key == "send"
    assert Gate("send", key="ok").key == "ok"
    assert Gate("send", choices=["Yes", "no"]).decided(" yes ") == "Yes"
    assert Gate("send", choices=["Yes", "no"]).decided("maybe") is None
    assert Gate("send", choices=[1, True]).decided(True) is True
    assert Gate("send").decided({"any": "thing"}) == {"any": "thing"}


@tool
def search(query: str) -> str:
    """Search."""
    return query


def two(state: object, other: object) -> None:
    return None


def several(state: object) -> object:
    yield 1


BAD: list[tuple[Callable[[], object], str, str]] = [
    (lambda: Map("xs", 3, into="ys"), "map.body", "neither an agent"),
    (lambda: Map("xs", two, into="ys"), "Step two", "takes (state)"),
    (lambda: Map("", a, into="ys"), "map.items", "not a state key"),
    (lambda: Map(3, a, into="ys"), "map.items", "not a state key"),
    (lambda: Map("xs", a, into=""), "map.into", "not a state key"),
    (lambda: Map("xs", a, into="item"), "map.item", "both kept"),
    (lambda: Map("xs", a, into="ys", concurrency=0), "map.concurrency", "concurrency=0"),
    (lambda: Map("xs", a, into="ys", concurrency=True), "map.concurrency", "True"),
    (lambda: Map("xs", a, into="ys", on_error="stop"), "map.on_error", "'stop'"),
    (lambda: Map("xs", Route("x"), into="ys"), "map.body", "leads nowhere"),
    (lambda: Gate("not a name"), "Gate.name", "not an identifier"),
    (lambda: Gate("send", question=3), "send.question", "not text"),
    (lambda: Gate("send", key=3), "send.key", "not a state key"),
    (lambda: Gate("send", choices="yes"), "send.choices", "not a list"),
    (lambda: Gate("send", choices=[None]), "send.choices", "not a choice"),
    (lambda: Gate("send", choices=[["a"]]), "send.choices", "not a choice"),
    (lambda: Gate("send", choices=["yes", "YES "]), "send.choices", "already"),
    (lambda: race(), "race.branches", "empty"),
    (lambda: race(a, 3), "race.branches", "neither an agent"),
    (lambda: race(a, Agent("a", instruction="Other.")), "race.branches", "named `a`"),
    (lambda: timeout(a, 0), "timeout.seconds", "0 is not"),
    (lambda: timeout(a, "5"), "timeout.seconds", "'5' is not"),
    (lambda: timeout(a, float("inf")), "timeout.seconds", "inf is not"),
    (lambda: timeout(a, True), "timeout.seconds", "True is not"),
    (lambda: timeout(3, 1), "timeout.body", "neither an agent"),
    (lambda: tap(3), "tap(int)", "cannot be called"),
    (lambda: tap(two), "tap(two)", "takes (state)"),
    (lambda: tap(several), "tap(several)", "yields"),
    (lambda: tap(search), "Step search", "is a tool"),
    (lambda: expect(3, "no"), "expect.predicate", "cannot be called"),
    (lambda: expect(two, "no"), "expect.predicate", "takes (state)"),
    (lambda: expect(done, " "), "expect.message", "empty"),
    (lambda: expect(done, None), "expect.message", "not text"),
    (lambda: a * while_(3), "while_", "cannot be called"),
    (lambda: a * while_(done, max=0), "while_.max", "0 is not a number of rounds"),
    (lambda: a * while_(done, max=None), "while_.max", "None is not a number of rounds"),
    (lambda: a * until(done, max=None), "until.max", "None is not a number of rounds"),
    (lambda: Loop(a, max=None), "loop.max", "None is not a number of rounds"),
    (lambda: Loop(a, until=done, while_=done), "loop.while_", "both"),
    (lambda: a >> 3, "a >> 3", "neither an agent"),
    (lambda: a >> two, "Step two", "takes (state)"),
    (lambda: Sequence(), "sequence.steps", "empty"),
    (lambda: Fallback(), "fallback.choices", "empty"),
    (lambda: a >> Route("x"), 'a >> Route("x")', "leads nowhere"),
    (lambda: a >> Agent("a", instruction="Other."), "sequence.steps", "named `a`"),
    (lambda: a.delegates_to(b).delegates_to(a), "a.sub_agents", "own sub-agent"),
    (lambda: b.delegates_to(a >> b), "b.sub_agents", "two different agents"),
]


@pytest.mark.parametrize(("make", "where", "says"), BAD)
def test_bad_input_is_refused_with_the_place_and_the_fix(
    make: Callable[[], object], where: str, says: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        make()
    assert caught.value.where == where
    assert says in caught.value.message
    assert caught.value.hint
