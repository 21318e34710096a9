"""All laws of one scene in one test: every law is tried, and every broken one is named."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from textwrap import indent
from typing import ParamSpec

import pytest

P = ParamSpec("P")


class Laws:
    """Tries laws on scenes and keeps the errors of those that do not hold."""

    def __init__(self) -> None:
        self.broken: dict[str, BaseException] = {}

    def check(
        self, scene: str, laws: Iterable[Callable[P, None]], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Try every law on the scene."""
        for law in laws:
            try:
                law(*args, **kwargs)
            except (Exception, pytest.fail.Exception) as error:
                self.broken[f"{scene}: {law.__name__}"] = error


@contextmanager
def all_laws() -> Iterator[Laws]:
    """Fail at the end with the name of each scene and law that was broken, and with its error."""
    laws = Laws()
    yield laws
    if laws.broken:
        errors = (
            f"--- {name}\n{indent(''.join(traceback.format_exception(error)), '    ')}"
            for name, error in laws.broken.items()
        )
        pytest.fail("\n".join(["; ".join(laws.broken), *errors]), pytrace=False)
