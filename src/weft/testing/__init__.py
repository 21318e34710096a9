"""What users import in their tests: a model that follows a script, and sessions in one line."""

from weft.models.script import (
    call,
    chunks,
    cut,
    delayed,
    fails_after,
    malformed,
    thought,
    usage,
)
from weft.models.scripted import ScriptedModel
from weft.testing.sessions import make_session

__all__ = [
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
