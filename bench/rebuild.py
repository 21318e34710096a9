"""Whether every text that is sent in short can be put together again, over recorded runs.

Usage: python bench/rebuild.py FILE [--policy "C.auto()"]... [--limit N]

Each run is compiled again step by step under each policy. A text that is shorter than in the log
is rebuilt from what the request says and from the values behind its handles, and compared with
the log letter for letter. What cannot be rebuilt is printed, and makes the command fail.
"""

import argparse
from itertools import islice
from pathlib import Path

from weft.declare.words import policy_from
from weft.errors import BudgetExceeded
from weft.recordings import read_recordings
from weft.replay.evidence import KeptEvidence, rebuild_texts
from weft.replay.replay import requests_of

POLICIES = (
    "C.auto()",
    "C.auto().dedupe()",
    "C.auto().compact(results=200, to=100)",
    "C.auto().fit(1000)",
    "C.auto().fresh(turns=1)",
    "C.auto().budget(6000)",
    "C.auto().budget(6000, overflow='drop')",
    "C.auto() + C.window(4)",
    "C.default().compact()",
    "C.default().dedupe()",
    "C.default().dedupe('superseded')",
    "C.default().dedupe().budget(6000)",
)
SHOWN = 5
"""How many texts that cannot be rebuilt are printed for a policy."""


def main() -> int:
    """Print a row for each policy; 1 where something cannot be rebuilt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    data = read_recordings(args.file.read_bytes(), name=args.file.name)
    recordings = list(islice(data, args.limit))
    bad = 0
    for text in args.policy or POLICIES:
        policy, reduced, requests, lost = policy_from(text), 0, 0, list[str]()
        refused: list[BudgetExceeded] = []
        for recording in recordings:
            kept = KeptEvidence(recording.session.events)
            for _, _, compiled in requests_of(recording, policy, refused=refused):
                found = rebuild_texts(compiled, kept)
                requests += 1
                reduced += found.reduced
                lost += [f"{recording.id} {one}" for one in found.lost]
        share = 1 - len(lost) / reduced if reduced else 1.0
        print(f"{text:45} {requests:6,} requests {reduced:8,} in short {share:8.2%} rebuilt")
        for one in lost[:SHOWN]:
            print(f"    {one!r}")
        bad += len(lost)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
