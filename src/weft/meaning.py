"""How near texts are in meaning, by the word vectors that an installed package carries.

People say `umbrella` where a tool says `weather`. The package `wordllama` brings vectors in
which these are neighbours; only its two data files are read, and only the rows that are needed.
The package itself is not imported: it would bring a client for HTTP along.
"""

import functools
import importlib.util
import math
import mmap
import operator
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from weft.values import JsonObject

_PACKAGE = "wordllama"
_TABLE = Path("weights", "l2_supercat_256.safetensors")
_PIECES = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_LENGTH = struct.Struct("<Q")
_REMEMBERED = 1024


class _Files(NamedTuple):
    table: Path
    pieces: Path


class _Tensor(msgspec.Struct, frozen=True):
    """Where the vectors stand in their file: numbers of two bytes, row after row."""

    dtype: str
    shape: tuple[int, int]
    data_offsets: tuple[int, int]


def is_installed() -> bool:
    """Whether there are vectors on this machine."""
    return _files() is not None


def likeness(text: str, others: Sequence[str]) -> list[float]:
    """How near the text is to each of the others, from -1 to 1; ask `is_installed` before."""
    own = _vector(text)
    return [sum(map(operator.mul, own, _vector(other))) for other in others]


def direction_of(text: str) -> tuple[float, ...]:
    """The direction that a text points to, of length 1; ask `is_installed` before."""
    return _vector(text)


def pieces(text: str) -> list[int]:
    """The pieces of words that a text is made of, as rows of the table; ask `is_installed`."""
    vectors = _vectors()
    return vectors.pieces(text) if vectors is not None else []


def table() -> "Table | None":
    """The vectors of all pieces, where there are any."""
    vectors = _vectors()
    return vectors.table if vectors is not None else None


class Table(NamedTuple):
    """Vectors in a buffer: numbers of two bytes, `width` a row, from `begin` on."""

    buffer: mmap.mmap
    begin: int
    rows: int
    width: int


@functools.cache
def _files() -> _Files | None:
    """The files of the package, if they are there."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None or importlib.util.find_spec("tokenizers") is None:
        return None
    folder = Path(spec.origin).parent
    files = _Files(folder / _TABLE, folder / _PIECES)
    return files if files.table.is_file() and files.pieces.is_file() else None


class _Vectors:
    """The vectors of the pieces of words, read from the file when they are asked for."""

    def __init__(self, files: _Files) -> None:
        from tokenizers import Tokenizer

        with files.table.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        (length,) = _LENGTH.unpack_from(self._bytes)
        begin = _LENGTH.size + length
        header: JsonObject = msgspec.json.decode(self._bytes[_LENGTH.size : begin].strip())
        (weights,) = (each for name, each in header.items() if name != "__metadata__")
        tensor = msgspec.convert(weights, _Tensor)
        self._begin = begin + tensor.data_offsets[0]
        self._row = struct.Struct(f"<{tensor.shape[1]}e")
        self._pieces = Tokenizer.from_file(str(files.pieces))
        self.table = Table(self._bytes, self._begin, *tensor.shape)

    def pieces(self, text: str) -> list[int]:
        """The rows of a text's pieces."""
        return self._pieces.encode(text, add_special_tokens=False).ids

    def of(self, text: str) -> tuple[float, ...]:
        """The direction that the pieces of a text point to together."""
        pieces = self.pieces(text)
        rows = [
            self._row.unpack_from(self._bytes, self._begin + at * self._row.size) for at in pieces
        ]
        total = [sum(column) for column in zip(*rows, strict=True)]
        size = math.hypot(*total) or 1.0
        return tuple(each / size for each in total)


@functools.cache
def _vectors() -> _Vectors | None:
    files = _files()
    return _Vectors(files) if files is not None else None


@functools.lru_cache(_REMEMBERED)
def _vector(text: str) -> tuple[float, ...]:
    vectors = _vectors()
    return vectors.of(text) if vectors is not None else ()
