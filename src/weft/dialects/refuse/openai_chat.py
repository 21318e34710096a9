"""What OpenAI's Chat Completions refuse."""

import re

from weft.dialects.openai import is_openai, reasons
from weft.dialects.refuse.finding import (
    OPTION,
    REQUEST,
    Finding,
    Findings,
    inner,
    is_plain,
    objects,
    unsupported,
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
from weft.dialects.refuse.tools import Declared, answered, unanswered, undeclared
from weft.values import Json, JsonObject

_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
}
_PAIR = "answer every call right after the turn it stands in"
_MOST_STOPS = 4
_THINKS_UNASKED = r"gpt-5\.6"
"""Models that think unless they are told not to, and call no functions here while they do."""


def refused_head(wire: JsonObject, model: str) -> Findings:
    """Everything but the turns that the provider would answer with a 400.

    Many servers speak the format, and each has its own idea of what it takes: what is said here
    is about OpenAI's own models.
    """
    if not is_openai(model):
        return
    yield from _options(wire, model)
    yield from _tools(wire, model)
    form = inner(wire, "response_format", "json_schema")
    yield from bad_format(form, "/response_format/json_schema", model)


class ChatTurns:
    """Unknown roles, empty turns, media a role does not take, calls without results."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._own = is_openai(model)
        self._waiting: dict[str, str] = {}
        self._any = False

    def fork(self) -> "ChatTurns":
        """A copy to read on with."""
        copy = ChatTurns(self._model)
        copy._waiting, copy._any = dict(self._waiting), self._any
        return copy

    def read(self, turn: JsonObject, at: str) -> Findings:
        """One more message."""
        self._any = True
        if not self._own:
            return
        spoken = turn.get("role") in ("user", "assistant") and is_plain(turn.get("content"))
        if spoken and not self._waiting and "tool_calls" not in turn:
            return
        yield from _message(turn, at, self._model)
        if turn.get("role") == "tool":
            yield from answered(self._waiting, str(turn.get("tool_call_id")), at, _PAIR)
            return
        yield from unanswered(self._waiting, _PAIR)
        for where, call in objects(turn.get("tool_calls"), f"{at}/tool_calls"):
            self._waiting[str(call.get("id"))] = where

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        if not self._any:
            yield Finding(REQUEST, "/messages", "there are no turns", "say something")
        if not self._own:
            return
        yield from unanswered(dict(self._waiting), _PAIR)
        if inner(wire, "response_format").get("type") == "json_object":
            yield from wants_json(wire.get("messages"), "/response_format")


def _options(wire: JsonObject, model: str) -> Findings:
    yield from bad_options(wire, wire.get("reasoning_effort"), "/reasoning_effort", model)
    yield from too_short(wire, "max_completion_tokens", 1)
    renamed = reasons(model) and "search" not in model
    if renamed and wire.get("max_tokens") is not None:
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
    if not reasons(model):
        yield from unsupported(wire, "", {"verbosity": "medium"}, model)
    if "search" not in model:
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
        alone: dict[str, Json] = {"tool_choice": "none", "parallel_tool_calls": None}
        yield from unsupported(wire, "", alone, "a request without tools")
    choice = inner(wire, "tool_choice", "function")
    known = {tool.name for tool, _ in functions}
    yield from undeclared([choice.get("name")], known, "/tool_choice/function/name")
    effort = wire.get("reasoning_effort")
    asked = effort not in (None, "none") or (effort is None and re.match(_THINKS_UNASKED, model))
    if functions and asked and loads_later(model):
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
        elif kind == "file":
            yield from bad_file(inner(part, "file"), f"{where}/file")
