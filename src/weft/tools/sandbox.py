"""Run Python code apart from everything: this file is the program of the process that does it.

It is started with `python -I` and imports nothing but the standard library. Its argument is the
limits as JSON, its input the code. It limits itself, leaves the namespaces it can leave, reports on
a pipe what it achieved, and runs the code two processes further down: the one in
between is the first of a process namespace, so that all the others die with it.
"""

import ast
import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import traceback

_NEW_MOUNTS, _NEW_IPC, _NEW_USER = 0x00020000, 0x08000000, 0x10000000
_NEW_PIDS, _NEW_NET = 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MOUNT_SETATTR = 442
"""The number of this call is the same on every architecture."""
_RECURSIVE, _READ_ONLY = 0x8000, 1
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_NOBODY = 65534


class _Attributes(ctypes.Structure):
    """What `mount_setattr` is to change."""

    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("namespace", ctypes.c_uint64),
    ]


def main() -> None:
    """Limit, isolate, report, run."""
    limits = json.loads(sys.argv[1])
    code = sys.stdin.read()
    libc = ctypes.CDLL(None, use_errno=True)
    achieved = {"network": False, "processes": False, "files": False}
    if sys.platform == "linux":
        # no program with a setuid bit gives the code more rights
        libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        achieved = _isolate(libc, limits)
    _limit(limits, alone=achieved["processes"])
    os.write(limits["report"], json.dumps(achieved).encode())
    # closed before the code runs: it must not report in our place
    os.close(limits["report"])
    first = os.fork()
    if first == 0:
        if sys.platform == "linux":
            # it dies with this process, which may be killed at any time
            libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        _first_process(libc, code, alone=achieved["processes"])
    os._exit(_code_of(os.waitpid(first, 0)[1]))


def _isolate(libc: ctypes.CDLL, limits: dict[str, int]) -> dict[str, bool]:
    """Leave what can be left: the network, other processes, the right to write elsewhere."""
    if os.getuid() == 0:
        # The kernel does not count the processes of root. Only the effective user decides what
        # may be read, and a new user namespace takes its powers away.
        with contextlib.suppress(OSError):
            os.setresuid(_NOBODY, 0, 0)
    net = 0 if limits["network"] else _NEW_NET
    apart = _NEW_USER | _NEW_MOUNTS | _NEW_IPC | _NEW_PIDS
    processes = libc.unshare(apart | net) == 0
    # a kernel that refuses all of it together may still cut off the network
    alone = processes or (bool(net) and libc.unshare(_NEW_USER | net) == 0)
    return {
        "network": bool(net) and alone,
        "processes": processes,
        "files": processes and _write_only_here(libc),
    }


def _write_only_here(libc: ctypes.CDLL) -> bool:
    """Make everything read-only but the working folder."""
    here = os.getcwd().encode()
    # private: what is mounted here must not show up outside
    if libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return False
    # read-only is said of a mount, so the folder needs one of its own
    if libc.mount(here, here, None, _MS_BIND, None) != 0:
        return False
    lock, unlock = _Attributes(set=_READ_ONLY), _Attributes(clear=_READ_ONLY)
    size = ctypes.sizeof(_Attributes)
    for path, flags, attributes in ((b"/", _RECURSIVE, lock), (here, 0, unlock)):
        arguments = (-100, path, flags, ctypes.byref(attributes), size)
        if libc.syscall(_MOUNT_SETATTR, *arguments) != 0:
            return False
    os.chdir(here)  # the folder below the new mount, not the one it covers
    return True


def _limit(limits: dict[str, int], *, alone: bool) -> None:
    """Set the limits of this process and of all that it starts."""
    most = limits["processes"] + (0 if alone else _running())
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        # the clock outside ends it first, and says why
        (resource.RLIMIT_CPU, limits["seconds"] + 1),
        (resource.RLIMIT_FSIZE, limits["file_size"]),
        (resource.RLIMIT_NOFILE, 128),
        (resource.RLIMIT_NPROC, most),
        (resource.RLIMIT_AS, limits["memory"]),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):  # not every system has every limit
            resource.setrlimit(kind, (bound, bound))


def _running() -> int:
    """How many processes there are, where they count against the limit too."""
    with contextlib.suppress(OSError):
        return sum(name.isdigit() for name in os.listdir("/proc"))
    return 0


def _first_process(libc: ctypes.CDLL, code: str, *, alone: bool) -> None:
    """Start the code, wait for it, and take everything that it started along."""
    if alone:
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        libc.mount(b"proc", b"/proc", b"proc", flags, None)  # else it shows nobody's processes
    worker = os.fork()
    if worker == 0:
        _run(code)
    while True:
        # the first process of a namespace inherits all orphans, and must wait for them
        ended, status = os.waitpid(-1, 0)
        if ended == worker:
            os._exit(_code_of(status))


def _code_of(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    # a signal is told as shells tell it: 128 and its number
    return 128 - code if code < 0 else code


def _run(code: str) -> None:
    """Run the code as a program; the value of its last expression is printed."""
    exit_code = 1
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
        # the frames of this file say nothing about the code
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        with contextlib.suppress(MemoryError):
            traceback.print_exception(type(error), error, frames, limit=20)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # never back into the program above, which belongs to the parent
        os._exit(exit_code & 0xFF)


if __name__ == "__main__":
    main()
