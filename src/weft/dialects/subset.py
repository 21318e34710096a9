"""The part of JSON Schema each provider accepts, and what is lost on the way.

A rewrite never narrows what a value may be without saying so, and never drops a keyword in
silence: what a provider does not read goes into the description, where the model still
sees it, and every such step is a `Loss`. Values are validated against the original
schema when they come back, so a wider schema on the wire is safe.
"""

from collections.abc import Sequence

from weft.dialects.accepted import ANTHROPIC, GEMINI, OPENAI, Loss, Subset
from weft.dialects.algebra import describe, written_out
from weft.dialects.rewriter import Rewriter, require_object
from weft.jsonschema import plain, refs, rename_refs
from weft.values import JsonObject

__all__ = [
    "Loss",
    "Subset",
    "for_anthropic",
    "for_gemini",
    "for_openai",
    "strict_possible",
    "wrap_root",
]


def for_gemini(schema: JsonObject, *, where: str = "") -> Subset:
    """For `parameters_json_schema` and `response_json_schema`."""
    return Rewriter(GEMINI, schema, where).run()


def for_anthropic(schema: JsonObject, *, strict: bool, where: str = "") -> Subset:
    """For `input_schema` (all of 2020-12 below an object), or for strict tools and output."""
    if strict:
        return Rewriter(ANTHROPIC, schema, where).run()
    return _open_root(schema, where, ("anyOf", "oneOf", "allOf"))


def for_openai(schema: JsonObject, *, strict: bool, where: str = "") -> Subset:
    """For `parameters` and `json_schema`; strict makes every property required."""
    if strict:
        return Rewriter(OPENAI, schema, where).run()
    return _open_root(schema, where, ("anyOf", "oneOf", "allOf", "enum", "not"))


def strict_possible(schema: JsonObject, provider: str) -> bool:
    """Whether strict mode can say all of this; if not, lower without it (or wrap its root)."""
    if provider.startswith("openai"):
        rules = OPENAI
    elif provider.startswith("anthropic"):
        rules = ANTHROPIC
    else:
        return True  # no strict form of the schema to lose anything in
    if wrap_root(schema)[1]:
        return False
    _, losses = Rewriter(rules, schema, "").run()
    return not any(loss.kind == "impossible" for loss in losses)


def wrap_root(schema: JsonObject) -> tuple[JsonObject, bool]:
    """The schema under `result`, unless it is an object already.

    Tools and outputs must be objects; the caller takes the `result` back out.
    """
    schema = plain(schema, where="")
    if written_out(schema).get("type") == "object":
        return schema, False
    inside = "#/properties/result"
    names = {ref: inside + ref[1:] for ref in refs(schema) if not ref.startswith("#/$defs/")}
    moved = rename_refs(schema, {ref: new for ref, new in names.items() if ref.startswith("#")})
    named = moved.pop("$defs", None)
    wrapped: JsonObject = {
        "type": "object",
        "properties": {"result": moved},
        "required": ["result"],
        "additionalProperties": False,
    }
    return ({**wrapped, "$defs": named} if named else wrapped), True


def _open_root(schema: JsonObject, where: str, refused: Sequence[str]) -> Subset:
    """Everything below the root as it is; what the root may not say goes to its description."""
    root = written_out(plain(schema, where=where))
    require_object(root, where)
    said: JsonObject = {key: root[key] for key in refused if key in root}
    losses = tuple(
        Loss(f"/{key}", key, f"`{key}` is not accepted at the root; it is said in the description")
        for key in said
    )
    return describe({key: item for key, item in root.items() if key not in said}, said), losses
