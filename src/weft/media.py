"""What kind of file some bytes are: by how they begin, else by the name of the file.

The types are those that models read. The table is Weft's own, so that one file has one type on
every machine.
"""

import base64
import binascii
from weakref import WeakValueDictionary

import msgspec

from weft.errors import SessionError

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF", "application/pdf"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)

_IN_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}

_IN_FTYP = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
"""What an MPEG-4 container holds by its brand; any other is a video."""

_ENDINGS = {
    "aac": "audio/aac",
    "avi": "video/x-msvideo",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "css": "text/css",
    "csv": "text/csv",
    "flac": "audio/flac",
    "flv": "video/x-flv",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "m4a": "audio/mp4",
    "md": "text/markdown",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "rtf": "text/rtf",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
    "wmv": "video/x-ms-wmv",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}

DISTINCT = frozenset(
    ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/wav")
)
"""Types whose beginning leaves no doubt, so that another name for them is a mistake."""

HINT = 'pass it as the second argument: "image/png", "application/pdf", ...'


def type_by_content(data: bytes) -> str:
    """The type that the first bytes of a file tell of; empty where they tell nothing."""
    if data[:4] == b"RIFF":
        return _IN_RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return _IN_FTYP.get(data[8:12], "video/mp4")
    return next((kind for mark, kind in _BEGINNINGS if data.startswith(mark)), "")


def type_by_ending(name: str) -> str:
    """The type that the ending of a file's name tells of; empty where it tells nothing."""
    return _ENDINGS.get(name.rpartition(".")[2].lower(), "") if "." in name else ""


def require_type(data: bytes, mime_type: str | None, name: str, *, where: str) -> str:
    """The type of a file: what is said of it, what it begins with, or what its name says.

    A type that the bytes contradict is refused here: the provider would, and cost a request.
    """
    if not data:
        raise SessionError("the file is empty", where=where, hint="pass the bytes of a file")
    actual = type_by_content(data)
    if mime_type is None:
        kind = actual or type_by_ending(name)
        if kind:
            return kind
        begins = f"begins with {data[:8]!r}"
        raise SessionError(
            f"the type of `{name}` is not known: it {begins}"
            if name
            else f"the file {begins}, which tells no type",
            where=where,
            hint=HINT,
        )
    plain = mime_type.partition(";")[0].strip().lower()
    plain = "image/jpeg" if plain == "image/jpg" else plain
    if actual in DISTINCT and plain in DISTINCT and actual != plain:
        raise SessionError(
            f"this is said to be {mime_type}, and is {actual}", where=where, hint=f"write {actual}"
        )
    return mime_type


class DataUrl(msgspec.Struct, frozen=True):
    """What a data URL holds."""

    mime_type: str
    data: bytes


def read_data_url(url: str, *, where: str) -> DataUrl:
    """The type and the bytes in a data URL."""
    from urllib.parse import unquote, unquote_to_bytes  # few messages have addresses

    head, comma, body = url[5:].partition(",")
    kind, *options = head.split(";")
    if not comma:
        raise SessionError(
            "this data URL has no data", where=where, hint='write "data:image/png;base64,..."'
        )
    if "base64" not in options:
        return DataUrl(kind.strip().lower(), unquote_to_bytes(body))
    try:
        data = base64_bytes(unquote(body))
    except binascii.Error as error:
        raise SessionError(
            f"the data of this URL is not base64: {error}", where=where, hint="encode it again"
        ) from None
    return DataUrl(kind.strip().lower(), data)


def base64_bytes(text: str) -> bytes:
    """The bytes that base64 stands for, in either alphabet: google-adk writes the URL-safe one."""
    plain = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def type_of_address(url: str) -> str:
    """The type that the end of an address tells of."""
    from urllib.parse import unquote, urlsplit

    return type_by_ending(unquote(urlsplit(url).path).rpartition("/")[2])


def extension_of(mime_type: str) -> str:
    """The ending of files of a type."""
    return next((ending for ending, kind in _ENDINGS.items() if kind == mime_type), "bin")


# --- files that the log has only the address of

SCHEME = "artifact:"
"""How the address of a file begins that is kept as an artifact under a name made of its digest."""


class LoadedMedia:
    """The data of such a file, as long as somebody holds it."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: str) -> None:
        self.data = data


_loaded: WeakValueDictionary[str, LoadedMedia] = WeakValueDictionary()


def loaded_media(address: str, data: str) -> LoadedMedia:
    """Have base64 data at hand under its address; it goes when nobody holds what this returns."""
    media = _loaded.get(address)
    if media is None:
        media = _loaded[address] = LoadedMedia(data)
    return media


def data_at(address: str) -> str | None:
    """The base64 data of an address, where it is at hand."""
    media = _loaded.get(address)
    return media.data if media is not None else None
