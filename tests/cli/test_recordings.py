"""Recordings of other programs on the command line: imported, explained, replayed into a page."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from shutil import copy

import pytest

from tests.cli.run import weft
from tests.support.recorded import coding_run
from weft.cli import main
from weft.recordings import Recording

SAMPLES = Path(__file__).parents[1] / "recordings" / "samples"
MAIN = "0b1c2d3e-0000-4000-8000-000000000001"


def bring(folder: Path, *names: str) -> None:
    for name in names:
        copy(SAMPLES / name, folder / name)


def test_sessions_of_every_format_are_imported_once(tmp_path: Path) -> None:
    names = (
        "claude-code.jsonl", "codex.jsonl", "adk.db", "langchain.json", "pydantic-ai.json",
        "openai-agents.json", "anthropic.json", "gemini.json",
    )  # fmt: skip
    bring(tmp_path, *names)
    store = ("--store", "sqlite:///mine.db")
    done = weft(tmp_path, "sessions", "import", *names, *store, "--agent", "bot")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0] == (
        f"{MAIN}: 7 events from claude-code.jsonl (claude-code, claude-sonnet-4-5-20250929;"
        " 7 messages, 3 calls, 3 results)"
    )
    assert "set aside:" in lines
    assert lines[-1] == "9 sessions in sqlite:///mine.db, app desk, imported"
    listed = json.loads(weft(tmp_path, "sessions", "list", *store, "--json").stdout)
    assert {one["id"]: one["events"] for one in listed}[MAIN] == 7
    exported = weft(tmp_path, "sessions", "export", MAIN, *store)
    events = json.loads(exported.stdout)["events"]
    assert {event["author"] for event in events} == {"user", "bot"}
    assert events[0]["customMetadata"]["imported"]["format"] == "claude-code"
    again = weft(tmp_path, "sessions", "import", *names, *store, "--agent", "bot")
    assert again.returncode == 1
    assert again.stderr.count("is in the store already") == 9


def test_no_recording_is_spelled_out_while_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a log of 500 MB holds would take a gigabyte as a text."""

    spelled: list[str] = []

    def spell(recording: Recording) -> str:
        spelled.append(recording.id)
        return "Recording()"

    monkeypatch.setattr(Recording, "__repr__", spell)
    store = f"sqlite:///{tmp_path / 'kept.db'}"
    assert main(["sessions", "import", str(SAMPLES / "codex.jsonl"), "--store", store]) == 0
    assert spelled == []


def test_an_unreadable_file_is_named_and_the_others_are_imported(tmp_path: Path) -> None:
    bring(tmp_path, "codex.jsonl", "langchain.json")
    (tmp_path / "empty.jsonl").write_text("")
    chat = '{"messages": [{"role": "user", "content": "x"}]}'
    (tmp_path / "torn.jsonl").write_text(f'{chat}\n{{"me\n{chat}\n{{"me')
    done = weft(tmp_path, "sessions", "import", ".", "--store", "sqlite:///mine.db", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    formats = ["codex", "langchain", "openai-chat", "openai-chat"]
    assert [one["format"] for one in report["sessions"]] == formats
    assert [one["places"] for one in report["sessions"][-2]["aside"]] == [["torn.jsonl:4"]]
    assert len(report["unreadable"]) == 2
    assert "empty.jsonl: there is no recording in it" in done.stderr
    assert "torn.jsonl:2: this is not JSON" in done.stderr


def test_an_imported_conversation_goes_on(tmp_path: Path) -> None:
    bring(tmp_path, "langchain.json")
    (tmp_path / "bots.py").write_text(
        "from weft import Agent\nfrom weft.testing import ScriptedModel\n"
        'bot = Agent("bot", model=ScriptedModel([lambda p: str(len(p.items)) + " items"]))\n'
    )
    store = ("--store", "sqlite:///mine.db")
    weft(tmp_path, "sessions", "import", "langchain.json", *store, "--app", "bot", "--agent", "bot")
    done = weft(tmp_path, "run", "bots:bot", "Still raining?", "--session", "langchain", *store)
    assert done.returncode == 0, done
    assert done.stdout == "5 items\n"


def test_a_recorded_request_is_explained(tmp_path: Path) -> None:
    bring(tmp_path, "claude-code.jsonl", "anthropic.json")
    done = weft(tmp_path, "explain", "anthropic.json")
    assert done.returncode == 0, done
    assert done.stdout.startswith("agent -> anthropic/claude-sonnet-4-5 (anthropic)")
    assert "And Bergen?" in done.stdout
    first = weft(tmp_path, "explain", "anthropic.json", "--step", "1", "--json")
    assert "And Bergen?" not in first.stdout
    several = weft(tmp_path, "explain", "claude-code.jsonl")
    assert several.returncode == 2
    assert f"--session ID; ids there: {MAIN}" in several.stderr
    chosen = weft(tmp_path, "explain", "claude-code.jsonl", "--session", MAIN)
    assert chosen.returncode == 0
    assert "set aside:" in chosen.stderr
    for arguments, message in (
        (("--session", "s9"), "there is no recording `s9`"),
        (("--message", "x"), "a recording is explained as it was recorded"),
        (("--format", "codxe"), "did you mean 'codex'"),
        (("--session", MAIN, "--step", "9"), "there is no step 9; the recording has 4 requests"),
    ):
        refused = weft(tmp_path, "explain", "claude-code.jsonl", *arguments)
        assert refused.returncode == 2, refused
        assert message in refused.stderr


class Elements(HTMLParser):
    """Collects what a page would load, and whether its tags match."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "action")]
        if tag == "script":
            self.loads.append("script")
        if tag not in ("meta", "path", "circle", "polyline", "rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("path", "circle", "polyline"):
            return
        assert self.open.pop() == tag


def test_a_folder_becomes_one_page_that_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    bring(tmp_path / "logs", "claude-code.jsonl", "codex.jsonl", "adk-v0.db", "pydantic-ai.json")
    hostile = coding_run("<script>alert(1)</script>")
    (tmp_path / "logs" / "run.jsonl").write_text(json.dumps(hostile))
    (tmp_path / "logs" / "bad.json").write_text("[")
    done = weft(tmp_path, "replay", "logs", "--html", "out.html")
    assert done.returncode == 1
    assert "bad.json" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("6 recordings (")
    assert any(line.startswith("recorded usage of gpt-5-codex: 3 answers") for line in lines)
    assert any(line.startswith("anthropic/claude-sonnet-4-5-20250929: 2 runs") for line in lines)
    assert any("pickled actions" in line for line in lines)
    page = (tmp_path / "out.html").read_text("utf-8")
    parser = Elements()
    parser.feed(page)
    assert parser.open == []
    assert parser.loads == []
    assert not re.search(r"https?://|@import|url\(", page)
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "would have been saved" in page
    assert "light-dark(" in page
    assert "bad.json" in page


def test_recorded_models_are_priced_unless_another_is_named(tmp_path: Path) -> None:
    bring(tmp_path, "claude-code.jsonl", "langchain.json")
    told = json.loads(weft(tmp_path, "replay", "*.json*", "--json").stdout)
    assert {row["model"]: row["money"] for row in told["rows"]} == {
        "anthropic/claude-sonnet-4-5-20250929": True,
        "gpt-4o-mini": True,
    }
    assert told["recorded"]["sessions"] == 3
    usage = {one["model"]: one for one in told["recorded"]["usage"]}
    assert usage["claude-sonnet-4-5-20250929"]["cached"] > 0
    assert usage["claude-sonnet-4-5-20250929"]["cost"] > 0
    named = json.loads(weft(tmp_path, "replay", "*.json*", "--json", "--model", "gpt-5").stdout)
    assert {row["model"] for row in named["rows"]} == {"gpt-5"}


def test_the_terminal_says_what_would_have_been_saved(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(json.dumps(coding_run(steps=12)))
    done = weft(tmp_path, "replay", "run.jsonl")
    (line,) = [one for one in done.stdout.splitlines() if "would have cost" in one]
    assert re.fullmatch(
        r"C\.auto\(\) would have cost \d+% less than plain history, recalls included:"
        r" input 0\.\d\dx, the bill with the answers 0\.\d\dx"
        r" \([\d,]+ fresh tokens instead of [\d,]+ fresh tokens\)",
        line,
    )
    assert done.stdout.splitlines()[-1].startswith("to get this: start the agent with `weft proxy ")


COMMANDS = (
    ("inspect", "{file}", "--html", "out.html"), ("receipt", "{file}"), ("explain", "{file}"),
    ("replay", "{file}"), ("sessions", "import", "{file}", "--store", "sqlite:///mine.db"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_one_broken_line_refuses_no_file_and_is_named(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """What can be read is read: the exit code is 1, or 0 if the reader asked to go on."""
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Ho."}}]}
    request = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi."}]}
    call = json.dumps({"request": request, "response": answer})
    (tmp_path / "one.jsonl").write_text(f"{call[:40]}\n{call}\n")
    words = [word.format(file="one.jsonl") for word in command]
    done = weft(tmp_path, *words)
    assert done.returncode == 1, done
    assert "error: one.jsonl:1: this is not JSON" in done.stderr
    assert "or read the rest with --lenient" in done.stderr
    assert command[0] != "inspect" or (tmp_path / "out.html").stat().st_size > 10_000
    (tmp_path / "mine.db").unlink(missing_ok=True)
    done = weft(tmp_path, *words, "--lenient")
    assert done.returncode == 0, done
    assert "1 x place that cannot be read: this is not JSON" in done.stdout + done.stderr
    assert "(first: one.jsonl:1)" in done.stdout + done.stderr
