"""Carry a wire to a provider and bring the answer back.

The classes for providers are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from weft.ir import ModelResponse
from weft.models.base import Model

if TYPE_CHECKING:
    from weft.models.anthropic import Anthropic
    from weft.models.breaker import Breaker
    from weft.models.fallback import FallbackModel
    from weft.models.gemini import Gemini
    from weft.models.http import Timeouts
    from weft.models.local import LocalModel
    from weft.models.openai import OpenAI
    from weft.models.registry import model_for
    from weft.models.retry import Retry
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

_HOMES = {
    "SERVICES": "services",
    "Anthropic": "anthropic",
    "Breaker": "breaker",
    "FallbackModel": "fallback",
    "Gemini": "gemini",
    "LocalModel": "local",
    "OpenAI": "openai",
    "Retry": "retry",
    "Service": "services",
    "Timeouts": "http",
    "model_for": "registry",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'weft.models' has no attribute {name!r}")
    value: object = getattr(import_module(f"weft.models.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
