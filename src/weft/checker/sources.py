"""Open a user's function: its source, the arguments bound already, and what its names mean.

Nothing is run. `open_source` returns None where the source cannot be found or is not certain, and
everything that asks for it says "unknown" then.
"""

import ast
import enum
import functools
import inspect
import linecache
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple, TypeVar, cast

from weft.declare.functions import Foreign

Names = Mapping[str, object]

Function = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef

UNKNOWN = object()
"""A value that cannot be seen."""


Reader = TypeVar("Reader", bound=Callable[..., object])


def cache_by_function(read: Reader) -> Reader:
    """Remember what was read of a function; a callable object without a hash is read each time."""
    cached = functools.lru_cache(maxsize=1024)(read)

    @functools.wraps(read)
    def answer(function: Callable[..., object], *options: str) -> object:
        try:
            hash(function)
        except TypeError:
            return read(function, *options)
        return cached(function, *options)

    return cast("Reader", answer)


class Source(NamedTuple):
    """A function that can be read, below the partials, methods and decorators around it."""

    function: Callable[..., object]
    """The plain function that is called in the end."""
    node: Function
    placed: Sequence[object]
    """The arguments that are bound by their place."""
    named: Names
    """The arguments that are bound by their name."""
    is_wrapped: bool
    """Whether a decorator is wrapped around it, which may do more."""

    @property
    def places(self) -> list[str]:
        """The parameters that a call may pass by place, in order."""
        return places_in(self.node)[len(self.placed) :]

    @property
    def keywords(self) -> list[str]:
        """The parameters that a call may pass only by name."""
        return [one.arg for one in self.node.args.kwonlyargs]

    @property
    def first(self) -> str:
        """The first parameter that is not bound; "" where all are."""
        return next((name for name in self.places if name not in self.named), "")

    def names(self, bound: Names | None = None) -> dict[str, object]:
        """What its names mean, with what a call passes for its parameters."""
        known = {**dict(zip(places_in(self.node), self.placed, strict=False)), **self.named}
        names = {**names_of(inspect.unwrap(self.function), known), **(bound or {})}
        return {name: value for name, value in names.items() if value is not UNKNOWN}

    def parameter_for(self, node: ast.Call, argument: ast.expr) -> str:
        """The parameter that gets an argument of a call; "" where that cannot be said."""
        if self.is_wrapped:
            return ""
        names = self.places
        known = {*names, *self.keywords} - self.named.keys()
        for one in node.keywords:
            if one.value is argument:
                return one.arg if one.arg in known else ""
        # how many arguments a star stands for is not known
        if any(isinstance(one, ast.Starred) for one in node.args):
            return ""
        position = next((i for i, one in enumerate(node.args) if one is argument), len(names))
        return names[position] if position < len(names) and names[position] in known else ""

    def bind(self, node: ast.Call, constant: Callable[[ast.expr], object]) -> dict[str, object]:
        """By parameter: the constant that a call passes for it, `UNKNOWN` where it is none."""
        names = self.places
        everything = {*names, *self.keywords}
        rest = self.node.args.kwarg
        starred = any(isinstance(one, ast.Starred) for one in node.args)
        if starred or any(one.arg is None for one in node.keywords):
            return dict.fromkeys({*everything, *([rest.arg] if rest else [])}, UNKNOWN)
        bound = {name: constant(one) for name, one in zip(names, node.args, strict=False)}
        keywords = [(str(one.arg), constant(one.value)) for one in node.keywords]
        bound |= {name: value for name, value in keywords if name in everything}
        if rest is not None:
            bound[rest.arg] = {key: UNKNOWN for key, _ in keywords if key not in everything}
        return bound


def open_source(function: Callable[..., object] | None) -> Source | None:
    """The function as it can be read; None where its source cannot be found."""
    if function is None:
        return None
    called, placed, named = unwrap_function(function)
    node = definition(called)
    if node is None:
        return None
    return Source(called, node, placed, named, inspect.unwrap(called) is not called)


def places_in(node: Function) -> list[str]:
    """The parameters of a function that a call may pass by place, in order."""
    return [one.arg for one in (*node.args.posonlyargs, *node.args.args)]


def definition(function: Callable[..., object]) -> Function | None:
    """The function in its source; None where there is none, or more than one it could be."""
    target: object = inspect.unwrap(function)
    if not isinstance(target, FunctionType):
        return None
    code = target.__code__
    candidates = _file_of(target).functions.get(code.co_firstlineno, ())
    fits = [node for node in candidates if _is_of(node, code)]
    # two lambdas in one line: the positions of the code tell them apart
    if len(fits) > 1:
        fits = [node for node in fits if _stands_at(node, code)]
    return fits[0] if len(fits) == 1 else None


class _File(NamedTuple):
    """What is known of a file: its functions by their line, and names whose values it changes."""

    functions: Mapping[int, tuple[Function, ...]] = {}
    changed: frozenset[str] = frozenset()


def _file_of(function: FunctionType) -> _File:
    """What is known of the file that a function stands in."""
    code = function.__code__
    # the file may have changed since it was read
    linecache.checkcache(code.co_filename)
    return _parse_file("".join(linecache.getlines(code.co_filename, function.__globals__)))


@functools.lru_cache(maxsize=64)
def _parse_file(source: str) -> _File:
    """All functions of a file, by the line that they begin in, decorators and all."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return _File()
    functions: dict[int, tuple[Function, ...]] = {}
    changed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            functions[node.lineno] = (*functions.get(node.lineno, ()), node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min(one.lineno for one in (node, *node.decorator_list))
            functions[line] = (*functions.get(line, ()), node)
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                changed.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in CHANGING:
                changed.add(name)
            case ast.AugAssign(target=ast.Name(id=name)):
                changed.add(name)
            case ast.Global(names=names):
                changed.update(names)
            case _:
                pass
    return _File(functions, frozenset(changed))


CHANGING = frozenset(
    (
        "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove",
        "reverse", "setdefault", "sort", "update",
    )
)  # fmt: skip
"""Methods that change what they belong to."""


def _is_of(node: Function, code: CodeType) -> bool:
    """Whether the code may have been made from this."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    parameters = places_in(node)
    return name == code.co_name and parameters == [*code.co_varnames[: len(parameters)]]


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


def unwrap_function(
    function: Callable[..., object],
) -> tuple[Callable[..., object], list[object], dict[str, object]]:
    """The plain function that is called in the end, and the arguments that are bound already."""
    if isinstance(function, Foreign) and len(function.functions) == 1:
        return unwrap_function(function.functions[0])
    if isinstance(function, functools.partial):
        part = cast("functools.partial[object]", function)
        called, placed, named = unwrap_function(part.func)
        return called, [*placed, *part.args], {**named, **part.keywords}
    if inspect.ismethod(function):
        return function.__func__, [function.__self__], {}
    if not inspect.isroutine(function) and inspect.isfunction(type(function).__call__):
        return type(function).__call__, [function], {}
    return function, [], {}


def called_function(node: ast.expr, names: Mapping[str, object]) -> Callable[..., object] | None:
    """The function that an expression calls: by its name, of a module, or of an object."""
    function: object = None
    match node:
        case ast.Name(id=name):
            function = names.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
            owner = names[name]
            function = inspect.getattr_static(owner, attribute, None)
            if isinstance(function, staticmethod):
                function = cast("object", function.__func__)
            elif isinstance(function, FunctionType) and not isinstance(owner, ModuleType | type):
                function = function.__get__(owner)
        case _:
            pass
    # what a class does with its arguments is not followed
    if isinstance(function, type) or not callable(function):
        return None
    return function


def names_of(function: object, known: Names) -> dict[str, object]:
    """The globals, enclosing names and default arguments that a function uses."""
    if not isinstance(function, FunctionType):
        return dict(known)
    code: CodeType = function.__code__
    used = {
        name: function.__globals__[name] for name in _names_used(code) & function.__globals__.keys()
    }
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            # enclosing names count with the values that they have now
            used[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    # a list or a dict that the file changes may be another by the time of a run
    mutable = {name for name, value in used.items() if isinstance(value, dict | list | set)}
    if mutable:
        used = {k: v for k, v in used.items() if k not in mutable & _file_of(function).changed}
    spare = function.__defaults__ or ()
    first = code.co_argcount - len(spare)
    used |= dict(zip(code.co_varnames[first : code.co_argcount], spare, strict=True))
    return {**used, **(function.__kwdefaults__ or {}), **known}


def _names_used(code: CodeType) -> set[str]:
    """The names that a function asks its module for, with those of the functions in it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_names_used, inner))


def text_of(node: ast.AST | None, names: Names) -> str | None:
    """The text that an expression is: a constant, a name of one, an f-string of such."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=name):
            return _text(names.get(name))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
            owner = names[name]
            if isinstance(owner, enum.EnumType):
                return _text(owner.__members__.get(attribute))
            return _text(inspect.getattr_static(owner, attribute, None))
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return text_of(value, names)
        case ast.JoinedStr(values=values):
            parts = [text_of(value, names) for value in values]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _text(value: object) -> str | None:
    # `str()` of a text that is a member of an enum would give the member's name
    return str.__str__(value) if isinstance(value, str) else None
