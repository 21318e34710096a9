"""Where in the user's files an agent, a step or a route is declared, so that a finding has a line.

Files are read, not run: the target's own, and the modules it has loaded from below the working
folder. What is written in a way that cannot be followed has no place, and is reported without.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from weft.diagnostics import Diagnostic, Origin

ALLOW = re.compile(r"#\s*weft:\s*allow\s+((?:WEFT\d+[,\s]*)+)")
"""How a line says that a finding is accepted: `# weft: allow WEFT106`."""


class Place(NamedTuple):
    """A place in a file; `last` is the last line of the declaration."""

    file: Path
    line: int
    column: int
    last: int


class Sources:
    """The files a target was declared in."""

    def __init__(self, files: list[Path]) -> None:
        self.texts = {file: file.read_text(encoding="utf-8") for file in files}
        self._calls: list[tuple[Path, ast.Call]] = []
        self._functions: list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]] = []
        for file, text in self.texts.items():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    self._calls.append((file, node))
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._functions.append((file, node))

    def place(self, origin: Origin) -> Place | None:
        """Where an origin is written, if that can be seen."""
        if origin.kind == "tool":
            return self._function(origin.name) or self._declared(origin.agent)
        if origin.kind != "field":
            return None
        if origin.name in ("instruction", "global_instruction", "question") and origin.start >= 0:
            return self._template(origin) or self._declared(origin.agent)
        return self._declared(origin.agent)

    def allowed(self, found: Diagnostic) -> bool:
        """Whether a comment at the declaration accepts the finding."""
        places = (self.place(found.origin), self._declared(found.origin.agent))
        for place in places:
            if place is None:
                continue
            lines = self.texts[place.file].splitlines()[place.line - 1 : place.last]
            if any(found.code in match[1] for line in lines for match in ALLOW.finditer(line)):
                return True
        return False

    def _declared(self, name: str) -> Place | None:
        """The call that makes what has this name: Agent("name"), Route(..., name="name")."""
        named = [one for one in self._calls if name in _names(one[1])]
        if named:
            return _place(*max(named, key=lambda one: _is_maker(one[1])))
        kinds = [one for one in self._calls if _called(one[1]).lower() == name]
        if len(kinds) == 1:
            return _place(*kinds[0])
        return self._function(name)

    def _function(self, name: str) -> Place | None:
        found = [one for one in self._functions if one[1].name == name]
        return _place(*found[0]) if len(found) == 1 else None

    def _template(self, origin: Origin) -> Place | None:
        """The line of a variable in the text of an agent, where the text is a plain string."""
        within = self._around(origin.agent)
        if within is None:
            return None
        file, chain = within
        for node in ast.walk(chain):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if "{" not in node.value[origin.start : origin.start + 1]:
                continue
            line = node.lineno + node.value[: origin.start].count("\n")
            return Place(file, line, node.col_offset + 1, node.end_lineno or line)
        return None

    def _around(self, name: str) -> tuple[Path, ast.AST] | None:
        """The whole expression that makes an agent, with the verbs behind it."""
        made = [one for one in self._calls if name in _names(one[1]) and _is_maker(one[1])]
        if len(made) != 1:
            return None
        file, call = made[0]
        chain: ast.Call = call
        for other_file, other in self._calls:
            receiver: ast.AST = other
            while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
                receiver = receiver.func.value
            longer = (other.end_lineno or 0, other.end_col_offset or 0)
            reach = (chain.end_lineno or 0, chain.end_col_offset or 0)
            if other_file == file and receiver is call and longer > reach:
                chain = other
        return file, chain


def sources_of(target: str) -> Sources:
    """The files that a target was loaded from: its own, and others below the working folder."""
    place = target.rpartition(":")[0]
    own = Path(place) if place.endswith(".py") else None
    here = (Path(target) if Path(target).is_dir() else Path.cwd()).resolve()
    files: list[Path] = [own.resolve()] if own is not None else []
    for name, module in [*sys.modules.items()]:
        file = vars(module).get("__file__")
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        below = path.is_relative_to(here) and not _is_installed(path.relative_to(here))
        if path not in files and (below or name == place):
            files.append(path)
    return Sources([file for file in files if file.is_file()])


def _is_installed(path: Path) -> bool:
    return any(part == "site-packages" or part.startswith(".") for part in path.parts)


def _names(call: ast.Call) -> Iterator[str]:
    """The names that a call gives: its first argument, and `name=`."""
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "name")]
    for value in given:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_maker(call: ast.Call) -> bool:
    """Whether the call makes a node, and is no verb such as .writes("name")."""
    return _called(call)[:1].isupper() or _called(call) in ("race", "timeout", "tap", "expect")


def _place(file: Path, node: ast.expr | ast.stmt) -> Place:
    return Place(file, node.lineno, node.col_offset + 1, node.end_lineno or node.lineno)
