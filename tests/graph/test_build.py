"""What is in a picture: who writes, who reads, through which channel, and what is wrong."""

from collections.abc import Mapping

import pytest

from tests.graph.flows import Wild, agent, draw_wild
from tests.support.linear import calls
from weft import Agent, Map, Parallel, Route, S, Sequence, Step, ToolContext, check, tool, until
from weft.declare import Node
from weft.diagnostics import Severity
from weft.errors import UsageError
from weft.graph import Graph, graph_of
from weft.graph.model import groups_of


def edges(graph: Graph) -> set[tuple[str, str, str, str]]:
    names = {vertex.id: vertex.title for vertex in graph.vertices}
    return {(names[e.source], e.key, e.channel, names[e.target]) for e in graph.edges}


def codes(graph: Graph) -> dict[str, tuple[str, ...]]:
    return {
        vertex.title: tuple(one.code for one in vertex.problems)
        for vertex in graph.vertices
        if vertex.problems
    }


def test_a_template_a_policy_and_the_conversation_are_told_apart() -> None:
    from weft import C

    flow = (
        agent("triage").writes("intent")
        >> agent("booker", "Intent: {intent}")
        >> agent("editor").sees(C.user() + C.agents("booker") + C.state("intent"))
    )
    assert edges(graph_of(flow)) == {
        ("triage", "intent", "template", "booker"),
        ("triage", "intent", "state", "editor"),
        ("booker", "", "conversation", "editor"),
    }


def test_the_inputs_are_where_keys_come_from() -> None:
    graph = graph_of(agent("helper", "About {topic}"), inputs=iter(["topic"]))
    assert edges(graph) == {("input", "topic", "template", "helper")}
    assert graph.problems == ()


def test_a_key_of_some_paths_only_is_not_certain() -> None:
    route = Route("kind").eq("a", agent("left").writes("found")).otherwise(agent("right"))
    graph = graph_of(route >> agent("last", "{found?}"), inputs={"kind": str})
    found = [edge for edge in graph.edges if edge.key == "found"]
    assert [edge.certain for edge in found] == [False]


def test_an_agent_that_stands_twice_writes_where_it_stands_last() -> None:
    helper = agent("helper").writes("note")
    first = agent("first", "{note}").writes("more")
    graph = graph_of(helper >> first >> helper >> agent("last", "{note} {more}"))
    twice = [vertex.id for vertex in graph.vertices if vertex.title == "helper"]
    assert len(twice) == 2
    reader = {vertex.title: vertex.id for vertex in graph.vertices}
    assert ("note", twice[0], reader["first"]) in {(e.key, e.source, e.target) for e in graph.edges}
    assert ("note", twice[1], reader["last"]) in {(e.key, e.source, e.target) for e in graph.edges}


def test_maps_without_a_name_are_told_apart_by_their_keys() -> None:
    flow = (
        Map("files", agent("one", "{item}"), into="notes")
        >> Map("notes", agent("two", "{item}"), into="lines")
        >> agent("last", "{lines}")
    )
    assert {
        ("map files into notes", "notes", "state", "map notes into lines"),
        ("map notes into lines", "lines", "template", "last"),
        ("map files into notes", "item", "template", "one"),
        ("map notes into lines", "item", "template", "two"),
    } <= edges(graph_of(flow, inputs={"files": list[str]}))


def test_a_tool_writes_through_its_agent() -> None:
    @tool(writes=["seat"])
    def reserve(ctx: ToolContext) -> str:
        """Reserve."""
        ctx.state["seat"] = "12A"
        return "done"

    graph = graph_of(agent("booker", tools=[reserve]) >> agent("last", "{seat}"))
    assert ("booker", "seat", "template", "last") in edges(graph)


def test_an_inferred_key_says_so() -> None:
    flow = agent("triage") >> agent("booker", "Intent: {intent}")
    graph = graph_of(flow)
    assert [port.inferred for vertex in graph.vertices for port in vertex.writes] == [True]
    assert ("triage", "intent", "template", "booker") in edges(graph)
    off = graph_of(flow, infer=False)
    assert "booker" in codes(off)


def test_what_nobody_writes_is_a_problem_of_the_reader() -> None:
    flow = agent("triage").writes("intent") >> agent("booker", "{intnet}")
    graph = graph_of(flow)
    assert "WEFT105" in codes(graph)["booker"]
    booker = next(vertex for vertex in graph.vertices if vertex.title == "booker")
    assert [port.codes for port in booker.reads] == [("WEFT105",)]
    allowed = graph_of(flow, allow=["WEFT105"])
    assert "booker" not in codes(allowed)


def test_only_the_route_that_is_wrong_is_marked() -> None:
    def route(key: str, first: str, second: str) -> Route:
        return Route(key).eq("x", agent(first)).otherwise(agent(second))

    flow = route("kind", "a", "b") >> route("knd", "c", "d")
    found = codes(graph_of(flow, inputs={"kind": str}))
    assert [title for title in found if title.startswith("route")] == ["route knd"]


def test_remarks_are_not_problems() -> None:
    flow = agent("triage") >> agent("booker", "Intent: {intent}")
    assert all(one.severity is not Severity.INFO for one in graph_of(flow).problems)


def test_code_that_hides_what_it_writes_is_noted() -> None:
    def hidden(state: Mapping[str, object]) -> dict[str, object]:
        return dict(sorted(state.items()))

    graph = graph_of(Step(hidden) >> agent("last"))
    assert graph.vertices[1].notes == ("may write any key",)


def test_what_a_step_drops_and_renames_is_shown() -> None:
    graph = graph_of(S.drop("raw") >> S.rename(a="b"), inputs=["raw", "a"])
    titles = [vertex.title for vertex in graph.vertices]
    assert titles[1].startswith("S.drop")
    assert graph.vertices[1].notes == ("drops raw",)
    assert [port.key for port in graph.vertices[2].writes] == ["b"]


def test_nothing_but_a_node_is_drawn() -> None:
    with pytest.raises(UsageError):
        graph_of(3)  # type: ignore[arg-type]


def nodes(node: Node) -> int:
    below: list[Node] = []
    if isinstance(node, Agent):
        below += node.sub_agents
    else:
        below += node.children
    own = 0 if isinstance(node, Sequence) or type(node).__name__ in FRAMES else 1
    return own + sum(nodes(child) for child in below)


FRAMES = ("Parallel", "Race", "Fallback", "Timeout")


def test_every_node_of_a_random_flow_is_in_its_picture_once() -> None:
    for seed in range(100):
        graph = draw_wild(seed, 30)
        ids = [vertex.id for vertex in graph.vertices]
        ids += [group.id for group in groups_of(graph.root)]
        assert len(set(ids)) == len(ids)
        assert len(graph.vertices) - 2 == nodes(Wild(seed).node(30)), seed
        for link in graph.links:
            assert {link.source, link.target} <= set(ids)
        for edge in graph.edges:
            assert {edge.source, edge.target} <= set(ids)


def test_a_picture_takes_no_walk_that_its_check_did_not_take() -> None:
    flow = Wild(4).node(60)
    check(flow)  # what is done once in a process is done
    assert calls(lambda: graph_of(flow)) < 1.5 * calls(lambda: check(flow))


def test_every_reader_of_a_written_key_has_an_edge() -> None:
    for seed in range(100):
        graph = draw_wild(seed, 30)
        for edge in graph.edges:
            source = next(vertex for vertex in graph.vertices if vertex.id == edge.source)
            target = next(vertex for vertex in graph.vertices if vertex.id == edge.target)
            if edge.channel == "conversation":
                assert source.name in target.hears
            else:
                assert edge.key in {port.key for port in source.writes}, seed
                assert edge.key in {port.key for port in target.reads}, seed


def test_branches_beside_each_other_exchange_nothing() -> None:
    flow = Parallel(agent("one", "{x?}").writes("x"), agent("two", "{x?}")) * until(bool, max=2)
    beside = agent("one").writes("x") | agent("two", "{x?}")
    assert edges(graph_of(beside)) == set()
    assert ("one", "x", "template", "two") in edges(graph_of(flow))
