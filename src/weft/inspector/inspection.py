"""One session under inspection: every request of it rebuilt, measured, and compiled otherwise.

Nothing here calls a model. A request is compiled from the log as it was then, so what is shown is
what was sent, to the byte. A variant is the same log under another policy, budget or model.
"""

import copy
import dataclasses
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from threading import RLock
from typing import NamedTuple, TypeAlias

from weft.compiler.compiled import Compilation
from weft.compiler.costs import Cost, cost_of, rates_for, read_again
from weft.compiler.explain import NotedRows, explain, source_of
from weft.compiler.mask import Mask, MaskRules, rules_of
from weft.compiler.prefix import TurnSegments
from weft.compiler.receipt import billed_load
from weft.compiler.tools import declared_policy
from weft.declare import Agent, C, Node, Policy, RunConfig
from weft.declare.policy_parts import Redact
from weft.declare.words import policy_from
from weft.diagnostics import Origin
from weft.dialects import Entry
from weft.dialects.caching import MARKS
from weft.dialects.facts import YARDSTICK
from weft.dialects.price_list import name_price_list
from weft.dialects.track import Track
from weft.errors import UsageError
from weft.inspector.words import (
    FIRST,
    CallTiming,
    MaskedTexts,
    find_timings,
    label_calls,
    title_of,
)
from weft.ir import Item, ResultBlock
from weft.passes.summaries import name_of_model
from weft.recordings import ExchangeRecord, Recording
from weft.replay.overlay import OverlayWalk
from weft.replay.page import no_price_words
from weft.replay.receipt import Receipt, receipt_of
from weft.replay.recorded import (
    RecordedCalls,
    YardstickWalk,
    find_cost_difference,
    find_usage_difference,
    has_requests,
)
from weft.replay.replay import priced_model, program_of
from weft.replay.steps import (
    AnsweredStep,
    StepWalk,
    homes_of,
    is_answer,
    is_unanswered,
    protect_as,
    speaker_of,
    under_policy,
)
from weft.runtime.approvals import pending_in
from weft.session import Event, Session
from weft.session.lookback import waiting_in
from weft.session.strand import Strand
from weft.values import Json, JsonObject, compact

PLAIN = C.default()
"""Plain history: the whole visible log, appended to. What everything is compared with."""


REHEARSED = ("C.auto()", "C.auto().compact()")
"""Policies under which a session that is looked at is compiled before anybody asks: those whose
digests take long the first time."""

_FEW = 4
"""How many what-ifs of a session are remembered."""


class CacheCount(NamedTuple):
    """How many tokens of a request the provider has read before, or could have, and how many not.

    Whatever is shown of the cache is this one count, in the tokens of the request itself: what is
    cached and what is not are all of it.
    """

    cached: int
    possible: int
    fresh: int

    @classmethod
    def of(cls, request: Compilation) -> "CacheCount":
        """The count of one request."""
        prediction, tokens = request.cached, request.tokens
        # a model that runs here may count a request otherwise, by a token or two
        possible = min(prediction.possible, tokens)
        cached = min(prediction.cached, possible)
        return cls(cached, possible, tokens - cached)


class SessionSpending(NamedTuple):
    """What the requests of a session took: tokens, those that were cached, and what they cost.

    `cost` is in US dollars where `money`, else in fresh tokens, which is where no call's model has
    a price.
    """

    tokens: int = 0
    cached: int = 0
    cost: float = 0.0
    money: bool = False
    uncounted: int = 0
    """Calls of which the provider reported nothing, and which are not in the other numbers."""
    unpriced: int = 0
    """Calls whose model has no price, and which are not in `cost`: others have one."""

    @classmethod
    def of_request(cls, request: Compilation) -> "SessionSpending":
        """What Weft counts of one request, without its answer."""
        cost = cost_of(request)
        return cls(
            request.tokens, CacheCount.of(request).cached, cost.total, money=cost.rates.money
        )

    @classmethod
    def total(cls, several: Iterable["SessionSpending"]) -> "SessionSpending":
        """Several requests together."""
        listed = [*several]
        priced = [one for one in listed if one.money]
        return cls(
            sum(one.tokens for one in listed),
            sum(one.cached for one in listed),
            sum(one.cost for one in priced or listed),
            money=bool(priced),
            unpriced=len(listed) - len(priced) if priced else 0,
        )

    @classmethod
    def from_reports(
        cls, session: Session, model: str = "", recorded: frozenset[str] | None = None
    ) -> "SessionSpending | None":
        """What the provider counted, with the answers; None if it did not count most requests.

        `model` is who answered where an event does not say. In a log of calls, `recorded` are the
        events whose requests are in it.
        """
        uncounted = 0
        spent: list[SessionSpending] = []
        answers = [
            event
            for event in session.events
            # an error is counted where the provider billed it
            if (is_answer(event) or (is_unanswered(event) and event.usage is not None))
            and (recorded is None or event.id in recorded)
        ]
        for event in answers:
            notes = event.provenance
            billed = billed_load(event.usage, notes.cache_write or 0)
            if billed is None:
                uncounted += 1  # an answer that was broken off, for example
                continue
            asked = notes.model or event.model_version or model
            rates = rates_for(asked, tokens=billed.total, lifetime=notes.cache_lifetime or "")
            spent.append(cls(billed.total, billed.cached, rates.cost(billed), money=rates.money))
        if 2 * uncounted >= len(answers):
            return None
        return cls.total(spent)._replace(uncounted=uncounted)

    def to_json(self) -> JsonObject:
        """As the page draws it."""
        return {**self._asdict()}


class Variant(NamedTuple):
    """What a what-if changes: the policy as it is written, a window, a budget, the model."""

    policy: str = ""
    window: int = 0
    budget: int = 0
    model: str = ""

    def laid_over(self, root: Node, config: RunConfig) -> Node:
        """The same agents, each under the policy that this makes of its own."""
        if not (self.policy or self.window or self.budget):
            return root
        return under_policy(root, lambda agent: self.policy_for(agent, config), config)

    def policy_for(self, agent: Agent, config: RunConfig) -> Policy:
        """The agent's policy, changed. What it redacts or labels stays hidden."""
        own = declared_policy(agent, config)
        policy = policy_from(self.policy) if self.policy else own
        if self.window:
            limit, policy = policy.limit, C.window(self.window)
            policy = dataclasses.replace(policy, limit=limit)
        if self.budget:
            policy = dataclasses.replace(policy, limit=None).budget(self.budget)
        return protect_as(policy, own)

    def config(self, base: RunConfig) -> RunConfig:
        """The run's config, with this model where one is named."""
        from msgspec.structs import replace

        return replace(base, model=self.model) if self.model else base

    def code(self, agent: Agent, config: RunConfig) -> str:
        """The variant as a line of Python, to be copied."""
        model = f"model={self.model!r}, " if self.model else ""
        changed = (
            f"dataclasses.replace({agent.name}, {model.rstrip(', ')})" if model else agent.name
        )
        return f"{agent.name} = {changed}.sees({self.policy_for(agent, config)})"


class Inspection:
    """A session with the program that ran it.

    `artifacts` are the newest texts of the session's artifacts. `files` are the sources in which
    declarations are looked up. `redact` is what the reader hides in addition to what the agents do.
    """

    def __init__(
        self,
        root: Node,
        session: Session,
        *,
        config: RunConfig | None = None,
        artifacts: Mapping[str, str] | None = None,
        files: tuple[str, ...] = (),
        redact: tuple[Redact, ...] = (),
    ) -> None:
        self.root = root
        self.session = session
        self.config = config or RunConfig()
        self.artifacts = artifacts or {}
        self.files = files
        self.redact = redact
        self.lock = RLock()
        """Held while somebody asks: what is rebuilt once must not be rebuilt by two at a time."""
        self._later: Inspection | None = None
        self._alone: OrderedDict[tuple[int, Variant], Inspection] = OrderedDict()
        """The latest what-ifs: who compares two policies goes to and fro between them."""
        self._rehearsed: dict[Variant, Inspection] = {}
        self._rehearsals: dict[Variant, Iterator[AnsweredStep]] = {}
        self._rehearsing = RLock()
        self._watchers = 0
        self.shared = SharedTurns()
        self.answers: frozenset[str] | None = None
        """In a log of calls: the events whose requests were recorded."""
        self.notice = ""
        """What a reader has to know of how the requests were rebuilt."""
        self.by_yardstick = False
        """Whether nobody knows what the model costs: it is then measured as `weft replay` does."""
        self.unrecorded: tuple[str, ...] = ()
        """Parts of requests that the recording does not hold, so nobody here can count them."""
        self.recorded: RecordedCalls | None = None
        """The calls as they were, where this is another program's recording."""
        self.overlaid: tuple[RecordedCalls, str] | None = None
        """The calls that this compiles otherwise, and another model to ask, if one is named."""
        self.forced: frozenset[str] = frozenset()
        """Events of these calls that stand in each request after them, also where none had them."""
        self.bill: Receipt | None = None
        """The receipt of who sent the requests, where that is not who recorded them."""

    @classmethod
    def of_recording(
        cls, recording: Recording, *, model: str | None = None, redact: tuple[Redact, ...] = ()
    ) -> "Inspection":
        """A recording, with agents that have nothing but what was recorded of them."""
        calls = RecordedCalls(recording) if has_requests(recording) else None
        recording = recording if calls is None else calls.recording
        root = program_of(recording)
        # the model that answered, where the recording says which
        known = model or (recording.asked_model if calls is not None else priced_model(recording))
        is_unknown = calls is None and known is None
        config = RunConfig(model=YARDSTICK if is_unknown else known or None)
        inspection = cls(root, recording.session, config=config, redact=redact)
        inspection.by_yardstick = is_unknown
        inspection.recorded = calls
        inspection.answers = recording.answers if calls is None else calls.answers
        parts = {"instructions": any(recording.instructions.values()), "tools": recording.declared}
        inspection.unrecorded = tuple(name for name, part in parts.items() if not part)
        return inspection

    def with_forced(self, session: Session, root: Node, events: Iterable[str]) -> "Inspection":
        """The session with some events marked, and a program that keeps these in view."""
        forced = self.anew(session, root=root)
        if self.recorded is not None:
            forced.overlaid = (self.recorded.said_in(session), "")
            forced.forced = frozenset(events)
        return forced

    def anew(
        self, session: Session, *, root: Node | None = None, config: RunConfig | None = None
    ) -> "Inspection":
        """Another session, program or config, looked at as this one is."""
        other = Inspection(
            root or self.root,
            session,
            config=config or self.config,
            artifacts=self.artifacts,
            files=self.files,
            redact=self.redact,
        )
        other.answers, other.unrecorded = self.answers, self.unrecorded
        other.by_yardstick = self.by_yardstick
        return other

    # What may not be shown

    @cached_property
    def rules(self) -> MaskRules:
        """What the agents' policies redact or withhold, and what the reader hides."""
        return rules_of(self.root, self.config) + MaskRules(self.redact)

    @cached_property
    def mask(self) -> Mask | None:
        """What stands next to requests is shown under this: events, state, words of calls."""
        return Mask(self.rules, self.session, self.artifacts) if self.rules else None

    @cached_property
    def request_mask(self) -> Mask | None:
        """Requests are shown under this: as they were sent, but for what the reader hides."""
        if not self.redact:
            return None
        return Mask(MaskRules(self.redact), self.session, self.artifacts)

    def for_file(self, *, raw: bool) -> "Inspection":
        """The same inspection for unknown readers.

        The rules of all agents then hold for every text, also for requests of an agent that has
        no such rule. With `raw` nothing is hidden that is stored.
        """
        other = copy.copy(self)
        mask = None if raw else self.mask
        # where `cached_property` keeps them: the copy must not find the old ones
        other.__dict__ |= {"mask": mask, "request_mask": mask}
        return other

    @cached_property
    def steps(self) -> list[AnsweredStep]:
        """Every answer of a model with its request."""
        if self.recorded is not None:
            return self.recorded.steps
        return self._walk.take(self.session.events)

    @cached_property
    def _walk(self) -> StepWalk:
        return self._new_walk()

    def _new_walk(self) -> StepWalk:
        if self.overlaid is not None:
            recorded, model = self.overlaid
            return OverlayWalk(
                self.root, recorded, config=self.config, model=model, added=self.forced
            )
        walk = YardstickWalk if self.by_yardstick else StepWalk
        return walk(
            self.root,
            self.session,
            config=self.config,
            artifacts=self.artifacts,
            answers=self.answers,
        )

    @property
    def exchanges(self) -> list[ExchangeRecord]:
        """The calls as they were recorded; empty for a session that Weft ran."""
        return self.recorded.exchanges if self.recorded is not None else []

    @cached_property
    def exchange_by_number(self) -> dict[int, ExchangeRecord]:
        """The same by the numbers of their steps."""
        return {one.number: one for one in reversed(self.exchanges)}

    @cached_property
    def usage_warning(self) -> str:
        """What to say where a recording's tokens or costs are not those that were billed."""
        if self.recorded is None:
            return ""
        usage = find_usage_difference(self.steps, self.exchanges, self.recorded.recording)
        cost = find_cost_difference(self.steps, self.recorded)
        return " ".join(filter(None, (usage, cost)))

    @property
    def price_words(self) -> str:
        """By which prices costs are reckoned."""
        if self.by_yardstick:
            return f"{no_price_words()}; --model NAME takes the prices of a model"
        return name_price_list()

    def walk(self) -> Iterator[AnsweredStep]:
        """The steps one by one, each at the price of what is new in it; they are not kept."""
        if self.recorded is not None:
            yield from self.steps
            return
        walk = self._new_walk()
        for event in self.session.events:
            yield from walk.take((event,))

    def grown(self, session: Session) -> "Inspection":
        """The same inspection of the session with more events: only what is new is rebuilt."""
        known, log = self.session.events, session.events
        last = known.tip
        if last is not None and (len(log) < len(known) or log[len(known) - 1].id != last.id):
            return self.anew(session)
        with self.lock:
            # The walk goes on once; asking this one again leads to where it went.
            if self._later is not None and len(self._later.session.events) <= len(log):
                later = self._later
                return later if len(later.session.events) == len(log) else later.grown(session)
            steps = [*self.steps, *self._walk.take(log.since(len(known)))]
            later = self.anew(session)
            later.notice = self.notice
            later.shared = self.shared
            # what was worked out goes on into the grown inspection
            later.__dict__ |= {"steps": steps, "_walk": self._walk}
            self._later = later
        return later

    def rehearse(self, variant: Variant) -> Iterator[AnsweredStep]:
        """Compile the session otherwise, step by step, each at the price of what is new in it.

        Once all steps are there, what-ifs and comparisons under the variant find them. Who
        rehearses what somebody rehearses already takes turns with them.
        """
        with self.lock:
            if variant in self._rehearsed:
                return
            rehearsal = self._rehearsals.get(variant)
            if rehearsal is None:
                rehearsal = self._rehearsals[variant] = self._rehearse(variant)
        while True:
            # two threads must not advance one generator at once
            with self._rehearsing:
                step = next(rehearsal, None)
            if step is None:
                return
            yield step

    def _rehearse(self, variant: Variant) -> Iterator[AnsweredStep]:
        with self.lock:
            other = self.under(variant)
        steps: list[AnsweredStep] = []
        for event in self.session.events:
            for step in other._walk.take((event,)):
                steps.append(step)
                yield step
        other.__dict__["steps"] = steps
        other.shared.declarations = self.shared.declarations
        with self.lock:
            self._rehearsed[variant] = other

    def explain_last(self, variant: Variant) -> Iterator[AnsweredStep]:
        """After a rehearsal: what is said of the notes of each agent's last request.

        Of the requests before them it is the same, so that a what-if finds it.
        """
        other = self._rehearsed.get(variant)
        if other is None:
            return
        for step in {speaker_of(step.event): step for step in other.steps}.values():
            if step.request is not None:
                explain(step.request, None, other.shared.noted_rows(step.request))
                yield step

    @contextmanager
    def watch(self) -> Generator[None]:
        """Somebody looks at the session. What was rehearsed goes when the last one has left."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self.forget_rehearsed()

    def forget_rehearsed(self) -> None:
        """Let go of what was rehearsed: nobody looks any more."""
        with self.lock:
            self._rehearsals.clear()
            self._rehearsed.clear()

    def under(self, variant: Variant) -> "Inspection":
        """The same session, compiled otherwise."""
        rehearsed = self._rehearsed.get(variant)
        if rehearsed is not None:
            return rehearsed
        if variant == Variant():
            return self  # nothing is changed
        other = self.anew(
            self.session,
            root=variant.laid_over(self.root, self.config),
            config=variant.config(self.config),
        )
        other.by_yardstick = self.by_yardstick and not variant.model
        if self.recorded is not None:
            other.overlaid = (self.recorded, variant.model)
        return other

    @cached_property
    def plain(self) -> "Inspection":
        """The same session under plain history."""
        return self.under(Variant(policy=str(PLAIN)))

    def step(self, number: int) -> AnsweredStep:
        """The n-th step, from 1."""
        if not 1 <= number <= len(self.steps):
            raise UsageError(
                f"there is no step {number}",
                where=f"session {self.session.id}",
                hint=f"steps count from 1 to {len(self.steps)}"
                if self.steps
                else "nothing was answered yet",
            )
        return self.steps[number - 1]

    def request(self, number: int) -> Compilation:
        """The request of the n-th answer."""
        step = self.step(number)
        if step.request is None:
            raise UsageError(
                f"the request of step {number} cannot be rebuilt: {step.problem}",
                where=f"session {self.session.id}",
                hint="name the target that ran the session",
            )
        return step.request

    def alone(
        self, number: int, variant: "Variant", step: AnsweredStep | None = None
    ) -> "Inspection":
        """One step compiled otherwise, and the one that it follows; the others have no request.

        `step` says where it is in the log, for who knows that already.
        """
        rehearsed = self._rehearsed.get(variant)
        if rehearsed is not None:
            return rehearsed
        if variant == Variant():
            return self
        known = self._alone.get((number, variant))
        if known is not None:
            self._alone.move_to_end((number, variant))
            return known
        alone = self.under(variant)
        alone.shared.declarations = self.shared.declarations
        alone.rebuild_only(step or self.step(number))
        self._alone[number, variant] = alone
        while len(self._alone) > _FEW:
            self._alone.popitem(last=False)
        return alone

    def rebuild_only(self, step: AnsweredStep) -> None:
        """Rebuild this step, and of those before it only the one that it follows."""
        answered = self._walk.alone(self.session, step.place)._replace(number=step.number)
        self.__dict__["steps"] = [step._replace(request=None)] * (step.number - 1) + [answered]

    # The film strip

    def film(self) -> JsonObject:
        """One frame for each step, lanes for branches, and what all of it cost."""
        tokens, show = SourceTokens(), MaskedTexts(self.mask)
        title = show.text(title_of(self.session), FIRST)
        return {
            "session": {**show.fields(self.summary()), "first": title},
            "notice": " ".join(filter(None, (self.notice, self.usage_warning))),
            "prices": self.price_words,
            "hidden": list[Json](self.rules.words),
            "frames": [_frame(step, tokens, show, self.timings) for step in self.steps],
            "events": [
                _event_row(index, event, show) for index, event in enumerate(self.session.events)
            ],
            "state": show.state(self.session.initial),
            "waiting": [
                {
                    "id": one.call_id,
                    "name": one.name,
                    "kind": one.kind,
                    "question": show.text(one.question),
                    "args": show.value(one.args),
                }
                for one in pending_in(self.session)
            ],
        }

    def ghosts(self) -> list[Json]:
        """For each step: what plain history would have taken."""
        return [_ghost(step.request) for step in self.plain.steps]

    def receipt(self) -> Receipt:
        """What each call was expected to cost, what was billed, and why the two differ."""
        if self.bill is not None:
            return self.bill
        notice = self.notice
        if self.unrecorded and not notice:
            words = " and ".join(self.unrecorded)
            notice = f"The {words} were not recorded: what they take is part of `estimate off`."
        notice = " ".join(filter(None, (notice, self.usage_warning)))
        return receipt_of(self.session, self.steps, model=self.model, notice=notice)

    def summary(self) -> JsonObject:
        """The session in a line: who, how long, what it cost."""
        requests = (step.request for step in self.steps if step.request is not None)
        reported = SessionSpending.from_reports(self.session, self.model, self.answers)
        errors = sum(1 for event in self.session.events if event.error_code)
        return {
            "id": self.session.id,
            "app": self.session.app_name,
            "user": self.session.user_id,
            "events": len(self.session.events),
            "steps": len(self.steps),
            **SessionSpending.total(map(SessionSpending.of_request, requests)).to_json(),
            "reported": reported.to_json() if reported is not None else None,
            "imported": self.recorded is not None,
            "errors": errors,
            "waiting": len(self.waiting),
            "agents": list[Json](dict.fromkeys(step.event.author for step in self.steps)),
            "updated": max((event.timestamp for event in self.session.events), default=0.0),
        }

    @cached_property
    def timings(self) -> dict[str, CallTiming]:
        """How long each call took, by the event that answered it."""
        timings = find_timings(self.session, {step.event.id for step in self.steps})
        for one in self.exchanges:
            known = timings.get(one.event, CallTiming())
            seconds, first = None, known.first
            if one.started is not None and one.ended is not None:
                seconds = max(0.0, one.ended - one.started)
            if one.started is not None and one.first_token is not None:
                first = max(0.0, one.first_token - one.started)
            timings[one.event] = CallTiming(
                one.ended or known.time, seconds, first, one.finish, one.retries
            )
        return timings

    @property
    def model(self) -> str:
        """The model that most likely answered where an event does not say which."""
        models: list[object] = [None if self.by_yardstick else self.config.model]
        models += [home.model for home in homes_of(self.root).values()]
        return next((name for name in map(name_of_model, models) if name), "")

    @cached_property
    def authors(self) -> dict[str, str]:
        """Who made each event, by its id."""
        return {event.id: event.author for event in self.session.events}

    @property
    def waiting(self) -> dict[str, str]:
        """The questions that are open: call ids and the names of what was called."""
        return waiting_in(self.session.events)


class SharedTurns:
    """What is worked out of turns that several requests have: their texts and their segments."""

    def __init__(self) -> None:
        self.segments: TurnSegments = {}
        self.declarations: object = None
        """Where the program is written, once somebody has looked."""
        self.last_view: object = None
        """The view of the step of a variant that was asked for last."""
        self._noted_rows: dict[tuple[str, str], NotedRows] = {}
        self._texts: dict[int, TurnText] = {}
        self._wholes: OrderedDict[tuple[int, str], tuple[Compilation, RequestText]] = OrderedDict()
        self._parts: dict[tuple[int, str], tuple[Compilation, dict[str, set[str]]]] = {}

    def noted_rows(self, request: Compilation) -> NotedRows:
        """What is said of the notes of a request's agent under its model."""
        return self._noted_rows.setdefault((request.prompt.agent, request.prompt.model), {})

    def text(self, value: Json) -> str:
        """A part of a request as compact JSON."""
        return self._turn(value).text if isinstance(value, dict) else compact(value)

    def _turn(self, value: Json) -> "TurnText":
        known = self._texts.get(id(value))
        if known is None:
            known = TurnText.of(value)
            if isinstance(value, dict):
                self._texts[id(value)] = known
        return known

    def whole_text(self, request: Compilation, dialect: str) -> "RequestText":
        """A request as compact JSON; it is compared with the one after it."""
        known = self._wholes.get((id(request), dialect))
        if known is None:
            field = request.lowered(dialect).turns
            before, after, turns = "", "", list[TurnText]()
            for key, value in request.lower(dialect).items():
                joint = "," if before else "{"
                if key == field and isinstance(value, list):
                    before += f"{after}{joint}{compact(key)}:["
                    after, turns = "]", self._turns_of(value)
                elif after:
                    after += f",{compact(key)}:{compact(value)}"
                else:
                    before += f"{joint}{compact(key)}:{compact(value)}"
            text = RequestText(before or "{", turns, after + "}")
            known = self._wholes[id(request), dialect] = request, text
            while len(self._wholes) > _FEW:
                self._wholes.popitem(last=False)
        return known[1]

    def _turns_of(self, turns: list[Json]) -> "list[TurnText]":
        """Each turn as compact JSON: most of them stand in the requests before, too."""
        known = [*map(self._texts.get, map(id, turns))]
        return [
            one if one is not None else self._turn(turn)
            for one, turn in zip(known, turns, strict=True)
        ]

    def parts(self, request: Compilation, dialect: str) -> dict[str, set[str]]:
        """The parts of a request by the field they stand in, as texts."""
        known = self._parts.get((id(request), dialect))
        if known is None:
            turns = request.lowered(dialect).turns
            parts = {
                key: {turn.text for turn in self._turns_of(value)}
                if key == turns and isinstance(value, list)
                else {compact(value)}
                for key, value in request.lower(dialect).items()
            }
            known = self._parts[id(request), dialect] = (request, parts)
        return known[1]

    def spans(self, request: Compilation, dialect: str) -> Iterator[tuple[int, str, str, Json]]:
        """The fields of a request, turns one by one, each with where it ends in its text.

        Each has its field's name, its JSON, and its value.
        """
        at, turns = 1, request.lowered(dialect).turns
        for index, (key, value) in enumerate(request.lower(dialect).items()):
            at += len(compact(key)) + 1 + (1 if index else 0)
            if key == turns and isinstance(value, list):
                at += 1
                for number, turn in enumerate(value):
                    text = self.text(turn)
                    at += len(text) + (1 if number else 0)
                    yield at, key, text, turn
                at += 1
            else:
                text = compact(value)
                at += len(text)
                yield at, key, text, value


class TurnText(NamedTuple):
    """A turn as compact JSON, and its bytes; whether something in it is marked for the cache."""

    turn: object
    """It is kept with its text: the id of an object that is gone is given again."""
    text: str
    size: int
    is_marked: bool

    @classmethod
    def of(cls, turn: Json) -> "TurnText":
        """The text of a turn."""
        text = compact(turn)
        return cls(turn, text, count_bytes(text), has_mark(text))


def count_bytes(text: str) -> int:
    """How long a text is in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def has_mark(text: str) -> bool:
    """Whether something in compact JSON is marked for the cache."""
    return any(f'"{mark}"' in text for mark in MARKS)


class RequestText:
    """A request as compact JSON: what stands before its turns, the turns, and the rest.

    Requests of a session have most turns in common. So two are compared turn by turn, and the
    whole text is put together only for who wants to see it.
    """

    def __init__(self, before: str, turns: Sequence[TurnText], after: str) -> None:
        self._before = before
        self._turns = turns
        self._after = after

    @cached_property
    def whole(self) -> str:
        """All of it."""
        return self._before + self._rest(0)

    def _rest(self, turn: int) -> str:
        """What comes after the first turns, from the comma on."""
        joint = "," if 0 < turn < len(self._turns) else ""
        return joint + ",".join([one.text for one in self._turns[turn:]]) + self._after

    @cached_property
    def is_marked(self) -> bool:
        """Whether something in it is marked for the cache."""
        return has_mark(self._before + self._after) or any(one.is_marked for one in self._turns)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each turn begins."""
        sizes = (len(one.text) + 1 for one in self._turns)
        return [*accumulate(sizes, initial=len(self._before))][:-1]

    def __len__(self) -> int:
        size = self._starts[-1] + len(self._turns[-1].text) if self._turns else len(self._before)
        return size + len(self._after)

    def between(self, start: int, end: int) -> str:
        """A stretch of it."""
        if not self._turns or start < len(self._before):
            return self.whole[start:end]
        starts = self._starts
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, end)
        near = ",".join([one.text for one in self._turns[first:last]])
        near += "," if last < len(self._turns) else self._after
        return near[start - starts[first] : end - starts[first]]

    def count_bytes(self, end: int) -> int:
        """How many bytes its first characters have."""
        if not self._turns or end < len(self._before):
            return count_bytes(self.whole[:end])
        number = bisect_right(self._starts, end) - 1
        start = self._starts[number]
        size = count_bytes(self._before) + sum([one.size + 1 for one in self._turns[:number]])
        return size + count_bytes(self.between(start, end))

    def differs_at(self, other: "RequestText") -> int:
        """The first character that is not the same in another request."""
        if self._before != other._before:
            return find_difference(self.whole, other.whole)
        both = zip(self._turns, other._turns, strict=False)
        least = min(len(self._turns), len(other._turns))
        same = next(
            (
                at
                for at, (mine, theirs) in enumerate(both)
                if mine is not theirs and mine.text != theirs.text
            ),
            least,
        )
        start = len(self._before) + sum([len(one.text) for one in self._turns[:same]])
        return start + max(0, same - 1) + find_difference(self._rest(same), other._rest(same))


def find_difference(old: str, new: str) -> int:
    """The first character in which two texts differ: the stretch of it, and then by halving."""
    low, high = 0, min(len(old), len(new))
    while low < high and old[low : low + _STRETCH] == new[low : low + _STRETCH]:
        low += _STRETCH
    low, high = min(low, high), min(low + _STRETCH, high)
    start = low
    while low < high:
        middle = (low + high + 1) // 2
        if old[start:middle] == new[start:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_STRETCH = 16_384
"""Characters of two texts that are compared at once."""


NumberedTokens: TypeAlias = tuple[int, dict[tuple[str, str], int]]
"""The number of a part of a request, and its tokens by source and tool."""


class SourceTokens:
    """Tokens by where they go, for request after request of one session.

    Requests of a session share their turns as objects, so each is weighed once.
    """

    def __init__(self) -> None:
        self._sources: dict[int, tuple[str, str]] = {}
        self._items: dict[int, object] = {}
        self._latest: dict[str, Strand[Item]] = {}
        self._turns: dict[int, _WeighedTurn] = {}
        self._numbers: dict[tuple[Origin, ...], int] = {}
        self._first_turns: dict[int, _FirstTurns] = {}

    def of(self, request: Compilation) -> dict[str, int]:
        """The tokens of a request by source; they add up to all of it."""
        self._learn_sources(request)
        lowered = request.lowered()
        head = request.scale.head(lowered)
        first = self._first_turns.get(id(lowered.track))
        if first is None or first.length > lowered.final:
            first = _FirstTurns(lowered.track, 0, {})
        # turns that are final stand in all requests after: their sums go on
        settled = lowered.entries.between(first.length, lowered.final)
        sums = self._add_turns(first.sums, settled, request)
        self._first_turns[id(lowered.track)] = _FirstTurns(lowered.track, lowered.final, sums)
        sums = self._add_turns(sums, lowered.rest, request)
        sums["tools"] = sum(head.tools)
        sums["schema"] = head.schema
        lead = (sum(self._weigh(entry, request).sums.values()) for entry in lowered.lead)
        sums["system"] = sums.get("system", 0) + head.system + sum(lead)
        sums.pop("overhead", None)
        known = sum(sums.values())
        if known > request.tokens:  # earlier thoughts are sent and not counted
            sums["model"] = max(0, sums.get("model", 0) - (known - request.tokens))
        sums["overhead"] = request.tokens - sum(sums.values())
        return {source: tokens for source, tokens in sums.items() if tokens > 0}

    def _add_turns(
        self, sums: Mapping[str, int], entries: Iterable[Entry], request: Compilation
    ) -> dict[str, int]:
        """The sums with these turns."""
        more = {**sums}
        for entry in entries:
            for (source, _), tokens in self._weigh(entry, request).sums.items():
                more[source] = more.get(source, 0) + tokens
        return more

    def _learn_sources(self, request: Compilation) -> None:
        """Note where the blocks of a request come from; of most items that is known."""
        items, known = request.prompt.items, self._latest.get(request.prompt.agent)
        start = 0
        if known is not None and items.shares(known):
            start = min(known.settled, items.settled)
        for item in items.since(start):
            if id(item) not in self._items:
                self._items[id(item)] = item
                for block in item.blocks:
                    tool = block.name if isinstance(block, ResultBlock) else ""
                    self._sources[id(block)] = source_of(item, block), tool
        self._latest[request.prompt.agent] = items

    def before_turns(self, request: Compilation) -> Iterator[NumberedTokens]:
        """The parts of a request before its turns, each with its tokens by source and tool.

        A part has one number wherever it stands in the session; that of the head is 0.
        """
        self._learn_sources(request)
        lowered, scale = request.lowered(), request.scale
        head = scale.head(lowered)
        yield (
            0,
            {
                ("tools", ""): sum(head.tools),
                ("schema", ""): head.schema,
                ("system", ""): head.system,
            },
        )
        for entry in lowered.lead:  # a system that is a turn
            weighed = self._weigh(entry, request)
            yield weighed.number, {("system", ""): sum(weighed.sums.values())}

    def turns(
        self, request: Compilation, first: int, last: int | None = None
    ) -> Iterator[NumberedTokens]:
        """The same of its turns, from one on, or from one to another, which is not among them."""
        entries = request.lowered().entries
        for entry in entries.between(first, len(entries) if last is None else last):
            weighed = self._weigh(entry, request)
            yield weighed.number, weighed.sums

    def _weigh(self, entry: Entry, request: Compilation) -> "_WeighedTurn":
        weighed = self._turns.get(id(entry))
        if weighed is None:
            scale = request.scale
            places = dict(entry.blocks)
            sums: dict[tuple[str, str], int] = {}
            for part in scale.meter.weigher.turn(entry.wire).parts:
                tokens = scale.meter.part(part)
                if entry.joined and part.pointer == "/content":
                    for source, some in self._split_tokens(entry, tokens):
                        sums[source] = sums.get(source, 0) + some
                    continue
                block = places.get(part.pointer)
                source = self._sources.get(id(block), _OVERHEAD)
                sums[source] = sums.get(source, 0) + tokens
            blocks = (*(one for _, one in entry.blocks), *(one for _, one in entry.joined))
            origins = tuple(block.origin for block in blocks)
            number = self._numbers.setdefault(origins, len(self._numbers) + 1)
            weighed = self._turns[id(entry)] = _WeighedTurn(entry, sums, number)
        return weighed

    def _split_tokens(self, entry: Entry, tokens: int) -> Iterator[tuple[tuple[str, str], int]]:
        """The tokens of a text that several blocks were joined to, by their lengths."""
        whole, counted = max(1, entry.joined[-1][0]), 0
        for end, block in entry.joined:
            upto = tokens * end // whole
            yield self._sources.get(id(block), _OVERHEAD), upto - counted
            counted = upto


_OVERHEAD = ("overhead", "")


class _FirstTurns(NamedTuple):
    """The first turns of a session that are final: how many, and their tokens by source."""

    track: Track
    length: int
    sums: dict[str, int]


class _WeighedTurn(NamedTuple):
    """A turn, its tokens by source and tool, and the number of what it says."""

    entry: Entry
    sums: dict[tuple[str, str], int]
    number: int


def _frame(
    step: AnsweredStep,
    tokens: SourceTokens,
    show: MaskedTexts,
    timings: Mapping[str, CallTiming],
) -> JsonObject:
    """One step as the film strip draws it."""
    event, request = step.event, step.request
    timing = timings.get(event.id, CallTiming())
    frame: JsonObject = {
        "number": step.number,
        "event": event.id,
        "agent": event.author,
        "branch": event.branch or "",
        "scope": event.isolation_scope or "",
        "invocation": event.invocation_id,
        "time": timing.time or event.timestamp,
        "seconds": timing.seconds,
        "problem": show.text(step.problem),
        "calls": [{"id": call.id, "name": call.name} for call in event.calls],
        "text": show.text(event.text or "", 200),
        "error": show.text(_error_words(event), 200),
        "reported": reported_usage(event),
    }
    if request is not None:
        prefix, broken = request.stable_prefix, request.prefix_break
        frame |= {
            "model": request.prompt.model,
            "dialect": request.dialect,
            "tokens": request.tokens,
            "sources": dict[str, Json](tokens.of(request)),
            "prefix": prefix.tokens,
            **CacheCount.of(request)._asdict(),
            "read_again": read_again(request),
            "broken": str(broken) if broken is not None else "",
            **_money(cost_of(request)),
        }
    return frame


def _money(cost: Cost) -> JsonObject:
    return {"cost": cost.total, "saved": cost.saved, "lost": cost.broken, "money": cost.rates.money}


def _ghost(request: Compilation | None) -> JsonObject | None:
    """What plain history would have taken."""
    if request is None:
        return None
    return {
        "tokens": request.tokens,
        "cached": CacheCount.of(request).cached,
        "cost": cost_of(request).total,
    }


def reported_usage(event: Event) -> JsonObject | None:
    """What the provider said it counted."""
    usage = event.usage
    if usage is None:
        return None
    return {
        "prompt": usage.prompt_token_count,
        "cached": usage.cached_content_token_count,
        "answer": usage.candidates_token_count,
        "thoughts": usage.thoughts_token_count,
    }


def _event_row(index: int, event: Event, show: MaskedTexts) -> JsonObject:
    """An event as the lanes below the strip draw it."""
    return {
        "index": index,
        "id": event.id,
        "author": event.author,
        "branch": event.branch or "",
        "time": event.timestamp,
        "text": show.text(event.text or "", 200),
        **label_calls(event, show),
        "state": show.state(event.actions.state_delta),
        "error": show.text(_error_words(event), 400),
    }


def _error_words(event: Event) -> str:
    return ": ".join(filter(None, (event.error_code, event.error_message)))
