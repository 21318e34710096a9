"""What a name in a function stands for outside of it, where that is a text: state[DRAFT]."""

import ast
import enum
import inspect
from collections.abc import Mapping
from types import CodeType, FunctionType

Names = Mapping[str, object]


def names_of(function: object, given: Names) -> dict[str, object]:
    """The globals and the enclosing names that a function uses, and what it is given by default."""
    if not isinstance(function, FunctionType):
        return dict(given)
    code: CodeType = function.__code__
    used = {name: function.__globals__[name] for name in _used(code) & function.__globals__.keys()}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            used[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    spare = function.__defaults__ or ()
    first = code.co_argcount - len(spare)
    used |= dict(zip(code.co_varnames[first : code.co_argcount], spare, strict=True))
    return {**used, **(function.__kwdefaults__ or {}), **given}


def _used(code: CodeType) -> set[str]:
    """The names that a function asks its module for, with those of the functions in it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_used, inner))


def text_of(node: ast.AST | None, names: Names) -> str | None:
    """The text that an expression is: a constant, a name of one, an f-string of such."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=name):
            return _text(names.get(name))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
            held = names[name]
            if isinstance(held, enum.EnumType):
                return _text(held.__members__.get(attribute))
            return _text(inspect.getattr_static(held, attribute, None))
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return text_of(value, names)
        case ast.JoinedStr(values=values):
            parts = [text_of(value, names) for value in values]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _text(value: object) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None
