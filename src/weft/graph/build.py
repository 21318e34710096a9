"""From a flow to its picture: the checker walks it, and what the walk leaves is drawn."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never, cast

from weft.checker.agents import blurs, heard_by, writes_of
from weft.checker.check import check, walked
from weft.checker.functions import keys_of
from weft.checker.infer import inferred_keys, with_keys
from weft.checker.sites import Read, Record, Site
from weft.checker.starting import world_at_start
from weft.checker.writes import may_write_anything
from weft.declare import (
    Agent,
    Expect,
    Fallback,
    Gate,
    Loop,
    Map,
    Node,
    Parallel,
    Race,
    Route,
    Sequence,
    Step,
    Tap,
    Timeout,
)
from weft.declare.compose import Composable
from weft.declare.route import OTHERWISE
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.graph.edges import edges_of
from weft.graph.links import links_of
from weft.graph.model import Channel, Graph, Group, GroupKind, Member, Port, Vertex, VertexKind
from weft.graph.words import notes_of, title_of

HEAD_KINDS: Mapping[type, VertexKind] = {
    Agent: "agent",
    Step: "step",
    Gate: "gate",
    Tap: "tap",
    Expect: "expect",
    Loop: "loop",
    Route: "route",
    Map: "map",
}


def graph_of(
    node: Node,
    /,
    *,
    inputs: Mapping[str, object] | Iterable[str] | None = None,
    allow: Iterable[str] = (),
    infer: bool = True,
    found: Iterable[Diagnostic] | None = None,
) -> Graph:
    """The picture of an agent or a flow; nothing is run. The options are those of `check`.

    `found` is what is marked in place of what `check` finds.
    """
    if isinstance(inputs, Iterator):
        inputs = list(inputs)  # they are read twice
    if found is None:
        found = check(node, inputs=inputs, allow=allow, infer=infer)
    problems = tuple(one for one in found if one.severity is not Severity.INFO)
    world = world_at_start(node, inputs)
    keys = inferred_keys(node, world) if infer else {}
    node = with_keys(node, keys)
    record = walked(node, world)
    builder = _Builder(node, record, problems, keys)
    root = builder.member(node)
    given = tuple(Port(key, key, "state") for key in world.facts)
    start = Vertex("input", "input", "", "input", writes=given)
    answer = Vertex("answer", "answer", "", "answer")
    return Graph(
        start,
        root,
        answer,
        links_of(start, root, answer),
        edges_of(start, root, builder.sites),
        problems,
    )


class _Builder:
    """One pass over a flow, in the order of the walk."""

    def __init__(
        self,
        root: Node,
        record: Record,
        problems: tuple[Diagnostic, ...],
        inferred: Mapping[str, str],
    ) -> None:
        self.problems = problems
        self.inferred = inferred
        self.sites: dict[str, tuple[Site, ...]] = {}
        self._count = 0
        self._uses = Counter[int]()
        self._count_uses(root)
        self._met = Counter[int]()
        self._left: dict[int, list[Site]] = {}
        for site in record.sites:
            self._left.setdefault(id(site.node), []).append(site)

    def member(self, node: Node) -> Member:
        """The box or frame of a node."""
        match node:
            case Agent():
                return self._agent(node)
            case Step() | Gate() | Tap() | Expect():
                return self._vertex(node)
            case Sequence():
                return self._group(node, "sequence", node.steps)
            case Parallel():
                return self._group(node, "parallel", node.branches)
            case Race():
                return self._group(node, "race", node.branches)
            case Fallback():
                return self._group(node, "fallback", node.choices)
            case Timeout():
                return self._group(node, "timeout", (node.body,))
            case Loop():
                return self._group(node, "loop", (node.body,), headed=True)
            case Map():
                each = (f"each {node.item}",)
                return self._group(node, "map", (node.body,), each, headed=True)
            case Route():
                labels = tuple(case.label for case in node.cases)
                if node.default is not None:
                    labels = (*labels, OTHERWISE)
                return self._group(node, "route", node.children, labels, headed=True)
            case _ as unreachable:
                assert_never(unreachable)

    def _agent(self, agent: Agent) -> Member:
        below = _below(agent)
        if not below:
            return self._vertex(agent)
        group = self._next()
        head = self._vertex(agent)
        members = tuple(self.member(node) for node, _ in below)
        labels = tuple(label for _, label in below)
        return Group(group, "team", f"team of {agent.name}", head, members, labels)

    def _group(
        self,
        node: Node,
        kind: GroupKind,
        children: tuple[Node, ...],
        labels: tuple[str, ...] = (),
        *,
        headed: bool = False,
    ) -> Group:
        made = self._next()
        head = self._vertex(node) if headed else None
        members = tuple(self.member(child) for child in children)
        return Group(made, kind, title_of(node), head, members, labels)

    def _vertex(self, node: Node) -> Vertex:
        made = self._next()
        sites = self._sites(node)
        self.sites[made] = sites
        reads = self._reads(node, sites)
        writes = self._writes(node)
        hears: dict[str, None] = {}
        notes = list(notes_of(node))
        if _is_opaque(node):
            notes.append("may write any key")
        if isinstance(node, Agent):
            for site in sites:
                heard = heard_by(node, site.world)
                hears.update(dict.fromkeys(name for name in site.world.said if name in heard))
        return Vertex(
            made,
            HEAD_KINDS[type(node)],
            node.name,
            title_of(node),
            reads,
            writes,
            tuple(hears),
            tuple(notes),
            self._problems(node, (*reads, *writes)),
        )

    def _reads(self, node: Node, sites: tuple[Site, ...]) -> tuple[Port, ...]:
        found: dict[str, Port] = {}
        for read in (read for site in sites for read in site.reads):
            text = ".".join(str(part) for part in (read.key, *read.path))
            codes = self._codes(read.origin, read.key)
            held = found.get(text)
            if held is not None:
                codes = tuple(dict.fromkeys((*held.codes, *codes)))
                optional = held.optional and read.optional
                found[text] = held._replace(codes=codes, optional=optional)
            else:
                channel: Channel = "template" if _is_template(node, read) else "state"
                found[text] = Port(read.key, text, channel, read.optional, codes=codes)
        return tuple(
            port._replace(text=f"{port.text}?")
            if port.optional and port.channel == "template"
            else port
            for port in found.values()
        )

    def _writes(self, node: Node) -> tuple[Port, ...]:
        found: dict[str, Port] = {}
        for key, origin in _written(node):
            held = found.get(key)
            codes = (*(held.codes if held is not None else ()), *self._codes(origin, key))
            guessed = isinstance(node, Agent) and self.inferred.get(node.name) == key
            unique = tuple(dict.fromkeys(codes))
            found[key] = Port(key, key, "state", inferred=guessed, codes=unique)
        return tuple(found.values())

    def _codes(self, origin: Origin, key: str) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                one.code
                for one in self.problems
                if one.origin == origin and _mentions(one.message, key)
            )
        )

    def _problems(self, node: Node, ports: tuple[Port, ...]) -> tuple[Diagnostic, ...]:
        """What is said of this node; where others share its name, what names one of its keys."""
        own = [one for one in self.problems if one.origin.agent == node.name]
        if isinstance(node, Agent):
            return tuple(own)
        labels = [case.label for case in node.cases] if isinstance(node, Route) else []
        return tuple(
            one
            for one in own
            if one.origin.name in labels or any(_mentions(one.message, p.key) for p in ports)
        )

    def _sites(self, node: Node) -> tuple[Site, ...]:
        """What the walk left at this use of a node: the same share of its sites for each use."""
        sites = self._left.get(id(node), [])
        uses, met = self._uses[id(node)], self._met[id(node)]
        self._met[id(node)] += 1
        share, rest = divmod(len(sites), uses)
        return tuple(sites if rest else sites[met * share : (met + 1) * share])

    def _count_uses(self, node: Node) -> None:
        self._uses[id(node)] += 1
        for child in _children(node):
            self._count_uses(child)

    def _next(self) -> str:
        self._count += 1
        return f"n{self._count}"


def _children(node: Node) -> Iterable[Node]:
    """What is drawn below a node."""
    return [below for below, _ in _below(node)] if isinstance(node, Agent) else node.children


def _below(agent: Agent) -> list[tuple[Node, str]]:
    """Who can be called as a tool or handed over to, in the order of the walk."""
    tools = [
        (cast("Node", tool.agent), f"tool {tool.name}")
        for tool in agent.tools
        if isinstance(tool.agent, Composable)
    ]
    return [*tools, *((child, "transfer") for child in agent.sub_agents)]


def _is_template(node: Node, read: Read) -> bool:
    return isinstance(node, Gate) or (read.how == "template" and isinstance(node, Agent))


def _written(node: Node) -> Iterable[tuple[str, Origin]]:
    """The keys that a node writes, and the place that says so."""
    match node:
        case Agent():
            for key, writer, _ in writes_of(node):
                yield key, writer.origin
        case Step():
            origin = Origin("field", "function", node.name)
            found = keys_of(node.function)
            seen = () if node.written else sorted({*found.writes, *found.maybe})
            renamed = (new for _, new in node.renames)
            for key in dict.fromkeys((*(node.writes or seen), *node.captures, *renamed)):
                yield key, origin
        case Gate():
            yield node.key, Origin("field", "key", node.name)
        case Map():
            yield node.item, Origin("field", "item", node.name)
            yield node.into, Origin("field", "into", node.name)
        case _:
            return


def _is_opaque(node: Node) -> bool:
    """Whether code runs at the node itself that does not say what it writes."""
    if isinstance(node, Agent):
        return bool(blurs(node))
    return isinstance(node, Step) and may_write_anything(node)


def _mentions(message: str, key: str) -> bool:
    return f"`{key}" in message or f"{{{key}" in message
