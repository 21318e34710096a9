"""The model in the box, for tests: its weights are fetched once, as a user fetches them."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.errors import ModelError
from weft.models.local import LocalModel, weights
from weft.models.local.engine import Conversation, Engine
from weft.values import JsonObject

WINDOW = 1024


@functools.cache
def fetched() -> Path:
    """Where the weights lie; only a machine without any registry may go without."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("SSL_CERT_FILE", raising=False)
            if certificates := os.environ.get("WEFT_TESTS_SSL_CERT_FILE"):
                patch.setenv("SSL_CERT_FILE", certificates)
            return weights.get()
    except ModelError as error:
        if error.code != "connection":
            raise
        pytest.skip(f"no registry: {error.message}")


def overheard(engine: Engine, patch: pytest.MonkeyPatch) -> list[JsonObject]:
    """All that the engine says from now on, whether somebody listens or not."""
    heard: list[JsonObject] = []
    answer = engine.answer

    def answered(
        body: JsonObject, tell: Callable[[JsonObject], bool], asked: Conversation | None = None
    ) -> None:
        def told(piece: JsonObject) -> bool:
            heard.append(piece)
            return tell(piece)

        answer(body, told, asked)

    patch.setattr(engine, "answer", answered)
    return heard


def small_model(**given: int) -> LocalModel:
    """The model with a small window; all of them share one engine."""
    fetched()
    return LocalModel("local", window=WINDOW, **given)
