"""What a stand-in server does with each request: read it, hold it against the laws, answer."""

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from tests.standins.gemini.answer import Asked, told
from tests.standins.gemini.cache import KeptContents, ReadBefore, after
from tests.standins.gemini.errors import Refused, refused_for_now, refused_key
from tests.standins.gemini.laws import check_cached, check_contents, check_request
from tests.standins.gemini.models import GeminiModel
from tests.support.late import late
from weft.dialects import count_request
from weft.errors import DeclarationError, ModelError
from weft.ir import Prompt
from weft.models.scripted import Answer, Entry, Failure, Later, prepare, resolve
from weft.values import JsonObject

if TYPE_CHECKING:
    from tests.standins.gemini import shapes
else:
    shapes = late("tests.standins.gemini.shapes")

_VERSIONS = ("v1", "v1beta", "v1alpha")
_STATUSES = {"rate_limited": 429, "overloaded": 503, "timeout": 504, "auth": 403, "not_found": 404}
_NOWHERE = "<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)</title><p>Not found.</html>"


class GeminiRequest(NamedTuple):
    """One request as it came over the line; `body` is `None` where it is no JSON object."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: JsonObject | None


GeminiEntry: TypeAlias = Entry | Callable[[GeminiRequest], object]
"""What one answer may be written as: an entry of a script, or a callable of the request."""

GeminiScript: TypeAlias = Sequence[GeminiEntry] | Callable[[GeminiRequest], object]
"""Entries in the order they are told; or a callable that answers every request."""


class Service:
    """The requests so far, and all that the next answer depends on."""

    def __init__(
        self, script: GeminiScript, *, models: Iterable[GeminiModel], key: str | None, pace: float
    ) -> None:
        self.requests: list[GeminiRequest] = []
        self.refusals: list[str] = []
        self.answered = 0
        self._always = callable(script)
        entries = [script] if callable(script) else _listed(script)
        self._entries = [
            prepare(entry, where=f"script[{index}]") for index, entry in enumerate(entries)
        ]
        self._models = {model.name: model for model in models}
        self._key = key
        self._pace = pace
        self._read = ReadBefore()
        self._kept = KeptContents()
        self._given: set[bytes] = set()

    @property
    def remaining(self) -> int:
        """How many entries nobody asked for yet."""
        return 0 if self._always else len(self._entries) - self.answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the server."""
        if scope["type"] == "http":
            response = await self.handle(Request(scope, receive))
            await response(scope, receive, send)

    async def handle(self, request: Request) -> Response:
        """The response to a request; also one that says no."""
        raw = await request.body()
        came = GeminiRequest(
            request.method,
            request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            dict(request.headers),
            raw,
            _object(raw),
        )
        self.requests.append(came)
        try:
            return await self._respond(came)
        except Refused as refused:
            self.refusals.append(refused.message)
            return _refusal(refused)

    async def _respond(self, came: GeminiRequest) -> Response:
        path, _, query = came.path.partition("?")
        version, *rest = path.strip("/").split("/")
        if version not in _VERSIONS:
            return HTMLResponse(_NOWHERE, status_code=404)
        self._check_key(came, query)
        match came.method, rest:
            case "GET", ["models"]:
                return _json({"models": [model.body() for model in self._models.values()]})
            case "GET", ["models", name]:
                return _json(self._model(name, version, "getModel").body())
            case "POST", ["models", asked]:
                return await self._asked(came, version, asked, query)
            case "POST", ["cachedContents"]:
                return _json(self._keep(came, version))
            case "GET", ["cachedContents"]:
                return _json({"cachedContents": [kept.body() for kept in self._kept.all()]})
            case "GET", ["cachedContents", name]:
                return _json(self._kept.named(f"cachedContents/{name}").body())
            case "PATCH", ["cachedContents", name]:
                _, change = shapes.read_body(shapes.CacheChange, came.raw)
                return _json(self._kept.change(f"cachedContents/{name}", change).body())
            case "DELETE", ["cachedContents", name]:
                self._kept.drop(f"cachedContents/{name}")
                return _json({})
            case _:
                return HTMLResponse(_NOWHERE, status_code=404)

    def _check_key(self, came: GeminiRequest, query: str) -> None:
        """A key in the header or the address; or a token, which is somebody else's to check."""
        key = came.headers.get("x-goog-api-key") or parse_qs(query).get("key", [""])[0]
        scheme, _, token = came.headers.get("authorization", "").partition(" ")
        if not key and scheme.lower() == "bearer":
            if self._key in (None, token) and token:
                return
            raise Refused(
                "Request had invalid authentication credentials. Expected OAuth 2 access token,"
                " login cookie or other valid authentication credential.",
                status=401,
            )
        if not key:
            raise Refused(
                "Method doesn't allow unregistered callers (callers without established"
                " identity). Please use API Key or other form of API consumer identity to call"
                " this API.",
                status=403,
            )
        if self._key not in (None, key):
            raise refused_key()

    def _model(self, name: str, version: str, action: str) -> GeminiModel:
        model = self._models.get(name)
        if model is None:
            raise Refused(
                f"models/{name} is not found for API version {version}, or is not supported for"
                f" {action}. Call ListModels to see the list of available models and their"
                " supported methods.",
                status=404,
            )
        return model

    async def _asked(self, came: GeminiRequest, version: str, asked: str, query: str) -> Response:
        name, _, action = asked.partition(":")
        if action == "countTokens":
            return _json(_counted(came.raw, self._model(name, version, action)))
        if action == "generateContent":
            return await self._generate(came, self._model(name, version, action), stream="")
        if action == "streamGenerateContent":
            form = "sse" if parse_qs(query).get("alt") == ["sse"] else "array"
            return await self._generate(came, self._model(name, version, action), stream=form)
        return HTMLResponse(_NOWHERE, status_code=404)

    async def _generate(self, came: GeminiRequest, model: GeminiModel, *, stream: str) -> Response:
        body, request = shapes.read_body(shapes.GenerateRequest, came.raw)
        check_request(request, model, given=self._given)
        kept = 0
        if request.cached_content is not None:
            held = self._kept.named(request.cached_content)
            if held.model != f"models/{model.name}":
                raise Refused(
                    f"Model used by GenerateContent request (models/{model.name}) and"
                    f" CachedContent ({held.model}) has to be the same."
                )
            body, kept = after(held, body), held.tokens
        prompt = count_request(body, dialect="gemini", model=model.name)
        if prompt > model.input_limit:
            raise Refused(
                f"The input token count ({prompt}) exceeds the maximum number of tokens allowed"
                f" ({model.input_limit})."
            )
        cached = max(kept, self._read.shared(body, model))
        answer = await self._next(came)
        settings = request.generation_config
        thinking = settings.thinking_config if settings is not None else None
        asked = Asked(
            number=self.answered,
            model=model,
            prompt=prompt,
            cached=cached,
            most=settings.max_output_tokens if settings is not None else None,
            thoughts=bool(thinking is not None and thinking.include_thoughts),
        )
        said = told(answer, asked)
        self._remember(answer)
        if answer.error is not None and (not stream or not said.pieces):
            failed = _failure(answer.error)
            if failed is None:
                return _Pieces([], ends=False)
            raise failed
        if not stream:
            whole = msgspec.json.encode(said.whole())
            if answer.completes:
                return Response(whole, media_type="application/json")
            return _Pieces([whole[: len(whole) // 2]], ends=False)
        bodies = list(said.chunks() if answer.completes else said.begun())
        failed = _failure(answer.error) if answer.error is not None else None
        if failed is not None:
            bodies.append(failed.body())
        ends = answer.completes or failed is not None
        return _Pieces(
            _streamed(bodies, stream, ends=ends),
            ends=ends,
            pace=self._pace,
            media_type="text/event-stream" if stream == "sse" else "application/json",
        )

    async def _next(self, came: GeminiRequest) -> Answer:
        """The answer that is due; a callable gets the request where others get the prompt."""
        if self._always:
            entry = self._entries[0]
        elif self.answered < len(self._entries):
            entry = self._entries[self.answered]
        else:
            raise Refused(
                f"The script of this stand-in has {len(self._entries)} entries, and all are told."
            )
        self.answered += 1
        return await resolve(entry, cast("Prompt", came)) if isinstance(entry, Later) else entry

    def _remember(self, answer: Answer) -> None:
        """Signatures that the script brought along come back as well."""
        content = answer.response.content
        for part in (content.parts or ()) if content is not None else ():
            if part.thought_signature is not None:
                padded = part.thought_signature + "=" * (-len(part.thought_signature) % 4)
                self._given.add(base64.b64decode(padded.translate(_STANDARD)))

    def _keep(self, came: GeminiRequest, version: str) -> JsonObject:
        body, request = shapes.read_body(shapes.CacheRequest, came.raw)
        name = (request.model or "").removeprefix("models/")
        model = self._model(name, version, "createCachedContent")
        check_cached(request)
        return self._kept.make(body, request, model).body()


_STANDARD = str.maketrans("-_", "+/")


class _Pieces(Response):
    """A body that is sent piece by piece; one that does not end breaks off its connection."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        *,
        ends: bool,
        pace: float = 0.0,
        media_type: str = "application/json",
    ) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._pieces = pieces
        self._ends = ends
        self._pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces; stop where the client has gone."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.wait([gone], timeout=self._pace)
                if gone.done():
                    return
        finally:
            gone.cancel()
        if self._ends:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _streamed(bodies: Sequence[JsonObject], form: str, *, ends: bool) -> list[bytes]:
    """Bodies as events, or as the members of one array."""
    encoded = [msgspec.json.encode(body) for body in bodies]
    if form == "sse":
        return [b"data: " + body + b"\r\n\r\n" for body in encoded]
    pieces = [(b"," if index else b"[") + body + b"\r\n" for index, body in enumerate(encoded)]
    return [*pieces, b"]"] if ends else pieces


def _counted(raw: bytes, model: GeminiModel) -> JsonObject:
    body, request = shapes.read_body(shapes.CountRequest, raw)
    whole = request.generate_content_request
    if whole is not None:
        if request.contents is not None:
            raise Refused("Only one of contents and generate_content_request can be set.")
        check_contents(whole.contents or [], "contents")
        body = cast("JsonObject", body["generateContentRequest"])
    else:
        check_contents(request.contents or [], "contents")
    tokens = count_request(body, dialect="gemini", model=model.name)
    details: JsonObject = {"modality": "TEXT", "tokenCount": tokens}
    return {"totalTokens": tokens, "promptTokensDetails": [details]}


def _failure(error: Failure) -> Refused | None:
    """What the server says of an error in a script; `None`: the connection breaks off."""
    raised = error() if isinstance(error, type) else error
    if isinstance(raised, OSError):
        return None
    if isinstance(raised, ModelError):
        status = raised.status or _STATUSES.get(raised.code, 500)
        return refused_for_now(raised.message, status=status, seconds=raised.retry_after)
    return Refused(str(raised) or "An internal error has occurred.", status=500)


def _refusal(refused: Refused) -> Response:
    body = msgspec.json.encode(refused.body())
    headers = {"retry-after": f"{refused.seconds:g}"} if refused.seconds is not None else None
    return Response(body, refused.status, headers, "application/json")


def _json(body: JsonObject) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


def _object(raw: bytes) -> JsonObject | None:
    try:
        body: object = msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cast("JsonObject", body) if isinstance(body, dict) else None


def _listed(script: object) -> Sequence[object]:
    if isinstance(script, str) or not isinstance(script, Sequence):
        raise DeclarationError(
            f"a {type(script).__name__} is no script",
            where="GeminiServer.script",
            hint='write GeminiServer(["an answer", "another"])',
        )
    return cast("Sequence[object]", script)
