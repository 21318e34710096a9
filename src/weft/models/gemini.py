"""Gemini models: the Developer API with a key, or Vertex with a token."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import ClassVar, cast
from urllib.parse import quote

from weft.dialects import wire_name
from weft.errors import DeclarationError, ModelError
from weft.ir import ModelResponse, Prompt
from weft.models.breaker import Breaker
from weft.models.gemini_cache import HEADS, NAMED, head_of, is_lost, seconds_of, shortened
from weft.models.google_client import vertex_place
from weft.models.http import Sending, Timeouts
from weft.models.remote import Remote, noted
from weft.models.retry import Retry
from weft.models.services import GEMINI, Service
from weft.values import JsonObject, digest

_VERSION = "/v1beta"
_PUBLISHER = "/publishers/google"

TokenProvider = Callable[[], str | Awaitable[str]]


class Gemini(Remote):
    """A Gemini model: `Gemini("gemini-3-pro")`.

    The key is read from GEMINI_API_KEY or GOOGLE_API_KEY unless it is given. For Vertex pass
    `project`, `location` and a `token` function, or `client=google.genai.Client(...)`.

    `explicit_cache="1h"` lets the provider keep instruction and tools under a name for so long,
    which it takes money for, and sends the name instead of them.
    """

    vendor: ClassVar = "google"

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | Timeouts | None = None,
        retries: int | Retry | None = None,
        breaker: Breaker | None = None,
        client: object = None,
        project: str | None = None,
        location: str = "global",
        token: TokenProvider | None = None,
        explicit_cache: str | None = None,
    ) -> None:
        service, place = GEMINI, vertex_place(client)
        if project is not None:
            place = f"projects/{project}/locations/{location}"
            service = _vertex(place, location)
            if token is None and client is None:
                raise DeclarationError(
                    "a project needs a token",
                    where="Gemini.token",
                    hint="pass token=a function that gives one, or client=google.genai.Client(...)",
                )
        super().__init__(
            name,
            service,
            "gemini",
            api_key=api_key,
            base_url=base_url,
            headers=headers,
            timeout=timeout,
            retries=retries,
            breaker=breaker,
            client=client,
        )
        self._token = token
        self._place = place
        self._keeps = seconds_of(explicit_cache, "Gemini.explicit_cache")

    def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Send the request, in full or after a head that the provider keeps."""
        if self._keeps is None or NAMED in wire:
            return super().generate(prompt, wire, stream=stream)
        return self._generate_after(self._keeps, prompt, wire, stream=stream)

    async def _generate_after(
        self, seconds: int, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Name the head where it is kept; a request whose name is refused is sent in full."""
        model = wire_name(prompt.model)
        head = head_of(prompt, wire, self._asks_as(), model)
        name = await HEADS.name_of(head, seconds, lambda fields: self._kept(model, fields))
        if name:
            shown = False
            try:
                short = super().generate(prompt, shortened(wire, name), stream=stream)
                async with _closing(short) as answers:
                    async for response in answers:
                        shown = True
                        yield response if response.partial else noted(response, NAMED, name)
            except ModelError as error:
                if shown or not is_lost(error, name):
                    raise
                HEADS.lose(head, name)
            else:
                HEADS.served(head, name)
                return
        async with _closing(super().generate(prompt, wire, stream=stream)) as answers:
            async for response in answers:
                yield response

    def _asks_as(self) -> str:
        """Where requests go and who asks: what is kept for one is not there for another."""
        if self._client is not None:
            return f"client {id(self._client)}"
        return f"{self.address} {digest(' '.join(self._secrets()).encode())}"

    async def _kept(self, model: str, fields: JsonObject) -> JsonObject:
        """Ask the provider to keep a head; what it says of it."""
        named = model if "/" in model else f"models/{model}"
        path = f"{self._version()}/cachedContents"
        if self._place:
            named = f"{self._place}{_PUBLISHER}/{named}"

        def moved(sending: Sending) -> Sending:
            return sending._replace(url=self.address.removesuffix(_PUBLISHER) + path, path=path)

        return await self._asked_once(model, {"model": named, **fields}, moved)

    async def _credentials(self) -> dict[str, str]:
        if self._token is None:
            return await super()._credentials()
        try:
            given = self._token()
            text = await given if inspect.isawaitable(given) else given
        except Exception as error:
            raise ModelError(
                f"the token function raised {type(error).__name__}: {error}",
                code="auth",
                hint="check what you passed as token=",
            ) from error
        return {"authorization": f"Bearer {text}"}

    def _path(self, model: str, *, stream: bool) -> str:
        """The model stands in the address."""
        kind = "streamGenerateContent?alt=sse" if stream else "generateContent"
        named = quote(model, safe="/:@")
        where = named if "/" in model else f"models/{named}"
        return f"{self._version()}/{where}:{kind}"

    def _version(self) -> str:
        """The version, where the address does not say it."""
        said = self.address.endswith(("/v1", "/v1beta", "/v1alpha"))
        return "" if said or self.service is not GEMINI else _VERSION

    def _body(self, wire: JsonObject, *, stream: bool) -> JsonObject:
        """The address says whether it streams."""
        return wire


def _vertex(place: str, location: str) -> Service:
    host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    return Service("vertex", f"https://{host}.googleapis.com/v1/{place}{_PUBLISHER}")


def _closing(
    answers: AsyncIterator[ModelResponse],
) -> "aclosing[AsyncGenerator[ModelResponse, None]]":
    """The answers, closed as soon as nobody reads on: that ends their connection."""
    return aclosing(cast("AsyncGenerator[ModelResponse, None]", answers))
