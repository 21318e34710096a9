"""`weft compile` shows the request, and its JSON is the request."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import environment, refusal, weft
from tests.support.build import calls, returns, says, session, user
from weft import Agent, Session, compile


def get_weather(city: str) -> str:
    """Current weather for a city."""
    return city


SAME = Agent(
    "weather_bot",
    model="gemini-flash-latest",
    instruction="You help with weather. The user is in {location}.",
    tools=[get_weather],
    generate_config={"temperature": 0.7},
)
HI = ("-m", "Hi", "--state", "location=NYC")


def write(folder: Path, log: Session) -> str:
    (folder / "log.json").write_bytes(log.to_json())
    return "log.json"


def test_the_json_is_the_wire_and_nothing_else(folder: Path) -> None:
    done = weft(folder, "compile", "agents:weather_bot", *HI, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == compile(SAME, state={"location": "NYC"}, message="Hi").wire
    assert done.stderr == "loading agents\n"


def test_people_see_system_tools_turns_and_options(folder: Path) -> None:
    done = weft(folder, "compile", "agents:weather_bot", *HI)
    assert done.returncode == 0
    sections = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert sections[1:] == ["system", "tools", "turns", "options"]
    assert "  get_weather(city: string)" in done.stdout
    assert "The user is in NYC." in done.stdout
    assert "  user   Hi" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_any_dialect_can_be_asked_for(folder: Path, dialect: str) -> None:
    done = weft(folder, "compile", "agents:weather_bot", *HI, "--dialect", dialect, "--json")
    expected = compile(SAME, state={"location": "NYC"}, message="Hi").lower(dialect)
    assert json.loads(done.stdout) == expected


def test_options_and_model_override_the_agent(folder: Path) -> None:
    more = ("--option", "temperature=0.3", "--option", 'stop=["END"]', "--model", "gpt-4-turbo")
    done = weft(folder, "compile", "agents:weather_bot", *HI, *more, "--json")
    wire = json.loads(done.stdout)
    assert (wire["model"], wire["temperature"], wire["stop"]) == ("gpt-4-turbo", 0.3, ["END"])


def test_another_agent_of_the_tree_is_compiled(folder: Path) -> None:
    done = weft(folder, "compile", "agents:router", "--agent", "news", "-m", "Hi")
    assert done.stdout.startswith("news -> gpt-5")


def test_a_session_is_compiled_and_shown(folder: Path) -> None:
    log = session(
        user("Hi"),
        calls("weather_bot", "get_weather", {"city": "Oslo"}, "c1"),
        returns("weather_bot", "get_weather", {"sky": "clear\x1b[31m"}, "c1"),
        says("weather_bot", "Clear.\nVery."),
        location="Oslo",
    )
    done = weft(folder, "compile", "agents:weather_bot", "--session", write(folder, log), "-m", "?")
    assert 'model  calls get_weather({"city":"Oslo"})' in done.stdout
    assert "user   result get_weather -> " in done.stdout
    assert "  model  Clear.\n         Very.\n" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("location=NYC", "NYC"),
        ("location=7", "7"),
        ('location={"a":[1,null]}', '{"a":[1,null]}'),
        ("location=NaN", "NaN"),
        ("location={not json", "{not json"),
        ("location=a=b", "a=b"),
        ("location=", ""),
        ('location="7"', "7"),
    ],
)
def test_state_is_json_where_it_is_json_else_text(folder: Path, given: str, sent: str) -> None:
    done = weft(folder, "compile", "agents:weather_bot", "--state", given, "-m", "Hi", "--json")
    text = json.loads(done.stdout)["systemInstruction"]["parts"][0]["text"]
    assert text.endswith(f"The user is in {sent}.")


def test_diagnostics_stand_below_the_request_or_beside_the_json(folder: Path) -> None:
    done = weft(folder, "compile", "agents:weather_bot", "-m", "Hi")
    assert done.returncode == 0
    assert "warning[WEFT101]" in done.stdout
    done = weft(folder, "compile", "agents:weather_bot", "-m", "Hi", "--json")
    assert done.returncode == 0
    assert "WEFT101" not in done.stdout
    assert "warning[WEFT101]" in done.stderr


def test_strict_makes_a_missing_variable_a_finding(folder: Path) -> None:
    done = weft(folder, "compile", "agents:weather_bot", "-m", "Hi", "--strict")
    line, hint = refusal(done, 1)
    assert line.startswith("weather_bot.instruction:")
    assert "`{location}` has no value" in line
    assert "{location?}" in hint


@pytest.mark.parametrize(
    ("arguments", "line", "hint"),
    [
        (
            ("--state", "novalue"),
            "--state: `novalue` is not a key and a value",
            "--state key=value",
        ),
        (("--state", "x=" + "[" * 3000 + "]" * 3000), "the value nests too deep", "--session"),
        (("--state", "x=" + "[" * 900 + "]" * 900), "nests deeper than", "as an artifact"),
        (("--state", "=x"), "--state: `=x` is not", "key=value"),
        (("--dialect", "gemni"), "dialect: `gemni` is not a dialect", "did you mean `gemini`?"),
        (("--option", "temprature=1"), "`temprature` is not a generation option", "`temperature`"),
        (("--option", "temperature=hot"), "`temperature` is 'hot', not a number", "a number"),
        (("--agent", "nobody"), "there is no agent `nobody`", "weather_bot"),
        (("--session", "none.json"), "none.json: ", ""),
        (("--session", "."), ".: ", ""),
        (("--nonsense",), "compile: no such option: --nonsense", "weft compile --help"),
    ],
)
def test_bad_arguments_are_one_line(
    folder: Path, arguments: tuple[str, ...], line: str, hint: str
) -> None:
    said, fix = refusal(weft(folder, "compile", "agents:weather_bot", *arguments))
    assert line in said
    assert hint in fix


@pytest.mark.parametrize(
    ("text", "place", "field"),
    [
        ("{", "log.json: ", ""),
        ("[]", "log.json: ", ""),
        ('{"events": {}}', "log.json: ", "events"),
        ('{"events": [{"author": "user"}, {"author": 7}]}', "log.json: events[1]", "author"),
        (
            '{"events": [{"author": "u", "content": {"parts": [{"text": 7}]}}]}',
            "log.json: events[0]",
            "content",
        ),
        ('{"events": [' + "[" * 3000 + "]" * 3000 + "]}", "log.json: ", ""),
        ("\x00\x01", "log.json: ", ""),
    ],
)
def test_a_malformed_session_names_file_index_and_field(
    folder: Path, text: str, place: str, field: str
) -> None:
    (folder / "log.json").write_text(text, "utf-8")
    said, _ = refusal(weft(folder, "compile", "agents:weather_bot", "--session", "log.json"))
    assert said.startswith(place)
    assert field in said


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    log = session(*[user("word " * 200) for _ in range(2000)], location="x")
    name = write(folder, log)
    command = [sys.executable, "-m", "weft", "compile", "agents:weather_bot", "--session", name]
    process = subprocess.Popen(
        [*command, "--json"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 0
    assert said == "loading agents\n"


def test_a_stdout_that_is_not_unicode_still_gets_the_json(folder: Path) -> None:
    more = ("-m", "東京 🙂", "--state", "location=Málaga", "--json")
    done = weft(folder, "compile", "agents:weather_bot", *more, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["contents"][0]["parts"][0]["text"] == "東京 🙂"


def test_lone_surrogates_and_nul_are_shown_not_raised(folder: Path) -> None:
    events = '{"author":"user","content":{"role":"user","parts":[{"text":"a\\ud800\\u0000b"}]}}'
    (folder / "log.json").write_text('{"events": [' + events + "]}", "utf-8")
    done = weft(folder, "compile", "agents:weather_bot", "--session", "log.json")
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
