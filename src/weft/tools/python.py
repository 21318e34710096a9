"""A tool with which a model runs Python, in an interpreter made for code that nobody has read.

The interpreter is Monty (`interpreter.py`). It has no files, no network, no environment and no
modules but a few of its own. What there is, it is given: artifacts as files, and the other tools
of the agent as functions. `CPythonTool` runs full Python, in a sandbox of the system.
"""

import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from weft.declare.context import ToolContext
from weft.declare.tool import Tool, check_names, tool
from weft.errors import DeclarationError
from weft.misuse import explain_mistakes
from weft.tools.code import (
    Execution,
    check_files,
    check_limits,
    load_files,
    problem_with_size,
    save_result,
)

MODULES = (
    *("asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses"),
    *("datetime", "decimal", "functools", "hashlib", "itertools", "json", "math", "os", "pathlib"),
    *("posixpath", "random", "re", "sys", "time", "tomllib", "typing", "unicodedata"),
)
"""What code can import."""

_MISSING = (
    "`yield`, `del`, class inheritance, special methods such as `__len__`, `@property`,"
    " `@classmethod`, `async with` and `async for`"
)

_WORDS = {
    "processes": "code has no processes here; CPythonTool(processes=...) runs full Python",
    "network": "code has no network; give the agent a tool that fetches, and call it from code",
    "tools": "functions",
}


@explain_mistakes("PythonTool(seconds=10, memory=256)", words=_WORDS)
@dataclass(frozen=True, kw_only=True)
class PythonTool:
    """A tool that runs Python: `Agent("analyst", tools=[search, PythonTool()])`.

    The code can call the agent's other tools; `functions` names those that it may, where it is
    not all. `seconds`, `memory` (in megabytes), `recursion` and `calls` of tools are limits,
    `output` the characters that the model gets, `file_size` the megabytes of all files together.
    `files` are artifacts that are there at the start; the model may name more. Files that the code
    writes become artifacts of the session.
    """

    seconds: float = 10
    memory: int = 256
    recursion: int = 200
    calls: int = 100
    output: int = 20_000
    file_size: int = 20
    files: Sequence[str] = ()
    functions: Sequence[str] | None = None
    confirm: bool = False
    name: str = "run_python"

    def __post_init__(self) -> None:
        limits = {
            name: cast("object", getattr(self, name))
            for name in ("seconds", "memory", "recursion", "calls", "output", "file_size")
        }
        check_limits("PythonTool", limits)
        if self.memory < 8:
            raise DeclarationError(
                f"code does not run in {self.memory} megabytes",
                where="PythonTool.memory",
                hint="write 8 or more",
            )
        check_files("PythonTool", self.files)
        if self.functions is not None:
            check_names("functions", self.functions, where="PythonTool")
        if importlib.util.find_spec("pydantic_monty") is None:
            raise DeclarationError(
                "the interpreter for code is not installed",
                where="PythonTool",
                hint="pip install 'weft[code]'",
            )

    def get_tools(self) -> list[Tool]:
        """The tool as an agent has it."""

        async def run_python(code: str, ctx: ToolContext, files: list[str] | None = None) -> object:
            return await self._call(code, [*self.files, *(files or ())], ctx)

        make = tool(name=self.name, description=self._about(), confirm=self.confirm)
        functions = None if self.functions is None else tuple(self.functions)
        return [msgspec.structs.replace(make(run_python), runs_code=True, functions=functions)]

    async def run(self, code: str, files: Mapping[str, bytes] | None = None) -> Execution:
        """Run code without an agent, and so without functions; `files` by their paths."""
        from weft.tools.interpreter import CodeLimits, run_alone  # it loads what few programs need

        inputs = dict(files or {})
        if problem := problem_with_size(code, inputs, self.file_size * 1_000_000):
            return Execution(output="", error=problem)
        return await run_alone(code, CodeLimits.of(self), inputs, time.time())

    def _about(self) -> str:
        return (
            "Run Python code, and get what it prints; the value of a last expression is printed"
            f" too. Nothing is kept between calls but files. At most {self.seconds:g} seconds and"
            f" {self.memory} MB. It can import {', '.join(MODULES)}, and nothing else; there is no"
            f" network. It has no {_MISSING}. The clock stands still. Files that it writes to its"
            " working folder are kept as artifacts; `files` names artifacts to put there first."
        )

    async def _call(self, code: str, names: list[str], ctx: ToolContext) -> object:
        files = await load_files(names, ctx)
        if isinstance(files, str):
            return {"error": files}
        if problem := problem_with_size(code, files, self.file_size * 1_000_000):
            return {"error": problem}
        if ctx.steps is None:
            return await save_result(await self.run(code, files), ctx)
        from weft.tools.interpreter import CodeLimits, run_in_steps

        done = await run_in_steps(code, CodeLimits.of(self), files, self.name, ctx.steps)
        result: dict[str, object] = {**await save_result(done, ctx)}
        # media that tools returned with their results are for the model, not for code
        result |= {f"media {at}": part for at, part in enumerate(ctx.steps.media, 1)}
        return result
