"""What a predicate proves: the keys that are there wherever it holds."""

import ast
from collections.abc import Sequence

from weft.checker.path import STATE
from weft.checker.scope import Scope


def proved(body: Sequence[ast.stmt], scope: Scope) -> frozenset[str]:
    """The keys that are there if a function of one answer says yes."""
    match body:
        case [*_, ast.Return(value=ast.expr() as answer)]:
            several = sum(isinstance(one, ast.Return) for node in body for one in ast.walk(node))
            return _by(answer, scope) if several == 1 else frozenset()
        case _:
            return frozenset()


def _by(node: ast.expr, scope: Scope) -> frozenset[str]:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return frozenset[str]().union(*(_by(value, scope) for value in values))
        case ast.BoolOp(op=ast.Or(), values=[first, *others]):
            return _by(first, scope).intersection(*(_by(value, scope) for value in others))
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _by(inner, scope)
        case ast.Compare(left=left, ops=[ast.In()], comparators=[right]):
            key = scope.text(left) if scope.holder(right) == STATE else None
            return frozenset() if key is None else frozenset((key,))
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return _looked_up(left, scope)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=held)]):
            return frozenset() if held is None else _looked_up(left, scope)
        case _:
            return _looked_up(node, scope)


def _looked_up(node: ast.expr, scope: Scope) -> frozenset[str]:
    """The key of `state["key"]` or `state.get("key")`, whatever stands in its value."""
    match node:
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, _, *_]):
            return frozenset()
        case _:
            way = scope.way(node)
            return frozenset() if way is None else frozenset((way[0],))
