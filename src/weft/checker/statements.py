"""Read the statements of a user's function, and follow the state into the functions it calls.

What cannot be seen makes the answer incomplete: `Keys.reads_all` and `writes_all` are false then.
"""

import ast
import functools
import operator
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Literal, NamedTuple

from weft.checker.expressions import ExpressionReader, Helper
from weft.checker.keys import STATE, Contents, KeyCollector, Keys, Path, meet
from weft.checker.scope import FunctionScope, is_none, keys_if, keys_proved
from weft.checker.sources import called_function, open_source

MOST_DEEP = 8
"""How deep the state is followed from one function into another."""

NO_STATE = "no state"
"""The state of a function that does not get it: no argument has that name."""

Returned = Literal["changes", "value", "answer"]
"""What a function returns: changes of the state, a value for its caller, or an answer, which does
not concern the state."""


def read_keys(
    scope: FunctionScope, returns: Returned, above: frozenset[object] = frozenset()
) -> Keys:
    """What a function does with the state; `above` are the functions that it is called from."""
    collector = KeyCollector()
    end = StatementReader(scope, collector, Helpers(above), returns).run(scope.body, Path())
    if end is not None:
        collector.leave(end)
        collector.returns.append(Contents({}))
    every = (one for part in scope.body for one in ast.walk(part))
    if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in every):
        collector.returns.append(None)
    collector.proved = keys_proved(scope)
    return collector.keys()


class Helpers:
    """Follows the state into plain functions, but not into one that it is in already.

    A call without the state is followed too, for what it returns, if it is code of the author's.
    """

    def __init__(self, above: frozenset[object]) -> None:
        self._above = above
        self._known: dict[object, Keys] = {}

    def __call__(self, node: ast.Call, argument: ast.expr | None, scope: FunctionScope) -> Keys:
        """What the called function does with the state, and what it returns."""
        source = open_source(called_function(node.func, scope.names))
        if source is None or source.function in self._above or len(self._above) > MOST_DEEP:
            return Keys()
        if argument is None and not _is_of_author(source.function):
            return Keys()
        parameter = NO_STATE if argument is None else source.parameter_for(node, argument)
        if not parameter:
            return Keys()
        bound = source.bind(node, scope.constant)
        place = (node, parameter, repr(sorted(bound.items(), key=str)))
        if place not in self._known:
            inner = FunctionScope(parameter, source.names(bound), source.node)
            keys = read_keys(inner, "value", self._above | {source.function})
            # a decorator may return something else
            self._known[place] = keys._replace(returns=None) if source.is_wrapped else keys
        return self._known[place]


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"])


def _is_of_author(function: Callable[..., object]) -> bool:
    """Whether a function is the author's own, and not of a library."""
    if not isinstance(function, FunctionType):
        return False
    file = function.__code__.co_filename
    return not file.startswith(_library_folders()) and "site-packages" not in file


class StatementReader:
    """Walks the statements of a function, path by path."""

    def __init__(
        self, scope: FunctionScope, collector: KeyCollector, helper: Helper, returns: Returned
    ) -> None:
        self._scope = scope
        self._collector = collector
        self._expressions = ExpressionReader(scope, collector, helper)
        self._returns = returns
        self._loops: list[_Jumps] = []
        """The loops around a statement, the innermost last."""

    def run(self, body: Iterable[ast.stmt], path: Path) -> Path | None:
        """The path after statements; None where they do not end."""
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
        """The path after one statement; None where nothing comes after it."""
        expressions = self._expressions
        match node:
            case ast.Return():
                self._return(node.value, path)
                return None
            case ast.Raise():
                expressions.read_below(node, path)
                return None
            case ast.Break():
                self._loops[-1].breaks.append(path)
                return None
            case ast.Continue():
                self._loops[-1].ends.append(path)
                return None
            case ast.If():
                expressions.read(node.test, path)
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
                expressions.allow_alias(node)
                expressions.read(node.value, path)
                for target in node.targets:
                    self._expressions.assign(target, node.value, path)
            case ast.AnnAssign() if node.value is not None:
                expressions.read(node.value, path)
                self._expressions.assign(node.target, node.value, path)
            case ast.AugAssign():
                expressions.read(node.value, path)
                self._expressions.augment(node.target, node.value, path)
            case ast.Delete():
                for target in node.targets:
                    self._expressions.delete(target, path)
            case _:
                expressions.read_below(node, path)
        return path

    def _if(self, node: ast.If, path: Path) -> Path | None:
        """Read both ways; on each, the test says something about keys."""
        changed = {key for holder, key in self._collector.changed if holder == STATE}
        ways = path.branch(), path.branch()  # a name may stand for a value before it was changed
        ways[0].there |= keys_if(node.test, self._scope, holds=True) - changed
        ways[1].there |= keys_if(node.test, self._scope, holds=False) - changed
        return meet(path, (self.run(node.body, ways[0]), self.run(node.orelse, ways[1])))

    def _return(self, value: ast.expr | None, path: Path) -> None:
        """Note what is returned: a dict with known keys, None, or something unknown."""
        if self._returns == "value":
            self._give_back(value, path)
            return
        writes = self._returns == "changes"
        if isinstance(value, ast.IfExp) and writes:
            self._expressions.read(value.test, path)
            self._return(value.body, path.branch())
            self._return(value.orelse, path.branch())
            return
        contents: Contents | None = Contents({})
        if value is not None:
            if writes and not is_none(value) and not self._expressions.is_update(value):
                contents = self._expressions.contents_of(value, path)
                self._expressions.allow_return(value)
            self._expressions.read(value, path)
        if contents is None:
            self._collector.unseen = True
        else:
            self._expressions.put(STATE, contents, path)
        self._collector.leave(path)

    def _give_back(self, value: ast.expr | None, path: Path) -> None:
        """Note what a helper returns to its caller."""
        if value is not None and not is_none(value):
            used = self._collector.dicts_in_use()
            self._collector.give_back(self._expressions.contents_of(value, path), used)
            self._expressions.allow_return(value)
            self._expressions.read(value, path)
        else:
            self._collector.returns.append(Contents({}))
        self._collector.leave(path)

    def _for(self, node: ast.For | ast.AsyncFor, path: Path) -> Path | None:
        """Read a loop; where its elements are constant texts, each round is walked."""
        self._expressions.iterate(node.iter, path)
        self._expressions.name_element(node.target, node.iter)
        rounds = self._scope.rounds(node.target, node.iter)
        # a jump could skip the rest of the rounds
        if rounds is not None and not _jumps(node.body):
            now: Path | None = path
            for texts in rounds:
                if now is not None:
                    self._scope.names.update(texts)
                    now = self.run(node.body, now)
                for name in texts:
                    self._scope.names.pop(name, None)
            return now
        return self._rounds(node, path, at_least_once=_has_elements(node.iter))

    def _while(self, node: ast.While, before: list[ast.stmt], path: Path) -> Path | None:
        """Read a loop with a test; `before` are the statements that run before it."""
        self._expressions.read(node.test, path)
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
        """Read a body that runs any number of times; it ends after a round or at a break."""
        mark = len(self._collector.changed)
        jumps = _Jumps([], [])
        self._loops.append(jumps)
        way = path.branch()
        # a body that may not run proves nothing
        way.sure = path.sure and at_least_once
        last = self.run(node.body, way)
        self._loops.pop()
        changed = self._collector.changed[mark:]
        ends = meet(path, jumps.ends if last is None else [last, *jumps.ends])
        for one in jumps.breaks:  # a round before may have undone what was so at first
            one.forget(
                key
                for key in changed
                if key in path.changes
                and one.changes.get(key) is path.changes[key]
                and ends is not None
                and ends.changes.get(key) is not path.changes[key]
            )
        ways: list[Path | None] = [*jumps.breaks]
        if not endless:
            unrun = [] if at_least_once else [path.branch()]
            done = meet(path, [*unrun, *([ends] if ends is not None else [])])
            if done is not None:
                done.sure, done.returned = path.sure and not jumps.breaks, path.returned
                self._note_returns(node.body, done)
                ways.append(self.run(node.orelse, done))
        met = meet(path, ways)
        if met is not None:
            met.sure, met.returned = path.sure, path.returned
            self._note_returns([*node.body, *node.orelse], met)
        return met

    def _note_returns(self, body: Iterable[ast.stmt], path: Path) -> None:
        """Note that some runs end inside these statements."""
        if any(isinstance(one, ast.Return) for inner in body for one in ast.walk(inner)):
            path.sure, path.returned = False, True

    def _with(self, node: ast.With | ast.AsyncWith, path: Path) -> Path | None:
        """Read a block; one that suppresses errors may not have run to its end."""
        for item in node.items:
            self._expressions.read(item.context_expr, path)
        if not any(_suppresses(item.context_expr) for item in node.items):
            return self.run(node.body, path)
        with self._collector.perhaps(path, tried=True) as way:
            self.run(node.body, way)
        self._note_returns(node.body, path)
        return path

    def _try(self, node: ast.Try, path: Path) -> Path | None:
        """Either the body or a handler ran to its end; `finally` runs in any case."""
        exits, mark = len(self._collector.exits), len(self._collector.changed)
        jumps = [way for loop in self._loops for way in (*loop.breaks, *loop.ends)]
        done = self.run(node.body, path.branch(tried=bool(node.handlers)))
        if done is not None:
            sure = path.sure and not node.handlers and not done.returned
            done = self.run(node.orelse, Path(done.changes, sure, path.tried, done.returned))
        caught = path.branch()
        caught.forget(self._collector.changed[mark:])
        ways = [done, *(self.run(one.body, caught.branch()) for one in node.handlers)]
        met = meet(path, ways)
        mark = len(self._collector.changed)
        last = self.run(node.finalbody, path.branch() if met is None else met)
        for end in self._collector.exits[exits:]:  # what returned before did this as well
            for _, key in self._collector.changed[mark:]:
                end.pop(key, None)
        for loop in self._loops:
            for way in (*loop.breaks, *loop.ends):
                if not any(way is one for one in jumps):
                    way.forget(self._collector.changed[mark:])
        return None if met is None else last

    def _match(self, node: ast.Match, path: Path) -> Path | None:
        """Any case may have run, or none, unless one matches everything."""
        self._expressions.read(node.subject, path)
        ways: list[Path | None] = []
        open_end = True
        for case in node.cases:
            way = path.branch()
            if case.guard is not None:
                self._expressions.read(case.guard, way)
            elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                open_end = False
            ways.append(self.run(case.body, way))
        return meet(path, [*ways, path.branch()] if open_end else ways)

    def _inside(self, body: Sequence[ast.stmt], path: Path) -> None:
        """Read a nested function: what it returns is not returned by the outer one."""
        returns, self._returns = self._returns, "answer"
        exits = len(self._collector.exits)
        with self._collector.perhaps(path) as way:
            self.run(body, way)
        # its returns are not a way out of the outer function
        del self._collector.exits[exits:]
        self._returns = returns


class _Jumps(NamedTuple):
    """Where a loop is left from within, and where its rounds end."""

    breaks: list[Path]
    ends: list[Path]


def _has_elements(node: ast.expr) -> bool:
    """Whether a loop over it surely runs: a list with elements, a range of some."""
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
    """Whether a test surely holds the first time, by constants that were set before it."""
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
        case ast.Compare(left=ast.Name(id=name), ops=[compare], comparators=[ast.Constant() as c]):
            return name in known and _compare_numbers(known[name], compare, c.value)
        case _:
            return False


_COMPARE: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _compare_numbers(one: object, comparison: ast.cmpop, other: object) -> bool:
    """Whether a comparison of two numbers, or with None, surely holds."""
    if isinstance(comparison, ast.Is):
        return one is None and other is None
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    compare = _COMPARE.get(type(comparison))
    return compare is not None and compare(one, other)


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
