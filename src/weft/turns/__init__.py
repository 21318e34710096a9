"""Turns in a queue: put by one process, run by a worker of any other.

`open_turns(store)` opens the queue of a store. Other queues than the inbox are extras.
"""

from weft.turns.opening import ENGINES, open_turns
from weft.turns.running import TurnRunner
from weft.turns.turn import QueuedTurn, TurnEnd, TurnInfo, Turns, TurnStatus

__all__ = [
    "ENGINES",
    "QueuedTurn",
    "TurnEnd",
    "TurnInfo",
    "TurnRunner",
    "TurnStatus",
    "Turns",
    "open_turns",
]
