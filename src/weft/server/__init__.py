"""The HTTP server: an application for any ASGI server, and what `weft serve` runs.

`from weft.server import app` gives the application. It needs the extra `weft[serve]`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.server.access import Limits, Tokens
    from weft.server.application import Application, app
    from weft.server.quotas import Quota, Quotas

__all__ = ["Application", "Limits", "Quota", "Quotas", "Tokens", "app"]

_HOMES = {
    "Application": "weft.server.application",
    "Limits": "weft.server.access",
    "Quota": "weft.server.quotas",
    "Quotas": "weft.server.quotas",
    "Tokens": "weft.server.access",
    "app": "weft.server.application",
}


if not TYPE_CHECKING:  # or else a type checker would take any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'weft.server' has no attribute {name!r}")
        from importlib import import_module

        try:
            return getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in ("starlette", "uvicorn", "anyio"):
                raise
            from weft.errors import UsageError

            raise UsageError(
                f"the server needs {error.name}",
                where="weft.server",
                hint='pip install "weft[serve]"',
            ) from None
