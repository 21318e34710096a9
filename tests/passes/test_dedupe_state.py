"""Answers that the instruction carries: the quick way finds what the slow one does."""

from hypothesis import given
from hypothesis import strategies as st

from weft.diagnostics import Origin
from weft.ir import Feature, Item, Prompt, TextBlock
from weft.passes.dedupe import dedupe_state, find_carried
from weft.passes.env import Env, InstructionFacts
from weft.session.strand import Strand
from weft.values import Json

_keys = st.sampled_from(["a", "b", "c"])
_texts = st.sampled_from(["yes", " yes", "no", "1", "[1]", ""])
_carried_texts = st.dictionaries(_keys, _texts, min_size=1)
_carried_values = st.dictionaries(
    _keys, _texts | st.sampled_from([1, True, ["yes", "no"], {"x": "yes"}]), min_size=1
)
_answers = st.lists(st.tuples(_texts, st.lists(_keys, unique=True)), max_size=4)


@given(_carried_texts | _carried_values, _answers)
def test_an_answer_is_left_out_under_the_key_that_the_slow_way_finds(
    carried: dict[str, Json], answers: list[tuple[str, list[str]]]
) -> None:
    env = Env(agent="bot", instruction=InstructionFacts(carried=carried))
    items = [
        Item(
            "model",
            (TextBlock(role="model", origin=Origin("event", f"e{at}"), text=text),),
            "other",
            "i",
            at,
            at,
            f"e{at}",
            wrote=tuple(wrote),
        )
        for at, (text, wrote) in enumerate(answers)
    ]
    prompt = Prompt("m", "bot", items=Strand(items), features=Feature.WROTE)
    after = dedupe_state(prompt, env)
    dropped = {note.before.position: note.reason for note in after.notes}
    for item, (text, wrote) in zip(items, answers, strict=True):
        key = find_carried(wrote, text, carried) if wrote else ""
        expected = f"the instruction carries it as {{{key}}}" if key else None
        assert dropped.get(item.position) == expected
    assert [item.position for item in after.items] == [
        item.position for item in items if item.position not in dropped
    ]
