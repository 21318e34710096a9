"""Arguments are held to what a message mentions, whatever the tool."""

from itertools import chain

import pytest

from weft.models.local_schema import call_schema
from weft.values import Json, JsonObject

TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}
WHOLE: JsonObject = {"type": "integer"}
FLAG: JsonObject = {"type": "boolean"}
NAMES: JsonObject = {"type": "array", "items": {"type": "string"}}
MONEY: JsonObject = {"type": "string", "enum": ["EUR", "GBP", "USD"]}


def ways(
    said: str,
    properties: dict[str, JsonObject],
    *,
    about: str = "Do it.",
    optional: tuple[str, ...] = (),
    before: dict[str, list[Json]] | None = None,
) -> list[dict[str, Json]]:
    """Every set of arguments that is allowed; a list where the model has to choose."""
    parameters: JsonObject = {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
    }
    tool: JsonObject = {"name": "do", "description": about, "parameters": parameters}
    held = call_schema(tool, said, before or {})
    arguments = held["properties"]["arguments"]  # type: ignore[index, call-overload]
    found: list[dict[str, Json]] = []
    for way in arguments.get("anyOf", [arguments]):  # type: ignore[union-attr]
        kept = way["properties"].items()  # type: ignore[index, call-overload, union-attr]
        found.append({name: each.get("const", each.get("enum")) for name, each in kept})  # type: ignore[union-attr]
    return found


def described(text: str, schema: JsonObject = TEXT) -> JsonObject:
    return {**schema, "description": text}


@pytest.mark.parametrize(
    ("said", "properties", "wanted"),
    [
        ("Book it for 3 nights, 2 guests.", {"guests": WHOLE, "nights": WHOLE},
         {"guests": 2, "nights": 3}),
        ("Between 3 and 9.5", {"low": NUMBER, "high": NUMBER}, {"low": 3, "high": 9.5}),
        ("Wait for twenty five minutes", {"minutes": WHOLE}, {"minutes": 25}),
        ("Pay 1,250.50 now", {"amount": NUMBER}, {"amount": 1250.5}),
        ("Set it to -4", {"level": WHOLE}, {"level": -4}),
        ("What is 12 plus 30?", {"expression": TEXT}, {"expression": "12 + 30"}),
        ("Compute (4 + 5) / 3 for me", {"expression": TEXT}, {"expression": "(4 + 5) / 3"}),
        ("See you on Friday at 3pm in Rome", {"city": TEXT, "when": TEXT},
         {"city": "Rome", "when": "Friday at 3pm"}),
        ("Meet me tomorrow at 5pm.", {"when": TEXT}, {"when": "tomorrow at 5pm"}),
        ("From Monday to Thursday", {"start_date": TEXT, "end_date": TEXT},
         {"start_date": "Monday", "end_date": "Thursday"}),
        ('Write "see you at noon" there', {"text": TEXT}, {"text": "see you at noon"}),
        ("Read src/main.py to me", {"path": TEXT}, {"path": "src/main.py"}),
        ("Has A-1007 shipped yet?", {"order_id": TEXT}, {"order_id": "A-1007"}),
        ("How do you bake an apple pie?", {"dish": TEXT}, {"dish": "apple pie"}),
        ("Turn off the heater", {"on": FLAG}, {"on": False}),
        ("Don't forget to switch it on", {"on": FLAG}, {"on": True}),
        ("Is it for Anna, Bob Smith and Cleo?", {"people": NAMES},
         {"people": ["Anna", "Bob Smith", "Cleo"]}),
    ],
)  # fmt: skip
def test_what_is_mentioned_goes_where_it_belongs(
    said: str, properties: dict[str, JsonObject], wanted: dict[str, Json]
) -> None:
    assert ways(said, properties) == [wanted]


def test_what_may_be_left_out_is_left_out_unless_it_is_mentioned() -> None:
    properties: dict[str, JsonObject] = {
        "city": TEXT, "unit": {"type": "string", "enum": ["metric", "imperial"]},
        "days": WHOLE, "hourly": FLAG, "note": TEXT,
    }  # fmt: skip
    optional = ("unit", "days", "hourly", "note")
    assert ways("Go to Oslo", properties, optional=optional) == [{"city": "Oslo"}]
    full = ways('Go to Oslo, metric, hourly, 4 days, "warm"', properties, optional=optional)
    assert {"unit": "metric", "days": 4, "hourly": True}.items() <= full[0].items()


def test_a_value_that_may_be_null_is_read_like_any_other() -> None:
    limit: JsonObject = {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}
    found = ways("Shoes below 50", {"query": TEXT, "limit": limit}, optional=("limit",))
    assert [each["limit"] for each in found] == [50]


def test_one_mention_fills_one_argument() -> None:
    found = ways("Where is sushi in Boston", {"food": TEXT, "city": TEXT})
    assert all(len(set(map(str, each.values()))) == 2 for each in found)
    assert set(map(str, chain.from_iterable(each.values() for each in found))) == {
        "sushi", "Boston",
    }  # fmt: skip


def test_direction_words_tell_which_is_which() -> None:
    properties = {"from_currency": MONEY, "to_currency": MONEY, "amount": NUMBER}
    for said in ("Turn 20 EUR into USD", "How many USD for 20 EUR?", "20 to USD from EUR"):
        assert ways(said, properties) == [
            {"from_currency": "EUR", "to_currency": "USD", "amount": 20}
        ]


def test_a_choice_that_is_named_once_is_not_given_twice() -> None:
    found = ways("Convert to EUR", {"source": MONEY, "target": MONEY})
    assert found == [{"source": ["GBP", "USD"], "target": "EUR"}]


def test_the_words_of_the_tool_are_no_values() -> None:
    found = ways("Order number 48213, please", {"order_id": TEXT}, about="Track an order.")
    assert found == [{"order_id": "48213"}]


def test_examples_in_descriptions_stay_values() -> None:
    unit = described("The unit, such as miles.")
    assert ways("Make it miles", {"unit": unit}) == [{"unit": "miles"}]


def test_earlier_arguments_can_be_meant_again() -> None:
    (found,) = ways("And tomorrow?", {"city": TEXT}, before={"city": ["Oslo"]})
    assert found == {"city": ["Oslo"]}


def test_a_message_without_spaces_is_left_to_the_model() -> None:
    (found,) = ways("東京の天気は", {"city": TEXT})
    assert found == {"city": None}


def test_a_long_message_stays_a_small_schema() -> None:
    said = " and ".join(f"Name{letter}" for letter in "abcdefghijklmnopqrstuvwxyz" * 8)
    found = ways(said, {"one": TEXT, "two": TEXT, "three": TEXT})
    assert len(found) <= 160
