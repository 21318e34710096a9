"""What was said on branches, for those who come after them."""

from dataclasses import replace
from typing import cast

import weft
from weft import Agent, C, Gate, Map, Parallel, Route, Runner, S, Sequence, Session, race
from weft.content import ContentLike
from weft.declare import Node, agents_of
from weft.models.scripted import Entry
from weft.testing import ScriptedModel, call, delayed
from weft.values import Json


def says(**script: Entry | list[Entry]) -> ScriptedModel:
    entries = {
        name: cast("list[Entry]", held) if isinstance(held, list) else [held]
        for name, held in script.items()
    }
    return ScriptedModel(entries)


def seen(model: ScriptedModel, agent: str, at: int = -1) -> list[str]:
    """What an agent was sent in one of its requests, without the system text."""
    prompts = [prompt for prompt in model.prompts if prompt.agent == agent]
    return [
        line for line in str(prompts[at]).splitlines()[1:] if not line.startswith(("system:", " "))
    ]


def chat(flow: Node, *messages: ContentLike, state: dict[str, Json] | None = None) -> Session:
    session = Session("s", state=state)
    for message in messages:
        session = weft.run_sync(flow, message, session=session).session
    return session


def agents(model: ScriptedModel, *names: str) -> list[Agent]:
    return [Agent(name, model=model) for name in names]


def check_rebuilt(model: ScriptedModel, session: Session, flow: Node) -> None:
    """Every request is the same when it is compiled from the log alone."""
    by_name = {agent.name: agent for agent in agents_of(flow)}
    cold: dict[str, list[str]] = {}
    for index, event in enumerate(session.events):
        if event.author in by_name and event.content is not None and not event.isolation_scope:
            log = Session.from_json(session.before(index).to_json())
            # what a branch beside it said meanwhile is not seen
            compiled = weft.compile(by_name[event.author], session=log, branch=event.branch)
            cold.setdefault(event.author, []).append(str(compiled.prompt))
    sent: dict[str, list[str]] = {}
    for prompt in model.prompts:
        sent.setdefault(prompt.agent, []).append(str(prompt))
    assert {name: sorted(one) for name, one in cold.items()} == {
        name: sorted(one) for name, one in sent.items() if name in cold
    }


def test_who_comes_behind_branches_sees_what_each_said_in_their_order() -> None:
    model = says(a=delayed(0.5, "A"), b="B", c="C")
    a, b, c = agents(model, "a", "b", "c")
    flow = (a | b) >> c
    session = chat(flow, "Hi")
    assert [e.author for e in session.events if e.text] == ["user", "b", "a", "c"]
    assert seen(model, "c") == ["user: Hi", "user: [a]: A", "user: [b]: B"]
    assert seen(model, "a") == seen(model, "b") == ["user: Hi"]
    check_rebuilt(model, session, flow)


def test_data_and_what_a_template_carries_is_not_repeated() -> None:
    model = says(a="A", b="B", c="C")
    a, b, c = agents(model, "a", "b", "c")
    chat((a.writes("x") | b) >> c, "Hi")
    assert seen(model, "c") == ["user: Hi", "user: [b]: B"]
    model = says(a="A", b="B", c="C")
    a, b, c = agents(model, "a", "b", "c")
    both = c.instruct("From {x}").sees(C.window(5))
    chat((a.writes("x") | b) >> both, "Hi")
    assert str(model.prompts[-1]).count("A") == 1
    assert seen(model, "c") == ["user: Hi", "user: [b]: B"]


def test_the_next_turn_sees_it_and_each_request_extends_the_one_before() -> None:
    model = says(a=["A1", "A2", "A3"], b=["B1", "B2", "B3"])
    a, b = agents(model, "a", "b")
    flow = a | b
    session = chat(flow, "one", "two", "three")
    assert seen(model, "a") == [
        "user: one", "model: A1", "user: [b]: B1",
        "user: two", "model: A2", "user: [b]: B2", "user: three",
    ]  # fmt: skip
    assert seen(model, "b") == [
        "user: one", "model: B1", "user: [a]: A1",
        "user: two", "model: B2", "user: [a]: A2", "user: three",
    ]  # fmt: skip
    for name in ("a", "b"):
        for at in (0, 1):
            before = seen(model, name, at)
            assert seen(model, name, at + 1)[: len(before)] == before
    check_rebuilt(model, session, flow)


def test_rounds_of_a_loop_see_the_rounds_before() -> None:
    model = says(a=["A1", "A2"], b=["B1", "B2"], c=["C1", "C2"])
    a, b, c = agents(model, "a", "b", "c")
    flow = ((a | b) >> c) * 2
    session = chat(flow, "Hi")
    assert seen(model, "b") == ["user: Hi", "model: B1", "user: [a]: A1", "user: [c]: C1"]
    assert seen(model, "c") == [
        "user: Hi", "user: [a]: A1", "user: [b]: B1", "model: C1", "user: [a]: A2", "user: [b]: B2",
    ]  # fmt: skip
    check_rebuilt(model, session, flow)


def test_branches_within_branches_join_from_the_inside() -> None:
    model = says(
        a=delayed(0.02, "A"), b="B", c=delayed(0.04, "C"), d="D", e=delayed(0.01, "E"), f="F"
    )
    a, b, c, d, e, f = agents(model, "a", "b", "c", "d", "e", "f")
    flow = Parallel(Sequence(Parallel(a, b), d), Parallel(c, e, name="inner")) >> f
    session = chat(flow, "Hi")
    assert seen(model, "d") == ["user: Hi", "user: [a]: A", "user: [b]: B"]
    assert seen(model, "f") == ["user: Hi", *(f"user: [{x}]: {x.upper()}" for x in "abdce")]
    check_rebuilt(model, session, flow)


def test_of_a_race_only_the_winner_is_seen() -> None:
    model = says(a=[delayed(60, "A")], b=["B", "B2"], c=["C", "C2"])
    a, b, c = agents(model, "a", "b", "c")
    flow = race(a, b) >> c
    session = chat(flow, "Hi")
    assert seen(model, "c") == ["user: Hi", "user: [b]: B"]
    check_rebuilt(model, session, flow)


def test_a_map_is_seen_unless_its_list_is_read() -> None:
    xs: dict[str, Json] = {"xs": ["1", "2", "3"]}
    model = says(a=[delayed(0.03, "one"), "two", "three"], c="C")
    a, c = agents(model, "a", "c")
    flow = Map("xs", a, into="ys") >> c
    session = chat(flow, "Hi", state=xs)
    assert seen(model, "c") == [
        "user: Hi", "user: [a]: one", "user: [a]: two", "user: [a]: three",
    ]  # fmt: skip
    check_rebuilt(model, session, flow)
    for reader in (
        c.instruct("From {ys}"),
        c.instruct("From {ys}").sees(C.window(9)),
        c.sees(C.default() + C.state("ys")),
        c.instruct("From {zs}").sees(C.window(9)),
    ):
        model = says(a=["one", "two", "three"], c="C")
        a = Agent("a", model=model)
        steps: list[Node] = [Map("xs", a, into="ys")]
        if "{zs}" in str(reader.instruction):
            steps.append(S.rename(ys="zs"))
        chat(Sequence(*steps, replace(reader, model=model)), "Hi", state=xs)
        assert str(model.prompts[-1]).count("two") == 1, model.prompts[-1]


def test_elements_of_a_map_see_those_of_the_turn_before_under_their_numbers() -> None:
    model = says(a=["one", "two", "three", "four"])
    flow = Map("xs", Agent("a", model=model), into="ys")
    chat(flow, "Hi", "Again", state={"xs": [1, 2]})
    expected = ["user: Hi", "user: [a_1]: one", "user: [a_2]: two", "user: Again"]
    assert seen(model, "a", 2) == seen(model, "a", 3) == expected


def test_policies_act_on_what_joined() -> None:
    for policy, expected in (
        (C.default(), ["[a]: A", "[b]: B"]),
        (C.none(), []),
        (C.agents("a"), ["[a]: A"]),
        (C.user() + C.agents("b"), ["[b]: B"]),
        (C.without_agents("a"), ["[b]: B"]),
        (C.window(1), ["[a]: A", "[b]: B"]),
        (C.select(kind="foreign"), ["[a]: A", "[b]: B"]),
    ):
        model = says(a=delayed(0.01, "A"), b="B", c="C")
        a, b, c = agents(model, "a", "b", "c")
        chat((a | b) >> c.sees(policy), "Hi")
        assert seen(model, "c") == ["user: Hi", *(f"user: {line}" for line in expected)], policy


def test_a_parallel_as_a_sub_agent_is_seen_on_the_next_turn() -> None:
    model = says(
        desk=[call("transfer_to_agent", agent_name="fan"), "D"], a=delayed(0.01, "A"), b="B"
    )
    a, b = agents(model, "a", "b")
    fan = Parallel(a, b, name="fan", description="Asks both.")
    chat(Agent("desk", model=model, sub_agents=[fan]), "Hi", "And?")
    assert [line for line in seen(model, "desk") if "transfer" not in line] == [
        "user: Hi", "user: [a]: A", "user: [b]: B", "user: And?",
    ]  # fmt: skip


def test_a_parallel_as_a_tool_answers_with_what_each_branch_said() -> None:
    model = says(desk=[call("fan", request="Go"), "D"], a=delayed(0.01, "A"), b="B")
    a, b = agents(model, "a", "b")
    fan = Parallel(a, b, name="fan", description="Asks both.")
    session = chat(Agent("desk", model=model, tools=[fan]), "Hi")
    results = [r.response for e in session.events for r in e.results]
    assert results == [{"result": "[a]: A\n\n[b]: B"}]


def test_a_flow_as_a_tool_joins_inside() -> None:
    model = says(desk=[call("fan", request="Go"), "D"], a=delayed(0.01, "A"), b="B", c="C")
    a, b, c = agents(model, "a", "b", "c")
    fan = Sequence(Parallel(a, b), c, name="fan", description="Asks both.")
    chat(Agent("desk", model=model, tools=[fan]), "Hi")
    assert seen(model, "c") == ["user: Go", "user: [a]: A", "user: [b]: B"]


def test_what_a_failed_branch_left_is_seen_unless_its_flow_was_given_up() -> None:
    model = says(a="A", b=[RuntimeError("down"), "B"], c="C")
    a, b, c = agents(model, "a", "b", "c")
    chat(Parallel(a, b, on_error="collect") >> c, "Hi")
    assert seen(model, "c") == ["user: Hi", "user: [a]: A"]
    model = says(a="A", b=delayed(0.05, RuntimeError("down")), c="C")
    a, b, c = agents(model, "a", "b", "c")
    chat((a | b) // c, "Hi")
    assert seen(model, "c") == ["user: Hi"]


async def test_a_branch_that_waits_does_not_hear_its_sibling() -> None:
    model = says(a=["A", "A2"], b="B", c=["C"])
    a, b, c = agents(model, "a", "b", "c")
    flow = (a | Sequence(Gate("ok", question="Well?"), b)) >> c
    runner = Runner(flow, app_name="joins")
    await runner.run(session_id="s", message="Hi")
    result = await runner.resume(session_id="s", answers={"ok": "yes"})
    assert seen(model, "b") == ["user: Hi"]
    assert seen(model, "c") == ["user: Hi", "user: [a]: A", "user: [b]: B"]
    check_rebuilt(model, result.session, flow)


async def test_what_was_said_before_another_message_stays_where_it_was_sent() -> None:
    model = says(a=["A", "A2"], b=["B"], d=["D"], c=["C"])
    a, b, c, d = agents(model, "a", "b", "c", "d")
    ask = (a | Sequence(Gate("ok", question="Well?"), b)) >> c
    flow = S.counter("n") >> Route("n").eq(1, ask).otherwise(d)
    runner = Runner(flow, app_name="joins")
    first = await runner.run(session_id="s", message="Hi")
    await runner.run(session_id="s", message="Meanwhile")
    assert seen(model, "d") == ["user: Hi", "user: [a]: A", "user: Meanwhile"]
    result = await runner.resume(session_id="s", answers={next(iter(first.waiting)): "yes"})
    assert result.text == "C"
    before = ["user: Hi", "user: [a]: A", "user: Meanwhile"]
    assert seen(model, "b") == [*before, "user: [d]: D"]
    assert "user: [a]: A" in seen(model, "c")
    assert "user: [b]: B" in seen(model, "c")


def test_a_log_of_another_framework_without_paths_keeps_both_texts() -> None:
    def event(author: str, text: str, branch: str | None = None) -> weft.Event:
        role = "user" if author == "user" else "model"
        content = weft.Content(role=role, parts=(weft.Part(text=text),))
        return weft.Event(author=author, content=content, invocation_id="1", branch=branch)

    log = Session("s", events=[event("user", "Hi"), event("a", "A", "par.a")])
    log = log.append(event("b", "B", "par.b"))
    c = Agent("c", model="gemini-flash-latest")
    first = [*map(str, weft.compile(c, session=log).prompt.items)]
    log = log.append(event("c", "C"), event("user", "And?"))
    shown = str(weft.compile(c, session=log).prompt).splitlines()[2:]
    assert shown == [
        "user: Hi", "user: [a]: A", "user: [b]: B", "model: C", "user: And?",
    ]  # fmt: skip
    assert len(first) == 3
