"""The arguments of a tool, and a message as it is read for them."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.models.local_mentions import stems
from weft.values import Json, JsonObject

_EXAMPLE = re.compile(r"(?:\be\.g\.|\bi\.e\.|\b(?:such as|for example|like)\b)[^.;\n]*|\"[^\"]*\"")

Way = dict[str, Json | None]
"""What some properties are held to; None where one is left out."""


class Property(NamedTuple):
    """One argument of a tool, as it is declared."""

    name: str
    schema: JsonObject
    kinds: frozenset[str]
    text: str
    """Its name and description, without examples."""
    about: frozenset[str]
    """The stems of its description."""
    required: bool

    def is_only(self, kind: str) -> bool:
        """Whether its values are of this type and no other."""
        return self.kinds == frozenset((kind,))


class Read(NamedTuple):
    """A message as it is read for one tool."""

    said: str
    framing: frozenset[str]
    before: Mapping[str, Sequence[Json]]
    taken: list[tuple[int, int]]
    """The stretches of it that are arguments already; each reader adds its own."""


def properties_of(tool: JsonObject, arguments: JsonObject) -> list[Property]:
    """The arguments of a tool that something can be said of; `arguments` is what is enforced."""
    held, declared = arguments.get("properties"), tool.get("parameters")
    described = declared.get("properties") if isinstance(declared, dict) else None
    required = arguments.get("required")
    found: list[Property] = []
    for name, each in held.items() if isinstance(held, dict) else ():
        own = described.get(name) if isinstance(described, dict) else None
        about = own.get("description") if isinstance(own, dict) else None
        schema = _without_null(each)
        if schema is not None:
            text = _EXAMPLE.sub(" ", about) if isinstance(about, str) else ""
            is_required = isinstance(required, list) and name in required
            spoken = f"{name.replace('_', ' ')}: {text}"
            found.append(Property(name, schema, kinds_of(schema), spoken, stems(text), is_required))
    return found


def _without_null(schema: Json) -> JsonObject | None:
    """The schema of a value that may be missing, without saying so."""
    if not isinstance(schema, dict) or "const" in schema:
        return None
    options = schema.get("anyOf")
    if isinstance(options, list):
        real = [each for each in options if isinstance(each, dict) and each.get("type") != "null"]
        return real[0] if len(real) == 1 else None
    return schema


def framing_of(tool: JsonObject) -> frozenset[str]:
    """The stems of the words a tool is described with, but for examples."""
    texts = [tool.get("name"), tool.get("description")]
    declared = tool.get("parameters")
    properties = declared.get("properties") if isinstance(declared, dict) else None
    for name, each in properties.items() if isinstance(properties, dict) else ():
        texts += [name, each.get("description") if isinstance(each, dict) else None]
    return stems(_EXAMPLE.sub(" ", "\n".join(text for text in texts if isinstance(text, str))))


def given(names: Sequence[str], values: Sequence[Json]) -> Way:
    """The way in which each of the names has its value."""
    return {name: {"const": value} for name, value in zip(names, values, strict=True)}


def kinds_of(schema: JsonObject) -> frozenset[str]:
    """The types a schema names, but for null."""
    held = schema.get("type")
    named = held if isinstance(held, list) else [held]
    return frozenset(each for each in named if isinstance(each, str) and each != "null")
