"""The loop over items: what a pass keeps is what it would work out anew."""

import random

import pytest

from tests.support.items import make_item, prompt_over
from weft.ir import Item, Note
from weft.passes.rewrite import PassFold, fold_items, keep_since, rewrite_items
from weft.session.strand import Strand


def shorten(item: Item, _: None) -> Item | Note:
    """A pass that drops every third item, cuts every other one, and leaves the rest."""
    if item.position % 3 == 0:
        return Note("shorten", "it is a third", item)
    if item.position % 2 == 0:
        short = make_item(-item.position)
        return Note("shorten", "it is even", item, short)
    return item


@pytest.mark.parametrize("seed", range(20))
def test_a_grown_strand_is_rewritten_as_a_cold_one(seed: int) -> None:
    dice = random.Random(seed)
    strand: Strand[Item] = Strand()
    position, until = 0, 0
    for _ in range(12):
        fresh = [make_item(position + step) for step in range(dice.randrange(4))]
        position += len(fresh)
        strand = strand.grown(fresh)
        tail = [make_item(position + step) for step in range(dice.randrange(3))]
        until = max(until, dice.randrange(position + 1))
        waits = until if dice.random() < 0.5 else None
        key = "waits" if waits is not None else "at once"
        grown = rewrite_items(
            prompt_over(strand.with_tail(tail)), "shorten", shorten, key=key, until=waits
        )
        cold = rewrite_items(
            prompt_over(Strand(strand.since(0)).with_tail(tail)), "shorten", shorten, until=waits
        )
        assert grown.items == cold.items
        assert grown.notes == cold.notes


def test_a_pass_that_changes_nothing_gives_the_prompt_itself() -> None:
    prompt = prompt_over(Strand([make_item(1), make_item(5)]).with_tail([make_item(7)]))
    assert rewrite_items(prompt, "shorten", shorten) is prompt


def test_a_fold_knows_the_settled_items_and_forgets_a_tail() -> None:
    counted: list[int] = []

    def change(item: Item, seen: list[int]) -> Item:
        counted.append(len(seen))
        seen.append(item.position)
        return item

    fold = PassFold[list[int]](list, lambda seen: [*seen])
    strand = Strand([make_item(0), make_item(1)])
    first = fold_items(prompt_over(strand.with_tail([make_item(2)])), "count", change, fold=fold)
    again = fold_items(prompt_over(strand.grown([make_item(3)])), "count", change, fold=fold)
    assert first.state == [0, 1, 2]
    assert again.state == [0, 1, 3]
    assert counted == [0, 1, 2, 2]  # the settled ones were read once


def test_a_suffix_notes_what_it_leaves_out() -> None:
    prompt = keep_since(
        prompt_over(Strand([make_item(n) for n in range(4)])), 3, "window", "it is old"
    )
    assert [item.position for item in prompt.items] == [3]
    assert [(note.before.position, note.reason) for note in prompt.notes] == [
        (0, "it is old"),
        (1, "it is old"),
        (2, "it is old"),
    ]
