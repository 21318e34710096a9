"""What a GGUF file says of itself, read from its head without loading the weights."""

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

from weft.errors import ModelError

_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_WHOLE = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_TEXT, _LIST = 8, 9


class WeightsFile(NamedTuple):
    """The facts of a file of weights."""

    path: Path
    name: str
    window: int
    """How many tokens the model was trained to look at; 0 where the file does not say."""
    template: str
    """How its turns are spelled; "" where the file does not say."""

    @property
    def takes_tools(self) -> bool:
        """Whether its template has a place for tools; others drop them without a word."""
        return "tools" in self.template


def read_file(path: Path) -> WeightsFile:
    """Read the head of a GGUF file, or say why it is none."""
    try:
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                raise _no_weights(path, "it does not begin as one")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                facts = _facts(data)
    except FileNotFoundError:
        raise ModelError(
            "there is no such file",
            code="not_found",
            where=str(path),
            hint='give the path of a GGUF file: model="local:PATH.gguf"',
        ) from None
    except (struct.error, IndexError, UnicodeDecodeError, KeyError, ValueError):
        raise _no_weights(path, "it is cut off, or of a kind that is not known") from None
    except OSError as error:
        raise _no_weights(path, error.strerror or str(error)) from error
    kind = str(facts.get("general.architecture", ""))
    window = facts.get(f"{kind}.context_length", 0)
    return WeightsFile(
        path,
        str(facts.get("general.name", path.stem)),
        window if isinstance(window, int) else 0,
        str(facts.get("tokenizer.chat_template", "")),
    )


def _no_weights(path: Path, why: str) -> ModelError:
    return ModelError(
        f"this is no GGUF file: {why}",
        code="bad_request",
        where=str(path),
        hint="give the path of a GGUF file, or fetch one: weft model get",
    )


def _facts(data: mmap.mmap) -> dict[str, str | int]:
    """The texts and whole numbers of the file's head by their names."""
    _version, _tensors, count = struct.unpack_from("<IQQ", data, 4)
    found: dict[str, str | int] = {}
    offset = 24
    for _ in range(count):
        key, offset = _text(data, offset)
        (kind,) = struct.unpack_from("<I", data, offset)
        offset += 4
        if kind == _TEXT:
            found[key], offset = _text(data, offset)
        elif kind == _LIST:
            offset = _after_list(data, offset)
        else:
            if kind in _WHOLE:
                (found[key],) = struct.unpack_from(_WHOLE[kind], data, offset)
            offset += _SIZES[kind]
    return found


def _text(data: mmap.mmap, offset: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<Q", data, offset)
    end = offset + 8 + size
    if end > len(data):
        raise IndexError
    return data[offset + 8 : end].decode("utf-8"), end


def _after_list(data: mmap.mmap, offset: int) -> int:
    """Where the list at `offset` ends; vocabularies are long, and nobody asks for them."""
    kind, count = struct.unpack_from("<IQ", data, offset)
    offset += 12
    if kind == _LIST:
        for _ in range(count):
            offset = _after_list(data, offset)
    elif kind == _TEXT:
        size_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            offset += 8 + size_at(data, offset)[0]
    else:
        offset += count * _SIZES[kind]
    return offset
