"""All laws of one scene in one test: every law is tried, and every broken one is named."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import pytest

P = ParamSpec("P")


class Laws:
    """Tries laws on scenes and keeps the errors of those that do not hold."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.broken: list[str] = []

    def check(
        self, scene: str, laws: Iterable[Callable[P, None]], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Try every law on the scene."""
        for law in laws:
            try:
                law(*args, **kwargs)
            except (Exception, pytest.fail.Exception) as error:
                error.add_note(f"broken law: {law.__name__}\nscene: {scene}")
                self.errors.append(error)
                self.broken.append(f"{scene}: {law.__name__}")


@contextmanager
def all_laws() -> Iterator[Laws]:
    """Raise at the end what was broken; the message names each scene and law."""
    laws = Laws()
    yield laws
    if laws.errors:
        raise BaseExceptionGroup("; ".join(laws.broken), laws.errors)
