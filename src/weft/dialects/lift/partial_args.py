"""A call's arguments that come in pieces, each with the path of the value it belongs to."""

import re
from collections.abc import Sequence

from weft.values import Json, JsonObject

_STEP = re.compile(r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quoted>'.*?'|".*?")\]""")
_MOST = 10_000


class Arguments:
    """Arguments that are put together from pieces."""

    __slots__ = ("_open", "values")

    def __init__(self, values: JsonObject) -> None:
        self.values = values
        self._open = ""

    def add(self, piece: JsonObject) -> None:
        """One piece: a whole value, or more of the text that the piece before left open."""
        path = piece.get("jsonPath")
        steps = _steps(path) if isinstance(path, str) else []
        if not steps:
            return
        value = _value(piece)
        held = _at(self.values, steps)
        if path == self._open and isinstance(value, str) and isinstance(held, str):
            value = held + value
        _set(self.values, steps, value)
        self._open = str(path) if piece.get("willContinue") else ""


def _value(piece: JsonObject) -> Json:
    for name in ("stringValue", "numberValue", "boolValue"):
        if name in piece:
            return piece[name]
    return "" if piece.get("willContinue") else None


def _steps(path: str) -> list[str | int]:
    """The keys and indexes of a path such as `$.stops[0].city`."""
    steps: list[str | int] = []
    for step in _STEP.finditer(path):
        if step["index"] is not None:
            steps.append(min(int(step["index"]), _MOST))
        else:
            steps.append(step["name"] or step["quoted"][1:-1])
    return steps


def _at(held: Json, steps: Sequence[str | int]) -> Json:
    for step in steps:
        if isinstance(held, dict) and isinstance(step, str):
            held = held.get(step)
        elif isinstance(held, list) and isinstance(step, int) and step < len(held):
            held = held[step]
        else:
            return None
    return held


def _set(held: Json, steps: Sequence[str | int], value: Json) -> None:
    """Put a value at its path, making the objects and lists on the way."""
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        fresh: Json = value if last else [] if isinstance(steps[at + 1], int) else {}
        if isinstance(held, dict) and isinstance(step, str):
            if last or not isinstance(held.get(step), (dict, list)):
                held[step] = fresh
            held = held[step]
        elif isinstance(held, list) and isinstance(step, int):
            held.extend([None] * (step + 1 - len(held)))
            if last or not isinstance(held[step], (dict, list)):
                held[step] = fresh
            held = held[step]
        else:
            return
