"""What users import in their tests: a model that follows a script, and sessions in one line.

`GeminiServer` is loaded when it is first used: it needs the extra `weft[testing]`.
"""

from typing import TYPE_CHECKING

from weft.models.scripted import (
    ScriptedModel,
    call,
    chunks,
    cut,
    delayed,
    fails_after,
    malformed,
    thought,
    usage,
)
from weft.testing.sessions import make_session

if TYPE_CHECKING:
    from weft.testing.gemini_models import GeminiModel
    from weft.testing.gemini_server import GeminiServer
    from weft.testing.gemini_service import GeminiRequest

__all__ = [
    "GeminiModel",
    "GeminiRequest",
    "GeminiServer",
    "ScriptedModel",
    "call",
    "chunks",
    "cut",
    "delayed",
    "fails_after",
    "make_session",
    "malformed",
    "thought",
    "usage",
]

_SERVED = {
    "GeminiModel": "gemini_models",
    "GeminiRequest": "gemini_service",
    "GeminiServer": "gemini_server",
}


def __getattr__(name: str) -> object:
    home = _SERVED.get(name)
    if home is None:
        raise AttributeError(f"module 'weft.testing' has no attribute {name!r}")
    from importlib import import_module

    try:
        value: object = getattr(import_module(f"weft.testing.{home}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("weft"):
            raise
        from weft.errors import UsageError

        raise UsageError(
            f"`{error.name}` is not installed",
            where=f"weft.testing.{name}",
            hint="pip install 'weft[testing]'",
        ) from None
    globals()[name] = value
    return value
