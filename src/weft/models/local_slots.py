"""Which conversation stands in which slot of the engine.

Left to itself, the engine puts a request where most of its beginning stands already, and cuts
off what follows there. A new session of an agent would so end the last one, as both begin with
the same instruction. So a new conversation gets the slot that nobody used for longest, and an
old one the slot where it was. Where it is no longer there, the engine looks for it.
"""

import threading
from typing import NamedTuple

from weft.ir import Prompt


class Conversation(NamedTuple):
    """Whose conversation it is, what happened in it, and whether nothing was answered yet."""

    agent: str
    events: tuple[str, ...]
    is_new: bool

    def follows(self, held: "Conversation | None") -> bool:
        """Whether it goes on from what a slot holds, even where its beginning was left out."""
        if held is None or held.agent != self.agent or not self.events:
            return False
        return self.events[0] in held.events


def conversation_of(prompt: Prompt) -> Conversation:
    """The conversation that a request belongs to."""
    items = list(prompt.items)
    whole = bool(items) and items[0].position == 0
    answered = any(block.role == "model" for item in items for block in item.blocks)
    events = tuple(item.event for item in items)
    return Conversation(prompt.agent, events, whole and not answered)


class Slots:
    """The slots by number, the one that was used longest ago first."""

    def __init__(self, count: int) -> None:
        self._held: dict[int, Conversation | None] = dict.fromkeys(reversed(range(count)))
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, asked: Conversation) -> int | None:
        """The slot for a request; None where the engine may choose."""
        with self._lock:
            free = [slot for slot in self._held if slot not in self._taken]
            found = next((slot for slot in free if asked.follows(self._held[slot])), None)
            if found is None and asked.is_new and free:
                found = free[0]
            if found is not None:
                self._taken.add(found)
            return found

    def leave(self, slot: int | None, asked: Conversation | None) -> None:
        """Note what stands in a slot that was used, and that it is free again."""
        if slot is None:
            return
        with self._lock:
            self._taken.discard(slot)
            self._held.pop(slot, None)
            self._held[slot] = asked
