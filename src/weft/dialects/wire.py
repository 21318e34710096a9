"""JSON of any provider: values that may be anything, fields, media, and a request as it is read.

Nothing here knows a provider. What has another shape than it should is read as if it were absent.
"""

import base64
import binascii
import functools
import json
import re
from collections.abc import Iterable, Mapping

import msgspec

from weft.content import Blob, FileData, FunctionCall, FunctionResponse, Part, PartProvenance
from weft.errors import UsageError
from weft.ir import MediaBlock, Role
from weft.jsonschema import MAX_DEPTH, deeper_than
from weft.values import Json, JsonObject, compact, has_lone_surrogate, scrub

# --- values


def is_encodable(value: object) -> bool:
    """Whether every text in a JSON value, keys included, can be encoded as UTF-8."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    except (OverflowError, TypeError):  # very large integers; the slow way knows them
        return not has_lone_surrogate(compact(value))
    return True


def scrub_surrogates(value: Json) -> Json:
    """The value with every lone surrogate in it replaced by U+FFFD."""
    if isinstance(value, str):
        return scrub(value) if has_lone_surrogate(value) else value
    if isinstance(value, dict):
        return {str(scrub_surrogates(key)): scrub_surrogates(entry) for key, entry in value.items()}
    return [scrub_surrogates(entry) for entry in value] if isinstance(value, list) else value


def text_in(value: Json) -> str:
    """The text, or an empty one where it is none."""
    return value if isinstance(value, str) else ""


def object_in(value: Json) -> JsonObject:
    """The object, or an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[JsonObject]:
    """The objects of a list; none where it is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def number(value: Json) -> float | None:
    """The number, or None where it is none."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def count_in(value: Json) -> int | None:
    """The count, or None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value)


def as_list(value: Json) -> list[Json]:
    """The list; a single value is a list of one."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def as_text(value: Json) -> str:
    """A string as it is, nothing as no text, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else as_json(value)


def as_json(value: object) -> str:
    """A value as the compact JSON it is sent as, or as near to that as it can be written."""
    try:
        return compact(value)
    except RecursionError:
        return ""
    except (TypeError, ValueError):
        return json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)


def text_at(fields: JsonObject, key: str) -> str:
    """The text under a key, or none."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def at_path(wire: JsonObject, path: str) -> Json:
    """What stands at a dotted path, or None."""
    value: Json = wire
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def object_at(wire: Json, *path: str) -> JsonObject:
    """The object at a path, or an empty one."""
    for key in path:
        wire = wire.get(key) if isinstance(wire, dict) else None
    return wire if isinstance(wire, dict) else {}


def placed_objects(value: Json, pointer: str) -> list[tuple[str, JsonObject]]:
    """The objects of a list, each with its place; a single one counts as a list of one."""
    if isinstance(value, dict):
        return [(pointer, value)]
    listed = value if isinstance(value, list) else []
    return [(f"{pointer}/{at}", one) for at, one in enumerate(listed) if isinstance(one, dict)]


def either_case(value: JsonObject, name: str) -> Json:
    """A field under its camelCase name, or under the snake_case one recordings may have."""
    return value[name] if name in value else value.get(_snake(name))


@functools.cache
def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


# --- fields


def without(fields: JsonObject, *names: str) -> JsonObject:
    """The other fields that have a value: nulls are left out too."""
    return {key: value for key, value in fields.items() if value is not None and key not in names}


def drop_fields(value: JsonObject, *names: str) -> JsonObject:
    """The other fields, nulls as well: they go back as they came."""
    return {key: value for key, value in value.items() if key not in names}


def present(**fields: Json) -> JsonObject | None:
    """The fields that have a value; None where none has."""
    return {name: value for name, value in fields.items() if value is not None} or None


def put(wire: JsonObject, path: str, value: Json) -> None:
    """Set a value at a dotted path, making the objects on the way."""
    *above, last = path.split(".")
    for key in above:
        inner = wire.setdefault(key, {})
        assert isinstance(inner, dict)
        wire = inner
    wire[last] = value


def deep_update(wire: JsonObject, extra: Mapping[str, Json]) -> None:
    """Merge the provider's own fields into the request; null takes away what stands there."""
    for key, value in extra.items():
        if value is None and key in wire:
            del wire[key]
            continue
        if isinstance(value, dict):
            inner = wire.get(key)
            below: JsonObject = dict(inner) if isinstance(inner, dict) else {}
            deep_update(below, value)
            wire[key] = below
        else:
            wire[key] = value


def leaves(wire: JsonObject, above: str = "") -> list[str]:
    """Pointers to everything in the request that is not an object."""
    pointers: list[str] = []
    for key, value in wire.items():
        pointer = f"{above}/{escape(key)}"
        pointers += leaves(value, pointer) if isinstance(value, dict) else [pointer]
    return pointers


def escape(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def has_messages(wire: JsonObject) -> bool:
    """Whether the request is a list of messages; with `input` or `contents` it is another's."""
    others = (wire.get("contents"), wire.get("input"))
    return isinstance(wire.get("messages"), list) and not any(
        isinstance(other, list | str) for other in others
    )


# --- comparing


def difference(before: JsonObject, after: JsonObject) -> JsonObject:
    """The fields that turn `before` into `after`; null for one that must go.

    A field that is null says no more than one that is absent.
    """
    changed: JsonObject = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and value:
            inner = difference(old, value)
            if inner:
                changed[key] = inner
        elif not alike(old, value, key):
            changed[key] = value
    for key, value in before.items():
        if value is not None and key not in after:
            changed[key] = None
    return changed


def alike(one: Json, other: Json, key: str = "") -> bool:
    """Whether two values say the same: arguments as JSON, a text as the one part it is."""
    if one == other:
        # to Python True is 1, to a provider it is not
        return type(one) is type(other) or not (isinstance(one, bool) or isinstance(other, bool))
    if isinstance(one, str) and isinstance(other, str):
        return key == "arguments" and _decode_json(one) == _decode_json(other) != None  # noqa: E711
    if isinstance(one, str) and isinstance(other, list):
        return _only_text(other) == one
    return False


def _decode_json(text: str) -> Json:
    try:
        decoded: Json = json.loads(text)
    except ValueError:
        return None
    return decoded


def _only_text(parts: list[Json]) -> str | None:
    """The text of a list that is one part with nothing but text."""
    if len(parts) != 1 or not isinstance(parts[0], dict):
        return None
    part = parts[0]
    text = part.get("text")
    named = part.keys() - {"type"} == {"text"}
    return text if named and isinstance(text, str) else None


# --- answers


def provider_metadata(dialect: str, fields: JsonObject | None) -> JsonObject | None:
    """The metadata of a part that keeps fields of its provider's; None where there are none."""
    return None if fields is None else PartProvenance(provider=dialect, fields=fields).onto(None)


def lifted_call(
    dialect: str,
    call: FunctionCall,
    arguments: Json,
    fields: JsonObject | None,
    signature: str | None = None,
) -> Part:
    """A call with its arguments; one whose arguments are not an object says what came instead."""
    metadata: JsonObject | None = provider_metadata(dialect, fields)
    args = arguments if isinstance(arguments, dict) else None
    # validators and encoders fail on what nests that deep
    if args is None or deeper_than(args, MAX_DEPTH):
        args = None
        text = arguments if isinstance(arguments, str) else compact(arguments)
        metadata = PartProvenance(malformed=text).onto(metadata)
    whole = FunctionCall(name=call.name, args=args, id=call.id)
    return Part(function_call=whole, thought_signature=signature, part_metadata=metadata)


def arguments_json(value: Json) -> str:
    """A call's arguments as compact JSON, parsed first where they are sent as text."""
    if not isinstance(value, str):
        return as_json({} if value is None else value)
    try:
        return as_json(json.loads(value or "{}"))
    except (ValueError, RecursionError):
        return value


def readable(value: Json) -> Json:
    """A value without what only the provider can read."""
    if isinstance(value, dict):
        return {key: readable(field) for key, field in value.items() if key not in SEALED}
    return [readable(each) for each in value] if isinstance(value, list) else value


SEALED = frozenset(
    ("encrypted_content", "encrypted_index", "encrypted_stdout", "signature", "data",
     "thoughtSignature", "thought_signature")
)  # fmt: skip
"""Fields that only the provider can read: their letters are not what is counted."""


# --- media: its plain type, its address, its text

_TEXTUAL = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "yaml", "x-yaml", "javascript", "x-ndjson", "toml")
)


def mime_of(block: MediaBlock) -> str:
    """The type in lower case, without parameters."""
    plain = block.mime_type.partition(";")[0].strip().lower()
    return "image/jpeg" if plain == "image/jpg" else plain


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


# --- requests read back


class ReadPart(msgspec.Struct, frozen=True):
    """A part, and how it stood in the request; `apart` if it may not be joined with others.

    Without `wire` the part has all that there was: it was read as an answer's parts are. `source`
    is what it was read from in the message, where that is neither `wire` nor its text.
    """

    part: Part
    wire: JsonObject | None
    apart: bool = False
    source: Json = None


class ReadTurn(msgspec.Struct, frozen=True):
    """What one side said together."""

    role: Role
    parts: tuple[ReadPart, ...]


class ReadTool(msgspec.Struct, frozen=True):
    """A declaration as it stood in the request; `own` if it is not a function of the caller's."""

    wire: JsonObject
    name: str
    description: str = ""
    parameters: JsonObject | None = None
    own: bool = False


class ReadOutput(msgspec.Struct, frozen=True):
    """The answer's schema, its name, and the other fields next to it."""

    schema: JsonObject
    name: str
    beside: JsonObject


class ReadRequest(msgspec.Struct, frozen=True):
    """A request taken apart.

    `config` has the options under their canonical names, as far as they have one. `places` are
    the paths of everything else that was read: what stands elsewhere is an option.
    """

    system: tuple[ReadPart, ...]
    turns: tuple[ReadTurn, ...]
    tools: tuple[ReadTool, ...]
    output: ReadOutput | None
    config: JsonObject
    places: tuple[str, ...]


def illegible(what: str, where: str) -> UsageError:
    """The error for a request that cannot be one of this dialect."""
    return UsageError(what, where=where, hint="is it a request of another dialect?")


def require_objects(value: Json, where: str) -> list[JsonObject]:
    """A list of objects; a single one counts as a list of one, as the providers see it."""
    if value is None:
        return []
    objects: list[JsonObject] = []
    for index, each in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(each, dict):
            raise illegible("there is no object here", f"{where}/{index}")
        objects.append(each)
    return objects


def joined_text(content: Json, *kinds: str) -> str:
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts = [
        text_at(part, "text")
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") in kinds
    ]
    return "\n\n".join(texts)


RESULT, ERROR = "result", "error"


def text_response(text: str, *, failed: bool = False) -> JsonObject:
    """A result that is one text."""
    return {ERROR if failed else RESULT: text}


def result_part(call_id: str, name: str, response: JsonObject, media: Iterable[Part] = ()) -> Part:
    """A tool result, with the media it shows."""
    parts = [_media_json(part) for part in media]
    return Part(
        function_response=FunctionResponse(
            id=call_id, name=name, response=response, parts=parts or None
        )
    )


def _media_json(part: Part) -> JsonObject:
    if part.inline_data is not None:
        blob = part.inline_data
        data: JsonObject = {"mimeType": blob.mime_type, "data": blob.data}
        return {"inlineData": {**data, "displayName": blob.display_name or None}}
    assert part.file_data is not None
    return {"fileData": {"fileUri": part.file_data.file_uri, "mimeType": part.file_data.mime_type}}


def inline_part(mime_type: str, data: str, name: str = "") -> Part:
    """Media in the message itself."""
    return Part(inline_data=Blob(mime_type=mime_type, data=data, display_name=name or None))


def text_document_part(text: str, name: str = "") -> Part:
    """A document that is plain text."""
    return inline_part("text/plain", base64.b64encode(text.encode()).decode("ascii"), name)


def linked_part(url: str, otherwise: str, name: str = "") -> Part:
    """Media at an address, or in it; its type is guessed where the address does not say."""
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(",")
        return inline_part(kind.removesuffix(";base64") or otherwise, data, name)
    import mimetypes  # few requests have media

    guessed = mimetypes.guess_type(url.partition("?")[0])[0] or ""
    family = otherwise.partition("/")[0]
    # the ending of an address may lie; that an image is asked for does not
    mime_type = guessed if guessed.partition("/")[0] == family else otherwise
    return Part(file_data=FileData(file_uri=url, mime_type=mime_type, display_name=name or None))
