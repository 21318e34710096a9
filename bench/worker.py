"""One library in a process of its own: its numbers as JSON on the last line.

    python bench/worker.py weft                all warm rows
    python bench/worker.py weft first          CPU seconds of importing it and running one turn
    python bench/worker.py weft turn loop      only these rows

A row that fails says why; it does not stop the others.
"""

import sys
import time

START = time.process_time()


def first(name: str) -> dict[str, object]:
    """Import the library, declare an agent, run a turn."""
    import asyncio
    from importlib import import_module

    from script import ANSWER, Script

    async def turn() -> str:
        subject = await import_module(f"subjects.{name}").agent(Script())
        return await subject.turn("first")

    said = asyncio.run(turn())
    took = time.process_time() - START
    assert said == ANSWER
    return {"rows": {"first": {"value": took, "estimated": False}}}


def warm(name: str, wanted: list[str]) -> dict[str, object]:
    """Every row in one process, each in an event loop of its own."""
    import asyncio
    import statistics
    import traceback
    from dataclasses import asdict
    from importlib import import_module
    from importlib.metadata import version

    import rows
    from script import Missing

    library = import_module(f"subjects.{name}")
    found: dict[str, object] = {}
    problems: dict[str, str] = {}
    calls: list[float] = []
    for row in rows.ROWS:
        if wanted and row.__name__ not in wanted:
            continue
        calls.append(rows.call())
        try:
            numbers = asyncio.run(row(library))
        except Missing as missing:
            problems[row.__name__] = str(missing)
        except Exception as error:
            traceback.print_exc()
            problems[row.__name__] = f"failed: {type(error).__name__}: {error}"[:200]
        else:
            found |= {key: asdict(measured) for key, measured in numbers.items()}
    return {
        "name": library.NAME,
        "version": version(library.PACKAGE),
        "by_hand": getattr(library, "BY_HAND", ()),
        "call": statistics.median(calls),
        "rows": found,
        "problems": problems,
    }


def main() -> None:
    """Answer, and leave at once: some libraries keep threads that would not end."""
    import json
    import os

    name, *wanted = sys.argv[1:]
    answer = first(name) if wanted == ["first"] else warm(name, wanted)
    print("\n" + json.dumps(answer), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
