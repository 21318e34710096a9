"""What the compiler and the checker report: coded, placed, and with a fix.

A diagnostic reads `origin: severity[CODE] message`, lower-case, one sentence; the fix
stands only in the hint. `Origin` is also what the source map answers with: where a
token of a request came from.
"""

import unicodedata
from typing import Literal

import msgspec

from weft.codes import CODES
from weft.codes import Severity as Severity
from weft.markup import last_rows, text_cell, titled_fragment

OriginKind = Literal[
    "field", "event", "state", "artifact", "memory", "pass", "config", "tool", "dialect"
]


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where something came from: a field and span, an event, a state key, an artifact, a pass.

    `name` is the field, event id, state key, artifact, pass or option; `start` and `end`
    are a span inside it (-1: all of it).
    """

    kind: OriginKind
    name: str = ""
    agent: str = ""
    start: int = -1
    end: int = -1
    part: int = -1

    def __str__(self) -> str:
        match self.kind:
            case "field":
                text = f"{self.agent}.{self.name}" if self.agent else self.name
                return text if self.start < 0 else f"{text}:{self.start}"
            case "tool":
                return f"{self.agent}.tools.{self.name}" if self.agent else f"tool {self.name}"
            case _:
                text = f"{self.kind} {self.name}".rstrip()
                return text if self.part < 0 else f"{text}#{self.part}"


class Diagnostic(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding: what is wrong, where, how bad, and what to type instead."""

    code: str
    severity: Severity
    message: str
    origin: Origin
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.origin}: {self.severity}[{self.code}] {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


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


class Findings(list[Diagnostic]):
    """A list of diagnostics that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return titled_fragment("no findings")
        heads = ("code", "where", "what is wrong", "what to do")
        rows = [
            (
                text_cell(one.code, str(one.severity)),
                text_cell(str(one.origin)),
                text_cell(one.message),
                text_cell(one.hint, pre=True),
            )
            for one in self
        ]
        return titled_fragment(f"{len(self)} findings", last_rows(heads, rows))


def safe(text: str) -> str:
    """The text without characters that steer a terminal; lines and tabs stay.

    What a user, a model or a file says may hold any of them.
    """
    # the usual case, seen without a look at each character
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else _escape_text(char) for char in text
    )


def _escape_text(char: str) -> str:
    if unicodedata.category(char) in ("Zs", "Zl", "Zp"):
        return " "
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
