"""What a tool of google-adk does with the state, where its source shows it.

The function is read, never run. One that only takes and sets keys by their names is known; one
that hands its context on may do anything.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple

HARMLESS = frozenset(
    (
        "actions", "function_call_id", "invocation_id", "agent_name", "user_id", "session_id",
        "save_artifact", "load_artifact", "list_artifacts", "search_memory", "user_content",
    )
)  # fmt: skip
"""What a context has beside the state that changes no key."""


class Uses(NamedTuple):
    """The keys that a function reads and sets, whether that is all, and whether it ends a loop."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    known: bool = False
    escalates: bool = True


def uses_of(function: Callable[..., object], context: str) -> Uses:
    """What a function does with the state of its context parameter."""
    found = _definition(function)
    if found is None:
        return Uses()
    reader = _Reader(context)
    for statement in found.body:
        reader.visit(statement)
    reads, writes = tuple(dict.fromkeys(reader.reads)), tuple(dict.fromkeys(reader.writes))
    return Uses(reads, writes, reader.known, reader.escalates or not reader.known)


def _definition(
    function: Callable[..., object],
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function in its source; None where that cannot be read."""
    try:
        target = inspect.unwrap(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    except (OSError, TypeError, ValueError, SyntaxError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef) else None


class _Reader(ast.NodeVisitor):
    """Collects what is done with a context."""

    def __init__(self, context: str) -> None:
        self.context = context
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.known = True
        self.escalates = False

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == self.context:
            self.known = False

    def visit_Subscript(self, node: ast.Subscript) -> None:
        key = _text(node.slice)
        if self._is_state(node.value) and key:
            (self.reads if isinstance(node.ctx, ast.Load) else self.writes).append(key)
            return
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.comparators) == 1 and self._is_state(node.comparators[0]):
            self.visit(node.left)
            return
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript) and self._is_state(target.value):
            self.reads.append(_text(target.slice))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and self._is_state(called.value) and node.args:
            key = _text(node.args[0])
            if called.attr in ("get", "setdefault") and key:
                self.reads.append(key)
                if called.attr == "setdefault":
                    self.writes.append(key)
                for other in node.args[1:]:
                    self.visit(other)
                return
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == self.context:
            if node.attr not in HARMLESS:
                self.known = False
            return
        if node.attr == "escalate":
            self.escalates = True
        if node.attr == "state_delta":
            self.known = False
        self.generic_visit(node)

    def _is_state(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr == "state"
            and isinstance(node.value, ast.Name)
            and node.value.id == self.context
        )


def _text(node: ast.AST) -> str:
    """A key that is written out."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
