"""What a request of OpenAI's clients says in addition to its messages, field by field.

Nothing is passed over in silence. A field is read; or it has no effect here, and `NO_EFFECT` and
the docs say so; or it is refused, because without it the answer would be another than the client
asks for. Fields that are null are not there.

Top to bottom: the tables of fields, the options of the model, the form of the answer, tools.
"""

import math
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, cast

from weft.declare.answers import ANY_OBJECT
from weft.declare.tool import Tool
from weft.dialects.schema_subset import wrap_root
from weft.errors import DeclarationError
from weft.schema import of_type
from weft.server.openai_requests import read_list, read_object, refuse_reserved
from weft.server.problems import invalid
from weft.turns.turn import ClientTool
from weft.values import Json, JsonObject, compact

Endpoint = Literal["chat", "responses"]

NO_EFFECT: Mapping[str, str] = {
    "include": "an agent does not answer with the items that it asks for more of",
    "metadata": "of a chat, which is not stored as OpenAI stores one; a response has it",
    "prediction": "it only makes an answer faster",
    "prompt_cache_key": "the agent's own model decides what is cached",
    "prompt_cache_options": "the agent's own model decides what is cached",
    "prompt_cache_retention": "the agent's own model decides what is cached",
    "context_management": "the agent's own policy decides what is sent",
    "truncation": "the agent's own policy decides what is sent",
    "safety_identifier": "the token says who asks",
    "user": "the token says who asks",
    "service_tier": "whoever serves the agent pays for it, and chooses",
    "verbosity": "the agent's own instruction says how long an answer is",
    "text.verbosity": "the agent's own instruction says how long an answer is",
    "reasoning.summary": "an answer has no thoughts in it",
    "reasoning.generate_summary": "an answer has no thoughts in it",
    "reasoning.context": "the agent's own policy decides what is sent",
    "stream_options.include_obfuscation": "a stream has no padding",
    "tools.strict": "arguments are checked in any case",
    "tools.defer_loading": "a tool is declared from the start",
    "tools.output_schema": "a result is taken as it comes",
}
"""Fields that are taken and change nothing, with the reason."""

OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "stop": "stop_sequences",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
}
"""Fields that are options of the agent's model."""

_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "max_output_tokens": (1, None),
}
"""The least and the most that OpenAI takes of an option, whatever the agent's model takes."""

_BOTH = frozenset(
    (
        "model", "stream", "stream_options", "store", "tools", "tool_choice", "metadata", "user",
        "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_options",
        "prompt_cache_retention", "temperature", "top_p", "top_logprobs", "moderation",
        "parallel_tool_calls",
    )
)  # fmt: skip

FIELDS: Mapping[Endpoint, frozenset[str]] = {
    "chat": _BOTH
    | {
        "messages", "response_format", "reasoning_effort", "verbosity", "n", "logprobs",
        "logit_bias", "modalities", "audio", "functions", "function_call", "prediction",
        "web_search_options", "max_tokens", "max_completion_tokens", "stop", "seed",
        "presence_penalty", "frequency_penalty",
    },
    "responses": _BOTH
    | {
        "input", "instructions", "text", "reasoning", "conversation", "previous_response_id",
        "background", "include", "max_tool_calls", "max_output_tokens", "truncation", "prompt",
        "context_management", "image", "access_programs",
    },
}  # fmt: skip
"""All fields that an endpoint knows."""


class _RefusedField(NamedTuple):
    """A field that is refused, unless its value asks for nothing."""

    harmless: tuple[Json, ...]
    problem: str
    hint: str = ""

    def asks_nothing(self, value: Json) -> bool:
        """Whether the answer is the same without it."""
        # True is 1 in Python
        return any(type(value) is type(one) and value == one for one in self.harmless)


_REFUSED: Mapping[str, _RefusedField] = {
    "n": _RefusedField((1,), "an agent gives one answer"),
    "logprobs": _RefusedField((False,), "an agent's answer has no logprobs"),
    "top_logprobs": _RefusedField((0,), "an agent's answer has no logprobs"),
    "logit_bias": _RefusedField(({},), "tokens of one model mean nothing to another"),
    "modalities": _RefusedField((["text"],), "an agent answers with text"),
    "audio": _RefusedField((), "an agent answers with text"),
    "functions": _RefusedField((), "functions are passed as tools here", "write `tools`"),
    "function_call": _RefusedField((), "functions are passed as tools here", "write `tool_choice`"),
    "web_search_options": _RefusedField(
        (), "an agent searches the web with a tool of its own", "give the agent one"
    ),
    "moderation": _RefusedField((), "nothing is moderated here"),
    "background": _RefusedField(
        (False,),
        "a response is not made in the background here",
        "stream it: a run goes on when its client is gone",
    ),
    "max_tool_calls": _RefusedField(
        (),
        "an agent calls its tools as often as it needs",
        "limit its model calls where it is served: weft serve --max-llm-calls",
    ),
    "prompt": _RefusedField(
        (), "there are no prompts of yours here", "the agent has an instruction of its own"
    ),
    "image": _RefusedField(({}, {"context_compression": "auto"}), "images are sent as they are"),
    "access_programs": _RefusedField((), "there are no access programs here"),
}

_LOGPROBS = "message.output_text.logprobs"

_FLAGS = ("stream", "store", "background")


class AnswerForm(NamedTuple):
    """The form that a request asks its answer to have."""

    schema: JsonObject
    """The JSON Schema of the answer."""
    written: JsonObject
    """The format as a client writes it, for a response to say it again."""


def require_fields(body: Mapping[str, Json], endpoint: Endpoint) -> None:
    """Refuse what the endpoint does not know, or cannot do."""
    for name, value in body.items():
        if value is None:
            continue
        if name not in FIELDS[endpoint]:
            other: Endpoint = "responses" if endpoint == "chat" else "chat"
            path = "/v1/responses" if other == "responses" else "/v1/chat/completions"
            raise invalid(
                f"`{name[:100]}` is not known here",
                where=name[:100],
                hint=f"it is a field of {path}" if name in FIELDS[other] else "leave it out",
            )
        if name in _FLAGS and not isinstance(value, bool):
            raise invalid(f"`{name}` is {str(value)[:40]!r}, not true or false", where=name)
        refused = _REFUSED.get(name)
        if refused is not None and not refused.asks_nothing(value):
            raise invalid(refused.problem, where=name, hint=refused.hint or "leave it out")
    _read_known(body.get("stream_options"), "stream_options", ("include_usage",))
    include = body.get("include")
    if include is not None and _LOGPROBS in read_list(include, "include"):
        raise invalid("an agent's answer has no logprobs", where="include", hint="leave it out")


# --- options of the model


def model_options(body: Mapping[str, Json]) -> JsonObject:
    """What a request asks of the agent's model, as `generate_config` has it."""
    options: JsonObject = {}
    for name, option in OPTIONS.items():
        value = body.get(name)
        if value is None:
            continue
        if option in options and options[option] != value:
            raise invalid(f"`{name}` says another number", where=name, hint="keep one of the two")
        if option in _RANGES:
            _require_range(name, value, *_RANGES[option])
        # OpenAI takes one text or a list, models here take a list
        options[option] = [value] if name == "stop" and isinstance(value, str) else value
    effort = body.get("reasoning_effort")
    if (reasoning := body.get("reasoning")) is not None:
        fields = _read_known(reasoning, "reasoning", ("effort", "mode"))
        if fields.get("mode") not in (None, "standard"):
            raise invalid("the agent's own model decides how it thinks", where="reasoning.mode")
        effort = fields.get("effort")
    if effort is not None:
        options["thinking"] = {"effort": effort}
    choice = body.get("tool_choice")
    if choice is not None and choice != "auto":
        options["tool_choice"] = _read_choice(choice)
    return options


def _require_range(name: str, value: Json, least: int, most: int | None) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= cast("float", value) <= (math.inf if most is None else most):
        return
    bound = f"from {least} to {most}" if most is not None else f"of at least {least}"
    raise invalid(f"`{name}` is {compact(value)[:40]}", where=name, hint=f"pass a number {bound}")


def _read_choice(choice: Json) -> Json:
    if choice == "required":
        return "any"
    if choice == "none":
        return "none"
    if isinstance(choice, dict) and choice.get("type") == "function":
        function = choice.get("function", choice)  # a response has it flat
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return {"name": function["name"]}
    raise invalid(
        "this is not a choice of a tool",
        where="tool_choice",
        hint='pass "auto", "none", "required", or the name of a function',
    )


def wants_usage(body: Mapping[str, Json]) -> bool:
    """Whether the stream of a chat ends with what the answer cost; a response has it anyway."""
    return bool(read_object(body.get("stream_options"), "stream_options").get("include_usage"))


def _read_known(value: Json, where: str, names: tuple[str, ...]) -> JsonObject:
    """An object of which nothing is passed over but what has no effect."""
    known = read_object(value, where)
    for name, inner in known.items():
        place = f"{where}.{name[:100]}"
        if inner is not None and name not in names and place not in NO_EFFECT:
            raise invalid(f"`{name[:100]}` is not known here", where=place, hint="leave it out")
    return known


# --- the form of the answer

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

LONGEST_SCHEMA = 200_000
"""Characters of a schema that a request brings."""


def read_form(body: Mapping[str, Json]) -> AnswerForm | None:
    """The form that the answer is asked for in; None for plain text."""
    where, written = "response_format", body.get("response_format")
    if (text := body.get("text")) is not None:
        where, written = "text.format", _read_known(text, "text", ("format",)).get("format")
    if written is None:
        return None
    form = read_object(written, where)
    match form.get("type"):
        case "text":
            _read_known(form, where, ("type",))
            return None
        case "json_object":
            _read_known(form, where, ("type",))
            return AnswerForm(ANY_OBJECT, form)
        case "json_schema":
            # a chat has its schema in an object of its own, a response has it flat
            if where == "response_format":
                inner = _read_known(form, where, ("type", "json_schema")).get("json_schema")
                return AnswerForm(_read_schema(inner, f"{where}.json_schema"), form)
            return AnswerForm(_read_schema(form, where), form)
        case other:
            raise invalid(
                f"an answer of the form {compact(other)[:40]} cannot be given",
                where=f"{where}.type",
                hint='write "text", "json_object" or "json_schema"',
            )


def _read_schema(value: Json, where: str) -> JsonObject:
    """The schema that a client names and describes."""
    fields = _read_known(value, where, ("type", "name", "description", "schema", "strict"))
    name, about = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(
            "the schema has no name, or an odd one",
            where=f"{where}.name",
            hint="use up to 64 letters, digits, `_` and `-`",
        )
    if not isinstance(about, str | None) or not isinstance(fields.get("strict"), bool | None):
        raise invalid("the description is not text, or strict is not true or false", where=where)
    place = f"{where}.schema"
    raw = fields.get("schema")
    if not isinstance(raw, dict):
        raise invalid("there is no JSON Schema", where=place, hint="write an object")
    named: JsonObject = {**raw, "title": raw.get("title", name)}
    if about is not None:
        named.setdefault("description", about)
    try:
        if len(compact(named)) > LONGEST_SCHEMA:
            raise invalid(f"the schema has more than {LONGEST_SCHEMA} characters", where=place)
        is_wrapped = wrap_root(of_type(named, where=place))[1]
    except DeclarationError as error:
        raise invalid(error.message, hint=error.hint, where=place) from None
    if is_wrapped:
        raise invalid(
            "the schema must be one of an object",
            where=place,
            hint='put it under a name: {"type": "object", "properties": {"items": ...}}',
        )
    return named


# --- tools

_TOOL_FIELDS = ("type", "name", "description", "parameters", "function", "allowed_callers")


def read_tools(listed: list[Json]) -> list[Tool]:
    """The client's tools: declared to the model, and left to the client to run."""
    tools: list[Tool] = []
    for at, entry in enumerate(listed):
        where = f"tools[{at}]"
        tool = read_object(entry, where)
        if tool.get("type") != "function":
            raise invalid(
                f"a tool of type {tool.get('type')!r} cannot be passed on",
                where=where,
                hint='pass {"type": "function", ...}',
            )
        function = read_object(tool.get("function", tool), where)  # a response has it flat
        _require_tool(function, where)
        name, about = function.get("name"), function.get("description") or ""
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(name, str) or not isinstance(about, str):
            raise invalid("the tool has no name, or its description is not text", where=where)
        refuse_reserved(name, where)
        tools.append(ClientTool(name, about, read_object(parameters, f"{where}.parameters")).tool())
    return tools


def _require_tool(function: JsonObject, where: str) -> None:
    """Refuse what a client says of its tool that nobody would do."""
    for name, value in function.items():
        if value is None or name in _TOOL_FIELDS or f"tools.{name}" in NO_EFFECT:
            continue
        if name == "async" and value is False:
            continue
        raise invalid(
            f"`{name[:100]}` of a tool is not known here", where=where, hint="leave it out"
        )
    callers = function.get("allowed_callers")
    if callers is not None and "direct" not in read_list(callers, f"{where}.allowed_callers"):
        raise invalid(
            "a tool is called by the model itself here", where=where, hint='allow "direct" calls'
        )
