"""A race: several nodes at once, of which the first that completes counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from weft.declare import checks
from weft.declare.compose import Composable, flow_node
from weft.declare.functions import StateFunction
from weft.declare.inputs import Inputs, check_inputs
from weft.declare.operand import to_nodes
from weft.declare.walk import check_agents

if TYPE_CHECKING:
    from weft.declare.flow import Node


@flow_node("race(first, second)")
@dataclass(frozen=True, init=False, repr=False)
class Race(Composable):
    """The first branch that completes wins; written `race(a, b)`.

    The others are cancelled. What they said is in nobody's view, and what they wrote to the state
    does not count. A branch that fails is out of the race; if all fail, the race does.
    """

    branches: "tuple[Node, ...]"
    name: str
    description: str
    inputs: Mapping[str, object] = field(hash=False)

    sub_agents: ClassVar[tuple[()]] = ()

    def __init__(
        self,
        *branches: "Node | StateFunction",
        name: str = "race",
        description: str = "",
        inputs: Inputs = (),
    ) -> None:
        checks.check_name(name, kind="Race")
        checks.check_text(name, "description", description)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "inputs", check_inputs(name, inputs))
        given = to_nodes(branches, where=f"{name}.branches", hint="write race(quick, thorough)")
        object.__setattr__(self, "branches", given)
        check_agents(self, where=f"{name}.branches")

    @property
    def children(self) -> "tuple[Node, ...]":
        """The branches."""
        return self.branches


def race(
    *branches: "Node | StateFunction",
    name: str = "race",
    description: str = "",
    inputs: Inputs = (),
) -> Race:
    """Run all branches at once, and go on with the first that completes."""
    return Race(*branches, name=name, description=description, inputs=inputs)
