"""Functions people hand in: which keys of the state they read and write, where that can be seen.

A function is read, never run. What cannot be seen makes the answer incomplete; rules that would
need to know then stay silent.
"""

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import cast

from weft.checker.contexts import uses_of
from weft.checker.keys import Keys
from weft.checker.names import names_of
from weft.checker.reading import read
from weft.checker.sources import definition, opened
from weft.declare.functions import Foreign


def keys_of(function: Callable[..., object]) -> Keys:
    """What a function of the state reads and returns, as far as its source shows."""
    if isinstance(cast("object", function), Hashable):
        return _keys(function)
    return _keys.__wrapped__(function)


@functools.lru_cache(maxsize=1024)
def _keys(function: Callable[..., object]) -> Keys:
    if isinstance(function, Foreign):
        return _foreign_keys(function)
    called, given, named = opened(function)
    found = definition(called)
    if found is None:
        return Keys()
    names = [each.arg for each in (*found.args.posonlyargs, *found.args.args)]
    known = {**dict(zip(names, given, strict=False)), **named}
    left = [name for name in names if name not in known]
    if not left:
        return Keys()
    inner = inspect.unwrap(called)
    keys = read(found, left[0], names_of(inner, known))
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
