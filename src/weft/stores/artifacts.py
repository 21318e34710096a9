"""Artifacts in memory, and as files: a directory for each artifact, a file for each version."""

import asyncio
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, cast

import msgspec

from weft.content import Content, Part, require_content
from weft.errors import SessionError, StoreError
from weft.late import late_pattern
from weft.values import encode

if TYPE_CHECKING:
    from pathlib import Path

_parts = msgspec.json.Decoder(Part)


class MemoryArtifacts:
    """Artifacts in this process."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str | None, str], list[Part]] = {}
        self._lock = Lock()

    async def save(
        self, app_name: str, user_id: str, session_id: str, name: str, part: Part
    ) -> int:
        """Keep the part as the next version of the artifact; the first version is 0."""
        _encode_part(name, part)
        with self._lock:
            # two threads that save at once get two versions
            versions = self._versions.setdefault(_place(app_name, user_id, session_id, name), [])
            versions.append(part)
            return len(versions) - 1

    async def load(
        self, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None
    ) -> Part | None:
        """That version of the artifact, or the newest, or None."""
        versions = self._versions.get(_place(app_name, user_id, session_id, name), [])
        at = len(versions) - 1 if version is None else version
        return versions[at] if 0 <= at < len(versions) else None

    async def names(self, app_name: str, user_id: str, session_id: str) -> list[str]:
        """The names of the session's artifacts and of the user's, sorted."""
        return sorted(
            name
            for app, user, session, name in list(self._versions)
            if (app, user) == (app_name, user_id) and session in (None, session_id)
        )

    async def versions(self, app_name: str, user_id: str, session_id: str, name: str) -> list[int]:
        """The versions there are, oldest first."""
        return list(range(len(self._versions.get(_place(app_name, user_id, session_id, name), []))))

    async def delete(self, app_name: str, user_id: str, session_id: str, name: str) -> None:
        """Forget the artifact with all its versions."""
        with self._lock:
            self._versions.pop(_place(app_name, user_id, session_id, name), None)

    async def erase(self, app_name: str, user_id: str, session_id: str | None = None) -> int:
        """Delete the artifacts of a session, or all of a user; gives how many there were."""
        with self._lock:
            places = [
                place
                for place in self._versions
                if place[:2] == (app_name, user_id) and session_id in (None, place[2])
            ]
            for place in places:
                del self._versions[place]
            return len(places)


class FileArtifacts:
    """Artifacts as JSON files below `root`, which is made if it does not exist.

    A version is written next to its place and then linked there, so it is whole or absent, and of
    two writers each gets its own. Where the file system has no links, the place is claimed with an
    empty file first.
    """

    def __init__(self, root: "str | Path") -> None:
        from pathlib import Path  # artifacts in memory need none

        self._root = Path(os.path.abspath(root))

    async def save(
        self, app_name: str, user_id: str, session_id: str, name: str, part: Part
    ) -> int:
        """Keep the part as the next version of the artifact; the first version is 0."""
        data = _encode_part(name, part)
        place = _place(app_name, user_id, session_id, name)
        return await asyncio.to_thread(self._save, place, data)

    async def load(
        self, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None
    ) -> Part | None:
        """That version of the artifact, or the newest, or None."""
        place = _place(app_name, user_id, session_id, name)
        return await asyncio.to_thread(self._load, place, version)

    async def names(self, app_name: str, user_id: str, session_id: str) -> list[str]:
        """The names of the session's artifacts and of the user's, sorted."""
        own = await asyncio.to_thread(self._names, (app_name, user_id, session_id))
        shared = await asyncio.to_thread(self._names, (app_name, user_id, None))
        return sorted(own + shared)

    async def versions(self, app_name: str, user_id: str, session_id: str, name: str) -> list[int]:
        """The versions there are, oldest first."""
        place = _place(app_name, user_id, session_id, name)
        return await asyncio.to_thread(self._versions, place)

    async def delete(self, app_name: str, user_id: str, session_id: str, name: str) -> None:
        """Forget the artifact with all its versions."""
        await asyncio.to_thread(self._delete, _place(app_name, user_id, session_id, name))

    async def erase(self, app_name: str, user_id: str, session_id: str | None = None) -> int:
        """Delete the artifacts of a session, or all of a user; gives how many there were."""
        return await asyncio.to_thread(self._erase, app_name, user_id, session_id)

    def _erase(self, app_name: str, user_id: str, session_id: str | None) -> int:
        folder = self._folder((app_name, user_id, session_id))
        if session_id is None:  # that of the user's own artifacts, next to those of the sessions
            folder = folder.parent
        with _explaining(folder, "deleted"):
            # a folder with versions is one artifact
            count = sum(bool(_numbers(inner)) for inner in folder.rglob("*") if inner.is_dir())
            _remove(folder)
        return count

    def _save(self, place: tuple[str, str, str | None, str], data: bytes) -> int:
        folder = self._folder(place)
        with _explaining(folder, "saved"):
            folder.mkdir(parents=True, exist_ok=True)
            self._folder(place)  # again: somebody may have put a link there meanwhile
            if is_cut(folder.name):
                # the folder's name has only a part of the artifact's: the whole stands in a file
                _write(folder / "name.json", json.dumps(place[3]).encode())
            version = max(_numbers(folder), default=-1) + 1
            with _put_on_disk(folder, data) as written:
                # another writer may have taken the number since the folder was listed
                while not _link(written, folder / f"{version}.json"):
                    version += 1
        return version

    def _load(self, place: tuple[str, str, str | None, str], version: int | None) -> Part | None:
        folder = self._folder(place)
        with _explaining(folder, "loaded"):
            if version is None:
                version = max(_list_written(folder), default=-1)
            file = folder / f"{version}.json"
            # a link could lead out of the root, to a file of somebody else
            if file.is_symlink() or not file.is_file():
                return None
            data = file.read_bytes()
        if not data:
            # claimed by a writer that is not done, or died
            return None
        try:
            return _decode_part(data)
        except ValueError as error:
            raise StoreError(
                f"the artifact cannot be read: {error}",
                where=str(file),
                hint="the file was changed by hand; restore it from a backup, or delete it",
            ) from None

    def _names(self, owner: tuple[str, str, str | None]) -> list[str]:
        folder = self._folder(owner)
        with _explaining(folder, "listed"):
            return [
                _name_of(inner)
                for inner in (folder.iterdir() if folder.is_dir() else ())
                if not inner.name.startswith(".")
                and not inner.is_symlink()
                and _list_written(inner)
            ]

    def _versions(self, place: tuple[str, str, str | None, str]) -> list[int]:
        folder = self._folder(place)
        with _explaining(folder, "listed"):
            return sorted(_list_written(folder))

    def _delete(self, place: tuple[str, str, str | None, str]) -> None:
        folder = self._folder(place)
        with _explaining(folder, "deleted"):
            _remove(folder)

    def _folder(self, place: tuple[str | None, ...]) -> "Path":
        """The folder of an artifact, or of all artifacts of an owner, reached by no link."""
        app_name, user_id, session_id, *name = (*place,)
        owner = ["user"] if session_id is None else ["sessions", file_name(session_id)]
        folder = self._root
        steps = [app_name or "", user_id or ""]
        for step in [*map(file_name, steps), *owner, *(file_name(part or "") for part in name)]:
            folder /= step
            if folder.is_symlink():
                raise StoreError(
                    "a link stands where a directory of artifacts belongs",
                    where=str(folder),
                    hint="remove the link; only the root itself may be one",
                )
        return folder


def _remove(folder: "Path") -> None:
    """Delete a folder; it is moved away first, so that nobody sees half of it."""
    import shutil  # a first turn deletes nothing

    gone = folder.with_name(f".{os.urandom(8).hex()}")
    with suppress(FileNotFoundError):
        folder.rename(gone)
        shutil.rmtree(gone)


def _place(
    app_name: str, user_id: str, session_id: str, name: str
) -> tuple[str, str, str | None, str]:
    """Whom the artifact belongs to, and its name; one that starts with `user:` is the user's."""
    if not isinstance(cast("object", name), str) or not name:
        raise StoreError(
            f"{name!r} is not a name", where="artifact", hint='name it, for example "report.pdf"'
        )
    return app_name, user_id, None if name.startswith("user:") else session_id, name


def _encode_part(name: str, part: Part) -> bytes:
    """The part as JSON, once it is sure that it can be read again."""
    where = f"artifact {name}"
    # what cannot be read again is refused when it is saved, not when it is missed
    require_content(Content(parts=(part,)), where=where)
    data = encode(part, where=where)
    try:
        _decode_part(data)
    except ValueError as error:
        raise SessionError(f"this is not a part: {error}", where=where) from None
    return data


def _decode_part(data: bytes) -> Part:
    try:
        return _parts.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # lone surrogates, which the fast reader does not know
        return msgspec.convert(json.loads(data), Part)


def _numbers(folder: "Path") -> list[int]:
    """The versions that are there or claimed."""
    files = folder.glob("*.json") if folder.is_dir() else ()
    return [int(file.stem) for file in files if file.stem.isdecimal() and file.stem.isascii()]


def _list_written(folder: "Path") -> list[int]:
    """The versions that are there."""
    return [
        version
        for version in _numbers(folder)
        if not (file := folder / f"{version}.json").is_symlink() and file.stat().st_size
    ]


def _name_of(folder: "Path") -> str:
    if not is_cut(folder.name):
        return text_of(folder.name)
    return str(json.loads((folder / "name.json").read_bytes()))


def _link(written: "Path", file: "Path") -> bool:
    """Give what was written its place; whether that was free."""
    try:
        os.link(written, file)
    except FileExistsError:
        return False
    except OSError:  # no links here; whatever else is wrong is found again
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            return False
        written.replace(file)
    return True


def _write(file: "Path", data: bytes) -> None:
    """Put the data into the file at once, on the disk."""
    with _put_on_disk(file.parent, data) as written:
        written.replace(file)


@contextmanager
def _put_on_disk(folder: "Path", data: bytes) -> Generator["Path", None, None]:
    """A new file with the data, on the disk; it is gone afterwards where it was not moved."""
    written = folder / f".{os.urandom(8).hex()}"
    try:
        with written.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield written
    finally:
        written.unlink(missing_ok=True)
    if os.name == "posix":
        # the name is in the directory, which is written to the disk by itself
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _explaining(folder: "Path", done: str) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"the artifact cannot be {done}: {error.strerror}",
            where=str(folder),
            hint="check that there is room on the disk, and that the directory is writable",
        ) from None


LONGEST = 180
"""Characters of a file name; most systems take 255 bytes."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")

_DEVICE = late_pattern(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")

_CUT = "%%"


def file_name(text: str) -> str:
    """A legal file name that stands for this text and no other."""
    data = text.encode("utf-8", "surrogatepass")
    last = len(data) - 1
    name = "".join(
        chr(byte) if byte in _PLAIN or (byte == 0x2E and 0 < at < last) else f"%{byte:02x}"
        for at, byte in enumerate(data)
    )
    # the beginning tells people what it is, the hash tells it from others
    if len(name) > LONGEST:
        import hashlib

        return f"{name[:80]}{_CUT}{hashlib.blake2b(data, digest_size=16).hexdigest()}"
    # Windows opens a device under such a name, with any ending
    if _DEVICE.match(name):
        return f"%{data[0]:02x}{name[1:]}"
    return name or "%"


def is_cut(name: str) -> bool:
    """Whether the file name does not hold the whole text."""
    return _CUT in name


def text_of(name: str) -> str:
    """The text that a file name stands for, if it is not cut."""
    from urllib.parse import unquote_to_bytes

    return "" if name == "%" else unquote_to_bytes(name).decode("utf-8", "surrogatepass")
