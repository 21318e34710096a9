"""Sessions for the inspector's tests: run with a scripted model, as a user's would be."""

import asyncio

from weft import Agent, C, Runner, tool
from weft.inspector import Inspection
from weft.session import Session
from weft.testing import ScriptedModel, call
from weft.values import JsonObject


@tool
def find_flights(city: str) -> str:
    """Find flights to a city."""
    return f"SK{len(city)}01, DY{len(city)}22 to {city}, and notes: " + "window seat, " * 40


@tool
def book_hotel(name: str) -> str:
    """Book a hotel."""
    return f"booked {name}"


def travel_agent(turns: int = 6) -> Agent:
    """An agent that searches once a turn, and sees the last two turns only."""
    script: list[object] = []
    for turn in range(turns):
        script += [call("find_flights", city=f"City{turn}"), f"Take SK501 to City{turn}."]
    return Agent(
        "traveller",
        model=ScriptedModel(script, name="claude-opus-5", dialect="anthropic"),
        instruction="You book trips. The user likes {seat?}.",
        tools=[find_flights, book_hotel],
    ).sees(C.window(2))


async def travelled(turns: int = 6) -> tuple[Agent, Session, list[JsonObject]]:
    """The agent, the session, and the requests that were really sent."""
    agent = travel_agent(turns)
    runner = Runner(agent)
    for turn in range(turns):
        state = {"seat": "aisle seats"} if turn == 0 else None
        await runner.run(f"Fly me to City{turn}", session_id="s", state=state)
    session = await runner.session(session_id="s")
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return agent, session, model.wires


def inspected(turns: int = 6) -> tuple[Inspection, list[JsonObject]]:
    """An inspection of that session, and the requests that were sent."""
    agent, session, sent = asyncio.run(travelled(turns))
    return Inspection(agent, session, files=(__file__,)), sent
