"""An agent for worker processes: it books what each message says, and can be slow or deadly."""

import asyncio
import inspect
import os
import signal
import time
from pathlib import Path

from weft import Agent, ToolContext, tool
from weft.ir import Prompt
from weft.testing import ScriptedModel, call


@tool(effect="transactional")
async def book(item: str, ctx: ToolContext) -> str:
    """Book an item.

    Args:
        item: What to book.
    """
    statement = f"INSERT INTO bookings VALUES ('{item}')"
    result = ctx.connection.execute(statement)  # type: ignore[attr-defined]
    if inspect.isawaitable(result):
        await result
    return f"booked {item}"


async def answer(prompt: Prompt) -> object:
    """Book what the last message says, then say that it is done."""
    item = str(prompt).rsplit("\nuser: ", 1)[-1].split("\n")[0]
    if "user result" in str(prompt).rsplit("\nuser: ", 1)[-1]:
        return f"done {item}"
    if item.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if item.startswith("block"):  # the event loop stands still
        while not Path(item.split()[1]).exists():  # noqa: ASYNC240
            time.sleep(0.01)  # noqa: ASYNC251
    if item.startswith("until"):
        while not Path(item.split()[1]).exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)
    await asyncio.sleep(float(item.split()[1]) if item.startswith("slow") else 0.02)
    return call("book", item=item)


desk = Agent("desk", model=ScriptedModel([answer] * 10_000), tools=[book])
