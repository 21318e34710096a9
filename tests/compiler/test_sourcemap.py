"""Every character of a request has an origin."""

import json

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.build import calls, returns, says, session, user
from tests.support.strategies import logs
from weft import Agent, Event, RunConfig, Session
from weft.compiler import compile_request as compile
from weft.dialects import DIALECTS
from weft.dialects.wire import escape
from weft.errors import UsageError
from weft.values import Json


def look(q: str) -> str:
    """Look something up."""
    return q


BOT = Agent(
    "bot",
    model="gemini-flash-latest",
    description="Answers things",
    instruction="The user is in {city}. Be {tone?}brief. {unknown}",
    global_instruction="House: {house}",
    tools=[look],
    sub_agents=[Agent("other", description="Does other things")],
    output_schema={"type": "object", "properties": {"a": {"type": "string"}}},
    generate_config={"temperature": 0.3, "max_output_tokens": 100},
)
STATE: dict[str, Json] = {"city": 'Os"lo\n', "house": "be kind"}


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(events=logs())
def test_every_character_resolves_to_an_origin(dialect: str, events: list[Event]) -> None:
    compiled = compile(BOT, session=Session("s", state=STATE, events=events))
    text = json.dumps(compiled.lower(dialect), ensure_ascii=False, separators=(",", ":"))
    at = 0
    for segment in compiled.source_map(dialect).segments():
        assert segment.start == at
        assert segment.end > segment.start or text[at : at + 2] == '""'
        assert segment.origin.kind
        at = segment.end
    assert at == len(text)


@pytest.mark.parametrize("model", ["claude-opus-5", "gpt-5", "gemini-3-pro", "openai-chat/gpt-5"])
def test_segments_follow_each_other_where_the_system_text_is_split_for_the_cache(
    model: str,
) -> None:
    agent = Agent("bot", model=model, instruction="You help in {city?}.", description="Helps")
    compiled = compile(agent, session=Session("s", state=STATE), message="Hi")
    at = 0
    for segment in compiled.source_map().segments():
        assert segment.start == at
        at = segment.end
    assert at == len(json.dumps(compiled.wire, ensure_ascii=False, separators=(",", ":")))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
@given(events=logs())
def test_text_of_the_log_resolves_to_its_event(dialect: str, events: list[Event]) -> None:
    compiled = compile(BOT, session=Session("s", state=STATE, events=events))
    known = {event.id for event in events}
    for pointer, value in leaves(compiled.lower(dialect)[DIALECTS[dialect].traits.turns]):
        place = f"/{DIALECTS[dialect].traits.turns}{pointer}"
        origin = compiled.origin(place, dialect=dialect)
        if origin.kind == "event":
            assert origin.name in known
        elif len(value) > 40:
            assert origin.kind in ("pass", "field", "state")


def leaves(value: Json, pointer: str = "") -> list[tuple[str, str]]:
    """Every string of a value with its pointer."""
    if isinstance(value, str):
        return [(pointer, value)]
    if isinstance(value, dict):
        return [x for k, v in value.items() for x in leaves(v, f"{pointer}/{escape(k)}")]
    if isinstance(value, list):
        return [x for i, v in enumerate(value) for x in leaves(v, f"{pointer}/{i}")]
    return []


def test_places_resolve_to_field_and_span_state_event_tool_and_option() -> None:
    log = session(
        user("Hi"),
        calls("bot", "look", {"q": "x"}, "c1"),
        returns("bot", "look", {"n": 1}, "c1"),
        **STATE,
    )
    run = RunConfig(generate_config={"temperature": 0.1})
    compiled = compile(BOT, session=log, config=run)
    system = compiled.system
    at = "/systemInstruction/parts/0/text"
    where = {
        "be kind": "state house",
        "House: ": "bot.global_instruction:0",
        "You are bot.": "bot.name",
        "Answers things": "bot.description",
        "brief.": "bot.instruction:33",
        "{unknown}": "bot.instruction:40",
        "- other": "bot.sub_agents",
    }
    for text, origin in where.items():
        assert str(compiled.origin(at, system.index(text))) == origin
    assert compiled.origin("/contents/0/parts/0/text").name == log.events[0].id
    assert compiled.origin("/contents/1/parts/0/functionCall/args/q").name == log.events[1].id
    assert str(compiled.origin("/tools/0/functionDeclarations/0/name")) == "bot.tools.look"
    assert str(compiled.origin("/generationConfig/temperature")) == "config temperature"
    assert str(compiled.origin("/generationConfig/maxOutputTokens")) == "bot.generate_config"
    assert compiled.origin("/contents/0/role").kind == "dialect"


def test_the_message_and_other_dialects_resolve_too() -> None:
    compiled = compile(BOT, state=STATE, message="Where am I?")
    assert compiled.origin("/messages/0/content", dialect="anthropic").name == "message"
    assert str(compiled.origin("/messages/0/content", dialect="openai-chat")).startswith("bot.")
    narrated = compile(BOT, session=session(user("Hi"), says("other", "Yo"), **STATE))
    assert narrated.origin("/contents/0/parts/1/text").agent == "other"


@pytest.mark.parametrize("pointer", ["contents", "/nothing", "/contents/99", "/contents/x"])
def test_a_place_that_is_not_there_is_a_usage_error(pointer: str) -> None:
    with pytest.raises(UsageError):
        compile(BOT, state=STATE, message="Hi").origin(pointer)
