"""Every law is really held: a fault planted in a legal request is found, and where."""

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import weft
from tests.models.wires import (
    CALL_ID,
    EVERY,
    RESULT_ID,
    TALK,
    Wire,
    asked,
    check,
    found_in,
    inner,
    log,
    lookup,
    ping,
    turns_of,
)
from tests.support.strategies import logs
from weft import Actions, Agent, C, Content, Event, Part, Session, TokenBudget
from weft.content import call_part, result_part
from weft.dialects import DIALECTS
from weft.dialects.strict import RequestChecker
from weft.errors import BudgetExceeded, IllegalRequest, InvalidPrompt
from weft.session.event import Compaction
from weft.session.strand import Strand
from weft.testing import ScriptedModel

every_dialect = pytest.mark.parametrize("dialect", EVERY)
MERGING = ("gemini", "anthropic")
FLAT = ("openai-chat", "openai-responses")


@every_dialect
def test_a_legal_request_passes(dialect: str) -> None:
    for length in range(1, len(TALK) + 1):
        check(dialect, asked(dialect, TALK[:length]), lambda wire: None)
    assert set(EVERY) == set(DIALECTS)


def fault(path: str, value: object) -> Callable[[Wire], None]:
    """Put a value at a place; `...` takes out what stands there, and "+" adds to a list."""

    def plant(wire: Wire) -> None:
        *above, last = path.split("/")
        held: Any = wire
        for step in above:
            held = held[int(step)] if isinstance(held, list) else held[step]
        if last == "+":
            held.append(value)
        elif isinstance(held, list) and last.startswith("+"):
            held.insert(int(last), value)
        elif value is ...:
            del held[int(last) if isinstance(held, list) else last]
        else:
            held[int(last) if isinstance(held, list) else last] = value

    return plant


SAYS_USER = {
    "gemini": {"role": "user", "parts": [{"text": "and?"}]},
    "anthropic": {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    "openai-chat": {"role": "user", "content": "and?"},
    "openai-responses": {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
}
SAYS_MODEL = {
    "gemini": {"role": "model", "parts": [{"text": "so"}]},
    "anthropic": {"role": "assistant", "content": [{"type": "text", "text": "so"}]},
    "openai-chat": {"role": "assistant", "content": "so"},
    "openai-responses": {"role": "assistant", "content": "so"},
}
KEY = {
    "gemini": "contents",
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
}
CALLED = {"gemini": 5, "anthropic": 5, "openai-chat": 7, "openai-responses": 8}
"""The turn of TALK's last call; its result is the next and last."""


@every_dialect
def test_a_request_has_turns(dialect: str) -> None:
    for empty in ([], None, "text"):
        with pytest.raises(IllegalRequest, match="no turns") as caught:
            check(dialect, asked(dialect, TALK), fault(KEY[dialect], empty))
        assert caught.value.where == f"/{KEY[dialect]}"


@every_dialect
def test_a_turn_is_an_object_with_a_known_role(dialect: str) -> None:
    with pytest.raises(IllegalRequest, match="not an object"):
        check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/0", "text"))
    for role in ("function", "ai", "", None):
        with pytest.raises(IllegalRequest, match="is not a role") as caught:
            check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/0/role", role))
        assert caught.value.where == f"/{KEY[dialect]}/0/role"


@pytest.mark.parametrize("dialect", MERGING)
def test_the_user_begins_and_turns_alternate(dialect: str) -> None:
    with pytest.raises(IllegalRequest, match="the first turn is not the user's"):
        check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/0", ...))
    for at, said in (("+1", SAYS_USER), ("+4", SAYS_MODEL)):
        with pytest.raises(IllegalRequest, match="stand in a row") as caught:
            check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/{at}", said[dialect]))
        assert caught.value.where == f"/{KEY[dialect]}/{int(at)}"
        assert "alternate" in caught.value.hint


@pytest.mark.parametrize("dialect", FLAT)
def test_system_turns_stand_at_the_start_or_before_the_model_speaks(dialect: str) -> None:
    system = {"role": "system", "content": "Be rude."}
    check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/+0", system))
    turns = asked(dialect, TALK).wire[KEY[dialect]]
    for at, turn in enumerate(turns, 1):
        place = fault(f"{KEY[dialect]}/+{at}", system)
        if turn.get("role") == "assistant" and not turn.get("tool_calls"):
            with pytest.raises(IllegalRequest, match="mid-conversation"):
                check(dialect, asked(dialect, TALK), place)
        elif turn.get("role") == "user":
            check(dialect, asked(dialect, TALK), place)


@every_dialect
def test_the_last_words_are_not_the_models(dialect: str) -> None:
    with pytest.raises(IllegalRequest, match="the model's own words") as caught:
        check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/+", SAYS_MODEL[dialect]))
    assert caught.value.where == f"/{KEY[dialect]}/{CALLED[dialect] + 2}"


@every_dialect
def test_a_call_without_a_result_is_found(dialect: str) -> None:
    result = f"{KEY[dialect]}/{CALLED[dialect] + 1}"
    with pytest.raises(IllegalRequest, match=r"the call (lookup )?c3 has no result"):
        check(dialect, asked(dialect, TALK), fault(result, ...))
    with pytest.raises(IllegalRequest, match=r"the call (lookup )?c3 has no result"):
        check(dialect, asked(dialect, TALK), fault(result, SAYS_USER[dialect]))


@every_dialect
def test_a_result_that_is_not_next_to_its_call_is_found(dialect: str) -> None:
    def part(wire: Wire) -> None:
        apart = [SAYS_USER[dialect], SAYS_MODEL[dialect]]
        turns_of(wire, dialect)[CALLED[dialect] + 1 : CALLED[dialect] + 1] = apart

    with pytest.raises(IllegalRequest, match="no result in the next turn") as caught:
        check(dialect, asked(dialect, TALK), part)
    turn = int(caught.value.where.split("/")[2])
    assert turn in (CALLED[dialect], CALLED[dialect] + 1)


@pytest.mark.parametrize("dialect", MERGING)
def test_a_turn_has_all_results_of_the_calls_before_it(dialect: str) -> None:
    def drop(wire: Wire) -> None:
        found_in(wire, dialect).results[1].drop()

    with pytest.raises(IllegalRequest, match=r"the call (ping )?c2 has no result") as caught:
        check(dialect, asked(dialect, TALK), drop)
    assert caught.value.where == f"/{KEY[dialect]}/2"


@pytest.mark.parametrize("dialect", FLAT)
def test_nobody_speaks_between_two_results(dialect: str) -> None:
    second = found_in(asked(dialect, TALK).wire, dialect).results[1].key
    for said in (SAYS_USER, SAYS_MODEL):
        with pytest.raises(IllegalRequest, match=r"the call (ping )?c2 has no result"):
            check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/+{second}", said[dialect]))


def test_the_model_may_speak_between_its_calls_and_their_results_where_it_can() -> None:
    said = SAYS_MODEL["openai-responses"]
    check("openai-responses", asked("openai-responses", TALK), fault("input/+4", said))
    with pytest.raises(IllegalRequest, match="no result in the next turn"):
        check("openai-chat", asked("openai-chat", TALK), fault("messages/+3", said))


@every_dialect
def test_results_stand_in_call_order(dialect: str) -> None:
    def swap(wire: Wire) -> None:
        first, second, *_ = found_in(wire, dialect).results
        first.value, second.value = second.value, first.value

    with pytest.raises(IllegalRequest, match=r"c2 stands out of order.*lookup c1"):
        check(dialect, asked(dialect, TALK), swap)


@every_dialect
def test_a_result_without_a_call_is_found(dialect: str) -> None:
    def repeat(wire: Wire) -> None:
        last = found_in(wire, dialect).results[-1]
        last.holder.append(copy.deepcopy(last.value))

    def drop_call(wire: Wire) -> None:
        found_in(wire, dialect).calls[1].drop()

    for change in (repeat, drop_call):
        with pytest.raises(IllegalRequest, match="answers no call"):
            check(dialect, asked(dialect, TALK), change)


@every_dialect
def test_ids_match_and_occur_once(dialect: str) -> None:
    def rename(wire: Wire) -> None:
        inner(found_in(wire, dialect).results[-1], dialect)[RESULT_ID[dialect]] = "c4"

    def reuse(wire: Wire) -> None:
        inner(found_in(wire, dialect).calls[-1], dialect)[CALL_ID[dialect]] = "c1"
        inner(found_in(wire, dialect).results[-1], dialect)[RESULT_ID[dialect]] = "c1"

    with pytest.raises(IllegalRequest, match="c4 answers no call"):
        check(dialect, asked(dialect, TALK), rename)
    with pytest.raises(IllegalRequest, match="two calls have the id c1"):
        check(dialect, asked(dialect, TALK), reuse)


def test_a_result_names_the_tool_that_was_called() -> None:
    name = "contents/6/parts/0/functionResponse/name"
    with pytest.raises(IllegalRequest, match="ping c3 stands out of order"):
        check("gemini", asked("gemini", TALK), fault(name, "ping"))


@pytest.mark.parametrize(
    ("dialect", "path", "value"),
    [
        ("gemini", "contents/3/parts", []),
        ("gemini", "contents/3/parts/0", {}),
        ("gemini", "contents/3/parts/0/text", ""),
        ("gemini", "contents/3/parts/0", {"text": "both", "inlineData": {"data": "eA=="}}),
        ("gemini", "contents/0/parts/0", {"inlineData": {"mimeType": "image/png", "data": ""}}),
        ("gemini", "contents/0/parts/0", {"fileData": {"mimeType": "image/png"}}),
        ("gemini", "contents/1/parts/1/functionCall/name", ""),
        ("gemini", "contents/1/parts/1/functionCall/args", "{}"),
        ("gemini", "contents/2/parts/0/functionResponse/response", "1"),
        ("gemini", "contents/2/parts/0/functionResponse/id", ""),
        ("anthropic", "messages/3/content", []),
        ("anthropic", "messages/3/content", " "),
        ("anthropic", "messages/3/content/0", {}),
        ("anthropic", "messages/3/content/0/text", " \n"),
        ("anthropic", "messages/3/content/0/type", ...),
        ("anthropic", "messages/1/content/1/input", "{}"),
        ("anthropic", "messages/1/content/1/id", "c 1"),
        ("anthropic", "messages/2/content/0/tool_use_id", ""),
        ("openai-chat", "messages/0/content", ""),
        ("openai-chat", "messages/1/content", []),
        ("openai-chat", "messages/1/content", [{"type": "text", "text": ""}]),
        ("openai-chat", "messages/5/content", None),
        ("openai-chat", "messages/2/tool_calls", []),
        ("openai-chat", "messages/2/tool_calls/0/id", ""),
        ("openai-chat", "messages/2/tool_calls/0/function/name", ""),
        ("openai-chat", "messages/2/tool_calls/0/function/arguments", "[1]"),
        ("openai-chat", "messages/2/tool_calls/0/function/arguments", "{"),
        ("openai-chat", "messages/3/tool_call_id", None),
        ("openai-chat", "messages/3/content", None),
        ("openai-responses", "input/0/content", []),
        ("openai-responses", "input/0/content/0/text", ""),
        ("openai-responses", "input/1/content", ""),
        ("openai-responses", "input/2/call_id", ""),
        ("openai-responses", "input/2/name", ""),
        ("openai-responses", "input/2/arguments", ""),
        ("openai-responses", "input/2/arguments", "null"),
        ("openai-responses", "input/4/output", None),
    ],
)
def test_nothing_is_empty_or_misshapen(dialect: str, path: str, value: object) -> None:
    with pytest.raises(IllegalRequest) as caught:
        check(dialect, asked(dialect, TALK), fault(path, value))
    turn = "/".join(path.split("/")[:2])
    assert caught.value.where.startswith(f"/{turn}")


def test_thinking_that_claude_has_not_signed_is_not_its_own() -> None:
    unsigned = fault("messages/1/content/+0", {"type": "thinking", "thinking": "hm"})
    for name in ("claude-sonnet-4-6", "glm-5"):
        model = ScriptedModel([], dialect="anthropic", name=name)
        agent = Agent("bot", model=model, tools=[lookup, ping])
        compiled = weft.compile(agent, session=Session("s", events=TALK))
        if name == "glm-5":  # a server that imitates the provider signs nothing
            check("anthropic", compiled, unsigned)
            continue
        with pytest.raises(IllegalRequest, match="no signature") as caught:
            check("anthropic", compiled, unsigned)
        assert caught.value.where.startswith("/messages/1")


@pytest.mark.parametrize(
    ("dialect", "turn", "part", "what"),
    [
        ("gemini", 4, {"functionCall": {"name": "ping", "args": {}}}, "not in the model's turn"),
        ("gemini", 3, {"functionResponse": {"name": "ping", "response": {}}}, "model's turn"),
        ("anthropic", 4, {"type": "tool_use", "id": "x", "name": "p", "input": {}}, "not in the"),
        ("anthropic", 3, {"type": "tool_result", "tool_use_id": "c1"}, "after other blocks"),
        ("anthropic", 4, {"type": "thinking", "thinking": "", "signature": "s"}, "user's turn"),
    ],
)
def test_calls_and_thoughts_are_the_models_and_results_the_users(
    dialect: str, turn: int, part: Wire, what: str
) -> None:
    parts = "parts" if dialect == "gemini" else "content"
    with pytest.raises(IllegalRequest, match=what):
        check(dialect, asked(dialect, TALK), fault(f"{KEY[dialect]}/{turn}/{parts}/+", part))


def test_results_come_first_in_their_turn() -> None:
    text = {"type": "text", "text": "first"}
    with pytest.raises(IllegalRequest, match="after other blocks"):
        check("anthropic", asked("anthropic", TALK), fault("messages/2/content/+0", text))


TOOL = {
    "gemini": "tools/0/functionDeclarations/1",
    "anthropic": "tools/1",
    "openai-chat": "tools/1/function",
    "openai-responses": "tools/1",
}


@every_dialect
def test_a_tool_is_declared_once_under_a_name(dialect: str) -> None:
    with pytest.raises(IllegalRequest, match="`lookup` is declared twice") as caught:
        check(dialect, asked(dialect, TALK), fault(f"{TOOL[dialect]}/name", "lookup"))
    assert caught.value.where == f"/{TOOL[dialect]}/name"
    with pytest.raises(IllegalRequest, match="has no name"):
        check(dialect, asked(dialect, TALK), fault(f"{TOOL[dialect]}/name", ...))


@every_dialect
def test_a_providers_own_tool_is_let_be(dialect: str) -> None:
    own = {"googleSearch": {}} if dialect == "gemini" else {"type": "web_search", "name": "web"}
    check(dialect, asked(dialect, TALK), fault("tools/+", own))


@pytest.mark.parametrize(
    ("dialect", "path", "value"),
    [
        ("gemini", f"{TOOL['gemini']}/input_schema", {"type": "object"}),
        ("gemini", f"{TOOL['gemini']}/parametersJsonSchema", {"type": "string"}),
        ("gemini", "tools/0/functionDeclarations/0/parameters", {"type": "object"}),
        ("gemini", "tools/0", {"name": "x", "description": "", "parametersJsonSchema": {}}),
        ("gemini", "generationConfig/responseMimeType", ...),
        ("gemini", "generationConfig/responseJsonSchema", None),
        ("anthropic", f"{TOOL['anthropic']}/parameters", {"type": "object"}),
        ("anthropic", f"{TOOL['anthropic']}/input_schema", ...),
        ("anthropic", f"{TOOL['anthropic']}/input_schema", {}),
        ("anthropic", "output_config/format/schema", ...),
        ("openai-chat", f"{TOOL['openai-chat']}/input_schema", {"type": "object"}),
        ("openai-chat", f"{TOOL['openai-chat']}/parameters", {"type": "array"}),
        ("openai-chat", "tools/0", {"type": "function", "name": "x", "parameters": {}}),
        ("openai-chat", "response_format/json_schema/schema", ...),
        ("openai-chat", "response_format/json_schema/name", ""),
        ("openai-responses", f"{TOOL['openai-responses']}/function", {"name": "x"}),
        ("openai-responses", f"{TOOL['openai-responses']}/parameters", ...),
        ("openai-responses", "text/format/schema", "{}"),
        ("openai-responses", "text/format/name", ...),
    ],
)
def test_schemas_stand_where_they_belong(dialect: str, path: str, value: object) -> None:
    with pytest.raises(IllegalRequest) as caught:
        check(dialect, asked(dialect, TALK), fault(path, value))
    assert caught.value.where.startswith(f"/{path.split('/')[0]}")


FIELDS = {
    "systemInstruction": ("gemini",),
    "contents": ("gemini",),
    "generationConfig": ("gemini",),
    "system": ("anthropic",),
    "output_config": ("anthropic",),
    "messages": ("anthropic", "openai-chat"),
    "response_format": ("openai-chat",),
    "instructions": ("openai-responses",),
    "input": ("openai-responses",),
    "text": ("openai-responses",),
}


@every_dialect
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_another_provider_is_found(dialect: str, field: str) -> None:
    if dialect in FIELDS[field]:
        return
    with pytest.raises(IllegalRequest, match="another provider's field") as caught:
        check(dialect, asked(dialect, TALK), fault(field, "x"))
    assert caught.value.where == f"/{field}"


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("anthropic", "model"),
        ("anthropic", "max_tokens"),
        ("anthropic", "system"),
        ("openai-chat", "model"),
        ("openai-responses", "model"),
        ("openai-responses", "instructions"),
        ("gemini", "systemInstruction"),
    ],
)
def test_what_a_provider_needs_is_there(dialect: str, field: str) -> None:
    with pytest.raises(IllegalRequest, match=r"missing|empty") as caught:
        check(dialect, asked(dialect, TALK), fault(field, ""))
    assert caught.value.where == f"/{field}"


def test_the_laws_of_the_prompt_are_held_too() -> None:
    compiled = asked("gemini", TALK)
    exchange = compiled.prompt.items[1]
    torn = weft.ir.Item(
        "exchange", exchange.blocks[:-1], "bot", "i1", exchange.position, exchange.last, "e2"
    )
    broken = compiled.prompt.with_items([compiled.prompt.items[0], torn])
    with pytest.raises(InvalidPrompt, match="has no result"):
        RequestChecker("gemini").check(broken, compiled.wire)


def test_the_laws_of_the_prompt_are_held_on_items_added_to_a_known_one() -> None:
    compiled = asked("gemini", TALK)
    checker = RequestChecker("gemini")
    checker.check(compiled.prompt, compiled.wire)
    items: Strand[weft.ir.Item] = compiled.prompt.items
    last = items[-1]
    torn = weft.ir.Item(
        "exchange", last.blocks[:1], "bot", "i1", last.position + 1, last.last + 1, "e8"
    )
    broken = msgspec.structs.replace(compiled.prompt, items=items.extend([torn]))
    with pytest.raises(InvalidPrompt, match="has no result"):
        checker.check(broken, compiled.wire)


# The law of the prefix.


def requests(dialect: str, events: list[Event], **more: Any) -> list[weft.Compiled]:
    """The requests of a growing session, which share their turns as a run's do."""
    # with its tools: a provider that wants them declared would get other tools after a call
    agent = Agent("bot", model=ScriptedModel([], dialect=dialect), tools=[lookup, ping], **more)
    session = Session("s")
    made: list[weft.Compiled] = []
    for event in events:
        session = session.append(event)
        if event.content is None or event.content.role == "user":
            made.append(weft.compile(agent, session=session))
    return made


@every_dialect
def test_each_turn_that_was_sent_is_sent_again(dialect: str) -> None:
    changed = 0
    for before, after in pairwise(requests(dialect, TALK)):
        for index in range(len(turns_of(before.wire, dialect))):
            turns = turns_of(after.wire, dialect)[:]
            turns[index] = copy.deepcopy(turns[index])
            texts = found_in({KEY[dialect]: [turns[index]]}, dialect).texts
            if not texts or turns[index].get("role") == "system":
                continue
            texts[0].value += "!"
            changed += 1
            checker = RequestChecker(dialect)
            checker.check(before.prompt, before.wire)
            with pytest.raises(IllegalRequest, match="reads differently now") as caught:
                checker.check(after.prompt, {**after.wire, KEY[dialect]: turns})
            assert caught.value.where == f"/{KEY[dialect]}/{index}"
    assert changed >= 4


@every_dialect
def test_bytes_count_and_not_only_values(dialect: str) -> None:
    made = requests(dialect, TALK)
    checker = RequestChecker(dialect)
    checker.check(made[-2].prompt, made[-2].wire)
    turns = copy.deepcopy(turns_of(made[-1].wire, dialect))
    turns[0] = dict(reversed(turns[0].items()))
    with pytest.raises(IllegalRequest, match="reads differently now"):
        checker.check(made[-1].prompt, {**made[-1].wire, KEY[dialect]: turns})


@every_dialect
def test_a_turn_that_vanishes_is_found(dialect: str) -> None:
    talk = log(("user", "One."), ("bot", "1"), ("user", "Two."), ("bot", "2"), ("user", "Three."))
    _, before, after = requests(dialect, talk)
    checker = RequestChecker(dialect)
    checker.check(before.prompt, before.wire)
    turns = turns_of(after.wire, dialect)[:]
    first = len(turns) - 5  # behind the system turn, where there is one
    turns[first] = turns[first + 2]
    with pytest.raises(IllegalRequest, match="reads differently now"):
        checker.check(after.prompt, {**after.wire, KEY[dialect]: turns})


@every_dialect
def test_a_new_system_text_or_tool_begins_a_new_prefix(dialect: str) -> None:
    one, other = log(("user", "One.")), log(("user", "Won."))
    for more in ({"instruction": "Be rude."}, {"tools": [ping_only]}):
        checker = RequestChecker(dialect)
        before = asked(dialect, one)
        checker.check(before.prompt, before.wire)
        with pytest.raises(IllegalRequest, match="reads differently now"):
            checker.check(asked(dialect, other).prompt, asked(dialect, other).wire)
        checker = RequestChecker(dialect)
        checker.check(before.prompt, before.wire)
        after = asked(dialect, other, **more)
        checker.check(after.prompt, after.wire)


def ping_only() -> str:
    """Answer."""
    return "pong"


@every_dialect
def test_another_option_does_not_begin_a_new_prefix(dialect: str) -> None:
    checker = RequestChecker(dialect)
    before = asked(dialect, log(("user", "One.")))
    checker.check(before.prompt, before.wire)
    after = asked(dialect, log(("user", "Won.")), generate_config={"temperature": 0.5})
    with pytest.raises(IllegalRequest, match="reads differently now"):
        checker.check(after.prompt, after.wire)


@every_dialect
def test_other_agents_sessions_and_messages_without_a_log_have_prefixes_of_their_own(
    dialect: str,
) -> None:
    checker = RequestChecker(dialect)
    model = ScriptedModel([], dialect=dialect)
    for compiled in (
        asked(dialect, log(("user", "One."))),
        weft.compile(Agent("peer", model=model), session=Session("s", events=log(("user", "2")))),
        asked(
            dialect, [Event(author="user", content=Content(role="user", parts=(Part(text="3"),)))]
        ),
        weft.compile(Agent("bot", model=model), message="Four."),
        weft.compile(Agent("bot", model=model), message="Five."),
    ):
        checker.check(compiled.prompt, compiled.wire)


@every_dialect
def test_views_are_told_apart_when_their_requests_alternate(dialect: str) -> None:
    """Two agents in one session, and two sessions that the agent began itself."""
    model = ScriptedModel([], dialect=dialect)
    agents = Agent("bot", model=model), Agent("peer", model=model)
    talk = log(("user", "One."), ("bot", "1"), ("user", "Two."))
    greeted = [log(("bot", f"Hi {name}."), ("user", "Hi.")) for name in "ab"]
    for number, events in enumerate(greeted):
        greeted[number] = [msgspec.structs.replace(e, id=f"{number}{e.id}") for e in events]
    views = [
        [(agent, talk[:1], talk) for agent in agents],
        [(agents[0], events, events) for events in greeted],
    ]
    for pair in views:
        checker = RequestChecker(dialect)
        for agent, events, _ in pair:
            compiled = weft.compile(agent, session=Session("s", events=events))
            checker.check(compiled.prompt, compiled.wire)
        agent, _, events = pair[0]
        compiled = weft.compile(agent, session=Session("s", events=events))
        turns = copy.deepcopy(turns_of(compiled.wire, dialect))
        spoken = [turn for turn in turns if turn.get("role") != "system"]
        found_in({KEY[dialect]: spoken}, dialect).texts[0].value += "!"
        with pytest.raises(IllegalRequest, match="reads differently now"):
            checker.check(compiled.prompt, {**compiled.wire, KEY[dialect]: turns})


@every_dialect
def test_a_late_result_may_change_what_was_sent(dialect: str) -> None:
    waiting = call_part("slow", {}, id="c1")
    events = log(
        ("user", "Go."),
        ("bot", waiting),
        ("user", "And?"),
        ("bot", "It runs."),
        ("user", "Now?"),
        ("bot", result_part("slow", {"result": "done"}, id="c1")),
        ("bot", "Done."),
        ("user", "Thanks."),
    )
    long = weft.session.Event(
        author="bot", content=events[1].content, invocation_id="i1", id="e2", timestamp=2.0,
        long_running_tool_ids=("c1",),
    )  # fmt: skip
    events[1] = long
    checker = RequestChecker(dialect)
    sent = requests(dialect, events)
    for compiled in sent:
        checker.check(compiled.prompt, compiled.wire)
    assert any("pending" in str(compiled.wire) for compiled in sent)
    assert "pending" not in str(sent[-1].wire)


@every_dialect
def test_a_placeholder_may_be_replaced(dialect: str) -> None:
    events = log(
        ("user", "Go."),
        ("bot", call_part("slow", {}, id="c1")),
        ("bot", result_part("slow", {"status": "started"}, id="c1")),
        ("bot", "It runs."),
        ("user", "Now?"),
        ("user", result_part("slow", {"result": "done"}, id="c1")),
    )
    checker = RequestChecker(dialect)
    for compiled in requests(dialect, events):
        checker.check(compiled.prompt, compiled.wire)


@every_dialect
def test_a_rewind_a_summary_and_a_closing_turn_may_change_what_was_sent(dialect: str) -> None:
    def said(number: int, author: str, text: str, invocation: str, **more: Any) -> Event:
        parts = (Part(text=text),) if text else ()
        role = "user" if author == "user" else "model"
        return Event(
            author=author, content=Content(role=role, parts=parts) if parts else None,
            invocation_id=invocation, id=f"e{number}", timestamp=float(number), **more,
        )  # fmt: skip

    summary = Compaction(3.0, 4.0, Content(role="model", parts=(Part(text="They spoke."),)))
    events = [
        said(1, "user", "One.", "i1"),
        said(2, "bot", "1", "i1"),
        said(3, "user", "Two.", "i2"),
        said(4, "bot", "2", "i2"),
        said(5, "user", "Three.", "i3"),
        said(6, "user", "", "i4", actions=Actions(rewind_before_invocation_id="i3")),
        said(7, "user", "Drei.", "i5"),
        said(8, "bot", "3", "i5"),
        said(9, "user", "", "i6", actions=Actions(compaction=summary)),
        said(10, "user", "Four.", "i7"),
        said(11, "user", "Four!", "i7"),
        said(12, "bot", "4", "i7"),
        said(13, "bot", "4 indeed", "i7"),
        said(14, "user", "Five.", "i8"),
    ]
    agent = Agent("bot", model=ScriptedModel([], dialect=dialect))
    checker = RequestChecker(dialect)
    session = Session("s")
    texts: list[str] = []
    for event in events:
        session = session.append(event)
        compiled = weft.compile(agent, session=session)
        checker.check(compiled.prompt, compiled.wire)
        texts.append(str(compiled.wire))
    assert "Three" in texts[4]
    assert "Drei" in texts[6]
    assert "Three" not in texts[6]
    assert "They spoke" in texts[8]
    assert "Continue." in texts[11]
    assert "Continue." not in texts[-1]


@every_dialect
def test_branches_that_run_side_by_side_have_prefixes_of_their_own(dialect: str) -> None:
    def said(number: int, author: str, branch: str | None, text: str) -> Event:
        role = "user" if author == "user" else "model"
        return Event(
            author=author, content=Content(role=role, parts=(Part(text=text),)), branch=branch,
            invocation_id="i1", id=f"e{number}", timestamp=float(number),
        )  # fmt: skip

    agent = Agent("bot", model=ScriptedModel([], dialect=dialect))
    checker = RequestChecker(dialect)
    session = Session("s", events=[said(1, "user", None, "Go.")])
    sent: dict[str, weft.Compiled] = {}
    for number in range(2, 20):
        branch = ("fan.left", "fan.right", "fan")[number % 3]
        for one in ("fan.left", "fan.right"):
            sent[one] = weft.compile(agent, session=session, branch=one)
            checker.check(sent[one].prompt, sent[one].wire)
        session = session.append(said(number, "bot", branch, f"word {number}"))
    turns = turns_of(sent["fan.left"].wire, dialect)
    changed = [*turns[:-2], {**turns[-2], "extra": 1}, turns[-1]]
    with pytest.raises(IllegalRequest, match="reads differently now"):
        checker.check(sent["fan.left"].prompt, {**sent["fan.left"].wire, KEY[dialect]: changed})


@every_dialect
def test_a_turn_is_read_once_however_long_the_session_is(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counting(self: Any, turn: Wire, where: str) -> Any:
        read.append(where)
        return honest(self, turn, where)

    honest = type(DIALECTS[dialect]).outline
    monkeypatch.setattr(type(DIALECTS[dialect]), "outline", counting)
    checker = RequestChecker(dialect)
    events: list[Event] = []
    for number in range(60):
        events += log(
            ("user", f"Question {number}"),
            ("bot", call_part("lookup", {"key": "a"}, id=f"c{number}")),
            ("bot", result_part("lookup", {"result": "1"}, id=f"c{number}")),
            ("bot", f"Answer {number}"),
        )
    events = [
        Event(author=e.author, content=e.content, invocation_id="i1", id=f"e{n}", timestamp=n)
        for n, e in enumerate(events)
    ]
    made = requests(dialect, events)
    for compiled in made:
        checker.check(compiled.prompt, compiled.wire)
    assert len(made) == 120
    assert len(read) <= 2 * len(turns_of(made[-1].wire, dialect))


VIEWS: dict[str, dict[str, Any]] = {
    "default": {},
    "none": {"context": C.none()},
    "both": {"context": C.default().keep_duplicates()},
    "budget": {"context_compressor": TokenBudget(token_budget=150, keep_recent=1)},
}


@every_dialect
@pytest.mark.parametrize("view", VIEWS)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(events=logs(), branch=st.sampled_from([None, "fan.left"]), shared=st.booleans())
def test_whatever_the_compiler_makes_of_a_log_passes(
    view: str, dialect: str, events: list[Event], branch: str | None, shared: bool
) -> None:
    agent = Agent(
        "bot",
        model=ScriptedModel([], dialect=dialect),
        instruction="The intent is {intent?}. Mood: {mood?}",
        **VIEWS[view],
    )
    checker = RequestChecker(dialect)
    session = Session("s")
    for event in events:
        session = session.append(event)
        read = session if shared else Session.from_json(session.to_json())
        try:
            compiled = weft.compile(agent, session=read, branch=branch)
        except BudgetExceeded:
            continue
        checker.check(compiled.prompt, compiled.wire)


@every_dialect
@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=40
)
@given(events=logs(("bot",)), data=st.data())
def test_a_fault_planted_anywhere_is_found(
    dialect: str, events: list[Event], data: st.DataObject
) -> None:
    compiled = weft.compile(
        Agent("bot", model=ScriptedModel([], dialect=dialect)), session=Session("s", events=events)
    )
    wire = copy.deepcopy(compiled.wire)
    found = found_in(wire, dialect)
    kind = data.draw(st.sampled_from(("call", "result", "id", "text", "twice")))
    places = found.texts if kind == "text" else found.calls if kind == "call" else found.results
    places = [place for place in places if "thoughtSignature" not in place.holder]
    assume(places)  # a signature may stand alone
    place = data.draw(st.sampled_from(places))
    if kind == "text":
        place.value = ""
    elif kind == "id":
        held = inner(place, dialect)
        held[RESULT_ID[dialect]] = f"{held.get(RESULT_ID[dialect])}_other"
    elif kind == "twice":
        assert isinstance(place.holder, list)
        place.holder.insert(place.key, copy.deepcopy(place.value))
    else:
        place.drop()
    with pytest.raises(IllegalRequest) as caught:
        RequestChecker(dialect).check(compiled.prompt, wire)
    assert caught.value.where.startswith(f"/{KEY[dialect]}/")
