"""The source of a function of the state, read: which keys it takes and which it returns."""

import ast
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from weft.checker.keys import Keys

_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def read(function: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, state: str) -> Keys:
    """What a function does with the argument that is the state."""
    reader = _Reader(state)
    if isinstance(function, ast.Lambda):
        reader.visit(function.body)
        reader.returned(function.body)
        return reader.keys(falls_through=False)
    for node in function.body:
        reader.visit(node)
    return reader.keys(falls_through=not _ends(function.body))


def _ends(body: Iterable[ast.stmt]) -> bool:
    """Whether no path leads out at the end of these statements."""
    last = list(body)[-1:]
    match last:
        case [ast.Return() | ast.Raise()]:
            return True
        case [ast.If() as branch]:
            return bool(branch.orelse) and _ends(branch.body) and _ends(branch.orelse)
        case [ast.With() | ast.AsyncWith() as block]:
            return _ends(block.body)
        case [ast.Try() as block]:
            return _ends(block.body) and all(_ends(handler.body) for handler in block.handlers)
        case _:
            return False


class _Reader(ast.NodeVisitor):
    """Collects what is done with the state."""

    def __init__(self, state: str) -> None:
        self.state = state
        self._sure: set[str] = set()
        self._guarded: set[str] = set()
        self._optional: set[str] = set()
        self._numbers: set[str] = set()
        self._paths: set[tuple[str, tuple[str | int, ...]]] = set()
        self._returns: list[set[str]] = []
        self._kinds: dict[str, set[str]] = {}
        self._reads_all = True
        self._writes_all = True
        self._known: set[int] = set()
        self._guards = 0
        self._tries = 0

    def keys(self, *, falls_through: bool) -> Keys:
        """What was found; a function that may end without returning may write nothing."""
        returns = [*self._returns, set[str]()] if falls_through else self._returns
        every = set[str].intersection(*returns) if returns else set[str]()
        some = {key for one in returns for key in one}
        return Keys(
            reads=frozenset(self._sure - self._optional),
            optional=frozenset(self._optional),
            guarded=frozenset(self._guarded - self._sure - self._optional),
            writes=frozenset(every),
            maybe=frozenset(some - every),
            reads_all=self._reads_all,
            writes_all=self._writes_all,
            numbers=frozenset(self._numbers),
            paths=frozenset(self._paths),
            kinds={key: next(iter(k)) for key, k in self._kinds.items() if len(k) == 1},
        )

    def visit_Subscript(self, node: ast.Subscript) -> None:
        key = self._key(node)
        if key is not None:
            self._known.add(id(node.value))
            if not isinstance(node.ctx, ast.Load):
                self._writes_all = False
            elif self._tries:
                self._optional.add(key)
            elif self._guards:
                self._guarded.add(key)
            else:
                self._sure.add(key)
        elif isinstance(node.ctx, ast.Load):
            self._path(node)
        self.generic_visit(node)

    def _path(self, node: ast.Subscript) -> None:
        """Take note of `state["key"]["field"][0]`: it walks into a value."""
        steps: list[str | int] = []
        while isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str | int):
            key = self._key(node)
            if key is not None and steps:
                self._paths.add((key, tuple(reversed(steps))))
                return
            steps.append(node.slice.value)
            if not isinstance(node.value, ast.Subscript):
                return
            node = node.value

    def visit_Call(self, node: ast.Call) -> None:
        key = self._got(node)
        if key is not None and isinstance(node.func, ast.Attribute):
            self._known.add(id(node.func.value))
            self._optional.add(key)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, right in zip(node.ops, node.comparators, strict=True):
            held = isinstance(right, ast.Name) and right.id == self.state
            if held and isinstance(operator, ast.In | ast.NotIn):
                left = node.left
                if isinstance(left, ast.Constant) and isinstance(left.value, str):
                    self._known.add(id(right))
                    self._optional.add(left.value)
        if len(node.ops) == 1 and isinstance(node.ops[0], _ORDERS):
            for one, other in (
                (node.left, node.comparators[0]),
                (node.comparators[0], node.left),
            ):
                key = self._key(one) or self._got(one)
                if key is not None and _is_number(other):
                    self._numbers.add(key)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        with self._guarding():
            for value in node.values[1:]:
                self.visit(value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        with self._guarding():
            self.visit(node.body)
            self.visit(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        with self._guarding():
            for inner in (*node.body, *node.orelse):
                self.visit(inner)
        if _ends(node.body) and not node.orelse:
            self._guards += 1  # what follows is on one path only, to the end of the function

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        with self._guarding():
            for inner in (*node.body, *node.orelse):
                self.visit(inner)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        with self._guarding():
            for inner in (*node.body, *node.orelse):
                self.visit(inner)

    def visit_Try(self, node: ast.Try) -> None:
        self._tries += 1
        for inner in node.body:
            self.visit(inner)
        self._tries -= 1
        for handler in node.handlers:
            for inner in handler.body:
                self.visit(inner)
        for inner in (*node.orelse, *node.finalbody):
            self.visit(inner)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node.body)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == self.state and id(node) not in self._known:
            self._reads_all = False

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._returns.append(set())
        else:
            self.returned(node.value)
        self.generic_visit(node)

    def returned(self, value: ast.AST) -> None:
        """Take note of what is returned: a dict with known keys, None, or who knows what."""
        match value:
            case ast.Constant(value=None):
                self._returns.append(set())
            case ast.IfExp():
                self.returned(value.body)
                self.returned(value.orelse)
            case ast.Dict():
                self._returned(zip(value.keys, value.values, strict=True))
            case ast.Call(func=ast.Name(id="dict"), args=[]):
                named = ((ast.Constant(k.arg) if k.arg else None, k.value) for k in value.keywords)
                self._returned(named)
            case _:
                self._writes_all = False

    def _returned(self, pairs: Iterable[tuple[ast.expr | None, ast.expr]]) -> None:
        keys: set[str] = set()
        for key, held in pairs:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                self._writes_all = False
            elif not (isinstance(held, ast.Constant) and held.value is None):
                keys.add(key.value)
                self._kinds.setdefault(key.value, set()).add(_kind(held))
            else:
                self._writes_all = False  # None deletes the key
        self._returns.append(keys)

    def _key(self, node: ast.AST) -> str | None:
        """The key of `state["key"]`; None for anything else."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key)):
                return key if name == self.state else None
            case _:
                return None

    def _got(self, node: ast.AST) -> str | None:
        """The key of `state.get("key")`; None for anything else."""
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                args=[ast.Constant(value=str() as key), *_],
            ):
                return key if name == self.state else None
            case _:
                return None

    def _inside(self, body: list[ast.stmt]) -> None:
        """A function in the function: what it returns is not what the outer one does."""
        held, self._returns = self._returns, []
        all_written = self._writes_all
        with self._guarding():
            for inner in body:
                self.visit(inner)
        self._returns, self._writes_all = held, all_written

    @contextmanager
    def _guarding(self) -> Generator[None]:
        before = self._guards
        self._guards += 1
        try:
            yield
        finally:
            self._guards = before


def _is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    )


def _kind(node: ast.expr) -> str:
    """The JSON type of an expression, or nothing where it cannot be seen."""
    match node:
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
            return {
                "str": "string", "len": "number", "int": "number", "float": "number",
                "round": "number", "list": "array", "sorted": "array", "bool": "boolean",
                "dict": "object",
            }.get(name, "")  # fmt: skip
        case ast.Call(func=ast.Attribute(attr="split" | "splitlines")):
            return "array"
        case ast.Call(func=ast.Attribute(attr="join" | "strip" | "lower" | "upper" | "title")):
            return "string"
        case ast.Compare():
            return "boolean"
        case _:
            return ""
