"""Tool choice with the model in the box: 20 requests, 3 tools, exact arguments or nothing.

The same agent and the same questions are asked three ways: as an uncompiled request with the
engine's own `tools` parameter; with the tools written into the system text and JSON asked for,
under a schema of all three; and as Weft compiles it, with the choice narrowed and the arguments
held to the schema of the chosen tool.

    python bench/tool_choice.py            both ways, about two minutes on two cores
    python bench/tool_choice.py --ours     only ours
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import weft
from weft import Agent
from weft.models.local import LocalModel
from weft.models.local.model import bound_schema, request_for
from weft.values import JsonObject

Currency = Literal["USD", "EUR", "GBP", "JPY", "NOK"]
Call = tuple[str, dict[str, object]]


def get_weather(city: str, day: Literal["today", "tomorrow"]) -> dict[str, object]:
    """Current weather and forecast for a city.

    Args:
        city: The city, such as Oslo.
        day: The day that is asked about.
    """
    return {"city": city, "day": day}


def convert_currency(
    amount: float, from_currency: Currency, to_currency: Currency
) -> dict[str, object]:
    """Convert an amount of money from one currency to another at today's exchange rate.

    Args:
        amount: How much money.
        from_currency: The currency it is in.
        to_currency: The currency it is changed to.
    """
    return {"amount": amount, "from": from_currency, "to": to_currency}


def create_ticket(
    order_id: str, problem: Literal["late", "damaged", "missing", "wrong item"]
) -> dict[str, object]:
    """Open a support ticket about a problem with an order.

    Args:
        order_id: The order's number, such as A1001.
        problem: What is wrong with the order.
    """
    return {"order": order_id, "problem": problem}


def weather(city: str, day: str) -> Call:
    return "get_weather", {"city": city, "day": day}


def money(amount: float, given: str, wanted: str) -> Call:
    named = {"amount": amount, "from_currency": given, "to_currency": wanted}
    return "convert_currency", dict(named)


def ticket(order: str, problem: str) -> Call:
    return "create_ticket", {"order_id": order, "problem": problem}


CASES: tuple[tuple[str, Call], ...] = (
    ("What is the weather in Oslo today?", weather("Oslo", "today")),
    ("Will it rain in Bergen tomorrow?", weather("Bergen", "tomorrow")),
    ("How warm does it get in Madrid tomorrow?", weather("Madrid", "tomorrow")),
    ("Do I need an umbrella in London today?", weather("London", "today")),
    ("Give me tomorrow's forecast for Berlin.", weather("Berlin", "tomorrow")),
    ("Is it sunny in Lisbon today?", weather("Lisbon", "today")),
    ("Tell me the weather for Paris tomorrow.", weather("Paris", "tomorrow")),
    ("Convert 100 USD to EUR.", money(100, "USD", "EUR")),
    ("How many NOK do I get for 50 EUR?", money(50, "EUR", "NOK")),
    ("Change 2500 JPY into GBP, please.", money(2500, "JPY", "GBP")),
    ("What is 75 GBP in USD?", money(75, "GBP", "USD")),
    ("I have 300 NOK. What is that in JPY?", money(300, "NOK", "JPY")),
    ("Exchange 20 EUR to USD.", money(20, "EUR", "USD")),
    ("How much money is 1000 JPY in NOK?", money(1000, "JPY", "NOK")),
    ("My order A1007 arrived damaged.", ticket("A1007", "damaged")),
    ("Open a ticket: order B2210 is late.", ticket("B2210", "late")),
    ("Order C3344 has a missing part, please open a ticket.", ticket("C3344", "missing")),
    ("I got the wrong item in order D4001.", ticket("D4001", "wrong item")),
    ("The package for order A5150 is still late.", ticket("A5150", "late")),
    ("Something is missing from order B7788.", ticket("B7788", "missing")),
)

MODEL = LocalModel("local", window=2048, fetch=True)
AGENT = Agent(
    "helper",
    model=MODEL,
    instruction="You are a helpful assistant.",
    tools=[get_weather, convert_currency, create_ticket],
    generate_config={"max_output_tokens": 80},
)


async def ours(question: str) -> Call | None:
    """What Weft compiles, sends and lifts."""
    compiled = weft.compile(AGENT, message=question)
    async for answer in MODEL.generate(compiled.prompt, compiled.wire, stream=False):
        for part in (answer.content.parts or ()) if answer.content is not None else ():
            call = part.function_call
            if call is not None and call.name:
                return call.name, dict(call.args or {})
    return None


def uncompiled(question: str) -> JsonObject:
    """The request as one writes it by hand: all tools, no choice made."""
    compiled = weft.compile(AGENT, message=question)
    return {key: value for key, value in compiled.wire.items() if key != "tool_choice"}


async def native(question: str) -> Call | None:
    """The engine's own `tools` parameter."""
    body = request_for(uncompiled(question), takes_tools=True, limit=80).body
    return _read(await _asked(body))


async def listed(question: str) -> Call | None:
    """Tools in the system text, JSON asked for, any of the three allowed by a schema.

    Of four usual wordings this is one of the two with the most exact calls.
    """
    wire = uncompiled(question)
    tools = [tool["function"] for tool in wire.pop("tools")]  # type: ignore[index, union-attr, call-overload]
    text = f"{wire['messages'][0]['content']}\n\nYou have access to the following tools:\n"  # type: ignore[index, call-overload]
    for tool in tools:
        text += f"- {tool['name']}: {tool['description']}"  # type: ignore[index, call-overload]
        text += f" Parameters: {json.dumps(tool['parameters'])}\n"  # type: ignore[index, call-overload]
    text += '\nAnswer with a JSON object {"name": <tool name>, "arguments": <arguments>}'
    text += " that calls the right tool."
    shapes = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool["name"]},  # type: ignore[index, call-overload]
                "arguments": bound_schema(tool["parameters"]),  # type: ignore[index, call-overload]
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    body = request_for(wire, takes_tools=True, limit=80).body
    body["messages"] = [{"role": "system", "content": text}, *wire["messages"][1:]]  # type: ignore[misc, index]
    body["json_schema"] = {"anyOf": shapes}  # type: ignore[dict-item]
    return _read(await _asked(body))


async def _asked(body: JsonObject) -> JsonObject:
    """The whole answer of the bare engine."""
    from weft.dialects import stream_of

    _, engine = MODEL.start()
    reader = stream_of("openai-chat")

    def tell(piece: JsonObject) -> bool:
        if "prompt_progress" not in piece:
            reader.feed("", piece)
        return False

    await asyncio.get_running_loop().run_in_executor(engine.workers, engine.answer, body, tell)
    return reader.body()


def _read(body: JsonObject) -> Call | None:
    message = body["choices"][0]["message"]  # type: ignore[index, call-overload]
    try:
        calls = message.get("tool_calls")  # type: ignore[union-attr]
        held = calls[0]["function"] if calls else json.loads(message.get("content") or "")  # type: ignore[index, call-overload, union-attr, arg-type]
        arguments = held["arguments"]  # type: ignore[index, call-overload]
        return held["name"], json.loads(arguments) if isinstance(arguments, str) else arguments  # type: ignore[index, call-overload, return-value]
    except (ValueError, KeyError, TypeError):
        return None


async def measured(name: str, ask: Callable[[str], Awaitable[Call | None]]) -> tuple[int, int]:
    """Ask all questions one way, and print a line for each that was not exact."""
    right = exact = 0
    begun = time.perf_counter()
    for question, wanted in CASES:
        got = await ask(question)
        right += got is not None and got[0] == wanted[0]
        exact += got == wanted
        if got != wanted:
            print(f"    {name}: {question} -> {got if got is not None else 'no call'}")
    seconds = (time.perf_counter() - begun) / len(CASES)
    print(f"{name:<34} right tool {right:>2} of 20, exact {exact:>2} of 20, {seconds:.2f} s a call")
    return right, exact


async def main() -> None:
    ways: list[tuple[str, Callable[[str], Awaitable[Call | None]]]] = [("weft", ours)]
    if "--ours" not in sys.argv[1:]:
        ways = [
            ("uncompiled, engine's tools", native),
            ("uncompiled, listed, any by schema", listed),
            *ways,
        ]
    for name, ask in ways:
        await measured(name, ask)


if __name__ == "__main__":
    asyncio.run(main())
