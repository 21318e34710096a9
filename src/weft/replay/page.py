"""A replay as one HTML page that needs nothing else: tables and drawn curves.

No script and no outside resource. First what the recordings took and what would have been saved,
then what the providers counted. For each model: what every policy costs against how much of
what was used later it keeps, and how requests grow from step to step.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, cast

import msgspec

from weft.compiler.costs import RELATIVE, Load, rates_for
from weft.compiler.receipt import billed_load
from weft.compiler.report import align_rows
from weft.dialects.price_list import name_price_list
from weft.markup import escape, page, table, tag
from weft.recordings import Aside, Recording, way_to_apply
from weft.replay.frontier import ORACLE
from weft.replay.replay import Trial, total
from weft.replay.rivals import RIVAL_NAMES
from weft.replay.steps import is_answer
from weft.values import JsonObject

_WIDTH, _HEIGHT, _EDGE = 560, 320, 48

_STYLE = """
th, td { text-align: right; padding: .25rem .9rem .25rem 0; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
td:first-child { font-family: ui-monospace, monospace; font-size: 12.5px; }
td.words { text-align: left; white-space: normal; font-family: inherit; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem;
  margin: 1.2rem 0; }
.card { background: var(--soft); border: 1px solid var(--line); border-radius: .7rem;
  padding: .8rem 1rem; }
.card b { display: block; font-size: 1.5rem; font-weight: 600; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; margin: 1rem 1rem 0 0; } svg text { fill: currentColor;
  font-size: 11px; } .axis { stroke: var(--line); fill: none; }
.dot { display: inline-block; width: .7rem; height: .7rem; border-radius: 50%; margin-right: .4rem;
}
.bar { display: inline-block; height: .55rem; border-radius: .3rem; background: var(--good); }
""".strip()

MOST_SESSIONS = 20
"""How many sessions a page lists, the dearest first."""


class SessionTrials(NamedTuple):
    """One recording under every policy, append-only first."""

    id: str
    source: str
    trials: tuple[Trial, ...]


class RecordedUsage(NamedTuple):
    """What a provider counted for the answers of one model, as the recordings have it."""

    model: str
    answers: int = 0
    prompt: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    cost: float | None = None
    """US dollars; None where the price is unknown."""


class RecordedFacts(NamedTuple):
    """What the recordings themselves say."""

    sessions: int
    formats: tuple[tuple[str, int], ...]
    answers: int
    usage: tuple[RecordedUsage, ...]

    def lines(self) -> Iterator[str]:
        """As text."""
        formats = ", ".join(f"{count:,} {name}" for name, count in self.formats)
        yield f"{self.sessions:,} recordings ({formats}), {self.answers:,} answers"
        for one in self.usage:
            yield (
                f"recorded usage of {one.model or 'a model'}: {one.answers:,} answers,"
                f" {one.prompt:,} tokens in, {_percent(one.cached, one.prompt)} from the cache,"
                f" {one.output:,} out{_worth(one.cost)}"
            )

    def as_json(self) -> JsonObject:
        """For machines."""
        return {
            "sessions": self.sessions,
            "formats": dict(self.formats),
            "answers": self.answers,
            "usage": [one._asdict() for one in self.usage],
        }


def recorded_facts(recordings: Iterable[Recording]) -> RecordedFacts:
    """Count what the recordings say: formats, answers, and tokens as the providers counted them."""
    formats: Counter[str] = Counter()
    usage: dict[str, RecordedUsage] = {}
    sessions = answers = 0
    for recording in recordings:
        sessions += 1
        formats[recording.format] += 1
        for event in recording.session.events:
            if not is_answer(event) or not recording.is_recorded(event):
                continue
            answers += 1
            notes = event.provenance
            billed = billed_load(event.usage, notes.cache_write or 0)
            if billed is None:
                continue
            model = notes.model or event.model_version or recording.model
            before = usage.get(model, RecordedUsage(model, cost=0.0))
            usage[model] = _add_bill(before, billed, notes.cache_lifetime or "")
    return RecordedFacts(sessions, tuple(formats.most_common()), answers, tuple(usage.values()))


def _add_bill(usage: RecordedUsage, billed: Load, lifetime: str) -> RecordedUsage:
    """One more answer, at the price of its model."""
    cost = usage.cost
    rates = rates_for(usage.model, tokens=billed.total, lifetime=lifetime) if usage.model else None
    # one answer without a price: the sum would look like all of it
    if rates is None or not rates.money or cost is None:
        cost = None
    else:
        cost += rates.cost(billed)
    return RecordedUsage(
        usage.model,
        usage.answers + 1,
        usage.prompt + billed.total,
        usage.cached + billed.cached,
        usage.written + billed.written,
        usage.output + billed.answer,
        cost,
    )


def replay_page(
    trials: Sequence[Trial],
    *,
    source: str,
    facts: RecordedFacts | None = None,
    sessions: Sequence[SessionTrials] = (),
    aside: Sequence[Aside] = (),
    unreadable: Sequence[str] = (),
) -> str:
    """The whole page."""
    title = f"replay of {source}"
    body = chain(
        _body(trials, title, facts), _sessions(sessions), _asides(aside), _unreadable(unreadable)
    )
    return page(title, _STYLE, body)


def _body(trials: Sequence[Trial], title: str, facts: RecordedFacts | None) -> Iterator[str]:
    yield tag("h1", escape(title))
    if facts is not None:
        formats = ", ".join(f"{count:,} {name}" for name, count in facts.formats)
        words = (
            f"{facts.sessions:,} recordings ({formats}), {facts.answers:,} answers."
            " Every request was compiled again from the recording; no model was called."
        )
        yield tag("p", escape(words), "dim")
    groups = _by_model(trials)
    for chosen in groups:
        yield _cards(chosen, several=len(groups) > 1)
    if facts is not None:
        yield from (tag("p", escape(way)) for way in ways_to_get(trials, facts))
        yield from _usage_table(facts.usage)
    yield from (tag("p", escape(line), "dim") for line in price_lines(trials))
    for chosen in groups:
        first = chosen[0]
        yield tag("h2", escape(model_title(first)))
        words = f"{first.runs:,} runs, {first.requests:,} requests; costs in {unit(first)}"
        yield tag("p", f"{words}, without the answers{missing_prices(first)}", "dim")
        yield table(TITLES, _rows(chosen))
        yield _draw_costs(chosen)
        yield _draw_curves(chosen)


def _by_model(trials: Iterable[Trial]) -> list[list[Trial]]:
    """The trials of each model, plain history first."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.model, []).append(trial)
    return [*groups.values()]


def _cards(trials: Sequence[Trial], *, several: bool) -> str:
    """The answer at a glance: what it took, and what the cheapest policy would have taken."""
    base = trials[0]
    best = min(trials, key=lambda trial: trial.with_recalls)
    facts = [
        ("requests", f"{base.requests:,}", f"in {base.runs:,} runs"),
        ("tokens sent", f"{base.tokens:,}", f"largest request {base.largest:,}"),
        ("read from the cache", f"{base.hit_ratio:.0%}", "as plain history"),
        (
            f"cost in {unit(base)}",
            _amount(base),
            f"as plain history, without the answers{missing_prices(base)}",
        ),
    ]
    saved = 1 - _ratio(best.with_recalls, base.cost)
    if best is base or saved <= 0:
        words, value, tone = "no policy here is cheaper than plain history", "0%", ""
    else:
        bill = 1 - _ratio(best.bill, base.bill)
        words = (
            f"of the input with {best.policy}, {bill:.0%} of the bill with the answers;"
            f" {best.lost:.0%} of what was used later is lost"
        )
        value, tone = f"{saved:.0%}", "good"
    cards = [_card(*card) for card in facts]
    cards.append(_card("would have been saved", value, words, tone))
    heading = tag("h2", escape(model_title(base))) if several else ""
    return heading + tag("div", "".join(cards), "cards")


def _card(name: str, value: str, note: str, tone: str = "") -> str:
    parts = (
        tag("span", escape(name), "dim"),
        tag("b", escape(value), tone),
        tag("span", escape(note), "dim"),
    )
    return tag("div", "".join(parts), "card")


def _text_cells(*texts: str) -> list[str]:
    return [tag("td", escape(text)) for text in texts]


def _usage_table(usage: Sequence[RecordedUsage]) -> Iterator[str]:
    """What the providers counted."""
    if not usage:
        yield tag("p", "The recordings do not say what the provider counted.", "dim")
        return
    heads = ("model", "answers", "tokens in", "from the cache", "cache writes", "tokens out",
             "cost with answers")  # fmt: skip
    rows = (
        _text_cells(
            one.model or "not named",
            f"{one.answers:,}",
            f"{one.prompt:,}",
            _percent(one.cached, one.prompt),
            f"{one.written:,}",
            f"{one.output:,}",
            "unknown" if one.cost is None else _dollars(one.cost),
        )
        for one in usage
    )
    yield tag("h2", "As recorded: what the provider counted")
    yield table(heads, rows)


def _sessions(sessions: Sequence[SessionTrials]) -> Iterator[str]:
    """The dearest sessions, and what each would have cost."""
    if not sessions:
        return
    # by what plain history costs, whatever the policies make of it
    base = [(one.trials[0], one) for one in sessions]
    ordered = [one for _, one in sorted(base, key=lambda pair: (not pair[0].money, -pair[0].cost))]
    ordered = ordered[:MOST_SESSIONS]
    more = len(sessions) - len(ordered)
    yield tag("h2", "Sessions, the dearest first")
    heads = ("session", "requests", "tokens", "cached", "cost", "cheapest policy", "saved", "")
    yield table(heads, map(_session_cells, ordered))
    if more > 0:
        yield tag("p", f"and {more:,} more", "dim")


def _session_cells(session: SessionTrials) -> list[str]:
    base = session.trials[0]
    best = min(session.trials, key=lambda trial: trial.with_recalls)
    saved = max(0.0, 1 - _ratio(best.with_recalls, base.cost))
    facts = (
        f"{base.requests:,}", f"{base.tokens:,}", f"{base.hit_ratio:.0%}", _amount(base),
        best.policy, f"{saved:.0%}",
    )  # fmt: skip
    bar = tag("span", "", "bar", style=f"width:{saved * 6:.2f}rem")
    return [
        tag("td", escape(session.id), title=session.source),
        *_text_cells(*facts),
        tag("td", bar, style="text-align:left"),
    ]


def _asides(aside: Sequence[Aside]) -> Iterator[str]:
    """What is in the files and in no request."""
    if not aside:
        return
    yield tag("h2", "Set aside")
    yield tag("p", "In the files, and in no request above.", "dim")
    rows = (
        [
            *_text_cells(one.what, f"{one.count:,}"),
            *(tag("td", escape(words), "words") for words in (one.why, one.places[0])),
        ]
        for one in aside
    )
    yield table(("what", "count", "why", "first"), rows)


def _unreadable(errors: Sequence[str]) -> Iterator[str]:
    if errors:
        yield tag("h2", "Not read", "bad")
        yield tag("ul", "".join(tag("li", escape(error)) for error in errors))


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"


def _worth(cost: float | None) -> str:
    return f", {_dollars(cost)}" if cost is not None else ", no price is known"


def _rows(trials: Sequence[Trial]) -> Iterator[list[str]]:
    """The rows under `TITLES`, each with the colour of its policy."""
    for index, trial in enumerate(trials):
        first, *rest = cells(trial, trials[0])
        dot = tag("span", "", "dot", style=f"background:{_colour(index)}")
        yield [tag("td", f"{dot}{escape(first)}"), *_text_cells(*rest)]


def _draw_costs(trials: Sequence[Trial]) -> str:
    """Cost to the right, what is present of the evidence upwards; a ring is what is kept."""
    base = trials[0].cost or 1.0
    most = max(1.0, *(trial.cost / base for trial in trials))
    least = min(0.9, *(trial.in_view for trial in trials)) - 0.02
    drawn = [_frame("cost against append-only", f"{most:.2f}x", "evidence", f"{least:.0%}")]
    for index, trial in enumerate(trials):
        across = _EDGE + (trial.cost / base) / most * (_WIDTH - 2 * _EDGE)
        for share, filled in ((trial.in_view, True), (trial.kept_share, False)):
            up = (share - least) / (1 - least)
            fill = _colour(index) if filled else "none"
            drawn.append(
                f'<circle cx="{across:.1f}" cy="{_height(up):.1f}" r="5" fill="{fill}"'
                f' stroke="{_colour(index)}"><title>{escape(trial.policy)}:'
                f" {trial.cost / base:.2f}x, {share:.1%}</title></circle>"
            )
    return _svg(drawn)


def _draw_curves(trials: Sequence[Trial]) -> str:
    """The tokens of a request by its number in the run, over the runs that came so far."""
    means = [
        [size / count for size, count in zip(trial.curve, trial.reached, strict=True)]
        for trial in trials
    ]
    most = max((size for curve in means for size in curve), default=1.0) or 1.0
    steps = max(map(len, means), default=1)
    drawn = [_frame("request", f"{steps}", f"tokens, at most {most:,.0f}", "0")]
    for index, curve in enumerate(means):
        wide = (_WIDTH - 2 * _EDGE) / max(1, steps - 1)
        points = " ".join(
            f"{_EDGE + at * wide:.1f},{_height(size / most):.1f}" for at, size in enumerate(curve)
        )
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{_colour(index)}" stroke-width="1.5">'
            f"<title>{escape(trials[index].policy)}</title></polyline>"
        )
    return _svg(drawn)


def _frame(across: str, most: str, up: str, least: str) -> str:
    bottom, right = _HEIGHT - _EDGE, _WIDTH - _EDGE
    return (
        f'<path class="axis" d="M{_EDGE} {_EDGE} V{bottom} H{right}"/>'
        f'<text x="{_EDGE}" y="{_EDGE - 10}">{escape(up)}</text>'
        f'<text x="{_EDGE - 6}" y="{bottom}" text-anchor="end">{escape(least)}</text>'
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{escape(across)}: {most}</text>'
    )


def _svg(drawn: Sequence[str]) -> str:
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return f'<svg {size} role="img">{"".join(drawn)}</svg>'


def _height(share: float) -> float:
    return _HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE)


def _colour(index: int) -> str:
    return f"hsl({(index * 137) % 360} 60% 50%)"


TITLES = (
    "policy", "tokens", "", "cost", "", "cached", "largest", "breaks", "in view", "handle", "lost",
    "rebuilt", "recalls", "repeats", "with them", "bill",
)  # fmt: skip


def cells(trial: Trial, base: Trial) -> tuple[str, ...]:
    """A trial under `TITLES`; shares are of the first policy, which is append-only."""
    silent = trial.broken - trial.announced
    return (
        trial.policy,
        f"{trial.tokens:,}",
        _times(trial.tokens, base.tokens),
        _amount(trial),
        _times(trial.cost, base.cost),
        f"{trial.hit_ratio:.1%}",
        f"{trial.largest:,}",
        f"{trial.announced:,}" + (f" (+{silent:,} silent)" if silent else ""),
        f"{trial.in_view:.1%}",
        f"{trial.kept_share - trial.in_view:.1%}",
        f"{trial.lost:.1%}",
        f"{trial.restorable:.1%}",
        f"{trial.recalls:,}",
        f"{trial.repeats:,}",
        _times(trial.with_recalls, base.cost),
        _times(trial.bill, base.bill),
    )


def lines(trials: Sequence[Trial]) -> Iterator[str]:
    """The tables as text, one for each model."""
    for chosen in _by_model(trials):
        first = chosen[0]
        yield (
            f"{model_title(first)}: {first.runs:,} runs, {first.requests:,} requests,"
            f" costs in {unit(first)} without the answers{missing_prices(first)}"
        )
        for line in align_rows(
            [TITLES, *(cells(trial, first) for trial in chosen)], left_aligned=(0,)
        ):
            yield f"  {line}"
        for trial in chosen:
            if trial.refused:
                yield f"  {trial.policy} refused {trial.refused:,} requests, which are not counted"
        yield ""
    yield "in view, handle, lost: strings used later that could be read, were a handle away, or not"
    yield "rebuilt: texts sent in short that the request and its handles give back to the letter"
    yield "repeats: calls made again for what nothing leads to; bill: the answers included"
    yield from price_lines(trials)


def shares(trials: Sequence[Trial]) -> Iterator[str]:
    """A line for each policy but plain history: what was in view when, and how many runs lose."""
    for _, *others in _by_model(trials):
        for trial in others:
            name = f"{trial.model}: " if trial.model else ""
            yield (
                f"{name}{trial.policy}: in view at the next step {trial.in_view_next:.1%}, later"
                f" {trial.in_view_later:.1%}{_short_values(trial)}{_edits(trial)};"
                f" {_percent(trial.dearer, trial.runs)}"
                f" of the runs are dearer than plain history by more than 2%, recalls included,"
                f" the worst {trial.worst:.2f}x"
            )


def _short_values(trial: Trial) -> str:
    if not trial.short:
        return ""
    return f", short values {trial.in_view_short:.1%} of {trial.short:,}"


def _edits(trial: Trial) -> str:
    if not trial.edits:
        return ""
    return f", the lines of the next edit {trial.in_view_edits:.1%} of {trial.edits:,}"


def savings(trials: Sequence[Trial]) -> Iterator[str]:
    """A line for each model: the cheapest policy, recalls included, against plain history.

    First the share of what is sent, then that of the whole bill: no policy makes answers shorter.
    """
    for base, best in _cheapest(trials):
        saved = 1 - _ratio(best.with_recalls, base.cost)
        words = f"{saved:.0%} less than" if saved > 0 else f"{-saved:.0%} more than"
        # rounded, it would say "0% less"
        if abs(saved) < 0.005:
            words = "as much as"
        name = f"{model_title(base)}: " if base.model else ""
        loss = f"; {best.lost:.1%} of what was used later is lost" if best.lost > 0 else ""
        yield (
            f"{name}{best.policy} would have cost {words} plain history, recalls included: input"
            f" {_times(best.with_recalls, base.cost)}, the bill with the answers"
            f" {_times(best.bill, base.bill)} ({_sum(best)} instead of {_sum(base)}){loss}"
        )


def _cheapest(trials: Sequence[Trial]) -> Iterator[tuple[Trial, Trial]]:
    """For each model plain history and the cheapest of the other policies."""
    for base, *others in _by_model(trials):
        # nobody can be an oracle, and what others do is not a policy
        known = [trial for trial in others if trial.policy not in {ORACLE, *RIVAL_NAMES}]
        if known:
            yield base, min(known, key=lambda trial: trial.with_recalls)


SIZES = (5_000, 12_000, 25_000, 40_000, 100_000)
"""Where the classes of sizes end, in tokens."""


class SizeClass(NamedTuple):
    """The runs whose last request, as plain history, has a size: under every policy."""

    name: str
    trials: tuple[Trial, ...]


def by_size(sessions: Sequence[SessionTrials]) -> list[SizeClass]:
    """The recordings by the size of their last request as plain history, and by model."""
    classes: dict[tuple[str, int], list[SessionTrials]] = {}
    for one in sessions:
        base = one.trials[0]
        if base.curve:
            place = bisect_right(SIZES, base.curve[-1])
            classes.setdefault((base.model, place), []).append(one)
    return [
        SizeClass(
            _size_name(place), tuple(map(total, zip(*(one.trials for one in some), strict=True)))
        )
        for (_, place), some in sorted(classes.items())
    ]


def _size_name(place: int) -> str:
    if place == len(SIZES):
        return f"{SIZES[-1] // 1000}k and more"
    start = f"{SIZES[place - 1] // 1000}k to" if place else "below"
    return f"{start} {SIZES[place] // 1000}k"


def size_lines(sessions: Sequence[SessionTrials]) -> Iterator[str]:
    """A table by size, where the recordings have several: short runs and long ones differ."""
    classes = by_size(sessions)
    if len({one.name for one in classes}) < 2:
        return
    yield "by the size of a run's last request as plain history, in tokens:"
    rows = [("size", "runs", "policy", "with them", "bill", "next", "later", "edits", "short",
             "dearer", "worst")]  # fmt: skip
    for one in classes:
        base = one.trials[0]
        rows += [
            (
                f"{one.name} {base.model}".rstrip(),
                f"{trial.runs:,}",
                trial.policy,
                _times(trial.with_recalls, base.cost),
                _times(trial.bill, base.bill),
                f"{trial.in_view_next:.1%}",
                f"{trial.in_view_later:.1%}",
                f"{trial.in_view_edits:.1%}",
                f"{trial.in_view_short:.1%}",
                _percent(trial.dearer, trial.runs),
                f"{trial.worst:.2f}x",
            )
            for trial in one.trials[1:]
        ]
    for line in align_rows(rows, left_aligned=(0, 2)):
        yield f"  {line}"
    yield ""


def ways_to_get(trials: Sequence[Trial], facts: RecordedFacts) -> Iterator[str]:
    """What to write, for each program that was recorded, to get what the cheapest policy saves."""
    cheaper = [best.policy for base, best in _cheapest(trials) if best.bill < base.bill]
    for policy in dict.fromkeys(cheaper):
        for way in dict.fromkeys(way_to_apply(policy, name) for name, _ in facts.formats):
            yield f"to get this: {way}"


def as_json(trials: Sequence[Trial]) -> list[JsonObject]:
    """The trials for machines, with their shares of the first policy of their model."""
    bases: dict[str, Trial] = {}
    listed: list[JsonObject] = []
    for trial in trials:
        base = bases.setdefault(trial.model, trial)
        fields = cast("JsonObject", msgspec.to_builtins(trial))
        listed.append(
            {
                **fields,
                "tokens_ratio": _ratio(trial.tokens, base.tokens),
                "cost_ratio": _ratio(trial.cost, base.cost),
                "with_recalls_ratio": _ratio(trial.with_recalls, base.cost),
                "bill": trial.bill,
                "bill_ratio": _ratio(trial.bill, base.bill),
                "hit_ratio": trial.hit_ratio,
                "present_share": trial.in_view,
                "present_next_share": trial.in_view_next,
                "present_later_share": trial.in_view_later,
                "present_edits_share": trial.in_view_edits,
                "present_short_share": trial.in_view_short,
                "dearer_share": _ratio(trial.dearer, trial.runs),
                "kept_share": trial.kept_share,
                "lost_share": trial.lost,
                "rebuilt_share": trial.restorable,
            }
        )
    return listed


def model_title(trial: Trial) -> str:
    """The model of a trial, or what it was measured with instead."""
    return trial.model or f"yardstick (read {RELATIVE.read:.2f}, write {RELATIVE.write:.2f})"


def unit(trial: Trial) -> str:
    """What costs are counted in."""
    return "US dollars" if trial.money else "fresh tokens"


def no_price_words() -> str:
    """How a model is measured that nobody knows the price of."""
    return (
        "no price of the model is known: costs are in fresh tokens; one that is read again counts"
        f" {RELATIVE.read:.2f}, one that is kept {RELATIVE.write:.2f}"
    )


def missing_prices(trial: Trial) -> str:
    """How many requests are in no cost; empty where all are."""
    if not trial.unpriced:
        return ""
    verb = "has" if trial.unpriced == 1 else "have"
    return f"; {trial.unpriced:,} of {trial.requests:,} calls {verb} no price, and are in no cost"


def price_lines(trials: Iterable[Trial]) -> Iterator[str]:
    """By which prices the costs were reckoned."""
    units = {trial.money for trial in trials}
    if True in units:
        yield name_price_list()
    if False in units:
        yield no_price_words()


def _amount(trial: Trial) -> str:
    return _dollars(trial.cost) if trial.money else f"{trial.cost:,.0f}"


def _sum(trial: Trial) -> str:
    """The bill of a trial in words."""
    return _dollars(trial.bill) if trial.money else f"{trial.bill:,.0f} fresh tokens"


def _times(value: float, base: float) -> str:
    return f"{_ratio(value, base):.2f}x"


def _ratio(value: float, base: float) -> float:
    return value / base if base else 1.0
