"""Function declarations, as a signature gives them to a model."""

import enum
from collections.abc import Callable
from typing import Literal, Optional, Union, cast

import pydantic
import pytest

import weft
from weft import Agent, ToolContext
from weft.values import JsonObject


class Size(enum.Enum):
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Level(enum.IntEnum):
    TOP = 3
    LOW = 1


class Item(pydantic.BaseModel):
    name: str
    size: Literal["s", "m", "l"] = "m"


def declared(function: Callable[..., object], model: str = "gemini-2.5-flash") -> JsonObject:
    compiled = weft.compile(Agent("bot", model=model, tools=[function]), message="x")
    tool = cast("list[JsonObject]", compiled.wire["tools"])[0]
    if model.startswith("gemini"):
        tool = cast("list[JsonObject]", tool["functionDeclarations"])[0]
    names = ("parametersJsonSchema", "parameters", "input_schema")
    return next((cast("JsonObject", tool[name]) for name in names if name in tool), {})


def properties(function: Callable[..., object]) -> dict[str, JsonObject]:
    return cast("dict[str, JsonObject]", declared(function).get("properties", {}))


def test_choices_stand_in_the_order_they_are_declared() -> None:
    def take(
        a: Literal["low", "medium", "high"],
        b: Size,
        c: Level,
        d: list[Literal["z", "y"]],
        e: Literal["b", 1],
        f: Item,
    ) -> None:
        """Take."""

    found = properties(take)
    assert found["a"] == {"type": "string", "enum": ["low", "medium", "high"]}
    assert found["b"]["enum"] == ["small", "medium", "large"]
    assert found["c"]["enum"] == [3, 1]
    assert found["d"]["items"] == {"type": "string", "enum": ["z", "y"]}
    assert found["e"]["enum"] == ["b", 1]
    assert cast("JsonObject", found["f"]["properties"])["size"]["enum"] == ["s", "m", "l"]  # type: ignore[index,call-overload]


def test_a_parameter_named_tool_context_is_never_the_models() -> None:
    def untyped(a: int, tool_context) -> None:  # type: ignore[no-untyped-def]
        """Take."""

    def foreign(a: int, tool_context: object) -> None:
        """Take."""

    def typed(a: int, context: ToolContext) -> None:
        """Take."""

    def optional(a: int, tool_context: ToolContext | None = None) -> None:
        """Take."""

    for function in (untyped, foreign, typed, optional):
        assert declared(function) == {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        }


def test_optional_is_null_or_the_type_and_only_a_default_makes_it_dispensable() -> None:
    def take(a: Optional[int], b: Optional[str] = None, c: int = None, d: int = 3) -> None:  # type: ignore[assignment]  # noqa: UP045, RUF013
        """Take."""

    found = declared(take)
    assert found["required"] == ["a"]
    inner = cast("dict[str, JsonObject]", found["properties"])
    for name, kind in (("a", "integer"), ("b", "string"), ("c", "integer")):
        assert inner[name]["anyOf"] == [{"type": kind}, {"type": "null"}]
    assert inner["d"] == {"type": "integer", "default": 3}


def test_unions_lists_and_dicts_keep_their_insides() -> None:
    def take(
        a: Union[int, str],  # noqa: UP007
        b: list[dict[str, int]],
        c: dict[str, list[str]],
        d: list[Item],
    ) -> None:
        """Take."""

    found = properties(take)
    assert found["a"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    of_numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert found["b"] == {"type": "array", "items": of_numbers}
    of_texts = {"type": "array", "items": {"type": "string"}}
    assert found["c"] == {"type": "object", "additionalProperties": of_texts}
    assert cast("JsonObject", found["d"]["items"])["required"] == ["name"]


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "claude-sonnet-4-5", "gpt-5"])
def test_a_function_without_parameters_has_none(model: str) -> None:
    def ping() -> str:
        """Ping."""
        return "pong"

    assert declared(ping, model).get("properties", {}) == {}
