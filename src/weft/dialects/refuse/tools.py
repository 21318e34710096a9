"""Tools that a provider refuses: too many, badly named, declared twice, or asked for in vain."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from weft.dialects.refuse.finding import REQUEST, SCHEMA, Finding, Findings
from weft.values import Json, JsonObject


class Declared(NamedTuple):
    """A function that is declared: its place, its name, its schema and where that stands."""

    pointer: str
    name: str
    schema: Json
    at: str


def bad_tools(tools: Sequence[Declared], pattern: str, most: int = 0) -> Findings:
    """What is wrong with the declarations, whatever the provider."""
    if most and len(tools) > most:
        message = f"there are {len(tools)} tools, and the provider takes {most}"
        yield Finding(REQUEST, "/tools", message, "leave some out, or narrow them to what is asked")
    seen: set[str] = set()
    for tool in tools:
        if not re.fullmatch(pattern, tool.name):
            message = f"`{tool.name}` is no name for a tool here"
            hint = "use letters, digits, _ and -, and not too many"
            yield Finding(REQUEST, f"{tool.pointer}/name", message, hint)
        if tool.name in seen:
            message = f"the tool `{tool.name}` is declared twice"
            yield Finding(REQUEST, f"{tool.pointer}/name", message, "give each a name of its own")
        seen.add(tool.name)
        if isinstance(tool.schema, dict) and not _is_object(tool.schema):
            message = f"the parameters of `{tool.name}` are no object's schema"
            yield Finding(SCHEMA, tool.at, message, 'write {"type": "object", "properties": {}}')


def _is_object(schema: JsonObject) -> bool:
    return not schema or schema.get("type") in ("object", "OBJECT")


def undeclared(names: Sequence[Json], known: set[str], pointer: str) -> Findings:
    """A tool that must be called but is not there."""
    for name in names:
        if isinstance(name, str) and name not in known:
            message = f"the tool `{name}` must be called, and is not declared"
            yield Finding(REQUEST, pointer, message, "declare it, or name one that is")


def answered(waiting: dict[str, str], call: str, pointer: str, hint: str) -> Findings:
    """Take a call that has its result off those that wait; a result of none is one too many."""
    if waiting.pop(call, None) is None:
        message = f"the result of {call} answers no call of the turn before"
        yield Finding(REQUEST, pointer, message, hint)


def unanswered(waiting: dict[str, str], hint: str) -> Findings:
    """Calls that still wait for a result where none can come any more."""
    for call, pointer in waiting.items():
        message = f"the call {call} has no result in the next turn"
        yield Finding(REQUEST, pointer, message, hint)
    waiting.clear()
