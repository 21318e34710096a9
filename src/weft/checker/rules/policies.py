"""Rules on policies: agents and tags that a view names, and that are not there."""

from collections.abc import Iterator

from weft.checker.near import close, few, meant
from weft.checker.sites import Record
from weft.codes import report
from weft.declare import Agent, Node, Policy, Step
from weft.declare.policy.selectors import FromAgents, Matching, When, WithoutAgents
from weft.declare.walk import agents_of, walk_nodes
from weft.diagnostics import Diagnostic, Origin


def unknown_name(record: Record) -> Iterator[Diagnostic]:
    """A view of agents that are not in the flow, or of a tag that nothing gives."""
    agents = agents_of(record.root)
    names = {agent.name for agent in agents}
    names |= {tool.name for agent in agents for tool in agent.tools if tool.agent is not None}
    tags = set(_tags(record.root))
    for agent in agents:
        if agent.context is None:
            continue
        place = Origin("field", "context", agent.name)
        for given, shown in _named(agent.context):
            unknown = [one for one in given if one not in names]
            if shown or names.isdisjoint(given) or any(_near(one, names) for one in unknown):
                yield from (_unknown(one, names, place) for one in unknown)
        for tag in _wanted(agent.context):
            if tag not in tags:
                yield report(
                    "WEFT209",
                    place,
                    f"the policy shows what is tagged `{tag}`, and nothing is",
                    f'tag it: ... >> S.tag("{tag}"), or leave it out',
                )


def _unknown(name: str, names: set[str], place: Origin) -> Diagnostic:
    known = few(names)
    return report(
        "WEFT209",
        place,
        f"the policy names the agent `{name}`, and there is none; there are: {known}",
        meant(name, names) or "name an agent of the flow",
    )


def _near(name: str, names: set[str]) -> bool:
    return bool(close(name, names, cutoff=0.75))


def _named(policy: Policy) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The agents that each selector names, and whether it is to show them; the user is none.

    A policy that leaves agents out may be shared by flows that have some of them each.
    """
    for stage in policy.stages:
        match stage.selector:
            case FromAgents():
                yield stage.selector.names, True
            case WithoutAgents():
                yield stage.selector.names, False
            case Matching() if stage.selector.author:
                others = tuple(one for one in stage.selector.author if one != "user")
                if others:
                    yield others, True
            case When():
                yield from _named(stage.selector.policy)
            case _:
                pass


def _wanted(policy: Policy) -> Iterator[str]:
    for stage in policy.stages:
        if isinstance(stage.selector, Matching):
            yield from stage.selector.tag
        elif isinstance(stage.selector, When):
            yield from _wanted(stage.selector.policy)


def _tags(root: Node) -> Iterator[str]:
    for node, _ in walk_nodes(root):
        if isinstance(node, Step):
            yield from node.tags
        elif isinstance(node, Agent):
            for child in node.sub_agents:
                yield from _tags(child)
