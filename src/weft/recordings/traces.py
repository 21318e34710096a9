"""What tools that watch agents export: a row for each call of a model, with input and output."""

from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from weft.dialects.wire import object_in, objects_in, text_at
from weft.errors import SessionError
from weft.recordings.recording import RecordedCall, Recording, read_usage, seconds, with_events
from weft.session import Event, Usage
from weft.values import Json, JsonObject, compact

# --- Langfuse

ReadList = Callable[[list[Json], str, str], Recording]
"""Reads messages of any form."""


def is_observation(row: JsonObject) -> bool:
    """Whether an object is one of Langfuse's: a step of a trace."""
    return ("traceId" in row or "trace_id" in row) and "input" in row and "messages" not in row


def is_trace(row: JsonObject) -> bool:
    """Whether an object is a trace with its observations."""
    listed = row.get("observations")
    return isinstance(listed, list) and any(map(is_observation, objects_in(listed)))


def asks_model(observation: JsonObject) -> bool:
    """Whether a model was asked in it; others are functions, tools and events."""
    return text_at(observation, "type").upper() in ("", "GENERATION")


def runs_tool(observation: JsonObject) -> bool:
    """Whether a tool ran in it."""
    return text_at(observation, "type").upper() == "TOOL"


def tools_of_observation(row: JsonObject) -> Json:
    """The tools that were declared in its input."""
    return object_in(_parse_json(row.get("input"))).get("tools")


def read_observation(row: JsonObject, id: str, where: str, read_list: ReadList) -> Recording:
    """The call that a generation is: its input, its output, and what was counted."""
    asked, answer = _parse_json(row.get("input")), _parse_json(row.get("output"))
    messages: Json = asked if isinstance(asked, list) else object_in(asked).get("messages")
    if isinstance(asked, str) and asked:
        messages = [{"role": "user", "content": asked}]
    if not isinstance(messages, list) or not messages:
        raise SessionError(
            "the input of this generation has no messages",
            where=where,
            hint="Weft reads a list of messages, an object with `messages`, or a text",
        )
    answers = [*_answers(answer)]
    recording = read_list([*messages, *answers], text_at(row, "id") or id, where)
    call = RecordedCall(time=seconds(row.get("startTime", row.get("start_time"))) or 0.0)
    events = [*recording.session.events]
    if answers and events:
        events[-1] = _with_facts(events[-1], row)
    return recording._replace(
        session=with_events(recording.session, events),
        format="langfuse",
        model=text_at(row, "model") or recording.model,
        call=call,
        asks="" if answers else recording.asks or events[-1].author,
    )


def _parse_json(value: Json) -> Json:
    """The JSON that a text is, where it is one."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return cast("Json", msgspec.json.decode(value))
    except (ValueError, RecursionError):
        return value


def _answers(output: Json) -> Iterator[Json]:
    """The message that a model answered with, in each form that integrations write."""
    if isinstance(output, str):
        if output:
            yield {"role": "assistant", "content": output}
    elif isinstance(output, list):
        yield from output
    elif isinstance(output, dict):
        choices = objects_in(output.get("choices"))
        message = object_in(choices[0].get("message")) if choices else output
        if message.keys() & {"role", "content", "tool_calls", "type", "parts"}:
            yield message if "role" in message or "type" in message else {
                "role": "assistant", **message
            }  # fmt: skip
        elif message:  # an object that the model was asked for
            text = message.get("text") if len(message) == 1 else None
            content = text if isinstance(text, str) else compact(message)
            yield {"role": "assistant", "content": content}


def _with_facts(event: Event, row: JsonObject) -> Event:
    """The answer with what was counted."""
    usage = _usage(row)
    model = text_at(row, "model") or None
    return msgspec.structs.replace(
        event, usage=usage or event.usage, model_version=model or event.model_version
    )


def _usage(row: JsonObject) -> Usage | None:
    details = object_in(row.get("usageDetails") or row.get("usage_details") or row.get("usage"))
    cached = next(
        (details[key] for key in ("input_cached_tokens", "cache_read_input_tokens",
                                  "input_cache_read") if key in details), None)  # fmt: skip
    prompt = details.get("input", details.get("promptTokens"))
    if isinstance(prompt, int) and isinstance(cached, int):
        prompt += cached  # Langfuse counts what was cached apart
    return read_usage(prompt, details.get("output", details.get("completionTokens")), cached)
