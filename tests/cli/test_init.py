"""`weft init` writes a flow that is clean, runs and is tested."""

import subprocess
import sys
from pathlib import Path

from tests.cli.run import environment, refusal, weft


def test_what_is_written_is_clean_and_its_test_passes(tmp_path: Path) -> None:
    done = weft(tmp_path, "init", "new/shop")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "new/shop"
    assert sorted(path.name for path in folder.iterdir()) == ["desk.py", "test_desk.py"]
    checked = weft(tmp_path, "check", "new/shop/desk.py:root")
    assert (checked.returncode, checked.stdout) == (0, "2 agents, nothing to say\n")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_the_commands_it_names_are_the_ones_to_type(tmp_path: Path) -> None:
    told = weft(tmp_path, "init").stdout
    line = next(line.strip() for line in told.splitlines() if "weft explain" in line)
    words = [word.strip('"') for word in line.split()[1:]]
    explained = weft(tmp_path, *words)
    assert explained.returncode == 0, explained.stderr
    assert explained.stdout.startswith("desk -> ")


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "test_desk.py").write_text("mine", "utf-8")
    said, hint = refusal(weft(tmp_path, "init"))
    assert said == "init: `test_desk.py` is there already"
    assert hint == "name another folder: weft init NEW"
    assert [path.name for path in tmp_path.iterdir()] == ["test_desk.py"]
    assert (tmp_path / "test_desk.py").read_text("utf-8") == "mine"
    said, _ = refusal(weft(tmp_path, "init", "test_desk.py"))
    assert said == "init: `test_desk.py` is a file"
