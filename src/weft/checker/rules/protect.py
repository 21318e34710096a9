"""Rules on labels: secrets that reach someone who is not cleared, and misspelt guards."""

from collections.abc import Collection, Iterable, Iterator

from weft.checker.agents import saved_names
from weft.checker.world import Site, WalkRecord
from weft.codes import report
from weft.declare import Agent
from weft.declare.policy_parts import Label, When
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.errors import with_article
from weft.misuse import close


def secret_reaches_model(record: WalkRecord) -> Iterator[Diagnostic]:
    """A labelled key read by an agent or tool that is not cleared for the label."""
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


def secret_may_reach_tool(record: WalkRecord) -> Iterator[Diagnostic]:
    """A cleared agent that could pass a secret to a tool that is not cleared."""
    for site in record.sites:
        agent = site.node
        if not isinstance(agent, Agent):
            continue
        labels = {
            label
            for read in site.reads
            if read.how in ("template", "policy")
            for label in _labels(record, site, read.key)
        }
        for tool in agent.tools:
            barred = (labels & set(agent.cleared)) - set(tool.cleared)
            # an agent that is a tool has a clearance of its own
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


def withheld_result(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool whose results carry a label that its own agent is not cleared for."""
    marked: dict[str, set[str]] = {}
    for _, label in _declared(record.agents):
        for name in label.tools:
            marked.setdefault(name, set()).add(label.name)
    for agent in record.agents:
        for tool in agent.tools:
            barred = {*tool.labels, *marked.get(tool.name, ())} - {*agent.cleared}
            if not barred:
                continue
            label = sorted(barred)[0]
            yield report(
                "WEFT608",
                Origin("tool", tool.name, agent.name),
                f"what the tool `{tool.name}` returns is labelled `{label}`, and `{agent.name}` is"
                " not cleared for it: its model never sees the result",
                f'write Agent("{agent.name}", cleared=["{label}"]), or give the tool to an agent'
                " that is cleared",
                # one that writes keys may be called for these, by a model that is to see nothing
                severity=Severity.INFO if tool.writes else None,
            )


def label_on_nothing(record: WalkRecord) -> Iterator[Diagnostic]:
    """A label on a key, a tool or an artifact that is called otherwise, or is not there."""
    declared = [*_declared(record.agents)]
    if not declared:
        return
    keys = {*record.everywhere, *record.start.facts}
    keys |= {read.key for site in record.sites for read in site.reads if read.how != "input"}
    tools = {tool.name for agent in record.agents for tool in agent.tools}
    files, all_files = saved_names(record.agents)
    all_tools = not any(agent.tool_sources for agent in record.agents)
    declares = bool(record.start.facts)
    opaque = any(site.world.opaque for site in record.sites)
    for agent, label in declared:
        known = (
            any(key in keys for key in label.keys)
            or any(tool in tools for tool in label.tools)
            or any(file in files for file in label.artifacts)
        )
        kinds = (
            ("state key", label.keys, keys, not opaque),
            ("tool", label.tools, tools, all_tools),
            ("artifact", label.artifacts, files, all_files and bool(files)),
        )
        for kind, names, there, complete in kinds:
            for name in names:
                if name in there:
                    continue
                near = _misspelt(name, there)
                if not near and (known or not complete):
                    continue
                yield report(
                    "WEFT620",
                    Origin("field", "context", agent.name),
                    f"the label `{label.name}` is on the {kind} `{name}`, and there is none of"
                    " that name: it guards nothing",
                    f"did you mean `{near}`?"
                    if near
                    else f"name {with_article(kind)} of the program",
                    # where no inputs are declared, the application may put any key into the state
                    severity=None if near or kind != "state key" or declares else Severity.INFO,
                )


def clearance_for_nothing(record: WalkRecord) -> Iterator[Diagnostic]:
    """A clearance for a label that nothing carries, and that is spelled nearly like one."""
    agents = record.agents
    names = {label.name for _, label in _declared(record.agents)}
    names |= {label for agent in agents for tool in agent.tools for label in tool.labels}
    for agent in agents:
        cleared = [(one, Origin("field", "cleared", agent.name)) for one in agent.cleared]
        for tool in agent.tools:
            cleared += [(one, Origin("tool", tool.name, agent.name)) for one in tool.cleared]
        for label, place in cleared:
            near = _misspelt(label, names) if label not in names else ""
            if near:
                yield report(
                    "WEFT621",
                    place,
                    f"the clearance is for `{label}`, and nothing carries that label",
                    f"did you mean `{near}`?",
                )


def _misspelt(name: str, names: Collection[str]) -> str:
    """The name that was likely meant; one of another number is another thing."""
    scoped = [one for one in names if one.partition(":")[2] == name]
    bare = name.rstrip("0123456789")
    others = [one for one in names if one.rstrip("0123456789") != bare]
    # two letters exchanged
    swapped = [one for one in others if sorted(one) == sorted(name) and one != name]
    return next(iter((*scoped, *swapped, *close(name, others, cutoff=0.75))), "")


def _declared(agents: Iterable[Agent]) -> Iterator[tuple[Agent, Label]]:
    """Every label that a policy declares, with the agent whose policy it is."""
    for agent in agents:
        policies = [agent.policy] if agent.context is not None else []
        while policies:
            policy = policies.pop()
            yield from ((agent, one) for one in policy.protections if isinstance(one, Label))
            policies += [s.selector.policy for s in policy.stages if isinstance(s.selector, When)]


def _labels(record: WalkRecord, site: Site, key: str) -> frozenset[str]:
    fact = site.world.facts.get(key)
    declared = record.labels.get(key, frozenset[str]())
    return declared | fact.labels if fact is not None else declared
