"""Names that tell something apart: paths, identifiers, numbers, addresses."""

import re

SHORTEST = 6
"""How many letters a name must have to be told from chance inside other words."""

_STRING = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@\-]*[A-Za-z0-9_]")

_TELLING = re.compile(r"[0-9_./@]|[a-z][A-Z]")
"""What tells a name, a path or a number from a plain word."""


def telling_names(text: str) -> list[str]:
    """The strings of a text that look like a name, a path or a number, each once."""
    strings = dict.fromkeys(_STRING.findall(text))
    return [one for one in strings if len(one) >= SHORTEST and _TELLING.search(one)]
