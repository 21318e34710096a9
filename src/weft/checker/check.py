"""The front door: a flow is walked, and every rule looks at what the walk left."""

from collections.abc import Iterable, Mapping
from typing import cast

from weft.checker.infer import inferred_keys, is_short, speaks_of, with_keys
from weft.checker.rules import RULES
from weft.checker.sites import Record
from weft.checker.starting import world_at_start
from weft.checker.walk import Walk
from weft.checker.world import World
from weft.codes import report
from weft.declare import Agent, Node
from weft.declare.compose import Composable
from weft.declare.walk import agents_of
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.errors import UsageError
from weft.misuse import explained

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@explained("weft.check(agent)")
def check(
    node: Node,
    /,
    *,
    inputs: Mapping[str, object] | Iterable[str] | None = None,
    allow: Iterable[str] = (),
    infer: bool = True,
) -> list[Diagnostic]:
    """What is wrong with an agent or a flow, the worst first; nothing is run.

    `inputs` are the state keys that are there when it starts, with their types where known, beside
    those that the program itself declares.
    `allow` are codes to leave out everywhere; an agent's own `allow` holds for its findings.
    Without `infer`, an agent writes a key only if it says so.
    """
    _require_node(node)
    world = world_at_start(node, inputs)
    keys = inferred_keys(node, world) if infer else {}
    record = walked(with_keys(node, keys), world)
    allowed = set(allow)
    own = {agent.name: set(agent.allow) for agent in agents_of(node)}
    found: dict[str, Diagnostic] = {}
    agents = {agent.name: agent for agent in agents_of(node)}
    for name, key in keys.items():
        one = _inferred(agents[name], key)
        if one.code not in allowed and one.code not in own.get(name, ()):
            found[str(one)] = one
    for rule in RULES:
        for one in rule(record):
            if one.code not in allowed and one.code not in own.get(one.origin.agent, ()):
                found.setdefault(str(one), one)
    return sorted(found.values(), key=lambda one: _ORDER[one.severity])


def walked(node: Node, world: World) -> Record:
    """What a walk over the flow leaves."""
    walk = Walk(node)
    walk.run(world)
    return walk.record


def _inferred(agent: Agent, key: str) -> Diagnostic:
    name, origin = agent.name, Origin("field", "output_key", agent.name)
    if is_short(key) and not speaks_of(agent, key):
        return report(
            "WEFT116",
            origin,
            f"all that `{name}` says is taken for `{key}`: what follows it reads that key, and"
            " nothing else writes it",
            f'declare it: inputs={{"{key}": str}}, or write {name}.writes("{key}") if the answer'
            " is just that",
        )
    return report(
        "WEFT113",
        origin,
        f"`{name}` writes `{key}` to the state: what follows it reads that key, and nothing else"
        " writes it",
        f'say so: {name}.writes("{key}"), or switch it off: infer=False',
    )


def _require_node(node: Node) -> None:
    if not isinstance(cast("object", node), Agent | Composable):
        raise UsageError(
            f"a {type(node).__name__} cannot be checked",
            where="check",
            hint="pass an Agent, or a flow such as a >> b",
        )
