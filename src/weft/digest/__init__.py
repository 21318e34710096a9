"""Digests: one large value made shorter, its shape kept, the same way every time.

JSON keeps its keys, a table its header, a log its trouble, code its signatures, a page its
headings, a diff its files; every one says what is not there any more, and never takes more tokens
than it may.
"""

from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple

from weft.digest.cut import Count, Keep, Shape, cut_text
from weft.values import Json, compact

if TYPE_CHECKING:
    from weft.digest.asked import CallQuery

__all__ = ["Count", "Keep", "Reduced", "Shape", "cut_text", "reduced", "shape_of"]


class Reduced(NamedTuple):
    """A value made shorter: what is left, what it was, and what is not there any more."""

    value: Json
    shape: Shape
    left_out: str


def reduced(
    value: Json,
    *,
    limit_tokens: int,
    count: Count,
    known: Container[str] = frozenset[str](),
    asked: "CallQuery | None" = None,
    size: int | None = None,
    most: int | None = None,
) -> Reduced:
    """The value cut to the tokens that `count` counts, its shape kept; unchanged where it fits.

    A text is counted as it is, any other value as compact JSON. `known` are names that whoever
    reads it has seen already, `asked` is what it was asked for. `size` are the tokens of a text
    that was counted already. Where the limit would hide a line that is the only one of its kind, a
    failure, or a row that a table keeps, it takes up to `most` tokens.
    """
    from weft.digest.by_shape import Digester

    digester = Digester(count, known, asked, most)
    if isinstance(value, str):
        return Reduced(*digester.text(value, limit_tokens, size))
    if count(compact(value)) <= limit_tokens:
        return Reduced(value, "json", "")
    return Reduced(*digester.json(value, limit_tokens))


def shape_of(value: Json) -> Shape:
    """The shape of a JSON value, or of what a text holds."""
    from weft.digest.texts import shape_of as shape_of_text

    return shape_of_text(value)
