"""A policy as passes: which run on fresh items, which on the request, in which order."""

from functools import partial
from typing import NamedTuple, assert_never

import msgspec

from weft.declare.policy import Policy, Stage
from weft.declare.policy_parts import (
    ArtifactText,
    Auto,
    Compact,
    Dedupe,
    Distill,
    Everything,
    Extract,
    Fence,
    Fit,
    Fresh,
    FromAgents,
    Label,
    Matching,
    Notes,
    Nothing,
    Priority,
    Project,
    Protection,
    Recent,
    Redact,
    Reduction,
    Relevant,
    Selector,
    StateKeys,
    Summarize,
    ThisTurn,
    Truncate,
    UserWords,
    Validate,
    When,
    Window,
    WithoutAgents,
    Writing,
)
from weft.passes.budget import fit_budget
from weft.passes.dedupe import dedupe_state
from weft.passes.edges import append_changes, close_turn, open_turn, order_system
from weft.passes.history import attribute_foreign, pair_results
from weft.passes.pipeline import Pass, Views
from weft.passes.reduce import bound_results
from weft.passes.select import drop_data, drop_hidden, select_branch, select_view
from weft.passes.tools import prune_tools


class Passes(NamedTuple):
    """The passes of a policy; `plain` says that they are those of every agent without one."""

    fresh: tuple[Pass | Views, ...]
    request: tuple[Pass | Views, ...]
    plain: bool = False


_SEEN: tuple[Pass, ...] = (
    drop_hidden,
    select_branch,
    select_view,
    pair_results,
    dedupe_state,
    drop_data,
)

_TOLD: tuple[Pass, ...] = (attribute_foreign, open_turn)

_EDGES: tuple[Pass, ...] = (prune_tools, order_system, close_turn)

ON_FRESH: tuple[Pass, ...] = (*_SEEN, bound_results, *_TOLD)

ON_REQUEST: tuple[Pass, ...] = (*_EDGES, fit_budget, append_changes)

PLAIN = Passes(ON_FRESH, ON_REQUEST, plain=True)


def passes_of(policy: Policy, agent: str) -> Passes:
    """The passes a policy means for an agent; one without conditions, which are decided before.

    What looks at each item by itself runs when the item is new. Where a stage looks at the whole
    conversation, all stages are united on the request, before other agents' words are told.
    """
    end = (*_write(policy.writings), *_end(policy.protections))
    restored = _restore(policy)
    seen = (*_SEEN, *_withhold(policy.protections))
    stages = policy.stages
    alone = stages[0] if len(stages) == 1 else None
    if alone is not None and _is_local(alone.selector, agent):
        steps = list(alone.steps)
        turn = isinstance(alone.selector, ThisTurn | Nothing)  # `select_view` sees to it
        at_birth: tuple[Pass, ...] = ()
        past: tuple[Pass, ...] = ()
        while steps and isinstance(steps[0], Compact | Project | Truncate | Priority):
            at_birth += _at_birth(steps[0])
            past += _past(steps.pop(0))
        at_birth += () if turn else _select(alone.selector)  # it refers to what the others leave
        views = _later(alone.selector) + tuple(one for step in steps for one in _reduce(step))
        redacted = _redact(policy.protections)
        if not views and not at_birth:
            fresh = (*seen, bound_results, *_TOLD, *redacted)
            return Passes(fresh, end, plain=end == ON_REQUEST)
        if not views or not steps:  # what is said in short is said of what may be seen
            fresh = (*seen, *redacted, *at_birth, bound_results, *_TOLD)
            return Passes(fresh, (*past, *views, *restored, *end))
        fresh = (*seen, *at_birth, bound_results)
        return Passes(fresh, (*past, Views((views,)), *restored, *_TOLD, *end))
    branches = tuple(_branch(stage) for stage in stages)
    return Passes((*seen, bound_results), (Views(branches), *restored, *_TOLD, *end))


def _restore(policy: Policy) -> tuple[Pass, ...]:
    """What brings back references whose source has gone, and offers what handles stand for."""
    if not policy.makes_handles and not policy.refers:
        return ()
    from weft.passes.handles import offer_recall
    from weft.passes.references import restore_references

    return (restore_references, offer_recall) if policy.refers else (offer_recall,)


def _end(protections: tuple[Protection, ...]) -> tuple[Pass, ...]:
    """What every request ends with: its edges, what guards it, what fits it.

    What is said last, behind all that was fitted, is guarded too.
    """
    if not protections:
        return ON_REQUEST
    withhold = _withhold(protections)
    ordered = _ordered(protections)
    last = [*withhold, *(_protect(one) for one in map(_once_more, ordered) if one is not None)]
    guards = (*withhold, *map(_protect, ordered))
    return (*_EDGES, *guards, fit_budget, append_changes, *last)


def _once_more(step: Redact | Fence | Validate) -> Redact | Fence | None:
    """What is done to words that were added last, if anything: they have no fields.

    What has them stands in a fence by now, which would be taken for the value of a field.
    """
    if isinstance(step, Redact) and step.fields:
        step = msgspec.structs.replace(step, fields=())
    bare = isinstance(step, Redact) and not step.kinds and not step.patterns
    return None if bare or isinstance(step, Validate) else step


def _withhold(protections: tuple[Protection, ...]) -> tuple[Pass, ...]:
    """What may not be seen is taken out of new items too, before anything is made of them."""
    labels = tuple(one for one in protections if isinstance(one, Label))
    if not labels:
        return ()
    from weft.passes.labels import withhold_labelled

    return (partial(withhold_labelled, options=labels),)


def _redact(protections: tuple[Protection, ...]) -> tuple[Pass, ...]:
    """Values are replaced when an item is new, unless labels must find them as they are later."""
    if any(isinstance(one, Label) for one in protections):
        return ()
    return tuple(_protect(one) for one in protections if isinstance(one, Redact))


def _write(writings: tuple[Writing, ...]) -> tuple[Pass, ...]:
    """What a model is to write into state of what is in view; the runtime does the rest."""
    asked = [one for one in writings if isinstance(one, Extract | Distill)]
    if not asked:
        return ()
    from weft.passes.write import want_writings

    return tuple(partial(want_writings, options=one) for one in asked)


def _is_local(selector: Selector, agent: str) -> bool:
    """Whether it decides about each item by itself, and for good.

    What the user and the agent itself say is in view in its own turn, and may not be later.
    """
    if isinstance(selector, FromAgents):
        return {"user", agent} <= {*selector.names}
    if isinstance(selector, WithoutAgents):
        return not {"user", agent} & {*selector.names}
    return isinstance(selector, Everything | ThisTurn | Nothing | Auto)


def _branch(stage: Stage) -> tuple[Pass, ...]:
    steps = tuple(one for step in stage.steps for one in _reduce(step))
    return (*_select(stage.selector), *_later(stage.selector), *steps)


def _select(selector: Selector) -> tuple[Pass, ...]:
    """What a selector does; what is not of the current turn is gone already under C.none()."""
    match selector:
        case Everything():
            return ()
        case ThisTurn() | Nothing():
            from weft.passes.select import select_turn

            return (select_turn,)
        case Auto():
            from weft.passes.reduce import AUTO, reduce_results

            return (partial(reduce_results, options=AUTO),)
        case UserWords():
            from weft.passes.select import select_user

            return (partial(select_user, options=selector),)
        case Window():
            from weft.passes.select import select_window

            return (partial(select_window, options=selector),)
        case FromAgents() | WithoutAgents() | Matching():
            from weft.passes.select import select_items

            return (partial(select_items, options=selector),)
        case Recent():
            from weft.passes.select import select_recent

            return (partial(select_recent, options=selector),)
        case Relevant():
            from weft.passes.relevant import select_relevant

            return (partial(select_relevant, options=selector),)
        case StateKeys() | Notes() | ArtifactText():
            from weft.passes.state_items import insert_state

            return (partial(insert_state, options=selector),)
        case When():
            raise AssertionError("conditions are decided before")
        case _:
            assert_never(selector)


def _later(selector: Selector) -> tuple[Pass, ...]:
    """What a selector does once the whole request is there."""
    if isinstance(selector, Auto):
        from weft.passes.stale import plan_edit

        return (plan_edit,)
    return ()


def _reduce(step: Reduction) -> tuple[Pass, ...]:
    return (*_at_birth(step), *_past(step))


def _past(step: Reduction) -> tuple[Pass, ...]:
    """What is done to things that must be seen as they are in the turn that brings them."""
    match step:
        case Compact() if step.texts is not None or step.media is not None:
            from weft.passes.reduce import compact_past

            return (partial(compact_past, options=step),)
        case Truncate():
            from weft.passes.reduce import truncate_past

            return (partial(truncate_past, options=step),)
        case _:
            return ()


def _at_birth(step: Reduction) -> tuple[Pass, ...]:
    match step:
        case Compact():
            from weft.passes.reduce import compact_items

            return (partial(compact_items, options=step),)
        case Dedupe():
            from weft.passes.dedupe import dedupe_items

            return (partial(dedupe_items, options=step),)
        case Project():
            from weft.passes.reduce import project_results

            return (partial(project_results, options=step),)
        case Truncate():
            from weft.passes.reduce import truncate_items

            return (partial(truncate_items, options=step),)
        case Summarize():
            from weft.passes.summaries import summarize_items

            return (partial(summarize_items, options=step),)
        case Priority():
            from weft.passes.state_items import set_priority

            return (partial(set_priority, options=step),)
        case Fit():
            from weft.passes.budget import fit_items

            return (partial(fit_items, options=step),)
        case Fresh():
            from weft.passes.stale import mark_stale

            return (partial(mark_stale, options=step),)
        case _:
            assert_never(step)


def _ordered(protections: tuple[Protection, ...]) -> list[Redact | Fence | Validate]:
    """What is replaced goes first, then the fence around the rest."""
    order = (Redact, Fence, Validate)
    found = [one for one in protections if not isinstance(one, Label)]
    return sorted(found, key=lambda one: order.index(type(one)))


def _protect(step: Redact | Fence | Validate) -> Pass:
    match step:
        case Redact():
            from weft.passes.redact import redact_values

            return partial(redact_values, options=step)
        case Fence():
            from weft.passes.fences import fence_untrusted

            return partial(fence_untrusted, options=step)
        case Validate():
            from weft.passes.validate import validate_context

            return partial(validate_context, options=step)
        case _:
            assert_never(step)
