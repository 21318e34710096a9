"""What the readers of both of OpenAI's formats share."""

from weft.dialects.read.pieces import GivenOutput, string
from weft.values import Json, JsonObject

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def output(form: Json) -> GivenOutput | None:
    """The answer's schema; where it is `{type, name, schema, strict}`, or what that wraps."""
    if not isinstance(form, dict) or not isinstance(schema := form.get("schema"), dict):
        return None
    beside = {key: value for key, value in form.items() if key not in ("type", "schema", "name")}
    return GivenOutput(schema, string(form, "name"), beside)


def choice(value: Json, named: Json) -> JsonObject:
    """The tool choice: one of three words, or a tool's name."""
    if isinstance(value, str) and value in CHOICES:
        return {"tool_choice": CHOICES[value]}
    return {"tool_choice": {"name": named}} if isinstance(named, str) else {}
