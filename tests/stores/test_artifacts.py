"""Artifacts: one suite for both stores, and what must not happen on a disk."""
# ruff: noqa: ASYNC240 (the files are small, and nothing else runs)

import asyncio
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Part
from weft.content import Blob, media_part, result_part
from weft.errors import SessionError, StoreError
from weft.session import ArtifactStore
from weft.stores.artifacts import (
    LONGEST,
    FileArtifacts,
    MemoryArtifacts,
    file_name,
    is_cut,
    text_of,
)

ADA = ("app", "ada", "s1")

NAMES = [
    "report.pdf",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    ".hidden",
    "trailing.",
    "a/b\\c",
    "C:\\x",
    "nul\0byte",
    "con",
    "COM1.txt",
    "lpt9.tar.gz",
    "Report",
    "report",
    "ünï © 🙂",
    "half \ud83d",
    " ",
    "%2e%2e",
    "%",
    "%%",
    "0.json",
    "name.json",
    "x" * 5000,
    "x" * 4999 + "y",
    "🙂" * 300,
    "user:",
    "user:../x",
    "new\nline",
]


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    return MemoryArtifacts() if request.param == "memory" else FileArtifacts(tmp_path / "root")


async def test_versions_count_from_zero(store: ArtifactStore) -> None:
    assert [await store.save(*ADA, "a", Part(text=f"{n}")) for n in range(12)] == list(range(12))
    assert await store.load(*ADA, "a") == Part(text="11")
    assert await store.load(*ADA, "a", 0) == Part(text="0")
    assert await store.load(*ADA, "a", version=9) == Part(text="9")
    assert await store.versions(*ADA, "a") == list(range(12))


async def test_what_is_not_there_is_none(store: ArtifactStore) -> None:
    assert await store.load(*ADA, "a") is None
    assert await store.versions(*ADA, "a") == []
    assert await store.names(*ADA) == []
    await store.delete(*ADA, "a")
    await store.save(*ADA, "a", Part(text="0"))
    for version in (1, -1, 99):
        assert await store.load(*ADA, "a", version) is None


async def test_any_part_comes_back_as_it_was(store: ArtifactStore) -> None:
    parts = [
        media_part("image/png", b"\x89PNG" * 1000),
        Part(inline_data=Blob(mime_type="text/csv", data="aGk=", display_name="a.csv")),
        Part(text="half an emoji \ud83d, and a whole 🙂"),
        result_part("look", {"a": [1, None, 2**70]}),
    ]
    for version, part in enumerate(parts):
        assert await store.save(*ADA, "a", part) == version
        assert await store.load(*ADA, "a") == part


async def test_artifacts_belong_to_their_session_or_user(store: ArtifactStore) -> None:
    await store.save(*ADA, "own", Part(text="own"))
    await store.save(*ADA, "user:shared", Part(text="shared"))
    other_session, other_user, other_app = (
        ("app", "ada", "s2"),
        ("app", "bob", "s1"),
        ("b", "ada", "s1"),
    )
    assert await store.names(*ADA) == ["own", "user:shared"]
    assert await store.names(*other_session) == ["user:shared"]
    assert await store.load(*other_session, "user:shared") == Part(text="shared")
    assert await store.load(*other_session, "own") is None
    assert await store.save(*other_session, "user:shared", Part(text="newer")) == 1
    assert await store.load(*ADA, "user:shared") == Part(text="newer")
    for other in (other_user, other_app):
        assert await store.names(*other) == []
        assert await store.load(*other, "user:shared") is None


async def test_deleting_forgets_all_versions_of_one_artifact(store: ArtifactStore) -> None:
    for name in ("a", "a", "b"):
        await store.save(*ADA, name, Part(text=name))
    await store.delete(*ADA, "a")
    assert await store.names(*ADA) == ["b"]
    assert await store.load(*ADA, "a") is None
    assert await store.save(*ADA, "a", Part(text="anew")) == 0


async def test_every_name_is_a_name_of_its_own(store: ArtifactStore) -> None:
    for name in NAMES:
        assert await store.save(*ADA, name, Part(text=name[:100])) == 0, name
    assert await store.names(*ADA) == sorted(NAMES)
    for name in NAMES:
        assert await store.load(*ADA, name) == Part(text=name[:100])
        assert await store.versions(*ADA, name) == [0]


async def test_every_owner_is_an_owner_of_its_own(store: ArtifactStore) -> None:
    owners = [*NAMES, ""]
    for owner in owners:
        assert await store.save(owner, "u", "s", "a", Part(text=owner[:100])) == 0, owner
        assert await store.save("app", owner, "s", "a", Part(text=owner[:100])) == 0, owner
        assert await store.save("app", "u", owner, "a", Part(text=owner[:100])) == 0, owner
    for owner in owners:
        assert await store.load("app", "u", owner, "a") == Part(text=owner[:100])


async def test_an_empty_name_is_refused(store: ArtifactStore) -> None:
    for use in (
        store.save(*ADA, "", Part(text="x")),
        store.load(*ADA, ""),
        store.versions(*ADA, ""),
        store.delete(*ADA, ""),
    ):
        with pytest.raises(StoreError, match="'' is not a name"):
            await use


async def test_what_is_no_part_is_refused(store: ArtifactStore) -> None:
    bad: list[Part] = [
        "text",  # type: ignore[list-item]
        result_part("f", {"k": {1}}),  # type: ignore[dict-item]
        Part(text="x", thought_signature=3),  # type: ignore[arg-type]
    ]
    for part in bad:
        with pytest.raises(SessionError):
            await store.save(*ADA, "a", part)
    assert await store.names(*ADA) == []


async def test_of_many_writers_each_gets_a_version_of_its_own(
    store: ArtifactStore, tmp_path: Path
) -> None:
    other = FileArtifacts(tmp_path / "root") if isinstance(store, FileArtifacts) else store
    versions = await asyncio.gather(
        *(each.save(*ADA, "a", Part(text=f"{n}")) for n in range(20) for each in (store, other))
    )
    assert sorted(versions) == list(range(40))
    texts = [(await store.load(*ADA, "a", version)) for version in range(40)]
    assert sorted(int(part.text or "") for part in texts if part) == sorted([*range(20)] * 2)


async def test_nothing_is_written_outside_the_root(tmp_path: Path) -> None:
    store = FileArtifacts(tmp_path / "a" / "root")
    for name in NAMES:
        await store.save(name, name, name, name, Part(text="x"))
        await store.delete(name, name, name, name)
        await store.save(name, name, name, name, Part(text="x"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["root"]


@pytest.mark.parametrize("depth", range(1, 6))
async def test_a_link_inside_the_root_is_not_followed(tmp_path: Path, depth: int) -> None:
    store, outside = FileArtifacts(tmp_path / "root"), tmp_path / "outside"
    await store.save(*ADA, "a", Part(text="x"))
    place = tmp_path / "root"
    for step in ("app", "ada", "sessions", "s1", "a")[:depth]:
        place /= step
    place.rename(outside)
    place.symlink_to(outside, target_is_directory=True)
    before = sorted(outside.rglob("*"))
    for use in (
        store.save(*ADA, "a", Part(text="y")),
        store.load(*ADA, "a"),
        store.versions(*ADA, "a"),
        store.delete(*ADA, "a"),
    ):
        with pytest.raises(StoreError, match="a link stands where") as caught:
            await use
        assert caught.value.where == str(place)
    assert sorted(outside.rglob("*")) == before


async def test_a_link_in_place_of_a_version_is_not_followed(tmp_path: Path) -> None:
    store = FileArtifacts(tmp_path / "root")
    await store.save(*ADA, "a", Part(text="x"))
    secret = tmp_path / "secret"
    secret.write_text('{"text":"secret"}')
    folder = tmp_path / "root" / "app" / "ada" / "sessions" / "s1" / "a"
    (folder / "1.json").symlink_to(secret)
    assert await store.load(*ADA, "a", 1) is None
    assert await store.versions(*ADA, "a") == [0]
    assert await store.save(*ADA, "a", Part(text="y")) == 2
    assert secret.read_text() == '{"text":"secret"}'


async def test_a_version_that_was_never_finished_is_not_there(tmp_path: Path) -> None:
    store = FileArtifacts(tmp_path)
    await store.save(*ADA, "a", Part(text="0"))
    folder = tmp_path / "app" / "ada" / "sessions" / "s1" / "a"
    (folder / "1.json").touch()
    (folder / ".0123456789abcdef").write_text("half of it")
    assert await store.versions(*ADA, "a") == [0]
    assert await store.load(*ADA, "a") == Part(text="0")
    assert await store.load(*ADA, "a", 1) is None
    assert await store.save(*ADA, "a", Part(text="2")) == 2
    assert await store.names(*ADA) == ["a"]


@pytest.mark.parametrize("moment", ["fsync", "link"])
async def test_a_writer_that_dies_at_any_moment_leaves_its_number_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    store = FileArtifacts(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, moment, die)
        with pytest.raises(Killed):
            await store.save(*ADA, "a", Part(text="0"))
    assert await store.save(*ADA, "a", Part(text="0")) == 0
    assert await store.versions(*ADA, "a") == [0]


async def test_where_the_file_system_has_no_links_each_writer_gets_a_version_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store = FileArtifacts(tmp_path)
    texts = [str(number) for number in range(8)]
    numbers = await asyncio.gather(*(store.save(*ADA, "a", Part(text=one)) for one in texts))
    assert sorted(numbers) == [*range(8)]
    loaded = {number: await store.load(*ADA, "a", number) for number in numbers}
    assert loaded == {n: Part(text=one) for n, one in zip(numbers, texts, strict=True)}
    folder = tmp_path / "app" / "ada" / "sessions" / "s1" / "a"
    assert sorted(one.name for one in folder.iterdir()) == [f"{n}.json" for n in range(8)]


async def test_a_file_changed_by_hand_is_named(tmp_path: Path) -> None:
    store = FileArtifacts(tmp_path)
    await store.save(*ADA, "a", Part(text="0"))
    file = tmp_path / "app" / "ada" / "sessions" / "s1" / "a" / "0.json"
    file.write_text("{broken")
    with pytest.raises(StoreError, match="cannot be read") as caught:
        await store.load(*ADA, "a")
    assert caught.value.where == str(file)


async def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = FileArtifacts(tmp_path / "file" / "root")
    with pytest.raises(StoreError, match="cannot be saved") as caught:
        await store.save(*ADA, "a", Part(text="0"))
    assert "writable" in caught.value.hint
    assert await store.load(*ADA, "a") is None


async def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    store = FileArtifacts(tmp_path)
    for _ in range(3):
        await store.save(*ADA, "a", Part(text="0"))
    await store.delete(*ADA, "a")
    await store.save(*ADA, "b", Part(text="0"))
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert files == ["0.json"]


@given(st.text(st.characters(), max_size=60), st.text(st.characters(), max_size=60))
def test_file_names_are_legal_and_lead_back(text: str, other: str) -> None:
    name = file_name(text)
    assert name.isascii()
    assert name == name.lower()
    assert 0 < len(name) <= 255
    assert not set(name) & set('/\\:*?"<>|\0 ')
    assert not name.startswith(".")
    assert not name.endswith(".")
    assert is_cut(name) or text_of(name) == text
    assert (name == file_name(other)) == (text == other)


def test_a_long_text_keeps_its_beginning() -> None:
    name = file_name("report-" * 100)
    assert len(name) <= LONGEST
    assert name.startswith("report-report-")
    assert is_cut(name)
    assert name != file_name("report-" * 101)


@pytest.mark.skipif(os.name == "nt", reason="modes mean nothing there")
async def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = FileArtifacts(tmp_path / "link")
    await store.save(*ADA, "a", Part(text="0"))
    assert await store.load(*ADA, "a") == Part(text="0")
