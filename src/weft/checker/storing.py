"""What a function stores: in the state, or in a dict of its own that it returns."""

import ast
from collections.abc import Callable, Iterable

from weft.checker.found import Found
from weft.checker.kinds import is_none, kind_of, texts_of
from weft.checker.path import STATE, Contents, Path
from weft.checker.scope import Scope

Pairs = Iterable[tuple[ast.expr | None, ast.expr]]


class Stores:
    """Follows values into the state and into dicts; `look` is asked about expressions."""

    def __init__(self, scope: Scope, found: Found, look: Callable[[ast.expr, Path], None]) -> None:
        self._scope = scope
        self._found = found
        self._look = look

    def assign(self, target: ast.expr, value: ast.expr | None, path: Path) -> None:
        """A value that is given to a name, or stored in the state or a dict."""
        match target:
            case ast.Name(id=name):
                self._name(name, value, path)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                values: list[ast.expr | None] = [None] * len(elements)
                if isinstance(value, ast.Tuple) and len(value.elts) == len(elements):
                    values = [*value.elts]
                elif value is not None:
                    self.touch(value)
                for one, held in zip(elements, values, strict=True):
                    self.assign(one, held, path)
            case ast.Subscript():
                self._look(target.slice, path)
                holder = self._scope.holder(target.value)
                if holder is None:
                    self.touch(target.value)
                    self._look(target.value, path)
                else:
                    self._store(holder, self._scope.text(target.slice), value, path)
            case ast.Starred():
                self.assign(target.value, None, path)
            case _:
                self._look(target, path)

    def _name(self, name: str, value: ast.expr | None, path: Path) -> None:
        scope = self._scope
        if name in scope.states or name in scope.dicts:
            self._found.lose(STATE if name in scope.states else name)
        if value is None:
            return
        if scope.holder(value) == STATE and name in scope.once:
            scope.states.add(name)
            return
        given = None if scope.holder(value) is not None else self.contents(value, path)
        if given is not None:
            scope.dicts.add(name)
            for key in path.keys_of(name):
                del path.held[name, key]
            self.put(name, given, path)
            return
        way = scope.way(value)
        if way is not None and name in scope.once:
            scope.aliases[name] = way
            scope.aliased[name] = value
        else:
            self.touch(value)

    def _store(self, holder: str, key: str | None, value: ast.expr | None, path: Path) -> None:
        if key is None:
            self._found.lose(holder)
        elif value is not None and is_none(value):
            self._found.take(holder, key, path)
        else:
            self._found.write(holder, key, path, kind_of(value), texts_of(value))

    def augment(self, target: ast.expr, value: ast.expr, path: Path) -> None:
        """`state["n"] += 1`, or `changes |= {...}`."""
        holder = self._scope.holder(target)
        if holder is not None:
            self.update(holder, [(None, value)], path)
        elif isinstance(target, ast.Subscript):
            self._look(ast.Subscript(target.value, target.slice, ast.Load()), path)
            self.assign(target, None, path)
        else:
            self.touch(target)

    def delete(self, target: ast.expr, path: Path) -> None:
        """`del state["key"]`: it must be there, and is no longer."""
        if not isinstance(target, ast.Subscript):
            return
        holder = self._scope.holder(target.value)
        if holder is None:
            self.touch(target.value)
            self._look(target.value, path)
            return
        key = self._scope.text(target.slice)
        if key is None:
            self._found.lose(holder)
            return
        if holder == STATE:
            self._found.read(key, path)
            self._found.take(holder, key, path)
        else:
            self._found.unset(holder, key, path)

    def update(self, holder: str, pairs: Pairs, path: Path) -> None:
        """Write what one or several dicts have."""
        given = self._pairs(pairs, path)
        if given is None:
            self._found.lose(holder)
        else:
            self.put(holder, given, path)

    def put(self, holder: str, given: Contents, path: Path) -> None:
        """Write what a dict has to the state, or to another dict."""
        for key, there in given.sure.items():
            if there:
                self._found.write(holder, key, path)
            else:
                self._found.take(holder, key, path)
        self._found.perhaps_done(holder, given, path)

    def contents(self, node: ast.expr, path: Path) -> Contents | None:
        """The keys of a dict that stands there, as far as it can be followed; None where not."""
        holder = self._scope.holder(node)
        if holder == STATE:
            return Contents({})
        if holder is not None:
            return self._found.of(holder, path)
        match node:
            case ast.Dict():
                return self._pairs(zip(node.keys, node.values, strict=True), path)
            case ast.Call(func=ast.Name(id="dict")):
                return self._pairs(arguments(node), path)
            case ast.BinOp(op=ast.BitOr()):
                return self._pairs([(None, node.left), (None, node.right)], path)
            case ast.Call(func=ast.Attribute(value=value, attr="copy"), args=[]):
                return None if self._scope.holder(value) is None else self.contents(value, path)
            case _:
                return None

    def _pairs(self, pairs: Pairs, path: Path) -> Contents | None:
        sure: dict[str, bool] = {}
        maybe: set[str] = set()
        gone: set[str] = set()
        for key, held in pairs:
            if key is None:
                inner = self.contents(held, path)
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
            sure[name] = not is_none(held)
            self._found.write("?", name, path.branch(), kind_of(held), texts_of(held))
        return Contents(sure, frozenset(maybe - sure.keys()), frozenset(gone - sure.keys()))

    def touch(self, node: ast.expr) -> None:
        """Take note that a value of the state, or one of several, may be changed in place."""
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
                    self._found.touched.add(key)
                return
        for one in several:
            self.touch(one)


def arguments(node: ast.Call) -> list[tuple[ast.expr | None, ast.expr]]:
    """What a dict, or its update, is called with, as the pairs that it makes."""
    named = [(ast.Constant(one.arg) if one.arg else None, one.value) for one in node.keywords]
    return [*((None, one) for one in node.args), *named]
