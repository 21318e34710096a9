"""Objects of google-adk, read by the names of their classes and fields, and its templates.

Nothing is imported for it: who has such an object has imported google-adk already.

In a template, every run of braces around a name is a variable: `{{name}}` is not an escape,
`{name}}` loses both closing braces, and what comes after `$` or a backslash is text. Paths into a
value, `{order.total}`, are text too.

Top to bottom: fields, templates.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from weft.declare import template

HOME = "google.adk."
"""Where the classes live; one of the user's that is derived from them has them above it."""

AGENTS = frozenset(("BaseAgent", "BaseNode"))


def kinds(value: object) -> tuple[str, ...]:
    """The names of the google-adk classes that the object's own class is made of."""
    return tuple(
        kind.__name__ for kind in type(value).__mro__ if f"{kind.__module__}.".startswith(HOME)
    )


def is_a(value: object, name: str) -> bool:
    """Whether the object is of a google-adk class of that name, or of one derived from it."""
    return name in kinds(value)


def is_adk(value: object) -> bool:
    """Whether this is an agent, a workflow or an app of google-adk."""
    return not isinstance(value, type) and not {*kinds(value)}.isdisjoint((*AGENTS, "App"))


def field(value: object, name: str) -> object:
    """A field of the object, None where it has none."""
    return cast("object", getattr(value, name, None))


def text(value: object, name: str) -> str:
    """A field that holds text; "" where it does not."""
    string = field(value, name)
    return string if isinstance(string, str) else ""


def member(value: object, name: str) -> object:
    """A value of a dict, or a field of any other object; None where it has none."""
    if isinstance(value, dict):
        return cast("dict[str, object]", value).get(name)
    return field(value, name)


def flag(value: object, name: str) -> bool:
    """A field that is True or not."""
    return field(value, name) is True


def as_list(value: object, name: str) -> list[object]:
    """A field that holds several things; one thing is a list of it, None an empty one."""
    values = member(value, name)
    if values is None:
        return []
    if not isinstance(values, (list, tuple, set, frozenset)):
        return [values]
    return list(cast("Iterable[object]", values))


def overrides(value: object, method: str) -> bool:
    """Whether a class of the user's says itself what google-adk's would do."""
    for kind in type(value).__mro__:
        if f"{kind.__module__}.".startswith(HOME):
            return False
        if method in vars(kind):
            return True
    return False


def is_own(value: object) -> bool:
    """Whether the object's class is one of google-adk's, and not derived from it."""
    return f"{type(value).__module__}.".startswith(HOME)


def fields_of(value: object) -> tuple[str, ...]:
    """The names of the fields that an object of a model class has."""
    return tuple(cast("Mapping[str, object]", getattr(type(value), "model_fields", {})))


def object_name(value: object) -> str:
    """The object's own name, or the name of its class."""
    return text(value, "name") or type(value).__name__


# --- templates

_BRACES = re.compile(r"(?<![\$\{\\]){+[^{}]*}+")
_SCOPES = ("app", "user", "temp")


class Move(NamedTuple):
    """A stretch that stands elsewhere in the spelling: where, and where it was."""

    start: int
    end: int
    was: int
    was_end: int


class SpelledTemplate(NamedTuple):
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


def spell_template(source: str) -> SpelledTemplate:
    """The template, so that Weft's reading of it is google-adk's."""
    if "{" not in source:
        return SpelledTemplate(source)
    pieces: list[str] = []
    length = at = 0
    moves: list[Move] = []
    doubled: list[Move] = []
    paths: list[Move] = []
    for match in _BRACES.finditer(source):
        quiet = literal_text(source[at : match.start()])
        pieces.append(quiet)
        length += len(quiet)
        if len(quiet) > match.start() - at:
            moves.append(Move(length, length, match.start(), match.start()))
        written = match.group()
        inner = written.lstrip("{").rstrip("}").strip()
        text = f"{{{inner}}}" if _is_variable(inner) else literal_text(written)
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
    pieces.append(literal_text(source[at:]))
    return SpelledTemplate("".join(pieces), tuple(moves), tuple(doubled), tuple(paths), source)


def literal_text(text: str) -> str:
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
