"""Which conversation stands in which slot of the engine.

Left to itself, the engine puts a request where most of its beginning stands already, and cuts
off what follows there. A new session of an agent would so end the last one, as both begin with
the same instruction. So a new conversation gets the slot that nobody used for longest, and an
old one the slot where it was. Where its beginning is gone, the engine looks for it.
"""

import threading
from typing import NamedTuple

from weft.ir import Prompt


class Conversation(NamedTuple):
    """Whose conversation it is, by its first event, and whether nothing was answered in it yet."""

    agent: str
    first: str
    is_new: bool


def conversation_of(prompt: Prompt) -> Conversation:
    """The conversation that a request belongs to."""
    for item in prompt.items:
        new = item.position == 0 and not any(
            block.role == "model" for each in prompt.items for block in each.blocks
        )
        return Conversation(prompt.agent, item.event, new)
    return Conversation(prompt.agent, "", is_new=False)


class Slots:
    """The slots by number, the one that was used longest ago first."""

    def __init__(self, count: int) -> None:
        self._held: dict[int, tuple[str, str] | None] = dict.fromkeys(reversed(range(count)))
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, asked: Conversation) -> int | None:
        """The slot for a request; None where the engine may choose."""
        key = (asked.agent, asked.first)
        with self._lock:
            free = [slot for slot in self._held if slot not in self._taken]
            found = next((slot for slot in free if self._held[slot] == key), None)
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
            self._held[slot] = (asked.agent, asked.first) if asked is not None else None
