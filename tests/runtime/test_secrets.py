"""No planted secret reaches a model that is not cleared, through any channel."""

from pathlib import Path

import pytest

from tests.support.planted import plant


@pytest.mark.parametrize("seed", range(12))
async def test_no_planted_secret_reaches_who_is_not_cleared(seed: int, tmp_path: Path) -> None:
    found = await plant(seed, 40, tmp_path)
    assert found.reached == []
    assert found.missed == []
