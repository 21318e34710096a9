"""Regular expressions that are compiled at their first use, so that importing Weft pays for none.

A first turn needs a handful of the hundred expressions that its modules declare. Compiling all of
them takes longer than the turn. A file that is loaded only to work on a text compiles at once what
every such text needs; its other expressions are late too.
"""

import re
from typing import cast


def late_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but a mistake in the expression shows at its first use."""
    return cast("re.Pattern[str]", _LatePattern(expression, flags))


class _LatePattern:
    """Stands for a pattern. Each method is looked up once, and is then the pattern's own."""

    def __init__(self, expression: str, flags: int) -> None:
        self._arguments = expression, flags

    def __getattr__(self, name: str) -> object:
        # Python comes here only for names that are not set yet
        method: object = getattr(re.compile(*self._arguments), name)
        setattr(self, name, method)
        return method
