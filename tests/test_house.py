"""The rules of the house that no linter knows. Each of them can fail."""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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
    "interop/adk/",
    "tokens.py",
    "_token_tables.py",
)
PROVIDER_EXCEPTIONS = {
    "declare/config.py": "a hint shows how an option is written for one dialect",
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


@cache
def code_tokens(path: Path) -> list[str]:
    """The names and strings of a file: no comments, no docstrings."""
    text = path.read_text("utf-8")
    prose = {
        line
        for node in ast.walk(tree_of(path))
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
    for node in ast.walk(tree_of(path)):
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
    assert not unknown


def test_every_code_in_the_table_is_emitted() -> None:
    from weft.codes import CODES

    emitted = {
        code
        for path in SOURCES
        if name_of(path) != "codes.py"
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
        and (found := {token for token in code_tokens(path) if PROVIDER.search(token)})
    }
    assert set(named) == set(PROVIDER_EXCEPTIONS), named


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
    assert not silent


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


def test_a_command_line_without_its_packages_names_the_extra() -> None:
    code = "import sys; sys.modules['typer'] = None; from weft.__main__ import main; exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "  hint: pip install 'weft[cli]'"
