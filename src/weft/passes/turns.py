"""Turns: a user's message with all that follows it, up to the next one."""

from collections.abc import Iterable

from weft.diagnostics import Origin
from weft.ir import Item, TextBlock


def turn_numbers(items: Iterable[Item]) -> list[int]:
    """The turn each item is in, from 1; 0 is what stands before the user first spoke.

    What the user says again within one invocation does not begin a new turn.
    """
    numbers: list[int] = []
    number, current = 0, ""
    for item in items:
        asks = item.kind == "user" and item.author == "user"
        if asks and (not number or not item.invocation or item.invocation != current):
            number, current = number + 1, item.invocation
        numbers.append(number)
    return numbers


OPENING = "(The conversation begins.)"


def opening_of(first: Item) -> Item:
    """The user's turn before an item that speaks as the model: providers want the user to begin."""
    origin = Origin("pass", "open_turn")
    return Item(
        kind="user",
        blocks=(TextBlock(role="user", origin=origin, text=OPENING),),
        author="",
        invocation=first.invocation,
        position=first.position,
        last=first.position,
        event="",
    )
