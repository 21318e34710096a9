"""Large files: kept as artifacts, not in the log, and loaded before a request is compiled.

A log is read whole and often; a photo in it would be read with every event. The event has an
address, `artifact:media-DIGEST.png`, and the bytes behind it can only be those of the digest: the
same log gives the same request, wherever it is compiled.
"""

from collections.abc import Iterable

import msgspec

from weft.content import FileData, Part
from weft.media import SCHEME, loaded_media
from weft.runtime.invocation import Invocation
from weft.session.store import artifact_name, load_attachments

LARGEST_INLINE = 262_144
"""How many characters of base64 one file may put into the log; more is kept as an artifact."""


class KeptParts(msgspec.Struct, frozen=True):
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
        name = artifact_name(blob)
        if name is None:  # no base64: the provider says so
            smaller.append(part)
            continue
        known = await invocation.load_artifact(name, None)
        # the same file again is not saved again; one that was tampered with is
        if known is None or artifact_name(known.inline_data) != name:
            named_blob = msgspec.structs.replace(blob, display_name=name)
            artifacts[name] = await invocation.save_artifact(name, Part(inline_data=named_blob))
        uri = f"{SCHEME}{name}"
        invocation.media[uri] = loaded_media(uri, blob.data or "")
        file = FileData(file_uri=uri, mime_type=blob.mime_type, display_name=blob.display_name)
        smaller.append(msgspec.structs.replace(part, inline_data=None, file_data=file))
    return KeptParts(tuple(smaller), artifacts)


async def load_media(invocation: Invocation) -> None:
    """Have the files at hand that the session's events refer to."""

    async def load(name: str) -> Part | None:
        return await invocation.load_artifact(name, None)

    await load_attachments(invocation.session.events, load, invocation.media)
