"""The same inputs give the same request, whatever was compiled from the session before."""

import pytest

from tests.support import budgets
from tests.support.build import calls, returns, says, session, user
from weft import Agent, C, Compiled, Event, RunConfig, Session, compile, tool
from weft.declare import Policy
from weft.errors import BudgetExceeded

POLICIES = (
    C.auto(),
    C.default().compact(results=100, texts=64, to=64, media=1),
    C.default().truncate(20, keep="bookend").dedupe(),
    C.default().redact("email").fence(),
    C.default().compact(results=100, texts=64, to=64).label("secret", tools=["look"]),
    C.auto().label("secret", "plan"),
    C.agents("bot"),
    C.agents("helper"),
    C.without_agents("bot"),
    C.without_agents("helper"),
    C.select(kind="results"),
    C.select(author="user").compact(texts=64, to=64),
    C.window(2),
    C.relevant(top_k=3),
    C.default().fresh(turns=1, stale="compact"),
    C.default().fresh(seconds=0.5),
    C.default().budget(500),
    C.when(lambda state: "plan" in state, C.window(2)) + C.state("plan"),
)
LINES = "\n".join(f"gauge_{n} in 東京 rose to {n * 3} cm" for n in range(200))


def told(compiled: Compiled) -> tuple[object, ...]:
    rows = sorted((row.step, row.reason, row.text) for row in compiled.explain().left_out)
    return compiled.hash, [*map(str, compiled.diagnostics)], rows


def told_of(agent: Agent, log: Session, **more: object) -> tuple[object, ...] | str:
    try:
        return told(compile(agent, session=log, **more))  # type: ignore[arg-type]
    except BudgetExceeded as error:
        return str(error)


def events() -> list[Event]:
    page = {"result": "\n".join(LINES.splitlines()[:20])}
    return [
        user("Read gauge_3 for jane@example.org", inv="1"),
        calls("bot", "look", {"q": "a"}, "c1", inv="1"),
        returns("bot", "look", page, "c1", inv="1"),
        says("bot", "It rose to 9 cm, says gauge_3.", inv="1", writes="plan"),
        says("helper", "I would ask again. " * 30, inv="1"),
        user("Again: did gauge_3 rise? " + "Tell me. " * 30, inv="2"),
        calls("bot", "look", {"q": "a"}, "c2", inv="2"),
        returns("bot", "look", page, "c2", inv="2"),
        says("bot", "Yes, to 9 cm.", inv="2", writes="plan"),
        user("And now?", inv="3"),
    ]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_session_that_grew_gives_what_one_gives_that_was_read(policy: Policy) -> None:
    agent = Agent("bot", model="gpt-5.4", tools=[budgets.look], context=policy)
    grown = Session("s")
    log = events()
    for index, event in enumerate(log):
        grown = grown.append(event)
        if index in (2, 5, 7, 9):
            told_of(agent, grown, config=RunConfig(model="claude-sonnet-4-5"))
            told_of(agent, grown.before(index))
            cold = Session("s", events=log[: index + 1])
            assert told_of(agent, grown) == told_of(agent, cold)


def read_log() -> Session:
    page = {"result": LINES}
    return session(
        user("Read it"), calls("bot", "read", {}, "c1"), returns("bot", "read", page, "c1")
    )


@pytest.mark.parametrize("policy", [C.default().compact(), C.auto(), C.default().truncate(50)])
def test_what_one_model_finds_large_is_not_taken_over_for_another(policy: Policy) -> None:
    def read() -> str:
        """Read."""
        return LINES

    agent, log = Agent("bot", context=policy, tools=[read]), read_log()
    compile(agent, session=log, config=RunConfig(model="gpt-5"))
    claude = RunConfig(model="claude-opus-4-1")
    assert told_of(agent, log, config=claude) == told_of(agent, read_log(), config=claude)


def test_a_tool_that_is_declared_anew_decides_anew_what_is_large() -> None:
    def declared(size: int | bool) -> Agent:
        def read() -> str:
            """Read."""
            return LINES

        return Agent("bot", model="gpt-5", tools=[tool(compact=size)(read)], context=C.auto())

    log = read_log()
    whole = compile(declared(False), session=log)
    short = compile(declared(100), session=log)
    assert short.tokens < whole.tokens / 4
    assert told(short) == told(compile(declared(100), session=read_log()))


def test_two_conditions_of_a_run_that_look_alike_are_two() -> None:
    agent = Agent("bot", model="gpt-5")
    log = session(user("one", inv="1"), says("bot", "1", inv="1"), user("two", inv="2"))

    def items(config: RunConfig) -> int:
        return len(compile(agent, session=log, config=config).prompt.items)

    assert items(RunConfig(context=C.when(lambda state: True, C.default()))) == 3
    assert items(RunConfig(context=C.when(lambda state: False, C.default()))) == 1


def test_what_was_said_is_let_go_when_its_turn_is_over() -> None:
    agent = Agent("bot", model="gpt-5", context=C.agents("helper"))
    log = Session("s")

    def seen(*events: Event) -> list[str]:
        nonlocal log
        log = log.append(*events)
        return str(compile(agent, session=log).prompt).splitlines()[2:]

    assert seen(user("one", inv="1")) == ["user: one"]
    assert seen(says("bot", "1", inv="1"), says("helper", "h", inv="1"), user("two", inv="2")) == [
        "user: [helper]: h",
        "user: two",
    ]


def test_a_value_that_turns_out_to_be_a_secret_is_taken_back_and_that_is_announced() -> None:
    agent = Agent("bot", model="gpt-5", tools=[budgets.look])
    agent = agent.sees(C.default().compact().label("secret", tools=["look"]))
    log = session(
        user("Is hunter2-x99-zz right? " + "so many words " * 40, inv="1"),
        says("bot", "Perhaps. " + "and more words " * 40, inv="1"),
        user("Look", inv="2"),
    )
    assert "hunter2" in str(compile(agent, session=log).wire)
    log = log.append(
        calls("bot", "look", {}, "c1", inv="2"),
        returns("bot", "look", {"key": "hunter2-x99-zz"}, "c1", inv="2"),
    )
    after = compile(agent, session=log)
    assert "hunter2" not in str(after.wire)
    (said,) = [found for found in after.diagnostics if found.code == "WEFT502"]
    assert "withhold_labelled changed what was sent before" in said.message


def test_an_id_that_another_agent_used_too_stays_as_it_is() -> None:
    agent = Agent("bot", model="gpt-5", context=C.window(3))
    log = [
        user("Go"),
        calls("helper", "look", {}, "c1"),
        returns("helper", "look", {"result": "there"}, "c1"),
        calls("bot", "look", {}, "c1"),
        returns("bot", "look", {"result": "here"}, "c1"),
    ]
    grown = Session("s")
    for event in log:
        grown = grown.append(event)
        compile(agent, session=grown)
    assert told_of(agent, grown) == told_of(agent, Session("s", events=log))
