"""Rules on flows: loops whose condition nothing inside can change."""

from collections.abc import Iterable, Iterator

from weft.checker.functions import keys_of
from weft.checker.near import meant
from weft.checker.sites import Record
from weft.checker.writes import Writes, may_write_anything
from weft.codes import report
from weft.declare import Loop, Node, Step
from weft.declare.walk import walk_nodes
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
        if not keys.isdisjoint(writes.of(loop.body)) or not keys.isdisjoint(_touched(loop.body)):
            continue
        yield report(
            "WEFT404",
            Origin("field", "until" if loop.until is not None else "while_", loop.name),
            f"nothing in the loop writes {' or '.join(f'`{key}`' for key in sorted(keys))}, so"
            f" {'it always takes' if loop.until is not None else 'it takes none or'}"
            f" {loop.max} rounds",
            _meant(keys, writes.of(loop.body))
            or "write the key in the loop, or loop a fixed number of times: flow * 3",
        )


def _meant(keys: Iterable[str], written: Iterable[str]) -> str:
    """A hint with the key that is written in the loop, where the one asked for is misspelt."""
    known = [*written]
    return next((hint for key in sorted(keys) if (hint := meant(key, known))), "")


def _touched(body: Node) -> set[str]:
    """The keys whose values a step may change in place, or take away."""
    found: set[str] = set()
    for node, _ in walk_nodes(body):
        if isinstance(node, Step):
            keys = keys_of(node.function)
            found |= keys.touches | keys.drops | keys.may_drop | {*node.drops}
            found |= {old for old, _ in node.renames}
    return found
