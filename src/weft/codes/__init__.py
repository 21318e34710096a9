"""The table of diagnostic codes: one place, stable numbers.

1xx variables and state, 2xx visibility, 3xx tools and schemas, 4xx flows and transfers,
5xx budget, 6xx protect, 7xx lowering, 9xx internal. `weft rule CODE` prints the page.
"""

from weft.codes.checking import CHECKING, IMPORTING
from weft.codes.code import Code, Severity
from weft.codes.compiling import COMPILING

__all__ = ["CODES", "Code", "Severity"]

# in the order of their numbers, in which `weft rule` lists them
CODES: dict[str, Code] = {code.code: code for code in sorted((*COMPILING, *CHECKING, *IMPORTING))}
