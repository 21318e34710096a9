"""What users write, checked by pyright strict: nothing here may need a cast or an ignore."""

# pyright: strict

import dataclasses
from collections.abc import Mapping
from typing import Literal

import weft
from weft import (
    Agent,
    C,
    Compiled,
    Content,
    Event,
    Fallback,
    Loop,
    Parallel,
    Part,
    Raw,
    ReadonlyContext,
    Route,
    RunConfig,
    Sequence,
    Session,
    Step,
    TokenBudget,
    ToolContext,
    Toolset,
    tool,
    until,
)
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
