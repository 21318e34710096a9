"""Reading OpenAI requests, both formats: every message and every item is a turn."""

from weft.dialects.measure.quantities import (
    HELD,
    LATER,
    OWN_TOOLS,
    SERVED,
    Declared,
    Head,
    Part,
    Reader,
    Turn,
    arguments,
    data_url,
    list_of,
    object_of,
    readable,
    said,
    text_of,
)
from weft.values import Json, JsonObject

_TEXTS = ("text", "input_text", "output_text")
_ASKED_BACK = ("custom", "local_shell", "namespace")
"""Tools that whoever asks runs: what is declared is all there is of them."""
_HELD = ("previous_response_id", "conversation", "prompt")


def chat_head(wire: JsonObject) -> Head:
    """Tools, schema and choice; the system text is among the messages."""
    functions = [object_of(one) for one in list_of(wire.get("functions"))]
    others: list[str] = []
    for tool in map(object_of, list_of(wire.get("tools"))):
        if isinstance(function := tool.get("function"), dict):
            functions.append(function)
        else:
            others.append(said(tool))
    searches = wire.get("web_search_options") is not None
    form = object_of(object_of(wire.get("response_format")).get("json_schema"))
    return Head(
        tools=tuple(map(_declared, functions)),
        others=tuple(others),
        schema=form.get("schema"),
        forced=_forced(wire),
        uncounted=(OWN_TOOLS,) if searches else (),
    )


def chat_turn(message: Json) -> Turn:
    """One message; a tool's is a result."""
    if not isinstance(message, dict):
        return Turn("user", [Part("", "text", text_of(message))], asks=True)
    role = text_of(message.get("role")) or "user"
    if role in ("tool", "function"):
        return Turn(role, _result(message.get("content")))
    parts = _content(message.get("content"))
    if isinstance(refusal := message.get("refusal"), str):
        parts.append(Part("/refusal", "text", refusal))
    for index, call in enumerate(list_of(message.get("tool_calls"))):
        parts.append(_called(f"/tool_calls/{index}", object_of(call)))
    if isinstance(call := message.get("function_call"), dict):
        parts.append(_called("/function_call", {"function": call}))
    return Turn(role, parts, asks=role == "user")


def responses_head(wire: JsonObject) -> Head:
    """Instructions, tools, schema and choice."""
    tools: list[Declared] = []
    others: list[str] = []
    uncounted: dict[str, None] = {}
    for tool in map(object_of, list_of(wire.get("tools"))):
        kind = text_of(tool.get("type"))
        if tool.get("defer_loading") or (kind == "namespace" and "defer_loading" in said(tool)):
            uncounted[LATER] = None
        elif kind == "function":
            tools.append(_declared(tool))
        else:
            others.append(said(tool))
            if kind == "mcp":
                uncounted["the tools of its MCP servers"] = None
            elif kind not in _ASKED_BACK and tool.get("execution") != "client":
                uncounted[OWN_TOOLS] = None
    return Head(
        system=tuple(text_of(one) for one in list_of(wire.get("instructions")) if one),
        tools=tuple(tools),
        others=tuple(others),
        schema=object_of(object_of(wire.get("text")).get("format")).get("schema"),
        forced=_forced(wire),
        stateful=any(wire.get(key) for key in _HELD),
        uncounted=tuple(uncounted),
    )


def responses_turn(item: Json) -> Turn:
    """One item; reasoning is no turn of its own."""
    if not isinstance(item, dict):
        return Turn("user", [Part("", "text", text_of(item))], asks=True)
    match item.get("type") or "message":
        case "message":
            role = text_of(item.get("role")) or "user"
            return Turn(role, _content(item.get("content")), asks=role == "user")
        case "function_call":
            name = text_of(item.get("name"))
            return Turn("", [Part("", "call", arguments(item.get("arguments")), name)])
        case "function_call_output":
            return Turn("", _result(item.get("output")))
        case "reasoning":
            sealed = len(text_of(item.get("encrypted_content")))
            return Turn("", [Part("", "thought", "", sealed=sealed)], counts=False)
        case "additional_tools" | "tool_search_output":
            listed = [object_of(tool) for tool in list_of(item.get("tools"))]
            parts = [Part("", "tool", said(_declared(tool)), uncounted=LATER) for tool in listed]
            return Turn("", parts)
        case "tool_search_call" | "custom_tool_call" | "custom_tool_call_output":
            return Turn("", [Part("", "other", said(readable(item)))])
        case "item_reference":
            return Turn("", [Part("", "other", "", uncounted=HELD)])
        case "compaction" | "compaction_summary":
            return Turn("", [Part("", "other", "", uncounted="what was compacted")])
        case _:
            return Turn("", [Part("", "other", said(readable(item)), uncounted=SERVED)])


def _content(content: Json) -> list[Part]:
    if isinstance(content, str):
        return [Part("/content", "text", content)]
    return [_part(f"/content/{index}", part) for index, part in enumerate(list_of(content))]


def _result(content: Json) -> list[Part]:
    """What a tool gave: its texts as one result, and what it shows."""
    if isinstance(content, str):
        return [Part("", "result", content)]
    parts = [_part("", part) for part in list_of(content)]
    text = "".join(part.text for part in parts if part.kind == "text")
    return [Part("", "result", text), *(part for part in parts if part.kind != "text")]


def _part(pointer: str, part: Json) -> Part:
    if not isinstance(part, dict):
        return Part(pointer, "text", text_of(part))
    kind = part.get("type")
    if kind in _TEXTS:
        return Part(pointer, "text", text_of(part.get("text")))
    if kind == "refusal":
        return Part(pointer, "text", text_of(part.get("refusal")))
    if kind in ("image_url", "input_image"):
        held = part.get("image_url")
        url = held.get("url") if isinstance(held, dict) else held
        return data_url(pointer, text_of(url), "image/png")
    if kind == "input_audio":
        sound = object_of(part.get("input_audio"))
        name = f"audio/{text_of(sound.get('format')) or 'wav'}"
        return Part(pointer, "media", text_of(sound.get("data")), name)
    if kind in ("file", "input_file"):
        file = part if kind == "input_file" else object_of(part.get("file"))
        return data_url(pointer, text_of(file.get("file_data")), "application/pdf")
    return Part(pointer, "other", said(part))


def _called(pointer: str, call: JsonObject) -> Part:
    if not isinstance(function := call.get("function"), dict):
        return Part(pointer, "other", said(call))
    name = text_of(function.get("name"))
    return Part(pointer, "call", arguments(function.get("arguments")), name)


def _declared(function: JsonObject) -> Declared:
    return Declared(
        text_of(function.get("name")),
        text_of(function.get("description")),
        object_of(function.get("parameters")) or None,
    )


def _forced(wire: JsonObject) -> bool:
    return wire.get("tool_choice") not in (None, "auto", "none")


CHAT = Reader("messages", chat_head, chat_turn)
RESPONSES = Reader("input", responses_head, responses_turn, system_counts=True)
