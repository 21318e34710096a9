"""Say what a provider would refuse in a request, before it is sent."""

from weft.codes import report
from weft.diagnostics import Diagnostic, Origin
from weft.dialects import dialect_named
from weft.dialects.refuse import refusals
from weft.values import JsonObject


def check_request(dialect: str, wire: JsonObject, model: str = "") -> tuple[Diagnostic, ...]:
    """What the provider would answer with a 400, each with its place as a JSON pointer.

    `model` is for dialects whose requests do not name it. Nothing is said of what is not known.
    """
    name = dialect_named(dialect).traits.name
    return tuple(
        report(found.code, Origin("dialect", found.pointer or "/"), found.message, found.hint)
        for found in refusals(name, wire, model)
    )
