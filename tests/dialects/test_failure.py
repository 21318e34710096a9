"""Errors of all providers: one code for each kind, whatever the provider calls it."""

import json

import pytest

from weft.dialects import dialect_named
from weft.values import JsonObject


def anthropic(kind: str, message: str = "No.") -> JsonObject:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r1"}


def google(code: int, status: str, message: str = "No.", *details: JsonObject) -> JsonObject:
    return {"error": {"code": code, "status": status, "message": message, "details": [*details]}}


def openai(kind: str, code: str | None = None, message: str = "No.") -> JsonObject:
    return {"error": {"type": kind, "code": code, "message": message, "param": None}}


INVALID_KEY: JsonObject = {"@type": "…ErrorInfo", "reason": "API_KEY_INVALID"}

CASES: list[tuple[str, int | None, JsonObject, str]] = [
    ("anthropic", 529, anthropic("overloaded_error"), "overloaded"),
    ("anthropic", None, anthropic("overloaded_error"), "overloaded"),
    ("anthropic", 429, anthropic("rate_limit_error"), "rate_limited"),
    ("anthropic", 401, anthropic("authentication_error"), "auth"),
    ("anthropic", 403, anthropic("permission_error"), "auth"),
    ("anthropic", 402, anthropic("billing_error"), "auth"),
    ("anthropic", 404, anthropic("not_found_error"), "not_found"),
    ("anthropic", 400, anthropic("invalid_request_error"), "bad_request"),
    ("anthropic", None, anthropic("invalid_request_error"), "bad_request"),
    ("anthropic", 413, anthropic("request_too_large"), "context_overflow"),
    ("anthropic", 500, anthropic("api_error"), "overloaded"),
    ("anthropic", 504, anthropic("timeout_error"), "timeout"),
    ("anthropic", None, anthropic("a_new_error"), "model_error"),
    (
        "anthropic",
        400,
        anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "context_overflow",
    ),
    (
        "anthropic",
        400,
        anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit"),
        "context_overflow",
    ),
    (
        "anthropic",
        400,
        anthropic("invalid_request_error", "max_tokens: 300000 > 128000, the maximum allowed"),
        "bad_request",
    ),
    ("gemini", 400, google(400, "INVALID_ARGUMENT"), "bad_request"),
    ("gemini", 400, google(400, "INVALID_ARGUMENT", "Bad key", INVALID_KEY), "auth"),
    ("gemini", 403, google(403, "PERMISSION_DENIED"), "auth"),
    ("gemini", 404, google(404, "NOT_FOUND"), "not_found"),
    ("gemini", 429, google(429, "RESOURCE_EXHAUSTED"), "rate_limited"),
    ("gemini", 500, google(500, "INTERNAL"), "overloaded"),
    ("gemini", 503, google(503, "UNAVAILABLE"), "overloaded"),
    ("gemini", 504, google(504, "DEADLINE_EXCEEDED"), "timeout"),
    ("gemini", None, google(503, "UNHEARD_OF"), "overloaded"),
    (
        "gemini",
        400,
        google(400, "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum (1)"),
        "context_overflow",
    ),
    ("openai-chat", 401, openai("invalid_request_error", "invalid_api_key"), "auth"),
    ("openai-chat", 401, openai("invalid_request_error"), "auth"),
    ("openai-chat", 404, openai("invalid_request_error", "model_not_found"), "not_found"),
    ("openai-chat", 429, openai("tokens", "rate_limit_exceeded"), "rate_limited"),
    ("openai-chat", 429, openai("insufficient_quota", "insufficient_quota"), "auth"),
    ("openai-chat", 400, openai("invalid_request_error", "invalid_value"), "bad_request"),
    (
        "openai-chat",
        400,
        openai("invalid_request_error", "context_length_exceeded"),
        "context_overflow",
    ),
    (
        "openai-chat",
        400,
        {"object": "error", "message": "This model's maximum context length is 4096", "code": 400},
        "context_overflow",
    ),
    (
        "openai-chat",
        400,
        {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too big"}},
        "context_overflow",
    ),
    ("openai-chat", 404, {"error": "model 'x' not found"}, "not_found"),
    ("openai-chat", 404, {"detail": "Not Found"}, "not_found"),
    ("openai-chat", 200, {"error": {"code": 502, "message": "upstream"}}, "overloaded"),
    ("openai-chat", 422, {"detail": "no such field"}, "bad_request"),
    ("openai-responses", None, {"error": {"code": "server_error", "message": "x"}}, "overloaded"),
    (
        "openai-responses",
        None,
        {"type": "error", "code": "rate_limit_exceeded", "message": "x"},
        "rate_limited",
    ),
]


@pytest.mark.parametrize(("dialect", "status", "body", "code"), CASES)
def test_an_error_has_one_code_for_all_providers(
    dialect: str, status: int | None, body: JsonObject, code: str
) -> None:
    error = dialect_named(dialect).errors.failure(status, body)
    assert error.code == code
    assert (error.provider, error.status) == (dialect, status)
    assert error.message
    again = dialect_named(dialect).errors.failure(status, None, json.dumps([body]))
    assert (again.code, again.message) == (code, error.message)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "bad_request"), (401, "auth"), (404, "not_found"), (408, "timeout"),
        (413, "context_overflow"), (418, "bad_request"), (429, "rate_limited"), (500, "overloaded"),
        (502, "overloaded"), (529, "overloaded"), (200, "bad_response"), (None, "bad_response"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "text", ["", "<html><body>Bad Gateway</body></html>", "[]", "null", "oops"]
)
def test_without_words_the_status_says_it(status: int | None, code: str, text: str) -> None:
    error = dialect_named("openai-chat").errors.failure(status, None, text)
    assert error.code == code
    assert error.message
    assert "<html>" not in error.message


def test_a_page_is_named_and_not_shown() -> None:
    error = dialect_named("anthropic").errors.failure(
        502, None, "<!DOCTYPE html><p>Bad gateway</p>"
    )
    assert error.message == "the answer is a web page, not JSON"


def test_the_hint_says_what_to_do() -> None:
    assert "ANTHROPIC_API_KEY" in dialect_named("anthropic").errors.failure(401, None).hint
    assert "GEMINI_API_KEY" in dialect_named("gemini").errors.failure(403, None).hint
    assert (
        "credit"
        in dialect_named("openai-chat").errors.failure(429, openai("insufficient_quota")).hint
    )
    assert "base URL" in dialect_named("openai-chat").errors.failure(404, None).hint


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (google(429, "X", "Slow", {"@type": "…RetryInfo", "retryDelay": "34.5s"}), 34.5),
        (openai("tokens", None, "Please try again in 1.2s. More"), 1.2),
        (openai("tokens", None, "Please try again in 250ms."), 0.25),
        (openai("tokens", None, "Please try again in 6m0s."), 360.0),
        (openai("tokens", None, "Please try again later."), None),
        (google(429, "X", "Slow", {"retryDelay": "soon"}), None),
    ],
)
def test_how_long_to_wait_is_read_from_the_error(body: JsonObject, seconds: float | None) -> None:
    assert dialect_named("openai-chat").errors.failure(429, body).retry_after == seconds


def test_what_a_gateway_was_told_is_told() -> None:
    raw = '{"error": "prompt is too long: 9 tokens"}'
    body: JsonObject = {
        "error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": raw}}
    }
    error = dialect_named("openai-chat").errors.failure(400, body)
    assert error.code == "context_overflow"
    assert error.message == f"Provider returned error: {raw}"


def test_a_long_message_is_shortened() -> None:
    assert (
        len(dialect_named("gemini").errors.failure(400, google(400, "X", "y" * 5000)).message)
        < 1100
    )
