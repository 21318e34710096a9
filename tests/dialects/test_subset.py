"""The provider subsets: what a schema accepts is accepted, and what is lost is said."""

import copy
import typing
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.laws import all_laws
from weft.dialects import anthropic, gemini, openai_common
from weft.dialects.legality import refuse_complexity, refuse_schema
from weft.dialects.schema_subset import Loss, SchemaRules, fit_schema, wrap_root, write_schema
from weft.errors import DeclarationError
from weft.jsonschema import validator, walk, without_nulls
from weft.values import Json, JsonObject

Lower = Callable[[JsonObject], tuple[JsonObject, tuple[Loss, ...]]]


RULES = {
    "gemini": gemini.SCHEMAS,
    "anthropic": anthropic.SCHEMAS,
    "openai": openai_common.SCHEMAS,
}


def lowering(rules: SchemaRules, *, strict: bool) -> Lower:
    def lower(schema: JsonObject) -> tuple[JsonObject, tuple[Loss, ...]]:
        return write_schema(rules, schema, strict=strict)

    return lower


for_gemini = lowering(gemini.SCHEMAS, strict=False)
LOWERINGS: dict[str, Lower] = {
    "gemini": for_gemini,
    "anthropic": lowering(anthropic.SCHEMAS, strict=True),
    "openai": lowering(openai_common.SCHEMAS, strict=True),
    "anthropic-open": lowering(anthropic.SCHEMAS, strict=False),
    "openai-open": lowering(openai_common.SCHEMAS, strict=False),
}


def strict_possible(schema: JsonObject, provider: str) -> bool:
    """Whether strict mode can say all of this; if not, it is lowered without, or wrapped."""
    rules = RULES[provider.removesuffix("-open")]
    if not rules.strict:
        return True
    return not wrap_root(schema)[1] and fit_schema(rules, schema, strict=True).possible


every_lowering = pytest.mark.parametrize("provider", LOWERINGS)


def obj(required: list[str] | None = None, **properties: Json) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema if required is None else {**schema, "required": list[Json](required)}


STRING: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}
TREE: JsonObject = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": obj(["v"], v=INTEGER, kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    },
}
REQUIRED_TREE: JsonObject = obj(
    ["root"],
    root={"$ref": "#/$defs/Node", "description": "the top"},
) | {
    "$defs": {
        "Node": obj(
            ["v", "kids"], v=INTEGER, kids={"type": "array", "items": {"$ref": "#/$defs/Node"}}
        )
    }
}
PETS: JsonObject = obj(
    ["pet"],
    pet={
        "oneOf": [
            obj(["kind", "lives"], kind={"const": "cat"}, lives=INTEGER),
            obj(["kind"], kind={"const": "dog", "type": "string"}, name=STRING),
        ]
    },
)

CASES: dict[str, tuple[JsonObject, list[Json]]] = {
    "plain": (obj(["a"], a=STRING, b=INTEGER), [{"a": "x"}, {"a": "x", "b": 1}]),
    "empty": (obj(), [{}]),
    "bounds": (
        obj(
            ["n", "s", "l"],
            n={"type": "integer", "exclusiveMinimum": 1, "maximum": 9, "multipleOf": 2},
            s={"type": "string", "minLength": 1, "pattern": "^a(?!b)", "format": "byte"},
            l={"type": "array", "items": STRING, "minItems": 2, "uniqueItems": True},
        ),
        [{"n": 2, "s": "ac", "l": ["a", "b"]}, {"n": 8, "s": "a", "l": ["a", "b", "c"]}],
    ),
    "defaults": (
        obj(
            a={**STRING, "default": "c", "description": "unit"}, b={"type": "null", "default": None}
        ),
        [{}, {"a": "k"}, {"b": None}],
    ),
    "enums": (
        obj(
            ["a", "c", "d"],
            a={"enum": ["x", "y"], "type": "string"},
            b={"enum": ["x", None]},
            c={"enum": [1, 2.5]},
            d={"const": 7},
            e={"enum": ["p", None], "type": ["string", "null"]},
        ),
        [
            {"a": "x", "b": None, "c": 2.5, "d": 7, "e": None},
            {"a": "y", "b": "x", "c": 1, "d": 7, "e": "p"},
            {"a": "y", "c": 1, "d": 7},
        ],
    ),
    "bool const": (
        obj(["a"], a={"const": True}, b={"const": None}),
        [{"a": True}, {"a": True, "b": None}],
    ),
    "unions": (
        obj(
            ["a"],
            a={"type": ["string", "integer", "null"], "minLength": 1},
            b={"anyOf": [STRING, INTEGER]},
        ),
        [{"a": "x"}, {"a": 4, "b": 1}, {"a": None, "b": "q"}],
    ),
    "one of": (PETS, [{"pet": {"kind": "cat", "lives": 9}}, {"pet": {"kind": "dog"}}]),
    "overlapping one of": (
        obj(
            ["a"],
            a={"oneOf": [{"type": "integer", "minimum": 5}, {"type": "number", "maximum": 1}]},
        ),
        [{"a": 7}, {"a": 0.5}],
    ),
    "all of": (
        obj(
            ["p"],
            p={
                "allOf": [{"$ref": "#/$defs/A"}, obj(["b"], b={"type": "integer", "maximum": 3})],
                "description": "both",
            },
        )
        | {"$defs": {"A": obj(["a"], a=STRING, b={"type": "integer", "minimum": 1})}},
        [{"p": {"a": "x", "b": 2}}],
    ),
    "described ref": (
        obj(
            ["a"],
            a={"$ref": "#/$defs/P", "description": "first"},
            b={"$ref": "#/$defs/P", "description": "second", "default": None},
            c={"$ref": "#/$defs/P"},
        )
        | {"$defs": {"P": obj(["x"], x=INTEGER), "Unused": STRING}},
        [{"a": {"x": 1}}, {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}}],
    ),
    "pointers": (
        obj(
            ["a"],
            a=obj(["x"], x=INTEGER),
            b={"$ref": "#/properties/a"},
            c={"$ref": "#/definitions/C~1d"},
        )
        | {"definitions": {"C/d": STRING}},
        [{"a": {"x": 1}}, {"a": {"x": 1}, "b": {"x": 2}, "c": "z"}],
    ),
    "tree": (TREE, [{"v": 1}, {"v": 1, "kids": [{"v": 2, "kids": [{"v": 3}]}]}]),
    "required tree": (REQUIRED_TREE, [{"root": {"v": 1, "kids": [{"v": 2, "kids": []}]}}]),
    "self": (obj(next={"$ref": "#"}, v=INTEGER), [{}, {"next": {"next": {"v": 1}}}]),
    "recursive union": (
        obj(["j"], j={"$ref": "#/$defs/J"})
        | {"$defs": {"J": {"anyOf": [STRING, {"type": "array", "items": {"$ref": "#/$defs/J"}}]}}},
        [{"j": "a"}, {"j": ["a", ["b"]]}],
    ),
    "tuple": (
        obj(
            ["t"],
            t={"type": "array", "prefixItems": [STRING, INTEGER], "items": False, "minItems": 2},
        ),
        [{"t": ["a", 1]}],
    ),
    "free dict": (
        obj(["d"], d={"type": "object", "additionalProperties": INTEGER}),
        [{"d": {"q": 1}}],
    ),
    "open": (obj(["a"], a=STRING) | {"additionalProperties": True}, [{"a": "x", "z": 1}]),
    "anything": (obj(["a"], a={}, b=True), [{"a": 1, "b": [2]}, {"a": {"x": None}}]),
    "conditions": (
        obj(["a"], a=STRING, b=INTEGER)
        | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}}
        | {"if": {"required": ["b"]}, "then": {"required": ["a"]}, "minProperties": 1},
        [{"a": "x"}, {"a": "x", "b": 2}],
    ),
    "forbidden": (obj(a=STRING, b=False), [{"a": "x"}, {}]),
    "untyped object": (obj(["o"], o={"properties": {"a": INTEGER}}), [{"o": {"a": 1}}]),
    "annotations": (
        obj(["a"], a={**STRING, "examples": ["x"], "x-order": 1, "readOnly": True, "$comment": "c"})
        | {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Thing"},
        [{"a": "x"}],
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


def filled(value: Json, schema: Json, root: JsonObject) -> Json:
    """The value as a model must write it: null for each required property that it leaves out."""
    if not isinstance(schema, dict):
        return value
    if isinstance(ref := schema.get("$ref"), str):
        return filled(
            value, typing.cast("JsonObject", root["$defs"])[ref.removeprefix("#/$defs/")], root
        )
    if isinstance(arms := schema.get("anyOf"), list):
        for arm in arms:
            tried = filled(value, arm, root)
            body = {**typing.cast("JsonObject", arm), "$defs": root.get("$defs", {})}
            if validator(body).is_valid(tried):
                return tried
        return value
    if isinstance(value, list):
        return [filled(item, schema.get("items"), root) for item in value]
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        missing = {name: None for name in properties if name not in value}
        return {
            **{key: filled(item, properties.get(key), root) for key, item in value.items()},
            **missing,
        }
    return value


def check_accepts(schema: JsonObject, value: Json, provider: str) -> None:
    """What the author accepts can be sent, and read back as it was meant."""
    assert validator(schema).is_valid(value)
    wire, _ = LOWERINGS[provider](schema)
    sent = filled(value, wire, wire) if provider == "openai" else value
    assert validator(wire).is_valid(sent), (wire, sent)
    assert validator(schema).is_valid(without_nulls(schema, sent)), sent


def the_wire_accepts_what_the_author_accepts(case: str, provider: str) -> None:
    schema, accepted = CASES[case]
    if provider in ("anthropic", "openai") and not strict_possible(schema, provider):
        provider += "-open"  # as the dialects do
    for value in accepted:
        check_accepts(schema, value, provider)


def the_input_is_not_touched_and_the_output_is_the_same_each_time(case: str, provider: str) -> None:
    schema, _ = CASES[case]
    before = copy.deepcopy(schema)
    first, second = LOWERINGS[provider](schema), LOWERINGS[provider](schema)
    assert schema == before
    assert first == second
    assert validator(first[0])


LAWS = [
    the_wire_accepts_what_the_author_accepts,
    the_input_is_not_touched_and_the_output_is_the_same_each_time,
]


@every_case
def test_every_law_holds_for_every_schema_and_provider(case: str) -> None:
    with all_laws() as laws:
        for provider in LOWERINGS:
            laws.check(f"{provider}: {case}", LAWS, case, provider)


def pairs() -> st.SearchStrategy[tuple[JsonObject, st.SearchStrategy[Json]]]:
    """A schema, and values that it accepts."""
    leaves: list[tuple[JsonObject, st.SearchStrategy[Json]]] = [
        (STRING, st.text(max_size=3)),
        ({"type": "integer", "exclusiveMinimum": 2, "maximum": 9}, st.integers(3, 9)),
        ({"type": "number", "minimum": 0}, st.integers(0, 5)),
        ({"type": "boolean"}, st.booleans()),
        ({"enum": ["a", "b", None]}, st.sampled_from(["a", "b", None])),
        ({"const": "k"}, st.just("k")),
        ({"type": ["string", "null"], "maxLength": 2}, st.none() | st.text(max_size=2)),
        ({"$ref": "#/$defs/P"}, st.just({"x": 1})),
        ({"$ref": "#/$defs/P", "description": "d"}, st.just({"x": 1, "y": "z"})),
    ]

    def grow(inner: st.SearchStrategy[typing.Any]) -> st.SearchStrategy[typing.Any]:
        arrays = inner.map(
            lambda pair: (
                {"type": "array", "items": pair[0], "maxItems": 3},
                st.lists(pair[1], max_size=3),
            )
        )
        unions = st.tuples(inner, inner).map(
            lambda two: ({"anyOf": [two[0][0], two[1][0]]}, two[0][1] | two[1][1])
        )
        objects = st.tuples(
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
            st.sets(st.sampled_from("abc")),
        ).map(lambda drawn: as_object(*drawn))
        return arrays | unions | objects

    def as_object(
        parts: dict[str, tuple[JsonObject, st.SearchStrategy[Json]]], wanted: set[str]
    ) -> tuple[JsonObject, st.SearchStrategy[Json]]:
        required = [name for name in parts if name in wanted]
        schema = obj(required, **{name: part for name, (part, _) in parts.items()})
        values = st.fixed_dictionaries(
            {name: parts[name][1] for name in required},
            optional={name: parts[name][1] for name in parts if name not in required},
        )
        return schema, typing.cast("st.SearchStrategy[Json]", values)

    return st.recursive(st.sampled_from(leaves), grow, max_leaves=6)


def refuses_nothing_that_was_written_for_it(schema: JsonObject, provider: str) -> None:
    """One table says how a schema is written and what is refused: the two agree."""
    rules = RULES[provider]
    fit = fit_schema(rules, schema, strict=True)
    if fit.possible:
        assert not [*refuse_schema(fit.schema, "", rules, strict=True)], fit.schema


@given(st.data())
def test_any_schema_accepts_on_the_wire_what_it_accepted(data: st.DataObject) -> None:
    part, values = data.draw(pairs())
    schema = obj(["it"], it=part) | {"$defs": {"P": obj(["x"], x=INTEGER, y=STRING)}}
    value: Json = {"it": data.draw(values)}
    for provider in LOWERINGS:
        check_accepts(schema, value, provider)
    for provider in ("openai", "anthropic"):
        assert strict_possible(schema, provider)
        refuses_nothing_that_was_written_for_it(schema, provider)


# The SDKs' own ideas of their subset


def strict_cases(provider: str) -> Iterator[JsonObject]:
    for schema, _ in CASES.values():
        if strict_possible(schema, provider):
            yield schema


def test_the_openai_sdk_has_nothing_to_change() -> None:
    from openai.lib._pydantic import _ensure_strict_json_schema  # pyright: ignore[reportPrivateUsage]

    for schema in strict_cases("openai"):
        wire, _ = LOWERINGS["openai"](schema)
        again = copy.deepcopy(wire)
        assert _ensure_strict_json_schema(again, path=(), root=again) == wire
        for node in walk(wire):
            assert not node.keys() & {
                "oneOf",
                "allOf",
                "default",
                "not",
                "minLength",
                "uniqueItems",
            }
            assert "$ref" not in node or len(node.keys() - {"$defs"}) == 1
            if isinstance(properties := node.get("properties"), dict):
                assert node["required"] == list(properties)
                assert node["additionalProperties"] is False
            if node.get("type") == "array":
                assert "items" in node


def test_the_anthropic_sdk_has_nothing_to_change() -> None:
    from anthropic import transform_schema

    for schema in strict_cases("anthropic"):
        wire, _ = LOWERINGS["anthropic"](schema)
        assert transform_schema(typing.cast("dict[str, typing.Any]", wire)) == wire


GEMINI_READS = {
    *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum"),
    *("items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf"),
    *("properties", "additionalProperties", "required", "propertyOrdering", "default"),
}  # from the documentation of response_json_schema; default by the wire table


@every_case
def test_gemini_is_sent_only_what_it_reads(case: str) -> None:
    from google.genai import types as gemini

    wire, _ = for_gemini(CASES[case][0])
    for node in walk(wire):
        assert node.keys() <= GEMINI_READS
        assert "$ref" not in node or node.keys() == {"$ref"}
        for item in typing.cast("list[Json]", node.get("enum", [])):
            assert isinstance(item, (str, int, float))
            assert not isinstance(item, bool)
    assert gemini.FunctionDeclaration(name="f", parameters_json_schema=wire)
    if case != "tuple":  # the SDK's class has no prefixItems; the API has
        assert gemini.JSONSchema.model_validate(wire)


# What is lost is said


@pytest.mark.parametrize(
    ("schema", "provider", "pointer", "kind"),
    [
        ({**STRING, "minLength": 3}, "gemini", "/properties/p/minLength", "moved"),
        ({**STRING, "minLength": 3}, "anthropic", "/properties/p/minLength", "moved"),
        ({**STRING, "minLength": 3}, "openai", "/properties/p/minLength", "moved"),
        ({**STRING, "pattern": "^a"}, "gemini", "/properties/p/pattern", "moved"),
        ({**STRING, "pattern": "^(?=a)"}, "openai", "/properties/p/pattern", "moved"),
        ({**STRING, "format": "uri"}, "openai", "/properties/p/format", "moved"),
        ({**INTEGER, "minimum": 3}, "anthropic", "/properties/p/minimum", "moved"),
        (
            {"type": "number", "exclusiveMinimum": 3},
            "gemini",
            "/properties/p/exclusiveMinimum",
            "moved",
        ),
        (
            {"type": "array", "items": STRING, "minItems": 2},
            "anthropic",
            "/properties/p/minItems",
            "moved",
        ),
        ({**STRING, "default": "x"}, "openai", "/properties/p/default", "moved"),
        ({**STRING, "default": "x"}, "anthropic", "/properties/p/default", "moved"),
        ({"not": STRING}, "gemini", "/properties/p/not", "moved"),
        ({"const": True}, "gemini", "/properties/p/enum", "moved"),
        ({**STRING, "x-note": 1}, "gemini", "/properties/p/x-note", "dropped"),
        ({"oneOf": [INTEGER, {"type": "number"}]}, "gemini", "/properties/p/oneOf", "widened"),
        ({"oneOf": [INTEGER, {"type": "number"}]}, "openai", "/properties/p/oneOf", "widened"),
        ({"oneOf": [INTEGER, {"type": "number"}]}, "anthropic", "/properties/p/oneOf", "widened"),
        ({"type": "object"}, "openai", "/properties/p", "impossible"),
        (
            {"type": "object", "additionalProperties": STRING},
            "anthropic",
            "/properties/p",
            "impossible",
        ),
        ({}, "openai", "/properties/p", "impossible"),
        ({"type": "array"}, "openai", "/properties/p", "impossible"),
        ({"type": "array", "prefixItems": [STRING]}, "anthropic", "/properties/p", "impossible"),
        ({"$ref": "#"}, "anthropic", "/properties/p/$ref", "impossible"),
        (
            {"allOf": [{"pattern": "a"}, {"pattern": "b"}]},
            "openai",
            "/properties/p/allOf",
            "impossible",
        ),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "gemini", "/properties/p/allOf", "moved"),
    ],
)
def test_a_loss_has_a_place_and_a_kind(
    schema: JsonObject, provider: str, pointer: str, kind: str
) -> None:
    wire, losses = LOWERINGS[provider](obj(["p"], p=schema))
    assert (pointer, kind) in [(loss.pointer, loss.kind) for loss in losses]
    if kind == "moved":
        (moved,) = [loss for loss in losses if loss.pointer == pointer]
        part = typing.cast("dict[str, JsonObject]", wire["properties"])["p"]
        word = "Default" if moved.keyword == "default" else moved.keyword
        assert word in str(part["description"])


@every_lowering
def test_a_schema_that_fits_loses_nothing(provider: str) -> None:
    schema = obj(
        ["a", "b"], a={**STRING, "description": "a text"}, b={"type": "array", "items": INTEGER}
    )
    wire, losses = LOWERINGS[provider](schema)
    assert losses == ()
    assert {key: wire[key] for key in schema} == schema


@pytest.mark.parametrize("provider", ["gemini", "anthropic", "openai"])
def test_alternatives_told_apart_by_a_constant_lose_nothing_as_any_of(provider: str) -> None:
    _, losses = LOWERINGS[provider](PETS)
    assert "oneOf" not in [loss.keyword for loss in losses]


def test_openai_strict_says_that_optional_became_nullable() -> None:
    wire, losses = LOWERINGS["openai"](
        obj(["a"], a=STRING, b=STRING, c={"enum": ["x"], "description": "d"}, d={"type": "null"})
    )
    assert wire == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {"description": "d", "anyOf": [{"enum": ["x"]}, {"type": "null"}]},
            "d": {"type": "null"},
        },
        "required": ["a", "b", "c", "d"],
        "additionalProperties": False,
    }
    assert [(loss.pointer, loss.kind) for loss in losses] == [
        (f"/properties/{name}", "changed") for name in "bcd"
    ]


def test_gemini_recurs_only_through_optional_properties() -> None:
    wire, losses = for_gemini(REQUIRED_TREE)
    node = typing.cast("dict[str, JsonObject]", wire["$defs"])["Node"]
    assert node["required"] == ["v"]
    assert [(loss.pointer, loss.keyword, loss.kind) for loss in losses] == [
        ("/$defs/Node/properties/kids", "required", "widened")
    ]
    assert for_gemini(TREE)[1] == ()


def test_gemini_takes_integer_bounds_exactly() -> None:
    bounded: JsonObject = {
        "type": "integer",
        "exclusiveMinimum": 1,
        "exclusiveMaximum": 9,
        "minimum": 0,
    }
    wire, losses = for_gemini(obj(["p"], p=bounded))
    assert losses == ()
    assert wire["properties"] == {"p": {"type": "integer", "minimum": 2, "maximum": 8}}


@pytest.mark.parametrize(
    ("case", "openai", "anthropic"),
    [
        ("plain", True, True),
        ("empty", True, True),
        ("bounds", True, True),
        ("one of", True, True),
        ("all of", True, True),
        ("described ref", True, True),
        ("pointers", True, True),
        ("conditions", True, True),
        ("tree", True, False),
        ("self", True, False),
        ("recursive union", True, False),
        ("tuple", False, False),
        ("free dict", False, False),
        ("open", False, False),
        ("anything", False, False),
    ],
)
def test_strict_is_possible_or_not(case: str, openai: bool, anthropic: bool) -> None:
    schema, _ = CASES[case]
    assert strict_possible(schema, "openai") is openai
    assert strict_possible(schema, "anthropic") is anthropic
    assert strict_possible(schema, "gemini")


# Without strict


@pytest.mark.parametrize("provider", ["anthropic-open", "openai-open"])
def test_without_strict_all_of_json_schema_goes_through_below_the_root(provider: str) -> None:
    for name, (schema, _) in CASES.items():
        wire, losses = LOWERINGS[provider](schema)
        if name not in ("tree", "conditions"):
            assert (wire, losses) == (schema, ())
    wire, losses = LOWERINGS[provider](CASES["conditions"][0])
    assert "anyOf" not in wire
    assert '"anyOf":[{"required":["a"]}' in str(wire["description"])
    assert "anyOf" in [loss.keyword for loss in losses]
    wire, losses = LOWERINGS[provider](TREE)
    assert (wire["type"], losses) == ("object", ())


def test_a_root_that_is_no_object_is_refused_until_it_is_wrapped() -> None:
    numbers: JsonObject = {"type": "array", "items": INTEGER}
    for provider in ("anthropic", "openai", "anthropic-open", "openai-open"):
        with pytest.raises(DeclarationError, match="root of this schema is not an object"):
            LOWERINGS[provider](numbers)
        assert not strict_possible(numbers, provider)
        wrapped, was = wrap_root(numbers)
        assert was
        assert strict_possible(wrapped, provider)
        check_accepts(wrapped, {"result": [1, 2]}, provider)
    assert for_gemini(numbers) == (numbers, ())


def test_wrapping_keeps_references_whole() -> None:
    tree: JsonObject = {"anyOf": [STRING, {"type": "array", "items": {"$ref": "#"}}], "title": "T"}
    wrapped, was = wrap_root(tree)
    assert was
    assert validator(wrapped).is_valid({"result": ["a", ["b"]]})
    assert not validator(wrapped).is_valid({"result": ["a", [3]]})
    named: JsonObject = {"type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": INTEGER}}
    wrapped, _ = wrap_root(named)
    assert validator(wrapped).is_valid({"result": [1]})
    assert not validator(wrapped).is_valid({"result": ["x"]})
    assert wrap_root(TREE) == (TREE, False)
    assert wrap_root(obj(a=STRING)) == (obj(a=STRING), False)


# Hostile input


@every_lowering
def test_bottomless_and_circular_schemas_are_refused_in_words(provider: str) -> None:
    deep: JsonObject = STRING
    for _ in range(1000):
        deep = obj(["a"], a=deep)
    with pytest.raises(DeclarationError, match="deeper than 100 levels"):
        LOWERINGS[provider](deep)
    circular: JsonObject = obj()
    typing.cast("JsonObject", circular["properties"])["self"] = circular
    with pytest.raises(DeclarationError, match="contains itself"):
        LOWERINGS[provider](circular)


@every_lowering
def test_references_that_lead_nowhere_end(provider: str) -> None:
    for schema in (
        obj(["a"], a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"$ref": "#/$defs/A"}}},
        obj(["a"], a={"$ref": "#/$defs/A", "description": "d"})
        | {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        obj(["a"], a={"allOf": [{"$ref": "#/$defs/A"}]})
        | {"$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}}},
        obj(["a"], a={"$ref": "other.json"}),
        {"type": "object", "$ref": "#"},
    ):
        assert isinstance(LOWERINGS[provider](schema), tuple)


# What is refused


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_provider_refuses_nothing_that_was_written_for_it(provider: str) -> None:
    for schema in strict_cases(provider):
        refuses_nothing_that_was_written_for_it(schema, provider)


@pytest.mark.parametrize("provider", RULES)
def test_no_keyword_is_kept_and_refused(provider: str) -> None:
    rules = RULES[provider]
    refused = {*rules.refused}.union(*rules.refused_of_type.values())
    assert not refused & rules.keeps


def test_a_provider_of_which_nothing_is_known_refuses_no_schema() -> None:
    unknown = SchemaRules()
    for schema, _ in CASES.values():
        assert not [*refuse_schema(schema, "", unknown, strict=False)]
        assert not [*refuse_complexity([schema] * 50, "", unknown)]
