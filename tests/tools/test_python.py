"""Code that a model writes runs apart: its attacks are bounded, its files are kept.

Where the kernel of the machine does not isolate, the tests about that are skipped.
"""

import asyncio
import base64
import os
from pathlib import Path

import pytest

from weft import Agent, Part, Runner
from weft.content import Blob
from weft.errors import DeclarationError
from weft.testing import ScriptedModel, call
from weft.tools import PythonTool
from weft.tools import python as python_tool
from weft.tools.python import Execution, isolation
from weft.values import JsonObject

isolated = pytest.mark.skipif(
    not all(isolation().get(one) for one in ("network", "processes", "files")),
    reason="the kernel allows no namespaces",
)


async def execute(code: str, folder: Path, *, seconds: float = 120, memory: int = 256) -> Execution:
    return await PythonTool(seconds=seconds, memory=memory, output=2_000).run(code, folder)


async def result_of(runner: Runner, message: str = "Go") -> JsonObject:
    result = await runner.run(message, session_id="s")
    (response,) = [one.response for event in result.events for one in event.results]
    assert response is not None
    return response


def analyst(tool: object, *calls: Part) -> Runner:
    model = ScriptedModel([entry for one in calls for entry in (one, "done")])
    return Runner(Agent("analyst", model=model, tools=[tool]))


async def test_what_is_printed_and_the_last_value_come_back(tmp_path: Path) -> None:
    done = await execute("print('one')\nx = 20\nx * 2 + 2", tmp_path)
    assert (done.output, done.exit_code, done.problem) == ("one\n42\n", 0, "")


async def test_an_error_shows_the_codes_own_lines(tmp_path: Path) -> None:
    done = await execute("def f():\n    return 1 / 0\nf()", tmp_path)
    assert done.exit_code == 1
    assert done.output.splitlines()[1:] == [
        '  File "<code>", line 3, in <module>',
        '  File "<code>", line 2, in f',
        "ZeroDivisionError: division by zero",
    ]
    assert "SyntaxError" in (await execute("def", tmp_path)).output
    assert (await execute("import sys; sys.exit(3)", tmp_path)).exit_code == 3


async def test_time_is_limited_also_for_what_the_code_starts(tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)"
    done = await execute(code, tmp_path, seconds=1)
    assert done.problem == "it was stopped after 1 seconds"


@isolated
async def test_nothing_that_the_code_started_outlives_it(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    for _ in range(600):\n"
        "        open('alive', 'a').write('x')\n"
        "        time.sleep(0.01)\n"
        "while not os.path.exists('alive'):\n"
        "    time.sleep(0.01)"
    )
    await execute(code, tmp_path)
    before = (tmp_path / "alive").stat().st_size
    await asyncio.sleep(0.2)
    assert (tmp_path / "alive").stat().st_size == before


async def test_memory_is_limited(tmp_path: Path) -> None:
    done = await execute("x = 'a' * 10**9", tmp_path)
    assert done.output.endswith("MemoryError\n")


@isolated
async def test_a_fork_bomb_is_bounded(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "while True:\n"
        "    try:\n"
        "        os.fork()\n"
        "    except OSError:\n"
        "        open(f'refused-{os.getpid()}', 'w').close()\n"
        "        time.sleep(1)\n"
        "        break\n"
    )
    done = await execute(code, tmp_path)
    refused = [name for name in os.listdir(tmp_path) if name.startswith("refused-")]
    assert 1 <= len(refused) <= 32, done


async def test_output_without_end_is_cut_and_stopped(tmp_path: Path) -> None:
    done = await execute("print('first')\nwhile True:\n    print('x' * 1000)", tmp_path)
    assert done.problem == "it was stopped: it printed more than 10,000,000 bytes"
    assert done.output.startswith("first\nxxx")
    assert "[... cut: " in done.output
    assert len(done.output) < 2_100
    done = await execute("print('a' * 5000)\nprint('end')", tmp_path)
    assert done.problem == ""
    assert "[... cut: 5,005 bytes were printed ...]" in done.output
    assert done.output.endswith("a\nend\n")


async def test_keys_are_not_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "sk-planted-4711")
    code = (
        "import os, glob\n"
        "print(dict(os.environ))\n"
        "for name in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try:\n"
        "        print(open(name).read())\n"
        "    except OSError:\n"
        "        pass\n"
    )
    done = await execute(code, tmp_path)
    assert "PATH" in done.output
    if done.isolated["processes"]:
        assert "sk-planted" not in done.output
    assert "SECRET_API_KEY" not in done.output.splitlines()[0]


@isolated
async def test_there_is_no_network(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=5)\nprint('in')"
    async with server:
        done = await execute(code, tmp_path)
        assert "OSError" in done.output or "Error" in done.output
        assert "in\n" not in done.output.splitlines()
        open_tool = PythonTool(network=True)
        assert (await open_tool.run(code, tmp_path)).output == "in\n"


@isolated
async def test_it_writes_only_into_its_own_folder(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    done = await execute(f"open('a', 'w')\nopen({str(other / 'b')!r}, 'w')", own)
    assert "Read-only file system" in done.output
    assert ([*own.iterdir()], [*other.iterdir()]) == ([own / "a"], [])


async def test_files_become_artifacts_and_artifacts_files() -> None:
    write = "open('sum.txt', 'w').write(str(sum(map(int, open('in.csv').read().split(',')))))"
    image = "open('dot.png', 'wb').write(bytes([137, 80, 78, 71, 255]))"
    runner = analyst(
        PythonTool(),
        call("run_python", code=f"{write}\n{image}", files=["in.csv"]),
        call("run_python", code="open('sum.txt').read()", files=["sum.txt"]),
    )
    owner = ("analyst", "user", "s")
    await runner.artifacts.save(*owner, "in.csv", Part(text="1,2,39"))
    response = await result_of(runner)
    assert response["files"] == ["dot.png", "sum.txt"]  # and not the one that was there
    text = await runner.artifacts.load(*owner, "sum.txt")
    assert text is not None
    assert text.text == "42"
    dot = await runner.artifacts.load(*owner, "dot.png")
    assert dot is not None
    assert dot.inline_data is not None
    assert dot.inline_data.mime_type == "image/png"
    assert (await result_of(runner))["output"] == "'42'\n"


async def test_media_that_google_adk_wrote_is_the_same_file() -> None:
    data = bytes(range(250, 256)) * 3
    blob = Blob(mime_type="x/y", data=base64.urlsafe_b64encode(data).decode())
    runner = analyst(
        PythonTool(), call("run_python", code="open('a.bin', 'rb').read().hex()", files=["a.bin"])
    )
    await runner.artifacts.save("analyst", "user", "s", "a.bin", Part(inline_data=blob))
    assert (await result_of(runner))["output"] == f"'{data.hex()}'\n"


async def test_a_link_is_no_way_to_a_file_of_others(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("planted")
    code = f"import os\nos.symlink({str(secret)!r}, 'mine.txt')\nos.symlink('/', 'all')"
    runner = analyst(PythonTool(), call("run_python", code=code))
    response = await result_of(runner)
    assert "files" not in response
    assert "mine.txt is not kept" in str(response["note"])
    assert await runner.artifacts.names("analyst", "user", "s") == []


async def test_an_artifact_that_is_not_there_is_named() -> None:
    runner = analyst(PythonTool(), call("run_python", code="1", files=["none.csv"]))
    assert await result_of(runner) == {
        "error": "there is no artifact 'none.csv'; there are: none yet"
    }


async def test_no_name_of_an_artifact_leads_out_of_the_folder() -> None:
    code = "import os\nsorted(os.listdir('.')), sorted(os.listdir('etc'))"
    runner = analyst(PythonTool(), call("run_python", code=code, files=["../etc/x", "user:a"]))
    for name in ("../etc/x", "user:a"):
        try:
            await runner.artifacts.save("analyst", "user", "s", name, Part(text="1"))
        except Exception:  # a store may refuse the name itself
            pytest.skip("the store takes no such name")
    assert (await result_of(runner))["output"] == "(['a', 'etc'], ['x'])\n"


async def test_where_the_kernel_does_not_isolate_the_result_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "sandbox.py"
    original = Path(python_tool.__file__).with_name("sandbox.py").read_text()
    program.write_text(original.replace("libc.unshare(", "min(-1, "))
    monkeypatch.setattr(python_tool, "_PROGRAM", program)
    isolation.cache_clear()
    try:
        assert not any(isolation().values())
        tool = PythonTool()
        # what may have reached the world is not done twice
        assert tool.get_tools()[0].effect == "unsafe"
        response = await result_of(analyst(tool, call("run_python", code="40 + 2")))
    finally:
        isolation.cache_clear()
    assert response["output"] == "42\n"
    assert "the kernel does not let the network be cut off" in str(response["note"])


@isolated
def test_a_call_is_made_again_after_a_crash_only_if_it_cannot_matter() -> None:
    assert PythonTool().get_tools()[0].effect == "idempotent"
    assert PythonTool(network=True).get_tools()[0].effect == "unsafe"


async def test_a_run_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    code = "import time\nwhile True:\n    open('alive', 'a').write('x')\n    time.sleep(0.01)"
    running = asyncio.create_task(execute(code, tmp_path))
    async with asyncio.timeout(60):
        while not (tmp_path / "alive").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    before = (tmp_path / "alive").stat().st_size
    await asyncio.sleep(0.1)
    assert (tmp_path / "alive").stat().st_size == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"memory": "big"}, "memory is 'big'"),
        ({"memory": 8}, "does not start in 8 megabytes"),
        ({"files": "a.csv"}, "files is a text"),
    ],
)
def test_limits_that_cannot_be_right_are_refused(options: dict[str, object], message: str) -> None:
    assert os.name == "posix"
    with pytest.raises(DeclarationError, match=message):
        PythonTool(**options)  # type: ignore[arg-type]


def test_an_unknown_limit_is_named() -> None:
    with pytest.raises(DeclarationError, match="did you mean `seconds`"):
        PythonTool(second=3)  # type: ignore[call-arg]
