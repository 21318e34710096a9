"""Gemini models: the Developer API with a key, or Vertex with a token."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar
from urllib.parse import quote

from weft.errors import DeclarationError, ModelError
from weft.models.breaker import Breaker
from weft.models.http import Timeouts
from weft.models.remote import Remote
from weft.models.retry import Retry
from weft.models.services import GEMINI, Service
from weft.values import JsonObject

_VERSION = "/v1beta"

TokenProvider = Callable[[], str | Awaitable[str]]


class Gemini(Remote):
    """A Gemini model: `Gemini("gemini-3-pro")`.

    The key is read from GEMINI_API_KEY or GOOGLE_API_KEY unless it is given. For Vertex pass
    `project`, `location` and a `token` function, or `client=google.genai.Client(...)`.
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
    ) -> None:
        service = GEMINI
        if project is not None:
            service = _vertex(project, location)
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
        versioned = self.service is not GEMINI or self.address.endswith(
            ("/v1", "/v1beta", "/v1alpha")
        )
        return f"{'' if versioned else _VERSION}/{where}:{kind}"

    def _body(self, wire: JsonObject, *, stream: bool) -> JsonObject:
        """The address says whether it streams."""
        return wire


def _vertex(project: str, location: str) -> Service:
    host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    place = f"projects/{project}/locations/{location}/publishers/google"
    return Service("vertex", f"https://{host}.googleapis.com/v1/{place}")
