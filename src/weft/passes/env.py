"""The read-only inputs of a pass."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from weft.declare import Policy, TokenBudget
from weft.ir import Prompt
from weft.values import Json


class Env(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked, where, under which policy, and what the instruction already carries.

    `carried` are the state values the templates inserted, `used_ids` the call ids of earlier
    requests' items, `measure` the tokens of the whole prompt and of each of its items.
    """

    agent: str
    branch: str = ""
    invocation: str = ""
    policy: Policy = Policy()
    carried: Mapping[str, Json] = {}
    used_ids: AbstractSet[str] = frozenset()
    opening: bool = True
    budget: TokenBudget | None = None
    measure: Callable[[Prompt], tuple[int, list[int]]] | None = None
