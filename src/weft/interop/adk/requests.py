"""Requests of google-adk: what stands in one, and how it is changed."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import cast

import msgspec

from weft.compiler.recall import Held
from weft.content import FunctionCall
from weft.interop.adk.objects import field, listed
from weft.ir import ToolDecl
from weft.ir.handle import RECALL
from weft.runtime.recall import found_among
from weft.values import Json, JsonObject, require_json


def body(
    request: object, contents: list[Json], system: str | None, added: Iterable[ToolDecl] = ()
) -> JsonObject:
    """The whole request as it would be sent with these, and with tools beside its own."""
    config = field(request, "config")
    words = system if system is not None else field(config, "system_instruction")
    made: JsonObject = {"contents": contents}
    if isinstance(words, str) and words:
        made["systemInstruction"] = {"parts": [{"text": words}]}
    tools = [_dumped(tool) for tool in listed(config, "tools")]
    for tool in added:
        told: JsonObject = {"name": tool.name, "description": tool.description}
        tools.append({"functionDeclarations": [{**told, "parameters": tool.parameters}]})
    if tools:
        made["tools"] = tools
    return made


def put(request: object, contents: list[Json], system: str | None) -> None:
    """Let the request say this."""
    content = import_module("google.genai.types").Content
    made = [content.model_validate_json(msgspec.json.encode(one)) for one in contents]
    setattr(request, "contents", made)  # noqa: B010  a field of a foreign object
    if system is not None:
        setattr(field(request, "config"), "system_instruction", system)  # noqa: B010


def refusal(why: str) -> object:
    """What google-adk takes for the answer to a request that is not sent."""
    response = cast("Callable[..., object]", import_module("google.adk.models").LlmResponse)
    return response(error_code="PROTECTED", error_message=f"the request was not sent: {why}")


def offer_recall(request: object, known: Sequence[Held]) -> None:
    """Add the tool that gets back what a handle in the request stands for, of what is known."""

    def recall(handle: str, lines: str = "", query: str = "", page: int = 1) -> dict[str, object]:
        """Get back a value that was shortened.

        Args:
            handle: The handle that stands in its place.
            lines: Only these lines, as 12-40.
            query: Only what fits these words.
            page: Which part of a long value.
        """
        asked = FunctionCall(
            name=RECALL,
            args={"handle": handle, "lines": lines, "query": query or None, "page": page},
        )
        return {**(found_among(known, asked).response or {})}

    append = field(request, "append_tools")
    if callable(append) and RECALL not in cast("dict[str, object]", field(request, "tools_dict")):
        tool = cast("Callable[..., object]", import_module("google.adk.tools").FunctionTool)
        append([tool(recall)])


def _dumped(tool: object) -> Json:
    dump = field(tool, "model_dump")
    held = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else tool
    return require_json(held, where="tools")
