"""A tool with which a model runs full Python, in a sandbox of the system; only on Linux.

Bubblewrap (`bwrap`) makes the sandbox: a root of its own with the interpreter and the system's
libraries, read-only, and an empty folder in memory; no network, no capabilities, no other
processes. A list of system calls, made with libseccomp, is all that the kernel answers.
`inside.py` is the program in it. Nothing of a run is on disk, and all of it is gone with `bwrap`,
which the kernel kills when Weft is killed.

A machine that cannot do all of this runs no code: before the first run a probe looks from inside.

Top to bottom: the tool, one run, the sandbox, system calls, the probe.
"""

import asyncio
import errno
import functools
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple, cast

import msgspec

from weft.declare.context import ToolContext
from weft.declare.tool import Tool, tool
from weft.errors import DeclarationError, UsageError
from weft.misuse import explain_mistakes
from weft.tools.code import (
    DEEPEST,
    FLOOD,
    Execution,
    PrintedOutput,
    check_files,
    check_limits,
    load_files,
    problem_with_size,
    save_result,
)
from weft.values import JsonObject

_ENTRIES = 10_000
"""How many files and folders code may make."""

_THREADS = 32
"""How many threads one process may have."""

_GRACE = 5.0
"""Seconds that the program inside has to end what took too long, and to hand out files."""

_WORDS = {"network": "there is no network; give the agent a tool that fetches", "file_size": "disk"}


@explain_mistakes("CPythonTool(seconds=10, memory=256)", words=_WORDS)
@dataclass(frozen=True, kw_only=True)
class CPythonTool:
    """A tool that runs full Python: `Agent("analyst", tools=[CPythonTool()])`.

    `seconds`, `memory` (in megabytes, of each process), `processes` and `disk` (in megabytes, of
    all files together) are limits, `output` the characters that the model gets. `files` are
    artifacts that lie in its folder at the start; the model may name more. Files that the code
    writes become artifacts of the session. `packages` lets it import what is installed where Weft
    runs; `python` is another interpreter. Code that cannot be kept apart on this machine is not
    run: `weft doctor` says why.
    """

    seconds: float = 30
    memory: int = 512
    processes: int = 1
    disk: int = 50
    output: int = 20_000
    files: Sequence[str] = ()
    packages: bool = False
    python: str | None = None
    confirm: bool = False
    name: str = "run_python"

    def __post_init__(self) -> None:
        limits = {
            name: cast("object", getattr(self, name))
            for name in ("seconds", "memory", "processes", "disk", "output")
        }
        check_limits("CPythonTool", limits)
        if self.memory < 64:
            raise DeclarationError(
                f"Python does not start in {self.memory} megabytes",
                where="CPythonTool.memory",
                hint="write 64 or more",
            )
        check_files("CPythonTool", self.files)
        if self.packages and self.python is not None:
            raise DeclarationError(
                "packages are those of the interpreter that runs Weft, and python is another",
                where="CPythonTool",
                hint="leave out one of the two",
            )

    def get_tools(self) -> list[Tool]:
        """The tool as an agent has it."""

        async def run_python(code: str, ctx: ToolContext, files: list[str] | None = None) -> object:
            inputs = await load_files([*self.files, *(files or ())], ctx)
            if isinstance(inputs, str):
                return {"error": inputs}
            return await save_result(await self.run(code, inputs), ctx)

        installed = "and the installed packages " if self.packages else ""
        about = (
            "Run Python code in a new process, and get what it prints; the value of a last"
            " expression is printed too. It can import the standard library"
            f" {installed}and nothing else. Nothing is kept between calls but files. At most"
            f" {self.seconds:g} seconds and {self.memory} MB. There is no network. Files that it"
            " writes to its working folder are kept as artifacts; `files` names artifacts to put"
            " there first."
        )
        make = tool(name=self.name, description=about, confirm=self.confirm)
        # it calls no other tool; what it returns still carries the labels of what it was given
        return [msgspec.structs.replace(make(run_python), runs_code=True, functions=())]

    async def run(self, code: str, files: Mapping[str, bytes] | None = None) -> Execution:
        """Run code without an agent; `files` by their paths. Refused where it cannot be apart."""
        loop = asyncio.get_running_loop()
        probed = await loop.run_in_executor(None, abilities, self.python)
        missing = [one for one in probed if not one.can]
        if missing:
            raise UsageError(
                f"full Python cannot be kept apart on this machine: {missing[0].name}:"
                f" {missing[0].words}",
                where="CPythonTool",
                hint=f"{missing[0].hint}; or use PythonTool, which needs nothing of the system",
            )
        inputs = dict(files or {})
        if problem := problem_with_size(code, inputs, self.disk * 1_000_000):
            return Execution(output="", error=problem)
        return await _execute(code, inputs, _interpreter(self.python), self)


# --- one run


async def _execute(
    code: str, files: dict[str, bytes], python: "Interpreter", options: CPythonTool
) -> Execution:
    """Run code in a sandbox, and read what it prints and leaves."""
    calls = filters()
    source = code.encode("utf-8", "replace")
    barrier = calls.one_process if options.processes == 1 else calls.processes
    task: JsonObject = {
        "code": len(source),
        "filter": len(barrier),
        "files": [[path, len(data)] for path, data in files.items()],
        "packages": [*_package_folders()] if options.packages else [],
        "seconds": options.seconds,
        "memory": options.memory * 1_000_000,
        "processes": _processes(options.processes),
        "disk": options.disk * 1_000_000,
        "entries": _ENTRIES,
        "depth": DEEPEST,
    }
    payload = b"".join([json.dumps(task).encode(), b"\n", source, barrier, *files.values()])
    output_end, printing_end = os.pipe()
    report_end, reporting_end = os.pipe()
    printed = PrintedOutput(options.output)
    process: asyncio.subprocess.Process | None = None
    problem, report = "", b""
    async with _Reading(output_end) as output, _Reading(report_end) as reports:
        try:
            with TemporaryFile() as rules:
                rules.write(calls.sandbox)
                rules.seek(0)
                ends = (reporting_end, rules.fileno())
                process = await asyncio.create_subprocess_exec(
                    *_command(python, options, *ends),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=printing_end,
                    stderr=printing_end,
                    cwd="/",
                    env={},
                    start_new_session=True,
                    pass_fds=ends,
                )
        finally:
            # the process has its own copies; with ours open nobody would see the end
            os.close(printing_end)
            os.close(reporting_end)
        # it stays open: inside, its end says that Weft is gone
        assert process.stdin is not None
        process.stdin.write(payload)
        reading = asyncio.ensure_future(reports.read(options.disk * 1_000_000 + 10_000_000))
        try:
            async with asyncio.timeout(options.seconds + _GRACE):
                while data := await output.read(65_536):
                    if not printed.add(data):
                        problem = f"it was stopped: it printed more than {FLOOD:,} bytes"
                        break
                report = await reading if not problem else b""
        except TimeoutError:
            problem = f"it was stopped after {options.seconds:g} seconds"
        finally:
            reading.cancel()
            with suppress(ProcessLookupError):
                # and with it everything inside; `process.kill` may take the exit code from asyncio
                os.killpg(process.pid, signal.SIGKILL)
            process.stdin.close()
            await process.wait()
    return _outcome(printed, report, problem, files, options)


class _Reading:
    """The reading end of a pipe."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._reader = asyncio.StreamReader()
        self._transport: asyncio.ReadTransport | None = None

    async def __aenter__(self) -> "_Reading":
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(self._end, "rb", 0)
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._transport is not None:
            self._transport.close()

    async def read(self, most: int) -> bytes:
        """What comes next, or all up to `most` bytes where that is more than a pipe holds."""
        if most <= 65_536:
            return await self._reader.read(most)
        pieces: list[bytes] = []
        while most > 0 and (piece := await self._reader.read(min(most, 65_536))):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)


def _outcome(
    printed: PrintedOutput,
    report: bytes,
    problem: str,
    before: Mapping[str, bytes],
    options: CPythonTool,
) -> Execution:
    """What came of a run. The report is read as what it is: the word of a stranger."""
    start = report.find(b"\n") + 1
    try:
        ending = cast("JsonObject", msgspec.json.decode(report[:start], type=dict))
    except msgspec.MsgspecError:
        ending = {}
    status = ending.get("status")
    if not problem and ending.get("problem") == "seconds":
        problem = f"it was stopped after {options.seconds:g} seconds"
    elif not problem and ending.get("problem") == "entries":
        problem = f"it was stopped: it made more than {_ENTRIES:,} files and folders"
    elif not problem and not isinstance(status, int):
        problem = "it was ended from inside"
    elif not problem and isinstance(status, int) and status:
        problem = f"exit code {status}" if status > 0 else f"it was ended by signal {-status}"
    files: dict[str, bytes] = {}
    notes: list[str] = []
    for path, data in _files_in(report, start):
        if data is None:
            notes.append(f"{path[:100]!r} is not kept: it is a link, or too large")
        elif before.get(path) != data:
            files[path] = data
    return Execution(output=printed.text(), error=problem, files=files, notes=tuple(notes))


def _files_in(report: bytes, start: int) -> Iterator[tuple[str, bytes | None]]:
    """The files of a report from `start` on: path and content; None of one that was not sent."""
    # what is left is never copied: a thousand files before a large one would take a minute
    while (end := report.find(b"\n", start)) >= 0:
        try:
            path, size = msgspec.json.decode(report[start:end], type=tuple[str, int])
        except msgspec.MsgspecError:
            return
        start = end + 1
        if size < 0:
            yield path, None
        elif start + size <= len(report):
            yield path, report[start : start + size]
            start += size
        else:
            return


# --- the sandbox

_BOX = "/box"
"""The working folder; no interpreter or package lies below a folder of this name."""

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


class Interpreter(NamedTuple):
    """A Python: its program, and the folders that it runs from."""

    program: str
    folders: tuple[str, ...]
    packages: tuple[str, ...]
    """Folders below those with what was installed for it."""


_ASK = (
    "import json, os, site, sys, sysconfig; print(json.dumps(["
    "os.path.realpath(sys._base_executable), [os.path.join(sys.base_prefix, 'lib'),"
    " sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib')],"
    " site.getsitepackages([sys.base_prefix, sys.base_exec_prefix])]))"
)


@functools.cache
def _interpreter(python: str | None) -> Interpreter:
    """The interpreter of this name, or the one that runs Weft; what it says of itself."""
    name = python if python is not None else sys.executable
    try:
        asked = subprocess.run(
            [name, "-I", "-c", _ASK], capture_output=True, timeout=60, check=True, env={}
        )
        program, folders, packages = msgspec.json.decode(
            asked.stdout, type=tuple[str, tuple[str, ...], tuple[str, ...]]
        )
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{name} does not run: {error}",
            where="CPythonTool.python",
            hint='name an interpreter: python="/usr/bin/python3"',
        ) from None
    return Interpreter(program, tuple(dict.fromkeys(folders)), tuple(dict.fromkeys(packages)))


def _command(python: Interpreter, options: CPythonTool, report: int, rules: int) -> list[str]:
    """The command that makes the sandbox, and runs the program inside."""
    command = [shutil.which("bwrap") or "bwrap", "--unshare-ipc", "--unshare-pid"]
    command += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    readable, inner = [*_readable(python, options), python.program], list[str]()
    if os.geteuid() == 0:
        # Root needs no user namespace to make the sandbox. It leaves its rights inside, for a user
        # that nobody else is: the kernel counts the processes of a user, and none of root's.
        setpriv, user = shutil.which("setpriv") or "setpriv", str(_free_user())
        for right in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            command += ["--cap-add", right]
        inner = [setpriv, "--reuid", user, "--regid", user, "--clear-groups"]
        inner += ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--"]
        readable.append(setpriv)
    else:
        command += ["--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
    for name, value in _environment().items():
        command += ["--setenv", name, value]
    devices = [f"/dev/{name}" for name in ("null", "zero", "urandom")]
    # folders above what is mounted would be made for their owner alone
    for folder in _folders_above([*readable, *devices]):
        command += ["--perms", "0755", "--dir", folder]
    for path in readable:
        is_link = path in _LIBRARIES and os.path.islink(path)
        command += ["--symlink", os.readlink(path), path] if is_link else ["--ro-bind", path, path]
    for folder in _folders_to_hide(python, options, readable):
        command += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    for device in devices:
        command += ["--dev-bind", device, device]
    disk = str(options.disk * 1_000_000)
    command += ["--perms", "1777", "--size", disk, "--tmpfs", _BOX, "--remount-ro", "/"]
    command += ["--chdir", _BOX, "--seccomp", str(rules), "--"]
    return [*command, *inner, python.program, "-I", "-B", "-c", _program(), str(report)]


def _readable(python: Interpreter, options: CPythonTool) -> list[str]:
    """What can be read inside: the interpreter's folders, and the libraries of the system."""
    folders = [*_LIBRARIES, *python.folders]
    if options.packages:
        folders += _package_folders()
    readable = [path for path in ("/etc/ld.so.cache",) if os.path.exists(path)]
    for folder in dict.fromkeys(folders):
        inside_another = any(folder.startswith(f"{other}/") for other in readable)
        if os.path.isdir(folder) and not inside_another:
            readable.append(folder)
    return readable


def _folders_to_hide(
    python: Interpreter, options: CPythonTool, readable: Sequence[str]
) -> Iterator[str]:
    """The folders of installed packages that lie in what can be read, and are not to be."""
    wanted = {os.path.realpath(one) for one in sys.path} if options.packages else set[str]()
    bound = [one for one in readable if not os.path.islink(one)]
    for folder in dict.fromkeys([*python.packages, *map(os.path.realpath, python.packages)]):
        within = any(folder.startswith(f"{one}/") for one in bound)
        is_folder = os.path.isdir(folder) and not os.path.islink(folder)
        if within and is_folder and os.path.realpath(folder) not in wanted:
            yield folder


def _package_folders() -> list[str]:
    """Where the packages lie that are installed where Weft runs."""
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return [*dict.fromkeys(map(os.path.realpath, paths))]


def _folders_above(paths: Sequence[str]) -> list[str]:
    """The folders that the paths lead through, the outermost first."""
    above = {str(folder) for path in paths for folder in Path(path).parents}
    return sorted(above - {"/", *paths}, key=len)


def _environment() -> dict[str, str]:
    """An environment that holds nothing of Weft's own: no key, no token."""
    return {
        "HOME": _BOX,
        "TMPDIR": _BOX,
        "LANG": "C.UTF-8",
        # a library that starts a thread for each core comes to the limit of processes
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _free_user() -> int:
    """A number that no user has, for one run; within what this system maps."""
    with suppress(OSError, ValueError, IndexError):
        if int(Path("/proc/self/uid_map").read_text().split()[2]) > 2**31:
            return random.SystemRandom().randrange(2**30, 2**31 - 1)
    return random.SystemRandom().randrange(20_000, 60_000)


def _processes(most: int) -> int:
    """The kernel's limit: the code's own, and those that stand around it."""
    around = 1 if os.geteuid() == 0 else 2
    return around + (_THREADS if most == 1 else most)


@functools.cache
def _program() -> str:
    return Path(__file__).with_name("inside.py").read_text("utf-8")


# --- system calls

_ALLOWED = (
    "access alarm arch_prctl brk capget capset chdir chmod clock_getres clock_gettime "
    "clock_nanosleep close close_range copy_file_range creat dup dup2 dup3 epoll_create "
    "epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve exit "
    "exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fcntl "
    "fdatasync flock fork fstat fstatfs fsync ftruncate futex futimesat getcpu getcwd "
    "getdents getdents64 getegid geteuid getgid getgroups getitimer getpgid getpgrp getpid "
    "getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname "
    "getsockopt gettid gettimeofday getuid kill link linkat lseek lstat madvise membarrier "
    "mkdir mkdirat mmap mprotect mremap msync munmap nanosleep newfstatat open openat pause "
    "pidfd_open pipe pipe2 poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 "
    "pwrite64 pwritev pwritev2 read readlink readlinkat readv recvfrom recvmsg rename "
    "renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask "
    "rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity sched_getparam "
    "sched_getscheduler sched_yield select sendfile sendmsg sendto set_robust_list "
    "set_tid_address setgid setgroups setitimer setpgid setresgid setresuid setrlimit setsid "
    "setuid shutdown sigaltstack stat statfs statx symlink symlinkat sysinfo tgkill time "
    "times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork wait4 "
    "waitid write writev"
)
"""What the kernel answers inside; it knows nothing of anything else."""

_REFUSED = (
    "accept accept4 add_key bind bpf chown chroot connect fchown fchownat io_uring_setup "
    "kexec_load keyctl lchown listen memfd_create mknod mknodat mount move_mount open_tree "
    "perf_event_open pivot_root process_vm_readv process_vm_writev ptrace request_key setns "
    "shmget socket swapon umount2 unshare userfaultfd"
)
"""What is refused by name, so that an error says what it is about."""

_XATTRS = [
    f"{how}{which}xattr" for how in ("get", "list", "remove", "set") for which in ("", "l", "f")
]

_TERMINAL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""What may be asked of a file: is it a terminal, how large; how much is there; who inherits it."""

_OWNERS = (8, 10, 15)
"""What says whom a file signals, and with which signal."""

_THREAD = 0x00010000
_NAMESPACES = 0x7E020000
"""What a new process may be apart in; each is a way to more rights."""
_LOW = 0xFFFFFFFF
"""The kernel looks at half of these arguments; the other half must not hide something."""

_SUPERVISOR = 2
"""The process of the program inside: only bwrap's own comes before it."""


class Filters(NamedTuple):
    """Filters of system calls, as the kernel takes them."""

    sandbox: bytes
    """For all in the sandbox."""
    processes: bytes
    """For the code, in addition: it sends the program around it no signals."""
    one_process: bytes
    """The same, and it starts no process."""


@functools.cache
def filters() -> Filters:
    """The filters, made with libseccomp."""
    import pyseccomp as seccomp  # type: ignore[import-untyped, unused-ignore]

    def export_rules(rules: "seccomp.SyscallFilter") -> bytes:
        with TemporaryFile() as file:
            rules.export_bpf(file)
            file.seek(0)
            return file.read()

    def add(rules: "seccomp.SyscallFilter", action: int, name: str, *args: "seccomp.Arg") -> None:
        with suppress(ValueError, RuntimeError, OSError):  # not every machine has every call
            rules.add_rule(action, name, *args)

    sandbox = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    for name in _ALLOWED.split():
        add(sandbox, seccomp.ALLOW, name)
    add(sandbox, seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _NAMESPACES, 0))
    for name in _REFUSED.split():
        add(sandbox, seccomp.ERRNO(errno.EPERM), name)
    for name in _XATTRS:
        add(sandbox, seccomp.ERRNO(errno.ENOTSUP), name)
    for request in _TERMINAL:
        add(sandbox, seccomp.ALLOW, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, _LOW, request))
    # the two ends of a pipe that goes both ways, which an event loop needs
    pair = (seccomp.Arg(0, seccomp.MASKED_EQ, _LOW, 1), seccomp.Arg(1, seccomp.MASKED_EQ, 0xF, 1))
    add(sandbox, seccomp.ALLOW, "socketpair", *pair)
    codes: list[bytes] = []
    for alone in (False, True):
        code = seccomp.SyscallFilter(seccomp.ALLOW)
        refused = seccomp.ERRNO(errno.EPERM)
        for name in ("kill", "tkill"):
            add(code, refused, name)
        add(code, refused, "tgkill", seccomp.Arg(0, seccomp.MASKED_EQ, _LOW, _SUPERVISOR))
        # nor by way of a file that signals, or of limits that are somebody else's
        add(code, refused, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
        for request in _OWNERS:
            add(code, refused, "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, _LOW, request))
        if alone:
            add(code, refused, "fork")
            add(code, refused, "vfork")
            add(code, refused, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _THREAD, 0))
        codes.append(export_rules(code))
    return Filters(export_rules(sandbox), *codes)


# --- the probe


class Ability(NamedTuple):
    """Something that the machine must be able to do, and whether it can."""

    name: str
    can: bool
    words: str
    hint: str = ""


_PROBE = """
import ctypes, json, os, resource, socket

libc = ctypes.CDLL(None, use_errno=True)
caps = (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), caps)

def refused(act):
    try:
        act()
    except (OSError, MemoryError):
        return True
    return False

def fork():
    forked = 0
    for _ in range(8):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            os.pause() if hasattr(os, "pause") else __import__("time").sleep(60)
        forked += 1
    return forked

def fill():
    for n in range(8):
        with open(f"{n}.full", "wb") as file:
            file.write(bytes(400_000))

facts = {
    "capabilities": sum(caps) + sum(libc.prctl(23, one, 0, 0, 0) == 1 for one in range(41)),
    "privileges": libc.prctl(39, 0, 0, 0, 0),
    "filter": libc.prctl(21, 0, 0, 0, 0),
    "user": [os.getuid(), os.geteuid()],
    "process": os.getpid(),
    "root": sorted(os.listdir("/")),
    "writes": refused(lambda: open("/x", "w")),
    "sockets": [refused(lambda: socket.socket(one)) for one in (socket.AF_INET, socket.AF_UNIX)],
    "mounts": libc.mount(None, b"/", None, 32 | 4096, None),
    "unshares": libc.unshare(0x10000000),
    "memory": refused(lambda: bytearray(1_000_000_000)),
    "disk": refused(fill),
    "forked": fork(),
}
for name in os.listdir("."):
    os.remove(name)
print(json.dumps(facts))
"""


@functools.cache
def abilities(python: str | None) -> tuple[Ability, ...]:
    """What this machine can do to keep code apart, as it shows from inside; all must be there."""
    missing = [one for one in _parts() if not one.can]
    if missing:
        return tuple(missing)
    try:
        return tuple(_probe_abilities(_interpreter(python)))
    except UsageError as error:
        return (Ability("interpreter", False, error.message, error.hint),)


def _parts() -> Iterator[Ability]:
    """The programs and libraries that the sandbox is made with."""
    linux = sys.platform == "linux"
    yield Ability("system", linux, "code is kept apart on Linux only", "run Weft there")
    needed = [("bwrap", "bubblewrap")] + [("setpriv", "util-linux")] * (os.geteuid() == 0)
    for program, package in needed if linux else ():
        place = shutil.which(program)
        words = place or f"`{program}` is not installed"
        yield Ability(program, place is not None, words, f"apt-get install {package}")
    if importlib.util.find_spec("pyseccomp") is None:
        yield Ability("seccomp", False, "pyseccomp is not installed", "pip install 'weft[code]'")
        return
    try:
        filters()
    except (OSError, RuntimeError, ValueError) as error:
        yield Ability("seccomp", False, str(error), "apt-get install libseccomp2")


def _probe_abilities(python: Interpreter) -> Iterator[Ability]:
    """What a probe finds that looks from inside."""
    options = CPythonTool(seconds=20, memory=256, processes=2, disk=1, output=4_000)
    done = asyncio.run(_execute(_PROBE, {}, python, options))
    try:
        facts = cast("dict[str, object]", msgspec.json.decode(done.output, type=dict))
    except msgspec.MsgspecError:
        words = " ".join(f"{done.output} {done.error}".split())[:300]
        yield Ability("sandbox", False, words, _hint_for(words))
        return
    root = {"dev", "etc", "usr", _BOX[1:], *(Path(one).parts[1] for one in _roots(python))}
    kernel = "use a kernel that allows it"
    yield Ability(
        "capabilities",
        facts["capabilities"] == 0
        and facts["privileges"] == 1
        and 0 not in _numbers(facts["user"]),
        "none, and none can be had",
        kernel,
    )
    yield Ability(
        "root",
        {*cast("list[str]", facts["root"])} <= root and facts["writes"] is True,
        "its own, read-only: the interpreter and an empty folder",
        kernel,
    )
    apart = facts["process"] == 3 and facts["mounts"] != 0 and facts["unshares"] != 0
    yield Ability("processes", apart and facts["forked"] == 1, "only its own, and counted", kernel)
    yield Ability("network", facts["sockets"] == [True, True], "no sockets", kernel)
    yield Ability("system calls", facts["filter"] == 2, "those on a list", kernel)
    yield Ability("memory", facts["memory"] is True, "limited", kernel)
    yield Ability("disk", facts["disk"] is True, "limited, in memory", kernel)


def _roots(python: Interpreter) -> Iterator[str]:
    yield from (folder for folder in (*_LIBRARIES, *python.folders) if os.path.exists(folder))
    yield python.program


def _numbers(value: object) -> list[int]:
    return cast("list[int]", value)


def _hint_for(words: str) -> str:
    """What to do about a sandbox that cannot be made."""
    if "source path" in words:
        return 'name an interpreter that every user can read: python="/usr/bin/python3"'
    return (
        "allow user namespaces to this user, or run Weft outside of a container that forbids them"
    )
