"""A trip, planned by five agents: run, then look at what one of them was really sent.

No key and no network: the model follows a script. Everything else is real: the flow, the tools,
the log, the requests. `make demo` runs this file; the flow can be imported, so the command line
can run it too:

    weft run examples/trip.py:trip "Fly me to Oslo next week" -v
"""

import asyncio
import json

import weft
from weft import Agent, Event, Origin, Route, RunConfig, Runner
from weft.testing import ScriptedModel, call


def find_flights(city: str, day: str) -> dict[str, object]:
    """Flights to a city on a day.

    Args:
        city: Where to.
        day: A day of the week.
    """
    return {"flight": "DY1301", "day": day, "city": city, "price": "89 EUR"}


def find_hotels(city: str) -> list[str]:
    """Hotels in a city that have a room."""
    return [f"Hotel {city} Harbour", f"{city} Inn"]


model = ScriptedModel(
    {
        "triage": ["booking"],
        "fares": ["Cheapest on Tuesday, from 89 EUR."],
        "weather": ["Rain until Monday, sun from Tuesday on."],
        "booker": [
            [call("find_flights", city="Oslo", day="Tuesday"), call("find_hotels", city="Oslo")],
            "Fly on Tuesday: DY1301, 89 EUR, and the sun comes out. Hotel Oslo Harbour has a room.",
        ],
        "helper": ["I can book trips. Where would you like to go?"],
    },
    name="gemini-flash-latest",
)

triage = Agent("triage", model=model, instruction="Classify the request: booking or other.")
fares = Agent("fares", model=model, instruction="Say when it is cheapest to go.")
weather = Agent("weather", model=model, instruction="Say what weather to expect.")
booker = Agent(
    "booker",
    model=model,
    instruction="Plan the trip.\nIntent: {intent}\nFares: {fares}\nWeather: {weather}",
    tools=[find_flights, find_hotels],
)
helper = Agent("helper", model=model, instruction="Say what you can do.")

research = fares.writes("fares") | weather.writes("weather")
trip = triage.writes("intent") >> Route("intent").eq("booking", research >> booker).otherwise(
    helper
)


def heading(text: str) -> None:
    print(f"\n== {text}")


def show(event: Event, begun: bool) -> bool:
    """Print what happens as it happens; gives back whether a streamed line is open."""
    if event.partial:
        if event.author == "booker":  # what the others say is data for it, not for the user
            print(event.text if begun else f"  booker   {event.text}", end="", flush=True)
        return begun or event.author == "booker"
    if begun:
        print()
    for key, value in event.actions.state_delta.items():
        print(f"  {event.author:<8} {key} = {value!r}")
    for made in event.calls:
        print(f"  {event.author:<8} -> {made.name}({made.args})")
    for result in event.results:
        print(f"  {event.author:<8} <- {result.response}")
    return False


def place(origin: Origin, authors: dict[str, str]) -> str:
    """An origin in words: events by who made them."""
    if origin.kind != "event":
        return str(origin)
    return f"event of {authors.get(origin.name, '?')}"


async def main() -> None:
    question = "Fly me to Oslo next week"
    runner = Runner(trip)

    heading("Five agents plan a trip: the model follows a script, the rest is real")
    print(f"  user     {question}")
    begun = False
    config = RunConfig(stream=True)
    async for event in runner.run(session_id="s", message=question, config=config):
        begun = show(event, begun)

    session = await runner.session(session_id="s")
    authors = {event.id: event.author for event in session.events}
    spoke = [i for i, event in enumerate(session.events) if event.author == "booker"]
    rebuilt = weft.compile(booker, session=session.before(spoke[-1]))
    report = rebuilt.explain()

    heading("What the booker was sent before it answered, rebuilt from the log")
    print(f"  tools    {', '.join(rebuilt.tools)}")
    for row in report.sent:
        for line in row.text.splitlines() if row.role else ():
            print(f"  {row.role:<8} {line}")
    same = json.dumps(rebuilt.wire) == json.dumps(model.wires[-1])
    print(f"  -> {'byte for byte what the model got' if same else 'NOT what the model got'}")

    heading(f"Where its {report.tokens} tokens come from")
    for row in report.sent:
        what, where = f"{row.role} {row.kind}".strip(), place(row.origin, authors)
        print(f"  {row.tokens:>4}  {what:<12} {where:<26} {' '.join(row.text.split()):.50}")

    heading("What was said and did not go to it, and why")
    for left in report.left_out:
        if left.before:
            where = place(left.origin, authors)
            print(f"  {left.before:>4}  {where:<20} {left.step}: {left.reason}")

    heading("So the intent reached it once")
    pointer, offset = "/systemInstruction/parts/0/text", rebuilt.system.index("booking")
    times = str(rebuilt.prompt).count("booking")
    writer = next(e.author for e in session.events if "intent" in e.actions.state_delta)
    print(f"  times in the request: {times}, at {pointer}, character {offset}")
    print(f"  from: {rebuilt.origin(pointer, offset)}, which {writer} wrote")


if __name__ == "__main__":
    asyncio.run(main())
