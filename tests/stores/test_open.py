"""Stores by their address."""

from pathlib import Path

import pytest

from tests.stores.build import KEY
from weft.errors import UsageError
from weft.session import MemoryStore
from weft.stores import open_artifacts, open_store
from weft.stores.artifacts import FileArtifacts, MemoryArtifacts
from weft.stores.postgres import PostgresStore
from weft.stores.sqlite import SqliteStore


def test_an_address_opens_its_store() -> None:
    assert isinstance(open_store("memory://"), MemoryStore)
    assert isinstance(open_store("sqlite:///weft.db"), SqliteStore)
    assert isinstance(open_store("postgresql://host/db"), PostgresStore)
    assert isinstance(open_store("postgres://host/db"), PostgresStore)


def test_a_store_passes_through() -> None:
    store, artifacts = MemoryStore(), MemoryArtifacts()
    assert open_store(store) is store
    assert open_artifacts(artifacts) is artifacts


async def test_a_path_is_relative_or_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = open_store("sqlite:///weft.db")
    monkeypatch.chdir("/")
    await relative.create(KEY)
    absolute = open_store(f"sqlite:///{tmp_path}/weft.db")
    assert await absolute.get(KEY) is not None
    await relative.close()
    await absolute.close()


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("sqlite://", "sqlite:///weft.db"),
        ("sqlite:///", "sqlite:///weft.db"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://weft.db", "sqlite:///weft.db"),
        ("sqlite:///weft.db?timeout=5", "SqliteStore(path, timeout=...)"),
        (":memory:", "did you mean memory://?"),
        ("memory", "did you mean memory://?"),
        ("sqlite:weft.db", "did you mean sqlite:///weft.db?"),
        ("sqlite+aiosqlite:///weft.db", "did you mean sqlite:///weft.db?"),
        ("postgresql+asyncpg://user@host/db", "did you mean postgresql://user@host/database?"),
        ("weft.db", "sqlite:///weft.db"),
        ("mysql://host/db", "valid forms: memory://, sqlite:///weft.db, postgresql://"),
        ("", "valid forms: memory://"),
    ],
)
def test_an_address_that_is_none_says_what_to_write(address: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(address)
    shown = address.replace("user@", "...@")  # no login in an error
    assert f"`{shown}`" in caught.value.message
    assert hint in caught.value.hint


async def test_artifacts_open_by_address_or_path(tmp_path: Path) -> None:
    assert isinstance(open_artifacts("memory://"), MemoryArtifacts)
    assert isinstance(open_artifacts(tmp_path), FileArtifacts)
    from weft import Part

    folder = tmp_path / "a b"
    await open_artifacts(f"file://{tmp_path}/a%20b").save("a", "u", "s", "n", Part(text="x"))
    assert await open_artifacts(folder).load("a", "u", "s", "n") == Part(text="x")


@pytest.mark.parametrize("address", ["s3://bucket", "artifacts", "file:", "file://host/x"])
def test_an_address_of_no_artifacts_says_what_to_write(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of an artifact store") as caught:
        open_artifacts(address)
    assert "file:///directory" in caught.value.hint


@pytest.mark.parametrize("wrong", [3, {"a": 1}, MemoryArtifacts])
def test_what_keeps_no_artifacts_is_refused_where_it_is_passed(wrong: object) -> None:
    with pytest.raises(UsageError, match="is not an artifact store") as caught:
        open_artifacts(wrong)  # type: ignore[arg-type]
    assert caught.value.where == "artifacts"
    assert "file:///directory" in caught.value.hint
