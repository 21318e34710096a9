"""What both of OpenAI's request formats share: schemas, efforts, ids of models."""

import functools
import json
import re
from collections.abc import Sequence

import msgspec

from weft.content import FunctionCall, Part
from weft.diagnostics import Origin
from weft.dialects.base import result_text
from weft.dialects.facts import facts_for, wire_name
from weft.dialects.legality import (
    ANYTHING_BUT,
    IMAGES,
    MEDIA,
    OPTION,
    REQUEST,
    DeclaredTool,
    Finding,
    Findings,
    Spelling,
    reads_media,
    refuse_effort,
    refuse_schema,
    refuse_tools,
    refuse_unsupported,
    type_by_name,
    type_in_url,
    unread_media,
)
from weft.dialects.measure import Quantity, WeighedTool, url_quantity
from weft.dialects.options import fit_option
from weft.dialects.schema_subset import (
    COMMON_KEYWORDS,
    STRICT_FORMATS,
    SchemaRules,
    fit_schema,
)
from weft.dialects.track import LoweringReport, Wire
from weft.dialects.wire import (
    ReadOutput,
    as_json,
    as_list,
    as_text,
    count_in,
    drop_fields,
    lifted_call,
    number,
    object_in,
    provider_metadata,
    text_at,
    text_in,
    without,
)
from weft.errors import SessionError
from weft.ir import Block, CallBlock, Output, Prompt, ResultBlock, Span, TextBlock
from weft.late import late_pattern
from weft.session import Usage
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, compact, require_json

SAMPLING: dict[str, Json] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logprobs": False,
}
"""Options that thinking shuts out, with the one value that is taken nevertheless."""

NO_TEXT = late_pattern(r"[^\x21-\x7e]")
"""What stands in no id of a call: blanks, controls and letters beyond ASCII."""

_SILENT_AT_FIRST = r"gpt-5\.[1-4]($|-)"
"""Models that think and, unless they are told how hard, do not."""

_UNSTOPPED = r"o3($|-(?!mini))|o4|gpt-[5-9]"

GAP = "\n\n"

NAMES = Spelling(ANYTHING_BUT, 64)
"""What it takes as the name of a tool, and of an answer's schema."""

SCHEMAS = SchemaRules(
    provider="openai",
    keeps=COMMON_KEYWORDS
    | {"const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems"},
    formats=STRICT_FORMATS,
    complete=True,
    refused=(
        "oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
        "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties",
        "maxProperties", "unevaluatedItems", "uniqueItems", "contains", "minContains",
        "maxContains", "default",
    ),
    typed_arrays=True,
)  # fmt: skip
"""Of parameters and answers: anything below an object, or strict, with all of it required."""

_BLANK = Origin("dialect", "blank line")


@functools.lru_cache(maxsize=1024)
def is_openai(model: str) -> bool:
    """Whether the name is one of OpenAI's own, and not a server's that speaks its format."""
    pattern = r"(gpt-(?!oss)|chatgpt-|o\d|codex-|ft:(gpt-|o\d))"
    return re.match(pattern, wire_name(model)) is not None


def reasons(model: str) -> bool:
    """Whether the model thinks before it answers, and so gives reasoning to take along."""
    name = wire_name(model).removeprefix("ft:")
    return re.match(r"o\d|codex-|gpt-([5-9]|\d\d)(?!-chat)", name) is not None


def shuts_out_sampling(model: str, effort: Json) -> bool:
    """Whether the model thinks, told to or not, and so takes no temperature and its kin."""
    if not is_openai(model) or not reasons(model) or effort == "none":
        return False
    return effort is not None or re.match(_SILENT_AT_FIRST, wire_name(model)) is None


def takes_stops(model: str, effort: Json) -> bool:
    """Whether the model can be told where to stop."""
    silent = not shuts_out_sampling(model, effort)
    return silent or re.match(_UNSTOPPED, wire_name(model)) is None


def is_shut_out(name: str, prompt: Prompt) -> bool:
    """Whether the thinking that is asked for rules an option out."""
    value, model = prompt.config.get(name), prompt.model
    thinking = fit_option("thinking", prompt.config.get("thinking"), model).value
    effort = thinking.get("effort") if isinstance(thinking, dict) else None
    if name == "stop_sequences":
        return not takes_stops(model, effort)
    return name in SAMPLING and value != SAMPLING[name] and shuts_out_sampling(model, effort)


def write_choice(value: Json) -> str:
    """A tool choice by the provider's name."""
    return {"any": "required", "required": "required", "none": "none"}.get(str(value), "auto")


def output_format(output: Output, report: LoweringReport) -> Wire:
    """The answer's schema, strict where all of it can be said so."""
    if output.provider == report.dialect:
        return {"name": output.name, "schema": output.schema, **(output.kept or {})}
    fit = fit_schema(SCHEMAS, output.schema, strict=True)
    strict = fit.possible
    # strict cannot say all of it, so the schema is sent as a wish
    if not strict:
        fit = fit_schema(SCHEMAS, output.schema)
    report.schema_losses(fit.losses, output.origin)
    name = re.sub("[^a-zA-Z0-9_-]", "_", output.name)[:64] or "answer"
    return {"name": name, "schema": fit.schema, "strict": strict}


def read_arguments(text: str) -> JsonObject | None:
    """The arguments that a text spells; none where it is blank, None where it is not an object."""
    if not text.strip():
        return {}
    try:
        try:
            value: Json = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):  # lone surrogates
            value = json.loads(text)
        value = require_json(value, where="arguments")
    except (ValueError, RecursionError, SessionError):
        return None
    return value if isinstance(value, dict) else {} if value is None else None


def arguments_text(block: CallBlock, provider: str) -> str:
    """A call's arguments as text: the model's own where that still says the same.

    What never was JSON is not sent: many servers read it again, and refuse it. The call's result
    says what came instead.
    """
    if block.kept is None:
        return compact(block.args)
    own = block.kept.get("arguments") if block.provider == provider else None
    # the model's own spelling, so that the provider finds what it wrote in its cache
    if isinstance(own, str) and own.lstrip()[:1] == "{" and read_arguments(own) == block.args:
        return own
    return compact(block.args)


def output_text(block: ResultBlock) -> str:
    """A result as text; a failure keeps its name, since there is no field to say it in."""
    response = block.response
    # the format has no field for a failure
    is_error = len(response) == 1 and "error" in response
    return compact(response) if is_error else result_text(block)


def join_texts(pieces: Sequence[tuple[str, Block]]) -> TextBlock:
    """Several texts as one, a blank line between two, that knows where each came from."""
    text = ""
    spans: list[Span] = []
    for words, block in pieces:
        if text:
            text += GAP
            spans.append(Span(len(text), _BLANK))
        own_spans = block.spans if isinstance(block, TextBlock) else ()
        spans += [Span(len(text) + span.end, span.origin) for span in own_spans]
        text += words
        if not own_spans:
            spans.append(Span(len(text), block.origin))
    first = pieces[0][1]
    return TextBlock(role=first.role, origin=first.origin, text=text, spans=tuple(spans))


EMPTY: JsonObject = {}
"""No fields."""


def lift_call(dialect: str, call_id: str, name: str, arguments: Json, fields: JsonObject) -> Part:
    """A tool call; its arguments' own text is kept where ours would be another.

    Arguments that are not a JSON object make a call without any, that says what came instead.
    """
    text = arguments if isinstance(arguments, str) else compact(arguments or EMPTY)
    args = read_arguments(text)
    if args is None or compact(args) != text:
        fields = {**fields, "arguments": text}
    call = FunctionCall(name=name or None, id=call_id or None)
    return lifted_call(dialect, call, text if args is None else args, fields or None)


def lift_text_call(
    dialect: str, call_id: str, name: str, text: Json, kind: str, fields: JsonObject
) -> Part:
    """A call of a tool that takes plain text, which is its argument `input`."""
    call = FunctionCall(name=name or None, args={"input": text_in(text)}, id=call_id or None)
    return Part(
        function_call=call, part_metadata=provider_metadata(dialect, {**fields, "type": kind})
    )


class AnswerUsage:
    """An answer's usage: the counts everybody has, tokens written to a cache, and the rest."""

    __slots__ = ("rest", "usage", "written")

    def __init__(self, usage: JsonObject, input_name: str, output_name: str) -> None:
        """Read the counts; `input_name` and `output_name` are the fields of tokens in and out."""
        inside, outside = (
            object_in(usage.get(f"{input_name}_details")),
            object_in(usage.get(f"{output_name}_details")),
        )
        prompt, output, total = (
            count_in(usage.get(name)) for name in (input_name, output_name, "total_tokens")
        )
        cached = count_in(inside.get("cached_tokens"))
        if cached is None:
            # DeepSeek's name for it
            cached = count_in(usage.get("prompt_cache_hit_tokens"))
        thinking = count_in(outside.get("reasoning_tokens"))
        answer = output
        if output is not None and thinking:
            # servers count thoughts among the answer's tokens, or apart from them: the sum tells
            apart = total is not None and (prompt or 0) + output + thinking == total
            answer = output if apart or thinking > output else output - thinking
        if total is None and (prompt is not None or output is not None):
            total = (prompt or 0) + (output or 0)
        self.usage = Usage(
            prompt_token_count=prompt,
            candidates_token_count=answer,
            total_token_count=total,
            cached_content_token_count=cached,
            thoughts_token_count=thinking,
        )
        self.written = count_in(inside.get("cache_write_tokens")) or 0
        rest = without(
            usage,
            input_name,
            output_name,
            "total_tokens",
            f"{input_name}_details",
            f"{output_name}_details",
        )
        if inside := without(inside, "cached_tokens", "cache_write_tokens"):
            rest[f"{input_name}_details"] = inside
        if outside := without(outside, "reasoning_tokens"):
            rest[f"{output_name}_details"] = outside
        self.rest = rest


def answer_metadata(counted: AnswerUsage | None, rest: JsonObject) -> JsonObject | None:
    """What the event's metadata says of the answer, other than who gave it."""
    written = counted.written if counted is not None else 0
    if counted is not None and counted.rest:
        rest = {**rest, "usage": counted.rest}
    if not written and not rest:
        return None
    return Provenance(cache_write=written or None, rest=rest or None).onto(None)


def answer_error(
    parts: list[Part], finish: str | None, refusal: str
) -> tuple[str | None, str | None]:
    """The code and the words for an answer that is not what was asked for; None where it is."""
    if refusal:
        return "refusal", refusal
    if finish == "SAFETY":
        return "safety", "the provider's content filter stopped the answer"
    if finish == "MAX_TOKENS" and all(part.thought for part in parts):
        return "max_tokens", "the model said nothing before it ran out of tokens"
    return None, None


CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def read_output(form: Json) -> ReadOutput | None:
    """The answer's schema; where it is `{type, name, schema, strict}`, or what that wraps."""
    if not isinstance(form, dict) or not isinstance(schema := form.get("schema"), dict):
        return None
    beside = drop_fields(form, "type", "schema", "name")
    return ReadOutput(schema, text_at(form, "name"), beside)


_TEXT_TYPES = ("text", "input_text", "output_text")


def weigh_content(content: Json) -> list[Quantity]:
    """A message's content: one text, or parts."""
    if isinstance(content, str):
        return [Quantity("/content", "text", content)]
    return [_weigh_part(f"/content/{index}", part) for index, part in enumerate(as_list(content))]


def weigh_result(content: Json) -> list[Quantity]:
    """What a tool gave: its texts as one result, and what it shows."""
    if isinstance(content, str):
        return [Quantity("", "result", content)]
    parts = [_weigh_part("", part) for part in as_list(content)]
    text = "".join(part.text for part in parts if part.kind == "text")
    return [Quantity("", "result", text), *(part for part in parts if part.kind != "text")]


def _weigh_part(pointer: str, part: Json) -> Quantity:
    if not isinstance(part, dict):
        return Quantity(pointer, "text", as_text(part))
    kind = part.get("type")
    if kind in _TEXT_TYPES:
        return Quantity(pointer, "text", as_text(part.get("text")))
    if kind == "refusal":
        return Quantity(pointer, "text", as_text(part.get("refusal")))
    if kind in ("image_url", "input_image"):
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        return url_quantity(pointer, as_text(url), "image/png")
    if kind == "input_audio":
        sound = object_in(part.get("input_audio"))
        name = f"audio/{as_text(sound.get('format')) or 'wav'}"
        return Quantity(pointer, "media", as_text(sound.get("data")), name)
    if kind in ("file", "input_file"):
        file = part if kind == "input_file" else object_in(part.get("file"))
        return url_quantity(pointer, as_text(file.get("file_data")), "application/pdf")
    return Quantity(pointer, "other", as_json(part))


def weigh_function(function: JsonObject) -> WeighedTool:
    """A function as it is declared."""
    return WeighedTool(
        as_text(function.get("name")),
        as_text(function.get("description")),
        object_in(function.get("parameters")) or None,
    )


def is_choice_forced(wire: JsonObject) -> bool:
    """Whether the model must call a tool."""
    return wire.get("tool_choice") not in (None, "auto", "none")


_SHUT_OUT: dict[str, Json] = {**SAMPLING, "top_logprobs": 0, "logit_bias": {}}

_MOST_TOOLS = 128

_AT_ONCE = r"gpt-(3|4|5($|-)|5\.[12])|chatgpt-|o\d|ft:"
"""Models that are known to have no search for tools; of others that is not known."""

_HEARD = late_pattern(r"(audio|video|font)/")


def refuse_options(wire: JsonObject, effort: Json, pointer: str, model: str) -> Findings:
    """An effort the model lacks, and what thinking shuts out."""
    if shuts_out_sampling(model, effort):
        yield from refuse_unsupported(wire, _SHUT_OUT, f"{model}, which thinks,")
    if not takes_stops(model, effort):
        yield from refuse_unsupported(wire, {"stop": None}, model)
    if is_openai(model):
        yield from refuse_effort(effort, pointer, model)


def refuse_functions(tools: Sequence[DeclaredTool]) -> Findings:
    """Functions and their schemas."""
    yield from refuse_tools(tools, NAMES, _MOST_TOOLS)
    for tool in tools:
        yield from refuse_schema(tool.schema, tool.at, SCHEMAS, strict=tool.strict)


def refuse_format(form: JsonObject, pointer: str, model: str) -> Findings:
    """The answer's schema: its name, and whether the model can be held to it."""
    if not isinstance(form.get("schema"), dict):
        return
    if not NAMES.is_legal(str(form.get("name", ""))):
        message = f"`{form.get('name')}` is not a name for a schema"
        hint = "use at most 64 letters, digits, _ and -"
        yield Finding(REQUEST, f"{pointer}/name", message, hint)
    if not facts_for(model).native_schema:
        message = f"{model} cannot be held to a schema"
        yield Finding(OPTION, pointer, message, "ask for the answer by a tool")
    if form.get("strict") is True:
        yield from refuse_schema(form.get("schema"), f"{pointer}/schema", SCHEMAS, strict=True)


def refuse_image(url: Json, pointer: str) -> Findings:
    """An image of a type that is not read."""
    kind = type_in_url(url)
    if kind and kind not in IMAGES and kind != "image/jpg":
        yield unread_media(kind, pointer, "openai")


def refuse_file(part: JsonObject, pointer: str) -> Findings:
    """A file of a type that is not read: a sound or a film."""
    kind = type_in_url(part.get("file_data"))
    if _HEARD.match(kind):
        yield unread_media(kind, f"{pointer}/file_data", "openai")
    linked = type_by_name(part.get("file_url"))
    if _HEARD.match(linked):
        yield unread_media(linked, f"{pointer}/file_url", "openai")


def refuse_audio(pointer: str, model: str) -> Findings:
    """Sound for a model that has no ears."""
    if is_openai(model) and not reads_media("audio/wav", model):
        message = f"{model} takes no audio"
        hint = "use a model that hears, such as gpt-audio, or send a transcript"
        yield Finding(MEDIA, pointer, message, hint)


def loads_later(model: str) -> bool:
    """Whether the model can look for tools that are not loaded yet, and keeps its reasoning."""
    return not is_openai(model) or re.match(_AT_ONCE, model) is None


def refuse_unsaid_json(wire: Json, pointer: str) -> Findings:
    """A request for JSON that does not say the word, which is refused."""
    if "json" not in str(wire).lower():
        message = "JSON is asked for, and nothing that is said says so"
        yield Finding(REQUEST, pointer, message, "write `JSON` in the instruction")


def refuse_short_limit(wire: JsonObject, name: str, least: int) -> Findings:
    """A limit for the answer that is below the least there is."""
    limit = number(wire.get(name))
    if limit is not None and limit < least:
        yield Finding(OPTION, f"/{name}", f"`{name}` is below {least}", f"give {least} or more")


def read_choice(value: Json, named: Json) -> Json:
    """The tool choice: one of three words, or a tool's name."""
    if isinstance(value, str) and value in CHOICES:
        return CHOICES[value]
    return {"name": named} if isinstance(named, str) else None
