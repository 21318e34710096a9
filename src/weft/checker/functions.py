"""Read users' functions: which keys of the state they read and write.

The source is read, and nothing is run. What cannot be seen makes the answer incomplete; rules that
would need to know it then stay silent.
"""

import ast
import copy
import functools
import inspect
import sysconfig
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import FunctionType
from typing import NamedTuple, cast

from weft.checker.expressions import ExpressionReader
from weft.checker.key_collector import KeyCollector
from weft.checker.scope import (
    STATE,
    UNKNOWN,
    Contents,
    Function,
    FunctionScope,
    Helper,
    Keys,
    Names,
    Path,
    called_function,
    definition,
    is_none,
    keys_if_false,
    keys_if_true,
    meet,
    names_of,
    parameter_for,
    proved,
    unwrap_function,
)
from weft.declare.changes import StateChange
from weft.declare.functions import Foreign


def keys_of(function: Callable[..., object]) -> Keys:
    """What a function of the state reads and returns, as far as its source shows."""
    # a callable object may be unhashable: it is read without being remembered
    if isinstance(cast("object", function), Hashable):
        return _keys_in_source(function)
    return _keys_in_source.__wrapped__(function)


@functools.lru_cache(maxsize=1024)
def _keys_in_source(function: Callable[..., object]) -> Keys:
    """As `keys_of`, for a function that can be remembered."""
    # a word of `S` says itself what it does
    if isinstance(function, StateChange):
        return Keys(reads_all=True, writes_all=True)
    if isinstance(function, Foreign):
        return _foreign_keys(function)
    called, placed, named = unwrap_function(function)
    source = definition(called)
    if source is None:
        return Keys()
    names = [each.arg for each in (*source.args.posonlyargs, *source.args.args)]
    known = {**dict(zip(names, placed, strict=False)), **named}
    free = [name for name in names if name not in known]
    # every argument is bound already: none of them is the state
    if not free:
        return Keys()
    inner = inspect.unwrap(called)
    keys = read(source, free[0], names_of(inner, known))
    return keys if inner is called else keys._replace(writes_all=False)  # a decorator may do more


def _foreign_keys(code: Foreign) -> Keys:
    """What code that gets a context of another framework does, as if it got the state itself."""
    uses = uses_of(code)
    return Keys(
        reads=frozenset(uses.reads),
        optional=frozenset(uses.asks),
        writes=frozenset(uses.writes),
        drops=frozenset(uses.drops),
        touches=frozenset(uses.touches),
        reads_all=uses.reads_all,
        writes_all=uses.known,
    )


HARMLESS = frozenset(
    (
        "actions", "deps", "function_call_id", "call_id", "invocation_id", "agent_name", "app_name",
        "user_id", "session_id", "branch", "confirmed", "connection", "save_artifact",
        "load_artifact", "list_artifacts", "search_memory", "user_content", "tool_confirmation",
        "request_confirmation", "request_credential", "get_auth_response", "load_credential",
        "save_credential", "get_credential", "add_session_to_memory", "add_events_to_memory",
        "add_memory", "get_artifact_version", "render_ui_widget", "run_config", "is_aborted",
        "custom_metadata", "node_path", "run_id", "attempt_count", "isolation_scope",
    )
)  # fmt: skip
"""What a context has besides the state that changes no key."""

_STATE, _HELPER = "the state of the context", "a function of the context"
"""No argument has that name."""

_STATES = (("session", "state"), ("actions", "state_delta"))
"""Where else a context has its state."""

_AROUND = (("_invocation_context",), ("invocation_context",))
"""The invocation that a context of google-adk belongs to."""

_LOOKING = frozenset(("print", "isinstance", "repr", "str", "type", "id", "bool", "hasattr"))
"""Functions that do nothing with a context."""


class StateUses(NamedTuple):
    """The keys that a function reads, sets and takes away, and whether that is all.

    `reads` must be there and `asks` may lack; `writes` are set on some path, `drops` taken away on
    all. `touches` hold values that it may change in place.
    """

    reads: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    touches: tuple[str, ...] = ()
    reads_all: bool = False
    known: bool = False
    """Whether it changes no other keys."""
    escalates: bool = True


def uses_of(function: Callable[..., object], context: str = "") -> StateUses:
    """What a function does with the state of its context, by default its first argument."""
    if isinstance(function, Foreign):
        return _together(function)
    try:
        return _uses_in_source(function, context)
    except TypeError:  # unhashable
        return StateUses()


def _together(code: Foreign) -> StateUses:
    """What all the functions do that are called one after the other."""
    # nothing of it can be read
    if code.opaque:
        return StateUses()
    uses = StateUses(reads_all=True, known=True, escalates=False)
    for one in (uses_of(function, code.context) for function in code.functions):
        uses = StateUses(
            tuple(dict.fromkeys((*uses.reads, *(k for k in one.reads if k not in uses.writes)))),
            tuple(dict.fromkeys((*uses.asks, *one.asks))),
            tuple(dict.fromkeys((*uses.writes, *one.writes))),
            tuple(key for key in (*uses.drops, *one.drops) if key not in one.writes),
            tuple(dict.fromkeys((*uses.touches, *one.touches))),
            uses.reads_all and one.reads_all,
            uses.known and one.known,
            uses.escalates or one.escalates,
        )
    return uses


@functools.lru_cache(maxsize=1024)
def _uses_in_source(function: Callable[..., object], context: str) -> StateUses:
    """As `uses_of`, for a function that can be remembered."""
    result = _read(function, context, frozenset())
    if result is None:
        return StateUses()
    keys, writer = result
    return StateUses(
        tuple(sorted(keys.reads)),
        tuple(sorted(keys.optional | keys.guarded)),
        tuple(sorted((keys.writes | keys.maybe) - keys.drops)),
        tuple(sorted(keys.drops)),
        tuple(sorted(keys.touches)),
        keys.reads_all and not writer.leaks,
        keys.writes_all and not writer.leaks,
        writer.escalates or writer.leaks,
    )


def _read(
    function: Callable[..., object],
    context: str,
    above: frozenset[object],
    bound: Names | None = None,
) -> "tuple[Keys, _ContextRewriter] | None":
    """The keys that a function of a context uses; `above` are those that it is called from.

    `bound` is what is known of its other arguments.
    """
    called, placed, named = unwrap_function(function)
    source = definition(called) if inspect.unwrap(called) is called else None
    # a function that calls itself would be followed for ever
    if source is None or called in above or len(above) > MOST_DEEP:
        return None  # also where another function is wrapped around it, which may do more
    names = [each.arg for each in (*source.args.posonlyargs, *source.args.args)]
    known = {**dict(zip(names, placed, strict=False)), **named}
    context = context or next((name for name in names if name not in known), "")
    everything = {*names, *(each.arg for each in source.args.kwonlyargs)}
    if not context or context not in everything - known.keys():
        return None
    around = with_bound(names_of(called, known), bound or {})
    inside = above | {called}
    writer = _ContextRewriter(context, around, inside, body=source)
    plain = writer.rewritten(source)
    return read(
        plain, _STATE, around, helper=_ContextHelpers(writer, inside), answers=False
    ), writer


class _ContextHelpers:
    """Knows what called functions do with the context or its state."""

    def __init__(self, writer: "_ContextRewriter", above: frozenset[object]) -> None:
        self._writer = writer
        self._plain = Helpers(above)

    def __call__(self, node: ast.Call, argument: ast.expr | None, scope: FunctionScope) -> Keys:
        known = self._writer.helpers.get(id(node))
        return known if known is not None else self._plain(node, argument, scope)


class _ContextRewriter(ast.NodeTransformer):
    """Rewrites a function of a context as a function of its state that returns nothing."""

    def __init__(
        self, context: str, names: Names, above: frozenset[object], *, body: Function
    ) -> None:
        self.context = context
        self.leaks = False
        self.escalates = False
        self.helpers: dict[int, Keys] = {}
        """By call: what it does with the state of the context that it gets."""
        self._scope = FunctionScope(context, names, [body])
        self._above = above
        self._contexts = {context}

    def rewritten(self, source: Function) -> ast.FunctionDef:
        """The function, with one name for the state."""
        copied = copy.deepcopy(source)
        body: list[ast.stmt] = (
            [ast.Expr(copied.body)] if isinstance(copied, ast.Lambda) else copied.body
        )
        self._contexts |= _find_aliases(body, self.context)
        plain = ast.FunctionDef("function", copied.args, body, [])
        return cast("ast.FunctionDef", self.generic_visit(plain))

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if len(self._above) > 1:  # a helper: whoever called it may use what it returns
            return node
        # what a callback returns is an answer, and no state: only its effects count
        return [ast.Expr(node.value), ast.Return()] if node.value is not None else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        match node:  # another name for the context
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=original)) if (
                name in self._contexts and original in self._contexts
            ):
                return ast.Pass()
            case _:
                return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.leaks |= node.id in self._contexts
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        arguments = [*node.args, *(one.value for one in node.keywords if one.arg is not None)]
        contexts = [one for one in arguments if self._is_context(one)]
        if len(contexts) != 1:
            return self.generic_visit(node)
        # gone from the copy, so that the context does not count as handed on
        if isinstance(node.func, ast.Name) and node.func.id in _LOOKING:
            return ast.Constant(None)
        function = called_function(node.func, self._scope.names)
        parameter = parameter_for(function, node, contexts[0]) if function is not None else ""
        result = None
        if function is not None and parameter:
            bound = bind_arguments(function, node, self._scope)
            result = _read(function, parameter, self._above, bound)
        if result is None:
            return self.generic_visit(node)
        keys, writer = result
        self.escalates |= writer.escalates
        self.leaks |= writer.leaks
        others = [one for one in node.args if one is not contexts[0]]
        named = [one for one in node.keywords if one.value is not contexts[0]]
        call = ast.Call(
            ast.Name(_HELPER, ast.Load()),
            [ast.Name(_STATE, ast.Load()), *(self.visit(one) for one in others)],
            [self.visit(one) for one in named],
        )
        self.helpers[id(call)] = keys
        return call

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        way = _way(node)
        if way is None or way[0] not in self._contexts:
            self.escalates |= node.attr == "escalate"
            # the delta of something that is not the context: whose, cannot be said
            self.leaks |= node.attr == "state_delta"
            return self.generic_visit(node)
        steps = way[1:]
        if steps[:1] in _AROUND:
            steps = steps[1:]
            if steps[:1] not in (("session",), ()) and steps:
                return ast.Constant(None)
        if steps[-2:] in _STATES or steps == ("state",):
            return ast.Name(_STATE, node.ctx)
        for position, step in enumerate(steps):  # state.get, session.state.update
            if step in ("state", "state_delta") and position + 1 < len(steps):
                return self.generic_visit(node)
        self.escalates |= steps[-1:] == ("escalate",)
        known = steps[:1] and (steps[0] in HARMLESS or (steps[0] == "session" and len(steps) > 1))
        self.leaks |= not known
        return node

    def _is_context(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._contexts


def _way(node: ast.expr) -> tuple[str, ...] | None:
    """The name that a chain of attributes begins with, and its steps."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attribute):
            before = _way(value)
            return None if before is None else (*before, attribute)
        case _:
            return None


def _find_aliases(body: Iterable[ast.stmt], context: str) -> set[str]:
    """Other names for the context: `ctx = callback_context`, where they stay that."""
    stored: Counter[str] = Counter()
    aliases: set[str] = set()
    for node in (one for statement in body for one in ast.walk(statement)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stored[node.id] += 1
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=original)):
                if original == context:
                    aliases.add(name)
            case _:
                pass
    return {name for name in aliases if stored[name] == 1}


_SAYS_ONLY = frozenset(
    (
        "agent_name", "branch", "deps", "find_memories", "invocation_id", "list_artifacts",
        "load_artifact", "run", "say", "search_memory", "session", "state", "user_text",
    )
)  # fmt: skip
"""What the context of a custom agent has: only `say` changes the state."""

_MAKES_EVENTS = frozenset(("Actions", "Event", "replace", "state_delta"))
"""What code makes events with that may hold any change."""


@functools.lru_cache(maxsize=256)
def keys_said_by(run: Callable[..., object]) -> frozenset[str] | None:
    """The keys that a custom agent's code sets with `ctx.say(...)`; None where others may be set.

    Code that hands its context on, or makes events itself, may set any.
    """
    source = definition(run)
    arguments = _arguments(source) if source is not None else []
    if source is None or len(arguments) != 2 or inspect.unwrap(run) is not run:
        return None
    context = arguments[1]
    scope = FunctionScope(context, names_of(run, {}), [source])
    keys: set[str] = set()
    used = seen = 0
    for node in ast.walk(source):
        match node:
            case ast.Name(id=name):
                used += name == context
                if name in _MAKES_EVENTS:
                    return None
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == context:
                seen += attribute in _SAYS_ONLY
            case ast.Attribute(attr=attribute) if attribute in _MAKES_EVENTS:
                return None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="say")) if (
                name == context
            ):
                for one in node.keywords:
                    known = {one.arg: UNKNOWN} if one.arg else scope.constant(one.value)
                    if not isinstance(known, dict):
                        return None
                    keys.update(map(str, cast("dict[object, object]", known)))
            case _:
                pass
    return frozenset(keys) if used == seen else None


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

    What it returns counts as written where it `answers`, and is kept apart where it is a helper.
    A `helper` knows more than the plain functions that it calls.
    """
    body: list[ast.stmt] = (
        [ast.Return(function.body)] if isinstance(function, ast.Lambda) else function.body
    )
    scope, collector = FunctionScope(state, names or {}, body, helper or Helpers()), KeyCollector()
    end = _StatementReader(scope, collector, answers=answers).run(body, Path())
    if end is not None:
        collector.leave(end)
        collector.returns.append(Contents({}))
    if any(isinstance(one, ast.Yield | ast.YieldFrom) for part in body for one in ast.walk(part)):
        collector.returns.append(None)
    collector.proved = proved(body, scope)
    return collector.keys()


class Helpers:
    """Follows the state into plain functions, but not into one that it is in already.

    A call without the state is followed too, for what it returns, if it is code of the author's.
    """

    def __init__(self, above: frozenset[object] = frozenset()) -> None:
        self._above = above
        self._known: dict[object, Keys] = {}

    def __call__(self, node: ast.Call, argument: ast.expr | None, scope: FunctionScope) -> Keys:
        """What the called function does with the state, and what it returns."""
        function = called_function(node.func, scope.names)
        if function is None:
            return Keys()
        parameter = parameter_for(function, node, argument) if argument is not None else NO_STATE
        called, placed, named = unwrap_function(function)
        source = definition(called) if parameter else None
        if source is None or called in self._above or len(self._above) > MOST_DEEP:
            return Keys()
        if argument is None and not _is_of_author(called):
            return Keys()
        bound = bind_arguments(function, node, scope)
        place = (node, parameter, repr(sorted(bound.items(), key=str)))
        if place not in self._known:
            known = {**dict(zip(_arguments(source), placed, strict=False)), **named}
            own = with_bound(names_of(called, known), bound)
            deeper = Helpers(self._above | {called})
            keys = read(source, parameter, own, helper=deeper, answers=False)
            wrapped = inspect.unwrap(called) is not called  # a decorator may return something else
            self._known[place] = keys._replace(returns=None) if wrapped else keys
        return self._known[place]


NO_STATE = "no state"
"""The state of a function that does not get it: no argument has that name."""


def bind_arguments(
    function: Callable[..., object], node: ast.Call, scope: FunctionScope
) -> dict[str, object]:
    """By parameter: the constant that a call passes for it, `UNKNOWN` where it is none."""
    called, placed, _ = unwrap_function(function)
    source = definition(called)
    if source is None:
        return {}
    names = _arguments(source)[len(placed) :]
    everything = {*names, *(each.arg for each in source.args.kwonlyargs)}
    starred = any(isinstance(one, ast.Starred) for one in node.args)
    if starred or any(one.arg is None for one in node.keywords):
        rest = source.args.kwarg
        return dict.fromkeys({*everything, *([rest.arg] if rest else [])}, UNKNOWN)
    bound = {name: scope.constant(one) for name, one in zip(names, node.args, strict=False)}
    keywords = [(str(one.arg), scope.constant(one.value)) for one in node.keywords]
    bound |= {name: value for name, value in keywords if name in everything}
    if source.args.kwarg is not None:
        bound[source.args.kwarg.arg] = {k: UNKNOWN for k, _ in keywords if k not in everything}
    return bound


def with_bound(names: Names, bound: Names) -> dict[str, object]:
    """The names of a function with what a call passes for its parameters."""
    return {k: value for k, value in {**names, **bound}.items() if value is not UNKNOWN}


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


def _arguments(source: Function) -> list[str]:
    return [each.arg for each in (*source.args.posonlyargs, *source.args.args)]


class _StatementReader:
    """Walks the statements of a function."""

    def __init__(self, scope: FunctionScope, collector: KeyCollector, *, answers: bool) -> None:
        self._scope = scope
        self._collector = collector
        self._expressions = ExpressionReader(scope, collector)
        self._stores = self._expressions.stores
        self._answers: bool | None = answers
        """Whether what is returned is written, or given to a caller; None in an inner function."""
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
                expressions.children(node, path)
                return None
            case ast.Break():
                self._loops[-1].breaks.append(path)
                return None
            case ast.Continue():
                self._loops[-1].ends.append(path)
                return None
            case ast.If():
                expressions.at(node.test, path)
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
                expressions.rename(node)
                expressions.at(node.value, path)
                for target in node.targets:
                    self._stores.assign(target, node.value, path)
            case ast.AnnAssign() if node.value is not None:
                expressions.at(node.value, path)
                self._stores.assign(node.target, node.value, path)
            case ast.AugAssign():
                expressions.at(node.value, path)
                self._stores.augment(node.target, node.value, path)
            case ast.Delete():
                for target in node.targets:
                    self._stores.delete(target, path)
            case _:
                expressions.children(node, path)
        return path

    def _if(self, node: ast.If, path: Path) -> Path | None:
        """Two ways: what the test says of keys is known on each."""
        changed = {key for holder, key in self._collector.changed if holder == STATE}
        ways = path.branch(), path.branch()  # a name may stand for a value before it was changed
        ways[0].there |= keys_if_true(node.test, self._scope) - changed
        ways[1].there |= keys_if_false(node.test, self._scope) - changed
        return meet(path, (self.run(node.body, ways[0]), self.run(node.orelse, ways[1])))

    def _return(self, value: ast.expr | None, path: Path) -> None:
        """Take note of what is returned: a dict with known keys, None, or who knows what."""
        if self._answers is False:
            self._give_back(value, path)
            return
        if isinstance(value, ast.IfExp) and self._answers:
            self._expressions.at(value.test, path)
            self._return(value.body, path.branch())
            self._return(value.orelse, path.branch())
            return
        contents: Contents | None = Contents({})
        if value is not None:
            if self._answers and not is_none(value) and not self._expressions.is_update(value):
                contents = self._stores.contents(value, path)
                self._expressions.returned(value)
            self._expressions.at(value, path)
        if contents is None:
            self._collector.unseen = True
        else:
            self._stores.put(STATE, contents, path)
        self._collector.leave(path)

    def _give_back(self, value: ast.expr | None, path: Path) -> None:
        """Take note of what a helper returns to its caller."""
        if value is not None and not is_none(value):
            used = self._collector.used()
            self._collector.give_back(self._stores.contents(value, path), used)
            self._expressions.returned(value)
            self._expressions.at(value, path)
        else:
            self._collector.returns.append(Contents({}))
        self._collector.leave(path)

    def _for(self, node: ast.For | ast.AsyncFor, path: Path) -> Path | None:
        """A round for each element; where they stand there as texts, each is walked."""
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
        """A loop with a test; `before` are the statements that its first test surely follows."""
        self._expressions.at(node.test, path)
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
        """A body that is run any number of times; after it are its last round and its breaks."""
        mark = len(self._collector.changed)
        jumps = _Jumps([], [])
        self._loops.append(jumps)
        way = path.branch()
        # a body that may take no round proves nothing
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
                self._returns(node.body, done)
                ways.append(self.run(node.orelse, done))
        met = meet(path, ways)
        if met is not None:
            met.sure, met.returned = path.sure, path.returned
            self._returns([*node.body, *node.orelse], met)
        return met

    def _returns(self, body: Iterable[ast.stmt], path: Path) -> None:
        """Take note that some runs end within statements."""
        if any(isinstance(one, ast.Return) for inner in body for one in ast.walk(inner)):
            path.sure, path.returned = False, True

    def _with(self, node: ast.With | ast.AsyncWith, path: Path) -> Path | None:
        """A block that may swallow what is raised in it was perhaps not run to its end."""
        for item in node.items:
            self._expressions.at(item.context_expr, path)
        if not any(_suppresses(item.context_expr) for item in node.items):
            return self.run(node.body, path)
        with self._collector.perhaps(path, tried=True) as way:
            self.run(node.body, way)
        self._returns(node.body, path)
        return path

    def _try(self, node: ast.Try, path: Path) -> Path | None:
        """Either the body or a handler was run to its end; what comes last is run in any case."""
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
        """Any case may have been run, or none, unless one takes everything."""
        self._expressions.at(node.subject, path)
        ways: list[Path | None] = []
        open_end = True
        for case in node.cases:
            way = path.branch()
            if case.guard is not None:
                self._expressions.at(case.guard, way)
            elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                open_end = False
            ways.append(self.run(case.body, way))
        return meet(path, [*ways, path.branch()] if open_end else ways)

    def _inside(self, body: Sequence[ast.stmt], path: Path) -> None:
        """A function in the function: what it returns is not what the outer one does."""
        answers, self._answers = self._answers, None
        exits = len(self._collector.exits)
        with self._collector.perhaps(path) as way:
            self.run(body, way)
        # its returns are not a way out of the outer function
        del self._collector.exits[exits:]
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
            return name in known and _compare_numbers(known[name], operator, c.value)
        case _:
            return False


def _compare_numbers(one: object, operator: ast.cmpop, other: object) -> bool:
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
