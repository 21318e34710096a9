"""The operators: how agents and flows are put together. Each is a named form, written short.

    a >> b    Sequence(a, b)         a * 3            Loop(a, max=3)
    a | b     Parallel(a, b)         a * until(p)     Loop(a, until=p)
    a // b    Fallback(a, b)         a * while_(p)    Loop(a, while_=p)
                                     agent @ Schema   agent.returns(Schema)

A function of one argument, the state, may stand where an agent may: it becomes a Step.
"""

from collections.abc import Callable, Mapping
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar, cast

from weft.declare.hints import FLOW_WORDS, METHODS_ELSEWHERE
from weft.errors import DeclarationError
from weft.misuse import explain_mistakes, unknown_name

if TYPE_CHECKING:
    from weft.declare.agent import Agent, CallbackChain
    from weft.declare.config import Inputs
    from weft.declare.flow import Fallback, Loop, Node, Operator, Parallel, Sequence, Until, While
    from weft.declare.functions import StateFunction

F = TypeVar("F")


def flow_node(example: str) -> Callable[[type[F]], type[F]]:
    """A class of flows: its wrong calls and assignments say what to type."""
    return explain_mistakes(example, words=FLOW_WORDS)


class Composable:
    """What agents and flows share: the operators, on either side, leaving operands as they are."""

    __slots__ = ()

    inputs: Mapping[str, object] = MappingProxyType({})
    """The state keys that must be there when it starts; steps and gates take none of their own."""
    before_agent: "CallbackChain" = None
    """Called before it runs, and may answer in its place; steps and gates have none."""
    after_agent: "CallbackChain" = None
    """Called when it has ended, and may add something."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what to write instead of a method that others have; type checkers know better."""
            kind = type(self).__name__
            if name.startswith("_"):  # asked for by copy, pickle and notebooks, not by people
                raise AttributeError(f"{kind!r} object has no attribute {name!r}")
            raise unknown_name(
                f"{kind!r} object has no attribute {name!r}", name, type(self), METHODS_ELSEWHERE
            )

        def __add__(self, other: object) -> object:
            """Say which operators there are."""
            raise DeclarationError(
                "agents are not added",
                where="+",
                hint="write a >> b for one after the other, a | b for both at once",
            )

        __radd__ = __and__ = __rand__ = __add__

    def takes(self, declared: "Inputs" = (), /, **keys: object) -> "Self":
        """Return a copy that needs these state keys when it starts: `flow.takes(topic=str)`.

        A mapping or names may come first, for keys in a scope: `flow.takes({"user:name": str})`.
        """
        from weft.declare.config import check_inputs

        named = {
            **check_inputs("takes", "inputs", declared),
            **check_inputs("takes", "inputs", keys),
        }
        # a step or a gate has no field for it: a sequence of one has
        if "inputs" not in vars(self):
            from weft.declare.flow import Sequence

            return cast("Self", Sequence(cast("Node", self), inputs=named))
        copied = copy(self)
        object.__setattr__(copied, "inputs", {**self.inputs, **named})
        return copied

    def __rshift__(self, other: "Node | StateFunction") -> "Sequence":
        """First this, then the other."""
        return cast("Sequence", _join(self, ">>", other))

    def __rrshift__(self, other: "StateFunction") -> "Sequence":
        """First the function, then this."""
        return cast("Sequence", _join(other, ">>", self))

    def __or__(self, other: "Node | StateFunction") -> "Parallel":
        """Both at once."""
        return cast("Parallel", _join(self, "|", other))

    def __ror__(self, other: "StateFunction") -> "Parallel":
        """Both at once, a function on the left."""
        return cast("Parallel", _join(other, "|", self))

    def __floordiv__(self, other: "Node | StateFunction") -> "Fallback":
        """The other if this fails."""
        return cast("Fallback", _join(self, "//", other))

    def __rfloordiv__(self, other: "StateFunction") -> "Fallback":
        """This if the function fails."""
        return cast("Fallback", _join(other, "//", self))

    def __mul__(self, times: "int | Until | While") -> "Loop":
        """Repeat this: a number of times, or until something holds."""
        from weft.declare.flow import make_loop

        return make_loop(self, times)

    def __rmul__(self, times: "int | Until | While") -> "Loop":
        """The same as on the other side."""
        return self * times

    def __matmul__(self, schema: object) -> "Agent":
        """Only an agent answers, so only an agent has the schema of an answer."""
        from weft.declare.nodes import spell

        raise DeclarationError(
            "a flow has no schema of its own",
            where=f"{spell(self)} @ {spell(schema)}",
            hint="put it on the agent that answers: first >> (last @ Schema)",
        )

    def __rmatmul__(self, schema: object) -> "Agent":
        """The schema stands on the right."""
        from weft.declare.nodes import spell

        raise DeclarationError(
            "the schema stands on the left of @",
            where=f"{spell(schema)} @ {spell(self)}",
            hint="write agent @ Schema",
        )

    def __repr__(self) -> str:
        """A flow prints as the operators that make it; an Agent has a form of its own."""
        from weft.declare.visit import show

        return show(cast("Node", self))

    def _repr_svg_(self) -> str | None:
        """What a notebook shows: the picture with its data edges."""
        return draw_node(cast("Node", self))


def _join(
    left_side: object, operator: "Operator", right_side: object
) -> "Sequence | Parallel | Fallback":
    """The flow that an operator makes; flows derive from Composable, so they are loaded late."""
    from weft.declare.flow import join_nodes

    return join_nodes(left_side, operator, right_side)


Drawer: TypeAlias = "Callable[[Node], str]"

_drawers: "list[Drawer]" = []


def draw_with(drawer: Drawer) -> None:
    """Let this function draw every node from now on, as SVG."""
    _drawers[:] = [drawer]


def draw_node(node: "Node") -> str | None:
    """The node as SVG; None where nobody said how."""
    return _drawers[0](node) if _drawers else None
