"""Ask a flow for its answer in a form of the caller's own.

Who gives the answer of a flow is known before it runs: an agent or those it may hand over to, the
last node of a sequence that speaks, each case of a route. These agents get the schema; the others
say what they always say.
"""

from dataclasses import replace

from weft import schema
from weft.declare.agent import Agent, children
from weft.declare.custom import CustomAgent
from weft.declare.flow import Node, Parallel, Sequence
from weft.declare.nodes import Map
from weft.declare.visit import DefaultVisitor, with_children
from weft.errors import UsageError
from weft.jsonschema import ANNOTATIONS, map_children
from weft.values import JsonObject

ANY_OBJECT: JsonObject = {"type": "object"}
"""The schema of an answer that is some JSON object, whichever."""


def with_answer_schema(node: Node, wanted: JsonObject) -> Node:
    """The node with `wanted` as the schema of its answer, or an error where it cannot be had.

    An agent that declares the same schema stays as it is, and one that declares any object fits
    where any object is wanted. Another schema of its own is an error: other nodes may read it.
    """
    answered = _AnswerSchema(schema.of_type(wanted, where="output_schema")).visit(node)
    if answered is None:
        raise _no_answer("nothing in it gives an answer", "end the flow with an agent")
    return answered


def _constraints(node: JsonObject, path: tuple[str, ...] = ()) -> JsonObject:
    """What a schema demands, without what it says about it.

    That nothing is added goes without saying: providers want it said, and types do not say it.
    """
    demands = {key: value for key, value in node.items() if key not in ANNOTATIONS}
    if demands.get("additionalProperties") is False:
        del demands["additionalProperties"]
    return map_children(demands, _constraints)


def _no_answer(problem: str, hint: str) -> UsageError:
    return UsageError(problem, where="output_schema", hint=hint)


class _AnswerSchema(DefaultVisitor[Node | None]):
    """The node with the schema for those that answer; None for a node that never speaks."""

    __slots__ = ("_wanted",)

    def __init__(self, wanted: JsonObject) -> None:
        self._wanted = wanted

    def visit_agent(self, node: Agent) -> Node:
        """The agent, and all that it may hand over to: each of them may have the last word."""
        below = tuple(self.visit(child) or child for child in node.sub_agents)
        if node.output_schema is None:
            return replace(node, output_schema=self._wanted, sub_agents=below)
        own = schema.of_type(node.output_schema, where=f"{node.name}.output_schema")
        is_any = self._wanted == ANY_OBJECT and own.get("type") == "object"
        if not is_any and _constraints(own) != _constraints(self._wanted):
            raise _no_answer(
                f"`{node.name}` declares another form of its answer",
                "leave yours out, or ask for the same schema",
            )
        return replace(node, sub_agents=below)

    def visit_sequence(self, node: Sequence) -> Node | None:
        """The last step that speaks."""
        steps = list(node.steps)
        for at in reversed(range(len(steps))):
            answered = self.visit(steps[at])
            if answered is not None:
                steps[at] = answered
                return with_children(node, steps)
        return None

    def visit_other(self, node: Node) -> Node | None:
        """A node that runs others: one of them answers. One that runs none never speaks."""
        below = children(node)
        answered = [self.visit(child) for child in below]
        if isinstance(node, Agent) or not any(answered):
            return None
        return with_children(node, [new or old for new, old in zip(answered, below, strict=True)])

    def visit_parallel(self, node: Parallel) -> Node:
        raise _no_answer(
            f"several agents answer at once in `{node.name}`",
            "put an agent after them that gives one answer: (a | b) >> writer",
        )

    def visit_map(self, node: Map) -> Node:
        raise _no_answer(
            f"`{node.name}` answers once for each element",
            f"put an agent after it that gives one answer and reads {{{node.into}}}",
        )

    def visit_custom_agent(self, node: CustomAgent) -> Node:
        raise _no_answer(
            f"the code of `{node.name}` decides what it answers",
            f"put an agent after it: {node.name} >> writer",
        )
