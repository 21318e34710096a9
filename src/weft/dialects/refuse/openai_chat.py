"""What OpenAI's Chat Completions refuse."""

import re

from weft.dialects.media import PDF
from weft.dialects.openai import is_openai, reasons
from weft.dialects.refuse.finding import (
    OPTION,
    REQUEST,
    Finding,
    Findings,
    inner,
    objects,
    out_of_range,
    unsupported,
)
from weft.dialects.refuse.media import unread
from weft.dialects.refuse.openai import (
    RANGES,
    bad_caching,
    bad_effort,
    bad_file,
    bad_format,
    bad_functions,
    bad_image,
    bad_sampling,
    loads_later,
    too_short,
    unheard,
    wants_json,
)
from weft.dialects.refuse.tools import Declared, undeclared
from weft.values import JsonObject

_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
}
_PAIR = "answer every call right after the turn it stands in"
_MOST_STOPS = 4


def refused(wire: JsonObject, model: str) -> Findings:
    """Everything in a request that the provider would answer with a 400."""
    yield from out_of_range(wire, "", RANGES)
    yield from _options(wire, model)
    yield from _tools(wire, model)
    form = inner(wire, "response_format")
    yield from bad_format(inner(form, "json_schema"), "/response_format/json_schema", model)
    if form.get("type") == "json_object":
        yield from wants_json(wire.get("messages"), "/response_format")
    messages = objects(wire.get("messages"), "/messages")
    if not messages:
        yield Finding(REQUEST, "/messages", "there are no turns", "say something")
    for at, message in messages:
        yield from _message(message, at, model)
    yield from _pairs(messages)


def _options(wire: JsonObject, model: str) -> Findings:
    effort = wire.get("reasoning_effort")
    yield from bad_sampling(wire, model, effort)
    yield from bad_effort(effort, "/reasoning_effort", model)
    yield from bad_caching(wire, model)
    yield from too_short(wire, "max_completion_tokens", 1)
    if is_openai(model) and reasons(model) and wire.get("max_tokens") is not None:
        message = f"{model} calls `max_tokens` max_completion_tokens"
        yield Finding(OPTION, "/max_tokens", message, "write max_output_tokens")
    if wire.get("top_logprobs") is not None and not wire.get("logprobs"):
        message = "`top_logprobs` stands without `logprobs`"
        yield Finding(OPTION, "/top_logprobs", message, "set logprobs to how many you want")
    if wire.get("stream_options") is not None and not wire.get("stream"):
        message = "`stream_options` stands in a request that is not streamed"
        yield Finding(OPTION, "/stream_options", message, "leave it out, or stream")
    stops = wire.get("stop")
    if isinstance(stops, list) and len(stops) > _MOST_STOPS:
        message = f"there are {len(stops)} stop sequences, and {_MOST_STOPS} may be"
        yield Finding(OPTION, "/stop", message, "leave some out")
    if wire.get("verbosity") not in (None, "medium") and is_openai(model) and not reasons(model):
        yield from unsupported(wire, "", {"verbosity": "medium"}, model)
    if is_openai(model) and "search" not in model:
        yield from unsupported(wire, "", {"web_search_options": None}, model)


def _tools(wire: JsonObject, model: str) -> Findings:
    listed = objects(wire.get("tools"), "/tools")
    functions: list[tuple[Declared, bool]] = []
    for at, tool in listed:
        function = inner(tool, "function")
        if tool.get("type") == "function":
            name, where = str(function.get("name", "")), f"{at}/function"
            declared = Declared(where, name, function.get("parameters"), f"{where}/parameters")
            functions.append((declared, function.get("strict") is True))
    yield from bad_functions(functions)
    if not listed:
        names = ("tool_choice", "parallel_tool_calls")
        yield from unsupported(wire, "", dict.fromkeys(names), "a request without tools")
    choice = inner(wire, "tool_choice", "function")
    known = {tool.name for tool, _ in functions}
    yield from undeclared([choice.get("name")], known, "/tool_choice/function/name")
    effort = wire.get("reasoning_effort")
    if functions and effort not in (None, "none") and is_openai(model) and loads_later(model):
        message = f"{model} takes no functions together with an effort here"
        hint = "ask it through the Responses format: openai-responses/NAME"
        yield Finding(OPTION, "/reasoning_effort", message, hint)
    if listed and re.match(r"o1-(mini|preview)", model):
        yield Finding(REQUEST, "/tools", f"{model} calls no tools", "use another model")


def _message(message: JsonObject, at: str, model: str) -> Findings:
    role, content = message.get("role"), message.get("content")
    takes = _PARTS.get(str(role))
    if takes is None and role != "function":
        yield Finding(REQUEST, f"{at}/role", f"{role!r} is no role", "use user or assistant")
    if role in ("system", "developer") and re.match(r"o1-(mini|preview)", model):
        hint = "say it in the user's turn"
        yield Finding(REQUEST, f"{at}/role", f"{model} takes no system text", hint)
    said = any(message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio"))
    if content is None and not (role == "assistant" and said):
        yield Finding(REQUEST, f"{at}/content", "this turn says nothing", "say something")
    if content == []:
        yield Finding(REQUEST, f"{at}/content", "this turn is empty", "say something")
    for where, part in objects(content, f"{at}/content"):
        kind = str(part.get("type"))
        if takes is not None and kind not in takes:
            yield unread(kind, where, f"the role {role}")
        elif kind == "input_audio":
            yield from unheard(where, model)
        elif kind == "image_url":
            url = inner(part, "image_url").get("url")
            yield from bad_image(url, f"{where}/image_url/url")
        elif kind == "file" and is_openai(model):
            yield from bad_file(inner(part, "file"), f"{where}/file", frozenset((PDF,)))


def _pairs(messages: list[tuple[str, JsonObject]]) -> Findings:
    waiting: dict[str, str] = {}
    for at, message in messages:
        if message.get("role") == "tool":
            call = str(message.get("tool_call_id"))
            if waiting.pop(call, None) is None:
                text = f"the result of {call} answers no call of the turn before"
                yield Finding(REQUEST, at, text, _PAIR)
            continue
        yield from _unanswered(waiting)
        for where, call_ in objects(message.get("tool_calls"), f"{at}/tool_calls"):
            waiting[str(call_.get("id"))] = where
    yield from _unanswered(waiting)


def _unanswered(waiting: dict[str, str]) -> Findings:
    for call, where in waiting.items():
        yield Finding(REQUEST, where, f"the call {call} has no result after it", _PAIR)
    waiting.clear()
