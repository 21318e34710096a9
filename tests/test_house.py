"""The rules of the house that no linter knows. Each of them can fail."""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "weft"
SOURCES = sorted(PACKAGE.rglob("*.py"))

CODES_NOT_YET_EMITTED: dict[str, str] = {}
"""Codes that have a page but no code that reports them, each with the reason."""

CODE = re.compile(r"WEFT\d{3}")

PROVIDER = re.compile(r"gemini|anthropic|openai|claude|gpt", re.IGNORECASE)
PROVIDER_ROOMS = (
    "dialects/",
    "models/",
    "interop/",
    "recordings/",  # reads the files of everybody, in their words
    "server/openai",  # answers the clients of a provider, in its words
    "tokens.py",
    "_token_tables.py",
)
PROVIDER_EXCEPTIONS = {
    "cli/proxy.py": "hints show how the address of a provider is written",
    "cli/options.py": "the help shows how the address of a provider is written",
    "declare/config.py": "a hint shows how an option is written for one dialect",
    "server/adk_page.py": "the page of google-adk reads requests in its own dialect only",
    "server/application.py": "the table of endpoints names the file that answers OpenAI's clients",
}
"""Files outside those rooms that may name a provider, each with the reason."""

SDKS = ("anthropic", "openai", "google.genai")

HEAVY = {
    "anthropic", "openai", "google", "httpx", "httpx2", "requests",
    "pydantic", "typer", "rich", "splintr", "numpy", "regex", "jsonschema_rs", "genai_prices",
}  # fmt: skip

MACHINE_PATH = re.compile(r"(?<![\w.~)}\]-])/(?:work|tmp|root|opt|home/\w+|Users/\w+)(?![\w-])")
REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|registry\.npmjs|--(?:extra-)?index-url")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _rooms() -> dict[str, list[Path]]:
    """The files of each room; those beside the rooms are together in `top`."""
    rooms: dict[str, list[Path]] = {}
    for path in SOURCES:
        room, below, _ = name_of(path).partition("/")
        rooms.setdefault(room if below else "top", []).append(path)
    return rooms


ROOMS = _rooms()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path))


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements stand in a statement."""


def statements_in(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, a statement before those in it; expressions are not walked."""
    for field in BLOCKS:
        for child in getattr(node, field, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from statements_in(child)


@cache
def code_tokens(path: Path) -> list[str]:
    """The names and strings of a file: no comments, no docstrings."""
    text = path.read_text("utf-8")
    prose = {
        line
        for node in statements_in(tree_of(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    kinds = {tokenize.NAME, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    return [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in kinds and token.start[0] not in prose
    ]


def imports_of(path: Path) -> Iterator[str]:
    """The dotted names a file imports, at its top or inside a function."""
    for node in statements_in(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots_loaded_by(statement: str) -> set[str]:
    """The top-level modules that a statement loads in a fresh interpreter."""
    script = (
        "import json, sys; before = set(sys.modules); exec(sys.argv[1]); "
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, statement], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_imports_go_one_way() -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_exported_name_resolves() -> None:
    assert len(weft.__all__) == len(set(weft.__all__))
    for name in weft.__all__:
        getattr(weft, name)


def test_what_is_listed_is_what_is_exported() -> None:
    submodules = {path.stem for path in PACKAGE.iterdir()}
    listed = {name for name in dir(weft) if not name.startswith("_")}
    exported = {name for name in weft.__all__ if not name.startswith("_")}
    assert listed - submodules == exported - submodules
    assert exported <= listed


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        weft.no_such_name  # noqa: B018


def test_every_code_has_one_well_formed_page() -> None:
    from weft.codes import CODES
    from weft.diagnostics import Severity

    for code, page in CODES.items():
        assert CODE.fullmatch(code), code
        assert page.code == code
        assert isinstance(page.severity, Severity), code
        assert page.title.strip(), code
        assert page.page.strip(), code
    titles = [page.title for page in CODES.values()]
    assert len(titles) == len(set(titles))


def test_no_code_is_written_twice_in_the_table() -> None:
    keys = [
        node.value
        for path in (PACKAGE / "codes").glob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
    ]
    assert sorted(keys) == sorted(set(keys))


def test_every_code_in_the_sources_is_in_the_table() -> None:
    from weft.codes import CODES

    unknown = {
        name_of(path): codes
        for path in SOURCES
        if (codes := set(CODE.findall(path.read_text("utf-8"))) - set(CODES))
    }
    assert not unknown, "a code has its page in src/weft/codes"


def test_every_code_in_the_table_is_emitted() -> None:
    from weft.codes import CODES

    emitted = {
        code
        for path in SOURCES
        if not name_of(path).startswith("codes/")  # there are the pages themselves
        and CODE.search(path.read_text("utf-8"))
        for token in code_tokens(path)
        for code in CODE.findall(token)
    }
    assert set(CODES) - emitted == set(CODES_NOT_YET_EMITTED)


def test_importing_weft_loads_nothing_heavy() -> None:
    assert not roots_loaded_by("import weft") & (HEAVY | {"asyncio"})


def test_using_every_exported_name_loads_nothing_heavy() -> None:
    everything = "import weft; [getattr(weft, name) for name in weft.__all__]"
    assert not roots_loaded_by(everything) & HEAVY


def test_provider_names_stay_in_their_rooms() -> None:
    named = {
        name_of(path): sorted(found)
        for path in SOURCES
        if not name_of(path).startswith(PROVIDER_ROOMS)
        and PROVIDER.search(path.read_text("utf-8"))
        and (found := {token for token in code_tokens(path) if PROVIDER.search(token)})
    }
    assert set(named) == set(PROVIDER_EXCEPTIONS), f"CONTRIBUTING says where they may be: {named}"


def test_provider_sdks_are_imported_only_by_models() -> None:
    importers = {
        name_of(path): name
        for path in SOURCES
        if not name_of(path).startswith("models/")
        for name in imports_of(path)
        if any(f"{name}.".startswith(f"{sdk}.") for sdk in SDKS)
    }
    assert not importers


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_thing_says_what_it_is(room: str) -> None:
    silent: list[str] = []
    for path in ROOMS[room]:
        tree = tree_of(path)
        public = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not any(ast.unparse(item).endswith("overload") for item in node.decorator_list)
        ]
        silent += [f"{name_of(path)}: {one.name}" for one in public if not ast.get_docstring(one)]
        if not ast.get_docstring(tree):
            silent.append(f"{name_of(path)} has no docstring")
    assert not silent, "write a docstring: what it is"


def test_no_file_names_a_machine_or_a_registry() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listing.returncode:
        pytest.skip("not a git checkout")
    named: dict[str, list[str]] = {}
    for name in sorted(set(listing.stdout.split("\0")) - {""}):
        path = ROOT / name
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            text = data.decode("utf-8", "replace")
            found = [*MACHINE_PATH.findall(text), *REGISTRY.findall(text)]
            if found:
                named[name] = found
    assert not named


def test_no_file_has_the_marks_of_a_merge() -> None:
    marks = ["git", "grep", "-nE", "^(<{7}|>{7}) "]
    listing = subprocess.run(marks, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode > 1:
        pytest.skip("not a git checkout")
    assert listing.stdout == ""


def test_a_command_line_without_its_packages_names_the_extra() -> None:
    code = "import sys; sys.modules['typer'] = None; from weft.__main__ import main; exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "  hint: pip install 'weft[cli]'"


def test_drawn_examples_do_not_depend_on_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_texts() -> list[str]:
        texts: list[str] = []

        @settings(max_examples=200)
        @given(st.text())
        def keep(text: str) -> None:
            texts.append(text)

        keep()
        return texts

    before = draw_texts()
    (tmp_path / "many_words.py").write_text(f"WORDS = {[f'word {n}' for n in range(900)]}", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("many_words")
    assert draw_texts() == before


# --- names, chapters, circles

WORDS = frozenset({"told", "held", "found", "kept", "said", "made", "given", "left", "shown"})
"""Words that say what happened to a thing and not what it is: no name consists of one alone."""

PUBLIC_WORDS = {
    "ir/block.py": {"given", "kept"},
    "ir/prompt.py": {"kept"},
    "replay/replay.py": {"kept"},
}
"""Names on that list that users type, by file."""


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Each name that a file gives: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case _:
                pass


@pytest.mark.parametrize("room", ROOMS)
def test_a_name_says_the_thing_and_not_what_happened_to_it(room: str) -> None:
    bare = [
        f"{name_of(path)}:{line}: {name}"
        for path in ROOMS[room]
        for line, name in names_in(path)
        if name.strip("_") in WORDS and name not in PUBLIC_WORDS.get(name_of(path), ())
    ]
    assert not bare, "name the thing: what was found, kept, given?"


SMALL_CHAPTERS: dict[str, str] = {
    "interop/genai.py": "the names of a convention that is not ours, and changes",
    "tools/a2a_transport.py": "its classes derive from those of a client that is not always there",
}
"""Modules under 60 lines with a single importer, each with the reason."""


def module_of(path: Path) -> str:
    return ".".join(["weft", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
        ".__init__"
    )


MODULES = {module_of(path): path for path in SOURCES}


def modules_imported_by(name: str, *, late: bool) -> frozenset[str]:
    """The modules of the package that a module imports; with `late`, inside functions too."""
    return _imports_of_module(name)[0] | (modules_imported_late_by(name) if late else frozenset())


def modules_imported_late_by(name: str) -> frozenset[str]:
    """The modules of the package that a module imports inside functions."""
    return _imports_of_module(name)[1]


@cache
def _imports_of_module(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The modules of the package that a module imports: at its top, and inside functions."""
    imported: tuple[set[str], set[str]] = (set(), set())

    def visit(statements: Iterable[ast.AST], late: bool) -> None:
        for one in statements:
            inner = late
            match one:
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    visit(one.orelse, late)
                    continue
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    inner = True
                case ast.Import():
                    imported[late].update(alias.name for alias in one.names)
                case ast.ImportFrom(module=str(module)):
                    full = [f"{module}.{alias.name}" for alias in one.names]
                    imported[late].update(each if each in MODULES else module for each in full)
                case _:
                    pass
            for field in BLOCKS:
                visit(getattr(one, field, ()), inner)

    visit(tree_of(MODULES[name]).body, False)
    top, inside = ((each & MODULES.keys()) - {name} for each in imported)
    return frozenset(top), frozenset(inside)


def circles(*, late: bool) -> set[tuple[str, ...]]:
    """Modules that import each other, directly or by way of others."""
    reached: dict[str, set[str]] = {}
    for name in MODULES:
        seen: set[str] = set()
        waiting = [*modules_imported_by(name, late=late)]
        while waiting:
            if (one := waiting.pop()) not in seen:
                seen.add(one)
                waiting += modules_imported_by(one, late=late)
        reached[name] = seen
    return {
        tuple(sorted(other for other in seen if name in reached[other]))
        for name, seen in reached.items()
        if name in seen
    }


def test_every_room_has_a_folder_of_tests() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in Path(__file__).parent.glob("*/__init__.py")}
    # codes are tested with the rules that report them
    assert rooms - folders == {"codes"}, "make tests/<room> with an __init__.py"


@pytest.mark.parametrize("path", sorted((ROOT / "bench").glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_names_nothing_that_is_gone(path: Path) -> None:
    """Nothing else would see it: the types of a benchmark are not checked, and few are run here."""
    tree = ast.parse(path.read_text("utf-8"))
    modules = dict[str, ModuleType]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("weft", "tests")):
            module = import_module(node.module or "")
            for name in node.names:
                if not hasattr(module, name.name):
                    import_module(f"{node.module}.{name.name}")
                found = getattr(module, name.name)
                if isinstance(found, ModuleType):
                    modules[name.asname or name.name] = found
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            assert module is None or hasattr(module, node.attr), f"line {node.lineno}: {node.attr}"


def test_every_group_of_benchmarks_has_a_measurement() -> None:
    tree = ast.parse((ROOT / "bench" / "run.py").read_text("utf-8"))
    groups = next(node.value for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    assert isinstance(groups, ast.Dict)
    for name in (one.id for one in groups.values if isinstance(one, ast.Name)):
        assert "def measure(" in (ROOT / "bench" / f"{name}.py").read_text("utf-8"), name


def test_no_small_module_has_a_single_importer() -> None:
    importers = Counter(one for name in MODULES for one in modules_imported_by(name, late=True))
    small = {
        name_of(path)
        for name, path in MODULES.items()
        if len(path.read_text("utf-8").splitlines()) < 60
        and importers[name] == 1
        and path.name not in ("__init__.py", "__main__.py")
    }
    assert small <= set(SMALL_CHAPTERS), "put it into the module that imports it"


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert not circles(late=False), "move what they share below them"


LATE_CIRCLES = {
    "declare": "an operator on any node makes a flow of it",
    "compiler": "a report writes itself as a page",
    "runtime": "a flow runs turns, and a tool of a turn may be a flow",
}
"""Rooms in which an import inside a function closes a circle, each with the reason."""


def test_imports_inside_functions_close_no_circle_without_a_reason() -> None:
    unexplained = {
        circle
        for circle in circles(late=True)
        if {name.split(".")[1] for name in circle} - LATE_CIRCLES.keys()
    }
    assert not unexplained, "move what they share below them, or give the reason in LATE_CIRCLES"


def test_an_import_inside_a_function_closes_a_circle_or_loads_more() -> None:
    """Where the module is loaded anyway, and may be, its import stands at the top of the file."""

    def reach(name: str, step: Callable[[str], AbstractSet[str]]) -> set[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            fresh = step(waiting.pop()) - seen
            seen |= fresh
            waiting += fresh
        return seen

    def loads(name: str) -> set[str]:
        """What Python runs for it: its imports, and every package that one of them is in."""
        named = {name, *modules_imported_by(name, late=False)}
        packages = {one.rsplit(".", up)[0] for one in named for up in range(1, one.count(".") + 1)}
        return ({*named} | packages) - {name}

    needless = {
        (name, one)
        for name in MODULES
        for one in modules_imported_late_by(name)
        if one in reach(name, loads)
        and name not in reach(one, lambda other: modules_imported_by(other, late=False))
    }
    assert not needless, "move the import to the top of the file"


TWO_CLASSES = {
    "Anthropic": "the dialect, and the model that speaks it",
    "Gemini": "the dialect, and the model that speaks it",
    "Span": "where a detector found something, and where a piece of a block came from",
    "Step": "a step of a flow, which users type, and a step of the pipeline in a report",
}
"""Names of two classes, each with the reason."""


def test_a_kind_is_named_with_the_right_article() -> None:
    """`describe_kind` and `with_article` know whether it is "a" or "an"."""
    wrong = [
        f"{name_of(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"\b[Aa]n? \{[^}]*__name__", line)
    ]
    assert not wrong


def test_one_class_name_is_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in statements_in(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name_of(path))
    twice = {
        name: files for name, files in homes.items() if len(files) > 1 and name not in TWO_CLASSES
    }
    assert not twice, "rename one, or give the reason in TWO_CLASSES"
