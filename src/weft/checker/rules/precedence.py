"""The rule on precedence: `a | b >> c` is a | (b >> c), and so read as nobody meant it."""

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from weft.checker.sites import Read, Record
from weft.checker.writes import Writes
from weft.codes import report
from weft.declare import Node, Parallel, Sequence
from weft.declare.show import show
from weft.declare.walk import agents_of, walk_nodes
from weft.diagnostics import Diagnostic, Origin


def likely_precedence(record: Record) -> Iterator[Diagnostic]:
    """A branch of several steps, of which one reads what a branch beside it writes.

    At the end of the last branch it was meant to stand behind them all; where another branch
    reads what the beginning of the first writes, that was meant to stand before them all; or both.
    """
    for node, index, reads in record.siblings:
        if node.name != "parallel":
            continue
        meant = _meant(node, index, reads)
        if meant:
            yield report(
                "WEFT405",
                Origin("field", "branches", node.name),
                f"`>>` binds tighter than `|`: this is {show(node)}, and a branch reads what"
                " another writes",
                f"write {meant}",
            )


def _meant(node: Parallel, index: int, reads: tuple[Read, ...]) -> str:
    """The flow that was meant, if a pair of parentheses makes it right."""
    branches = node.branches
    last, first = branches[-1], branches[0]
    heads = _keys_before_last(first)
    if index == len(branches) - 1 and _is_plain(last):
        inner = _names(last.steps[0])
        early = [read for read in reads if (read.origin.agent or read.origin.name) in inner]
        if not early:
            meant = [show(one) for one in (*branches[:-1], last.steps[0])]
            return f"({' | '.join(meant)}) >> {_chain(last.steps[1:])}"
        if len(early) < len(reads) and _is_plain(first) and all(r.key in heads for r in early):
            meant = [show(one) for one in (first.steps[-1], *branches[1:-1], last.steps[0])]
            before, behind = _chain(first.steps[:-1]), _chain(last.steps[1:])
            return f"{before} >> ({' | '.join(meant)}) >> {behind}"
    if index > 0 and _is_plain(first) and all(read.key in heads for read in reads):
        tails = [show(one) for one in (first.steps[-1], *branches[1:])]
        return f"{_chain(first.steps[:-1])} >> ({' | '.join(tails)})"
    return ""


def _keys_before_last(node: Node) -> set[str]:
    """What all but the last step of a branch write."""
    writes = Writes()
    steps = node.steps[:-1] if _is_plain(node) else ()
    return {key for step in steps for key in writes.of(step)}


def _chain(steps: Iterable[Node]) -> str:
    return " >> ".join(show(one) for one in steps)


def _is_plain(node: Node) -> TypeGuard[Sequence]:
    """Whether it was written with `>>`, not given a name of its own."""
    return isinstance(node, Sequence) and node.name == "sequence"


def _names(node: Node) -> set[str]:
    agents = {agent.name for agent in agents_of(node)}
    return agents | {one.name for one, _ in walk_nodes(node)}
