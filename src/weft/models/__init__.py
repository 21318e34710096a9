"""Carry a wire to a provider and bring the answer back."""

from weft.models.base import Model, ModelResponse

__all__ = ["Model", "ModelResponse"]
