"""Policies: what an agent may see of the log, written with `C`."""

from typing import Literal, cast, final

import msgspec

from weft.errors import DeclarationError

View = Literal["default", "none", "nothing"]


class TokenBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class Policy(msgspec.Struct, frozen=True):
    """What an agent sees: a view of the log, and whether values may repeat."""

    view: View = "default"
    duplicates: bool = False

    def keep_duplicates(self) -> "Policy":
        """A copy that lets a value arrive through the template and the conversation."""
        return msgspec.structs.replace(self, duplicates=True)

    def __str__(self) -> str:
        return f"C.{self.view}()" + (".keep_duplicates()" if self.duplicates else "")


@final
class C:
    """The policies by name; `C.default()` is what an agent gets without one."""

    @staticmethod
    def default() -> Policy:
        """The whole visible log, each value once."""
        return Policy("default")

    @staticmethod
    def none() -> Policy:
        """The current turn: the user's message and the agent's own traffic of this invocation."""
        return Policy("none")

    @staticmethod
    def nothing() -> Policy:
        """No conversation at all, not even the user's message."""
        return Policy("nothing")
