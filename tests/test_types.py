"""What a type checker tells a user: the words that exist, and no others."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft import Agent

_PROGRAM = """
# pyright: strict
import weft
import weft.interop.adk
import weft.models
import weft.server
from weft import Agent, C, Compiled, Json, Policy, Race, Report, Running, S, Store, Timeout

policy: Policy = C.window(3).dedupe()
state: dict[str, Json] = {"city": "Oslo"}
bot = Agent("bot", model="gpt-5", context=policy)
compiled: Compiled = weft.compile(bot, state=state, message="hi")
report: Report = compiled.explain()
first: Race = weft.race(bot, Agent("other", model="gpt-5"))
soon: Timeout = weft.timeout(bot, 10)


def run(store: Store) -> Running:
    return weft.Runner(bot, store=store).run("hi")


C.typo  # wrong
C.window(3).typo()  # wrong
S.typo  # wrong
compiled.plan  # wrong
compiled.scale  # wrong
bot.typo  # wrong
weft.typo  # wrong
weft.models.typo  # wrong
weft.server.typo  # wrong
weft.interop.adk.typo  # wrong
"""


_TYPED_PROGRAM = """
# pyright: strict
import dataclasses

import weft
from weft import Agent, CallbackContext, Content, Runner, tool


@dataclasses.dataclass
class Invoice:
    total: float


@tool
def add(a: int, b: int) -> int:
    \"\"\"Add.\"\"\"
    return a + b


def greet(context: CallbackContext) -> Content | None:
    return None


def late(context: CallbackContext, prompt: str) -> None:
    return None


agent = Agent("extract") @ Invoice
total: float = weft.run_sync(agent, "hi").value.total
number: int = add(1, 2)
Agent("a", before_agent=greet)
text: str = weft.run_sync(agent, "hi").value  # wrong
weft.run_sync(agent, "hi").value.typo  # wrong
runner: Runner[str] = Runner(agent)  # wrong
other: Agent[str] = agent  # wrong
add("1", 2)  # wrong
word: str = add(1, 2)  # wrong
Agent("a", before_agent=late)  # wrong
Agent("a", before_model=late)  # wrong
Agent("a", before_model=greet)  # wrong
Agent("a", instructions="hi")  # wrong
"""


def _wrong_lines(program: str) -> set[int]:
    lines = program.splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


@pytest.fixture(scope="module")
def reported_by_pyright(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """The lines with errors of each program; both import the package, so they are read together."""
    if shutil.which("pyright", path=Path(sys.executable).parent) is None:
        pytest.skip("pyright")
    folder = tmp_path_factory.mktemp("typed")
    (folder / "words.py").write_text(_PROGRAM, "utf-8")
    (folder / "answers.py").write_text(_TYPED_PROGRAM, "utf-8")
    source = Path(weft.__file__).parents[1]
    (folder / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{source}"]}}', "utf-8")
    done = subprocess.run(
        [Path(sys.executable).parent / "pyright", "--pythonpath", sys.executable, "-p", folder],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    errors = re.findall(r"(\w+)\.py:(\d+):\d+ - error", done.stdout)
    return {
        name: {int(number) for file, number in errors if file == name}
        for name in ("words", "answers")
    }


def test_a_wrong_word_is_an_error_and_a_right_one_is_none(
    reported_by_pyright: dict[str, set[int]],
) -> None:
    assert reported_by_pyright["words"] == _wrong_lines(_PROGRAM)


def test_pyright_knows_what_an_agent_answers_with(
    reported_by_pyright: dict[str, set[int]],
) -> None:
    assert reported_by_pyright["answers"] == _wrong_lines(_TYPED_PROGRAM)


@pytest.mark.skipif(shutil.which("mypy", path=Path(sys.executable).parent) is None, reason="mypy")
def test_mypy_knows_what_an_agent_answers_with(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_TYPED_PROGRAM, "utf-8")
    root = Path(weft.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", root / "pyproject.toml", "--no-pretty",
         "--cache-dir", root / ".mypy_cache", tmp_path / "program.py"],
        capture_output=True,
        text=True,
        cwd=root,
    )  # fmt: skip
    reported = {int(number) for number in re.findall(r"program\.py:(\d+): error", done.stdout)}
    assert reported == _wrong_lines(_TYPED_PROGRAM), done.stdout + done.stderr


def test_generics_cost_nothing_and_make_no_schema() -> None:
    annotation = Agent[int]
    assert isinstance(Agent[str]("a"), Agent)
    assert annotation("a", output_schema=int).output_schema is int  # type: ignore[call-overload]
    assert weft.Result[int] is not None
    assert weft.Runner[int] is not None
    with pytest.raises(weft.WeftError, match=r"hint: write Agent\(\"a\"\) @ int"):
        annotation("a")  # type: ignore[call-overload]
    assert Agent("a") == Agent("a")
    assert "__orig_class__" not in vars(annotation("a", output_schema=int))


def test_a_compiled_request_shows_what_the_pages_name() -> None:
    compiled = weft.compile(Agent("bot", model="gpt-5"), message="hi")
    assert {name for name in dir(compiled) if not name.startswith("_")} == {
        "cached", "diagnostics", "dialect", "diff", "explain", "hash", "label", "lower", "origin",
        "prefix_break", "prompt", "provided", "stable_prefix", "system", "tokens", "tools",
        "uncounted", "wire",
    }  # fmt: skip
