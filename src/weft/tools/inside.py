"""The program inside the sandbox of `CPythonTool`: it runs code, and hands out the files it left.

It is started with `python -I -c` as the second process of the sandbox, and imports nothing but the
standard library. It reads what to do from its input: a line of JSON, then the code, a system call
filter, and files. It runs the code in a process of its own with limits and the filter, waits for
it, kills what it started, and writes a report and the files to a pipe that the code never has.
"""

import ast
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import stat
import sys
import time
import traceback
from typing import BinaryIO, TypedDict

_SET_SECCOMP, _FILTER = 22, 2

_MOST_SENT = 1_000
"""How many files and folders are looked at."""


class CodeTask(TypedDict):
    """What there is to do, and its limits."""

    code: int
    """How many bytes of code follow."""
    filter: int
    files: list[tuple[str, int]]
    """Paths and sizes."""
    packages: list[str]
    seconds: float
    memory: int
    processes: int
    disk: int
    entries: int
    """How many files and folders the code may make."""
    depth: int
    """How deep folders may stand in each other for their files to be sent."""


def main(report: int) -> None:
    """Read, run, wait, report."""
    source = sys.stdin.buffer
    task: CodeTask = json.loads(source.readline())
    code, barrier = source.read(task["code"]), source.read(task["filter"])
    for path, size in task["files"]:
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(source.read(size))
    child = os.fork()
    if child == 0:
        # the report's, which is a high one where Weft has much open, and what bwrap has left open
        os.closerange(3, max(1_024, report + 1))
        _run(code.decode("utf-8", "replace"), barrier, task)
    problem, status = _wait(child, task)
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)  # all that the code started
    with os.fdopen(report, "wb") as out:
        out.write(json.dumps({"problem": problem, "status": status}).encode() + b"\n")
        _send_files(out, task)


def _wait(child: int, task: CodeTask) -> tuple[str, int]:
    """Wait until the code ends, takes too long, makes too many files, or nobody wants it."""
    ends = time.monotonic() + task["seconds"]
    watch = select.poll()
    process = os.pidfd_open(child)
    watch.register(process, select.POLLIN)
    watch.register(0, 0)  # closed when Weft is gone
    problem = ""
    while not problem:
        for end, what in watch.poll(20):
            if end == process:
                return "", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if what & (select.POLLHUP | select.POLLERR):
                os._exit(1)
        room = os.statvfs(".")
        if room.f_files - room.f_ffree > task["entries"]:
            problem = "entries"
        elif time.monotonic() > ends:
            problem = "seconds"
    os.kill(child, signal.SIGKILL)
    return problem, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _send_files(out: BinaryIO, task: CodeTask) -> None:
    """Write the files below the folder: a line of JSON for each, then its bytes.

    Links are not followed, and nothing but plain files is opened: what is not sent is named.
    """
    room = task["disk"]
    folders = [("", os.open(".", os.O_RDONLY | os.O_DIRECTORY), 1)]
    count = 0
    while folders and count < _MOST_SENT:
        path, folder, depth = folders.pop()
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            count += 1
            inner = f"{path}{name}"
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode) and depth < task["depth"]:
                try:
                    end = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                except OSError:
                    _write_line(out, inner, -1)
                else:
                    folders.append((f"{inner}/", end, depth + 1))
            elif not stat.S_ISREG(about.st_mode) or about.st_size > room:
                _write_line(out, inner, -1)
            else:
                room -= _send_file(out, inner, name, folder, about.st_size)
        os.close(folder)


def _send_file(out: BinaryIO, path: str, name: str, folder: int, size: int) -> int:
    try:
        end = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        _write_line(out, path, -1)
        return 0
    with os.fdopen(end, "rb") as file:
        data = file.read(size)
    _write_line(out, path, len(data))
    out.write(data)
    return len(data)


def _write_line(out: BinaryIO, path: str, size: int) -> None:
    legible = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    out.write(json.dumps([legible, size]).encode() + b"\n")


def _run(code: str, barrier: bytes, task: CodeTask) -> None:
    """Run the code as a program; the value of its last expression is printed."""
    exit_code = 1
    try:
        os.setsid()
        os.close(0)
        os.open("/dev/null", os.O_RDONLY)
        _limit(task)
        _install(barrier)
        sys.path += [os.getcwd(), *task["packages"]]
    except BaseException:
        traceback.print_exc()
        os._exit(125)
    names: dict[str, object] = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        tree = ast.parse(code, "<code>")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<code>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<code>", "eval"), names)
            if value is not None:
                print(repr(value))
        exit_code = 0
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        # the frames of this program say nothing about the code
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        with contextlib.suppress(MemoryError):
            traceback.print_exception(type(error), error, frames, limit=20)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_code & 0xFF)  # never back into the program above


def _limit(task: CodeTask) -> None:
    """Set the limits of this process and of all that it starts."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(task["seconds"]) + 2),
        (resource.RLIMIT_FSIZE, task["disk"]),
        (resource.RLIMIT_NOFILE, 128),
        (resource.RLIMIT_NPROC, task["processes"]),
        (resource.RLIMIT_AS, task["memory"]),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


class _KernelFilter(ctypes.Structure):
    """A filter of system calls, as the kernel takes it."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def _install(barrier: bytes) -> None:
    """Add the filter of system calls that only the code has; it was made outside."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = _KernelFilter(len(barrier) // 8, barrier)
    if libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter cannot be set")


if __name__ == "__main__":
    main(int(sys.argv[1]))
