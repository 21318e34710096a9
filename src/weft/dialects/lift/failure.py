"""What an error answer means: one code for what every provider has its own words for.

Providers name an error twice, by HTTP status and by a word of their own; servers that imitate
them often get one of the two wrong. A specific word wins, then the status, then a general word.
What the message says about size decides last, because overflow has no word of its own at most.
"""

import re

import msgspec

from weft.errors import ModelError
from weft.values import Json, JsonObject

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

_TOO_LONG = re.compile(
    r"(prompt|input|request) is too long|context (window|length|limit|size)"
    r"|maximum number of tokens allowed|input token count|too many (input )?tokens in",
    re.IGNORECASE,
)

_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
}

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

_IN = re.compile(r"try again in (?:(\d+)m(?!s))?(\d+(?:\.\d+)?)(ms|s)", re.IGNORECASE)
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_LONGEST = 1000


def failure(
    dialect: str, status: int | None, body: JsonObject | None, text: str = ""
) -> ModelError:
    """The error that an answer tells, whichever way its provider tells it.

    `status` is the HTTP status, or None for an error in the middle of a stream. `text` is what
    came where it was no JSON object.
    """
    if body is None:
        body = _object_in(text)
    error = _error_in(body)
    words = [word.lower() for word in _words(error)]
    message = _message(error)
    found = message or _plain(text) or f"the provider answered with status {status}"
    code = _code(words, status, error)
    if code == "bad_request" and _TOO_LONG.search(message or text):
        code = "context_overflow"
    hint = _HINTS.get(code, "")
    if code == "auth":
        hint = f"check the key: set {_KEYS.get(dialect, 'its variable')}, or pass `api_key`"
        if status == 402 or any(word in _UNPAID for word in words):
            hint = "add credit to the provider's account, or raise its limit"
    return ModelError(
        found,
        code=code,
        provider=dialect,
        status=status,
        retry_after=_retry_after(error, message),
        hint=hint,
    )


def tells_error(body: JsonObject) -> bool:
    """Whether a body is an error's, whatever its status was."""
    return body.get("type") == "error" or bool(body.get("error")) or body.get("object") == "error"


def _code(words: list[str], status: int | None, error: JsonObject) -> str:
    for word in words:
        if word in _WORDS:
            return _WORDS[word]
    inner = error.get("code")
    told = status if status is not None and status >= 400 else inner
    if isinstance(told, int) and not isinstance(told, bool):
        if told in _STATUSES:
            return _STATUSES[told]
        if told >= 500:
            return "overloaded"
        if told >= 400:
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
    told = isinstance(body.get("message"), str) or isinstance(body.get("detail"), str)
    return body if told or tells_error(body) else {}


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
    """What the error says, with what a server behind a gateway said."""
    said = [error.get("message")]
    if not isinstance(said[0], str):
        said = [error.get("detail")]
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        said.append(metadata.get("raw"))
    return _short(": ".join(piece for piece in said if isinstance(piece, str) and piece))


def _plain(text: str) -> str:
    """A text that is no JSON; a page is not shown, but named."""
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
    if found := _IN.search(message):
        minutes, amount, unit = found.groups()
        return int(minutes or 0) * 60 + float(amount) / (1000 if unit == "ms" else 1)
    return None


def unreadable(dialect: str, message: str) -> ModelError:
    """The error for an answer that is not what this dialect answers with."""
    return ModelError(message, code="bad_response", provider=dialect, hint=_HINTS["bad_response"])


def cut_off(dialect: str) -> ModelError:
    """The error for a stream that stops before it says that it is at its end."""
    return ModelError(
        "the stream was cut off before its end",
        code="cut_stream",
        provider=dialect,
        hint="try again; what came so far is not an answer",
    )
