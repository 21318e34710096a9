"""What may stand in a flow, and what is said of everything else."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from weft.declare.compose import Composable
from weft.declare.functions import name_of
from weft.declare.step import Step
from weft.errors import DeclarationError
from weft.jsonschema import shorten

if TYPE_CHECKING:
    from weft.declare.flow import Node


def to_node(value: object, *, where: str) -> "Node":
    """The value as a node: itself, or a function as a Step."""
    from weft.declare.route import Route

    if isinstance(value, Route) and not value.children:
        raise DeclarationError(
            f"{value} leads nowhere",
            where=where,
            hint=f'give it a case: {value}.eq("label", agent), or .otherwise(agent)',
        )
    if isinstance(value, Composable):
        return cast("Node", value)
    if callable(value):
        return Step(value)
    shown = shorten(repr(value), 60)
    hint = "an agent, a flow, or a function of one argument, the state, may stand there"
    if isinstance(value, Mapping):
        hint = 'write Route("key").eq("label", agent).otherwise(other)'
    elif isinstance(value, list | tuple) and value:
        hint = "write them one by one: Sequence(a, b), or (a | b) for both at once"
    raise DeclarationError(
        f"{shown} is neither an agent, a flow nor a function", where=where, hint=hint
    )


def to_nodes(values: Iterable[object], *, where: str, hint: str) -> "tuple[Node, ...]":
    """The values as nodes; at least one."""
    nodes = tuple(to_node(value, where=where) for value in values)
    if not nodes:
        raise DeclarationError("it is empty", where=where, hint=hint)
    return nodes


def operands(left: object, operator: str, right: object) -> "tuple[Node, Node]":
    """Both sides of an operator as nodes; an error shows the expression."""
    try:
        return to_node(left, where=""), to_node(right, where="")
    except DeclarationError as error:
        where = error.where or f"{spell(left)} {operator} {spell(right)}"
        raise DeclarationError(error.message, where=where, hint=error.hint) from None


def spell(value: object) -> str:
    """A side of an operator, as its author wrote it."""
    from weft.declare.show import show

    if isinstance(value, Composable):
        return show(cast("Node", value))
    return name_of(value) if callable(value) else shorten(repr(value), 60)
