"""What must hold for any budget, over many random sessions; and what budgets do to the prefix.

python bench/budget.py [10000]
"""

import random
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support import budgets
from tests.support.build import says, user

from weft import Agent, C, Session, compile


def laws(cases: int) -> None:
    """Try so many random sessions, three budgets each; say which failed."""
    start, met, broken = time.perf_counter(), Counter[int](), list[str]()
    for seed in range(cases):
        try:
            met[budgets.check(seed)] += 1
            if seed % 50 == 0:  # one that is long enough to fold
                met[budgets.check(seed, long=True)] += 1
        except AssertionError as error:
            broken.append(str(error))
        if seed % 500 == 499:
            print(f"{seed + 1:,} of {cases:,}, {len(broken)} broken", file=sys.stderr)
    took = time.perf_counter() - start
    requests = sum(count * times for count, times in met.items())
    print(f"{cases:,} sessions, {requests:,} requests within a budget, {took:.0f} s")
    print(f"laws broken: {len(broken)}")
    for line in broken[:10]:
        print(f"  {line}")


def prefix() -> None:
    """How many tokens are read anew, request by request, with and without a budget."""
    print(f"{'policy':<42} {'tokens sent':>12} {'read anew':>10} {'breaks':>7}")
    for policy in (
        C.default(),
        C.default().budget(8000),
        C.default().budget(8000, overflow="drop"),
        C.default().budget(16000),
    ):
        agent = Agent("bot", model="gpt-4.1", tools=[budgets.look]).sees(policy)
        dice, session = random.Random(7), Session("s")
        sent = anew = breaks = 0
        for turn in range(120):
            for make in (user, partial(says, "bot")):
                session = session.append(make(budgets.prose(dice, 120), inv=f"i{turn}"))
            made = compile(agent, session=session, message="Go on.")
            sent += made.tokens
            anew += made.tokens - made.stable_prefix.tokens
            breaks += made.prefix_break is not None
        print(f"{policy!s:<42} {sent:>12,} {anew:>10,} {breaks:>7}")


def speed() -> None:
    """What one more step costs in a long session under a budget."""
    for policy in (C.default(), C.default().budget(8000)):
        agent = Agent("bot", model="gpt-4.1", tools=[budgets.look]).sees(policy)
        dice, session, took = random.Random(7), Session("s"), list[float]()
        for turn in range(300):
            for make in (user, partial(says, "bot")):
                session = session.append(make(budgets.prose(dice, 120), inv=f"i{turn}"))
            start = time.perf_counter()
            compile(agent, session=session).wire  # noqa: B018
            took.append(time.perf_counter() - start)
        took = sorted(took[-100:])
        print(f"{policy!s:<42} one more step after 600 events: {took[50] * 1000:.2f} ms")


if __name__ == "__main__":
    prefix()
    speed()
    laws(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
