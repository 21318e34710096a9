"""What every library is given to run: the same script, the same tool, the same questions.

A subject is one library made ready for one row. It is built from the library's own parts, as its
documentation shows them, with a model that answers from a script in no time; so what is
measured is the library. Every turn gives back its answer and every row checks it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import chain, cycle

INSTRUCTION = "You help users with their orders. Be brief and polite."
QUESTION = "Where is my order, and when will it arrive?"
TEMPLATE = INSTRUCTION + " The agent before you said: {%s}"
"""An instruction that reads what another agent wrote under a key."""
ANSWER = "Your order left the warehouse this morning and arrives tomorrow."
DELTA = "word "


class Missing(Exception):
    """The library has no such thing, so there is nothing to measure."""


class Script:
    """The model's side: calls to `work`, as many rounds as wanted, then the answer, over and over.

    `width` is the number of calls a round. Each call has arguments of its own. `seen` is how
    many messages the last request held, which tells whether the conversation was kept.
    """

    def __init__(self, rounds: int = 0, width: int = 1) -> None:
        self.seen = 0
        self.asked = 0
        self._numbers = 0
        self._width = width
        self._turns = cycle(chain([True] * rounds, [False]))

    def next(self, seen: int) -> list[tuple[str, dict[str, int]]]:
        """The calls to make now, each an id and its arguments; none, to give the answer."""
        self.seen = seen
        self.asked += 1
        if not next(self._turns):
            return []
        made: list[tuple[str, dict[str, int]]] = []
        for _ in range(self._width):
            self._numbers += 1
            made.append((f"call_{self._numbers}", {"number": self._numbers}))
        return made


@dataclass
class Tools:
    """How often the tool was really run."""

    runs: int = 0
    seconds: float = 0.0


TOOLS = Tools()


async def work(number: int) -> str:
    """Look up a number.

    Args:
        number: The number to look up.
    """
    TOOLS.runs += 1
    if TOOLS.seconds:
        await asyncio.sleep(TOOLS.seconds)
    return f"number {number} is in stock"


async def _nothing() -> None:
    pass


@dataclass
class Subject:
    """A library ready to run: `turn` asks in a session and gives the answer's text."""

    turn: Callable[[str], Awaitable[str]]
    script: Script = field(default_factory=Script)
    close: Callable[[], Awaitable[None]] = _nothing
