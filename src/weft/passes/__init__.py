"""Passes: pure functions Prompt -> Prompt, grouped by what they do to a request."""

from weft.passes.env import Env, SizePart, Sizes
from weft.passes.pipeline import Pass, Step, Views, is_ready, name_of, names_of, run
from weft.passes.verbs import ON_FRESH, ON_REQUEST, PLAIN, Passes, passes_of

__all__ = [
    "ON_FRESH",
    "ON_REQUEST",
    "PLAIN",
    "Env",
    "Pass",
    "Passes",
    "SizePart",
    "Sizes",
    "Step",
    "Views",
    "is_ready",
    "name_of",
    "names_of",
    "passes_of",
    "run",
]
