"""One visit over nodes: who implements it, and that a type checker names what a visitor lacks."""

import ast
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

import pytest

import weft
from weft import (
    Agent,
    CustomAgent,
    Event,
    Gate,
    Loop,
    Map,
    Route,
    RunContext,
    Step,
    expect,
    race,
    tap,
    timeout,
)
from weft.checker.walk import NodeWalk
from weft.declare import Flow, Node
from weft.declare.agent import children, every_agent, nodes_below, walk_nodes
from weft.declare.visit import DefaultVisitor, Visitor, rebuild, rebuild_program
from weft.graph.build import graph_of
from weft.graph.mermaid import to_mermaid
from weft.graph.model import vertices_of
from weft.graph.svg import to_svg
from weft.graph.terminal import to_text
from weft.runtime.flows import NodeRun

SOURCE = Path(weft.__file__).parent

a, b, c = Agent("a"), Agent("b"), Agent("c").writes("c")


class Picks(CustomAgent):
    """Code that decides."""

    first: Agent
    others: list[Agent]

    async def run(self, ctx: RunContext) -> AsyncIterator[Event]:
        async for event in ctx.run(self.first):
            yield event


NODES: tuple[Node, ...] = (
    a,
    a >> b,
    a | b,
    a // b,
    a * 3,
    Route("k").eq("x", a).eq("y", b).otherwise(c),
    Step(lambda state: None, name="step"),
    Map("items", a, into="out"),
    Gate("ask"),
    race(a, b),
    timeout(a, 3),
    tap(print),
    expect(bool, "no"),
    Picks("picks", first=a, others=[b]),
)
"""One of every kind."""


def _kind(node: Node) -> type:
    """The kind of a node: the class that all of its kind derive from."""
    return CustomAgent if isinstance(node, CustomAgent) else type(node)


def _word(kind: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def _methods() -> list[str]:
    return [name for name in vars(Visitor) if name.startswith("visit_")]


def _answer(name: str) -> Callable[[object, Node], str]:
    return lambda self, node: name


ANSWERS = {name: _answer(name.removeprefix("visit_")) for name in _methods()}
"""By method of a visitor: one that returns the name of the kind it is for."""


def test_there_is_a_method_for_every_kind_and_it_is_the_one_that_is_called() -> None:
    kinds = {Agent, *get_args(Flow)}
    assert {_kind(node) for node in NODES} == kinds, "NODES has one of every kind"
    assert set(_methods()) == {f"visit_{_word(kind)}" for kind in kinds}
    visitor = cast("Visitor[str]", type("Names", (Visitor,), ANSWERS)())
    assert [visitor.visit(node) for node in NODES] == [_word(_kind(node)) for node in NODES]


def _trees(word: str) -> Iterable[tuple[str, ast.Module]]:
    """The files of the package that have the word."""
    for file in sorted(SOURCE.rglob("*.py")):
        if word in (text := file.read_text("utf-8")):
            yield file.relative_to(SOURCE).as_posix(), ast.parse(text)


def _visitors(base: str) -> Iterable[str]:
    """The classes of the package that derive from this one, with their files."""
    for file, tree in _trees(base):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(one).partition("[")[0] for one in node.bases}
                if base in bases:
                    yield f"{file}:{node.name}"


def test_each_room_has_exactly_one_class_that_knows_all_kinds() -> None:
    assert [*_visitors("Visitor")] == [
        "checker/walk.py:NodeWalk",
        "declare/visit.py:DefaultVisitor",
        "declare/visit.py:_FlowText",
        "graph/build.py:_Builder",
        "runtime/flows.py:NodeRun",
    ]
    assert issubclass(NodeWalk, Visitor)
    assert issubclass(NodeRun, Visitor)


def test_nobody_else_tells_kinds_apart_one_by_one() -> None:
    """One `match` over nodes is enough: others would be forgotten where a kind is added."""
    kinds = {kind.__name__ for kind in (Agent, *get_args(Flow))}
    matches: list[str] = []
    for file, tree in _trees("match "):
        for node in ast.walk(tree):
            if isinstance(node, ast.Match):
                classes = [one for one in ast.walk(node) if isinstance(one, ast.MatchClass)]
                named = {one.cls.id for one in classes if isinstance(one.cls, ast.Name)}
                if len(named & kinds) > 1:
                    matches.append(file)
    assert matches == ["declare/visit.py"]


def test_a_visitor_that_lacks_a_kind_cannot_be_made() -> None:
    lacking = type("Lacking", (Visitor,), {**ANSWERS, "visit_map": vars(Visitor)["visit_map"]})
    with pytest.raises(TypeError, match="visit_map"):
        lacking()


def test_a_type_checker_names_the_kind_that_a_visitor_lacks(tmp_path: Path) -> None:
    methods = "".join(
        f"    def {name}(self, node: object) -> int:\n        return 0\n"
        for name in _methods()
        if name != "visit_map"
    )
    file = tmp_path / "typed.py"
    file.write_text(
        f"from weft.declare.visit import Visitor\nclass Sizes(Visitor[int]):\n{methods}Sizes()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)],
        capture_output=True,
        text=True,
        cwd=SOURCE.parent.parent,
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert '"visit_map"' in errors[0]


def test_a_default_visitor_has_one_answer_for_the_kinds_without_a_method() -> None:
    class Bodies(DefaultVisitor[int]):
        def visit_other(self, node: Node) -> int:
            return 0

        def visit_loop(self, node: Loop) -> int:
            return node.max

    assert [Bodies().visit(node) for node in NODES] == [
        3 if isinstance(node, Loop) else 0 for node in NODES
    ]


def test_children_are_what_runs_and_below_is_also_what_may_be_handed_over_to() -> None:
    parent = Agent("parent", sub_agents=[a, b])
    assert children(parent) == ()
    assert nodes_below(parent) == (a, b)
    assert nodes_below(a >> b) == children(a >> b) == (a, b)


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_a_rebuilt_node_differs_only_in_its_agents(node: Node) -> None:
    assert rebuild(node, lambda agent: agent) is node
    changed = rebuild(node, lambda agent: replace(agent, description="changed"))
    assert type(changed) is type(node)
    assert repr(changed) == repr(node) or isinstance(node, Agent)
    for one, _ in walk_nodes(changed):
        assert not isinstance(one, Agent) or one.description == "changed"
    back = rebuild(changed, lambda agent: replace(agent, description=""))
    assert back == node


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_every_kind_is_checked_and_drawn(node: Node) -> None:
    assert isinstance(weft.check(node, inputs=["items", "k"]), list)
    graph = graph_of(node, inputs=["items", "k"])
    assert [*vertices_of(graph.root)]
    # each form has its own way to draw a kind
    assert to_svg(graph)
    assert to_mermaid(graph)
    assert to_text(graph)


PROGRAMS: tuple[Node, ...] = (
    Agent("router", sub_agents=[Agent("clerk", sub_agents=[Agent("deep")]), b]),
    Agent("caller", tools=[Agent("called", tools=[a >> b])]),
    Agent("top", sub_agents=[Picks("picks", first=a, others=[b]), (b | c) >> Agent("end")]),
    a >> Agent("host", sub_agents=[Map("items", Agent("each", tools=[c]), into="out")]),
    Picks("code", first=Agent("router", sub_agents=[a]), others=[Agent("caller", tools=[b])]),
)


@pytest.mark.parametrize("root", PROGRAMS, ids=lambda root: root.name)
def test_a_program_is_changed_in_flows_below_agents_and_behind_tools(root: Node) -> None:
    assert rebuild_program(root, lambda agent: agent) is root, "plans are kept by identity"
    changed = rebuild_program(root, lambda agent: replace(agent, description="changed"))
    described = {agent.name: agent.description for agent in every_agent(changed)}
    assert described == dict.fromkeys((agent.name for agent in every_agent(root)), "changed")
    assert not any(agent.description for agent in every_agent(root)), "a declaration is frozen"


def test_an_agent_in_several_places_stays_one_agent() -> None:
    shared = Agent("shared")
    root = Agent("first", tools=[shared]) >> Agent("second", tools=[shared])
    changed = rebuild_program(root, lambda agent: replace(agent, description="changed"))
    one, other = (step.tools[0].agent for step in changed.children)
    assert one is other


def test_a_program_is_changed_at_any_depth() -> None:
    node: Node = Agent("deepest")
    for level in range(600):
        node = timeout(Agent(f"level_{level}", tools=[node]), 3)
    changed = rebuild_program(node, lambda agent: replace(agent, description="changed"))
    agents = every_agent(changed)
    assert len(agents) == 601
    assert {agent.description for agent in agents} == {"changed"}
