"""A cold compile against google-adk assembling and lowering the same session."""

import asyncio
import logging
import time
import warnings
from collections.abc import Callable

from sessions import BOT, events
from table import Table, best

import weft
from weft import Session

STATE = {"location": "NYC"}
COUNT = 2_000
ROUNDS = 7


def measure() -> Table:
    """The same events, agent and model on both sides, as far as each stage goes."""
    table = Table(f"against google-adk ({COUNT:,} events, gemini)")
    log = events(COUNT)
    compiled = min(best(compiling(log), rounds=1) for _ in range(ROUNDS))
    sent = min(best(compiling(log, lower=True), rounds=1) for _ in range(ROUNDS))
    try:
        assembled, lowered = _google_adk(log)
    except ImportError as error:
        table.note("google-adk", f"not installed: {error}")
        return table
    table.add(
        "events to a prompt", compiled, "adk to an LlmRequest", assembled, 20.0, at_least=True
    )
    both = assembled + lowered
    table.add(
        "events to the JSON that is sent", sent, "adk with its SDK", both, 20.0, at_least=True
    )
    return table


def compiling(log: list[weft.Event], *, lower: bool = False) -> Callable[[], object]:
    """Compile a session nobody has compiled yet, up to the prompt or to what is sent."""
    session = Session("s", state=STATE, events=log)
    if lower:
        return lambda: weft.compile(BOT, session=session).wire
    return lambda: weft.compile(BOT, session=session)


def _google_adk(log: list[weft.Event], rounds: int = 3) -> tuple[float, float]:
    """Seconds of ADK's request processors, and of its SDK turning the result into JSON objects."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from google.adk.agents import LlmAgent
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.agents.run_config import RunConfig
    from google.adk.events.event import Event as AdkEvent
    from google.adk.models.llm_request import LlmRequest
    from google.adk.sessions.in_memory_session_service import InMemorySessionService
    from google.adk.sessions.session import Session as AdkSession
    from google.genai import Client, models, types

    def get_weather(city: str, day: int) -> dict[str, str]:
        """Weather of a city on a day."""
        return {"city": city, "day": str(day)}

    agent = LlmAgent(
        name="bot",
        model="gemini-flash-latest",
        instruction="You help users with weather. The user is in {location}.",
        tools=[get_weather],
    )
    session = AdkSession(
        id="s",
        app_name="bench",
        user_id="u",
        state=dict(STATE),
        events=[AdkEvent.model_validate_json(event.to_json()) for event in log],
    )
    context = InvocationContext(
        session_service=InMemorySessionService(),
        invocation_id="bench",
        agent=agent,
        session=session,
        run_config=RunConfig(),
    )

    async def assemble() -> LlmRequest:
        request = LlmRequest()
        async for _ in agent._llm_flow._preprocess_async(context, request):
            pass
        return request

    client = Client(api_key="none")._api_client
    assembled, lowered = [], []
    for _ in range(rounds):
        start = time.process_time()
        request = asyncio.run(assemble())
        middle = time.process_time()
        models._GenerateContentParameters_to_mldev(
            client,
            types._GenerateContentParameters(
                model="gemini-flash-latest", contents=request.contents, config=request.config
            ),
        )
        assembled.append(middle - start)
        lowered.append(time.process_time() - middle)
    return min(assembled), min(lowered)
