"""Passes: pure functions Prompt -> Prompt, one file = one function = one idea."""

from weft.passes.compose import ON_FRESH, ON_REQUEST, PLAIN, Passes, passes_of
from weft.passes.env import Env, Sizes
from weft.passes.pipeline import Pass, Step, Views, is_ready, name_of, names_of, run

__all__ = [
    "ON_FRESH",
    "ON_REQUEST",
    "PLAIN",
    "Env",
    "Pass",
    "Passes",
    "Sizes",
    "Step",
    "Views",
    "is_ready",
    "name_of",
    "names_of",
    "passes_of",
    "run",
]
