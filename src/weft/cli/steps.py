"""A step of a recorded session: the request that led to one of its model events, rebuilt."""

from collections.abc import Mapping

import msgspec

from weft.cli.homes import homes_of
from weft.compiler import Compiled, compile
from weft.compiler.labels import Whole, labels_of
from weft.declare import Node, RunConfig
from weft.dialects import wire_name
from weft.errors import UsageError
from weft.session import Event, Session
from weft.session.waiting import CONFIRMATION, INPUT


def at_step(
    root: Node,
    session: Session,
    step: int,
    *,
    agent: str | None,
    dialect: str | None,
    config: RunConfig,
    artifacts: Mapping[str, str] | None = None,
) -> Compiled:
    """The request that led to the session's n-th model event, from the log before it."""
    index = index_of(session, step, agent)
    return before_event(root, session, index, dialect=dialect, config=config, artifacts=artifacts)


def index_of(session: Session, step: int, agent: str | None) -> int:
    """The place in the log of the n-th model event, or of one agent's n-th."""
    spoken = model_events(session, agent)
    if not 1 <= step <= len(spoken):
        of = f" of `{agent}`" if agent else ""
        raise UsageError(
            f"there is no step {step}; the session has {len(spoken)} model events{of}",
            where="--step",
            hint=f"steps count from 1 to {len(spoken)}" if spoken else "nothing was answered yet",
        )
    return spoken[step - 1]


def before_event(
    root: Node,
    session: Session,
    index: int,
    *,
    dialect: str | None,
    config: RunConfig,
    artifacts: Mapping[str, str] | None = None,
) -> Compiled:
    """The request that led to the event at `index`; `artifacts` are their texts at that time."""
    event = session.events[index]
    homes = homes_of(root)
    if event.author not in homes:
        raise UsageError(
            f"the event was made by `{event.author}`, which is not here",
            where=f"session {session.id}",
            hint=f"name the target that ran it; this one has: {', '.join(homes)}",
        )
    home = homes[event.author]
    through = session.before(index + 1)
    labels = labels_of(root, config)
    part_of = Whole(labels, through) if labels else None
    state = None
    if event.isolation_scope:
        state, through = session.before(index).state, _scope(through, event.isolation_scope)
    after = compile(
        home,
        session=through,
        state=state,
        agent=event.author,
        config=config,
        branch=event.branch,
        artifacts=artifacts,
        part_of=part_of,
    )
    if dialect is not None and dialect != after.dialect:
        after = compile(
            home,
            session=through,
            state=state,
            agent=event.author,
            config=speaking(dialect, after, config),
            branch=event.branch,
            artifacts=artifacts,
            recorded=after.provided,
            part_of=part_of,
        )
    if after.previous is None:
        raise UsageError(f"the request cannot be rebuilt: {after.previous_problem}", where="--step")
    return after.previous


def model_events(session: Session, agent: str | None = None) -> list[int]:
    """The places in the log where a model spoke, or one agent's did."""
    return [
        index
        for index, event in enumerate(session.events)
        if _spoke(event) and agent in (None, event.author)
    ]


def speaking(dialect: str, made: Compiled, config: RunConfig) -> RunConfig:
    """The run's config with the same model in another dialect."""
    return msgspec.structs.replace(config, model=f"{dialect}/{wire_name(made.prompt.model)}")


def _spoke(event: Event) -> bool:
    """Whether a model said this, and not a callback, or the runtime with a question to the user."""
    if event.content is None or event.content.role == "user" or event.author == "user":
        return False
    asked = any(call.name in (CONFIRMATION, INPUT) for call in event.calls)
    return not (event.partial or asked or event.actions.end_of_agent)


def _scope(session: Session, scope: str) -> Session:
    """The log as an agent sees it that runs as a tool: what belongs to its call."""
    mine = [
        msgspec.structs.replace(event, isolation_scope=None)
        for event in session.events
        if event.isolation_scope == scope
    ]
    return Session(session.id, app_name=session.app_name, user_id=session.user_id, events=mine)
