"""Being inside a store's transaction, where the store itself would wait for its end."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from weft.errors import UsageError


@dataclass
class _Entered:
    """A transaction that this task, or the task that started it, has entered."""

    store: object
    outer: "_Entered | None"
    ended: bool = False


_entered: ContextVar[_Entered | None] = ContextVar("_entered", default=None)


@contextmanager
def inside(store: object) -> Generator[None, None, None]:
    """Mark the block as a transaction of the store."""
    entered = _Entered(store, _entered.get())
    _entered.set(entered)
    try:
        yield
    finally:
        entered.ended = True
        _entered.set(entered.outer)


def require_outside(store: object, *, where: str) -> None:
    """Refuse what would wait for ever: for the end of the transaction that it is in."""
    entered = _entered.get()
    while entered is not None:
        if entered.store is store and not entered.ended:
            raise UsageError(
                "this would wait for the transaction that it is in",
                where=where,
                hint="inside the block, append with the transaction's own append",
            )
        entered = entered.outer
