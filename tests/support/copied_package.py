"""A copy of the package with edits, to play the recipes of CONTRIBUTING.md in."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

Edits = Mapping[str, Sequence[tuple[str, str]]]
"""By file: pairs of a text that stands there once, and the text that takes its place."""


def read_recipe(title: str) -> str:
    """The text of one recipe, up to the next heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    found = re.search(rf"^### {re.escape(title)}\n(.*?)^##", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"there is no recipe `{title}`"
    return found[1]


def find_unnamed(recipe: str, edits: Edits) -> list[str]:
    """The edited files that the recipe does not name."""
    return [path for path in edits if Path(path).name not in recipe]


def copy_package(target: Path, edits: Edits) -> None:
    """Link the package below `target`, with copies of the edited files in place of theirs."""
    source = ROOT / "src" / "weft"
    real = {Path("."), *(parent for path in edits for parent in Path(path).parents)}
    for folder in sorted(real):
        (target / "weft" / folder).mkdir(parents=True)
        for entry in (source / folder).iterdir():
            path = folder / entry.name
            if path not in real and path.as_posix() not in edits and entry.name != "__pycache__":
                (target / "weft" / path).symlink_to(entry)
    for name, changes in edits.items():
        text = (source / name).read_text("utf-8")
        for old, new in changes:
            assert text.count(old) == 1, f"{name} has {text.count(old)} of: {old}"
            text = text.replace(old, new)
        (target / "weft" / name).write_text(text, "utf-8")


def run_in_copy(target: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the copy as `weft`."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(target), str(ROOT)))},
        cwd=target,
        capture_output=True,
        text=True,
        check=False,
    )
