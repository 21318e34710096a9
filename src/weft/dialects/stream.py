"""Server-sent events: bytes as they come in, events as soon as they are whole.

Nothing here knows where the bytes come from. However they are cut, also in the middle of a
character or between the two bytes of a line's end, the events are the same.
"""

import re
from typing import Protocol

import msgspec

from weft.content import Content, Part
from weft.errors import ModelError
from weft.ir import ModelResponse
from weft.late import late_pattern
from weft.values import Json, JsonObject

DONE = "[DONE]"
"""What some servers say instead of an event once everything is said."""

_MARK = "\ufeff"

_ONE = late_pattern(r"(?:event: (.*)\n)?data: (\{.*)\n\n")
"""One whole event with its name and its data: what nearly every piece that comes in is."""


class Events:
    """A reader of one stream: feed it bytes, take the events that are whole by now.

    An event is its name, "" where it has none, and its data. Comments, ids and events without
    data are left out, and so is `[DONE]`: `done` says that it came.
    """

    __slots__ = ("_after_return", "_began", "_pending", "done")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._began = False
        self._after_return = False
        self.done = False

    def feed(self, data: bytes) -> list[tuple[str, str]]:
        """Take some bytes; the events that they complete."""
        pending = self._pending
        # the common case: one whole event in one piece of bytes
        if self._began and not pending and not self._after_return:
            text = data.decode("utf-8", "replace")
            if "\r" in text:
                text = text.replace("\r\n", "\n")
            one = _ONE.fullmatch(text)
            if one is not None and "\r" not in text:
                return [(one[1] or "", one[2])]
        if self._after_return or b"\r" in data:
            data = self._with_newlines(data)
        # the empty line may be cut between its two bytes
        seen = max(len(pending) - 1, 0)
        pending += data
        end = pending.rfind(b"\n\n", seen)
        if end < 0:
            return []
        whole = pending[:end].decode("utf-8", "replace")
        del pending[: end + 2]
        return self._events(whole)

    def end(self) -> list[tuple[str, str]]:
        """The event that stands at the end of the stream without the empty line it should have."""
        whole = self._pending.decode("utf-8", "replace")
        self._pending.clear()
        return self._events(whole)

    def _with_newlines(self, data: bytes) -> bytes:
        """The bytes with one kind of line's end; it may have been cut between return and feed."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        self._after_return = self._after_return or data.endswith(b"\r")
        data = data.replace(b"\r\n", b"\n")
        return data.replace(b"\r", b"\n") if b"\r" in data else data

    def _events(self, whole: str) -> list[tuple[str, str]]:
        if not self._began:
            self._began = True
            # a byte order mark may stand at the very beginning
            whole = whole.removeprefix(_MARK)
        events: list[tuple[str, str]] = []
        for block in whole.split("\n\n"):
            if block[:7] == "data: {" and "\n" not in block:  # nearly every event of all
                events.append(("", block[6:]))
                continue
            name, _, rest = block.partition("\n")
            if rest[:7] == "data: {" and name[:7] == "event: " and "\n" not in rest:
                events.append((name[7:], rest[6:]))
                continue
            event = _event(block)
            if event[1] == DONE:
                self.done = True
            elif event[1] and not event[1].isspace():
                events.append(event)
        return events


def _event(block: str) -> tuple[str, str]:
    """The event that a few lines spell, by the letter of the specification."""
    name = ""
    data: list[str] = []
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")
    return name, "\n".join(data)


_WORDS = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "unauthenticated": "auth",
    "invalid_api_key": "auth",
    "api_key_invalid": "auth",
    "api_key_expired": "auth",
    "billing_error": "auth",
    "billing_disabled": "auth",
    "insufficient_quota": "auth",
    "billing_hard_limit_reached": "auth",
    "not_found_error": "not_found",
    "not_found": "not_found",
    "model_not_found": "not_found",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_exceeded_error": "rate_limited",
    "rate_limit": "rate_limited",
    "too_many_requests": "rate_limited",
    "resource_exhausted": "rate_limited",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "service_unavailable": "overloaded",
    "unavailable": "overloaded",
    "api_error": "overloaded",
    "server_error": "overloaded",
    "internal": "overloaded",
    "internal_error": "overloaded",
    "internal_server_error": "overloaded",
    "timeout_error": "timeout",
    "deadline_exceeded": "timeout",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "request_too_large": "context_overflow",
}
"""The providers' own words that say enough by themselves."""

_GENERAL = {
    "invalid_request_error": "bad_request",
    "invalid_argument": "bad_request",
    "failed_precondition": "bad_request",
    "invalid_prompt": "bad_request",
    "badrequesterror": "bad_request",
}
"""Words that a status says more precisely, where there is one."""

_STATUSES = {
    401: "auth",
    402: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    413: "context_overflow",
    429: "rate_limited",
    504: "timeout",
}

_UNPAID = frozenset(
    ("billing_error", "billing_disabled", "insufficient_quota", "billing_hard_limit_reached")
)

_TOO_LONG = late_pattern(
    r"(prompt|input|request) is too long|context (window|length|limit|size)"
    r"|maximum number of tokens allowed|input token count|too many (input )?tokens in",
    re.IGNORECASE,
)


_HINTS = {
    "bad_request": "change what the provider names: a tool, a schema, or generate_config",
    "model_error": "try again, or give a fallback model",
    "not_found": "check the model's name and the base URL",
    "context_overflow": "set `context_compressor=TokenBudget(...)` to less than its window",
    "rate_limited": "wait, or give a fallback model",
    "overloaded": "try again later, or give a fallback model",
    "timeout": "try again, or allow more time",
    "bad_response": "check that the base URL is this provider's API",
}

_IN = late_pattern(r"try again in (?:(\d+)m(?!s))?(\d+(?:\.\d+)?)(ms|s)", re.IGNORECASE)

_SECONDS = late_pattern(r"(\d+(?:\.\d+)?)s")

_LONGEST = 1000


class AnswerErrors(msgspec.Struct, frozen=True):
    """The errors that reading a dialect's answers raises; `key` names the variable of its key."""

    dialect: str
    key: str = "its variable"

    def failure(self, status: int | None, body: JsonObject | None, text: str = "") -> ModelError:
        """The error that an answer tells, whichever way its provider tells it.

        `status` is the HTTP status, or None for an error in the middle of a stream. `text` is what
        came where it was no JSON object.
        """
        if body is None:
            body = _object_in(text)
        error = _error_in(body)
        words = [word.lower() for word in _words(error)]
        message = _message(error)
        text_shown = message or _plain(text) or f"the provider answered with status {status}"
        code = _code(words, status, error)
        # most providers say in words alone that a request was too long
        if code == "bad_request" and _TOO_LONG.search(message or text):
            code = "context_overflow"
        hint = _HINTS.get(code, "")
        if code == "auth":
            hint = f"check the key: set {self.key}, or pass `api_key`"
            if status == 402 or any(word in _UNPAID for word in words):
                hint = "add credit to the provider's account, or raise its limit"
        return ModelError(
            text_shown,
            code=code,
            provider=self.dialect,
            status=status,
            retry_after=_retry_after(error, message),
            hint=hint,
        )

    def unreadable(self, message: str) -> ModelError:
        """The error for an answer that is not what this dialect answers with."""
        return ModelError(
            message, code="bad_response", provider=self.dialect, hint=_HINTS["bad_response"]
        )

    def cut_off(self) -> ModelError:
        """The error for a stream that stops before it says that it is at its end."""
        return ModelError(
            "the stream was cut off before its end",
            code="cut_stream",
            provider=self.dialect,
            hint="try again; what came so far is not an answer",
        )


def tells_error(body: JsonObject) -> bool:
    """Whether a body is an error's, whatever its status was."""
    return body.get("type") == "error" or bool(body.get("error")) or body.get("object") == "error"


def _code(words: list[str], status: int | None, error: JsonObject) -> str:
    for word in words:
        if word in _WORDS:
            return _WORDS[word]
    inner = error.get("code")
    # an error inside a stream came with status 200: its own code says more
    number = status if status is not None and status >= 400 else inner
    if isinstance(number, int) and not isinstance(number, bool):
        if number in _STATUSES:
            return _STATUSES[number]
        if number >= 500:
            return "overloaded"
        if number >= 400:
            return "bad_request"
    for word in words:
        if word in _GENERAL:
            return _GENERAL[word]
    return "model_error" if error else "bad_response"


def _object_in(text: str) -> JsonObject | None:
    """The JSON object in a text, or the first of a list of them; None where there is none."""
    try:
        value: Json = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else None


def _error_in(body: JsonObject | None) -> JsonObject:
    """The object that describes the error; empty where the body describes none."""
    if body is None:
        return {}
    error = body.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):
        return {**body, "message": error}
    described = isinstance(body.get("message"), str) or isinstance(body.get("detail"), str)
    return body if described or tells_error(body) else {}


def _words(error: JsonObject) -> list[str]:
    """The provider's own names for the error, the most precise first."""
    details = error.get("details")
    reasons = [
        detail.get("reason")
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, dict)
    ]
    named = (error.get("code"), *reasons, error.get("type"), error.get("status"))
    return [word for word in named if isinstance(word, str)]


def _message(error: JsonObject) -> str:
    """What the error says, with the words of the server that a gateway asked."""
    pieces = [error.get("message")]
    if not isinstance(pieces[0], str):
        pieces = [error.get("detail")]
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        pieces.append(metadata.get("raw"))
    return _short(": ".join(piece for piece in pieces if isinstance(piece, str) and piece))


def _plain(text: str) -> str:
    """A text that is not JSON; a page is not shown, but named."""
    start = text.lstrip()[:100].lower()
    if start.startswith(("<!doctype", "<html", "<?xml", "<head", "<body")):
        return "the answer is a web page, not JSON"
    return _short(" ".join(text.split()))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _retry_after(error: JsonObject, message: str) -> float | None:
    """How many seconds the error itself asks to wait."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _SECONDS.fullmatch(delay)):
            return float(seconds[1])
    if match := _IN.search(message):
        minutes, amount, unit = match.groups()
        return int(minutes or 0) * 60 + float(amount) / (1000 if unit == "ms" else 1)
    return None


def partial_text(text: str) -> ModelResponse:
    """A piece of what the model says."""
    return ModelResponse(content=Content((Part(text),), "model"), partial=True)


def partial_thought(text: str) -> ModelResponse:
    """A piece of what the model thinks."""
    part = Part(text, thought=True)
    return ModelResponse(content=Content((part,), "model"), partial=True)


class Stream(Protocol):
    """One streamed answer: pieces to show as they come, then the body they add up to."""

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one event; a partial response where it says something to show.

        `name` is the SSE event's name, "" where there is none. An error told in the stream is
        raised as a ModelError.
        """
        ...

    def note_end(self) -> None:
        """Take note that the server said `[DONE]`: nothing that is missing will come."""
        ...

    def body(self) -> JsonObject:
        """The whole answer; a ModelError with code `cut_stream` where its end never came."""
        ...
