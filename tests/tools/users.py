"""Another user, for tests that run as root: a Python and an environment that everybody can use."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

NOBODY = 65534
ROOT = Path(__file__).parents[2]


class Person(NamedTuple):
    """Somebody who starts programs: as which user, with which Python."""

    name: str
    python: str
    uid: int | None
    environment: dict[str, str]

    def start(self, *arguments: str, **options: object) -> "subprocess.Popen[bytes]":
        """Start Python with these arguments."""
        user = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            [self.python, *arguments], env=self.environment, cwd="/", **user, **options
        )

    def run(self, *arguments: str, given: bytes = b"", timeout: float = 600) -> bytes:
        """What Python prints that is started with these arguments."""
        process = self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        output, _ = process.communicate(given, timeout=timeout)
        assert process.returncode == 0
        return output


def skip_without_sandbox(person: Person | None = None) -> None:
    """Skip a test of full Python, loudly, where it cannot be kept apart for somebody."""
    told = (person or myself()).run(
        "-c",
        "from weft.tools.cpython import abilities\n"
        "print(*[f'{one.name}: {one.words}' for one in abilities(None) if not one.can], sep='\\n')",
    )
    if missing := told.decode().strip():
        pytest.skip(f"NO SANDBOX HERE, full Python is not tested: {missing}")


def myself() -> Person:
    """The user that runs the tests."""
    return Person("root" if os.geteuid() == 0 else "plain", sys.executable, None, _environment())


@contextmanager
def plain_user() -> Iterator[Person | str]:
    """A user without rights, or why there is none here."""
    if os.geteuid() != 0:
        yield myself()
        return
    with tempfile.TemporaryDirectory(prefix="weft-python-") as folder:
        os.chmod(folder, 0o755)
        person = Person("plain", _python_in(Path(folder)), NOBODY, _environment())
        try:
            person.run("-c", "import weft")
        except (AssertionError, OSError) as error:
            yield f"a user without rights cannot run Weft from {ROOT}: {error}"
            return
        yield person


def _python_in(folder: Path) -> str:
    """The interpreter in a folder that everybody can read; where it is such already, as it is."""
    program = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    seen = subprocess.run(
        [program, "-c", "import asyncio"], user=NOBODY, group=NOBODY, check=False,
        capture_output=True, cwd="/",
    ) if all(os.stat(one).st_mode & 0o001 for one in program.parents) else None  # fmt: skip
    if seen is not None and seen.returncode == 0:
        return str(program)

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)  # quick, and takes no room
        except OSError:
            shutil.copy2(source, target)

    # with its compiled modules: nobody may write them there, and each program would compile anew
    skipped = shutil.ignore_patterns("site-packages", "test", "*.a", "idlelib")
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, folder / "lib" / library.name, copy_function=link, ignore=skipped)
    for shared in library.parent.glob("libpython*.so*"):
        link(str(shared), str(folder / "lib" / shared.name))
    (folder / "bin").mkdir()
    link(str(program), str(folder / "bin" / program.name))
    return str(folder / "bin" / program.name)


def _environment() -> dict[str, str]:
    """What a process needs to import Weft and the tests, and a key that must not leak."""
    paths = [str(ROOT / "src"), str(ROOT), sysconfig.get_path("purelib")]
    monty = Path(sysconfig.get_path("scripts")) / "monty"
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MONTY_BIN": str(monty),
        "SECRET_API_KEY": "sk-planted-4711",
    }
