"""`make test` runs what failed once more, and names what passes only then."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FLAKY = """
from pathlib import Path

RAN = Path(__file__).with_name("ran")


def test_depends_on_timing() -> None:
    is_first = not RAN.exists()
    RAN.touch()
    assert not is_first


def test_always_passes() -> None:
    assert RAN.exists()


def test_always_fails() -> None:
    assert {fails}
"""

ONLY_XDIST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
"""The target says `-n`; loading every other plugin takes longer than the three tests."""


def make_suite(folder: Path, *, fails: bool) -> tuple[int, list[str]]:
    """Run the target of the Makefile on three tests: its exit code and its last lines."""
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    tests = folder / "test_flaky.py"
    tests.write_text(FLAKY.replace("{fails}", str(not fails)))
    program = Path(sys.executable)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "MAKE", "COV_"))
    }
    done = subprocess.run(
        [
            *("make", "--no-print-directory", "test-suite", f"BIN={program.parent}"),
            f"PYTEST={program} -m pytest -n 0 -p no:randomly",
            f"TESTS=-c {folder / 'pytest.ini'} {tests}",
        ],
        cwd=ROOT,
        env={**kept, **ONLY_XDIST},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout.splitlines()[-6:]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize("fails", [False, True])
def test_a_test_that_passes_only_at_the_second_try_is_named_at_the_end(
    tmp_path: Path, *, fails: bool
) -> None:
    code, last = make_suite(tmp_path, fails=fails)
    named = [line for line in last if line.startswith("SECOND TRY ")]
    assert [line.rpartition("::")[2] for line in named] == ["test_depends_on_timing"], last
    assert any("1 test PASSED ONLY AT THE SECOND TRY" in line for line in last)
    assert bool(code) == fails
