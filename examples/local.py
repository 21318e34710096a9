"""A real agent without a key: the model in the box answers, calls tools, and reads nothing twice.

    weft model get                    once: 93 MB, checked
    python examples/local.py

The model is very small, so what it says is clumsy. What it shows is real: which tool is called
with what, what the model saw, and how much of each request it had read before.
"""

import asyncio
import time
from typing import Literal

import weft
from weft import Agent, Event, Runner
from weft.dialects.wire import objects_in
from weft.models import LocalModel
from weft.models.local.model import request_for

FORECASTS = {"Oslo": ("rain", 8), "Bergen": ("storm", 6), "Rome": ("sun", 19)}
RATES = {"EUR": 1.0, "NOK": 11.75}
Currency = Literal["EUR", "NOK"]


def get_weather(city: str) -> dict[str, object]:
    """Current weather for a city."""
    sky, degrees = FORECASTS.get(city, ("unknown", 0))
    return {"city": city, "sky": sky, "degrees": degrees}


def convert_currency(
    amount: float, from_currency: Currency, to_currency: Currency
) -> dict[str, object]:
    """Convert an amount of money to another currency."""
    changed = round(amount / RATES[from_currency] * RATES[to_currency], 2)
    return {"amount": changed, "currency": to_currency}


def track_order(order_id: str) -> dict[str, object]:
    """Where a package is: track the delivery of an order."""
    return {"order": order_id, "status": "on its way", "arrives": "Friday"}


QUESTIONS = (
    "What is the weather in Oslo?",
    "Convert 50 EUR to NOK.",
    "When does my order A1007 arrive?",
)

model = LocalModel("local", window=2048)
helper = Agent(
    "helper",
    model=model,
    instruction="You are a helpful assistant. Answer in one short sentence.",
    tools=[get_weather, convert_currency, track_order],
    generate_config={"max_output_tokens": 60},
)


def heading(text: str) -> None:
    print(f"\n== {text}")


def show(event: Event) -> None:
    """What happened, and what it took."""
    for call in event.calls:
        print(f"  helper -> {call.name}({call.args})")
    for result in event.results:
        print(f"  helper <- {result.response}")
    if event.error_code:
        print(f"  error     {event.error_message}")
    elif event.text:
        print(f"  helper    {event.text}")
    if event.usage is not None:
        read, cached = event.usage.prompt_token_count or 0, event.usage.cached_content_token_count
        said = event.usage.candidates_token_count
        print(f"            {read} tokens in, {cached or 0} of them cached, {said} out")


async def main() -> None:
    begun = time.perf_counter()
    runner = Runner(helper)
    heading("Three questions, three tools, one small model on this machine")
    for question in QUESTIONS:
        print(f"  user      {question}")
        async for event in runner.run(session_id="s", message=question):
            show(event)

    session = await runner.session(session_id="s")
    last = max(i for i, event in enumerate(session.events) if event.calls)
    compiled = weft.compile(helper, session=session.before(last))

    heading("What the model saw before its last call: text, and a grammar for its answer")
    seen = request_for(compiled.wire, takes_tools=False, limit=60).body
    for turn in objects_in(seen["messages"]):
        for line in str(turn["content"]).splitlines():
            print(f"  {turn['role']!s:<9} {line}")
    grammar = " ".join(str(seen["grammar"]).split())
    print(f"  grammar   {grammar if len(grammar) <= 90 else grammar[:87] + '...'}")

    heading("Who made the choice, and why")
    for row in compiled.explain().left_out:
        if row.step == "prune_tools":
            print(f"  {row.step}: {row.reason}")
    print(f"\nall of it took {time.perf_counter() - begun:.0f} s")
    print("to see every request in a browser: pip install '.[serve]', then")
    print("  weft serve examples/local.py:helper")


if __name__ == "__main__":
    asyncio.run(main())
