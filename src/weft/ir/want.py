"""Wants: what a pass would need a model for.

Passes are pure, so they cannot ask. They look for the outcome in the log, by its fingerprint.
Where it is not there, they do without, and leave a want; the runtime asks, and appends the
outcome as an event, so that the same input is asked about once.
"""

from typing import Literal

import msgspec

from weft.values import Json, JsonObject, canonical, digest

WantKind = Literal["summary", "relevance", "extract", "distill", "contradictions"]


class Want(msgspec.Struct, frozen=True):
    """One question for a model.

    `schema` is what the answer must be, `model` who is asked in place of the agent's own, `key`
    where in state the outcome goes, `must_keep` what an answer without is not accepted for, and
    `longest` the most letters it may have, 0 for any. `sources` are the events that an answer may
    name by their number, from 1, each with its text; `through` is the log index they reach to.
    """

    kind: WantKind
    fingerprint: str
    instruction: str
    text: str
    schema: JsonObject | None = None
    model: object = None
    key: str = ""
    must_keep: tuple[str, ...] = ()
    longest: int = 0
    sources: tuple[tuple[str, str], ...] = ()
    through: int = -1


def fingerprint(kind: WantKind, *given: Json) -> str:
    """What an outcome is found by: the same question about the same input."""
    return digest(canonical([kind, *given]))
