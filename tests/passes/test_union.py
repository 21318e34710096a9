"""A union goes on from the request before, and is what its rule gives when all is read at once."""

from collections.abc import Sequence
from itertools import chain

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.passes.test_growth import EXAMPLES, group, look, outcome_of
from tests.support.strategies import logs
from weft import Agent, C, Content, Event, Session
from weft.compiler import compile_request as compile
from weft.content import call_part
from weft.declare import Policy
from weft.declare.policy_parts import Auto
from weft.ir import Item, Note, Prompt
from weft.ir.prompt import show_block
from weft.passes import Env, Step, Views, name_of
from weft.passes.union import ViewOutcome, unite
from weft.passes.verbs import VERBS
from weft.session.strand import Strand

Reasons = dict[object, list[tuple[str, Note]]]


def unite_by_the_rule(
    prompt: Prompt, env: Env, views: Views, outcomes: Sequence[ViewOutcome]
) -> tuple[Prompt, list[Step] | None]:
    """What a union is: every item of every view, in its fullest form, and the current turn."""
    chosen: dict[object, Item] = {}
    changes: Reasons = {}
    dropped: Reasons = {}
    for seen, steps in outcomes:
        notes: Reasons = {}
        for step in steps:
            for note in step.notes:
                notes.setdefault(note.before.key, []).append((step.name, note))
        in_view: dict[object, Item] = {item.key: item for item in seen.items}
        for key, item in in_view.items():
            other = chosen.get(key)
            if other is None or weight(item) > weight(other):
                chosen[key] = item
                changes[key] = [one for one in notes.get(key, ()) if one[1].after]
        for key, reasons in notes.items():
            if key not in in_view:
                dropped.setdefault(key, reasons)
    originals: dict[object, Item] = {item.key: item for item in prompt.items}
    for key, item in originals.items():
        if env.is_current(item) and env.policy.facts.view != "nothing":
            other = chosen.setdefault(key, item)
            if env.is_asked(item) and other is not item:
                chosen[key], changes[key] = item, []
    added = sorted(
        (item for key, item in chosen.items() if key not in originals),
        key=lambda item: (item.position, item.event),
    )
    items: list[Item] = []
    for item in (chosen[key] for key in originals if key in chosen):
        while added and added[0].position < item.position:
            items.append(added.pop(0))
        items.append(item)
    by_step: dict[str, list[Note]] = {}
    gone = {key: reasons for key, reasons in dropped.items() if key not in chosen}
    for name, note in chain.from_iterable((*gone.values(), *changes.values())):
        by_step.setdefault(name, []).append(note)
    united = [Step(name, tuple(notes)) for name, notes in by_step.items()]
    diagnostics = dict.fromkeys(
        one for seen in (prompt, *(seen for seen, _ in outcomes)) for one in seen.diagnostics
    )
    wants = prompt.wants
    for seen, _ in outcomes:
        wants += tuple(one for one in seen.wants if one not in wants)
    after = msgspec.structs.replace(
        prompt,
        items=Strand([*items, *added]),
        notes=prompt.notes.plus([note for step in united for note in step.notes]),
        diagnostics=tuple(diagnostics),
        wants=wants,
    )
    return after, united


def weight(item: Item) -> tuple[int, int, str]:
    text = "\n".join(show_block(block) for block in item.blocks)
    return -item.priority, len(text), text


SELECTED = (
    C.default(),
    C.none(),
    C.window(1),
    C.window(2),
    C.user(),
    C.user("last"),
    C.user("bookend"),
    C.agents("bot"),
    C.without_agents("helper"),
    C.select(kind="results"),
    C.select(tag="plan"),
    C.recent(half_life=1, min_score=0.5),
    C.relevant(top_k=2),
    C.state("intent"),
    C.notes("plan"),
    C.memory(),
    C.auto(),
    C.auto(careful=True),
)


def reduced(policy: Policy, how: str) -> Policy:
    """The policy with one more step."""
    match how:
        case "truncate":
            return policy.truncate(8)
        case "compact":
            return policy.compact(results=64, texts=64, to=64, media=1)
        case "dedupe":
            return policy.dedupe()
        case "superseded":
            return policy.dedupe("superseded")
        case "fresh":
            return policy.fresh(turns=1)
        case "priority":
            return policy.priority(2)
        case "fit":
            return policy.fit(60)
        case _:
            raise AssertionError(how)


@st.composite
def unions(draw: st.DrawFn) -> Policy:
    """One to three views, each with up to two steps."""
    names = ["truncate", "compact", "dedupe", "superseded", "fresh", "priority", "fit"]
    whole: Policy | None = None
    for _ in range(draw(st.integers(1, 3))):
        view = draw(st.sampled_from(SELECTED))
        for how in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
            view = reduced(view, how)
        whole = view if whole is None else whole + view
    assert whole is not None
    return whole


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(events=logs(), policy=unions())
def test_a_union_that_goes_on_is_the_union_by_its_rule(events: list[Event], policy: Policy) -> None:
    agent = Agent("bot", model="gpt-4o", tools=[look], instruction="Now: {intent?}").sees(policy)
    grown = Session("s")
    for event in events:
        grown = grown.append(event)
        going_on = outcome_of(agent, grown)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("weft.passes.pipeline.unite", unite_by_the_rule)
            assert outcome_of(agent, Session("s", events=[*grown.events])) == going_on


def test_the_steps_of_a_union_stand_in_the_order_of_its_rule() -> None:
    events = [event for number in range(6) for event in group(number, turns=True)]
    for policy in (
        C.window(2).compact(results=64, to=64).dedupe(),
        C.window(2).compact(results=64, to=64) + C.user("bookend"),
    ):
        agent = Agent("bot", model="gpt-4o", tools=[look]).sees(policy)
        steps = [*compile(agent, session=Session("s", events=events)).steps]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("weft.passes.pipeline.unite", unite_by_the_rule)
            by_rule = [*compile(agent, session=Session("s", events=events)).steps]
        assert [(step.name, [*step.notes]) for step in steps] == [
            (step.name, [*step.notes]) for step in by_rule
        ]
        assert len(steps) > 1


def test_a_view_may_settle_what_the_log_has_not() -> None:
    """The window has all of its turns, while a call before them is still without a result."""
    events = [event for number in range(6) for event in group(number, turns=True)]
    open_call = Content(role="model", parts=(call_part("look", {"city": "x"}, id="open"),))
    events.insert(16, Event("helper", open_call, invocation_id="i3", id="open"))
    agent = Agent("bot", model="gpt-4o").sees(C.window(2) + C.agents("bot"))
    log = Session("s", events=events)
    compile(agent.sees(C.none()), session=log)
    requests = [outcome_of(agent, log) for _ in range(3)]
    assert requests == [outcome_of(agent, Session("s", events=events))] * 3


NATURES = {
    name: verb.nature
    for verb in VERBS.values()
    for name in filter(None, (verb.at_birth, verb.past, verb.request))
} | dict.fromkeys(("reduce_results", "reduce_seen"), VERBS[Auto].nature)
"""What every pass says of itself in the table of verbs."""


def check_natures(prompt: Prompt, env: Env, views: Views, outcomes: Sequence[ViewOutcome]) -> None:
    """Hold what the passes of each view did against what they say of themselves."""
    before = {item.key: item for item in prompt.items}
    for view, outcome in zip(views.branches, outcomes, strict=True):
        does = {NATURES[name_of(one)].does for one in view.passes}
        after = [*outcome.prompt.items]
        if does <= {"drops"}:
            # relevance puts a score on items, which nobody is sent
            assert all(before[item.key].blocks is item.blocks for item in after), view.passes
        if does <= {"rewrites"}:
            assert [item.key for item in after] == [*before], view.passes
        if does <= {"drops", "rewrites"}:
            left = {item.key for item in after}
            assert [item.key for item in after] == [key for key in before if key in left]
        if "shows" in does:
            assert all(item.kind == "state" for item in after), view.passes
        for step in outcome.steps:
            for note in step.notes if NATURES[step.name].spares else ():
                assert not env.is_asked(note.before), step
                assert note.after is not None or not env.is_current(note.before), step


@pytest.mark.parametrize("word", EXAMPLES, ids=lambda word: word.__name__)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=8)
@given(events=logs(), beside=st.sampled_from([None, C.user("last")]))
def test_passes_do_what_their_nature_says(
    word: type[msgspec.Struct], events: list[Event], beside: Policy | None
) -> None:
    policy = EXAMPLES[word] if beside is None else EXAMPLES[word] + beside
    agent = Agent("bot", model="gpt-4o", tools=[look], instruction="Now: {intent?}").sees(policy)
    grown = Session("s")

    def unite_and_check(
        prompt: Prompt, env: Env, views: Views, outcomes: Sequence[ViewOutcome]
    ) -> object:
        check_natures(prompt, env, views, outcomes)
        return unite(prompt, env, views, outcomes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.passes.pipeline.unite", unite_and_check)
        for event in events:
            grown = grown.append(event)
            outcome_of(agent, grown)
