"""Files that are not one JSON value or its lines: archives, YAML, values one after the other.

A large file that is one JSON value is taken apart while it is read: the elements of its list become
lines, so that none but the one that is read is in memory.
"""

import codecs
import json
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import BinaryIO, NamedTuple, cast

from weft.dialects.wire import object_in
from weft.errors import SessionError
from weft.values import Json, JsonObject, encode

ZIP = b"PK\x03\x04"
"""How an archive begins."""

_READ_WHOLE = 16_000_000
"""Bytes of a JSON value that are read at once; of a larger one, the elements of its list are."""

_LARGEST = 256_000_000
"""Bytes of a JSON value whose parts cannot be read one by one. It takes six times as much."""

_WRAPPED = (
    "resourceSpans", "resource_spans", "batches", "samples", "interactions", "eval_cases",
)  # fmt: skip
"""Lists in an object whose elements are read with what stands before them in it."""

_LISTED = ("data", "items", "runs", "traces", "results", "rows", "records", "observations")
"""Lists in an object whose elements are recordings by themselves."""


def split_large(file: BinaryIO, where: str) -> BinaryIO | None:
    """A large JSON value with an element of its list on each line; None where it is not one.

    An error where it is larger than memory should be, and has no such list.
    """
    size = file.seek(0, 2)
    file.seek(0)
    first = next((line for line in iter(file.readline, b"") if line.strip()), b"").strip()
    file.seek(0)
    is_list = first.startswith(b"[")
    # lines of JSON are read as they are
    if size <= _READ_WHOLE or not (is_list or (first.startswith(b"{") and _is_open(first))):
        return None
    lines = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 (the reader closes it)
    try:
        splitter = _Splitter(file)
        for one in splitter.elements() if is_list else splitter.fields():
            lines.write(encode(one, where=where))
            lines.write(b"\n")
    except _NotSplit:
        lines.close()
        file.seek(0)
        if size > _LARGEST:
            raise SessionError(
                f"it is one JSON value of {size / 1e6:,.0f} MB, and up to {_LARGEST / 1e6:,.0f} MB"
                " of one are read",
                where=where,
                hint="write a recording a line: jq -c '.[]' FILE > FILE.jsonl",
            ) from None
        return None
    lines.seek(0)
    return lines


def _is_open(line: bytes) -> bool:
    """Whether a first line is no JSON value by itself."""
    if len(line) > _READ_WHOLE:
        return True
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


class _NotSplit(Exception):
    """A value that has no list of recordings in it, or is broken."""


class _Splitter:
    """Reads the elements of a list, or of the list in an object, one at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._text = ""
        self._at = 0
        self._step = 1 << 20

    def elements(self) -> Iterator[Json]:
        """The elements of a list that begins here."""
        self._take("[")
        while self._peek() != "]":
            yield self._value()
            self._step = 1 << 20
            if self._peek() == ",":
                self._at += 1
        self._at += 1

    def fields(self) -> Iterator[Json]:
        """The recordings in the list of an object; what stands before it goes with each."""
        self._take("{")
        before: JsonObject = {}
        while self._peek() != "}":
            name = self._value()
            self._take(":")
            if self._peek() == "[" and name in _WRAPPED:
                for one in self.elements():
                    yield {**before, str(name): [one]}
                return
            if self._peek() == "[" and name in _LISTED:
                yield from self.elements()
                return
            before[str(name)] = self._value()
            if self._peek() == ",":
                self._at += 1
        raise _NotSplit

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            raise _NotSplit
        self._at += 1

    def _peek(self) -> str:
        while True:
            while self._at < len(self._text) and self._text[self._at].isspace():
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise _NotSplit

    def _more(self) -> bool:
        data = self._file.read(self._step)
        if not data:
            return False
        self._text = self._text[self._at :] + self._utf8.decode(data)
        self._at = 0
        # a long element is tried again each time: the steps grow with it
        self._step = min(2 * self._step, _LARGEST)
        return True

    def _value(self) -> Json:
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise _NotSplit from None
            except ValueError:
                if len(self._text) - self._at > _LARGEST or not self._more():
                    raise _NotSplit from None
                continue
            # a number may go on in what was not read yet
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return cast("Json", value)


def split_values(data: bytes) -> list[JsonObject]:
    """The objects in a text that is one after the other, as some exporters print spans."""
    decoder, text, at = json.JSONDecoder(), data.decode("utf-8", "replace"), 0
    values: list[JsonObject] = []
    while at < len(text):
        if text[at].isspace() or text[at] == ",":
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        values.append(cast("JsonObject", value))
    return values if len(values) > 1 else []


def read_yaml(data: bytes, where: str) -> Json:
    """The value of a YAML file, such as a cassette of a test."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise SessionError(
            "it is YAML, and nothing here reads that", where=where, hint="pip install pyyaml"
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        value: object = yaml.load(data, Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise SessionError(f"it is not YAML: {error}", where=where) from None
    return _plain(value)


def _plain(value: object) -> Json:
    """A value of YAML as JSON: bytes are texts, times are what they look like."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return {str(key): _plain(one) for key, one in fields.items()}
    if isinstance(value, list):
        return [_plain(one) for one in cast("list[object]", value)]
    if isinstance(value, bytes):
        return _text_of_body(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _text_of_body(data: bytes) -> str:
    """The text of a body that was recorded as bytes, packed or not."""
    import gzip
    import zlib

    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return ""
    return data.decode("utf-8", "replace")


def is_tar(data: bytes) -> bool:
    """Whether some bytes begin a tar archive."""
    return data[257:262] == b"ustar"


class ArchiveMember(NamedTuple):
    """A file in an archive."""

    name: str
    data: bytes


_CHATS = re.compile(r"(?:^|/)conversations[\w-]*\.json$")
"""Where ChatGPT's export has its conversations; a large one has several files of them."""


_UNREADABLE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, NotImplementedError,
    ValueError, RuntimeError, EOFError, OSError,
)  # fmt: skip
"""What an archive that is damaged, locked or packed in an unknown way may raise."""


def list_members(
    data: bytes, where: str, endings: tuple[str, ...], errors: list[SessionError]
) -> Iterator[ArchiveMember]:
    """The recordings in an archive; those of inspect-ai's log each with the head of the log.

    What cannot be unpacked is added to `errors`, and stops no other file of the archive.
    """
    try:
        if is_tar(data):
            yield from _list_tar(data, endings)
            return
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.endswith(endings)]
            samples = [name for name in names if name.startswith("samples/")]
            head: JsonObject | None = None
            if samples and "header.json" in names:
                head = object_in(cast("Json", json.loads(archive.read("header.json"))))
            chats = [name for name in names if _CHATS.search(name)]
            # ChatGPT's export has the account and its settings beside the conversations
            is_export = chats and any(name.endswith("user.json") for name in names)
            for name in samples if head is not None else chats if is_export else names:
                try:
                    member = archive.read(name)
                    if head is not None:
                        run: JsonObject = {**head, "samples": [cast("Json", json.loads(member))]}
                        member = encode(run, where=where)
                except _UNREADABLE as error:
                    errors.append(_unreadable(error, f"{where}: {name}"))
                    continue
                yield ArchiveMember(name, member)
    except _UNREADABLE as error:
        errors.append(_unreadable(error, where))


def _unreadable(error: Exception, where: str) -> SessionError:
    hint = "unpack it, and name a folder"
    return SessionError(f"the archive cannot be read: {error}", where=where, hint=hint)


def _list_tar(data: bytes, endings: tuple[str, ...]) -> Iterator[ArchiveMember]:
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        for member in archive:
            inner = archive.extractfile(member) if member.isfile() else None
            if inner is not None and member.name.endswith(endings):
                yield ArchiveMember(member.name, inner.read())
