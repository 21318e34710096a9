"""Every page of the documentation does what it shows.

A page is read from top to bottom, in an empty folder, as a reader would type it:

- a fence with `title="trips.py"` is written to that file first;
- a `python` fence is executed, and sees the names of the fences above it; where it has `#>`
  comments, they must be what it prints;
- in a `console` or `bash` fence each `$ weft ...` line is run, and the lines under it must be its
  output (a line `...` stands for any lines; no lines, no comparison). It must exit with 0; where
  the last command of a fence should not, the fence says `exit="1"`.

A fence that cannot run says `test="skip" reason="..."`. One that says `needs="module"` runs where
that module is installed.
"""

import ast
import asyncio
import difflib
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample

import weft
from tests.support.forks import run_forked
from weft.codes import CODES

ROOT = Path(__file__).parents[1]
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()
]
SETTINGS = {"title", "test", "reason", "exit", "needs"}
OPENING = re.compile(r"^( *)(`{3,}) *([\w-]*)(.*)$")
CLOSING = re.compile(r"`{3,}")
SETTING = re.compile(r'(\w+)="([^"]*)"')
QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*"|""")
SHELL_SYNTAX = re.compile(r"[|&;<>$`*?~#\\\n]|^\w+=")
"""What only a shell understands, outside quotes."""


@dataclass(frozen=True)
class Fence:
    """One fenced block of a page: `start` and `end` are its offsets in the page's text."""

    page: Path
    line: int
    language: str
    info: str
    indent: str
    text: str
    start: int
    end: int

    @property
    def settings(self) -> dict[str, str]:
        return dict(SETTING.findall(self.info))

    @property
    def says_skip(self) -> bool:
        return self.settings.get("test") == "skip"

    @property
    def skipped(self) -> bool:
        return self.says_skip or not _installed(self.settings.get("needs", ""))

    @property
    def lines(self) -> list[str]:
        return [line.removeprefix(self.indent) for line in self.text.splitlines()]

    @property
    def source(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def example(self) -> CodeExample:
        return CodeExample.create(
            self.source,
            path=self.page,
            start_line=self.line,
            start_index=self.start,
            end_index=self.end,
            prefix=f"{self.language}{self.info}",
            indent=len(self.indent),
        )

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _installed(module: str) -> bool:
    """Whether a module that a fence needs is there; it may need none."""
    try:
        return not module or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def fences(page: Path) -> Iterator[Fence]:
    """The fenced blocks of a page, in order.

    Not `pytest_examples.find_examples`: it loses its way after a fence inside a fence.
    """
    opening, line, start, offset = None, 0, 0, 0
    text = page.read_text("utf-8")
    for number, current in enumerate(text.splitlines(keepends=True), start=1):
        end, offset = offset, offset + len(current)
        if opening is None:
            opening, line, start = OPENING.match(current.rstrip()), number, offset
        elif CLOSING.fullmatch(current.strip()) and current.strip().startswith(opening[2]):
            indent, _, language, info = opening.groups()
            yield Fence(page, line, language, info, indent, text[start:end], start, end)
            opening = None
    if opening is not None:
        raise ValueError(f"{page}:{line}: the fence is never closed")


def commands(fence: Fence) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console fence, each with the output shown under it."""
    command, shown, more = "", list[str](), False
    for line in fence.lines:
        if more:
            command, more = f"{command}\n{line}", line.endswith("\\")
        elif line.startswith("$ "):
            if command:
                yield command, shown
            command, shown, more = line.removeprefix("$ "), [], line.endswith("\\")
        else:
            shown.append(line)
    if command:
        yield command, shown


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the output is what the page shows, `...` lines standing for any lines."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def tidy(lines: list[str]) -> list[str]:
    """Without trailing spaces and outer blank lines."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").splitlines()


def run_command(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader without keys would, stderr and stdout together."""
    reader = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and not name.startswith(("WEFT_", "COV_", "COVERAGE_"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), reader.get("PATH", "")])
    env = {**reader, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    if not SHELL_SYNTAX.search(QUOTED.sub("", command)):
        arguments = shlex.split(command)[1:]
        return run_forked(arguments, cwd=folder, env=env, script=True, merged=True)
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=600,
    )


def check_console(fence: Fence, folder: Path) -> None:
    """Run the `weft` commands of a fence and compare what they print."""
    pairs = list(commands(fence))
    for index, (command, shown) in enumerate(pairs):
        if not command.startswith("weft "):
            continue
        done = run_command(command, folder)
        expected, printed = tidy(shown), tidy(done.stdout.splitlines())
        if expected and not matches(expected, printed):
            diff = "\n".join(difflib.ndiff(expected, printed))
            pytest.fail(f"{fence}: `{command}` prints something else\n{diff}", pytrace=False)
        code = int(fence.settings.get("exit", "0")) if index == len(pairs) - 1 else 0
        if done.returncode != code:
            pytest.fail(
                f"{fence}: `{command}` exits with {done.returncode}, not {code}\n{done.stdout}",
                pytrace=False,
            )


def run_python(fence: Fence, run: EvalExample, names: dict[str, object]) -> None:
    """Execute a fence after those above it, and add its names to theirs."""
    if "#>" not in fence.source and "print(" not in fence.source:
        execute = run.run
    elif run.update_examples:
        execute = run.run_print_update
    else:
        execute = run.run_print_check
    printed = set[int]()

    def note(file: Path, frame: inspect.FrameInfo, _: Sequence[object]) -> bool:
        is_ours = file.samefile(frame.filename)
        if is_ours:
            printed.add(frame.lineno)
        return is_ours

    run.include_print = note
    try:
        names |= execute(fence.example, module_globals=names)
        if execute == run.run_print_check and (line := first_unprinted(fence.source, printed)):
            raise ValueError(f"line {fence.line + line} shows what was never printed")
        return
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        line, trace = fence.line, error.__traceback__
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(fence.page) else line
            trace = trace.tb_next
    # Outside the handler: pytest cannot print the traceback that pytest-examples makes up.
    pytest.fail(f"{fence.page.relative_to(ROOT)}:{line}: {problem}", pytrace=False)


def first_unprinted(source: str, printed: set[int]) -> int:
    """The first line of shown output that no print above it made, or 0.

    pytest-examples compares what was printed. It leaves output alone that stands under a print
    that never ran, as one that waits for an error which is no longer raised.
    """
    ended = dict[int, bool]()
    """The last line of each print, and whether it ran."""
    texts = set[int]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                ended[node.end_lineno or 0] = node.lineno in printed
            case ast.Expr(value=ast.Constant(value=str())):
                texts.add(node.lineno)
            case _:
                pass
    under = 0
    for number, line in enumerate(source.splitlines(), start=1):
        is_shown = line.lstrip().startswith("#>")
        if (is_shown and not ended.get(under)) or (number in texts and ended.get(under) is False):
            return number
        if not is_shown:
            under = number
    return 0


def test_output_under_a_print_that_never_ran_is_noticed() -> None:
    source = (
        "try:\n    f()\nexcept E:\n    print(\n        1\n    )\n    #> 1\nprint(2)\n#> 2\n#> 2\n"
    )
    assert first_unprinted(source, {4, 8}) == 0
    assert first_unprinted(source, {8}) == 7
    assert first_unprinted(source + "f()\n#> 3\n", {4, 8}) == 12
    assert first_unprinted('def f():\n    """Text."""\nprint(1)\n"""\n1\n"""\n', {3}) == 0
    assert first_unprinted('print(1)\n"""\n1\n"""\n', set()) == 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder; modules imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    _forget_modules_in(tmp_path.parent)  # another test may have left one of the same name
    yield tmp_path
    _forget_modules_in(tmp_path)
    _close_loop_left_open()


def _close_loop_left_open() -> None:
    """A library's `run_sync` keeps a loop in the thread for its next call."""
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.get_event_loop().close()
        asyncio.set_event_loop(None)


def _forget_modules_in(folder: Path) -> None:
    for name, module in sys.modules.copy().items():  # threads may import
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_shows(page: Path, folder: Path, eval_example: EvalExample) -> None:
    eval_example.set_config(line_length=100, target_version="py310")
    names: dict[str, object] = {}
    for fence in fences(page):
        if title := fence.settings.get("title"):
            target = folder / title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(fence.source, "utf-8")
        if fence.skipped:
            continue
        if fence.language == "python":
            run_python(fence, eval_example, names)
        elif fence.language in ("console", "bash"):
            check_console(fence, folder)


def test_no_python_block_hides_behind_another_spelling() -> None:
    hidden = [
        str(fence)
        for page in PAGES
        for fence in fences(page)
        if fence.language != "python"
        and f"{fence.language}{fence.info}".lstrip(" {.").startswith("py")
    ]
    assert not hidden, "write ```python, not py, pycon or {.py}"


def test_a_block_that_does_not_run_says_why() -> None:
    silent = [
        str(fence)
        for page in PAGES
        for fence in fences(page)
        if ("test" in fence.settings or "reason" in fence.settings)
        and not (fence.says_skip and len(fence.settings.get("reason", "").split()) >= 3)
    ]
    assert not silent, 'write test="skip" reason="..." with a reason of a few words'


def test_a_fence_has_only_settings_that_mean_something() -> None:
    misspelt = {
        str(fence): unknown
        for page in PAGES
        for fence in fences(page)
        if (unknown := fence.settings.keys() - SETTINGS)
    }
    assert not misspelt, f"the settings are: {', '.join(sorted(SETTINGS))}"


def test_the_readme_has_something_to_run() -> None:
    languages = {fence.language for fence in fences(ROOT / "README.md") if not fence.skipped}
    assert languages & {"python", "console"}


def test_the_index_leads_to_every_page_and_to_none_that_is_missing() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in _links(index)}
    pages = set((ROOT / "docs").rglob("*.md")) - {index}
    missing = sorted(page.name for page in pages - linked)
    assert not missing, "give them a row in docs/index.md"
    assert index.resolve() in {(ROOT / link).resolve() for link in _links(ROOT / "README.md")}


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    missing = [link for link in _links(page) if not (page.parent / link).exists()]
    assert not missing


def _links(page: Path) -> list[str]:
    """The files that a page links to."""
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    return [link for link in found if "://" not in link]


def test_what_is_to_be_installed_is_an_extra_that_exists() -> None:
    """Pages say how to install from a clone; `weft[...]` adds to what is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    sources = [*PAGES, *(ROOT / "src").rglob("*.py"), ROOT / "deploy" / "Dockerfile"]
    for source in sources:
        text = source.read_text("utf-8")
        for named in re.findall(r"""pip install[^\n]*?["'](?:weft|\.)\[([\w,-]+)\]""", text):
            assert set(named.split(",")) <= extras, f"{source}: {named}"
    assert project["readme"] == "README.md"
    for page in PAGES:
        # whoever lacks the command has no Weft yet, and no index has one
        assert not re.search(r"pip install [\"']weft\[cli", page.read_text("utf-8")), page


CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_has_versions_dates_and_the_usual_headings() -> None:
    page = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version), version
    assert versions[1].startswith(f"[{weft.__version__}]"), "the newest version is the package's"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == weft.__version__
    for part in page.split("\n## ")[1:]:
        headings = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert headings == [each for each in CHANGES if each in headings], "in this order, once"


def test_an_entry_of_the_changelog_is_one_line_and_names_codes_that_exist() -> None:
    page = (ROOT / "CHANGELOG.md").read_text("utf-8")
    entries = page[page.index("## [Unreleased]") :].splitlines()
    wrong = [line for line in entries if line and not line.startswith(("#", "- "))]
    assert not wrong, "an entry is one line"
    texts = [line for line in entries if line.startswith("- ")]
    assert len(texts) == len(set(texts)), "an entry is there once"
    assert set(re.findall(r"WEFT\d{3}", page)) <= set(CODES)


def test_contributing_draws_the_layers_as_they_are() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(one["layers"] for one in contract["contracts"] if one["id"] == "layers")
    real = [" | ".join(re.findall(r"\w+", layer)) for layer in layers]
    page = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = page[page.index("## Layers") : page.index("- From `compiler` down")]
    lines = [line.strip() for line in drawn.splitlines() if line.startswith("    ")]
    assert [re.split(r"  +", line)[0] for line in lines] == real, "as in pyproject.toml"


def test_contributing_names_files_and_commands_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = [path for path in re.findall(r"`((?:src|tests)/[\w/.]+)`", page) if "<" not in path]
    assert named
    assert not [path for path in named if not (ROOT / path).exists()]
    file = r"`((?:src|tests)/[\w/.]+\.py)`"
    for name, path in re.findall(rf"`([\w.]+)`,? (?:(?:in|of) |\(){file}", page):
        for word in name.removesuffix("_").split("."):
            assert word in (ROOT / path).read_text("utf-8"), f"{path} has no {name}"
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", page)) <= targets


def test_agents_lists_every_room_and_nothing_that_is_gone() -> None:
    page = (ROOT / "AGENTS.md").read_text("utf-8")
    table = page[page.index("## Rooms") : page.index("## Words")]
    rooms = {path.parent.name for path in (ROOT / "src" / "weft").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == rooms
    for name in re.findall(rf"`((?:{'|'.join(rooms)})/[\w/.]+)`", page):
        assert (ROOT / "src" / "weft" / name).exists(), name
