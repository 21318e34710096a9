"""`weft explain` prints the report, writes the page, and rebuilds any step of a session."""

import json
import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.run import environment, refusal, weft
from tests.support.build import calls, returns, says, session, user
from weft import Agent, Session, compile
from weft.cli.load import load_node
from weft.cli.tables import tables
from weft.compiler.report import place_of

LOG = session(
    user("Hi", inv="1"),
    calls("weather_bot", "get_weather", {"city": "Oslo"}, "c1", inv="1"),
    returns("weather_bot", "get_weather", {"sky": "clear"}, "c1", inv="1"),
    says("weather_bot", "Clear.", inv="1"),
    user("And tomorrow?", inv="2"),
    says("weather_bot", "Rain.", inv="2"),
    location="Oslo",
)


@pytest.fixture
def log(folder: Path) -> Session:
    (folder / "log.json").write_bytes(LOG.to_json())
    return LOG


def explain(folder: Path, *arguments: str) -> dict[str, object]:
    done = weft(folder, "explain", "agents:weather_bot", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert isinstance(report, dict)
    return report


def test_the_report_is_plain_when_piped(folder: Path) -> None:
    done = weft(folder, "explain", "agents:weather_bot", "-m", "Hi", "--state", "location=NYC")
    assert done.returncode == 0
    assert done.stdout.startswith("weather_bot -> gemini-flash-latest (gemini)\n")
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    assert "weather_bot.instruction" in done.stdout


def test_the_report_is_coloured_in_a_terminal(folder: Path) -> None:
    command = [sys.executable, "-m", "weft", "explain", "agents:weather_bot", "-m", "[bold]Hi"]
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(TERM="xterm-256color", COLUMNS="120"),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += (more := os.read(ours, 65536))
        except OSError:  # Linux says so when the other end is closed
            break
        if not more:
            break
    os.close(ours)
    assert done.wait(60) == 0
    text = shown.decode()
    assert "\x1b[" in text
    assert "[bold]Hi" in text
    assert "weather_bot.instruction" in text


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_terminal_of_any_width_shows_where_each_row_comes_from(width: int) -> None:
    def get_weather(city: str) -> str:
        """The weather."""
        return city

    agent = Agent("bot", model="gemini-flash-latest", tools=[get_weather], instruction="Be brief.")
    report = compile(agent, message="Hi").explain()
    shown = StringIO()
    console = Console(width=width, file=shown)
    for part in tables(report, width):
        console.print(part)
    text = shown.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    for row in report.sent:
        assert place_of(row.origin) in text
    for row in report.passes:
        assert row.name in text
    assert ("Be brief." in text) == (width >= 80)
    assert ("/functionDeclarations/0" in text) == (width >= 100), "the end of a place says more"


def test_the_json_is_the_report(folder: Path) -> None:
    report = explain(folder, "-m", "Hi", "--state", "location=NYC")
    sent = report["sent"]
    assert isinstance(sent, list)
    assert sum(row["tokens"] for row in sent) == report["tokens"]


def test_the_page_is_written(folder: Path) -> None:
    done = weft(folder, "explain", "agents:weather_bot", "-m", "Hi", "--html", "report.html")
    assert (done.returncode, done.stdout) == (0, "wrote report.html\n")
    page = (folder / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "weather_bot.instruction" in page


def test_a_page_that_cannot_be_written_is_one_line(folder: Path) -> None:
    done = weft(folder, "explain", "agents:weather_bot", "-m", "Hi", "--html", "no/such/x.html")
    assert refusal(done)[0] == "no/such/x.html: No such file or directory"
    done = weft(folder, "explain", "agents:weather_bot", "--html", "x.html", "--json")
    assert "two forms" in refusal(done)[0]


@pytest.mark.parametrize(("step", "index"), [(1, 1), (2, 3), (3, 5)])
def test_a_step_is_the_request_behind_a_model_event(
    folder: Path, log: Session, step: int, index: int
) -> None:
    report = explain(folder, "--session", "log.json", "--step", str(step))
    bot = load_node(f"{folder}/agents.py:weather_bot")
    assert isinstance(bot, Agent)
    assert report["hash"] == compile(bot, session=log.before(index)).hash


def test_later_steps_share_the_prefix_of_earlier_ones(folder: Path, log: Session) -> None:
    first = explain(folder, "--session", "log.json", "--step", "1")
    second = explain(folder, "--session", "log.json", "--step", "2")
    assert first["prefix"]["first"]  # type: ignore[index]
    assert second["prefix"]["tokens"] == first["tokens"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--session", "log.json", "--step", "9"), "there is no step 9; the session has 3 model"),
        (("--session", "log.json", "--step", "0"), "there is no step 0"),
        (("--session", "log.json", "--step", "x"), "invalid value for '--step'"),
        (("--step", "1"), "a step is rebuilt from the session alone"),
        (("--session", "log.json", "--step", "1", "-m", "Hi"), "from the session alone"),
    ],
)
def test_a_step_that_is_not_there_is_one_line(
    folder: Path, log: Session, arguments: tuple[str, ...], line: str
) -> None:
    assert line in refusal(weft(folder, "explain", "agents:weather_bot", *arguments))[0]


def test_a_long_history_is_summarised_unless_all_is_asked_for(folder: Path) -> None:
    turns = [e for n in range(60) for e in (user(f"q{n}."), says("weather_bot", f"a{n}."))]
    (folder / "log.json").write_bytes(session(*turns, location="x").to_json())
    target = ("explain", "agents:weather_bot", "--session", "log.json", "-m", "now")
    done = weft(folder, *target)
    assert "...and 96 more of the history" in done.stdout
    assert "q3." not in done.stdout
    assert "q3." in weft(folder, *target, "--all").stdout


def test_the_same_inputs_in_another_dialect(folder: Path, log: Session) -> None:
    told = explain(folder, "--session", "log.json", "--step", "2", "--dialect", "anthropic")
    assert told["dialect"] == "anthropic"
    sent = told["sent"]
    assert isinstance(sent, list)
    assert any(row["pointer"].startswith("/messages/0/content") for row in sent)
