"""The rows of a replay: what a trial says in a table, in a line or as JSON."""

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from weft.compiler.costs import RELATIVE
from weft.compiler.replay import Trial
from weft.values import JsonObject

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
        f"{trial.kept - trial.in_view:.1%}",
        f"{trial.lost:.1%}",
        f"{trial.restorable:.1%}",
        f"{trial.recalls:,}",
        _times(trial.with_recalls, base.cost),
    )


def lines(trials: Sequence[Trial]) -> Iterator[str]:
    """The tables as text, one for each model."""
    for model in dict.fromkeys(trial.model for trial in trials):
        shown = [trial for trial in trials if trial.model == model]
        first = shown[0]
        yield (
            f"{named(first)}: {first.runs:,} runs, {first.requests:,} requests,"
            f" costs in {unit(first)} without the answers"
        )
        table = [TITLES, *(cells(trial, first) for trial in shown)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            first_cell, *rest = zip(row, widths, strict=True)
            yield "  ".join(
                (
                    f"  {first_cell[0]:<{first_cell[1]}}",
                    *(f"{cell:>{width}}" for cell, width in rest),
                )
            ).rstrip()
        for trial in shown:
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
        held = cast("JsonObject", msgspec.to_builtins(trial))
        listed.append(
            {
                **held,
                "tokens_ratio": _ratio(trial.tokens, base.tokens),
                "cost_ratio": _ratio(trial.cost, base.cost),
                "with_recalls_ratio": _ratio(trial.with_recalls, base.cost),
                "hit_ratio": trial.hit_ratio,
                "present_share": trial.in_view,
                "kept_share": trial.kept,
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
