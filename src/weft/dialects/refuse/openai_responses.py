"""What OpenAI's Responses refuse."""

from weft.dialects.openai import is_openai, reasons
from weft.dialects.refuse.finding import (
    OPTION,
    REQUEST,
    Finding,
    Findings,
    inner,
    objects,
)
from weft.dialects.refuse.media import unread
from weft.dialects.refuse.openai import (
    bad_file,
    bad_format,
    bad_functions,
    bad_image,
    bad_options,
    loads_later,
    too_short,
    unheard,
    wants_json,
)
from weft.dialects.refuse.tools import Declared, undeclared
from weft.values import JsonObject

_ROLES = ("user", "assistant", "system", "developer")
_SAID = {"input_text", "input_image", "input_file", "input_audio", "refusal", "output_text"}
_LEAST_TOKENS = 16
_NOT_MINIMAL = {"web_search", "web_search_preview", "image_generation", "code_interpreter"}
_SEALED = "reasoning.encrypted_content"
_PAIR = "answer every call, and send a call with its result"


def refused(wire: JsonObject, model: str) -> Findings:
    """Everything in a request that the provider would answer with a 400."""
    yield from _options(wire, model)
    yield from _tools(wire, model)
    form = inner(wire, "text", "format")
    if form.get("type") == "json_schema":
        yield from bad_format(form, "/text/format", model)
    elif form.get("type") == "json_object" and not _goes_on(wire):
        yield from wants_json(wire.get("input"), "/text/format")
    yield from _items(wire, model)


def _options(wire: JsonObject, model: str) -> Findings:
    reasoning = inner(wire, "reasoning")
    yield from bad_options(wire, reasoning.get("effort"), "/reasoning/effort", model)
    yield from too_short(wire, "max_output_tokens", _LEAST_TOKENS)
    if reasoning.get("context") == "all_turns" and not loads_later(model):
        message = f"{model} cannot be told how much reasoning to keep"
        yield Finding(OPTION, "/reasoning/context", message, "leave it out")
    plain = is_openai(model) and not reasons(model)
    include = wire.get("include")
    if plain and isinstance(include, list) and _SEALED in include:
        message = f"{model} does not think, so there is no reasoning to give"
        yield Finding(OPTION, "/include", message, f"leave out {_SEALED}")
    if plain and inner(wire, "text").get("verbosity") not in (None, "medium"):
        message = f"{model} has one verbosity only"
        yield Finding(OPTION, "/text/verbosity", message, "leave it out")
    if wire.get("background") is True and wire.get("store") is False:
        message = "what runs in the background must be stored"
        yield Finding(OPTION, "/background", message, "leave out background, or store it")
    if wire.get("previous_response_id") and wire.get("conversation"):
        message = "the request goes on from an answer and from a conversation"
        yield Finding(OPTION, "/conversation", message, "leave out one of them")


def _tools(wire: JsonObject, model: str) -> Findings:
    listed = objects(wire.get("tools"), "/tools")
    functions = [
        (
            Declared(at, str(tool.get("name", "")), tool.get("parameters"), f"{at}/parameters"),
            tool.get("strict") is True,
        )
        for at, tool in listed
        if tool.get("type") == "function" and not tool.get("defer_loading")
    ]
    yield from bad_functions(functions)
    minimal = inner(wire, "reasoning").get("effort") == "minimal"
    for at, tool in listed:
        kind = str(tool.get("type"))
        later = kind == "tool_search" or tool.get("defer_loading") is True
        if later and not loads_later(model):
            message = f"{model} cannot look for tools that are loaded later"
            yield Finding(REQUEST, at, message, "send the tools at once, or use another model")
        if minimal and kind in _NOT_MINIMAL:
            message = f"`{kind}` cannot be used with minimal effort"
            yield Finding(OPTION, at, message, "use low effort or more")
        if kind == "computer_use_preview" and wire.get("truncation") != "auto":
            message = "using a computer needs truncation"
            hint = 'set extra={"openai-responses": {"truncation": "auto"}}'
            yield Finding(OPTION, "/truncation", message, hint)
    choice = inner(wire, "tool_choice")
    known = {str(tool.get("name")) for _, tool in listed}
    grouped = any(tool.get("type") in ("namespace", "tool_search") for _, tool in listed)
    if choice.get("type") == "function" and not grouped and not _adds_tools(wire):
        yield from undeclared([choice.get("name")], known, "/tool_choice/name")
    if wire.get("tool_choice") == "required" and not listed and not _adds_tools(wire):
        message = "a tool must be called, and there are none"
        yield Finding(OPTION, "/tool_choice", message, "leave out tool_choice")


def _adds_tools(wire: JsonObject) -> bool:
    items = objects(wire.get("input"), "")
    return any(item.get("type") == "additional_tools" for _, item in items)


def _goes_on(wire: JsonObject) -> bool:
    """Whether the provider holds a part of what is said."""
    return any(wire.get(key) for key in ("previous_response_id", "conversation", "prompt"))


def _items(wire: JsonObject, model: str) -> Findings:
    said = wire.get("input")
    goes_on = _goes_on(wire)
    if not said and not goes_on:
        yield Finding(REQUEST, "/input", "there is nothing to answer", "say something")
    items = objects(said, "/input")
    ids: set[str] = set()
    for at, item in items:
        if item.get("type", "message") == "message":
            yield from _message(item, at, model)
        elif item.get("type") == "function_call_output":
            for where, part in objects(item.get("output"), f"{at}/output"):
                yield from _part(part, where, model)
        held = item.get("id")
        if isinstance(held, str):
            if held in ids and item.get("type") != "item_reference":
                hint = "send each item once"
                yield Finding(REQUEST, f"{at}/id", f"two items have the id {held}", hint)
            ids.add(held)
    yield from _pairs(items, goes_on=goes_on)
    if is_openai(model):
        yield from _followers(items)


def _message(item: JsonObject, at: str, model: str) -> Findings:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        yield Finding(REQUEST, f"{at}/role", f"{role!r} is no role", "use user or assistant")
    if content is None:
        yield Finding(REQUEST, f"{at}/content", "this turn says nothing", "say something")
    for where, part in objects(content, f"{at}/content"):
        kind = str(part.get("type"))
        said = kind in ("output_text", "refusal")
        if kind not in _SAID or said != (role == "assistant"):
            yield unread(kind, where, f"the role {role}")
        else:
            yield from _part(part, where, model)


def _part(part: JsonObject, where: str, model: str) -> Findings:
    match part.get("type"):
        case "input_image":
            yield from bad_image(part.get("image_url"), f"{where}/image_url")
        case "input_file":
            yield from bad_file(part, where)
        case "input_audio":
            yield from unheard(where, model)
        case _:
            return


def _pairs(items: list[tuple[str, JsonObject]], *, goes_on: bool) -> Findings:
    """Calls and results belong together; the other half may be held by the provider."""
    calls = _ids(items, "_call")
    results = _ids(items, "_call_output")
    for call, at in calls.items():
        if call not in results:
            yield Finding(REQUEST, at, f"the call {call} has no result", _PAIR)
    for call, at in results.items():
        if call not in calls and not goes_on:
            yield Finding(REQUEST, at, f"the result of {call} answers no call", _PAIR)


def _ids(items: list[tuple[str, JsonObject]], ending: str) -> dict[str, str]:
    kinds = tuple(f"{name}{ending}" for name in ("function", "custom_tool"))
    return {str(item.get("call_id")): at for at, item in items if item.get("type") in kinds}


def _followers(items: list[tuple[str, JsonObject]]) -> Findings:
    """Reasoning stands before what it led to."""
    for index, (at, item) in enumerate(items):
        follower = items[index + 1][1] if index + 1 < len(items) else {}
        users = follower.get("role") == "user" or str(follower.get("type")).endswith("_output")
        if item.get("type") == "reasoning" and item.get("id") and (not follower or users):
            message = "reasoning stands here without what it led to"
            yield Finding(REQUEST, at, message, "send the item that followed it, or neither")
