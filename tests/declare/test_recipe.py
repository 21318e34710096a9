"""CONTRIBUTING's recipe "Add a node", followed to the letter in a copy of the package."""

from pathlib import Path

from tests.support.recipes import Insertion, Place, Recipe

NODE = '''@flow_node('Mark("key", "value")')
@late_dataclass(frozen=True, repr=False, eq=False)
class Mark(ByFields, Composable):
    """Writes one text under a key."""

    key: str
    text: str
    name: str = field(default="mark", kw_only=True)
    description: str = field(default="", kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()


'''

PLACES = (
    # 1: the node, its name in `Flow`, its names for users
    Place("src/weft/declare/nodes.py", (Insertion(NODE, before='@flow_node("tap(function)")\n'),)),
    Place(
        "src/weft/declare/flow.py",
        (
            Insertion("    Mark,\n", before="    Tap,\n"),
            Insertion("    | Mark\n", before="    | Tap\n"),
        ),
    ),
    Place(
        "src/weft/declare/__init__.py",
        (
            Insertion("Mark, ", after="import Expect, Map, ", before="Race,"),
            Insertion('    "Mark",\n', after='    "Map",\n'),
        ),
    ),
    Place(
        "src/weft/__init__.py",
        (Insertion('    "Mark": "weft.declare",\n', after='    "Map": "weft.declare",\n'),),
    ),
    # 2, and its text of 4
    Place(
        "src/weft/declare/visit.py",
        (
            Insertion("Mark, ", after="import Expect, Map, ", before="Race,"),
            Insertion(
                "            case Mark():\n                return self.visit_mark(node)\n",
                before="            case Tap():\n",
            ),
            Insertion(
                "    @abstractmethod\n"
                "    def visit_mark(self, node: Mark) -> T:\n"
                '        """A text under a key."""\n\n',
                before="    @abstractmethod\n    def visit_tap(self, node: Tap) -> T:\n",
            ),
            Insertion(
                "    def visit_mark(self, node: Mark) -> T:\n"
                "        return self.visit_other(node)\n\n",
                before="    def visit_tap(self, node: Tap) -> T:\n"
                "        return self.visit_other(node)\n",
            ),
            Insertion(
                "    def visit_mark(self, node: Mark) -> str:\n"
                '        return _call("Mark", quote_value(node.key), quote_value(node.text))\n\n',
                before="    def visit_tap(self, node: Tap) -> str:\n",
            ),
        ),
    ),
    # 3: it stores what it did together with that it ended
    Place(
        "src/weft/runtime/flows.py",
        (
            Insertion("    Mark,\n", before="    Tap,\n"),
            Insertion(
                "    async def visit_mark(self, node: Mark) -> Events:\n"
                "        actions = Actions(state_delta={node.key: node.text}, end_of_agent=True)\n"
                "        yield await self._commit(node, actions)\n\n",
                before="    async def visit_tap(self, node: Tap) -> Events:\n",
            ),
        ),
    ),
    # 4: the checker and the drawing
    Place(
        "src/weft/checker/walk.py",
        (
            Insertion("    Mark,\n", before="    Tap,\n"),
            Insertion(
                "    def visit_mark(self, node: Mark) -> World:\n"
                '        origin = Origin("field", "key", node.name)\n'
                '        writer = Writer(node.name, origin, "step")\n'
                "        return self.world.with_write(node.key, writer)\n\n",
                before="    def visit_tap(self, node: Tap) -> World:\n",
            ),
        ),
    ),
    # 5: its answer where most nodes answer alike
    Place(
        "src/weft/checker/agents.py",
        (
            Insertion("    Mark,\n", after="    Map,\n"),
            Insertion(
                "    def visit_mark(self, node: Mark) -> _Pairs:\n"
                '        origin = Origin("field", "key", node.name)\n'
                '        yield node.key, Writer(node.name, origin, "step")\n\n',
                before="    def visit_gate(self, node: Gate) -> _Pairs:\n",
            ),
        ),
    ),
    Place(
        "src/weft/graph/build.py",
        (
            Insertion(
                "    def visit_mark(self, node: declare.Mark) -> Member:\n"
                '        writes = [(node.key, Origin("field", "key", node.name))]\n'
                '        content = _BoxContent("mark", show(node), (), writes)\n'
                "        return self._vertex(node, content)\n\n",
                before="    def visit_tap(self, node: declare.Tap) -> Member:\n",
            ),
        ),
    ),
    Place("src/weft/graph/model.py", (Insertion('mark", "', after='"gate", "', before='tap",'),)),
    Place(
        "src/weft/graph/mermaid.py",
        (Insertion('    "mark": ("[", "]"),\n', before='    "tap": ('),),
    ),
)

PROGRAM = '''
import asyncio
from typing import get_args

import weft
from weft import Agent, Gate, Mark, Runner
from weft.declare import Flow
from weft.declare.visit import inner_agents, show
from weft.graph import graph_of, to_mermaid, to_svg, to_text
from weft.graph.model import VertexKind
from weft.testing import ScriptedModel

flow = Mark("tone", "dry") >> Gate("ready") >> Agent("writer", instruction="Be {tone}. {missing}")
assert show(flow) == """(Mark("tone", "dry") >> Gate("ready") >> writer)""", show(flow)
assert not inner_agents(flow)

both = weft.check(Mark("tone", "dry") | Mark("tone", "warm"))
assert "WEFT110" in [one.code for one in both], both
found = [one.message for one in weft.check(flow) if one.code == "WEFT105"]
assert len(found) == 1 and "missing" in found[0], found

graph = graph_of(flow)
# what a type checker says without these two names
assert Mark in get_args(Flow)
assert {vertex.kind for vertex in graph.vertices} <= {*get_args(VertexKind)}
for drawn in (to_mermaid(graph), to_text(graph), to_svg(graph)):
    assert "Mark" in drawn and "tone" in drawn, drawn


async def run_and_resume():
    model = ScriptedModel(["done"])
    writer = Agent("writer", model=model, instruction="Be {tone}.")
    runner = Runner(Mark("tone", "dry") >> Gate("ready") >> writer)
    first = await runner.run(session_id="s", message="Go")
    assert first.waiting and first.state["tone"] == "dry", first
    again = await runner.resume(session_id="s", answers={"ready": "yes"})
    assert again.check().state["tone"] == "dry" and "Be dry." in str(model.wires[0])
    marks = [event for event in again.session.events if event.author == "mark"]
    assert len(marks) == 1, marks


asyncio.run(run_and_resume())
'''


RECIPE = Recipe(("Add a node",), PLACES, (PROGRAM,))


def test_the_recipe_names_every_place() -> None:
    assert not RECIPE.find_unnamed()


def test_a_node_made_by_the_recipe_works_and_a_forgotten_place_is_noticed(tmp_path: Path) -> None:
    played = RECIPE.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert not played.unnoticed
