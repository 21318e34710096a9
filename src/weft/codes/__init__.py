"""The table of diagnostic codes: one place, stable numbers.

1xx variables and state, 2xx visibility, 3xx tools and schemas, 4xx flows and transfers,
5xx budget, 6xx protect, 7xx lowering, 9xx internal. `weft rule CODE` prints the page.
"""

from weft.codes.checking import CHECKING
from weft.codes.code import Code
from weft.codes.compiling import COMPILING
from weft.codes.importing import IMPORTING
from weft.diagnostics import Diagnostic, Origin, Severity

__all__ = ["CODES", "Code", "report"]

# in the order of their numbers, in which `weft rule` lists them
CODES: dict[str, Code] = {code.code: code for code in sorted((*COMPILING, *CHECKING, *IMPORTING))}


def report(
    code: str, origin: Origin, message: str, hint: str = "", *, severity: Severity | None = None
) -> Diagnostic:
    """A diagnostic under its code, as bad as the table says unless told otherwise."""
    return Diagnostic(
        code=code,
        severity=severity or CODES[code].severity,
        message=message,
        origin=origin,
        hint=hint,
    )
