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
            return held_by(answer, scope) if several == 1 else frozenset()
        case _:
            return frozenset()


def lacked(node: ast.expr, scope: Scope) -> frozenset[str]:
    """The keys that are there wherever a test does not hold: `"key" not in state`."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=values):
            return frozenset[str]().union(*(lacked(value, scope) for value in values))
        case ast.BoolOp(op=ast.And(), values=[first, *others]):
            return lacked(first, scope).intersection(*(lacked(value, scope) for value in others))
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return held_by(inner, scope)
        case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[right]):
            return held_by(ast.Compare(left, [ast.In()], [right]), scope)
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant() as no]):
            return _looked_up(left, scope) if no.value is None else frozenset()
        case _:
            return frozenset()


def held_by(node: ast.expr, scope: Scope) -> frozenset[str]:
    """The keys that are there wherever a test holds."""
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return frozenset[str]().union(*(held_by(value, scope) for value in values))
        case ast.BoolOp(op=ast.Or(), values=[first, *others]):
            return held_by(first, scope).intersection(*(held_by(value, scope) for value in others))
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return held_by(inner, scope)
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
        case ast.Name(id=name) if name in scope.aliased:
            return _looked_up(scope.aliased[name], scope)
        case ast.NamedExpr(value=value):
            return _looked_up(value, scope)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, _, *_]):
            return frozenset()
        case _:
            way = scope.way(node)
            return frozenset() if way is None else frozenset((way[0],))
