"""Generation options and schemas of google-adk as Weft's."""

import enum
from collections.abc import Mapping
from typing import NamedTuple, cast

from weft import schema
from weft.declare.config import check_generate_config
from weft.declare.functions import Foreign
from weft.diagnostics import Diagnostic
from weft.errors import DeclarationError, SessionError
from weft.interop.adk.notes import Place, closed, opaque
from weft.interop.adk.objects import field, listed
from weft.values import Json, JsonObject, require_json

SAME = (
    "temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed",
    "presence_penalty", "frequency_penalty",
)  # fmt: skip
_THINKING = {
    "thinking_budget": "budget",
    "thinking_level": "effort",
    "include_thoughts": "include",
}


class Options(NamedTuple):
    """What the agent's model is told to do, and what could not be carried over."""

    config: JsonObject = {}
    notes: tuple[Diagnostic, ...] = ()
    closed: tuple[Foreign, ...] = ()
    """What a run of Weft's cannot do."""


def options_of(agent: object, name: str) -> Options:
    """The generation options of an agent, under Weft's names."""
    given = field(agent, "generate_content_config")
    if given is None:
        return Options()
    config: JsonObject = {}
    for option in SAME:
        value = field(given, option)
        if isinstance(value, float) and option == "top_k":
            value = int(value)
        if value is not None:
            config[option] = cast("Json", list(listed(given, option)) if _is_list(value) else value)
    thinking = _thinking(field(given, "thinking_config"))
    if thinking:
        config["thinking"] = thinking
    place = Place(name, "generate_content_config")
    carried = {*SAME, "thinking_config"}
    rest = {key: value for key, value in _given(given).items() if key not in carried}
    extra, left = _extra(rest)
    if extra:
        config["extra"] = {"gemini": extra}
    notes: list[Diagnostic] = []
    cannot = [closed(place, f"the option `{key}`", opaque=False) for key in left]
    for option in [*config]:
        try:
            check_generate_config({option: config[option]}, where=name)
        except DeclarationError as error:
            del config[option]
            what = f"the option `{option}` ({error.message})"
            notes.append(opaque(place, what, silent=False))
            cannot.append(closed(place, what, opaque=False))
    return Options(config, tuple(notes), tuple(cannot))


_BESIDE = ("safety_settings", "labels", "cached_content", "tool_config")
_NOT_SENT = ("http_options", "automatic_function_calling", "should_return_http_response")


def _extra(rest: Mapping[str, object]) -> tuple[JsonObject, list[str]]:
    """What only Gemini knows, under its own names, and what is no option of a request."""
    beside: JsonObject = {}
    options: JsonObject = {}
    left: list[str] = []
    for key, value in sorted(rest.items()):
        if key in _NOT_SENT:
            left.append(key)
            continue
        try:
            written = require_json(_plain(value), where=key)
        except (SessionError, TypeError):
            left.append(key)
            continue
        first, *others = key.split("_")
        name = first + "".join(word.capitalize() for word in others)
        (beside if key in _BESIDE else options)[name] = written
    return ({**beside, "generationConfig": options} if options else beside), left


def _plain(value: object) -> object:
    """A value of google-genai as JSON."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("list[object]", value)]
    dump = field(value, "model_dump")
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    return field(value, "value") if isinstance(value, enum.Enum) else value


def schema_of(agent: object, name: str, kind: str) -> tuple[object, tuple[Diagnostic, ...]]:
    """A schema of the agent's, None with a note where it is of no kind that Weft reads."""
    declared = field(agent, kind)
    if declared is None:
        return None, ()
    try:
        schema.of_type(declared, where=f"{name}.{kind}")
    except (DeclarationError, TypeError) as error:
        reason = error.message if isinstance(error, DeclarationError) else str(error)
        return None, (opaque(Place(name, kind), f"the schema ({reason})", silent=False),)
    return declared, ()


def _thinking(given: object) -> JsonObject:
    found: JsonObject = {}
    for theirs, ours in _THINKING.items():
        value = field(given, theirs)
        level = field(value, "value")
        if ours == "effort" and isinstance(level, str):
            value = level.lower()
        if isinstance(value, (bool, int, str)):
            found[ours] = value
    return found


def _given(config: object) -> Mapping[str, object]:
    """The options that are set at all."""
    names = field(config, "model_fields_set")
    if not isinstance(names, set):
        return {}
    fields = cast("set[str]", names)
    return {name: held for name in fields if (held := field(config, name)) is not None}


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))
