"""The table of verbs: which passes each word of a policy means, and the one order they run in."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import NamedTuple, cast

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
    Folding,
    Fresh,
    FromAgents,
    Hide,
    Label,
    Matching,
    Memories,
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
    Window,
    WithoutAgents,
    Writing,
)
from weft.ir import Feature, Prompt
from weft.ir.prompt import is_declared_for_calls
from weft.passes.env import Env
from weft.passes.history import (
    append_changes,
    attribute_foreign,
    close_turn,
    open_turn,
    order_system,
    pair_results,
)
from weft.passes.select import drop_data, drop_hidden, select_branch, select_view
from weft.passes.union import Nature, Pass, StageView, Views, view_of

ORDER = (
    # On new items. What is decided here is final.
    "see",  # which events are in view, calls next to their results
    "withhold",  # what carries a label
    "redact first",  # values are replaced before anything is said in short
    "at birth",  # verbs that look at one new item by itself
    "bound",  # no result fills the window by accident
    "tell",  # other agents by name, and the user's turn first
    "redact last",
    # On the request. Only its edges change, or it is said what a change costs.
    "fold",  # steps that are over become notes: first, so that nothing that changes later decides
    "past",  # verbs that wait until a turn is over
    "views",  # verbs that look at the whole conversation; several are united
    "restore",  # what refers to something that has gone
    "tell late",  # as "tell", where views must see who said what
    "write",  # what a model is to write into state
    "choose",  # which tools are offered
    "custom",  # passes of the agent, of its tools and of the run, then its examples
    "edges",  # the tools that the history calls, the order of the system text, the last turn
    "guard",  # what carries a label, what is to be replaced, fences
    "fit",  # the budget
    "append",  # what changed in the instruction
    "guard again",  # what was appended
)
"""Where passes run, in this order. `passes_of` says which stand where."""

FIRST_ON_REQUEST = ORDER.index("fold")


@cache
def _load(chapter: str, name: str) -> Callable[..., object]:
    """A pass by its chapter and its name."""
    return cast("Callable[..., object]", vars(import_module(f"weft.passes.{chapter}"))[name])


def _has_budget(env: Env) -> bool:
    return env.policy.limit is not None or env.tokens.budget is not None


def _needs_fold_to_fit(env: Env) -> bool:
    return cast("Callable[[Env], bool]", _load("fold", "needs_fold_to_fit"))(env)


def _late(chapter: str, name: str, is_needed: Callable[[Prompt, Env], bool]) -> Pass:
    """A pass that few requests need: its chapter is loaded for the first of them."""

    def late(prompt: Prompt, env: Env) -> Prompt:
        if not is_needed(prompt, env):
            return prompt
        return _load(chapter, name)(prompt, env)  # type: ignore[return-value]

    late.__name__ = name
    return late


_dedupe_state = _late(
    "dedupe",
    "dedupe_state",
    lambda _, env: bool(env.instruction.carried) and not env.policy.duplicates,
)
_bound_results = _late(
    "reduce", "bound_results", lambda prompt, _: bool(prompt.features & Feature.CALLS)
)
_fit_budget = _late(
    "budget",
    "fit_budget",
    lambda _, env: _has_budget(env),
)

_fold_to_fit = _late(
    "fold", "fold_to_fit", lambda _, env: _has_budget(env) and _needs_fold_to_fit(env)
)

_prune_tools = _late("tools", "prune_tools", lambda _, env: not env.model.picks_tools)

_declare_tools = _late(
    "tools",
    "declare_tools",
    lambda prompt, env: (
        env.model.calls_need_tools and (not prompt.tools or is_declared_for_calls(prompt.tools[0]))
    ),
)

_SEE: tuple[Pass, ...] = (
    drop_hidden,
    select_branch,
    select_view,
    pair_results,
    _dedupe_state,
    drop_data,
)

_TELL: tuple[Pass, ...] = (attribute_foreign, open_turn)

_CHOOSE: tuple[Pass, ...] = (_prune_tools,)

_EDGES: tuple[Pass, ...] = (_declare_tools, order_system, close_turn)

ON_FRESH: tuple[Pass, ...] = (*_SEE, _bound_results, *_TELL)

_UNTOLD: tuple[Pass, ...] = (*_SEE, _bound_results)
"""The same where other agents are told of late: neither changes what user and agent say."""

_FIT: tuple[Pass, ...] = (_fit_budget, _declare_tools)

ON_REQUEST: tuple[Pass, ...] = (_fold_to_fit, *_CHOOSE, *_EDGES, *_FIT, append_changes)


class Verb(msgspec.Struct, frozen=True):
    """What the passes of a verb do, and where they are: a chapter of this room, functions in it.

    `at_birth` sees an item when it is new, `past` once its turn is over, `request` the whole
    conversation. Chapters are loaded when a policy needs them.
    """

    nature: Nature
    chapter: str = ""
    at_birth: str = ""
    past: str = ""
    request: str = ""


_SELECTS = Nature("drops", "item", spares=True)
_SHOWS = Nature("shows", "item")
_REDUCES = Nature("rewrites", "item", spares=True)
_PROTECTS = Nature("rewrites", "fold")
_ASKS = Nature("reports", "whole")

VERBS: Mapping[
    type[Selector] | type[Reduction] | type[Folding] | type[Protection] | type[Writing], Verb
] = {
    # which items are in view
    Everything: Verb(_SELECTS),
    ThisTurn: Verb(_SELECTS, "select", at_birth="select_turn"),
    Nothing: Verb(_SELECTS, "select", at_birth="select_turn"),
    Auto: Verb(Nature("rewrites", "fold", spares=True), "auto", at_birth="reduce_results"),
    UserWords: Verb(Nature("drops", "fold"), "select", at_birth="select_user"),
    Window: Verb(Nature("drops", "suffix"), "select", at_birth="select_window"),
    FromAgents: Verb(_SELECTS, "select", at_birth="select_items"),
    WithoutAgents: Verb(_SELECTS, "select", at_birth="select_items"),
    Matching: Verb(_SELECTS, "select", at_birth="select_items"),
    Recent: Verb(Nature("drops", "suffix", spares=True), "select", at_birth="select_recent"),
    Relevant: Verb(Nature("drops", "fold", spares=True), "relevant", at_birth="select_relevant"),
    StateKeys: Verb(_SHOWS, "state_items", at_birth="insert_state"),
    Notes: Verb(_SHOWS, "state_items", at_birth="insert_state"),
    ArtifactText: Verb(_SHOWS, "state_items", at_birth="insert_state"),
    Memories: Verb(_SHOWS, "relevant", at_birth="insert_memories"),
    # what becomes of them
    Compact: Verb(_REDUCES, "reduce", at_birth="compact_items", past="compact_past"),
    Truncate: Verb(_REDUCES, "reduce", at_birth="truncate_items", past="truncate_past"),
    Project: Verb(_REDUCES, "reduce", at_birth="project_results"),
    Priority: Verb(Nature("rewrites", "item"), "state_items", at_birth="set_priority"),
    Dedupe: Verb(Nature("rewrites", "fold", spares=True), "dedupe", at_birth="dedupe_items"),
    Summarize: Verb(Nature("replaces", "whole"), "summaries", at_birth="summarize_items"),
    Fit: Verb(Nature("drops", "suffix", spares=True), "fit", at_birth="fit_items"),
    Fresh: Verb(_REDUCES, "stale", at_birth="mark_stale"),
    # all of them together
    Folding: Verb(Nature("replaces", "fold"), "fold", request="fold_steps"),
    # what the model may see of them
    Label: Verb(_PROTECTS, "labels", request="withhold_labelled"),
    Redact: Verb(_PROTECTS, "redact", request="redact_values"),
    Fence: Verb(_PROTECTS, "fences", request="fence_untrusted"),
    Hide: Verb(_PROTECTS, "hide", request="hide_untrusted"),
    Validate: Verb(_ASKS, "validate", request="validate_context"),
    # what is written into state
    Extract: Verb(_ASKS, "summaries", request="want_writings"),
    Distill: Verb(_ASKS, "summaries", request="want_writings"),
}
"""What every verb of a policy does. `C.when(...)` is decided before there are passes."""


class Passes(NamedTuple):
    """The passes of a policy; `plain` says that they are those of every agent without one.

    `plain_fresh` says that of those on new items alone.
    """

    fresh: tuple[Pass | Views, ...]
    request: tuple[Pass | Views, ...]
    plain: bool = False
    plain_fresh: bool = False


PLAIN = Passes(ON_FRESH, ON_REQUEST, plain=True, plain_fresh=True)


def passes_of(policy: Policy, agent: str, custom: tuple[Pass, ...] = ()) -> Passes:
    """The passes a policy means for an agent; one without conditions, which are decided before.

    `custom` are those that its author and the run add. What looks at each item by itself runs when
    the item is new. Where a stage looks at the whole conversation, all stages are united on the
    request, before other agents' words are told.
    """
    places = _places_of_all(policy)
    if custom:
        # a pass may drop what others refer to, and the turn that the conversation begins with
        restore = _restore(policy) if policy.facts.refers else ()
        places["custom"] = (*custom, *restore, open_turn)
    stages = policy.stages
    alone = stages[0] if len(stages) == 1 else None
    if alone is None or not _is_local(alone.selector, agent):
        places["views"] = (Views(tuple(map(_view_of_stage, stages))),)
        places["tell late"] = _TELL
        return _in_order(places)
    steps = list(alone.steps)
    at_birth: tuple[Pass, ...] = ()
    while steps and isinstance(steps[0], Compact | Project | Truncate | Priority):
        at_birth += _at_birth(steps[0])
        places["past"] += _past(steps.pop(0))
    if not isinstance(alone.selector, ThisTurn | Nothing):  # `select_view` sees to these
        at_birth += _select(alone.selector)  # it refers to what the others leave
    views = _on_request(alone.selector)
    places["at birth"] = at_birth
    if steps:
        places["views"] = (Views((_view(alone.selector, views, steps),)),)
        places["tell late"] = _TELL
        return _in_order(places)
    places["tell"], places["views"] = _TELL, views
    # what is said in short is said of what may be seen
    if views or at_birth or policy.facts.folding is not None:
        places["redact first"] = _redact(policy.protections)
        return _in_order(places)
    places["redact last"] = _redact(policy.protections)
    places["restore"] = ()
    return _in_order(places)


def _places_of_all(policy: Policy) -> dict[str, tuple[Pass | Views, ...]]:
    """The passes that a policy has whatever its stages are, by their place."""
    protections = policy.protections
    withhold = (*_hide(protections), *_withhold(protections))
    ordered = _order_protections(protections)
    again = [one for one in map(_once_more, ordered) if one is not None]
    return {
        **dict.fromkeys(ORDER, ()),
        "see": _SEE,
        "withhold": withhold,
        "bound": (_bound_results,),
        "fold": _place_folds(policy),
        "restore": _restore(policy),
        "write": _write(policy.writings),
        "choose": _CHOOSE,
        "edges": _EDGES,
        "guard": (*withhold, *(one for step in ordered for one in _on_request(step))),
        "fit": _FIT,
        "append": (append_changes,),
        "guard again": (*withhold, *(one for step in again for one in _on_request(step))),
    }


def _in_order(places: Mapping[str, tuple[Pass | Views, ...]]) -> Passes:
    """The passes in their order; those on new items, and those on the request."""
    fresh = tuple(one for place in ORDER[:FIRST_ON_REQUEST] for one in places[place])
    request = tuple(one for place in ORDER[FIRST_ON_REQUEST:] for one in places[place])
    plain_fresh = fresh in (ON_FRESH, _UNTOLD)
    return Passes(fresh, request, plain_fresh and request == ON_REQUEST, plain_fresh)


def _is_local(selector: Selector, agent: str) -> bool:
    """Whether it decides about each item by itself, and for good.

    What the user and the agent itself say is in view in its own turn, and may not be later.
    """
    if isinstance(selector, FromAgents):
        return {"user", agent} <= {*selector.names}
    if isinstance(selector, WithoutAgents):
        return not {"user", agent} & {*selector.names}
    return isinstance(selector, Everything | ThisTurn | Nothing | Auto)


def _view_of_stage(stage: Stage) -> StageView:
    """One view of the conversation: what it selects, and what becomes of that."""
    selector = stage.selector
    return _view(selector, (*_select(selector), *_on_request(selector)), stage.steps)


def _view(selector: Selector, selects: tuple[Pass, ...], steps: Sequence[Reduction]) -> StageView:
    """The view of passes that select, and of what becomes of the items after that."""
    nature = VERBS[type(selector)].nature
    pairs = [(one, nature) for one in selects]
    pairs += [(one, VERBS[type(step)].nature) for step in steps for one in _reduce(step)]
    return view_of(pairs)


def _pass(chapter: str, name: str, options: object) -> tuple[Pass, ...]:
    """A pass with its options; nothing without a name."""
    return (cast("Pass", partial(_load(chapter, name), options=options)),) if name else ()


def _select(selector: Selector) -> tuple[Pass, ...]:
    """What a selector does; what is not of the current turn is gone already under C.none()."""
    if isinstance(selector, Auto):
        from weft.passes.auto import AUTO, LOSSLESS, reduce_results

        options = LOSSLESS if selector.lossless else AUTO
        return () if selector.careful else (partial(reduce_results, options=options),)
    verb = VERBS[type(selector)]
    if isinstance(selector, ThisTurn | Nothing):  # they have no options
        return (cast("Pass", _load(verb.chapter, verb.at_birth)),)
    return _pass(verb.chapter, verb.at_birth, selector)


def _reduce(step: Reduction) -> tuple[Pass, ...]:
    return (*_at_birth(step), *_past(step))


def _at_birth(step: Reduction) -> tuple[Pass, ...]:
    """What a verb does to an item when it is new."""
    verb = VERBS[type(step)]
    return _pass(verb.chapter, verb.at_birth, step)


def _past(step: Reduction) -> tuple[Pass, ...]:
    """What a verb does to things that must be seen as they are in the turn that brings them."""
    if isinstance(step, Compact) and step.texts is None and step.media is None:
        return ()  # results alone are compacted when they are new
    verb = VERBS[type(step)]
    return _pass(verb.chapter, verb.past, step)


def _place_folds(policy: Policy) -> tuple[Pass, ...]:
    """What folds steps that are over; a note is made of what may be seen, and of nothing else.

    Labels and other views make redaction wait. It is done before a fold all the same: a value that
    a note cuts in two would not be found in it any more.
    """
    folding = policy.facts.folding
    if folding is None and policy.limit is None:
        return (_fold_to_fit,)
    folds = _on_request(folding) if folding is not None else (_fold_to_fit,)
    redacts = [one for one in policy.protections if isinstance(one, Redact)]
    guards = _withhold(policy.protections) if redacts else ()
    return (*guards, *(each for one in redacts for each in _on_request(one)), *folds)


def _on_request(step: Selector | Folding | Protection | Writing) -> tuple[Pass, ...]:
    """What a verb does once the whole request is there."""
    verb = VERBS[type(step)]
    if isinstance(step, Auto):
        from weft.passes.auto import AUTO, reduce_seen

        return (partial(reduce_seen, options=AUTO),) if step.careful else ()
    return _pass(verb.chapter, verb.request, step)


def _restore(policy: Policy) -> tuple[Pass, ...]:
    """What brings back references whose source has gone, and offers what handles stand for."""
    if not policy.facts.makes_handles and not policy.facts.refers:
        return ()
    from weft.passes.handles import offer_recall
    from weft.passes.restore import restore_references

    return (restore_references, offer_recall) if policy.facts.refers else (offer_recall,)


def _write(writings: tuple[Writing, ...]) -> tuple[Pass, ...]:
    """What a model is to write into state of what is in view; the runtime does the rest."""
    asked = (one for one in writings if isinstance(one, Extract | Distill))
    return tuple(each for one in asked for each in _on_request(one))


def _hide(protections: tuple[Protection, ...]) -> tuple[Pass, ...]:
    """Text is hidden in new items already, before anything is made of it."""
    return tuple(each for one in protections if isinstance(one, Hide) for each in _on_request(one))


def _withhold(protections: tuple[Protection, ...]) -> tuple[Pass, ...]:
    """What may not be seen is taken out of new items too, before anything is made of them."""
    labels = tuple(one for one in protections if isinstance(one, Label))
    verb = VERBS[Label]
    return _pass(verb.chapter, verb.request, labels) if labels else ()


def _redact(protections: tuple[Protection, ...]) -> tuple[Pass, ...]:
    """Values are replaced when an item is new, unless labels must find them as they are later."""
    if any(isinstance(one, Label) for one in protections):
        return ()
    steps = (one for one in protections if isinstance(one, Redact))
    return tuple(each for one in steps for each in _on_request(one))


def _order_protections(
    protections: tuple[Protection, ...],
) -> list[Hide | Redact | Fence | Validate]:
    """What is hidden and replaced goes first, then the fence around the rest."""
    order = (Hide, Redact, Fence, Validate)
    others = [one for one in protections if not isinstance(one, Label)]
    return sorted(others, key=lambda one: order.index(type(one)))


def _once_more(step: Hide | Redact | Fence | Validate) -> Hide | Redact | Fence | None:
    """What is done to words that were added last, if anything: they have no fields.

    What has them stands in a fence by now, which would be taken for the value of a field.
    """
    if isinstance(step, Redact) and step.fields:
        step = msgspec.structs.replace(step, fields=())
    bare = isinstance(step, Redact) and not step.kinds and not step.patterns
    return None if bare or isinstance(step, Validate) else step
