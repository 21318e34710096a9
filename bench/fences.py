"""Let payloads try to leave their fence; count those that do, and how long fencing takes.

python bench/fences.py [100000]
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.payloads import escapes, payload

from weft.passes.fences import neutralise_text


def main(total: int) -> int:
    """Try so many payloads, each from its own seed."""
    start, escaped = time.perf_counter(), list[str]()
    for seed in range(total):
        text = payload(random.Random(seed))
        escaped += [f"seed {seed}: {problem}" for problem in escapes(text, f"session {seed % 7}")]
        if sys.stderr.isatty() and seed % 1000 == 999:
            print(f"\r{seed + 1:,} of {total:,}", end="", file=sys.stderr)
    print(f"{total:,} payloads, {time.perf_counter() - start:.0f} s")
    print(f"escapes: {len(escaped)}")
    for line in escaped[:20]:
        print(f"  {line}")
    page = "A plain line of a page with <b>tags</b> and [links](x): nothing more.\n" * 14_000
    start = time.perf_counter()
    neutralise_text(page)
    print(
        f"{len(page):,} letters of a page are looked through in {time.perf_counter() - start:.2f} s"
    )
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
