"""Build the picture of a flow from what the checker's walk leaves; `_Builder` draws each node."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from weft import declare
from weft.checker.agents import (
    custom_writer,
    may_write_anything,
    speakers_visible_to,
    why_writes_unknown,
    writes_of,
)
from weft.checker.check import diagnose_walk, require_node, walk_program
from weft.checker.functions import keys_of
from weft.checker.rules.trust import is_source
from weft.checker.world import Read, Site, WalkRecord, Writer
from weft.compiler.report import clip, preview
from weft.declare import Agent, Node
from weft.declare.compose import Composable
from weft.declare.functions import name_of
from weft.declare.route import OTHERWISE, quote_value
from weft.declare.visit import Visitor, show
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.graph.model import (
    LONGEST,
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
    vertices_of,
)


def graph_of(
    node: Node,
    /,
    *,
    inputs: Mapping[str, object] | Iterable[str] | None = None,
    allow: Iterable[str] = (),
    infer: bool = True,
    problems: Iterable[Diagnostic] | None = None,
) -> Graph:
    """The picture of an agent or a flow; nothing is run. The options are those of `check`.

    `problems` are marked in place of what `check` finds.
    """
    require_node(node)
    record, keys = walk_program(node, inputs, infer=infer)
    if problems is None:
        problems = diagnose_walk(record, keys, allow=allow)
    # what is good to know is not marked in red
    marked = tuple(one for one in problems if one.severity is not Severity.INFO)
    builder = _Builder(record, marked, keys)
    root = builder.visit(record.survey.root)
    ports = tuple(Port(key, key, "state") for key in record.start.facts)
    start = Vertex("input", "input", "", "input", writes=ports)
    answer = Vertex("answer", "answer", "", "answer")
    return Graph(
        start,
        root,
        answer,
        links_of(start, root, answer),
        edges_of(start, root, builder.sites),
        marked,
    )


class _BoxContent(NamedTuple):
    """How a node is drawn as a box."""

    kind: VertexKind
    title: str
    notes: tuple[str, ...] = ()
    writes: Iterable[tuple[str, Origin]] = ()
    """The keys that it writes itself, each with the place that says so."""
    fields: tuple[str, ...] = ()
    """Fields of the node whose problems are its own, whatever key they are about."""


class _Builder(Visitor[Member]):
    """One pass over a flow, in the order of the walk; each method draws one kind of node."""

    def __init__(
        self,
        record: WalkRecord,
        problems: tuple[Diagnostic, ...],
        inferred: Mapping[str, str],
    ) -> None:
        self.problems = problems
        self.inferred = inferred
        self.sites: dict[str, tuple[Site, ...]] = {}
        self._count = 0
        self._uses = Counter[int]()
        self._has_sinks = any(one.is_sink for agent in record.survey.agents for one in agent.tools)
        self._count_uses(record.survey.root)
        self._drawn = Counter[int]()
        self._sites_of: dict[int, list[Site]] = {}
        for site in record.sites:
            self._sites_of.setdefault(id(site.node), []).append(site)

    def visit_agent(self, node: Agent) -> Member:
        writes = [(key, writer.origin) for key, writer, _ in writes_of(node)]
        asked = tuple(f"asks {source.name} for tools" for source in node.tool_sources)
        notes = asked + self._trust_notes(node) + _opaque(bool(why_writes_unknown(node)))
        box = _BoxContent("agent", node.name, notes, writes)
        below = _team(node)
        if not below:
            return self._vertex(node, box)
        group = self._next()
        head = self._vertex(node, box)
        members = tuple(self.visit(member) for member, _ in below)
        labels = tuple(label for _, label in below)
        return Group(group, "team", f"team of {node.name}", head, members, labels)

    def _trust_notes(self, agent: Agent) -> tuple[str, ...]:
        """Where untrusted text comes in, and what it must not decide; only if something is so."""
        sources = [tool.name for tool in agent.tools if is_source(tool)] if self._has_sinks else []
        sinks = [tool.name for tool in agent.tools if tool.is_sink]
        notes = (("reads untrusted", sources), ("guards", sinks))
        return tuple(f"{words} {', '.join(names)}" for words, names in notes if names)

    def visit_custom_agent(self, node: declare.CustomAgent) -> Member:
        notes: tuple[str, ...] = ("code decides what runs",) if node.children else ()
        notes += _opaque(not node.declares_writes)
        writes = [(key, custom_writer(node).origin) for key in node.writes]
        box = _BoxContent("agent", node.name, notes, writes)
        if not node.children:
            return self._vertex(node, box)
        group = self._next()
        head = self._vertex(node, box)
        members = tuple(map(self.visit, node.children))
        labels = ("may run",) * len(members)
        return Group(group, "team", f"run by {node.name}", head, members, labels)

    def visit_step(self, node: declare.Step) -> Member:
        notes: tuple[str, ...] = ()
        change = node.change
        if change.drops:
            notes = (f"drops {', '.join(change.drops)}",)
        elif change.keeps is not None:
            notes = (f"keeps only {', '.join(change.keeps)}",)
        notes += _opaque(may_write_anything(node))
        code = keys_of(node.function)
        in_code = sorted({*code.writes, *code.maybe})
        renamed = (new for _, new in change.renames)
        keys = dict.fromkeys((*(node.writes or in_code), *node.captures, *renamed))
        origin = Origin("field", "function", node.name)
        writes = [(key, origin) for key in keys]
        return self._vertex(node, _BoxContent("step", show(node), notes, writes))

    def visit_gate(self, node: declare.Gate) -> Member:
        notes: list[str] = []
        if node.question:
            notes.append(f"asks {node.question}")
        if node.choices:
            notes.append(f"one of {', '.join(quote_value(choice) for choice in node.choices)}")
        writes = [(node.key, Origin("field", "key", node.name))]
        return self._vertex(node, _BoxContent("gate", f"gate {node.name}", tuple(notes), writes))

    def visit_tap(self, node: declare.Tap) -> Member:
        return self._vertex(node, _BoxContent("tap", f"tap {node.name}", ("sees the whole state",)))

    def visit_expect(self, node: declare.Expect) -> Member:
        title = _title_of(node, f"expect {name_of(node.predicate)}")
        return self._vertex(node, _BoxContent("expect", title, (f"else {node.message}",)))

    def visit_sequence(self, node: declare.Sequence) -> Member:
        title = "" if node.name == "sequence" else node.name
        return self._group(node, "sequence", title)

    def visit_parallel(self, node: declare.Parallel) -> Member:
        return self._group(node, "parallel", _title_of(node, "parallel"))

    def visit_race(self, node: declare.Race) -> Member:
        return self._group(node, "race", _title_of(node, "race"))

    def visit_fallback(self, node: declare.Fallback) -> Member:
        return self._group(node, "fallback", _title_of(node, "fallback"))

    def visit_timeout(self, node: declare.Timeout) -> Member:
        return self._group(node, "timeout", _title_of(node, f"timeout {node.seconds:g} s"))

    def visit_loop(self, node: declare.Loop) -> Member:
        most = f"at most {node.max} times"
        words = f"{node.max} times"
        if node.until is not None:
            words = f"until {name_of(node.until)}, {most}"
        elif node.while_ is not None:
            words = f"while {name_of(node.while_)}, {most}"
        title = _title_of(node, words)
        return self._group(node, "loop", title, head=_BoxContent("loop", title))

    def visit_map(self, node: declare.Map) -> Member:
        title = _title_of(node, f"map {node.items} into {node.into}")
        writes = [
            (node.item, Origin("field", "item", node.name)),
            (node.into, Origin("field", "into", node.name)),
        ]
        head = _BoxContent("map", title, (f"{node.concurrency} at a time",), writes)
        return self._group(node, "map", title, (f"each {node.item}",), head=head)

    def visit_route(self, node: declare.Route) -> Member:
        key = node.key if isinstance(node.key, str) else name_of(node.key)
        title = _title_of(node, f"route {key}".rstrip())
        cases = tuple(case.label for case in node.cases)
        labels = cases if node.default is None else (*cases, OTHERWISE)
        return self._group(
            node, "route", title, labels, head=_BoxContent("route", title, fields=cases)
        )

    def _group(
        self,
        node: declare.Flow,
        kind: GroupKind,
        title: str,
        labels: tuple[str, ...] = (),
        *,
        head: _BoxContent | None = None,
    ) -> Group:
        """A frame around the children of a node, after its head if it has one."""
        id = self._next()
        first_box = self._vertex(node, head) if head is not None else None
        members = tuple(map(self.visit, node.children))
        return Group(id, kind, _clip_text(title), first_box, members, labels)

    def _vertex(self, node: Node, box: _BoxContent) -> Vertex:
        id = self._next()
        sites = self._sites(node)
        self.sites[id] = sites
        reads = self._reads(box, sites)
        writes = self._writes(node, box)
        hears: dict[str, None] = {}
        if isinstance(node, Agent):
            for site in sites:
                heard = speakers_visible_to(node, site.world)
                hears.update(dict.fromkeys(name for name in site.world.spoken if name in heard))
        return Vertex(
            id,
            box.kind,
            node.name,
            _clip_text(box.title),
            reads,
            writes,
            tuple(hears),
            box.notes,
            self._problems(node, box, (*reads, *writes)),
        )

    def _reads(self, box: _BoxContent, sites: tuple[Site, ...]) -> tuple[Port, ...]:
        ports: dict[str, Port] = {}
        for read in (read for site in sites for read in site.reads):
            text = ".".join(str(part) for part in (read.key, *read.path))
            codes = self._codes(read.origin, read.key)
            known = ports.get(text)
            if known is not None:
                codes = tuple(dict.fromkeys((*known.codes, *codes)))
                optional = known.optional and read.optional
                ports[text] = known._replace(codes=codes, optional=optional)
            else:
                channel: Channel = "template" if _is_template(box, read) else "state"
                ports[text] = Port(read.key, text, channel, read.optional, codes=codes)
        return tuple(
            port._replace(text=f"{port.text}?")
            if port.optional and port.channel == "template"
            else port
            for port in ports.values()
        )

    def _writes(self, node: Node, box: _BoxContent) -> tuple[Port, ...]:
        ports: dict[str, Port] = {}
        for key, origin in box.writes:
            known = ports.get(key)
            codes = (*(known.codes if known is not None else ()), *self._codes(origin, key))
            guessed = box.kind == "agent" and self.inferred.get(node.name) == key
            unique = tuple(dict.fromkeys(codes))
            ports[key] = Port(key, key, "state", inferred=guessed, codes=unique)
        return tuple(ports.values())

    def _codes(self, origin: Origin, key: str) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                one.code
                for one in self.problems
                if one.origin == origin and _mentions(one.message, key)
            )
        )

    def _problems(
        self, node: Node, box: _BoxContent, ports: tuple[Port, ...]
    ) -> tuple[Diagnostic, ...]:
        """What is said of this node; where others share its name, what names one of its keys."""
        own = [one for one in self.problems if one.origin.agent == node.name]
        if box.kind == "agent":  # no other agent has its name
            return tuple(own)
        return tuple(
            one
            for one in own
            if one.origin.name in box.fields or any(_mentions(one.message, p.key) for p in ports)
        )

    def _sites(self, node: Node) -> tuple[Site, ...]:
        """What the walk left at this use of a node: the same share of its sites for each use."""
        sites = self._sites_of.get(id(node), [])
        uses, drawn = self._uses[id(node)], self._drawn[id(node)]
        self._drawn[id(node)] += 1
        # the walk comes to each use in the order in which they are drawn
        share, rest = divmod(len(sites), uses)
        # an uneven number cannot be shared out: then each use shows all of them
        return tuple(sites if rest else sites[drawn * share : (drawn + 1) * share])

    def _count_uses(self, node: Node) -> None:
        self._uses[id(node)] += 1
        below = [member for member, _ in _team(node)] if isinstance(node, Agent) else node.children
        for child in below:
            self._count_uses(child)

    def _next(self) -> str:
        self._count += 1
        return f"n{self._count}"


def _team(agent: Agent) -> list[tuple[Node, str]]:
    """Who can be called as a tool or handed over to, in the order of the walk."""
    tools = [
        (tool.agent, f"tool {tool.name}")
        for tool in agent.tools
        if isinstance(tool.agent, Composable)
    ]
    return [*tools, *((child, "transfer") for child in agent.sub_agents)]


def _title_of(node: declare.Flow, words: str) -> str:
    """The words for a node, after its name if it was given one."""
    default = type(node).__name__.lower()
    return words if node.name == default else f"{node.name}: {words}"


def _clip_text(title: str) -> str:
    return clip(preview(title), LONGEST)


def _opaque(opaque: bool) -> tuple[str, ...]:
    """The note of a node with code that does not say what it writes."""
    return ("may write any key",) if opaque else ()


def _is_template(box: _BoxContent, read: Read) -> bool:
    return box.kind == "gate" or (read.how == "template" and box.kind == "agent")


def _mentions(message: str, key: str) -> bool:
    return f"`{key}" in message or f"{{{key}" in message


APART = ("parallel", "race", "route")
"""Frames whose members do not run one after the other."""


class _Position(NamedTuple):
    """Where a box stands: its turn, and by frame which member of it the box is in."""

    vertex: Vertex
    turn: int
    inside: tuple[tuple[str, int, str], ...]


_PositionsByName: TypeAlias = dict[str, list[_Position]]


def edges_of(
    start: Vertex, root: Member, sites: Mapping[str, tuple[Site, ...]]
) -> tuple[Edge, ...]:
    """Every value on its way, readers in the order of the flow."""
    places = _places(root)
    by_name: _PositionsByName = {}
    for place in places:
        by_name.setdefault(place.vertex.name, []).append(place)
    edges: dict[tuple[str, str, str, str], Edge] = {}
    for reader in places:
        for edge in (
            *_edges_from_writers(reader, start, by_name, sites),
            *_edges_from_speakers(reader, by_name),
        ):
            known = edges.setdefault(edge[:4], edge)
            # a node may be drawn once and come to twice: sure only if it is sure both times
            if known.certain and not edge.certain:
                edges[edge[:4]] = edge
    return tuple(edges.values())


def _edges_from_writers(
    reader: _Position,
    start: Vertex,
    by_name: _PositionsByName,
    sites: Mapping[str, tuple[Site, ...]],
) -> list[Edge]:
    vertex = reader.vertex
    edges: list[Edge] = []
    for site in sites[vertex.id]:
        for port in vertex.reads:
            fact = site.world.facts.get(port.key)
            for writer in fact.writers if fact is not None else ():
                source: Vertex | None = start
                if writer.kind != "input":
                    source = _writer(writer, port.key, reader, by_name)
                if source is not None and fact is not None:
                    edges.append(Edge(source.id, vertex.id, port.key, port.channel, fact.must))
    return edges


def _edges_from_speakers(reader: _Position, by_name: _PositionsByName) -> list[Edge]:
    edges: list[Edge] = []
    for name in reader.vertex.hears:
        spoke = [place for place in by_name.get(name, ()) if place.vertex.kind == "agent"]
        source = _nearest(reader, spoke)
        if source is not None:
            edges.append(Edge(source.id, reader.vertex.id, "", "conversation"))
    return edges


def _writer(
    writer: Writer, key: str, reader: _Position, by_name: _PositionsByName
) -> Vertex | None:
    wrote = [
        place
        for place in by_name.get(writer.origin.agent or writer.name, ())
        if any(port.key == key for port in place.vertex.writes)
    ]
    return _nearest(reader, wrote)


def _nearest(reader: _Position, places: list[_Position]) -> Vertex | None:
    """The one that comes last before the reader and not parallel to it; else the last of all."""
    ordered = [place for place in places if not _apart(place, reader)] or places
    before = [place for place in ordered if place.turn < reader.turn]
    chosen = before or ordered
    return chosen[-1].vertex if chosen else None


def _apart(one: _Position, two: _Position) -> bool:
    """Whether they stand in different members of a frame that runs only one, or all at once."""
    for (group, index, kind), (other, at, _) in zip(one.inside, two.inside, strict=False):
        if group != other:
            return False
        if index != at:
            return kind in APART
    return False


def _places(root: Member) -> list[_Position]:
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
        _Position(vertex, turn, inside[vertex.id]) for turn, vertex in enumerate(vertices_of(root))
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
    yield from _links_between_members(member)
    for below in member.members:
        yield from _inside(below)


def _links_between_members(group: Group) -> Iterator[Link]:
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
