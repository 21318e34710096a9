"""`weft receipt`: what a stored or recorded session was expected to cost, and what was billed."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.run import refusal, weft
from weft import Runner
from weft.cli.load import load_node

AGENT = """
from weft import Agent
from weft.testing import ScriptedModel, usage

words = "The quick brown fox jumps over the lazy dog. " * 300
script = [
    usage("One.", prompt=4000, output=20, cached=0),
    usage("Two.", prompt=4020, output=20, cached=0),
]
model = ScriptedModel(script, name="gpt-5", dialect="openai-responses")
bot = Agent("bot", model=model, instruction="Help. " + words)
"""


def _run(folder: Path, address: str) -> None:
    (folder / "bots.py").write_text(AGENT)

    async def go() -> None:
        async with Runner(load_node(f"{folder}/bots.py:bot"), store=address) as runner:
            await runner.run("Hello", session_id="s")
            await runner.run("More", session_id="s")

    asyncio.run(go())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("billed")
    _run(folder, f"sqlite:///{folder}/weft.db")
    weft(folder, "sessions", "export", "s", "-o", "s.json")
    return folder


def test_a_stored_session_has_a_receipt_in_every_store(address: str, tmp_path: Path) -> None:
    if address.startswith("memory"):
        pytest.skip("a store in memory has no sessions when a command starts")
    _run(tmp_path, address)
    done = weft(tmp_path, "receipt", "s", "bots.py:bot", "--store", address)
    assert done.returncode == 0, done.stderr
    assert "s: 2 calls of 1 agent" in done.stdout
    assert "cache lost: evicted or not yet written" in done.stdout
    assert "requests: expected $" in done.stdout
    assert "not here" not in done.stdout


def test_the_receipt_is_json_for_programs(folder: Path) -> None:
    done = weft(folder, "receipt", "s", "bots.py:bot", "--json")
    receipt = json.loads(done.stdout)
    assert [call["number"] for call in receipt["calls"]] == [1, 2]
    causes = sum(cause["cost"] for cause in receipt["causes"])
    assert causes == pytest.approx(receipt["difference"])
    assert receipt["money"] is True


def test_without_the_program_the_receipt_says_what_is_missing(folder: Path) -> None:
    done = weft(folder, "receipt", "s", "--model", "gpt-5")
    assert done.returncode == 0, done.stderr
    assert "note: The program that ran this session is not here." in done.stdout


def test_a_recording_has_a_receipt(folder: Path) -> None:
    done = weft(folder, "receipt", "s.json", "--model", "gpt-5")
    assert done.returncode == 0, done.stderr
    assert "2 calls of 1 agent" in done.stdout
    assert "instructions and tools were not recorded" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("t",), "there is no session `t`"),
        (("s", "--recording", "x"), "are about a file of recordings"),
        (("s.json", "bots.py:bot"), "a recording brings its agents along"),
        (("s.json", "--recording", "x"), "there is no recording `x`"),
        (("none.json",), "none.json"),
        (("s", "--store", "sqlite:///none.db"), "there is no such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    problem, _ = refusal(weft(folder, "receipt", *arguments))
    assert words in problem


def test_a_file_of_several_recordings_asks_which(folder: Path) -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    lines = [
        json.dumps({"id": name, "model": "gpt-5", "messages": talk}) for name in ("one", "two")
    ]
    (folder / "runs.jsonl").write_text("\n".join(lines))
    problem, hint = refusal(weft(folder, "receipt", "runs.jsonl"))
    assert "there are 2 recordings in it" in problem
    assert "--recording ID; ids there: one, two" in hint
    assert "1 call without a bill" in weft(folder, *_TWO).stdout


_TWO = ("receipt", "runs.jsonl", "--recording", "two")
