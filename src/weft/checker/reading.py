"""The source of a function of the state, read: which keys it takes, and which it changes.

A function is walked as a flow is: every path at once. What is done with the state in a way that
cannot be followed makes the answer incomplete, never wrong.
"""

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from weft.checker.found import Found
from weft.checker.keys import Keys
from weft.checker.kinds import is_none
from weft.checker.looking import Looks
from weft.checker.names import Names, names_of
from weft.checker.path import STATE, Contents, Path, meet
from weft.checker.proving import held_by, lacked, proved
from weft.checker.scope import Helper, Scope
from weft.checker.sources import Function, called_function, definition, opened, parameter_for

MOST_DEEP = 8
"""How deep the state is followed from one function into another."""


def read(
    function: Function,
    state: str,
    names: Names | None = None,
    *,
    helper: Helper | None = None,
    answers: bool = True,
) -> Keys:
    """What a function does with the argument that is the state; `names` are those around it.

    What it returns counts as written where it `answers`. A `helper` knows more than the plain
    functions that it calls.
    """
    body: list[ast.stmt] = (
        [ast.Return(function.body)] if isinstance(function, ast.Lambda) else function.body
    )
    scope, found = Scope(state, names or {}, body, helper or Helpers()), Found()
    left = _Reader(scope, found, answers=answers).run(body, Path())
    if left is not None:
        found.leave(left)
    found.proved = proved(body, scope)
    return found.keys()


class Helpers:
    """Follows the state into plain functions, but not into one that it is in already."""

    def __init__(self, above: frozenset[object] = frozenset()) -> None:
        self._above = above

    def __call__(self, node: ast.Call, given: ast.expr, names: Names) -> Keys:
        """What the called function does with the state."""
        function = called_function(node.func, names)
        parameter = parameter_for(function, node, given) if function is not None else ""
        if function is None or not parameter:
            return Keys()
        called, placed, named = opened(function)
        found = definition(called)
        if found is None or called in self._above or len(self._above) > MOST_DEEP:
            return Keys()
        known = {**dict(zip(_arguments(found), placed, strict=False)), **named}
        deeper = Helpers(self._above | {called})
        own = names_of(called, known)
        return read(found, parameter, own, helper=deeper, answers=False)


def _arguments(found: Function) -> list[str]:
    return [each.arg for each in (*found.args.posonlyargs, *found.args.args)]


class _Reader:
    """Walks the statements of a function."""

    def __init__(self, scope: Scope, found: Found, *, answers: bool) -> None:
        self._scope = scope
        self._found = found
        self._looks = Looks(scope, found)
        self._stores = self._looks.stores
        self._answers = answers
        """Whether what is returned is written: not in a function in the function."""
        self._loops: list[_Jumps] = []
        """The loops around a statement, the innermost last."""

    def run(self, body: Iterable[ast.stmt], path: Path) -> Path | None:
        """The path behind statements; None where they do not end."""
        now: Path | None = path
        before: list[ast.stmt] = []
        for node in body:
            if now is None:
                return None
            if isinstance(node, ast.While):
                now = self._while(node, before, now)
            else:
                now = self._statement(node, now)
            before.append(node)
        return now

    def _statement(self, node: ast.stmt, path: Path) -> Path | None:
        looks = self._looks
        match node:
            case ast.Return():
                self._return(node.value, path)
                return None
            case ast.Raise():
                looks.children(node, path)
                return None
            case ast.Break():
                self._loops[-1].breaks.append(path)
                return None
            case ast.Continue():
                self._loops[-1].ends.append(path)
                return None
            case ast.If():
                looks.at(node.test, path)
                return self._if(node, path)
            case ast.For() | ast.AsyncFor():
                return self._for(node, path)
            case ast.With() | ast.AsyncWith():
                return self._with(node, path)
            case ast.Try():
                return self._try(node, path)
            case ast.Match():
                return self._match(node, path)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._inside(node.body, path)
            case ast.Assign():
                looks.rename(node)
                looks.at(node.value, path)
                for target in node.targets:
                    self._stores.assign(target, node.value, path)
            case ast.AnnAssign() if node.value is not None:
                looks.at(node.value, path)
                self._stores.assign(node.target, node.value, path)
            case ast.AugAssign():
                looks.at(node.value, path)
                self._stores.augment(node.target, node.value, path)
            case ast.Delete():
                for target in node.targets:
                    self._stores.delete(target, path)
            case _:
                looks.children(node, path)
        return path

    def _if(self, node: ast.If, path: Path) -> Path | None:
        """Two ways: what the test says of keys is known on each."""
        changed = {key for holder, key in self._found.changed if holder == STATE}
        ways = path.branch(), path.branch()  # a name may stand for a value before it was changed
        ways[0].there |= held_by(node.test, self._scope) - changed
        ways[1].there |= lacked(node.test, self._scope) - changed
        return meet(path, (self.run(node.body, ways[0]), self.run(node.orelse, ways[1])))

    def _return(self, value: ast.expr | None, path: Path) -> None:
        """Take note of what is returned: a dict with known keys, None, or who knows what."""
        if isinstance(value, ast.IfExp) and self._answers:
            self._looks.at(value.test, path)
            self._return(value.body, path.branch())
            self._return(value.orelse, path.branch())
            return
        given: Contents | None = Contents({})
        if value is not None:
            if self._answers and not is_none(value) and not self._looks.is_update(value):
                given = self._stores.contents(value, path)
                self._looks.returned(value)
            self._looks.at(value, path)
        if given is None:
            self._found.unseen = True
        else:
            self._stores.put(STATE, given, path)
        self._found.leave(path)

    def _for(self, node: ast.For | ast.AsyncFor, path: Path) -> Path | None:
        """A round for each element; where they stand there as texts, each is walked."""
        looks = self._looks
        looks.iterate(node.iter, path)
        if isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Tuple | ast.List):
            texts = [self._scope.text(one) for one in node.iter.elts]
            if texts and None not in texts and not _jumps(node.body):
                now: Path | None = path
                for text in texts:
                    if now is not None:
                        self._scope.names[node.target.id] = text
                        now = self.run(node.body, now)
                self._scope.names.pop(node.target.id, None)
                return now
        return self._rounds(node, path, at_least_once=_has_elements(node.iter))

    def _while(self, node: ast.While, before: list[ast.stmt], path: Path) -> Path | None:
        """A loop with a test; `before` are the statements that its first test surely follows."""
        self._looks.at(node.test, path)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        begins = endless or _holds_at_first(node.test, before)
        return self._rounds(node, path, at_least_once=begins, endless=endless)

    def _rounds(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        path: Path,
        *,
        at_least_once: bool,
        endless: bool = False,
    ) -> Path | None:
        """A body that is run any number of times; behind it are its last round and its breaks."""
        mark = len(self._found.changed)
        jumps = _Jumps([], [])
        self._loops.append(jumps)
        way = path.branch()
        way.sure = path.sure and at_least_once
        last = self.run(node.body, way)
        self._loops.pop()
        changed = self._found.changed[mark:]
        ends = meet(path, jumps.ends if last is None else [last, *jumps.ends])
        for one in jumps.breaks:  # a round before may have undone what was so at first
            one.forget(
                key
                for key in changed
                if key in path.held
                and one.held.get(key) is path.held[key]
                and ends is not None
                and ends.held.get(key) is not path.held[key]
            )
        ways: list[Path | None] = [*jumps.breaks]
        if not endless:
            unrun = [] if at_least_once else [path.branch()]
            done = meet(path, [*unrun, *([ends] if ends is not None else [])])
            if done is not None:
                done.sure, done.left = path.sure and not jumps.breaks, path.left
                self._returns(node.body, done)
                ways.append(self.run(node.orelse, done))
        met = meet(path, ways)
        if met is not None:
            met.sure, met.left = path.sure, path.left
            self._returns([*node.body, *node.orelse], met)
        return met

    def _returns(self, body: Iterable[ast.stmt], path: Path) -> None:
        """Take note that some runs end within statements."""
        if any(isinstance(one, ast.Return) for inner in body for one in ast.walk(inner)):
            path.sure, path.left = False, True

    def _with(self, node: ast.With | ast.AsyncWith, path: Path) -> Path | None:
        for item in node.items:
            self._looks.at(item.context_expr, path)
        if not any(_suppresses(item.context_expr) for item in node.items):
            return self.run(node.body, path)
        with self._found.perhaps(path, tried=True) as way:
            self.run(node.body, way)
        self._returns(node.body, path)
        return path

    def _try(self, node: ast.Try, path: Path) -> Path | None:
        exits, mark = len(self._found.exits), len(self._found.changed)
        jumps = [way for loop in self._loops for way in (*loop.breaks, *loop.ends)]
        done = self.run(node.body, path.branch(tried=bool(node.handlers)))
        if done is not None:
            sure = path.sure and not node.handlers and not done.left
            done = self.run(node.orelse, Path(done.held, sure, path.tried, done.left))
        caught = path.branch()
        caught.forget(self._found.changed[mark:])
        ways = [done, *(self.run(one.body, caught.branch()) for one in node.handlers)]
        met = meet(path, ways)
        mark = len(self._found.changed)
        last = self.run(node.finalbody, path.branch() if met is None else met)
        for end in self._found.exits[exits:]:  # what returned before did this as well
            for _, key in self._found.changed[mark:]:
                end.pop(key, None)
        for loop in self._loops:
            for way in (*loop.breaks, *loop.ends):
                if not any(way is one for one in jumps):
                    way.forget(self._found.changed[mark:])
        return None if met is None else last

    def _match(self, node: ast.Match, path: Path) -> Path | None:
        self._looks.at(node.subject, path)
        ways: list[Path | None] = []
        open_end = True
        for case in node.cases:
            way = path.branch()
            if case.guard is not None:
                self._looks.at(case.guard, way)
            elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                open_end = False
            ways.append(self.run(case.body, way))
        return meet(path, [*ways, path.branch()] if open_end else ways)

    def _inside(self, body: Sequence[ast.stmt], path: Path) -> None:
        """A function in the function: what it returns is not what the outer one does."""
        answers, self._answers = self._answers, False
        exits = len(self._found.exits)
        with self._found.perhaps(path) as way:
            self.run(body, way)
        del self._found.exits[exits:]
        self._answers = answers


class _Jumps(NamedTuple):
    """Where a loop is left from within, and where its rounds end."""

    breaks: list[Path]
    ends: list[Path]


def _has_elements(node: ast.expr) -> bool:
    """Whether a loop over it surely has a first round: a list with elements, a range of some."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return any(not isinstance(one, ast.Starred) for one in elements)
        case ast.Call(func=ast.Name(id="range"), args=[*bounds]) if bounds:
            numbers = [one.value for one in bounds if isinstance(one, ast.Constant)]
            whole = [one for one in numbers if isinstance(one, int)]
            return len(whole) == len(bounds) and bool(range(*whole))
        case _:
            return False


def _holds_at_first(test: ast.expr, before: list[ast.stmt]) -> bool:
    """Whether a test surely holds the first time, by constants that were set right before it."""
    known: dict[str, object] = {}
    for node in before:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                known[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)):
                known[name] = value
            case _:
                for one in ast.walk(node):
                    if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
                        known.pop(one.id, None)
                    elif isinstance(one, ast.Nonlocal | ast.Global | ast.FunctionDef):
                        known.clear()  # another function may set them
    match test:
        case ast.Name(id=name):
            return bool(known.get(name))
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return name in known and not known[name]
        case ast.Compare(left=ast.Name(id=name), ops=[operator], comparators=[ast.Constant() as c]):
            return name in known and _compared(known[name], operator, c.value)
        case _:
            return False


def _compared(one: object, operator: ast.cmpop, other: object) -> bool:
    """Whether a comparison of two numbers, or with None, surely holds."""
    if isinstance(operator, ast.Is):
        return one is None and other is None
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    match operator:
        case ast.Lt():
            return one < other
        case ast.LtE():
            return one <= other
        case ast.Gt():
            return one > other
        case ast.GtE():
            return one >= other
        case ast.Eq():
            return one == other
        case ast.NotEq():
            return one != other
        case _:
            return False


def _jumps(body: Iterable[ast.stmt]) -> bool:
    jumps = (ast.Break, ast.Continue, ast.Return)
    return any(isinstance(one, jumps) for inner in body for one in ast.walk(inner))


def _suppresses(node: ast.expr) -> bool:
    """Whether it is contextlib.suppress(...)."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name == "suppress"
        case _:
            return False
