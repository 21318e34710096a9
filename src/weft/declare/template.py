"""Templates: `{variables}` in instructions, parsed once, with the place of each kept.

Only a valid name is a placeholder; every other brace is text, so JSON and code pass
untouched. Doubled braces tight around a placeholder are its escape.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from weft.late import late_pattern
from weft.values import Json, require_json, text_or_json

_NAME = r"[^\W\d]\w*"
_PLACEHOLDER = (
    r"(?:artifact\.(?P<artifact>\w[\w.:\-]*)"
    rf"|(?P<key>(?:(?:app|user|temp):)?{_NAME})(?P<path>(?:\.{_NAME}|\[-?[0-9]{{1,9}}\])*))(?P<optional>\?)?"
)
_DOUBLED = late_pattern(r"\{(?P<inner>\{[ \t]*" + _PLACEHOLDER + r"[ \t]*\})\}")
_VARIABLE = late_pattern(r"\{[ \t]*" + _PLACEHOLDER + r"[ \t]*\}")
_STEP = late_pattern(rf"\.({_NAME})|\[(-?[0-9]+)\]")

UNCLOSED = late_pattern(rf"\{{[ \t]*(?P<key>{_NAME})(?=[^\w{{}}:\"'\[(|=-][^{{}}]*(?:\{{|$)|$)")
"""`{plan` without its other brace."""


class Variable(msgspec.Struct, frozen=True):
    """A placeholder: what it reads, and where it stands."""

    key: str
    path: tuple[str | int, ...]
    artifact: str
    optional: bool
    start: int
    end: int
    name: str
    """The variable as the author wrote it, without braces."""


def spell_path(key: str, path: Iterable[str | int]) -> str:
    """A key and the way into its value, as a placeholder has them."""
    return key + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


class Literal(msgspec.Struct, frozen=True):
    """Text between placeholders, and where it stands."""

    text: str
    start: int
    end: int


class Template(msgspec.Struct, frozen=True):
    """A parsed text: its pieces in order, and the variables among them."""

    source: str
    pieces: tuple[Literal | Variable, ...]
    variables: tuple[Variable, ...]
    unclosed: tuple[Literal, ...] = ()
    """`{name` without its other brace, in a text that has more that open than that close."""


class RenderedPiece(msgspec.Struct, frozen=True):
    """One piece after substitution; `variable` is None for the author's own text."""

    text: str
    start: int
    end: int
    variable: Variable | None
    missing: bool


@functools.lru_cache(maxsize=4096)
def parse(source: str) -> Template:
    """The text's pieces; cached, since a declaration is compiled many times."""
    return _parse_cached(source)


def write_literally(text: str) -> str:
    """A text as an instruction that says just this: its braces are not variables."""
    written: list[str] = []
    for piece in parse(text).pieces:
        source = text[piece.start : piece.end]
        braces = isinstance(piece, Variable) or piece.text != source
        written.append(f"{{{source}}}" if braces and " " not in source else source)
    return "".join(written)


def value_positions(source: str, values: Iterable[str]) -> tuple[int, ...]:
    """Where in a text stand braces that came from a value, and so are not placeholders.

    A placeholder is a value's if a value names it too, however it was changed on its way, or if
    one of its braces lies in a value. Where its author wrote the same one, nobody can tell the
    two apart: it is left as it is, for what a value says must never be expanded.
    """
    spots = [piece for piece in _parse_cached(source).pieces if _is_spot(piece, source)]
    if not spots:
        return ()
    named: set[str] = set()
    taken: set[int] = set()
    for value in values:
        if "{" not in value and "}" not in value:
            continue
        named.update(_name(p, value) for p in _parse_cached(value).pieces if _is_spot(p, value))
        # a function may have stripped the value before it put it into its text
        for form in {value, value.strip()}:
            at = source.find(form) if form else -1
            while at >= 0:
                taken.update(range(at, at + len(form)))
                at = source.find(form, at + len(form))
    return tuple(
        spot.start
        for spot in spots
        if _name(spot, source) in named or not taken.isdisjoint((spot.start, spot.end - 1))
    )


def without_values(template: Template, positions: Iterable[int]) -> Template:
    """The template with the placeholders and escapes at these positions as the text they are."""
    starts = frozenset(positions)
    source = template.source
    pieces = tuple(
        Literal(source[piece.start : piece.end], piece.start, piece.end)
        if piece.start in starts
        else piece
        for piece in template.pieces
    )
    return Template(source, pieces, tuple(p for p in pieces if isinstance(p, Variable)))


def _is_spot(piece: Literal | Variable, source: str) -> bool:
    """Whether rendering would change the piece: a placeholder, or the escape of one."""
    return isinstance(piece, Variable) or piece.text != source[piece.start : piece.end]


def _name(spot: Literal | Variable, source: str) -> str:
    """What a placeholder or an escape names, however it is spaced and cased."""
    inner = spot.name if isinstance(spot, Variable) else source[spot.start : spot.end]
    return inner.strip("{}? \t").casefold()


def _parse_cached(source: str) -> Template:
    # most texts have no braces
    if "{" not in source:
        text = (Literal(source, 0, len(source)),) if source else ()
        return Template(source, text, ())
    pieces: list[Literal | Variable] = []
    at = 0
    searching = 0
    while (brace := source.find("{", searching)) >= 0:
        if match := _DOUBLED.match(source, brace):
            if " " in match["inner"] or "\t" in match["inner"]:  # not tight: no escape, only text
                searching = match.end()
                continue
            if brace > at:
                pieces.append(Literal(source[at:brace], at, brace))
            pieces.append(Literal(match["inner"], brace, match.end()))
        elif match := _VARIABLE.match(source, brace):
            if brace > at:
                pieces.append(Literal(source[at:brace], at, brace))
            pieces.append(_variable(match))
        else:
            searching = brace + 1
            continue
        at = searching = match.end()
    if at < len(source):
        pieces.append(Literal(source[at:], at, len(source)))
    unclosed: list[Literal] = []
    if source.count("{") > source.count("}"):
        unclosed = [Literal(one[0], one.start(), one.end()) for one in UNCLOSED.finditer(source)]
    variables = tuple(piece for piece in pieces if isinstance(piece, Variable))
    return Template(source, tuple(pieces), variables, tuple(unclosed))


def render(
    template: Template,
    state: Mapping[str, Json],
    artifacts: Mapping[str, str] | None = None,
    *,
    drop_missing: bool = False,
) -> list[RenderedPiece]:
    """Each piece with its variable replaced; one pass, so inserted braces stay text."""
    rendered: list[RenderedPiece] = []
    for piece in template.pieces:
        if isinstance(piece, Literal):
            rendered.append(RenderedPiece(piece.text, piece.start, piece.end, None, False))
            continue
        value: Json | None = state.get(piece.key)
        if piece.path or piece.artifact:
            value = lookup(piece, state, artifacts or {})
        missing = value is None
        if value is None:
            keep = not (piece.optional or drop_missing)
            text = template.source[piece.start : piece.end] if keep else ""
        elif type(value) is str:
            text = value
        else:
            text = to_text(value, where=f"state.{piece.name}")
        rendered.append(RenderedPiece(text, piece.start, piece.end, piece, missing))
    return rendered


def to_text(value: Json, *, where: str = "state") -> str:
    """A value as a template inserts it: text as it is, anything else as compact JSON."""
    return text_or_json(require_json(value, where=where))


def _variable(match: re.Match[str]) -> Variable:
    steps = _STEP.finditer(match["path"] or "")
    path: tuple[str | int, ...] = tuple(
        cast("str", step[1]) if step[1] is not None else int(step[2]) for step in steps
    )
    key, artifact = match["key"] or "", match["artifact"] or ""
    return Variable(
        key,
        path,
        artifact,
        match["optional"] is not None,
        match.start(),
        match.end(),
        f"artifact.{artifact}" if artifact else spell_path(key, path),
    )


def lookup(
    variable: Variable, state: Mapping[str, Json], artifacts: Mapping[str, str]
) -> Json | None:
    """What a variable stands for; None where that is missing."""
    if variable.artifact:
        return artifacts.get(variable.artifact)
    value = state.get(variable.key)
    for step in variable.path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, Mapping) else None
        elif isinstance(value, (list, tuple)) and -len(value) <= step < len(value):
            value = value[step]
        else:
            value = None
        if value is None:
            return None
    return value
