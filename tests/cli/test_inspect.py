"""`weft inspect --html`: one session as a file, redacted by its agents' rules or the reader's."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.run import refusal, weft
from weft import Runner
from weft.cli.load import load_node

AGENT = """
from weft import Agent, C
from weft.testing import ScriptedModel

bot = Agent(
    "bot",
    model=ScriptedModel(["I wrote to jane@example.org."] * 9, name="gpt-5"),
    instruction="You work for {owner}.",
).sees(C.window(2).redact("email", r"EMP-[0-9]{4}"))
"""

VALUES = ("jane@example.org", "boss@example.net", "EMP-1234")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected")
    (folder / "bots.py").write_text(AGENT)
    root = load_node(f"{folder}/bots.py:bot")

    async def go() -> None:
        async with Runner(root, store=f"sqlite:///{folder}/weft.db") as runner:
            for turn in range(3):
                text = f"{turn}: I am jane@example.org, EMP-1234"
                state = {"owner": "boss@example.net"}
                await runner.run(text, session_id="s", state=state)
            await runner.run("hello", session_id="t", user_id="a", state=state)
            await runner.run("hello", session_id="t", user_id="b", state=state)

    asyncio.run(go())
    weft(folder, "sessions", "export", "s", "-o", "s.json")
    return folder


def _written(folder: Path, *arguments: str) -> tuple[str, list[str]]:
    """What was said, and the planted values that stand in the file."""
    file = folder / "out.html"
    file.unlink(missing_ok=True)
    done = weft(folder, "inspect", *arguments, "--html", "out.html")
    assert done.returncode == 0, done.stderr
    page = file.read_text()
    return done.stdout, [value for value in VALUES if value in page]


def test_a_stored_session_is_written_without_what_its_agent_redacts(folder: Path) -> None:
    words, values = _written(folder, "bots.py:bot", "--session", "s")
    assert values == []
    assert "wrote out.html: redacted by rule (email, a pattern)" in words
    again = (folder / "out.html").read_text()
    _written(folder, "bots.py:bot", "--session", "s")
    assert (folder / "out.html").read_text() == again
    words, values = _written(folder, "bots.py:bot", "--session", "s", "--raw")
    assert values == [*VALUES]
    assert "all as it is stored, also what the agents hide (email, a pattern)" in words


def test_a_recording_is_written_without_what_the_reader_names(folder: Path) -> None:
    words, values = _written(folder, "s.json")
    assert values == [*VALUES]
    assert "no agent redacts anything, and --redact names nothing" in words
    words, values = _written(folder, "s.json", "--redact", "card,email")
    assert values == ["EMP-1234"]
    assert "redacted by rule (card, email)" in words
    words, values = _written(folder, "s.json", "--redact", "pii", "--redact", "EMP-[0-9]{4,4}")
    assert values == []


def test_one_of_several_recordings_is_written_by_its_id(folder: Path) -> None:
    asked = [json.dumps({"id": name, "events": [
        {"author": "user", "content": {"role": "user", "parts": [{"text": f"I am {name}."}]}},
        {"author": "a", "content": {"role": "model", "parts": [{"text": "Hello."}]}},
    ]}) for name in ("jane", "june")]  # fmt: skip
    (folder / "two.jsonl").write_text("\n".join(asked))
    refused = "\n".join(refusal(weft(folder, "inspect", "two.jsonl", "--html", "out.html")))
    assert "there are 2 recordings in it" in refused
    assert "--session ID; ids there: jane, june" in refused
    _written(folder, "two.jsonl", "--session", "june")
    page = (folder / "out.html").read_text()
    assert "I am june." in page
    assert "I am jane." not in page


def test_rules_of_a_reader_are_added_to_those_of_the_agents(folder: Path) -> None:
    words, values = _written(folder, "bots.py:bot", "--session", "s", "--redact", "card")
    assert values == []
    assert "(email, a pattern, card)" in words


def test_whose_session_it_is(folder: Path) -> None:
    named = ("bots.py:bot", "--session", "t", "--html", "out.html")
    several = "\n".join(refusal(weft(folder, "inspect", *named)))
    assert "2 sessions are named `t`" in several
    _written(folder, "bots.py:bot", "--session", "t", "--user", "a", "--app", "bot")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("s.json", "--redact", "emial", "--html", "x.html"), "no detector named 'emial'"),
        (("s.json", "--redact", "emial", "--html", "x.html"), 'write "email", or one of'),
        (("s.json", "--redact", "(", "--html", "x.html"), "--redact: "),
        (("s.json", "--redact", ",", "--html", "x.html"), "--redact: "),
        (("s.json", "--redact", "email", "--raw", "--html", "x.html"), "--raw keeps all"),
        (("s.json", "--raw"), "add --html FILE"),
        (("s.json", "--user", "u", "--html", "x.html"), "add --session ID"),
        (("bots.py:bot", "--session", "s"), "add --html FILE"),
        (("bots.py:bot", "--session", "z", "--html", "x.html"), "there is no session `z`"),
        (("s.json", "--session", "z", "--html", "x.html"), "there is no recording `z`"),
        (("bots.py:bot", "--html", "x.html"), "--session ID --html FILE"),
    ],
)
def test_what_says_nothing_or_contradicts_itself_is_refused(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in "\n".join(refusal(weft(folder, "inspect", *arguments)))
    assert not (folder / "x.html").exists()


def test_the_file_says_what_it_is(folder: Path) -> None:
    _written(folder, "bots.py:bot", "--session", "s")
    page = (folder / "out.html").read_text()
    start = page.index('"file":')
    kind, _ = json.JSONDecoder().raw_decode(page, start + len('"file":'))
    assert kind == {"redacted": True, "rules": ["email", "a pattern"]}
