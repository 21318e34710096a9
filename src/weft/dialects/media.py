"""What media is, whatever the provider: its plain type, its text, its address.

Where a provider has no place for it, a text stands there that names what is missing, so
that the model can say so instead of guessing.
"""

import base64
import binascii

from weft.dialects.facts import facts_for
from weft.dialects.sink import Sink
from weft.ir import MediaBlock

IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""The image types that all of the providers with a list of their own accept."""

PDF = "application/pdf"

_TEXTUAL = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "yaml", "x-yaml", "javascript", "x-ndjson", "toml")
)


def mime(block: MediaBlock) -> str:
    """The type in lower case, without parameters."""
    plain = block.mime_type.partition(";")[0].strip().lower()
    return "image/jpeg" if plain == "image/jpg" else plain


def takes(kind: str, model: str) -> bool:
    """Whether a model reads media of this type, as far as is known of it."""
    media = facts_for(model).media
    family = "pdf" if kind == PDF else kind.partition("/")[0]
    return media is None or family not in ("image", "pdf", "audio", "video") or family in media


def address(block: MediaBlock) -> str:
    """The address if the provider can fetch it itself, else nothing."""
    uri = block.uri or ""
    return uri if uri.startswith(("https://", "http://")) else ""


def data_url(block: MediaBlock) -> str:
    """The data as a URL."""
    return f"data:{mime(block)};base64,{block.data or ''}"


def text_of(block: MediaBlock) -> str | None:
    """What a document says, if it is text that came with the message."""
    kind = mime(block)
    textual = kind.startswith("text/") or kind in _TEXTUAL or kind.endswith(("+json", "+xml"))
    if not textual or block.data is None:
        return None
    try:
        text = base64.b64decode(block.data + "=" * (-len(block.data) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if text.strip() else None


def missing(block: MediaBlock, sink: Sink) -> str:
    """The text that stands for media which cannot be carried, reported."""
    place = "the model's own turn" if block.role == "model" else "a message"
    held = "an address" if block.uri is not None else "data"
    sink.lost(
        "WEFT703",
        block.origin,
        f"{sink.dialect} cannot carry {block.mime_type} as {held} in {place}",
        "convert the media, or send it in a user message",
    )
    named = block.name or block.uri
    return (
        f"[{block.mime_type} {named}: not carried]"
        if named
        else f"[{block.mime_type}: not carried]"
    )
