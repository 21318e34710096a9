"""The answer that was recorded beside a request: a body, a stream's text, or a list of its chunks.

Recorders keep answers in many forms: the JSON that came, the text of its server-sent events, each
chunk as an object, or any of these below `body` with a status. A stream is put together by the
dialect's own reader, so that a streamed answer is the same event as a whole one.
"""

import json
from collections.abc import Iterator
from typing import cast

import msgspec

from weft.dialects import lift, stream_of
from weft.dialects.stream import Events
from weft.errors import ModelError, describe_kind
from weft.recordings.recording import HALF_CHARACTER, Transcript
from weft.values import Json, JsonObject, is_encodable, scrubbed

_SHOWN = 60


def take_answer(transcript: Transcript, dialect: str, answer: Json, where: str) -> bool:
    """Add the answer to the transcript, or name why not; whether it was added."""
    body = unwrapped(answer)
    if body is None:
        return False
    try:
        whole = body_of(body, dialect)
        if not is_encodable(whole):
            transcript.put_aside(*HALF_CHARACTER, where)
            whole = cast("JsonObject", scrubbed(whole))
        response = lift(dialect, whole)
    except ModelError as error:
        transcript.put_aside("answer", f"it cannot be read: {error.message}", where)
        return False
    if response.error_code or response.content is None:
        transcript.put_aside("answer", f"it is an error: {response.error_code or 'empty'}", where)
        return False
    transcript.answer(
        response.content.parts or (),
        model=response.model_version or transcript.model,
        usage=response.usage,
        finish_reason=response.finish_reason,
        place=where,
    )
    return True


def unwrapped(answer: Json) -> Json:
    """What came from the provider, out of what a recorder put around it; None if nothing did."""
    while isinstance(answer, dict):
        inner = next((key for key in ("body", "string") if key in answer), None)
        # these are a provider's own fields: this is the answer itself
        if inner is None or answer.keys() & {"choices", "content", "candidates", "output"}:
            break
        answer = answer[inner]
    return None if answer in ("", [], {}) else answer


def body_of(answer: Json, dialect: str) -> JsonObject:
    """The whole answer as one object; a ModelError where it cannot be put together."""
    if isinstance(answer, dict):
        return answer
    if isinstance(answer, str):
        parsed = _parsed(answer)
        if isinstance(parsed, dict):
            return cast("JsonObject", parsed)
        return _assembled(_events(answer) if parsed is None else _chunks(parsed), dialect)
    return _assembled(_chunks(answer), dialect)


def _assembled(events: Iterator[tuple[str, Json]], dialect: str) -> JsonObject:
    """The body that the events of a stream add up to."""
    stream = stream_of(dialect)
    for name, data in events:
        if data is None:
            stream.ended()
        elif isinstance(data, dict):
            stream.feed(name, data)
        else:
            raise ModelError(f"a chunk of its stream is no object: {_short(data)}")
    return stream.body()


def _events(text: str) -> Iterator[tuple[str, Json]]:
    """The events of a stream as it came over the line; null at its end, if it tells its end."""
    reader = Events()
    whole = [*reader.feed(text.encode("utf-8", "replace")), *reader.end()]
    if not whole:
        raise ModelError(f"it is neither JSON nor a stream of events: {_short(text)}")
    for name, data in whole:
        yield name, cast("Json", _parsed(data)) or data
    if reader.done:
        yield "", None


def _chunks(answer: object) -> Iterator[tuple[str, Json]]:
    """The chunks of a list: objects, `{"event": ..., "data": ...}`, or the lines of a stream."""
    if not isinstance(answer, list):
        raise ModelError(f"{describe_kind(answer)} is no answer")
    chunks = cast("list[Json]", answer)
    if chunks and all(isinstance(chunk, str) for chunk in chunks):
        lines = cast("list[str]", chunks)
        if all(line.lstrip().startswith("{") for line in lines):
            chunks = [cast("Json", _parsed(line)) or line for line in lines]
        else:  # an empty line ends an event, and recorders leave it out
            ends = (line.rstrip("\r\n") for line in lines)
            text = "\n".join(line if line.startswith("event:") else f"{line}\n" for line in ends)
            yield from _events(text)
            return
    for chunk in chunks:
        if isinstance(chunk, dict) and "data" in chunk and chunk.keys() <= {"event", "data", "id"}:
            name, data = chunk.get("event"), chunk["data"]
            if data == "[DONE]":
                yield "", None
                continue
            data = cast("Json", _parsed(data)) if isinstance(data, str) else data
            yield (name if isinstance(name, str) else ""), data
        elif chunk == "[DONE]":
            yield "", None
        else:
            yield "", chunk


def _parsed(text: str) -> object:
    """The value that a text is the JSON of; None where it is none."""
    try:
        return cast("object", msgspec.json.decode(text.encode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError):
        pass
    try:
        return cast("object", json.loads(text))  # half an emoji, which only the slow reader takes
    except (ValueError, RecursionError):
        return None


def _short(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else json.dumps(value)).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
