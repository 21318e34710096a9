"""Functions people hand in: which keys of the state they read and return, where that can be seen.

A function is read, never run. What cannot be seen makes the answer incomplete; rules that would
need to know then stay silent.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType

from weft.checker.keys import Keys
from weft.checker.reading import read


def keys_of(function: Callable[..., object]) -> Keys:
    """What a function of the state reads and returns, as far as its source shows."""
    try:
        return _keys(function)
    except TypeError:  # unhashable
        return Keys()


@functools.lru_cache(maxsize=1024)
def _keys(function: Callable[..., object]) -> Keys:
    found = _definition(function)
    if found is None:
        return Keys()
    arguments = found.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if inspect.ismethod(function) and names:
        names = names[1:]
    if not names:
        return Keys()
    return read(found, names[0])


def _definition(
    function: Callable[..., object],
) -> ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function in its source; None where there is none, or more than one it could be."""
    target = inspect.unwrap(function)
    code = getattr(target, "__code__", None)
    if code is None:
        return None
    try:
        source = textwrap.dedent(inspect.getsource(target))
    except (OSError, TypeError, IndentationError):
        return None
    tree = _parsed(source)
    if tree is None:
        return None
    kinds = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)
    fits = [
        node for node in ast.walk(tree) if isinstance(node, kinds) and _looks_like(node, target)
    ]
    return fits[0] if len(fits) == 1 else None


def _parsed(source: str) -> ast.AST | None:
    """The source as a tree; a lambda in mid-expression is tried from where it begins."""
    try:
        return ast.parse(source)
    except SyntaxError:
        pass
    start = source.find("lambda")
    text = source[start:].rstrip() if start >= 0 else ""
    for end in range(len(text), 0, -1):
        try:
            return ast.parse(text[:end], mode="eval")
        except SyntaxError:
            continue
    return None


def _looks_like(node: ast.AST, function: object) -> bool:
    code: object = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == code.co_name
    if not isinstance(node, ast.Lambda) or code.co_name != "<lambda>":
        return False
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    strings = {n.value for n in ast.walk(node.body) if isinstance(n, ast.Constant)}
    known = {const for const in code.co_consts if isinstance(const, str)}
    return names == list(code.co_varnames[: len(names)]) and known <= {
        text for text in strings if isinstance(text, str)
    }
