"""Options with a few valid words: the rest is refused, with the nearest one named."""

import difflib
from typing import cast

from weft.errors import DeclarationError


def check_choice(owner: str, name: str, value: object, choices: object) -> None:
    """Refuse a string option that is not one of its choices."""
    valid = cast("tuple[str, ...]", choices.__args__)  # type: ignore[attr-defined]
    if value not in valid:
        near = difflib.get_close_matches(str(value), valid, n=1, cutoff=0.4)
        options = ", ".join(repr(choice) for choice in valid)
        raise DeclarationError(
            f"{name}={value!r} is not one of {options}",
            where=f"{owner}.{name}",
            hint=f"did you mean {near[0]!r}?" if near else f"pass one of {options}",
        )
