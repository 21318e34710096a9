"""A picture as Mermaid text, for README files, issues and wikis."""

from collections.abc import Iterator, Mapping

from weft.graph.model import (
    Edge,
    Graph,
    Group,
    Link,
    Member,
    Vertex,
    VertexKind,
    groups_of,
    rows_of,
)

MOST_TALK = 24
"""Edges of the conversation that are drawn in full; beyond, only the nearest speaker's."""

SHAPES: Mapping[VertexKind, tuple[str, str]] = {
    "input": ("([", "])"),
    "answer": ("([", "])"),
    "agent": ("[", "]"),
    "step": ("[/", "/]"),
    "gate": ("[\\", "/]"),
    "tap": ("(", ")"),
    "expect": ("{{", "}}"),
    "route": ("{", "}"),
    "loop": ("{{", "}}"),
    "map": ("[[", "]]"),
}
COLOURS = {"template": "#2563eb", "state": "#7c3aed", "conversation": "#15803d"}
RED = "#d1242f"


def to_mermaid(graph: Graph) -> str:
    """The picture as a Mermaid flowchart: solid lines are the way, dashed ones carry data."""
    lines = ["flowchart TD", f"  {_vertex(graph.input)}"]
    lines += _member(graph.root, "  ")
    lines.append(f"  {_vertex(graph.answer)}")
    ways = list(_ways(graph))
    lines += [f'  {joint}((" "))' for joint in _joints(ways)]
    lines += [f"  {_link(link)}" for link in ways]
    edges = shown_edges(graph)
    lines += [f"  {_edge(edge)}" for edge in edges]
    lines += _styles(graph, edges, len(ways))
    lines += [f"  %% {_remark(str(one))}" for one in graph.problems]
    return "\n".join(lines) + "\n"


def shown_edges(graph: Graph) -> list[Edge]:
    """The edges to draw: all of them, unless the conversation would bury the rest."""
    talk = [edge for edge in graph.edges if edge.channel == "conversation"]
    if len(talk) <= MOST_TALK:
        return list(graph.edges)
    nearest = {edge.target: edge for edge in talk}
    return [
        edge
        for edge in graph.edges
        if edge.channel != "conversation" or nearest[edge.target] is edge
    ]


def _ways(graph: Graph) -> Iterator[Link]:
    """The links from box to box: what leads to a frame leads to where it begins.

    Mermaid lays out lines between frames badly, and some of them not at all.
    """
    groups = {group.id: group for group in groups_of(graph.root)}
    for number, link in enumerate(graph.links):
        sources = _exits(groups[link.source]) if link.source in groups else [link.source]
        targets = _entries(groups[link.target]) if link.target in groups else [link.target]
        # through a joint: n times m lines would bury the picture
        if len(sources) > 1 and len(targets) > 1:
            joint = f"j{number}"
            yield from (link._replace(source=source, target=joint) for source in sources)
            sources = [joint]
        for source in sources:
            yield from (link._replace(source=source, target=target) for target in targets)


def _joints(ways: list[Link]) -> list[str]:
    return list(dict.fromkeys(way.target for way in ways if way.target.startswith("j")))


def _entries(member: Member) -> list[str]:
    if isinstance(member, Vertex):
        return [member.id]
    if member.head is not None:
        return [member.head.id]
    first = member.members if member.kind in ("parallel", "race") else member.members[:1]
    return [entry for below in first for entry in _entries(below)]


def _exits(member: Member) -> list[str]:
    """The boxes that a frame can end with; a loop ends where it is asked whether it goes on."""
    if isinstance(member, Vertex):
        return [member.id]
    if member.kind == "loop":
        return _entries(member)
    last = member.members[-1:] if member.kind == "sequence" else member.members
    own = [member.head.id] if member.kind == "team" and member.head is not None else []
    return [*own, *(end for below in last for end in _exits(below))]


def _member(member: Member, lead: str) -> Iterator[str]:
    if isinstance(member, Vertex):
        yield f"{lead}{_vertex(member)}"
        return
    inner = f"{lead}  " if member.is_framed else lead
    if member.is_framed:
        yield f"{lead}subgraph {member.id}[{_quote_label(frame_title(member))}]"
    if member.head is not None:
        yield f"{inner}{_vertex(member.head)}"
    for below in member.members:
        yield from _member(below, inner)
    if member.is_framed:
        yield f"{lead}end"


def frame_title(group: Group) -> str:
    """What stands on a frame; where a box inside already says it, only its kind."""
    return group.kind if group.kind in ("loop", "map", "route") else group.title


def _vertex(vertex: Vertex) -> str:
    opening, closing = SHAPES[vertex.kind]
    label = _quote_label(vertex.title, *(row.text for row in rows_of(vertex)))
    return f"{vertex.id}{opening}{label}{closing}"


def _link(link: Link) -> str:
    arrow = "-.->" if link.kind in ("fails", "transfer", "tool") else "-->"
    label = f"|{_quote_label(link.label)}|" if link.label else ""
    return f"{link.source} {arrow}{label} {link.target}"


def _edge(edge: Edge) -> str:
    label = f"{{{edge.key}}}" if edge.channel == "template" else edge.key
    if not edge.certain:
        label = f"{label}, perhaps"
    words = label or "conversation"
    return f"{edge.source} -.->|{_quote_label(words)}| {edge.target}"


def _styles(graph: Graph, edges: list[Edge], start: int) -> Iterator[str]:
    for channel, colour in COLOURS.items():
        which = [start + index for index, edge in enumerate(edges) if edge.channel == channel]
        if which:
            numbers = ",".join(str(number) for number in which)
            yield f"  linkStyle {numbers} stroke:{colour},color:{colour}"
    wrong = [vertex.id for vertex in graph.vertices if vertex.problems]
    if wrong:
        yield f"  classDef problem stroke:{RED},stroke-width:3px,color:{RED}"
        yield f"  class {','.join(wrong)} problem"
    inner = [group.id for group in groups_of(graph.root) if group.kind == "fallback"]
    if inner:
        yield "  classDef dashed stroke-dasharray:5 4"
        yield f"  class {','.join(inner)} dashed"


def _quote_label(*lines: str) -> str:
    """A label; whatever Mermaid would read as markup is spelled as a number."""
    return f'"{"<br>".join(_escape_text(line) for line in lines)}"'


def _escape_text(text: str) -> str:
    return "".join(f"#{ord(char)};" if char in '"#<>&`\\' else char for char in text)


def _remark(text: str) -> str:
    """A comment; braces in one would be read as a directive."""
    line = " ".join(text.partition("\n")[0].split())
    return line.replace("{", "(").replace("}", ")")
