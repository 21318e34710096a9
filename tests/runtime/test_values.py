"""Structured answers that grow while they stream: `weft.stream(agent, ...).values()`."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import Agent, tool
from weft.errors import RunError
from weft.partial import NOTHING, PartialValue
from weft.testing import ScriptedModel, call, chunks


class Line(pydantic.BaseModel):
    what: str
    price: float = pydantic.Field(gt=0)


class Invoice(pydantic.BaseModel):
    number: str
    kind: Literal["a", "ab"]
    lines: list[Line]
    note: str | None = None

    @pydantic.field_validator("number")
    @classmethod
    def in_capitals(cls, number: str) -> str:
        return number.upper()


@dataclasses.dataclass(frozen=True)
class Trip:
    city: str
    days: int
    stops: tuple[str, ...] = ()


class Row(TypedDict):
    city: str
    days: int


class Circle(msgspec.Struct, tag="circle"):
    name: str
    radius: float


class Square(msgspec.Struct, tag="square"):
    name: str
    side: float


def grown(tp: object, text: str, step: int = 1) -> list[object]:
    """The different values that come of a text that comes in pieces."""
    partial, values = PartialValue(tp), list[object]()
    for start in range(0, len(text), step):
        value = partial.add(text[start : start + step])
        if value is not NOTHING and (not values or value != values[-1]):
            values.append(value)
    return values


def streaming(tp: object, *answers: Sequence[str]) -> Agent:
    return Agent("extract", model=ScriptedModel([chunks(*one) for one in answers])).returns(tp)


async def values_of(agent: Agent) -> list[object]:
    return [value async for value in weft.stream(agent, "Go.").values()]


async def test_a_value_grows_and_the_last_is_the_result() -> None:
    agent = streaming(Trip, ['{"city": "Os', 'lo", "days": 1', '2, "stops": ["Mo', 'ss"]}'])
    run = weft.stream(agent, "Go.")
    values = [value async for value in run.values()]
    assert values[:3] == [Trip("Os", None), Trip("Oslo", None), Trip("Oslo", 12, ("Mo",))]  # type: ignore[arg-type]
    assert values[-1] == Trip("Oslo", 12, ("Moss",))
    result = await run
    assert result.value == values[-1]
    assert [event.text for event in result.events] == [result.text]


async def test_text_deltas_stay_as_they_are() -> None:
    agent = streaming(Trip, ['{"city": "Oslo", ', '"days": 1}'])
    events = [event async for event in weft.stream(agent, "Go.")]
    assert [event.text for event in events if event.partial] == ['{"city": "Oslo", ', '"days": 1}']


async def test_the_text_of_an_agent_without_a_schema_grows() -> None:
    model = ScriptedModel([chunks("It ", "rains.")])
    assert await values_of(Agent("bot", model=model)) == ["It ", "It rains.", "It rains."]


async def test_an_answer_that_is_taken_back_begins_anew() -> None:
    agent = streaming(Trip, ["in ", "words"], ['{"city": "Oslo"', ', "days": 1}'])
    assert [str(value) for value in await values_of(agent)] == [
        "Trip(city='Oslo', days=None, stops=())",
        "Trip(city='Oslo', days=1, stops=())",
        "Trip(city='Oslo', days=1, stops=())",
    ]


async def test_an_answer_that_never_fits_is_an_error() -> None:
    with pytest.raises(RunError, match="invalid_output"):
        await values_of(streaming(Trip, ["a"], ["b"], ["c"]))


async def test_a_schema_with_one_field_named_result_is_itself() -> None:
    kind = dataclasses.make_dataclass("Outcome", [("result", int)])
    values = await values_of(streaming(kind, ['{"result": ', "5}"]))
    assert values[-1] == kind(5)
    assert weft.run_sync(streaming(list[int], ['{"result": [5]}']), "Go.").value == [5]


async def test_a_run_that_waits_gives_no_whole_value() -> None:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        return str(amount)

    agent = Agent("bot", model=ScriptedModel([call("pay", amount=1)]), tools=[pay]) @ Trip
    run = weft.stream(agent, "Go.")
    assert [value async for value in run.values()] == []
    assert list((await run).waiting.values()) == ["pay"]


async def test_tools_run_between_and_only_the_answer_grows() -> None:
    def look() -> str:
        """Look."""
        return "rain"

    model = ScriptedModel([call("look"), chunks('{"city": "Oslo", ', '"days": 1}')])
    values = await values_of(Agent("bot", model=model, tools=[look]) @ Trip)
    assert values[-1] == Trip("Oslo", 1)


def test_what_is_complete_is_validated_and_what_does_not_fit_is_left_out() -> None:
    text = '{"number":"a7","kind":"ab","lines":[{"what":"tea","price":-1}],"note":"x"}'
    values = [value for value in grown(Invoice, text) if isinstance(value, Invoice)]
    assert {value.number for value in values} == {None, "A7"}  # never in small letters
    assert {value.kind for value in values} == {None, "ab"}  # "a" is no answer yet
    assert {line.price for value in values for line in value.lines or []} == {None}
    assert values[0].note is None


@pytest.mark.parametrize(
    ("tp", "text", "values"),
    [
        (Row, '{"city":"O","days":1}', [{}, {"city": ""}, {"city": "O"}, {"city": "O", "days": 1}]),
        (list[int], '{"result":[1,22]}', [[], [1], [1, 22]]),
        (list[int], "```json\n[1,22]\n```", [[], [1], [1, 22]]),
        (dict[str, int], '{"a":1,"b":"x"}', [{}, {"a": 1}]),
        (tuple[int, str], '[1,"a"]', [(), (1,), (1, ""), (1, "a")]),
        (
            Circle | Square,
            '{"type":"square","name":"a","side":2}',
            [Square("", None), Square("a", None), Square("a", 2.0)],  # type: ignore[arg-type]
        ),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n":12}', [{}, {"n": 12}]),
        (str, '"a\\u00e4\\ud83d\\ude00"', ["", "a", "aä", "aä\U0001f600"]),
        (int, "42 ", [42]),
    ],
)  # fmt: skip
def test_each_kind_of_schema_grows(tp: object, text: str, values: list[object]) -> None:
    assert grown(tp, text) == values


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _json), st.integers(1, 7))
def test_any_object_in_any_pieces_ends_as_itself(value: dict[str, object], step: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        values = grown(dict[str, object], text, step)
        assert msgspec.json.encode(values[-1]) == msgspec.json.encode(value)


def test_one_more_item_validates_one_item() -> None:
    calls: list[str] = []

    class Counted(pydantic.BaseModel):
        word: str

        @pydantic.field_validator("word")
        @classmethod
        def count(cls, word: str) -> str:
            calls.append(word)
            return word

    text = json.dumps([{"word": f"w{number}"} for number in range(50)])
    grown(list[Counted], text, 3)
    assert len(calls) < 50 * 4
