"""A recipe of CONTRIBUTING, played in a copy of the repository as a stranger would follow it.

The copy is made of links, so that it costs milliseconds and finds the compiled files of the
original. A step writes or changes one file, which the recipe must name. The checks of a recipe are
tests of this repository, run in the copy.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Copy:
    """A copy of the repository in which files are added and changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "docs", root / "docs")  # links of pages are followed to their end
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, root / name, copy_function=os.symlink)
        for file in ROOT.iterdir():
            if file.is_file():
                (root / file.name).symlink_to(file)

    def write(self, path: str, text: str) -> None:
        """Add a file."""
        assert not (self.root / path).exists(), f"{path} is there already"
        (self.root / path).write_text(text, "utf-8")

    def insert(self, path: str, text: str, *, before: str) -> None:
        """Add a text to a file, before the first place where another stands."""
        file = self.root / path
        head, found, tail = file.read_text("utf-8").partition(before)
        assert found, f"{path} has no {before!r}"
        file.unlink()  # the link, not the file it leads to
        file.write_text(f"{head}{text}{found}{tail}", "utf-8")

    def test(self, *tests: str) -> subprocess.CompletedProcess[str]:
        """Run tests of the copy."""
        paths = os.pathsep.join((str(self.root / "src"), str(self.root)))
        options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly")
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.root, env={**os.environ, "PYTHONPATH": paths}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False,
        )  # fmt: skip


class Insertion(NamedTuple):
    """A text that is added to a file, and what it stands before."""

    text: str
    before: str


class Step(NamedTuple):
    """One place of a recipe: a file that is written, or texts that are added to one."""

    path: str
    work: str | tuple[Insertion, ...]
    word: str = ""
    """What the recipe names in that file."""

    def play(self, copy: Copy) -> None:
        """Do it."""
        if isinstance(self.work, str):
            copy.write(self.path, self.work)
            return
        for one in self.work:
            copy.insert(self.path, one.text, before=one.before)


class Recipe(NamedTuple):
    """Its steps, and the tests that notice when one of them is missing."""

    title: str
    steps: tuple[Step, ...]
    checks: tuple[str, ...]

    def play(self, copy: Copy, *, without: int | None = None) -> subprocess.CompletedProcess[str]:
        """Follow the recipe, leaving out one step, and run its checks."""
        for number, step in enumerate(self.steps):
            if number != without:
                step.play(copy)
        return copy.test(*self.checks)

    def unnamed(self) -> list[str]:
        """The places that are played and that the recipe does not name."""
        text = section(self.title)
        return [
            f"{step.path} {step.word}".strip()
            for step in self.steps
            if not _is_named(step.path, text) or step.word not in text
        ]


def section(title: str) -> str:
    """The text of a recipe."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return page.split(f"### {title}\n", 1)[1].split("\n### ", 1)[0]


def _is_named(path: str, text: str) -> bool:
    """Whether a recipe names a file, or the pattern of one that is new."""
    patterns: Sequence[str] = re.findall(r"`([\w/.<>-]+)`", text)
    forms = (re.escape(one).replace("<name>", r"[\w-]+") for one in patterns)
    return any(
        re.fullmatch(f"{form}[\\w.]*" if form.endswith("/") else form, path) for form in forms
    )
