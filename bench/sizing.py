"""How many databases, cores and connections some number of turns a second takes: a simulation.

    .venv/bin/python bench/sizing.py                            the table of docs/sizing.md
    .venv/bin/python bench/sizing.py --rate 10000 --databases 8 one row, with the spread by database
    .venv/bin/python bench/sizing.py --server-ms 4.1 --worker-ms 8.3    with figures of your own

What a turn costs is measured (`bench/turns.py overhead`, on two shared cores), and everything else
is computed: nobody has run 10,000 turns a second here. Users are spread over 1,024 buckets by a
hash, buckets over databases. Few users make most turns, as users do. Turns arrive at random, stay
in flight while the model thinks, and visit their database between two thoughts; a database serves
as many visits at once as it has cores, the rest wait. The simulation says how evenly databases are
used, how long visits wait, and what is in flight. The same seed gives the same table.
"""

import argparse
import heapq
import random
import statistics
import sys
from bisect import bisect
from collections.abc import Iterator
from hashlib import blake2b
from itertools import accumulate
from math import ceil
from typing import NamedTuple

BUCKETS = 1024
VISITS = 5
"""How often a turn comes to its database: it is put, taken, and stores four or five events."""
COMMITS = 9
"""Commits of a turn: four or five for its events, the rest for the queue."""
CONNECTIONS = 15
"""Of a worker process: its store, its leases, its queue, and what says that it lives."""


class Costs(NamedTuple):
    """Seconds of processor time a turn."""

    worker: float
    server: float


class Site(NamedTuple):
    """What there is to serve the turns."""

    rate: float
    databases: int
    cores: int
    """Of each database."""
    model: float
    """Seconds that models think in a turn, on average."""
    users: int
    slots: int
    """Turns that one worker process has in flight."""


def bucket_of(app: str, user: str) -> int:
    """The bucket of a user: all sessions of a user are in one, as they share `user:` state."""
    digest = blake2b(f"{app}\0{user}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


def spread(weights: list[float], databases: int) -> list[int]:
    """Which database each bucket is in: busy ones first, each to the idlest database."""
    loads = [(0.0, database) for database in range(databases)]
    placed = [0] * BUCKETS
    for bucket in sorted(range(BUCKETS), key=lambda one: -weights[one]):
        load, database = heapq.heappop(loads)
        placed[bucket] = database
        heapq.heappush(loads, (load + weights[bucket], database))
    return placed


class Outcome(NamedTuple):
    """What the simulation saw."""

    utilisation: list[float]
    """Of the cores of each database."""
    waits: list[float]
    """Seconds that a turn waited for its database, all its visits together; sorted."""
    hashed: float
    """How much more than its share the busiest database would have without moving buckets."""


def simulate(site: Site, costs: Costs, *, seconds: float, seed: int) -> Outcome:
    """Some seconds of the site, after as many to warm up."""
    chance = random.Random(seed)
    # few users make most turns: the n-th makes 1/n^0.8 of what the first makes
    activity = [1.0 / rank**0.8 for rank in range(1, site.users + 1)]
    buckets = [bucket_of("app", f"user-{rank}") for rank in range(site.users)]
    weights = [0.0] * BUCKETS
    for bucket, turns in zip(buckets, activity, strict=True):
        weights[bucket] += turns
    places = spread(weights, site.databases)
    share = sum(weights) / site.databases
    hashed = [0.0] * site.databases
    for bucket, weight in enumerate(weights):
        hashed[bucket % site.databases] += weight

    steps = list(accumulate(activity))
    visit = costs.server / VISITS
    free = [[0.0] * site.cores for _ in range(site.databases)]
    busy = [0.0] * site.databases
    begin, end = seconds, 2 * seconds
    waits: list[float] = []
    # (time, order, database, visits that are still to come, waited so far)
    events: list[tuple[float, int, int, int, float]] = []
    arrivals = arrive(site.rate, end, chance)
    order = 0
    upcoming = next(arrivals, None)
    while events or upcoming is not None:
        if upcoming is not None and (not events or upcoming <= events[0][0]):
            user = bisect(steps, chance.random() * steps[-1])
            order += 1
            place = places[buckets[min(user, site.users - 1)]]
            heapq.heappush(events, (upcoming, order, place, VISITS, 0.0))
            upcoming = next(arrivals, None)
            continue
        now, id, place, rest, waited = heapq.heappop(events)
        if now > end:
            continue
        start = max(now, heapq.heappop(free[place]))
        used = chance.expovariate(1 / visit)
        heapq.heappush(free[place], start + used)
        if start >= begin:
            busy[place] += min(start + used, end) - min(start, end)
        waited += start - now
        if rest > 1:
            thought = chance.expovariate((VISITS - 1) / site.model) if site.model else 0.0
            heapq.heappush(events, (start + used + thought, id, place, rest - 1, waited))
        elif now >= begin:
            waits.append(waited)
    return Outcome(
        [load / seconds / site.cores for load in busy],
        sorted(waits),
        max(hashed) / share,
    )


def arrive(rate: float, end: float, chance: random.Random) -> Iterator[float]:
    """Times at which turns arrive, at random."""
    now = chance.expovariate(rate)
    while now < end:
        yield now
        now += chance.expovariate(rate)


def databases_for(rate: float, costs: Costs, options: argparse.Namespace) -> int:
    """How many databases keep below the limits: of their cores, and of commits to their disk."""
    by_cores = rate * costs.server / (options.cores * options.most)
    by_commits = rate * COMMITS / options.commits
    return max(1, ceil(max(by_cores, by_commits) - 1e-9))


def percent(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def row(site: Site, costs: Costs, options: argparse.Namespace) -> list[str]:
    """One line of the table."""
    # simulated thinking is short, so that a run is in its steady state soon; it changes no queue
    fast = site._replace(model=min(site.model, options.seconds / 4))
    seen = simulate(fast, costs, seconds=options.seconds, seed=options.seed)
    in_flight = site.rate * (site.model + costs.worker + costs.server)
    workers = max(2, round(in_flight / site.slots + 0.5))
    cores = site.rate * costs.worker / options.most
    return [
        f"{site.rate:,.0f}",
        f"{site.databases}",
        f"{statistics.mean(seen.utilisation):.0%} / {max(seen.utilisation):.0%}",
        f"{seen.hashed:.2f}x",
        f"{percent(seen.waits, 0.5) * 1e3:.1f} / {percent(seen.waits, 0.99) * 1e3:.1f} ms",
        f"{in_flight:,.0f}",
        f"{workers:,} x {site.slots}",
        f"{cores:,.1f}",
        f"{site.rate * COMMITS / site.databases:,.0f}",
        f"{workers * CONNECTIONS / site.databases:,.0f}",
    ]


HEAD = [
    "turns/s", "databases", "cores used, mean / busiest", "busiest by hash alone",
    "a turn waits, p50 / p99", "in flight", "workers x slots", "worker cores", "commits/s each",
    "connections each",
]  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--rate", type=float, action="append", help="turns a second")
    parser.add_argument("--databases", type=int, help="how many; by default as many as needed")
    parser.add_argument("--cores", type=int, default=16, help="of each database")
    parser.add_argument("--most", type=float, default=0.6, help="share of cores to use at most")
    parser.add_argument("--commits", type=float, default=10_000, help="of a disk, a second")
    parser.add_argument("--server-ms", type=float, default=4.0, help="of the database, a turn")
    parser.add_argument("--worker-ms", type=float, default=9.0, help="of a worker, a turn")
    parser.add_argument("--model", type=float, default=10.0, help="seconds that models think")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=2.0, help="simulated")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    costs = Costs(options.worker_ms / 1e3, options.server_ms / 1e3)
    rows = [HEAD]
    for rate in options.rate or (10.0, 100.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0):
        count = options.databases or databases_for(rate, costs, options)
        site = Site(rate, count, options.cores, options.model, options.users, options.slots)
        rows.append(row(site, costs, options))
    print(
        f"{options.server_ms:g} ms of the database and {options.worker_ms:g} ms of a worker a turn"
    )
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for line in rows[1:]:
        print("| " + " | ".join(line) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
