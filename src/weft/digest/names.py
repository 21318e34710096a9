"""Names: what somebody who reads a text is likely to type again."""

import re
from functools import lru_cache

_NAME = re.compile(r"[/~.]{0,3}[A-Za-z0-9_]+(?:(?:::|[/.@-]{1,3})[A-Za-z0-9_]+)*")
_MARKED = re.compile(r"[a-z0-9][A-Z]|_|[A-Za-z][./:@-][A-Za-z_]|[A-Za-z]\d|\d[A-Za-z]")
_SHORTEST = 6
_LONGEST = 120


@lru_cache(maxsize=4096)
def names_in(text: str) -> tuple[str, ...]:
    """Paths, identifiers, numbers and long words, each once, in their order."""
    found = (name.strip(".:-") for name in _NAME.findall(text))
    return tuple(dict.fromkeys(name for name in found if _SHORTEST <= len(name) <= _LONGEST))


@lru_cache(maxsize=8192)
def worth(name: str) -> float:
    """How likely a name is to be typed again: an identifier or a path more than a word."""
    if _MARKED.search(name) is not None:
        return 1.0
    return 0.5 if name.isdigit() else 0.3
