"""What stands out in a session: where its cost goes, what broke the cache, what agents repeat.

Each finding is one line with the place that shows it. The numbers are those of the strip: tokens
as Weft counts them, at the prices of the requests, without the answers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from weft.compiler.compiled import Compilation
from weft.compiler.costs import Load, Rates, cost_of, load_for, rates_for
from weft.compiler.explain import notes_of
from weft.compiler.prefix import SourceMap
from weft.compiler.report import block_text
from weft.dialects import Lowered, facts_for
from weft.dialects.track import Track
from weft.inspector.inspection import Inspection, NumberedTokens, SourceTokens, Variant
from weft.inspector.request import RequestView
from weft.ir import Item
from weft.replay.recorded import RecordedCalls
from weft.replay.steps import AnsweredStep, Speaker, speaker_of
from weft.values import Json, JsonObject

LINES = 3
"""How many findings are shown."""

POLICY = "C.auto()"
"""The policy whose saving is named."""

_HEAD = "head"
_UNRECORDED = "unrecorded"
_REMARKABLE = 0.01
"""The share of a session's cost from which on a finding is worth a line."""

_CENT = 0.01

_REPEATED = 2_000
"""The characters from which on agents repeat each other."""


class SessionFinding(NamedTuple):
    """One line: what it says, the call and the view that show it, and what it costs."""

    kind: str
    words: str
    step: int
    view: str
    cost: float = 0.0

    def to_json(self) -> JsonObject:
        """As the page draws it."""
        return {**self._asdict()}


def diagnose(inspection: Inspection) -> JsonObject:
    """The findings of a session, the dearest first."""
    recorded = inspection.recorded
    ledger = Ledger(inspection.steps, recorded=recorded)
    findings = [*_find_breaks(inspection, ledger), *_find_repeats(inspection)]
    findings = sorted(findings, key=lambda one: -one.cost)
    findings = [*_find_largest(ledger, recorded), *findings][:LINES]
    mask = inspection.mask
    if mask is not None:
        findings = [one._replace(words=mask.text(one.words)) for one in findings]
    return {"lines": [one.to_json() for one in findings]}


def find_saving(inspection: Inspection) -> JsonObject:
    """What the session would cost under `C.auto()`, or what its own policies save.

    To be asked without the inspection's lock: it compiles the session step by step.
    """
    variant = Variant(policy=POLICY)
    for _ in inspection.rehearse(variant):
        pass
    with inspection.lock:
        ledger, other = Ledger(inspection.steps), inspection.under(variant)
        now, then = ledger.total, Ledger(other.steps, money=ledger.money).total
        pairs = zip(inspection.steps, other.steps, strict=True)
        step = max(pairs, key=lambda pair: _cost(pair[0]) - _cost(pair[1]), default=None)
        plain = Ledger(inspection.plain.steps, money=ledger.money).total
    answer: JsonObject = {"policy": POLICY, "then": then, "now": now, "money": ledger.money}
    saved, rates = now - then, ledger.rates
    if step is None or saved <= _REMARKABLE * now:
        words = f"{POLICY} would not save here." if now else ""
        if inspection.recorded is None and plain - now > _REMARKABLE * plain:
            amounts = _worth_of(plain - now, plain, rates)
            words = f"The policy has saved {amounts} that plain history would have cost."
        return answer | SessionFinding("auto", words, 0, "whatif").to_json()
    of = ", by what the file holds" if inspection.unrecorded else ""
    words = f"{POLICY} would save {_worth_of(saved, now, rates)}{of}."
    return answer | SessionFinding("auto", words, step[0].number, "whatif", saved).to_json()


def _cost(step: AnsweredStep) -> float:
    return cost_of(step.request).total if step.request is not None else 0.0


class _Part(NamedTuple):
    """What a token of a request belongs to: a source, and the tool for results."""

    source: str
    tool: str = ""


class _PartCost:
    """What one part cost, in which calls it was read again, and what that cost."""

    def __init__(self) -> None:
        self.cost = self.again = 0.0
        self.steps: Counter[int] = Counter()


class Ledger:
    """What the requests of a session cost, by what stands in them.

    Sums are in US dollars where any model has a price, and take in those requests only. What was
    recorded of a call's bill counts, and not what Weft expects of it.
    """

    def __init__(
        self,
        steps: Iterable[AnsweredStep],
        *,
        money: bool | None = None,
        recorded: RecordedCalls | None = None,
    ) -> None:
        asked = [(step, step.request) for step in steps if step.request is not None]
        self.bills = recorded.bills if recorded is not None else {}
        self.unrecorded = recorded.unrecorded_tokens if recorded is not None else 0
        """The tokens of each call that the recording does not hold."""
        rates = [self._rates_of(step, request) for step, request in asked]
        self.money = any(one.money for one in rates) if money is None else money
        self.rates = next((one for one in rates if one.money == self.money), Rates())
        self.total = 0.0
        self.parts: dict[_Part, _PartCost] = {}
        self._rows: dict[tuple[str, str], _PartCost] = {}
        tokens = SourceTokens()
        seen: dict[Speaker, _SeenParts] = {}
        for (step, request), prices in zip(asked, rates, strict=True):
            if prices.money == self.money:
                known = seen.setdefault(speaker_of(step.event), _SeenParts())
                self._add(step, request, prices, tokens, known)

    def _rates_of(self, step: AnsweredStep, request: Compilation) -> Rates:
        bill = self.bills.get(step.event.id)
        if bill is None:
            return cost_of(request).rates
        lifetime = step.event.provenance.cache_lifetime or ""
        return rates_for(request.prompt.model, tokens=bill.total, lifetime=lifetime)

    def _add(
        self,
        asked: AnsweredStep,
        request: Compilation,
        rates: Rates,
        tokens: SourceTokens,
        seen: "_SeenParts",
    ) -> None:
        """Share the cost of a request out: what is cached stands at its start."""
        step, bill = asked.number, self.bills.get(asked.event.id)
        load = load_for(request) if bill is None else bill._replace(answer=0)
        self.total += rates.cost(load)
        prices = _LoadPrices(load, rates)
        scale = 1.0
        if bill is not None:
            missing = min(self.unrecorded, load.total)
            if missing:
                row = self.parts.setdefault(_Part(_UNRECORDED), _PartCost())
                row.cost += prices.take(missing)
            # a provider counts otherwise than Weft does
            scale = (load.total - missing) / max(1, request.tokens)

        def share(sums: Mapping[tuple[str, str], int], *, is_again: bool) -> None:
            for place, some in sums.items():
                part = self._rows.get(place)
                if part is None:
                    part = self._rows[place] = self._row_of(*place)
                cost = prices.take(some * scale)
                part.cost += cost
                if is_again:
                    part.again += cost
                    part.steps[step] += some

        for number, sums in tokens.before_turns(request):
            share(sums, is_again=seen.note(number))
        first, lowered = seen.count_settled(request), request.lowered()
        if first and prices.cached_tokens >= seen.tokens * scale:  # at one price, in any order
            share(seen.sums, is_again=True)
        else:
            first = 0
        for number, sums in tokens.turns(request, first):
            share(sums, is_again=seen.note(number))
        seen.settle(lowered, tokens.turns(request, seen.settled, lowered.final))
        # what the provider adds to a request and to its turns, which belongs to no block
        self.parts.setdefault(_Part(_HEAD), _PartCost()).cost += prices.take(load.total)

    def _row_of(self, source: str, tool: str) -> _PartCost:
        part = _Part(source, tool)
        if source in ("tools", "schema", "system", "overhead"):
            part = _Part(_HEAD)
        return self.parts.setdefault(part, _PartCost())


class _SeenParts:
    """What a speaker has sent: the numbers of all parts, and the sums of its first turns.

    Turns that are final stand at the start of each request after, so their sums go on.
    """

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._track: Track | None = None
        self.settled = self.tokens = 0
        """How many turns the sums are of, and what they take."""
        self.sums: dict[tuple[str, str], int] = {}

    def note(self, number: int) -> bool:
        """Note that a part is sent; whether it was before."""
        known = number in self._numbers
        self._numbers.add(number)
        return known

    def count_settled(self, request: Compilation) -> int:
        """How many of its first turns the sums are of; of none where it begins otherwise."""
        lowered = request.lowered()
        if lowered.track is not self._track or lowered.final < self.settled:
            self._track, self.settled, self.tokens, self.sums = lowered.track, 0, 0, {}
        return self.settled

    def settle(self, lowered: Lowered, turns: Iterable[NumberedTokens]) -> None:
        """Add the turns of a request that are final now."""
        for _, sums in turns:
            for place, some in sums.items():
                self.sums[place] = self.sums.get(place, 0) + some
                self.tokens += some
        self.settled = lowered.final


class _LoadPrices:
    """The prices of a request's tokens from its start: cached ones, then those that are kept."""

    def __init__(self, load: Load, rates: Rates) -> None:
        self._unspent: list[float] = [load.cached, load.written, load.fresh]
        self._prices = (rates.read, rates.write, rates.fresh)

    @property
    def cached_tokens(self) -> float:
        """How many of the next tokens are cached."""
        return self._unspent[0]

    def take(self, tokens: float) -> float:
        """What the next tokens cost."""
        if tokens <= self._unspent[0]:  # most are cached
            self._unspent[0] -= tokens
            return tokens * self._prices[0]
        cost = 0.0
        for at, price in enumerate(self._prices):
            some = min(tokens, self._unspent[at])
            self._unspent[at] -= some
            tokens -= some
            cost += some * price
        return cost


_SOURCES = {
    _HEAD: "the instruction, the tools and the format around them",
    "user": "messages in the user's name",
    "model": "the agent's own answers and calls",
    "foreign": "words of other agents",
    "summary": "summaries",
    "state": "state",
}


def _find_largest(ledger: Ledger, recorded: RecordedCalls | None) -> Iterator[SessionFinding]:
    """What most of the cost is made of; and of what the file holds, where most is not in it."""
    groups: dict[str, dict[_Part, _PartCost]] = {}
    for part, row in ledger.parts.items():
        groups.setdefault(part.source, {})[part] = row
    if not ledger.total or not groups:
        return
    sizes = {source: sum(row.cost for row in rows.values()) for source, rows in groups.items()}
    largest = sorted(groups, key=lambda source: -sizes[source])
    if largest[0] == _UNRECORDED and recorded is not None:
        line = f"{_share_of(sizes[_UNRECORDED], ledger)} is {_name_unrecorded(recorded)}"
        line += f", about {ledger.unrecorded:,} tokens in each call"
        line += f"{_amounts(sizes[_UNRECORDED], ledger)}."
        yield SessionFinding("cost", line, 1, "request", sizes[_UNRECORDED])
        largest.pop(0)
    for source in largest[:1]:
        yield _describe_largest(source, groups[source], ledger)


def _describe_largest(
    source: str, rows: Mapping[_Part, _PartCost], ledger: Ledger
) -> SessionFinding:
    cost = sum(row.cost for row in rows.values())
    again = sum(row.again for row in rows.values())
    steps: Counter[int] = Counter()
    for row in rows.values():
        steps += row.steps
    words = f"results of {_name_tools(rows)}" if source == "results" else _SOURCES[source]
    line = f"{_share_of(cost, ledger)} is {words}"
    if steps and again >= cost / 2:
        first, last = min(steps), max(steps)
        line += f", read again in call{'' if first == last else 's'} {first}"
        line += "" if first == last else f" to {last}"
    line += f"{_amounts(cost, ledger)}."
    step = steps.most_common(1)[0][0] if steps else 0
    return SessionFinding("cost", line, step, "request", cost)


def _share_of(cost: float, ledger: Ledger) -> str:
    return f"{round(100 * cost / ledger.total)}% of what the requests cost"


def _amounts(cost: float, ledger: Ledger) -> str:
    """A cost and the whole, in words; nothing where both are too small to matter."""
    if ledger.money and ledger.total < _CENT:
        return ""
    return f": {_worth_of(cost, ledger.total, ledger.rates)}"


def _worth_of(cost: float, whole: float, rates: Rates) -> str:
    if rates.money:
        return f"{rates.worth(cost)} of {rates.worth(whole)}"
    return f"{cost:,.0f} of {whole:,.0f} tokens at full price"


def _name_unrecorded(recorded: RecordedCalls) -> str:
    """What a file does not hold of requests, and a bill has."""
    recording = recorded.recording
    parts = {
        "the system text": any(recording.instructions.values()),
        "the tools": bool(recording.declared),
    }
    missing = [name for name, part in parts.items() if not part]
    return f"{' and '.join(missing)}, which the file does not hold"


def _name_tools(rows: Mapping[_Part, _PartCost]) -> str:
    """The tools that the results come from: the dearest by name."""
    dearest = sorted(rows, key=lambda part: -rows[part].cost)
    whole = sum(row.cost for row in rows.values())
    if rows[dearest[0]].cost >= 0.8 * whole or len(dearest) == 1:
        return f"`{dearest[0].tool}`"
    named = " and ".join(f"`{part.tool}`" for part in dearest[:2])
    return named if len(dearest) == 2 else f"{named} and {len(dearest) - 2} more"


def _find_breaks(inspection: Inspection, ledger: Ledger) -> Iterator[SessionFinding]:
    """What made providers read again what they had read, by its cause."""
    if ledger.bills and not any(bill.cached for bill in ledger.bills.values()):
        yield from _find_uncached(inspection, ledger)
        return
    causes: dict[tuple[str, str], list[tuple[AnsweredStep, float]]] = {}
    before: dict[Speaker, Load] = {}
    for step in inspection.steps:
        request, bill = step.request, ledger.bills.get(step.event.id)
        earlier = before.get(speaker_of(step.event))
        if bill is not None:
            before[speaker_of(step.event)] = bill
        if request is None:
            continue
        cost, lost = cost_of(request), cost_of(request).broken
        if bill is not None:
            # what was billed says whether anything was lost
            tokens = min(earlier.total, bill.total) - bill.cached if earlier is not None else 0
            is_lost = earlier is not None and tokens > _LOST * earlier.total
            rates = cost.rates
            again = rates.write if bill.written else rates.fresh
            lost = tokens * (again - rates.read) if is_lost else 0.0
        cause = _name_cause(inspection, step, request)
        if lost > 0 and cost.rates.money == ledger.money and cause:
            causes.setdefault((step.event.author, cause), []).append((step, lost))
    agents = len({agent for agent, _ in causes})
    for (agent, cause), steps in causes.items():
        lost = sum(cost for _, cost in steps)
        if lost < _REMARKABLE * ledger.total:
            continue
        first = steps[0][0]
        times = {1: "once", 2: "twice"}.get(len(steps), f"{len(steps)} times")
        of = f" for {agent}" if agents > 1 else ""
        words = _name_pass(inspection.request(first.number)) or cause
        words += _describe_change(inspection, first.number) if words == cause else ""
        line = f"The cache broke {times}{of}: {words}."
        if cause in _LET_GO:
            line = f"The cache was lost {times}{of} {cause}."
        line += f" It cost {_worth_of(lost, ledger.total, ledger.rates)}."
        yield SessionFinding("cache", line, first.number, "cache", lost)


def _find_uncached(inspection: Inspection, ledger: Ledger) -> Iterator[SessionFinding]:
    """What it cost that nothing was ever read from a cache."""
    lost, first = 0.0, 0
    before: dict[Speaker, int] = {}
    for step in inspection.steps:
        bill = ledger.bills.get(step.event.id)
        if bill is None or step.request is None:
            continue
        same = step.request.stable_prefix.tokens * bill.total / max(1, step.request.tokens)
        rates = cost_of(step.request).rates
        cache = facts_for(step.request.prompt.model).cache
        is_kept = same >= (cache.minimum or _SHORTEST_KEPT)
        if speaker_of(step.event) in before and is_kept and rates.money == ledger.money:
            lost += same * (rates.fresh - rates.read)
            first = first or step.number
        before[speaker_of(step.event)] = bill.total
    if ledger.money and lost > _REMARKABLE * ledger.total:
        line = "Nothing was read from a cache. What was sent again would have saved, from there,"
        line += f" {_worth_of(lost, ledger.total, ledger.rates)}."
        yield SessionFinding("cache", line, first, "cache", lost)


_SHORTEST_KEPT = 1_024
"""The tokens that a provider keeps at least, where nobody knows."""

_LOST = 0.1
"""The share of a request from which on tokens that were billed anew count as lost."""

_PAUSE = "in a pause longer than the provider keeps it"
_UNKNOWN = "though nothing had changed: the provider had let go of it"
_LET_GO = (_PAUSE, _UNKNOWN)

_CHANGES = {
    "this part changed": "an earlier message changed",
    "this turn changed": "an earlier message changed",
    "this turn was extended": "an earlier message was extended",
    "this turn was shortened": "an earlier message was shortened",
    "a turn was taken back": "an earlier message was taken out",
}


def _name_cause(inspection: Inspection, step: AnsweredStep, request: Compilation) -> str:
    """Why the cache of a request was lost, in words; empty for the first of an agent."""
    broken = request.prefix_break
    if request.previous is None:
        return ""
    if broken is None:
        return _PAUSE if "was kept for" in request.cached.blame else _UNKNOWN
    events = inspection.session.events
    for event in reversed(events.between(max(0, step.place - _NEAR_BY), step.place)):
        if event.actions.compaction is not None:
            return "a summary took the place of earlier messages"
        if speaker_of(event) == speaker_of(step.event) and event.content is not None:
            break
    reason, _, why = broken.reason.partition(", as ")
    reason = _CHANGES.get(reason, reason)
    return f"{reason}, as {why}" if why else reason


_NEAR_BY = 8
"""How many events before a call are looked at for a summary."""


def _name_pass(request: Compilation) -> str:
    """The pass that took out or changed what stood where a request first differs."""
    broken, before = request.prefix_break, request.previous
    if broken is None or before is None:
        return ""
    # the turn at that place: a part of it may be new
    place = "/".join(broken.pointer.split("/")[:3])
    lowered = before.lowered()
    turns = lowered.wire.get(lowered.turns)
    number = place.rpartition("/")[2]
    if not place.startswith(f"/{lowered.turns}/") or not isinstance(turns, list):
        return ""
    if not number.isdecimal() or int(number) >= len(turns):
        return ""
    old = SourceMap(lowered).origin(place)
    notes = [note for note in notes_of(request) if note.before.event == old.name]
    if old.kind != "event" or not notes:
        return ""
    what = "left out" if notes[-1].after is None else "shortened"
    return f"earlier turns were {what} by `{notes[-1].step}` ({notes[-1].reason})"


def _describe_change(inspection: Inspection, number: int) -> str:
    """Where a request first differs from the one before: the line, the old words and the new."""
    broken = inspection.request(number).prefix_break
    facts = RequestView(inspection, number).cache_facts()
    old, new = str(facts["before"]), str(facts["after"])
    lead = facts["lead"]
    assert isinstance(lead, list)
    line = f", line {broken.line}" if broken is not None and broken.line else ""
    before, after = _words_at(old, _number(lead[0])), _words_at(new, _number(lead[1]))
    is_code = any(sign in before + after for sign in ("{", "}", "[", "]", '":', '","'))
    if not before or not after or before == after or is_code or broken is None:
        return line
    return f"{line}, “{before}” became “{after}”"


def _words_at(text: str, at: int) -> str:
    """The word at a place of a request's JSON, with those next to it."""
    start, end = max(0, at - 24), min(len(text), at + 24)
    before = text[start:at].replace("\\n", "\n")
    after = text[at:end].replace("\\n", "\n")
    before, after = before.rpartition("\n")[2], after.partition("\n")[0]
    if len(before) + len(after) > 24:
        before = before[-12:].partition(" ")[2] or before[-12:]
        after = after[:16].rpartition(" ")[0] or after[:16]
    words = (before + after).strip(' "\\,{}[]')
    return words


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _find_repeats(inspection: Inspection) -> Iterator[SessionFinding]:
    """What two agents or more were sent of the same events; no cache is shared between them."""
    sizes: dict[str, dict[str, int]] = {}
    latest: dict[str, AnsweredStep] = {}
    for step in inspection.steps:
        if step.request is not None:
            latest[step.event.author] = step
    for agent, step in latest.items():
        assert step.request is not None
        sizes[agent] = _sizes_by_event(step.request.prompt.items)
    times = Counter(event for events in sizes.values() for event in events)
    common = {event for event, count in times.items() if count > 1}
    holders = [agent for agent, events in sizes.items() if common & events.keys()]
    if len(holders) < 2:
        return
    repeated_tokens = {
        agent: sum(sizes[agent].get(event, 0) for event in common) for agent in holders
    }
    repeated = sorted(repeated_tokens.values())[-2]
    wholes = (sum(sizes[agent].values()) for agent in holders)
    if repeated < _REPEATED or repeated < 0.25 * max(1, min(wholes)):
        return
    names = ", ".join(holders[:3]) + (f" and {len(holders) - 3} more" if len(holders) > 3 else "")
    step = latest[holders[-1]]
    whole = max(1, sum(sizes[holders[-1]].values()))
    kilobytes = f"{repeated / 1000:.1f}" if repeated < 10_000 else f"{repeated // 1000:,}"
    line = f"{len(holders)} agents are sent the same {kilobytes} kB each: {names}."
    yield SessionFinding(
        "repeat", line, step.number, "request", _cost(step) * min(1, repeated / whole)
    )


def _sizes_by_event(items: Iterable[Item]) -> dict[str, int]:
    """How many characters each event has in a request, without what the user said."""
    sizes: dict[str, int] = {}
    for item in items:
        if item.event and item.author != "user":
            size = sum(len(block_text(block)) for block in item.blocks)
            sizes[item.event] = sizes.get(item.event, 0) + size
    return sizes
