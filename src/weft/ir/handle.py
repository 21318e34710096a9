"""Handles: short names of values that the log holds, by which they are found again."""

from weft.values import Json, canonical, digest

RECALL = "recall"
"""The tool that gets back what a handle stands for; its own results are never reduced."""


def handle_of(value: Json) -> str:
    """The name of a value: a hash of what it is, the same in every process."""
    return digest(canonical(value))[:12]
