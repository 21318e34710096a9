"""All measurements, as ratios against a named baseline taken in the same run.

    make bench                          every group
    python bench/run.py runtime         one group, or several of those below

Nothing here is a test: numbers depend on the machine, ratios less so. CPU time, best of
several rounds. A baseline that is not installed is reported as such.
"""

import sys
from types import ModuleType

import adk
import calls
import imports
import libraries
import object_model
import steps
import stored

GROUPS: dict[str, ModuleType] = {
    "object_model": object_model,
    "imports": imports,
    "steps": steps,
    "stored": stored,
    "adk": adk,
    "calls": calls,
    "runtime": libraries,
}


def main(wanted: list[str]) -> int:
    """Run the groups and print one table each."""
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        known = ", ".join(GROUPS)
        print(f"error: there is no group {unknown[0]!r}\n  hint: write one of {known}")
        return 2
    missed = 0
    for name in wanted or GROUPS:
        table = GROUPS[name].measure()
        print(table, end="\n\n", flush=True)
        missed += table.missed
    print(f"{missed} target(s) missed" if missed else "all targets met")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
