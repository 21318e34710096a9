"""Compiling one more step of a long session, and a cold session against json.dumps."""

import json
import time

from sessions import BOT, events, turn_events
from table import Table, race

import weft
from weft import Session

STATE = {"location": "NYC"}
ROUNDS = 15


def measure() -> Table:
    """One more step at three lengths; then everything at once."""
    table = Table("compile (wire included)")
    small = step(100)
    for length in (1_000, 10_000):
        target = 2.0 if length == 10_000 else None
        table.add(f"one more step at {length:,} events", step(length), "at 100", small, target)
    log = events(2_000)
    whole = weft.compile(BOT, session=Session("s", state=STATE, events=log))
    for dialect in ("gemini", "anthropic", "openai-chat", "openai-responses"):
        fresh = [Session("s", state=STATE, events=log) for _ in range(ROUNDS)]
        wire = whole.lower(dialect)
        cold, dumped = race(
            lambda session, dialect=dialect: weft.compile(BOT, session=session).lower(dialect),
            fresh,
            lambda wire=wire: json.dumps(wire),
        )
        table.add(f"cold compile of 2,000 events, {dialect}", cold, "json.dumps", dumped, 3.0)
    return table


def step(length: int, rounds: int = 60) -> float:
    """The least time of compiling after one more turn was appended, event by event."""
    session = Session("s", state=STATE, events=events(length))
    weft.compile(BOT, session=session).wire  # noqa: B018
    took: list[float] = []
    for turn in range(rounds):
        for event in turn_events(length + turn):
            session = session.append(event)
            start = time.process_time()
            weft.compile(BOT, session=session).wire  # noqa: B018
            took.append(time.process_time() - start)
    took.sort()
    return took[len(took) // 4]
