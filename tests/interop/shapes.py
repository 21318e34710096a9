"""Shapes of google-adk's public samples: how people put its agents together.

Each has what a check of it must say of warning or above; most say nothing.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pydantic

from tests.interop import kit
from tests.interop.kit import (
    AgentTool,
    App,
    FunctionTool,
    GenerateContentConfig,
    GlobalInstructionPlugin,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    PlanReActPlanner,
    SequentialAgent,
    ThinkingConfig,
    ToolContext,
    exit_loop,
    google_search,
)

MODEL = "gemini-2.5-flash"


class Shape(NamedTuple):
    """A sample, the codes that checking it gives, and the agents it has."""

    build: Callable[[], Any]
    found: frozenset[str]


SHAPES: dict[str, Shape] = {}


def shape(*codes: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Note a sample under its name, with what a check finds."""

    def keep(build: Callable[[], Any]) -> Callable[[], Any]:
        def quietly() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return build()

        SHAPES[build.__name__] = Shape(quietly, frozenset(codes))
        return quietly

    return keep


def llm(name: str, instruction: Any = "Do your work.", **more: Any) -> Any:
    return LlmAgent(name=name, model=more.pop("model", MODEL), instruction=instruction, **more)


def get_weather(city: str, units: Literal["c", "f"] = "c") -> dict[str, str]:
    """Weather of a city.

    Args:
        city: Its name.
    """
    return {"city": city, "units": units}


def add_to_cart(item: str, tool_context: ToolContext) -> dict[str, str]:
    """Put an item into the cart."""
    tool_context.state["cart"] = [*tool_context.state.get("cart", []), item]
    return {"status": "ok"}


def remember_all(notes: str, tool_context: ToolContext) -> str:
    """Keep notes."""
    _anywhere(tool_context)
    return notes


def _anywhere(context: object) -> None:
    del context


def done(tool_context: ToolContext) -> dict[str, str]:
    """Say that the work is done."""
    tool_context.actions.escalate = True
    return {}


class Invoice(pydantic.BaseModel):
    """What is owed."""

    total: float
    currency: str


class Ask(pydantic.BaseModel):
    """What a capital is asked for."""

    country: str


@shape()
def hello_weather() -> Any:
    return llm("weather_agent", "Answer questions about weather.", tools=[get_weather])


@shape()
def function_tools() -> Any:
    return llm("shop", "Sell things.", tools=[FunctionTool(get_weather), add_to_cart])


@shape("WEFT105")
def missing_key() -> Any:
    return llm("greeter", "Greet {user_name}.")


@shape()
def optional_key() -> Any:
    return llm("greeter", "Greet {user_name?}, {user:title?} of {app:company?}.")


@shape()
def scoped_keys() -> Any:
    return llm("greeter", "Greet {user:name} of {app:company}.")


@shape()
def coordinator() -> Any:
    billing = llm("billing", "Bills.", description="Handles bills.")
    support = llm("support", "Problems.", description="Handles problems.")
    return llm("coordinator", "Hand over.", sub_agents=[billing, support])


@shape()
def deep_hierarchy() -> Any:
    leaf = llm("leaf", "Look up.", disallow_transfer_to_peers=True)
    middle = llm("middle", "Split up.", sub_agents=[leaf, llm("other_leaf")])
    return llm("top", "Lead.", sub_agents=[middle], global_instruction="Be kind.")


@shape("WEFT206")
def pipeline() -> Any:
    return SequentialAgent(
        name="pipeline",
        sub_agents=[
            llm("writer", "Write code.", output_key="code"),
            llm("reviewer", "Review {code}.", output_key="review"),
            llm("refactorer", "Mend {code} by {review}."),
        ],
    )


@shape()
def talking_pipeline() -> Any:
    return SequentialAgent(name="talk", sub_agents=[llm("first"), llm("second"), llm("third")])


@shape("WEFT206")
def parallel_research() -> Any:
    research = ParallelAgent(
        name="research",
        sub_agents=[
            llm("web", "Search the web.", tools=[google_search], output_key="web_found"),
            llm("papers", "Search papers.", tools=[google_search], output_key="papers_found"),
        ],
    )
    merger = llm("merger", "Merge {web_found} and {papers_found}.")
    return SequentialAgent(name="research_and_merge", sub_agents=[research, merger])


@shape("WEFT110")
def parallel_clash() -> Any:
    both = [llm("left", output_key="facts"), llm("right", output_key="facts")]
    return ParallelAgent(name="clash", sub_agents=both)


@shape("WEFT206")
def writing_loop() -> Any:
    loop = LoopAgent(
        name="refine",
        max_iterations=5,
        sub_agents=[
            llm("critic", "Criticise {draft}.", output_key="criticism"),
            llm("refiner", "Mend {draft}: {criticism}.", tools=[exit_loop], output_key="draft"),
        ],
    )
    first = llm("starter", "Write a draft.", output_key="draft")
    return SequentialAgent(name="writing", sub_agents=[first, loop])


@shape()
def loop_with_own_exit() -> Any:
    return LoopAgent(name="rounds", sub_agents=[llm("worker", tools=[done])])


@shape("WEFT404")
def endless_loop() -> Any:
    return LoopAgent(name="rounds", sub_agents=[llm("worker"), llm("checker")])


@shape("WEFT206", "WEFT208")
def bare_pipeline() -> Any:
    return SequentialAgent(
        name="trip",
        sub_agents=[
            llm("classifier", "Classify the request.", output_key="intent"),
            llm("booker", "Help book. Intent: {intent}", include_contents="none"),
            llm("closer", "Say goodbye about {intent}."),
        ],
    )


@shape()
def bare_alone() -> Any:
    return llm("once", "Answer.", include_contents="none")


@shape()
def agent_as_tool() -> Any:
    capital = llm("capital", "Find it.", input_schema=Ask, output_schema=Invoice, description="c")
    return llm("guide", "Guide.", tools=[AgentTool(agent=capital), get_weather])


@shape()
def structured_output() -> Any:
    return llm("extractor", "Extract.", output_schema=Invoice, output_key="invoice")


@shape("WEFT190", "WEFT206")
def path_into_a_value() -> Any:
    extractor = llm("extractor", "Extract.", output_schema=Invoice, output_key="invoice")
    teller = llm("teller", "Tell {invoice.total} of {invoice}.")
    return SequentialAgent(name="bill", sub_agents=[extractor, teller])


@shape()
def before_agent_callback() -> Any:
    def fill(callback_context: Any) -> None:
        callback_context.state["user_name"] = "Ada"

    return llm("greeter", "Greet {user_name}.", before_agent_callback=fill)


@shape()
def every_callback() -> Any:
    def look(*given: object, **named: object) -> None:
        return None

    kinds = ("before_agent", "after_agent", "before_model", "after_model", "before_tool")
    callbacks = {f"{kind}_callback": look for kind in kinds}
    return llm("guarded", "Answer {anything}.", after_tool_callback=[look, look], **callbacks)


@shape()
def workflow_callback() -> Any:
    def fill(callback_context: Any) -> None:
        callback_context.state["topic"] = "bees"

    return SequentialAgent(
        name="prepared", sub_agents=[llm("writer", "On {topic}.")], before_agent_callback=fill
    )


@shape()
def planner() -> Any:
    return llm("planner", "Plan.", planner=PlanReActPlanner(), tools=[get_weather])


@shape()
def long_running() -> Any:
    def ask_for_approval(amount: float) -> dict[str, str]:
        """Ask the manager."""
        return {"status": "pending"}

    return llm("reimburse", "Pay back.", tools=[LongRunningFunctionTool(func=ask_for_approval)])


@shape()
def confirmed_tool() -> Any:
    return llm("payer", "Pay.", tools=[FunctionTool(get_weather, require_confirmation=True)])


@shape()
def generation_options() -> Any:
    config = GenerateContentConfig(
        temperature=0.2,
        top_k=40,
        max_output_tokens=256,
        stop_sequences=["END"],
        thinking_config=ThinkingConfig(thinking_budget=128),
        presence_penalty=0.1,
    )
    return llm("careful", "Answer.", generate_content_config=config)


@shape()
def instruction_provider() -> Any:
    def instruct(context: Any) -> str:
        return f"You work for {context.state.get('company', 'nobody')}. Keep {{braces}}."

    return llm("provided", instruct)


@shape()
def static_instruction() -> Any:
    return llm("steady", "Now: {mood?}.", static_instruction="Answer as JSON: {answer}")


@shape()
def built_in_search() -> Any:
    return llm("searcher", "Search.", tools=[google_search])


@shape()
def toolset() -> Any:
    class Tools(kit.BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            raise AssertionError("nothing is run")

        async def close(self) -> None:
            raise AssertionError("nothing is run")

    teller = llm("teller", "Tell {what_the_tools_wrote}.")
    return SequentialAgent(name="two", sub_agents=[llm("connected", tools=[Tools()]), teller])


@shape()
def custom_tool() -> Any:
    class Own(kit.BaseTool):
        async def run_async(self, *, args: Any, tool_context: Any) -> object:
            raise AssertionError("nothing is run")

    own = Own(name="own_tool", description="Does it.")
    teller = llm("teller", "Tell {whatever}.")
    return SequentialAgent(name="two", sub_agents=[llm("caller", tools=[own]), teller])


@shape()
def custom_agent() -> Any:
    class Story(kit.BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            raise AssertionError("nothing is run")
            yield

    writer = llm("writer", "Write on {topic}.", output_key="story")
    critic = llm("critic", "Criticise {story}.", output_key="criticism")
    return Story(name="story_flow", sub_agents=[writer, critic])


@shape()
def tool_hands_its_context_on() -> Any:
    keeper = llm("keeper", "Keep.", tools=[remember_all])
    return SequentialAgent(name="kept", sub_agents=[keeper, llm("teller", "Tell {anything}.")])


@shape()
def key_written_by_a_tool() -> Any:
    seller = llm("seller", "Sell.", tools=[add_to_cart])
    return SequentialAgent(name="shop", sub_agents=[seller, llm("cashier", "Charge for {cart}.")])


@shape("WEFT105")
def key_misspelt_behind_a_tool() -> Any:
    seller = llm("seller", "Sell.", tools=[add_to_cart])
    return SequentialAgent(name="shop", sub_agents=[seller, llm("cashier", "Charge for {kart}.")])


@shape()
def inherited_model() -> Any:
    return llm("top", "Lead.", sub_agents=[llm("below", model="")])


@shape()
def app_with_plugins() -> Any:
    root = llm("root", "Answer.", sub_agents=[llm("helper")])
    plugins = [GlobalInstructionPlugin("Be {mood?} and brief.")]
    return App(name="my_app", root_agent=root, plugins=plugins)


@shape()
def flow_below_an_agent() -> Any:
    steps = SequentialAgent(
        name="steps", description="Does both.", sub_agents=[llm("one"), llm("two")]
    )
    return llm("desk", "Hand over.", sub_agents=[steps])


@shape()
def json_in_the_instruction() -> Any:
    return llm("formatter", 'Answer as {"name": "...", "tags": []}, never as {} or ${shell}.')
