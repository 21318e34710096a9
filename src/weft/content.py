"""Content and its parts: what is said, called, returned, shown and thought.

The JSON is ADK's: camelCase names, nulls left out, one `Part` with one of its fields
set. Values are frozen. Base64 data and signatures stay the text they arrived as, so
they go back byte for byte. What only one provider understands travels as an opaque
part, in `partMetadata`, where every reader of ADK JSON lets it be.
"""

import base64
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard, TypeVar, Union, cast

import msgspec

from weft.errors import SessionError, describe_kind, with_article
from weft.media import HINT, read_data_url, require_type, type_of_address
from weft.misuse import explain_mistakes
from weft.values import (
    Json,
    JsonObject,
    has_lone_surrogate,
    is_json,
    join_halves,
    require_json,
)

if TYPE_CHECKING:
    from pathlib import Path

PartKind = Literal[
    "text", "thought", "call", "result", "media", "code", "code_result", "opaque", "empty"
]


_COPY = "write msgspec.structs.replace(value, {field}=...), which returns a copy"


class Value(
    msgspec.Struct,
    frozen=True,
    # frozen JSON has no cycles, and each collection would walk a long log
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename="camel",
    repr_omit_defaults=True,
):
    """What all values of the log share: frozen, camelCase JSON, nulls left out, nothing unknown."""


KEY = "weft"
"""Where Weft's notes stand in the metadata of an event or a part; others ignore it."""


class MetadataNotes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A struct that is stored under the key `weft` of a metadata object."""

    def onto(self, metadata: JsonObject | None) -> JsonObject:
        """The metadata with these notes; other keys, and other notes, stay as they are."""
        notes: JsonObject = msgspec.to_builtins(self)
        return {**(metadata or {}), KEY: {**notes_in(metadata), **notes}}

    def beneath(self, metadata: JsonObject | None) -> JsonObject:
        """The metadata with these notes where it has no such note itself."""
        notes: JsonObject = msgspec.to_builtins(self)
        return {**(metadata or {}), KEY: {**notes, **notes_in(metadata)}}


class PartProvenance(MetadataNotes, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What Weft keeps on a part, under `partMetadata.weft`; None: not noted.

    What Weft keeps on an event is `weft.session.provenance.Provenance`.
    """

    provider: str | None = None
    """The dialect that the part's signature, payload or fields belong to."""
    payload: JsonObject | None = None
    """The provider's own JSON of a part that only this provider understands."""
    fields: JsonObject | None = msgspec.field(default=None, name="kept")
    """Fields of the provider's own form of the part that no field of a part has a name for."""
    malformed: str | None = None
    """What a model wrote as a call's arguments, where that is not a JSON object."""
    untrusted: Json | None = None
    """Set when the log was read from outside: the notes that do not count."""


NO_PART_NOTES = PartProvenance()


class FunctionCall(Value, frozen=True):
    """A tool call the model made."""

    name: str | None = None
    args: JsonObject | None = None
    id: str | None = None
    partial_args: list[Json] | None = None
    will_continue: bool | None = None


class FunctionResponse(Value, frozen=True):
    """What a tool call returned; `parts` carries media in addition to the JSON."""

    name: str | None = None
    response: JsonObject | None = None
    id: str | None = None
    parts: list[JsonObject] | None = None
    will_continue: bool | None = None
    scheduling: str | None = None


class Blob(Value, frozen=True):
    """Media in the message itself; `data` is base64 text."""

    mime_type: str | None = None
    data: str | None = None
    display_name: str | None = None


class FileData(Value, frozen=True):
    """Media at an address."""

    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class ExecutableCode(Value, frozen=True):
    """Code the model wrote to be run."""

    code: str | None = None
    language: str | None = None
    id: str | None = None


class CodeExecutionResult(Value, frozen=True):
    """What running the code gave."""

    outcome: str | None = None
    output: str | None = None
    id: str | None = None


@explain_mistakes('Part(text="...")', change=_COPY)
class Part(Value, frozen=True):
    """One piece of a content; `kind` says which."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    video_metadata: JsonObject | None = None
    media_resolution: Json | None = None
    media_processing: Json | None = None
    audio_transcription: Json | None = None
    speech_metadata: Json | None = None
    tool_call: JsonObject | None = None
    tool_response: JsonObject | None = None
    part_metadata: JsonObject | None = None

    @property
    def kind(self) -> PartKind:
        """What this part is."""
        # a call is one also with a signature or the mark of a thought on it
        if self.function_call is not None:
            return "call"
        if self.function_response is not None:
            return "result"
        if self.opaque is not None or self.tool_call is not None or self.tool_response is not None:
            return "opaque"
        if self.thought:
            return "thought"
        if self.text:
            return "text"
        if self.inline_data is not None or self.file_data is not None:
            return "media"
        if self.executable_code is not None:
            return "code"
        if self.code_execution_result is not None:
            return "code_result"
        # a signature may come alone, and must go back as a thought does
        return "thought" if self.thought_signature else "empty"

    @property
    def provenance(self) -> PartProvenance:
        """What Weft keeps on this part."""
        metadata = self.part_metadata
        return (
            NO_PART_NOTES
            if metadata is None
            else read_notes(metadata, PartProvenance, NO_PART_NOTES)
        )

    @property
    def opaque(self) -> tuple[str, JsonObject] | None:
        """The provider and its own JSON, for a part only that provider understands."""
        if self.part_metadata is None:
            return None
        notes = self.provenance
        if notes.provider is None or notes.payload is None:
            return None
        return notes.provider, notes.payload

    @staticmethod
    def from_bytes(data: bytes, mime_type: str | None = None, *, name: str | None = None) -> "Part":
        """Media in the message: `Part.from_bytes(png, "image/png")`.

        Without a type, the bytes and the name tell it.
        """
        where = "Part.from_bytes"
        if not isinstance(cast("object", data), bytes | bytearray | memoryview):
            raise SessionError(
                f"{describe_kind(data)} is not the bytes of a file",
                where=where,
                hint='pass bytes: Part.from_bytes(Path("a.png").read_bytes(), "image/png")',
            )
        _require_type_name(mime_type, where)
        kind = require_type(bytes(data), mime_type, name or "", where=where)
        encoded = base64.b64encode(data).decode("ascii")
        return Part(inline_data=Blob(mime_type=kind, data=encoded, display_name=name))

    @staticmethod
    def from_path(path: "str | Path", mime_type: str | None = None) -> "Part":
        """A file in the message: `Part.from_path("a.pdf")`; its bytes and name tell its type."""
        where = "Part.from_path"
        from pathlib import Path  # few messages have files

        if not isinstance(cast("object", path), str | Path):
            raise SessionError(
                f"{describe_kind(path)} is not a path", where=where, hint='pass "a.pdf"'
            )
        file = Path(path)
        try:
            data = file.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SessionError(
                f"`{file}` cannot be read: {reason}", where=where, hint="pass the path of a file"
            ) from None
        _require_type_name(mime_type, where)
        kind = require_type(data, mime_type, file.name, where=f"{where}({str(path)!r})")
        encoded = base64.b64encode(data).decode("ascii")
        return Part(inline_data=Blob(mime_type=kind, data=encoded, display_name=file.name))

    @staticmethod
    def from_url(url: str, mime_type: str | None = None) -> "Part":
        """Media at an address, which the provider fetches; what is in a data URL is sent.

        Without a type, the end of the address tells it.
        """
        where = "Part.from_url"
        if not isinstance(cast("object", url), str) or ":" not in url:
            raise SessionError(
                f"{url!r} is not an address",
                where=where,
                hint='pass "https://...", or Part.from_path(...) for a file',
            )
        _require_type_name(mime_type, where)
        scheme = url.partition(":")[0].lower()
        if scheme == "data":
            read = read_data_url(url, where=where)
            kind = require_type(read.data, mime_type or read.mime_type or None, "", where=where)
            encoded = base64.b64encode(read.data).decode("ascii")
            return Part(inline_data=Blob(mime_type=kind, data=encoded))
        if scheme not in ("https", "http", "gs"):
            raise SessionError(
                f"no provider fetches {scheme}: addresses",
                where=where,
                hint="pass an https address, or Part.from_path(...) for a file",
            )
        kind = mime_type or type_of_address(url)
        if not kind:
            raise SessionError(f"{url} does not tell its type", where=where, hint=HINT)
        return Part(file_data=FileData(file_uri=url, mime_type=kind))


def _require_type_name(mime_type: object, where: str) -> None:
    if mime_type is not None and (not isinstance(mime_type, str) or "/" not in mime_type):
        raise SessionError(f"{mime_type!r} is not a type of media", where=where, hint=HINT)


@explain_mistakes("Content(parts=(...))", change=_COPY)
class Content(Value, frozen=True):
    """Who speaks (`user` or `model`), and the parts of what is said."""

    parts: tuple[Part, ...] | None = None
    role: str | None = None

    @property
    def text(self) -> str:
        """The text without thoughts."""
        parts = self.parts
        if parts is not None and len(parts) == 1:
            return (parts[0].text or "") if not parts[0].thought else ""
        return "".join([p.text for p in parts or () if p.text and not p.thought])


def text_part(text: str) -> Part:
    """Plain text."""
    return Part(text=text)


def thought_part(text: str, *, signature: str | None = None, provider: str = "") -> Part:
    """A thought, with the opaque signature that must go back unchanged."""
    metadata = PartProvenance(provider=provider).onto(None) if provider else None
    return Part(text=text, thought=True, thought_signature=signature, part_metadata=metadata)


def call_part(name: str, args: JsonObject, *, id: str | None = None) -> Part:
    """A tool call."""
    return Part(function_call=FunctionCall(name=name, args=args, id=id))


def result_part(name: str, response: JsonObject, *, id: str | None = None) -> Part:
    """A tool result."""
    return Part(function_response=FunctionResponse(name=name, response=response, id=id))


def media_part(mime_type: str, data: bytes | str) -> Part:
    """Media in the message; bytes are encoded as base64."""
    encoded = base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data
    return Part(inline_data=Blob(mime_type=mime_type, data=encoded))


def file_part(uri: str, mime_type: str) -> Part:
    """Media at an address."""
    return Part(file_data=FileData(file_uri=uri, mime_type=mime_type))


def opaque_part(provider: str, payload: JsonObject) -> Part:
    """A part that only `provider` understands and that goes back to it unchanged."""
    return Part(part_metadata=PartProvenance(provider=provider, payload=payload).onto(None))


ContentLike: TypeAlias = Union[str, Content, Part, "Path", Iterable["str | Part | Path"]]

_MEDIA_HINT = (
    'pass weft.Part.from_bytes(data, "image/png") for media in the message, or'
    ' weft.Part.from_url("https://...", "image/png")'
)
_MESSAGE_HINT = "pass text, a weft.Part, a Path, a list of them, or a weft.Content"


def to_content(value: ContentLike, *, role: str = "user", where: str = "message") -> Content:
    """A content from what people pass as a message: text, a part, several, or a content."""
    if isinstance(value, Content):
        return require_content(value, where=where)
    if isinstance(value, (str, Part)) or _is_path(value):
        value = (value,)
    if not isinstance(value, (list, tuple)):
        raise _no_message(value, where)
    parts: list[Part] = []
    for index, piece in enumerate(cast("Iterable[object]", value)):
        if isinstance(piece, str):
            parts.append(Part(text=piece))
        elif isinstance(piece, Part):
            parts.append(piece)
        elif _is_path(piece):
            parts.append(Part.from_path(piece))
        else:
            raise _no_message(piece, f"{where}[{index}]", part=True)
    return require_content(Content(parts=tuple(parts), role=role), where=where)


def _is_path(value: object) -> "TypeGuard[Path]":
    """Whether it is a Path; where nobody has loaded them, there is none."""
    return "pathlib" in sys.modules and isinstance(value, sys.modules["pathlib"].Path)


def _no_message(value: object, where: str, *, part: bool = False) -> SessionError:
    """The error for what is not a message, or not part of one; it says what to type instead."""
    what = describe_kind(value)
    hint = "pass text, weft.Part values or a Path" if part else _MESSAGE_HINT
    if isinstance(value, bytes | bytearray | memoryview):
        hint = _MEDIA_HINT
    elif isinstance(value, dict):
        spelled = cast("dict[object, object]", value)
        hint = "read JSON first: msgspec.convert(value, weft.Content), or weft.Part for a part"
        if "content" in spelled or "messages" in spelled:  # as OpenAI and others spell messages
            hint = "pass the text alone; weft.Session.from_messages reads a whole conversation"
    kind = "part of a message" if part else "a message"
    return SessionError(f"{what} is not {kind}", where=where, hint=hint)


def _require_types(part: Part, where: str) -> None:
    """Refuse fields that hold something else than they say; a constructor looks at none of them."""
    call, result, blob, file = (
        part.function_call, part.function_response, part.inline_data, part.file_data
    )  # fmt: skip
    _require_texts(where, _MEDIA_HINT, text=part.text)
    _require_texts(where, "pass a string", thought_signature=part.thought_signature)
    if blob is not None:
        _require_kind(blob, Blob, f"{where}.inline_data", _MEDIA_HINT)
        place = f"{where}.inline_data"
        _require_texts(place, _MEDIA_HINT, data=blob.data, mime_type=blob.mime_type)
        _require_texts(place, "pass a string", display_name=blob.display_name)
    if file is not None:
        _require_kind(file, FileData, f"{where}.file_data", _MEDIA_HINT)
        place = f"{where}.file_data"
        _require_texts(place, _MEDIA_HINT, file_uri=file.file_uri, mime_type=file.mime_type)
        _require_texts(place, "pass a string", display_name=file.display_name)
    for name, field_value, kind in (
        ("function_call", call, FunctionCall),
        ("function_response", result, FunctionResponse),
    ):
        if field_value is not None:
            _require_kind(
                field_value, kind, f"{where}.{name}", f"pass a weft.content.{kind.__name__}"
            )
            _require_texts(
                f"{where}.{name}", "pass a string", name=field_value.name, id=field_value.id
            )
    code, ran = part.executable_code, part.code_execution_result
    if code is not None:
        _require_kind(code, ExecutableCode, f"{where}.executable_code", "pass an ExecutableCode")
        _require_texts(f"{where}.executable_code", "pass a string", code=code.code)
    if ran is not None:
        place = f"{where}.code_execution_result"
        _require_kind(ran, CodeExecutionResult, place, "pass a CodeExecutionResult")
        _require_texts(place, "pass a string", outcome=ran.outcome, output=ran.output)


def _require_kind(value: object, kind: type[Value], where: str, hint: str) -> None:
    if not isinstance(value, kind):
        raise SessionError(
            f"{describe_kind(value)} is not {with_article(kind.__name__)}", where=where, hint=hint
        )


def _require_texts(where: str, hint: str, /, **fields: object) -> None:
    for name, value in fields.items():
        if not isinstance(value, str | None):
            raise SessionError(
                f"{describe_kind(value)} is not text", where=f"{where}.{name}", hint=hint
            )


def require_content(content: Content, *, where: str) -> Content:
    """The content, once what it carries is known to be JSON through and through."""
    if not isinstance(cast("object", content.role), str | None):
        raise SessionError(
            f"{describe_kind(content.role)} is not a role", where=f"{where}.role", hint='"user"'
        )
    if not isinstance(cast("object", content.parts), tuple | list | None):
        raise SessionError(
            f"{describe_kind(content.parts)} is not a list of parts",
            where=f"{where}.parts",
            hint="pass a tuple of weft.Part values: Content(parts=(Part(text=...),))",
        )
    for index, part in enumerate(content.parts or ()):
        if is_plain(part):
            continue
        if not isinstance(cast("object", part), Part):
            error = _no_message(part, f"{where}.parts[{index}]", part=True)
            raise SessionError(
                f"{describe_kind(part)} is not a part", where=error.where, hint=error.hint
            )
        _require_types(part, f"{where}.parts[{index}]")
        call, result = part.function_call, part.function_response
        if part.text and (call is not None or result is not None) and not part.thought:
            other = "functionCall" if call is not None else "functionResponse"
            raise SessionError(
                f"one part holds both text and {other}",
                where=f"{where}.parts[{index}]",
                hint="give each its own part",
            )
        if call is not None and call.args:
            require_json(call.args, where=f"{where}.parts[{index}].functionCall.args")
        if result is not None:
            place = f"{where}.parts[{index}].functionResponse"
            require_json(result.response, where=f"{place}.response")
            for at, raw in enumerate(result.parts or ()):
                _require_part(raw, where=f"{place}.parts[{at}]")
        for value in (part.part_metadata, part.tool_call, part.tool_response):
            if value is not None:
                require_json(value, where=f"{where}.parts[{index}]")
    return content


def is_plain(part: Part) -> bool:
    """Whether the part is one text, call or result, and holds plain JSON: nearly every part does.

    What is not may be sound too: then it is looked at more closely.
    """
    if (
        type(part) is not Part
        or part.thought_signature is not None
        or part.inline_data is not None
        or part.file_data is not None
        or part.executable_code is not None
        or part.code_execution_result is not None
        or part.part_metadata is not None
        or part.tool_call is not None
        or part.tool_response is not None
    ):
        return False
    call, result = part.function_call, part.function_response
    if part.text is not None:
        return call is None and result is None and type(part.text) is str
    if call is not None:
        return (
            result is None
            and type(call) is FunctionCall
            and type(call.name) is str
            and type(call.id) is str
            and (call.args is None or (type(call.args) is dict and is_json(call.args)))
        )
    return result is None or (
        type(result) is FunctionResponse
        and type(result.name) is str
        and type(result.id) is str
        and not result.parts
        and (
            result.response is None or (type(result.response) is dict and is_json(result.response))
        )
    )


_POSTED = frozenset(
    ("text", "inline_data", "file_data", "function_response", "video_metadata",
     "media_resolution", "media_processing")
)  # fmt: skip
_ABOUT_MEDIA = ("video_metadata", "media_resolution", "media_processing")
_ANSWERED = frozenset(("name", "response", "id", "parts"))
_POSTED_HINT = "post text, media, and the function responses to calls that wait; nothing else"


def require_posted(content: Content, *, where: str) -> Content:
    """What a client posted, once it is data alone: text, media, and answers to calls.

    Whoever speaks to an agent must not speak for it: roles, calls, thoughts, signatures and what
    a provider or Weft itself would interpret are the runtime's to write. They are refused and not
    dropped, since a client that sends them means something else than it would get.
    """
    if content.role not in (None, "user"):
        raise SessionError(
            f"a message is the user's, and this one has the role {content.role!r}",
            where=f"{where}.role",
            hint='leave `role` out, or write role="user"',
        )
    for index, part in enumerate(content.parts or ()):
        _require_posted_part(part, f"{where}.parts[{index}]", _POSTED)
        answer = part.function_response
        if answer is None:
            continue
        place = f"{where}.parts[{index}].function_response"
        _refuse_others(answer, _ANSWERED, place)
        for at, raw in enumerate(answer.parts or ()):
            media = msgspec.convert(raw, Part)
            _require_posted_part(media, f"{place}.parts[{at}]", _POSTED - {"function_response"})
    if content.role is None:
        return msgspec.structs.replace(content, role="user")
    return content


def _require_posted_part(part: Part, where: str, allowed: frozenset[str]) -> None:
    _refuse_others(part, allowed, where)
    fields = msgspec.structs.asdict(part)
    filled = [name for name in ("text", "inline_data", "file_data", "function_response")
            if fields[name] not in (None, "")]  # fmt: skip
    if len(filled) > 1:  # a part is read as one of them, and the other would be lost
        raise SessionError(
            f"one part holds both {filled[0]} and {filled[1]}",
            where=where,
            hint="give each its own part",
        )
    about = [name for name in _ABOUT_MEDIA if fields[name] is not None]
    if about and not part.inline_data and not part.file_data:
        raise SessionError(f"{about[0]} stands where no media is", where=where, hint=_POSTED_HINT)


def _refuse_others(value: Value, allowed: frozenset[str], where: str) -> None:
    fields = cast("dict[str, object]", msgspec.structs.asdict(value))
    for name, field_value in fields.items():
        if field_value is not None and name not in allowed:
            words = f"`{name}` is not a client's to post"
            if name == "function_call":
                words = "the message holds a tool call, which only a model makes"
            raise SessionError(words, where=where, hint=_POSTED_HINT)


_SomeNotes = TypeVar("_SomeNotes", bound=MetadataNotes)


def read_notes(metadata: JsonObject, kind: type[_SomeNotes], nothing: _SomeNotes) -> _SomeNotes:
    """The notes in a metadata object; `nothing` where it has none.

    A log may come from outside, so a note of the wrong type counts as absent.
    """
    stored = metadata.get(KEY)
    if not isinstance(stored, dict):
        return nothing
    try:
        return msgspec.convert(stored, kind)
    except msgspec.ValidationError:
        names = (field.encode_name for field in msgspec.structs.fields(kind))
        readable = {name: _readable(name, stored[name], kind) for name in names if name in stored}
        return msgspec.convert(readable, kind)


def _readable(name: str, value: Json, kind: type[MetadataNotes]) -> Json:
    """What of a note has the right type: all of it, some entries of it, or nothing."""
    if _fits(name, value, kind):
        return value
    if isinstance(value, list):
        return [entry for entry in value if _fits(name, [entry], kind)] or None
    if isinstance(value, dict):
        some: JsonObject = {k: v for k, v in value.items() if _fits(name, {k: v}, kind)}
        return some if some and _fits(name, some, kind) else None
    return None


def _fits(name: str, value: Json, kind: type[MetadataNotes]) -> bool:
    try:
        msgspec.convert({name: value}, kind)
    except msgspec.ValidationError:
        return False
    return True


def notes_in(metadata: JsonObject | None) -> JsonObject:
    """The notes of a metadata object as the JSON they are stored as."""
    stored = metadata.get(KEY) if metadata is not None else None
    return stored if isinstance(stored, dict) else {}


def distrust(content: Content) -> Content:
    """The content as it counts where nobody knows that Weft wrote it.

    What stands under `partMetadata.weft` steers what is sent: a provider's own JSON goes to it
    unread. In a log from outside it is set aside, where nothing looks for it, and not lost.
    """
    parts = content.parts or ()
    if not any(part.part_metadata and KEY in part.part_metadata for part in parts):
        return content
    return msgspec.structs.replace(content, parts=tuple(map(_untrusted_part, parts)))


def _untrusted_part(part: Part) -> Part:
    metadata = part.part_metadata or {}
    if KEY not in metadata:
        return part
    stored = metadata[KEY]
    harmless_notes: JsonObject = {}
    rest: Json = stored
    if isinstance(stored, dict):
        harmless = ("provider", "malformed", "untrusted")  # whose a signature is, it proves itself
        harmless_notes = {name: value for name, value in stored.items() if name in harmless}
        rest = {name: value for name, value in stored.items() if name not in harmless}
    if rest:
        before = harmless_notes.get("untrusted")
        both = isinstance(before, dict) and isinstance(rest, dict)
        harmless_notes["untrusted"] = {**before, **rest} if both else rest  # type: ignore[dict-item]
    return msgspec.structs.replace(part, part_metadata={**metadata, KEY: harmless_notes})


def _require_part(raw: JsonObject, *, where: str) -> None:
    try:
        msgspec.convert(raw, Part)
    except msgspec.ValidationError as error:
        raise SessionError(
            f"this is not a part: {error}",
            where=where,
            hint="media with a result is {inlineData} or {fileData}",
        ) from None


def whole_characters(content: Content) -> Content:
    """The content as a log has it where a stream has cut a character of its texts in two.

    The pieces put together are two halves, which no JSON gives back: it has the character.
    """
    parts = content.parts or ()
    for part in parts:
        # nearly every text is plain, and this is asked of every answer
        if part.text and not part.text.isascii() and has_lone_surrogate(part.text):
            break
    else:
        return content
    joined = [
        msgspec.structs.replace(part, text=join_halves(part.text)) if part.text else part
        for part in parts
    ]
    return msgspec.structs.replace(content, parts=tuple(joined))
