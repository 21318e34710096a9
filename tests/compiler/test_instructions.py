"""I1 to I4 and T7, T8: the system instruction, and who may write it."""

import doctest
import logging
import sys
import types
from typing import cast

import pytest
from inline_snapshot import snapshot

import weft
from tests.support.build import make_event
from weft import Agent, Raw, ReadonlyContext, RunConfig, Session
from weft import instructions as public
from weft.compiler import compile_request
from weft.errors import CompileError, SessionError, WeftError
from weft.testing import make_session
from weft.tokens import counter_for

MODEL = "gemini-flash-latest"

weather = Agent("weather", description="Handles weather-related questions")
news = Agent("news", description="Handles news-related questions")
router = Agent(
    "router",
    model=MODEL,
    instruction="Route requests to the right specialist.",
    sub_agents=[weather, news],
)


def formal(context: ReadonlyContext, *extra: str) -> str:
    return f"{context.agent_name} is {' and '.join(extra) or 'plain'} for {{who}}."


# The examples of the seeds.


def test_I1_the_greeter_is_told_name_and_language() -> None:
    greeter = Agent(
        "greeter",
        model=MODEL,
        instruction="Greet the user. Their name is {user_name} and they speak {language}.",
    )
    compiled = compile_request(greeter, state={"user_name": "Alice", "language": "French"})
    assert compiled.system == (
        "You are greeter.\n\nGreet the user. Their name is Alice and they speak French."
    )


def test_I1_the_router_is_told_its_specialists() -> None:
    assert compile_request(router, message="Hi").system == snapshot("""\
You are router.

Route requests to the right specialist.

You can delegate tasks to the following agents using the transfer_to_agent tool:
- weather: Handles weather-related questions
- news: Handles news-related questions\
""")
    assert compile_request(router).tools == ["transfer_to_agent"]


def test_I1_the_weather_bot_compiles_to_one_request() -> None:
    def get_weather(city: str) -> dict[str, str]:
        """Current weather for a city."""
        return {"city": city}

    bot = Agent(
        "weather_bot",
        model=MODEL,
        instruction="You help users with weather. The user is in {location}.",
        description="Helps users with weather queries.",
        tools=[get_weather],
        sub_agents=[Agent("detail_agent")],
        generate_config={"temperature": 0.3},
    )
    compiled = compile_request(bot, state={"location": "NYC"}, message="What's the forecast?")
    assert public.compile(bot, {"location": "NYC"}) == snapshot("""\
You are weather_bot. Helps users with weather queries.

You help users with weather. The user is in NYC.

You can delegate tasks to the following agents using the transfer_to_agent tool:
- detail_agent\
""")
    assert compiled.tools == ["get_weather", "transfer_to_agent"]
    assert compiled.wire["contents"] == [
        {"role": "user", "parts": [{"text": "What's the forecast?"}]}
    ]
    assert compiled.wire["generationConfig"] == {"temperature": 0.3}
    assert not compiled.diagnostics


def test_T8_the_doctests_of_the_public_functions_hold() -> None:
    assert doctest.testmod(sys.modules["weft.instructions"]) == (0, 3)


def test_T8_the_four_functions_are_public() -> None:
    assert public.__all__ == ["compile", "compile_split", "resolve_provider", "substitute_vars"]
    assert weft.instructions is public


# I1: the parts.


def test_I1_parts_come_in_order_joined_by_one_blank_line() -> None:
    agent = Agent(
        "bot",
        model="google/gemma-3",
        description="Helps.",
        instruction="Be kind.",
        global_instruction="Speak {language}.",
        output_schema={"type": "object", "properties": {"a": {"type": "integer"}}},
        sub_agents=[weather],
    )
    assert public.compile(agent, {"language": "French"}) == snapshot("""\
Speak French.

You are bot. Helps.

Be kind.

Reply with valid JSON matching this schema: {"type":"object","properties":{"a":{"type":"integer"}}}

You can delegate tasks to the following agents using the transfer_to_agent tool:
- weather: Handles weather-related questions\
""")


def test_I1_empty_parts_are_dropped() -> None:
    agent = Agent("bot", instruction="{nothing?}", global_instruction="")
    assert public.compile(agent) == "You are bot."
    assert compile_request(agent, state={}).system == "You are bot."


def test_I1_the_roots_global_instruction_holds_for_every_agent_of_the_tree() -> None:
    leaf = Agent("leaf", global_instruction="Never mine.")
    root = Agent(
        "root",
        global_instruction="Speak {language}.",
        sub_agents=[Agent("middle", sub_agents=[leaf])],
    )
    for name in ("root", "middle", "leaf"):
        system = compile_request(root, agent=name, state={"language": "French"}).system
        assert "Speak French." in system
        assert "Never mine." not in system
    assert public.compile(leaf, {"language": "French"}, root=root).startswith("Speak French.\n\n")


@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-5", "gpt-5"])
def test_I1_schema_text_is_written_only_where_nothing_else_can_carry_it(model: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    agent = Agent("bot", model=model, output_schema=schema, sub_agents=[weather])
    assert "Reply with valid JSON" not in compile_request(agent).system


def test_I1_an_agent_outside_the_roots_tree_is_refused() -> None:
    with pytest.raises(CompileError, match="`weather` is not an agent of that root's tree"):
        public.compile(weather, root=Agent("other"))


# I2: order by derived stability.


def test_I2_an_instruction_without_variables_keeps_the_seed_order() -> None:
    agent = router.instruct("Be {{literal}}.").describe("Routes.")
    assert compile_request(agent).system == public.compile(agent)


def test_I2_what_changes_with_the_session_goes_last() -> None:
    agent = Agent(
        "bot", instruction="In {city}.", global_instruction="For {who}.", sub_agents=[weather]
    )
    state = {"city": "Oslo", "who": "Ada"}
    assert public.compile(agent, state).split("\n\n")[0] == "For Ada."
    parts = compile_request(agent, state=state).system.split("\n\n")
    assert [part.split()[0] for part in parts] == ["You", "You", "For", "In"]
    assert parts[1].startswith("You can delegate")


@pytest.mark.parametrize(
    "volatile",
    [
        lambda context: "At noon.",
        "It is {temp:noon}.",
        "Read {artifact.note}.",
        "The intent is {intent}.",
    ],
)
def test_I2_what_changes_with_the_turn_goes_behind_what_changes_with_the_session(
    volatile: object,
) -> None:
    agent = Agent(
        "bot",
        model="gemini-flash-latest",
        instruction="In {city}.",
        global_instruction=volatile,  # type: ignore[arg-type]
    )
    session = Session(
        state={"city": "Oslo", "temp:noon": "noon", "intent": "none"},
        events=[
            make_event("user", "Hi", inv="i"),
            make_event("bot", "book", inv="i", writes={"intent": "book"}),
        ],
    )
    compiled = compile_request(agent, session=session, artifacts={"note": "it"})
    assert [part.split()[0] for part in compiled.system.split("\n\n")][:2] == ["You", "In"]


# I3: static and dynamic.


def test_I3_split_gives_static_and_dynamic_text() -> None:
    agent = Agent(
        "bot",
        instruction="In {city}.",
        global_instruction="Be kind.",
        sub_agents=[weather],
    )
    static, dynamic = public.compile_split(agent, {"city": "Oslo"})
    assert static == snapshot("""\
Be kind.

You are bot.

You can delegate tasks to the following agents using the transfer_to_agent tool:
- weather: Handles weather-related questions\
""")
    assert dynamic == "In Oslo."


@pytest.mark.parametrize("instruction", ["For {who}.", lambda context: "For Ada."])
def test_I3_a_static_part_that_varies_moves_to_dynamic(instruction: object) -> None:
    agent = Agent("bot", global_instruction=instruction)  # type: ignore[arg-type]
    assert public.compile_split(agent, {"who": "Ada"}) == ("You are bot.", "For Ada.")


def test_I3_an_instruction_without_variables_is_dynamic_too() -> None:
    assert public.compile_split(Agent("bot", instruction="Be kind.")) == (
        "You are bot.",
        "Be kind.",
    )


def test_I3_both_are_always_text() -> None:
    assert public.compile_split(Agent("bot")) == ("You are bot.", "")


def test_I3_split_loses_and_adds_nothing() -> None:
    static, dynamic = public.compile_split(router)
    together = public.compile(router)
    assert sorted([*static.split("\n\n"), *dynamic.split("\n\n")]) == sorted(together.split("\n\n"))


# I4: transfer text.


@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-5", "gpt-5"])
def test_I4_transfer_text_takes_about_thirty_tokens_for_three_targets(model: str) -> None:
    targets = [weather, news, Agent("billing", description="Answers questions about invoices")]
    text = public.compile(Agent("router", sub_agents=targets)).split("\n\n")[-1]
    count = counter_for(model).count
    names = sum(count(t.name) + count(t.description) for t in targets)
    assert count(text) - names <= 33


def test_I4_a_description_of_several_lines_is_one_line() -> None:
    target = Agent("helper", description="Helps\n  with   things.\n")
    assert public.compile(Agent("root", sub_agents=[target])).splitlines()[-1] == (
        "- helper: Helps with things."
    )


# T7: providers.


class Prompts:
    """Something with a method that writes instructions."""

    def build(self, context: ReadonlyContext, *extra: str) -> str:
        return formal(context, *extra)


class Callable:
    async def __call__(self, context: ReadonlyContext) -> str:
        return formal(context)


async def later(context: ReadonlyContext) -> str:
    return formal(context)


async def later_with(context: ReadonlyContext, tone: str) -> str:
    return formal(context, tone)


MODULE = types.ModuleType("prompts")
MODULE.build = formal  # type: ignore[attr-defined]
MODULE.later = later_with  # type: ignore[attr-defined]

PROVIDERS = [
    (formal, "bot is plain for Ada."),
    (lambda context: formal(context), "bot is plain for Ada."),
    (later, "bot is plain for Ada."),
    (Callable(), "bot is plain for Ada."),
    ((MODULE, "build"), "bot is plain for Ada."),
    ((MODULE, "build", ["kind", "formal"]), "bot is kind and formal for Ada."),
    ((MODULE, "build", ("kind",)), "bot is kind for Ada."),
    ((MODULE, "later", ["formal"]), "bot is formal for Ada."),
    ((Prompts(), "build"), "bot is plain for Ada."),
    ((Prompts(), "build", ["formal"]), "bot is formal for Ada."),
    ("bot is text for {who}.", "bot is text for Ada."),
]


@pytest.mark.parametrize("field", ["instruction", "global_instruction"])
@pytest.mark.parametrize(("provider", "expected"), PROVIDERS)
def test_T7_every_form_of_provider_is_called_and_templated(
    provider: object, expected: str, field: str
) -> None:
    agent = Agent("bot", **{field: provider})  # type: ignore[arg-type]
    compiled = compile_request(agent, state={"who": "Ada"})
    assert compiled.system == f"You are bot.\n\n{expected}"
    assert expected in public.compile(agent, {"who": "Ada"})


@pytest.mark.parametrize(("provider", "expected"), PROVIDERS)
async def test_T7_providers_also_work_where_a_loop_already_runs(
    provider: object, expected: str
) -> None:
    agent = Agent("bot", instruction=provider)  # type: ignore[arg-type]
    assert compile_request(agent, state={"who": "Ada"}).system.endswith(expected)


def test_T8_a_provider_resolves_to_its_text_before_templating() -> None:
    assert public.resolve_provider(lambda context: "Hi {who}", {"who": "Ada"}) == "Hi {who}"
    assert public.resolve_provider((MODULE, "build", ["x"])) == " is x for {who}."
    assert public.resolve_provider("as it is") == "as it is"
    assert public.resolve_provider(None) == ""


def test_T7_a_provider_is_handed_a_read_only_context() -> None:
    seen: list[ReadonlyContext] = []

    def look(context: ReadonlyContext) -> str:
        seen.append(context)
        return ""

    session = Session(
        state={"k": "v"},
        events=[make_event("user", "Hi", inv="i"), make_event("bot", "Hello", inv="i")],
    )
    compile_request(Agent("bot", instruction=look), session=session, message="And now?")
    (context,) = seen
    assert context.agent_name == "bot"
    assert dict(context.state) == {"k": "v"}
    assert [event.text for event in context.events] == ["Hi", "Hello", "And now?"]
    assert context.user_content is not None
    assert context.user_content.text == "And now?"
    with pytest.raises(TypeError):
        context.state["k"] = "w"  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, "7"), (None, ""), ("", ""), (["a"], "['a']"), (Raw("{who}"), "{who}")],
)
def test_T7_the_result_is_coerced_to_text(value: object, expected: str) -> None:
    agent = Agent("bot", instruction=lambda context: value)
    system = compile_request(agent, state={"who": "Ada"}).system
    assert system == (f"You are bot.\n\n{expected}" if expected else "You are bot.")


@pytest.mark.parametrize("text", ["{who}", "{{who}}", "{{{who}}}", '{"a": {who?}}', "plain", ""])
def test_T7_raw_text_is_not_templated(text: str) -> None:
    async def raw(context: ReadonlyContext) -> Raw:
        return Raw(text)

    for provider in (lambda context: Raw(text), raw):
        compiled = compile_request(Agent("bot", instruction=provider), state={"who": "Ada"})
        assert compiled.prompt.system[-1].text == (text or "You are bot.")


def test_T7_a_provider_is_called_exactly_once_per_compilation() -> None:
    calls: list[str] = []

    def instruct(context: ReadonlyContext) -> str:
        calls.append("instruction")
        return "{who}"

    def everyone(context: ReadonlyContext) -> str:
        calls.append("global")
        return "All."

    agent = Agent("bot", model=MODEL, instruction=instruct, global_instruction=everyone)
    compiled = compile_request(agent, state={"who": "Ada"}, message="Hi")
    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        compiled.lower(dialect)
    assert compiled.system
    assert compiled.tokens
    assert compiled.hash
    assert compiled.diagnostics == ()
    assert compiled.stable_prefix
    assert sorted(calls) == ["global", "instruction"]
    compile_request(agent, state={"who": "Ada"})
    assert sorted(calls) == ["global", "global", "instruction", "instruction"]


def test_T7_a_provider_that_raises_is_logged_and_contributes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(context: ReadonlyContext) -> str:
        raise KeyError("clock")

    agent = Agent("bot", model=MODEL, instruction=broken, global_instruction="Be kind.")
    with caplog.at_level(logging.WARNING, logger="weft"):
        compiled = compile_request(agent, message="Hi")
    assert compiled.system == "Be kind.\n\nYou are bot."
    (found,) = compiled.diagnostics
    assert (found.code, str(found.origin)) == ("WEFT102", "bot.instruction")
    assert "KeyError: 'clock'" in found.message
    assert "on_provider_error" in found.hint
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert public.resolve_provider(broken) == ""


def test_T7_a_provider_that_cannot_be_called_says_how_it_is_called() -> None:
    class Texts:
        @staticmethod
        def say(context: ReadonlyContext) -> str:
            return ""

    def hint(provider: object) -> str:
        compiled = compile_request(Agent("bot", instruction=cast("str", provider)))
        (problem,) = compiled.diagnostics
        assert problem.code == "WEFT102"
        return problem.hint

    assert hint(lambda: "Be brief.").endswith('def instruction(context): return "..."')
    assert "def instruction(context, extra_1):" in hint((Texts, "say", ["loud"]))
    assert hint(lambda context: context.state["no"]).startswith("mend it")


@pytest.mark.parametrize("kind", ["sync", "async", "arity"])
@pytest.mark.parametrize("by", ["agent", "run"])
def test_T7_on_provider_error_raise_propagates(kind: str, by: str) -> None:
    def broken(context: ReadonlyContext) -> str:
        raise LookupError("clock")

    async def broken_later(context: ReadonlyContext) -> str:
        raise LookupError("clock")

    def of_two(context: ReadonlyContext, other: str) -> str:
        return ""

    provider = {"sync": broken, "async": broken_later, "arity": of_two}[kind]
    agent = Agent(
        "bot", instruction=provider, on_provider_error="raise" if by == "agent" else "log"
    )
    config = RunConfig(on_provider_error="raise") if by == "run" else None
    with pytest.raises((LookupError, TypeError)):
        compile_request(agent, config=config)


@pytest.mark.parametrize(
    "text", ["At noon, {who}.", "", Raw("At {who}."), Raw("{{who}} {who?} {"), Raw("{ who }")]
)
def test_T7_recorded_texts_rebuild_the_request_without_asking_again(text: str | Raw) -> None:
    calls: list[int] = []

    def provider(context: ReadonlyContext) -> str | Raw:
        calls.append(1)
        return text

    agent = Agent("bot", model=MODEL, instruction=provider, global_instruction=provider)
    first = compile_request(agent, state={"who": "Ada"}, message="Hi")
    again = compile_request(agent, state={"who": "Ada"}, message="Hi", recorded=first.provided)
    assert len(calls) == 2
    assert again.system == first.system
    assert again.hash == first.hash
    assert again.provided == first.provided


def test_T7_plain_text_is_not_recorded() -> None:
    assert compile_request(Agent("bot", instruction="{who}"), state={"who": "Ada"}).provided == {}


# The environment.


def test_T8_an_environment_is_a_mapping_a_session_a_context_or_nothing() -> None:
    agent = Agent("bot", instruction="For {who?}.")
    state = {"who": "Ada"}
    for env in (state, Session(state=state), ReadonlyContext(state=state)):
        assert public.compile(agent, env) == "You are bot.\n\nFor Ada."
    assert public.compile(agent) == "You are bot.\n\nFor ."


def test_T8_an_environment_that_is_not_json_is_refused_by_name() -> None:
    with pytest.raises(SessionError) as caught:
        public.compile(Agent("bot"), {"who": object()})  # type: ignore[dict-item]
    assert caught.value.where == "env.who"


def test_every_piece_of_text_keeps_its_place() -> None:
    agent = Agent("bot", model=MODEL, instruction="Hi {who}!", description="Helps.")
    compiled = compile_request(agent, state={"who": "Ada"}, message="Hi")
    text = compiled.system
    pointer = "/systemInstruction/parts/0/text"
    found = {
        word: str(compiled.origin(pointer, text.index(word)))
        for word in ("You", "Helps", "Hi", "Ada", "!")
    }
    assert found == snapshot(
        {
            "You": "bot.name",
            "Helps": "bot.description",
            "Hi": "bot.instruction:0",
            "Ada": "state who",
            "!": "bot.instruction:8",
        }
    )


@pytest.mark.parametrize(
    "agent",
    [
        Agent("bot", model=MODEL, instruction="half \ud83d"),
        Agent("bot", model=MODEL, instruction=lambda context: Raw("half \ud83d")),
        Agent("bot", model=MODEL, description="half \ud83d"),
        Agent("bot", model=MODEL, sub_agents=[Agent("other", description="half \ud83d")]),
        Agent("bot", model=MODEL, instruction="{half}"),
    ],
)
def test_a_lone_surrogate_is_mended_and_said_wherever_it_stands(agent: Agent) -> None:
    compiled = compile_request(agent, state={"half": "half \ud83d"}, message="Hi")
    assert "half \ufffd" in compiled.system
    assert {found.code for found in compiled.diagnostics} == {"WEFT204"}
    compiled.system.encode()


def test_every_error_of_ours_can_be_caught_as_one() -> None:
    with pytest.raises(WeftError):
        compile_request(Agent("bot", instruction="{x}", on_missing="error"))


def test_T7_a_provider_cannot_reach_into_the_session() -> None:
    def greedy(context: ReadonlyContext) -> str:
        held = context.state["order"]
        assert isinstance(held, dict)
        held["id"] = 9
        return "Order {order.id}"

    session = Session("s", state={"order": {"id": 7}})
    compiled = compile_request(Agent("bot", model=MODEL, instruction=greedy), session=session)
    assert compiled.system.endswith("Order 7")
    assert session.state == {"order": {"id": 7}}


def test_T7_what_raw_holds_is_coerced_too() -> None:
    agent = Agent("bot", model=MODEL, instruction=lambda context: Raw(5))  # type: ignore[arg-type]
    assert compile_request(agent, message="Hi").system.endswith("\n\n5")


@pytest.mark.parametrize(
    ("text", "mapping", "message"),
    [(5, {}, "an int is not text"), ("{a}", None, "None is not a mapping")],
)
def test_T8_substitute_vars_says_what_it_cannot_take(
    text: object, mapping: object, message: str
) -> None:
    with pytest.raises(CompileError, match=message):
        public.substitute_vars(text, mapping)  # type: ignore[arg-type]


def test_T8_only_an_agent_has_instructions() -> None:
    with pytest.raises(CompileError, match="a str is not an agent"):
        public.compile("bot", {})  # type: ignore[arg-type]


def test_I1_a_global_instruction_below_the_root_is_reported() -> None:
    root = Agent("root", model=MODEL, sub_agents=[Agent("child", global_instruction="Be odd.")])
    compiled = compile_request(root, agent="child", message="Hi")
    assert "Be odd." not in compiled.system
    assert [d.code for d in compiled.diagnostics] == ["WEFT103"]


def test_T7_the_report_does_not_ask_a_provider_again_for_the_request_before() -> None:
    asked: list[int] = []

    def counting(context: ReadonlyContext) -> str:
        asked.append(1)
        return f"Call {len(asked)}."

    agent = Agent("bot", model=MODEL, instruction=counting)
    log = make_session(("user", "Hi"))
    first = compile_request(agent, session=log)
    later = make_session(("user", "Hi"), ("bot", "Hello"), ("user", "And?")).events
    second = compile_request(agent, session=log.append(*later[1:]))
    assert second.prefix_break is not None
    assert len(asked) == 2
    assert second.previous is not None
    assert second.previous.hash == first.hash


def test_an_extra_for_no_dialect_is_reported() -> None:
    agent = Agent("bot", model=MODEL, generate_config={"extra": {"gemni": {"a": 1}}})
    (found,) = compile_request(agent, message="Hi").diagnostics
    assert found.code == "WEFT702"
    assert "`gemni`, which is not a dialect" in found.message


def test_a_changed_wire_does_not_change_the_declaration() -> None:
    agent = Agent("bot", model=MODEL, generate_config={"stop_sequences": ["END"]})
    wire = compile_request(agent, message="Hi").wire
    wire["generationConfig"]["stopSequences"].append("X")  # type: ignore[index, call-overload, union-attr]
    assert agent.generate_config == {"stop_sequences": ["END"]}


def test_an_agent_without_identity_says_only_its_instruction() -> None:
    named = Agent("bot", description="Helps.", instruction="Be short.")
    bare = Agent("bot", description="Helps.", instruction="Be short.", identity=False)
    assert weft.compile(named, message="Hi").system == "You are bot. Helps.\n\nBe short."
    assert weft.compile(bare, message="Hi").system == "Be short."
    assert weft.compile(Agent("bot", identity=False), message="Hi").system == ""
