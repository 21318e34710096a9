"""Records as tables: shorter, and the same again letter for letter."""

import json

from hypothesis import given
from hypothesis import strategies as st

from weft.digest.repeats import make_tables, tabled_object, tabled_text, undo_tables
from weft.values import JsonObject

FLIGHTS = [
    {"number": f"HAT{n:03}", "seats": {"economy": n, "business": 9}, "price": 100.50 + n}
    for n in range(12)
]

cells = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4))
values = st.recursive(
    cells,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "b", "c.d", "rows", "columns"]), inner, max_size=3),
    ),
    max_leaves=20,
)


def test_the_names_of_fields_stand_once() -> None:
    text = json.dumps({"flights": FLIGHTS}, indent=2)
    short = tabled_text(text)
    assert short.count("economy") == 1
    assert '"columns":["number","seats.economy","seats.business","price"]' in short
    assert undo_tables(json.loads(short)) == {"flights": FLIGHTS}
    assert len(short) < 0.5 * len(text)


def test_lists_of_records_in_a_list_share_their_names() -> None:
    pairs = [FLIGHTS[n : n + 2] for n in range(0, 12, 2)]
    short = tabled_text(json.dumps(pairs))
    assert short.count("economy") == 1
    assert undo_tables(json.loads(short)) == pairs


def test_numbers_keep_their_spelling_and_odd_texts_stay() -> None:
    row = '{"name":"first","amount":1.50,"other":1e3}'
    text = f"[{','.join([row] * 9)}]"
    assert "1.50" in tabled_text(text)
    double = '{"a":1,"a":2,"bcdefg":3}'
    twice = f"[{','.join([double] * 9)}]"
    assert tabled_text(twice) == twice  # a field that stands twice is lost in a table
    table = {"columns": ["a"], "rows": [[1]], "x": FLIGHTS}
    looks = json.dumps([{"columns": [1], "rows": [2]}, FLIGHTS], separators=(",", ":"))
    assert tabled_text(looks) == looks
    assert undo_tables(json.loads(tabled_text(json.dumps(table)))) == table
    assert tabled_text("no JSON {") == "no JSON {"


@given(values)
def test_a_table_gives_the_records_back_and_is_never_longer(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    short = tabled_text(text)
    assert len(short) <= len(text)
    assert short == tabled_text(text)
    if short != text:
        assert undo_tables(json.loads(short)) == value


@given(st.dictionaries(st.sampled_from(["a", "b", "rows"]), values, max_size=3))
def test_an_object_is_the_same_again(value: JsonObject) -> None:
    table = tabled_object(value)
    assert table is value or undo_tables(table) == value
    assert make_tables(1) == 1
