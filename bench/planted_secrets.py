"""Plant secrets in every channel of a program; count those that reach who is not cleared.

python bench/planted_secrets.py [10000]
"""

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.planted import plant

BATCH = 40


async def main(total: int) -> int:
    """Run the program again and again until so many secrets were planted."""
    start, planted, reached, missed = time.perf_counter(), 0, list[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        seed = 0
        while planted < total:
            found = await plant(seed, min(BATCH, total - planted), Path(folder))
            planted += found.planted
            reached += [f"seed {seed}: {secret!r} as {trace!r}" for secret, trace in found.reached]
            missed += [f"seed {seed}: {secret!r}" for secret in found.missed]
            seed += 1
            if sys.stderr.isatty():
                print(f"\r{planted:,} of {total:,}", end="", file=sys.stderr)
    took = time.perf_counter() - start
    print(f"{planted:,} secrets in {seed:,} programs of four turns, {took:.0f} s")
    print(f"reached a model that is not cleared: {len(reached)}")
    print(f"did not reach one that is: {len(missed)}")
    for line in (*reached, *missed)[:20]:
        print(f"  {line}")
    return 1 if reached or missed else 0


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)))
