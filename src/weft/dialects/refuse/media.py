"""Media that a provider refuses: of a type it does not read, or that is not what it says."""

import base64
import binascii
import mimetypes

from weft.dialects.media import IMAGES, PDF
from weft.dialects.refuse.finding import MEDIA, Finding, Findings

_BEGINNINGS = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"%PDF", PDF),
)
_CONVERT = "convert the media, or describe it in words"


def unread(kind: str, pointer: str, who: str) -> Finding:
    """Media of a type that is not read there."""
    return Finding(MEDIA, pointer, f"{who} does not read {kind or 'media'} here", _CONVERT)


def mistaken(kind: str, data: object, pointer: str) -> Findings:
    """Data that is an image or a document, but not the one it is said to be."""
    found = _sniffed(data)
    if not found or kind not in (*IMAGES, PDF):
        return
    if found != kind:
        message = f"this is said to be {kind}, and is {found}"
        yield Finding(MEDIA, pointer, message, f"write {found}")


def _sniffed(data: object) -> str:
    if not isinstance(data, str):
        return ""
    try:
        start = base64.b64decode(data[:16], validate=True)
    except (binascii.Error, ValueError):
        return ""
    return next((kind for mark, kind in _BEGINNINGS if start.startswith(mark)), "")


def in_url(url: object) -> str:
    """The type of what a data URL holds; empty where it is none."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return ""
    return url[5:].partition(",")[0].partition(";")[0].lower()


def guessed(url: object) -> str:
    """The type that the end of an address tells of."""
    if not isinstance(url, str):
        return ""
    return mimetypes.guess_type(url.partition("?")[0])[0] or ""
