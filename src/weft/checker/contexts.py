"""Tools and callbacks: which keys they use of the state that their context holds.

The function is read, never run, as a function of the state is. One that hands its context on may
do anything.
"""

import ast
import copy
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple, cast

from weft.checker.functions import opened
from weft.checker.names import names_of
from weft.checker.reading import read
from weft.checker.sources import Function, definition

HARMLESS = frozenset(
    (
        "actions", "function_call_id", "call_id", "invocation_id", "agent_name", "app_name",
        "user_id", "session_id", "branch", "confirmed", "connection", "save_artifact",
        "load_artifact", "list_artifacts", "search_memory", "user_content",
    )
)  # fmt: skip
"""What a context has beside the state that changes no key."""

_STATE = "the state of the context"
"""No argument has that name."""


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
    try:
        return _uses(function, context)
    except TypeError:  # unhashable
        return Uses()


@functools.lru_cache(maxsize=1024)
def _uses(function: Callable[..., object], context: str) -> Uses:
    called, given, named = opened(function)
    found = definition(called) if inspect.unwrap(called) is called else None
    if found is None:  # also where another function is wrapped around it, which may do more
        return Uses()
    names = [each.arg for each in (*found.args.posonlyargs, *found.args.args)]
    known = {**dict(zip(names, given, strict=False)), **named}
    context = context or next((name for name in names if name not in known), "")
    if not context:
        return Uses()
    writer = _Writer(context)
    keys = read(writer.rewritten(found), _STATE, names_of(called, known))
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


class _Writer(ast.NodeTransformer):
    """Writes a function of a context as one of its state, which returns nothing."""

    def __init__(self, context: str) -> None:
        self.context = context
        self.leaks = False
        self.escalates = False

    def rewritten(self, found: Function) -> ast.FunctionDef:
        """The function, with one name for the state."""
        made = copy.deepcopy(found)
        body: list[ast.stmt] = [ast.Expr(made.body)] if isinstance(made, ast.Lambda) else made.body
        plain = ast.FunctionDef("function", made.args, body, [])
        return cast("ast.FunctionDef", self.generic_visit(plain))

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        return [ast.Expr(node.value), ast.Return()] if node.value is not None else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.leaks |= node.id == self.context
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == self.context:
            if node.attr == "state":
                return ast.Name(_STATE, node.ctx)
            self.leaks |= node.attr not in HARMLESS
            return node
        self.escalates |= node.attr == "escalate"
        self.leaks |= node.attr == "state_delta"
        return self.generic_visit(node)
