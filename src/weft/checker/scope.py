"""The names in a user's function: which mean the state, a dict of its own, or a value of it."""

import ast
import enum
import functools
import inspect
import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Literal, NamedTuple, cast

from weft.declare.functions import Foreign

Way = tuple[str, tuple[str | int, ...]]
"""A key, and the steps into its value."""

Names = Mapping[str, object]

Operator = Literal["eq", "ne", "in", "not in", "contains"]

UNKNOWN = object()
"""A value that cannot be seen."""

_CONSTANTS = (str, dict, list, tuple, set, frozenset)
"""Types of constants that keys are written from."""

MOST_ROUNDS = 64
"""How many elements of a constant are looked at, one by one."""


class Compared(NamedTuple):
    """A value of the state that a function compares with values that stand in its source.

    `spare` is what the function takes in its place where the key lacks.
    """

    key: str
    path: tuple[str | int, ...]
    operator: Operator
    values: tuple[str | int | float | bool, ...]
    spare: tuple[str | int | float | bool, ...] = ()


class Keys(NamedTuple):
    """What a function does with the keys of a state, as far as its source shows.

    `reads` are read on every path, `guarded` on some only, `optional` where they may be absent;
    `writes` are written or returned on every path, `maybe` on some, `drops` and `may_drop` are
    taken away so. `touches` hold values that may be changed in place. `numbers` are compared with
    a number, `kinds` is the type of what is written, where it can be seen, `texts` are all that it
    can be, where they stand there, and `paths` are ways into values. `fills` are written only
    where they lack. `proves` are there wherever the function says yes. `returns` is the dict that
    a helper gives back, None where that cannot be seen.
    """

    reads: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    fills: frozenset[str] = frozenset()
    drops: frozenset[str] = frozenset()
    may_drop: frozenset[str] = frozenset()
    touches: frozenset[str] = frozenset()
    proves: frozenset[str] = frozenset()
    reads_all: bool = False
    writes_all: bool = False
    numbers: frozenset[tuple[str, tuple[str | int, ...]]] = frozenset()
    kinds: Mapping[str, str] = MappingProxyType({})
    texts: Mapping[str, frozenset[str]] = MappingProxyType({})
    paths: frozenset[tuple[str, tuple[str | int, ...]]] = frozenset()
    compared: frozenset[Compared] = frozenset()
    returns: "Contents | None" = None


Helper = Callable[[ast.Call, ast.expr | None, "FunctionScope"], Keys]
"""What a call does with the state, which is the argument if there is one."""


class FunctionScope:
    """What the names in a function mean, as it is read."""

    def __init__(
        self, state: str, names: Names, body: Sequence[ast.AST], helper: Helper | None = None
    ) -> None:
        stored = Counter(
            one.id
            for node in body
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
        )
        self.names = {name: value for name, value in names.items() if name not in stored}
        """Names from around the function, and those that stand for a text just now."""
        # a name that is set twice may mean another thing in between
        self.once = {name for name, count in stored.items() if count == 1} - {state}
        """Names that are set once, and mean the same from there on."""
        self.helper = helper
        self.states = {state}
        self.dicts: set[str] = set()
        self.aliases: dict[str, Way] = {}
        self.aliased: dict[str, ast.expr] = {}
        """By alias: the expression that it stands for."""

    def text(self, node: ast.AST | None) -> str | None:
        """The text that an expression is."""
        return text_of(node, self.names)

    def constant(self, node: ast.AST) -> object:
        """The text, or the dict or list of texts, that an expression is; `UNKNOWN` for others.

        Values of a dict that stands there are `UNKNOWN`: its keys count.
        """
        text = self.text(node)
        if text is not None:
            return text
        match node:
            case ast.Name(id=name) if isinstance(self.names.get(name), _CONSTANTS):
                return self.names[name]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self.names:
                value = cast("object", inspect.getattr_static(self.names[name], attribute, None))
                return cast("object", value) if isinstance(value, _CONSTANTS) else UNKNOWN
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return tuple(self.constant(one) for one in elements)
            case ast.Dict(keys=keys, values=values):
                texts = [self.text(key) for key in keys]
                pairs = zip(texts, values, strict=True)
                known = {k: None if is_none(v) else UNKNOWN for k, v in pairs if k is not None}
                return known if None not in texts else UNKNOWN
            case _:
                return UNKNOWN

    def elements(self, node: ast.expr) -> list[object]:
        """The elements of a constant list, or the keys of a constant dict; none of others."""
        known = self.constant(node)
        several = isinstance(known, dict | list | tuple | set | frozenset)
        return [*cast("Iterable[object]", known)] if several else []

    def rounds(self, target: ast.expr, node: ast.expr) -> list[dict[str, str]] | None:
        """For each round of a loop over constants: the texts that its names stand for.

        None where the elements, or the names, cannot be seen.
        """
        paired = False
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="items" | "keys" as how), args=[]):
                paired = how == "items"
                elements = self.elements(value) if isinstance(self.constant(value), dict) else []
            case _:
                elements = self.elements(node)
        if not 0 < len(elements) <= MOST_ROUNDS:
            return None
        rounds: list[dict[str, str]] = []
        for element in elements:
            match target:
                case ast.Name(id=name) if isinstance(element, str) and not paired:
                    rounds.append({name: element})
                case ast.Tuple(elts=[ast.Name(id=name), *_]) if paired and isinstance(element, str):
                    rounds.append({name: element})
                case ast.Tuple(elts=names) if isinstance(element, tuple | list):
                    parts = cast("Sequence[object]", element)
                    if len(names) != len(parts):
                        return None
                    pairs = zip(names, parts, strict=True)
                    texts = {
                        one.id: part
                        for one, part in pairs
                        if isinstance(one, ast.Name) and isinstance(part, str)
                    }
                    rounds.append(texts)
                case _:
                    return None
        return rounds

    def holder(self, node: ast.AST) -> str | None:
        """The state, as "", or the dict of the function's own that an expression is."""
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.states:
            return STATE
        return node.id if node.id in self.dicts else None

    def way(self, node: ast.AST) -> Way | None:
        """The key and the steps of `state["key"]["field"][0]`; None for anything else."""
        match node:
            case ast.Name(id=name):
                return self.aliases.get(name)
            case ast.Subscript(value=value, slice=step):
                pass
            case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[step, *_]):
                pass
            case _:
                return None
        text = self.text(step)
        if self.holder(value) is not None:
            return (text, ()) if text is not None and self.holder(value) == STATE else None
        before = self.way(value)
        last = text if text is not None else _number(step)
        return None if before is None or last is None else (before[0], (*before[1], last))

    def origin(self, node: ast.AST) -> str | None:
        """The key whose value an expression is, or is a part of."""
        while True:
            way = self.way(node)
            if way is not None:
                return way[0]
            match node:
                case ast.Subscript(value=value):
                    node = value
                case ast.Call(
                    func=ast.Attribute(value=value, attr="get" | "items" | "values" | "setdefault")
                ):
                    key = self.text(node.args[0]) if node.args else None
                    if self.holder(value) == STATE:
                        return key
                    node = value
                case ast.Call(func=ast.Name(id="enumerate" | "reversed" | "zip"), args=[one, *_]):
                    node = one
                case _:
                    return None


def _number(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


Function = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef


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


class _Source(NamedTuple):
    """What is known of a file: its functions by their line, and names whose values it changes."""

    functions: Mapping[int, tuple[Function, ...]] = {}
    changed: frozenset[str] = frozenset()


def _file_of(function: FunctionType) -> _Source:
    """What is known of the file that a function stands in."""
    code = function.__code__
    # the file may have changed since it was read
    linecache.checkcache(code.co_filename)
    return _read_source("".join(linecache.getlines(code.co_filename, function.__globals__)))


@functools.lru_cache(maxsize=64)
def _read_source(source: str) -> _Source:
    """All functions of a file, by the line that they begin in, decorators and all."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return _Source()
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
    return _Source(functions, frozenset(changed))


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
    parameters = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
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


def parameter_for(function: Callable[..., object], node: ast.Call, argument: ast.expr) -> str:
    """The parameter that gets an argument of a call; "" where that cannot be said."""
    called, placed, named = unwrap_function(function)
    source = definition(called) if inspect.unwrap(called) is called else None
    if source is None:
        return ""
    args = source.args
    names = [each.arg for each in (*args.posonlyargs, *args.args)][len(placed) :]
    known = {*names, *(each.arg for each in args.kwonlyargs)} - named.keys()
    for one in node.keywords:
        if one.value is argument:
            return one.arg if one.arg in known else ""
    # how many arguments a star stands for is not known
    if any(isinstance(one, ast.Starred) for one in node.args):
        return ""
    position = next((i for i, one in enumerate(node.args) if one is argument), len(names))
    return names[position] if position < len(names) and names[position] in known else ""


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


STATE = ""

Changes = dict[tuple[str, str], bool]
"""By holder and key: whether the key was written last, or removed. Other keys are unknown."""


class Contents(NamedTuple):
    """The keys of a dict: those it surely sets or removes, and those it may set or remove."""

    sure: Mapping[str, bool]
    maybe: frozenset[str] = frozenset()
    may_go: frozenset[str] = frozenset()
    is_state: bool = False
    """Whether it is the state itself."""


def merge_contents(several: Iterable[Contents | None]) -> Contents | None:
    """The keys of a dict that is one of several; None where one of them cannot be seen."""
    known: list[Contents] = []
    for one in several:
        if one is None:
            return None
        known.append(one)
    if any(one.is_state for one in known):  # the state, or a dict: what is set later is unclear
        return Contents({}, is_state=True) if all(one.is_state for one in known) else None
    first, *others = known or [Contents({})]
    sure = {
        k: there for k, there in first.sure.items() if all(o.sure.get(k) is there for o in others)
    }
    written = {k for one in known for k, there in one.sure.items() if there} - sure.keys()
    taken = {k for one in known for k, there in one.sure.items() if not there} - sure.keys()
    return Contents(
        sure,
        frozenset(written).union(*(one.maybe - sure.keys() for one in known)),
        frozenset(taken).union(*(one.may_go - sure.keys() for one in known)),
    )


@dataclass
class Path:
    """What holds at one point of a function."""

    changes: Changes = field(default_factory=Changes)
    sure: bool = True
    """Whether every run comes here."""
    tried: bool = False
    """Whether what fails here is caught."""
    returned: bool = False
    """Whether some runs have returned before this point."""
    there: frozenset[str] = frozenset()
    """Keys that the state has here, because a test said so."""

    def branch(self, *, tried: bool = False) -> "Path":
        """A way that is taken by some runs only."""
        tried = self.tried or tried
        return Path(
            dict(self.changes), sure=False, tried=tried, returned=self.returned, there=self.there
        )

    def forget(self, keys: Iterable[tuple[str, str]]) -> None:
        """Take back what was sure of these: something may have been done to them."""
        for key in keys:
            self.changes.pop(key, None)

    def keys_of(self, holder: str) -> dict[str, bool]:
        """What is known of one holder."""
        return {key: there for (owner, key), there in self.changes.items() if owner == holder}

    def has(self) -> frozenset[str]:
        """The keys that the state surely has: written, or found there."""
        return self.there | {key for key, there in self.keys_of(STATE).items() if there}


def meet(before: Path, ways: Iterable[Path | None]) -> Path | None:
    """The path where several ways meet again; None if none of them goes on."""
    open_ways: list[Path] = []
    returned = False
    for way in ways:
        returned = returned or way is None or way.returned
        if way is not None:
            open_ways.append(way)
    if not open_ways:
        return None
    changes = {
        key: there
        for key, there in open_ways[0].changes.items()
        if all(way.changes.get(key) is there for way in open_ways)
    }
    there = frozenset[str].intersection(*(way.has() for way in open_ways))
    return Path(changes, before.sure and not returned, before.tried, returned, there)


_CALLS = {
    "str": "string", "len": "number", "int": "number", "float": "number", "round": "number",
    "list": "array", "sorted": "array", "bool": "boolean", "dict": "object",
}  # fmt: skip


def kind_of(node: ast.AST | None) -> str:
    """The JSON type of an expression, or nothing where it cannot be seen."""
    match node:
        # before numbers: in Python `True` is a number
        case ast.Constant(value=bool()):
            return "boolean"
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "string"
        case ast.Constant(value=int() | float()):
            return "number"
        case ast.List() | ast.ListComp():
            return "array"
        case ast.Dict() | ast.DictComp():
            return "object"
        case ast.Call(func=ast.Name(id=name)):
            return _CALLS.get(name, "")
        case ast.Call(func=ast.Attribute(attr="split" | "splitlines")):
            return "array"
        case ast.Call(func=ast.Attribute(attr="join" | "strip" | "lower" | "upper" | "title")):
            return "string"
        case ast.Compare():
            return "boolean"
        case _:
            return ""


def texts_of(node: ast.AST | None) -> frozenset[str]:
    """The texts of which an expression is one, where they stand there; none where they do not."""
    match node:
        case ast.Constant(value=str() as text):
            return frozenset((text,))
        case ast.IfExp(body=body, orelse=orelse):
            one, other = texts_of(body), texts_of(orelse)
            return one | other if one and other else frozenset()
        case _:
            return frozenset()


def is_none(node: ast.AST) -> bool:
    """Whether an expression is None as it stands there."""
    return isinstance(node, ast.Constant) and node.value is None


def is_number(node: ast.AST) -> bool:
    """Whether an expression is a number as it stands there."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    )


def proved(body: Sequence[ast.stmt], scope: FunctionScope) -> frozenset[str]:
    """The keys that are there if a function with one `return` says yes."""
    match body:
        case [*_, ast.Return(value=ast.expr() as answer)]:
            several = sum(isinstance(one, ast.Return) for node in body for one in ast.walk(node))
            return keys_if_true(answer, scope) if several == 1 else frozenset()
        case _:
            return frozenset()


def keys_if_false(node: ast.expr, scope: FunctionScope) -> frozenset[str]:
    """The keys that are there if a test is false: `"key" not in state`."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=values):
            return frozenset[str]().union(*(keys_if_false(value, scope) for value in values))
        case ast.BoolOp(op=ast.And(), values=[first, *others]):
            return keys_if_false(first, scope).intersection(
                *(keys_if_false(value, scope) for value in others)
            )
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return keys_if_true(inner, scope)
        case ast.Compare(left=value, ops=[ast.NotIn()], comparators=[right]):
            return keys_if_true(ast.Compare(value, [ast.In()], [right]), scope)
        case ast.Compare(left=value, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant() as no]):
            return _looked_up(value, scope) if no.value is None else frozenset()
        case _:
            return frozenset()


def keys_if_true(node: ast.expr, scope: FunctionScope) -> frozenset[str]:
    """The keys that are there if a test is true."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return frozenset[str]().union(*(keys_if_true(value, scope) for value in values))
        case ast.BoolOp(op=ast.Or(), values=[first, *others]):
            return keys_if_true(first, scope).intersection(
                *(keys_if_true(value, scope) for value in others)
            )
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return keys_if_true(inner, scope)
        case ast.Compare(left=value, ops=[ast.In()], comparators=[right]):
            key = scope.text(value) if scope.holder(right) == STATE else None
            return frozenset() if key is None else frozenset((key,))
        case ast.Compare(left=value, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return _looked_up(value, scope)
        case ast.Compare(left=value, ops=[ast.Eq()], comparators=[ast.Constant(value=constant)]):
            return frozenset() if constant is None else _looked_up(value, scope)
        case _:
            return _looked_up(node, scope)


def _looked_up(node: ast.expr, scope: FunctionScope) -> frozenset[str]:
    """The key of `state["key"]` or `state.get("key")`, whatever stands in its value."""
    match node:
        case ast.Name(id=name) if name in scope.aliased:
            return _looked_up(scope.aliased[name], scope)
        case ast.NamedExpr(value=value):
            return _looked_up(value, scope)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, _, *_]):
            return frozenset()
        case _:
            way = scope.way(node)
            return frozenset() if way is None else frozenset((way[0],))
