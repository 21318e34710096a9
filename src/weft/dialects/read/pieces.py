"""What a request is read into: parts with the JSON they came from, tools, options.

The JSON stays beside each part until the part was lowered again. What lowering would not give
back is kept with it then, so a reader need not know every field that a provider has.
"""

import base64
import mimetypes
from collections.abc import Iterable
from typing import NamedTuple

from weft.content import Blob, FileData, FunctionResponse, Part
from weft.errors import UsageError
from weft.ir import Role
from weft.values import Json, JsonObject

RESULT, ERROR = "result", "error"


class Given(NamedTuple):
    """A part, and how it stood in the request; `apart` if it may not be joined with others.

    Without `wire` the part has all that there was: it was read as an answer's parts are.
    """

    part: Part
    wire: JsonObject | None
    apart: bool = False


class Turn(NamedTuple):
    """What one side said together."""

    role: Role
    parts: tuple[Given, ...]


class GivenTool(NamedTuple):
    """A declaration as it stood in the request; `own` if it is no function of the caller's."""

    wire: JsonObject
    name: str
    description: str = ""
    parameters: JsonObject | None = None
    own: bool = False


class GivenOutput(NamedTuple):
    """The answer's schema, its name, and what stood beside it."""

    schema: JsonObject
    name: str
    kept: JsonObject


class Reading(NamedTuple):
    """A request taken apart.

    `config` has the options under their canonical names, as far as they have one. `places` are
    the paths of everything else that was read: what stands elsewhere is an option.
    """

    system: tuple[Given, ...]
    turns: tuple[Turn, ...]
    tools: tuple[GivenTool, ...]
    output: GivenOutput | None
    config: JsonObject
    places: tuple[str, ...]


def illegible(what: str, where: str) -> UsageError:
    """The error for a request that cannot be one of this dialect."""
    return UsageError(what, where=where, hint="is it a request of another dialect?")


def objects(value: Json, where: str) -> list[JsonObject]:
    """A list of objects; a single one counts as a list of one, as the providers see it."""
    if value is None:
        return []
    found: list[JsonObject] = []
    for index, each in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(each, dict):
            raise illegible("there is no object here", f"{where}/{index}")
        found.append(each)
    return found


def field(wire: JsonObject, path: str) -> Json:
    """What stands at a dotted path, or None."""
    held: Json = wire
    for key in path.split("."):
        held = held.get(key) if isinstance(held, dict) else None
    return held


def take(wire: JsonObject, names: dict[str, str]) -> JsonObject:
    """The options that stand at a path of their own, by canonical name."""
    found = {name: field(wire, path) for name, path in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def string(held: JsonObject, key: str) -> str:
    """The text under a key, or none."""
    value = held.get(key)
    return value if isinstance(value, str) else ""


def text_of(content: Json, *kinds: str) -> str:
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts = [
        string(part, "text")
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") in kinds
    ]
    return "\n\n".join(texts)


def response(text: str, *, failed: bool = False) -> JsonObject:
    """A result that is one text."""
    return {ERROR if failed else RESULT: text}


def result(call_id: str, name: str, said: JsonObject, shown: Iterable[Part] = ()) -> Part:
    """A tool result, with the media it shows."""
    parts = [_media_json(part) for part in shown]
    return Part(
        function_response=FunctionResponse(
            id=call_id, name=name, response=said, parts=parts or None
        )
    )


def _media_json(part: Part) -> JsonObject:
    if part.inline_data is not None:
        blob = part.inline_data
        held: JsonObject = {"mimeType": blob.mime_type, "data": blob.data}
        return {"inlineData": {**held, "displayName": blob.display_name or None}}
    assert part.file_data is not None
    return {"fileData": {"fileUri": part.file_data.file_uri, "mimeType": part.file_data.mime_type}}


def inline(mime_type: str, data: str, name: str = "") -> Part:
    """Media in the message itself."""
    return Part(inline_data=Blob(mime_type=mime_type, data=data, display_name=name or None))


def text_document(text: str, name: str = "") -> Part:
    """A document that is plain text."""
    return inline("text/plain", base64.b64encode(text.encode()).decode("ascii"), name)


def linked(url: str, otherwise: str, name: str = "") -> Part:
    """Media behind an address, or in it; its type is guessed where the address does not say."""
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(",")
        return inline(kind.removesuffix(";base64") or otherwise, data, name)
    guessed = mimetypes.guess_type(url.partition("?")[0])[0] or ""
    family = otherwise.partition("/")[0]
    mime_type = guessed if guessed.partition("/")[0] == family else otherwise
    return Part(file_data=FileData(file_uri=url, mime_type=mime_type, display_name=name or None))


def thinking(**given: Json) -> JsonObject:
    """The option of that name, without what was not given."""
    held: JsonObject = {name: value for name, value in given.items() if value is not None}
    return {"thinking": held} if held else {}
