"""A timeout: a node that may take only so long."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from weft.declare import checks
from weft.declare.compose import Composable, flow_node
from weft.declare.elsewhere import FLOW_WORDS
from weft.declare.functions import StateFunction
from weft.declare.inputs import Inputs, check_inputs
from weft.declare.operand import to_node
from weft.jsonschema import shorten
from weft.misuse import explained

if TYPE_CHECKING:
    from weft.declare.flow import Node


@flow_node("timeout(agent, 30)")
@dataclass(frozen=True, repr=False)
class Timeout(Composable):
    """The body, for so many seconds at most; written `timeout(a, 30)`.

    A body that takes longer is stopped and fails with the code `timeout`, so that a fallback can
    catch it: `timeout(a, 30) // b`. Only time at work counts: not that of whoever reads the
    events, and not the time a run waits for an answer or lies stopped.
    """

    body: "Node"
    seconds: float
    name: str = field(default="timeout", kw_only=True)
    description: str = field(default="", kw_only=True)
    inputs: Mapping[str, object] = field(
        default_factory=dict[str, object], kw_only=True, hash=False
    )

    sub_agents: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            body: "Node | StateFunction",
            seconds: float,
            *,
            name: str = "timeout",
            description: str = "",
            inputs: Inputs = (),
        ) -> None:
            """A function may stand for the body."""

    def __post_init__(self) -> None:
        """Refuse a time in which nothing could happen, or that never ends."""
        checks.check_name(self.name, kind="Timeout")
        checks.check_text(self.name, "description", self.description)
        object.__setattr__(self, "inputs", check_inputs(self.name, self.inputs))
        seconds = cast("object", self.seconds)
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not math.isfinite(self.seconds) or self.seconds <= 0:
            raise checks.wrong(
                self.name,
                "seconds",
                f"{shorten(repr(seconds), 60)} is not a number of seconds",
                "write timeout(agent, 30)",
            )
        object.__setattr__(self, "body", to_node(self.body, where=f"{self.name}.body"))

    @property
    def children(self) -> "tuple[Node, ...]":
        """The body."""
        return (self.body,)


@explained("timeout(agent, 30)", words=FLOW_WORDS)
def timeout(
    body: "Node | StateFunction",
    seconds: float,
    *,
    name: str = "timeout",
    description: str = "",
    inputs: Inputs = (),
) -> Timeout:
    """Run the body, and let it fail with the code `timeout` if it takes longer."""
    return Timeout(body, seconds, name=name, description=description, inputs=inputs)
