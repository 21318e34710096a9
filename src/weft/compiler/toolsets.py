"""Tools that toolsets answered in a run: an agent with them, and how the log tells of them.

The runtime asks the toolsets and gives the agent their tools. Whoever rebuilds a request from the
log gives the agent the declarations that the log has, which is all that a request is made of.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import msgspec

from weft.declare import Agent, Node, Tool
from weft.declare.agent import find_path, walk_tree
from weft.declare.provider_tools import HostedTool
from weft.session import Event
from weft.session.provenance import OfferedTools
from weft.session.strand import Strand
from weft.values import JsonObject, canonical


def declared_by(tools: Iterable[Tool]) -> list[JsonObject]:
    """The declarations of tools as the log keeps them: all that decides about a request."""
    declarations: list[JsonObject] = []
    for tool in tools:
        declaration: JsonObject = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        if tool.compact is not None:
            declaration["compact"] = tool.compact
        if tool.labels:
            declaration["labels"] = [*tool.labels]
        if tool.writes:
            declaration["writes"] = [*tool.writes]
        if tool.hosted is not None:
            declaration["hosted"] = msgspec.json.decode(msgspec.json.encode(tool.hosted))
        if tool.extra:
            declaration["extra"] = {**tool.extra}
        declarations.append(declaration)
    return declarations


def offered_in(events: Strand[Event], agent: str) -> OfferedTools | None:
    """What the toolsets of an agent answered last, by a log."""
    answers = events.memo[_Answers]
    known = answers.known
    if known.read > events.settled:  # an older snapshot
        known = _Answer(0, {})
    if known.read < events.settled:
        offered = dict(known.offered)
        for index in range(known.read, events.settled):
            event = events[index]
            one = event.provenance.offered if event.custom_metadata is not None else None
            if one is not None:
                offered[one.agent] = one
        known = answers.known = _Answer(events.settled, offered)
    return known.offered.get(agent)


class _Answer(msgspec.Struct, frozen=True):
    """By agent: what its toolsets answered last, as of the first `read` events of a log."""

    read: int
    offered: dict[str, OfferedTools]


class _Answers:
    """The newest answers of a log; put there in one piece, as threads may look at it at once."""

    def __init__(self) -> None:
        self.known = _Answer(0, {})


class _Equipped(msgspec.Struct, frozen=True):
    """A root whose agent has the tools that its toolsets answered."""

    tools: tuple[Tool, ...]
    root: Agent


def equip(root: Agent, agent: str, tools: tuple[Tool, ...], *, source: str = "run") -> Agent:
    """The root in which the agent of that name has these tools, beside its own.

    The last one from each source is kept with the root: toolsets mostly answer the same.
    """
    last = root.memo.of((_Equipped, agent, source))
    # the same object again, as plans are kept by identity
    if last is not None and last.tools == tools:
        return last.root
    equipped = cast("Agent", _equipped(root, agent, tools))
    root.memo.keep(_Equipped(tools, equipped), agent, source)
    return equipped


def _equipped(node: Node, name: str, tools: tuple[Tool, ...]) -> Node:
    if not isinstance(node, Agent):
        return node
    children = tuple(_equipped(child, name, tools) for child in node.sub_agents)
    if node.name == name:
        # no sources any more: they have answered
        return replace(node, sub_agents=children, tools=(*node.tools, *tools), tool_sources=())
    if all(new is old for new, old in zip(children, node.sub_agents, strict=True)):
        return node
    return replace(node, sub_agents=children)


def with_offered(root: Agent, agent: str | None, events: Strand[Event]) -> Agent:
    """The root in which the agent that is asked has the tools that the log says it was offered."""
    if type(root) is not Agent and not isinstance(cast("object", root), Agent):
        return root  # whoever makes the plan says what is wrong, also with the name
    has_sources = root.memo.of(_HasSources)
    if has_sources is None:
        members = (node for node, _ in walk_tree(root) if isinstance(node, Agent))
        has_sources = root.memo.keep(_HasSources(any(one.tool_sources for one in members)))
    # most programs have no toolsets, and this is asked at every step
    if not has_sources.anywhere:
        return root
    path = find_path(root, agent) if isinstance(agent, str) else (root,)
    asked = path[-1] if path else None
    if not isinstance(asked, Agent) or not asked.tool_sources:
        return root
    offered = offered_in(events, asked.name)
    return root if offered is None else equip(root, asked.name, _tools_in(offered), source="log")


class _HasSources(msgspec.Struct, frozen=True):
    """Whether an agent of a tree has toolsets that are asked in a run."""

    anywhere: bool


class _Declaration(msgspec.Struct, frozen=True):
    """A tool as the log has it."""

    name: str
    description: str
    parameters: JsonObject
    compact: bool | int | None = None
    labels: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hosted: HostedTool | None = None


def _tools_in(offered: OfferedTools) -> tuple[Tool, ...]:
    """The tools that the log tells of; nobody can call them."""
    declarations = msgspec.convert(offered.tools, list[_Declaration])
    return tuple(
        Tool(
            name=one.name,
            description=one.description,
            parameters=one.parameters,
            compact=one.compact,
            labels=one.labels,
            writes=one.writes,
            hosted=one.hosted,
        )
        for one in declarations
    )


def changes_between(before: Sequence[JsonObject], now: Sequence[JsonObject]) -> list[str]:
    """What is wrong with what toolsets answer now, if they answered something else before.

    More tools than before are no matter: the run goes on with those that it began with.
    """
    current = {str(one["name"]): one for one in now}
    problems: list[str] = []
    for one in before:
        name = str(one["name"])
        if name not in current:
            problems.append(f"`{name}` is gone")
        elif canonical(current[name]) != canonical(one):
            parts = [part for part in one if current[name].get(part) != one[part]]
            problems.append(f"`{name}` has another {' and '.join(parts) or 'declaration'}")
    return problems
