"""`weft graph` draws a flow in three forms, and says what it cannot draw."""

import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.run import environment, refusal, weft

FLOWS = """
from weft import Agent, Route

triage = Agent("triage", instruction="Name the intent of {topic}.").writes("intent")
booker = Agent("booker", instruction="Intent: {intent}")
trip = triage >> Route("intent").eq("booking", booker).otherwise(Agent("helper"))
accepted = triage >> Agent("clerk", instruction="{intnet}")  # weft: allow WEFT105
broken = triage >> booker.instruct("Intent: {intnet}")
"""


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS, "utf-8")
    return tmp_path


def test_text_is_what_is_printed(flows: Path) -> None:
    done = weft(flows, "graph", "flows:trip", "--input", "topic=str")
    assert done.returncode == 0, done.stderr
    assert "│ reads {intent} ← triage │" in done.stdout
    assert "reads {topic} ← input" in done.stdout
    assert "WEFT" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


def test_problems_stand_in_the_picture_and_below_it(flows: Path) -> None:
    done = weft(flows, "graph", "flows:broken", "--input", "topic")
    assert done.returncode == 0, done.stderr
    assert "reads {intnet} WEFT105" in done.stdout
    assert "error[WEFT105]" in done.stdout


def test_what_a_comment_accepts_is_not_marked(flows: Path) -> None:
    done = weft(flows, "graph", "flows:accepted", "--input", "topic")
    assert done.returncode == 0, done.stderr
    assert "reads {intnet} │" in done.stdout
    assert "WEFT105" not in done.stdout


ADK = """
from google.adk.agents import LlmAgent, SequentialAgent

triage = LlmAgent(name="triage", model="m", instruction="Name it.", output_key="intent")
booker = LlmAgent(name="booker", model="m", instruction="Intent: {intent} {intnet}")
trip = SequentialAgent(name="trip", sub_agents=[triage, booker])
"""


def test_a_tree_of_google_adk_is_drawn(flows: Path) -> None:
    pytest.importorskip("google.adk")
    (flows / "theirs.py").write_text(ADK, "utf-8")
    done = weft(flows, "graph", "theirs:trip")
    assert done.returncode == 0, done.stderr
    assert "reads {intent} ← triage" in done.stdout
    assert "reads {intnet} WEFT105" in done.stdout


def test_mermaid_is_printed(flows: Path) -> None:
    done = weft(flows, "graph", "flows:trip", "--format", "mermaid", "--input", "topic=str")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("flowchart TD\n")
    assert '|"{topic}"|' in done.stdout


@pytest.mark.parametrize(
    ("name", "begins"), [("a.svg", "<svg "), ("a.mmd", "flowchart"), ("a.txt", " ")]
)
def test_the_file_says_the_form(flows: Path, name: str, begins: str) -> None:
    done = weft(flows, "graph", "flows:trip", "-o", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"wrote {name}\n"
    text = (flows / name).read_text("utf-8")
    assert text.startswith(begins)
    if name.endswith("svg"):
        assert ET.fromstring(text).tag.endswith("svg")


def test_a_form_goes_before_the_file(flows: Path) -> None:
    done = weft(flows, "graph", "flows:trip", "--format", "mermaid", "-o", "flow.md")
    assert done.returncode == 0, done.stderr
    assert (flows / "flow.md").read_text("utf-8").startswith("flowchart")


def test_a_stream_without_boxes_gets_plain_characters(flows: Path) -> None:
    done = weft(flows, "graph", "flows:trip", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "+ triage " in done.stdout


def test_a_narrow_terminal_gets_a_narrow_picture(flows: Path) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "weft", "graph", "flows:trip"],
        cwd=flows,
        env=environment(TERM="xterm", COLUMNS="48"),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    read = b""
    while True:
        try:
            more = os.read(ours, 65_536)
        except OSError:
            break
        if not more:
            break
        read += more
    os.close(ours)
    assert done.wait(timeout=600) == 0
    lines = read.decode("utf-8").splitlines()
    assert any("triage" in line for line in lines)
    assert max(len(line) for line in lines) <= 48


def test_a_file_that_says_no_form_is_refused(flows: Path) -> None:
    message, hint = refusal(weft(flows, "graph", "flows:trip", "-o", "flow.png"))
    assert message == "graph: `flow.png` does not say which form it is to have"
    assert "--format svg" in hint


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("topic=string", "--input topic: `string` is not a type that can be named here", "str"),
        ("=str", "--input: `=str` does not name a key and its type", "--input topic=str"),
        ("topic=", "--input: `topic=` does not name a key and its type", "--input topic=str"),
    ],
)
def test_a_wrong_input_is_refused(flows: Path, given: str, message: str, hint: str) -> None:
    said, told = refusal(weft(flows, "graph", "flows:trip", "--input", given))
    assert said == message
    assert hint in told


def test_an_input_given_twice_is_refused(flows: Path) -> None:
    done = weft(flows, "graph", "flows:trip", "--input", "a=str", "--input", "a=int")
    assert refusal(done)[0] == "--input: `a` is given twice"


def test_an_unknown_form_is_refused(flows: Path) -> None:
    message, hint = refusal(weft(flows, "graph", "flows:trip", "--format", "png"))
    assert message.startswith("graph: ")
    assert hint == "weft graph --help"
