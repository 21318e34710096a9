"""Compiling one more step of a long session, and a cold session against json.dumps."""

import json
import time
from collections.abc import Callable

from sessions import BOT, events, long_turn, turn_events, varied_turn
from table import Table, race

import weft
from weft import Agent, C, Event, Session
from weft.meaning import is_installed

STATE = {"location": "NYC"}
ROUNDS = 15

POLICIES = {
    "C.window(10)": (C.window(10), 1.5),
    "C.default().compact()": (C.default().compact(), 1.5),
    "C.default().dedupe()": (C.default().dedupe(), 1.5),
    "C.auto()": (C.auto(), 1.5),
    "C.auto(careful=True)": (C.auto(careful=True), 1.5),
    "C.default().fold()": (C.default().fold(), 1.5),
    'C.default().redact("email")': (C.default().redact("email"), 1.5),
    "C.default().fence()": (C.default().fence(), 1.5),
    'C.default().label("secret", "plan")': (C.default().label("secret", "plan"), 1.5),
    "C.default().fresh(turns=3)": (C.default().fresh(turns=3), 1.5),
    "C.default().fresh(seconds=60)": (C.default().fresh(seconds=60), 1.5),
    "C.default().fit(2000)": (C.default().fit(2000), 1.5),
    "C.default().budget(2000)": (C.default().budget(2000), 4.0),
    "C.recent(half_life=5)": (C.recent(half_life=5), 1.5),
    'C.user("last")': (C.user("last"), 1.5),
    'C.window(10) + C.select(kind="user")': (C.window(10) + C.select(kind="user"), 1.75),
    "C.relevant(top_k=8)": (C.relevant(top_k=8), 4.0),
    "C.relevant().fit(1000)": (C.relevant().fit(1000), 4.0),
    "C.window(3) + C.relevant().fit(1000)": (C.window(3) + C.relevant().fit(1000), 4.0),
}
if is_installed():
    nearest = C.relevant(scorer="embedding").fit(1000)
    POLICIES['C.relevant(scorer="embedding").fit(1000)'] = (nearest, 4.0)
"""Policies, and how much more a step at 10,000 events may cost than one at 100.

A budget looks at all items once a stride, and relevance searches once a turn, so their steps are
averaged. These are measured on texts that never repeat: what was counted or read for another text
must not help.
"""


def measure() -> Table:
    """One more step at three lengths; then everything at once."""
    table = Table("compile (wire included)")
    small = step(100)
    for length in (1_000, 10_000):
        target = 2.0 if length == 10_000 else None
        table.add(f"one more step at {length:,} events", step(length), "at 100", small, target)
    for name, (policy, target) in POLICIES.items():
        agent, averaged = BOT.sees(policy), target > 2
        short, long = (step(n, 20, agent, averaged=averaged) for n in (100, 10_000))
        table.add(f"one more step at 10,000 events, {name}", long, "at 100", short, target)
    for name in ("C.auto()", "C.default().fold()"):
        agent = BOT.sees(POLICIES[name][0])
        at = {n: step(n, 40, agent, averaged=True, turn_of=long_turn) for n in (100, 1_000, 10_000)}
        for length, target in ((1_000, None), (10_000, 1.5)):
            what = f"one more step at {length:,} events that fold, {name}"
            table.add(what, at[length], "at 100", at[100], target)
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


def step(
    length: int,
    rounds: int = 60,
    agent: Agent = BOT,
    *,
    averaged: bool = False,
    turn_of: Callable[[int], list[Event]] | None = None,
) -> float:
    """The usual time of compiling after one more turn was appended, event by event.

    The first turn is left out: it reads once what a cold compilation does not need. The mean is
    over all steps, so a fold counts, whichever step it falls in.
    """
    turn_of = turn_of or (varied_turn if averaged else turn_events)
    log = [event for turn in range(length // 5) for event in turn_of(turn)]
    session = Session("s", state=STATE, events=log)
    weft.compile(agent, session=session).wire  # noqa: B018
    took: list[float] = []
    for turn in range(rounds):
        for event in turn_of(length + turn):
            session = session.append(event)
            start = time.process_time()
            weft.compile(agent, session=session).wire  # noqa: B018
            took.append(time.process_time() - start)
    took = sorted(took[5:])
    return sum(took) / len(took) if averaged else took[len(took) // 4]
