"""What a digest takes, in calls: what all rows or lines have in common is looked at once."""

from collections.abc import Callable

from tests.support.linear import calls
from weft.digest import reduced
from weft.digest.alike import troubles_in
from weft.digest.asked import read_query
from weft.digest.records import record_table
from weft.digest.repeats import tabled_object, undo_tables
from weft.digest.tables import compared_columns
from weft.tokens import counter_for
from weft.values import JsonObject

COUNT = counter_for("gpt-5").count


def records(size: int) -> JsonObject:
    """What a tool answers with most often: records of short values."""
    words = ("alpha", "beta", "gamma", "delta")
    rows = [{"id": 500 + n, "name": words[n % 4], "ok": n % 3 == 0} for n in range(size)]
    return {"result": {"rows": rows}}


def more_calls(work: Callable[[int], object], *, each: float) -> None:
    """Raise AssertionError where ten times as much takes more than `each` calls for each more."""
    work(40)  # what is done once in a process is done
    few, many = (calls(lambda size=size: work(size)) for size in (40, 400))
    assert many - few <= each * 360, f"{few} calls for 40 and {many} for 400"


def test_lines_without_a_sign_of_failure_are_not_looked_at_one_by_one() -> None:
    more_calls(lambda size: troubles_in([f"{n} is done" for n in range(size)]), each=0)


def test_a_column_of_numbers_is_compared_at_once() -> None:
    more_calls(lambda size: compared_columns([[n, n / 7] for n in range(size)]), each=0)


def test_names_are_known_not_to_be_amounts_in_a_few_calls_each() -> None:
    rows = [[f"ab{n}x{n}"] for n in range(60)]
    count = calls(lambda: compared_columns(rows))
    assert count < 4 * len(rows), f"{count} calls"


def test_records_become_a_table_and_records_again_in_a_few_calls_each() -> None:
    value = {size: records(size) for size in (40, 400)}
    more_calls(lambda size: tabled_object(value[size]), each=16)
    tables = {size: tabled_object(value[size]) for size in value}
    assert all(undo_tables(tables[size]) == value[size] for size in value)


def test_a_table_is_read_in_a_few_calls_a_row() -> None:
    tables = {size: tabled_object(records(size))["result"] for size in (40, 400)}
    more_calls(lambda size: record_table(tables[size]["rows"]), each=20)


def test_a_digest_shows_plain_rows_without_a_look_at_each_cell_in_each_detail() -> None:
    rows = [{f"c{at}": n * at for at in range(24)} for n in range(40)]
    value = tabled_object({"result": {"rows": rows}})
    reduced(records(40), limit_tokens=200, count=COUNT)  # the tokenizer is loaded
    count = calls(lambda: reduced(value, limit_tokens=200, count=COUNT))
    assert count < 6 * 24 * 40, f"{count} calls for {24 * 40} cells"


def test_names_of_a_long_question_are_weighed_once() -> None:
    question = " ".join(f"name_{n}" for n in range(400))
    read_query(["a"], "Look.", question=question)
    again = calls(lambda: read_query(["name_1"], "Look.", question=question))
    assert again < 60, f"{again} calls"
