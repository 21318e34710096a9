"""A gate is asked and answered in the terminal, at once or later."""

from pathlib import Path

import pytest

from tests.cli.run import weft

FLOWS = '''
"""A flow with a human decision in it; its model follows a script, anew in every process."""

from weft import Agent, Gate
from weft.testing import ScriptedModel


def answer(prompt):
    return "Draft." if prompt.agent == "writer" else f"It says {prompt.system_text[-3:]}"


model = ScriptedModel([answer, answer])
flow = (
    Agent("writer", model=model).writes("draft")
    >> Gate("send", question="Send {draft}?", choices=["yes", "not"])
    >> Agent("sender", model=model, instruction="Do it: {send}")
)
'''


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    """A working folder with a flow in it."""
    (tmp_path / "flows.py").write_text(FLOWS, "utf-8")
    return tmp_path


def test_a_gate_is_asked_inline_and_again_after_a_wrong_answer(flows: Path) -> None:
    done = weft(flows, "chat", "flows:flow", "--session", "s", typed="Go\nperhaps\nYES\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "It says yes\n"
    lines = done.stderr.splitlines()
    assert lines.count("send asks: Send Draft.? (yes, not)") == 2
    assert "error: send: 'perhaps' is not one of the choices" in lines
    assert "  hint: say one of: yes, not" in lines
    assert "adk_request_input" not in done.stderr


def test_a_run_says_what_it_waits_for_and_how_to_go_on(flows: Path) -> None:
    run = ("run", "flows:flow", "--session", "s", "--store", "sqlite:///x.db")
    first = weft(flows, *run, "Go")
    assert first.returncode == 0, first.stderr
    lines = first.stderr.splitlines()
    assert "send asks: Send Draft.? (yes, not)" in lines
    assert lines[-1].endswith("--session s --store sqlite:///x.db --resume --answer send=yes")
    wrong = weft(flows, *run, "--resume", "--answer", "send=maybe")
    assert wrong.returncode == 2
    assert "'maybe' is not one of the choices" in wrong.stderr
    done = weft(flows, *run, "--resume", "--answer", "send=not")
    assert (done.returncode, done.stdout) == (0, "It says not\n")
