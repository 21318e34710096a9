"""A policy that changed what was sent before: said with what it costs and saves, never silently.

Providers sell what they have read at a tenth of its price, up to the first byte that differs. A
policy that drops or rewrites something in the middle pays for all that follows.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from weft.compiler.costs import Rates, rates_for
from weft.declare.policy_parts import Auto
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.ir import Note, Prompt
from weft.ir.item import RECALL
from weft.passes import Step
from weft.passes.pipeline import names_of

if TYPE_CHECKING:
    from weft.compiler.compiled import Compilation

_EDGES = frozenset(
    ("attribute_foreign", "open_turn", "prune_tools", "order_system", "close_turn",
     "append_changes")
)  # fmt: skip
"""Passes that run on every request and never change bytes that were already sent."""


class Break(NamedTuple):
    """What a policy's change to sent bytes costs once, and what it saves at each request."""

    tokens: int
    removed: int
    cost: float
    saves: float
    passes: tuple[str, ...]
    rates: Rates


def may_rewrite(compiled: "Compilation") -> bool:
    """Whether the policy can change what was sent before, so that it is worth a look."""
    budget = compiled.policy.limit is not None or compiled.plan.agent.token_budget is not None
    return budget or not {*_EDGES, "fit_budget"}.issuperset(names_of(compiled.passes.request))


def read_again(compiled: "Compilation") -> int:
    """The tokens of the conversation that the request before had too, behind what changed."""
    before, shared = compiled.previous, compiled.shared
    if before is None or shared is None or shared.broken is None:
        return 0
    if not shared.system:
        declared = may_rewrite(compiled) and declares_recall(compiled)
        return before.tokens if declared else 0
    known = {item.key for item in before.prompt.items}
    pairs = zip(before.prompt.items, compiled.prompt.items, strict=False)
    same = next((index for index, (old, new) in enumerate(pairs) if old != new), len(known))
    return sum(
        compiled.scale.item(item) for item in compiled.prompt.items.since(same) if item.key in known
    )


def declares_recall(compiled: "Compilation") -> bool:
    """Whether `recall` stands among the tools for the first time, before all that was sent."""
    before = compiled.previous
    return before is not None and _offers(compiled.prompt) and not _offers(before.prompt)


def _offers(prompt: Prompt) -> bool:
    return any(tool.name == RECALL for tool in prompt.tools)


def break_of(compiled: "Compilation") -> Break | None:
    """What the policy changed of the request before and what that costs, or None."""
    before = compiled.previous if may_rewrite(compiled) else None
    again = read_again(compiled) if before is not None else 0
    if before is None or not again:
        return None
    by = tuple(
        dict.fromkeys(
            (*_names(compiled.steps), *_names(before.steps), *_label_steps(compiled, before))
        )
    )
    if declares_recall(compiled):
        by = ("offer_recall",)
    if not by:
        return None
    rates = rates_for(compiled.prompt.model, tokens=compiled.tokens, lifetime=compiled.prompt.cache)
    removed = max(0, _removed(compiled, compiled.steps) - _removed(compiled, before.steps))
    if declares_recall(compiled):
        # what became a digest in this request is why the tool is there
        known = {item.key for item in before.prompt.items}
        fresh = (note for note in compiled.woven.notes if note.before.key not in known)
        removed += sum(_shrunk(compiled, note) for note in fresh)
    cost, saves = again * (rates.write - rates.read), removed * rates.read
    if before.tokens < compiled.plan.target.facts.cache.minimum:
        cost = 0.0  # it was too short to be kept, so it is read anew in any case
    return Break(again, removed, cost, saves, by, rates)


def announced(compiled: "Compilation") -> list[Diagnostic]:
    """The change as a diagnostic: what is read again, what that costs, what it saves."""
    broken = break_of(compiled)
    if broken is None:
        return []
    worth = broken.rates.worth
    planned = any(isinstance(stage.selector, Auto) for stage in compiled.policy.stages)
    who = " and ".join(broken.passes)
    message = (
        f"{who} changed what was sent before: {broken.tokens:,} tokens are read again, which"
        f" costs {worth(broken.cost)} now and saves {worth(broken.saves)} at each later request"
    )
    hint = "nothing to do: it was planned to pay" if planned else _HINT
    severity = Severity.INFO if planned else None
    origin = Origin("field", "context", compiled.prompt.agent)
    return [report("WEFT502", origin, message, hint, severity=severity)]


_HINT = "write C.auto(), which changes what was sent only where that pays, or C.default()"


def _label_steps(compiled: "Compilation", before: "Compilation") -> list[str]:
    """The pass that withholds, where more is known to carry a label than before."""
    now, then = compiled.labelled, before.labelled
    same = now is None or (then is not None and now.all == then.all)
    return [] if same else ["withhold_labelled"]


def _names(steps: Iterable[Step]) -> list[str]:
    return [step.name for step in steps if step.notes and step.name not in _EDGES]


def _removed(compiled: "Compilation", steps: Iterable[Step]) -> int:
    """The tokens that passes on a request took out of it."""
    notes = [note for step in steps if step.name not in _EDGES for note in step.notes]
    return sum(_shrunk(compiled, note) for note in notes)


def _shrunk(compiled: "Compilation", note: Note) -> int:
    item = compiled.scale.item
    after = item(note.after) if note.after is not None and note.after.blocks else 0
    return (item(note.before) if note.before.blocks else 0) - after
