"""Passes: pure functions Prompt -> Prompt, one file = one function = one idea."""

from weft.passes.env import Env, Sizes
from weft.passes.pipeline import ON_FRESH, ON_REQUEST, Step, at_rest, run

__all__ = ["ON_FRESH", "ON_REQUEST", "Env", "Sizes", "Step", "at_rest", "run"]
