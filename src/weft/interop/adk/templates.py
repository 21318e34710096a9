"""Templates of google-adk, spelled so that Weft reads them as google-adk does.

There, every run of braces around a name is a variable: `{{name}}` is no escape, `{name}}` loses
both closing braces, and what stands behind `$` or a backslash is text. Paths into a value,
`{order.total}`, are text too.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from weft.declare import template

_BRACES = re.compile(r"(?<![\$\{\\]){+[^{}]*}+")
_SCOPES = ("app", "user", "temp")


class Move(NamedTuple):
    """A stretch that stands elsewhere in the spelling: where, and where it was."""

    start: int
    end: int
    was: int
    was_end: int


class Spelled(NamedTuple):
    """The text as Weft is to read it, what moved in it, and what the two read differently."""

    text: str
    moves: tuple[Move, ...] = ()
    doubled: tuple[Move, ...] = ()
    """Variables that google-adk fills in though their braces are doubled."""
    paths: tuple[Move, ...] = ()
    """Paths into a value, which google-adk leaves as text."""
    source: str = ""
    """The text as its author wrote it."""

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The position of a rewritten stretch in the author's text."""
        shift = 0
        for move in self.moves:
            if start < move.start:
                break
            if start < move.end:
                return move.was, move.was_end
            shift = move.was_end - move.end
        return start + shift, end + shift


def spelled(source: str) -> Spelled:
    """The template, so that Weft's reading of it is google-adk's."""
    if "{" not in source:
        return Spelled(source)
    pieces: list[str] = []
    length = at = 0
    moves: list[Move] = []
    doubled: list[Move] = []
    paths: list[Move] = []
    for match in _BRACES.finditer(source):
        quiet = _literal(source[at : match.start()])
        pieces.append(quiet)
        length += len(quiet)
        if len(quiet) > match.start() - at:
            moves.append(Move(length, length, match.start(), match.start()))
        written = match.group()
        inner = written.lstrip("{").rstrip("}").strip()
        text = f"{{{inner}}}" if _is_variable(inner) else _literal(written)
        move = Move(length, length + len(text), match.start(), match.end())
        if text != written:
            moves.append(move)
        if _is_variable(inner) and written.startswith("{{"):
            doubled.append(move)
        if not _is_variable(inner) and _is_path(inner):
            paths.append(move)
        pieces.append(text)
        length += len(text)
        at = match.end()
    pieces.append(_literal(source[at:]))
    return Spelled("".join(pieces), tuple(moves), tuple(doubled), tuple(paths), source)


def filled(source: str, state: Mapping[str, object]) -> str | None:
    """The text as google-adk fills it in; None where it needs an artifact or a key that lacks."""
    pieces: list[str] = []
    at = 0
    for match in _BRACES.finditer(source):
        pieces.append(source[at : match.start()])
        at = match.end()
        inner = match.group().lstrip("{").rstrip("}").strip()
        name = inner.removesuffix("?")
        if name.startswith("artifact."):
            return None
        if not _is_variable(inner):
            pieces.append(match.group())
        elif name in state:
            pieces.append("" if state[name] is None else str(state[name]))
        elif name == inner:
            return None
    return "".join((*pieces, source[at:]))


def literal(text: str) -> str:
    """A text that is no template, so that Weft leaves it as it is."""
    return _literal(text)


def _literal(text: str) -> str:
    """The text with every variable's braces doubled, so that Weft leaves it as it is."""
    parsed = template.parse(text)
    pieces: list[str] = []
    for piece in parsed.pieces:
        source = parsed.source[piece.start : piece.end]
        if isinstance(piece, template.Variable):
            pieces.append("{" + _tight(source) + "}")
        elif source != piece.text:  # doubled already: one more pair, so that one is taken away
            pieces.append(source[:1] + "{" + piece.text + "}" + source[-1:])
        else:
            pieces.append(source)
    return "".join(pieces)


def _tight(source: str) -> str:
    return "{" + source[1:-1].strip(" \t") + "}"


def _is_variable(inner: str) -> bool:
    """Whether google-adk fills it in: a name, a scoped name, or an artifact."""
    name = inner.removesuffix("?")
    if name.startswith("artifact."):
        return len(template.parse(f"{{{inner}}}").variables) == 1
    scope, colon, rest = name.partition(":")
    if not colon:
        return name.isidentifier()
    return scope in _SCOPES and rest.isidentifier()


def _is_path(inner: str) -> bool:
    variables = template.parse(f"{{{inner}}}").variables
    return len(variables) == 1 and bool(variables[0].path)
