"""Sessions to measure on: a weather bot that calls a tool in every turn."""

import random

from weft import Actions, Agent, Content, Event, Part
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


def pipeline_turn(turn: int, agents: tuple[str, ...]) -> list[Event]:
    """One turn of a sequence of agents, as a run stores it: each calls a tool and answers."""
    invocation = f"i{turn}"
    asked = Content(role="user", parts=(Part(text=f"Question {turn}: {QUESTION}"),))
    made = [Event(author="user", invocation_id=invocation, content=asked)]
    for at, agent in enumerate(agents):
        call = f"c{turn}-{agent}"
        said = [
            ("model", call_part("get_weather", {"city": "Oslo", "day": turn}, id=call)),
            ("user", result_part("get_weather", {"t": turn, "text": REPORT}, id=call)),
            ("model", Part(text=ANSWER)),
        ]
        made += [
            Event(
                author=agent,
                invocation_id=invocation,
                content=Content(role=role, parts=(part,)),
                node_info={"path": f"sequence/{agent}@{at}"},
            )
            for role, part in said
        ]
    end = Actions(end_of_agent=True)
    node = {"path": "sequence"}
    ended = Event(author="sequence", invocation_id=invocation, actions=end, node_info=node)
    return [*made, ended]


def long_turn(turn: int) -> list[Event]:
    """As `varied_turn`, with a result that is long enough to be folded one day."""
    return varied_turn(turn, found=400)


def varied_turn(turn: int, *, found: int = 14) -> list[Event]:
    """One turn of texts that never repeat, in words that are used as often as in a language.

    What the tool returned has as many words as `found` says.
    """
    invocation, call = f"i{turn}", f"c{turn}"
    asked, told, offer = (_text(4 * turn + part) for part in (0, 2, 3))
    result = _text(4 * turn + 1, length=found)
    said: list[tuple[str, str, Part]] = [
        ("user", "user", Part(text=asked)),
        ("bot", "model", call_part("get_weather", {"city": f"c{turn}", "day": turn}, id=call)),
        ("bot", "user", result_part("get_weather", {"t": turn, "text": result}, id=call)),
        ("bot", "model", Part(text=told)),
        ("bot", "model", Part(text=offer)),
    ]
    return [
        Event(author=a, invocation_id=invocation, content=Content(role=r, parts=(p,)))
        for a, r, p in said
    ]


def _text(number: int, *, length: int = 14) -> str:
    chosen = random.Random(number).choices(_WORDS, _OFTEN, k=length)
    return f"{' '.join(chosen)} {number}"


_SYLLABLES = [first + then for first in "bcdfghklmnprstvw" for then in "aeiou"]
_WORDS = [a + b + c for a in _SYLLABLES[::4] for b in _SYLLABLES[::4] for c in _SYLLABLES[::6]]
_OFTEN = [1 / (rank + 3) for rank in range(len(_WORDS))]
