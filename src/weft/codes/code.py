"""A diagnostic code: how bad, what it is called, and the page that explains it."""

import enum

import msgspec


class Severity(enum.StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Code(msgspec.Struct, frozen=True, order=True):
    """One code: how bad, what it is called, and the page that explains it."""

    code: str
    severity: Severity
    title: str
    page: str
