"""The recipes of CONTRIBUTING, each followed as a stranger would, in copies of the repository.

A copy is made of links, so that it costs milliseconds and finds the compiled files of the original.
With all its places a recipe leads to something that works; with any one left out, a check fails.
The checks are tests of this repository or small programs. `recipe_forks.py` runs each in a fork of
one process: most of what a short run of tests costs is its start.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parents[2]

Check: TypeAlias = str | tuple[str, ...]
"""A program, or the arguments of pytest."""


class Insertion(NamedTuple):
    """A text that is added to a file: before another, between two, or at the end."""

    text: str
    before: str = ""
    after: str = ""


class Place(NamedTuple):
    """One place of a recipe: a file that is written, or texts that are added to one."""

    path: str
    work: str | tuple[Insertion, ...]
    word: str = ""
    """What the recipe names in that file."""
    missed: str = ""
    """What the checks say when the place is left out."""

    def fill(self, copy: Path) -> None:
        """Do what the recipe says, in a copy of the repository."""
        file = copy / self.path
        if isinstance(self.work, str):
            assert not file.exists(), f"{self.path} is there already"
            file.write_text(self.work, "utf-8")
            return
        text = file.read_text("utf-8")
        for added, before, after in self.work:
            head, mark, tail = text.partition(after + before or text)
            assert mark, f"{self.path} has no {after + before!r}"
            cut = len(mark) - len(before) if after or before else len(mark)
            text = head + mark[:cut] + added + mark[cut:] + tail
        file.unlink()  # the link, not the file it leads to
        file.write_text(text, "utf-8")


class Outcome(NamedTuple):
    """What the checks said."""

    passed: bool
    output: str


class Played(NamedTuple):
    """What came of a whole recipe, and the places that can be left out without a word."""

    whole: Outcome
    unnoticed: list[str]


class Recipe(NamedTuple):
    """Its headings in CONTRIBUTING, its places, and what notices when one of them is missing."""

    titles: tuple[str, ...]
    places: tuple[Place, ...]
    checks: tuple[Check, ...]

    def play(self, folder: Path) -> Played:
        """Follow the recipe as a whole, and once without each of its places."""
        attempts = [
            [place for place in self.places if place is not left_out]
            for left_out in (None, *self.places)
        ]
        whole, *others = self._try(folder, attempts)
        return Played(
            whole,
            [
                f"{place.path} {place.word}: {outcome.output}"
                for place, outcome in zip(self.places, others, strict=True)
                if outcome.passed or place.missed not in outcome.output
            ],
        )

    def play_whole(self, folder: Path) -> Outcome:
        """Follow the recipe."""
        return self._try(folder, [self.places])[0]

    def find_unnamed(self) -> list[str]:
        """List the places that are played and that the recipe does not name."""
        text = "".join(map(read_recipe, self.titles))
        return [
            f"{place.path} {place.word}".strip()
            for place in self.places
            if not _is_named(place.path, text) or place.word not in text
        ]

    def _try(self, folder: Path, attempts: Sequence[Sequence[Place]]) -> list[Outcome]:
        copies: list[str] = []
        for number, places in enumerate(attempts):
            copy = folder / f"copy{number}"
            _link_repository(copy)
            for place in places:
                place.fill(copy)
            copies.append(str(copy))
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
        }
        done = subprocess.run(
            [sys.executable, "-P", str(Path(__file__).with_name("recipe_forks.py"))],
            input=json.dumps({"copies": copies, "checks": self.checks}),
            env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [Outcome(*one) for one in json.loads(done.stdout)]


def read_recipe(title: str) -> str:
    """Read the recipe under a heading."""
    _, _, rest = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(f"\n### {title}\n")
    assert rest, f"CONTRIBUTING has no recipe {title!r}"
    return re.split(r"\n##+ ", rest)[0]


def _link_repository(copy: Path) -> None:
    shutil.copytree(ROOT / "docs", copy / "docs")  # links of pages are followed to their end
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, copy / name, copy_function=os.symlink)
    for file in ROOT.iterdir():
        if file.is_file():
            (copy / file.name).symlink_to(file)


def _is_named(path: str, text: str) -> bool:
    """Whether a recipe names a file: whole, by the end of its path, by its pattern or folder."""
    patterns: Sequence[str] = re.findall(r"`([\w/.<>-]+)`", text)
    forms = (re.escape(one).replace("<name>", r"[\w-]+") for one in patterns)
    return any(
        re.fullmatch(f"(.*/)?{form}" + (r"[\w.]*" if form.endswith("/") else ""), path)
        for form in forms
    )
