"""Code in an interpreter made for it: what it prints, its limits, its files, and its gaps."""

import asyncio
import base64
import importlib.util
import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from tests.tools.processes import below, is_alive, wait_for
from tests.tools.users import myself, plain_user
from weft import Agent, Part, Runner
from weft.content import Blob
from weft.errors import DeclarationError, UsageError
from weft.testing import ScriptedModel, call
from weft.tools import PythonTool, interpreter
from weft.tools.code import Execution
from weft.tools.python import MODULES
from weft.values import JsonObject


async def run(code: str, **limits: object) -> Execution:
    return await PythonTool(**{"output": 2_000, **limits}).run(code)  # type: ignore[arg-type]


async def result_of(runner: Runner, message: str = "Go") -> JsonObject:
    result = await runner.run(message, session_id="s")
    (response,) = [one.response for event in result.events for one in event.results]
    assert response is not None
    return response


def analyst(tool: object, *calls: Part) -> Runner:
    model = ScriptedModel([entry for one in calls for entry in (one, "done")])
    return Runner(Agent("analyst", model=model, tools=[tool]))


async def test_what_is_printed_and_the_last_value_come_back() -> None:
    done = await run("print('one')\nx = 20\nx * 2 + 2")
    assert (done.output, done.error) == ("one\n42\n", "")
    assert (await run("x = 1\nNone")).output == ""


async def test_values_are_spelled_as_python_does() -> None:
    value = "(1, 'a', [2.5, None], {'k': True}, b'x', (3,))"
    assert (await run(value)).output == f"{value}\n"
    point = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1)"
    assert (await run(point)).output == "P {'x': 1}\n"


async def test_an_error_shows_the_codes_own_lines() -> None:
    done = await run("print('before')\ndef f():\n    return 1 / 0\nf()")
    assert done.output == "before\n"
    assert "line 4, in <module>" in done.error
    assert done.error.endswith("ZeroDivisionError: division by zero")
    assert "weft" not in done.error
    assert "SyntaxError" in (await run("def")).error


async def test_time_is_limited_and_what_was_printed_until_then_is_told() -> None:
    done = await run("print('begun')\nwhile True:\n    pass", seconds=0.3)
    assert done.output == "begun\n"
    assert "TimeoutError" in done.error


async def test_memory_and_recursion_are_limited() -> None:
    assert "MemoryError" in (await run("x = [0]\nwhile True:\n    x += x", memory=32)).error
    deep = await run("def f(n):\n    return f(n + 1)\nf(0)", recursion=50)
    assert "RecursionError" in deep.error


async def test_output_without_end_is_cut_and_stopped() -> None:
    done = await run("print('first')\nwhile True:\n    print('x' * 1_000)", seconds=60)
    assert "it printed more than 10,000,000 bytes" in done.error
    assert done.output.startswith("first\nxxx")
    assert "[... cut: " in done.output
    assert len(done.output) < 2_100
    done = await run("print('a' * 5000)\nprint('end')")
    assert (done.error, done.output[-6:]) == ("", "a\nend\n")
    assert "[... cut: 5,005 bytes were printed ...]" in done.output
    long = await run("raise ValueError('x' * 100_000)")
    assert len(long.error) < 1_100


async def test_a_value_that_is_endless_when_spelled_is_cut() -> None:
    code = "x = [0] * 10\nfor _ in range(40):\n    x = [x] * 10\nx"
    done = await run(code)
    assert done.error == ""
    assert done.output.startswith("[[[[")
    assert len(done.output) < 2_500
    deep = await run("x = []\nfor _ in range(100_000):\n    x = [x]\nx")
    assert "..." in deep.output
    assert "bits" in (await run("2 ** 1_000_000")).output


async def test_the_modules_that_are_told_are_those_that_there_are() -> None:
    names = sorted(name for name in sys.stdlib_module_names if not name.startswith("_"))
    tries = [
        f"try:\n    import {name}\n    print('{name}')\nexcept ImportError:\n    pass"
        for name in names
    ]
    done = await PythonTool().run("\n".join(tries))
    assert done.error == ""
    assert tuple(done.output.split()) == MODULES


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    yield 1\nf()",
        "x = [1]\ndel x[0]",
        "class A:\n    pass\nclass B(A):\n    pass",
        "class A:\n    def __len__(self):\n        return 1\nlen(A())",
        "class A:\n    @property\n    def x(self):\n        return 1\nA().x",
        "async def f():\n    async with x:\n        pass\nawait f()",
    ],
)
async def test_the_gaps_that_are_told_are_gaps(code: str) -> None:
    assert (await run(code)).error


async def test_the_clock_stands_still_and_a_pause_takes_no_time() -> None:
    code = "import time\na = time.time()\ntime.sleep(3_600)\ntime.time() - a"
    assert (await run(code)).output == "0.0\n"


async def test_code_does_the_same_when_it_is_run_again_at_the_same_moment() -> None:
    from weft.tools.interpreter import CodeLimits, run_alone

    code = (
        "import random, time\nfrom datetime import datetime\n"
        "print(random.random(), time.time(), datetime.now(), hash('a'))\n"
        "print({str(n) for n in range(50)})"
    )
    limits = CodeLimits.of(PythonTool())
    first, second, other = [
        (await run_alone(code, limits, {}, moment)).output for moment in (5.25, 5.25, 6.25)
    ]
    assert first == second != other


async def test_files_become_artifacts_and_artifacts_files() -> None:
    write = "open('sum.txt', 'w').write(str(sum(map(int, open('in.csv').read().split(',')))))"
    image = "import base64\nopen('dot.png', 'wb').write(base64.b64decode('iVBORw0K/w=='))"
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


async def test_files_can_be_made_moved_and_removed() -> None:
    code = (
        "import os\nfrom pathlib import Path\n"
        "os.makedirs('a/b')\n"
        "with open('a/b/one.txt', 'w') as file:\n    file.write('1')\n    file.write('2')\n"
        "Path('a/two.txt').write_text('zwei')\n"
        "Path('a/two.txt').rename('three.txt')\n"
        "Path('gone.txt').write_text('x')\n"
        "Path('gone.txt').unlink()\n"
        "sorted(os.listdir('.')), open('a/b/one.txt').read()"
    )
    done = await run(code)
    assert done.error == ""
    assert done.output == "(['a', 'three.txt'], '12')\n"
    assert done.files == {"a/b/one.txt": b"12", "three.txt": b"zwei"}


async def test_media_that_google_adk_wrote_is_the_same_file() -> None:
    data = bytes(range(250, 256)) * 3
    blob = Blob(mime_type="x/y", data=base64.urlsafe_b64encode(data).decode())
    runner = analyst(
        PythonTool(), call("run_python", code="open('a.bin', 'rb').read().hex()", files=["a.bin"])
    )
    await runner.artifacts.save("analyst", "user", "s", "a.bin", Part(inline_data=blob))
    assert (await result_of(runner))["output"] == f"'{data.hex()}'\n"


async def test_an_artifact_that_is_not_there_is_named() -> None:
    runner = analyst(PythonTool(), call("run_python", code="1", files=["none.csv"]))
    assert await result_of(runner) == {
        "error": "there is no artifact 'none.csv'; there are: none yet"
    }


async def test_files_that_do_not_fit_are_told_before_anything_runs() -> None:
    runner = analyst(
        PythonTool(file_size=1),
        call("run_python", code="print(1)", files=["big.txt"]),
        call("run_python", code="print(1)", files=["user:a", "a"]),
    )
    for name, text in (("big.txt", "x" * 1_000_001), ("user:a", "1"), ("a", "2")):
        await runner.artifacts.save("analyst", "user", "s", name, Part(text=text))
    assert await result_of(runner) == {
        "error": "the files have 1,000,001 bytes together, and may have 1,000,000"
    }
    assert await result_of(runner) == {
        "error": "two of the artifacts would be the file 'a'; name one of them"
    }
    done = await PythonTool(file_size=1).run("1", {"a": b"x" * 1_000_001})
    assert "may have 1,000,000" in done.error
    assert "the code has 240,000 characters" in (await run("x=1\n" * 60_000)).error


async def test_no_name_of_an_artifact_leads_out_of_the_folder() -> None:
    code = "import os\nsorted(os.listdir('.')), sorted(os.listdir('etc'))"
    runner = analyst(PythonTool(), call("run_python", code=code, files=["../etc/x", "user:a"]))
    for name in ("../etc/x", "user:a"):
        await runner.artifacts.save("analyst", "user", "s", name, Part(text="1"))
    assert (await result_of(runner))["output"] == "(['a', 'etc'], ['x'])\n"


async def test_files_are_limited_together() -> None:
    code = "for n in range(30):\n    open(f'{n}.txt', 'w').write('x' * 100_000)"
    assert "No space left: files may have 1,000,000 bytes" in (await run(code, file_size=1)).error
    many = "for n in range(2_000):\n    open(f'{n}.txt', 'w')"
    assert "there may be 1,000 files" in (await run(many)).error
    deep = "import os\nos.makedirs('/'.join(['d'] * 1_500))"
    assert "too many folders" in (await run(deep)).error
    # the code's own clock stands while it is read, so this would take very long
    busy = "open('a', 'w').write('x' * 900_000)\nwhile True:\n    open('a').read()"
    assert "too much was read and written" in (await run(busy, file_size=1)).error


@pytest.mark.parametrize(
    "name", ["user:profile.txt", "app:x.txt", "user:a/b.txt", "a\\u202eb.txt", "x" * 201]
)
async def test_a_file_of_an_odd_name_does_not_become_an_artifact(name: str) -> None:
    code = f"import os\nos.makedirs('user:a')\nopen('{name}', 'w').write('x')"
    runner = analyst(PythonTool(), call("run_python", code=code))
    response = await result_of(runner)
    assert "files" not in response
    assert "is not kept" in str(response.get("note")) or "too long" in str(response["error"])
    assert await runner.artifacts.names("analyst", "user", "s") == []
    assert await runner.artifacts.names("analyst", "user", "another") == []


async def test_code_replaces_no_artifact_that_weft_made() -> None:
    code = "open('result-1.json', 'w').write('x')\nopen('result-2.json', 'w').write('x')"
    runner = analyst(PythonTool(), call("run_python", code=code))
    await runner.artifacts.save("analyst", "user", "s", "result-1.json", Part(text="{}"))
    response = await result_of(runner)
    assert response["files"] == ["result-2.json"]
    assert "Weft made an artifact of this name" in str(response["note"])


async def test_only_some_files_are_kept_and_the_rest_is_told() -> None:
    code = "for n in range(30):\n    open(f'{n}.txt', 'w').write('x')"
    response = await result_of(analyst(PythonTool(), call("run_python", code=code)))
    assert response["note"] == "only the first 20 files are kept"
    assert len(response["files"]) == 20  # type: ignore[arg-type]


async def test_programs_run_at_once() -> None:
    tool = PythonTool(seconds=60)
    codes = [f"print({n})\nsum(range(100_000)) + {n}" for n in range(8)]
    done = await asyncio.gather(*map(tool.run, codes))
    assert [one.output for one in done] == [f"{n}\n{4999950000 + n}\n" for n in range(8)]


def busy_interpreters() -> set[int]:
    """The processes of the interpreter that this one has started, and that are at work."""
    return {one for one in below(os.getpid()) if has_worked(one)}


async def test_a_run_that_is_cancelled_leaves_no_process() -> None:
    running = asyncio.create_task(run("while True:\n    pass", seconds=300))
    async with asyncio.timeout(60):
        while not busy_interpreters():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not busy_interpreters()


ENDLESS = """
import asyncio
from weft.tools import PythonTool
asyncio.run(PythonTool(seconds=300).run("while True:\\n    pass"))
"""


@pytest.mark.parametrize("name", ["root", "plain"])
def test_after_a_kill_in_a_loop_nothing_is_left(name: str) -> None:
    if name == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    with plain_user() if name == "plain" else nullcontext(myself()) as person:
        if isinstance(person, str):
            pytest.skip(f"NO PLAIN USER HERE: {person}")
        weft = person.start("-c", ENDLESS)
        wait_for(lambda: any(map(has_worked, below(weft.pid))), "no interpreter is at work")
        started = below(weft.pid)
        weft.kill()
        weft.wait()
        wait_for(lambda: not any(map(is_alive, started)), "something is left", seconds=20)


def has_worked(process: int) -> bool:
    """Whether it is an interpreter that has taken some time."""
    with suppress(OSError):
        name, _, rest = Path(f"/proc/{process}/stat").read_text().partition(") ")
        return name.endswith("(monty") and int(rest.split()[11]) > 10
    return False


async def test_who_watches_over_interpreters_is_replaced_when_it_is_ended() -> None:
    await run("1")
    watcher = interpreter._interpreters().watcher
    before = watcher._process
    before.kill()
    before.wait()
    assert (await run("1 + 1")).output == "2\n"
    assert watcher._process.pid != before.pid


def test_a_forked_process_says_that_it_cannot_run_code() -> None:
    asyncio.run(run("1"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(run("1"))
            told = "it ran"
        except UsageError as error:
            told = str(error)
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as end:
        assert "was forked from one that had run code" in end.read()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds is 0"),
        ({"memory": "big"}, "memory is 'big'"),
        ({"memory": 4}, "does not run in 4 megabytes"),
        ({"calls": True}, "calls is True"),
        ({"files": "a.csv"}, "files is a text"),
        ({"functions": "search"}, 'functions="search" is one string'),
        ({"second": 3}, "did you mean `seconds`"),
        ({"network": True}, "code has no network"),
        ({"processes": 2}, "CPythonTool"),
        ({"tools": ["a"]}, "functions"),
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        PythonTool(**options)  # type: ignore[arg-type]


def test_without_the_extra_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeclarationError, match=r"pip install 'weft\[code\]'"):
        PythonTool()
