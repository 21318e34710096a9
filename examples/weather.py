"""A weather bot and a router, compiled and explained. No key, no network: just run this file.

The agents can be imported, so the command line can show them too:

    weft compile examples/weather.py:weather_bot -m "What's the forecast?" --state location=NYC
    weft explain examples/weather.py:router -m "Any storms in Oslo?"
"""

import json
from typing import Literal

import weft
from weft import Agent, Content, Event, Part, RunConfig, Session


def get_weather(city: str, units: Literal["c", "f"] = "c") -> dict[str, object]:
    """Current weather for a city.

    Args:
        city: Name of the city.
        units: Celsius or Fahrenheit.
    """
    return {"city": city, "sky": "clear", "degrees": 21 if units == "c" else 70}


def get_news(topic: str) -> list[str]:
    """Today's headlines on a topic."""
    return [f"Nothing new about {topic}."]


weather_bot = Agent(
    "weather_bot",
    model="gemini-flash-latest",
    description="Helps users with weather queries.",
    instruction="You help users with weather. The user is in {location}.",
    tools=[get_weather],
    generate_config={"temperature": 0.7, "max_tokens": 1024},
)

router = Agent(
    "router",
    model="gemini-flash-latest",
    instruction="Route requests to the right specialist.",
    sub_agents=[
        Agent("weather", description="Handles weather-related questions")
        .instruct("You handle weather queries.")
        .uses(get_weather),
        Agent("news", description="Handles news-related questions")
        .instruct("You handle news queries.")
        .uses(get_news),
    ],
)

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")


def heading(text: str) -> None:
    print(f"\n== {text}")


def main() -> None:
    question = "What's the forecast?"
    first = weft.compile(weather_bot, state={"location": "NYC"}, message=question)

    heading("A declaration and a message become a request")
    for line in str(first.prompt).splitlines():
        print(line if len(line) <= 100 else f"{line[:97]}...")

    heading("Explained: where every token came from")
    print(first.explain())

    heading("A router is told whom it may hand over to, and gets the tool for it")
    routed = weft.compile(router, message="Any storms in Oslo?")
    print(f"{routed.system}\n  tools: {', '.join(routed.tools)}")

    heading("A run overrides the agent's options, one by one")
    cooler = RunConfig(generate_config={"temperature": 0.3})
    second = weft.compile(weather_bot, state={"location": "NYC"}, message=question, config=cooler)
    print(first.diff(second))

    heading("A variable without a value stays as written, and is reported")
    missing = weft.compile(weather_bot, message=question)
    print(f"{missing.system.splitlines()[-1]}\n{missing.diagnostics[0]}")

    heading("One prompt, four dialects")
    for dialect in DIALECTS:
        wire = first.lower(dialect)
        print(f"{dialect:<17} {', '.join(wire)}")
        print(f"{'':<17} {json.dumps(list(wire.values())[-1])[:82]}")

    heading("The next turn extends the bytes of this one")
    session = Session(state={"location": "NYC"}).append(
        Event(author="user", content=Content(role="user", parts=(Part(text=question),))),
        Event(
            author="weather_bot", content=Content(role="model", parts=(Part(text="Clear, 21°."),))
        ),
    )
    later = weft.compile(weather_bot, session=session, message="And tomorrow?")
    shared = later.stable_prefix.tokens
    print(f"{shared} of {later.tokens} tokens are shared with the request before")
    print(f"what broke the prefix: {later.prefix_break or 'nothing'}")


if __name__ == "__main__":
    main()
