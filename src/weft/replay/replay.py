"""Replay: compile a recording again, step by step, under another policy, and say what it costs.

Every turn of a model that was recorded is a request. What the provider would have reused is
what a request repeats of the one before it; nothing is called. The answers are the recorded
ones, so nobody knows what a model would have said to another view: `recalls` counts what it
would have had to ask for, because only a handle led to what it used, and `repeats` the calls
that it would have had to make again, because not even a handle was left.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from weft.compiler.compiled import Compilation
from weft.compiler.costs import Load, Rates, cost_of, read_again
from weft.content import Content
from weft.declare import Agent, Node, Policy, RunConfig, Tool
from weft.declare import Sequence as Sequential
from weft.declare.agent import labels_of, unite_labels
from weft.declare.template import write_literally
from weft.declare.tool import NAME, RESERVED
from weft.declare.visit import rebuild_program
from weft.dialects.facts import SECONDS, YARDSTICK, Cache
from weft.errors import BudgetExceeded, UsageError
from weft.ir.block import RECALL
from weft.passes.handles import ASKING, PAGE
from weft.recordings import Recording
from weft.replay.evidence import (
    EditedLines,
    KeptEvidence,
    Rebuilt,
    Texts,
    Uses,
    View,
    is_short,
    part_text,
    rebuild_texts,
)
from weft.replay.evidence import uses_of as uses_of
from weft.replay.overlay import OverlayWalk
from weft.replay.recorded import RecordedCalls, count_by_yardstick, has_requests, is_priced
from weft.replay.steps import (
    compile_before,
    config_to_rebuild,
    ends_call,
    is_unanswered,
    speaker_of,
    under_policy,
)
from weft.session import Event, Session
from weft.session.talk import INTERNAL_CALLS
from weft.values import Json, JsonObject

DEARER = 1.02
"""From which share of plain history on a run counts as dearer."""

ANSWER = 5.0
"""The assumed price of an answer token, in fresh tokens: providers charge 4 to 8."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What recordings cost under one policy and model.

    `cost` is in US dollars where `money`, else in fresh tokens. `broken` counts the requests
    that read again what was sent before, `announced` those of them that said so with a price.
    `used` strings were used later; `present` of them were in view in the request, `behind` more one
    handle away. Of `reduced` texts in the requests, `rebuilt` can be put together again from the
    request and its handles. `recalls` handles would have been asked for, and `repeats` calls made
    again, which makes it `with_recalls`. The answers have `output` tokens, which cost
    `output_cost`, calls for recalls and repeats included. `used_next` strings were used in the
    step after the one that brought them, and `present_next` of them were in view. `short` of the
    used ones are short values, such as prices, and `short_present` of them were in view. `edits`
    changed lines that a result had shown, and of `edits_present` all those lines were in view.
    `dearer` runs cost, recalls included, over 2% more than plain history, and `worst` is the
    largest such share. `refused` requests could not be made within the policy's budget, and count
    in nothing else. `curve` holds the tokens of each step, summed over the runs, and `reached` how
    many runs had it. `unpriced` requests were asked of a model without a price, and are in no cost:
    others have one.
    """

    policy: str
    model: str
    runs: int = 0
    requests: int = 0
    tokens: int = 0
    cached: int = 0
    cost: float = 0.0
    with_recalls: float = 0.0
    money: bool = False
    largest: int = 0
    broken: int = 0
    announced: int = 0
    used: int = 0
    present: int = 0
    behind: int = 0
    reduced: int = 0
    rebuilt: int = 0
    recalls: int = 0
    repeats: int = 0
    output: int = 0
    output_cost: float = 0.0
    used_next: int = 0
    present_next: int = 0
    short: int = 0
    short_present: int = 0
    edits: int = 0
    edits_present: int = 0
    dearer: int = 0
    worst: float = 1.0
    refused: int = 0
    unpriced: int = 0
    curve: tuple[int, ...] = ()
    reached: tuple[int, ...] = ()

    @property
    def hit_ratio(self) -> float:
        """The share of the tokens that was read before."""
        return self.cached / self.tokens if self.tokens else 0.0

    @property
    def kept_share(self) -> float:
        """The share of the strings used later that were present or one handle away."""
        return (self.present + self.behind) / self.used if self.used else 1.0

    @property
    def lost(self) -> float:
        """The share of the strings used later that nothing in the request leads to."""
        return 1.0 - self.kept_share

    @property
    def restorable(self) -> float:
        """The share of the texts in short that can be put together again."""
        return self.rebuilt / self.reduced if self.reduced else 1.0

    @property
    def in_view(self) -> float:
        """The share of the strings used later that were in view."""
        return self.present / self.used if self.used else 1.0

    @property
    def in_view_next(self) -> float:
        """The share of the strings used in the next step that were in view then."""
        return self.present_next / self.used_next if self.used_next else 1.0

    @property
    def in_view_later(self) -> float:
        """The share of the strings used in a later step that were in view then."""
        used = self.used - self.used_next
        return (self.present - self.present_next) / used if used else 1.0

    @property
    def in_view_short(self) -> float:
        """The share of the short values used later that were in view."""
        return self.short_present / self.short if self.short else 1.0

    @property
    def bill(self) -> float:
        """What requests, recalls and answers cost together."""
        return self.with_recalls + self.output_cost

    @property
    def in_view_edits(self) -> float:
        """The share of the edits whose lines were all in view."""
        return self.edits_present / self.edits if self.edits else 1.0

    def against(self, plain: "Trial") -> "Trial":
        """One run, which knows whether it is dearer than the same run as plain history."""
        share = self.with_recalls / plain.cost if plain.cost else 1.0
        return msgspec.structs.replace(self, dearer=int(share > DEARER), worst=share)


def priced_model(recording: Recording) -> str | None:
    """The model that a recording names, if anybody knows what it costs."""
    model = recording.asked_model
    return model if model and is_priced(model) else None


class _StepCost(NamedTuple):
    """What one request takes: all its tokens, those read again, and what that costs."""

    tokens: int
    cached: int
    cost: float
    rates: Rates


def replay(
    recording: Recording,
    policy: Policy,
    *,
    uses: Uses,
    model: str | None = None,
    agents: Mapping[str, Agent] | None = None,
    gap: float | None = None,
    sessions_per_hour: float = 0.0,
    aside: Callable[[Compilation], Load | None] | None = None,
    change: Callable[[Agent], Agent] | None = None,
) -> Trial:
    """Compile every request of a recording under a policy.

    Without `model` each is asked of the model that it was asked of, and counted by the yardstick
    where nobody knows that one. `agents` are the roots of the agents that speak in it by name;
    without, each has what was recorded of it. `gap` seconds lie between an answer and the next
    request where the recording has no times. With `sessions_per_hour` the head of the first request
    may have been read for another session. `aside` gives what a call takes that is made for a
    request before it is sent, if there is one. `change` is done to each agent after the policy.
    """
    events = recording.session.events
    is_overlaid = agents is None and has_requests(recording)
    name = model or (priced_model(recording) if is_overlaid else None)
    is_unknown = model is None and not is_overlaid
    tally, texts, records = _Tally(policy, name), Texts(), KeptEvidence(events)
    requests = requests_of(
        recording,
        policy,
        model=model,
        agents=agents,
        refused=tally.refused,
        gap=gap,
        change=change,
    )
    for index, answer, compiled in requests:
        if is_unknown:
            count_by_yardstick(compiled)
        spent = _price_request(compiled)
        # only a first request can share its head with another session
        if sessions_per_hour and not tally.sizes:
            spent = _share_head(spent, compiled, sessions_per_hour)
        tally.step(compiled, spent, answer)
        if aside is not None and (load := aside(compiled)) is not None:
            tally.call(load, spent)
        used, edited = uses.by_event.get(index, ()), uses.edits.get(index)
        if used or edited is not None:
            view = View(compiled, texts, records)
            at_once = uses.at_once.get(index, frozenset[str]())
            tally.evidence(view, index, used, at_once, spent, compiled)
            if edited is not None:
                tally.edit(view, edited, spent, compiled)
        tally.rebuild(rebuild_texts(compiled, records))
    return tally.trial()


def total(trials: Iterable[Trial]) -> Trial:
    """Several recordings under one policy and model as one."""
    listed = [*trials]
    is_money = any(one.money for one in listed)
    first, *rest = (one if one.money == is_money else _without_costs(one) for one in listed)
    for other in rest:
        mine, more = msgspec.structs.asdict(first), msgspec.structs.asdict(other)
        first = msgspec.structs.replace(
            first,
            **{name: mine[name] + more[name] for name in mine.keys() - _NOT_ADDED},
            largest=max(first.largest, other.largest),
            worst=max(first.worst, other.worst),
            money=is_money,
            curve=_add_columns(first.curve, other.curve),
            reached=_add_columns(first.reached, other.reached),
        )
    return first


def _without_costs(trial: Trial) -> Trial:
    """A trial in fresh tokens, next to others in dollars: its costs cannot be added to theirs."""
    return msgspec.structs.replace(
        trial, cost=0.0, with_recalls=0.0, output_cost=0.0, unpriced=trial.requests
    )


_NOT_ADDED = {"policy", "model", "money", "largest", "worst", "curve", "reached"}
"""The fields of a trial that are not sums."""


class _Costs:
    """What requests cost, recalls and answers next to them, in one unit."""

    def __init__(self) -> None:
        self.requests = 0
        self.sent = self.recalling = self.answers = 0.0


class _Tally:
    """Adds up one recording, request by request."""

    def __init__(self, policy: Policy, model: str | None) -> None:
        self.policy, self.model = policy, model
        self.sizes: list[int] = []
        self.cached = self.broken = self.announced = 0
        self.costs: dict[bool, _Costs] = {}
        """Those in US dollars, and those in fresh tokens."""
        self.used = self.present = self.behind = self.reduced = self.rebuilt = 0
        self.used_next = self.present_next = self.short = self.short_present = 0
        self.edits = self.edits_present = 0
        self.output = 0
        self.recalled: set[str] = set()
        self.repeated: set[str] = set()
        self.refused: list[BudgetExceeded] = []
        self.carried = 0

    def _costs(self, spent: _StepCost) -> "_Costs":
        return self.costs.setdefault(spent.rates.money, _Costs())

    def step(self, compiled: Compilation, spent: _StepCost, answer: Event) -> None:
        """One more request and its answer; what was recalled before is read again with it."""
        self.sizes.append(spent.tokens)
        self._answer(_answer_tokens(answer, compiled), spent)
        self.cached += spent.cached
        costs = self._costs(spent)
        costs.requests += 1
        costs.sent += spent.cost
        # what was recalled stays in the conversation, and is read from then on
        costs.recalling += self.carried * spent.rates.read
        if read_again(compiled):
            self.broken += 1
            self.announced += any(one.code == "WEFT502" for one in compiled.diagnostics)

    def call(self, load: Load, spent: _StepCost) -> None:
        """One call more, which no answer of the recording belongs to."""
        self._costs(spent).recalling += spent.rates.cost(load._replace(answer=0))
        self._answer(load.answer, spent)

    def evidence(
        self,
        view: View,
        index: int,
        used: tuple[str, ...],
        at_once: frozenset[str],
        spent: _StepCost,
        compiled: Compilation,
    ) -> None:
        """What the answer to a request used, the event at `index`; what is missing is asked for."""
        self.used += len(used)
        self.used_next += len(at_once)
        self.short += sum(map(is_short, used))
        for string in used:
            if view.has(string):
                self.present += 1
                self.present_next += string in at_once
                self.short_present += is_short(string)
                continue
            handle = view.handle_of(string)
            self.behind += handle is not None
            # a recall of an earlier step, or a call made again, has brought it already
            if view.is_behind(string, self.recalled | self.repeated):
                continue
            source = handle or view.source_of(string, index)
            if source is not None:
                self._bring(source, view, spent, compiled)

    def edit(
        self, view: View, edited: EditedLines, spent: _StepCost, compiled: Compilation
    ) -> None:
        """The lines that the answer changed; where some are not in view, they are asked for."""
        self.edits += 1
        missing = [line for line in edited.lines if not view.has_line(line)]
        if not missing:
            self.edits_present += 1
        # a recall of an earlier step has brought them already
        elif not view.are_lines_behind(missing, self.recalled | self.repeated):
            self._bring(edited.handle, view, spent, compiled)

    def _bring(self, handle: str, view: View, spent: _StepCost, compiled: Compilation) -> None:
        """One request and a call more, and what it brings from then on.

        What a handle of the request leads to is recalled, a page of it at most. Of anything
        else the call that brought it is made again.
        """
        size = _size(view.text(handle), compiled) + ASKING
        if handle in view.behind:
            self.recalled.add(handle)
            size = min(size, PAGE + ASKING)
        else:
            self.repeated.add(handle)
        recalled = spent.rates.cost(Load(spent.tokens + self.carried, size, 0))
        self._costs(spent).recalling += recalled
        self.carried += size
        self._answer(ASKING, spent)

    def _answer(self, tokens: int, spent: _StepCost) -> None:
        """Count tokens that a model says."""
        self.output += tokens
        price = spent.rates.answer or ANSWER * spent.rates.fresh
        self._costs(spent).answers += tokens * price

    def rebuild(self, rebuilt_step: Rebuilt) -> None:
        """What of one request can be put together again."""
        self.reduced += rebuilt_step.reduced
        self.rebuilt += rebuilt_step.reduced - len(rebuilt_step.lost)

    def trial(self) -> Trial:
        """All of it. Where some requests have a price, costs are those of them alone."""
        money = True in self.costs
        costs = self.costs.get(money, _Costs())
        return Trial(
            policy=str(self.policy),
            model=self.model or "",
            runs=1,
            requests=len(self.sizes),
            tokens=sum(self.sizes),
            cached=self.cached,
            cost=costs.sent,
            with_recalls=costs.sent + costs.recalling,
            money=money,
            largest=max(self.sizes, default=0),
            broken=self.broken,
            announced=self.announced,
            used=self.used,
            present=self.present,
            behind=self.behind,
            reduced=self.reduced,
            rebuilt=self.rebuilt,
            recalls=len(self.recalled),
            repeats=len(self.repeated),
            output=self.output,
            output_cost=costs.answers,
            used_next=self.used_next,
            present_next=self.present_next,
            short=self.short,
            short_present=self.short_present,
            edits=self.edits,
            edits_present=self.edits_present,
            refused=len(self.refused),
            unpriced=len(self.sizes) - costs.requests,
            curve=tuple(self.sizes),
            reached=(1,) * len(self.sizes),
        )


def _size(text: str, compiled: Compilation) -> int:
    return compiled.scale.counter.count(text)


def _answer_tokens(answer: Event, compiled: Compilation) -> int:
    """The tokens of an answer: as its provider counted them, else as its words and calls are."""
    usage = answer.usage
    if usage is not None and usage.candidates_token_count is not None:
        return usage.candidates_token_count + (usage.thoughts_token_count or 0)
    parts = (answer.content.parts or ()) if answer.content is not None else ()
    return _size("\n".join(map(part_text, parts)), compiled) if parts else 0


def requests_of(
    recording: Recording,
    policy: Policy,
    *,
    model: str | None = None,
    agents: Mapping[str, Agent] | None = None,
    refused: list[BudgetExceeded] | None = None,
    as_recorded: bool = False,
    gap: float | None = None,
    change: Callable[[Agent], Agent] | None = None,
) -> Iterator[tuple[int, Event, Compilation]]:
    """Each event that a model made, with its place and the request that led to it.

    The requests are those that the page of the recording shows under the policy. With `agents`, or
    if `as_recorded`, they are compiled from declarations instead, and of a recording of ours in any
    case. An answer that the recording does not hold has the place -1.

    A request that does not fit its budget is added to `refused`; without, it is an error. Options
    of a recorded request are set again only if `as_recorded`: another model may refuse them.
    Where the recording has no times, `gap` seconds lie between an answer and the next request.
    """
    if agents is None and not as_recorded and has_requests(recording):
        yield from _overlaid_requests(
            recording, policy, model=model, refused=refused, gap=gap, change=change
        )
        return
    known = agents if agents is not None else recorded_agents(recording, as_recorded=as_recorded)
    if change is not None:
        known = {name: change(root) for name, root in known.items()}
    laid_over = {
        id(root): cast("Agent", under_policy(root, lambda agent: policy)) for root in known.values()
    }
    roots = {name: laid_over[id(root)] for name, root in known.items()}
    labels = unite_labels(label for root in laid_over.values() for label in labels_of(root))
    options = recording.config if as_recorded else {}
    config = config_to_rebuild(RunConfig(model=model or YARDSTICK, generate_config=options))
    session = recording.session
    before: dict[tuple[str, str | None, str | None], Compilation] = {}
    grown = Session(
        session.id, app_name=session.app_name, user_id=session.user_id, state=session.initial
    )
    waiting: list[Event] = []
    timed = _has_times(session.events)
    models = {one.event: one.model for one in recording.exchanges if one.model}
    asks_several = as_recorded and model == recording.asked_model and len({*models.values()}) > 1
    for index, event in enumerate(_close_last_request(recording)):
        if ends_call(event) and event.author in roots and _is_asked(recording, event):
            grown = grown.append(*waiting)
            waiting = []
            asked = speaker_of(event)
            if asks_several and event.id in models:
                named = recording.name_asked(models[event.id])
                config = msgspec.structs.replace(config, model=named)
            try:
                compiled = compile_before(
                    event, roots[event.author], grown, config=config, labels=labels
                )
            except BudgetExceeded as error:
                if refused is None:
                    raise
                refused.append(error)
            else:
                compiled.follows(before.get(asked))
                if asked in before and gap is not None and not timed:
                    compiled.asked = before[asked].answered + gap
                yield index, event, compiled
                compiled.answered = event.timestamp if timed else compiled.asked or 1.0
                if not is_unanswered(event):
                    before[asked] = compiled
        waiting.append(event)


def _overlaid_requests(
    recording: Recording,
    policy: Policy,
    *,
    model: str | None,
    refused: list[BudgetExceeded] | None,
    gap: float | None,
    change: Callable[[Agent], Agent] | None,
) -> Iterator[tuple[int, Event, Compilation]]:
    """The calls of another program's recording, each compiled from what its request held."""
    calls = RecordedCalls(recording)
    root = program_of(calls.recording)
    root = under_policy(root, lambda agent: policy)
    if change is not None:
        root = rebuild_program(root, change)
    config = RunConfig(model=model or recording.asked_model or None)
    walk = OverlayWalk(root, calls, config=config, model=model or "")
    places = {event.id: at for at, event in enumerate(recording.session.events)}
    timed = _has_times(recording.session.events)
    before: dict[tuple[str, str | None, str | None], Compilation] = {}
    for event in calls.recording.session.events:
        for step in walk.take((event,)):
            compiled = step.request
            if compiled is None:
                assert step.refusal is not None, step.problem
                if refused is None:
                    raise step.refusal
                refused.append(step.refusal)
                continue
            asked = speaker_of(event)
            if gap is not None and not timed:
                earlier = before.get(asked)
                if earlier is not None:
                    compiled.asked = earlier.answered + gap
                compiled.answered = compiled.asked or 1.0
            yield places.get(event.id, -1), event, compiled
            before[asked] = compiled


def _has_times(events: Sequence[Event]) -> bool:
    """Whether the recording says when things happened: its clock moves, and tells a date."""
    times = [event.timestamp for event in events]
    return bool(times) and min(times) > _DATED and max(times) > min(times)


def _close_last_request(recording: Recording) -> Iterator[Event]:
    """The events of a recording; one that ends with a request has an empty answer to it."""
    yield from recording.session.events
    if recording.asks:
        nothing = Content(parts=(), role="model")
        yield Event(author=recording.asks, content=nothing, id=_UNANSWERED, timestamp=0.0)


def _is_asked(recording: Recording, event: Event) -> bool:
    """Whether an answer's request is replayed: in a log of calls, if it is one of them."""
    # a lone request is explained with the answers that it repeats
    answers = recording.answers
    return event.id == _UNANSWERED or answers is None or event.id in answers


_UNANSWERED = "unanswered"
"""The id of the empty answer to a request that a recording ends with."""


def speakers(recording: Recording) -> list[str]:
    """The agents that were asked for an answer, in the order they first were."""
    return list(
        dict.fromkeys(event.author for event in _close_last_request(recording) if ends_call(event))
    )


def program_of(recording: Recording) -> Node:
    """The agents of a recording, in the order in which they first speak."""
    agents = list(recorded_agents(recording).values())
    if not agents:
        raise UsageError(
            "no model speaks in it, so there is no request to show",
            where=recording.id,
            hint="inspect a recording that holds a model's answers",
        )
    return agents[0] if len(agents) == 1 else Sequential(*agents)


def recorded_agents(recording: Recording, *, as_recorded: bool = False) -> dict[str, Agent]:
    """Agents that have nothing but their recorded system text, their tools and their schema."""
    instructions = recording.instructions
    return {
        name: Agent(
            name,
            identity=False,  # what introduces them is in the recorded text, or nothing is
            instruction=write_literally(instructions.get(name, "")),
            output_schema=recording.output if as_recorded else None,
            tools=_tools(recording, name, as_recorded=as_recorded),
            max_steps=max(1, len(recording.session.events) + 1),  # nobody knows where it would end
        )
        for name in speakers(recording)
    }


def _tools(recording: Recording, agent: str, *, as_recorded: bool) -> list[Tool]:
    """The tools that were declared, and those that were called without, as providers want it.

    What a request declared is all that it had: nothing is added to a request `as_recorded`.
    """
    # what it had is known; without it, calls tell what there was
    if as_recorded and recording.declared and not recording.agent_tools:
        return [*recording.declared]
    own = recording.tools_of((agent,))
    declared = {tool.name for tool in own}
    called = _tools_called(recording.session, agent)
    return [*own, *(tool for tool in called if tool.name not in declared)]


def _tools_called(session: Session, agent: str) -> list[Tool]:
    """The tools that an agent called, as far as its calls tell."""
    by_name: dict[str, JsonObject] = {}
    for event in session.events:
        for call in event.calls if event.author == agent else ():
            name = call.name or ""
            # a name that cannot be declared would be refused, and Weft's own are added by itself
            if NAME.fullmatch(name) and name not in (*RESERVED, RECALL, *INTERNAL_CALLS):
                properties = by_name.setdefault(name, {})
                properties.update(
                    {key: {"type": _type(one)} for key, one in (call.args or {}).items()}
                )
    return [
        Tool(name=name, description="", parameters={"type": "object", "properties": properties})
        for name, properties in by_name.items()
    ]


def _type(value: Json) -> str:
    """The JSON type of a value; of one that is null, text."""
    kinds = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))
    named = next((name for kind, name in kinds if isinstance(value, kind)), "")
    return named or ("array" if isinstance(value, list) else "object" if value else "string")


def _price_request(compiled: Compilation) -> _StepCost:
    """What a request takes: by its provider's rules and prices, or by the yardstick."""
    cost, read = cost_of(compiled), compiled.cached
    return _StepCost(read.total, read.cached, cost.total, cost.rates)


def _share_head(spent: _StepCost, compiled: Compilation, sessions_per_hour: float) -> _StepCost:
    """A first request whose head may have been read for another session, at its expected price.

    Sessions begin at random; the head is there if one began within its lifetime.
    """
    cache = compiled.plan.target.facts.cache
    head = compiled.scale.count_fixed(compiled.lowered())
    # the provider keeps nothing of it, so there is nothing to share
    if cache == Cache() or head < cache.minimum:
        return spent
    lifetime = compiled.prompt.cache if compiled.prompt.cache in cache.ttls else ""
    seconds = SECONDS.get(lifetime or "".join(cache.ttls[:1]), SECONDS["5m"])
    likely = 1 - math.exp(-sessions_per_hour * seconds / 3_600)
    shared = int(head * likely)
    rates = spent.rates
    cost = spent.cost - shared * (rates.write - rates.read)
    return _StepCost(spent.tokens, spent.cached + shared, cost, rates)


def _add_columns(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    longest = max(len(one), len(other))
    padded = [row + (0,) * (longest - len(row)) for row in (one, other)]
    return tuple(a + b for a, b in zip(*padded, strict=True))


_DATED = 86_400.0
"""A clock that shows less was never set."""
