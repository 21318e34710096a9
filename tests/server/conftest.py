from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.browser import browsing
from tests.server.live import Rehearsals
from weft.server import inspect


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def rehearsals(monkeypatch: pytest.MonkeyPatch) -> Rehearsals:
    """What is compiled ahead while somebody looks: begun at once, with all the time it takes."""
    monkeypatch.setattr(inspect, "PULSE", 0.01)
    monkeypatch.setattr(inspect, "REHEARSED_AFTER", 0.02)
    monkeypatch.setattr(inspect, "_LONGEST", 600)
    return Rehearsals(monkeypatch)
