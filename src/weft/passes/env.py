"""The read-only inputs of a pass."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from weft.declare import Policy, TokenBudget
from weft.ir import Prompt, TextBlock
from weft.values import Json


class Sizes(NamedTuple):
    """The tokens of a prompt, and what it is made of, worked out when asked for.

    `split` gives what everything but the items takes, and what each item takes at most: any of
    them together take no more than that, as long as the user's last and the very last stay.
    """

    total: int
    split: Callable[[], tuple[int, list[int]]]


class Env(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked, where, under which policy, and what the instruction already carries.

    `turn` is the log index the current turn begins at, `carried` are the state values the
    templates inserted, `used_ids` the call ids of earlier requests' items, `measure` the tokens
    of a prompt, `changes` what the instruction says differently by now, `picks_tools` whether the
    model can be left to choose among tools.
    """

    agent: str
    dialect: str = ""
    branch: str = ""
    invocation: str = ""
    turn: int = 0
    policy: Policy = Policy()
    carried: Mapping[str, Json] = {}
    used_ids: AbstractSet[str] = frozenset()
    opening: bool = True
    budget: TokenBudget | None = None
    measure: Callable[[Prompt], Sizes] | None = None
    changes: tuple[TextBlock, ...] = ()
    picks_tools: bool = True
