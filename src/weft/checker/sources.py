"""Where a function stands in its source: the very one, of several lambdas in a line too."""

import ast
import functools
import inspect
import linecache
from collections.abc import Callable
from types import CodeType, FunctionType

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
