"""Read users' functions: which keys of the state they read and write.

The source is read, and nothing is run. What cannot be seen makes the answer incomplete; rules that
would need to know it then stay silent.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

from weft.checker.keys import Keys
from weft.checker.scope import FunctionScope
from weft.checker.sources import (
    UNKNOWN,
    Names,
    Source,
    cache_by_function,
    called_function,
    open_source,
)
from weft.checker.statements import MOST_DEEP, NO_STATE, read_keys
from weft.declare.changes import StateChange
from weft.declare.functions import Foreign


@cache_by_function
def keys_of(function: Callable[..., object]) -> Keys:
    """What a function of the state reads and returns, as far as its source shows."""
    # a word of `S` says itself what it does
    if isinstance(function, StateChange):
        return Keys(reads_all=True, writes_all=True)
    if isinstance(function, Foreign):
        return _foreign_keys(function)
    source = open_source(function)
    # where every argument is bound already, none of them is the state
    if source is None or not source.first:
        return Keys()
    keys = read_keys(FunctionScope(source.first, source.names(), source.node), "changes")
    # a decorator may do more
    return keys._replace(writes_all=False) if source.is_wrapped else keys


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


@cache_by_function
def uses_of(function: Callable[..., object], context: str = "") -> StateUses:
    """What a function does with the state of its context, by default its first argument."""
    if isinstance(function, Foreign):
        return _unite_uses(function)
    result = _read_with_context(open_source(function), context, frozenset())
    if result is None:
        return StateUses()
    keys, context_use = result
    return StateUses(
        tuple(sorted(keys.reads)),
        tuple(sorted(keys.optional | keys.guarded)),
        tuple(sorted((keys.writes | keys.maybe) - keys.drops)),
        tuple(sorted(keys.drops)),
        tuple(sorted(keys.touches)),
        keys.reads_all and not context_use.leaks,
        keys.writes_all and not context_use.leaks,
        context_use.escalates or context_use.leaks,
    )


def _unite_uses(code: Foreign) -> StateUses:
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


def _read_with_context(
    source: Source | None, context: str, above: frozenset[object], bound: Names | None = None
) -> "tuple[Keys, _ContextReader] | None":
    """The keys that a function of a context uses; `above` are those that it is called from.

    `bound` is what is known of its other arguments.
    """
    # a function that calls itself would be followed for ever
    if source is None or source.function in above or len(above) > MOST_DEEP:
        return None
    context = context or source.first
    is_free = context in {*source.places, *source.keywords} - source.named.keys()
    # a decorator may do more
    if source.is_wrapped or not is_free:
        return None
    scope = FunctionScope(NO_STATE, source.names(bound), source.node)
    inside = above | {source.function}
    context_use = _ContextReader(context, scope, inside)
    # what a callback returns is an answer, what a helper returns may be used by its caller
    return read_keys(scope, "value" if above else "answer", inside), context_use


class _ContextReader(ast.NodeVisitor):
    """Finds the state of a context in a function, and what else is done with the context."""

    def __init__(self, context: str, scope: FunctionScope, above: frozenset[object]) -> None:
        self.leaks = False
        """Whether the context goes where it cannot be followed."""
        self.escalates = False
        self._scope = scope
        self._above = above
        self._contexts = {context, *_find_aliases(scope.body, context)}
        for statement in scope.body:
            self.visit(statement)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Defaults and annotations do nothing with the context."""

    def visit_Assign(self, node: ast.Assign) -> None:
        match node:  # another name for the context
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=original)) if (
                name in self._contexts and original in self._contexts
            ):
                return
            case _:
                self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.leaks |= node.id in self._contexts

    def visit_Call(self, node: ast.Call) -> None:
        arguments = [*node.args, *(one.value for one in node.keywords if one.arg is not None)]
        contexts = [one for one in arguments if self._is_context(one)]
        if len(contexts) != 1:
            self.generic_visit(node)
            return
        if isinstance(node.func, ast.Name) and node.func.id in _LOOKING:
            return
        source = open_source(called_function(node.func, self._scope.names))
        parameter = source.parameter_for(node, contexts[0]) if source is not None else ""
        result = None
        if source is not None and parameter:
            bound = source.bind(node, self._scope.constant)
            result = _read_with_context(source, parameter, self._above, bound)
        if result is None:
            self.generic_visit(node)
            return
        keys, context_use = result
        self.escalates |= context_use.escalates
        self.leaks |= context_use.leaks
        self._scope.state_nodes.add(id(contexts[0]))
        self._scope.context_calls[id(node)] = keys
        for one in (*node.args, *(keyword.value for keyword in node.keywords)):
            if one is not contexts[0]:
                self.visit(one)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        way = _way(node)
        if way is None or way[0] not in self._contexts:
            self.escalates |= node.attr == "escalate"
            # the delta of something that is not the context: whose, cannot be said
            self.leaks |= node.attr == "state_delta"
            self.generic_visit(node)
            return
        steps = way[1:]
        if steps[:1] in _AROUND:
            steps = steps[1:]
            if steps[:1] not in (("session",), ()):
                return
        if steps[-2:] in _STATES or steps == ("state",):
            self._scope.state_nodes.add(id(node))
            return
        # state.get, session.state.update
        if not {"state", "state_delta"}.isdisjoint(steps[:-1]):
            self.generic_visit(node)
            return
        self.escalates |= steps[-1:] == ("escalate",)
        known = steps[:1] and (steps[0] in HARMLESS or (steps[0] == "session" and len(steps) > 1))
        self.leaks |= not known

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


@cache_by_function
def keys_said_by(run: Callable[..., object]) -> frozenset[str] | None:
    """The keys that a custom agent's code sets with `ctx.say(...)`; None where others may be set.

    Code that hands its context on, or makes events itself, may set any.
    """
    source = open_source(run)
    if source is None or len(source.places) != 2 or source.is_wrapped:
        return None
    context = source.places[1]
    scope = FunctionScope(context, source.names(), source.node)
    keys: set[str] = set()
    used = seen = 0
    for node in ast.walk(source.node):
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
