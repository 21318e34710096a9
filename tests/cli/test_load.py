"""A target is found, or the command says what is there instead."""

from pathlib import Path

import pytest

from tests.cli.run import refusal, weft


@pytest.mark.parametrize(
    "target",
    [
        "agents:weather_bot",
        "agents:Holder.bot",
        "agents:make",
        "agents.py:weather_bot",
        "./agents.py:make",
        "pkg.deep.more:bot",
        "pkg/deep/more.py:bot",
    ],
)
def test_a_target_is_found(folder: Path, target: str) -> None:
    deep = folder / "pkg" / "deep"
    deep.mkdir(parents=True)
    (deep / "more.py").write_text("from weft import Agent\nbot = Agent('bot', model='gpt-5')\n")
    done = weft(folder, "compile", target, "-m", "Hi")
    assert done.returncode == 0, done.stderr
    assert "Hi" in done.stdout


@pytest.mark.parametrize("target", ["crew/desk.py:bot", "crew:bot", "./crew:bot", "crew/:bot"])
def test_a_file_of_a_package_may_import_what_is_beside_it(folder: Path, target: str) -> None:
    crew = folder / "crew"
    crew.mkdir()
    (crew / "__init__.py").write_text("from .desk import bot\n")
    (crew / "texts.py").write_text("GREETING = 'Greet them warmly.'\n")
    (crew / "desk.py").write_text(
        "from weft import Agent\nfrom .texts import GREETING\n"
        "bot = Agent('bot', model='gpt-5', instruction=GREETING)\n"
    )
    done = weft(folder, "compile", target, "-m", "Hi")
    assert done.returncode == 0, done.stderr
    assert "Greet them warmly." in done.stdout


@pytest.mark.parametrize("name", ["agent.py", "__init__.py"])
def test_the_name_of_a_folder_may_have_a_dot(folder: Path, name: str) -> None:
    desk = folder / "desk.v2"
    desk.mkdir()
    (desk / name).write_text("from weft import Agent\nroot_agent = Agent('bot', model='gpt-5')\n")
    done = weft(folder, "compile", "desk.v2", "-m", "Hi")
    assert done.returncode == 0, done.stderr
    assert "Hi" in done.stdout


@pytest.mark.parametrize(
    ("target", "line", "hint"),
    [
        ("agents", "`agents` does not name an object", "agents:weather_bot"),
        (":", "`:` does not name an object", "pkg.module:object"),
        ("agents:", "does not name an object", "agents:weather_bot"),
        ("agent:weather_bot", "there is no module `agent`", "did you mean `agents`?"),
        ("no.such:thing", "there is no module `no`", "modules there: agents"),
        ("agents.deeper:x", "there is no module `agents.deeper`", "a module, not a package"),
        ("not-a-module:x", "`not-a-module` is not a module name", "path/to/file.py:object"),
        ("..agents:x", "is not a module name", ""),
        ("missing.py:x", "missing.py: there is no such file", "agents.py"),
        ("/", "/__init__.py: there is no such file", ""),
        ("agents:wether_bot", "the module has no `wether_bot`", "did you mean `weather_bot`?"),
        ("agents:Holder.bat", "the type has no `bat`", "did you mean `bot`?"),
        ("agents:number", "this is an int, not an agent", "agents:weather_bot"),
        ("agents:make_with", "this callable needs arguments (city)", "without arguments"),
        ("agents:make_later", "this is a coroutine, not an agent", "agents:weather_bot"),
        ("agents:make_badly", "agents.py:41: ValueError: no weather", ""),
    ],
)
def test_a_target_that_is_not_there(folder: Path, target: str, line: str, hint: str) -> None:
    said, fix = refusal(weft(folder, "compile", target, "-m", "Hi"))
    assert line in said
    assert hint in fix


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            "import nothing_here\n",
            "broken.py:1: ModuleNotFoundError: No module named 'nothing_here'",
        ),
        ("x = 1\ny = x / 0\n", "broken.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\ndef f(:\n", "broken.py:2: SyntaxError: "),
        ("import sys\nsys.exit(3)\n", "broken.py:2: the code exits when it is loaded"),
        ("import json\njson.loads('{')\n", "broken.py:2: JSONDecodeError: "),
        ("from weft import Agent\n\nx = Agent('not valid')\n", "broken.py:3: "),
        ("from helper import x\n", "helper.py:2: RuntimeError: deep"),
    ],
)
def test_what_their_code_raises_is_told_with_its_place(folder: Path, code: str, line: str) -> None:
    (folder / "helper.py").write_text("x = 1\nraise RuntimeError('deep')\n")
    (folder / "broken.py").write_text(code)
    assert line in refusal(weft(folder, "compile", "broken:x"))[0]
    assert line in refusal(weft(folder, "compile", "broken.py:x"))[0]


def test_a_provider_that_raises_is_told_with_its_place(folder: Path) -> None:
    (folder / "late.py").write_text(
        "from weft import Agent\n\ndef text(ctx):\n    raise KeyError('gone')\n\n"
        "bot = Agent('bot', model='gpt-5', instruction=text, on_provider_error='raise')\n"
        "calm = Agent('bot', model='gpt-5', instruction=text)\n"
    )
    said, _ = refusal(weft(folder, "compile", "late:bot", "-m", "Hi"))
    assert said == "late.py:4: KeyError: 'gone'"
    done = weft(folder, "compile", "late:calm", "-m", "Hi")
    assert done.returncode == 0
    assert "warning[WEFT102]" in done.stdout
    assert done.stderr == ""
