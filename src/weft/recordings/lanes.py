"""Conversations of one trace as one recording, with a lane for each agent.

A router hands over to another agent, or calls it as a tool: their requests share no words, so each
agent's calls are a conversation of their own. Spans say that they belong together. The first
conversation has the log to itself, as an agent has; each other one is isolated in it, as that of an
agent that runs as a tool. What runs beside each other in one trace, such as the cases of an
evaluation, stays apart: so does what has no agents with names.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as replace_fields

from weft.declare.tool import Tool
from weft.recordings.exchanges import ExchangeRecord
from weft.recordings.recording import AGENT, Recording, merge_asides, with_events
from weft.session import Event

_DEEPEST = 100
"""How many spans around a call are looked at."""

SpansAround = Mapping[str, tuple[str, str]]
"""By span: the agent that it names, if any, and the span around it."""


class _TracedTalk(NamedTuple):
    """What tells with which other conversations of a file one belongs together."""

    place: int
    traces: frozenset[str]
    agents: frozenset[str]
    caller: str
    """The agent in whose span it was held; empty for one that nobody called."""
    chain: tuple[str, ...]
    """The spans around its first call, from the outermost."""
    first: str
    started: float


def join_agents(recordings: Sequence[Recording], spans: SpansAround) -> Iterator[Recording]:
    """The recordings of one file, those of several agents of one trace as one."""
    talks = [
        talk
        for place in range(len(recordings))
        if (talk := _describe(recordings[place], place, spans)) is not None
    ]
    groups = [group for one in _group_by_trace(talks) for group in _split_group(one)]
    leaders = {min(one.place for one in group): group for group in groups}
    joined = {one.place for group in groups for one in group}
    moved = {
        recordings[one.place].id: recordings[group[0].place].id for group in groups for one in group
    }
    for place in range(len(recordings)):
        recording = recordings[place]
        if place in leaders:
            recording = _join([recordings[one.place] for one in leaders[place]])
        elif place in joined:
            continue
        elif recording.parent in moved:
            recording = recording._replace(parent=moved[recording.parent])
        yield recording


def _describe(recording: Recording, place: int, spans: SpansAround) -> _TracedTalk | None:
    """What is known of a conversation; None where its agents or its trace have no names."""
    calls = recording.exchanges
    if not calls or recording.answers is None:
        return None
    if not all(one.agent and one.trace and one.started is not None for one in calls):
        return None
    agents, caller = frozenset(one.agent for one in calls), ""
    chain: list[str] = []
    around = calls[0].parent
    for _ in range(_DEEPEST):
        if around not in spans:
            break
        chain.append(around)
        name, around = spans[around]
        if name and name not in agents and not caller:
            caller = name
    words = next((one.text or "" for one in recording.session.events if one.author == "user"), "")
    return _TracedTalk(
        place,
        frozenset(one.trace for one in calls),
        agents,
        caller,
        (calls[0].trace, *reversed(chain)),
        words,
        min(one.started or 0.0 for one in calls),
    )


def _group_by_trace(talks: Iterable[_TracedTalk]) -> Iterator[list[_TracedTalk]]:
    """Conversations that share a trace, also through another one that goes on in several."""
    groups: dict[str, list[_TracedTalk]] = {}
    for talk in talks:
        same = {id(groups[trace]): groups[trace] for trace in talk.traces if trace in groups}
        group, *others = sorted(same.values(), key=len, reverse=True) or [list[_TracedTalk]()]
        for moved in (*(one for other in others for one in other), talk):
            group.append(moved)
            groups |= dict.fromkeys(moved.traces, group)
    for group in {id(one): one for one in groups.values()}.values():
        yield sorted(group, key=lambda one: (one.started, one.place))


def _split_group(group: list[_TracedTalk]) -> Iterator[list[_TracedTalk]]:
    """The group, or its parts where several runs of a program stand side by side in one trace."""
    if len(group) < 2 or len(frozenset[str]().union(*(one.agents for one in group))) < 2:
        return
    if not _holds_several_runs(group):
        yield group
        return
    shared = 0
    shortest = min(len(one.chain) for one in group)
    while shared < shortest and len({one.chain[shared] for one in group}) == 1:
        shared += 1
    parts: defaultdict[str, list[_TracedTalk]] = defaultdict(list)
    for one in group:
        parts[one.chain[shared] if shared < len(one.chain) else f"#{one.place}"].append(one)
    for part in parts.values() if len(parts) > 1 else ():
        yield from _split_group(part)


def _holds_several_runs(group: Iterable[_TracedTalk]) -> bool:
    """Whether an agent that nobody called was asked for several things."""
    asked: dict[str, str] = {}
    for talk in group:
        for agent in talk.agents if not talk.caller else ():
            if asked.setdefault(agent, talk.first) != talk.first:
                return True
    return False


# --- several conversations as one recording


class _PlacedEvent(NamedTuple):
    """An event of one of the conversations, with when it was said."""

    time: float
    lane: int
    place: int
    trace: str
    event: Event


def _join(recordings: Sequence[Recording]) -> Recording:
    """Conversations as one recording: in the order of time, each isolated but the first."""
    root = recordings[0]
    placed = sorted(
        one for lane, recording in enumerate(recordings) for one in _place_events(recording, lane)
    )
    ids: dict[tuple[int, str], str] = {}
    events: list[Event] = []
    turns = set[tuple[str, int]]()
    turn = 0
    for number, (_, lane, _, trace, event) in enumerate(placed, 1):
        is_new = lane == 0 and event.author == "user" and not event.results
        turn += is_new
        turns.add((trace, turn))
        ids[lane, event.id] = f"e{number}"
        events.append(
            replace_fields(
                event,
                id=f"e{number}",
                invocation_id=f"i{len(turns)}",
                isolation_scope=_scope_of(lane),
                timestamp=float(number),
            )
        )
    exchanges = sorted(
        (
            (one.started or 0.0, lane, one)
            for lane, recording in enumerate(recordings)
            for one in recording.exchanges
        ),
        key=lambda row: (row[0], row[1], row[2].number),
    )
    numbers = {(lane, one.number): at for at, (_, lane, one) in enumerate(exchanges, 1)}
    listed: list[ExchangeRecord] = [
        replace(
            one,
            number=at,
            event=ids.get((lane, one.event), ""),
            follows=ids.get((lane, one.follows), ""),
            retries=numbers.get((lane, one.retries), 0),
            lane=_scope_of(lane) or "",
        )
        for at, (_, lane, one) in enumerate(exchanges, 1)
    ]
    inside = {one.id for one in recordings}
    is_apart = root.parent in inside
    return root._replace(
        session=with_events(root.session, events),
        instructions={
            agent: text
            for recording in recordings
            for agent in dict.fromkeys(one.agent for one in recording.exchanges)
            if (text := recording.instructions.get(AGENT, ""))
        },
        tools=_by_name(recordings, lambda one: one.tools),
        declared=_by_name(recordings, lambda one: one.declared),
        asks="",
        agent_tools={
            agent: tuple(tool.name for tool in recording.tools)
            for recording in recordings
            for agent in dict.fromkeys(one.agent for one in recording.exchanges)
        },
        answers=frozenset(
            ids[lane, id]
            for lane, recording in enumerate(recordings)
            for id in recording.answers or ()
        ),
        aside=merge_asides(aside for one in recordings for aside in one.aside),
        excused=frozenset[str]().union(*(one.excused for one in recordings)),
        exchanges=tuple(listed),
        parent="" if is_apart else root.parent,
        relation="" if is_apart else root.relation,
        forked=0 if is_apart else root.forked,
        warnings=tuple(dict.fromkeys(text for one in recordings for text in one.warnings)),
    )


def _scope_of(lane: int) -> str | None:
    """The scope of a lane's events; the first has the log to itself."""
    return f"conversation {lane + 1}" if lane else None


def _place_events(recording: Recording, lane: int) -> Iterator[_PlacedEvent]:
    """The events with the time, the trace and the agent of the call that they belong to.

    An answer was said when its call ended, and what came before it when the call began.
    """
    events = recording.session.events
    places = {event.id: at for at, event in enumerate(events)}
    at, time = 0, 0.0
    for call in recording.exchanges:
        started, end = call.started or 0.0, places.get(call.event or call.follows, at - 1)
        for place in range(at, end + 1):
            event = events[place]
            is_answer = event.id == call.event
            time = max(time, (call.ended or started) if is_answer else started)
            yield _PlacedEvent(time, lane, place, call.trace, _said_by(event, call.agent))
        at = max(at, end + 1)
    last = recording.exchanges[-1]
    for place in range(at, len(events)):
        yield _PlacedEvent(time, lane, place, last.trace, _said_by(events[place], last.agent))


def _said_by(event: Event, agent: str) -> Event:
    return replace_fields(event, author=agent) if event.author == AGENT else event


def _by_name(
    recordings: Iterable[Recording], list_tools: Callable[[Recording], tuple[Tool, ...]]
) -> tuple[Tool, ...]:
    """The tools of all, each name once."""
    return tuple({tool.name: tool for one in recordings for tool in list_tools(one)}.values())
