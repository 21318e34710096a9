"""Messages of Vercel's AI SDK: those that it sends to models, and those that it shows in a page.

A message of a page holds all steps of one answer. Each step is an answer of the model, and the
results of its calls follow it.
"""

from collections.abc import Iterator

from weft.content import Blob, Part, call_part, result_part, text_part, thought_part
from weft.dialects.wire import linked_part, object_in, objects_in, text_at
from weft.errors import SessionError
from weft.recordings.providers import arguments_of
from weft.recordings.recording import Recording, Transcript, seconds, show_media
from weft.values import Json, JsonObject

_SHOWN = ("step-start", "source-url", "source-document")
"""Parts of a page that no model is sent."""


def is_vercel(messages: list[JsonObject]) -> bool:
    """Whether a list has the SDK's own parts; one of plain texts is like anybody's."""
    if not all("role" in one for one in messages):
        return False
    if any("toolInvocations" in one for one in messages):
        return True
    kinds = [text_at(part, "type") for one in messages for part in _parts_of(one)]
    if any(isinstance(one.get("parts"), list) for one in messages):
        return bool(kinds) and all(kinds)  # parts of a page say what they are
    return any(kind in ("tool-call", "tool-result") for kind in kinds)


def _parts_of(message: JsonObject) -> list[JsonObject]:
    return objects_in(message.get("parts", message.get("content")))


def read_vercel(messages: list[Json], id: str, where: str) -> Recording:
    """A list of model messages, or of UI messages."""
    transcript = Transcript(where, format="vercel")
    for index, message in enumerate(messages):
        place = f"{where}: messages[{index}]"
        if not isinstance(message, dict):
            raise SessionError("a message is an object", where=place, hint='{"role": "user", ...}')
        transcript.place = place
        role = message.get("role")
        if role == "system":
            transcript.system += [
                part.text or "" for part in _MessageStep(transcript, message).words()
            ]
        elif role == "user":
            transcript.user(_MessageStep(transcript, message).words())
        elif role in ("assistant", "tool"):
            for step in _steps(message):
                _MessageStep(transcript, step).take(time=seconds(message.get("createdAt")))
        else:
            raise SessionError(f"{role!r} is not a role", where=place, hint="user, assistant, tool")
    return transcript.recording(id)


def _steps(message: JsonObject) -> Iterator[JsonObject]:
    """A message as one for each step of the model."""
    invocations = objects_in(message.get("toolInvocations"))
    if "parts" not in message and invocations:  # the oldest form: calls next to the last words
        yield {**message, "content": [{"type": "tool-invocation", "toolInvocation": one}
                                      for one in invocations]}  # fmt: skip
        yield {key: value for key, value in message.items() if key != "toolInvocations"}
        return
    step: list[Json] = []
    for part in _parts_of(message):
        if part.get("type") == "step-start" and step:
            yield {**message, "parts": step}
            step = []
        step.append(part)
    yield {**message, "parts": step} if step else message


class _MessageStep:
    """One step of a message: what was said, what was called, and what that returned."""

    def __init__(self, transcript: Transcript, message: JsonObject) -> None:
        self._transcript = transcript
        self._content: Json = message.get("parts", message.get("content"))
        self._results: list[Part] = []

    def words(self) -> list[Part]:
        """The parts that one side said; what tools returned is kept apart."""
        if isinstance(self._content, str):
            return [text_part(self._content)] if self._content else []
        parts: list[Part] = []
        for at, part in enumerate(objects_in(self._content)):
            one = self._read(part)
            if one is not None:
                parts.append(one)
            elif text_at(part, "type") not in ("tool-result", "tool-error"):
                why = "no model is sent it" if part.get("type") in _SHOWN else "its form is unknown"
                place = f"{self._transcript.place}[{at}]"
                self._transcript.put_aside(f"part `{part.get('type')}`", why, place)
        return parts

    def take(self, *, time: float | None) -> None:
        """Add the answer, and the results after it."""
        parts = self.words()
        if parts:
            self._transcript.answer(parts, time=time)
        if self._results:
            self._transcript.results(self._results, time=time)

    def _read(self, part: JsonObject) -> Part | None:
        kind = text_at(part, "type")
        if kind == "text":
            return text_part(text_at(part, "text")) if part.get("text") else None
        if kind == "reasoning":
            return thought_part(text_at(part, "text") or text_at(part, "reasoning"))
        if kind in ("image", "file"):
            return _medium(part)
        if kind in ("tool-result", "tool-error"):
            self._return(part)
            return None
        if kind == "tool-invocation":
            part = object_in(part.get("toolInvocation"))
        id = text_at(part, "toolCallId")
        if not id:
            return None
        name = text_at(part, "toolName") or kind.removeprefix("tool-")
        if "output" in part or "result" in part or "errorText" in part:
            self._return({**part, "toolName": name})
        elif part.get("state") == "output-denied":  # the SDK tells the model so
            why = text_at(object_in(part.get("approval")), "reason")
            denied = why or "Tool execution denied."
            self._return({**part, "toolName": name, "errorText": denied})
        return call_part(name, arguments_of(part.get("input", part.get("args"))), id=id)

    def _return(self, part: JsonObject) -> None:
        failed = bool(part.get("isError")) or part.get("type") == "tool-error"
        value = part.get("output", part.get("result", part.get("error")))
        if part.get("errorText"):
            value, failed = part["errorText"], True
        media: list[Part] = []
        form = object_in(value)
        if "value" in form and isinstance(form.get("type"), str):
            failed = failed or str(form["type"]).startswith("error")
            value = form["value"]
            if form["type"] == "content":
                media = [one for piece in objects_in(value) if (one := _medium(piece)) is not None]
                value = "".join(text_at(piece, "text") for piece in objects_in(value))
        key = "error" if failed else "result"
        response = value if isinstance(value, dict) and not failed else {key: value}
        name = text_at(part, "toolName")
        result = result_part(name, response, id=text_at(part, "toolCallId"))
        self._results.append(show_media(result, media))


def _medium(part: JsonObject) -> Part | None:
    """An image or a file: its data, or where it is."""
    mime = text_at(part, "mediaType") or text_at(part, "mimeType")
    mime = mime or ("image/png" if part.get("type") == "image" else "application/octet-stream")
    data = next((text_at(part, key) for key in ("data", "image", "url") if part.get(key)), "")
    if not data:
        return None
    if data.startswith(("data:", "http://", "https://")):
        return linked_part(data, mime, text_at(part, "filename"))
    return Part(inline_data=Blob(mime_type=mime, data=data))
