"""Measure the house: its files and lines, and how far a value travels through it.

    python bench/house.py                    this tree
    python bench/house.py OLD_TREE NEW_TREE  two trees beside each other

A trip is run in a process of its own, with the tree's `src` first on the path and its modules
loaded. It counts the files whose functions were entered, and how often the call went from one room
(a folder of `src/weft`, or a module beside them) into another: when it is made for the first time,
and later, when what is kept for all runs is there.
"""

import ast
import importlib
import io
import json
import os
import subprocess
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORDS = frozenset(["told", "held", "found", "kept", "said", "made", "given", "left", "shown"])

# The house as it stands


def lines_of(path: Path) -> Counter[str]:
    """Lines by what they are: code, docstring, comment; blank ones are not counted."""
    text = path.read_text("utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass
    code: set[int] = set()
    comments: set[int] = set()
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in skipped:
            code |= set(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    return Counter(
        {"code": len(code), "docstring": len(docstrings), "comment": len(comments - code)}
    )


def imports_of(path: Path, package: Path) -> Iterator[tuple[str, bool]]:
    """The modules of the package that a file imports, and whether inside a function."""

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("weft"):
                for alias in child.names:
                    yield f"{child.module}.{alias.name}", inside
                    yield str(child.module), inside
            elif isinstance(child, ast.Import):
                yield from ((a.name, inside) for a in child.names if a.name.startswith("weft"))
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, inside or function)

    yield from walk(ast.parse(path.read_text("utf-8")), False)


def names_on_the_list(path: Path) -> int:
    """Names, one for each scope, that consist of a word that says nothing."""
    names: set[tuple[str, str]] = set()

    def walk(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            bound: list[str] = []
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound = [child.name]
                inner = f"{scope}.{child.name}"
            elif isinstance(child, ast.arg):
                bound = [child.arg]
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                bound = [child.id]
            elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                bound = [child.attr]
            elif isinstance(child, ast.MatchAs | ast.MatchStar) and child.name:
                bound = [child.name]
            names.update((scope, name) for name in bound if name.strip("_") in WORDS)
            walk(child, inner)

    walk(ast.parse(path.read_text("utf-8")), "")
    return len(names)


def measure_tree(tree: Path) -> dict[str, int]:
    """What can be read off the files."""
    package = tree / "src" / "weft"
    paths = sorted(package.rglob("*.py"))
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in paths
    }
    importers: dict[str, set[str]] = {name: set() for name in modules}
    inside = 0
    lines: Counter[str] = Counter()
    words = 0
    for name, path in modules.items():
        lines += lines_of(path)
        words += names_on_the_list(path)
        for imported, in_function in imports_of(path, package):
            if imported in modules and imported != name:
                importers[imported].add(name)
                inside += in_function
    single = [one for one, by in importers.items() if len(by) == 1]
    short = [path for path in paths if len(path.read_text("utf-8").splitlines()) < 60]
    return {
        "files": len(paths),
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in paths),
        "lines of code": lines["code"],
        "lines of docstrings": lines["docstring"],
        "lines of comments": lines["comment"],
        "modules with one importer": len(single),
        "of them under 60 lines": sum(modules[one] in short for one in single),
        "names on the word list": words,
        "imports inside functions": inside,
    }


# Trips through it


def message() -> Callable[[], object]:
    """One message from `Runner.run` to its answer."""
    import asyncio

    from weft import Agent, Runner
    from weft.testing import ScriptedModel

    agent = Agent("bot", model=ScriptedModel(["hi", "hi"]), instruction="Be brief.")
    runner = Runner(agent)

    async def ask() -> None:
        await runner.run(message="hello")  # what `run` returns can be awaited, in older trees too

    return lambda: asyncio.run(ask())


def template() -> Callable[[], object]:
    """A template to `.system`."""
    import weft

    agent = weft.Agent("bot", model="gemini-flash-latest", instruction="Be brief, {name}.")
    return lambda: weft.compile(agent, state={"name": "Ann"}, message="hello").system


def tool_result() -> Callable[[], object]:
    """A tool's result under `C.auto()`, to the request that carries it."""
    import asyncio

    from weft import Agent, C, Runner
    from weft.testing import ScriptedModel, call

    def look(path: str) -> str:
        """Look."""
        return "\n".join(f"line {number} of {path}" for number in range(400))

    script = [call("look", path="a.py"), "done", call("look", path="a.py"), "done"]
    agent = Agent("bot", model=ScriptedModel(script), tools=[look]).sees(C.auto())
    runner = Runner(agent)

    async def ask() -> None:
        await runner.run(message="look at a.py")

    return lambda: asyncio.run(ask())


def diagnostic() -> Callable[[], object]:
    """One diagnostic to the terminal."""
    import contextlib
    import tempfile

    from weft.cli import main

    folder = Path(tempfile.mkdtemp())
    programs = iter(("first.py", "second.py"))  # another one: what was found is remembered

    def check() -> None:
        path = folder / next(programs)
        path.write_text(
            "from weft import Agent\n\n"
            'bot = Agent("bot", model="gpt-4o", instruction="Hi {nme}.")\n'
        )
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(["check", f"{path}:bot"])

    return check


TRIPS = {
    "a message and its answer": message,
    "a template to .system": template,
    "a tool's result under C.auto()": tool_result,
    "a diagnostic to the terminal": diagnostic,
}


def loaded_by(trip: str) -> list[str]:
    """The modules of the package that are loaded once a trip was made."""
    TRIPS[trip]()()
    return [name for name in sys.modules if name.partition(".")[0] == "weft"]


def travel(trip: str, modules: list[str]) -> dict[str, int]:
    """Make a trip twice with its modules loaded: at first plans are made, later they are there."""
    for module in modules:
        importlib.import_module(module)
    run = TRIPS[trip]()
    figures: dict[str, int] = {}
    for time in ("first", "later"):
        files, changes = follow(run)
        figures |= {f"{trip}: files, {time}": files, f"{trip}: room changes, {time}": changes}
    return figures


def follow(run: Callable[[], object]) -> tuple[int, int]:
    """How many files are entered in a run, and how often it goes into another room."""
    import weft

    package = str(Path(weft.__file__).parent) + os.sep
    files: set[str] = set()
    changes = 0
    room = ""

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal changes, room
        if event != "call":
            return
        path = frame.f_code.co_filename  # type: ignore[attr-defined]
        if not path.startswith(package):
            return
        inner = path[len(package) :]
        files.add(inner)
        here = inner.partition(os.sep)[0]
        changes += here != room
        room = here

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return len(files), changes


def measure_trips(tree: Path) -> dict[str, int]:
    """Every trip, each in a process that imports this tree."""

    def in_process(*arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, __file__, *arguments],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1])

    figures: dict[str, int] = {}
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "NO_COLOR": "1"}
    for trip in TRIPS:
        modules = in_process("--loaded", trip)
        figures |= in_process("--trip", trip, json.dumps(modules))
    return figures


def main(arguments: list[str]) -> int:
    """Print one column a tree, and the ratio of the last to the first."""
    if arguments[:1] == ["--loaded"]:
        print(json.dumps(loaded_by(arguments[1])))
        return 0
    if arguments[:1] == ["--trip"]:
        print(json.dumps(travel(arguments[1], json.loads(arguments[2]))))
        return 0
    trees = [Path(one).resolve() for one in arguments] or [ROOT]
    columns = [{**measure_tree(tree), **measure_trips(tree)} for tree in trees]
    for row in columns[0]:
        values = [column[row] for column in columns]
        ratio = f"{values[-1] / values[0]:8.2f}x" if len(values) > 1 and values[0] else ""
        print(f"{row:54}" + "".join(f"{value:>9,}" for value in values) + ratio)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
