"""Check again when a file changes: each time in a process of its own, so that nothing is stale."""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SECONDS = 0.3
"""How long to wait between two looks at the files."""


def once_more(arguments: Sequence[str]) -> int:
    """Run the command in a new process, and give its exit code."""
    return subprocess.run([sys.executable, "-m", "weft", *arguments], check=False).returncode


def watched(target: str, arguments: Sequence[str]) -> int:
    """Run the command now, and again whenever a file beside the target changes."""
    folder = _folder(target)
    print(f"watching {folder}; press Ctrl-C to end", file=sys.stderr)
    try:
        while True:
            seen = _times(folder)
            once_more(arguments)
            while _times(folder) == seen:
                time.sleep(SECONDS)
            print("", flush=True)
    except KeyboardInterrupt:
        return 0


def _folder(target: str) -> Path:
    """The folder that the target's file stands in."""
    if Path(target).is_dir():
        return Path(target).resolve()
    place = target.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place).resolve().parent
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    return Path(spec.origin).parent if spec is not None and spec.origin else Path.cwd()


def _times(folder: Path) -> dict[Path, int]:
    """When each Python file below the folder was changed."""
    found: dict[Path, int] = {}
    for file in folder.rglob("*.py"):
        if not any(part.startswith(".") for part in file.relative_to(folder).parts):
            try:
                found[file] = file.stat().st_mtime_ns
            except FileNotFoundError:
                continue
    return found
