"""What media is, whatever the provider: its plain type, its text, its address.

Where a provider has no place for it, a text stands there that names what is missing, so
that the model can say so instead of guessing.
"""

import base64
import binascii

from weft.dialects.facts import facts_for
from weft.dialects.legality import MEDIA, Finding, Findings
from weft.dialects.track import LoweringReport
from weft.ir import MediaBlock
from weft.media import type_by_content

IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""The image types that all of the providers with a list of their own accept."""

PDF = "application/pdf"

_TEXTUAL = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "yaml", "x-yaml", "javascript", "x-ndjson", "toml")
)


def mime_of(block: MediaBlock) -> str:
    """The type in lower case, without parameters."""
    plain = block.mime_type.partition(";")[0].strip().lower()
    return "image/jpeg" if plain == "image/jpg" else plain


def reads_media(kind: str, model: str) -> bool:
    """Whether a model reads media of this type, as far as is known of it."""
    media = facts_for(model).media
    family = "pdf" if kind == PDF else kind.partition("/")[0]
    return media is None or family not in ("image", "pdf", "audio", "video") or family in media


def address_of(block: MediaBlock) -> str:
    """The address if the provider can fetch it itself, else nothing."""
    uri = block.uri or ""
    return uri if uri.startswith(("https://", "http://")) else ""


def data_url(block: MediaBlock) -> str:
    """The data as a URL."""
    return f"data:{mime_of(block)};base64,{block.data or ''}"


def document_text(block: MediaBlock) -> str | None:
    """What a document says, if it is text that came with the message."""
    kind = mime_of(block)
    textual = kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml"))
    if not textual or block.data is None:
        return None
    try:
        text = base64.b64decode(block.data + "=" * (-len(block.data) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if text.strip() else None


def missing_media(block: MediaBlock, report: LoweringReport) -> str:
    """The text that stands for media which cannot be carried, reported."""
    place = "the model's own turn" if block.role == "model" else "a message"
    carrier = "an address" if block.uri is not None else "data"
    report.lose(
        "WEFT703",
        block.origin,
        f"{report.dialect} cannot carry {block.mime_type} as {carrier} in {place}",
        "convert the media, or send it in a user message",
    )
    named = block.name or block.uri
    return (
        f"[{block.mime_type} {named}: not carried]"
        if named
        else f"[{block.mime_type}: not carried]"
    )


_CONVERT = "convert the media, or describe it in words"


def unread_media(kind: str, pointer: str, who: str) -> Finding:
    """Media of a type that is not read there."""
    return Finding(MEDIA, pointer, f"{who} does not read {kind or 'media'} here", _CONVERT)


def refuse_mistaken_type(kind: str, data: object, pointer: str) -> Findings:
    """Data that is an image or a document, but not the one it is said to be."""
    actual = _type_by_content(data)
    if not actual or kind not in (*IMAGES, PDF):
        return
    if actual != kind:
        message = f"this is said to be {kind}, and is {actual}"
        yield Finding(MEDIA, pointer, message, f"write {actual}")


def _type_by_content(data: object) -> str:
    if not isinstance(data, str):
        return ""
    try:
        start = base64.b64decode(data[:16], validate=True)
    except (binascii.Error, ValueError):
        return ""
    return type_by_content(start)


def type_in_url(url: object) -> str:
    """The type of what a data URL holds; empty where it is none."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return ""
    return url[5:].partition(",")[0].partition(";")[0].lower()


def type_by_name(url: object) -> str:
    """The type that the end of an address tells of."""
    if not isinstance(url, str):
        return ""
    import mimetypes  # few requests have media

    return mimetypes.guess_type(url.partition("?")[0])[0] or ""
