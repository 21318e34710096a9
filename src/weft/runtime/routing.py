"""Whom a message goes to: the agent that answered last, or the one whose call it answers."""

from collections.abc import Iterable, Mapping

from weft.compiler.build import hidden_by_rewind
from weft.content import Content, Part
from weft.declare import Agent, tree
from weft.errors import SessionError
from weft.runtime.place import path_of
from weft.runtime.rewind import visible_events
from weft.session import Event, Session


def agent_for(root: Agent, session: Session) -> str:
    """The agent the next message goes to.

    It is the one that answered last, provided it and all above it may hand over to their
    parents: else the conversation could never leave it.
    """
    if not root.sub_agents:
        return root.name
    events = session.events
    hidden: dict[int, str] | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.actions.rewind_before_invocation_id and hidden is None:
            hidden = hidden_by_rewind(events)
        if event.author in ("user", "") or event.isolation_scope or path_of(event):
            continue
        if hidden is not None and index in hidden:
            continue
        path = tree.find(root, event.author)
        if not path:
            continue
        kept = all(
            isinstance(agent, Agent) and not agent.disallow_transfer_to_parent for agent in path[1:]
        )
        return event.author if kept else root.name
    return root.name


def callers_of(events: Iterable[Event]) -> dict[str, Event]:
    """By the id of each call: the last event that made it."""
    return {call.id: event for event in events for call in event.calls if call.id is not None}


def call_for(
    session: Session, callers: Mapping[str, Event], call_id: str, *, where: str = "message"
) -> Event:
    """The event that made the call, or an error that lists the open ones."""
    if call_id in callers:
        return callers[call_id]
    listed = ", ".join(f"{id} ({name})" for id, name in session.waiting.items()) or "none"
    raise SessionError(
        f"there is no call with the id {call_id}",
        where=where,
        hint=f"calls that wait for an answer: {listed}",
    )


def answers_by_event(session: Session, content: Content) -> list[tuple[Event, Content]]:
    """A message of answers cut up by the events that made the calls; words go with the first.

    Agents that ran side by side may all wait; who answers them need not know where each one was.
    """
    events: dict[str, Event] = {}
    parts: dict[str, list[Part]] = {}
    callers = callers_of(visible_events(session))
    for part in content.parts or ():
        if part.function_response is not None:
            asked = call_for(session, callers, part.function_response.id or "")
            events[asked.id] = asked
            parts.setdefault(asked.id, []).append(part)
    if len({asked.invocation_id for asked in events.values()}) > 1:
        raise SessionError(
            "one message answers calls of different invocations",
            where="message",
            hint="send the answers one invocation at a time",
        )
    words = [part for part in content.parts or () if part.function_response is None]
    parts[next(iter(parts))] += words
    return [(events[id], Content(parts=tuple(parts[id]), role="user")) for id in events]


def last_invocation(session: Session) -> str:
    """The invocation to go on with: the last one that was not rewound."""
    events = visible_events(session)
    if events:
        return events[-1].invocation_id
    raise SessionError(
        "there is nothing to go on with", where=f"session {session.id}", hint="use run(message=...)"
    )
