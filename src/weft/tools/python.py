"""Code execution: a tool with which a model runs Python in a process of its own.

The process has limits of time, memory, processes and output, a folder of its own and no
environment. Where the kernel allows it, it has no network, sees no other process and writes
nowhere else; where not, the result says so. What it may read is not limited: it runs as the user
that runs Weft. `sandbox.py` is the program of that process.
"""

import asyncio
import functools
import hashlib
import io
import json
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path, PurePosixPath
from typing import cast

from weft.content import Part
from weft.declare.context import ToolContext
from weft.declare.tool import Tool, tool
from weft.errors import DeclarationError
from weft.media import base64_bytes
from weft.misuse import declared
from weft.values import Json, JsonObject

_PROGRAM = Path(__file__).with_name("sandbox.py")

_FLOOD = 10_000_000
"""Bytes of output after which the process is killed; what is cut is read until then."""

_MOST_FILES = 20

_NETWORK = "the kernel does not let the network be cut off: the code could reach it"

_FILES = "the kernel does not let other folders be protected: the code could write to them"


@declared("PythonTool(seconds=10, memory=256)")
@dataclass(frozen=True, kw_only=True)
class PythonTool:
    """A tool that runs Python code: `Agent("analyst", tools=[PythonTool()])`.

    `seconds`, `memory` (in megabytes) and `processes` are limits, `output` the characters that the
    model gets, `file_size` the megabytes of one file. `files` are artifacts that lie in its folder
    at the start; the model may name more. Files that the code writes become artifacts. `network`
    lets it reach the network. A call that may have had effects outside is not made again after a
    crash; one that could have none is.
    """

    seconds: float = 30
    memory: int = 512
    processes: int = 32
    output: int = 20_000
    file_size: int = 20
    files: Sequence[str] = ()
    network: bool = False
    confirm: bool = False
    name: str = "run_python"

    def __post_init__(self) -> None:
        for name in ("seconds", "memory", "processes", "output", "file_size"):
            value = cast("object", getattr(self, name))
            kinds = (int, float) if name == "seconds" else int
            is_number = isinstance(value, kinds) and not isinstance(value, bool)
            if not is_number or not 0 < cast("float", value) < 10**9:
                raise DeclarationError(
                    f"{name} is {value!r}", where="PythonTool", hint="write a number above 0"
                )
        if self.memory < 64:
            raise DeclarationError(
                f"Python does not start in {self.memory} megabytes",
                where="PythonTool.memory",
                hint="write 64 or more",
            )
        if isinstance(self.files, str):
            raise DeclarationError(
                "files is a text", where="PythonTool", hint=f"write files=[{self.files!r}]"
            )
        if os.name != "posix":
            raise DeclarationError(
                "code runs apart only on Linux and macOS", where="PythonTool", hint="leave it out"
            )

    def get_tools(self) -> list[Tool]:
        """The tool as an agent has it."""

        async def run_python(code: str, ctx: ToolContext, files: list[str] | None = None) -> object:
            return await self._call(code, [*self.files, *(files or ())], ctx)

        about = (
            "Run Python code in a new process, and get what it prints; the value of a last"
            f" expression is printed too. Nothing is kept between calls but files. At most"
            f" {self.seconds:g} seconds and {self.memory} MB."
            f" {'' if self.network else 'There is no network. '}Files that it writes to its working"
            " folder are kept as artifacts; `files` names artifacts to put there first."
        )
        apart = not self.network and isolation().get("network", False)
        make = tool(
            name=self.name,
            description=about,
            confirm=self.confirm,
            effect="idempotent" if apart else "unsafe",
        )
        return [make(run_python)]

    async def run(self, code: str, folder: Path) -> "Execution":
        """Run code in a folder, without an agent."""
        return await _execute(code, folder, self.limits, self.seconds, self.output)

    @property
    def limits(self) -> JsonObject:
        """The limits as the process gets them."""
        return {
            "seconds": math.ceil(self.seconds),
            "memory": self.memory * 1_000_000,
            "processes": self.processes,
            "file_size": self.file_size * 1_000_000,
            "network": self.network,
        }

    async def _call(self, code: str, files: list[str], ctx: ToolContext) -> JsonObject:
        with tempfile.TemporaryDirectory(prefix="weft-python-") as place:
            folder = Path(place)
            missing = [name for name in files if not await _put(name, folder, ctx)]
            if missing:
                known = ", ".join(await ctx.list_artifacts()) or "none yet"
                return {"error": f"there is no artifact {missing[0]!r}; there are: {known}"}
            before = {path: fingerprint for path, fingerprint, _ in _files_in(folder)}
            done = await self.run(code, folder)
            saved, notes = await self._save(folder, before, ctx)
        if not self.network and not done.isolated.get("network"):
            notes.append(_NETWORK)
        if not done.isolated.get("files"):
            notes.append(_FILES)
        result: JsonObject = {"output": done.output}
        if done.problem:
            result["problem"] = done.problem
        elif done.exit_code:
            result["exit_code"] = done.exit_code
        if saved:
            result["files"] = cast("Json", saved)
        if notes:
            result["note"] = "; ".join(notes)
        return result

    async def _save(
        self, folder: Path, before: Mapping[str, str], ctx: ToolContext
    ) -> tuple[list[str], list[str]]:
        """Keep what the code wrote as artifacts; what is not kept is named."""
        saved: list[str] = []
        notes: list[str] = []
        for name, fingerprint, data in _files_in(folder, most=self.file_size * 1_000_000):
            if before.get(name) == fingerprint:
                continue
            if data is None:
                notes.append(f"{name} is not kept: it is a link, or too large")
            elif len(saved) == _MOST_FILES:
                notes.append(f"only the first {_MOST_FILES} files are kept")
                break
            else:
                await ctx.save_artifact(name, _part(name, data))
                saved.append(name)
        return saved, notes


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What came of running code: what it printed, how it ended, and what it was kept from."""

    output: str
    exit_code: int
    problem: str
    isolated: Mapping[str, bool]


async def _execute(
    code: str, folder: Path, limits: JsonObject, seconds: float, most: int
) -> Execution:
    report_end, child_end = os.pipe()
    # A pipe of our own: `process.wait()` waits for the pipes that asyncio made, and one that nobody
    # reads to its end, because too much was printed, would never end.
    output_end, printing_end = os.pipe()
    output, transport = await _stream(output_end)
    try:
        process = await asyncio.create_subprocess_exec(
            *_command({**limits, "report": child_end}),
            stdin=asyncio.subprocess.PIPE,
            stdout=printing_end,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
            env=_environment(folder),
            # a group of its own, which is killed as a whole
            start_new_session=True,
            pass_fds=(child_end,),
        )
    except BaseException:
        transport.close()
        os.close(report_end)
        raise
    finally:
        # the process has its own copies; with ours open the reader would never see the end
        os.close(child_end)
        os.close(printing_end)
    problem = ""
    printed = _Printed(most)
    try:
        async with asyncio.timeout(seconds):
            assert process.stdin is not None
            with suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(code.encode("utf-8", "replace"))
                await process.stdin.drain()
            process.stdin.close()
            if await printed.read(output):
                problem = f"it was stopped: it printed more than {_FLOOD:,} bytes"
            else:
                await process.wait()
    except TimeoutError:
        problem = f"it was stopped after {seconds:g} seconds"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        transport.close()
        exit_code = await process.wait()
        isolated = _reported(report_end)
    if not problem and exit_code > 128:
        problem = f"it was ended by {_signal(exit_code - 128)}"
    return Execution(output=printed.text(), exit_code=exit_code, problem=problem, isolated=isolated)


async def _stream(end: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), io.FileIO(end)
    )
    return reader, transport


class _Printed:
    """What a process printed: the beginning and the end, if it is too much."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    async def read(self, stream: asyncio.StreamReader) -> bool:
        """Read all; True if it does not end."""
        room = 2 * self._most  # bytes; a character has up to four
        while data := await stream.read(65536):
            self._size += len(data)
            free = max(0, room - len(self._head))
            self._head += data[:free]
            self._tail = (self._tail + data[free:])[-room:]
            if self._size > _FLOOD:
                return True
        return False

    def text(self) -> str:
        """The text, with a note in place of what is cut."""
        whole = self._size == len(self._head) + len(self._tail)
        text = (self._head + self._tail).decode("utf-8", "replace")
        if whole and len(text) <= self._most:
            return text
        half = self._most // 2
        head = self._head.decode("utf-8", "replace")[:half]
        tail = (self._tail or self._head).decode("utf-8", "replace")[-half:]
        return f"{head}\n[... cut: {self._size:,} bytes were printed ...]\n{tail}"


def _environment(folder: Path) -> dict[str, str]:
    """An environment that holds nothing of Weft's own: no key, no token."""
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        # a library that starts a thread for each core comes to the limit of processes
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _reported(end: int) -> dict[str, bool]:
    """What the process said that it is kept from; nothing if it did not come that far."""
    with open(end, "rb") as report:
        text = report.read(1000)
    try:
        return cast("dict[str, bool]", json.loads(text))
    except ValueError:
        return {}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@functools.cache
def isolation() -> Mapping[str, bool]:
    """What code can be kept from on this machine: the network, other processes, other folders."""
    if os.name != "posix":
        return {}
    report_end, child_end = os.pipe()
    limits = PythonTool(seconds=5).limits
    with tempfile.TemporaryDirectory(prefix="weft-python-") as place:
        try:
            subprocess.run(
                _command({**limits, "report": child_end}),
                input=b"",
                cwd=place,
                env=_environment(Path(place)),
                capture_output=True,
                timeout=60,
                check=False,
                pass_fds=(child_end,),
            )
        except (OSError, subprocess.SubprocessError):
            pass  # then it reports nothing
        finally:
            os.close(child_end)
    return _reported(report_end)


def _command(limits: JsonObject) -> list[str]:
    # -I: neither the folder nor the user's packages are imported from; -B: no bytecode is written
    return [sys.executable, "-I", "-B", str(_PROGRAM), json.dumps(limits)]


async def _put(name: str, folder: Path, ctx: ToolContext) -> bool:
    """Put an artifact into the folder; False if there is none of that name."""
    part = await ctx.load_artifact(name)
    if part is None:
        return False
    path = folder / _path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    blob = part.inline_data
    if blob is not None and blob.data is not None:
        path.write_bytes(base64_bytes(blob.data))
    else:
        path.write_text(part.text or "", "utf-8")
    return True


def _path_of(name: str) -> PurePosixPath:
    """Where an artifact lies in the folder: never outside of it."""
    parts = PurePosixPath(name.removeprefix("user:")).parts
    return PurePosixPath(*[part for part in parts if part not in ("..", "/", ".")] or ["file"])


def _files_in(folder: Path, *, most: int = 0) -> Iterator[tuple[str, str, bytes | None]]:
    """The files below a folder: name, fingerprint, and content; None of what is not to be read.

    Links are not followed: one could lead to a file that the code may not have written.
    """
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            about = path.lstat()
            if not stat.S_ISREG(about.st_mode) or (most and about.st_size > most):
                yield relative, "", None
                continue
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                data = file.read()
            yield relative, hashlib.sha256(data).hexdigest(), data


def _part(name: str, data: bytes) -> Part:
    """A file as an artifact: text where it is text."""
    kind = guess_type(name)[0] or ""
    try:
        text = data.decode("utf-8")
        if "\0" not in text and not kind.startswith(("image/", "audio/", "video/")):
            return Part(text=text)
    except UnicodeDecodeError:
        pass
    return Part.from_bytes(data, kind or "application/octet-stream", name=name)
