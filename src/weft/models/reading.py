"""Reading an answer off the line: JSON or server-sent events, and what is neither."""

import json
import math
from typing import cast

import msgspec

from weft.dialects import dialect_named, lift, stream_of
from weft.dialects.stream import Events
from weft.errors import ModelError
from weft.ir import ModelResponse
from weft.jsonschema import deeper_than
from weft.models.http import Reply
from weft.models.retry import Final, asked_to_wait
from weft.models.services import address_of
from weft.values import Json, JsonObject

_SHOWN = 200
_DEEPEST = 150
"""How deep an answer may nest: a log takes little more."""

_decode = msgspec.json.Decoder().decode


async def require_answer(reply: Reply, dialect: str, url: str) -> None:
    """Raise the error that a failed answer describes."""
    status = reply.status
    if 200 <= status < 300:
        if "text/html" in reply.headers.get("content-type", ""):
            raise web_page(url, status)
        if status in (204, 205):
            raise _nothing(url, status)
        return
    body = await reply.read()
    text = body.decode("utf-8", "replace")
    if 300 <= status < 400:
        # the base alone: a query there may hold a key
        there = address_of(reply.headers.get("location", "elsewhere")).base or "/"
        raise ModelError(
            f"{url} sends on to {there} instead of answering",
            code="bad_response",
            status=status,
            hint="write the address it sends on to as base_url",
        )
    value = _object(body)
    if value is None and _is_page(text, reply.headers.get("content-type", "")):
        error = web_page(url, status)
        if status >= 500 or status == 429:  # a proxy's page says only what the status says
            error = dialect_named(dialect).errors.failure(status, None, "")
    else:
        error = dialect_named(dialect).errors.failure(status, value, text)
    asked = asked_to_wait(reply.headers)
    if asked is not None:
        error.retry_after = asked
    # OpenAI and Anthropic say so of what will fail again, whatever its status
    raise _final(error) if reply.headers.get("x-should-retry") == "false" else error


class Reading:
    """One answer that is being read; partial responses as they come, then the whole one."""

    __slots__ = ("_begun", "_body", "_dialect", "_events", "_over", "_reply", "_stream", "_url")

    def __init__(self, reply: Reply, dialect: str, url: str, *, stream: bool) -> None:
        self._reply = reply
        self._dialect = dialect
        self._url = url
        self._events = Events()
        self._stream = stream_of(dialect) if self._streams(asked=stream) else None
        self._body: JsonObject | None = None
        self._begun = False
        self._over = False

    def _streams(self, *, asked: bool) -> bool:
        """Whether events come: what the answer says it is counts more than what was asked for."""
        kind = self._reply.headers.get("content-type", "")
        # some servers stream unasked, others answer a request for a stream with plain JSON
        return "event-stream" in kind or (asked and "json" not in kind)

    async def more(self) -> list[ModelResponse] | None:
        """The pieces that came next; None where everything has come."""
        if self._over:
            return None
        if self._stream is None:
            self._body = self._whole(await self._reply.read())
            return None
        try:
            data = await self._reply.more()
        except ModelError as error:
            self._over = True
            return self._cut(error)
        if data and not self._begun:
            self._begun = True
            if data.lstrip()[:1] in (b"{", b"[", b"<"):  # it says it streams, and does not
                self._body = self._whole(data + await _rest(self._reply))
                return None
        if data:
            return self._fed(self._events.feed(data))
        self._over = True
        try:
            return self._fed(self._events.end())
        except _HalfEvent:
            return self._cut(ModelError("it ends in the middle of an event", hint="try again"))

    def response(self) -> ModelResponse:
        """The whole answer."""
        return lift(self._dialect, self.body)

    @property
    def body(self) -> JsonObject:
        """The answer as it came, or as what was streamed adds up to."""
        if self._body is not None:
            return self._body
        assert self._stream is not None
        return self._stream.body()

    async def close(self) -> None:
        """Let go of the connection."""
        await self._reply.close()

    def _fed(self, events: list[tuple[str, str]]) -> list[ModelResponse]:
        stream = self._stream
        assert stream is not None
        partials: list[ModelResponse] = []
        for name, text in events:
            data = _object(text)
            if data is None:
                raise self._garbled(text)
            partial = stream.feed(name, data)
            if partial is not None:
                partials.append(partial)
        # `[DONE]` ends a stream of OpenAI's format, though the connection may stay open
        if self._events.done:
            stream.ended()
        return partials

    def _garbled(self, text: str) -> ModelError:
        if self._over:
            return _HalfEvent("the stream ends in the middle of an event")
        return ModelError(
            f"an event of the answer is no JSON object: {_short(text)}",
            code="bad_response",
            hint="check that the base URL is this provider's API",
        )

    def _cut(self, error: ModelError) -> list[ModelResponse]:
        """Handle a broken connection. It is no error if the answer was complete."""
        assert self._stream is not None
        try:
            self._stream.body()
        except ModelError as cut:
            if cut.code != "cut_stream":
                raise
            code = "timeout" if error.code == "timeout" else "cut_stream"
            raise ModelError(
                f"the answer's stream was cut: {error.message}", code=code, hint=error.hint
            ) from error
        return []

    def _whole(self, body: bytes) -> JsonObject:
        status = self._reply.status
        if not body.strip():
            raise _nothing(self._url, status)
        value = _object(body)
        if value is not None:
            return value
        text = body.decode("utf-8", "replace")
        if _is_page(text, self._reply.headers.get("content-type", "")):
            raise web_page(self._url, status)
        raise ModelError(
            f"the answer is no JSON object: {_short(text)}",
            code="bad_response",
            status=status,
            hint="check that the base URL is this provider's API",
        )


async def _rest(reply: Reply) -> bytes:
    pieces: list[bytes] = []
    while piece := await reply.more():
        pieces.append(piece)
    return b"".join(pieces)


class _HalfEvent(ModelError):
    """The last event of a stream, of which only a part came."""


def web_page(url: str, status: int) -> ModelError:
    """The error for an address that answers with a page for people."""
    return ModelError(
        f"{url} answered with a web page (HTML, status {status}) instead of JSON",
        code="bad_response",
        status=status,
        hint="check base_url: it is the address of the API, such as https://host/v1",
    )


def _nothing(url: str, status: int) -> ModelError:
    return ModelError(
        f"{url} answered with nothing (status {status})",
        code="bad_response",
        status=status,
        hint="check that the base URL is this provider's API",
    )


def _is_page(text: str, kind: str) -> bool:
    start = text[:200].lstrip().lower()
    return "text/html" in kind or start.startswith(("<!doctype html", "<html"))


def _object(body: bytes | str) -> JsonObject | None:
    """The JSON object that this is; some errors come as a list of one."""
    try:
        value: Json = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _forgiven(body)
    # Gemini sends the error of a stream as a list
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    opens = body.count(b"[") + body.count(b"{") if isinstance(body, bytes) else _opens(body)
    # the brackets are counted first: to walk through every answer would cost time
    return None if opens > _DEEPEST and deeper_than(value, _DEEPEST) else value


def _opens(text: str) -> int:
    return text.count("[") + text.count("{")


def _forgiven(body: bytes | str) -> Json:
    """Parse JSON with the small faults that models and servers make; None if it is not JSON.

    Half a character stays as it is, bytes that are no character become one that says so, and a
    number that is none, such as NaN, becomes null.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        return cast("Json", json.loads(text, parse_constant=_no_number, parse_float=_number))
    except (ValueError, RecursionError):
        return None


def _no_number(text: str) -> None:
    return None


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _final(error: ModelError) -> Final:
    return Final(
        error.message,
        code=error.code,
        provider=error.provider,
        model=error.model,
        status=error.status,
        retry_after=error.retry_after,
        hint=error.hint,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
