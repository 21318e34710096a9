"""From a flow to its picture: the checker walks it, and what the walk leaves is drawn."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias, assert_never, cast

from weft.checker.agents import blurs, heard_by, may_write_anything, writes_of
from weft.checker.check import check, inferred_keys, walked, with_keys, world_at_start
from weft.checker.functions import keys_of
from weft.checker.world import Read, Record, Site, Writer
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
from weft.graph.model import (
    Channel,
    Edge,
    Graph,
    Group,
    GroupKind,
    Link,
    LinkKind,
    Member,
    Port,
    Vertex,
    VertexKind,
    first,
    last,
    notes_of,
    title_of,
    vertices_of,
)

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


APART = ("parallel", "race", "route")
"""Frames whose members do not run one after the other."""


class _Place(NamedTuple):
    """Where a box stands: its turn, and by frame which member of it the box is in."""

    vertex: Vertex
    turn: int
    inside: tuple[tuple[str, int, str], ...]


_Named: TypeAlias = dict[str, list[_Place]]


def edges_of(
    start: Vertex, root: Member, sites: Mapping[str, tuple[Site, ...]]
) -> tuple[Edge, ...]:
    """Every value on its way, readers in the order of the flow."""
    places = _places(root)
    named: _Named = {}
    for place in places:
        named.setdefault(place.vertex.name, []).append(place)
    edges: dict[tuple[str, str, str, str], Edge] = {}
    for reader in places:
        for edge in (*_read(reader, start, named, sites), *_heard(reader, named)):
            held = edges.setdefault(edge[:4], edge)
            if held.certain and not edge.certain:
                edges[edge[:4]] = edge
    return tuple(edges.values())


def _read(
    reader: _Place,
    start: Vertex,
    named: _Named,
    sites: Mapping[str, tuple[Site, ...]],
) -> list[Edge]:
    vertex = reader.vertex
    found: list[Edge] = []
    for site in sites[vertex.id]:
        for port in vertex.reads:
            fact = site.world.facts.get(port.key)
            for writer in fact.writers if fact is not None else ():
                source: Vertex | None = start
                if writer.kind != "input":
                    source = _writer(writer, port.key, reader, named)
                if source is not None and fact is not None:
                    found.append(Edge(source.id, vertex.id, port.key, port.channel, fact.must))
    return found


def _heard(reader: _Place, named: _Named) -> list[Edge]:
    found: list[Edge] = []
    for name in reader.vertex.hears:
        spoke = [place for place in named.get(name, ()) if place.vertex.kind == "agent"]
        source = _nearest(reader, spoke)
        if source is not None:
            found.append(Edge(source.id, reader.vertex.id, "", "conversation"))
    return found


def _writer(writer: Writer, key: str, reader: _Place, named: _Named) -> Vertex | None:
    wrote = [
        place
        for place in named.get(writer.origin.agent or writer.name, ())
        if any(port.key == key for port in place.vertex.writes)
    ]
    return _nearest(reader, wrote)


def _nearest(reader: _Place, found: list[_Place]) -> Vertex | None:
    """The one that comes last before the reader and not beside it; else the last of all."""
    ordered = [place for place in found if not _apart(place, reader)] or found
    before = [place for place in ordered if place.turn < reader.turn]
    chosen = before or ordered
    return chosen[-1].vertex if chosen else None


def _apart(one: _Place, two: _Place) -> bool:
    """Whether they stand in different members of a frame that runs only one, or all at once."""
    for (group, index, kind), (other, at, _) in zip(one.inside, two.inside, strict=False):
        if group != other:
            return False
        if index != at:
            return kind in APART
    return False


def _places(root: Member) -> list[_Place]:
    inside: dict[str, tuple[tuple[str, int, str], ...]] = {}
    waiting: list[tuple[Member, tuple[tuple[str, int, str], ...]]] = [(root, ())]
    while waiting:
        member, path = waiting.pop()
        if isinstance(member, Vertex):
            inside[member.id] = path
            continue
        if member.head is not None:
            inside[member.head.id] = path
        waiting.extend(
            (below, (*path, (member.id, index, member.kind)))
            for index, below in enumerate(member.members)
        )
    return [
        _Place(vertex, turn, inside[vertex.id]) for turn, vertex in enumerate(vertices_of(root))
    ]


def links_of(start: Vertex, root: Member, answer: Vertex) -> tuple[Link, ...]:
    """Every way through the picture, from the input to the answer."""
    return (
        Link(start.id, first(root)),
        *_inside(root),
        Link(last(root), answer.id),
    )


def _inside(member: Member) -> Iterator[Link]:
    if isinstance(member, Vertex):
        return
    yield from _between(member)
    for below in member.members:
        yield from _inside(below)


def _between(group: Group) -> Iterator[Link]:
    members = group.members
    pairs = list(pairwise(members))
    match group.kind:
        case "sequence":
            yield from (Link(last(one), first(two)) for one, two in pairs)
        case "fallback":
            yield from (Link(last(one), first(two), "fails", "if it fails") for one, two in pairs)
        case "parallel" | "race" | "timeout":
            return
        case "loop":
            assert group.head is not None
            yield Link(group.head.id, first(members[0]))
            yield Link(last(members[0]), group.head.id, "again", "again")
        case "map" | "route" | "team":
            assert group.head is not None
            for label, one in zip(group.labels, members, strict=True):
                yield Link(group.head.id, first(one), link_kind(group, label), label)


def link_kind(group: Group, label: str) -> LinkKind:
    """How a head leads to a member."""
    if group.kind == "map":
        return "each"
    if group.kind == "route":
        return "case"
    return "transfer" if label == "transfer" else "tool"
