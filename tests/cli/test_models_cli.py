"""The commands in odd environments and against odd servers: one line, a hint, no traceback."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.run import refusal, weft
from tests.models.server import Server, page, says

SECRET = "sk-never-show-this"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"WEFT_MODEL": "nonsense"}, "there is no client for the model `nonsense`"),
        ({"WEFT_MODEL": "groq/"}, "write groq/MODEL"),
        ({"WEFT_MODEL": f"http://a:{SECRET}@h/v1#m"}, "a login or a query"),
        ({"WEFT_MODEL": "  "}, "default model: local (WEFT_MODEL is not set)"),
        ({"OPENAI_BASE_URL": "http://[::1"}, "http://[::1"),
        ({"OPENAI_BASE_URL": f"http://a:{SECRET}@h:99999/v1?key={SECRET}"}, "http://h:99999/v1"),
        ({"WEFT_HOME": "~nobody-of-that-name/x"}, "export WEFT_HOME="),
        ({"WEFT_HOME": os.devnull}, "weft model get smollm2-135m"),
    ],
)
def test_what_is_set_up_can_be_listed_in_any_environment(
    tmp_path: Path, more: dict[str, str], words: str
) -> None:
    done = weft(tmp_path, "models", **{"WEFT_HOME": str(tmp_path), **more})
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    assert "openrouter" in done.stdout
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("home", [os.devnull, "~nobody-of-that-name/x"])
def test_weights_that_cannot_be_kept_say_where_they_could(tmp_path: Path, home: str) -> None:
    _, hint = refusal(weft(tmp_path, "model", "get", WEFT_HOME=home))
    assert "WEFT_HOME" in hint


def ask(folder: Path, url: str, **more: str) -> tuple[int, str]:
    """The exit code and all that was said of a question to a server."""
    done = weft(
        folder, "run", "agents:router", "Hi", "--model", f"{url}/v1#m", WEFT_API_KEY=SECRET, **more
    )
    return done.returncode, done.stdout + done.stderr


def test_a_page_and_a_wrong_key_are_told_in_words(folder: Path) -> None:
    wrong = says({"error": {"message": f"no such key: {SECRET}", "code": "invalid_api_key"}}, 401)
    for turn, words in ((page(), "bad_response: http/m: "), (wrong, "auth: http/m: no such key")):
        with Server(turn) as server:
            code, said = ask(folder, server.url)
        assert code == 1
        assert f"error: {words}" in said
        assert "\n  hint: " in said
        assert "Traceback" not in said
        assert SECRET not in said


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", f"nonsense://a:{SECRET}@h"),
        ("SSL_CERT_FILE", "/there/is/none"),
    ],
)
def test_what_the_environment_forbids_names_the_variable(
    folder: Path, variable: str, value: str
) -> None:
    code, said = ask(folder, "https://127.0.0.1:9", **{variable: value})
    assert code == 1
    assert "error: connection: http/m: no connection can be opened" in said
    assert variable in said.rpartition("hint: ")[2]
    assert SECRET not in said


def test_a_proxy_that_is_not_there_is_named(folder: Path) -> None:
    code, said = ask(folder, "http://host.invalid", HTTP_PROXY="http://127.0.0.1:9")
    assert code == 1
    assert "HTTP_PROXY" in said.rpartition("hint: ")[2]


@pytest.mark.parametrize("name", ["", " gpt-5", "nonsense", f"http://a:{SECRET}@h/v1#m"])
def test_a_name_that_is_none_is_refused_in_words(folder: Path, name: str) -> None:
    done = weft(folder, "run", "agents:router", "Hi", "--model", name)
    assert done.returncode in (1, 2)
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_one_model_is_told_in_full(tmp_path: Path) -> None:
    done = weft(tmp_path, "models", "claude-opus-5")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "claude-opus-5 is spoken to in anthropic"
    assert "  window   1,000,000 tokens, answers of up to 128,000" in lines
    assert any(line.startswith("  caching  from 512 tokens on") for line in lines)
    assert any(line.startswith("  price    $") for line in lines)


def test_a_name_that_no_client_answers_to_is_a_slip(tmp_path: Path) -> None:
    lines = weft(tmp_path, "models", "gpt5").stdout.splitlines()
    assert lines[1].startswith("  client   none answers to this name; did you mean `gpt-5`")
    for name in ("gpt-5.6", "local", "ollama/anything", "http://localhost:1/v1#own"):
        assert "client" not in weft(tmp_path, "models", name).stdout


def test_what_is_not_known_of_a_model_is_said_to_be_so(tmp_path: Path) -> None:
    done = weft(tmp_path, "models", "no-such-model", "--json")
    told = json.loads(done.stdout)
    assert told["known"] is False
    assert told["price"] is None
    assert told["window"] is None
    said = weft(tmp_path, "models", "no-such-model").stdout.splitlines()[-1]
    assert said == "  price    not known; for newer prices: pip install -U genai-prices"
    said = weft(tmp_path, "models", "local").stdout.splitlines()[-1]
    assert said == "  price    not known"
