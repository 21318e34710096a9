"""Large files: kept as artifacts, not in the log, and loaded before a request is compiled.

A log is read whole and often; a photo in it would be read with every event. The event has an
address, `artifact:media-DIGEST.png`, and the bytes behind it can only be those of the digest: the
same log gives the same request, wherever it is compiled.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from weft.content import Blob, FileData, Part
from weft.media import SCHEME, extension_of, loaded_media
from weft.runtime.invocation import Invocation
from weft.session import Event
from weft.session.unread import folded
from weft.values import digest

LARGEST_INLINE = 262_144
"""How many characters of base64 one file may put into the log; more is kept as an artifact."""


class KeptParts(NamedTuple):
    """Parts whose large files are artifacts, and the artifacts with their versions."""

    parts: tuple[Part, ...]
    artifacts: dict[str, int]


async def keep_large(invocation: Invocation, parts: Iterable[Part]) -> KeptParts:
    """The parts, with addresses in place of large files, which are saved first."""
    smaller: list[Part] = []
    artifacts: dict[str, int] = {}
    for part in parts:
        blob = part.inline_data
        if blob is None or len(blob.data or "") <= LARGEST_INLINE:
            smaller.append(part)
            continue
        name = _name_of(blob)
        if name is None:  # no base64: the provider says so
            smaller.append(part)
            continue
        known = await invocation.load_artifact(name, None)
        if known is None or _name_of(known.inline_data) != name:
            named_blob = msgspec.structs.replace(blob, display_name=name)
            artifacts[name] = await invocation.save_artifact(name, Part(inline_data=named_blob))
        uri = f"{SCHEME}{name}"
        invocation.media[uri] = loaded_media(uri, blob.data or "")
        file = FileData(file_uri=uri, mime_type=blob.mime_type, display_name=blob.display_name)
        smaller.append(msgspec.structs.replace(part, inline_data=None, file_data=file))
    return KeptParts(tuple(smaller), artifacts)


async def load_media(invocation: Invocation) -> None:
    """Have the files at hand that the session's events refer to.

    One that is gone, or is not what its name says, stays an address: compiling reports it.
    """
    log = invocation.session.events
    references = folded(log, MediaReferences, lambda _: MediaReferences())  # plain talk has none
    if log.tail:
        references = references.after(log.tail)
    for uri in references.uris:
        if uri in invocation.media:
            continue
        name = uri.removeprefix(SCHEME)
        part = await invocation.load_artifact(name, None)
        blob = part.inline_data if part is not None else None
        if blob is not None and _name_of(blob) == name:
            invocation.media[uri] = loaded_media(uri, blob.data or "")


class MediaReferences(NamedTuple):
    """The addresses of artifacts in the events of a log, each once."""

    uris: tuple[str, ...] = ()

    def after(self, events: Sequence[Event]) -> "MediaReferences":
        """The addresses once these events follow."""
        more = [uri for event in events for uri in _addresses(event)]
        return MediaReferences(tuple(dict.fromkeys((*self.uris, *more)))) if more else self


def _addresses(event: Event) -> Iterable[str]:
    content = event.content
    for part in (content.parts or ()) if content is not None else ():
        file, result = part.file_data, part.function_response
        if file is not None and (file.file_uri or "").startswith(SCHEME):
            yield file.file_uri or ""
        for raw in (result.parts or ()) if result is not None else ():
            data = raw.get("fileData")
            uri = data.get("fileUri") if isinstance(data, dict) else None
            if isinstance(uri, str) and uri.startswith(SCHEME):
                yield uri


def _name_of(blob: Blob | None) -> str | None:
    """The name of the artifact with these bytes; None where they are no base64."""
    if blob is None or not blob.data:
        return None
    try:
        data = base64.b64decode(blob.data.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return None
    return f"media-{digest(data)}.{extension_of(blob.mime_type or '')}"
