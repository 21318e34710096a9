"""A flow as a picture needs it: boxes in frames, what leads where, and which key goes where.

Plain data without places on a page; each form of picture decides about those for itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from weft.compiler.report import clip, preview
from weft.diagnostics import Diagnostic

Channel: TypeAlias = Literal["template", "state", "conversation"]

VertexKind: TypeAlias = Literal[
    "input", "agent", "step", "gate", "tap", "expect", "route", "loop", "map", "answer"
]

GroupKind: TypeAlias = Literal[
    "sequence", "parallel", "race", "fallback", "timeout", "loop", "route", "map", "team"
]

LinkKind: TypeAlias = Literal["then", "case", "each", "again", "fails", "transfer", "tool"]


class Port(NamedTuple):
    """A key that a node reads or writes: how it is spelled there, and what is wrong with it."""

    key: str
    text: str
    channel: Channel
    optional: bool = False
    inferred: bool = False
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vertex:
    """A box: an agent, a step, or the head of a flow that decides something itself."""

    id: str
    kind: VertexKind
    name: str
    title: str
    reads: tuple[Port, ...] = ()
    writes: tuple[Port, ...] = ()
    hears: tuple[str, ...] = ()
    """The agents whose words it sees."""
    notes: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class Group:
    """A frame around what belongs together; its head, if it has one, comes first."""

    id: str
    kind: GroupKind
    title: str
    head: Vertex | None
    members: "tuple[Member, ...]"
    labels: tuple[str, ...] = ()
    """What stands on the way to each member."""

    @property
    def is_framed(self) -> bool:
        """Whether it is a thing of its own; an unnamed sequence is only its members."""
        return self.kind != "sequence" or bool(self.title)


Member: TypeAlias = Vertex | Group


class Link(NamedTuple):
    """What may run after what; a source or target may be a frame."""

    source: str
    target: str
    kind: LinkKind = "then"
    label: str = ""


class Edge(NamedTuple):
    """A value on its way: who writes it, who reads it, under which key, through which channel."""

    source: str
    target: str
    key: str
    channel: Channel
    certain: bool = True


@dataclass(frozen=True)
class Graph:
    """The whole picture."""

    input: Vertex
    root: Member
    answer: Vertex
    links: tuple[Link, ...]
    edges: tuple[Edge, ...]
    problems: tuple[Diagnostic, ...]
    """What the checker says, the worst first; what it only remarks is not among them."""

    @property
    def vertices(self) -> tuple[Vertex, ...]:
        """Every box, in the order of the flow."""
        return (self.input, *vertices_of(self.root), self.answer)


def vertices_of(member: Member) -> Iterator[Vertex]:
    """Every box of a member, a head before what it leads to."""
    if isinstance(member, Vertex):
        yield member
        return
    if member.head is not None:
        yield member.head
    for below in member.members:
        yield from vertices_of(below)


def groups_of(member: Member) -> Iterator[Group]:
    """Every group of a member, outer ones first."""
    if isinstance(member, Group):
        yield member
        for below in member.members:
            yield from groups_of(below)


def first(member: Member) -> str:
    """What is led to when the member is: itself, or the beginning of an unframed sequence."""
    if isinstance(member, Group) and not member.is_framed:
        return first(member.members[0])
    return member.id


def last(member: Member) -> str:
    """What leads on when the member is done."""
    if isinstance(member, Group) and not member.is_framed:
        return last(member.members[-1])
    return member.id


LONGEST = 44
"""Columns of one row."""

MOST_NAMES = 3
"""Names of speakers that a row lists."""


class BoxRow(NamedTuple):
    """A line of a box; `port` is the key it is about, codes are what is wrong there."""

    kind: Literal["reads", "writes", "hears", "note", "problem"]
    text: str
    port: Port | None = None
    codes: tuple[str, ...] = ()


def rows_of(vertex: Vertex) -> list[BoxRow]:
    """What a box says below its title: what comes in, what goes out, what is wrong."""
    rows = [_port_row("reads", port) for port in vertex.reads]
    if vertex.hears:
        rows.append(BoxRow("hears", clip(f"hears {join_names(vertex.hears)}", LONGEST)))
    rows += [BoxRow("note", clip(preview(note), LONGEST)) for note in vertex.notes]
    if vertex.kind == "input":
        rows += [BoxRow("writes", clip(port.text, LONGEST), port) for port in vertex.writes]
    else:
        rows += [_port_row("writes", port) for port in vertex.writes]
    marked = {code for row in rows for code in row.codes}
    unmarked = dict.fromkeys(one.code for one in vertex.problems if one.code not in marked)
    if unmarked:
        rows.append(BoxRow("problem", " ".join(unmarked), codes=tuple(unmarked)))
    return rows


def join_names(names: tuple[str, ...]) -> str:
    """Join names: the nearest ones, and how many more there are."""
    nearest = ", ".join(names[-MOST_NAMES:])
    more = len(names) - MOST_NAMES
    return f"{nearest} +{more}" if more > 0 else nearest


def _port_row(kind: Literal["reads", "writes"], port: Port) -> BoxRow:
    text = f"{{{port.text}}}" if port.channel == "template" and kind == "reads" else port.text
    words = f"{kind} {text}"
    if port.inferred:
        words += " (inferred)"
    if port.codes:
        room = LONGEST - sum(len(code) + 1 for code in port.codes)
        words = f"{clip(preview(words), max(room, 12))} {' '.join(port.codes)}"
    return BoxRow(kind, clip(preview(words), LONGEST + 20), port, port.codes)
