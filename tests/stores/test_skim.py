"""A long log that a store only skims gives the requests that it gives when it is read."""

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.strategies import logs
from weft import Actions, Agent, C, Content, Event, Part, Policy, Runner, Session, tool
from weft.compiler import Compilation, compile_request
from weft.content import call_part, result_part
from weft.ir import Feature
from weft.session import SessionKey
from weft.session.lookback import hidden_by_rewind, hidden_in, supplied_keys
from weft.session.memory import StoredSession
from weft.session.strand import Strand, skim_of
from weft.stores import cache, open_store
from weft.stores.rows import LEAST, UnreadEvents, encode_event, skim_rows
from weft.testing import ScriptedModel, call
from weft.values import JsonObject

KEY = SessionKey("app", "user", "s")


@tool
def look(number: int) -> str:
    """Look something up."""
    return f"{number} is there"


BOT = Agent("bot", model="gpt-5-mini", instruction="Be brief.", tools=[look])
INFORMED = BOT.instruct("Be brief. {n?} {out?}")


def changed(event: Event, **fields: object) -> Event:
    return msgspec.structs.replace(event, **fields)


def said(author: str, part: Part, turn: int, role: str = "", **more: object) -> Event:
    """One event of a turn."""
    content = Content(parts=(part,), role=role or ("user" if author == "user" else "model"))
    return Event(author=author, invocation_id=f"i{turn}", content=content, **more)  # type: ignore[arg-type]


def talk(
    turns: int,
    seed: int = 1,
    *,
    writes: bool = True,
    agents: tuple[str, ...] = ("bot",),
    rewinds: float = 0.0,
) -> list[Event]:
    """Turns of plain talk, with calls in some, and state that is written in some.

    Several agents speak one after the other, as in a flow; in some turns one hands over to the
    next, one speaks for others only, and the flow says where it is. With a chance of `rewinds`,
    the user takes back some turns.
    """
    chance = random.Random(seed)
    events: list[Event] = []
    for turn in range(turns):
        events.append(said("user", Part(text=f"question {turn}"), turn, actions=Actions()))
        for agent in agents:
            mark = "" if agent == "bot" else f"-{agent}"
            node = {"path": f"flow/{agent}@0"} if len(agents) > 1 else None
            for number in range(chance.choice((0, 1, 1, 2))):
                id = f"c{turn}-{number}{mark}"
                name = "transfer_to_agent" if len(agents) > 1 and chance.random() < 0.2 else "look"
                done = Actions(transfer_to_agent="bot") if name != "look" else Actions()
                asks, answers = (
                    call_part(name, {"number": turn}, id=id),
                    result_part(name, {"result": "é"}, id=id),
                )
                events.append(said(agent, asks, turn, node_info=node))
                events.append(said(agent, answers, turn, "user", actions=done, node_info=node))
            inner = "internal" if len(agents) > 1 and chance.random() < 0.2 else None
            answer = Part(text=f"answer {turn}{mark}")
            events.append(said(agent, answer, turn, finish_reason="STOP", audience=inner))
            if (
                writes and (turn + seed) % 4 == 1
            ):  # as an agent with an output key, a tool, or `run(state=)`
                delta: JsonObject = {"out": f"answer {turn}{mark}", "n": turn}
                at = chance.choice((-1, -2))
                events[at] = changed(events[at], actions=Actions(state_delta=delta))
        if len(agents) > 1 and chance.random() < 0.7:
            ends = Actions(end_of_agent=True, state_delta={"ended": turn} if writes else {})
            events.append(Event(author="flow", invocation_id=f"i{turn}", actions=ends))
        if rewinds and chance.random() < rewinds:
            target = f"i{chance.randrange(max(0, turn - 3), turn + 1)}"
            back = Actions(rewind_before_invocation_id=target, state_delta={"n": None})
            events.append(Event(author="user", invocation_id=f"r{turn}", actions=back))
    return events


FLOW = ("bot", "planner", "critic")
"""The agents of a log that several speak in."""


def read(events: Iterable[Event]) -> Session:
    """The session as a store reads it for the first time."""
    rows = [encode_event(event) for event in events]
    begun = StoredSession(KEY, 1, 0.0, {}, {}, Strand())
    return cache.catch_up(begun, rows, len(rows)).session({}, {})


def decoded(session: Session) -> int:
    """How many events of the session were decoded."""
    backing = session.events._backing
    if not isinstance(backing, UnreadEvents):
        return len(backing)
    return sum(isinstance(row, Event) for row in backing._rows)


_GONE = Feature.HIDDEN | Feature.FOREIGN | Feature.DATA
"""What only says that passes have something to do: with talk that a window drops they have not."""


def facts(compiled: Compilation) -> tuple[object, ...]:
    """What a run does with a request."""
    return (
        compiled.wire,
        compiled.hash,
        compiled.tools,
        [str(one) for one in compiled.prompt.diagnostics],
        compiled.prompt.features & ~_GONE,
        [(item.kind, item.position, item.event) for item in compiled.prompt.items],
    )


POLICIES: dict[str, Policy] = {
    "default": C.default(),
    "without data": C.default(data=False),
    "none": C.none(),
    "window(1)": C.window(1),
    "window(3)": C.window(3),
    "window(9)": C.window(9),
    "window, in short": C.window(3).truncate(20),
    "window or agent": C.window(2) + C.agents("bot"),
    "budget": C.default().budget(2_000),
}


@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(
    later=logs(),
    turns=st.integers(1, 30),
    seed=st.integers(0, 99),
    agents=st.sampled_from([("bot",), FLOW, FLOW[1:]]),
    rewinds=st.sampled_from([0.0, 0.0, 0.2]),
)
def test_requests_are_those_of_a_log_that_is_read(
    policy: str,
    later: list[Event],
    turns: int,
    seed: int,
    agents: tuple[str, ...],
    rewinds: float,
) -> None:
    agent = (INFORMED if seed % 3 == 0 else BOT).sees(POLICIES[policy])
    before = talk(turns, seed, agents=agents, rewinds=rewinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "LEAST", 2)
        lazy = read(before)
    assert skim_of(lazy.events) is not None
    whole = Session("s", app_name="app", user_id="user", events=before)
    for event in (None, *later):
        if event is not None:
            if event.partial:
                continue
            lazy, whole = lazy.append(event), whole.append(event)
        brief = compile_request(agent, session=lazy, brief=True)
        assert facts(brief) == facts(compile_request(agent, session=whole))
        assert lazy.waiting == whole.waiting
        assert lazy.state == whole.state
        assert supplied_keys(lazy.events) == supplied_keys(whole.events)
        assert hidden_in(lazy.events) == hidden_by_rewind(whole.events)
    assert lazy.events == whole.events


@pytest.mark.parametrize("agents", [("bot",), FLOW])
def test_a_window_reads_the_end_of_a_log(agents: tuple[str, ...]) -> None:
    events = [*talk(LEAST // len(agents), agents=agents), said("user", Part(text="So?"), LEAST)]
    lazy, whole = read(events), Session("s", events=events)
    for name in (*agents, "stranger"):
        agent = replace(INFORMED, name=name).sees(C.window(4))
        compiled = compile_request(agent, session=lazy, brief=True)
        assert facts(compiled) == facts(compile_request(agent, session=whole))
    assert decoded(lazy) < 200 < len(events) / 20


def test_a_whole_history_is_read_once_and_forgotten() -> None:
    events = talk(LEAST, writes=False)
    lazy = read(events)
    assert facts(compile_request(BOT, session=lazy, brief=True)) == facts(
        compile_request(BOT, session=Session("s", events=events))
    )
    assert decoded(lazy) < 30


def test_a_report_says_of_every_event_why_it_is_left_out() -> None:
    agent, events = BOT.sees(C.window(2)), talk(LEAST)
    lazy, whole = read(events), Session("s", events=events)
    compile_request(agent, session=lazy, brief=True)
    asked = [compile_request(agent, session=one).explain() for one in (lazy, whole)]
    assert str(asked[0]) == str(asked[1])


@pytest.mark.parametrize("agents", [("bot",), FLOW])
def test_a_late_result_is_put_beside_its_call(agents: tuple[str, ...]) -> None:
    events = talk(LEAST, agents=agents)
    for caller in agents:
        id = next(e.calls[0].id for e in events if e.author == caller and e.calls)
        late = said(caller, result_part("look", {"result": "late"}, id=id), LEAST, "user")
        asked = said("user", Part(text="and?"), LEAST)
        agent = BOT.sees(C.window(3))
        lazy, whole = read(events), Session("s", events=events)
        for event in (asked, late, said("bot", Part(text="well"), LEAST)):
            lazy, whole = lazy.append(event), whole.append(event)
            brief = compile_request(agent, session=lazy, brief=True)
            assert facts(brief) == facts(compile_request(agent, session=whole))


@pytest.mark.parametrize("agents", [("bot",), FLOW])
def test_an_id_that_an_unread_call_has_is_not_given_again(agents: tuple[str, ...]) -> None:
    events = talk(LEAST, seed=3, agents=agents)
    for caller in agents:
        taken = next(e.calls[0].id for e in events if e.author == caller and e.calls)
        again = [
            said("user", Part(text="again"), LEAST),
            said("bot", call_part("look", {"number": 1}, id=taken), LEAST),
            said("bot", result_part("look", {"result": "1"}, id=taken), LEAST, "user"),
        ]
        agent = BOT.sees(C.window(3))
        lazy, whole = read(events).append(*again), Session("s", events=[*events, *again])
        brief = compile_request(agent, session=lazy, brief=True)
        assert facts(brief) == facts(compile_request(agent, session=whole))
        # another agent's call is told without its id
        assert (f"{taken}_" in str(brief.wire)) == (caller == "bot")


@pytest.mark.parametrize(
    "other",
    [
        said("bot", Part(text="x"), 0, actions=Actions(state_delta={"a": None})),
        said("bot", Part(text="x"), 0, custom_metadata={"weft": {"pending": ["c"]}}),
        said("bot", Part(text="x"), 0, branch="a.b"),
        said("bot", Part(text="x"), 0, error_code="error"),
        said("bot", Part(text="x"), 0, finish_reason="CONTINUATION"),
        said("bot", Part(text="x"), 0, isolation_scope="c"),
        said("bot", Part(text="x", thought=True), 0),
        said("bot", Part(text="x\ud83d"), 0),
        said("bot", Part(text="x" * 60_000), 0),
        said("bot", Part(text=""), 0),
        said("", Part(text="x"), 0),
        said("bot", call_part("look", {}, id="open"), 0),
        said("bot", call_part("adk_request_input", {}, id="open"), 0),
        said("bot", result_part("look", {}, id="orphan"), 0, "user"),
        said("user", Part(text="x"), 0, actions=Actions(rewind_before_invocation_id="i0")),
    ],
    ids=lambda event: str(event.to_json())[:60],
)
def test_what_is_more_than_talk_is_read_at_once(other: Event) -> None:
    rows = [encode_event(event).data for event in talk(3)]
    assert skim_rows(rows) is not None
    assert skim_rows([*rows, encode_event(other).data, rows[0].replace(b"i0", b"i9")]) is None


def test_the_same_id_twice_is_more_than_talk() -> None:
    rows = [encode_event(event).data for event in talk(3)]
    assert skim_rows([*rows, rows[0]]) is None


async def test_a_run_goes_on_with_a_long_stored_session(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    session = await store.create(KEY)
    events = talk(LEAST)
    await store.append(session, *events)
    await store.close()
    model = ScriptedModel([call("look", number=7), "It is there.", "Yes."], name="gpt-5-mini")
    agent = Agent("bot", model=model, tools=[look], context=C.window(2))
    async with Runner(agent, store=f"sqlite:///{tmp_path}/s.db", app_name="app") as runner:
        await runner.run("seven?", user_id="user", session_id="s")
        result = await runner.run("sure?", user_id="user", session_id="s")
        assert result.text == "Yes."
        assert decoded(result.session) < 60
        texts = [item.blocks[0].text for item in model.prompts[-1].items if item.author == "user"]  # type: ignore[union-attr]
        assert texts == ["seven?", "sure?"]
        stored = await runner.session(user_id="user", session_id="s")
        assert len(stored.events) == len(events) + 6
        assert list(stored.events)[: len(events)] == events
