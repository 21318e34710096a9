"""The requests of a session's answers, rebuilt from its log.

A step is one call of a model, counted from 1: its answer, or the error in the place of one. Its
request is compiled again from the log before it, with what instruction providers said then, so
nobody is asked and nothing is called.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from weft.compiler.changes import recorded_by
from weft.compiler.compile import compile_request
from weft.compiler.compiled import Compilation
from weft.compiler.mask import redactions_in
from weft.compiler.parts import is_internal
from weft.compiler.protected import Whole
from weft.compiler.tools import DEFAULT, declared_policy
from weft.declare import Agent, Flow, Node, Policy, RunConfig
from weft.declare.agent import labels_in, labels_of, walk_tree
from weft.declare.policy_parts import Label
from weft.declare.visit import inherit, rebuild_program
from weft.dialects import wire_name
from weft.errors import BudgetExceeded, UsageError
from weft.session import ArtifactStore, Event, Session
from weft.session.lookback import artifacts_around
from weft.session.store import attach
from weft.session.strand import Strand


class AnsweredStep(NamedTuple):
    """One step: its number, the place of its event in the log, and its request.

    `request` is None where it cannot be rebuilt, and `problem` then says why.
    """

    number: int
    place: int
    event: Event
    request: Compilation | None
    problem: str = ""
    refusal: BudgetExceeded | None = None
    """What was raised, where the request does not fit its budget."""


class StepWalk:
    """Rebuilds the steps of a session as its events come."""

    def __init__(
        self,
        root: Node,
        session: Session,
        *,
        config: RunConfig | None = None,
        artifacts: Mapping[str, str] | None = None,
        answers: frozenset[str] | None = None,
    ) -> None:
        """`answers` are the events whose requests are rebuilt, where that is not all answers."""
        self._homes = homes_of(root)
        self._answers = answers
        self._config = config_to_rebuild(config or RunConfig())
        self._labels = labels_of(root, self._config)
        self._artifacts = artifacts
        self._log = Session(
            session.id, app_name=session.app_name, user_id=session.user_id, state=session.initial
        )
        self._waiting: list[Event] = []
        self._place = self._number = 0
        self._before: dict[Speaker, Compilation] = {}

    def take(self, events: Iterable[Event]) -> list[AnsweredStep]:
        """The steps that these next events of the session end."""
        steps: list[AnsweredStep] = []
        for event in events:
            if self._is_asked(event):
                self._number += 1
                self._log, self._waiting = self._log.append(*self._waiting), []
                steps.append(self._step(event))
            self._waiting.append(event)
            self._place += 1
        return steps

    def alone(self, session: Session, place: int) -> AnsweredStep:
        """The step that the event at `place` ends, and of those before it only the one it follows.

        They are compiled in the order in which they were sent: the second costs what it added.
        The steps before are not counted. `session` is the one that the walk was made for.
        """
        events = session.events
        last = events[place]
        speaker = speaker_of(last)
        for index in range(place - 1, -1, -1):
            if self._is_asked(events[index]) and speaker_of(events[index]) == speaker:
                self._place = 0
                self._go_to(session, index)
                # one that did not fit its budget was never sent; of one that failed nothing is kept
                if self._step(events[index]).request and not is_unanswered(events[index]):
                    break
        self._go_to(session, place)
        return self._step(last)

    def _is_asked(self, event: Event) -> bool:
        return ends_call(event) and (self._answers is None or event.id in self._answers)

    def _go_to(self, session: Session, place: int) -> None:
        """Read the events before a place, without rebuilding what they answer."""
        if self._place:
            self._log = self._log.append(*session.events.between(self._place, place))
        else:  # all of them were admitted to a session already
            before = session.before(place)
            self._log = Session.restored(
                before.id,
                app_name=before.app_name,
                user_id=before.user_id,
                initial=before.initial,
                state=before.state,
                events=Strand(before.events),
                last_update_time=before.last_update_time,
            )
        self._place = place

    def _step(self, event: Event) -> AnsweredStep:
        number, place = self._number, self._place
        if event.author not in self._homes:
            return AnsweredStep(
                number, place, event, None, f"`{event.author}` is not in this program"
            )
        try:
            request = self.compile(event, self._homes[event.author], self._log)
        except BudgetExceeded as error:
            return AnsweredStep(number, place, event, None, error.message, error)
        speaker = speaker_of(event)
        # what the provider kept of the request before decides what this one costs
        request.follows(self._before.get(speaker))
        if not is_unanswered(event):
            self._before[speaker] = request
        # no usage: all tokens are counted here, so that they add up, whatever the policy
        request.answered, request.known = event.timestamp, event.provenance.known
        return AnsweredStep(number, place, event, request)

    def compile(self, event: Event, home: Agent, before: Session) -> Compilation:
        """The request that led to an event, from the log before it and the tree of its agent."""
        return compile_before(
            event,
            home,
            before,
            config=self._config,
            labels=self._labels,
            artifacts=self._artifacts,
        )


def at_step(
    root: Node,
    session: Session,
    step: int,
    *,
    agent: str | None,
    dialect: str | None,
    config: RunConfig,
    artifacts: Mapping[str, str] | None = None,
) -> Compilation:
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
) -> Compilation:
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
    if is_unanswered(event):  # no request after it begins with what it asked
        return _compile_unanswered(
            home, session, index, dialect=dialect, config=config, labels=labels, artifacts=artifacts
        )
    part_of = Whole(labels, through) if labels else None
    # None: the state as the log has it
    state = None
    if event.isolation_scope:
        state, through = session.before(index).state, _scope(through, event.isolation_scope)
    request = partial(
        compile_request,
        home,
        session=through,
        state=state,
        agent=event.author,
        branch=event.branch,
        artifacts=artifacts,
        part_of=part_of,
    )
    after = request(config=config)
    if dialect is not None and dialect != after.dialect:
        after = request(config=config_in_dialect(dialect, after, config), recorded=after.provided)
    # the request before is the one that is asked for: it led to the event
    if after.previous is None:
        raise UsageError(f"the request cannot be rebuilt: {after.previous_problem}", where="--step")
    return after.previous


def _compile_unanswered(
    home: Agent,
    session: Session,
    index: int,
    *,
    dialect: str | None,
    config: RunConfig,
    labels: tuple[Label, ...],
    artifacts: Mapping[str, str] | None,
) -> Compilation:
    """The request that was answered by an error."""
    event, before = session.events[index], session.before(index)
    request = partial(compile_before, event, home, before, labels=labels, artifacts=artifacts)
    compiled = request(config=config_to_rebuild(config))
    if dialect is not None and dialect != compiled.dialect:
        compiled = request(config=config_to_rebuild(config_in_dialect(dialect, compiled, config)))
    return compiled


def model_events(session: Session, agent: str | None = None) -> list[int]:
    """The places in the log where a call of a model ended, or of one agent's."""
    return [
        index
        for index, event in enumerate(session.events)
        if ends_call(event) and agent in (None, event.author)
    ]


def config_in_dialect(dialect: str, compiled: Compilation, config: RunConfig) -> RunConfig:
    """The run's config with the same model in another dialect."""
    return msgspec.structs.replace(config, model=f"{dialect}/{wire_name(compiled.prompt.model)}")


def homes_of(root: Node) -> dict[str, Agent]:
    """Every agent by name with the root of its tree: in flows, below agents, in tools.

    What stands below an agent has its model where it names none, as when it runs.
    """
    homes: dict[str, Agent] = {}
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Agent):
            waiting.extend(reversed(list(_below(node, homes))))
        else:
            waiting.extend(reversed(node.children))
    return homes


def _below(root: Agent, homes: dict[str, Agent]) -> Iterator[Node]:
    """Add the agents of a tree to `homes`; yield its flows and what its tools run."""
    models: dict[str, object] = {}
    for member, parent in walk_tree(root):
        above = models.get(parent.name) if parent is not None else None
        if not isinstance(member, Agent):
            yield inherit(member, above)
            continue
        models[member.name] = member.model if member.model is not None else above
        # the same agent in two trees: the first one counts
        if homes.setdefault(member.name, root) is root:
            for tool in member.tools:
                if isinstance(tool.agent, Agent | Flow):
                    yield inherit(tool.agent, models[member.name])


def under_policy(
    root: Node, policy_for: Callable[[Agent], Policy], config: RunConfig = DEFAULT
) -> Node:
    """The program with another policy for each of its agents, wherever they stand.

    What an agent's policy under this config redacts or labels stays hidden under any other.
    """
    return rebuild_program(
        root,
        lambda agent: agent.sees(protect_as(policy_for(agent), declared_policy(agent, config))),
    )


def protect_as(policy: Policy, own: Policy) -> Policy:
    """A policy with all that another one keeps from models."""
    protections = dict.fromkeys((*policy.protections, *redactions_in(own), *labels_in(own)))
    return dataclasses.replace(policy, protections=tuple(protections))


async def texts_at(artifacts: ArtifactStore, session: Session, index: int) -> dict[str, str]:
    """The text of each artifact that had one before the event at `index`.

    The log says which version that was. One the log does not know was saved in another session
    of the user: of it, the newest. Large files that the log refers to are at hand from here on.
    """
    await attach(session, artifacts)
    owner = (session.app_name, session.user_id, session.id)
    then, later = artifacts_around(session.events, index)
    texts: dict[str, str] = {}
    for name in await artifacts.names(*owner):
        if name in then or name not in later:
            part = await artifacts.load(*owner, name, then.get(name))
            if part is not None and part.text is not None:
                texts[name] = part.text
    return texts


def config_to_rebuild(config: RunConfig) -> RunConfig:
    """The config to rebuild requests with: what one lacked then does not refuse it now."""
    missing = "empty" if config.on_missing == "empty" else "keep"
    return msgspec.structs.replace(
        config, strict=False, on_missing=missing, on_provider_error="log"
    )


def compile_before(
    event: Event,
    home: Agent,
    before: Session,
    *,
    config: RunConfig,
    labels: tuple[Label, ...] = (),
    artifacts: Mapping[str, str] | None = None,
) -> Compilation:
    """The request that led to an event, from the log before it and the tree of its agent."""
    state, log = None, before
    if event.isolation_scope:
        state, log = before.state, _scope(before, event.isolation_scope)
    return compile_request(
        home,
        session=log,
        state=state,
        agent=event.author,
        config=config,
        branch=event.branch,
        artifacts=artifacts,
        recorded=recorded_by(event),
        within=event.provenance.within,
        part_of=Whole(labels, before) if labels else None,
    )


Speaker: TypeAlias = tuple[str, str | None, str | None]
"""What a sequence of requests belongs to: an agent, in one branch and one call."""


def speaker_of(event: Event) -> Speaker:
    """Who an event's request belongs to."""
    return event.author, event.branch, event.isolation_scope


def is_answer(event: Event) -> bool:
    """Whether a model said this, and not a callback, code, or the runtime with a question."""
    if event.content is None or event.content.role == "user" or event.author == "user":
        return False
    if event.partial or is_internal(event) or event.actions.end_of_agent:
        return False
    return event.provenance.yielded is None


def is_unanswered(event: Event) -> bool:
    """Whether a model was asked and an error stands where its answer would.

    It was refused, took too long, or broke off; or what came was empty or not what was asked for.
    """
    if not event.error_code or event.content is not None or event.author == "user":
        return False
    if event.partial or is_internal(event):
        return False
    return event.provenance.unanswered is not None or event.usage is not None


def ends_call(event: Event) -> bool:
    """Whether a call of a model ended with this event: with an answer, or with an error."""
    return is_answer(event) or is_unanswered(event)


def _scope(session: Session, scope: str) -> Session:
    """The log as an agent sees it that runs as a tool: only the events of its call."""
    mine = [
        msgspec.structs.replace(event, isolation_scope=None)
        for event in session.events
        if event.isolation_scope == scope
    ]
    return Session(session.id, app_name=session.app_name, user_id=session.user_id, events=mine)
