"""CONTRIBUTING's recipe "Add a node", followed to the letter in a copy of the package."""

from pathlib import Path

import pytest

from tests.support.copied_package import copy_package, find_unnamed, read_recipe, run_in_copy

NODE = '''
@flow_node('Mark("key", "value")')
@dataclass(frozen=True, repr=False, eq=False)
class Mark(ByFields, Composable):
    """Writes one text under a key."""

    key: str
    text: str
    name: str = field(default="mark", kw_only=True)
    description: str = field(default="", kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()


'''

TAP = '@flow_node("tap(function)")\n'

EDITS = {
    # 1: the node, its name in `Flow`, its names for users
    "declare/nodes.py": [(TAP, NODE.lstrip("\n") + TAP)],
    "declare/flow.py": [
        ("    Tap,\n", "    Mark,\n    Tap,\n"),
        ("    | Tap\n", "    | Mark\n    | Tap\n"),
    ],
    "declare/__init__.py": [
        ("import Expect, Map, Race,", "import Expect, Map, Mark, Race,"),
        ('    "Map",\n', '    "Map",\n    "Mark",\n'),
    ],
    "__init__.py": [
        (
            '    "Map": "weft.declare",\n',
            '    "Map": "weft.declare",\n    "Mark": "weft.declare",\n',
        )
    ],
    # 2, and its text and its inner agents of 4
    "declare/visit.py": [
        ("import Expect, Map, Race,", "import Expect, Map, Mark, Race,"),
        (
            "            case Tap():\n",
            "            case Mark():\n                return self.visit_mark(node)\n"
            "            case Tap():\n",
        ),
        (
            "    @abstractmethod\n    def visit_tap(self, node: Tap) -> T:\n",
            "    @abstractmethod\n    def visit_mark(self, node: Mark) -> T:\n"
            '        """A text under a key."""\n\n'
            "    @abstractmethod\n    def visit_tap(self, node: Tap) -> T:\n",
        ),
        (
            "    def visit_tap(self, node: Tap) -> T:\n        return self.visit_other(node)\n",
            "    def visit_mark(self, node: Mark) -> T:\n        return self.visit_other(node)\n\n"
            "    def visit_tap(self, node: Tap) -> T:\n        return self.visit_other(node)\n",
        ),
        (
            "    def visit_tap(self, node: Tap) -> set[str]:\n",
            "    def visit_mark(self, node: Mark) -> set[str]:\n        return set()\n\n"
            "    def visit_tap(self, node: Tap) -> set[str]:\n",
        ),
        (
            "    def visit_tap(self, node: Tap) -> str:\n",
            "    def visit_mark(self, node: Mark) -> str:\n"
            '        return _call("Mark", quote_value(node.key), quote_value(node.text))\n\n'
            "    def visit_tap(self, node: Tap) -> str:\n",
        ),
    ],
    # 3: it stores what it did together with that it ended
    "runtime/flows.py": [
        ("    Tap,\n", "    Mark,\n    Tap,\n"),
        (
            "    async def visit_tap(self, node: Tap) -> Events:\n",
            "    async def visit_mark(self, node: Mark) -> Events:\n"
            "        actions = Actions(state_delta={node.key: node.text}, end_of_agent=True)\n"
            "        yield await self._commit(node, actions)\n\n"
            "    async def visit_tap(self, node: Tap) -> Events:\n",
        ),
    ],
    # 4: the checker and the drawing
    "checker/walk.py": [
        ("    Tap,\n", "    Mark,\n    Tap,\n"),
        (
            "    def visit_tap(self, node: Tap) -> World:\n",
            "    def visit_mark(self, node: Mark) -> World:\n"
            '        origin = Origin("field", "key", node.name)\n'
            '        return self.world.with_write(node.key, Writer(node.name, origin, "step"))\n\n'
            "    def visit_tap(self, node: Tap) -> World:\n",
        ),
    ],
    # 5: its answer where most nodes answer alike
    "checker/agents.py": [
        ("    Map,\n", "    Map,\n    Mark,\n"),
        (
            "    def visit_gate(self, node: Gate) -> _Pairs:\n",
            "    def visit_mark(self, node: Mark) -> _Pairs:\n"
            '        origin = Origin("field", "key", node.name)\n'
            '        yield node.key, Writer(node.name, origin, "step")\n\n'
            "    def visit_gate(self, node: Gate) -> _Pairs:\n",
        ),
    ],
    "graph/build.py": [
        (
            "    def visit_tap(self, node: declare.Tap) -> Member:\n",
            "    def visit_mark(self, node: declare.Mark) -> Member:\n"
            '        writes = [(node.key, Origin("field", "key", node.name))]\n'
            '        return self._vertex(node, _BoxContent("mark", show(node), (), writes))\n\n'
            "    def visit_tap(self, node: declare.Tap) -> Member:\n",
        )
    ],
    "graph/model.py": [('"gate", "tap",', '"gate", "mark", "tap",')],
    "graph/mermaid.py": [('    "tap": (', '    "mark": ("[", "]"),\n    "tap": (')],
}

PROGRAM = '''
import asyncio
from typing import get_args

import weft
from weft import Agent, Gate, Mark, Runner
from weft.declare.flow import Flow
from weft.declare.visit import inner_agents, show
from weft.graph import graph_of, to_mermaid, to_svg, to_text
from weft.graph.model import VertexKind
from weft.testing import ScriptedModel

flow = Mark("tone", "dry") >> Gate("ready") >> Agent("writer", instruction="Be {tone}. {missing}")
assert show(flow) == """(Mark("tone", "dry") >> Gate("ready") >> writer)""", show(flow)
assert not inner_agents(flow)
# two places that only a type checker looks at
assert Mark in get_args(Flow) and "mark" in get_args(VertexKind)

both = weft.check(Mark("tone", "dry") | Mark("tone", "warm"))
assert "WEFT110" in [one.code for one in both], both
found = [one.message for one in weft.check(flow) if one.code == "WEFT105"]
assert len(found) == 1 and "missing" in found[0], found

graph = graph_of(flow)
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


def test_the_recipe_names_every_place_and_a_node_made_by_it_works(tmp_path: Path) -> None:
    assert not find_unnamed(read_recipe("Add a node"), EDITS)
    copy_package(tmp_path, EDITS)
    done = run_in_copy(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", EDITS)
def test_a_place_that_was_forgotten_is_noticed(tmp_path: Path, place: str) -> None:
    copy_package(tmp_path, {path: edits for path, edits in EDITS.items() if path != place})
    assert run_in_copy(tmp_path, PROGRAM).returncode != 0
