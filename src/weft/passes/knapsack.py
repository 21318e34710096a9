"""What gives way so that a request fits: which items, in which order, and how far.

The order in which things are given up does not depend on the budget: a budget only says how far
down that order to go. So a larger one never keeps less. What is given up goes in blocks of a
stride, so that requests between two cuts extend each other; the strides of budgets divide each
other, and a budget shortly before a longer stride counts as less, so that blocks keep that law.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from weft.ir import Item

FADES = 8
"""How many of what goes next are shortened before the oldest of them goes."""

INDEPENDENT = ("state", "summary", "system", "hidden")
"""Kinds that neither ask nor answer."""


class Change(NamedTuple):
    """What becomes of an item; None where it goes."""

    at: int
    form: Item | None
    why: str


class Step(NamedTuple):
    """Changes that belong together, and the tokens they save at least."""

    changes: tuple[Change, ...]
    saved: int


class Unit(NamedTuple):
    """Items that go together, in their tier."""

    tier: int
    indexes: tuple[int, ...]


Phase: TypeAlias = Callable[[int], Iterable[Step]]
"""One round over the items, of which so many tokens are wanted.

Its steps are worked out as far as they are needed. What must go anyway is one step.
"""
Shorten: TypeAlias = Callable[[int], Step | None]
"""A shorter form of an item as a step, or None where it has none that saves anything."""


def stride_for(limit: int) -> tuple[int, int]:
    """The stride of a budget, an eighth to a quarter of it, and the tokens to come down to."""
    stride = 1 << max(0, (limit // 4).bit_length() - 1)
    return stride, min(limit, 7 * stride) if limit < 8 * stride else limit


def units_of(items: list[Item], tiers: list[int], stays: set[int]) -> list[Unit]:
    """What may go, the oldest first: answers one by one, a question with the last of its answers.

    So no answer stands without its question, and a question that matters more than its answers
    goes in its own tier. Nothing goes that something depends on which stays.
    """
    units: list[Unit] = []
    for asked, answers in _turns(items):
        loose = [index for index in answers if index not in stays]
        last = max(loose, key=lambda index: (-tiers[index], index), default=None)
        free = len(loose) == len(answers) and not stays.intersection(asked)
        tier = min((tiers[index] for index in asked), default=0)
        joins = last is not None and tier >= tiers[last]
        for index in loose:
            goes = (*asked, index) if free and joins and index == last else (index,)
            units.append(Unit(tiers[index], goes))
        if asked and free and not joins:
            units.append(Unit(tier, tuple(asked)))
    for index, item in enumerate(items):
        if item.kind in INDEPENDENT and index not in stays:
            units.append(Unit(tiers[index], (index,)))
    return sorted(units, key=lambda unit: unit.indexes[-1])


def _turns(items: list[Item]) -> Iterator[tuple[list[int], list[int]]]:
    """What was asked, and what answers it, for every turn; the first may ask nothing."""
    asked: list[int] = []
    answers: list[int] = []
    for index, item in enumerate(items):
        if item.kind in INDEPENDENT:
            continue
        if item.kind != "user":
            answers.append(index)
            continue
        if answers:
            yield asked, answers
            asked, answers = [], []
        asked.append(index)
    if asked or answers:
        yield asked, answers


def shortened(indexes: Iterable[int], shorten: Shorten) -> Phase:
    """Shorten the items, one by one."""
    return lambda _: (step for index in indexes if (step := shorten(index)) is not None)


def dropped(units: list[Unit], sizes: list[int], why: str) -> Phase:
    """Let the units go, one by one."""

    def steps(wanted: int) -> Iterator[Step]:
        surely, first = _surely(units, sizes, why, wanted, 0)
        yield from first
        yield from (_drop(unit, sizes, why) for unit in units[surely:])

    return steps


def faded(units: list[Unit], sizes: list[int], why: str, shorten: Shorten) -> Phase:
    """Let the units go, one by one, each after those behind it were shortened."""

    def steps(wanted: int) -> Iterator[Step]:
        ahead, first = _surely(units, sizes, why, wanted, FADES)
        yield from first
        for place, unit in enumerate(units[ahead:], ahead):
            while ahead < min(len(units), place + FADES):
                for index in units[ahead].indexes:
                    if (step := shorten(index)) is not None:
                        yield step
                ahead += 1
            yield _drop(unit, sizes, why)

    return steps


def _surely(
    units: list[Unit], sizes: list[int], why: str, wanted: int, spare: int
) -> tuple[int, tuple[Step, ...]]:
    """How many units go in any case, with `spare` more not enough yet, and that as one step."""
    ends = list(accumulate(sum(sizes[index] for index in unit.indexes) for unit in units))
    surely = max(0, bisect_left(ends, wanted) - spare - 1)
    if not surely:
        return 0, ()
    gone = (index for unit in units[:surely] for index in unit.indexes)
    return surely, (Step(tuple(Change(index, None, why) for index in gone), ends[surely - 1]),)


def _drop(unit: Unit, sizes: list[int], why: str) -> Step:
    changes = tuple(Change(index, None, why) for index in unit.indexes)
    return Step(changes, sum(sizes[index] for index in unit.indexes))


class Given:
    """What was given up so far: the form of each item that changed, the last change last."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        """What each item takes now; the list that phases look at."""
        self.changes: dict[int, Change] = {}

    def take(self, step: Step) -> int:
        """Give up one step more; the tokens that saves."""
        saved = step.saved
        for change in step.changes:
            self.changes.pop(change.at, None)
            self.changes[change.at] = change
        if len(step.changes) == 1 and step.changes[0].form is not None:
            self.sizes[step.changes[0].at] -= saved
            return saved
        for change in step.changes:
            self.sizes[change.at] = 0
        return saved


def give_up(
    phases: Iterable[Phase], excess: int, stride: int, given: Given, fits: Callable[[], bool]
) -> bool:
    """Give up phase after phase until `excess` tokens are saved; whether it fits then.

    Within a phase whole strides are given up. Bounds are sums, and a whole may be a little more
    than those of its parts: so `fits` has the last word, and a step more is taken until it holds.
    """
    enough = False
    for phase in phases:
        wanted = -(-excess // stride) * stride
        saved = 0
        for step in phase(max(wanted, 0)):
            if not enough and (saved >= wanted or excess <= 0):
                enough = True
            if enough and fits():
                return True
            saved += given.take(step)
        excess -= saved
        if excess <= 0 and fits():
            return True
        enough = enough or excess <= 0
    return fits()
