"""Rules on visibility: values shown twice, text that nobody sees, and a user nobody hears."""

from collections.abc import Iterator

from weft.checker.agents import blurs, route_reads, sees_text_of, used_by, writes_of
from weft.checker.schemas import follow, kind_of, values_of
from weft.checker.world import Read, Site, WalkRecord
from weft.declare import Agent, Node, Policy, Step, Tool
from weft.declare.agent import walk_nodes
from weft.declare.policy_parts import Capture, FromAgents, Matching, StateKeys, When, WithoutAgents
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.misuse import close, few, meant


def seen_twice(record: WalkRecord) -> Iterator[Diagnostic]:
    """A value that reaches an agent through two channels, because it asked for both."""
    for site in record.sites:
        agent = site.node
        if not isinstance(agent, Agent) or not agent.policy.duplicates:
            continue
        for speaker, key in site.world.spoken.items():
            read = next((one for one in _whole(site) if one.key == key), None)
            if read is not None and speaker != agent.name and sees_text_of(agent, speaker, key):
                yield report(
                    "WEFT206",
                    read.origin,
                    f"what `{speaker}` said reaches `{agent.name}` twice: {_channel(read)} and in"
                    " the conversation",
                    "leave out keep_duplicates(): what the template carries is then said once",
                )
        in_block = {
            key
            for stage in agent.policy.stages
            if isinstance(stage.selector, StateKeys)
            for key in stage.selector.keys
        }
        for read in _whole(site):
            if read.how == "template" and read.key in in_block and read.key in site.world.facts:
                yield report(
                    "WEFT206",
                    read.origin,
                    f"`{read.key}` reaches `{agent.name}` twice: {_channel(read)} and in the state"
                    " block of its policy",
                    "leave out keep_duplicates(), or one of the two",
                )


def _whole(site: Site) -> Iterator[Read]:
    """The values that the model is shown as a whole."""
    return (r for r in site.reads if not r.path and r.how in ("template", "policy"))


def _channel(read: Read) -> str:
    if read.how == "template":
        return f"in its template as {{{read.key}}}"
    return f"in the state block `{read.key}`"


def lost_output(record: WalkRecord) -> Iterator[Diagnostic]:
    """An agent that speaks to nobody: no key, and no view that shows its words."""
    final = {site.node.name for site in record.sites if site.last}
    for site in record.sites:
        agent = site.node
        if not isinstance(agent, Agent) or site.last or agent.output_key is not None:
            continue
        # somebody sees it, or it hands over, or its policy stores what is said
        if agent.name in record.heard or agent.sub_agents or agent.policy.writings:
            continue
        if agent.name in final or blurs(agent) or any(True for _ in writes_of(agent)):
            continue
        yield report(
            "WEFT207",
            Origin("field", "name", agent.name),
            f"what `{agent.name}` says reaches nobody: it writes no key to the state, and no agent"
            " behind it sees its words in the conversation",
            f'write {agent.name}.writes("key") and read {{key}}, or let the next see it:'
            f' C.user() + C.agents("{agent.name}")',
            severity=Severity.INFO if acts(agent) else None,
        )


_LOOKING = frozenset(
    (
        "browse", "calculate", "compute", "count", "fetch", "find", "get", "google", "grep",
        "lookup", "query", "read", "retrieve", "search",
    )
)  # fmt: skip
"""First words of tools that only look something up; not those that also do: `open_ticket`."""


def acts(agent: Agent) -> bool:
    """Whether it may do something beside answering: a tool of it does more than look."""
    return bool(agent.tool_sources) or any(map(_may_act, agent.tools))


def _may_act(tool: Tool) -> bool:
    """Whether a tool may do more than look: its declaration decides, then its code and its name."""
    if tool.effect == "pure":
        return False
    declared = tool.effect != "idempotent" or tool.confirm or tool.long_running
    if declared or tool.writes or used_by(tool).writes:
        return True
    first, *others = tool.name.lower().replace("-", "_").split("_")
    return first not in _LOOKING or "and" in others


def lost_message(record: WalkRecord) -> Iterator[Diagnostic]:
    """An agent that neither sees what the user said nor reads anything that stands for it."""
    decided = {read.key for node, _ in record.routes for read in route_reads(node)}
    for site in record.sites:
        agent = site.node
        if not isinstance(agent, Agent) or agent.policy.view != "nothing":
            continue
        # a function may put the message into the text
        if not isinstance(agent.instruction, str):
            continue
        if any(isinstance(one, Capture) for one in agent.policy.writings):
            continue
        reads = [read for read in site.reads if read.how in ("template", "policy")]
        if any(_is_given(site, read) for read in reads):
            continue
        substance = any(read.key not in decided and not _is_label(site, read) for read in reads)
        what = " and ".join(f"`{key}`" for key in dict.fromkeys(read.key for read in reads))
        yield report(
            "WEFT208",
            Origin("field", "context", agent.name),
            f"the user's message does not reach `{agent.name}`: C.nothing() leaves the conversation"
            f" out, and {f'it reads only {what}' if what else 'it reads nothing'} from the state",
            "write C.none(), which keeps the message, or read a key that holds the request",
            severity=Severity.INFO if substance else None,
        )


def _is_given(site: Site, read: Read) -> bool:
    """Whether the key holds what the user or the application gave, or nobody can know."""
    fact = site.world.facts.get(read.key)
    if fact is None:
        return bool(site.world.opaque) or not read.optional
    return any(
        writer.kind in ("input", "map", "gate") or writer.name.startswith("capture_")
        for writer in fact.writers
    )


def _is_label(site: Site, read: Read) -> bool:
    """Whether the key holds one of a few words, a number or a truth: no request."""
    fact = site.world.facts.get(read.key)
    shape, _ = follow(fact.schema, read.path) if fact is not None else (None, "")
    return values_of(shape) is not None or kind_of(shape) in ("number", "integer", "boolean")


def unknown_name(record: WalkRecord) -> Iterator[Diagnostic]:
    """A view of agents that are not in the flow, or of a tag that nothing gives."""
    agents = record.members
    names = {agent.name for agent in agents}
    names |= {tool.name for agent in agents for tool in agent.tools if tool.agent is not None}
    tags = set(_tags(record.nodes))
    for agent in agents:
        if agent.context is None:
            continue
        place = Origin("field", "context", agent.name)
        for chosen, only_these in _named(agent.context):
            unknown = [one for one in chosen if one not in names]
            # names that are left out may belong to another flow that shares the policy
            if only_these or names.isdisjoint(chosen) or any(_near(one, names) for one in unknown):
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
    """The agents that each selector names, without the user, and whether it shows them.

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


def _tags(nodes: list[tuple[Node, Node | None]]) -> Iterator[str]:
    for node, _ in nodes:
        if isinstance(node, Step):
            yield from node.tags
        elif isinstance(node, Agent):
            for child in node.sub_agents:
                yield from _tags(walk_nodes(child))
