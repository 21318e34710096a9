"""Attempts to get out of where code runs, and who tries them.

They stand in `escapes_full.md` and `escapes_interpreted.md`. `python -m tests.tools.escapes WAY`
runs programs from its input where they are kept, for whoever starts it.
"""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from weft import Agent, Runner, ToolContext, tool
from weft.testing import ScriptedModel, call
from weft.tools import CPythonTool, PythonTool

SECRET = "planted-secret-4711"
"""Stands in every place outside that code must not read."""

LIMITS = {"seconds": 1, "memory": 128, "output": 4_000}
"""Inside; outside, an attempt goes beyond them without harm."""


class Attempt(NamedTuple):
    """One attempt: its code, and how it is shown outside that it could succeed."""

    name: str
    code: str
    control: str
    root_only: bool
    """Whether it needs root outside."""
    alone: bool
    """Whether it is not tried together with others."""


SYSTEM_CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(x86, arm, *args):
    ctypes.set_errno(0)
    result = libc.syscall(arm if os.uname().machine in ("aarch64", "arm64") else x86, *args)
    return result, ctypes.get_errno()

def reached(x86, arm, *args):
    # neither was it refused (1), nor is there no such call (38)
    result, error = call(x86, arm, *args)
    print("ESCAPED" if result >= 0 or error not in (1, 38) else "the kernel refuses", error)
"""


def attempts_in(name: str) -> list[Attempt]:
    """The attempts of a page."""
    text = Path(__file__).with_name(name).read_text()
    found: list[Attempt] = []
    for section in text.split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        fences = dict(re.findall(r"```(\w+)\n(.*?)\n```", rest, re.DOTALL))
        code = _refusable(fences["attempt"])
        control = _with_calls(fences["control"]) if "control" in fences else code
        title, *marks = heading.split(" (")
        found.append(Attempt(title, code, control, "root)" in marks, "alone)" in marks))
    return found


def _refusable(code: str) -> str:
    """The code, in which an exception is a failure to get out."""
    inner = "\n".join(f"    {line}" for line in code.splitlines())
    kept = f"try:\n{inner}\nexcept Exception as e:\n    print('refused', type(e).__name__)"
    return _with_calls(kept)


def _with_calls(code: str) -> str:
    return f"{SYSTEM_CALLS}\n{code}" if re.search(r"\b(reached|call|libc)\b", code) else code


WAYS = {
    "interpreted": attempts_in("escapes_interpreted.md"),
    "full": attempts_in("escapes_full.md"),
}


@contextmanager
def planted() -> Iterator[dict[str, str]]:
    """Things outside that everybody may reach, and what stands for them in attempts."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-planted-")))
        folder.chmod(0o777)
        for name in ("secret.txt", "weft.db"):
            (folder / name).write_text(SECRET)
            (folder / name).chmod(0o666)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for name in (str(folder / "socket"), f"\0{folder.name}"):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(name)
            listening.listen()
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(str(folder / "datagrams"))
        os.mkfifo(folder / "fifo")
        reading = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, reading)
        for name in ("socket", "datagrams", "fifo"):
            (folder / name).chmod(0o777)
        above, below = os.openpty()
        stack.callback(os.close, above)
        stack.callback(os.close, below)
        terminal = os.ttyname(below)
        os.chmod(terminal, 0o666)
        drain = threading.Thread(target=_drain, args=(above,), daemon=True)
        drain.start()
        yield {
            "FOLDER-NAME": folder.name,
            "FOLDER": str(folder),
            "SECRET": SECRET,
            "ABSTRACT": folder.name,
            "PORT": str(server.getsockname()[1]),
            "TERMINAL": terminal,
        }


def _drain(end: int) -> None:
    try:
        while os.read(end, 1_000):
            pass
    except OSError:
        return


def fill(code: str, names: dict[str, str]) -> str:
    """The code with what is planted in place of its names."""
    for name, value in names.items():
        code = code.replace(f"<{name}>", value)
    return code


@tool
def look(what: str) -> str:
    """Look."""
    return what


@tool(confirm=True)
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    return "ESCAPED: paid without a question"


async def run_interpreted(code: str) -> str:
    """What came of code in the interpreter, with tools to call; all that left it."""
    model = ScriptedModel([call("run_python", code=code), "done"])
    agent = Agent("bot", model=model, tools=[look, pay, PythonTool(**LIMITS)])  # type: ignore[arg-type]
    runner = Runner(agent)
    result = await runner.run("Go", session_id="s")
    shown = [one.response for event in result.events for one in event.results]
    names = await runner.artifacts.names("bot", "user", "another")
    return f"{shown} {names}"


async def run_full(code: str) -> str:
    """What came of code in the sandbox: what it printed, and the files it left."""
    done = await CPythonTool(disk=8, **LIMITS).run(code)  # type: ignore[arg-type]
    leaked = [name for name, data in done.files.items() if SECRET.encode() in data]
    return f"{done.output} {done.error} {['ESCAPED ' + name for name in leaked]}"


TOGETHER = """
for name, code in ATTEMPTS:
    print("==", name, flush=True)
    try:
        exec(code, {"__name__": "__main__"})
    except BaseException as e:
        print("refused", type(e).__name__)
"""


async def run_inside(way: str, attempts: list[tuple[str, str, bool]]) -> dict[str, str]:
    """What came of each: those that may be tried together are, where that saves much time."""
    told: dict[str, str] = {}
    together = [(name, code) for name, code, alone in attempts if way == "full" and not alone]
    for name, code, _ in attempts:
        if (name, code) not in together:
            told[name] = await (run_full if way == "full" else run_interpreted)(code)
    if together:
        output = await run_full(f"ATTEMPTS = {together!r}\n{TOGETHER}")
        for part in output.split("== ")[1:]:
            name, _, text = part.partition("\n")
            told[name] = text
    return told


def run_outside(attempts: list[tuple[str, str, bool]]) -> dict[str, str]:
    """What comes of each where nothing keeps it: in a process and a folder of its own."""
    told: dict[str, str] = {}
    for name, code, _ in attempts:
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                os.dup2(output.fileno(), 1)
                os.chdir(folder)
                try:
                    exec(code, {"__name__": "__main__"})
                except BaseException as error:
                    print(type(error).__name__, error)
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(child, 0)
            output.seek(0)
            told[name] = output.read()
    return told


def main() -> None:
    """Run what the input says."""
    signal.alarm(900)
    attempts = json.load(sys.stdin)
    if sys.argv[1] == "outside":
        told = run_outside(attempts)
    else:
        told = asyncio.run(run_inside(sys.argv[1], attempts))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
