"""The pipeline: the only place that calls passes.

Which passes run is a policy's business (`passes_of` in `verbs.py`). Those on fresh items see what
is new since the last compilation, so a step costs what it added; what they decide is final. Those
on the request see all of it and touch only its edges, or say what it costs.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from weft.ir import Prompt, verify
from weft.ir.prompt import LateSequence
from weft.passes.env import Env
from weft.passes.union import Pass, Step, ViewOutcome, Views, name_of, unite


def names_of(passes: tuple[Pass | Views, ...]) -> list[str]:
    """The names of passes in the order they run, each once."""
    names: list[str] = []
    for one in passes:
        inner = [view.passes for view in one.branches] if isinstance(one, Views) else [(one,)]
        names += [name_of(each) for branch in inner for each in branch]
    return list(dict.fromkeys(names))


def run(
    prompt: Prompt, env: Env, passes: tuple[Pass | Views, ...]
) -> tuple[Prompt, Sequence[Step]]:
    """Run the passes in order; verify after each that changed anything, and record a step."""
    steps: list[Step] = []
    before_union: list[Sequence[Step]] = []
    for one in passes:
        if isinstance(one, Views):
            outcomes = [ViewOutcome(*run(prompt, env, view.passes)) for view in one.branches]
            prompt, united = unite(prompt, env, one, outcomes)
            if united is not None:
                before_union += [steps, united]
                steps = []
            continue
        after = one(prompt, env)
        if after is not prompt:
            name = name_of(one)
            verify(after, step=name, before=prompt)
            steps.append(Step(name, after.notes.since(prompt.notes), _changes_head(prompt, after)))
            prompt = after
    if before_union:  # the steps of a union are worked out when somebody reads them
        return prompt, LateSequence(partial(_join_steps, [*before_union, steps]))
    return prompt, steps


def _join_steps(parts: Iterable[Sequence[Step]]) -> list[Step]:
    return [step for part in parts for step in part]


def _changes_head(before: Prompt, after: Prompt) -> bool:
    return (
        before.system != after.system
        or before.tools != after.tools
        or before.config != after.config
        or before.output != after.output
    )
