"""A diagnostic code: how bad, what it is called, and the page that explains it."""

import msgspec

from weft.diagnostics import Severity


class Code(msgspec.Struct, frozen=True, order=True):
    """One code: how bad, what it is called, and the page that explains it."""

    code: str
    severity: Severity
    title: str
    page: str
