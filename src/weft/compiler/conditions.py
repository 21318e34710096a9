"""Conditions of a policy: decided by the state, before anything is selected."""

from collections.abc import Mapping
from types import MappingProxyType

from weft.declare.functions import ask, name_of
from weft.declare.policy.selectors import When
from weft.errors import CompileError
from weft.values import Json


def decided(condition: When, state: Mapping[str, Json]) -> bool:
    """Whether a condition is met; a predicate that raises is an error, not a no.

    It may look at the state, not write into it.
    """
    try:
        return bool(ask(condition.predicate, MappingProxyType(state)))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise CompileError(
            f"the predicate `{name_of(condition.predicate)}` of C.when raised {said}",
            where="C.when",
            hint='let it answer for any state: lambda state: state.get("vip") is True',
        ) from error
