"""The prompt: its notes, and the laws that are checked after every pass."""

import pytest

from tests.support.items import make_item, prompt_over
from weft.diagnostics import Origin
from weft.errors import InvalidPrompt
from weft.ir import CallBlock, Item, Note, Prompt, ResultBlock, verify
from weft.ir.prompt import LateSequence, PassNotes
from weft.session.strand import Strand


def test_notes_are_added_without_a_copy_and_made_when_they_are_read() -> None:
    made: list[str] = []

    def make() -> list[Note]:
        made.append("now")
        return [Note("late", "it was", make_item(1))]

    none = PassNotes()
    assert none.plus(()) is none
    assert none.plus(Strand[Note]()) is none
    one = none.plus([Note("first", "it was", make_item(0))])
    both = one.plus(LateSequence(make))
    assert both.parts[0] is one.parts[0]
    assert not made
    assert [note.step for note in both.since(one)] == ["late"]
    assert len(both) == 2
    assert made == ["now"]


def exchange(*blocks: CallBlock | ResultBlock) -> Prompt:
    return prompt_over(Strand([Item("exchange", blocks, "a", "i", 0, 1, "e0")]))


CALL = CallBlock(role="model", origin=Origin("event", "e0"), id="c1", name="look", args={})
RESULT = ResultBlock(
    role="user", origin=Origin("event", "e1"), call_id="c1", name="look", response={}
)


def test_a_law_that_is_broken_names_the_pass() -> None:
    verify(exchange(CALL, RESULT), step="mine")
    for broken, why in (
        (exchange(CALL), "has no result"),
        (exchange(RESULT), "has no call before it"),
        (exchange(CALL, CALL, RESULT), "occurs twice"),
    ):
        with pytest.raises(InvalidPrompt, match=why) as raised:
            verify(broken, step="mine")
        assert raised.value.where == "pass mine"


def test_an_item_that_joins_later_is_held_against_the_laws_too() -> None:
    sound = Strand([make_item(0), make_item(1)])
    verify(prompt_over(sound), step="mine")
    broken = Item("exchange", (CALL,), "a", "i", 2, 2, "e2")
    for grown in (sound.with_tail([broken]), sound.extend([broken])):
        with pytest.raises(InvalidPrompt, match="has no result"):
            verify(prompt_over(grown), step="mine")
