"""Large files that a log has only the addresses of, and how they come to hand.

The event has an address, `artifact:media-DIGEST.png`, and the bytes behind it can only be those of
the digest: the same log gives the same request, wherever it is compiled. Compiling reads no store,
so whoever compiles a stored session loads the files first, and keeps them as long as it compiles.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from weft.content import Blob, Part
from weft.media import SCHEME, LoadedMedia, extension_of, loaded_media
from weft.session.event import Event
from weft.session.log import Session
from weft.session.store import ArtifactStore
from weft.session.strand import Strand
from weft.session.unread import Skim, folded
from weft.values import digest

Load = Callable[[str], Awaitable[Part | None]]
"""The newest version of an artifact by its name."""


async def load_attachments(log: Strand[Event], load: Load, media: dict[str, LoadedMedia]) -> None:
    """Have the files at hand, in `media`, that the events of a log refer to.

    One that is gone, or is not what its name says, stays an address: compiling reports it.
    """
    for address in addresses_in(log):
        if address in media:
            continue
        name = address.removeprefix(SCHEME)
        part = await load(name)
        blob = part.inline_data if part is not None else None
        # the digest is in the name: other bytes than those of the log are not taken
        if blob is not None and artifact_name(blob) == name:
            media[address] = loaded_media(address, blob.data or "")


class Attachments(msgspec.Struct, frozen=True):
    """The files that a session refers to, at hand as long as its log lives."""

    media: dict[str, LoadedMedia]


async def attach(session: Session, artifacts: ArtifactStore) -> Session:
    """The same session, whose large files are at hand for whoever compiles it."""
    owner = (session.app_name, session.user_id, session.id)
    memo = session.events.memo
    attachments = memo.of(Attachments)
    if attachments is None:
        attachments = Attachments({})

    async def load(name: str) -> Part | None:
        return await artifacts.load(*owner, name, None)

    await load_attachments(session.events, load, attachments.media)
    if attachments.media:
        memo[Attachments] = attachments
    return session


def artifact_name(blob: Blob | None) -> str | None:
    """The name of the artifact with these bytes; None where they are no base64."""
    if blob is None or not blob.data:
        return None
    try:
        # ADK writes URL-safe base64
        data = base64.b64decode(blob.data.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return None
    return f"media-{digest(data)}.{extension_of(blob.mime_type or '')}"


def addresses_in(log: Strand[Event]) -> tuple[str, ...]:
    """The addresses in a log; of a log that was read before, only new events are looked at."""
    if MediaReferences in log.memo:
        references = log.derive(MediaReferences)
    else:
        references = folded(log, MediaReferences, _in_talk)
    return (references.after(log.tail) if log.tail else references).uris


class MediaReferences(msgspec.Struct, frozen=True):
    """The addresses of artifacts in the events of a log, each once."""

    uris: tuple[str, ...] = ()

    def after(self, events: Sequence[Event]) -> "MediaReferences":
        """The addresses once these events follow."""
        more: list[str] = []
        for event in events:
            content = event.content
            for part in (content.parts or ()) if content is not None else ():
                result = part.function_response
                # nearly every part is a text, a call or a result without files
                if part.file_data is not None or (result is not None and result.parts):
                    more += _addresses(part)
        return MediaReferences(tuple(dict.fromkeys((*self.uris, *more)))) if more else self


def _in_talk(skim: Skim) -> MediaReferences:
    """The addresses in plain talk, which has none."""
    return MediaReferences()


def _addresses(part: Part) -> Iterable[str]:
    file, result = part.file_data, part.function_response
    if file is not None and (file.file_uri or "").startswith(SCHEME):
        yield file.file_uri or ""
    for raw in (result.parts or ()) if result is not None else ():
        data = raw.get("fileData")
        uri = data.get("fileUri") if isinstance(data, dict) else None
        if isinstance(uri, str) and uri.startswith(SCHEME):
            yield uri
