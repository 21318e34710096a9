"""Whom a message goes to: the agent that answered last, or the one whose call it answers."""

from collections.abc import Sequence as Seq

from weft.compiler.build import hidden_by_rewind
from weft.declare import Agent, tree
from weft.errors import SessionError
from weft.runtime.place import path_of
from weft.runtime.waiting import waiting_calls
from weft.session import Event, Session
from weft.values import Strand


def agent_for(root: Agent, session: Session) -> str:
    """The agent the next message goes to.

    It is the one that answered last, provided it and all above it may hand over to their
    parents: else the conversation could never leave it.
    """
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


def call_for(session: Session, call_ids: Seq[str]) -> Event:
    """The event whose calls these ids answer, or an error that lists the open ones."""
    wanted, hidden = set(call_ids), hidden_events(session.events)
    events = [event for index, event in enumerate(session.events) if index not in hidden]
    for event in reversed(events):
        ids = {call.id for call in event.calls}
        if wanted & ids:
            missing = wanted - ids
            if missing:
                raise SessionError(
                    "one message answers calls of different replies",
                    where="message",
                    hint="send the answers one reply at a time",
                )
            return event
    waiting = waiting_calls(events)
    listed = ", ".join(f"{id} ({name})" for id, name in waiting.items()) or "none"
    raise SessionError(
        f"there is no call with the id {', '.join(sorted(wanted))}",
        where="message",
        hint=f"calls that wait for an answer: {listed}",
    )


def last_invocation(session: Session) -> str:
    """The invocation to go on with: the last one that was not rewound."""
    hidden = hidden_events(session.events)
    for index in range(len(session.events) - 1, -1, -1):
        if index not in hidden:
            return session.events[index].invocation_id
    raise SessionError(
        "there is nothing to go on with", where=f"session {session.id}", hint="use run(message=...)"
    )


def hidden_events(events: Strand[Event]) -> dict[int, str]:
    """Where the events stand that a rewind took out of view, rewinds included."""
    rewound = any(event.actions.rewind_before_invocation_id for event in events)
    return hidden_by_rewind(events) if rewound else {}
