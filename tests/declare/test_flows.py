"""O1: agents put together, with operators and by name. Nothing runs here; flows are values."""

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import (
    Agent,
    Fallback,
    Flow,
    Loop,
    Parallel,
    Route,
    Sequence,
    Step,
    tool,
    until,
)
from weft.declare import Node, agents_of, walk_nodes
from weft.errors import DeclarationError
from weft.values import Json

a, b, c, d = (Agent(name, instruction=f"You are {name}.") for name in "abcd")


def tidy(state: Mapping[str, Json]) -> dict[str, Json]:
    return {"tidy": True}


async def fetch(state: Mapping[str, Json]) -> None:
    return None


def done(state: Mapping[str, Json]) -> bool:
    return "done" in state


async def done_later(state: Mapping[str, Json]) -> bool:
    return "done" in state


class Invoice:
    number: int


@dataclasses.dataclass
class Receipt:
    number: int


# Operators and named forms.


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (a >> b, Sequence(a, b)),
        (a >> b >> c, Sequence(a, b, c)),
        (a | b | c, Parallel(a, b, c)),
        (a // b // c, Fallback(a, b, c)),
        (a * 3, Loop(a, max=3)),
        (3 * a, Loop(a, max=3)),
        (a * until(done), Loop(a, until=done)),
        (a * until(done, max=3), Loop(a, until=done, max=3)),
        (until(done, max=3) * a, Loop(a, until=done, max=3)),
        (a >> tidy, Sequence(a, Step(tidy))),
        (tidy >> a, Sequence(Step(tidy), a)),
        (a >> fetch >> b, Sequence(a, Step(fetch), b)),
        (a | tidy, Parallel(a, Step(tidy))),
        (tidy | a, Parallel(Step(tidy), a)),
        (a // tidy, Fallback(a, Step(tidy))),
        (tidy // a, Fallback(Step(tidy), a)),
        (a >> (b | c) >> d, Sequence(a, Parallel(b, c), d)),
        ((a >> b) * 2, Loop(Sequence(a, b), max=2)),
        ((a * 2) * 3, Loop(Loop(a, max=2), max=3)),
        (
            a >> Route("x").eq("y", b).otherwise(c),
            Sequence(a, Route("x").eq("y", b).otherwise(c)),
        ),
        (Sequence(a, tidy), Sequence(a, Step(tidy))),
        (Loop(tidy), Loop(Step(tidy))),
    ],
)
def test_O1_an_operator_and_its_named_form_are_equal(written: Flow, named: Flow) -> None:
    assert written == named
    assert hash(written) == hash(named)
    assert str(written) == str(named)


def test_O1_at_is_returns() -> None:
    assert a @ Receipt == a.returns(Receipt)
    assert (a @ {"type": "object"}).output_schema == {"type": "object"}
    assert a.output_schema is None


def test_flows_of_other_nodes_or_options_differ() -> None:
    flows: list[object] = [
        a >> b,
        b >> a,
        a | b,
        a // b,
        a * 2,
        a * 3,
        a * until(done, max=3),
        Sequence(a, b, name="other"),
        Sequence(a, b, description="Other."),
        Parallel(a, b, on_error="collect"),
        Step(tidy),
        Step(tidy, writes=["x"]),
        Route("x").otherwise(a),
        a,
    ]
    for number, flow in enumerate(flows):
        assert [other == flow for other in flows].index(True) == number
    assert len(set(flows)) == len(flows)


def test_O1_operands_are_never_mutated() -> None:
    pair, fan, choice = a >> b, a | b, a // b
    before = [copy.deepcopy(node) for node in (a, pair, fan, choice)]
    longer = pair >> c
    longer >>= d
    _ = (fan | c, choice // c, pair * 3, 3 * fan, tidy >> pair, pair | c, a @ Receipt)
    assert [a, pair, fan, choice] == before
    assert pair.steps == (a, b)
    assert longer.steps == (a, b, c, d)


@pytest.mark.parametrize(
    "flow", [a >> b, a | b, a * 2, a // b, Route("x").otherwise(a), Step(tidy), until(done)]
)
def test_flows_are_frozen(flow: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        flow.name = "x"  # type: ignore[attr-defined]


# Flattening.


def test_O1_a_chain_is_one_sequence() -> None:
    assert (a >> b >> c >> d).steps == (a, b, c, d)
    assert ((a >> b) >> (c >> d)).steps == (a, b, c, d)
    assert (a | (b | c)).branches == (a, b, c)
    assert (a // (b // c)).choices == (a, b, c)
    assert Sequence(a >> b, c) == a >> b >> c


@pytest.mark.parametrize(
    "named", [Sequence(a, b, name="pair"), Sequence(a, b, description="Both.")]
)
def test_a_sequence_with_a_name_stays_whole(named: Sequence) -> None:
    assert (named >> c).steps == (named, c)
    assert (c >> named).steps == (c, named)


def test_a_parallel_that_fails_otherwise_stays_whole() -> None:
    collecting = Parallel(a, b, on_error="collect")
    assert (collecting | c).branches == (collecting, c)
    assert Parallel(a | b, c, on_error="collect").branches == (a | b, c)
    assert Parallel(collecting, c, on_error="collect").branches == (a, b, c)
    assert (Parallel(a, b, name="fan") | c).branches == (Parallel(a, b, name="fan"), c)
    assert (Fallback(a, b, name="safe") // c).choices == (Fallback(a, b, name="safe"), c)


def test_loops_and_other_kinds_are_not_opened() -> None:
    assert ((a >> b) | c).branches == (a >> b, c)
    assert ((a | b) // c).choices == (a | b, c)
    assert (a * 2 >> b).steps == (a * 2, b)


# Printing.


def enough(state: Mapping[str, Json]) -> bool:
    return True


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (a >> (b | c) >> d, "(a >> (b | c) >> d)"),
        (a | b >> c, "(a | (b >> c))"),
        (a >> b | c >> d, "((a >> b) | (c >> d))"),
        (a // b >> c, "((a // b) >> c)"),
        (a >> b * 2, "(a >> (b * 2))"),
        (a // b * 2, "((a // b) * 2)"),
        ((a >> b) * until(enough, max=3), "((a >> b) * until(enough, max=3))"),
        (a >> tidy >> (lambda state: None), "(a >> tidy >> step)"),
        (Sequence(a), "Sequence(a)"),
        (Sequence(a, b, name="pair") >> c, '(Sequence(a, b, name="pair") >> c)'),
        (Parallel(a, b, on_error="collect"), 'Parallel(a, b, on_error="collect")'),
        (Fallback(a, b, description="Safe."), 'Fallback(a, b, description="Safe.")'),
        (Loop(a, until=enough, name="again"), 'Loop(a, max=10, until=enough, name="again")'),
        (
            a >> Route("kind").eq("x", b).gt(3, c >> d).when(enough, tidy).otherwise(a),
            '(a >> Route("kind").eq("x", b).gt(3, (c >> d)).when(enough, tidy).otherwise(a))',
        ),
        (Route("k", name="by_kind").otherwise(a), 'Route("k", name="by_kind").otherwise(a)'),
        (Route(enough).eq(True, a), "Route(enough).eq(True, a)"),
        (Step(tidy, name="clean"), "clean"),
    ],
)
def test_a_flow_prints_as_the_operators_with_all_parentheses(flow: Flow, text: str) -> None:
    assert str(flow) == text
    assert repr(flow) == text


def test_until_prints_as_it_is_written() -> None:
    assert str(until(enough, max=4)) == "until(enough, max=4)"


# Laws.

SCOPE: dict[str, object] = {
    **{kind.__name__: kind for kind in (Sequence, Parallel, Loop, Fallback, Route)},
    "until": until,
    **{node.name: node for node in (a, b, c, d)},
    **{function.__name__: Step(function) for function in (tidy, fetch)},
    **{function.__name__: function for function in (enough, done)},
}

leaves = st.sampled_from([a, b, c, d]) | st.sampled_from([tidy, fetch]).map(Step)
names = st.sampled_from(["", "first", "second"])
predicates = st.sampled_from([enough, done])
rounds = st.integers(1, 5)


def named(kind: Callable[..., Flow], default: str) -> Callable[[list[Node], str, str], Flow]:
    return lambda nodes, name, about: kind(*nodes, name=name or default, description=about)


def bigger(inner: "st.SearchStrategy[Node]") -> "st.SearchStrategy[Node]":
    several = st.lists(inner, min_size=1, max_size=3)
    about = st.sampled_from(["", 'Says "so".'])
    return st.one_of(
        st.builds(named(Sequence, "sequence"), several, names, about),
        st.builds(named(Fallback, "fallback"), several, names, about),
        st.builds(named(Parallel, "parallel"), several, names, about),
        st.builds(lambda ns: Parallel(*ns, on_error="collect"), several),
        st.builds(lambda n, times: n * times, inner, rounds),
        st.builds(lambda n, p, times: n * until(p, max=times), inner, predicates, rounds),
        st.builds(lambda n, m: Route("k").eq("yes", n).gt(0.5, m).otherwise(n), inner, inner),
        st.builds(lambda n, p: Route("k", name="by_k").when(p, n), inner, predicates),
    )


nodes = st.recursive(leaves, bigger, max_leaves=8)


@given(nodes, nodes, nodes)
def test_O1_sequence_parallel_and_fallback_are_associative(x: Node, y: Node, z: Node) -> None:
    assert (x >> y) >> z == x >> (y >> z)
    assert (x | y) | z == x | (y | z)
    assert (x // y) // z == x // (y // z)


@given(nodes)
def test_what_a_flow_prints_is_the_flow(node: Node) -> None:
    text = str(node) if not isinstance(node, Agent) else node.name
    assert eval(text, dict(SCOPE)) == node


@given(nodes, nodes)
def test_operands_can_be_used_again(x: Node, y: Node) -> None:
    before = (copy.deepcopy(x), copy.deepcopy(y))
    assert x >> y == x >> y
    assert (x | y, x // y, x * 2) == (x | y, x // y, 2 * x)
    assert (x, y) == before
    assert hash(x >> y) == hash(before[0] >> before[1])


@given(nodes)
def test_a_flow_travels_to_another_process(node: Node) -> None:
    assert pickle.loads(pickle.dumps(node)) == node


@given(nodes)
def test_walking_meets_every_node_below_its_parent(node: Node) -> None:
    met = list(walk_nodes(node))
    assert met[0] == (node, None)
    for below, parent in met[1:]:
        assert not isinstance(parent, Agent)
        assert parent is not None
        assert any(below is child for child in parent.children)
    agents = {below.name for below, _ in met if isinstance(below, Agent)}
    assert {agent.name for agent in agents_of(node)} == agents


# What is refused.

VERBS = "an agent, a flow, or a function of one argument, the state, may stand there"
ROUNDS = "pass a whole number of at least 1, or write flow * until(predicate, max=3)"

ILL_OPERANDS: dict[str, tuple[Callable[[], object], str, str, str]] = {
    "after": (
        lambda: a >> 3,  # type: ignore[operator]
        "a >> 3",
        "3 is neither an agent, a flow nor a function",
        VERBS,
    ),
    "before": (lambda: 3 >> a, "3 >> a", "3 is neither", VERBS),  # type: ignore[operator]
    "text": (lambda: "x y" >> a, "'x y' >> a", "'x y' is neither", VERBS),  # type: ignore[operator]
    "a name": (lambda: "x" >> a, "'x' >> a", "'x' is neither", "not its name: x"),  # type: ignore[operator]
    "beside": (lambda: a | None, "a | None", "None is neither", VERBS),  # type: ignore[operator]
    "none": (lambda: None | a, "None | a", "None is neither", VERBS),  # type: ignore[operator]
    "else": (lambda: a // 3, "a // 3", "3 is neither", VERBS),  # type: ignore[operator]
    "or": (lambda: 3 // a, "3 // a", "3 is neither", VERBS),  # type: ignore[operator]
    "a flow": (
        lambda: (a >> b) | [],  # type: ignore[operator]
        "(a >> b) | []",
        "[] is neither",
        VERBS,
    ),
    "until": (
        lambda: a >> until(done),  # type: ignore[operator]
        "a >> until(done, max=10)",
        "until(done, max=10) is neither",
        VERBS,
    ),
    "words": (lambda: a * "x", "a * 'x'", "'x' is not a number of rounds", ROUNDS),  # type: ignore[operator]
    "none at all": (lambda: a * 0, "a * 0", "0 is not a number of rounds", ROUNDS),
    "less": (lambda: -1 * (a >> b), "(a >> b) * -1", "-1 is not a number", ROUNDS),
    "half": (lambda: a * 1.5, "a * 1.5", "1.5 is not a number", ROUNDS),  # type: ignore[operator]
    "a flag": (lambda: a * True, "a * True", "True is not a number", ROUNDS),
    "times": (lambda: a * b, "a * b", "is not a number of rounds", ROUNDS),  # type: ignore[operator]
    "uncalled": (lambda: a * done, "a * done", "is not a number of rounds", ROUNDS),  # type: ignore[operator]
    "a class": (
        lambda: a >> Invoice,  # type: ignore[operator]
        "Step Invoice",
        "Invoice is a class, not a function",
        "for a structured answer write agent @ Invoice",
    ),
    "a tool": (
        lambda: a >> tool(tidy),
        "Step tidy",
        "`tidy` is a tool: it takes arguments, not the state",
        "give it to an agent: agent.uses(tidy)",
    ),
    "a route": (
        lambda: a >> Route("intent"),
        'a >> Route("intent")',
        'Route("intent") leads nowhere',
        'give it a case: Route("intent").eq("label", agent), or .otherwise(agent)',
    ),
    "a schema": (
        lambda: (a >> b) @ Invoice,
        "(a >> b) @ Invoice",
        "a flow has no schema of its own",
        "put it on the agent that answers: first >> (last @ Schema)",
    ),
    "on the left": (
        lambda: Receipt @ a,
        "Receipt @ a",
        "the schema stands on the left of @",
        "write agent @ Schema",
    ),
    "no schema": (lambda: a @ None, "a.output_schema", "None is not a schema", "agent @ Schema"),
    "no type": (lambda: a @ object(), "a.output_schema", "has no JSON Schema", "use str"),
}


@pytest.mark.parametrize("case", ILL_OPERANDS)
def test_O1_an_ill_operand_is_refused_with_what_may_stand_there(case: str) -> None:
    build, where, message, hint = ILL_OPERANDS[case]
    with pytest.raises(DeclarationError) as caught:
        build()
    assert caught.value.where == where
    assert message in caught.value.message
    assert hint in caught.value.hint


def no_state() -> None:
    return None


def two(state: object, other: object) -> None:
    return None


def keyword_only(state: object, *, other: int) -> None:
    return None


def yields(state: object) -> object:
    yield {}


REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "sequence": (lambda: Sequence(), "sequence.steps", "it is empty"),
    "parallel": (lambda: Parallel(), "parallel.branches", "it is empty"),
    "fallback": (lambda: Fallback(name="safe"), "safe.choices", "it is empty"),
    "a step of it": (lambda: Sequence(a, 3), "sequence.steps", "3 is neither"),  # type: ignore[arg-type]
    "a branch": (lambda: Parallel(a, None), "parallel.branches", "None is neither"),  # type: ignore[arg-type]
    "a choice": (lambda: Fallback("a"), "fallback.choices", "'a' is neither"),  # type: ignore[arg-type]
    "a list": (lambda: Sequence([a, b]), "sequence.steps", "is neither"),  # type: ignore[arg-type]
    "the body": (lambda: Loop(3), "loop.body", "3 is neither"),  # type: ignore[arg-type]
    "no rounds": (lambda: Loop(a, max=0), "loop.max", "0 is not a number of rounds"),
    "some rounds": (lambda: Loop(a, max="3"), "loop.max", "'3' is not a number"),  # type: ignore[arg-type]
    "until": (lambda: Loop(a, until=3), "loop.until", "3 cannot be called"),  # type: ignore[arg-type]
    "until none": (
        lambda: until(no_state),  # type: ignore[arg-type]
        "until",
        "a predicate takes (state); `no_state` takes 0",
    ),
    "until two": (
        lambda: Loop(a, until=two),  # type: ignore[arg-type]
        "loop.until",
        "a predicate takes (state); `two` takes 2",
    ),
    "until yields": (lambda: until(yields), "until", "`yields` does not answer at once"),
    "until rounds": (lambda: until(done, max=0), "until.max", "0 is not a number of rounds"),
    "name": (
        lambda: Sequence(a, name="my flow"),
        "Sequence.name",
        "'my flow' cannot be a sequence name: it is not an identifier",
    ),
    "no name": (lambda: Parallel(a, name=""), "Parallel.name", "'' cannot be a parallel name"),
    "keyword": (lambda: Loop(a, name="for"), "Loop.name", "'for' cannot be a loop name"),
    "the user": (lambda: Fallback(a, name="user"), "Fallback.name", '"user" cannot be'),
    "description": (
        lambda: Sequence(a, description=None),  # type: ignore[arg-type]
        "sequence.description",
        "description is not text",
    ),
    "on_error": (
        lambda: Parallel(a, on_error="colect"),  # type: ignore[arg-type]
        "parallel.on_error",
        "on_error='colect' is not one of 'cancel', 'collect'",
    ),
    "no function": (lambda: Step(3), "Step int", "3 cannot be called"),  # type: ignore[arg-type]
    "no argument": (
        lambda: a >> no_state,  # type: ignore[operator]
        "Step no_state",
        "a step takes (state); `no_state` takes 0",
    ),
    "two arguments": (
        lambda: a >> two,  # type: ignore[operator]
        "Step two",
        "a step takes (state); `two` takes 2",
    ),
    "a keyword": (
        lambda: Step(keyword_only),  # type: ignore[arg-type]
        "Step keyword_only",
        "a step takes (state); `keyword_only` takes 1 and needs other=",
    ),
    "a generator": (lambda: Step(yields), "Step yields", "it yields"),
    "step name": (lambda: Step(tidy, name="a b"), "Step.name", "'a b' cannot be a step name"),
    "reads": (
        lambda: Step(tidy, reads="topic"),
        "Step tidy",
        'reads="topic" is one string, not a list of names',
    ),
    "writes": (lambda: Step(tidy, writes=[1]), "Step tidy", "writes=[1] is not a list of names"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_right_is_refused_where_it_is_written(case: str) -> None:
    build, where, message = REFUSED[case]
    with pytest.raises(DeclarationError) as caught:
        build()
    assert caught.value.where == where
    assert message in caught.value.message
    assert caught.value.hint


def test_a_near_choice_is_named() -> None:
    with pytest.raises(DeclarationError, match="did you mean 'collect'"):
        Parallel(a, on_error="colect")  # type: ignore[arg-type]


# Names.


def test_one_agent_may_stand_in_several_places() -> None:
    writer, critic = Agent("writer"), Agent("critic")
    assert agents_of(writer >> critic >> writer) == (writer, critic)
    assert agents_of(writer >> critic >> Agent("writer")) == (writer, critic)
    assert len(list(walk_nodes(writer | writer))) == 3


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (lambda: a >> a.instruct("Other."), "sequence.steps"),
        (lambda: a | (b >> a.instruct("Other.")), "parallel.branches"),
        (lambda: a // a.writes("x"), "fallback.choices"),
        (lambda: Route("x").eq(1, a).eq(2, a.writes("x")), 'Route("x")'),
        (lambda: a >> Agent("boss", sub_agents=[a.writes("x")]), "sequence.steps"),
        (lambda: a >> Agent("boss", sub_agents=[a.writes("x") * 2]), "sequence.steps"),
    ],
)
def test_two_different_agents_of_one_name_are_refused(
    build: Callable[[], object], where: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        build()
    assert caught.value.where == where
    assert caught.value.message == "two different agents are named `a`"
    again = 'Agent("a_2", ...), or a copy: dataclasses.replace(a, name="a_2")'
    assert caught.value.hint == f"rename one: {again}"


def test_a_step_is_named_after_its_function() -> None:
    class Counter:
        def __call__(self, state: Mapping[str, Json]) -> None:
            return None

        def count(self, state: Mapping[str, Json]) -> None:
            return None

    assert Step(tidy).name == "tidy"
    assert Step(lambda state: None).name == "step"
    assert Step(functools.partial(two, other=1)).name == "two"
    assert Step(Counter()).name == "Counter"
    assert Step(Counter().count).name == "count"
    assert Step(tidy, name="clean", reads=["x"], writes=("y", "z")).writes == ("y", "z")


# The inside of a flow.


def test_children_walk_and_agents_are_in_the_order_they_are_written() -> None:
    boss = Agent("boss", sub_agents=[Agent("left"), Agent("right")])
    choose = Route("x").eq("y", c).otherwise(d)
    flow = a >> (boss | b * 2) >> tidy >> choose
    assert [node.name for node, _ in walk_nodes(flow)] == [
        "sequence", "a", "parallel", "boss", "loop", "b", "tidy", "route", "c", "d",
    ]  # fmt: skip
    assert [agent.name for agent in agents_of(flow)] == [
        "a", "boss", "left", "right", "b", "c", "d",
    ]  # fmt: skip
    parents = {node.name: parent.name for node, parent in walk_nodes(flow) if parent is not None}
    assert (parents["c"], parents["b"], parents["parallel"]) == ("route", "loop", "sequence")
    assert choose.children == (c, d)
    assert Step(tidy).children == ()


def test_a_lone_agent_is_a_flow_of_one() -> None:
    boss = Agent("boss", sub_agents=[Agent("left") >> Agent("right")])
    assert list(walk_nodes(boss)) == [(boss, None)]
    assert [agent.name for agent in agents_of(boss)] == ["boss", "left", "right"]


def test_a_flow_used_over_and_over_is_walked_in_reasonable_time() -> None:
    flow: Node = a >> b
    for level in range(60):
        flow = Parallel(flow, flow, name=f"level_{level}")
    assert agents_of(flow) == (a, b)


def test_a_flow_hundreds_deep_prints_and_compares() -> None:
    one: Node = a
    other: Node = a
    for _ in range(200):
        one, other = one * 2, other * 2
    assert one == other
    assert hash(one) == hash(other)
    assert str(one).startswith("((((")


def test_a_chain_of_many_is_one_sequence() -> None:
    flow = Agent("s0") >> Agent("s1")
    for number in range(2, 200):
        flow = flow >> Agent(f"s{number}")
    assert len(flow.steps) == 200


# Flows as sub-agents.


def test_X1_a_flow_may_be_a_sub_agent() -> None:
    report = Sequence(a | b, c, name="report", description="Writes a report.")
    boss = Agent("boss", sub_agents=[report, d])
    assert boss.sub_agents == (report, d)
    assert Agent("boss").delegates_to(report, d) == boss
    assert report.sub_agents == ()
    assert pickle.loads(pickle.dumps(boss)) == boss


@pytest.mark.parametrize(
    ("build", "message", "hint"),
    [
        (
            lambda: Agent("boss", sub_agents=[a >> b, c >> d]),
            "two agents are named `sequence`",
            'Sequence(..., name="sequence_2")',
        ),
        (
            lambda: Agent("boss", sub_agents=[a, Sequence(b, c, name="a")]),
            "two agents are named `a`",
            'Sequence(..., name="a_2")',
        ),
        (lambda: Agent("boss", sub_agents=[a >> b, a.writes("x")]), "two different agents", "a_2"),
        (lambda: a.delegates_to(b >> a), "two different agents are named `a`", "a_2"),
        (lambda: Agent("boss", sub_agents=[Route("x")]), "leads nowhere", "give it a case"),
        (
            lambda: Agent("boss", sub_agents=a >> b),  # type: ignore[arg-type]
            "sub_agents is a Sequence, not a list",
            "write sub_agents=[a, b]",
        ),
        (lambda: Agent("boss", sub_agents=[tidy]), "is not an Agent or a flow", "flows"),  # type: ignore[list-item]
    ],
)
def test_a_flow_that_cannot_be_a_sub_agent_is_refused(
    build: Callable[[], object], message: str, hint: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        build()
    assert caught.value.where in ("a.sub_agents", "boss.sub_agents")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_async_predicate_may_end_a_loop() -> None:
    assert (a * until(done_later, max=2)).until is done_later
