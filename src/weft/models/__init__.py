"""Carry a wire to a provider and bring the answer back."""

from weft.ir import ModelResponse
from weft.models.base import Model

__all__ = ["Model", "ModelResponse"]
