"""State: the fold of the log's deltas, in four scopes.

`app:` belongs to all users, `user:` to one user, `temp:` to one invocation; anything else
to the session. A delta value of None deletes its key.
"""

from collections.abc import Mapping
from typing import Literal

from weft.values import Json, JsonObject

Scope = Literal["session", "app", "user", "temp"]

_PREFIXES: tuple[tuple[str, Scope], ...] = (("app:", "app"), ("user:", "user"), ("temp:", "temp"))


def scope_of(key: str) -> Scope:
    """The scope a key lives in."""
    for prefix, scope in _PREFIXES:
        if key.startswith(prefix):
            return scope
    return "session"


def without_temp(state: Mapping[str, Json]) -> JsonObject:
    """The part of the state that outlives its invocation."""
    return {key: value for key, value in state.items() if not key.startswith("temp:")}


def apply_delta(state: Mapping[str, Json], delta: Mapping[str, Json]) -> JsonObject:
    """The state after the delta; the one given is not changed."""
    after = {**state, **delta}
    for key, value in delta.items():
        if value is None:
            del after[key]
    return after
