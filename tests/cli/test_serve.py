"""`weft serve`: what it refuses before it listens. What it serves is tested in tests/server."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.cli.run import AGENTS
from tests.support.forks import run_forked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "short").write_text("ann=short\n")
    return tmp_path


def refused(folder: Path, *arguments: str, command: str = "serve") -> str:
    ended = run_forked([command, *arguments], cwd=folder, env=os.environ)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "token=" not in ended.stdout
    return ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.7.7", "example.org"])
def test_listening_elsewhere_needs_to_know_who_asks(folder: Path, host: str) -> None:
    words = refused(folder, "agents.py:weather_bot", "--host", host)
    assert "nothing says who may ask" in words
    assert "--tokens" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tokens", "none"), "cannot be read"),
        (("--tokens", "short"), "too short"),
        (("--tokens", "env:WEFT_NO_SUCH_VARIABLE"), "is not set"),
        (("--auth", "agents:number"), "not a function"),
        (("--auth", "agents:nobody"), "cannot be loaded"),
        (("--tokens", "short", "--auth", "agents:make"), "two of them"),
    ],
)
def test_a_wrong_way_to_authenticate(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(folder, "agents.py:weather_bot", *arguments)


def test_a_port_that_is_taken_and_a_target_that_is_not_there(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "nothing can listen there" in refused(
            folder, "agents.py:weather_bot", "--port", port
        )
    assert "agents" in refused(folder, "agents.py:nobody")
    words = refused(folder, "agents.py:weather_bot", "agents.py:weather_bot", "--port", "0")
    assert "two apps are called `weather_bot`" in words


def test_a_store_in_a_folder_that_is_not_there_is_refused_before_anything_is_served(
    folder: Path,
) -> None:
    words = refused(folder, "agents.py:weather_bot", "--store", "sqlite:///none/weft.db")
    assert "there is no folder none" in words
    assert "mkdir -p none" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--turns-per-minute", "0"), "--turns-per-minute"),
        (("--app-tokens-per-day", "many"), "--app-tokens-per-day"),
        (("--max-waiting", "5"), "no turns wait without a queue"),
        (("--max-runs", "5", "--queue"), "--max-waiting"),
    ],
)
def test_a_limit_that_is_wrong_or_limits_nothing(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(folder, "agents.py:weather_bot", *arguments)


def test_a_store_named_without_its_option_is_the_store_that_is_inspected(folder: Path) -> None:
    missing = refused(folder, "sqlite:///none.db", command="inspect")
    assert "none.db: there is no such file" in missing
    assert missing == refused(folder, "--store", "sqlite:///none.db", command="inspect")
    several = refused(folder, "sqlite:///a.db", "--store", "sqlite:///b.db", command="inspect")
    assert "several stores are named" in several


def test_the_log_says_why_a_request_failed_and_shows_no_password(folder: Path) -> None:
    address = "postgresql://bob:first-secret@127.0.0.1:1/x?password=other-secret&connect_timeout=5"
    command = [sys.executable, "-m", "weft", "serve", "agents.py:weather_bot", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--store", address],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        place = urlsplit(process.stdout.readline().strip())
        answer = httpx2.get(f"http://{place.netloc}/ready", timeout=60)
    finally:
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert answer.status_code == 503
    assert "127.0.0.1" not in answer.text
    assert "the server cannot be reached" in log
    assert "secret" not in log
