"""Content and its parts: what is said, called, returned, shown and thought.

The JSON is ADK's: camelCase names, nulls left out, one `Part` with one of its fields
set. Values are frozen. Base64 data and signatures stay the text they arrived as, so
they go back byte for byte. What only one provider understands travels as an opaque
part, in `partMetadata`, where every reader of ADK JSON lets it be.
"""

import base64
import json
from collections.abc import Iterable
from typing import Literal, cast

import msgspec

from weft.errors import SessionError
from weft.misuse import declared
from weft.values import Json, JsonObject, require_json

PartKind = Literal[
    "text", "thought", "call", "result", "media", "code", "code_result", "opaque", "empty"
]


_COPY = "write msgspec.structs.replace(value, {field}=...), which returns a copy"


class Value(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename="camel",
    repr_omit_defaults=True,
):
    """What all values of the log share: frozen, camelCase JSON, nulls left out, nothing unknown."""


class FunctionCall(Value, frozen=True):
    """A tool call the model made."""

    name: str | None = None
    args: JsonObject | None = None
    id: str | None = None
    partial_args: list[Json] | None = None
    will_continue: bool | None = None


class FunctionResponse(Value, frozen=True):
    """What a tool call returned; `parts` carries media beside the JSON."""

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
    """Media behind an address."""

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


@declared('Part(text="...")', change=_COPY)
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
        return "thought" if self.thought_signature else "empty"

    @property
    def opaque(self) -> tuple[str, JsonObject] | None:
        """The provider and its own JSON, for a part only that provider understands."""
        if self.part_metadata is None:
            return None
        held = self.part_metadata.get("weft")
        if not isinstance(held, dict):
            return None
        provider, payload = held.get("provider"), held.get("payload")
        if isinstance(provider, str) and isinstance(payload, dict):
            return provider, payload
        return None

    @property
    def provider(self) -> str:
        """The provider that signed this part, where the part says so."""
        held = (self.part_metadata or {}).get("weft")
        provider = held.get("provider") if isinstance(held, dict) else None
        return provider if isinstance(provider, str) else ""

    @property
    def kept(self) -> JsonObject | None:
        """Fields of the provider's own form of this part that no field here has a name for."""
        held = (self.part_metadata or {}).get("weft")
        kept = held.get("kept") if isinstance(held, dict) else None
        return kept if isinstance(kept, dict) else None


@declared("Content(parts=(...))", change=_COPY)
class Content(Value, frozen=True):
    """Who speaks (`user` or `model`), and the parts of what is said."""

    parts: tuple[Part, ...] | None = None
    role: str | None = None

    @property
    def text(self) -> str:
        """The text without thoughts."""
        return "".join(p.text for p in self.parts or () if p.text and not p.thought)


def text_part(text: str) -> Part:
    """Plain text."""
    return Part(text=text)


def thought_part(text: str, *, signature: str | None = None, provider: str = "") -> Part:
    """A thought, with the opaque signature that must go back unchanged."""
    metadata: JsonObject | None = {"weft": {"provider": provider}} if provider else None
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
    """Media behind an address."""
    return Part(file_data=FileData(file_uri=uri, mime_type=mime_type))


def opaque_part(provider: str, payload: JsonObject) -> Part:
    """A part that only `provider` understands and that goes back to it unchanged."""
    return Part(part_metadata={"weft": {"provider": provider, "payload": payload}})


ContentLike = str | Content | Part | Iterable[str | Part]


def to_content(value: ContentLike, *, role: str = "user", where: str = "message") -> Content:
    """A content from what people pass as a message: text, a part, several, or a content."""
    if isinstance(value, Content):
        return require_content(value, where=where)
    if isinstance(value, (str, Part)):
        value = (value,)
    if not isinstance(value, (list, tuple)):
        raise SessionError(
            f"a {type(value).__name__} is not a message",
            where=where,
            hint="pass text, a Part, a list of both, or a Content",
        )
    parts: list[Part] = []
    for piece in cast("Iterable[object]", value):
        if isinstance(piece, str):
            parts.append(Part(text=piece))
        elif isinstance(piece, Part):
            parts.append(piece)
        else:
            raise SessionError(
                f"a {type(piece).__name__} is not part of a message",
                where=where,
                hint="pass text or weft.Part values",
            )
    return require_content(Content(parts=tuple(parts), role=role), where=where)


def require_content(content: Content, *, where: str) -> Content:
    """The content, once what it carries is known to be JSON through and through."""
    for index, part in enumerate(content.parts or ()):
        if not isinstance(cast("object", part), Part):
            raise SessionError(
                f"a {type(part).__name__} is not a part",
                where=f"{where}.parts[{index}]",
                hint="pass weft.Part values",
            )
        if not isinstance(cast("object", part.text), str | None):
            raise SessionError(
                f"a {type(part.text).__name__} is not text",
                where=f"{where}.parts[{index}].text",
                hint="pass a string",
            )
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
        for held in (part.part_metadata, part.tool_call, part.tool_response):
            if held is not None:
                require_json(held, where=f"{where}.parts[{index}]")
    return content


def _require_part(raw: JsonObject, *, where: str) -> None:
    try:
        msgspec.convert(raw, Part)
    except msgspec.ValidationError as error:
        raise SessionError(
            f"this is not a part: {error}",
            where=where,
            hint="media beside a result is {inlineData} or {fileData}",
        ) from None


def encode(value: object, *, where: str) -> bytes:
    """A value of the log as JSON; lone surrogates are escaped, as only JSON text can hold them."""
    try:
        try:
            return msgspec.json.encode(value)
        except UnicodeEncodeError:
            return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise SessionError("it nests too deep to be written", where=where) from None
    except TypeError as error:
        raise SessionError(f"it cannot be written: {error}", where=where) from None
