"""The expressions of a function of the state: what is looked up in them, and what is handed on."""

import ast
from collections.abc import Iterable

from weft.checker.found import Found
from weft.checker.keys import Compared, Operator
from weft.checker.kinds import is_none, is_number
from weft.checker.path import STATE, Path, meet
from weft.checker.scope import Scope, Way
from weft.checker.storing import Stores, arguments

_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
_PLAIN = frozenset(
    (
        "all", "any", "bool", "dict", "enumerate", "filter", "float", "frozenset", "int",
        "isinstance", "len", "list", "map", "max", "min", "print", "repr", "reversed", "round",
        "set", "sorted", "str", "sum", "tuple", "type", "zip",
        "copy", "deepcopy", "debug", "dumps", "error", "format", "info", "join", "pformat",
        "warning",
    )
)  # fmt: skip
"""Functions that change nothing that they are handed."""
_CHANGING = frozenset(
    (
        "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove",
        "reverse", "setdefault", "sort", "update",
    )
)  # fmt: skip
"""Methods that change what they belong to."""

_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Looks:
    """Goes through expressions, and takes note of what is done with the state."""

    def __init__(self, scope: Scope, found: Found) -> None:
        self._scope = scope
        self._found = found
        self.stores = Stores(scope, found, self.at)
        self._fine: set[int] = set()
        self._either_of: dict[int, tuple[str | int | float | bool, ...]] = {}
        """By comparison: all values that it is one alternative of."""

    def children(self, node: ast.AST, path: Path) -> None:
        """All expressions below a node."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.at(child, path)
            elif isinstance(child, ast.keyword | ast.comprehension | ast.stmt):
                self.children(child, path)

    def at(self, node: ast.expr, path: Path) -> None:
        """One expression, with all that is in it."""
        holder = self._scope.holder(node)
        if holder is not None:
            if id(node) not in self._fine:
                self._found.lose(holder)
                self._found.reads_all &= holder != STATE
            return
        match node:
            case ast.Call():
                self._call(node, path)
            case ast.BoolOp():
                if isinstance(node.op, ast.Or):
                    self._alternatives(node.values)
                self.at(node.values[0], path)
                with self._found.perhaps(path) as way:
                    for value in node.values[1:]:
                        self.at(value, way)
            case ast.IfExp():
                self._either(node, path)
            case ast.Lambda():
                with self._found.perhaps(path) as way:
                    self.at(node.body, way)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, path)
            case ast.Subscript():
                self._subscript(node, path)
                self.children(node, path)
            case ast.Compare():
                self._compare(node, path)
                self.children(node, path)
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                self.see(held for key, held in pairs if key is None)
                self.children(node, path)
            case ast.FormattedValue():
                self.see([node.value])
                self.children(node, path)
            case ast.NamedExpr():
                self.at(node.value, path)
                self.stores.assign(node.target, node.value, path)
            case _:
                self.children(node, path)

    def iterate(self, node: ast.expr, path: Path) -> None:
        """What a loop goes over: its elements are at hand, to be changed."""
        self.see([node])
        self.stores.touch(node)
        self.at(node, path)

    def see(self, nodes: Iterable[ast.expr]) -> None:
        """The state as a whole, where it is only looked at."""
        for node in nodes:
            holder = self._scope.holder(node)
            if holder is not None:
                self._fine.add(id(node))
                self._found.reads_all &= holder != STATE

    def rename(self, node: ast.Assign) -> None:
        """`held = state`: one more name for it, where it stays that."""
        match node.targets:
            case [ast.Name(id=name)] if name in self._scope.once:
                if self._scope.holder(node.value) == STATE:
                    self._fine.add(id(node.value))
            case _:
                pass

    def returned(self, node: ast.expr) -> None:
        """The state, or a dict, that is given back as it is."""
        match node:
            case ast.Name():
                self.see([node])
            case ast.BinOp(op=ast.BitOr()):
                self.returned(node.left)
                self.returned(node.right)
            case _:
                pass

    def is_update(self, node: ast.expr) -> bool:
        """Whether it is `state.update(...)`, which gives nothing back."""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="update")):
                return self._scope.holder(value) is not None
            case _:
                return False

    def _either(self, node: ast.IfExp, path: Path) -> None:
        self.at(node.test, path)
        ways = path.branch(), path.branch()
        self.at(node.body, ways[0])
        self.at(node.orelse, ways[1])
        met = meet(path, ways)
        assert met is not None
        path.held = met.held

    def _subscript(self, node: ast.Subscript, path: Path) -> None:
        holder = self._scope.holder(node.value)
        if holder is None:
            self._found.follow(self._scope.way(node), path)
            return
        self._fine.add(id(node.value))
        key = self._scope.text(node.slice)
        if holder == STATE and key is not None:
            self._found.read(key, path)
        elif holder == STATE:
            self._found.reads_all = False

    def _call(self, node: ast.Call, path: Path) -> None:
        name = ""
        match node.func:
            case ast.Attribute(value=value, attr=name):
                holder = self._scope.holder(value)
                if holder is not None:
                    self._fine.add(id(value))
                    self._asked(holder, name, node, path)
                    self.children(node, path)
                    return
                self._found.follow(self._scope.way(node), path)
                if name in _CHANGING:
                    self.stores.touch(value)
            case ast.Name(id=name):
                pass
            case _:
                pass
        self.see(one.value for one in node.keywords if one.arg is None)
        if name not in _PLAIN:
            self._help(node, path)
        if name in _PLAIN:
            self.see(node.args)
        else:
            for one in (*node.args, *(each.value for each in node.keywords)):
                self.stores.touch(one)
        self.children(node, path)

    def _help(self, node: ast.Call, path: Path) -> None:
        """A function that gets the state from this one: what it does is done here."""
        given = [*node.args, *(one.value for one in node.keywords if one.arg is not None)]
        states = [one for one in given if self._scope.holder(one) == STATE]
        if len(states) != 1 or self._scope.helper is None:
            return
        keys = self._scope.helper(node, states[0], self._scope.around)
        if keys.reads_all or keys.writes_all:
            self._fine.add(id(states[0]))
            self._found.include(keys, path)

    def _asked(self, holder: str, method: str, node: ast.Call, path: Path) -> None:
        """A method of the state, or of a dict of the function's own."""
        found, own = self._found, holder != STATE
        key = self._scope.text(node.args[0]) if node.args else None
        match method:
            case "get" if key is not None:
                if not own:
                    found.ask(key, path)
            case "setdefault" if key is not None:
                if not own:
                    found.ask(key, path)
                if len(node.args) > 1 and not is_none(node.args[1]):
                    found.write(holder, key, path, "")
            case "pop" if key is not None and own:
                found.unset(holder, key, path)
            case "pop" if key is not None:
                if len(node.args) > 1:
                    found.ask(key, path)
                else:
                    found.read(key, path)
                found.take(holder, key, path)
            case "update":
                self.see(node.args)
                self.stores.update(holder, arguments(node), path)
            case "get" | "keys" | "items" | "values" | "copy" | "to_dict":
                found.reads_all &= own
            case _:
                found.lose(holder)

    def _compare(self, node: ast.Compare, path: Path) -> None:
        lefts = (node.left, *node.comparators)
        for operator, left, right in zip(node.ops, lefts, node.comparators, strict=False):
            holder = self._scope.holder(right)
            if holder is None or not isinstance(operator, ast.In | ast.NotIn):
                continue
            self._fine.add(id(right))
            key = self._scope.text(left)
            if holder == STATE and key is not None:
                self._found.ask(key, path)
            elif holder == STATE:
                self._found.reads_all = False
        if len(node.ops) == 1 and isinstance(node.ops[0], _ORDERS):
            right = node.comparators[0]
            for one, other in ((node.left, right), (right, node.left)):
                if is_number(other):
                    self._found.compare(self._scope.way(one))
        if len(node.ops) == 1:
            self._match(node, node.left, node.ops[0], node.comparators[0])

    def _alternatives(self, nodes: Iterable[ast.expr]) -> None:
        """`a == "x" or a == "y"`: one of them may never hold, as long as another does."""
        several: dict[Way, list[ast.Compare]] = {}
        for node in nodes:
            match node:
                case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                    way = self._scope.way(left) or self._scope.way(right)
                    if way is not None:
                        several.setdefault(way, []).append(node)
                case _:
                    pass
        for same in several.values():
            sides = [side for one in same for side in (one.left, one.comparators[0])]
            values = [value for side in sides for value in self._plain(side) or ()]
            self._either_of.update({id(one): tuple(values) for one in same if len(same) > 1})

    def _match(
        self, node: ast.Compare, left: ast.expr, operator: ast.cmpop, right: ast.expr
    ) -> None:
        """A value of the state beside one that stands there: `state["next"] == "finish"`."""
        match operator:
            case ast.Eq() | ast.NotEq():
                sides = ((left, right), (right, left))
                one = next((pair for pair in sides if self._scope.way(pair[0])), None)
                name: Operator = "eq" if isinstance(operator, ast.Eq) else "ne"
                values = self._plain(one[1]) if one is not None else None
                value = one[0] if one is not None else left
            case ast.In() | ast.NotIn() if self._scope.way(left):
                name, value = "in" if isinstance(operator, ast.In) else "not in", left
                values = self._several(right)
            case ast.In() if self._scope.way(right):
                name, value, values = "contains", right, self._plain(left)
            case _:
                return
        if values is not None and id(node) in self._either_of:
            name, values = "in", self._either_of[id(node)]
        way, spare = self._scope.way(value), self._spare(value)
        if way is not None and values is not None and spare is not None:
            self._found.match(Compared(way[0], way[1], name, values, spare))

    def _plain(self, node: ast.expr) -> tuple[str | int | float | bool, ...] | None:
        """The text, number or truth that an expression is."""
        text = self._scope.text(node)
        if text is not None:
            return (text,)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            return (node.value,)
        return None

    def _several(self, node: ast.expr) -> tuple[str | int | float | bool, ...] | None:
        """The values of a tuple, list or set that stands there."""
        if not isinstance(node, ast.Tuple | ast.List | ast.Set) or not node.elts:
            return None
        found = [self._plain(one) for one in node.elts]
        return None if None in found else tuple(v for one in found if one for v in one)

    def _spare(self, node: ast.expr) -> tuple[str | int | float | bool, ...] | None:
        """What `.get(key, spare)` gives where the key lacks; None where that cannot be seen."""
        match node:
            case ast.Name(id=name) if name in self._scope.aliased:
                return self._spare(self._scope.aliased[name])
            case ast.Call(func=ast.Attribute(value=value), args=[_, spare]):
                plain, inner = self._plain(spare), self._spare(value)
                empty = isinstance(spare, ast.Dict) and not spare.keys
                found = () if empty else plain
                if self._scope.holder(value) is not None:
                    return found
                return None if found is None or inner is None else (*found, *inner)
            case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)):
                return () if self._scope.holder(value) is not None else self._spare(value)
            case _:
                return ()

    def _comprehension(self, node: _Comprehension, path: Path) -> None:
        first, *more = node.generators
        if any(isinstance(one, ast.Attribute) and one.attr in _CHANGING for one in ast.walk(node)):
            for generator in node.generators:
                self.stores.touch(generator.iter)
        self.see([first.iter])
        self.at(first.iter, path)
        with self._found.perhaps(path) as inner:
            for one in first.ifs:
                self.at(one, inner)
            for generator in more:
                self.see([generator.iter])
                self.children(generator, inner)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.at(child, inner)
