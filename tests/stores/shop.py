"""An agent whose sessions an earlier version of Weft stored, in `tests/stores/earlier`.

The files were written by the version before its runtime could be served:

    PYTHONPATH=EARLIER/src:. python -m tests.stores.shop FOLDER
"""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weft import Agent, RunConfig, Runner, ToolContext, tool
from weft.models.scripted import Entry
from weft.testing import ScriptedModel, call

done: list[str] = []


async def note(text: str, ctx: ToolContext) -> dict[str, int]:
    """Keep a note."""
    ctx.state["user:notes"] = text
    return {"version": await ctx.save_artifact("notes.txt", text)}


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    done.append(f"paid {amount}")
    return f"paid {amount}"


@tool(long_running=True)
def ask(question: str) -> dict[str, str]:
    """Ask a manager."""
    return {"status": "asked"}


@tool(effect="unsafe")
def send(item: str) -> str:
    """Send an item."""
    if os.environ.get("POWER_CUT"):
        os._exit(7)
    done.append(f"sent {item}")
    return "sent"


def runner_over(folder: Path, script: Sequence[Entry]) -> tuple[Runner, ScriptedModel]:
    """A runner of the shop over the files of a folder."""
    model = ScriptedModel(script)
    shop = Agent(
        "shop",
        tools=[note, pay, ask, send],
        instruction="City: {city?}. Notes: {artifact.notes.txt?}. Last: {user:notes?}.",
    )
    store, artifacts = f"sqlite:///{folder}/weft.db", folder / "artifacts"
    config = RunConfig(model=model)
    return Runner(shop, store=store, artifacts=artifacts, config=config), model


async def say(folder: Path, session: str, script: Sequence[Entry], *messages: str) -> None:
    """Send messages to a session."""
    runner, _ = runner_over(folder, script)
    async with runner:
        for message in messages:
            await runner.run(session_id=session, message=message, state={"city": message})


async def write(folder: Path) -> None:
    """A session with notes, two that wait, one that was taken back."""
    notes = [call("note", text="first"), "noted", call("note", text="second"), "noted again"]
    await say(folder, "talk", notes, "Oslo", "Rome")
    await say(folder, "pay", [call("pay", amount=5)], "Oslo")
    await say(folder, "ask", [call("ask", question="may I?")], "Oslo")
    await say(folder, "back", ["one", "two", "three"], "Oslo", "Rome", "Bergen")
    runner, _ = runner_over(folder, [])
    async with runner:
        session = await runner.session(session_id="back")
        second = session.events[2].invocation_id
        await runner.rewind(session_id="back", invocation_id=second)


def main() -> None:
    """Write the files; a process of its own dies in a call."""
    folder = Path(sys.argv[1])
    if os.environ.get("POWER_CUT"):
        asyncio.run(say(folder, "cut", [call("send", item="kettle")], "Oslo"))
    asyncio.run(write(folder))
    cut = [sys.executable, "-m", "tests.stores.shop", str(folder)]
    assert subprocess.run(cut, env={**os.environ, "POWER_CUT": "1"}, check=False).returncode == 7
    with sqlite3.connect(folder / "weft.db") as database:
        lines = [*database.iterdump()]
        for name in ("application_id", "user_version"):  # which are not in a dump
            lines.append(f"PRAGMA {name} = {database.execute(f'PRAGMA {name}').fetchone()[0]};")
    (folder / "weft.sql").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
