"""A flow as text: the operators that make it, with all parentheses."""

from typing import TYPE_CHECKING

from weft.declare.agent import Agent
from weft.declare.compare import quoted
from weft.declare.custom import CustomAgent
from weft.declare.flow import Fallback, Loop, Node, Parallel, Sequence, until, while_
from weft.declare.functions import name_of
from weft.declare.inputs import spell_inputs
from weft.declare.nodes import Expect, Gate, Map, Race, Step, Tap, Timeout, spell_callbacks
from weft.declare.route import Route
from weft.declare.visit import Visitor

if TYPE_CHECKING:
    from weft.declare.flow import Flow


def show(node: Node) -> str:
    """The node as its author could write it: `(triage >> (web | papers) >> writer)`.

    Agents and steps stand by their names. What no operator can say takes the named form.
    """
    return _flow_text.visit(node)


class _FlowText(Visitor[str]):
    """Each kind of node as code."""

    __slots__ = ()

    def visit_agent(self, node: Agent) -> str:
        return node.name

    def visit_custom_agent(self, node: CustomAgent) -> str:
        return node.name

    def visit_step(self, node: Step) -> str:
        return node.written or node.name

    def visit_sequence(self, node: Sequence) -> str:
        return self._joined(node, " >> ")

    def visit_parallel(self, node: Parallel) -> str:
        if node.on_error == "cancel":
            return self._joined(node, " | ")
        return self._joined(node, " | ", f"on_error={quoted(node.on_error)}")

    def visit_fallback(self, node: Fallback) -> str:
        return self._joined(node, " // ")

    def _joined(self, node: Sequence | Parallel | Fallback, operator: str, *more: str) -> str:
        """The children with the operator between; the named form where there are options."""
        children = [self.visit(child) for child in node.children]
        options = [*_options(node), *more]
        if options or len(children) == 1:
            return f"{type(node).__name__}({', '.join([*children, *options])})"
        return f"({operator.join(children)})"

    def visit_loop(self, node: Loop) -> str:
        body = self.visit(node.body)
        options = _options(node)
        if not options:
            times: object = node.max
            if node.until is not None:
                times = until(node.until, max=node.max)
            elif node.while_ is not None:
                times = while_(node.while_, max=node.max)
            return f"({body} * {times})"
        if node.until is not None:
            options.insert(0, f"until={name_of(node.until)}")
        if node.while_ is not None:
            options.insert(0, f"while_={name_of(node.while_)}")
        return _call("Loop", body, f"max={node.max}", *options)

    def visit_route(self, node: Route) -> str:
        pieces = [node.head]
        for case in node.cases:
            what = quoted(case.value) if case.predicate is None else name_of(case.predicate)
            pieces.append(_call(case.op, what, self.visit(case.node)))
        if node.default is not None:
            pieces.append(_call("otherwise", self.visit(node.default)))
        return ".".join(pieces)

    def visit_map(self, node: Map) -> str:
        arguments = [quoted(node.items), self.visit(node.body), f"into={quoted(node.into)}"]
        if node.item != "item":
            arguments.append(f"item={quoted(node.item)}")
        if node.concurrency != 4:
            arguments.append(f"concurrency={node.concurrency}")
        if node.on_error != "cancel":
            arguments.append(f"on_error={quoted(node.on_error)}")
        return _call("Map", *arguments, *_options(node))

    def visit_gate(self, node: Gate) -> str:
        arguments = [quoted(node.name)]
        if node.question:
            arguments.append(f"question={quoted(node.question)}")
        if node.key != node.name:
            arguments.append(f"key={quoted(node.key)}")
        if node.choices:
            arguments.append(f"choices=[{', '.join(quoted(choice) for choice in node.choices)}]")
        if node.description:
            arguments.append(f"description={quoted(node.description)}")
        return _call("Gate", *arguments)

    def visit_race(self, node: Race) -> str:
        return _call("race", *map(self.visit, node.branches), *_options(node))

    def visit_timeout(self, node: Timeout) -> str:
        return _call("timeout", self.visit(node.body), f"{node.seconds:g}", *_options(node))

    def visit_tap(self, node: Tap) -> str:
        function = name_of(node.function)
        arguments = [function]
        if node.name not in (function, "tap"):
            arguments.append(f"name={quoted(node.name)}")
        if node.description:
            arguments.append(f"description={quoted(node.description)}")
        return _call("tap", *arguments)

    def visit_expect(self, node: Expect) -> str:
        return _call("expect", name_of(node.predicate), quoted(node.message), *_options(node))


_flow_text = _FlowText()


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"


def _options(flow: "Flow") -> list[str]:
    """What was said of the flow beside its nodes."""
    options = [] if flow.name == type(flow).__name__.lower() else [f"name={quoted(flow.name)}"]
    if flow.description:
        options.append(f"description={quoted(flow.description)}")
    if flow.inputs:
        options.append(f"inputs={spell_inputs(flow.inputs)}")
    return options + spell_callbacks(flow)
