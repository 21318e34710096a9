"""What is cut short for plain talk gives the request that the long way gives, on random logs."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.strategies import logs
from weft import Agent, C, Event, Session, TokenBudget, WeftError, compile
from weft.compiler.items import TalkView, build_items, plain_items
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
