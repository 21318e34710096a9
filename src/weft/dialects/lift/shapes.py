"""What answers of all dialects are read with: JSON that may be anything, and pieces to show."""

from weft.content import Content, FunctionCall, Part, PartProvenance
from weft.ir import ModelResponse
from weft.jsonschema import MAX_DEPTH, deeper_than
from weft.values import Json, JsonObject, compact


def text_in(value: Json) -> str:
    """The text, or an empty one where it is none."""
    return value if isinstance(value, str) else ""


def object_in(value: Json) -> JsonObject:
    """The object, or an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[JsonObject]:
    """The objects of a list; none where it is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def count_in(value: Json) -> int | None:
    """The count, or None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value)


def without(held: JsonObject, *names: str) -> JsonObject:
    """The fields but these, and but nulls."""
    return {key: value for key, value in held.items() if value is not None and key not in names}


def kept_in(dialect: str, kept: JsonObject | None) -> JsonObject | None:
    """The metadata of a part that keeps fields of its provider's; None where there are none."""
    return None if kept is None else PartProvenance(provider=dialect, fields=kept).onto(None)


def call_of(
    dialect: str,
    call: FunctionCall,
    arguments: Json,
    kept: JsonObject | None,
    signature: str | None = None,
) -> Part:
    """A call with its arguments; one whose arguments are no object says what came instead."""
    metadata: JsonObject | None = kept_in(dialect, kept)
    args = arguments if isinstance(arguments, dict) else None
    if args is None or deeper_than(args, MAX_DEPTH):
        args = None
        text = arguments if isinstance(arguments, str) else compact(arguments)
        metadata = PartProvenance(malformed=text).onto(metadata)
    whole = FunctionCall(name=call.name, args=args, id=call.id)
    return Part(function_call=whole, thought_signature=signature, part_metadata=metadata)


def shown(text: str) -> ModelResponse:
    """A piece of what the model says."""
    return ModelResponse(content=Content((Part(text),), "model"), partial=True)


def shown_thought(text: str) -> ModelResponse:
    """A piece of what the model thinks."""
    part = Part(text, thought=True)
    return ModelResponse(content=Content((part,), "model"), partial=True)
