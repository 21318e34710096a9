"""Sessions to measure on: a weather bot that calls a tool in every turn."""

from weft import Agent, Content, Event, Part
from weft.content import call_part, result_part

QUESTION = "what is the weather like in the city of Oslo today? " * 2
ANSWER = "The weather in Oslo is sunny with light clouds. " * 3
OFFER = "Anything else I can do for you today? " * 2
REPORT = "sunny with some clouds and a light breeze from the west"


def get_weather(city: str, day: int) -> dict[str, str]:
    """Weather of a city on a day."""
    return {"city": city, "day": str(day)}


BOT = Agent(
    "bot",
    model="gemini-flash-latest",
    instruction="You help users with weather. The user is in {location}.",
    tools=[get_weather],
)


def events(count: int) -> list[Event]:
    """As many events, five to a turn: question, call, result, answer, offer."""
    made: list[Event] = []
    for turn in range(count // 5):
        made += turn_events(turn)
    return made


def turn_events(turn: int) -> list[Event]:
    """One turn."""
    invocation, call = f"i{turn}", f"c{turn}"
    said: list[tuple[str, str, Part]] = [
        ("user", "user", Part(text=f"Question {turn}: {QUESTION}")),
        ("bot", "model", call_part("get_weather", {"city": "Oslo", "day": turn}, id=call)),
        ("bot", "user", result_part("get_weather", {"t": turn, "text": REPORT}, id=call)),
        ("bot", "model", Part(text=ANSWER)),
        ("bot", "model", Part(text=OFFER)),
    ]
    return [
        Event(author=a, invocation_id=invocation, content=Content(role=r, parts=(p,)))
        for a, r, p in said
    ]
