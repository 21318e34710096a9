"""What is cut short for plain talk gives the request that the long way gives, on random logs."""

import importlib
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.strategies import logs
from weft import Agent, C, Event, Session, TokenBudget, WeftError, compile
from weft.compiler.items import build_items, plain_items, utterance_of
from weft.declare import Policy
from weft.dialects import DIALECTS, Dialect, Entry
from weft.dialects.track import LoweringReport
from weft.ir import Prompt, TextBlock
from weft.passes import Env, Pass, Passes, passes_of
from weft.session.event import read_event
from weft.session.talk import TalkEvent, read_talk_event, utterances
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
@given(logs(), st.booleans())
def test_plain_talk_is_recognised_alike_in_events_and_in_stored_rows(
    events: list[Event], in_short: bool
) -> None:
    """`plain_items` makes items of talk, `utterances` what a store keeps of it; passes see events.

    What the two take for plain talk is the same, and it is what the long way makes of it.
    """
    complete = [event for event in events if not event.partial]
    rows = [encode_event(event).data for event in complete]
    read = [read_talk_event(row) if in_short else read_event(row) for row in rows]
    start = 0
    while start < len(read):
        plain = plain_items(read[start:], start, "bot")
        spoken = utterances(read, "bot", start)
        if not in_short:
            assert spoken.events == 0, "an event that was not read in short counts as more"
        elif spoken.events < plain.read:
            stopped = read[start + spoken.events :][:2]
            assert any(type(one) is not TalkEvent for one in stopped), "it was read in short"
        elif plain.read < spoken.events:
            calls = spoken.listed[len(plain.items)].calls
            ids = [call.id for call in calls]
            assert len({*ids}) < len(ids) or plain.calls & {*ids}, "no id is taken"
        short = [utterance_of(item) for item in plain.items]
        assert [*spoken.listed][: len(short)] == short[: len(spoken.listed)]
        built = build_items(complete[start : start + plain.read], start, "bot").items
        texts = [item for item in plain.items if item.kind != "exchange"]
        assert texts == [item for item in built if item.kind in ("user", "model")]
        start += max(plain.read, 1)


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
