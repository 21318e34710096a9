"""What is cut short for plain talk gives the request that the long way gives, on random logs."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.strategies import logs
from weft import Actions, Agent, C, Content, Event, Part, Session, TokenBudget, WeftError, compile
from weft.compiler.items import TalkView, build_items, plain_items
from weft.content import call_part, result_part, to_content
from weft.declare import Policy
from weft.dialects import DIALECTS, Dialect, Entry
from weft.dialects.track import LoweringReport
from weft.ir import Prompt, TextBlock
from weft.passes import Env, Pass, Passes, passes_of
from weft.session.event import read_event
from weft.session.talk import read_talk_event, utterances
from weft.stores.rows import encode_event

FRONT = importlib.import_module("weft.compiler.compile")
RUN = FRONT.run
INCREMENTAL = importlib.import_module("weft.compiler.incremental")
PLAN = importlib.import_module("weft.compiler.plan")

MODELS = ("gemini-flash-latest", "claude-sonnet-4-5", "gpt-4o", "gpt-5")
VIEWS = (C.default(), C.default(data=False), C.window(2), C.none())


def all_passes(policy: Policy, agent: str, custom: tuple[Pass, ...] = ()) -> Passes:
    """The passes of a policy, none of which is left out because the talk is plain."""
    return passes_of(policy, agent, custom)._replace(plain=False, plain_fresh=False)


def never_ready(prompt: Prompt, env: Env) -> bool:
    return False


def never(*_: object) -> None:
    return None


def lowered_as_any_turn(dialect: Dialect, block: TextBlock) -> Entry:
    report = LoweringReport(dialect=dialect.traits.name, strict=False)
    (entry,) = dialect._item((block,), report)  # pyright: ignore[reportPrivateUsage]
    return entry


@contextmanager
def the_long_way() -> Generator[None]:
    """Every pass is called, every turn lowered and judged in full, and no talk taken for plain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PLAN, "passes_of", all_passes)
        patch.setattr(FRONT, "passes_of", all_passes)
        patch.setattr(FRONT, "is_ready", never_ready)
        for name in DIALECTS:
            kind = type(DIALECTS[name])
            patch.setattr(kind, "spell_plain_turn", lowered_as_any_turn)
            module = importlib.import_module(kind.__module__)
            for short_cut in ("is_plain", "only_block"):
                if hasattr(module, short_cut):
                    patch.setattr(module, short_cut, never)
        yield


def outcome(agent: Agent, session: Session, **more: object) -> object:
    """All that a request says, or the error."""
    try:
        compiled = compile(agent, session=session, **more)  # type: ignore[arg-type]
        left_out = [(row.step, row.reason, row.text) for row in compiled.explain().left_out]
        return (
            compiled.wire,
            compiled.hash,
            compiled.tokens,
            [*map(str, compiled.diagnostics)],
            sorted(left_out),
        )
    except WeftError as error:
        return str(error)


def agent_of(model: str, view: Policy, budget: int) -> Agent:
    """A new one each time: a plan is kept with its agent."""
    compressor = TokenBudget(budget) if budget else None
    return Agent(
        "bot", model=model, instruction="Help {name?}.", context_compressor=compressor
    ).sees(view)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs(), st.sampled_from(MODELS), st.sampled_from(VIEWS), st.sampled_from([0, 0, 400]))
def test_the_short_way_and_the_long_way_come_to_the_same(
    events: list[Event], model: str, view: Policy, budget: int
) -> None:
    short, slow = agent_of(model, view, budget), agent_of(model, view, budget)
    grown = Session("s")
    for event in events:
        grown = grown.append(event)
        quickly = outcome(short, grown)
        with the_long_way():
            slowly = outcome(slow, Session("s", events=[*grown.events]))
        assert quickly == slowly
    quickly = outcome(short, grown, message="And now?")
    with the_long_way():
        slowly = outcome(slow, Session("s", events=[*grown.events]), message="And now?")
    assert quickly == slowly


NEXT = [
    f"{{{key}}}{f' and {{{other}}}' if other else ''}"
    for key in ("intent", "draft")
    for other in ("", "mood?", "draft?")
]
"""What agents of a pipeline that come next are told: an answer of one before them, or two."""


STEPS = st.tuples(
    st.sampled_from(["first", "second", "third", "user"]),
    st.sampled_from(["", "intent", "draft"]),
    st.sampled_from(["Book it", " Book it ", "No\n", "Ünklar", "\ud83d"]),
    st.sampled_from(["", "", "internal", "call", "rewind", "thought"]),
)
"""Who speaks, under which key that is kept, what is said, and what else there is to it."""


def step_of(number: int, author: str, key: str, text: str, kind: str) -> list[Event]:
    """What happens in a step of a pipeline."""
    part = Part(text=text, thought=kind == "thought" or None)
    actions = Actions(state_delta={key: text} if key and author != "user" else {})
    said = Event(
        author=author,
        content=Content(parts=(part,), role="user" if author == "user" else "model"),
        audience="internal" if kind == "internal" else None,
        actions=actions,
        invocation_id=f"i{number // 4}",
    )
    if kind == "call":
        call, result = (
            call_part("look", {}, id=f"c{number}"),
            result_part("look", {}, id=f"c{number}"),
        )
        asked = Event(author=author, content=Content(parts=(call,), role="model"))
        return [asked, Event(author=author, content=Content(parts=(result,), role="user")), said]
    if kind == "rewind" and number == 7:
        back = Actions(rewind_before_invocation_id="i1")
        return [said, Event(author="user", actions=back, invocation_id="i2")]
    return [said]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(STEPS, min_size=2, max_size=10),
    st.lists(st.tuples(st.sampled_from(NEXT), st.sampled_from(VIEWS)), min_size=1, max_size=3),
)
def test_an_answer_that_the_instruction_has_is_left_out_of_what_all_others_see(
    steps: list[tuple[str, str, str, str]], asked: list[tuple[str, Policy]]
) -> None:
    grown = Session("s").append(Event(author="user", content=to_content("Where is it?")))
    for position, step in enumerate(steps):
        grown = grown.append(*step_of(position, *step))
        if position < 1:
            continue
        for number, (instruction, view) in enumerate(asked):
            next_agent = Agent(f"next_{number}", model="gpt-4o", instruction=instruction)
            quickly = outcome(next_agent.sees(view), grown)
            with the_long_way():
                slowly = outcome(next_agent.sees(view), Session("s", events=[*grown.events]))
            assert quickly == slowly


def test_one_more_agent_of_a_pipeline_builds_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is told an answer of the one before it: for that nobody builds the whole log again."""
    built: list[str] = []

    def counted(*arguments: object) -> object:
        built.append("run")
        return RUN(*arguments)

    monkeypatch.setattr(INCREMENTAL, "run", counted)
    session = Session("s").append(Event(author="user", content=to_content("Where is it?")))
    for number in range(12):
        if number:
            text = f"{{key_{number - 1}}}"
            agent = Agent(f"agent_{number}", model="gpt-4o", instruction=text)
            said = str(compile(agent, session=session).wire)
            assert [said.count(f"Answer {n}.") for n in range(number)] == [1] * number
        answer = Event(
            author=f"agent_{number}",
            content=to_content(f"Answer {number}.", role="model"),
            actions=Actions(state_delta={f"key_{number}": f"Answer {number}."}),
        )
        session = session.append(answer)
    assert len(built) == 2  # of the first two agents, who see one other at most


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs(), st.sampled_from(["bot", "helper", "nobody"]))
def test_plain_talk_is_recognised_alike_in_events_and_in_stored_rows(
    events: list[Event], agent: str
) -> None:
    """One function recognises it. What it finds in an event read in short is in the whole one."""
    complete = [event for event in events if not event.partial]
    rows = [encode_event(event).data for event in complete]
    short, whole = [*map(read_talk_event, rows)], [*map(read_event, rows)]
    view = TalkView(agent, tells=False)
    start = 0
    while start < len(rows):
        spoken = utterances(short[start:])
        plain = utterances(whole[start:])
        assert [*spoken.listed] == [*plain.listed]
        talk = plain_items(short[start:], start, view)
        assert talk.items == plain_items(whole[start:], start, view).items
        built = build_items(complete[start : start + talk.read], start, agent).items
        texts = [item for item in talk.items if item.kind != "exchange"]
        assert texts == [item for item in built if item.kind in ("user", "model")]
        hidden = [note.before for note in talk.notes]
        assert hidden == [item for item in built if item.kind == "hidden"]
        start += max(plain.events, 1)


def test_the_long_way_calls_what_the_short_way_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the test above would compare a thing with itself."""
    calls: list[str] = []

    def counted(*arguments: object) -> object:
        calls.append("run")
        return RUN(*arguments)

    monkeypatch.setattr(FRONT, "run", counted)
    short = compile(agent_of("gpt-4o", C.default(), 0), message="Hi")
    assert not calls
    with the_long_way():
        long = compile(agent_of("gpt-4o", C.default(), 0), message="Hi")
    assert calls
    assert short.wire == long.wire
