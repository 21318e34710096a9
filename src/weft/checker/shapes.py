"""What routes and maps look at and make: keys that walk into values, and their shapes."""

from collections.abc import Iterable

from weft import schema
from weft.checker.agents import TEXT
from weft.checker.functions import keys_of
from weft.checker.schemas import follow, may_lack, values_of
from weft.checker.sites import Read, ReadHow
from weft.checker.world import World
from weft.declare import Agent, Gate, Node, Route, Sequence, Timeout, template
from weft.declare.compare import same
from weft.declare.route import Case
from weft.diagnostics import Origin
from weft.values import JsonObject


def route_reads(node: Route) -> Iterable[Read]:
    """The key that a route decides by; where all its cases ask functions, nobody looks it up."""
    if isinstance(node.key, str):
        unused = bool(node.cases) and all(case.op == "when" for case in node.cases)
        for read in key_reads(node.key, Origin("field", "key", node.name), "route"):
            yield read._replace(optional=node.default is not None, guarded=unused)


def key_reads(key: str, origin: Origin, how: ReadHow) -> Iterable[Read]:
    """A key that may walk into a value, read as a template reads it."""
    for variable in template.parse(f"{{{key}}}").variables:
        yield Read(variable.key, origin, variable.path, how=how)


def proved(node: Route, case: Case) -> frozenset[str]:
    """The keys that are there wherever a case of a route holds."""
    if case.predicate is not None:
        return keys_of(case.predicate).proves
    return frozenset(read.key for read in route_reads(node))


def gate_reads(node: Gate) -> Iterable[Read]:
    """What a gate's question shows."""
    for one in template.parse(node.question).variables:
        if not one.artifact:
            place = Origin("field", "question", node.name, one.start, one.end)
            typed = node.question[one.start : one.end]
            yield Read(one.key, place, one.path, one.optional, typed=typed)


def collected(body: Node) -> JsonObject | None:
    """What a map collects: texts, or values of the schema of the agent that speaks last."""
    while isinstance(body, Sequence | Timeout):
        body = body.steps[-1] if isinstance(body, Sequence) else body.body
    if not isinstance(body, Agent) or body.sub_agents:
        return {"type": "array"}
    if body.output_schema is None:
        return {"type": "array", "items": TEXT}
    return {
        "type": "array",
        "items": schema.of_type(body.output_schema, where=f"{body.name}.output_schema"),
    }


def is_covered(node: Route, world: World) -> bool:
    """Whether the cases name every value that the key can have."""
    if not isinstance(node.key, str):
        return False
    for read in key_reads(node.key, Origin("field"), "route"):
        fact = world.facts.get(read.key)
        if fact is None or not fact.must or may_lack(fact.schema, read.path):
            return False
        shape, _ = follow(fact.schema, read.path)
        named = [case.value for case in node.cases if case.op == "eq"]
        values = values_of(shape)
        return bool(values) and all(any(same(v, other) for other in named) for v in values or ())
    return False
