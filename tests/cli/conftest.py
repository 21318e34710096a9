"""A folder with agents in it."""

from pathlib import Path

import pytest

from tests.cli.run import AGENTS, BOTS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder as a user has one."""
    (tmp_path / "agents.py").write_text(AGENTS, "utf-8")
    return tmp_path


@pytest.fixture
def bots(tmp_path: Path) -> Path:
    """A working folder with agents that can be run."""
    (tmp_path / "bots.py").write_text(BOTS, "utf-8")
    return tmp_path
