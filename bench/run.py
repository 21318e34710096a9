"""All measurements, as ratios against a named baseline taken in the same run.

    make bench

Nothing here is a test: numbers depend on the machine, ratios less so. CPU time, best of
several rounds. A row whose baseline is not installed says so and is left out.
"""

import sys

import adk
import imports
import object_model
import steps
from table import Table


def main() -> int:
    """Run every group and print one table each."""
    missed = 0
    for group in (object_model.measure, imports.measure, steps.measure, adk.measure):
        table: Table = group()
        print(table, end="\n\n")
        missed += table.missed
    print(f"{missed} target(s) missed" if missed else "all targets met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
