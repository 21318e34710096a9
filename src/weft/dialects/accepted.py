"""What each provider reads of JSON Schema, and what is said where that is less than was meant."""

from typing import Literal, TypeAlias

import msgspec

from weft.values import JsonObject

Kind: TypeAlias = Literal["moved", "changed", "widened", "dropped", "impossible"]


class Loss(msgspec.Struct, frozen=True):
    """One place where the provider's schema says less than the author's.

    `moved`: said in the description instead. `changed`: said in another way that a value
    must be read back through. `widened`: the wire accepts more. `dropped`: not said at all.
    `impossible`: strict mode cannot say it; lower without strict.
    """

    pointer: str
    keyword: str
    message: str
    kind: Kind = "moved"


Subset: TypeAlias = tuple[JsonObject, tuple[Loss, ...]]


class Rules(msgspec.Struct, frozen=True):
    """What one provider reads."""

    provider: str
    keeps: frozenset[str]
    formats: frozenset[str] | None = None
    strict: bool = True
    all_required: bool = False
    type_lists: bool = True
    enum_types: frozenset[str] = frozenset(
        ("string", "integer", "number", "boolean", "null", "array", "object")
    )
    most_min_items: int | None = None
    cycles: Literal["any", "optional", "none"] = "any"


_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
_COMMON = frozenset(("$ref", "type", "title", "description", "enum", "anyOf", "format")) | {
    *("properties", "required", "additionalProperties", "items")
}
GEMINI = Rules(
    provider="gemini",
    keeps=_COMMON | {"prefixItems", "minItems", "maxItems", "minimum", "maximum", "default"},
    strict=False,
    enum_types=frozenset(("string", "integer", "number")),
    cycles="optional",
)
ANTHROPIC = Rules(
    provider="anthropic",
    keeps=_COMMON | {"const", "minItems"},
    formats=_FORMATS | {"uri"},
    type_lists=False,
    enum_types=frozenset(("string", "integer", "number", "boolean", "null")),
    most_min_items=1,
    cycles="none",
)
OPENAI = Rules(
    provider="openai",
    keeps=_COMMON
    | {"const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems"},
    formats=_FORMATS,
    all_required=True,
)

SILENT = frozenset(("$schema", "$comment", "$id", "$anchor", "$defs", "definitions"))
"""Keywords that say nothing about a value; named parts are gathered at the root."""

SAYS_NOTHING = frozenset(("discriminator", "readOnly", "writeOnly", "xml", "externalDocs"))
