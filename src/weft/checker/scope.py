"""The names in a user's function: which mean the state, a dict of its own, or a value of it."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from weft.checker.keys import STATE, Keys, Way
from weft.checker.sources import UNKNOWN, Function, Names, text_of

_CONSTANTS = (str, dict, list, tuple, set, frozenset)
"""Types of constants that keys are written from."""

MOST_ROUNDS = 64
"""How many elements of a constant are looked at, one by one."""


class FunctionScope:
    """What the names in a function mean at the point that is read."""

    def __init__(self, state: str, names: Names, function: Function) -> None:
        self.body: list[ast.stmt] = (
            [ast.Return(function.body)] if isinstance(function, ast.Lambda) else function.body
        )
        stored = Counter(
            one.id
            for node in self.body
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
        )
        self.names = {name: value for name, value in names.items() if name not in stored}
        """Names from outside the function, and names that stand for a text at this point."""
        # a name that is set twice may mean another thing in between
        self.once = {name for name, count in stored.items() if count == 1} - {state}
        """Names that are set once, and mean the same from there on."""
        self.states = {state}
        self.state_nodes: set[int] = set()
        """The expressions that are the state of a context, by `id`."""
        self.context_calls: dict[int, Keys] = {}
        """By `id` of a call that passes a context: what it does with the state of the context."""
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
        if id(node) in self.state_nodes:
            return STATE
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
    """The constant texts that an expression may be; none where others are possible."""
    match node:
        case ast.Constant(value=str() as text):
            return frozenset((text,))
        case ast.IfExp(body=body, orelse=orelse):
            one, other = texts_of(body), texts_of(orelse)
            return one | other if one and other else frozenset()
        case _:
            return frozenset()


def is_none(node: ast.AST) -> bool:
    """Whether an expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def is_number(node: ast.AST) -> bool:
    """Whether an expression is a constant number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    )


def keys_proved(scope: FunctionScope) -> frozenset[str]:
    """The keys that are there if a function with one `return` says yes."""
    body = scope.body
    match body:
        case [*_, ast.Return(value=ast.expr() as answer)]:
            several = sum(isinstance(one, ast.Return) for node in body for one in ast.walk(node))
            return keys_if(answer, scope, holds=True) if several == 1 else frozenset()
        case _:
            return frozenset()


def keys_if(node: ast.expr, scope: FunctionScope, *, holds: bool) -> frozenset[str]:
    """The keys that are there if a test holds, or if it does not: `"key" not in state`."""
    match node:
        case ast.BoolOp(op=operator, values=values):
            first, *others = [keys_if(value, scope, holds=holds) for value in values]
            every = isinstance(operator, ast.And) is holds
            return first.union(*others) if every else first.intersection(*others)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return keys_if(inner, scope, holds=not holds)
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return keys_if(inner, scope, holds=holds)
        case ast.Compare(left=value, ops=[ast.In() | ast.NotIn() as test], comparators=[right]):
            is_there = isinstance(test, ast.In) is holds and scope.holder(right) == STATE
            key = scope.text(value) if is_there else None
            return frozenset() if key is None else frozenset((key,))
        case ast.Compare(left=value, ops=[test], comparators=[ast.Constant(value=None)]):
            is_some = isinstance(test, ast.IsNot) if holds else isinstance(test, ast.Is | ast.Eq)
            return _key_looked_up(value, scope) if is_some else frozenset()
        case ast.Compare(left=value, ops=[ast.Eq()], comparators=[ast.Constant()]) if holds:
            return _key_looked_up(value, scope)
        case _:
            return _key_looked_up(node, scope) if holds else frozenset()


def _key_looked_up(node: ast.expr, scope: FunctionScope) -> frozenset[str]:
    """The key of `state["key"]` or `state.get("key")`; none for other expressions."""
    match node:
        case ast.Name(id=name) if name in scope.aliased:
            return _key_looked_up(scope.aliased[name], scope)
        case ast.NamedExpr(value=value):
            return _key_looked_up(value, scope)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, _, *_]):
            return frozenset()
        case _:
            way = scope.way(node)
            return frozenset() if way is None else frozenset((way[0],))
