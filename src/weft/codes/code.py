"""A diagnostic code: how bad, what it is called, and the page that explains it."""

from typing import NamedTuple

from weft.diagnostics import Severity


class Code(NamedTuple):
    """One code: how bad, what it is called, and the page that explains it."""

    code: str
    severity: Severity
    title: str
    page: str
