"""Run the command in a process that need not import the package first.

A test that starts `python -m weft` spends nearly all its time importing. Here one process per
worker imports everything once and forks for each command: the command still has a process of its
own, with its own folder, variables, standard streams and exit code.

What differs from a started process is what happens before the first line of the command: what is
imported already, which vocabularies and prices are loaded, and the seed of hashes. Tests about
those start a process (`run.started`, or `subprocess` themselves). Variables may be read on import,
so there is one such process for each set of them that is used often, and with any other one a
process is started. Those of `READ_LATER`, our own settings and keys are read when they are needed:
they go to the fork.
"""

import atexit
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO, NoReturn, TextIO

HEADER = 8
"""Bytes before a message, which say how long it is."""

ROOT = Path(__file__).parents[2]
WEFT = Path(sys.executable).with_name("weft")

OFTEN = 5
"""How often a set of variables is used before it has a process that forks, which takes as long to
start as so many commands."""

READ_LATER = {
    "COLUMNS", "HOME", "NO_COLOR", "OMP_WAIT_POLICY", "PATH", "PGCTLTIMEOUT", "PYTHONIOENCODING",
    "TERM", "SSL_CERT_FILE", "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY",
}  # fmt: skip
"""Variables of others that nothing reads on import; Python's is obeyed in the fork."""

RARE = (
    "weft.interop", "weft.server.a2a", "weft.server.acp", "weft.server.ag_ui", "weft.server.mcp",
    "weft.tools.mcp",
)  # fmt: skip
"""Modules that hardly a command needs, and whose libraries take a third of the time."""

FITS_A_PIPE = 10_000
"""So many characters can be written to a pipe before somebody reads them."""


def run_forked(
    arguments: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    typed: str = "",
    timeout: float = 600,
    script: bool = False,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """What `python -m weft` (or the script `weft`) with these arguments says and exits with.

    With `merged`, stderr goes to stdout.
    """
    command = [str(WEFT)] if script else [sys.executable, "-m", "weft"]
    # pytest says there which test runs and where: that would be sets of variables of their own.
    env = {name: value for name, value in env.items() if not name.startswith("PYTEST")}
    settings = {name: value for name, value in env.items() if _is_setting(name, value)}
    others = {name: value for name, value in env.items() if name not in settings}
    server = _server_for(others) if len(typed) < FITS_A_PIPE else None
    if server is None:
        return subprocess.run(
            [*command, *arguments], cwd=cwd, env=env, input=typed, text=True,
            encoding="utf-8", timeout=timeout, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        )  # fmt: skip
    typing, keyboard = os.pipe()
    os.write(keyboard, typed.encode())
    os.close(keyboard)
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams = (typing, out.fileno(), out.fileno() if merged else err.fileno())
            code = server.run(arguments, cwd, settings, streams, timeout, script=script)
            texts = (_text(out), None if merged else _text(err))
    finally:
        os.close(typing)
    return subprocess.CompletedProcess([*command, *arguments], code, *texts)


def _is_setting(name: str, value: str) -> bool:
    """Whether nothing that was imported before can depend on it."""
    if name == "PYTHONPATH":
        return value == str(ROOT / "src")
    own = name.startswith("WEFT_") or name.endswith(("_API_KEY", "_BASE_URL"))
    return own or name in READ_LATER


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8").replace("\r\n", "\n")


# --- the side of the tests


class _Server:
    """The process that forks, and the line to it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.key = frozenset(env.items())
        self.line, theirs = socket.socketpair()
        script = f"from tests.support.forks import serve; serve({theirs.fileno()})"
        path = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(ROOT)]))
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            env={**env, "PYTHONPATH": path, "WEFT_TESTS_PATH": env.get("PYTHONPATH", "")},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self.close)

    def run(
        self,
        arguments: list[str],
        cwd: Path,
        settings: Mapping[str, str],
        streams: tuple[int, int, int],
        timeout: float,
        *,
        script: bool,
    ) -> int:
        """The exit code of a command with these streams."""
        first = "" if script else str(cwd)  # what `-m` puts first in the path of modules
        message = json.dumps([arguments, str(cwd), first, settings]).encode()
        socket.send_fds(self.line, [len(message).to_bytes(HEADER, "big")], list(streams))
        self.line.sendall(message)
        self.line.settimeout(timeout)
        try:
            answer = read_bytes(self.line, HEADER)
        except TimeoutError:
            os.killpg(self.process.pid, signal.SIGKILL)
            _SERVERS.pop(self.key)
            raise subprocess.TimeoutExpired(["weft", *arguments], timeout) from None
        return int.from_bytes(answer, "big", signed=True)

    def close(self) -> None:
        self.line.close()
        self.process.wait(60)


_SERVERS: dict[frozenset[tuple[str, str]], _Server] = {}
_ASKED: Counter[frozenset[tuple[str, str]]] = Counter()


def _server_for(env: Mapping[str, str]) -> _Server | None:
    """The process that forks with these variables, or none where a started process is better."""
    key = frozenset(env.items())
    _ASKED[key] += 1
    # Coverage follows processes that are started, not those that are forked.
    measured = any(name.startswith("COVERAGE_") for name in env)
    if measured or not hasattr(os, "fork") or _ASKED[key] < OFTEN:
        return None
    if key not in _SERVERS or _SERVERS[key].process.poll() is not None:  # it was killed
        _SERVERS[key] = _Server(env)
    return _SERVERS[key]


def read_bytes(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = line.recv(length - len(data))
        if not more:
            raise EOFError("the process that forks has ended")
        data += more
    return data


# --- the side of the commands


def serve(line_number: int) -> None:
    """Import everything, then run each command that is asked for in a fork."""
    sys.path[:] = [one for one in sys.path if one]  # `-c` puts the working folder there
    _import_everything()
    sys.path[:] = [one for one in sys.path if one != str(ROOT)]
    os.environ["PYTHONPATH"] = os.environ.pop("WEFT_TESTS_PATH")
    if not os.environ["PYTHONPATH"]:
        del os.environ["PYTHONPATH"]
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]
    # A test may write a module again within a second, which the cache would not notice.
    sys.dont_write_bytecode = True
    line = socket.socket(fileno=line_number)
    while True:
        header, streams, _, _ = socket.recv_fds(line, HEADER, 3)
        if not header:
            return
        arguments, cwd, first, settings = json.loads(
            read_bytes(line, int.from_bytes(header, "big"))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of threads, which the vocabularies have
            child = os.fork()
        if child == 0:
            line.close()
            os.environ.update(settings)
            _become(arguments, cwd, first, streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        line.sendall(os.waitstatus_to_exitcode(status).to_bytes(HEADER, "big", signed=True))


def _import_everything() -> None:
    import weft
    from weft.dialects.price_list import price_list
    from weft.tokens import counter_for

    _import_modules(weft)
    for model in ("gemini-flash-latest", "gpt-5"):
        # With a word that is in no vocabulary, all of a vocabulary is loaded.
        counter_for(model).count("You help with the weather. Call xgwqvzk(city) once.")
    price_list()


def _import_modules(package: ModuleType) -> None:
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if info.name.endswith("__main__") or info.name.startswith(RARE):
            continue
        module = importlib.import_module(info.name)
        if info.ispkg:
            _import_modules(module)


def _become(arguments: list[str], cwd: str, first: str, streams: list[int]) -> NoReturn:
    take_streams(streams)
    os.chdir(cwd)
    sys.path.insert(0, first or str(WEFT.parent))
    os._exit(exit_code(lambda: _command(arguments)))


def take_streams(streams: list[int]) -> None:
    """Read and write these instead of the parent's streams, and hear Ctrl-C."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    encoding, errors = _choose_encoding(sys.stdin)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(  # type: ignore[misc]
        open(0, "rb", closefd=False),  # noqa: SIM115
        encoding=encoding,
        errors=errors,
    )
    sys.stdout = sys.__stdout__ = _writer(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2, sys.stderr)  # type: ignore[misc]


def _choose_encoding(stream: TextIO) -> tuple[str, str | None]:
    """What the variables ask for, and otherwise what this process has."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    if encoding and not errors and stream is not sys.stderr:
        errors = "strict"
    return encoding or stream.encoding, errors or stream.errors


def _writer(number: int, like: TextIO) -> io.TextIOWrapper:
    """A new stream in the encoding that the variables ask for."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    encoding, errors = _choose_encoding(like)
    return io.TextIOWrapper(
        open(number, "wb", buffering=0 if unbuffered else -1, closefd=False),
        encoding=encoding,
        errors=errors,
        line_buffering=number == 2,
        write_through=unbuffered,
    )


def _command(arguments: list[str]) -> None:
    import runpy

    sys.argv = ["weft", *arguments]
    runpy.run_module("weft", run_name="__main__", alter_sys=True)


def exit_code(command: Callable[[], object]) -> int:
    """Run it and end as an interpreter does: threads joined, exit functions run, all written."""
    code: object = 0
    try:
        command()
    except SystemExit as end:
        code = end.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    return int(code or 0)  # type: ignore[call-overload]
