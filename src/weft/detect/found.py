"""What a detector finds, and what a detector is."""

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Found(NamedTuple):
    """One value in a text: what kind it is of, where it stands, and its spelling there."""

    kind: str
    start: int
    end: int
    value: str


class Span(NamedTuple):
    """Where a detector saw something of its kind."""

    start: int
    end: int


Look = Callable[[str], Iterator[Span]]
"""How a detector looks through a text; it takes time in proportion to the text."""


class Detector(NamedTuple):
    """A kind of value, and how to find it.

    `shaped` kinds are told by their form (a checksum, a prefix, a label in front); the others
    are guesses from words. `numbered` kinds have a digit in every value, so that a text without
    one need not be looked through. Of two finds in one place the kind earlier in the table wins.
    """

    kind: str
    look: Look
    what: str
    secret: bool = False
    shaped: bool = True
    numbered: bool = True
