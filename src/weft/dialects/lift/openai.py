"""What answers in OpenAI's two formats share: calls, counts, pieces to show."""

from weft.content import FunctionCall, Part
from weft.dialects.lift.shapes import call_of, count_in, kept_in, object_in, text_in, without
from weft.dialects.openai import read_arguments
from weft.session import Usage
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, compact

EMPTY: JsonObject = {}
"""No fields."""


def called(dialect: str, call_id: str, name: str, arguments: Json, held: JsonObject) -> Part:
    """A tool call; its arguments' own text is kept where ours would be another.

    Arguments that are no JSON object make a call without any, that says what came instead.
    """
    text = arguments if isinstance(arguments, str) else compact(arguments or EMPTY)
    args = read_arguments(text)
    if args is None or compact(args) != text:
        held = {**held, "arguments": text}
    call = FunctionCall(name=name or None, id=call_id or None)
    return call_of(dialect, call, text if args is None else args, held or None)


def called_with_text(
    dialect: str, call_id: str, name: str, text: Json, kind: str, held: JsonObject
) -> Part:
    """A call of a tool that takes plain text, which is its argument `input`."""
    call = FunctionCall(name=name or None, args={"input": text_in(text)}, id=call_id or None)
    return Part(function_call=call, part_metadata=kept_in(dialect, {**held, "type": kind}))


class Counted:
    """An answer's usage: the counts everybody has, tokens written to a cache, and the rest."""

    __slots__ = ("rest", "usage", "written")

    def __init__(self, held: JsonObject, given: str, made: str) -> None:
        """Read the counts; `given` and `made` are what tokens in and out are called."""
        inside, outside = (
            object_in(held.get(f"{given}_details")),
            object_in(held.get(f"{made}_details")),
        )
        prompt, output, total = (count_in(held.get(name)) for name in (given, made, "total_tokens"))
        cached = count_in(inside.get("cached_tokens"))
        if cached is None:
            cached = count_in(held.get("prompt_cache_hit_tokens"))
        thinking = count_in(outside.get("reasoning_tokens"))
        answer = output
        if output is not None and thinking:
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
        rest = without(held, given, made, "total_tokens", f"{given}_details", f"{made}_details")
        if inside := without(inside, "cached_tokens", "cache_write_tokens"):
            rest[f"{given}_details"] = inside
        if outside := without(outside, "reasoning_tokens"):
            rest[f"{made}_details"] = outside
        self.rest = rest


def about(counted: Counted | None, rest: JsonObject) -> JsonObject | None:
    """What the event's metadata says of the answer, beside who gave it."""
    written = counted.written if counted is not None else 0
    if counted is not None and counted.rest:
        rest = {**rest, "usage": counted.rest}
    if not written and not rest:
        return None
    return Provenance(cache_write=written or None, rest=rest or None).onto(None)


def trouble(parts: list[Part], finish: str | None, refusal: str) -> tuple[str | None, str | None]:
    """The code and the words for an answer that is not what was asked for; None where it is."""
    if refusal:
        return "refusal", refusal
    if finish == "SAFETY":
        return "safety", "the provider's content filter stopped the answer"
    if finish == "MAX_TOKENS" and all(part.thought for part in parts):
        return "max_tokens", "the model said nothing before it ran out of tokens"
    return None, None
