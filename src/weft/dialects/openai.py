"""What both of OpenAI's request formats share: schemas, efforts, ids of models."""

import functools
import json
import re
from collections.abc import Sequence

import msgspec

from weft.diagnostics import Origin
from weft.dialects.abilities import fit_option
from weft.dialects.base import result_text
from weft.dialects.facts import wire_name
from weft.dialects.fitted import fitted
from weft.dialects.sink import Sink
from weft.dialects.track import Wire
from weft.errors import SessionError
from weft.ir import Block, CallBlock, Output, Prompt, ResultBlock, Span, TextBlock
from weft.values import Json, JsonObject, compact, require_json

SAMPLING: dict[str, Json] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logprobs": False,
}
"""Options that thinking shuts out, with the one value that is taken nevertheless."""

NO_TEXT = re.compile(r"[^\x21-\x7e]")
"""What stands in no id of a call: blanks, controls and letters beyond ASCII."""

_SILENT_AT_FIRST = r"gpt-5\.[1-4]($|-)"
"""Models that think and, unless they are told how hard, do not."""
_UNSTOPPED = r"o3($|-(?!mini))|o4|gpt-[5-9]"

GAP = "\n\n"
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
    """Whether an option has no place beside the thinking that is asked for."""
    value, model = prompt.config.get(name), prompt.model
    thinking = fit_option("thinking", prompt.config.get("thinking"), model).value
    effort = thinking.get("effort") if isinstance(thinking, dict) else None
    if name == "stop_sequences":
        return not takes_stops(model, effort)
    return name in SAMPLING and value != SAMPLING[name] and shuts_out_sampling(model, effort)


def choice(value: Json) -> str:
    """A tool choice by the provider's name."""
    return {"any": "required", "required": "required", "none": "none"}.get(str(value), "auto")


def output_format(output: Output, sink: Sink) -> Wire:
    """The answer's schema, strict where all of it can be said so."""
    if output.provider == sink.dialect:
        return {"name": output.name, "schema": output.schema, **(output.kept or {})}
    fit = fitted("openai", output.schema, strict=True)
    strict = fit.possible
    if not strict:
        fit = fitted("openai", output.schema)
    sink.schema_losses(fit.losses, output.origin)
    name = re.sub("[^a-zA-Z0-9_-]", "_", output.name)[:64] or "answer"
    return {"name": name, "schema": fit.schema, "strict": strict}


def read_arguments(text: str) -> JsonObject | None:
    """The arguments that a text spells; none where it is blank, None where it is no object."""
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


def arguments(block: CallBlock, provider: str) -> str:
    """A call's arguments as text: the model's own where that still says the same.

    What never was JSON is not sent: many servers read it again, and refuse it. The call's result
    says what came instead.
    """
    own = (block.kept or {}).get("arguments") if block.provider == provider else None
    if isinstance(own, str) and own.lstrip()[:1] == "{" and read_arguments(own) == block.args:
        return own
    return compact(block.args)


def output_text(block: ResultBlock) -> str:
    """A result as text; a failure keeps its name, since there is no field to say it in."""
    return compact(block.response) if block.is_error else result_text(block)


def joined(pieces: Sequence[tuple[str, Block]]) -> TextBlock:
    """Several texts as one, a blank line between two, that knows where each came from."""
    text = ""
    spans: list[Span] = []
    for said, block in pieces:
        if text:
            text += GAP
            spans.append(Span(len(text), _BLANK))
        held = block.spans if isinstance(block, TextBlock) else ()
        spans += [Span(len(text) + span.end, span.origin) for span in held]
        text += said
        if not held:
            spans.append(Span(len(text), block.origin))
    first = pieces[0][1]
    return TextBlock(role=first.role, origin=first.origin, text=text, spans=tuple(spans))
