"""Declarations: what an agent may be, and what is refused where it is written."""

import asyncio
import copy
import dataclasses
import functools
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypedDict

import msgspec
import pydantic
import pytest

import weft
from weft import Agent, C, RunConfig, TokenBudget, Tool, ToolContext, Toolset, tool
from weft.errors import CompileError, DeclarationError
from weft.values import Json

MODEL = "gemini-flash-latest"


def get_weather(city: str, units: Literal["c", "f"] = "c") -> dict[str, str]:
    """Current weather for a city.

    Args:
        city: Name of the city.
    """
    return {"city": city, "units": units}


def undocumented(query: str) -> str:
    return query


class Lookup:
    """Look a word up."""

    def run(self, word: str, ctx: ToolContext) -> str:
        return word


class NamedLookup:
    name = "dictionary"
    description = "Explains a word."

    def run(self, word: str) -> str:
        return word


class NeedsKey:
    """Needs a key."""

    def __init__(self, key: str) -> None:
        self.key = key

    def run(self, word: str) -> str:
        return self.key + word


class Files:
    """A toolset of the user's own."""

    def get_tools(self) -> list[object]:
        return [get_weather, Lookup]


class AsyncFiles:
    async def get_tools(self) -> list[object]:
        return []


def callback(context: object) -> None:
    return None


def model_callback(context: object, prompt: object) -> None:
    return None


def tool_callback(context: object, tool: object, args: object, result: object) -> None:
    return None


def probe(call_id: str, args: dict[str, Json]) -> dict[str, Json] | None:
    return None


# Errors: each names the agent, the field and the fix.


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("my agent", 'write Agent("my_agent")'),
        ("weather-bot", 'write Agent("weather_bot")'),
        ("1st", 'write Agent("agent_1st")'),
        ("class", 'write Agent("agent_class")'),
        ("", 'write Agent("my_agent")'),
        ("a.b", 'write Agent("a_b")'),
        (None, 'write Agent("agent_None")'),
        (7, 'write Agent("agent_7")'),
        ("user", 'choose another name, such as "assistant"'),
    ],
)
def test_a_name_is_an_identifier_and_not_the_users(name: object, hint: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Agent(name)  # type: ignore[arg-type]
    assert (caught.value.where, caught.value.hint) == ("Agent.name", hint)
    assert repr(name) in caught.value.message or '"user"' in caught.value.message


leaf = Agent("leaf")

REFUSED: dict[str, tuple[Mapping[str, object], str, str]] = {
    "model": ({"model": 5}, "bot.model", "5 is not a model"),
    "no model": ({"model": " "}, "bot.model", "' ' is not a model"),
    "instruction": ({"instruction": 5}, "bot.instruction", "5 is not an instruction"),
    "no instruction": ({"instruction": None}, "bot.instruction", "None is not an instruction"),
    "provider": (
        {"instruction": (math, "no_such")},
        "bot.instruction",
        "is not an instruction",
    ),
    "long provider": (
        {"global_instruction": (math, "sin", [], 4)},
        "bot.global_instruction",
        "is not an instruction",
    ),
    "description": ({"description": None}, "bot.description", "description is not text"),
    "tools": ({"tools": get_weather}, "bot.tools", "tools is a function, not a list"),
    "a tool": ({"tools": [5]}, "bot.tools", "5 is not a tool"),
    "a named tool": ({"tools": ["get_weather"]}, "bot.tools", "'get_weather' is not a tool"),
    "a lambda": ({"tools": [lambda x: x]}, "bot.tools.<lambda>", "a lambda has no name"),
    "a class": ({"tools": [NeedsKey]}, "bot.tools", "NeedsKey cannot be made without arguments"),
    "two tools": (
        {"tools": [get_weather, get_weather]},
        "bot.tools",
        "two tools are named `get_weather`",
    ),
    "our tool": (
        {"tools": [tool(name="transfer_to_agent")(get_weather)]},
        "bot.tools",
        "the tool name `transfer_to_agent` is Weft's own",
    ),
    "sub_agents": ({"sub_agents": leaf}, "bot.sub_agents", "sub_agents is an Agent, not a list"),
    "no sub_agents": ({"sub_agents": None}, "bot.sub_agents", "sub_agents is None, not a list"),
    "a sub-agent": ({"sub_agents": ["leaf"]}, "bot.sub_agents", "'leaf' is not an Agent"),
    "output_key": ({"output_key": ""}, "bot.output_key", "'' is not a state key"),
    "output_schema": ({"output_schema": {"type": "strnig"}}, "bot.output_schema", "strnig"),
    "input_schema": ({"input_schema": object()}, "bot.input_schema", "has no JSON Schema"),
    "context": ({"context": "none"}, "bot.context", "'none' is not a policy"),
    "both views": (
        {"context": "x", "include_contents": "none"},
        "bot.context",
        "'x' is not a policy",
    ),
    "two views": (
        {"context": C.nothing(), "include_contents": "none"},
        "bot.context",
        'include_contents="none" and context=C.nothing() say different things',
    ),
    "include_contents": (
        {"include_contents": "all"},
        "bot.include_contents",
        "'all' is not a view",
    ),
    "compressor": (
        {"context_compressor": 4096},
        "bot.context_compressor",
        "4096 is not a TokenBudget",
    ),
    "compressor option": (
        {"context_compressor": {"token_budget": 9, "keep": 1}},
        "bot.context_compressor",
        "unknown field `keep`",
    ),
    "compressor type": (
        {"context_compressor": {"token_budget": "9"}},
        "bot.context_compressor",
        "Expected `int`, got `str`",
    ),
    "compressor size": (
        {"context_compressor": {"token_budget": 0}},
        "bot.context_compressor",
        "token_budget=0 is not a whole number of at least 1",
    ),
    "generate_config": (
        {"generate_config": [1]},
        "bot.generate_config",
        "generate_config is a list, not a dict",
    ),
    "peers": (
        {"disallow_transfer_to_peers": "yes"},
        "bot.disallow_transfer_to_peers",
        "disallow_transfer_to_peers='yes'",
    ),
    "parent": (
        {"disallow_transfer_to_parent": None},
        "bot.disallow_transfer_to_parent",
        "disallow_transfer_to_parent=None",
    ),
    "max_steps": ({"max_steps": 0}, "bot.max_steps", "max_steps=0"),
    "max_steps flag": ({"max_steps": True}, "bot.max_steps", "max_steps=True"),
    "on_missing": ({"on_missing": "kep"}, "bot.on_missing", "on_missing='kep' is not one of"),
    "on_provider_error": (
        {"on_provider_error": "stop"},
        "bot.on_provider_error",
        "on_provider_error='stop' is not one of 'log', 'raise'",
    ),
    "allow": ({"allow": 101}, "bot.allow", "101 is not a list of codes"),
    "allow code": ({"allow": ["WEFT010"]}, "bot.allow", "'WEFT010' is not a diagnostic code"),
    "callback": ({"before_model": "print"}, "bot.before_model", "'print' cannot be called"),
    "callbacks": ({"after_tool": [tool_callback, 3]}, "bot.after_tool", "3 cannot be called"),
    "on_tool_error": ({"on_tool_error": "log"}, "bot.on_tool_error", "'log' cannot be called"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_agent_the_field_and_the_fix(case: str) -> None:
    options, where, message = REFUSED[case]
    with pytest.raises(DeclarationError) as caught:
        Agent("bot", **options)  # type: ignore[arg-type]
    assert caught.value.where == where
    assert message in caught.value.message
    assert caught.value.hint
    assert str(caught.value) == f"{where}: {caught.value.message}\n  hint: {caught.value.hint}"


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="instructions"):
        Agent("bot", instructions="Be kind.")  # type: ignore[call-arg]


# The tree.


@pytest.mark.parametrize(
    ("build", "where", "message"),
    [
        (
            lambda: Agent("root", sub_agents=[Agent("a"), Agent("a", instruction="x")]),
            "root.sub_agents",
            "two agents are named `a`",
        ),
        (
            lambda: Agent("root", sub_agents=[Agent("a", sub_agents=[Agent("b")]), Agent("b")]),
            "root.sub_agents",
            "two agents are named `b`",
        ),
        (
            lambda: Agent(
                "root",
                sub_agents=[Agent("a", sub_agents=[leaf]), Agent("b", sub_agents=[leaf])],
            ),
            "b.sub_agents",
            "`leaf` has two parents, `a` and `b`",
        ),
        (
            lambda: Agent("root", sub_agents=[leaf, leaf]),
            "root.sub_agents",
            "`leaf` is listed twice",
        ),
        (
            lambda: leaf.delegates_to(Agent("a", sub_agents=[leaf])),
            "a.sub_agents",
            "`leaf` would be its own sub-agent",
        ),
        (
            lambda: leaf.delegates_to(leaf),
            "leaf.sub_agents",
            "`leaf` would be its own sub-agent",
        ),
    ],
)
def test_a_tree_has_unique_names_one_parent_each_and_no_cycle(
    build: Callable[[], Agent], where: str, message: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        build()
    assert (caught.value.where, caught.value.message) == (where, message)
    assert caught.value.hint


def test_a_tree_hundreds_deep_is_declared_and_compiled() -> None:
    agent = Agent("a0", model=MODEL)
    for level in range(1, 300):
        agent = Agent(f"a{level}", model=MODEL, sub_agents=[agent])
    assert weft.compile(agent, agent="a0", message="Hi").tools == ["transfer_to_agent"]


# Fluent copies and equality.


def test_fluent_methods_build_what_the_constructor_builds() -> None:
    fluent = (
        Agent("bot")
        .instruct("Help.")
        .describe("Helps.")
        .uses(get_weather)
        .uses(Lookup())
        .writes("forecast")
        .returns({"type": "object"})
        .sees(C.none())
        .delegates_to(leaf)
    )
    assert fluent == Agent(
        "bot",
        instruction="Help.",
        description="Helps.",
        tools=[get_weather, *fluent.tools[1:]],
        output_key="forecast",
        output_schema={"type": "object"},
        context=C.none(),
        sub_agents=[leaf],
    )


def test_fluent_methods_leave_the_original_alone() -> None:
    original = Agent("bot", include_contents="none")
    before = dataclasses.asdict(original)
    changed = original.instruct("x").uses(get_weather).delegates_to(leaf).sees(C.default())
    assert dataclasses.asdict(original) == before
    assert changed != original
    assert (original.policy, changed.policy) == (C.none(), C.default())


def test_agents_are_frozen_values() -> None:
    one, other = Agent("bot", tools=[get_weather]), Agent("bot", tools=[get_weather])
    assert one == other
    assert hash(one) == hash(other)
    assert one != Agent("bot")
    assert one != "bot"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]


def test_an_agent_keeps_what_it_was_given_whatever_becomes_of_it() -> None:
    config: dict[str, Json] = {"thinking": {"budget": 10}}
    tools: list[object] = [get_weather]
    agent = Agent("bot", generate_config=config, tools=tools)
    tools.clear()
    thinking = config["thinking"]
    assert isinstance(thinking, dict)
    thinking["budget"] = 99
    assert agent.generate_config == {"thinking": {"budget": 10}}
    assert len(agent.tools) == 1


# F7: generation options.


def test_F7_the_run_overrides_the_agent_option_by_option() -> None:
    agent = Agent("bot", model=MODEL, generate_config={"temperature": 0.7, "max_tokens": 1024})
    config = RunConfig(generate_config={"temperature": 0.3})
    assert weft.compile(agent, message="Hi", config=config).wire["generationConfig"] == {
        "temperature": 0.3,
        "maxOutputTokens": 1024,
    }
    assert agent.generate_config == {"temperature": 0.7, "max_output_tokens": 1024}


def test_F7_dicts_merge_deeply_and_none_takes_an_option_away() -> None:
    agent = Agent(
        "bot",
        generate_config={
            "temperature": 0.7,
            "seed": 1,
            "extra": {"gemini": {"a": 1, "deep": {"x": 1, "y": 2}}},
        },
    )
    config = RunConfig(
        generate_config={"seed": None, "extra": {"gemini": {"deep": {"y": 3}, "b": 2}}}
    )
    assert weft.compile(agent, config=config).prompt.config == {
        "temperature": 0.7,
        "extra": {"gemini": {"a": 1, "deep": {"x": 1, "y": 3}, "b": 2}},
    }


@pytest.mark.parametrize("alias", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_F7_an_option_has_one_canonical_name(alias: str) -> None:
    assert Agent("bot", generate_config={alias: 5}).generate_config == {"max_output_tokens": 5}
    stop = Agent("bot", generate_config={"stop": ("END",)})
    assert stop.generate_config == {"stop_sequences": ["END"]}


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("temprature", "temperature"),
        ("Temperature", "temperature"),
        ("max_token", "max_output_tokens"),
        ("maxOutputTokens", "max_output_tokens"),
        ("topP", "top_p"),
        ("stop_sequence", "stop_sequences"),
        ("frequency_penality", "frequency_penalty"),
    ],
)
def test_F7_an_unknown_option_is_refused_with_the_nearest_name(key: str, nearest: str) -> None:
    for build, where in (
        (lambda: Agent("bot", generate_config={key: 1}), "bot.generate_config"),
        (lambda: RunConfig(generate_config={key: 1}), "RunConfig.generate_config"),
    ):
        with pytest.raises(DeclarationError) as caught:
            build()
        assert caught.value.where == where
        assert caught.value.message == f"`{key}` is not a generation option"
        assert caught.value.hint == f"did you mean `{nearest}`?"


def test_F7_an_option_like_none_at_all_lists_the_valid_ones() -> None:
    with pytest.raises(DeclarationError, match=r"valid: temperature, top_p"):
        Agent("bot", generate_config={"zzz": 1})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"temperature": "hot"}, "`temperature` is 'hot', not a number"),
        ({"temperature": True}, "`temperature` is True, not a number"),
        ({"temperature": float("nan")}, "nan is not a JSON number"),
        ({"max_tokens": 1.5}, "`max_tokens` is 1.5, not a whole number"),
        ({"stop": "END"}, "`stop` is 'END', not a list of strings"),
        ({"stop": ["END", 1]}, "1 is not a string"),
        ({"stop": ["\ud800"]}, "the text holds a lone surrogate"),
        ({"extra": {"gemini": {"x": object()}}}, "an object is not a JSON value"),
        (
            {"max_tokens": 1, "max_output_tokens": 2},
            "`max_output_tokens` is given twice, as `max_tokens` and as `max_output_tokens`",
        ),
    ],
)
def test_F7_an_ill_typed_option_is_refused(config: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Agent("bot", generate_config=config)
    assert caught.value.where.startswith("bot.generate_config")
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"on_missing": "kep"}, "RunConfig.on_missing"),
        ({"on_provider_error": "x"}, "RunConfig.on_provider_error"),
        ({"max_llm_calls": 0}, "RunConfig.max_llm_calls"),
    ],
)
def test_a_run_config_is_checked_like_an_agent(options: dict[str, object], where: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        RunConfig(**options)  # type: ignore[arg-type]
    assert caught.value.where == where
    with pytest.raises(TypeError, match="tempo"):
        RunConfig(tempo=1)  # type: ignore[call-arg]


# Tools.


def test_tools_are_made_of_what_people_have() -> None:
    @tool(name="ticket", writes=["ticket"], timeout=10, retries=2)
    async def open_ticket(summary: str, ctx: ToolContext) -> str:
        """Open a ticket."""
        return summary

    agent = Agent(
        "bot",
        model=MODEL,
        tools=[
            get_weather,
            open_ticket,
            Lookup,
            NamedLookup(),
            NeedsKey("k").run,
            Toolset("files", [get_weather, Lookup()], prefix="fs_"),
            Files().get_tools,
        ],
    )
    assert weft.compile(agent).tools == [
        "get_weather",
        "ticket",
        "lookup",
        "dictionary",
        "run",
        "fs_get_weather",
        "fs_lookup",
        "get_tools",
    ]
    weather, ticket, lookup, named = agent.tools[:4]
    assert weather.description == "Current weather for a city."
    assert weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "units": {"type": "string", "enum": ["c", "f"], "default": "c"},
        },
        "required": ["city"],
    }
    assert (ticket.writes, ticket.timeout, ticket.retries) == (("ticket",), 10, 2)
    assert ticket.context_parameter == "ctx"
    assert list(ticket.parameters["properties"]) == ["summary"]  # type: ignore[arg-type]
    assert (lookup.description, lookup.context_parameter) == ("Look a word up.", "ctx")
    assert named.description == "Explains a word."
    assert asyncio.run(ticket("help", None)) == "help"  # type: ignore[arg-type]


def test_a_toolset_of_the_users_own_is_opened_in_order() -> None:
    assert [t.name for t in Agent("bot", tools=[Files()]).tools] == ["get_weather", "lookup"]


def test_tools_may_come_from_a_generator() -> None:
    def tools() -> Iterator[object]:
        yield get_weather
        yield Lookup

    assert [t.name for t in Agent("bot", tools=tools()).tools] == ["get_weather", "lookup"]


def test_a_toolset_prefix_keeps_two_tools_of_one_name_apart() -> None:
    sets = [Toolset("one", [get_weather], prefix="one_"), Toolset("two", [get_weather])]
    assert [t.name for t in Agent("bot", tools=sets).tools] == ["one_get_weather", "get_weather"]
    with pytest.raises(DeclarationError, match="`1 get_weather` cannot be a tool name"):
        Agent("bot", tools=[Toolset("one", [get_weather], prefix="1 ")])


def test_a_decorated_function_can_still_be_called() -> None:
    assert tool(get_weather)("Oslo", units="f") == {"city": "Oslo", "units": "f"}


@pytest.mark.parametrize("silent", [undocumented, Toolset("x", [undocumented]), tool(undocumented)])
def test_a_tool_without_docstring_is_WEFT301(silent: object) -> None:
    agent = Agent("bot", model=MODEL, tools=[get_weather, silent])
    (found,) = weft.compile(agent, message="Hi").diagnostics
    assert (found.code, str(found.origin)) == ("WEFT301", "bot.tools.undocumented")
    assert "docstring" in found.hint


def test_a_described_tool_is_quiet() -> None:
    described = tool(description="Echo the query.")(undocumented)
    agent = Agent("bot", model=MODEL, tools=[described, NamedLookup()])
    assert weft.compile(agent, message="Hi").diagnostics == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": "topic"}, 'reads="topic" is one string, not a list of names'),
        ({"writes": "topic"}, 'writes="topic" is one string, not a list of names'),
        ({"labels": "pii"}, 'labels="pii" is one string, not a list of names'),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": "10"}, "timeout='10'"),
        ({"retries": -1}, "retries=-1"),
        ({"retries": 1.5}, "retries=1.5"),
        ({"name": "my tool"}, "`my tool` cannot be a tool name"),
        ({"name": "x" * 65}, "cannot be a tool name"),
    ],
)
def test_a_tool_option_that_cannot_be_right_is_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        tool(**options)(get_weather)  # type: ignore[call-overload]
    assert message in caught.value.message
    assert caught.value.where
    assert caught.value.hint


def test_a_hand_made_tool_is_checked_too() -> None:
    with pytest.raises(DeclarationError, match=r"tool x\.parameters"):
        Tool(name="x", description="", parameters={"type": "strnig"})
    with pytest.raises(DeclarationError, match="lone surrogate"):
        Tool(name="x", description="half \ud83d", parameters={"type": "object"})
    with pytest.raises(DeclarationError, match="no function to call"):
        Tool(name="x", description="", parameters={"type": "object"})()


def test_a_tool_that_cannot_be_described_names_agent_and_parameter() -> None:
    def positional(word: str, /) -> str:
        """Cannot be called by name."""
        return word

    with pytest.raises(DeclarationError) as caught:
        Agent("bot", tools=[positional])
    assert caught.value.where == "bot.tools.positional(word)"


# Views, budgets, schemas, allowances.


def test_H7_include_contents_is_sugar_for_a_policy() -> None:
    assert Agent("bot", include_contents="none").policy == C.none()
    assert Agent("bot", include_contents="none", context=C.none()).policy == C.none()
    assert Agent("bot", include_contents="default").policy == C.default()
    assert Agent("bot").policy == C.default(data=False)
    twice = C.none().keep_duplicates()
    assert Agent("bot", include_contents="none", context=twice).policy == twice
    assert Agent("bot", include_contents="none").instruct("x").policy == C.none()


def test_a_budget_is_an_object_or_its_options() -> None:
    made = TokenBudget(token_budget=4096, keep_recent=3)
    options = {"token_budget": 4096, "keep_recent": 3}
    assert Agent("bot", context_compressor=made).context_compressor == made
    assert Agent("bot", context_compressor=options).context_compressor == made
    assert TokenBudget(100).keep_recent == 1


@pytest.mark.parametrize(
    "options", [{"token_budget": 0}, {"token_budget": True}, {"token_budget": 9, "keep_recent": -1}]
)
def test_a_budget_that_cannot_hold_anything_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match="is not a whole number of at least") as caught:
        TokenBudget(**options)
    assert caught.value.where == "TokenBudget"


class InvoiceModel(pydantic.BaseModel):
    number: int
    payer: str


@dataclasses.dataclass
class InvoiceData:
    number: int
    payer: str


class InvoiceDict(TypedDict):
    number: int
    payer: str


class InvoiceStruct(msgspec.Struct):
    number: int
    payer: str


INVOICE: dict[str, Json] = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "payer": {"type": "string"}},
    "required": ["number", "payer"],
}


@pytest.mark.parametrize(
    "declared", [InvoiceModel, InvoiceData, InvoiceDict, InvoiceStruct, INVOICE]
)
def test_an_output_schema_of_any_kind_is_the_same_schema(declared: object) -> None:
    agent = Agent("bot", model=MODEL, output_schema=declared, input_schema=declared)
    compiled = weft.compile(agent, message="Hi")
    assert compiled.prompt.output is not None
    assert compiled.prompt.output.schema == INVOICE
    assert "generationConfig" in compiled.wire
    assert compiled.diagnostics == ()


def test_allowed_diagnostics_are_left_out() -> None:
    agent = Agent("bot", model=MODEL, instruction="{city}", tools=[undocumented])
    codes = [found.code for found in weft.compile(agent, message="Hi").diagnostics]
    assert sorted(codes) == ["WEFT101", "WEFT301"]
    quiet = dataclasses.replace(agent, allow=("WEFT101",))
    assert [d.code for d in weft.compile(quiet, message="Hi").diagnostics] == ["WEFT301"]
    assert Agent("bot", allow="WEFT101").allow == ("WEFT101",)


def test_F4_callbacks_are_one_or_several() -> None:
    agent = Agent("bot", before_agent=callback, after_model=[model_callback, model_callback])
    assert agent.before_agent is callback
    assert agent.after_model == (model_callback, model_callback)
    assert Agent("bot", on_tool_error="raise").on_tool_error == "raise"


TAKES = {
    "before_agent": "(ctx)",
    "after_agent": "(ctx)",
    "before_model": "(ctx, prompt)",
    "after_model": "(ctx, response)",
    "before_tool": "(ctx, tool, args)",
    "after_tool": "(ctx, tool, args, result)",
    "on_model_error": "(ctx, prompt, error)",
    "on_tool_error": "(ctx, tool, args, error)",
}


@pytest.mark.parametrize("moment", TAKES)
def test_F4_a_callback_takes_what_it_will_be_given(moment: str) -> None:
    count = TAKES[moment].count(",") + 1
    taking: dict[int, Callable[..., object]] = {
        0: lambda: None,
        1: lambda a: None,
        2: lambda a, b: None,
        3: lambda a, b, c: None,
        4: lambda a, b, c, d: None,
        5: lambda a, b, c, d, e: None,
    }
    for number, function in taking.items():
        if number == count:
            Agent("bot", **{moment: [function]})  # type: ignore[arg-type]
            continue
        with pytest.raises(DeclarationError) as caught:
            Agent("bot", **{moment: [function]})  # type: ignore[arg-type]
        assert caught.value.where == f"bot.{moment}"
        assert caught.value.message == f"{moment} takes {TAKES[moment]}; `<lambda>` takes {number}"
        assert caught.value.hint == f"write def {moment}{TAKES[moment]}"


def test_F4_a_callback_may_take_more_than_it_needs() -> None:
    class Watch:
        def __call__(self, ctx: object, tool: object, args: object) -> None:
            return None

        def before_tool(self, ctx: object, tool: object, args: object, extra: int = 0) -> None:
            return None

    def anything(*args: object, **options: object) -> None:
        return None

    async def later(ctx: object, tool: object, args: object) -> None:
        return None

    fixed = functools.partial(tool_callback, result=None)
    chain = [Watch(), Watch().before_tool, anything, later, fixed, print, min]
    assert Agent("bot", before_tool=chain).before_tool == tuple(chain)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a, b=1: None, "1 to 2"),
        (lambda a, b, c, d, *more: None, "4 or more"),
        (lambda a, b, c, *, key: None, "3 and needs key="),
    ],
)
def test_F4_what_a_callback_takes_is_said_in_words(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        Agent("bot", before_tool=function)
    assert caught.value.message == f"before_tool takes (ctx, tool, args); `<lambda>` takes {words}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequential": "yes"}, "sequential='yes'"),
        ({"long_running": None}, "long_running=None"),
        ({"confirm": 1}, "confirm=1"),
        ({"retries": None}, "retries=None"),
        ({"timeout": math.inf}, "timeout=inf"),
        ({"reads": 5}, "reads=5 is not a list of names"),
        ({"writes": [5]}, "writes=[5] is not a list of names"),
        ({"labels": None}, "labels=None is not a list of names"),
        ({"name": ""}, "the name is empty"),
        ({"description": 5}, "its description is not text"),
    ],
)
def test_an_ill_typed_tool_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        tool(**options)(get_weather)  # type: ignore[call-overload]
    assert caught.value.message == message
    assert caught.value.hint


def test_a_tool_says_what_happens_if_it_is_called_again() -> None:
    assert tool(get_weather).effect == "idempotent"
    assert tool(effect="unsafe")(get_weather).effect == "unsafe"
    asked = tool(effect="probe", probe=probe)(get_weather)
    assert (asked.effect, asked.probe) == ("probe", probe)
    later = asyncio.sleep
    made = Tool(name="x", description="", parameters={}, effect="probe", probe=later)
    assert made.probe is later


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        ({"effect": "save"}, "effect", "effect='save' is not one of 'pure', 'idempotent', "),
        ({"effect": None}, "effect", "effect=None is not one of"),
        ({"effect": "probe"}, "probe", 'effect="probe" without a probe to ask'),
        ({"probe": probe}, "probe", 'a probe is given, but effect="idempotent" never asks it'),
        ({"effect": "probe", "probe": "find"}, "probe", "'find' cannot be called"),
        (
            {"effect": "probe", "probe": callback},
            "probe",
            "a probe takes (call_id, args); `callback` takes 1",
        ),
    ],
)
def test_an_effect_that_cannot_be_right_is_refused(
    options: dict[str, object], field: str, message: str
) -> None:
    for build in (
        lambda: tool(**options)(get_weather),  # type: ignore[call-overload]
        lambda: Tool(name="get_weather", description="", parameters={}, **options),  # type: ignore[arg-type]
    ):
        with pytest.raises(DeclarationError) as caught:
            build()
        assert caught.value.where == f"tool get_weather.{field}"
        assert message in caught.value.message
        assert caught.value.hint


def test_a_near_effect_is_named() -> None:
    with pytest.raises(DeclarationError, match="did you mean 'transactional'"):
        tool(effect="transaction")(get_weather)  # type: ignore[call-overload]


def test_a_tool_is_declared_once() -> None:
    with pytest.raises(DeclarationError, match="this is a tool already"):
        tool(name="again")(tool(get_weather))


def test_a_tools_parameters_are_an_object() -> None:
    with pytest.raises(DeclarationError, match="a model gives them by name"):
        Tool(name="look", description="Look.", parameters={"type": "string"})


def test_a_toolset_is_a_list() -> None:
    with pytest.raises(DeclarationError, match="tools is an int, not a list"):
        Toolset("set", 5)  # type: ignore[arg-type]


def test_a_declared_schema_stays_as_it_was_written() -> None:
    schema: dict[str, Json] = {"type": "object", "properties": {"a": {"type": "string"}}}
    agent = Agent("bot", model=MODEL, output_schema=schema)
    made = Tool(name="look", description="Look.", parameters=schema)
    schema["type"] = "nonsense"
    assert weft.compile(agent, message="Hi").prompt.output is not None
    assert made.parameters["type"] == "object"


def test_a_function_is_no_schema() -> None:
    with pytest.raises(DeclarationError, match="is not a type"):
        Agent("bot", output_schema=get_weather)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 5}, "5 is not a model"),
        ({"model": " "}, "' ' is not a model"),
        ({"strict": "yes"}, "strict='yes'"),
    ],
)
def test_an_ill_typed_run_config_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        RunConfig(**options)  # type: ignore[arg-type]
    assert caught.value.message == message


@pytest.mark.parametrize("field", ["on_missing", "on_provider_error"])
def test_an_agents_choices_are_never_none(field: str) -> None:
    with pytest.raises(DeclarationError, match=f"{field}=None is not one of"):
        Agent("bot", **{field: None})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tool_choice": "bogus"}, "'bogus' is not a choice"),
        ({"tool_choice": {"x": 1}}, "{'x': 1} names no tool"),
        ({"max_output_tokens": 0}, "0 is not above 0"),
        ({"extra": {"gemini": 5}}, "`gemini` holds no dict"),
    ],
)
def test_F7_a_value_that_no_provider_takes_is_refused(
    config: dict[str, object], message: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        Agent("bot", generate_config=config)
    assert caught.value.message == message
    assert caught.value.where.startswith("bot.generate_config.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"session": "s.json"}, "session is a str"),
        ({"config": {}}, "config is a dict"),
        ({"branch": 5}, "branch is an int"),
        ({"artifacts": {"report": 5}}, "the artifact `report` is an int"),
        ({"recorded": 5}, "recorded is an int"),
    ],
)
def test_compile_says_what_it_cannot_take(given: dict[str, object], message: str) -> None:
    with pytest.raises(CompileError) as caught:
        weft.compile(Agent("bot", model=MODEL), **given)  # type: ignore[arg-type]
    assert caught.value.message == message
    assert caught.value.hint


def test_an_agent_and_an_error_travel_to_another_process() -> None:
    agent = Agent("bot", model=MODEL, tools=[get_weather], context=C.none())
    assert pickle.loads(pickle.dumps(agent)) == copy.deepcopy(agent) == agent
    error = DeclarationError("wrong", where="bot.tools", hint="mend it")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is DeclarationError
    assert str(again) == str(error)
