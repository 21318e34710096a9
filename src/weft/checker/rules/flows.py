"""Rules on flows: loops whose condition nothing inside can change."""

from collections.abc import Iterator

from weft.checker.functions import keys_of
from weft.checker.sites import Record
from weft.checker.writes import Writes, may_write_anything
from weft.codes import report
from weft.declare import Loop
from weft.diagnostics import Diagnostic, Origin


def loop_without_exit(record: Record) -> Iterator[Diagnostic]:
    """A loop that ends only because its rounds are counted: nothing in it writes what it asks."""
    seen: set[int] = set()
    writes = Writes()
    for site in record.sites:
        loop = site.node
        if not isinstance(loop, Loop) or id(loop) in seen:
            continue
        seen.add(id(loop))
        predicate = loop.until if loop.until is not None else loop.while_
        if predicate is None:
            continue
        asked = keys_of(predicate)
        keys = asked.reads | asked.optional | asked.guarded
        if not asked.reads_all or not keys or may_write_anything(loop.body):
            continue
        written = writes.of(loop.body)
        if not keys.isdisjoint(written):
            continue
        yield report(
            "WEFT404",
            Origin("field", "until" if loop.until is not None else "while_", loop.name),
            f"nothing in the loop writes {' or '.join(f'`{key}`' for key in sorted(keys))}, so"
            f" {'it always takes' if loop.until is not None else 'it takes none or'}"
            f" {loop.max} rounds",
            "write the key in the loop, or loop a fixed number of times: flow * 3",
        )
