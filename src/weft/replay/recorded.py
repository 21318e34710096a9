"""The requests of a recording as they were: nothing is compiled to show them.

A recorded body is read into the prompt that lowers to it again, so its model, options and tools are
those of the file. A transcript holds no bodies: its requests are the messages before each answer,
in the words of the file, with the tools it names and no others.
"""

import copy
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, cast

import msgspec

from weft.compiler.caching import Prediction, predict
from weft.compiler.compiled import Compilation
from weft.compiler.costs import READ, WRITE, Load, price_of, rates_for
from weft.compiler.incremental import Woven
from weft.compiler.parts import blocks_of
from weft.compiler.plan import NamedModel, Plan, plan_for
from weft.compiler.receipt import billed_load
from weft.content import Content
from weft.declare import Agent, RunConfig
from weft.diagnostics import Diagnostic, Origin
from weft.dialects import CHAT, DIALECTS, Entry, Lowered, dialect_named, facts_for
from weft.dialects.facts import Cache
from weft.errors import UsageError
from weft.ir import Block, Feature, Item, ItemKind, Prompt, TextBlock, ToolDecl
from weft.recordings import ExchangeRecord, RecordedBlock, Recording, exchanges_of
from weft.recordings.providers import LISTS
from weft.recordings.recording import AGENT, with_events
from weft.recordings.requests import RequestReader, read_request
from weft.replay.steps import AnsweredStep, Speaker, StepWalk, is_unanswered, speaker_of
from weft.session import Event, Session
from weft.session.provenance import Provenance
from weft.session.strand import Strand
from weft.values import Json, JsonObject

_ASSUMED = Cache(write=WRITE, read=READ)
"""How a provider is taken to reuse requests of which nobody knows price and cache."""


def is_priced(model: str) -> bool:
    """Whether anybody knows what a model's tokens cost, or how its provider reuses them."""
    return price_of(model) is not None or facts_for(model).cache != Cache()


def measure_by_yardstick(plan: Plan, model: str) -> Plan:
    """The plan; of a model that nobody knows, its requests are taken to be reused as usual."""
    if is_priced(model):
        return plan
    facts = plan.target.facts._replace(cache=_ASSUMED)
    target = msgspec.structs.replace(plan.target, facts=facts)
    return msgspec.structs.replace(plan, target=target)


def count_by_yardstick(request: Compilation) -> Compilation:
    """The request, reckoned as one of a model that nobody knows."""
    request.plan = measure_by_yardstick(request.plan, "")
    request.prompt = msgspec.structs.replace(request.prompt, model="")
    return request


class YardstickWalk(StepWalk):
    """Rebuilds the steps of a session whose model nobody knows, or knows the price of."""

    def compile(self, event: Event, home: Agent, before: Session) -> Compilation:
        """The request that led to an event."""
        return count_by_yardstick(super().compile(event, home, before))


class RecordedRequest(Compilation):
    """A request of a recording. What is shown of it is its body."""

    body: JsonObject | None = None
    marked: Compilation | None = None
    """The same with marks where the provider is to keep it: a transcript does not hold those."""
    fits: dict[int, tuple[Entry, Entry]]
    """For turns that were lowered: what stands in bodies in their place."""

    @property
    def priced(self) -> Compilation:
        """The request as its provider was asked to keep it."""
        return self if self.marked is None else self.marked

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Nothing: it was not compiled, so there is nothing to say of that."""
        return ()

    @cached_property
    def cached(self) -> Prediction:
        """How many of its tokens the provider has read before, as far as that can be told."""
        return predict(self) if self.marked is None else self.marked.cached

    def sent(self, asked: float, answered: float, before: "RecordedRequest | None") -> None:
        """Note when it was sent and answered, and which request came before it."""
        pairs: list[tuple[Compilation, Compilation | None]] = [(self, before)]
        if self.marked is not None:
            pairs.append((self.marked, before.priced if before is not None else None))
        for request, earlier in pairs:
            request.follows(earlier)
            request.asked, request.answered = asked, answered

    def lowered(self, dialect: str | None = None) -> Lowered:
        """The request in a dialect; in its own it is the body, to the byte."""
        lowered = super().lowered(dialect)
        if self.body is None or lowered.dialect != self.dialect or lowered.wire is self.body:
            return lowered
        lowered.wire = self.body
        turns = self.body.get(lowered.turns)
        if isinstance(turns, list):
            entries = lowered.entries
            fitted = [*self._fit(turns[len(lowered.lead) :], entries, len(lowered.lead))]
            if len(fitted) != len(entries) or any(map(operator.is_not, fitted, entries)):
                # the turns are those of the body, and not those that were made of its blocks
                lowered.final, lowered.all_entries = 0, None
                lowered.rest, lowered.lasting = fitted, fitted
        return lowered

    def _fit(self, turns: list[Json], entries: Sequence[Entry], lead: int) -> Iterator[Entry]:
        """For each turn of the body the blocks that it was read into."""
        is_even = len(turns) == len(entries)
        for at, turn in enumerate(turns):
            if is_even:
                entry = entries[at]
                known = self.fits.get(id(entry))
                if known is None or known[0] is not entry:
                    fits = entry.wire == turn
                    known = self.fits[id(entry)] = entry, entry if fits else _refit(entry, turn)
                yield known[1]
                continue
            items = [item for item in self.prompt.items if item.position == at + lead]
            alone = msgspec.structs.replace(self.prompt, items=Strand(items))
            alone_entries = (
                dialect_named(self.dialect).lower_on(alone, strict=False, head=None).entries
            )
            if len(alone_entries) == 1:
                yield _refit(alone_entries[0], turn)
            else:
                yield Entry(cast("JsonObject", turn), "", ())


def _refit(entry: Entry, turn: Json) -> Entry:
    """A turn of a body with the blocks of an entry, as far as they stand in the same places."""
    assert isinstance(turn, dict)
    blocks = entry.blocks
    for field in ("content", "parts"):
        pieces, lowered = turn.get(field), entry.wire.get(field)
        if isinstance(pieces, str) and not isinstance(lowered, str):
            blocks = tuple((f"/{field}", block) for _, block in blocks[:1])
    blocks = tuple((place, block) for place, block in blocks if _has_place(turn, place))
    return Entry(turn, entry.role, blocks)


def _has_place(turn: Json, place: str) -> bool:
    value = turn
    for step in place.split("/")[1:]:
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return False
    return True


def has_requests(recording: Recording) -> bool:
    """Whether a recording says what was sent: sessions of ours and google-adk's hold events."""
    return recording.format not in ("weft", "adk")


class RecordedCalls:
    """The calls of a recording: its exchanges, its log with the calls that failed, its steps."""

    def __init__(self, recording: Recording) -> None:
        self.exchanges = exchanges_of(recording)
        """Each with the id of the event that answers it, or stands for its missing answer."""
        self.recording = self._name_agents(
            recording._replace(session=with_events(recording.session, self._log(recording)))
        )
        answered = {exchange.event for exchange in self.exchanges}
        self.answers = frozenset(answered)

    def said_in(self, session: Session) -> "RecordedCalls":
        """The same calls, of a log whose events carry other notes."""
        other = copy.copy(self)
        other.recording = self.recording._replace(session=session)
        return other

    def _log(self, recording: Recording) -> list[Event]:
        """The events of the session, and one for each call that was not answered."""
        events = [*recording.session.events]
        places = {event.id: at for at, event in enumerate(events)}
        inserted: list[tuple[int, Event]] = []
        for at, exchange in enumerate(self.exchanges):
            if exchange.event:
                continue
            later = (places[one.event] for one in self.exchanges[at:] if one.event)
            place = next(later, len(events))
            if exchange.follows:
                place = min(place, places[exchange.follows] + 1)
            before = events[place - 1].timestamp if place else 0.0
            missing = Event(
                author=AGENT,
                id=f"call-{exchange.number}",
                invocation_id=events[place - 1].invocation_id if place else "i1",
                custom_metadata=Provenance(unanswered=exchange.model).onto(None),
                isolation_scope=exchange.lane or None,
                error_code=exchange.error or "no answer was recorded",
                model_version=exchange.model or None,
                timestamp=before + 1e-6 * (1 + len(inserted)),
            )
            inserted.append((place, missing))
            self.exchanges[at] = replace(exchange, event=missing.id)
        for place, event in reversed(inserted):
            events.insert(place, event)
        return events

    def _name_agents(self, recording: Recording) -> Recording:
        """The answers with the names of the agents that gave them, where the recorder names them.

        Each has the system text of its last call; without names all are of one agent.
        """
        names = {one.event: one.agent for one in self.exchanges if one.agent}
        if not names:
            return recording
        only = [*dict.fromkeys(names.values())]
        events: list[Event] = []
        speaker = only[0]
        for event in recording.session.events:
            if event.author == AGENT:
                # results are of who called
                speaker = names.get(event.id, only[0] if len(only) == 1 else speaker)
                event = msgspec.structs.replace(event, author=speaker)
            events.append(event)
        texts = {
            one.agent or AGENT: block.text
            for one in self.exchanges
            for block in one.blocks
            if block.source.kind == "system"
        }
        whole = recording.instructions.get(AGENT, "")
        return recording._replace(
            session=with_events(recording.session, events),
            instructions={name: texts.get(name, whole) for name in dict.fromkeys((*only, AGENT))},
        )

    @cached_property
    def steps(self) -> list[AnsweredStep]:
        """A step for each call, with the request that was recorded."""
        places = {event.id: at for at, event in enumerate(self.recording.session.events)}
        events = self.recording.session.events
        prompts: dict[str, _Prompts] = {}
        steps: list[AnsweredStep] = []
        before: dict[Speaker, RecordedRequest] = {}
        for exchange in self.exchanges:
            place = places[exchange.event]
            event = events[place]
            lane = prompts.get(exchange.lane)
            if lane is None:
                lane = prompts[exchange.lane] = _Prompts(self.recording, exchange.lane)
            request = lane.request(exchange, place)
            asked = exchange.started or (events[place - 1].timestamp if place else 0.0)
            speaker = speaker_of(event)
            request.sent(asked, exchange.ended or event.timestamp, before.get(speaker))
            if not is_unanswered(event):  # nobody keeps what was refused
                before[speaker] = request
            steps.append(AnsweredStep(exchange.number, place, event, request))
        return steps

    @cached_property
    def bills(self) -> dict[str, Load]:
        """What the provider counted of each call, by the event that answers it."""
        bills: dict[str, Load] = {}
        for step in self.steps:
            load = billed_load(step.event.usage, step.event.provenance.cache_write or 0)
            if load is not None and load.total:
                bills[step.event.id] = load
        return bills

    @cached_property
    def unrecorded_tokens(self) -> int:
        """The tokens of each call that the file does not hold: its system text or its tools.

        Found from what was billed; 0 where the file holds them, or nobody recorded a bill.
        """
        recording = self.recording
        if any(recording.instructions.values()) and recording.declared:
            return 0
        gaps = [
            self.bills[step.event.id].total - step.request.tokens
            for step in self.steps
            if step.request is not None and step.event.id in self.bills
        ]
        return max(0, min(gaps, default=0))


_OFF = 0.15
"""How far counted tokens may be from billed ones before a reader is warned."""


def find_usage_difference(
    steps: Sequence[AnsweredStep], exchanges: Sequence[ExchangeRecord], recording: Recording
) -> str:
    """What to say where the tokens of the recorded requests are not those that were billed.

    Empty where they are, or where nobody recorded what was billed. The likely cause is named.
    """
    billed: list[int] = []
    counted: list[int] = []
    for step, exchange in zip(steps, exchanges, strict=True):
        tokens = exchange.usage.prompt_token_count if exchange.usage is not None else None
        if tokens and step.request is not None:
            billed.append(tokens)
            counted.append(step.request.tokens)
    whole, own = sum(billed), sum(counted)
    if not whole or abs(own - whole) <= _OFF * whole:
        return ""
    off = f"{abs(own - whole) / whole:.0%} {'fewer' if own < whole else 'more'} tokens"
    return (
        f"The recorded requests have {off} than were billed ({own:,} and {whole:,}):"
        f" {_likely_cause(billed, counted, recording)}."
    )


_OFF_COST = 0.05
"""How far a computed bill may be from the one that the file states."""


def find_cost_difference(steps: Sequence[AnsweredStep], recorded: "RecordedCalls") -> str:
    """What to say where the file states what calls cost, and the price list says otherwise."""
    stated = own = 0.0
    count = 0
    is_priced = True
    for step, exchange in zip(steps, recorded.exchanges, strict=True):
        load, notes = recorded.bills.get(step.event.id), step.event.provenance
        if exchange.cost is None or load is None:
            continue
        model = notes.model or exchange.model or recorded.recording.model
        rates = rates_for(model, tokens=load.total, lifetime=notes.cache_lifetime or "")
        stated += exchange.cost
        own += rates.cost(load)
        is_priced &= rates.money
        count += 1
    if not count or (is_priced and abs(own - stated) <= _OFF_COST * stated):
        return ""
    calls = f"{count:,} call{'' if count == 1 else 's'}"
    listed = (
        f"by the price list it is ${own:.4f}" if is_priced else "the price list has no such model"
    )
    return f"The file says that {calls} cost ${stated:.4f}; {listed}."


def _likely_cause(billed: Sequence[int], counted: Sequence[int], recording: Recording) -> str:
    cut = sum(one.count for one in recording.aside if one.what == "message that was cut off")
    gaps = [one - other for one, other in zip(billed, counted, strict=True)]
    parts = {"system text": any(recording.instructions.values()), "tools": recording.tools}
    missing = " and the ".join(name for name, part in parts.items() if not part)
    if cut:
        return f"the exporter cut {cut:,} messages off"
    if sum(gaps) < 0:
        return (
            "the program most likely left older messages or long results out when it sent them,"
            " and the file holds them whole"
        )
    if missing and min(gaps) > 0:
        return f"the file does not hold the {missing}, about {min(gaps):,} tokens in each call"
    return "the count is an estimate for this model, or the program sent more than the file holds"


class _Prompts:
    """Makes the prompts of one conversation of a recording, each from the one before it."""

    def __init__(self, recording: Recording, lane: str) -> None:
        self._recording = recording
        self._lane = lane
        self._keeps = _keeps_requests(recording)
        self._fits: dict[int, tuple[Entry, Entry]] = {}
        self._plans: dict[tuple[str, str, str], tuple[RunConfig, Plan]] = {}
        self._head: tuple[str, JsonObject, list[Json], Prompt] | None = None
        self._turns: list[Json] = []
        self._items: Strand[Item] = Strand()
        self._logs: dict[str, _LogItems] = {}
        """The items of a transcript so far; of a team's, those of each agent."""
        self._is_team = recording.format == "autogen" and len(_speakers(recording)) > 1
        self._ends: list[int] = []
        """How many items there are after each turn of the request before."""
        self._own_head: dict[str, Prompt] = {}

    def request(self, exchange: ExchangeRecord, place: int) -> RecordedRequest:
        """The request of a call, whose answer stands at a place of the log."""
        body = exchange.body if exchange.dialect in DIALECTS else None
        if body is None:
            name = exchange.model or self._recording.model
            dialect = exchange.dialect or _dialect_of(self._recording, name)
            prompt = self._from_log(name, place)
        else:
            name, dialect = exchange.model, exchange.dialect
            prompt = self._from_body(body, exchange)
        author = self._recording.session.events[place].author
        if prompt.agent != author:
            prompt = msgspec.structs.replace(prompt, agent=author)
        config, plan = self._plan(name, dialect, author)
        woven = Woven(
            items=prompt.items,
            notes=(),
            diagnostics=(),
            features=prompt.features,
            skipped=0,
            beside=list,
        )
        request = RecordedRequest(prompt, plan, config, woven, (), {}, lambda: None)
        request.body, request.fits = body, self._fits
        if body is None and self._keeps and facts_for(name).cache.breakpoints:
            lifetime = self._recording.session.events[place].provenance.cache_lifetime
            marked = msgspec.structs.replace(prompt, cache=lifetime or "on")
            request.marked = Compilation(marked, plan, config, woven, (), {}, lambda: None)
        return request

    def _plan(self, name: str, dialect: str, author: str) -> tuple[RunConfig, Plan]:
        """What is known of an agent's requests to a model."""
        known = self._plans.get((name, dialect, author))
        if known is None:
            config = RunConfig(model=NamedModel(name or "unknown", dialect), strict=False)
            plan = plan_for(Agent(author, identity=False), None, config)
            known = config, measure_by_yardstick(plan, name)
            self._plans[name, dialect, author] = known
        return known

    # Requests that were recorded

    def _from_body(self, body: JsonObject, exchange: ExchangeRecord) -> Prompt:
        dialect, name = exchange.dialect, LISTS[exchange.dialect]
        target = dialect_named(dialect)
        spelled = target.spell(body)
        listed = spelled.get(name)
        turns: list[Json] = [*listed] if isinstance(listed, list) else [listed] if listed else []
        lead = 0
        while lead < len(turns) and _is_system(turns[lead]):
            lead += 1
        homes = {block.place: block for block in exchange.blocks}
        head = self._read_head(dialect, spelled, turns[:lead], exchange.model)
        if any(map(_is_system, turns[lead:])) or not isinstance(listed, list):
            prompt = read_request(dialect, body, exchange.model)
            placed = [_with_origins(item, homes) for item in prompt.items]
            self._turns, self._items, self._ends = [], Strand(), []
            return msgspec.structs.replace(
                prompt,
                agent=AGENT,
                items=Strand(placed),
                features=prompt.features if prompt.tools else Feature.NONE,
            )
        same = 0
        for old, new in zip(self._turns, turns, strict=False):
            if old is not new and old != new:
                break
            same += 1
        reader = RequestReader(target, exchange.model)
        shared = self._ends[same - 1] if same else 0
        items = self._items if shared == len(self._items) else self._items.fork(shared)
        ends = self._ends[:same]
        for at in range(same, len(turns)):
            if at < lead:
                ends.append(len(items))
                continue
            # as the request before left it: two turns of one side may be read as one
            reading = target.read({name: [turns[at]]})
            fresh: list[Item] = []
            for turn in reading.turns:
                item = reader.item(turn, f"{name}/{at}", at)
                if item.blocks:
                    fresh.append(_with_origins(item, homes))
            items = items.extend(fresh)
            ends.append(len(items))
        self._turns, self._items, self._ends = turns, items, ends
        # without it nobody declares tools that a request calls and does not have
        has_calls = bool(head.tools) and any(item.kind == "calls" for item in items)
        return msgspec.structs.replace(
            head, items=items, features=Feature.CALLS if has_calls else Feature.NONE
        )

    def _read_head(self, dialect: str, spelled: JsonObject, lead: list[Json], model: str) -> Prompt:
        """All of a request but its turns; two requests often share it."""
        name = LISTS[dialect]
        rest = {key: value for key, value in spelled.items() if key != name}
        known = self._head
        if known is not None and known[:3] == (dialect, rest, lead):
            return known[3]
        prompt = read_request(dialect, {**rest, name: lead}, model)
        prompt = msgspec.structs.replace(prompt, agent=AGENT)
        self._head = dialect, rest, lead, prompt
        return prompt

    # Messages without requests

    def _from_log(self, model: str, place: int) -> Prompt:
        events = self._recording.session.events
        reader = events[place].author if self._is_team else ""
        log = self._logs.setdefault(reader, _LogItems())
        for position, event in enumerate(events[log.read : place], log.read):
            if (event.isolation_scope or "") != self._lane:
                continue
            compaction = event.actions.compaction
            if compaction is not None:  # a summary takes the place of all before it
                log.items = Strand()
                event = msgspec.structs.replace(event, content=compaction.compacted_content)
            item = _item_of(_as_heard_by(reader, event), position)
            if item is not None:
                log.items = log.items.extend([item])
        log.read = max(log.read, place)
        head = self._own_head.get(model)
        if head is None:
            head = self._own_head[model] = self._make_head(model)
        return msgspec.structs.replace(head, items=log.items)

    def _make_head(self, model: str) -> Prompt:
        recording = self._recording
        texts = recording.instructions_in(self._lane)
        tools = tuple(
            ToolDecl(tool.name, tool.description, tool.parameters or {}, Origin("tool", tool.name))
            for tool in recording.tools_of(recording.agents_in(self._lane))
        )
        return Prompt(
            model=model,
            agent=AGENT,
            system=tuple(_system_block(text) for text in texts),
            tools=tools,
            config={**recording.config},
            features=Feature.CALLS if tools else Feature.NONE,
        )


class _LogItems:
    """The first events of a log as items, and how many they are."""

    def __init__(self) -> None:
        self.items: Strand[Item] = Strand()
        self.read = 0


def _speakers(recording: Recording) -> set[str]:
    """Who answered in a recording."""
    events = recording.session.events
    return {one.author for one in events if one.content is not None and one.content.role == "model"}


def _as_heard_by(reader: str, event: Event) -> Event:
    """An event as an agent of a team is sent it: of others the words alone, as the user's."""
    if not reader or event.author in ("user", reader) or event.content is None:
        return event
    is_answer = event.content.role == "model"
    words = (one for one in event.content.parts or () if one.text and not one.thought)
    heard = Content(parts=tuple(words) if is_answer else (), role="user")
    return msgspec.structs.replace(event, content=heard)


def _keeps_requests(recording: Recording) -> bool:
    """Whether a program asked its provider to keep requests: its bills say so, where there are."""
    events = recording.session.events
    usages = [event.usage for event in events if event.usage is not None]
    billed = [usage for usage in usages if usage.prompt_token_count is not None]
    has_reads = any(usage.cached_content_token_count for usage in billed)
    return has_reads or any(event.provenance.cache_write for event in events) or not billed


def _system_block(text: str) -> TextBlock:
    return TextBlock(text=text, role="system", origin=Origin("field", "instruction", AGENT))


def _dialect_of(recording: Recording, model: str) -> str:
    """The dialect that a transcript's program speaks, or its model does."""
    named = recording.asked_model.partition("/")[0]
    if named in DIALECTS:
        return named
    try:
        return facts_for(model).dialect if model else CHAT
    except UsageError:
        return CHAT


def _is_system(turn: Json) -> bool:
    return isinstance(turn, dict) and turn.get("role") in ("system", "developer")


def _item_of(event: Event, position: int) -> Item | None:
    """What an event said, as it is."""
    if event.content is None or not event.content.parts:
        return None
    role: Literal["model", "user"] = "model" if event.content.role == "model" else "user"
    blocks = blocks_of(event, position, role, [])
    if not blocks:
        return None
    kind: ItemKind = "calls" if event.calls else "results" if event.results else role
    return Item(
        kind=kind,
        blocks=blocks,
        author=event.author,
        invocation=event.invocation_id,
        position=position,
        last=position,
        event=event.id,
    )


def _with_origins(item: Item, homes: dict[str, RecordedBlock]) -> Item:
    """The item with the events that its blocks come from."""
    blocks = [*_name_origins(item.blocks, item.event, homes)]
    event = next((block.origin.name for block in blocks if block.origin.kind == "event"), "")
    return msgspec.structs.replace(item, blocks=tuple(blocks), event=event or item.event)


def _name_origins(
    blocks: Sequence[Block], turn: str, homes: dict[str, RecordedBlock]
) -> Iterator[Block]:
    for at, block in enumerate(blocks):
        home = homes.get(f"{turn}/{at}")
        if home is None or not home.event:
            yield block
            continue
        origin = Origin("event", home.event, AGENT, part=home.part)
        yield msgspec.structs.replace(block, origin=origin)
