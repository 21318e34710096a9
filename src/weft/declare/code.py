"""Tools as functions of code: which of an agent's tools it may call, and how it spells them."""

import builtins
import keyword
from collections.abc import Iterable, Iterator, Mapping

from weft.declare.tool import Tool
from weft.values import Json, JsonObject


def functions_for(tool: Tool, tools: Iterable[Tool]) -> dict[str, Tool]:
    """By their names in code: the tools that code run by `tool` may call.

    A provider runs its own tools itself, and code does not start code. A name that Python would
    not take, or has itself, has `_` in place of `-`, or at its end.
    """
    functions: dict[str, Tool] = {}
    offered = [one for one in tools if one.hosted is None and not one.runs_code]
    allowed = [one for one in offered if tool.functions is None or one.name in tool.functions]
    # `a_b` is the tool of that name, also where there is an `a-b`
    for one in sorted(allowed, key=lambda one: "-" in one.name):
        name = one.name.replace("-", "_")
        taken = keyword.iskeyword(name) or hasattr(builtins, name)
        functions.setdefault(f"{name}_" if taken else name, one)
    return {name: one for one in allowed for name, other in functions.items() if other is one}


def describe_functions(tool: Tool, tools: Iterable[Tool]) -> str:
    """The description of a tool that runs code, with the functions that the code may call."""
    functions = functions_for(tool, tools)
    if not functions:
        return f"{tool.description} It can call none of your other tools."
    listed = ", ".join(spell_function(name, one.parameters) for name, one in functions.items())
    return (
        f"{tool.description} It can call your other tools as functions, without asking you in"
        f" between: {listed}. Each returns what the tool returns, and raises RuntimeError where"
        " that is an error. Write `await` before a call; `asyncio.gather` makes several at once. Do"
        " not pass them to `map` or as a `key`."
    )


def spell_function(name: str, parameters: JsonObject) -> str:
    """A tool's parameters as the signature of a function: `search(query: str, limit: int = 10)`."""
    return f"{name}({', '.join(_parameters(parameters))})"


def _parameters(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    named = list(properties.items()) if isinstance(properties, dict) else []
    # as Python wants them: those that must be given first
    for name, rules in sorted(named, key=lambda one: one[0] not in needed):
        about = rules if isinstance(rules, dict) else {}
        spelled = f"{name}: {_type(about)}"
        yield spelled if name in needed else f"{spelled} = {about.get('default')!r}"


_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict",
    "array": "list",
    "null": "None",
}


def _type(schema: Mapping[str, Json]) -> str:
    """The type of a parameter, as far as a short name says it."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        return f"Literal[{', '.join(map(repr, choices))}]"
    either = schema.get("anyOf") or schema.get("type")
    if isinstance(either, list):
        some = [one if isinstance(one, dict) else {"type": one} for one in either]
        return " | ".join(dict.fromkeys(map(_type, some)))
    items = schema.get("items")
    if either == "array" and isinstance(items, dict):
        return f"list[{_type(items)}]"
    return _TYPES.get(either, "object") if isinstance(either, str) else "object"


def named_arguments(tool: Tool, args: Iterable[Json], named: Mapping[str, Json]) -> JsonObject:
    """The arguments of a call in code by their names; TypeError as Python words it."""
    properties = tool.parameters.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    names.sort(key=lambda name: name not in needed)
    positional = list(args)
    if len(positional) > len(names):
        raise TypeError(
            f"{tool.name}() takes {len(names)} positional arguments but {len(positional)} were"
            f" given; it is {spell_function(tool.name, tool.parameters)}"
        )
    arguments: JsonObject = dict(zip(names, positional, strict=False))
    twice = [name for name in named if name in arguments]
    if twice:
        raise TypeError(f"{tool.name}() got multiple values for argument '{twice[0]}'")
    return {**arguments, **named}
