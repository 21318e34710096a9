"""The names of a function: which stand for the state, for dicts of its own, for values of it."""

import ast
from collections import Counter
from collections.abc import Callable, Sequence

from weft.checker.keys import Keys
from weft.checker.names import Names, text_of
from weft.checker.path import STATE

Way = tuple[str, tuple[str | int, ...]]
"""A key, and the steps into its value."""

Helper = Callable[[ast.Call, ast.expr, Names], Keys]
"""What a call does with the state, which is the argument."""


class Scope:
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
        self.names = {name: held for name, held in names.items() if name not in stored}
        """Names of texts."""
        self.once = {name for name, count in stored.items() if count == 1} - {state}
        """Names that are set once, and mean the same from there on."""
        self.around = {name: held for name, held in names.items() if name not in stored}
        self.helper = helper
        self.states = {state}
        self.dicts: set[str] = set()
        self.aliases: dict[str, Way] = {}
        self.aliased: dict[str, ast.expr] = {}
        """By alias: the expression that it stands for."""

    def text(self, node: ast.AST | None) -> str | None:
        """The text that an expression is."""
        return text_of(node, self.names)

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
        found = text if text is not None else _number(step)
        return None if before is None or found is None else (before[0], (*before[1], found))

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
