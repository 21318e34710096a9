"""Run the command as a user would: in a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

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


def environment(**more: str) -> dict[str, str]:
    """Without keys and settings of this machine."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and not name.startswith(("WEFT_", "PYTEST"))
    }
    return {**kept, "PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8", **more}


def weft(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The command's exit code, stdout and stderr."""
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


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
