"""One caller in a process of its own, which measures calls whenever it is told to.

    python bench/calls_worker.py runner anthropic http://127.0.0.1:8000

It reads `whole`, `stream` or `begin` from its input and answers each with a line of JSON: the CPU
seconds of one call. `begin` is a stream of no more than a delta, so that what a delta takes is the
difference between the two.
"""

import asyncio
import gc
import json
import sys
import time

from calls_answers import WORD, WORDS
from calls_clients import CALLERS, PACKAGES

CALLS = {"whole": (6, 4), "begin": (4, 3), "stream": (2, 2)}
"""How often a caller is made ready, and how many calls are timed then."""
FEW = 1
"""Deltas of a stream that is hardly one."""


async def measured(caller: str, dialect: str, url: str) -> None:
    """Answer until the input ends."""
    many = CALLERS[caller](f"{url}/d{WORDS}", dialect)
    few = CALLERS[caller](f"{url}/d{FEW}", dialect)
    actions = {"whole": many.whole, "stream": many.stream, "begin": few.stream}
    words = {"whole": WORDS, "stream": WORDS, "begin": FEW}
    loop = asyncio.get_running_loop()
    for each in (many, few):
        await each.ready()
    for name, action in actions.items():
        for _ in range(3):
            said = await action()
            assert said == WORD * words[name], f"{name} said {said[:50]!r}"
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        rounds, count = CALLS[line]
        gc.collect()
        least = float("inf")
        for _ in range(rounds):
            await (few if line == "begin" else many).ready()
            start = time.process_time()
            for _ in range(count):
                await actions[line]()
            least = min(least, (time.process_time() - start) / count)
        print(json.dumps(least), flush=True)


def main() -> None:
    """Say what is measured, or why it is not; then measure."""
    caller, dialect, url = sys.argv[1:]
    from importlib.metadata import PackageNotFoundError, version

    package = PACKAGES[dialect] if caller == "sdk" else "httpx2" if caller == "bare" else "weft"
    try:
        print(json.dumps({"name": package, "version": version(package)}), flush=True)
    except PackageNotFoundError:
        print(json.dumps({"problem": f"{package} is not installed"}), flush=True)
        return
    asyncio.run(measured(caller, dialect, url))


if __name__ == "__main__":
    main()
