"""A flow as text: the operators that make it, with all parentheses."""

from typing import TYPE_CHECKING, assert_never

from weft.declare.agent import Agent
from weft.declare.compare import quoted
from weft.declare.flow import Fallback, Loop, Node, Parallel, Sequence, until
from weft.declare.functions import name_of
from weft.declare.route import Route
from weft.declare.step import Step

if TYPE_CHECKING:
    from weft.declare.flow import Flow


def show(node: Node) -> str:
    """The node as its author could write it: `(triage >> (web | papers) >> writer)`.

    Agents and steps stand by their names. What no operator can say takes the named form.
    """
    match node:
        case Agent() | Step():
            return node.name
        case Sequence():
            return _joined(node, " >> ")
        case Parallel():
            return _joined(node, " | ", on_error=node.on_error)
        case Fallback():
            return _joined(node, " // ")
        case Loop():
            return _loop(node)
        case Route():
            return _route(node)
        case _ as unreachable:
            assert_never(unreachable)


def _joined(flow: "Flow", operator: str, *, on_error: str = "cancel") -> str:
    shown = [show(child) for child in flow.children]
    options = _options(flow)
    if on_error != "cancel":
        options.append(f"on_error={quoted(on_error)}")
    if options or len(shown) == 1:
        return f"{type(flow).__name__}({', '.join([*shown, *options])})"
    return f"({operator.join(shown)})"


def _loop(loop: Loop) -> str:
    body = show(loop.body)
    options = _options(loop)
    if not options:
        times = loop.max if loop.until is None else until(loop.until, max=loop.max)
        return f"({body} * {times})"
    if loop.until is not None:
        options.insert(0, f"until={name_of(loop.until)}")
    return f"Loop({', '.join([body, f'max={loop.max}', *options])})"


def _route(route: Route) -> str:
    pieces = [route.head]
    for case in route.cases:
        what = quoted(case.value) if case.predicate is None else name_of(case.predicate)
        pieces.append(f"{case.op}({what}, {show(case.node)})")
    if route.default is not None:
        pieces.append(f"otherwise({show(route.default)})")
    return ".".join(pieces)


def _options(flow: "Flow") -> list[str]:
    """What was said of the flow beside its nodes."""
    named = [] if flow.name == type(flow).__name__.lower() else [f"name={quoted(flow.name)}"]
    return [*named, f"description={quoted(flow.description)}"] if flow.description else named
