"""Where models are served: addresses, and the variables that hold their keys. One table.

What is read from the environment is read when a request is sent, so a key that is exported later
is found. A key is never part of anything that is shown.
"""

import os
from typing import Literal, NamedTuple

from weft.models.address import Address, address_of

Scheme = Literal["bearer", "x-api-key", "x-goog-api-key", "api-key"]


class Service(NamedTuple):
    """One place that serves models."""

    name: str
    url: str
    """Its usual address; where it is "", `url_variables` must say it."""
    keys: tuple[str, ...] = ()
    """Variables that may hold a key; the first that is set wins."""
    tokens: tuple[str, ...] = ()
    """Variables that may hold a token, which always goes as a bearer's."""
    url_variables: tuple[str, ...] = ()
    scheme: Scheme = "bearer"
    open: bool = False
    """Whether it answers without a key."""
    stream_usage: bool = True
    """Whether it takes the option that asks for the usage of a stream."""
    path: str = ""
    """What follows the address that `url_variables` give."""

    def address(self) -> str:
        """Its address as it may be shown; "" where nobody says one."""
        return self.located().base

    def located(self) -> Address:
        """Where it is, as the environment says or as usual."""
        given = _first(self.url_variables)
        if not given:
            return address_of(self.url)
        held = address_of(given if "://" in given else f"http://{given}")
        return held._replace(base=held.base.removesuffix(self.path) + self.path)

    def credentials(self, api_key: str | None) -> dict[str, str] | None:
        """The headers that say who asks; None where a key is needed and there is none."""
        key = api_key or _first(self.keys)
        if key:
            if self.scheme == "bearer":
                return {"authorization": f"Bearer {key}"}
            return {self.scheme: key}
        token = _first(self.tokens)
        if token:
            return {"authorization": f"Bearer {token}"}
        return {} if self.open else None

    @property
    def hint(self) -> str:
        """What to type where there is no key."""
        variable = self.keys[0] if self.keys else f"{self.name.upper()}_API_KEY"
        return f'export {variable}=..., or pass api_key="...", or use model="local"'


def _first(variables: tuple[str, ...]) -> str:
    return next((found for each in variables if (found := os.environ.get(each, "").strip())), "")


def _compatible(
    name: str, url: str, key: str, *, open: bool = False, stream_usage: bool = True
) -> Service:
    """A place that speaks the chat format; its address can be given as NAME_BASE_URL."""
    variable = f"{name.upper()}_BASE_URL"
    return Service(
        name, url, (key,), url_variables=(variable,), open=open, stream_usage=stream_usage
    )


GEMINI = Service(
    "gemini",
    "https://generativelanguage.googleapis.com",
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    url_variables=("GOOGLE_GEMINI_BASE_URL",),
    scheme="x-goog-api-key",
)
ANTHROPIC = Service(
    "anthropic",
    "https://api.anthropic.com",
    ("ANTHROPIC_API_KEY",),
    tokens=("ANTHROPIC_AUTH_TOKEN",),
    url_variables=("ANTHROPIC_BASE_URL",),
    scheme="x-api-key",
)
OPENAI = Service(
    "openai",
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    url_variables=("OPENAI_BASE_URL",),
)

SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        GEMINI,
        ANTHROPIC,
        OPENAI,
        _compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        _compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        _compatible("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        _compatible("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        _compatible("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", stream_usage=False),
        _compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        _compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
        _compatible("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        Service(
            "azure",
            "",
            ("AZURE_OPENAI_API_KEY",),
            tokens=("AZURE_OPENAI_AD_TOKEN",),
            url_variables=("AZURE_OPENAI_ENDPOINT",),
            scheme="api-key",
            path="/openai/v1",
        ),
        Service(
            "ollama",
            "http://localhost:11434/v1",
            ("OLLAMA_API_KEY",),
            url_variables=("OLLAMA_BASE_URL", "OLLAMA_HOST"),
            open=True,
            path="/v1",
        ),
        _compatible("vllm", "http://localhost:8000/v1", "VLLM_API_KEY", open=True),
        _compatible("lmstudio", "http://localhost:1234/v1", "LMSTUDIO_API_KEY", open=True),
        _compatible("llamacpp", "http://localhost:8080/v1", "LLAMACPP_API_KEY", open=True),
        _compatible("litellm", "http://localhost:4000/v1", "LITELLM_API_KEY", open=True),
    )
}
"""The places that a name such as `groq/NAME` means."""
