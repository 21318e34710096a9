"""What a docstring says: the description, and one text per parameter.

Google, NumPy and reST are read alike. Only the sections a model gets elsewhere (parameters)
or does not need (returns, raises) are taken out; notes and examples stay, because they
are what the author wanted a reader to know.
"""

import inspect
import re
from collections.abc import Sequence

import msgspec

from weft.late import late_pattern

_PARAMETERS = frozenset(("args", "arguments", "params", "parameters", "other-parameters")) | {
    *("keyword-args", "keyword-arguments")
}
_DROPPED = frozenset(("returns", "return", "yields", "yield", "raises", "raise", "exceptions"))

_FIELD = late_pattern(r"[:@](\w+)(?:\s+([^:]*?))?:(?:\s+(.*))?$")
_PARAMETER_FIELDS = frozenset(("param", "parameter", "arg", "argument", "key", "keyword"))
_OTHER_FIELDS = _DROPPED | {"type", "rtype", "vartype", "except"}

_ENTRY = late_pattern(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_RULE = late_pattern(r"-{3,}\s*$")


class Docstring(msgspec.Struct, frozen=True):
    """A docstring taken apart."""

    description: str = ""
    parameters: dict[str, str] = {}


def read(text: str | None) -> Docstring:
    """Take a docstring apart; a text of no known style is all description."""
    lines = inspect.cleandoc(text or "").splitlines()
    body: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        title = _title(lines, at)
        field = _FIELD.match(lines[at])
        if title in _PARAMETERS or title in _DROPPED:
            underlined = not lines[at].rstrip().endswith(":")
            start = at + 2 if underlined else at + 1
            at = _end(lines, start, underlined=underlined)
            if title in _PARAMETERS:
                block = lines[start:at]
                parameters |= _numpy(block) if underlined else _google(block)
        elif field and field[1] in _PARAMETER_FIELDS | _OTHER_FIELDS:
            start = at + 1
            at = _end(lines, start, underlined=False)
            names = (field[2] or "").split()
            if field[1] in _PARAMETER_FIELDS and names:
                parameters[names[-1].lstrip("*")] = _join([field[3] or "", *lines[start:at]])
        else:
            body.append(lines[at].rstrip())
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(body)).strip()
    return Docstring(description, parameters)


def _title(lines: Sequence[str], at: int) -> str:
    """The section this line opens, lower-case, or nothing."""
    line, after = lines[at], lines[at + 1 :]
    if not line or line[0].isspace() or not after:
        return ""
    if _RULE.match(after[0]):
        return line.strip().lower().replace(" ", "-")
    following = next((text for text in after if text.strip()), "")
    if line.rstrip().endswith(":") and following[:1].isspace():
        return line.strip()[:-1].lower().replace(" ", "-")
    return ""


def _end(lines: Sequence[str], start: int, *, underlined: bool) -> int:
    """Where a section stops: the next title, or the first line that is not indented."""
    for at in range(start, len(lines)):
        if underlined:
            if at + 1 < len(lines) and lines[at].strip() and _RULE.match(lines[at + 1]):
                return at
        elif lines[at] and not lines[at][0].isspace():
            return at
    return len(lines)


def _google(block: Sequence[str]) -> dict[str, str]:
    """`name (type): text`, continued on deeper lines."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in inspect.cleandoc("\n".join(["", *block])).splitlines():
        entry = _ENTRY.match(line)
        if entry:
            current = entries.setdefault(entry[1], [])
            current.append(entry[2] or "")
        else:
            current.append(line)
    return {name: _join(lines) for name, lines in entries.items()}


def _numpy(block: Sequence[str]) -> dict[str, str]:
    """`name, other : type`, then an indented text."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in block:
        if line and not line[0].isspace():
            current = []
            for name in line.split(":")[0].split(","):
                entries[name.strip().lstrip("*")] = current
        else:
            current.append(line)
    return {name: _join(lines) for name, lines in entries.items()}


def _join(lines: Sequence[str]) -> str:
    """One paragraph a blank line; list items keep their lines."""
    text = ""
    for line in (line.strip() for line in lines):
        if not line:
            text = text.rstrip() + "\n"
        else:
            separator = "\n" if re.match(r"[-*] ", line) else " "
            text += line if not text or text.endswith("\n") else separator + line
    return text.strip()
