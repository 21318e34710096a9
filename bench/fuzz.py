"""Try the laws of compiling on many random programs and logs, and print what breaks one.

    python bench/fuzz.py --requests 100000 [--seed 0] [--jobs 2]
    python bench/fuzz.py --runs 2000                             also run programs, with odd tools
    python bench/fuzz.py --requests 20000 --long                 sessions that fold
    python bench/fuzz.py --histories 20000                       other programs' conversations
    python bench/fuzz.py --show 4711                             one seed, as small as it gets

A seed gives a program, a log and some ways to look at it; each request on the way is compared with
the one that a process gives that reads the log at once, and at the end with one that reads it from
JSON. The laws are in tests/support/fuzz_laws.py; those of a conversation that `weft.compact` gets
are in tests/compaction/laws.py. Exits with 1 where one is broken.
"""

import argparse
import logging
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.fuzz_cases import Call, write
from tests.support.fuzz_laws import (
    Fault,
    count_requests,
    draw,
    faults_of,
    reduce_case,
    show_program,
)

BATCH = 500
"""How many seeds are tried at once."""

MOST_SHOWN = 12
"""How many kinds of fault are made small and shown."""


def try_case(seed: int, *, long: bool) -> tuple[int, int, list[Fault]]:
    """The seed, how many requests it gave, and what is wrong with them."""
    case = draw(seed, long=long)
    return seed, count_requests(write(case)), faults_of(case)


def try_run(seed: int) -> tuple[int, int, list[Fault]]:
    """The same for a program that is run."""
    from tests.support.fuzz_runs import draw_run, run_faults

    return seed, 1, run_faults(draw_run(seed))


def try_history(seed: int) -> tuple[int, int, list[Fault]]:
    """The same for a conversation as another program sends it."""
    from tests.compaction.laws import faults_of as history_faults

    return seed, *history_faults(seed)


def quiet() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def work(args: argparse.Namespace) -> int:
    """Try seeds until there were enough requests, and then the runs."""
    first: dict[str, tuple[int, str]] = {}
    kinds: Counter[str] = Counter()
    seeds = requests = 0
    began, trial = time.monotonic(), partial(try_case, long=args.long)
    with multiprocessing.Pool(args.jobs, initializer=quiet) as pool:
        while requests < args.requests:
            listed = range(args.seed + seeds, args.seed + seeds + BATCH)
            for seed, count, faults in pool.imap_unordered(trial, listed, 10):
                seeds, requests = seeds + 1, requests + count
                for fault in faults:
                    kinds[fault.kind] += 1
                    first.setdefault(fault.kind, (seed, fault.seen))
                    print(f"seed {seed}: {fault.kind}", flush=True)
            found = sum(kinds.values())
            print(f"{seeds:,} programs, {requests:,} requests, {found} faults", flush=True)
    took = time.monotonic() - began
    print(f"{seeds:,} programs from seed {args.seed}, {requests:,} requests, {took:,.0f} s")
    if args.runs:
        with multiprocessing.Pool(args.jobs, initializer=quiet) as pool:
            listed = range(args.seed, args.seed + args.runs)
            for seed, _, faults in pool.imap_unordered(try_run, listed, 10):
                for fault in faults:
                    kinds[f"run: {fault.kind}"] += 1
                    first.setdefault(f"run: {fault.kind}", (seed, fault.seen))
        print(f"{args.runs:,} runs")
    for kind, count in kinds.most_common():
        seed, seen = first[kind]
        print(f"\n{count} times {kind}, first at seed {seed}\n{seen}")
    for kind in [one for one in first if not one.startswith("run: ")][:MOST_SHOWN]:
        print("", kind, _small(draw(first[kind][0], long=args.long), kind), sep="\n")
    print("clean" if not kinds else f"{sum(kinds.values())} faults of {len(kinds)} kinds")
    return 1 if kinds else 0


def _small(case: Call, kind: str) -> str:
    return show_program(reduce_case(case, faults_of, kind))


def work_on_histories(args: argparse.Namespace) -> int:
    """Try that many conversations, and print the first few faults of each kind."""
    kinds: Counter[str] = Counter()
    requests = 0
    with multiprocessing.Pool(args.jobs, initializer=quiet) as pool:
        listed = range(args.seed, args.seed + args.histories)
        for done, (seed, count, faults) in enumerate(pool.imap(try_history, listed, 10), 1):
            requests += count
            for fault in faults:
                kinds[fault.kind] += 1
                if kinds[fault.kind] <= MOST_SHOWN:
                    print(f"seed {seed}: {fault.kind}: {fault.seen}", flush=True)
            if done % BATCH == 0 or done == args.histories:
                found = sum(kinds.values())
                print(f"{done:,} histories, {requests:,} requests, {found} faults", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count} times {kind}")
    return 1 if kinds else 0


def show(seed: int, *, long: bool) -> int:
    """Print what a seed breaks, each as a small program."""
    case = draw(seed, long=long)
    faults = faults_of(case)
    for kind in dict.fromkeys(fault.kind for fault in faults):
        print("", kind, _small(case, kind), sep="\n")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=0, help="how many programs are run")
    parser.add_argument("--histories", type=int, default=0, help="only these")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--long", action="store_true", help="sessions that fold")
    parser.add_argument("--show", type=int, help="only this seed")
    args = parser.parse_args()
    quiet()
    if args.histories:
        return work_on_histories(args)
    return show(args.show, long=args.long) if args.show is not None else work(args)


if __name__ == "__main__":
    raise SystemExit(main())
