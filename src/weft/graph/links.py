"""What may run after what, read off the frames."""

from collections.abc import Iterator
from itertools import pairwise

from weft.graph.model import Group, Link, LinkKind, Member, Vertex, first, last


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
