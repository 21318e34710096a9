"""What OpenAI's Responses refuse."""

from weft.dialects.openai import is_openai, reasons
from weft.dialects.refuse.finding import (
    OPTION,
    REQUEST,
    Finding,
    Findings,
    SeenIds,
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
_ANSWERED_HERE = ("function_call", "custom_tool_call")
"""Calls that whoever asks must answer; the provider answers the others."""
_PAIR = "answer every call, and send a call with its result"


def refused_head(wire: JsonObject, model: str) -> Findings:
    """Everything but the items that the provider would answer with a 400."""
    yield from _options(wire, model)
    yield from _tools(wire, model)
    form = inner(wire, "text", "format")
    if form.get("type") == "json_schema":
        yield from bad_format(form, "/text/format", model)


class ResponsesTurns:
    """Items that are empty, sent twice, without their other half, or without what they led to."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._own = is_openai(model)
        self._ids = SeenIds()
        self._calls = SeenIds()
        self._waiting: dict[str, str] = {}
        self._early: dict[str, str] = {}
        """Results that no call stands before."""
        self._reasoning = ""
        """Where reasoning stands that the next item must have led to."""
        self._any = self._adds_tools = False

    def fork(self) -> "ResponsesTurns":
        """A copy to read on with."""
        copy = ResponsesTurns(self._model)
        copy._ids, copy._calls = self._ids.fork(), self._calls.fork()
        copy._waiting, copy._early = dict(self._waiting), dict(self._early)
        copy._reasoning = self._reasoning
        copy._any, copy._adds_tools = self._any, self._adds_tools
        return copy

    def read(self, turn: JsonObject, at: str) -> Findings:
        """One more item."""
        self._any = True
        kind = str(turn.get("type") or "message")
        self._adds_tools = self._adds_tools or kind == "additional_tools"
        if kind == "message":
            yield from _message(turn, at, self._model)
        elif kind == "function_call_output":
            for where, part in objects(turn.get("output"), f"{at}/output"):
                yield from _part(part, where, self._model)
        yield from self._follows(turn, kind)
        if kind == "reasoning" and turn.get("id") and self._own:
            self._reasoning = at
        item = turn.get("id")
        if isinstance(item, str) and kind != "item_reference":
            named = f"{kind} {item}"
            if named in self._ids:
                message = f"two items have the id {item}"
                yield Finding(REQUEST, f"{at}/id", message, "send each item once")
            self._ids.add(named)
        self._pair(turn, kind, at)

    def end(self, wire: JsonObject) -> Findings:
        """What the end of the conversation leaves open."""
        goes_on = _goes_on(wire)
        if not self._any and not wire.get("input") and not goes_on:
            yield Finding(REQUEST, "/input", "there is nothing to answer", "say something")
        if self._reasoning:
            yield _led_nowhere(self._reasoning)
        for call, at in self._waiting.items():
            yield Finding(REQUEST, at, f"the call {call} has no result", _PAIR)
        for call, at in () if goes_on else self._early.items():
            yield Finding(REQUEST, at, f"the result of {call} answers no call", _PAIR)
        yield from self._choice(wire)
        if inner(wire, "text", "format").get("type") == "json_object" and not goes_on:
            yield from wants_json(wire.get("input"), "/text/format")

    def _follows(self, turn: JsonObject, kind: str) -> Findings:
        """Reasoning goes back with the very item it led to, which has an id as it has one."""
        at, self._reasoning = self._reasoning, ""
        own = kind == "reasoning" or (turn.get("id") and turn.get("role") in (None, "assistant"))
        if at and not own:
            yield _led_nowhere(at)

    def _pair(self, turn: JsonObject, kind: str, at: str) -> None:
        """Calls and results belong together; the other half may be held by the provider."""
        call = str(turn.get("call_id"))
        if kind.endswith("_call"):
            self._calls.add(call)
            if self._early.pop(call, None) is None and kind in _ANSWERED_HERE:
                self._waiting[call] = at
        elif kind.endswith("_output"):
            known = self._waiting.pop(call, None) is not None or call in self._calls
            if not known and kind.removesuffix("_output") in _ANSWERED_HERE:
                self._early[call] = at

    def _choice(self, wire: JsonObject) -> Findings:
        """A tool that must be called, and is not there."""
        if self._adds_tools:
            return
        listed = objects(wire.get("tools"), "/tools")
        choice = inner(wire, "tool_choice")
        if wire.get("tool_choice") == "required" and not listed:
            message = "a tool must be called, and there are none"
            yield Finding(OPTION, "/tool_choice", message, "leave out tool_choice")
        grouped = any(tool.get("type") in ("namespace", "tool_search") for _, tool in listed)
        if choice.get("type") == "function" and not grouped:
            known = {str(tool.get("name")) for _, tool in listed}
            yield from undeclared([choice.get("name")], known, "/tool_choice/name")


def _led_nowhere(at: str) -> Finding:
    message = "reasoning stands here without what it led to"
    return Finding(REQUEST, at, message, "send the item that followed it as it came, or neither")


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


def _goes_on(wire: JsonObject) -> bool:
    """Whether the provider holds a part of what is said."""
    return any(wire.get(key) for key in ("previous_response_id", "conversation", "prompt"))


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
