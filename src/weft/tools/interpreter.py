"""Monty: code runs in steps, in processes of the interpreter, and goes on from snapshots.

Code that calls a tool stops there. The step is stored with a snapshot of the interpreter, the call
is made as any other, and the code goes on from the snapshot, in this process or a later one.

The clock stands still at the moment of the call, and chance is seeded by it. So code that is run
again over the results in the log does what it did before; a snapshot only saves the time.

Top to bottom: one run of code, the processes, files. `bounded.py` reads the values that come out.
"""

import asyncio
import functools
import io
import os
import signal
import subprocess
import sys
import threading
import tokenize
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, NamedTuple, cast

import msgspec
from pydantic_monty import (
    ExternalSettledResult,
    FunctionSnapshot,
    FutureSnapshot,
    MemoryFile,
    Monty,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyFileHandle,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    NameLookupSnapshot,
    OSAccess,
    SyncSnapshot,
    __version__,
)

from weft.declare.code import functions_for, named_arguments
from weft.declare.context import CodeAnswer, CodeCall, CodeSteps
from weft.declare.tool import Tool
from weft.errors import UsageError
from weft.tools.bounded import PlainValues, spell_value
from weft.tools.code import DEEPEST, FLOOD, Execution, PrintedOutput
from weft.values import unwrap_result

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from weft.tools.python import PythonTool

Begin = Callable[[MontySession], SyncSnapshot]
"""Starts a step of code in a session of the interpreter."""


class CodeLimits(NamedTuple):
    """What code may use."""

    seconds: float
    memory: int
    recursion: int
    calls: int
    output: int
    file_bytes: int

    @staticmethod
    def of(tool: "PythonTool") -> "CodeLimits":
        """The limits that a tool declares."""
        return CodeLimits(
            float(tool.seconds),
            tool.memory,
            tool.recursion,
            tool.calls,
            tool.output,
            tool.file_size * 1_000_000,
        )


async def run_alone(
    code: str, limits: CodeLimits, files: dict[str, bytes], begun: float
) -> Execution:
    """Run code that has nothing to call."""
    done = await _CodeRun(code, limits, {}, files, begun).start()
    assert isinstance(done, Execution), "there was nothing to call"
    return done


async def run_in_steps(
    code: str, limits: CodeLimits, files: dict[str, bytes], tool: str, steps: CodeSteps
) -> Execution:
    """Run code that calls tools, from where the log says that it is."""
    own = next((one for one in steps.tools if one.name == tool), None)
    functions = functions_for(own, steps.tools) if own is not None else {}
    program = _CodeRun(code, limits, functions, files, steps.begun)
    step = program.restore(steps.restore()) or await program.start()
    while isinstance(step, _Progress):
        answers = await steps.answer(step.calls, program.snapshot)
        step = await program.go_on(step, answers)
    await steps.end()
    return step


_LARGEST_STATE = 2_000_000
"""Bytes of a step from which on it is not even compressed."""


class _Progress(msgspec.Struct, frozen=True):
    """Where code stopped to make calls: the interpreter, and what is kept with it."""

    version: str
    """Of the interpreter: only the same version surely reads its snapshots."""
    state: bytes
    calls: list[CodeCall]
    ids: list[int] | None
    """By what the interpreter knows the calls; None where it waits for one as a plain function."""
    idle: dict[int, CodeCall]
    """Calls that code began and does not wait for yet."""
    files: dict[str, bytes]
    work: int
    """What was done with files so far."""
    calls_made: int
    """How many calls were made so far, these included."""
    room: tuple[int, int]
    """How many values and letters further arguments may have."""
    printed: tuple[bytes, bytes, int]

    def encode(self) -> bytes | None:
        """The step as the log may keep it; None where it is surely too large for that."""
        if len(self.state) + sum(map(len, self.files.values())) > _LARGEST_STATE:
            return None
        return zlib.compress(msgspec.msgpack.encode(self))

    @staticmethod
    def decode(data: bytes) -> "_Progress | None":
        """A step from the log; None where this version cannot go on from it."""
        try:
            step = msgspec.msgpack.decode(zlib.decompress(data), type=_Progress)
        except (zlib.error, msgspec.MsgspecError):
            return None
        return step if step.version == __version__ else None


class _CodeRun:
    """One run of code: the interpreter comes and goes, this stays."""

    def __init__(
        self,
        code: str,
        limits: CodeLimits,
        functions: Mapping[str, Tool],
        files: dict[str, bytes],
        begun: float,
    ) -> None:
        self.snapshot: bytes | None = None
        """The last step, as the log may keep it."""
        self._code = code
        self._limits = limits
        self._functions = functions
        self._files_before = files
        self._begun = begun
        self._calls_made = 0
        self._arguments = PlainValues()
        self._begun_calls: dict[int, CodeCall] = {}
        """By what the interpreter knows them: calls that code began and that are not made yet."""
        self._printed = PrintedOutput(limits.output)
        self._folder = _Folder(files, limits.file_bytes)
        self._process: int | None = None

    @functools.cached_property
    def _awaits(self) -> bool:
        """Whether functions are awaited; found in a thread, as code may be long."""
        return _has_await(self._code)

    async def start(self) -> "_Progress | Execution":
        """Run the code from its beginning, until it calls something or ends."""
        return await self._turn(
            lambda session: session.feed_start(
                self._code, print_callback=self._print, os=self._folder, cwd="/"
            )
        )

    def restore(self, snapshots: Iterable[bytes]) -> "_Progress | None":
        """The first of the steps that this version can go on from."""
        for snapshot in snapshots:
            step = _Progress.decode(snapshot)
            if step is not None:
                self.snapshot = snapshot
                self._calls_made = step.calls_made
                self._arguments = PlainValues(*step.room)
                self._begun_calls = {**step.idle}
                self._printed = PrintedOutput(self._limits.output, *step.printed)
                self._folder = _Folder(step.files, self._limits.file_bytes, step.work)
                return step
        return None

    async def go_on(
        self, step: _Progress, answers: Sequence[CodeAnswer]
    ) -> "_Progress | Execution":
        """Go on from a step with what its calls came to."""
        results = [_as_value(answer) for answer in answers]

        def begin(session: MontySession) -> SyncSnapshot:
            waiting = session.load_snapshot(step.state, print_callback=self._print, os=self._folder)
            if isinstance(waiting, FunctionSnapshot):
                return waiting.resume(results[0])
            assert isinstance(waiting, FutureSnapshot)
            assert step.ids is not None
            return waiting.resume(dict(zip(step.ids, results, strict=True)))

        return await self._turn(begin)

    async def _turn(self, begin: Begin) -> "_Progress | Execution":
        """Run the interpreter in a thread. A run that is cancelled kills its process."""
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(_interpreters().threads, self._advance, begin)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            while not working.done():
                self._kill()
                with suppress(TimeoutError, asyncio.CancelledError):
                    await asyncio.wait_for(asyncio.shield(working), 0.1)
            raise

    def _advance(self, begin: Begin) -> "_Progress | Execution":
        limits = self._limits
        session = _interpreters().pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory * 1_000_000,
                "max_recursion_depth": limits.recursion,
                "max_suspensions": _MOST_STOPS,
            },
            os_policy={
                "datetime": datetime.fromtimestamp(self._begun, UTC),
                "random_start": {"seed": str(self._begun)},
                "sleep": "zero",
            },
        )
        with session, _interpreters().watcher.watch(session.worker_pid):
            self._process = session.worker_pid
            try:
                return self._drive(begin(session))
            except MontyError as error:
                return self._end_execution(error=self._words_of(error))
            finally:
                self._process = None

    def _drive(self, snapshot: SyncSnapshot) -> "_Progress | Execution":
        """Answer what the interpreter asks for, until it calls tools or ends."""
        begun = self._begun_calls
        while not isinstance(snapshot, MontyComplete):
            if isinstance(snapshot, FutureSnapshot):
                waiting = {*snapshot.pending_call_ids}
                ids = [id for id in begun if id in waiting]
                return self._freeze(snapshot, [begun.pop(id) for id in ids], ids)
            if isinstance(snapshot, NameLookupSnapshot):
                if snapshot.object_id is None and snapshot.variable_name in self._functions:
                    snapshot = snapshot.resume(value=_stand_in(snapshot.variable_name))
                else:
                    snapshot = snapshot.resume()
            elif snapshot.is_os_function:
                snapshot = snapshot.resume_auto()
            else:
                call = self._call_of(snapshot)
                if not isinstance(call, CodeCall):
                    snapshot = snapshot.resume(call)
                elif not self._awaits:
                    return self._freeze(snapshot, [call], None)
                else:
                    begun[snapshot.call_id] = call
                    snapshot = snapshot.resume({"future": ...})
        idle = ", ".join(f"{call.tool}()" for call in begun.values())
        return self._end_execution(
            value=cast("object", snapshot.output),
            notes=(f"called without `await`, and so not made: {idle}",) if idle else (),
        )

    def _call_of(self, snapshot: FunctionSnapshot) -> "CodeCall | ExternalSettledResult":
        """The call that code makes, or the answer it gets instead."""
        name = snapshot.function_name
        function = self._functions.get(name)
        if function is None:
            known = f"; there are: {', '.join(self._functions)}" if self._functions else ""
            return {"exc_type": "NameError", "message": f"name '{name}' is not defined{known}"}
        if self._calls_made >= self._limits.calls:
            words = f"the code has made {self._limits.calls} calls, which is all that it may"
            return {"exc_type": "RuntimeError", "message": words}
        plain = self._arguments
        try:
            args = [plain.value(one) for one in cast("tuple[object, ...]", snapshot.args)]
            fields = cast("dict[str, object]", snapshot.kwargs)
            named = {key: plain.value(one) for key, one in fields.items()}
            call = CodeCall(function.name, named_arguments(function, args, named))
        except (TypeError, ValueError) as error:
            return {"exc_type": "TypeError", "message": f"{name}(): {error}"}
        self._calls_made += 1
        return call

    def _freeze(
        self,
        snapshot: FunctionSnapshot | FutureSnapshot,
        calls: list[CodeCall],
        ids: list[int] | None,
    ) -> "_Progress | Execution":
        """The step that ends here, with all that the code goes on from."""
        try:
            state = snapshot.dump()
        except MontyError:
            return self._end_execution(
                error=f"MemoryError: the code holds too much to wait for {calls[0].tool}(); with"
                f" what is stored it takes more than {self._limits.memory} MB. Hold less when you"
                " call it"
            )
        printed = self._printed
        step = _Progress(
            __version__,
            state,
            calls,
            ids,
            {**self._begun_calls},
            self._folder.contents(),
            self._folder.work,
            self._calls_made,
            self._arguments.room,
            (bytes(printed.head), bytes(printed.tail), printed.size),
        )
        self.snapshot = step.encode()
        return step

    def _print(self, stream: str, text: str) -> None:
        # an error here would only appear when the code ends
        if not self._printed.add(text.encode("utf-8", "replace")):
            self._kill()

    def _kill(self) -> None:
        """Kill the process of the interpreter, if it is at work."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def _end_execution(
        self, *, value: object = None, error: str = "", notes: tuple[str, ...] = ()
    ) -> Execution:
        if value is not None:
            spelled = spell_value(value, self._limits.output)
            self._printed.add(f"{spelled}\n".encode("utf-8", "replace"))
        files = self._folder.contents()
        return Execution(
            output=self._printed.text(),
            error=error,
            files={
                path: data for path, data in files.items() if self._files_before.get(path) != data
            },
            notes=notes,
        )

    def _words_of(self, error: MontyError) -> str:
        """What went wrong, for the model: the code's own lines, within bounds."""
        limits = self._limits
        if self._printed.size > FLOOD:
            return f"it was stopped: it printed more than {FLOOD:,} bytes"
        if isinstance(error, MontyCrashedError):
            why = f"it took more than {limits.seconds:g} seconds" if error.timed_out else "it died"
            return f"the interpreter was stopped: {why}"
        text = str(error)
        if isinstance(error, MontyRuntimeError | MontySyntaxError):
            text = error.display()
        room = max(200, limits.output // 2)
        if len(text) <= room:
            return text
        return f"{text[: room // 2]}\n[... cut ...]\n{text[-room // 2 :]}"


def _has_await(code: str) -> bool:
    """Whether the code awaits, so that a function which is called has yet to be awaited.

    In code without `await` functions are called plainly. Words in texts and comments do not count.
    """
    if "await" not in code:
        return False
    try:
        tokens = tokenize.generate_tokens(io.StringIO(code).readline)
        return any(one.type == tokenize.NAME and one.string == "await" for one in tokens)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return False  # the interpreter says what is wrong


def _as_value(answer: CodeAnswer) -> ExternalSettledResult:
    """What a call came to, as code has it: a value, or an exception."""
    response = answer.response
    if "error" in response:
        return {"exc_type": "RuntimeError", "message": str(response["error"])}
    return {"return_value": unwrap_result(response)}


def _stand_in(name: str) -> Callable[..., object]:
    """A function as code may name it; what it does is asked for by the interpreter."""

    def call_elsewhere(*args: object, **named: object) -> None:
        raise RuntimeError(f"{name} is not called here")

    call_elsewhere.__name__ = name
    return call_elsewhere


# --- the interpreter's processes

_MOST_STOPS = 20_000
"""How often code may ask for something between two calls, as for a file."""


class _Interpreters(NamedTuple):
    """Processes of the interpreter, and the threads that wait for them."""

    pool: Monty
    threads: "ThreadPoolExecutor"
    watcher: "_Watcher"
    process: int
    """The process that started them: in one that is forked from it they do not work."""


_WATCH = """
import os, sys
at_work = ""
for at_work in sys.stdin:
    pass
for process in at_work.split():
    try:
        os.kill(int(process), 9)
    except ProcessLookupError:
        pass
"""


class _Watcher:
    """A process that ends just after Weft, and with it the interpreters that are at work.

    One that waits for Weft sees that it is gone; one in a loop would go on until its time is over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work: set[int] = set()
        self._process, self._end = self._start()

    @contextmanager
    def watch(self, process: int | None) -> Generator[None, None, None]:
        """Have a process ended if this one is killed meanwhile."""
        if process is None:
            raise RuntimeError("the interpreter has no process")
        with self._lock:
            self._at_work.add(process)
            self._tell()
        try:
            yield
        finally:
            with self._lock:
                self._at_work.discard(process)
                self._tell()

    def _tell(self) -> None:
        """Say all that are at work: a line, which arrives whole."""
        line = f"{' '.join(map(str, self._at_work))}\n".encode()
        if self._process.poll() is not None:  # somebody has ended it
            self._end.close()
            self._process, self._end = self._start()
        os.write(self._end.fileno(), line)

    def _start(self) -> "tuple[subprocess.Popen[bytes], IO[bytes]]":
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # what is sent to Weft's terminal does not end it
        )
        assert process.stdin is not None
        return process, process.stdin


@functools.cache
def _start_interpreters() -> _Interpreters:
    from concurrent.futures import ThreadPoolExecutor

    at_once = max(2, os.cpu_count() or 1)
    # A process serves one step: code of one session leaves nothing for another's.
    # A blocking pool in threads: the asynchronous one may crash Python when it ends.
    pool = Monty(min_processes=1, max_processes=at_once, max_checkouts_per_worker=1)
    pool.__enter__()
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="weft-code")
    return _Interpreters(pool, threads, _Watcher(), os.getpid())


def _interpreters() -> _Interpreters:
    started = _start_interpreters()
    if started.process != os.getpid():
        raise UsageError(
            "this process was forked from one that had run code, and cannot run any",
            where="PythonTool",
            hint="start it anew instead of forking it: multiprocessing with `spawn`",
        )
    return started


# --- files

_MOST_ENTRIES = 1_000
"""How many files and folders code may make."""

_WORK = 50
"""How many times the bytes that may be stored code may read and write."""


class _Folder(OSAccess):
    """The files that code has, in memory, with limits on all of them together.

    The code's own clock stands while files are read and written, so that is limited too: `work`.
    """

    def __init__(self, files: Mapping[str, bytes], room: int, work: int = 0) -> None:
        listed = [MemoryFile(f"/{path}", data) for path, data in files.items()]
        super().__init__(listed, environ={}, max_urandom_bytes=0, max_sleep=0)
        self._room = room
        self.work = work
        self._entries = 0

    def contents(self) -> dict[str, bytes]:
        """The files that are there, by their paths."""
        contents: dict[str, bytes] = {}
        for file in self.files:
            if not file.deleted:
                data = file.read_content()
                path = str(file.path).removeprefix("/")
                contents[path] = data.encode("utf-8", "replace") if isinstance(data, str) else data
        return contents

    def path_open(self, path: PurePosixPath, mode: str) -> MontyFileHandle:
        """Open a file; one that is made counts."""
        if not self.path_exists(path):
            self._count(path)
        return super().path_open(path, mode)

    def path_read_text(self, path: PurePosixPath | MontyFileHandle) -> str:
        """Read a text."""
        text = super().path_read_text(path)
        self._spend(len(text))
        return text

    def path_read_bytes(self, path: PurePosixPath | MontyFileHandle) -> bytes:
        """Read bytes."""
        data = super().path_read_bytes(path)
        self._spend(len(data))
        return data

    def path_write_text(self, path: PurePosixPath | MontyFileHandle, data: str) -> int:
        """Write a text in place of what was there."""
        self._require_room(path, data)
        return super().path_write_text(path, data)

    def path_write_bytes(self, path: PurePosixPath | MontyFileHandle, data: bytes) -> int:
        """Write bytes in place of what was there."""
        self._require_room(path, data)
        return super().path_write_bytes(path, data)

    def path_append_text(self, path: PurePosixPath | MontyFileHandle, data: str) -> int:
        """Write a text at the end."""
        self._require_room(path, data)
        return super().path_append_text(path, data)

    def path_append_bytes(self, path: PurePosixPath | MontyFileHandle, data: bytes) -> int:
        """Write bytes at the end."""
        self._require_room(path, data)
        return super().path_append_bytes(path, data)

    def path_mkdir(self, path: PurePosixPath, parents: bool, exist_ok: bool) -> None:
        """Make a folder."""
        self._count(path)
        super().path_mkdir(path, parents, exist_ok)

    def path_rename(self, path: PurePosixPath, target: PurePosixPath) -> None:
        """Move a file. Folders stay where they are: nobody needs to move one here."""
        if not self.path_is_file(path):
            raise PermissionError(f"[Errno 1] Operation not permitted: {str(path)!r}")
        data = super().path_read_bytes(path)
        self._count(target)
        self._spend(len(data))
        super().path_write_bytes(target, data)
        if path != target:
            super().path_unlink(path)

    def _count(self, path: PurePosixPath) -> None:
        """Count one more file or folder, unless there are enough."""
        if len(str(path)) > 200 or len(path.parts) > DEEPEST:
            raise OSError("[Errno 36] File name too long, or in too many folders")
        self._entries += 1
        if self._entries > _MOST_ENTRIES:
            raise OSError(f"[Errno 28] No space left: there may be {_MOST_ENTRIES:,} files")

    def _require_room(self, path: PurePosixPath | MontyFileHandle, data: str | bytes) -> None:
        """Refuse to write more than all files may have."""
        if isinstance(path, PurePosixPath) and not self.path_exists(path):
            self._count(path)
        # a text is counted as the bytes that it may come to
        size = sum(_weigh(file.read_content()) for file in self.files if not file.deleted)
        self._spend(size + len(data))
        if size + _weigh(data) > self._room:
            raise OSError(f"[Errno 28] No space left: files may have {self._room:,} bytes")

    def _spend(self, size: int) -> None:
        self.work += size + 1_000
        if self.work > _WORK * self._room:
            raise OSError("[Errno 28] No space left: too much was read and written")


def _weigh(data: str | bytes) -> int:
    return len(data) if isinstance(data, bytes) or data.isascii() else 4 * len(data)
