"""What tools return and users send, as the log has it: JSON, and files by their address.

A log is read whole and often; a photo in it would be read with every event. So a large file is
kept as an artifact, and loaded before a request is compiled. The event has an address,
`artifact:media-DIGEST.png`, and its bytes can only be those of the digest: the same log
gives the same request, wherever it is compiled.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import msgspec

from weft.content import Content, FileData, Part
from weft.errors import SessionError, describe_kind
from weft.media import SCHEME, loaded_media, type_by_content
from weft.runtime.invocation import Invocation
from weft.session.store import artifact_name, load_attachments
from weft.values import Json, JsonObject, compact, require_json


class ToolPayload(msgspec.Struct, frozen=True):
    """A tool's result: JSON, and the media that came with it."""

    response: JsonObject
    parts: tuple[Part, ...] = ()


LIMIT = 1_000_000
"""How many characters of JSON one result may put into the log; more is kept as an artifact."""


def to_returned(value: object) -> ToolPayload:
    """What a function returned, as a result: a mapping as it is, anything else under `result`."""
    if type(value) is str:
        return ToolPayload({"result": value})
    value = _with_files(value)
    media = _media(value)
    if media is not None:
        texts = [part.text for part in media if part.text]
        media_parts = tuple(part for part in media if not part.text)
        response: JsonObject = {"result": "\n".join(texts)} if texts else {}
        return ToolPayload(response, media_parts)
    without_media, taken = _beside(value)
    plain = to_json(without_media)
    return ToolPayload(plain if isinstance(plain, dict) else {"result": plain}, taken)


_BYTES = (bytes, bytearray, memoryview)


def _with_files(value: object) -> object:
    """The value with bytes as the files they are: a model cannot read base64.

    Bytes of no known type stay, and are refused as what is not JSON.
    """
    if type(value) in (list, tuple):
        return [_as_file(one) for one in cast("Sequence[object]", value)]
    if type(value) is dict:
        fields = cast("dict[object, object]", value)
        return {key: _as_file(one) for key, one in fields.items()}
    return _as_file(value)


def _as_file(value: object) -> object:
    if not isinstance(value, _BYTES):
        return value
    data = bytes(cast("bytes | bytearray", value))
    return Part.from_bytes(data) if type_by_content(data) else data


def _media(value: object) -> tuple[Part, ...] | None:
    """The parts of a value that is made of parts."""
    if isinstance(value, Content):
        return value.parts or ()
    if isinstance(value, Part):
        return (value,)
    if isinstance(value, (list, tuple)) and value:
        pieces = cast("list[object]", value)
        if all(isinstance(piece, Part) for piece in pieces):
            return tuple(cast("list[Part]", pieces))
    return None


def _beside(value: object) -> tuple[object, tuple[Part, ...]]:
    """The value without its media, and the media: a model cannot read them as text."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        taken = {key: part for key, part in fields.items() if isinstance(part, Part)}
        rest: object = {key: each for key, each in fields.items() if key not in taken}
        return rest, tuple(taken.values())
    if isinstance(value, (list, tuple)):
        pieces = cast("Sequence[object]", value)
        parts = tuple(piece for piece in pieces if isinstance(piece, Part))
        rest = [piece for piece in pieces if not isinstance(piece, Part)]
        return rest, parts
    return value, ()


def to_json(value: object) -> Json:
    """A Python value as JSON: what is plain as it is, known kinds of objects by their fields."""
    try:
        return require_json(value, where="result")
    except SessionError as refused:
        try:
            plain: object = msgspec.to_builtins(
                value, str_keys=True, enc_hook=_fields, builtin_types=_BYTES
            )
        except (TypeError, ValueError, RecursionError):
            raise refused from None
        place = _place_of_bytes(plain)
        if place is not None:
            raise SessionError(
                "these are bytes of no known type",
                where=place,
                hint='return Part.from_bytes(data, "image/png") for a file, data.decode() for text',
            ) from None
        return require_json(plain, where="result")


def _place_of_bytes(value: object, where: str = "result") -> str | None:
    """Where the first bytes stand in a plain value; None where there are none."""
    if isinstance(value, _BYTES):
        return where
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        below = ((one, f"{where}.{key}") for key, one in fields.items())
    elif isinstance(value, list | tuple):
        listed = cast("Sequence[object]", value)
        below = ((one, f"{where}[{at}]") for at, one in enumerate(listed))
    else:
        return None
    places = (_place_of_bytes(one, place) for one, place in below)
    return next((place for place in places if place is not None), None)


def _fields(value: object) -> object:
    dump = cast("object", getattr(value, "model_dump", None))
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{describe_kind(value)} is not JSON")


def is_small(response: JsonObject) -> bool:
    """Whether a result is one text that surely fits into the log, as most are."""
    if len(response) == 1:
        for key, value in response.items():
            if type(value) is str:
                return len(key) + len(value) < LIMIT // 8  # a letter takes up to six in JSON
    return False


def shorten_result(response: JsonObject, name: str, artifact: str) -> JsonObject | None:
    """A result too large for the log, as its two ends and where the rest is; None if it fits."""
    text = compact(response)
    if len(text) <= LIMIT:
        return None
    return {
        "error": f"the result of {name} has {len(text):,} characters, more than {LIMIT:,};"
        f" it is kept as the artifact `{artifact}`",
        "begins": text[:2000],
        "ends": text[-2000:],
    }


# --- large files

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
        known = await invocation.surroundings.load_artifact(name, None)
        # the same file again is not saved again; one that was tampered with is
        if known is None or artifact_name(known.inline_data) != name:
            named_blob = msgspec.structs.replace(blob, display_name=name)
            artifacts[name] = await invocation.surroundings.save_artifact(
                name, Part(inline_data=named_blob)
            )
        uri = f"{SCHEME}{name}"
        invocation.media[uri] = loaded_media(uri, blob.data or "")
        file = FileData(file_uri=uri, mime_type=blob.mime_type, display_name=blob.display_name)
        smaller.append(msgspec.structs.replace(part, inline_data=None, file_data=file))
    return KeptParts(tuple(smaller), artifacts)


async def load_media(invocation: Invocation) -> None:
    """Have the files at hand that the session's events refer to."""

    async def load(name: str) -> Part | None:
        return await invocation.surroundings.load_artifact(name, None)

    await load_attachments(invocation.log.session.events, load, invocation.media)
