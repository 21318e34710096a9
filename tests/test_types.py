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
"""


@pytest.mark.skipif(
    shutil.which("pyright", path=Path(sys.executable).parent) is None, reason="pyright"
)
def test_a_wrong_word_is_an_error_and_a_right_one_is_none(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM, "utf-8")
    source = Path(weft.__file__).parents[1]
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{source}"]}}', "utf-8")
    done = subprocess.run(
        [Path(sys.executable).parent / "pyright", "--pythonpath", sys.executable, "-p", tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    reported = {int(number) for number in re.findall(r"program\.py:(\d+):\d+ - error", done.stdout)}
    lines = _PROGRAM.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert reported == wrong, done.stdout


def test_a_compiled_request_shows_what_the_pages_name() -> None:
    compiled = weft.compile(Agent("bot", model="gpt-5"), message="hi")
    assert {name for name in dir(compiled) if not name.startswith("_")} == {
        "cached", "diagnostics", "dialect", "diff", "explain", "hash", "lower", "origin",
        "prefix_break", "prompt", "provided", "stable_prefix", "system", "tokens", "tools",
        "uncounted", "wire",
    }  # fmt: skip
