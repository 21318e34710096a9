"""Read the expressions of a user's function: which keys of the state they read and write."""

import ast
from collections.abc import Callable, Iterable
from typing import cast

from weft.checker.keys import (
    STATE,
    Contents,
    KeyCollector,
    KeyComparison,
    Keys,
    Operator,
    Path,
    Way,
    meet,
    merge_contents,
)
from weft.checker.scope import FunctionScope, is_none, is_number, kind_of, texts_of
from weft.checker.sources import CHANGING, UNKNOWN

Helper = Callable[[ast.Call, ast.expr | None, FunctionScope], Keys]
"""Reads a called function: what it does with the state, if one of its arguments is that."""

Pairs = Iterable[tuple[ast.expr | None, ast.expr]]
"""What a dict is made of: keys with their values, and whole dicts without a key."""

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
"""Functions that do not change their arguments."""

_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class ExpressionReader:
    """Goes through expressions and assignments, and notes what they do with the state."""

    def __init__(self, scope: FunctionScope, collector: KeyCollector, helper: Helper) -> None:
        self._scope = scope
        self._collector = collector
        self._helper = helper
        self._allowed: set[int] = set()
        self._either_of: dict[int, tuple[str | int | float | bool, ...]] = {}
        """By `id` of a comparison: the values of all alternatives it is one of."""

    def read_below(self, node: ast.AST, path: Path) -> None:
        """Read all expressions below a node."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.read(child, path)
            elif isinstance(child, ast.keyword | ast.comprehension | ast.stmt):
                self.read_below(child, path)

    def read(self, node: ast.expr, path: Path) -> None:
        """Read one expression, with all that is in it."""
        holder = self._scope.holder(node)
        if holder is not None:
            # the state as a whole, in a place that may change it
            if id(node) not in self._allowed:
                self._collector.lose(holder)
                self._collector.reads_all &= holder != STATE
            return
        match node:
            case ast.Call():
                self._call(node, path)
            case ast.BoolOp():
                if isinstance(node.op, ast.Or):
                    self._alternatives(node.values)
                self.read(node.values[0], path)
                with self._collector.perhaps(path) as way:
                    for value in node.values[1:]:
                        self.read(value, way)
            case ast.IfExp():
                self._either(node, path)
            case ast.Lambda():
                with self._collector.perhaps(path) as way:
                    self.read(node.body, way)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, path)
            case ast.Subscript():
                self._subscript(node, path)
                self.read_below(node, path)
            case ast.Compare():
                self._compare(node, path)
                self.read_below(node, path)
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                self.allow_look(inner for key, inner in pairs if key is None)
                self.read_below(node, path)
            case ast.FormattedValue():
                self.allow_look([node.value])
                self.read_below(node, path)
            case ast.NamedExpr():
                self.read(node.value, path)
                self.assign(node.target, node.value, path)
            case _:
                self.read_below(node, path)

    def iterate(self, node: ast.expr, path: Path) -> None:
        """Read what a loop iterates over: the loop may change its elements."""
        self.allow_look([node])
        self.touch(node)
        self.read(node, path)

    def name_element(self, target: ast.expr, node: ast.expr) -> None:
        """`for order in state["orders"]`: the name stands for an element of that list."""
        way = self._scope.way(node)
        if isinstance(target, ast.Name) and target.id in self._scope.once and way is not None:
            self._scope.aliases[target.id] = (way[0], (*way[1], 0))

    def allow_look(self, nodes: Iterable[ast.expr]) -> None:
        """Allow the state as a whole in places that only look at it."""
        for node in nodes:
            holder = self._scope.holder(node)
            if holder is not None:
                self._allowed.add(id(node))
                self._collector.reads_all &= holder != STATE

    def allow_alias(self, node: ast.Assign) -> None:
        """Allow `held = state`: another name for the state, if it is set once."""
        match node.targets:
            case [ast.Name(id=name)] if name in self._scope.once:
                if self._scope.holder(node.value) == STATE:
                    self._allowed.add(id(node.value))
            case _:
                pass

    def allow_return(self, node: ast.expr) -> None:
        """Allow the state, or a dict, to be returned unchanged."""
        match node:
            case ast.BinOp(op=ast.BitOr()):
                self.allow_return(node.left)
                self.allow_return(node.right)
            case _:
                self.allow_look([node])

    def is_update(self, node: ast.expr) -> bool:
        """Whether it is `state.update(...)`, which returns None."""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="update")):
                return self._scope.holder(value) is not None
            case _:
                return False

    def _either(self, node: ast.IfExp, path: Path) -> None:
        self.read(node.test, path)
        ways = path.branch(), path.branch()
        self.read(node.body, ways[0])
        self.read(node.orelse, ways[1])
        met = meet(path, ways)
        assert met is not None
        path.changes = met.changes

    def _subscript(self, node: ast.Subscript, path: Path) -> None:
        holder = self._scope.holder(node.value)
        if holder is None:
            self._collector.follow(self._scope.way(node), path)
            return
        self._allowed.add(id(node.value))
        key = self._scope.text(node.slice)
        if holder == STATE and key is not None:
            self._collector.read(key, path)
        elif holder == STATE:
            self._collector.reads_all = False

    def _call(self, node: ast.Call, path: Path) -> None:
        name = ""
        match node.func:
            case ast.Attribute(value=value, attr=name):
                holder = self._scope.holder(value)
                if holder is not None:
                    self._allowed.add(id(value))
                    self._call_method(holder, name, node, path)
                    self.read_below(node, path)
                    return
                self._collector.follow(self._scope.way(node), path)
                if name in CHANGING:
                    self.touch(value)
            case ast.Name(id=name):
                pass
            case _:
                pass
        self.allow_look(one.value for one in node.keywords if one.arg is None)
        if name in _PLAIN and id(node) not in self._scope.context_calls:
            self.allow_look(node.args)
        else:
            self._help(node, path)
            for one in (*node.args, *(each.value for each in node.keywords)):
                self.touch(one)
        self.read_below(node, path)

    def _help(self, node: ast.Call, path: Path) -> None:
        """Include what a called function does with the state that it is passed."""
        states = self._states_passed(node)
        # passed twice: which parameter does what cannot be said
        if len(states) != 1:
            return
        keys = self._keys_of_call(node, states)
        # else the state counts as handed to code that cannot be seen
        if keys.reads_all or keys.writes_all:
            self._allowed.add(id(states[0]))
            self._collector.include(keys, path)

    def _states_passed(self, node: ast.Call) -> list[ast.expr]:
        """Find the arguments of a call that are the state."""
        passed = [*node.args, *(one.value for one in node.keywords if one.arg is not None)]
        return [one for one in passed if self._scope.holder(one) == STATE]

    def _keys_of_call(self, node: ast.Call, states: list[ast.expr]) -> Keys:
        """What a called function does with the state, which it gets once at most."""
        known = self._scope.context_calls.get(id(node))
        if known is not None:
            return known
        return self._helper(node, states[0] if states else None, self._scope)

    def _call_method(self, holder: str, method: str, node: ast.Call, path: Path) -> None:
        """Read a call of a method of the state, or of a dict that the function made."""
        collector, own = self._collector, holder != STATE
        key = self._scope.text(node.args[0]) if node.args else None
        match method:
            case "get" if key is not None:
                if not own:
                    collector.ask(key, path)
            case "setdefault" if key is not None:
                if not own:
                    collector.ask(key, path)
                if len(node.args) > 1 and not is_none(node.args[1]):
                    collector.write(holder, key, path, "")
            case "pop" if key is not None and own:
                collector.unset(holder, key, path)
            case "pop" if key is not None:
                if len(node.args) > 1:
                    collector.ask(key, path)
                else:
                    collector.read(key, path)
                collector.take(holder, key, path)
            case "update":
                self.allow_look(node.args)
                self.update(holder, pairs_of_call(node), path)
            case "get" | "keys" | "items" | "values" | "copy" | "to_dict":
                collector.reads_all &= own
            case _:
                collector.lose(holder)

    def _compare(self, node: ast.Compare, path: Path) -> None:
        lefts = (node.left, *node.comparators)
        for operator, left_side, right in zip(node.ops, lefts, node.comparators, strict=False):
            holder = self._scope.holder(right)
            if holder is None or not isinstance(operator, ast.In | ast.NotIn):
                continue
            self._allowed.add(id(right))
            key = self._scope.text(left_side)
            if holder == STATE and key is not None:
                self._collector.ask(key, path)
            elif holder == STATE:
                self._collector.reads_all = False
        if len(node.ops) == 1 and isinstance(node.ops[0], _ORDERS):
            right = node.comparators[0]
            for one, other in ((node.left, right), (right, node.left)):
                if is_number(other):
                    self._collector.compare(self._scope.way(one))
        if len(node.ops) == 1:
            self._match(node, node.left, node.ops[0], node.comparators[0])

    def _alternatives(self, nodes: Iterable[ast.expr]) -> None:
        """`a == "x" or a == "y"`: one may never hold, if another can."""
        several: dict[Way, list[ast.Compare]] = {}
        for node in nodes:
            match node:
                case ast.Compare(left=left_side, ops=[ast.Eq()], comparators=[right]):
                    way = self._scope.way(left_side) or self._scope.way(right)
                    if way is not None:
                        several.setdefault(way, []).append(node)
                case _:
                    pass
        for same in several.values():
            sides = [side for one in same for side in (one.left, one.comparators[0])]
            values = [value for side in sides for value in self._plain(side) or ()]
            self._either_of.update({id(one): tuple(values) for one in same if len(same) > 1})

    def _match(
        self, node: ast.Compare, left_side: ast.expr, operator: ast.cmpop, right: ast.expr
    ) -> None:
        """Note a comparison with a constant: `state["next"] == "finish"`."""
        match operator:
            case ast.Eq() | ast.NotEq():
                sides = ((left_side, right), (right, left_side))
                one = next((pair for pair in sides if self._scope.way(pair[0])), None)
                name: Operator = "eq" if isinstance(operator, ast.Eq) else "ne"
                values = self._plain(one[1]) if one is not None else None
                value = one[0] if one is not None else left_side
            case ast.In() | ast.NotIn() if self._scope.way(left_side):
                name, value = "in" if isinstance(operator, ast.In) else "not in", left_side
                values = self._several(right)
            case ast.In() if self._scope.way(right):
                name, value, values = "contains", right, self._plain(left_side)
            case _:
                return
        if values is not None and id(node) in self._either_of:
            name, values = "in", self._either_of[id(node)]
        way, spare = self._scope.way(value), self._spare(value)
        if way is not None and values is not None and spare is not None:
            self._collector.match(KeyComparison(way[0], way[1], name, values, spare))

    def _plain(self, node: ast.expr) -> tuple[str | int | float | bool, ...] | None:
        """The text, number or boolean that an expression is; None for others."""
        text = self._scope.text(node)
        if text is not None:
            return (text,)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            return (node.value,)
        return None

    def _several(self, node: ast.expr) -> tuple[str | int | float | bool, ...] | None:
        """The values of a constant tuple, list or set."""
        if not isinstance(node, ast.Tuple | ast.List | ast.Set) or not node.elts:
            return None
        values = [self._plain(one) for one in node.elts]
        return None if None in values else tuple(v for one in values if one for v in one)

    def _spare(self, node: ast.expr) -> tuple[str | int | float | bool, ...] | None:
        """What `.get(key, spare)` returns if the key is absent; None where that cannot be seen."""
        match node:
            case ast.Name(id=name) if name in self._scope.aliased:
                return self._spare(self._scope.aliased[name])
            case ast.Call(func=ast.Attribute(value=value), args=[_, spare]):
                plain, inner = self._plain(spare), self._spare(value)
                empty = isinstance(spare, ast.Dict) and not spare.keys
                values = () if empty else plain
                if self._scope.holder(value) is not None:
                    return values
                return None if values is None or inner is None else (*values, *inner)
            case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)):
                return () if self._scope.holder(value) is not None else self._spare(value)
            case _:
                return ()

    def _comprehension(self, node: _Comprehension, path: Path) -> None:
        first, *more = node.generators
        if any(isinstance(one, ast.Attribute) and one.attr in CHANGING for one in ast.walk(node)):
            for generator in node.generators:
                self.touch(generator.iter)
        self.allow_look([first.iter])
        self.read(first.iter, path)
        self.name_element(first.target, first.iter)
        with self._collector.perhaps(path) as inner:
            for one in first.ifs:
                self.read(one, inner)
            for generator in more:
                self.allow_look([generator.iter])
                self.read_below(generator, inner)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.read(child, inner)

    def assign(self, target: ast.expr, value: ast.expr | None, path: Path) -> None:
        """Read an assignment to a name, to the state or to a dict."""
        match target:
            case ast.Name(id=name):
                self._name(name, value, path)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                values: list[ast.expr | None] = [None] * len(elements)
                if isinstance(value, ast.Tuple) and len(value.elts) == len(elements):
                    values = [*value.elts]
                elif value is not None:
                    self.touch(value)
                for one, element in zip(elements, values, strict=True):
                    self.assign(one, element, path)
            case ast.Subscript():
                self.read(target.slice, path)
                holder = self._scope.holder(target.value)
                if holder is None:
                    self.touch(target.value)
                    self.read(target.value, path)
                else:
                    self._store(holder, self._scope.text(target.slice), value, path)
            case ast.Starred():
                self.assign(target.value, None, path)
            case _:
                self.read(target, path)

    def _name(self, name: str, value: ast.expr | None, path: Path) -> None:
        scope = self._scope
        # the name means something else from here on
        if name in scope.states or name in scope.dicts:
            self._collector.lose(STATE if name in scope.states else name)
        if value is None:
            return
        if scope.holder(value) == STATE and name in scope.once:
            scope.states.add(name)
            return
        contents = None if scope.holder(value) is not None else self.contents_of(value, path)
        if contents is not None and contents.is_state:  # a helper that returns the state
            if name in scope.once:
                scope.states.add(name)
            else:
                self._collector.lose(STATE)
            return
        if contents is not None:
            scope.dicts.add(name)
            for key in path.keys_of(name):
                del path.changes[name, key]
            self.put(name, contents, path)
            return
        way = scope.way(value)
        if way is not None and name in scope.once:
            scope.aliases[name] = way
            scope.aliased[name] = value
        else:
            self.touch(value)

    def _store(self, holder: str, key: str | None, value: ast.expr | None, path: Path) -> None:
        if key is None:
            self._collector.lose(holder)
        # a key that is set to None is removed
        elif value is not None and is_none(value):
            self._collector.take(holder, key, path)
        else:
            self._collector.write(holder, key, path, kind_of(value), texts_of(value))

    def augment(self, target: ast.expr, value: ast.expr, path: Path) -> None:
        """`state["n"] += 1`, or `changes |= {...}`."""
        holder = self._scope.holder(target)
        if holder is not None:
            self.update(holder, [(None, value)], path)
        elif isinstance(target, ast.Subscript):
            self.read(ast.Subscript(target.value, target.slice, ast.Load()), path)
            self.assign(target, None, path)
        else:
            self.touch(target)

    def delete(self, target: ast.expr, path: Path) -> None:
        """`del state["key"]`: the key must be there, and is removed."""
        if not isinstance(target, ast.Subscript):
            return
        holder = self._scope.holder(target.value)
        if holder is None:
            self.touch(target.value)
            self.read(target.value, path)
            return
        key = self._scope.text(target.slice)
        if key is None:
            self._collector.lose(holder)
            return
        if holder == STATE:
            self._collector.read(key, path)
            self._collector.take(holder, key, path)
        else:
            self._collector.unset(holder, key, path)

    def update(self, holder: str, pairs: Pairs, path: Path) -> None:
        """Write the keys of one or several dicts."""
        contents = self._pairs(pairs, path)
        if contents is None:
            self._collector.lose(holder)
        else:
            self.put(holder, contents, path)

    def put(self, holder: str, contents: Contents, path: Path) -> None:
        """Write the keys of a dict to the state, or to another dict."""
        for key, there in contents.sure.items():
            if there:
                self._collector.write(holder, key, path)
            else:
                self._collector.take(holder, key, path)
        self._collector.note_possible(holder, contents, path)

    def contents_of(self, node: ast.expr, path: Path) -> Contents | None:
        """The keys of a dict that an expression makes; None where they cannot be followed."""
        holder = self._scope.holder(node)
        # returning the state itself changes nothing
        if holder == STATE:
            return Contents({}, is_state=True)
        if holder is not None:
            return self._collector.contents_of(holder, path)
        match node:
            case ast.Dict():
                return self._pairs(zip(node.keys, node.values, strict=True), path)
            case ast.Name() | ast.Attribute():
                return self._contents_of_constant(self._scope.constant(node))
            case ast.DictComp():
                return self._contents_of_comprehension(node)
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.contents_of(value, path)
            case ast.IfExp(body=body, orelse=orelse):
                return merge_contents([self.contents_of(one, path) for one in (body, orelse)])
            case ast.BoolOp(op=ast.Or(), values=values):
                return merge_contents([self.contents_of(one, path) for one in values])
            case ast.BinOp(op=ast.BitOr()):
                return self._pairs([(None, node.left), (None, node.right)], path)
            case ast.Call():
                return self._contents_of_call(node, path)
            case _:
                return None

    def _contents_of_call(self, node: ast.Call, path: Path) -> Contents | None:
        """The keys of the dict that a call returns."""
        match node:
            case _ if id(node) in self._scope.context_calls:
                pass
            case ast.Call(func=ast.Name(id="dict")):
                return self._pairs(pairs_of_call(node), path)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="dict"), attr="fromkeys"), args=[names, *rest]
            ):
                value = None if not rest or is_none(rest[0]) else UNKNOWN
                return self._contents_of_constant(dict.fromkeys(self._scope.elements(names), value))
            case (
                ast.Call(func=ast.Attribute(value=value, attr="copy"), args=[])
                | ast.Call(
                    func=ast.Name(id="copy" | "deepcopy") | ast.Attribute(attr="copy" | "deepcopy"),
                    args=[value],
                )
            ):
                copied = self.contents_of(value, path)
                return None if copied is None else copied._replace(is_state=False)
            case _:
                pass
        states = self._states_passed(node)
        if len(states) > 1:
            return None
        keys = self._keys_of_call(node, states)
        if keys.returns is not None:
            for key in (*keys.returns.sure, *keys.returns.maybe):
                self._collector.describe(
                    key, keys.kinds.get(key, ""), keys.texts.get(key, frozenset[str]())
                )
        return keys.returns

    def _contents_of_constant(self, value: object) -> Contents | None:
        """The keys of a dict that is defined outside of the function."""
        if not isinstance(value, dict) or not value:  # an empty one may be filled by a run
            return None
        sure: dict[str, bool] = {}
        for key, one in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                return None
            sure[key] = one is not None
            self._collector.describe(key, "")
        return Contents(sure)

    def _contents_of_comprehension(self, node: ast.DictComp) -> Contents | None:
        """The keys of `{key: ... for key in ("a", "b")}`."""
        match node.generators:
            case [ast.comprehension(target=target, iter=iterated, ifs=tests)]:
                rounds = self._scope.rounds(target, iterated)
            case _:
                return None
        keys: list[str | None] = []
        for texts in rounds or ():
            self._scope.names.update(texts)
            keys.append(self._scope.text(node.key))
            for name in texts:
                del self._scope.names[name]
        if not keys or None in keys:
            return None
        names = [key for key in keys if key is not None]
        for key in names:
            self._collector.describe(key, kind_of(node.value))
        if tests:
            return Contents({}, frozenset(names))
        return Contents(dict.fromkeys(names, not is_none(node.value)))

    def _pairs(self, pairs: Pairs, path: Path) -> Contents | None:
        sure: dict[str, bool] = {}
        maybe: set[str] = set()
        gone: set[str] = set()
        for key, value in pairs:
            if key is None:
                inner = self.contents_of(value, path)
                if inner is None:
                    return None
                sure = {**sure, **inner.sure}
                for key_ in inner.maybe | inner.may_go:
                    if key_ in sure and key_ not in inner.sure:
                        (maybe if sure.pop(key_) else gone).add(key_)
                maybe |= inner.maybe
                gone |= inner.may_go
                continue
            name = self._scope.text(key)
            if name is None:
                return None
            sure[name] = not is_none(value)
            self._collector.describe(name, kind_of(value), texts_of(value))
        return Contents(sure, frozenset(maybe - sure.keys()), frozenset(gone - sure.keys()))

    def touch(self, node: ast.expr) -> None:
        """Note that a value of the state, or one of several, may be changed in place."""
        match node:
            case ast.BoolOp(values=several):
                pass
            case ast.IfExp(body=body, orelse=orelse):
                several = [body, orelse]
            case ast.List(elts=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
                pass
            case ast.Dict(values=several):
                pass
            case ast.Starred(value=value) | ast.NamedExpr(value=value):
                several = [value]
            case _:
                key = self._scope.origin(node)
                if key is not None:
                    self._collector.touched.add(key)
                return
        for one in several:
            self.touch(one)


def pairs_of_call(node: ast.Call) -> list[tuple[ast.expr | None, ast.expr]]:
    """The pairs that `dict(...)` or `update(...)` gets from its arguments."""
    named = [(ast.Constant(one.arg) if one.arg else None, one.value) for one in node.keywords]
    return [*((None, one) for one in node.args), *named]
