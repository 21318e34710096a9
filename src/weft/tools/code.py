"""What tools that run code share: files in and out, what was printed, and the result.

Everything that comes from code is data of a stranger. Files become artifacts of the session, and
never of the user; names that could mean something else are refused; what is printed is cut.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from mimetypes import guess_type
from pathlib import PurePosixPath
from typing import cast

import msgspec

from weft.content import Part
from weft.declare.context import ToolContext
from weft.errors import DeclarationError
from weft.media import base64_bytes
from weft.values import Json, JsonObject

FLOOD = 10_000_000
"""Bytes of output after which code is stopped; what is cut is read until then."""

LONGEST = 200_000
"""How many characters of code are taken."""

MOST_FILES = 20
"""How many files of one call become artifacts."""

_MOST_NOTES = 5
"""How many files that are not kept are named: code may make thousands."""

DEEPEST = 16
"""How many folders may stand in each other, for a file to be kept."""


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running code: what it printed, what went wrong, and the files it left."""

    output: str
    error: str = ""
    files: dict[str, bytes] = {}
    """Those it wrote or changed, by their paths."""
    notes: tuple[str, ...] = ()


class PrintedOutput:
    """What code printed: the beginning and the end, if it is too much."""

    def __init__(self, most: int, head: bytes = b"", tail: bytes = b"", size: int = 0) -> None:
        self._room = 2 * most  # bytes; a character has up to four
        self._most = most
        self.head = bytearray(head)
        self.tail = bytearray(tail)
        self.size = size

    def add(self, data: bytes) -> bool:
        """Take in what was printed; False once it is so much that the code is to be stopped."""
        self.size += len(data)
        free = max(0, self._room - len(self.head))
        self.head += data[:free]
        self.tail = (self.tail + data[free:])[-self._room :]
        return self.size <= FLOOD

    def text(self) -> str:
        """The text, with a note in place of what is cut."""
        text = (self.head + self.tail).decode("utf-8", "replace")
        if self.size == len(self.head) + len(self.tail) and len(text) <= self._most:
            return text
        half = self._most // 2
        head = self.head.decode("utf-8", "replace")[:half]
        tail = (self.tail or self.head).decode("utf-8", "replace")[-half:]
        return f"{head}\n[... cut: {self.size:,} bytes were printed ...]\n{tail}"


def check_limits(kind: str, limits: Mapping[str, object]) -> None:
    """Refuse a limit that is not a number above 0; seconds need not be whole."""
    for name, value in limits.items():
        kinds = (int, float) if name == "seconds" else int
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if not right or not 0 < cast("float", value) < 10**9:
            raise DeclarationError(
                f"{name} is {value!r}", where=kind, hint="write a number above 0"
            )


def check_files(kind: str, files: object) -> None:
    """Refuse one name in place of a list."""
    if isinstance(files, str):
        raise DeclarationError("files is a text", where=kind, hint=f"write files=[{files!r}]")


def problem_with_size(code: str, files: Mapping[str, bytes], most: int) -> str:
    """Why code and files are not taken; empty where they are."""
    if len(code) > LONGEST:
        return f"the code has {len(code):,} characters, and may have {LONGEST:,}"
    size = sum(map(len, files.values()))
    if size <= most:
        return ""
    return f"the files have {size:,} bytes together, and may have {most:,}"


_OWN_NAMES = ("result-", "media-")
"""How the names of artifacts begin that Weft makes itself."""


async def load_files(names: Iterable[str], ctx: ToolContext) -> dict[str, bytes] | str:
    """The artifacts of these names as files by path, or why they cannot be."""
    files: dict[str, bytes] = {}
    for name in dict.fromkeys(names):
        part = await (ctx.steps or ctx).load_artifact(name)
        if part is None:
            known = ", ".join(await ctx.list_artifacts()) or "none yet"
            return f"there is no artifact {name!r}; there are: {known}"
        blob, path = part.inline_data, _path_of(name)
        if path in files:
            return f"two of the artifacts would be the file {path!r}; name one of them"
        if blob is not None and blob.data is not None:
            files[path] = base64_bytes(blob.data)
        else:
            files[path] = (part.text or "").encode("utf-8", "replace")
    return files


async def save_result(done: Execution, ctx: ToolContext) -> JsonObject:
    """The result of a call; the files that the code left are kept as artifacts first."""
    # who looks at a list of names has read them
    looks = any(path.startswith(_OWN_NAMES) for path in done.files)
    known = {*await ctx.list_artifacts()} if looks else set[str]()
    saved: list[str] = []
    notes = [*done.notes]
    for path, data in sorted(done.files.items()):
        problem = problem_with(path, known)
        if problem:
            notes.append(f"{path[:100]!r} is not kept: {problem}")
        elif len(saved) == MOST_FILES:
            notes.append(f"only the first {MOST_FILES} files are kept")
            break
        else:
            await ctx.save_artifact(path, _part(path, data))
            saved.append(path)
    result: JsonObject = {"output": done.output}
    if done.error:
        result["error"] = done.error
    if saved:
        result["files"] = cast("Json", saved)
    if len(notes) > _MOST_NOTES:
        notes = [*notes[:_MOST_NOTES], f"{len(notes) - _MOST_NOTES} more are not kept"]
    if notes:
        result["note"] = "; ".join(notes)
    return result


def problem_with(path: str, known: Iterable[str] = ()) -> str:
    """Why a file of this path cannot be an artifact of the session; empty where it can.

    `known` are the artifacts that there are: code must not replace those that Weft made itself.
    """
    parts = PurePosixPath(path).parts
    if ":" in path.split("/")[0]:
        return "a name with `:` would not belong to this session alone"
    if not parts or path.startswith("/") or ".." in parts or len(path) > 200:
        return "it is not a path below the working folder, of at most 200 letters"
    if len(parts) > DEEPEST:
        return f"it stands in more than {DEEPEST - 1} folders"
    # U+FFFD stands for bytes that are not text
    if "\ufffd" in path or any(unicodedata.category(letter)[0] == "C" for letter in path):
        return "its name has letters that cannot be printed"
    if path.startswith(_OWN_NAMES) and path in known:
        return "Weft made an artifact of this name"
    return ""


def _path_of(name: str) -> str:
    """Where an artifact lies in the folder: never outside of it."""
    parts = PurePosixPath(name.removeprefix("user:")).parts
    return "/".join([part for part in parts if part not in ("..", "/", ".")] or ["file"])


def _part(name: str, data: bytes) -> Part:
    """A file as an artifact: text where it is text."""
    kind = guess_type(name)[0] or ""
    try:
        text = data.decode("utf-8")
        if "\0" not in text and not kind.startswith(("image/", "audio/", "video/")):
            return Part(text=text)
    except UnicodeDecodeError:
        pass
    return Part.from_bytes(data, kind or "application/octet-stream", name=name)
