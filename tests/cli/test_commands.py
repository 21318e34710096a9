"""`weft rule`, `weft doctor`, and the command itself."""

import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

import weft as library
from tests.cli.run import environment, refusal, weft
from weft.cli.commands import COMMANDS, CommandGroup
from weft.cli.help import CORE
from weft.codes import CODES
from weft.testing import ScriptedModel
from weft.tools.cpython import abilities

ROOT = Path(__file__).parents[2]


def test_the_version_is_told(tmp_path: Path) -> None:
    done = weft(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"weft {library.__version__}\n")


def test_help_lists_the_commands(tmp_path: Path) -> None:
    done = weft(tmp_path, "--help")
    assert done.returncode == 0
    commands = {"run", "chat", "sessions", "compile", "explain", "rule", "doctor"}
    assert commands <= set(done.stdout.split())
    bare = weft(tmp_path)
    assert (bare.returncode, bare.stdout) == (2, done.stdout)


def test_the_page_of_the_command_line_shows_every_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for one in COMMANDS:
        assert f"weft {one.name}" in page, "docs/cli.md shows every command"
        for below in one.commands if isinstance(one, CommandGroup) else ():
            shown = (f"weft {one.name} {below.name}", f"`{below.name}`")
            assert any(form in page for form in shown), f"{one.name} {below.name} is not there"


def test_the_table_has_every_command_and_none_without_code() -> None:
    groups = [one.commands if isinstance(one, CommandGroup) else (one,) for one in COMMANDS]
    listed = [one.code for group in groups for one in group]
    for code in listed:
        assert callable(resolve_name(f"weft.cli.{code}"))
    written = {
        f"{path.stem}:{name}"
        for path in (ROOT / "src" / "weft" / "cli").glob("*.py")
        for name in re.findall(
            r"^(?:async )?def ([a-z]\w*_command)\(", path.read_text("utf-8"), re.MULTILINE
        )
    }
    assert written == set(listed), "the table is in cli/commands.py"


def test_an_unknown_command_names_the_nearest(tmp_path: Path) -> None:
    said, hint = refusal(weft(tmp_path, "explan"))
    assert "'explan'" in said
    assert "explain" in said
    assert hint == "weft --help"


def test_every_code_has_a_page(tmp_path: Path) -> None:
    assert all(code.page.strip() for code in CODES.values())
    code = next(iter(CODES))  # one is enough to see that the command works
    for spelling in (code, code.lower(), code.removeprefix("WEFT")):
        done = weft(tmp_path, "rule", spelling)
        assert done.returncode == 0
        assert done.stdout.startswith(f"{code}: {CODES[code].title} ({CODES[code].severity})\n")
        assert CODES[code].page.strip() in done.stdout


def test_without_a_code_all_are_listed(tmp_path: Path) -> None:
    done = weft(tmp_path, "rule")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(CODES)


@pytest.mark.parametrize(
    ("code", "near"), [("WEFT100", "WEFT101"), ("999", None), ("WEFT1O1", "WEFT101"), ("", None)]
)
def test_an_unknown_code_names_the_nearest(tmp_path: Path, code: str, near: str | None) -> None:
    said, hint = refusal(weft(tmp_path, "rule", code))
    assert said == f"rule: there is no code `{code}`"
    assert (near or "the nearest is WEFT") in hint


def test_the_doctor_finds_this_machine_well(tmp_path: Path) -> None:
    done = weft(tmp_path, "doctor")
    assert done.returncode == 0, done.stdout
    for name in CORE:
        assert re.search(rf"ok +{name} +\d", done.stdout)
    assert re.search(r"ok +o200k +o200k finds \d+ tokens", done.stdout)
    assert re.search(r"ok +gemma +gemma3 finds \d+ tokens", done.stdout)
    assert re.search(r"ok +list +\d,\d+ models of \d+ sellers, from genai-prices \d", done.stdout)
    assert "compiling and explaining need none" in done.stdout


def test_the_doctor_says_where_code_can_run(tmp_path: Path) -> None:
    done = weft(tmp_path, "doctor")
    assert re.search(r"ok +interpreter +pydantic-monty \d", done.stdout)
    can = all(one.can for one in abilities(None))
    assert bool(re.search(r"ok +capabilities +none, and none can be had", done.stdout)) == can
    (tmp_path / "sitecustomize.py").write_text(
        "import shutil\nreal = shutil.which\n"
        "shutil.which = lambda name, *rest: None if name == 'bwrap' else real(name, *rest)\n"
    )
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    done = weft(tmp_path, "doctor", PYTHONPATH=path)
    assert done.returncode == 0
    words = r"absent +bwrap +`bwrap` is not installed: no code is run\n +apt-get install bubblewrap"
    assert re.search(words, done.stdout)


def test_the_doctor_says_which_extras_are_absent(tmp_path: Path) -> None:
    needs = [f"no-such-package; extra == '{extra}'" for extra in ("serve", "dev")]
    needs.append("typer; extra == 'cli'")
    (tmp_path / "sitecustomize.py").write_text(
        f"import importlib.metadata as m\nm.requires = lambda name: {needs!r}\n"
    )
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    done = weft(tmp_path, "doctor", PYTHONPATH=path)
    assert done.returncode == 0
    assert re.search(r"ok +cli +present", done.stdout)
    assert re.search(r"absent +serve +missing: no-such-package\n +pip install", done.stdout)
    assert not re.search(r"absent +dev", done.stdout), "it is for work on Weft itself"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text('from weft import Agent\n\nbot = Agent("bot")\n')
    bot = library.Agent("bot", model=ScriptedModel(["Hi"]))
    library.run_sync(bot, "Hello", store=f"sqlite:///{tmp_path}/weft.db", session_id="s")
    for command in (
        ("graph", "bot:bot", "-o", "no/x.svg"),
        ("sessions", "export", "s", "-o", "no/x.json"),
        ("store", "backup", "-o", "no/x.db"),
    ):
        said, hint = refusal(weft(tmp_path, *command))
        assert (said, hint) == ("--output: there is no folder no", "make it: mkdir -p no")


@pytest.mark.parametrize("command", ["show", "retry", "cancel"])
def test_a_turn_is_named(tmp_path: Path, command: str) -> None:
    said, hint = refusal(weft(tmp_path, "turns", command))
    assert said == f"turns {command}: missing argument 'turn'"
    assert hint == f"weft turns {command} --help"


def test_the_doctor_tells_names_of_keys_and_never_values(tmp_path: Path) -> None:
    done = weft(tmp_path, "doctor", SOME_API_KEY="sk-very-secret", EMPTY_API_KEY="")
    assert re.search(r"ok +SOME_API_KEY +set", done.stdout)
    assert "secret" not in done.stdout + done.stderr
    assert "EMPTY_API_KEY" not in done.stdout


def test_the_doctor_finds_a_missing_dependency(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m\nreal = m.version\n"
        "def version(name):\n"
        "    if name == 'splintr-rs': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
    )
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    done = weft(tmp_path, "doctor", PYTHONPATH=path)
    assert done.returncode == 1
    assert re.search(r"problem +splintr-rs +missing\n +pip install splintr-rs", done.stdout)
    assert done.stdout.endswith("see the lines marked `problem`\n")


def test_the_doctor_checks_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert tuple(re.split(r"[^\w-]", need)[0] for need in project["dependencies"]) == CORE


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "compile", "slow:x"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # whoever runs the tests in the background may have told them not to hear it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"here\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=600)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, (b"", b""))


def test_help_loads_nothing_that_takes_long(tmp_path: Path) -> None:
    script = (
        "import sys; from weft.cli import main; main(['--help']);"
        "heavy = {'rich', 'splintr', 'msgspec', 'asyncio', 'weft.compiler', 'weft.runtime'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment(), capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_command_that_shows_no_table_loads_no_rich(tmp_path: Path) -> None:
    script = (
        "import sys; from weft.cli import main; main(['rule', 'WEFT101']);"
        "sys.exit('rich' in sys.modules or 'splintr' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment())
    assert done.returncode == 0
