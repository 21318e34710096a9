"""Cost against what is in view, as a plot: policies, and an oracle that knows the future.

The oracle is a bound: it has read the recording to its end. Of each result and later message it
shows the lines, or the leaves of JSON with the names of their fields, that hold what a later step
used or changed, when the text is new, and nothing else. It never changes what was sent. So no
policy that shortens in whole lines at birth, and keeps that share in view, costs less, except where
the oracle's requests become too short to be cached. Where it need not keep all, it gives up the
lines that cost most for each use. What the agent said, the task, the instructions and the tools
stay as they are.

Top to bottom: the plot, the oracle.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from weft.content import Content, Part
from weft.declare import Agent, C, Policy
from weft.markup import escape
from weft.recordings import Recording
from weft.replay.evidence import SearchedText, Uses, spell_value
from weft.replay.replay import Trial, replay
from weft.replay.steps import is_answer
from weft.session import Event, Session
from weft.values import Json

FRONTIER: tuple[Policy, ...] = (
    C.auto(),
    C.auto(careful=True),
    C.default().compact(),
    C.default().truncate(1000),
    C.default().truncate(400),
    C.default().truncate(150),
    C.default().dedupe(),
    C.window(4),
    C.default().budget(8000),
)
"""What is drawn where nobody names policies: for each means a few settings."""


_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP, _BOTTOM = 980, 460, 70, 330, 40, 50
"""The sizes of a panel, and of its margins; names stand to the right of it."""

_LEAST_RANGE = 0.1
"""How much of the scale of shares is shown at least."""


_MOST_TICKS = 10


class _Point(NamedTuple):
    name: str
    cost: float
    view: float
    colour: str
    is_oracle: bool
    on_frontier: bool


def frontier_svg(trials: Sequence[Trial]) -> str:
    """A panel for each model: cost with recalls to the right, what is in view upwards.

    The trials of a model stand together, plain history first. A line joins the policies that no
    other beats in both; a dashed one joins the oracle's.
    """
    panels = [[*each] for _, each in groupby(trials, key=lambda trial: trial.model)]
    height = _PANEL * len(panels)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        drawn += [f'<g transform="translate(0 {number * _PANEL})">', *_panel(panel), "</g>"]
    return "\n".join([*drawn, "</svg>", ""])


def frontier_lines(trials: Sequence[Trial]) -> Iterator[str]:
    """The points of the plot in words, the cheapest first."""
    for model, each in groupby(trials, key=lambda trial: trial.model):
        yield f"{model or 'yardstick'}: cost with recalls, and what is in view; * is not beaten"
        for point in sorted(_points([*each]), key=lambda one: (one.cost, -one.view)):
            mark = "*" if point.on_frontier else " "
            yield f"{mark} {point.cost:5.2f}x  {point.view:6.1%}  {point.name}"


def _points(trials: Sequence[Trial]) -> list[_Point]:
    base = trials[0].cost or 1.0
    shares = [(trial.with_recalls / base, trial.in_view) for trial in trials]
    oracle = [trial.policy.startswith(ORACLE) for trial in trials]
    rivals = [one for one, knows in zip(shares, oracle, strict=True) if not knows]
    return [
        _Point(
            trial.policy,
            *share,
            "#444" if knows else f"hsl({index * 137 % 360} 65% 42%)",
            knows,
            not knows and not any(_beats(other, share) for other in rivals),
        )
        for index, (trial, share, knows) in enumerate(zip(trials, shares, oracle, strict=True))
    ]


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether it costs no more and shows no less, and is better in one of the two."""
    return one != other and one[0] <= other[0] and one[1] >= other[1]


def _panel(trials: Sequence[Trial]) -> Iterator[str]:
    points = _points(trials)
    # plain history, at 1, is always on the scale
    most = max(1.05, *(point.cost * 1.05 for point in points))
    least = min(1 - _LEAST_RANGE, *(point.view - 0.02 for point in points))
    wide, high = _WIDTH - _LEFT - _RIGHT, _PANEL - _TOP - _BOTTOM

    def place(cost: float, view: float) -> tuple[float, float]:
        return _LEFT + cost / most * wide, _TOP + (1 - view) / (1 - least) * high

    bottom = _TOP + high
    title = trials[0].model or "fresh tokens: read 0.10, write 1.25"
    runs = f"{trials[0].runs:,} runs, {trials[0].requests:,} requests"
    yield f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}; {runs}</text>'
    yield f'<path d="M{_LEFT} {_TOP} V{bottom} H{_LEFT + wide}" fill="none" stroke="#999"/>'
    for tick in _ticks(0.0, most):
        across, _ = place(tick, 1.0)
        yield f'<path d="M{across:.1f} {_TOP} V{bottom}" stroke="#eee"/>'
        yield f'<text x="{across:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}x</text>'
    for tick in _ticks(least, 1.0):
        _, up = place(0.0, tick)
        yield f'<path d="M{_LEFT} {up:.1f} H{_LEFT + wide}" stroke="#eee"/>'
        yield f'<text x="{_LEFT - 6}" y="{up + 4:.1f}" text-anchor="end">{tick:.0%}</text>'
    label = "cost with recalls, plain history is 1x"
    yield f'<text x="{_LEFT + wide}" y="{bottom + 36}" text-anchor="end">{label}</text>'
    yield f'<text x="{_LEFT}" y="{_TOP - 6}">in view of what is used later</text>'
    yield _draw_line([p for p in points if p.on_frontier], place, 'stroke="#777"')
    yield _draw_line(
        [p for p in points if p.is_oracle], place, 'stroke="#444" stroke-dasharray="4 3"'
    )
    for number, point in enumerate(sorted(points, key=lambda one: (-one.view, one.cost))):
        across, up = place(point.cost, point.view)
        fill = "white" if point.is_oracle else point.colour
        label = f"{point.name}: {point.cost:.2f}x, {point.view:.1%}"
        yield (
            f'<circle cx="{across:.1f}" cy="{up:.1f}" r="5" fill="{fill}" stroke="{point.colour}">'
            f"<title>{escape(label)}</title></circle>"
        )
        row = _TOP + 8 + number * 18
        yield (
            f'<circle cx="{_WIDTH - _RIGHT + 16}" cy="{row - 4}" r="5" fill="{fill}"'
            f' stroke="{point.colour}"/>'
        )
        yield f'<text x="{_WIDTH - _RIGHT + 28}" y="{row}" font-size="11">{escape(label)}</text>'


def _draw_line(
    points: Iterable[_Point], place: Callable[[float, float], tuple[float, float]], style: str
) -> str:
    ordered = sorted((point.cost, point.view) for point in points)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*one) for one in ordered))
    return f'<polyline points="{path}" fill="none" {style}/>'


def _ticks(low: float, high: float) -> Iterator[float]:
    """Round numbers of a scale, ten at most."""
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)
    step = next((each for each in steps if (high - low) / each <= _MOST_TICKS), high)
    number = int(low / step)
    while number * step <= high + 1e-9:
        if number * step >= low:
            yield round(number * step, 4)
        number += 1


# --- the oracle

ORACLE = "oracle"
"""What its row is called."""

SHARES = (1.0, 0.95, 0.9)
"""What the oracle is to keep in view of what is used later."""


def oracle_trials(
    recording: Recording,
    uses: Uses,
    *,
    model: str | None = None,
    agents: Mapping[str, Agent] | None = None,
    gap: float | None = None,
    sessions_per_hour: float = 0.0,
    shares: Sequence[float] = SHARES,
) -> list[Trial]:
    """What a recording costs if only what is used later was ever said, for each of the shares."""
    return [
        msgspec.structs.replace(
            replay(
                keep_used_lines(recording, uses, share),
                C.default(),
                uses=uses,
                model=model,
                agents=agents,
                gap=gap,
                sessions_per_hour=sessions_per_hour,
            ),
            policy=f"{ORACLE}, at least {share:.0%}",
        )
        for share in shares
    ]


def keep_used_lines(recording: Recording, uses: Uses, share: float = 1.0) -> Recording:
    """Cut what was told to the agents down to the lines that are used later.

    `share` of the uses stay in view. The task, and what the agents said themselves, stay whole.
    """
    events = recording.session.events
    lines = _choose_lines(events, uses, share)
    changed: list[Event] = []
    spoken = False
    for index, event in enumerate(events):
        spoken = spoken or is_answer(event)
        content = event.content
        if content is not None and content.role == "user" and content.parts:
            keep = lines.get(index, frozenset[str]())
            parts = tuple(_keep_lines(part, keep, spoken=spoken) for part in content.parts)
            content = Content(role=content.role, parts=parts)
            event = msgspec.structs.replace(event, content=content)
        changed.append(event)
    session = recording.session
    return recording._replace(session=Session(session.id, state=session.initial, events=changed))


class _Line(NamedTuple):
    """A line that some event brings: where, and how many requests read it from then on."""

    event: int
    text: str
    requests: int


def _choose_lines(events: Sequence[Event], uses: Uses, share: float) -> dict[int, frozenset[str]]:
    """The lines to keep of each event: those where what is used stands first, the cheapest."""
    after = [0] * (len(events) + 1)
    for index in range(len(events) - 1, -1, -1):
        after[index] = after[index + 1] + is_answer(events[index])
    brought: list[_Line] = []
    spoken = False
    for index, event in enumerate(events):
        spoken = spoken or is_answer(event)
        for part in (event.content.parts or ()) if event.content is not None else ():
            is_news = part.function_response is not None or (spoken and bool(part.text))
            if is_news and event.content is not None and event.content.role == "user":
                brought += [_Line(index, line, after[index]) for line in _lines(part)]
    searched = {one.text: SearchedText(one.text) for one in brought}
    serves: Counter[_Line] = Counter()
    needed: set[_Line] = set()
    for index, strings in uses.by_event.items():
        for string in strings:
            line = next(
                (one for one in brought if one.event < index and searched[one.text].has(string)),
                None,
            )
            if line is not None:
                serves[line] += 1
    for index, edited in uses.edits.items():
        changed = [one for one in brought if one.event < index and one.text in edited.lines]
        needed.update({one.text: one for one in changed}.values())  # the newest of each
    wanted = share * serves.total()
    ranked = sorted(serves, key=lambda one: (len(one.text) * one.requests / serves[one], one))
    served = sum(serves[one] for one in needed)
    for line in ranked:
        if served >= wanted:
            break
        if line not in needed:
            needed.add(line)
            served += serves[line]
    lines: dict[int, set[str]] = {}
    for line in needed:
        lines.setdefault(line.event, set()).add(line.text)
    return {index: frozenset(texts) for index, texts in lines.items()}


def _lines(part: Part) -> Iterator[str]:
    """What a part says, line by line; names and leaves of JSON are lines too."""
    result = part.function_response
    yield from _leaves(part.text if result is None else dict(result.response or {}))


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split("\n")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None:
        yield spell_value(value)


def _keep_lines(part: Part, keep: frozenset[str], *, spoken: bool) -> Part:
    """A part with only these lines; the task stays as it is."""
    result = part.function_response
    if result is not None:
        cut = _prune_value(dict(result.response or {}), keep)
        response = cut if isinstance(cut, dict) else {}
        return msgspec.structs.replace(
            part, function_response=msgspec.structs.replace(result, response=response)
        )
    # what stands before the agent's first word is the task
    if not spoken or not part.text:
        return part
    # a message has to say something, or it is not a message
    return msgspec.structs.replace(part, text=str(_prune_value(part.text, keep) or "-"))


def _prune_value(value: Json, keep: frozenset[str]) -> Json:
    """A value without the lines and leaves that are not kept; None where nothing is."""
    if isinstance(value, str):
        return "\n".join(line for line in value.split("\n") if line in keep) or None
    if isinstance(value, dict):
        fields = {name: _prune_value(inner, keep) for name, inner in value.items()}
        return {
            name: inner for name, inner in fields.items() if inner is not None or name in keep
        } or None
    if isinstance(value, list):
        return [one for inner in value if (one := _prune_value(inner, keep)) is not None] or None
    return value if value is not None and spell_value(value) in keep else None
