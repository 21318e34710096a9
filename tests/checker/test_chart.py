"""The mapping that worlds are made of: as a dict, and changed without being copied."""

import random

import pytest

from weft.checker.world import PAGE, Chart


def test_a_chart_is_what_a_dict_is_after_the_same_changes() -> None:
    rng = random.Random(7)
    keys = [f"k{number}" for number in range(5 * PAGE)]
    for _ in range(50):
        chart, mirror = Chart[int](), dict[str, int]()
        for _ in range(200):
            key = rng.choice(keys)
            match rng.randrange(4):
                case 0:
                    chart, mirror = chart.with_item(key, 1), {**mirror, key: 1}
                case 1:
                    more = {one: rng.randrange(9) for one in rng.sample(keys, 7)}
                    chart, mirror = chart.with_items(more), {**mirror, **more}
                case 2:
                    gone = rng.sample(keys, 3)
                    chart = chart.without(gone)
                    mirror = {k: v for k, v in mirror.items() if k not in gone}
                case _:
                    assert chart.get(key) == mirror.get(key)
                    assert chart.get(key, 5) == mirror.get(key, 5)
        assert dict(chart) == mirror
        assert len(chart) == len(mirror)
        assert bool(chart) == bool(mirror)
        assert all((key in chart) == (key in mirror) for key in keys)
        assert chart == Chart(mirror)


def test_what_a_chart_was_made_from_stays_as_it_is() -> None:
    first = Chart({"a": 1, "b": 2})
    assert dict(first.with_item("a", 3)) == {"a": 3, "b": 2}
    assert dict(first.without(("a",))) == {"b": 2}
    assert dict(first) == {"a": 1, "b": 2}


def test_nothing_is_made_where_nothing_changes() -> None:
    chart = Chart({"a": 1})
    assert chart.without(("b",)) is chart
    assert chart.with_items({}) is chart


def test_charts_that_differ_in_one_key_share_all_other_pages() -> None:
    chart = Chart({f"k{number}": number for number in range(10 * PAGE)})
    merges: list[object] = []

    def latest(pages: object) -> dict[str, int]:
        merges.append(pages)
        return {"k0": -1}

    chart.merge_with([chart.with_item("k0", -1)], latest)
    assert len(merges) == 1
    assert list(chart.with_item("k0", -1).since(chart)) == [("k0", -1)]
    assert list(chart.since(chart)) == []


def test_charts_of_different_origin_compare_and_merge_by_their_keys() -> None:
    one, other = Chart({"a": 1, "b": 2}), Chart({"b": 2, "a": 1})
    assert one == other
    assert one != Chart({"a": 1})
    assert one != {"a": 1, "b": 2}
    assert dict(one.since(Chart({"a": 1}))) == {"b": 2}
    merged = one.merge_with(
        [Chart({"c": 3, "a": 9})], lambda pages: {k: v for page in pages for k, v in page.items()}
    )
    assert dict(merged) == {"a": 9, "b": 2, "c": 3}


def test_a_key_that_is_not_there_is_an_error_as_in_a_dict() -> None:
    chart = Chart({"a": 1})
    for key in ("b", "c"):
        with pytest.raises(KeyError):
            chart[key]
        chart = chart.with_item("b", 2).without(("b",))
    assert "b" not in chart
