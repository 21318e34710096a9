"""The pipeline: which passes, in which order; the only place that calls them.

`ON_FRESH` sees the items that are new since the last compilation, so a step costs what it
added; what those passes decide is final. `ON_REQUEST` sees the whole request and touches
only its edges, or says what it costs.
"""

from collections.abc import Callable
from typing import NamedTuple

from weft.ir import Feature, Note, Prompt, verify
from weft.passes.append_changes import append_changes
from weft.passes.attribute_foreign import attribute_foreign
from weft.passes.close_turn import close_turn
from weft.passes.dedupe_state import dedupe_state
from weft.passes.drop_hidden import drop_hidden
from weft.passes.env import Env
from weft.passes.fit_budget import fit_budget
from weft.passes.open_turn import open_turn
from weft.passes.order_system import order_system
from weft.passes.pair_results import pair_results
from weft.passes.prune_tools import prune_tools
from weft.passes.select_branch import select_branch
from weft.passes.select_view import select_view

Pass = Callable[[Prompt, Env], Prompt]

ON_FRESH: tuple[Pass, ...] = (
    drop_hidden,
    select_branch,
    select_view,
    pair_results,
    dedupe_state,
    attribute_foreign,
    open_turn,
)
ON_REQUEST: tuple[Pass, ...] = (
    prune_tools,
    order_system,
    close_turn,
    fit_budget,
    append_changes,
)


class Step(NamedTuple):
    """A pass that changed the prompt: a note for each item it dropped, moved or rewrote."""

    name: str
    notes: tuple[Note, ...]


def run(prompt: Prompt, env: Env, passes: tuple[Pass, ...]) -> tuple[Prompt, list[Step]]:
    """Run the passes in order; verify after each that changed anything, and record a step."""
    steps: list[Step] = []
    for one in passes:
        after = one(prompt, env)
        if after is not prompt:
            verify(after, step=one.__name__, before=prompt)
            steps.append(Step(one.__name__, after.notes[len(prompt.notes) :]))
            prompt = after
    return prompt, steps


def is_ready(prompt: Prompt, env: Env) -> bool:
    """Whether no pass of `ON_REQUEST` would change the prompt, so that none need be called."""
    last = prompt.items.tip
    return (
        not prompt.features & Feature.UNORDERED
        and env.budget is None
        and (env.picks_tools or not prompt.tools)
        and not env.changes
        and last is not None
        and last.blocks[-1].role == "user"
    )
