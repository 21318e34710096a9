"""An expectation: what must hold of the state for the run to go on."""

from dataclasses import dataclass, field
from typing import ClassVar

from weft.declare import checks
from weft.declare.compose import Composable, flow_node
from weft.declare.elsewhere import FLOW_WORDS
from weft.declare.functions import StateFunction
from weft.misuse import explained


@flow_node('expect(lambda state: "key" in state, "what is wrong")')
@dataclass(frozen=True, repr=False)
class Expect(Composable):
    """Fails the run, with `message`, unless the predicate holds; written `expect(done, "...")`.

    The error has the code `expectation_failed`, so that a fallback can catch it. A predicate, sync
    or async, that raises is an error too, not a no.
    """

    predicate: StateFunction
    message: str = "the expectation does not hold"
    name: str = field(default="expect", kw_only=True)
    description: str = field(default="", kw_only=True)
    reads: tuple[str, ...] = field(default=(), kw_only=True)
    """The keys that must be there for it to hold, where that is known."""

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    def __post_init__(self) -> None:
        """Refuse a predicate that cannot be asked, and a failure that would say nothing."""
        checks.check_name(self.name, kind="Expect")
        checks.check_text(self.name, "description", self.description)
        checks.check_predicate(self.predicate, where=f"{self.name}.predicate", at_once=False)
        checks.check_text(self.name, "message", self.message)
        if not self.message.strip():
            raise checks.wrong(
                self.name,
                "message",
                "the message is empty",
                'say what is wrong if it does not hold: expect(paid, "the invoice is not paid")',
            )


@explained('expect(lambda state: state["paid"], "the invoice is not paid")', words=FLOW_WORDS)
def expect(
    predicate: StateFunction,
    message: str = "the expectation does not hold",
    *,
    name: str = "expect",
    description: str = "",
) -> Expect:
    """Fail the run with the message, unless the predicate holds of the state."""
    return Expect(predicate, message, name=name, description=description)
