"""Run the command as a user would: in a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.forks import run_forked

SOURCE = Path(__file__).parents[2] / "src"

AGENTS = '''
"""Agents the tests compile."""

from weft import Agent


def get_weather(city: str) -> str:
    """Current weather for a city."""
    return city


print("loading agents")

weather_bot = Agent(
    "weather_bot",
    model="gemini-flash-latest",
    instruction="You help with weather. The user is in {location}.",
    tools=[get_weather],
    generate_config={"temperature": 0.7},
)
router = Agent("router", model="gpt-5", sub_agents=[Agent("news", description="Reads the news")])


class Holder:
    bot = weather_bot


def make():
    return weather_bot


def make_with(city):
    return weather_bot


async def make_later():
    return weather_bot


def make_badly():
    raise ValueError("no weather\\ntoday")


number = 7
'''


BOTS = '''
"""Agents the tests run; their models follow a script, anew in every process."""

import asyncio
import subprocess
import time
from pathlib import Path

from weft import Agent, Route, ToolContext, tool
from weft.testing import ScriptedModel, call, chunks, delayed


def get_weather(city: str) -> dict[str, str]:
    """Current weather for a city."""
    print("the tool prints")
    subprocess.run(["echo", "a child prints"], check=True)
    return {"sky": "rain"}


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(long_running=True)
def approve(amount: int) -> dict[str, str]:
    """Ask a manager."""
    return {"status": "asked"}


async def wait() -> str:
    """Wait for long."""
    print("waiting", flush=True)
    await asyncio.sleep(600)
    return "never"


def block() -> str:
    """Wait for long, in a way that nobody can stop."""
    print("waiting", flush=True)
    time.sleep(600)
    return "never"


@tool(effect="unsafe")
async def launch() -> str:
    """Launch, once."""
    if not Path("launched").exists():
        Path("launched").touch()
        print("waiting", flush=True)
        await asyncio.sleep(600)
    return "launched"


def settled(*tools, text="All done."):
    """Calls the tools until each has a result."""

    def answer(prompt):
        asked = str(prompt)
        missing = [made for name, made in tools if f"{name} -> " not in asked]
        return missing or text

    return ScriptedModel([answer] * 9)


def echo(prompt):
    """Says what the user said, and how much was said before."""
    turns = [item.blocks[0].text for item in prompt.items]
    return f"{len(turns)}: {turns[-1]}"


def boom(ctx):
    raise ValueError("no weather\\ntoday")


weather = Agent(
    "weather",
    model=ScriptedModel([call("get_weather", city="Oslo"), "It rains in Oslo."]),
    tools=[get_weather],
)
echoer = Agent("echoer", model=ScriptedModel([echo] * 9), instruction="Echo. {mood?}")
payer = Agent("payer", model=settled(("pay", call("pay", amount=5))), tools=[pay])
asker = Agent(
    "asker",
    model=settled(("pay", call("pay", amount=5)), ("approve", call("approve", amount=2))),
    tools=[pay, approve],
)
sleeper = Agent("sleeper", model=ScriptedModel([call("wait"), "Awake."]), tools=[wait])
blocked = Agent("blocked", model=ScriptedModel([call("block"), "Awake."]), tools=[block])
launcher = Agent("launcher", model=settled(("launch", call("launch"))), tools=[launch])
talker = Agent("talker", model=ScriptedModel([chunks(*["word "] * 20_000)]))
failing = Agent("failing", model=ScriptedModel([RuntimeError("503")]))
raising = Agent("raising", model=ScriptedModel(["x"]), before_agent=boom)
strict = Agent("strict", model=ScriptedModel(["Hi."]), instruction="Greet {name}.")
looping = Agent(
    "looping", model=ScriptedModel([call("get_weather", city=str(n)) for n in range(9)]),
    tools=[get_weather],
)  # fmt: skip
shaped = Agent(
    "shaped",
    model=ScriptedModel([chunks("not ", "JSON"), chunks('{"ok": ', "true}")]),
    output_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
)
clients = Agent("clients", model="nobody/has-this-one")

several = ScriptedModel(
    {
        "triage": ["booking"],
        "left": [chunks("left ", "speaks ", "on.")],
        "right": [chunks("right ", "speaks ", "too.")],
        "booker": [[call("get_weather", city="Oslo"), call("get_weather", city="Rome")], "Booked."],
        "helper": ["How can I help?"],
    }
)
booker = Agent("booker", model=several, instruction="Intent: {intent}", tools=[get_weather])
trip = (
    Agent("triage", model=several).writes("intent")
    >> (Agent("left", model=several) | Agent("right", model=several))
    >> Route("intent").eq("booking", booker).otherwise(Agent("helper", model=several))
)
robust = failing // Agent("backup", model=ScriptedModel(["Backup."]))
desk = Agent(
    "desk",
    model=ScriptedModel([call("transfer_to_agent", agent_name="clerk"), "Here."]),
    sub_agents=[Agent("clerk", description="Knows.")],
)


async def note(text: str, ctx: ToolContext) -> str:
    """Keep a note."""
    await ctx.save_artifact("note", text)
    return "kept"


noter = Agent(
    "noter",
    instruction="The note: {artifact.note?}",
    model=ScriptedModel([call("note", text="one"), "Kept.", call("note", text="two"), "Again."]),
    tools=[note],
)
inside = ScriptedModel({"outer": [call("inner", request="look"), "Seen."], "inner": ["I looked."]})
outer = Agent("outer", model=inside, tools=[Agent("inner")])
'''


def environment(**more: str) -> dict[str, str]:
    """Without keys and settings of this machine."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and not name.startswith(("WEFT_", "PYTEST"))
    }
    return {**kept, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8", **more}


def weft(
    folder: Path, *arguments: str, typed: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """The command's exit code, stdout and stderr, after these lines were typed."""
    return run_forked(
        list(arguments), cwd=folder, env=environment(**more), typed=typed, timeout=600
    )


@contextmanager
def started(folder: Path, *arguments: str, until: str) -> Generator[subprocess.Popen[str]]:
    """The command while it runs, once it has said so on stderr; it does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", *arguments],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with process:
        try:
            read_until(process, until)
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """The lines of stderr up to the one that holds the text."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} never came: {lines}")


def refusal(done: subprocess.CompletedProcess[str], code: int = 2) -> tuple[str, str]:
    """The one line and the hint of a command that refused; nothing else was said."""
    assert done.returncode == code, done
    assert done.stdout == "", done.stdout
    lines = [line for line in done.stderr.splitlines() if line != "loading agents"]
    assert len(lines) in (1, 2), done.stderr
    assert lines[0].startswith("weft: "), done.stderr
    assert "Traceback" not in done.stderr
    hint = lines[1].removeprefix("  hint: ") if len(lines) == 2 else ""
    return lines[0].removeprefix("weft: "), hint
