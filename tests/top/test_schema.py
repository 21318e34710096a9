"""Signatures, types and values: what a model is told and what a function gets."""

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import subprocess
import sys
import typing
import uuid
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from weft.errors import DeclarationError, SchemaError
from weft.jsonschema import without_nulls
from weft.schema import of_function, of_type, read_docstring, validate_arguments, validate_value


class Context:
    """Stands for the tool context."""


class Narrow(Context):
    """A context of the user's own."""


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclasses.dataclass
class Point:
    """A place."""

    x: Annotated[int, "how far east"]
    seen: datetime.datetime | None = None
    unit: Unit = Unit.CELSIUS


@dataclasses.dataclass
class Node:
    value: int
    children: "list[Node]" = dataclasses.field(default_factory=list)


class Movie(TypedDict):
    title: Annotated[str, "as on the poster"]
    year: NotRequired[int]


class Order(msgspec.Struct, rename="camel"):
    order_id: uuid.UUID
    lines: list[Point]


class Item(pydantic.BaseModel):
    name: str
    price: decimal.Decimal = pydantic.Field(gt=0, description="in euros")


class Basket(pydantic.BaseModel):
    items: list[Item]
    title: str = "mine"


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Owner(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


def get_weather(city: str, units: Literal["c", "f"] = "c") -> dict[str, object]:
    """Current weather for a city.

    Args:
        city: Name of the city.
    """
    return {"city": city, "units": units}


def schema_of(annotation: object) -> dict[str, object]:
    return dict(of_type(annotation, where="here"))


# Signatures


def test_a_function_gives_its_name_texts_and_parameters_in_order() -> None:
    signature = of_function(get_weather, context_type=Context)
    assert signature.name == "get_weather"
    assert signature.description == "Current weather for a city."
    assert signature.has_docstring
    assert not signature.is_async
    assert signature.context_parameter is None
    assert json.dumps(signature.parameters) == json.dumps(
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city."},
                "units": {"type": "string", "enum": ["c", "f"], "default": "c"},
            },
            "required": ["city"],
        }
    )


def test_no_parameters_is_an_empty_object() -> None:
    def ping() -> str:
        return "pong"

    signature = of_function(ping, context_type=None)
    assert signature.parameters == {"type": "object", "properties": {}}
    assert signature.description == ""
    assert not signature.has_docstring


def with_class(query: str, ctx: Context) -> None: ...
def with_string(query: str, tool_context: "Context") -> None: ...
def with_optional(query: str, ctx: Context | None = None) -> None: ...
def with_subclass(query: str, ctx: Narrow) -> None: ...
def with_unresolvable(query: str, ctx: "Elsewhere.Context") -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    "function", [with_class, with_string, with_optional, with_subclass, with_unresolvable]
)
def test_the_context_never_appears_in_the_schema(function: typing.Callable[..., object]) -> None:
    signature = of_function(function, context_type=Context)
    assert list(typing.cast("dict[str, object]", signature.parameters["properties"])) == ["query"]
    assert signature.context_parameter in ("ctx", "tool_context")


def test_a_model_cannot_set_the_context_or_what_a_partial_bound() -> None:
    def search(tenant: str, query: str, ctx: Context, **filters: str) -> None: ...

    for bound in (functools.partial(search, "acme"), functools.partial(search, tenant="acme")):
        signature = of_function(bound, context_type=Context)
        assert signature.name == "search"
        assert signature.parameters == {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
            "additionalProperties": True,
        }
        assert validate_arguments(signature, {"query": "a", "lang": "no"}) == {
            "query": "a",
            "lang": "no",
        }
        for stolen in ("tenant", "ctx"):
            with pytest.raises(SchemaError, match=f"`{stolen}` is unknown"):
                validate_arguments(signature, {"query": "a", stolen: "evil"})


def test_methods_callable_objects_async_functions_and_named_lambdas_are_functions() -> None:
    class Search:
        """Finds things."""

        async def __call__(self, query: str) -> None: ...

        def run(self, query: str) -> None:
            """Run it."""

    called = of_function(Search(), context_type=None)
    assert (called.name, called.description, called.is_async) == ("Search", "Finds things.", True)
    method = of_function(Search().run, context_type=None)
    assert (method.name, method.description, method.is_async) == ("run", "Run it.", False)
    assert called.parameters == method.parameters
    assert of_function(functools.partial(Search(), query="x"), context_type=None).is_async
    anything = of_function(lambda value: value, context_type=None, name="echo")
    assert anything.parameters == {
        "type": "object",
        "properties": {"value": {}},
        "required": ["value"],
    }


def unbound(self: object, query: str) -> None: ...
def starred(*args: str) -> None: ...
def positional(a: str, /) -> None: ...
def unknown(a: "Missing") -> None: ...  # type: ignore[name-defined] # noqa: F821
def callback(a: typing.Callable[[], int]) -> None: ...
def two(a: Context, b: Context) -> None: ...


class Methods:
    def run(self, query: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "where", "problem"),
    [
        (starred, "agent.tools.it(args)", r"cannot give `\*args`"),
        (positional, "agent.tools.it(a)", "by name"),
        (unknown, "agent.tools.it(a)", "`Missing` cannot be resolved"),
        (callback, "agent.tools.it(a)", "has no JSON Schema"),
        (two, "agent.tools.it(b)", "already takes the context"),
        (Methods.run, "agent.tools.it(self)", "unbound method"),
    ],
)
def test_what_a_model_could_never_call_is_refused_with_the_place(
    function: typing.Callable[..., object], where: str, problem: str
) -> None:
    with pytest.raises(DeclarationError, match=problem) as caught:
        of_function(function, context_type=Context, where="agent.tools.it")
    assert caught.value.where == where
    assert caught.value.hint


def test_a_lambda_without_a_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="lambda"):
        of_function(lambda: 1, context_type=None)


def test_defaults_are_shown_where_they_are_json() -> None:
    def book(
        unit: Unit = Unit.CELSIUS,
        day: datetime.date = datetime.date(2026, 1, 2),
        limit: int = None,  # type: ignore[assignment] # noqa: RUF013
        key: object = object(),
        text: str = pydantic.Field("hi", max_length=5, description="greeting"),
    ) -> None: ...

    signature = of_function(book, context_type=None)
    assert signature.parameters == {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "day": {"type": "string", "format": "date", "default": "2026-01-02"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "key": {},
            "text": {"type": "string", "maxLength": 5, "description": "greeting", "default": "hi"},
        },
    }
    assert validate_arguments(signature, {}) == {"text": "hi"}


def test_what_annotated_says_wins_over_the_docstring_and_that_over_the_class() -> None:
    def go(
        a: Annotated[int, "from the string"],
        b: Annotated[int, msgspec.Meta(description="from the meta", ge=1)],
        c: Annotated[int, pydantic.Field(description="from the field", ge=1)],
        d: Point,
        e: Point,
    ) -> None:
        """Go.

        Args:
            a: docstring
            b: docstring
            c: docstring
            d: docstring
        """

    parameters = of_function(go, context_type=None).parameters
    properties = typing.cast("dict[str, dict[str, object]]", parameters["properties"])
    assert [properties[name].get("description") for name in "abcde"] == [
        "from the string",
        "from the meta",
        "from the field",
        "docstring",
        None,
    ]
    assert properties["b"]["minimum"] == properties["c"]["minimum"] == 1


def test_two_classes_of_one_name_stay_two() -> None:
    def make(tag: str) -> type:
        return dataclasses.make_dataclass("Same", [(tag, int), ("more", str)])

    left, right = make("left"), make("right")

    def join(a: left, b: list[left], c: right, d: list[right]) -> None: ...  # type: ignore[valid-type]

    parameters = of_function(join, context_type=None).parameters
    assert set(typing.cast("dict[str, object]", parameters["$defs"])) == {"Same", "Same_2"}
    assert "right" in json.dumps(parameters)
    assert "left" in json.dumps(parameters)


# Docstrings


@pytest.mark.parametrize(
    "text",
    [
        """Find a flight.

        Prices are in euros.

        Args:
            origin (str): Airport code,
                three letters.
            day: When.
            **extra: More.

        Returns:
            dict: The flight.

        Raises:
            ValueError: never

        Note:
            Slow at night.
        """,
        """Find a flight.

        Prices are in euros.

        Parameters
        ----------
        origin : str
            Airport code,
            three letters.
        day : date, optional
            When.
        **extra
            More.

        Returns
        -------
        dict
            The flight.

        Note
        ----
        Slow at night.
        """,
        """Find a flight.

        Prices are in euros.

        :param str origin: Airport code,
            three letters.
        :type origin: str
        :param day: When.
        :param extra: More.
        :returns: The flight.
        :raises ValueError: never

        Note:
            Slow at night.
        """,
    ],
    ids=["google", "numpy", "rest"],
)
def test_the_three_docstring_styles_say_the_same(text: str) -> None:
    found = read_docstring(text)
    assert found.parameters == {
        "origin": "Airport code, three letters.",
        "day": "When.",
        "extra": "More.",
    }
    assert found.description.startswith("Find a flight.\n\nPrices are in euros.\n\nNote")
    assert "Slow at night." in found.description
    assert "The flight" not in found.description
    assert "never" not in found.description


@pytest.mark.parametrize(
    "text",
    [
        "Just a line: with a colon.",
        "Args:",
        "Args:\nnot indented: so not a section",
        "Usage:\n    call it\n\nSee http://example.org: there",
        "",
    ],
)
def test_a_text_of_no_style_is_all_description(text: str) -> None:
    assert read_docstring(text).description == text
    assert read_docstring(text).parameters == {}


# Types


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
        (Unit, {"type": "string", "enum": ["c", "f"]}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (list[datetime.time], {"type": "array", "items": {"type": "string", "format": "time"}}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (object, {}),
        (typing.Any, {}),
        (Annotated[int, "n"], {"type": "integer", "description": "n"}),
        (
            Point,
            {
                "description": "A place.",
                "type": "object",
                "properties": {
                    "x": {"type": "integer", "description": "how far east"},
                    "seen": {
                        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
                        "default": None,
                    },
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                },
                "required": ["x"],
            },
        ),
        (
            Movie,
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "as on the poster"},
                    "year": {"type": "integer"},
                },
                "required": ["title"],
            },
        ),
        (
            Node,
            {
                "$ref": "#/$defs/Node",
                "$defs": {
                    "Node": {
                        "type": "object",
                        "properties": {
                            "value": {"type": "integer"},
                            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                        },
                        "required": ["value"],
                    }
                },
            },
        ),
        (
            Owner,
            {
                "type": "object",
                "properties": {
                    "pet": {
                        "oneOf": [
                            {
                                "type": "object",
                                "properties": {"kind": {"type": "string", "const": name}},
                                "required": ["kind"],
                            }
                            for name in ("cat", "dog")
                        ]
                    }
                },
                "required": ["pet"],
            },
        ),
    ],
)
def test_a_type_becomes_one_tidy_schema(annotation: object, schema: dict[str, object]) -> None:
    assert schema_of(annotation) == schema


def test_a_property_named_title_survives_and_only_repeated_titles_go() -> None:
    basket = schema_of(Basket)
    properties = typing.cast("dict[str, dict[str, object]]", basket["properties"])
    assert properties["title"] == {"type": "string", "default": "mine"}
    assert "title" not in basket
    kept = {"type": "object", "properties": {"a": {"title": "Amount due", "type": "number"}}}
    assert schema_of(kept) == kept


def test_unions_that_msgspec_refuses_are_read_by_pydantic() -> None:
    assert schema_of(datetime.date | str) == {
        "anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]
    }
    assert validate_value(datetime.date | str, "2026-01-02", where="w") in (
        datetime.date(2026, 1, 2),
        "2026-01-02",
    )


def test_pydantic_and_jsonschema_are_loaded_only_when_needed() -> None:
    code = (
        "import sys, weft.schema as s\n"
        "def f(a: int, b: list[str] | None = None): 'Text.'\n"
        "s.validate_arguments(s.of_function(f, context_type=None), {'a': 1})\n"
        "print(sorted({'pydantic', 'jsonschema_rs', 'docstring_parser'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_object_is_anything_and_needs_no_pydantic() -> None:
    code = (
        "import sys, weft.schema as s, collections.abc, dataclasses, typing\n"
        "sys.modules['pydantic'] = None\n"
        "@dataclasses.dataclass\n"
        "class Row:\n"
        "    value: object\n"
        "    rest: collections.abc.Sequence[object] = ()\n"
        "class Pair(typing.NamedTuple):\n"
        "    one: object\n"
        "def f(a: object, b: dict[str, object], c: list[object], d: Row, e: Pair): 'Text.'\n"
        "form = s.of_function(f, context_type=None)\n"
        "print({key: form.parameters['properties'][key] for key in 'abc'})\n"
        "print('x-anything' in str(form))\n"
        "values = {'a': None, 'b': {'x': [1]}, 'c': [{}], 'd': {'value': 1.5}, 'e': [{'y': 2}]}\n"
        "print(s.validate_arguments(form, values))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "{'a': {}, 'b': {'type': 'object'}, 'c': {'type': 'array'}}",
        "False",
        "{'a': None, 'b': {'x': [1]}, 'c': [{}], 'd': Row(value=1.5, rest=()),"
        " 'e': Pair(one={'y': 2})}",
    ]


def test_a_type_that_only_pydantic_reads_is_refused_without_it_with_what_to_type() -> None:
    code = (
        "import sys, datetime, pathlib, weft.schema as s, weft.errors as e\n"
        "sys.modules['pydantic'] = None\n"
        "for kind in (datetime.date | str, pathlib.Path):\n"
        "    try: s.of_type(kind, where='w')\n"
        "    except e.DeclarationError as error: print(error.message, '|', error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    union, path = done.stdout.splitlines()
    assert "may not contain more than one str-like type" in union
    assert path.startswith(
        "`Path` has no JSON Schema: type <class 'pathlib.Path'> is not supported"
    )
    assert union.endswith("pip install pydantic")
    assert path.endswith("pip install pydantic")


def test_a_schema_that_can_be_written_looks_for_no_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr("importlib.util.find_spec", never)
    assert of_type(dict[str, list[int]], where="w")["type"] == "object"


def test_a_handwritten_schema_is_copied_and_kept() -> None:
    written = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "additionalProperties": False,
    }
    schema = schema_of(written)
    assert schema == written
    written["type"] = "array"
    assert schema["type"] == "object"


def circular() -> dict[str, object]:
    schema: dict[str, object] = {"type": "object"}
    schema["properties"] = {"self": schema}
    return schema


def deep(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def deep_type(levels: int) -> object:
    annotation: object = int
    for _ in range(levels):
        annotation = list[annotation]  # type: ignore[valid-type]
    return annotation


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (circular(), "contains itself"),
        (deep(1000), "deeper than 100"),
        (deep_type(1000), "nests too deep|deeper than 100|has no JSON Schema"),
        ({"type": "strnig"}, "not a JSON Schema"),
        ({"properties": {"a": 3}}, "not a JSON Schema"),
        ({"$ref": "#/$defs/nowhere"}, "not a JSON Schema"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "not a JSON Schema"),
        ({"$schema": "http://127.0.0.1:9/meta"}, "not a JSON Schema"),
        ({"enum": {1, 2}}, "a set cannot stand"),
        ({1: "x"}, "an int cannot stand"),
        ({"minimum": float("nan")}, "nan is not a JSON number"),
        (typing.Callable[[], int], "has no JSON Schema"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(wrong: object, problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem) as caught:
        of_type(wrong, where="bot.output_schema")
    assert caught.value.where == "bot.output_schema"
    assert caught.value.hint


# Values


def test_arguments_arrive_as_the_function_wants_them() -> None:
    def book(
        count: int, unit: Unit, place: Point, order: Order, basket: Basket, day: datetime.date
    ) -> None: ...

    key = "12345678-1234-5678-1234-567812345678"
    assert validate_arguments(
        of_function(book, context_type=None),
        {
            "count": "5",
            "unit": "f",
            "place": {"x": 1, "unit": "f"},
            "order": {"orderId": key, "lines": [{"x": 2}]},
            "basket": {"items": [{"name": "tea", "price": "1.50"}]},
            "day": "2026-01-02",
        },
    ) == {
        "count": 5,
        "unit": Unit.FAHRENHEIT,
        "place": Point(1, None, Unit.FAHRENHEIT),
        "order": Order(uuid.UUID(key), [Point(2)]),
        "basket": Basket(items=[Item(name="tea", price=decimal.Decimal("1.50"))]),
        "day": datetime.date(2026, 1, 2),
    }


def test_leniency_stops_where_the_text_could_be_meant() -> None:
    def take(a: int | str, b: str, c: bool, d: float) -> None: ...

    given = {"a": "5", "b": "5", "c": "true", "d": "2"}
    assert validate_arguments(take, {**given}) == {"a": "5", "b": "5", "c": True, "d": 2.0}
    with pytest.raises(SchemaError, match=r"`c`: expected boolean, got \"maybe\""):
        validate_arguments(take, {**given, "c": "maybe"})
    with pytest.raises(SchemaError, match="`b`: expected string, got 5"):
        validate_arguments(take, {**given, "b": 5})


def test_null_for_what_may_be_left_out_is_left_out() -> None:
    def take(a: Literal["c", "f"] = "c", b: int | None = 3, c: Point | None = None) -> None: ...

    signature = of_function(take, context_type=None)
    assert validate_arguments(
        signature, {"a": None, "b": None, "c": {"x": 1, "unit": None, "seen": None}}
    ) == {"b": None, "c": Point(1)}


@pytest.mark.parametrize(
    ("schema", "given", "meant"),
    [
        ({"properties": {"a": {"type": "string"}}}, {"a": None}, {}),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"enum": [1, None]}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": None}, {"a": None}),
        (
            {
                "anyOf": [
                    {"properties": {"k": {"const": 1}, "v": {"type": "null"}}, "required": ["k"]},
                    {"properties": {"k": {"const": 2}, "v": {"type": "string"}}, "required": ["k"]},
                ]
            },
            {"k": 2, "v": None},
            {"k": 2},
        ),
        (
            {"items": {"allOf": [{"properties": {"a": {"allOf": [{"type": "string"}]}}}]}},
            [{"a": None}, {"a": "x"}],
            [{}, {"a": "x"}],
        ),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}}, {"a": None}, {}),
    ],
)
def test_only_a_null_that_can_mean_nothing_else_is_taken_out(
    schema: typing.Any, given: typing.Any, meant: typing.Any
) -> None:
    assert without_nulls(schema, given) == meant


def test_every_bad_missing_and_unknown_argument_is_named() -> None:
    def book(
        city: str, days: Annotated[int, msgspec.Meta(ge=1)], unit: Unit, at: Point
    ) -> None: ...

    with pytest.raises(SchemaError) as caught:
        validate_arguments(
            of_function(book, context_type=None),
            {"citty": "Oslo", "days": 0, "unit": "kelvin", "at": {"unit": 3}},
        )
    assert caught.value.where == "book"
    assert caught.value.message == (
        "`city` is missing, expected string; `days`: expected integer >= 1, got 0; "
        '`unit`: expected one of "c", "f", got "kelvin"; '
        '`at.x` is missing, expected integer; `at.unit`: expected one of "c", "f", got 3; '
        "`citty` is unknown, did you mean `city`?"
    )
    assert caught.value.hint == (
        "arguments: city (string, required), days (integer >= 1, required), "
        'unit (one of "c", "f", required), at (object with x, seen, unit, required)'
    )


def test_an_error_stays_short_enough_for_a_model() -> None:
    def take(values: list[int]) -> None: ...

    with pytest.raises(SchemaError) as caught:
        validate_arguments(take, {"values": ["x" * 10_000] * 500})
    assert "and 492 more" in str(caught.value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("annotation", "good", "parsed"),
    [
        (Point, {"x": 1}, Point(1)),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
        (Movie, {"title": "Alien"}, {"title": "Alien"}),
        (Item, {"name": "tea", "price": 2}, Item(name="tea", price=decimal.Decimal(2))),
        (list[Item], [{"name": "a", "price": 2}], [Item(name="a", price=decimal.Decimal(2))]),
        (list[int], [1, 2], [1, 2]),
        ({"type": "object", "required": ["a"]}, {"a": 1}, {"a": 1}),
    ],
)
def test_an_answer_becomes_its_type(annotation: object, good: typing.Any, parsed: object) -> None:
    assert validate_value(annotation, good, where="w") == parsed


@pytest.mark.parametrize(
    ("annotation", "bad", "problems"),
    [
        (Point, {"unit": "k"}, ["`x` is missing", "`unit`: expected one of"]),
        (
            Node,
            {"value": 1, "children": [{"value": "x"}]},
            ["`children[0].value`: expected integer"],
        ),
        (Basket, {"items": [{"price": -1}]}, ["`items[0].name`: missing", "`items[0].price`: "]),
        (list[int], {"a": 1}, ["`answer`: expected array of integer"]),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]},
            {"a": "x"},
            ["`a`: ", '"b" is a required property'],
        ),
    ],
)
def test_a_bad_answer_lists_path_and_problem(
    annotation: object, bad: typing.Any, problems: list[str]
) -> None:
    with pytest.raises(SchemaError) as caught:
        validate_value(annotation, bad, where="bot.output_schema")
    assert caught.value.where == "bot.output_schema"
    for problem in problems:
        assert problem in caught.value.message


LINKED = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "children": {"items": {"$ref": "#"}}},
}


class Linked(pydantic.BaseModel):
    value: str
    children: list["Linked"] = []


@pytest.mark.parametrize("annotation", [Node, Linked, LINKED], ids=["dataclass", "model", "dict"])
def test_a_bottomless_answer_is_an_error_not_a_crash(annotation: object) -> None:
    for levels in (20, 48, 60, 100_000):
        value: dict[str, object] = {"value": []}
        for _ in range(levels):
            value = {"value": 1, "children": [value]}
        with pytest.raises(SchemaError):
            validate_value(annotation, typing.cast("typing.Any", value), where="w")
