"""An agent that lost its tools still has a legal request, whatever its history has called."""

import json

import msgspec
import pytest

from tests.support.build import calls, returns, says, session, user
from weft import Agent, C, Event, FileSearch, Part, RunConfig, Runner, Session, tool
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.content import call_part, result_part
from weft.dialects import DIALECTS, dialect_named
from weft.dialects.strict import RequestChecker, check_request
from weft.ir import Prompt
from weft.passes import Env
from weft.recordings.requests import read_request
from weft.testing import ScriptedModel, call

MODELS = {
    "gemini": "gemini-3-flash",
    "anthropic": "claude-sonnet-4-5",
    "openai-chat": "openai-chat/gpt-4.1",
    "openai-responses": "gpt-5.4",
}


@tool
def look(city: str) -> str:
    """Look at the weather."""
    return city


def drop_tools(prompt: Prompt, env: Env) -> Prompt:
    """Offer no tools."""
    return msgspec.structs.replace(prompt, tools=())


CALLED = (
    user("Rain in Oslo?"),
    calls("bot", "look", {"city": "Oslo"}, "c1"),
    returns("bot", "look", {"result": "yes"}, "c1"),
    says("bot", "It rains."),
    user("And now?", inv="2"),
)
ODD_NAMES = (
    user("Go."),
    calls("bot", "no such/tool", {}, "c1"),
    returns("bot", "no such/tool", {}, "c1"),
    calls("bot", "", {}, "c2"),
    returns("bot", "", {}, "c2"),
    calls("bot", "half \ud83d", {}, "c3"),
    returns("bot", "half \ud83d", {}, "c3"),
)
HANDED_OVER = (
    user("Go."),
    calls("bot", "transfer_to_agent", {"agent_name": "gone"}, "t1"),
    returns("bot", "transfer_to_agent", {"result": None}, "t1"),
    says("gone", "I was here."),
    user("And now?", inv="2"),
)
OPEN = (user("Go."), calls("bot", "look", {"city": "Oslo"}, "c1"))

LOGS = {"called": CALLED, "odd names": ODD_NAMES, "handed over": HANDED_OVER, "open": OPEN}

BOT = Agent("bot", instruction="Be brief.")
AGENTS = {
    "bare": BOT,
    "a pass took them": Agent("bot", tools=[look], passes=[drop_tools]),
    "a tool the provider does not run": BOT.uses(FileSearch(["store"])),
    "a choice is left": Agent("bot", generate_config={"tool_choice": "auto"}),
    "a forced choice is left": Agent("bot", generate_config={"tool_choice": {"name": "look"}}),
    "no parallel calls": Agent("bot", generate_config={"parallel_tool_calls": False}),
    "thinking": Agent("bot", generate_config={"thinking": {"budget": 1024}}),
    "a window": BOT.sees(C.window(5)),
    "auto": BOT.sees(C.auto()),
    "redacted": BOT.sees(C.default().redact("email").fence()),
    "budget": BOT.sees(C.default().budget(3_000)),
}


def findings(request: Compilation, dialect: str) -> list[str]:
    return [str(one) for one in check_request(dialect, request.wire, request.prompt.model)]


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_in_the_history_are_legal_without_tools(dialect: str, agent: str, log: str) -> None:
    config = RunConfig(model=MODELS[dialect])
    grown = Session("s")
    for event in LOGS[log]:
        grown = grown.append(event)
        request = compile(AGENTS[agent], session=grown, config=config)
        cold = compile(AGENTS[agent], session=session(*grown.events), config=config)
        assert findings(request, dialect) == []
        RequestChecker(dialect).check(request.prompt, request.wire)
        assert json.dumps(request.wire) == json.dumps(cold.wire)
        assert sum(row.tokens for row in request.explain().sent) == request.tokens
        assert request.tokens <= 3_000


def test_only_the_provider_that_wants_tools_gets_them() -> None:
    for dialect in DIALECTS:
        request = compile(BOT, session=session(*CALLED), config=RunConfig(model=MODELS[dialect]))
        assert ("tools" in request.wire) == (dialect == "anthropic")
    request = compile(BOT, session=session(*CALLED), config=RunConfig(model=MODELS["anthropic"]))
    schema = {"type": "object", "properties": {}}
    assert request.wire["tools"] == [
        {"name": "look", "description": "No longer available.", "input_schema": schema}
    ]
    assert request.wire["tool_choice"] == {"type": "none"}
    assert "WEFT710" in {one.code for one in request.diagnostics}
    row = next(row for row in request.explain().sent if row.kind == "tool")
    assert str(row.origin) == f"event {CALLED[1].id}#0"


def test_an_agent_that_never_called_anything_gets_none() -> None:
    heard = (user("Go."), calls("peer", "look", {}, "c1"), returns("peer", "look", {}, "c1"))
    for log in ((user("Hi."),), heard):
        request = compile(BOT, session=session(*log), config=RunConfig(model=MODELS["anthropic"]))
        assert "tools" not in request.wire
        assert "tool_choice" not in request.wire


def test_the_declarations_stay_as_the_conversation_grows() -> None:
    grown, requests = Session("s"), list[Compilation]()
    more = [says("bot", "Still."), *(user(f"And {n}?", inv=str(n)) for n in range(3, 9))]
    for event in (*CALLED, *more):
        grown = grown.append(event)
        config = RunConfig(model=MODELS["anthropic"])
        requests.append(compile(BOT, session=grown, config=config))
    declared = [request.wire.get("tools") for request in requests]
    assert all(tools == declared[-1] for tools in declared[2:])
    assert requests[-1].prefix_break is None


def test_calls_that_a_budget_dropped_need_no_declarations() -> None:
    log = session(*CALLED[:3], says("bot", "word " * 4_000), user("And now?", inv="2"))
    config = RunConfig(model=MODELS["anthropic"])
    whole = compile(BOT, session=log, config=config)
    agent = BOT.sees(C.default().budget(1_600, overflow="drop"))
    request = compile(agent, session=log, config=config)
    assert whole.tools == ["look"]
    assert "tool_use" not in json.dumps(request.wire)
    assert not {"tools", "tool_choice"} & request.wire.keys()
    assert request.tokens < 100


def test_a_request_of_another_provider_becomes_legal() -> None:
    made = compile(BOT, session=session(*CALLED), config=RunConfig(model="gpt-5.4"))
    lowered = made.lower("anthropic")
    assert check_request("anthropic", lowered) == ()
    read = read_request("openai-responses", made.wire, "gpt-5.4")
    again = dialect_named("anthropic").lower(msgspec.structs.replace(read, model="claude-opus-4-8"))
    assert check_request("anthropic", again.wire) == ()


def test_calls_without_tools_are_refused_of_a_request_that_somebody_else_made() -> None:
    made = compile(BOT, session=session(*CALLED), config=RunConfig(model=MODELS["anthropic"]))
    bare = {key: value for key, value in made.wire.items() if key not in ("tools", "tool_choice")}
    (finding,) = check_request("anthropic", bare)
    assert "no tools are declared" in str(finding)


async def test_a_session_goes_on_with_an_agent_that_lost_its_tools() -> None:
    first = ScriptedModel([call("look", city="Oslo"), "It rains."], dialect="anthropic")
    runner = Runner(Agent("bot", model=first, tools=[look]), app_name="trip")
    await runner.run("Rain?", session_id="s")
    second = ScriptedModel(["I cannot look."], dialect="anthropic")
    later = Runner(Agent("bot", model=second), app_name="trip", store=runner.store)
    result = await later.run("And now?", session_id="s")
    assert result.text == "I cannot look."
    assert [tool["name"] for tool in second.wires[0]["tools"]] == ["look"]  # type: ignore[union-attr, index, call-overload]


async def test_a_callback_that_takes_the_tools_away_leaves_a_legal_request() -> None:
    def without(ctx: object, prompt: Prompt) -> Prompt:
        return msgspec.structs.replace(prompt, tools=())

    model = ScriptedModel([call("look", city="Oslo"), "It rains."], dialect="anthropic")
    agent = Agent("bot", model=model, tools=[look], before_model=without)
    runner = Runner(agent, app_name="trip")
    assert (await runner.run("Rain?", session_id="s")).text == "It rains."


def test_a_sub_agent_without_tools_is_told_of_its_own_calls_only() -> None:
    helper = Agent("helper", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    root = Agent("bot", tools=[look], sub_agents=[helper])
    own = Event(author="helper", content=msgspec.structs.replace(CALLED[1].content, parts=(
        Part(text="so"), call_part("dig", {}, id="d1"),)), invocation_id="1")  # type: ignore[type-var]  # fmt: skip
    answer = Event(
        author="helper",
        content=msgspec.structs.replace(
            CALLED[2].content, parts=(result_part("dig", {}, id="d1"),)
        ),  # type: ignore[type-var]
        invocation_id="1",
    )
    log = session(*CALLED[:3], own, answer)
    config = RunConfig(model=MODELS["anthropic"])
    request = compile(root, session=log, agent="helper", config=config)
    assert request.tools == ["dig"]
    assert findings(request, "anthropic") == []
