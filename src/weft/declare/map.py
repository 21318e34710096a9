"""A map: one body, run once for each element of a list in the state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from weft.declare import checks
from weft.declare.choices import check_choice
from weft.declare.compose import Composable, flow_node
from weft.declare.functions import StateFunction
from weft.declare.inputs import Inputs, check_inputs
from weft.declare.operand import to_node

if TYPE_CHECKING:
    from weft.declare.flow import Node

OnElementError = Literal["cancel", "collect"]


@flow_node('Map("items", agent, into="results")')
@dataclass(frozen=True, repr=False)
class Map(Composable):
    """The body once for each element of the list under `items`, some of them at once.

    Each run stands on a branch of its own and finds its element under the state key `item`. What
    it writes stays there too: only its output leaves, in order, in the list under `into`. That is
    what it said, parsed if its agent has a schema; or, if it said nothing, what it wrote. A key
    may walk into a value, as in a template: `Map("order.lines", ...)`.

    When a run fails the others are cancelled, or, under `on_error="collect"`, left to end: then
    None stands in the list for the one that failed.
    """

    items: str
    body: "Node"
    into: str = field(kw_only=True)
    item: str = field(default="item", kw_only=True)
    concurrency: int = field(default=4, kw_only=True)
    on_error: OnElementError = field(default="cancel", kw_only=True)
    name: str = field(default="map", kw_only=True)
    description: str = field(default="", kw_only=True)
    inputs: Mapping[str, object] = field(
        default_factory=dict[str, object], kw_only=True, hash=False
    )

    sub_agents: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            items: str,
            body: "Node | StateFunction",
            *,
            into: str,
            item: str = "item",
            concurrency: int = 4,
            on_error: OnElementError = "cancel",
            name: str = "map",
            description: str = "",
            inputs: Inputs = (),
        ) -> None:
            """A function may stand for the body."""

    def __post_init__(self) -> None:
        """Refuse keys that are none, and a number of runs that would run nothing."""
        checks.check_name(self.name, kind="Map")
        checks.check_text(self.name, "description", self.description)
        object.__setattr__(self, "inputs", check_inputs(self.name, self.inputs))
        for option, key in (("items", self.items), ("into", self.into), ("item", self.item)):
            checks.check_key(self.name, option, key)
        if self.item == self.into:
            raise checks.wrong(
                self.name,
                "item",
                f"the element and the results are both kept under `{self.into}`",
                'give the element another key: item="element"',
            )
        checks.check_count(self.name, "concurrency", self.concurrency)
        check_choice(self.name, "on_error", self.on_error, OnElementError)
        object.__setattr__(self, "body", to_node(self.body, where=f"{self.name}.body"))

    @property
    def children(self) -> "tuple[Node, ...]":
        """The body."""
        return (self.body,)
