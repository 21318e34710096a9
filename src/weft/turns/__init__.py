"""Turns in a queue: put by one process, run by a worker of any other.

`open_turns(store)` opens the queue of a store. Other queues than the inbox are extras.
"""

from weft.turns.opening import ENGINES, open_turns, put_message
from weft.turns.running import TurnRunner
from weft.turns.turn import QueuedTurn, TurnEnd, TurnInfo, Turns, TurnStatus
from weft.turns.worker import Worker

__all__ = [
    "ENGINES",
    "QueuedTurn",
    "TurnEnd",
    "TurnInfo",
    "TurnRunner",
    "TurnStatus",
    "Turns",
    "Worker",
    "open_turns",
    "put_message",
]
