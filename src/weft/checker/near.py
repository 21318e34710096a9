"""Names that look alike: what somebody who misspelt one may have meant."""

import difflib
from collections.abc import Iterable


def meant(name: str, names: Iterable[str], *, quote: str = "`") -> str:
    """A hint with the one or two names that are near; nothing where none is."""
    near = difflib.get_close_matches(name, [*names], n=2, cutoff=0.6)
    if len(near) == 2 and _likeness(name, near[0]) - _likeness(name, near[1]) > 0.1:
        near = near[:1]
    words = " or ".join(f"{quote}{one}{quote}" for one in near)
    return f"did you mean {words}?" if words else ""


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
