"""Rules on labels: a secret on its way to a model or a tool that is not cleared for it."""

from collections.abc import Iterator

from weft.checker.sites import Record, Site
from weft.codes import report
from weft.declare import Agent
from weft.diagnostics import Diagnostic, Origin, Severity


def secret_reaches_model(record: Record) -> Iterator[Diagnostic]:
    """A labelled key that an agent or a tool reads which is not cleared for the label."""
    for site in record.sites:
        agent = site.node
        if not isinstance(agent, Agent):
            continue
        for read in site.reads:
            if read.how not in ("template", "policy", "tool"):
                continue
            labels = _labels(record, site, read.key)
            if read.how == "tool":
                tool = next(one for one in agent.tools if one.name == read.origin.name)
                if read.key not in tool.reads:
                    continue  # its own code may look at a secret: it is the model that may not
                barred, who = labels - set(tool.cleared), f"the tool `{tool.name}`"
                fix = "@tool(cleared=[{}])"
            else:
                barred, who = labels - set(agent.cleared), f"`{agent.name}`"
                fix = f'Agent("{agent.name}", cleared=[{{}}])'
            if barred:
                label = sorted(barred)[0]
                yield report(
                    "WEFT608",
                    read.origin,
                    f"`{read.key}` is labelled `{label}`, and {who} is not cleared for it",
                    f"write {fix.format(f'{chr(34)}{label}{chr(34)}')}, or do not read it here",
                )


def secret_may_reach_tool(record: Record) -> Iterator[Diagnostic]:
    """A cleared agent that could hand a secret to one of its tools, which is not."""
    for site in record.sites:
        agent = site.node
        if not isinstance(agent, Agent):
            continue
        held = {
            label
            for read in site.reads
            if read.how in ("template", "policy")
            for label in _labels(record, site, read.key)
        }
        for tool in agent.tools:
            barred = (held & set(agent.cleared)) - set(tool.cleared)
            if barred and tool.agent is None:
                label = sorted(barred)[0]
                yield report(
                    "WEFT608",
                    Origin("tool", tool.name, agent.name),
                    f"`{agent.name}` reads what is labelled `{label}`, and the tool `{tool.name}`"
                    " is not cleared for it: a call that carries it is refused",
                    f'write @tool(cleared=["{label}"]) if it may have it',
                    severity=Severity.INFO,
                )


def _labels(record: Record, site: Site, key: str) -> frozenset[str]:
    fact = site.world.facts.get(key)
    declared = record.labels.get(key, frozenset[str]())
    return declared | fact.labels if fact is not None else declared
