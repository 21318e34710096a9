"""Rules about trust: which untrusted text can reach a consequential call, and by which way."""

from collections.abc import Iterator

from weft.checker.world import Site, WalkRecord
from weft.declare import Agent, Flow, Tool, agents_of
from weft.declare.policy_parts import Hide
from weft.declare.return_fields import find_unknown_fields, read_return_fields
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.misuse import suggest_names


def untrusted_reaches_sink(record: WalkRecord) -> Iterator[Diagnostic]:
    """A consequential tool of an agent that sees untrusted text."""
    for agent, site in record.agent_sites():
        sinks = [tool for tool in agent.tools if tool.is_sink]
        ways = [*_ways_to(record, agent, site)] if sinks and not _hides(agent) else []
        for tool in sinks if ways else ():
            named = [*tool.requires] or [*_arguments(tool)] or [""]
            for argument in named:
                place = f"{tool.name}.{argument}" if argument else tool.name
                what = f"`{argument}` of {tool.name}" if argument else f"a call of {tool.name}"
                yield report(
                    "WEFT613",
                    Origin("tool", tool.name, agent.name),
                    f"untrusted text can reach {what}: {ways[0]} -> {place}",
                    ".sees(C.default().hide()) keeps the text from the agent; the user is asked"
                    if tool.requires
                    else f'write @tool(requires={{"{argument}": ["user"]}}), or'
                    " .sees(C.default().hide())",
                    severity=Severity.INFO if tool.requires else None,
                )


def undeclared_sink(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool that must not run twice, next to untrusted text, that does not say it is a sink."""
    for agent, site in record.agent_sites():
        if _hides(agent):
            continue
        for tool in agent.tools:
            if tool.is_sink or tool.effect not in ("unsafe", "probe", "transactional"):
                continue
            others = [way for way in _ways_to(record, agent, site) if not _starts(way, tool.name)]
            if others:
                yield report(
                    "WEFT614",
                    Origin("tool", tool.name, agent.name),
                    f"{tool.name} has consequences, and untrusted text may order it: {others[0]}"
                    f" -> {tool.name}",
                    "write @tool(consequential=True), or requires= with who may vouch for what",
                )


def source_of_nothing(record: WalkRecord) -> Iterator[Diagnostic]:
    """A `requires` that names the field of a tool that nobody has."""
    agents = record.survey.agents
    known = {tool.name: tool for agent in agents for tool in agent.tools}
    if any(agent.tool_sources for agent in agents):
        return
    for agent in agents:
        for tool in agent.tools:
            for argument, sources in tool.requires.items():
                for source in sources:
                    name, _, field = source.partition(".")
                    if source == "user":
                        continue
                    if name in known:
                        function = known[name].function
                        for missing in find_unknown_fields(function, [field]) if function else ():
                            yield report(
                                "WEFT615",
                                Origin("tool", tool.name, agent.name),
                                f"`{argument}` may be vouched for by {source}, and what {name}"
                                f" returns has no field {missing}",
                                f"it has: {', '.join(sorted(read_return_fields(function).names))}",
                            )
                        continue
                    yield report(
                        "WEFT615",
                        Origin("tool", tool.name, agent.name),
                        f"`{argument}` may be vouched for by {source}, and no agent has a tool"
                        f" {name}",
                        suggest_names(name, known, most=1) or "name a tool of the program",
                    )


def _hides(agent: Agent) -> bool:
    return any(isinstance(one, Hide) for one in agent.policy.protections)


def _starts(way: str, name: str) -> bool:
    return way.partition(" ")[0] == name


def _arguments(tool: Tool) -> Iterator[str]:
    """The arguments of a tool that are text."""
    properties = tool.parameters.get("properties")
    for name, rules in (properties if isinstance(properties, dict) else {}).items():
        if isinstance(rules, dict) and rules.get("type") == "string":
            yield name


def _ways_to(record: WalkRecord, agent: Agent, site: Site) -> Iterator[str]:
    """The ways on which untrusted text reaches an agent: `read_file -> reader -> payer`."""
    yield from (f"{name} -> {agent.name}" for name in _sources(agent))
    texts = {one.name: one for one in record.survey.agents}
    for read in site.reads:
        fact = site.world.facts.get(read.key)
        for writer in fact.writers if fact is not None else ():
            other = texts.get(writer.name)
            if other is not None and other.name != agent.name and not _hides(other):
                for name in _sources(other):
                    yield f"{name} -> {other.name} -> {{{read.key}}} -> {agent.name}"


def _sources(agent: Agent) -> Iterator[str]:
    """The tools of an agent whose results may hold anybody's text."""
    for tool in agent.tools:
        if isinstance(tool.agent, Agent | Flow):
            inner = (name for one in agents_of(tool.agent) for name in _sources(one))
            yield from (f"{name} -> {tool.name}" for name in inner)
        elif is_source(tool):
            yield tool.name


def is_source(tool: Tool) -> bool:
    """Whether a tool's results may hold anybody's text: in a field that it does not name, too."""
    if tool.runs_code or tool.is_sink or tool.agent is not None:
        return False
    trust = tool.trust
    return trust == "untrusted" if isinstance(trust, str) else {*trust.values()} != {"trusted"}
