"""Reading Anthropic requests: content blocks, or plain strings, in alternating messages."""

from weft.dialects.measure.quantities import (
    LATER,
    OWN_TOOLS,
    SERVED,
    Declared,
    Head,
    Part,
    Reader,
    Turn,
    list_of,
    object_of,
    readable,
    said,
    text_of,
)
from weft.tokens import own_tool_tokens
from weft.values import Json, JsonObject

_HELD = ("container", "context_management", "thread")


def head(wire: JsonObject) -> Head:
    """System text, tools, schema, choice and thinking."""
    tools: list[Declared] = []
    others: list[str] = []
    uncounted: dict[str, None] = {}
    own = 0
    for tool in map(object_of, list_of(wire.get("tools"))):
        kind = text_of(tool.get("type")) or "custom"
        if kind != "custom":
            size = own_tool_tokens(kind)
            own += size
            if not size:
                others.append(said(tool))
                uncounted[OWN_TOOLS] = None
        elif tool.get("defer_loading"):
            uncounted[LATER] = None
        else:
            named = text_of(tool.get("name")), text_of(tool.get("description"))
            tools.append(Declared(*named, object_of(tool.get("input_schema"))))
    if wire.get("mcp_servers"):
        uncounted["the tools of its MCP servers"] = None
    form = object_of(object_of(wire.get("output_config")).get("format"))
    return Head(
        system=tuple(_words(block) for block in list_of(wire.get("system"))),
        tools=tuple(tools),
        others=tuple(others),
        schema=form.get("schema"),
        forced=object_of(wire.get("tool_choice")).get("type") in ("any", "tool"),
        thinking=object_of(wire.get("thinking")).get("type") in ("enabled", "adaptive"),
        stateful=any(wire.get(key) for key in _HELD),
        own=own,
        uncounted=tuple(uncounted),
    )


def turn(message: Json) -> Turn:
    """One message; results alone are not the user speaking."""
    if not isinstance(message, dict):
        return Turn("user", [Part("", "text", text_of(message))], asks=True)
    role, content = text_of(message.get("role")) or "user", message.get("content")
    if isinstance(content, str):
        return Turn(role, [Part("/content", "text", content)], asks=role == "user")
    parts: list[Part] = []
    asks = False
    for index, block in enumerate(list_of(content)):
        found = _block(f"/content/{index}", block)
        asks = asks or found[0].kind != "result"
        parts += found
    return Turn(role, parts, asks=asks and role == "user")


def _block(pointer: str, block: Json) -> list[Part]:
    """A block as its parts, of which there is always one."""
    if not isinstance(block, dict):
        return [Part(pointer, "text", text_of(block))]
    match block.get("type"):
        case "text":
            return [Part(pointer, "text", text_of(block.get("text")))]
        case "thinking":
            sealed = len(text_of(block.get("signature")))
            return [Part(pointer, "thought", text_of(block.get("thinking")), sealed=sealed)]
        case "redacted_thinking":
            return [Part(pointer, "thought", "", sealed=len(text_of(block.get("data"))))]
        case "tool_use":
            name = text_of(block.get("name"))
            return [Part(pointer, "call", said(block.get("input", {})), name)]
        case "tool_result":
            inner = list_of(block.get("content"))
            shown = [one for one in inner if not _is_text(one)]
            text = "".join(_words(one) for one in inner if _is_text(one))
            below = [part for one in shown for part in _block(pointer, one)]
            return [Part(pointer, "result", text), *below]
        case "image":
            return [_media(pointer, object_of(block.get("source")), "image/png")]
        case "document":
            return [_media(pointer, object_of(block.get("source")), "application/pdf")]
        case "tool_reference" | "tool_addition" | "tool_removal":
            return [Part(pointer, "other", said(block), uncounted=LATER)]
        case "search_result":
            text = "".join(_words(one) for one in list_of(block.get("content")))
            told = text_of(block.get("title")) + text_of(block.get("source"))
            return [Part(pointer, "document", told + text)]
        case _:
            return [Part(pointer, "other", said(readable(block)), uncounted=SERVED)]


def _media(pointer: str, source: JsonObject, fallback: str) -> Part:
    match source.get("type"):
        case "text":
            return Part(pointer, "document", text_of(source.get("data")))
        case "content":
            text = "".join(_words(one) for one in list_of(source.get("content")))
            return Part(pointer, "document", text)
        case _:
            kind = text_of(source.get("media_type")) or fallback
            return Part(pointer, "media", text_of(source.get("data")), kind)


def _is_text(block: Json) -> bool:
    return not isinstance(block, dict) or block.get("type") == "text"


def _words(block: Json) -> str:
    return text_of(block.get("text") if isinstance(block, dict) else block)


READER = Reader("messages", head, turn, merges=True)
