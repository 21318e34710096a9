"""A replay as one HTML page that needs nothing beside itself: tables and drawn curves.

No script and no outside resource. For each model: what every policy costs against how much of
what was used later it keeps, and how requests grow from step to step.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import cast

import msgspec

from weft.compiler.costs import RELATIVE
from weft.replay.replay import Trial
from weft.values import JsonObject

_WIDTH, _HEIGHT, _EDGE = 560, 320, 48

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8d8de, #3a3a44);
  --dim: light-dark(#666672, #9a9aa8); }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem;
  background: light-dark(#fff, #121216); color: light-dark(#16161c, #e8e8ee); }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; } .dim { color: var(--dim); }
th, td { text-align: right; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td:first-child { font-family: ui-monospace, monospace; font-size: 12.5px; }
svg { max-width: 100%; height: auto; margin: 1rem 1rem 0 0; } svg text { fill: currentColor;
  font-size: 11px; } .axis { stroke: var(--line); fill: none; }
.dot { display: inline-block; width: .7rem; height: .7rem; border-radius: 50%; margin-right: .4rem;
}
""".strip()


def replay_page(trials: Sequence[Trial], *, source: str) -> str:
    """The whole page."""
    title = escape(f"replay of {source}")
    body = "\n".join(_body(trials, title))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _body(trials: Sequence[Trial], title: str) -> Iterator[str]:
    yield f"<h1>{title}</h1>"
    for model in dict.fromkeys(trial.model for trial in trials):
        chosen = [trial for trial in trials if trial.model == model]
        first = chosen[0]
        yield f"<h2>{escape(named(first))}</h2>"
        yield (
            f'<p class="dim">{first.runs:,} runs, {first.requests:,} requests;'
            f" costs in {unit(first)}, without the answers</p>"
        )
        yield from _table(chosen)
        yield _against(chosen)
        yield _curves(chosen)


def _table(trials: Sequence[Trial]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(title)}</th>" for title in TITLES) + "</tr>"
    for index, trial in enumerate(trials):
        first, *rest = cells(trial, trials[0])
        dot = f'<span class="dot" style="background:{_colour(index)}"></span>'
        row = f"<td>{dot}{escape(first)}</td>" + "".join(f"<td>{escape(c)}</td>" for c in rest)
        yield f"<tr>{row}</tr>"
    yield "</table>"


def _against(trials: Sequence[Trial]) -> str:
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


def _curves(trials: Sequence[Trial]) -> str:
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
    "rebuilt", "recalls", "with them",
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
        _times(trial.with_recalls, base.cost),
    )


def lines(trials: Sequence[Trial]) -> Iterator[str]:
    """The tables as text, one for each model."""
    for model in dict.fromkeys(trial.model for trial in trials):
        chosen = [trial for trial in trials if trial.model == model]
        first = chosen[0]
        yield (
            f"{named(first)}: {first.runs:,} runs, {first.requests:,} requests,"
            f" costs in {unit(first)} without the answers"
        )
        table = [TITLES, *(cells(trial, first) for trial in chosen)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            first_cell, *rest = zip(row, widths, strict=True)
            yield "  ".join(
                (
                    f"  {first_cell[0]:<{first_cell[1]}}",
                    *(f"{cell:>{width}}" for cell, width in rest),
                )
            ).rstrip()
        for trial in chosen:
            if trial.refused:
                yield f"  {trial.policy} refused {trial.refused:,} requests, which are not counted"
        yield ""
    yield "in view, handle, lost: strings used later that could be read, were a handle away, or not"
    yield "rebuilt: texts sent in short that the request and its handles give back to the letter"


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
                "hit_ratio": trial.hit_ratio,
                "present_share": trial.in_view,
                "kept_share": trial.kept_share,
                "lost_share": trial.lost,
                "rebuilt_share": trial.restorable,
            }
        )
    return listed


def named(trial: Trial) -> str:
    """The model of a trial, or what it was measured with instead."""
    return trial.model or f"yardstick (read {RELATIVE.read:.2f}, write {RELATIVE.write:.2f})"


def unit(trial: Trial) -> str:
    """What costs are counted in."""
    return "US dollars" if trial.money else "fresh tokens"


def _amount(trial: Trial) -> str:
    if not trial.money:
        return f"{trial.cost:,.0f}"
    return f"${trial.cost:,.2f}" if trial.cost >= 1 else f"${trial.cost:.4f}"


def _times(value: float, base: float) -> str:
    return f"{_ratio(value, base):.2f}x"


def _ratio(value: float, base: float) -> float:
    return value / base if base else 1.0
