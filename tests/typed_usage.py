"""What users write, checked by pyright and mypy strict: nothing may need a cast or an ignore."""

# pyright: strict

import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, TypedDict, assert_type

import msgspec
import pydantic

import weft
from weft import (
    Agent,
    C,
    CallbackContext,
    Compiled,
    Content,
    CustomAgent,
    Event,
    Fallback,
    Loop,
    ModelResponse,
    Parallel,
    Part,
    Raw,
    ReadonlyContext,
    Result,
    Route,
    RunConfig,
    RunContext,
    Runner,
    Running,
    Sequence,
    Session,
    Step,
    TokenBudget,
    Tool,
    ToolContext,
    Toolset,
    tool,
    until,
)
from weft.ir import Prompt
from weft.values import Json


def get_weather(city: str, units: Literal["c", "f"] = "c") -> dict[str, str]:
    """Current weather for a city."""
    return {"city": city, "units": units}


@tool(writes=["ticket"], timeout=10, retries=2)
async def open_ticket(summary: str, ctx: ToolContext) -> str:
    """Open a ticket."""
    return f"{ctx.agent_name}: {summary}"


@tool
def close_ticket(number: int) -> str:
    """Close a ticket."""
    return str(number)


class Lookup:
    """Look a word up."""

    def run(self, word: str) -> str:
        return word


def instruct(context: ReadonlyContext) -> str:
    return f"You are {context.agent_name}."


async def instruct_later(context: ReadonlyContext) -> Raw:
    return Raw(context.agent_name)


def before(context: object) -> None:
    del context


@dataclasses.dataclass
class Forecast:
    city: str
    degrees: float


detail = Agent("detail", description="Details.", instruction=instruct)
bot = Agent(
    "weather_bot",
    model="gemini-flash-latest",
    instruction="You help users with weather. The user is in {location}.",
    description="Helps users with weather queries",
    tools=[
        get_weather,
        open_ticket,
        close_ticket,
        Lookup,
        Toolset("t", (Lookup(),), "t_"),
    ],
    sub_agents=[detail],
    output_key="forecast",
    output_schema=Forecast,
    input_schema={"type": "object"},
    context=C.default().keep_duplicates(),
    context_compressor=TokenBudget(token_budget=4096, keep_recent=3),
    generate_config={"temperature": 0.3, "max_output_tokens": 1024, "stop": ["END"]},
    global_instruction=instruct_later,
    before_agent=before,
    after_agent=[before, before],
    on_tool_error="raise",
    on_missing="error",
    allow=["WEFT101"],
)
plain = Agent("plain", include_contents="none", context_compressor={"token_budget": 4096})
same = Agent("same").instruct("Help.").uses(get_weather, Lookup).writes("x").sees(C.none())
grown: Agent = same.delegates_to(detail).returns(Forecast).describe("Helps.")
renamed: Agent = dataclasses.replace(detail, name="detail_2")

session = Session("s", state={"location": "NYC", "seen": [1, {"deep": None}]})
session = session.append(
    Event(author="user", content=Content(role="user", parts=(Part(text="Hi"),)))
)
compiled: Compiled = weft.compile(
    bot,
    session=session,
    state={"location": "NYC"},
    message=["Look at this", Part(text="What's the forecast?")],
    config=RunConfig(generate_config={"temperature": 0.3}, on_missing="keep"),
)
text: str = compiled.system
names: list[str] = compiled.tools
static, dynamic = weft.instructions.compile_split(bot, {"location": "NYC"})
both: str = static + dynamic + weft.instructions.substitute_vars("Hello {name}!", {"name": "World"})


def tidy(state: Mapping[str, Json]) -> dict[str, Json]:
    return {"topic": str(state["topic"]).strip()}


async def fetch(state: Mapping[str, object]) -> None:
    del state


def was_sent(call_id: str, args: dict[str, Json]) -> dict[str, Json] | None:
    return {"id": call_id} if args else None


@tool(effect="probe", probe=was_sent)
def send(letter: str) -> str:
    """Send a letter."""
    return letter


triage, web, papers, writer, critic = (Agent(name) for name in ("t", "w", "p", "x", "y"))
trip: Sequence = triage.writes("intent") >> Route("intent").eq("booking", writer).otherwise(critic)
report: Sequence = (web | papers) >> writer
polish: Loop = (writer >> critic) * until(lambda state: state["score"] > 0.8, max=3)
thrice: Loop = 3 * (writer * 2)
robust: Fallback = writer // critic // tidy
typed: Agent = Agent("extract") @ Forecast
steps: Sequence = tidy >> triage >> fetch >> Step(lambda state: {"n": len(state["x"])}) >> writer
fan: Parallel = Parallel(web, papers, name="search", on_error="collect") | Step(tidy, writes=["x"])
choice = (
    Route("score", name="by_score")
    .gt(0.8, writer)
    .contains("x", fan)
    .when(lambda state: state.get("tier") == "vip", tidy)
    .otherwise(report)
)
led: Agent = Agent("boss", sub_agents=[report, critic]).delegates_to(robust)


def name_of(flow: weft.Flow) -> str:
    return f"{flow.name}: {flow.description}"


named: str = name_of(choice) + name_of(polish)


# What an agent answers with is known from its schema.


class Invoice(pydantic.BaseModel):
    number: str
    total: float


class Point(msgspec.Struct):
    x: int


class Row(TypedDict):
    city: str


invoices: Agent[Invoice] = Agent("extract") @ Invoice
assert_type(Agent("plain"), Agent[str])
assert_type(Agent("extract") @ Invoice, Agent[Invoice])
assert_type(Agent("extract").returns(Point), Agent[Point])
assert_type(Agent("extract", output_schema=Forecast), Agent[Forecast])
assert_type(Agent("extract", output_schema=list[Invoice], max_steps=3), Agent[list[Invoice]])
assert_type(Agent("extract", output_schema=Row).instruct("Read.").writes("row"), Agent[Row])
assert_type(Agent("extract", output_schema={"type": "object"}), Agent[Any])
assert_type(Agent("extract") @ Invoice @ Point, Agent[Point])
assert_type(dataclasses.replace(invoices, name="other"), Agent[Invoice])
either: Agent[Invoice | Point] = Agent("extract", output_schema=Invoice | Point)
wider: Agent[object] = invoices
agents: list[Agent] = [invoices, either, bot]


async def use_results() -> None:
    assert_type(weft.run_sync(invoices, "Read this."), Result[Invoice])
    assert_type(weft.run_sync(invoices, "Read this.").value, Invoice)
    assert_type(weft.run_sync(invoices, "Read this.").check().value.total, float)
    assert_type(weft.run_sync(Agent("plain"), "Hi").value, str)
    assert_type(weft.run(invoices, "Read this.", state={"a": 1}), Running[Invoice])
    assert_type(await weft.run(invoices, "Read this."), Result[Invoice])
    assert_type((await weft.run(either, "Read this.")).value, Invoice | Point)
    assert_type(weft.run_sync(invoices >> writer, "Go.").value, Any)
    async for event in weft.stream(invoices, "Read this."):
        assert_type(event, Event)
    async for partial in weft.stream(invoices, "Read this.").values():
        assert_type(partial, Invoice)
    async with Runner(invoices, store="sqlite:///weft.db") as runner:
        assert_type(runner, Runner[Invoice])
        result = await runner.run("Read this.", session_id="s")
        assert_type(result, Result[Invoice])
        assert_type(result.value.number, str)
        assert_type(result.truncated, bool)
        assert_type(result.waiting, dict[str, str])
        assert_type((await runner.resume(session_id="s")).value, Invoice)
    assert_type(Runner(report), Runner[Any])
    kept: Runner[Invoice] = Runner(invoices)
    del kept
    assert_type(await later("x"), list[str])


# A tool keeps the signature of its function.


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool(timeout=5)
async def later(text: str) -> list[str]:
    """Wait."""
    return [text]


assert_type(add(1, 2), int)
assert_type(add(a=1), int)
assert_type(close_ticket(3), str)
assert_type(add.name, str)
function: Callable[[int, int], int] = add
any_tool: Tool = add
tools: list[Tool] = [add, later, Tool(name="raw", description="", parameters={})]


# Callbacks are typed by position.


def greet(ctx: CallbackContext) -> Content | None:
    return Content(parts=(Part(text=ctx.agent_name),)) if ctx.state.get("new") else None


async def look(ctx: CallbackContext, prompt: Prompt) -> Prompt | None:
    return prompt if prompt.tools else None


def shorten(ctx: CallbackContext, response: ModelResponse) -> ModelResponse | None:
    return response if response.usage else None


def block(ctx: ToolContext, tool: Tool, args: dict[str, object]) -> dict[str, str] | None:
    return {"error": tool.name} if "path" in args and ctx.call_id else None


async def trim(
    ctx: ToolContext, tool: Tool, args: dict[str, object], result: dict[str, Any]
) -> None:
    result.pop("raw", None)


def recover(ctx: CallbackContext, prompt: Prompt, error: Exception) -> ModelResponse | None:
    return None


guarded = Agent(
    "guarded",
    before_agent=greet,
    before_model=[look, lambda ctx, prompt: prompt if ctx.state else None],
    after_model=shorten,
    before_tool=block,
    after_tool=trim,
    on_model_error=recover,
    on_tool_error=lambda ctx, tool, args, error: {"error": f"{tool.name}: {error}"},
)
assert_type(guarded, Agent[str])


# Dependencies and custom agents.


class Db:
    """What an application hands to its tools."""

    def find(self, name: str) -> str:
        return name


@tool
def look_up(name: str, ctx: ToolContext[Db]) -> str:
    """Look somebody up."""
    assert_type(ctx.deps, Db)
    return ctx.deps.find(name)


def greet_from(ctx: CallbackContext[Db]) -> None:
    assert_type(ctx.deps.find("Ada"), str)


def instruct_from(ctx: ReadonlyContext[Db]) -> str:
    return assert_type(ctx.deps, Db).find("Ada")


class Escalate(CustomAgent):
    """Code that decides."""

    classifier: Agent[str]
    writes = ("owner",)
    deps_type = Db

    async def run(self, ctx: RunContext[Db]) -> AsyncIterator[Event]:
        async for event in ctx.run(self.classifier):
            yield assert_type(event, Event)
        yield ctx.say(ctx.deps.find("Ada"), owner="human")


def run_with_deps() -> None:
    agent = Agent(
        "bot", instruction=instruct_from, tools=[look_up], before_agent=greet_from, deps_type=Db
    )
    escalate = Escalate("escalate", classifier=agent)
    assert_type(escalate, Escalate)
    weft.run_sync(Sequence(escalate, agent, before_agent=greet_from), "hi", deps=Db())
    assert_type(weft.run_sync(agent, "hi", deps=Db()).value, str)
