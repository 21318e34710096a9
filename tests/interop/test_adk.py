"""google-adk: its agents as declarations, and what checking them says."""

from typing import Any

import pytest

import weft
from tests.interop.kit import REAL, find_homes
from tests.interop.shapes import SHAPES, add_to_cart, llm
from weft import Agent, Severity, WeftError
from weft.declare import agents_of
from weft.interop.adk import check_adk, from_adk, imported
from weft.interop.adk.objects import spell_template

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def built(name: str) -> Any:
    return SHAPES[name].build()


def bad(source: Any, **given: Any) -> set[str]:
    """The codes of what a check finds of warning or above."""
    return {d.code for d in check_adk(source, **given) if d.severity is not Severity.INFO}


def only(source: Any, code: str) -> list[weft.Diagnostic]:
    return [d for d in check_adk(source) if d.code == code]


def test_there_are_more_than_twenty_shapes() -> None:
    assert len(SHAPES) >= 20


@pytest.mark.parametrize("name", SHAPES)
def test_a_sample_is_imported_and_checked_with_what_it_deserves(name: str) -> None:
    source = built(name)
    assert bad(source) == SHAPES[name].found


@pytest.mark.parametrize("name", SHAPES)
def test_every_agent_of_a_sample_compiles(name: str) -> None:
    node = from_adk(built(name))
    homes = find_homes(node)
    assert {agent.name for agent in agents_of(node)} == set(homes)
    for agent, home in homes.items():
        compiled = weft.compile(home, agent=agent, message="Hello, who are you?")
        assert compiled.prompt.agent == agent
        assert "Hello, who are you?" in str(compiled.wire)
        assert compiled.explain().tokens > 0


def test_fields_are_carried_over() -> None:
    agent = from_adk(built("generation_options"))
    assert isinstance(agent, Agent)
    assert agent.generate_config == {
        "temperature": 0.2,
        "top_k": 40,
        "max_output_tokens": 256,
        "stop_sequences": ["END"],
        "presence_penalty": 0.1,
        "thinking": {"budget": 128},
    }
    assert agent.model == "gemini-2.5-flash"


def test_a_tool_has_the_schema_of_its_function_without_the_context() -> None:
    agent = from_adk(built("function_tools"))
    assert isinstance(agent, Agent)
    weather, cart = agent.tools
    assert weather.parameters["required"] == ["city"]
    assert list(cart.parameters["properties"]) == ["item"]  # type: ignore[call-overload]
    assert cart.reads == ("cart",)
    assert cart.writes == ("cart",)


def test_tools_keep_what_the_runtime_must_know() -> None:
    waiting, confirmed = (from_adk(built(name)) for name in ("long_running", "confirmed_tool"))
    assert isinstance(waiting, Agent)
    assert isinstance(confirmed, Agent)
    assert waiting.tools[0].long_running
    assert confirmed.tools[0].confirm


def test_an_agent_tool_is_an_agent() -> None:
    guide = from_adk(built("agent_as_tool"))
    assert isinstance(guide, Agent)
    capital = guide.tools[0]
    assert isinstance(capital.agent, Agent)
    assert list(capital.parameters["properties"]) == ["country"]  # type: ignore[call-overload]


def test_a_model_is_inherited_from_the_agent_above() -> None:
    top = from_adk(built("inherited_model"))
    assert [agent.model for agent in agents_of(top)] == ["gemini-2.5-flash"] * 2


def test_a_global_instruction_of_the_app_reaches_every_agent() -> None:
    root = from_adk(built("app_with_plugins"))
    assert isinstance(root, Agent)
    for agent in ("root", "helper"):
        system = weft.compile(root, agent=agent, state={"mood": "kind"}).system
        assert "Be kind and brief." in system


def test_an_instruction_provider_is_asked_and_its_braces_stay() -> None:
    agent = from_adk(built("instruction_provider"))
    assert isinstance(agent, Agent)
    system = weft.compile(agent, state={"company": "Acme", "braces": "no"}).system
    assert "You work for Acme. Keep {braces}." in system


def test_a_static_instruction_is_sent_literally() -> None:
    agent = from_adk(built("static_instruction"))
    assert isinstance(agent, Agent)
    system = weft.compile(agent, state={"mood": "glad", "answer": "no"}).system
    assert "Answer as JSON: {answer}\n\nNow: glad." in system


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("{name}", "Ada"),
        ("{{name}}", "Ada"),
        ("{ name }", "Ada"),
        ("{name}}", "Ada"),
        ("${name}", "${name}"),
        ("\\{name}", "\\{name}"),
        ("${{name}}", "${{name}}"),
        ("{order.total}", "{order.total}"),
        ("{order[0]}", "{order[0]}"),
        ("{user:name}", "Bob"),
        ("{gone?}.", "."),
        ('{"name": 1}', '{"name": 1}'),
        ("{} {a b} {a-b}", "{} {a b} {a-b}"),
        ('{"a": {name}}', '{"a": Ada'),
        ("{\nname\n}", "Ada"),
    ],
)
def test_a_template_is_read_as_google_adk_reads_it(text: str, sent: str) -> None:
    state = {"name": "Ada", "user:name": "Bob", "order": {"total": 3}}
    agent = from_adk(llm("bot", f"Say {text}"))
    assert isinstance(agent, Agent)
    assert weft.compile(agent, state=state).system.endswith(f"Say {sent}")


def test_a_place_is_where_its_author_wrote_it() -> None:
    text = "Use ${one} and {{two}} and {a.b} before {three}."
    moved = spell_template(text)
    at = moved.text.index("{three}")
    start, end = moved.place(at, at + len("{three}"))
    assert text[start:end] == "{three}"
    two = moved.text.index("{two}")
    start, end = moved.place(two, two + 5)
    assert text[start:end] == "{{two}}"


def test_a_finding_names_the_agent_and_the_field_of_google_adk() -> None:
    text = "For ${price}: greet {{user_name}}."
    missing = only(llm("greeter", text), "WEFT105")[0]
    assert str(missing.origin) == f"greeter.instruction:{text.index('{{')}"
    assert 'output_key="user_name"' in missing.hint


def test_what_the_conversation_repeats_is_found_with_who_said_it() -> None:
    twice = only(built("parallel_research"), "WEFT206")
    assert [str(d.origin) for d in twice] == ["merger.instruction:6", "merger.instruction:22"]
    assert "what `papers` said reaches `merger` twice" in twice[1].message
    assert "from_adk" in twice[0].hint


def test_a_lost_message_is_found_at_include_contents() -> None:
    lost = only(built("bare_pipeline"), "WEFT208")
    assert [str(d.origin) for d in lost] == ["booker.include_contents"]
    assert lost[0].severity is Severity.WARNING


def test_weft_itself_neither_repeats_nor_loses() -> None:
    assert not [d for d in weft.check(from_adk(built("bare_pipeline"))) if d.code == "WEFT206"]
    homes = find_homes(from_adk(built("bare_pipeline")))
    system = weft.compile(homes["booker"], state={"intent": "fly"}, message="To Oslo")
    assert "To Oslo" in str(system.wire)


def test_what_is_not_looked_into_is_said_at_its_field() -> None:
    places = {
        "planner": "planner.planner",
        "built_in_search": "searcher.tools",
        "toolset": "connected.tools",
        "custom_agent": "story_flow.name",
    }
    for name, place in places.items():
        assert place in {str(d.origin) for d in only(built(name), "WEFT490")}


def test_inputs_are_there_from_the_start() -> None:
    assert not bad(built("missing_key"), inputs={"user_name": str})
    assert not bad(built("missing_key"), inputs=["user_name"])
    assert not bad(built("missing_key"), allow=["WEFT105"])


def test_one_agent_in_two_places_is_one_value() -> None:
    shared = llm("shared")
    from tests.interop.kit import AgentTool

    top = llm(
        "top",
        tools=[AgentTool(agent=shared)],
        sub_agents=[llm("x", tools=[AgentTool(agent=shared)])],
    )
    made = from_adk(top)
    assert isinstance(made, Agent)
    below = made.sub_agents[0]
    assert isinstance(below, Agent)
    assert made.tools[0].agent is below.tools[0].agent


@pytest.mark.parametrize("wrong", [3, "agent", None, Agent("mine"), add_to_cart, object])
def test_what_is_no_agent_of_google_adk_is_refused(wrong: object) -> None:
    with pytest.raises(WeftError, match="not an agent of google-adk"):
        from_adk(wrong)


def test_the_import_notes_each_thing_once() -> None:
    notes = imported(built("every_callback")).notes
    assert len(notes) == len(set(map(str, notes))) == 6


@pytest.mark.skipif(REAL, reason="google-adk is installed")
def test_the_plugin_says_what_to_install() -> None:
    from weft.interop import adk

    with pytest.raises(WeftError, match=r"weft\[adk\]"):
        _ = adk.WeftPlugin
