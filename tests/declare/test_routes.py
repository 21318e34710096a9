"""O1: a route picks the first case that holds. Picking is a pure function of the state."""

import enum
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Agent, Route, Step
from weft.errors import DeclarationError, RunError
from weft.values import Json

a, b, c, d = (Agent(name) for name in "abcd")


def picked(route: Route, state: Mapping[str, Json]) -> str | None:
    """The name of the node the route leads to."""
    found = route.pick(state)
    return found[1].name if found is not None else None


# Cases.


def test_O1_the_example_of_a_trip() -> None:
    trip = Route("intent").eq("booking", a).otherwise(b)
    assert trip.pick({"intent": "booking"}) == ('eq("booking")', a)
    assert trip.pick({"intent": "weather"}) == ("otherwise", b)
    assert trip.pick({}) == ("otherwise", b)


@pytest.mark.parametrize(
    ("route", "value", "holds"),
    [
        (Route("k").eq("booking", a), "Booking", True),
        (Route("k").eq("booking", a), "  BOOKING\n", True),
        (Route("k").eq(" Booking ", a), "booking", True),
        (Route("k").eq("straße", a), "STRASSE", True),
        (Route("k").eq("booking", a), "booking.", False),
        (Route("k").eq("3", a), 3, False),
        (Route("k").eq(3, a), 3.0, True),
        (Route("k").eq(1, a), True, False),
        (Route("k").eq(True, a), True, True),
        (Route("k").eq(False, a), 0, False),
        (Route("k").eq([1, 2], a), [1, 2], True),
        (Route("k").eq({"x": 1}, a), {"x": 1}, True),
        (Route("k").ne("booking", a), "BOOKING", False),
        (Route("k").ne("booking", a), "weather", True),
        (Route("k").ne("booking", a), 3, True),
        (Route("k").contains("urgent", a), "This is URGENT!", True),
        (Route("k").contains("urgent", a), "All is well.", False),
        (Route("k").contains("vip", a), ["new", " VIP "], True),
        (Route("k").contains("vip", a), ["viper"], False),
        (Route("k").contains(2, a), [1, 2], True),
        (Route("k").contains(1, a), [True], False),
        (Route("k").contains("total", a), {"total": 3}, True),
        (Route("k").gt(0.8, a), 0.9, True),
        (Route("k").gt(0.8, a), 0.8, False),
        (Route("k").gte(0.8, a), 0.8, True),
        (Route("k").lt(3, a), 2, True),
        (Route("k").lt(3, a), 3, False),
        (Route("k").lte(3, a), 3, True),
        (Route("k").gt("b", a), "C", True),
        (Route("k").lte("b", a), " B ", True),
    ],
)
def test_a_case_compares_the_value_of_its_key(route: Route, value: Json, holds: bool) -> None:
    assert picked(route, {"k": value}) == ("a" if holds else None)
    assert picked(route.otherwise(d), {"k": value}) == ("a" if holds else "d")


def test_the_first_case_that_holds_decides() -> None:
    route = Route("score").gte(0.9, a).gte(0.5, b).otherwise(c)
    assert [picked(route, {"score": score}) for score in (0.95, 0.7, 0.1)] == ["a", "b", "c"]


def test_otherwise_may_stand_before_other_cases() -> None:
    assert Route("k").otherwise(c).eq(1, a).pick({"k": 1}) == ("eq(1)", a)


def test_a_key_may_walk_into_a_value_as_in_a_template() -> None:
    state: dict[str, Json] = {
        "invoice": {"total": 120, "lines": [{"kind": "travel"}]},
        "user:tier": "gold",
        "a.b": 1,
        "my-key": 2,
    }
    assert picked(Route("invoice.total").gt(100, a), state) == "a"
    assert picked(Route("invoice.lines[0].kind").eq("travel", a), state) == "a"
    assert picked(Route("user:tier").eq("gold", a), state) == "a"
    assert picked(Route("a.b").eq(1, a), state) == "a"
    assert picked(Route("my-key").eq(2, a), state) == "a"
    with pytest.raises(RunError, match=r"there is no `invoice\.vat` in the state"):
        Route("invoice.vat").gt(1, a).pick(state)


def test_a_key_may_be_a_function_asked_once() -> None:
    asked: list[Mapping[str, Json]] = []

    def length(state: Mapping[str, Json]) -> int:
        asked.append(state)
        return len(str(state["text"]))

    route = Route(length).gt(10, a).gt(3, b).otherwise(c)
    assert picked(route, {"text": "12345"}) == "b"
    assert len(asked) == 1
    assert picked(Route(lambda state: {"x", "y"}).contains("x", a), {}) == "a"


def test_when_asks_a_predicate_of_the_state() -> None:
    def is_vip(state: Mapping[str, Json]) -> bool:
        return state.get("tier") == "vip"

    route = Route("score").when(is_vip, a).gt(0.5, b).otherwise(c)
    assert route.pick({"tier": "vip"}) == ("when(is_vip)", a)
    assert picked(route, {"score": 0.7}) == "b"
    assert picked(route, {"score": 0.1}) == "c"


def test_what_a_predicate_answers_counts_as_true_or_false() -> None:
    assert picked(Route("k").when(lambda state: state["k"], a), {"k": [1]}) == "a"
    assert picked(Route("k").when(lambda state: state["k"], a), {"k": []}) is None
    assert picked(Route("k").when(lambda state: None, a), {"k": 1}) is None


def test_cases_are_data_with_labels_of_their_own() -> None:
    def vip(state: Mapping[str, Json]) -> bool:
        return True

    route = (
        Route("k")
        .eq("3", a)
        .eq(3, b)
        .gt(3, c)
        .when(vip, d)
        .when(lambda state: True, a)
        .when(lambda state: False, b)
        .when(lambda state: False, c)
    )
    assert [case.label for case in route.cases] == [
        'eq("3")',
        "eq(3)",
        "gt(3)",
        "when(vip)",
        "when(<lambda>)",
        "when(<lambda>) #2",
        "when(<lambda>) #3",
    ]
    first, *_, fourth, _, _, _ = route.cases
    assert (first.op, first.value, first.predicate, first.node) == ("eq", "3", None, a)
    assert (fourth.op, fourth.value, fourth.predicate, fourth.node) == ("when", None, vip, d)


def test_every_method_returns_a_copy() -> None:
    empty = Route("k")
    one = empty.eq(1, a)
    two = one.gt(5, b)
    whole = two.otherwise(c)
    assert (len(empty.cases), len(one.cases), len(two.cases)) == (0, 1, 2)
    assert (two.default, whole.default) == (None, c)
    assert one != two != whole
    assert whole == Route("k").eq(1, a).gt(5, b).otherwise(c)
    assert hash(Route("k").eq([1], a)) == hash(Route("k").eq([1], a))


def test_a_case_keeps_its_value_whatever_becomes_of_it() -> None:
    labels: list[Json] = [1]
    route = Route("k").eq(labels, a)
    labels.append(2)
    assert picked(route, {"k": [1]}) == "a"


def test_a_function_may_be_a_target() -> None:
    def skip(state: Mapping[str, Json]) -> None:
        return None

    assert Route("k").eq(1, skip).otherwise(skip).children == (Step(skip), Step(skip))


class Tier(enum.StrEnum):
    GOLD = "gold"


def test_a_string_enum_is_text() -> None:
    assert picked(Route("k").eq(Tier.GOLD, a), {"k": "Gold"}) == "a"


words = st.text(max_size=8)


@given(words, words)
def test_texts_are_compared_without_blanks_and_case(one: str, other: str) -> None:
    route = Route("k").eq(one, a)
    alike = one.strip().casefold() == other.strip().casefold()
    assert picked(route, {"k": other}) == ("a" if alike else None)
    assert picked(Route("k").ne(one, a), {"k": other}) == (None if alike else "a")
    assert picked(route, {"k": f" {one}\n"}) == "a"


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.integers())
def test_every_number_is_less_the_same_or_greater(found: float, bound: int) -> None:
    route = Route("k").lt(bound, a).eq(bound, b).gt(bound, c)
    assert picked(route, {"k": found}) is not None
    assert (picked(route, {"k": found}) == "c") is (found > bound)
    assert picked(Route("k").lte(bound, a).gt(bound, b), {"k": found}) in ("a", "b")


# Errors when picking: a wrong state is never a silent False.


@pytest.mark.parametrize("state", [{}, {"k": None}, {"other": 1}])
@pytest.mark.parametrize("case", [Route("k").eq("x", a), Route("k").ne("x", a)])
def test_a_missing_key_is_an_error_without_otherwise(case: Route, state: dict[str, Json]) -> None:
    with pytest.raises(RunError) as caught:
        case.pick(state)
    assert caught.value.where == 'Route("k")'
    assert caught.value.message == "there is no `k` in the state to route on"
    known = ", ".join(sorted(state)) or "nothing"
    assert caught.value.hint.endswith(f"the state has: {known}")
    assert picked(case.otherwise(d), state) == "d"


def test_a_missing_key_is_no_matter_if_a_predicate_decides_first() -> None:
    route = Route("k").when(lambda state: "vip" in state, a).eq("x", b)
    assert picked(route, {"vip": True}) == "a"
    with pytest.raises(RunError, match="there is no `k`"):
        route.pick({})


@pytest.mark.parametrize(
    ("route", "value", "message"),
    [
        (
            Route("k").gt(0.8, a),
            "0.9",
            'gt(0.8) cannot be decided: the text "0.9" has no order with the number 0.8',
        ),
        (Route("k").lt("b", a), 3, "the number 3 has no order with the text"),
        (Route("k").gte(1, a), True, "the bool True has no order with the number 1"),
        (Route("k").lte(1, a), [1], "the list [1] has no order with the number 1"),
        (Route("k").contains(3, a), "x3", 'the text "x3" cannot contain the number 3'),
        (Route("k").contains("x", a), 3, 'the number 3 cannot contain the text "x"'),
    ],
)
def test_what_cannot_be_compared_is_an_error_and_not_false(
    route: Route, value: Json, message: str
) -> None:
    for each in (route, route.otherwise(d)):
        with pytest.raises(RunError) as caught:
            each.pick({"k": value})
        assert caught.value.where == 'Route("k")'
        assert message in caught.value.message
        assert caught.value.hint


def test_a_predicate_that_raises_names_the_route_the_case_and_the_value() -> None:
    def is_high(state: Mapping[str, Json]) -> bool:
        return state["score"] > 0.5  # type: ignore[operator]

    route = Route("score", name="by_score").when(is_high, a).otherwise(b)
    with pytest.raises(RunError) as caught:
        route.pick({"score": "high"})
    assert caught.value.where == 'Route("score", name="by_score")'
    assert caught.value.message.startswith('when(is_high) failed on `score` = "high": TypeError: ')
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_key_function_that_raises_or_finds_nothing_is_an_error() -> None:
    def kind(state: Mapping[str, Json]) -> Json:
        return state["kind"]

    with pytest.raises(RunError, match="kind failed on state: KeyError: 'kind'"):
        Route(kind).eq(1, a).otherwise(b).pick({})
    with pytest.raises(RunError, match="`kind` found nothing in the state to route on"):
        Route(kind).eq(1, a).pick({"kind": None})
    assert picked(Route(kind).eq(1, a).otherwise(b), {"kind": None}) == "b"


def test_a_predicate_that_must_be_waited_for_is_an_error() -> None:
    async def later(state: Mapping[str, Json]) -> bool:
        return False

    with pytest.raises(RunError, match="it gave something to wait for"):
        Route("k").when(lambda state: later(state), a).pick({"k": 1})


# Errors at declaration.


def is_ready(state: Mapping[str, Json]) -> bool:
    return True


async def is_ready_later(state: Mapping[str, Json]) -> bool:
    return True


REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "no key": (lambda: Route("").eq(1, a), "Route().eq", "the route has none"),
    "a number": (lambda: Route(3), "route.key", "3 cannot be called"),  # type: ignore[arg-type]
    "async key": (lambda: Route(is_ready_later), "route.key", "does not answer at once"),
    "name": (lambda: Route("k", name="by kind"), "Route.name", "cannot be a route name"),
    "node": (lambda: Route("k").eq(1, 3), 'Route("k").eq', "3 is neither an agent"),  # type: ignore[arg-type]
    "default": (lambda: Route("k").otherwise(None), 'Route("k").otherwise', "None is neither"),  # type: ignore[arg-type]
    "empty": (
        lambda: Route("k").eq(1, Route("x")),
        'Route("k").eq',
        'Route("x") leads nowhere',
    ),
    "none": (lambda: Route("k").eq(None, a), 'Route("k").eq', "None is not a value"),
    "object": (
        lambda: Route("k").ne(object(), a),  # type: ignore[arg-type]
        'Route("k").ne',
        "an object is not a JSON value",
    ),
    "order": (lambda: Route("k").gt([1], a), 'Route("k").gt', "[1] has no order"),  # type: ignore[arg-type]
    "flag": (lambda: Route("k").lte(True, a), 'Route("k").lte', "True has no order"),
    "twice": (
        lambda: Route("k").eq("Booking", a).eq(" booking", b),
        'Route("k").eq',
        'the case eq("Booking") is there already',
    ),
    "asked twice": (
        lambda: Route("k").when(is_ready, a).when(is_ready, b),
        'Route("k").when',
        "`is_ready` is asked already",
    ),
    "two defaults": (
        lambda: Route("k").otherwise(a).otherwise(b),
        'Route("k").otherwise',
        "it is given twice",
    ),
    "predicate": (lambda: Route("k").when("x", a), 'Route("k").when', "'x' cannot be called"),  # type: ignore[arg-type]
    "arguments": (
        lambda: Route("k").when(lambda: True, a),  # type: ignore[arg-type, misc]
        'Route("k").when',
        "a predicate takes (state); `<lambda>` takes 0",
    ),
    "async": (
        lambda: Route("k").when(is_ready_later, a),
        'Route("k").when',
        "`is_ready_later` does not answer at once",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_route_that_cannot_be_right_is_refused_where_it_is_written(case: str) -> None:
    build, where, message = REFUSED[case]
    with pytest.raises(DeclarationError) as caught:
        build()
    assert caught.value.where == where
    assert message in caught.value.message
    assert caught.value.hint
