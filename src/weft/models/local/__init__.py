"""The model in the box: an engine, weights, and the model that asks it, all in this process."""

from weft.models.local.model import LocalModel, LocalServer, serve

__all__ = ["LocalModel", "LocalServer", "serve"]
