"""A flow as text: the operators that make it, with all parentheses."""

from typing import TYPE_CHECKING, assert_never

from weft.declare.agent import Agent
from weft.declare.compare import quoted
from weft.declare.flow import Fallback, Loop, Node, Parallel, Sequence, until, while_
from weft.declare.functions import name_of
from weft.declare.inputs import spelled_inputs
from weft.declare.nodes import Expect, Gate, Map, Race, Step, Tap, Timeout
from weft.declare.route import Route

if TYPE_CHECKING:
    from weft.declare.flow import Flow


def show(node: Node) -> str:
    """The node as its author could write it: `(triage >> (web | papers) >> writer)`.

    Agents and steps stand by their names. What no operator can say takes the named form.
    """
    match node:
        case Agent():
            return node.name
        case Step():
            return node.written or node.name
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
        case Map():
            return _map(node)
        case Gate():
            return _gate(node)
        case Race():
            return _called("race", [show(child) for child in node.branches], node)
        case Timeout():
            return _called("timeout", [show(node.body), f"{node.seconds:g}"], node)
        case Tap():
            return _tap(node)
        case Expect():
            return _called("expect", [name_of(node.predicate), quoted(node.message)], node)
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
        times: object = loop.max
        if loop.until is not None:
            times = until(loop.until, max=loop.max)
        elif loop.while_ is not None:
            times = while_(loop.while_, max=loop.max)
        return f"({body} * {times})"
    if loop.until is not None:
        options.insert(0, f"until={name_of(loop.until)}")
    if loop.while_ is not None:
        options.insert(0, f"while_={name_of(loop.while_)}")
    return f"Loop({', '.join([body, f'max={loop.max}', *options])})"


def _route(route: Route) -> str:
    pieces = [route.head]
    for case in route.cases:
        what = quoted(case.value) if case.predicate is None else name_of(case.predicate)
        pieces.append(f"{case.op}({what}, {show(case.node)})")
    if route.default is not None:
        pieces.append(f"otherwise({show(route.default)})")
    return ".".join(pieces)


def _map(node: Map) -> str:
    said = [quoted(node.items), show(node.body), f"into={quoted(node.into)}"]
    if node.item != "item":
        said.append(f"item={quoted(node.item)}")
    if node.concurrency != 4:
        said.append(f"concurrency={node.concurrency}")
    if node.on_error != "cancel":
        said.append(f"on_error={quoted(node.on_error)}")
    return _called("Map", said, node)


def _gate(gate: Gate) -> str:
    said = [quoted(gate.name)]
    if gate.question:
        said.append(f"question={quoted(gate.question)}")
    if gate.key != gate.name:
        said.append(f"key={quoted(gate.key)}")
    if gate.choices:
        said.append(f"choices=[{', '.join(quoted(choice) for choice in gate.choices)}]")
    if gate.description:
        said.append(f"description={quoted(gate.description)}")
    return f"Gate({', '.join(said)})"


def _tap(node: Tap) -> str:
    own = name_of(node.function)
    said = [own]
    if node.name not in (own, "tap"):
        said.append(f"name={quoted(node.name)}")
    if node.description:
        said.append(f"description={quoted(node.description)}")
    return f"tap({', '.join(said)})"


def _called(function: str, said: list[str], flow: "Flow") -> str:
    return f"{function}({', '.join([*said, *_options(flow)])})"


def _options(flow: "Flow") -> list[str]:
    """What was said of the flow beside its nodes."""
    named = [] if flow.name == type(flow).__name__.lower() else [f"name={quoted(flow.name)}"]
    if flow.description:
        named.append(f"description={quoted(flow.description)}")
    if flow.inputs:
        named.append(f"inputs={spelled_inputs(flow.inputs)}")
    return named
