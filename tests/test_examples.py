"""The examples run as they are, without a key and without a network."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import environment, weft
from tests.models.local_weights import fetched

EXAMPLES = Path(__file__).parents[1] / "examples"


def shown(name: str, folder: Path, **variables: str) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(folder.iterdir()) == []
    return done.stdout


def test_weather_shows_what_it_promises(tmp_path: Path) -> None:
    text = shown("weather.py", tmp_path)
    assert len(text.splitlines()) < 86
    for promise in (
        "system: You help users with weather. The user is in NYC.",
        "sent, ",
        "- news: Handles news-related questions",
        "0.7 -> 0.3",
        "warning[WEFT101]",
        "openai-responses",
        "what broke the prefix: nothing",
    ):
        assert promise in text


def test_trip_shows_what_it_promises(tmp_path: Path) -> None:
    text = shown("trip.py", tmp_path)
    assert len(text.splitlines()) < 60
    assert all(len(line) <= 100 for line in text.splitlines())
    for promise in (
        "the model follows a script",
        "  triage   intent = 'booking'\n",
        "  booker   -> find_hotels({'city': 'Oslo'})\n",
        "  booker   Fly on Tuesday: DY1301, 89 EUR, and the sun comes out. Hotel Oslo Harbour",
        "  system   Intent: booking\n",
        "byte for byte what the model got",
        "the instruction carries it as {intent}",
        "times in the request: 1, at /systemInstruction/parts/0/text",
        "from: state intent, which triage wrote",
    ):
        assert promise in text


def test_the_rows_of_the_trip_add_up(tmp_path: Path) -> None:
    text = shown("trip.py", tmp_path)
    head, _, rest = text.partition("== Where its ")[2].partition(" tokens come from\n")
    rows = rest.partition("\n\n")[0].splitlines()
    assert sum(int(row.split()[0]) for row in rows) == int(head)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", f"{EXAMPLES}/trip.py:trip", "Fly me to Oslo next week"),
        ("explain", f"{EXAMPLES}/trip.py:trip", "-m", "Hi", "--agent", "booker"),
        ("compile", f"{EXAMPLES}/weather.py:weather_bot", "-m", "Hi"),
        ("explain", f"{EXAMPLES}/weather.py:router", "-m", "Any storms in Oslo?"),
    ],
)
def test_the_examples_are_targets_of_the_command_line(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = weft(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_local_answers_with_the_model_in_the_box(tmp_path: Path) -> None:
    text = shown("local.py", tmp_path, WEFT_HOME=str(fetched().parent.parent))
    for promise in (
        "  helper -> get_weather({'city': 'Oslo'})\n",
        "  helper -> convert_currency({'amount': 50, 'from_currency': 'EUR', 'to_currency': 'NOK'",
        "  helper -> track_order({'order_id': 'A1007'})\n",
        " of them cached, ",
        "  system    Tools:\n",
        "prune_tools: track_order fits what was said",
    ):
        assert promise in text
    assert "error" not in text
