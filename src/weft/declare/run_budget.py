"""A run budget: the most that one run may spend."""

from math import inf

from weft.errors import DeclarationError
from weft.misuse import DeclaredStruct, declared

_HINT = "write RunBudget(tokens=200_000, steps=40, seconds=120, money=0.50), or some of these"


@declared("RunBudget(tokens=200_000, money=0.50)")
class RunBudget(DeclaredStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that a run may spend: tokens, model calls, seconds, US dollars.

    All its agents share it. At 80% it warns once. At 100% the run stops before its next model
    call, with an error event; a call that is under way is never cut, nor is a tool.
    """

    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None
    money: float | None = None

    def __post_init__(self) -> None:
        given: dict[str, object] = {
            "tokens": self.tokens,
            "steps": self.steps,
            "seconds": self.seconds,
            "money": self.money,
        }
        if all(value is None for value in given.values()):
            raise DeclarationError("it limits nothing", where="RunBudget", hint=_HINT)
        for name, value in given.items():
            whole = name in ("tokens", "steps")
            kinds = (int,) if whole else (int, float)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < inf:
                number = "whole number" if whole else "number"
                raise DeclarationError(
                    f"{name}={value!r} is not a {number} above 0",
                    where=f"RunBudget.{name}",
                    hint=_HINT,
                )
