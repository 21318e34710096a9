"""Where a function stands in its source: the very one, of several lambdas in a line too."""

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import cast

from weft.declare.functions import Foreign

Function = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef


def definition(function: Callable[..., object]) -> Function | None:
    """The function in its source; None where there is none, or more than one it could be."""
    target: object = inspect.unwrap(function)
    if not isinstance(target, FunctionType):
        return None
    code = target.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, target.__globals__)
    found = _functions("".join(lines)).get(code.co_firstlineno, ())
    fits = [node for node in found if _is_of(node, code)]
    if len(fits) > 1:
        fits = [node for node in fits if _stands_at(node, code)]
    return fits[0] if len(fits) == 1 else None


@functools.lru_cache(maxsize=64)
def _functions(source: str) -> dict[int, tuple[Function, ...]]:
    """All functions of a file, by the line that they begin in, decorators and all."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    found: dict[int, tuple[Function, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found[node.lineno] = (*found.get(node.lineno, ()), node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min(one.lineno for one in (node, *node.decorator_list))
            found[line] = (*found.get(line, ()), node)
    return found


def _is_of(node: Function, code: CodeType) -> bool:
    """Whether the code may have been made from this."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    given = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    return name == code.co_name and given == [*code.co_varnames[: len(given)]]


def _stands_at(node: Function, code: CodeType) -> bool:
    """Whether all the code was made from what stands between its first letter and its last."""
    body = node.body if isinstance(node, ast.Lambda) else node
    first = (body.lineno, body.col_offset)
    last = (body.end_lineno or 0, body.end_col_offset or 0)
    spans = {
        ((line, column), (end, end_column))
        for line, end, column, end_column in code.co_positions()
        if line is not None and column is not None and end is not None and end_column is not None
    }
    inside = [span for span in spans if span[0] < span[1] and span[0][1] > 0]
    return bool(inside) and all(first <= start and end <= last for start, end in inside)


def opened(
    function: Callable[..., object],
) -> tuple[Callable[..., object], list[object], dict[str, object]]:
    """The plain function that is called in the end, and the arguments that it is given already."""
    if isinstance(function, Foreign) and len(function.functions) == 1:
        return opened(function.functions[0])
    if isinstance(function, functools.partial):
        part = cast("functools.partial[object]", function)
        called, given, named = opened(part.func)
        return called, [*given, *part.args], {**named, **part.keywords}
    if inspect.ismethod(function):
        return function.__func__, [function.__self__], {}
    if not inspect.isroutine(function) and inspect.isfunction(type(function).__call__):
        return type(function).__call__, [function], {}
    return function, [], {}


def called_function(node: ast.expr, names: Mapping[str, object]) -> Callable[..., object] | None:
    """The function that an expression calls: by its name, of a module, or of an object."""
    held: object = None
    match node:
        case ast.Name(id=name):
            held = names.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
            owner = names[name]
            held = inspect.getattr_static(owner, attribute, None)
            if isinstance(held, staticmethod):
                held = cast("object", held.__func__)
            elif isinstance(held, FunctionType) and not isinstance(owner, ModuleType | type):
                held = held.__get__(owner)
        case _:
            pass
    if isinstance(held, type) or not callable(held):
        return None
    return held


def parameter_for(function: Callable[..., object], node: ast.Call, given: ast.expr) -> str:
    """The parameter that gets an argument of a call; "" where that cannot be said."""
    called, placed, named = opened(function)
    found = definition(called) if inspect.unwrap(called) is called else None
    if found is None:
        return ""
    args = found.args
    names = [each.arg for each in (*args.posonlyargs, *args.args)][len(placed) :]
    known = {*names, *(each.arg for each in args.kwonlyargs)} - named.keys()
    for one in node.keywords:
        if one.value is given:
            return one.arg if one.arg in known else ""
    if any(isinstance(one, ast.Starred) for one in node.args):
        return ""
    position = next((i for i, one in enumerate(node.args) if one is given), len(names))
    return names[position] if position < len(names) and names[position] in known else ""
