"""A very long result is bounded under every policy, and the model can get it back."""

import json
from typing import cast

import pytest

import weft
from tests.support.linear import calls
from weft import Agent, C, Session, tool
from weft.content import call_part, result_part
from weft.declare import Policy
from weft.testing import ScriptedModel, call, make_session
from weft.values import JsonObject, handle_of

LONG = "\n".join(f"row {n}: {n * 7919} apples" for n in range(30_000))
POLICIES = (
    None,
    C.default(),
    C.nothing(),
    C.none(),
    C.user(),
    C.window(3),
    C.auto(),
    C.default().dedupe(),
    C.default().truncate(100_000),
    C.default().redact("email"),
)


def read_rows() -> str:
    """Read the rows."""
    return LONG


def names(wire: object) -> list[str]:
    tools = cast("dict[str, list[dict[str, dict[str, str]]]]", wire).get("tools", [])
    return [one["function"]["name"] for one in tools]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_very_long_result_is_a_digest_with_a_handle(policy: Policy | None) -> None:
    def ask(prompt: object) -> object:
        return call("recall", handle=handle_of({"result": LONG}), lines="12345-12346")

    model = ScriptedModel([call("read_rows"), ask, "Done."], dialect="openai-chat")
    agent = Agent("bot", model=model, tools=[read_rows])
    result = weft.run_sync(agent.sees(policy) if policy is not None else agent, "Go").check()
    first, second, third = model.wires
    assert len(json.dumps(second)) < 25_000
    assert handle_of({"result": LONG}) in json.dumps(second)
    assert "recall" in names(second)
    if policy is None:
        assert names(first) == ["read_rows"]
    recalled = cast("list[dict[str, str]]", third["messages"])[-1]["content"]
    assert recalled.split("\n")[1:] == LONG.split("\n")[12_344:12_346]
    logged = [one.response for event in result.events for one in event.results]
    assert {"result": LONG} in logged


def test_a_tool_may_say_that_its_results_are_sent_as_they_are() -> None:
    whole = tool(compact=False)(read_rows)
    model = ScriptedModel([call("read_rows"), "Done."], dialect="openai-chat")
    weft.run_sync(Agent("bot", model=model, tools=[whole]), "Go").check()
    assert len(json.dumps(model.wires[1])) > len(LONG)
    assert names(model.wires[1]) == ["read_rows"]


@pytest.mark.parametrize(
    ("letters", "bounded"), [(50_000, False), (50_001, True)], ids=("just fits", "one too many")
)
def test_the_bound_is_fifty_thousand_characters(letters: int, bounded: bool) -> None:
    log = make_session(
        ("user", "Go"),
        ("bot", [call_part("read", {}, id="c1")]),
        (
            "bot",
            [
                result_part(
                    "read", {"result": "word " * (letters // 5) + "x" * (letters % 5)}, id="c1"
                )
            ],
        ),
    )
    made = weft.compile(Agent("bot", model="gpt-5"), session=log)
    assert ("recall" in made.tools) == bounded
    assert (len(json.dumps(made.wire)) < 25_000) == bounded


def test_records_and_what_others_read_are_bounded_too() -> None:
    rows: JsonObject = {
        "rows": [{"id": f"A-{n}", "note": "call first " * 5} for n in range(3_000)],
        "total": 3_000,
    }
    log = make_session(
        ("user", "Go"),
        ("clerk", [call_part("read", {}, id="c1")]),
        ("clerk", [result_part("read", rows, id="c1")]),
        ("clerk", "Read."),
    )
    for name in ("clerk", "bot"):
        made = weft.compile(Agent(name, model="gpt-5"), session=log, message="And?")
        assert len(json.dumps(made.wire)) < 40_000
        assert handle_of(rows) in json.dumps(made.wire)
        assert made.tools == ["recall"]


def test_a_session_that_came_from_elsewhere_is_bounded_and_the_prefix_stays() -> None:
    turns: list[tuple[str, object]] = [
        ("user", "Go"),
        ("bot", [call_part("read", {}, id="c1")]),
        ("bot", [result_part("read", {"result": LONG}, id="c1")]),
        ("bot", "Read."),
    ]
    log = Session.from_json(make_session(*turns).to_json())  # type: ignore[arg-type]
    agent = Agent("bot", model="gpt-5")
    one = weft.compile(agent, session=log, message="And?")
    other = weft.compile(agent, session=Session.from_json(log.to_json()), message="And?")
    assert one.wire == other.wire
    messages = cast("list[object]", one.wire["input"])
    for n in range(3):
        turns += [("user", f"And {n}?"), ("bot", f"Now {n}.")]
        grown = weft.compile(agent, session=make_session(*turns))  # type: ignore[arg-type]
        assert cast("list[object]", grown.wire["input"])[: len(messages) - 1] == messages[:-1]


def test_it_is_looked_at_once() -> None:
    unseen = f"{LONG}\nand a row that no other test has"
    log = make_session(
        ("user", "Go"),
        ("bot", [call_part("read", {}, id="c1")]),
        ("bot", [result_part("read", {"result": unseen}, id="c1")]),
    )
    agent = Agent("bot", model="gpt-5")
    first = calls(lambda: weft.compile(agent, session=log))
    for _ in range(3):
        assert 100 * calls(lambda: weft.compile(agent, session=log, message="And?")) < first


@pytest.mark.parametrize("policy", [C.auto(), C.default().compact()], ids=str)
def test_a_conversation_without_tools_gets_recall_when_something_is_hidden(policy: Policy) -> None:
    talk = make_session(("user", "Hi"), ("bot", "Hello."), ("user", "How are you?"))
    agent = Agent("bot", model="gpt-5").sees(policy)
    assert weft.compile(agent, session=talk).tools == []
    long = "\n".join(f"line {n} of what the clerk says" for n in range(2_000))
    told = make_session(("user", "Hi"), ("clerk", long), ("user", "And?"))
    made = weft.compile(agent, session=told)
    assert made.tools == ["recall"]
    assert "[handle " in json.dumps(made.wire)


def test_a_tool_of_ones_own_named_recall_stays_ones_own() -> None:
    @tool(name="recall")
    def own(what: str) -> str:
        """Remember."""
        return "remembered"

    model = ScriptedModel(
        [call("read_rows"), call("recall", what="x"), "Done."], dialect="openai-chat"
    )
    weft.run_sync(Agent("bot", model=model, tools=[read_rows, own]), "Go").check()
    assert names(model.wires[1]) == ["read_rows", "recall"]
    assert len(json.dumps(model.wires[1])) < 25_000
    assert "remembered" in json.dumps(model.wires[2])
