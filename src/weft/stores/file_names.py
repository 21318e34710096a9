"""File names for any text, on any system, that lead back to the text.

Small letters, digits and a few signs stand for themselves; everything else is written as %xx. So
no text can name a place elsewhere, two texts never share a file where case does not matter, and no
device is named by accident. A text that is too long keeps its beginning, and a hash.
"""

import hashlib
import re
from urllib.parse import unquote_to_bytes

LONGEST = 180
"""Characters of a file name; most systems take 255 bytes."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
_CUT = "%%"


def file_name(text: str) -> str:
    """A legal file name that stands for this text and no other."""
    data = text.encode("utf-8", "surrogatepass")
    last = len(data) - 1
    name = "".join(
        chr(byte) if byte in _PLAIN or (byte == 0x2E and 0 < at < last) else f"%{byte:02x}"
        for at, byte in enumerate(data)
    )
    if len(name) > LONGEST:
        return f"{name[:80]}{_CUT}{hashlib.blake2b(data, digest_size=16).hexdigest()}"
    if _DEVICE.match(name):
        return f"%{data[0]:02x}{name[1:]}"
    return name or "%"


def is_cut(name: str) -> bool:
    """Whether the file name does not hold the whole text."""
    return _CUT in name


def text_of(name: str) -> str:
    """The text that a file name stands for, if it is not cut."""
    return "" if name == "%" else unquote_to_bytes(name).decode("utf-8", "surrogatepass")
