"""Full Python in a sandbox of the system: what works in it, what is left of it, and refusal."""

import asyncio
import importlib.util
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.tools.processes import all_gone, below, is_alive, wait_for
from tests.tools.users import Person, myself, plain_user, skip_without_sandbox
from weft import Agent, Part, Runner
from weft.errors import DeclarationError, UsageError
from weft.testing import ScriptedModel, call
from weft.tools import CPythonTool, cpython
from weft.tools.code import Execution
from weft.tools.cpython import abilities
from weft.values import JsonObject


@pytest.fixture(scope="module")
def sandbox() -> None:
    skip_without_sandbox()


@pytest.fixture
def fresh() -> Iterator[None]:
    """What was learned of the machine is forgotten before and after."""
    abilities.cache_clear()
    yield
    abilities.cache_clear()


async def run(code: str, **limits: object) -> Execution:
    return await CPythonTool(**{"output": 2_000, **limits}).run(code)  # type: ignore[arg-type]


async def result_of(tool: CPythonTool, code: str, **arguments: object) -> tuple[JsonObject, Runner]:
    model = ScriptedModel([call("run_python", code=code, **arguments), "done"])  # type: ignore[arg-type]
    runner = Runner(Agent("analyst", model=model, tools=[tool]))
    await runner.artifacts.save("analyst", "user", "s", "in.csv", Part(text="1,2,39"))
    result = await runner.run("Go", session_id="s")
    (response,) = [one.response for event in result.events for one in event.results]
    return response or {}, runner


@pytest.mark.usefixtures("sandbox")
class TestInside:
    """What code can do, and how it ends."""

    async def test_what_is_printed_and_the_last_value_come_back(self) -> None:
        done = await run("print('one')\nx = 20\nx * 2 + 2")
        assert (done.output, done.error) == ("one\n42\n", "")

    async def test_an_error_shows_the_codes_own_lines(self) -> None:
        done = await run("def f():\n    return 1 / 0\nf()")
        assert done.error == "exit code 1"
        assert done.output.splitlines()[1:] == [
            '  File "<code>", line 3, in <module>',
            '  File "<code>", line 2, in f',
            "ZeroDivisionError: division by zero",
        ]
        assert (await run("import sys; sys.exit(3)")).error == "exit code 3"
        assert (await run("import os; os.abort()")).error == "it was ended by signal 6"

    async def test_normal_programs_work(self) -> None:
        code = (
            "import asyncio, concurrent.futures, csv, decimal, json, shutil, sqlite3, tempfile\n"
            "async def main():\n"
            "    return await asyncio.gather(asyncio.sleep(0, 1), asyncio.to_thread(sum, [1, 1]))\n"
            "print(asyncio.run(main()))\n"
            "with concurrent.futures.ThreadPoolExecutor(4) as pool:\n"
            "    print(list(pool.map(abs, [-1, 2])))\n"
            "db = sqlite3.connect('a.db')\n"
            "db.execute('create table t (x)')\ndb.execute('insert into t values (7)')\n"
            "print(db.execute('select * from t').fetchall())\n"
            "with tempfile.TemporaryDirectory() as folder:\n"
            "    open(f'{folder}/a', 'w').write('x')\n    shutil.copy2(f'{folder}/a', 'b')\n"
            "open('own.py', 'w').write('value = 5')\nimport own\nprint(own.value)\n"
        )
        done = await run(code)
        assert (done.output, done.error) == ("[1, 2]\n[1, 2]\n[(7,)]\n5\n", "")

    async def test_files_become_artifacts_and_artifacts_files(self) -> None:
        code = (
            "import os\nnumbers = map(int, open('in.csv').read().split(','))\n"
            "os.makedirs('a/b')\nopen('a/b/sum.txt', 'w').write(str(sum(numbers)))\n"
            "open('dot.png', 'wb').write(bytes([137, 80, 78, 71, 255]))"
        )
        response, runner = await result_of(CPythonTool(), code, files=["in.csv"])
        assert response["files"] == ["a/b/sum.txt", "dot.png"]
        text = await runner.artifacts.load("analyst", "user", "s", "a/b/sum.txt")
        assert text is not None
        assert text.text == "42"

    async def test_odd_files_are_not_kept_and_that_is_told(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret.txt"
        secret.write_text("planted")
        code = (
            "import os\n"
            f"os.symlink({str(secret)!r}, 'link.txt')\nos.symlink('/', 'all')\n"
            "open('user:profile.txt', 'w').write('x')\n"
            "open('line\\nbreak', 'w').write('x')\n"
            "open(b'\\xff\\xfe', 'w').write('x')\n"
            "for _ in range(1_500):\n    os.mkdir('d')\n    os.chdir('d')\n"
            "open('deep.txt', 'w').write('x')"
        )
        response, runner = await result_of(CPythonTool(), code)
        assert "files" not in response
        assert "error" not in response
        for name in ("link.txt", "user:profile.txt", "line"):
            assert name in str(response["note"])
        assert await runner.artifacts.names("analyst", "user", "s") == ["in.csv"]
        assert await runner.artifacts.names("analyst", "user", "another") == []

    async def test_time_is_limited_and_files_are_kept(self) -> None:
        done = await run("import time\nopen('a', 'w').write('x')\ntime.sleep(600)", seconds=1)
        assert done.error == "it was stopped after 1 seconds"
        assert done.files == {"a": b"x"}
        spins = await run("while True:\n    pass", seconds=1)
        assert spins.error == "it was stopped after 1 seconds"

    async def test_memory_disk_and_files_are_limited_together(self) -> None:
        assert "MemoryError" in (await run("bytearray(10**9)", memory=256)).output
        code = "for n in range(10):\n    open(f'{n}', 'wb').write(bytes(1_000_000))"
        assert "No space left" in (await run(code, disk=5)).output
        done = await CPythonTool(disk=1).run("1", {"a": bytes(1_000_001)})
        assert "may have 1,000,000" in done.error
        many = "for n in range(100_000):\n    open(f'{n}', 'w')"
        assert "more than 10,000 files" in (await run(many)).error

    async def test_output_without_end_is_cut_and_stopped(self) -> None:
        done = await run("print('first')\nwhile True:\n    print('x' * 1_000)")
        assert done.error == "it was stopped: it printed more than 10,000,000 bytes"
        assert done.output.startswith("first\nxxx")
        assert len(done.output) < 2_100

    async def test_one_process_with_threads_or_as_many_as_are_allowed(self) -> None:
        refused = await run("import os\nos.fork()")
        assert "PermissionError" in refused.output
        code = (
            "import os, time\ncount = 0\n"
            "while True:\n"
            "    try:\n        child = os.fork()\n"
            "    except OSError:\n        break\n"
            "    if child == 0:\n        time.sleep(60)\n"
            "    count += 1\n"
            "print(count)\nos._exit(0)"
        )
        assert (await run(code, processes=5)).output == ""
        shown = code.replace("os._exit(0)", "")
        assert (await run(shown, processes=5)).output == "4\n"

    async def test_packages_only_by_name(self) -> None:
        assert "ModuleNotFoundError" in (await run("import msgspec")).output
        done = await run("import msgspec\nmsgspec.json.encode([1])", packages=True)
        assert done.output == "b'[1]'\n"

    async def test_code_that_kills_the_program_around_it_only_ends_itself(self) -> None:
        for code in ("os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "os.kill(1, 9)"):
            done = await run(f"import os\n{code}\nprint('on')")
            assert "PermissionError" in done.output
        assert (await run("1 + 1")).output == "2\n"

    async def test_what_is_installed_for_the_interpreter_is_not_there_either(self) -> None:
        base = cpython._interpreter(None).packages
        assert any([*Path(one).glob("*")] for one in base)  # noqa: ASYNC240
        code = f"import os, sys\n[one for one in {base} if os.path.isdir(one) and os.listdir(one)]"
        done = await run(code)
        assert (done.output, done.error) == ("[]\n", "")

    async def test_many_files_and_a_large_one_are_read_quickly(self) -> None:
        code = (
            "for n in range(990):\n    open(f'a{n}', 'w').close()\n"
            "open('z', 'wb').write(bytes(48_000_000))"
        )
        begun = time.process_time()
        done = await run(code)
        assert len(done.files) == 991
        # with a copy of what is left for each file it takes a minute, in which nothing else runs
        assert time.process_time() - begun < 5

    async def test_the_code_does_not_have_the_report_where_much_is_open(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4_096, hard)), hard))
        kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(1_100)]
        try:
            code = (
                "import os\nfor end in range(3, 3_000):\n"
                "    try:\n        os.fstat(end)\n        print('open', end)\n"
                "    except OSError:\n        pass"
            )
            done = await run(code)
        finally:
            for end in kept:
                os.close(end)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (done.output, done.error) == ("", "")

    async def test_files_that_are_not_kept_do_not_fill_the_result(self) -> None:
        code = "for n in range(900):\n    open(f'user:{n}' + 'x' * 90, 'w').write('x')"
        response, runner = await result_of(CPythonTool(), code)
        assert len(str(response)) < 2_000
        assert "895 more are not kept" in str(response["note"])
        assert await runner.artifacts.names("analyst", "user", "another") == []

    async def test_programs_run_at_once(self) -> None:
        done = await asyncio.gather(*[run(f"print({n})") for n in range(6)])
        assert [one.output for one in done] == [f"{n}\n" for n in range(6)]

    async def test_labels_hold_for_what_it_returns(self) -> None:
        from weft import C

        model = ScriptedModel(
            [call("run_python", code="open('in.csv').read()[::-1]", files=["in.csv"]), "ok"]
        )
        agent = Agent("analyst", model=model, tools=[CPythonTool()])
        runner = Runner(agent.sees(C.default().label("secret", artifacts=["in.csv"])))
        await runner.artifacts.save("analyst", "user", "s", "in.csv", Part(text="zx-91-opal"))
        await runner.run("Go", session_id="s")
        assert "lapo-19-xz" not in str(model.wires)
        assert "[withheld: secret]" in str(model.wires)


# --- what is left


PROGRAM = """
import asyncio, sys
from weft.tools import CPythonTool

code = "import os\\nopen('a', 'w').write('x')\\nprint('begun', flush=True)\\nwhile True:\\n    pass"
asyncio.run(CPythonTool(seconds=300, processes=3, python=sys.argv[1] or None).run(code))
"""


@pytest.fixture(params=["root", "plain"])
def person(request: pytest.FixtureRequest, sandbox: None) -> Iterator[Person]:
    me = myself()
    if request.param == me.name:
        yield me
    elif request.param == "root":
        pytest.skip("the tests do not run as root")
    else:
        with plain_user() as other:
            if isinstance(other, str):
                pytest.skip(f"NO PLAIN USER HERE: {other}")
            skip_without_sandbox(other)
            yield other


def test_after_a_kill_at_any_moment_nothing_is_left(person: Person, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        with suppress(OSError):
            if parent.stat().st_uid == os.geteuid() and "pytest" in parent.name:
                parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    mounts = Path("/proc/self/mounts").read_text()
    chance = random.Random(7)
    seen = 0
    for attempt in range(6):
        weft = person._replace(environment={**person.environment, "TMPDIR": str(tmp_path)}).start(
            "-c", PROGRAM, "", stderr=subprocess.DEVNULL
        )
        inside = below(weft.pid)
        if attempt == 0:  # when the code runs: bwrap twice, the program around it, and the code
            ends = time.monotonic() + 60
            while len(inside) < 4 and time.monotonic() < ends:
                inside = below(weft.pid)
        else:
            time.sleep(chance.uniform(0.1, 1.5))
            inside = below(weft.pid)
        seen = max(seen, len(inside))
        weft.send_signal(signal.SIGKILL)
        weft.wait()
        wait_for(partial(all_gone, inside), "a process is left")
        assert [*tmp_path.iterdir()] == []
    assert seen >= 4
    assert Path("/proc/self/mounts").read_text() == mounts


@pytest.mark.usefixtures("sandbox")
async def test_a_run_that_is_cancelled_leaves_no_process() -> None:
    await run("1")
    before = below(os.getpid())
    running = asyncio.create_task(run("while True:\n    pass", seconds=300))
    inside: set[int] = set()
    async with asyncio.timeout(60):
        while len(inside) < 4:
            await asyncio.sleep(0.02)
            inside = below(os.getpid()) - before
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(60):
        while any(map(is_alive, inside)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("sandbox")
async def test_a_sandbox_of_which_one_process_is_killed_ends_and_leaves_nothing() -> None:
    await run("1")
    for which in range(4):
        before = below(os.getpid())
        running = asyncio.create_task(run("while True:\n    pass", seconds=300))
        inside: set[int] = set()
        async with asyncio.timeout(60):
            while len(inside) < 4:
                await asyncio.sleep(0.02)
                inside = below(os.getpid()) - before
        os.kill(sorted(inside)[which], signal.SIGKILL)
        async with asyncio.timeout(60):
            done = await running
            assert "ended" in done.error
            while any(map(is_alive, inside)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


# --- refusal


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


REAL = "$(PATH=/usr/local/bin:/usr/bin:/bin command -v bwrap)"
NONE = 'while [ "$1" != "--" ]; do shift; done; shift; exec "$@"'
"""A bwrap that makes no sandbox."""


def without(option: str, values: int) -> str:
    """A bwrap that leaves out an option."""
    return (
        f"real={REAL}\nargs=()\nwhile [ $# -gt 0 ]; do\n"
        f'  if [ "$1" = "{option}" ]; then shift {values + 1}; else args+=("$1"); shift; fi\n'
        'done\nexec "$real" "${args[@]}"'
    )


@pytest.mark.usefixtures("sandbox", "fresh")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
            "sandbox: bwrap: No permissions",
        ),
        (NONE, "sandbox|capabilities|root"),
        (without("--seccomp", 1), "system calls|network|processes"),
        (without("--size", 1), "disk"),
        (without("--unshare-pid", 0), "processes|sandbox"),
    ],
    ids=["fails", "does nothing", "no seccomp", "no size", "no process namespace"],
)
async def test_where_one_part_is_missing_no_code_is_run(
    script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "bwrap", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = tmp_path / "told"
    code = f"open({str(told)!r}, 'w')"
    with pytest.raises(UsageError, match=f"cannot be kept apart on this machine: ({words})"):
        await run(code)
    # and the model is told, not the machine's harm
    response, _ = await result_of(CPythonTool(), code)
    assert "cannot be kept apart" in str(response["error"])
    assert not told.exists()


@pytest.mark.usefixtures("fresh")
async def test_without_its_parts_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError) as refused:
        await run("1")
    assert "`bwrap` is not installed" in refused.value.message
    assert "apt-get install bubblewrap" in refused.value.hint
    monkeypatch.undo()
    abilities.cache_clear()
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyseccomp" else find(name)
    )
    if shutil.which("bwrap"):
        with pytest.raises(UsageError, match=r"pip install 'weft\[code\]'"):
            await run("1")
    monkeypatch.setattr(sys, "platform", "darwin")
    abilities.cache_clear()
    with pytest.raises(UsageError, match="on Linux only"):
        await run("1")


@pytest.mark.usefixtures("sandbox")
async def test_an_interpreter_that_does_not_run_is_named() -> None:
    with pytest.raises(UsageError, match="/no/python does not run"):
        await run("1", python="/no/python")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"memory": 8}, "does not start in 8 megabytes"),
        ({"files": "a.csv"}, "files is a text"),
        ({"second": 3}, "did you mean `seconds`"),
        ({"network": True}, "there is no network"),
        ({"file_size": 5}, "disk"),
        ({"packages": True, "python": "/usr/bin/python3"}, "python is another"),
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        CPythonTool(**options)  # type: ignore[arg-type]
