"""A token budget beside a policy: the oldest items go first."""

from typing import cast

from weft.errors import DeclarationError
from weft.misuse import DeclaredStruct, declared

_WORDS: dict[str, str] = dict.fromkeys(("tokens", "max_tokens", "budget", "limit"), "token_budget")


@declared("TokenBudget(token_budget=4096, keep_recent=3)", words=_WORDS)
class TokenBudget(DeclaredStruct, frozen=True, forbid_unknown_fields=True):
    """Keep the whole request within `token_budget`, dropping the oldest items first.

    System text, tools, schema and history all count. The last `keep_recent` items and the
    message that started the invocation are never dropped.
    """

    token_budget: int
    keep_recent: int = 1

    def __post_init__(self) -> None:
        for name, given, least in (
            ("token_budget", self.token_budget, 1),
            ("keep_recent", self.keep_recent, 0),
        ):
            value = cast("object", given)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DeclarationError(
                    f"{name}={value!r} is not a whole number of at least {least}",
                    where="TokenBudget",
                    hint="write TokenBudget(token_budget=4096, keep_recent=3)",
                )
