"""Which provider a request is for that its client sends to a proxy, and what it asks there."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from weft.models.services import ANTHROPIC, GEMINI, OPENAI, SERVICES, Address, Service, address_of


class ProxyTarget(NamedTuple):
    """Where a request goes. `dialect` is "" for what is passed on unread."""

    service: str
    address: Address
    path: str
    dialect: str = ""
    model: str = ""
    """The model that the path names, where the provider's requests do not."""
    counts: bool = False
    """Whether only tokens are counted."""
    streams: bool = False
    """Whether the path asks for a stream."""

    def url(self, query: str) -> str:
        """The whole address."""
        base = self.address.base
        # an address that ends in a version, and a path that begins with it
        version = base.rpartition("/")[2]
        path = self.path
        if re.fullmatch(r"v\d+\w*", version) and path.startswith(f"/{version}/"):
            path = path[len(version) + 1 :]
        words = "&".join(filter(None, (self.address.query, query)))
        return f"{base}{path}?{words}" if words else f"{base}{path}"


def find_target(
    path: str, query: str, headers: Mapping[bytes, bytes], upstreams: Mapping[str, Address]
) -> ProxyTarget:
    """Where a request goes, by its path; where that does not tell, by the headers of its key.

    A path may begin with the name of a service: `/groq/v1/chat/completions`.
    """
    first, _, rest = path[1:].partition("/")
    service: Service | None = SERVICES.get(first) if rest else None
    own = first if service is not None or first in upstreams else ""
    if own:
        path = f"/{rest}"
    match = _GEMINI.search(path)
    dialect = next((name for ending, name in _ENDINGS if path.rstrip("/").endswith(ending)), "")
    if match is not None:
        dialect = "gemini"
    if not own:
        own = _service_of(path, dialect, headers)
    known = upstreams.get(own)
    address = known if known is not None else SERVICES[own].locate()
    asked = match[2] if match is not None else ""
    return ProxyTarget(
        own,
        address,
        path,
        dialect,
        model=match[1] if match is not None else "",
        counts=asked == "countTokens" or path.endswith("/count_tokens"),
        streams=asked == "streamGenerateContent" and "alt=sse" in query,
    )


def _service_of(path: str, dialect: str, headers: Mapping[bytes, bytes]) -> str:
    if dialect:
        return {"anthropic": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    if b"anthropic-version" in headers or b"x-api-key" in headers:
        return "anthropic"
    if b"x-goog-api-key" in headers or re.match(r"/(upload/)?v1(beta|alpha)", path):
        return "gemini"
    return "openai"


_ENDINGS = (
    ("/chat/completions", "openai-chat"),
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
    ("/messages/count_tokens", "anthropic"),
)

_GEMINI = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)$")


def read_upstreams(texts: Mapping[str, str]) -> dict[str, Address]:
    """Addresses by the name of their service."""
    return {name: address_of(text) for name, text in texts.items()}


def client_variables(url: str) -> dict[str, str]:
    """The variables by which the providers' clients find a proxy at an address."""
    return {
        **dict.fromkeys((*OPENAI.url_variables, "OPENAI_API_BASE"), f"{url}/v1"),
        **dict.fromkeys((*ANTHROPIC.url_variables, *GEMINI.url_variables), url),
    }
