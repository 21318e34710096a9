"""Carry a wire to a provider and bring the answer back: a `Model` does.

The classes for providers are loaded when they are first used.
"""

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from weft.ir import ModelResponse, Prompt
from weft.values import Json

if TYPE_CHECKING:
    from weft.models.anthropic import Anthropic
    from weft.models.gemini import Gemini
    from weft.models.http import Timeouts
    from weft.models.local import LocalModel
    from weft.models.openai import OpenAI
    from weft.models.registry import FallbackModel, model_for
    from weft.models.retry import Breaker, Retry
    from weft.models.services import SERVICES, Service

__all__ = [
    "SERVICES",
    "Anthropic",
    "Breaker",
    "FallbackModel",
    "Gemini",
    "LocalModel",
    "Model",
    "ModelResponse",
    "OpenAI",
    "Retry",
    "Service",
    "Timeouts",
    "model_for",
]


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests in one dialect."""

    @property
    def name(self) -> str:
        """The model's name, as requests carry it."""
        ...

    @property
    def dialect(self) -> str:
        """The dialect its requests are written in."""
        ...

    def generate(
        self, prompt: Prompt, wire: dict[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Answer the request: partial responses if `stream`, then exactly one complete one.

        `wire` is what goes over the line, `prompt` what it was lowered from. What goes wrong is
        raised, or told by a response with an `error_code`.
        """
        ...


_HOMES = {
    "SERVICES": "services",
    "Anthropic": "anthropic",
    "Breaker": "retry",
    "FallbackModel": "registry",
    "Gemini": "gemini",
    "LocalModel": "local",
    "OpenAI": "openai",
    "Retry": "retry",
    "Service": "services",
    "Timeouts": "http",
    "model_for": "registry",
}


if not TYPE_CHECKING:  # or else a type checker would take any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'weft.models' has no attribute {name!r}")
        value: object = getattr(import_module(f"weft.models.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
