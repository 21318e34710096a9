"""A tap: a function that looks at the state and changes nothing."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from weft.declare import checks
from weft.declare.compose import Composable, flow_node
from weft.declare.elsewhere import FLOW_WORDS
from weft.declare.functions import StateFunction, name_of
from weft.declare.step import check_function
from weft.misuse import explained


@flow_node("tap(function)")
@dataclass(frozen=True, repr=False)
class Tap(Composable):
    """A function of the state, sync or async, that only looks; written `tap(look)`.

    What it returns is ignored, and the state it is given cannot be written. If it raises, that is
    logged and the run goes on: looking must not break what is looked at.
    """

    function: StateFunction
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self, function: StateFunction, *, name: str | None = None, description: str = ""
        ) -> None:
            """Without a name it takes the function's."""

    def __post_init__(self) -> None:
        """Take the function's name, and refuse what cannot be called with the state."""
        own = name_of(self.function)
        if cast("object", self.name) in (None, ""):
            object.__setattr__(self, "name", own if own.isidentifier() else "tap")
        checks.check_name(self.name, kind="Tap")
        checks.check_text(self.name, "description", self.description)
        check_function(self.function, f"tap({own})")


@explained("tap(function)", words=FLOW_WORDS)
def tap(function: StateFunction, *, name: str | None = None, description: str = "") -> Tap:
    """Look at the state in passing: to log it, to count, to show."""
    return Tap(function, name=name, description=description)
