"""Passes: pure functions Prompt -> Prompt, one file = one function = one idea."""

from weft.passes.env import Env, Sizes
from weft.passes.pipeline import ON_FRESH, ON_REQUEST, Step, is_ready, run

__all__ = ["ON_FRESH", "ON_REQUEST", "Env", "Sizes", "Step", "is_ready", "run"]
