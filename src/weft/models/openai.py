"""OpenAI's models, and every server that speaks one of its two formats."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol, cast

from weft.dialects import facts_for
from weft.errors import DeclarationError
from weft.models.http import Timeouts
from weft.models.remote import Remote
from weft.models.retry import Breaker, Retry
from weft.models.services import OPENAI, SERVICES, Service
from weft.values import JsonObject

_PATHS = {"openai-responses": "/responses", "openai-chat": "/chat/completions"}


class OpenAI(Remote):
    """A model of OpenAI's, or of a server that speaks its format: `OpenAI("gpt-5")`.

    `api` is "responses" or "chat"; where it is not given, a server at a `base_url` of its own
    gets chat, which all of them speak, and OpenAI gets responses. `service` names one of the
    places in `weft.models.SERVICES`, which have their own address and key.
    """

    vendor: ClassVar = "openai"

    def __init__(
        self,
        name: str,
        *,
        api: Literal["responses", "chat"] | None = None,
        service: str | Service = "openai",
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | Timeouts | None = None,
        retries: int | Retry | None = None,
        breaker: Breaker | None = None,
        client: object = None,
    ) -> None:
        self.service = _service(service)
        asks_openai = self.service is OPENAI and base_url is None
        self.dialect = _dialect(name, api, own=asks_openai and _is_own(client))
        super().__init__(
            name,
            api_key=api_key,
            base_url=base_url,
            headers=headers,
            timeout=timeout,
            retries=retries,
            breaker=breaker,
            client=client,
        )

    def _path(self, model: str, *, stream: bool) -> str:
        return _PATHS[self.dialect]

    def _body(self, wire: JsonObject, *, stream: bool) -> JsonObject:
        """Chat says what a stream cost only when asked to."""
        if not stream:
            return wire
        body: JsonObject = {**wire, "stream": True}
        if self.dialect == "openai-chat" and self.service.stream_usage:
            options = wire.get("stream_options")
            own = options if isinstance(options, dict) else {}
            # what the caller wrote stands over ours
            body["stream_options"] = {"include_usage": True, **own}
        return body


def _service(name: object) -> Service:
    if isinstance(name, Service):
        return name
    place = SERVICES.get(name) if isinstance(name, str) else None
    if place is None or place.scheme in ("x-api-key", "x-goog-api-key"):
        known = [
            each for each, listed in SERVICES.items() if listed.scheme in ("bearer", "api-key")
        ]
        raise DeclarationError(
            f"{name!r} is not a service that speaks this format",
            where="OpenAI.service",
            hint=f"write one of: {', '.join(known)}; or pass base_url=",
        )
    return place


def _dialect(name: str, api: object, *, own: bool) -> str:
    if api is None:
        # all servers that speak OpenAI's formats speak chat; few speak responses
        return "openai-chat" if not own or _is_old(name) else "openai-responses"
    if api not in ("responses", "chat"):
        raise DeclarationError(
            f"{api!r} is not a format of OpenAI's",
            where="OpenAI.api",
            hint='write api="responses" or api="chat"',
        )
    return f"openai-{api}"


def _is_own(client: object) -> bool:
    """Whether a client asks OpenAI, and not a server that speaks its format."""
    if not type(client).__module__.startswith("openai"):
        return True
    return "openai" in str(cast("_OpenAIClient", client).base_url)


class _OpenAIClient(Protocol):
    """A client of OpenAI's package."""

    base_url: object


def _is_old(name: object) -> bool:
    facts = facts_for(name) if isinstance(name, str) else None
    return facts is not None and facts.known and facts.dialect == "openai-chat"
