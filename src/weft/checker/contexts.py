"""Tools and callbacks: which keys they use of the state that their context holds.

The function is read, never run, as a function of the state is. One that hands its context on may
do anything.
"""

import ast
import copy
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

from weft.checker.keys import Keys
from weft.checker.names import Names, names_of
from weft.checker.reading import MOST_DEEP, Helpers, read
from weft.checker.sources import Function, called_function, definition, opened, parameter_for
from weft.declare.functions import Foreign

HARMLESS = frozenset(
    (
        "actions", "function_call_id", "call_id", "invocation_id", "agent_name", "app_name",
        "user_id", "session_id", "branch", "confirmed", "connection", "save_artifact",
        "load_artifact", "list_artifacts", "search_memory", "user_content", "tool_confirmation",
        "request_confirmation", "request_credential", "get_auth_response", "load_credential",
        "save_credential", "get_credential", "add_session_to_memory", "add_events_to_memory",
        "add_memory", "get_artifact_version", "render_ui_widget", "run_config", "is_aborted",
        "custom_metadata", "node_path", "run_id", "attempt_count", "isolation_scope",
    )
)  # fmt: skip
"""What a context has beside the state that changes no key."""

_STATE, _HELPER = "the state of the context", "a function of the context"
"""No argument has that name."""

_STATES = (("session", "state"), ("actions", "state_delta"))
"""Where else a context has its state."""

_AROUND = (("_invocation_context",), ("invocation_context",))
"""The invocation that a context of google-adk belongs to."""

_LOOKING = frozenset(("print", "isinstance", "repr", "str", "type", "id", "bool", "hasattr"))
"""Functions that do nothing with a context."""


class Uses(NamedTuple):
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


def uses_of(function: Callable[..., object], context: str = "") -> Uses:
    """What a function does with the state of its context, by default its first argument."""
    if isinstance(function, Foreign):
        return _together(function)
    try:
        return _uses(function, context)
    except TypeError:  # unhashable
        return Uses()


def _together(code: Foreign) -> Uses:
    """What all the functions do that are called one behind the other."""
    if code.opaque:
        return Uses()
    found = Uses(reads_all=True, known=True, escalates=False)
    for one in (uses_of(function, code.context) for function in code.functions):
        found = Uses(
            tuple(dict.fromkeys((*found.reads, *(k for k in one.reads if k not in found.writes)))),
            tuple(dict.fromkeys((*found.asks, *one.asks))),
            tuple(dict.fromkeys((*found.writes, *one.writes))),
            tuple(key for key in (*found.drops, *one.drops) if key not in one.writes),
            tuple(dict.fromkeys((*found.touches, *one.touches))),
            found.reads_all and one.reads_all,
            found.known and one.known,
            found.escalates or one.escalates,
        )
    return found


@functools.lru_cache(maxsize=1024)
def _uses(function: Callable[..., object], context: str) -> Uses:
    found = _read(function, context, frozenset())
    if found is None:
        return Uses()
    keys, writer = found
    return Uses(
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
    function: Callable[..., object], context: str, above: frozenset[object]
) -> "tuple[Keys, _Writer] | None":
    """The keys that a function of a context uses; `above` are those that it is called from."""
    called, given, named = opened(function)
    found = definition(called) if inspect.unwrap(called) is called else None
    if found is None or called in above or len(above) > MOST_DEEP:
        return None  # also where another function is wrapped around it, which may do more
    names = [each.arg for each in (*found.args.posonlyargs, *found.args.args)]
    known = {**dict(zip(names, given, strict=False)), **named}
    context = context or next((name for name in names if name not in known), "")
    everything = {*names, *(each.arg for each in found.args.kwonlyargs)}
    if not context or context not in everything - known.keys():
        return None
    around = names_of(called, known)
    inside = above | {called}
    writer = _Writer(context, around, inside)
    plain = writer.rewritten(found)
    return read(plain, _STATE, around, helper=_Followed(writer, inside), answers=False), writer


class _Followed:
    """Knows what functions do that get the context or its state."""

    def __init__(self, writer: "_Writer", above: frozenset[object]) -> None:
        self._writer = writer
        self._plain = Helpers(above)

    def __call__(self, node: ast.Call, given: ast.expr, names: Names) -> Keys:
        held = self._writer.helpers.get(id(node))
        return held if held is not None else self._plain(node, given, names)


class _Writer(ast.NodeTransformer):
    """Writes a function of a context as one of its state, which returns nothing."""

    def __init__(self, context: str, names: Names, above: frozenset[object]) -> None:
        self.context = context
        self.leaks = False
        self.escalates = False
        self.helpers: dict[int, Keys] = {}
        """By call: what it does with the state of the context that it gets."""
        self._names = names
        self._above = above
        self._contexts = {context}

    def rewritten(self, found: Function) -> ast.FunctionDef:
        """The function, with one name for the state."""
        made = copy.deepcopy(found)
        body: list[ast.stmt] = [ast.Expr(made.body)] if isinstance(made, ast.Lambda) else made.body
        self._contexts |= _renamed(body, self.context)
        plain = ast.FunctionDef("function", made.args, body, [])
        return cast("ast.FunctionDef", self.generic_visit(plain))

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        return [ast.Expr(node.value), ast.Return()] if node.value is not None else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        match node:  # another name for the context
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=held)) if (
                name in self._contexts and held in self._contexts
            ):
                return ast.Pass()
            case _:
                return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.leaks |= node.id in self._contexts
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        given = [*node.args, *(one.value for one in node.keywords if one.arg is not None)]
        contexts = [one for one in given if self._is_context(one)]
        if len(contexts) != 1:
            return self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _LOOKING:
            return ast.Constant(None)
        function = called_function(node.func, self._names)
        parameter = parameter_for(function, node, contexts[0]) if function is not None else ""
        found = _read(function, parameter, self._above) if function and parameter else None
        if found is None:
            return self.generic_visit(node)
        keys, writer = found
        self.escalates |= writer.escalates
        self.leaks |= writer.leaks
        others = [one for one in node.args if one is not contexts[0]]
        named = [one for one in node.keywords if one.value is not contexts[0]]
        made = ast.Call(
            ast.Name(_HELPER, ast.Load()),
            [ast.Name(_STATE, ast.Load()), *(self.visit(one) for one in others)],
            [self.visit(one) for one in named],
        )
        self.helpers[id(made)] = keys
        return made

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        way = _way(node)
        if way is None or way[0] not in self._contexts:
            self.escalates |= node.attr == "escalate"
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


def _renamed(body: Iterable[ast.stmt], context: str) -> set[str]:
    """Other names for the context: `ctx = callback_context`, where they stay that."""
    stored: Counter[str] = Counter()
    found: set[str] = set()
    for node in (one for statement in body for one in ast.walk(statement)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stored[node.id] += 1
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=held)):
                if held == context:
                    found.add(name)
            case _:
                pass
    return {name for name in found if stored[name] == 1}
