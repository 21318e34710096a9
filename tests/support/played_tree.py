"""A copy of the tree in which a recipe of CONTRIBUTING is played, one place after the other."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def read_recipe(title: str) -> str:
    """The text of the recipe under a heading."""
    _, _, rest = CONTRIBUTING.partition(f"\n### {title}\n")
    assert rest, f"CONTRIBUTING has no recipe {title!r}"
    return re.split(r"\n##+ ", rest)[0]


class PlayedTree:
    """The package and some of its tests, as links: only what a recipe touches is written anew."""

    def __init__(self, folder: Path, *tests: str) -> None:
        self.folder = folder
        for name in ("src/weft", *(f"tests/{test}" for test in ("support", *tests))):
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, copy_function=os.symlink, ignore=skip)
        for name in ("tests/__init__.py", "tests/conftest.py", "pyproject.toml"):
            os.symlink(ROOT / name, folder / name)

    def write(self, name: str, text: str) -> None:
        """Add a file."""
        (self.folder / name).write_text(text)

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace a text that the file has once."""
        path = self.folder / name
        text = path.read_text()
        assert text.count(before) == 1, f"{name} does not have {before!r} once"
        path.unlink()
        path.write_text(text.replace(before, after))

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Python in the tree."""
        environment = {**os.environ, "PYTHONPATH": f"{self.folder / 'src'}:{self.folder}"}
        environment.pop("PYTEST_XDIST_WORKER", None)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def test(self, file: str, chosen: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run the tests of a file whose names fit."""
        quiet: Sequence[str] = ("-q", "-n", "0", "-p", "no:cacheprovider")
        return self.run("-m", "pytest", file, "-k", chosen, *quiet, *options)
