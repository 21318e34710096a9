"""What both of OpenAI's formats refuse: options of models that think, tools, strict schemas."""

import re

from weft.dialects.facts import facts_for
from weft.dialects.media import IMAGES, takes
from weft.dialects.openai import SAMPLING, is_openai, shuts_out_sampling, takes_stops
from weft.dialects.refuse.finding import (
    MEDIA,
    OPTION,
    REQUEST,
    Finding,
    Findings,
    no_effort,
    number,
    out_of_range,
    unsupported,
)
from weft.dialects.refuse.media import guessed, in_url, unread
from weft.dialects.refuse.strict import closed_and_required, untyped_arrays
from weft.dialects.refuse.tools import Declared, bad_tools
from weft.values import Json, JsonObject

_RANGES = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "top_logprobs": (0.0, 20.0),
    "n": (1.0, 128.0),
}
_SAMPLING: dict[str, Json] = {**SAMPLING, "top_logprobs": 0, "logit_bias": {}}
_NAME, _MOST_TOOLS = r"[a-zA-Z0-9_-]{1,64}", 128
_AT_ONCE = r"gpt-(3|4|5($|-)|5\.[12])|chatgpt-|o\d|ft:"
"""Models that are known to have no search for tools; of others that is not known."""
_HEARD = re.compile(r"(audio|video|font)/")


def bad_options(wire: JsonObject, effort: Json, pointer: str, model: str) -> Findings:
    """Numbers out of range, an effort the model lacks, and what thinking shuts out."""
    yield from out_of_range(wire, "", _RANGES)
    if shuts_out_sampling(model, effort):
        yield from unsupported(wire, "", _SAMPLING, f"{model}, which thinks,")
    if not takes_stops(model, effort):
        yield from unsupported(wire, "", {"stop": None}, model)
    if is_openai(model):
        yield from no_effort(effort, pointer, model)


def bad_functions(tools: list[tuple[Declared, bool]]) -> Findings:
    """Functions and their schemas; each with whether it is strict."""
    yield from bad_tools([tool for tool, _ in tools], _NAME, _MOST_TOOLS)
    for tool, strict in tools:
        yield from untyped_arrays(tool.schema, tool.at)
        if strict:
            yield from closed_and_required(tool.schema, tool.at)


def bad_format(form: JsonObject, pointer: str, model: str) -> Findings:
    """The answer's schema: its name, and whether the model can be held to it."""
    if not isinstance(form.get("schema"), dict):
        return
    if not re.fullmatch(_NAME, str(form.get("name", ""))):
        message = f"`{form.get('name')}` is no name for a schema"
        hint = "use at most 64 letters, digits, _ and -"
        yield Finding(REQUEST, f"{pointer}/name", message, hint)
    if not facts_for(model).native_schema:
        message = f"{model} cannot be held to a schema"
        yield Finding(OPTION, pointer, message, "ask for the answer by a tool")
    if form.get("strict") is True:
        yield from untyped_arrays(form.get("schema"), f"{pointer}/schema")
        yield from closed_and_required(form.get("schema"), f"{pointer}/schema")


def bad_image(url: Json, pointer: str) -> Findings:
    """An image of a type that is not read."""
    kind = in_url(url)
    if kind and kind not in IMAGES and kind != "image/jpg":
        yield unread(kind, pointer, "openai")


def bad_file(part: JsonObject, pointer: str) -> Findings:
    """A file of a type that is not read: a sound or a film."""
    kind = in_url(part.get("file_data"))
    if _HEARD.match(kind):
        yield unread(kind, f"{pointer}/file_data", "openai")
    linked = guessed(part.get("file_url"))
    if _HEARD.match(linked):
        yield unread(linked, f"{pointer}/file_url", "openai")


def unheard(pointer: str, model: str) -> Findings:
    """Sound for a model that has no ears."""
    if is_openai(model) and not takes("audio/wav", model):
        message = f"{model} takes no audio"
        hint = "use a model that hears, such as gpt-audio, or send a transcript"
        yield Finding(MEDIA, pointer, message, hint)


def loads_later(model: str) -> bool:
    """Whether the model can look for tools that are not loaded yet, and keeps its reasoning."""
    return not is_openai(model) or re.match(_AT_ONCE, model) is None


def wants_json(wire: Json, pointer: str) -> Findings:
    """A request for JSON that does not say the word, which is refused."""
    if "json" not in str(wire).lower():
        message = "JSON is asked for, and nothing that is said says so"
        yield Finding(REQUEST, pointer, message, "write `JSON` in the instruction")


def too_short(wire: JsonObject, name: str, least: int) -> Findings:
    """A limit for the answer that is below the least there is."""
    limit = number(wire.get(name))
    if limit is not None and limit < least:
        yield Finding(OPTION, f"/{name}", f"`{name}` is below {least}", f"give {least} or more")
