"""One library in a process of its own, which measures a row whenever it is told to.

    python bench/worker.py weft first        CPU seconds of importing it and running one turn
    python bench/worker.py weft              reads names of rows, answers each with a line of JSON

It waits between rows, so that all libraries can take turns and a machine that is busy for a
while is busy for all of them. A row that fails says why; it does not stop the others.
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


def introduced(name: str) -> dict[str, object]:
    """The library's name and version, or that it is not there."""
    from importlib import import_module
    from importlib.metadata import version

    try:
        library = import_module(f"subjects.{name}")
    except ModuleNotFoundError as error:
        return {"problem": f"not installed: {error}"}
    except Exception as error:
        return {"problem": f"failed: {type(error).__name__}: {error}"[:200]}
    return {
        "name": library.NAME,
        "version": version(library.PACKAGE),
        "by_hand": getattr(library, "BY_HAND", ()),
    }


def measured(name: str, row: str) -> dict[str, object]:
    """The numbers of a row, in an event loop of its own."""
    import asyncio
    from dataclasses import asdict
    from importlib import import_module

    import rows
    from script import Missing

    library = import_module(f"subjects.{name}")
    try:
        numbers = asyncio.run(rows.ROWS[row](library))
    except Missing as missing:
        return {"problem": str(missing)}
    except Exception as error:
        return {"problem": f"failed: {type(error).__name__}: {error}"[:200]}
    return {"rows": {key: asdict(held) for key, held in numbers.items()}, "call": rows.call()}


def main() -> None:
    """Answer on what was standard output; what libraries print goes elsewhere."""
    import json
    import os

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: dict[str, object]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    name, *wanted = sys.argv[1:]
    if wanted == ["first"]:
        answer(first(name))
    else:
        answer(introduced(name))
        for line in sys.stdin:
            answer(measured(name, line.strip()))
    os._exit(0)  # some libraries keep threads that would not end


if __name__ == "__main__":
    main()
