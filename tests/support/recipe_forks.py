"""Run the checks of a recipe in copies of the repository, each in a fork of this process.

It reads `{"copies": [folder, ...], "checks": [...]}` and writes for each copy whether all checks
passed, and their output up to the first that failed. It must not import `weft`: each fork imports
the one of its copy. What nearly every check imports of others is imported once, here.
"""

# ruff: noqa: F401

import json
import os
import sys
import traceback
from pathlib import Path

import hypothesis.strategies
import msgspec.json
import pydantic
import pytest
import rich.console
import typer.testing

OPTIONS = ("-q", "-p", "anyio", "-p", "no:cacheprovider")


def run_check(check: str | list[str]) -> int:
    """Run a program or tests, and return the exit code."""
    if isinstance(check, str):
        exec(compile(check, "<check>", "exec"), {"__name__": "__main__"})
        return 0
    return int(pytest.main([*OPTIONS, *check]))


def fork_check(copy: str, check: str | list[str]) -> tuple[bool, str]:
    """Run a check in a fork, and return whether it passed and what it printed."""
    output = Path(copy, "output")
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return status == 0, output.read_text("utf-8")
    code = 1
    try:
        stream = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.chdir(copy)
        sys.path[:0] = [f"{copy}/src", copy]
        code = run_check(check)
    except BaseException:  # whatever it is, the check failed, and the fork must not live on
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_checks(copy: str, checks: list[str | list[str]]) -> tuple[bool, str]:
    """Run checks in a copy up to the first that fails."""
    text = ""
    for check in checks:
        passed, output = fork_check(copy, check)
        text += output
        if not passed:
            return False, text
    return True, text


if __name__ == "__main__":
    order = json.load(sys.stdin)
    print(json.dumps([run_checks(copy, order["checks"]) for copy in order["copies"]]))
